//! The native engine's collectives over verbs, its ranks as threads of one process: even ranks at one end of both rails, odd ones at the
//! other. These run in the guest.

use std::{
    sync::Barrier,
    time::{Duration, Instant},
};

use gdrtune_node::engine::{
    Engine as _, EngineError,
    native::{NativeConfig, NativeEngine, Transport, VerbsConfig},
};
use gdrtune_profiles::vocab::{Algorithm, Collective, Protocol};
use gdrtune_wire::{Item, ItemOutcome};

use crate::{
    guest::shell,
    ranks::{self, KEY, choice, deadline, every_choice, init, item, run_ranks},
};

const RAILS: u16 = 2;

fn config(rank: u32) -> NativeConfig {
    let end = if rank.is_multiple_of(2) { 'a' } else { 'b' };
    NativeConfig {
        socket_ifname: Some("=lo".into()),
        chunk_bytes: 4096,
        sockets_per_channel: 1,
        transport: Some(Transport::Verbs),
        verbs: bound(format!("=rxe_r1{end}:1,rxe_r2{end}:1")),
    }
}

/// Where nothing is cut, adapters wait for longer than by default: emulated machines stand still at times, and a rail that is slow
/// on purpose delays acknowledgements.
fn bound(hca: impl Into<String>) -> VerbsConfig {
    VerbsConfig { hca: Some(hca.into()), timeout: Some(18), ..VerbsConfig::default() }
}

/// Engines that wait as long as they do by default.
fn prompt_engine(rank: u32) -> NativeEngine {
    let config = config(rank);
    engine(rank, 2, NativeConfig { verbs: VerbsConfig { timeout: None, ..config.verbs }, ..config })
}

fn engines(world: u32) -> Vec<NativeEngine> {
    (0..world).map(|rank| engine(rank, world, config(rank))).collect()
}

fn engine(rank: u32, world: u32, config: NativeConfig) -> NativeEngine {
    NativeEngine::new(init(rank, world, &KEY), config, None).unwrap()
}

/// Rail 2 while it is shaped.
struct Shaped;

impl Drop for Shaped {
    fn drop(&mut self) {
        shell("for d in r2a r2b; do tc qdisc del dev $d root; done");
    }
}

/// What a call took on the first rank.
fn time(engines: Vec<NativeEngine>, item: &Item) -> Duration {
    let outcomes = ranks::run_items(engines, std::slice::from_ref(item));
    let ItemOutcome::Timed(times) = &outcomes[0][0] else { panic!("{:?}", outcomes[0][0]) };
    Duration::from_secs_f64(times.median_us / 1e6)
}

#[test]
#[ignore = "runs in the guest"]
fn every_choice_is_right_on_two_ranks() {
    ranks::expect_right(engines(2), RAILS, &every_choice(2));
}

#[test]
#[ignore = "runs in the guest"]
fn every_protocol_is_right_on_four_ranks() {
    let mut items = Vec::new();
    for (root, &collective) in (0..).zip(Collective::ALL) {
        let root = root % 4;
        for &protocol in Protocol::ALL {
            let asked = collective.has_choice().then(|| choice(Algorithm::Ring, protocol, 3));
            // Longer than any ring.
            items.push(Item { root, iterations: 3, ..item(collective, 300_004, asked) });
        }
    }
    let tree = |protocol| item(Collective::AllReduce, 300_004, Some(choice(Algorithm::Tree, protocol, 2)));
    items.extend(Protocol::ALL.iter().map(|&protocol| tree(protocol)));
    ranks::expect_right(engines(4), RAILS, &items);
}

#[test]
#[ignore = "runs in the guest"]
fn several_queue_pairs_share_a_channel() {
    let engines =
        |(rank, chunk_bytes)| engine(rank, 2, NativeConfig { sockets_per_channel: 3, chunk_bytes, ..config(rank) });
    let asked = Some(choice(Algorithm::Ring, Protocol::Simple, 2));
    let items = [item(Collective::AllReduce, 1 << 20, asked), item(Collective::AllToAll, 50_000, None)];
    ranks::expect_right([0, 1].map(|rank| engines((rank, 256 << 10))).into(), RAILS, &items);
}

#[test]
#[ignore = "runs in the guest"]
fn verbs_are_chosen_where_every_rank_has_them() {
    for (second, expected) in [(None, Some(["verbs/rxe_r1a:1", "verbs/rxe_r2a:1"])), (Some(Transport::Tcp), None)] {
        let configs = [NativeConfig { transport: None, ..config(0) }, NativeConfig { transport: second, ..config(1) }];
        let engines = (0..).zip(configs).map(|(rank, config)| engine(rank, 2, config)).collect();
        let item = item(Collective::AllReduce, 5000, None);
        let reports = run_ranks(engines, |_, engine| {
            engine.prepare(std::slice::from_ref(&item), deadline()).unwrap();
            assert!(matches!(engine.measure(&item), Ok(ItemOutcome::Timed(_))));
            engine.report()
        });
        let paths = reports[0].network.as_ref().map(|network| network.paths.iter().map(String::as_str).collect());
        assert_eq!(paths, expected.map(Vec::from));
    }
}

#[test]
#[ignore = "runs in the guest"]
fn what_cannot_be_bound_is_refused() {
    let refused = |config| engine(0, 2, config).bootstrap().unwrap_err().to_string();
    let none = NativeConfig { verbs: bound("=rxe9:1"), transport: None, ..config(0) };
    let expected = "NCCL_IB_HCA==rxe9:1 cannot be used: no port of an HCA is left; this host has rxe_r1a:1, rxe_r1b:1, \
                    rxe_r2a:1, rxe_r2b:1";
    assert_eq!(refused(none), expected);
    let order = NativeConfig { verbs: bound("=^rxe1"), ..config(0) };
    assert!(refused(order).contains("write ^= and not =^"));

    let one_rail = NativeConfig { verbs: bound("=rxe_r1b:1"), ..config(1) };
    let (mut zero, mut one) = (engine(0, 2, config(0)), engine(1, 2, one_rail));
    let offers = [zero.bootstrap().unwrap(), one.bootstrap().unwrap()];
    let error = zero.connect(&offers, deadline()).unwrap_err().to_string();
    assert!(
        error.starts_with("rank 1 does not fit this rank: it binds rxe_r1b:1, this rank rxe_r1a:1, rxe_r2a:1"),
        "{error}"
    );
    let mut tcp = engine(1, 2, NativeConfig { transport: Some(Transport::Tcp), ..config(1) });
    let mut zero = engine(0, 2, config(0));
    let offers = [zero.bootstrap().unwrap(), tcp.bootstrap().unwrap()];
    let error = zero.connect(&offers, deadline()).unwrap_err().to_string();
    assert!(error.contains("does not offer verbs") && error.contains("GDRTUNE_NATIVE_TRANSPORT"), "{error}");
}

/// A rail that is slower makes calls slower that use it, and no others.
#[test]
#[ignore = "runs in the guest"]
fn a_slow_rail_shows() {
    let shape = "for d in r2a r2b; do tc qdisc replace dev $d root tbf rate 10mbit burst 64k limit 4m; done";
    shell(shape);
    let shaped = Shaped;
    let asked = Some(choice(Algorithm::Ring, Protocol::Simple, 2));
    let call = Item { iterations: 2, ..item(Collective::AllReduce, 512 << 10, asked) };
    let on = |rail: &str| {
        let ends = ['a', 'b'].map(|end| bound(format!("=rxe_r{rail}{end}:1")));
        let configs =
            (0..).zip(ends).map(|(rank, verbs)| (rank, NativeConfig { verbs, chunk_bytes: 64 << 10, ..config(rank) }));
        time(configs.map(|(rank, config)| engine(rank, 2, config)).collect(), &call)
    };
    let (fast, slow, both) = (on("1"), on("2"), time(engines(2), &call));
    drop(shaped);
    println!("512 KiB all-reduce: {fast:?} on rail 1, {slow:?} on rail 2 with 10 Mbit/s, {both:?} on both");
    // Half a MiB at 10 Mbit/s takes 419 ms.
    assert!(fast * 2 < slow && fast < both && both < slow, "{fast:?} {slow:?} {both:?}");
}

/// Cuts a rail while a collective is under way: every rank gets its error within a second.
#[expect(clippy::print_stdout, reason = "the figures are what people look for")]
fn cut(collective: Collective, protocol: Protocol) {
    let asked = Some(choice(Algorithm::Ring, protocol, 2));
    let call = Item { iterations: 1_000_000, check: false, ..item(collective, 256 << 10, asked) };
    let (begun, at) = (Barrier::new(3), std::sync::OnceLock::new());
    let errors = std::thread::scope(|scope| {
        scope.spawn(|| {
            begun.wait();
            // In the middle of calls: each takes some ms here.
            std::thread::sleep(Duration::from_millis(50));
            shell("ip link set r2b down");
            at.set(Instant::now()).unwrap();
        });
        run_ranks([0, 1].map(prompt_engine).into(), |_, engine| {
            engine.prepare(std::slice::from_ref(&call), deadline()).unwrap();
            begun.wait();
            let error = engine.measure(&call).unwrap_err();
            (error, Instant::now())
        })
    });
    shell("ip link set r2b up; . /testenv/rails.sh; rail_routes 2");
    let cut = at.get().unwrap();
    for (rank, (error, when)) in errors.iter().enumerate() {
        let after = when.saturating_duration_since(*cut);
        println!("{collective} {protocol}, rank {rank}: {error}, {} ms after the cut", after.as_millis());
        assert!(matches!(error, EngineError::PeerLost { .. }), "{error}");
        assert!(after < Duration::from_secs(1), "{error} after {after:?}");
    }
}

#[test]
#[ignore = "runs in the guest"]
fn a_cut_rail_ends_collectives() {
    for &protocol in Protocol::ALL {
        cut(Collective::AllReduce, protocol);
    }
    // One end only receives.
    cut(Collective::Broadcast, Protocol::Ll);
}

/// A rank that is gone, or stands still for longer than its peer waits: each is told from the other.
#[test]
#[ignore = "runs in the guest"]
fn a_dead_peer_is_lost_and_a_silent_one_runs_into_the_lease() {
    let call = item(Collective::AllReduce, 4096, None);
    for dies in [true, false] {
        let (gone, over) = (Barrier::new(2), Barrier::new(2));
        let errors = run_ranks([0, 1].map(prompt_engine).into(), |rank, engine| {
            let call = Item { lease_ms: if dies { 10_000 } else { 700 }, ..call.clone() };
            engine.prepare(std::slice::from_ref(&call), deadline()).unwrap();
            engine.measure(&call).unwrap();
            if rank == 1 {
                if dies {
                    *engine = prompt_engine(1);
                }
                gone.wait();
                over.wait();
                return None;
            }
            gone.wait();
            let started = Instant::now();
            let error = engine.measure(&call).unwrap_err();
            over.wait();
            Some((error, started.elapsed()))
        });
        let Some((error, after)) = &errors[0] else { panic!("no error") };
        match (dies, error) {
            (true, EngineError::PeerLost { rank: 1, .. }) => assert!(*after < Duration::from_secs(1), "{after:?}"),
            (false, EngineError::Deadline { .. }) => {}
            _ => panic!("{error}"),
        }
    }
}
