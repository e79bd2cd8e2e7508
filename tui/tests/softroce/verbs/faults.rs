//! What goes wrong, and what it is called.

use std::time::{Duration, Instant};

use gdrtune_node::verbs::{Access, HostMemory, Mark, PortState, Timeouts, Verb, VerbsError, WorkFailed, WorkStatus};

use crate::guest::shell;

use super::pair::{BYTES, End, pair, signalled};

/// The failure of the next completion of an end.
fn failure(end: &End) -> WorkFailed {
    end.qp.check(&end.next()).unwrap_err()
}

#[test]
#[ignore = "runs in the guest"]
fn ranges_are_checked() {
    let (a, b) = pair(1);
    let beyond = a.qp.post_write(a.local(BYTES - 7, 8), b.remote(0), None, signalled(1)).unwrap_err();
    assert!(matches!(beyond, VerbsError::Range { side: "local", .. }), "{beyond}");
    let remote = a.qp.post_write(a.local(0, 8), b.remote(BYTES as u64 - 7), None, signalled(1)).unwrap_err();
    assert!(matches!(remote, VerbsError::Range { side: "remote", .. }), "{remote}");
    assert!(a.qp.post_write(a.local(usize::MAX, 8), b.remote(0), None, signalled(1)).is_err());
    assert!(a.qp.post_write(a.local(0, 8), b.remote(u64::MAX), None, signalled(1)).is_err());
    assert!(a.qp.post_inline_write(&vec![0; 100_000], b.remote(0), None, signalled(1)).is_err());
    assert!(a.region.words(4, 1).is_err(), "not a multiple of 8");
    assert!(a.region.write(BYTES, &[0]).is_err());
    let other = a.qp.post_write(b.local(0, 8), b.remote(0), None, signalled(1)).unwrap_err();
    assert!(matches!(other, VerbsError::OtherDomain { .. }), "{other}");
}

#[test]
#[ignore = "runs in the guest"]
fn a_full_queue_says_so() {
    let (a, b) = pair(1);
    // Larger ones than can go out meanwhile.
    let error = (0..1000).find_map(|_| {
        let quiet = Mark { id: 0, signalled: false };
        a.qp.post_write(a.local(0, BYTES), b.remote(0), None, quiet).err()
    });
    let error = error.unwrap();
    assert!(matches!(error, VerbsError::Call { verb: Verb::PostSend, .. }), "{error}");
    assert!(error.to_string().contains("the queue is full"), "{error}");
}

#[test]
#[ignore = "runs in the guest"]
fn a_wrong_key_is_refused() {
    let (a, b) = pair(2);
    let mut remote = b.remote(0);
    remote.region.key ^= 0x55;
    a.qp.post_write(a.local(0, 64), remote, None, signalled(5)).unwrap();
    let failed = failure(&a);
    assert_eq!(failed.status, WorkStatus::REMOTE_ACCESS, "{failed}");
    assert!(failed.to_string().starts_with("IBV_WC_REM_ACCESS_ERR on rxe_r2a port 1 to 10.99.2.2 (QP "), "{failed}");
    // The connection is over: what comes after is flushed, and says so.
    a.qp.post_write(a.local(0, 64), b.remote(0), None, signalled(6)).unwrap();
    let flushed = failure(&a);
    assert_eq!(flushed.status, WorkStatus::FLUSHED, "{flushed}");
}

/// A peer's region that is gone: the write fails.
#[test]
#[ignore = "runs in the guest"]
fn a_freed_region_is_refused() {
    let (a, b) = pair(1);
    let short = b.domain.register(HostMemory::zeroed(4096).unwrap(), Access::RemoteWrite).unwrap();
    let remote = gdrtune_node::verbs::Remote { region: short.remote(), offset: 0 };
    drop(short);
    a.qp.post_write(a.local(0, 64), remote, None, signalled(1)).unwrap();
    let failed = failure(&a);
    assert_eq!(failed.status, WorkStatus::REMOTE_ACCESS, "{failed}");
}

#[test]
#[ignore = "runs in the guest"]
fn a_peer_without_receives_is_given_up() {
    let (a, b) = pair(1);
    let started = Instant::now();
    a.qp.post_write(a.local(0, 64), b.remote(0), Some(1), signalled(1)).unwrap();
    let failed = failure(&a);
    assert_eq!(failed.status.name(), "IBV_WC_RNR_RETRY_EXC_ERR", "{failed}");
    let after = started.elapsed();
    assert!(after < Duration::from_secs(1), "after {after:?}");
}

#[test]
#[ignore = "runs in the guest"]
fn peers_link_cut() {
    cut("r1b", 1);
}

#[test]
#[ignore = "runs in the guest"]
fn own_link_cut() {
    cut("r2a", 2);
}

/// A link that is down for as long as this lives, so that a test that fails leaves the rail whole for the others.
struct Cut {
    net: &'static str,
    rail: u8,
}

impl Cut {
    fn new(net: &'static str, rail: u8) -> Self {
        shell(&format!("ip link set {net} down"));
        Self { net, rail }
    }
}

impl Drop for Cut {
    fn drop(&mut self) {
        shell(&format!("ip link set {} up; . /testenv/rails.sh; rail_routes {}", self.net, self.rail));
    }
}

/// Cuts a link while writes are under way: within a second they end with an error (where its own link goes down, `rdma_rxe` of
/// Linux 6.12 flushes them), or the port says that its link is down, where the adapter has forgotten them (that of 6.1 does so at
/// times). A user of verbs has to ask for both.
#[expect(clippy::print_stdout, reason = "the figures are what people look for")]
fn cut(net: &'static str, rail: u8) {
    let (a, b) = pair(rail);
    let write = |id| a.qp.post_write(a.local(0, BYTES), b.remote(0), None, signalled(id));
    for id in 0..8 {
        write(id).unwrap();
    }
    a.qp.check(&a.next()).unwrap();
    let _down = Cut::new(net, rail);
    let cut = Instant::now();
    let limit = Timeouts::default().gives_up_within();
    let mut done = Vec::new();
    let told = 'told: loop {
        a.queue.poll(&mut done).unwrap();
        for completion in done.drain(..) {
            if let Err(failed) = a.qp.check(&completion) {
                let expected = ["IBV_WC_RETRY_EXC_ERR", "IBV_WC_LOC_QP_OP_ERR", "IBV_WC_WR_FLUSH_ERR"];
                assert!(expected.contains(&failed.status.name()), "{failed}");
                break 'told failed.to_string();
            }
            // Keeps the rail busy, however much went through before the cut.
            write(9).unwrap();
        }
        let port = a.qp.device().port(a.qp.port()).unwrap();
        if limit / 2 < cut.elapsed() && port.state != PortState::ACTIVE {
            break format!("no completion, and the link is {}", port.state);
        }
        assert!(cut.elapsed() < Duration::from_secs(10), "no error after 10 s");
        std::thread::yield_now();
    };
    let after = cut.elapsed();
    println!("{told}, {} ms after {net} was cut (at most {} ms)", after.as_millis(), limit.as_millis());
    assert!(after < Duration::from_secs(1), "{told} after {after:?}; by the formula within {limit:?}");
}
