//! What a healthy rail does.

use std::{
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use gdrtune_node::verbs::{Mark, Work};

use super::pair::{pair, pattern, signalled};

/// Bytes that have crossed a network device.
fn crossed(net: &str) -> u64 {
    let path = format!("/sys/class/net/{net}/statistics/tx_bytes");
    std::fs::read_to_string(path).unwrap().trim().parse().unwrap()
}

/// Writes in both directions, without the peer's processor: the bytes are there when a flag behind them is.
fn write_both_ways(rail: u8) {
    const BYTES: usize = 100_000;
    let (a, b) = pair(rail);
    let nets = [format!("r{rail}a"), format!("r{rail}b")];
    for (net, from, to) in [(&nets[0], &a, &b), (&nets[1], &b, &a)] {
        let before = crossed(net);
        let sent = pattern(BYTES, usize::from(rail));
        from.region.write(8, &sent).unwrap();
        from.region.words(0, 1).unwrap()[0].store(0xfeed, Ordering::Release);
        from.qp.post_write(from.local(8, BYTES), to.remote(64), None, Mark { id: 1, signalled: false }).unwrap();
        from.qp.post_write(from.local(0, 8), to.remote(200_000), None, signalled(2)).unwrap();
        let started = Instant::now();
        while to.region.load(200_000).unwrap() != 0xfeed {
            assert!(started.elapsed() < Duration::from_secs(10), "the flag does not come");
            std::thread::yield_now();
        }
        let mut came = vec![0; BYTES];
        to.region.read(64, &mut came).unwrap();
        assert!(came == sent, "other bytes came than were sent");
        let done = from.next();
        from.qp.check(&done).unwrap();
        assert_eq!((done.id, done.qpn, done.work), (2, from.qp.number(), Work::Sent));
        assert!(before + BYTES as u64 <= crossed(net), "the bytes did not cross {net}");
        // The other direction begins anew.
        to.region.write(200_000, &[0; 8]).unwrap();
    }
}

#[test]
#[ignore = "runs in the guest"]
fn writes_arrive_on_rail_1() {
    write_both_ways(1);
}

#[test]
#[ignore = "runs in the guest"]
fn writes_arrive_on_rail_2() {
    write_both_ways(2);
}

#[test]
#[ignore = "runs in the guest"]
fn writes_with_immediate_arrive() {
    let (a, b) = pair(1);
    for id in 0..4 {
        b.qp.post_receive(100 + id).unwrap();
    }
    let sent = pattern(5000, 3);
    a.region.write(0, &sent).unwrap();
    for (immediate, bytes) in [(0, 5000), (0x0102_0304, 1), (u32::MAX, 0)] {
        a.qp.post_write(a.local(0, bytes), b.remote(4096), Some(immediate), signalled(7)).unwrap();
        let came = b.next();
        b.qp.check(&came).unwrap();
        assert_eq!((came.work, came.bytes as usize), (Work::Received { immediate }, bytes));
        a.qp.check(&a.next()).unwrap();
    }
    let mut came = vec![0; 5000];
    b.region.read(4096, &mut came).unwrap();
    assert!(came == sent, "other bytes came than were sent");
}

#[test]
#[ignore = "runs in the guest"]
fn inline_writes_and_reads_work() {
    let (a, b) = pair(2);
    assert!(64 <= a.qp.inline_bytes(), "{}", a.qp.inline_bytes());
    let mut data = pattern(64, 9);
    a.qp.post_inline_write(&data, b.remote(16), None, signalled(1)).unwrap();
    let sent = data.clone();
    data.fill(0);
    a.qp.check(&a.next()).unwrap();
    a.qp.post_read(a.local(512, 64), b.remote(16), signalled(2)).unwrap();
    a.qp.check(&a.next()).unwrap();
    let mut back = vec![0; 64];
    a.region.read(512, &mut back).unwrap();
    assert_eq!(back, sent);
}

#[test]
#[ignore = "runs in the guest"]
fn many_writes_complete_in_order() {
    const WRITES: u64 = 64;
    let (a, b) = pair(1);
    let mut done = Vec::new();
    for id in 0..WRITES {
        a.region.write(id as usize * 4096, &pattern(4096, id as usize)).unwrap();
    }
    for id in 0..WRITES {
        a.qp.post_write(a.local(id as usize * 4096, 4096), b.remote(id * 4096), None, signalled(id)).unwrap();
    }
    done.extend(a.wait(WRITES as usize));
    assert_eq!(done.iter().map(|done| done.id).collect::<Vec<_>>(), (0..WRITES).collect::<Vec<_>>(), "in order");
    for id in 0..WRITES as usize {
        let mut came = vec![0; 4096];
        b.region.read(id * 4096, &mut came).unwrap();
        assert!(came == pattern(4096, id), "write {id}");
    }
}
