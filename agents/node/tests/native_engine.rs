//! The native engine with its ranks as threads of this process, over the loopback.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail the test")]

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    sync::mpsc,
    time::{Duration, Instant},
};

use gdrtune_node::engine::{
    Engine, EngineError, RuleSource,
    native::{NativeConfig, NativeEngine, Transport, VerbsConfig},
};
use gdrtune_profiles::vocab::{Algorithm, Choice, Collective, DataType, Point, Protocol, ReduceOp};
use gdrtune_wire::{Item, ItemOutcome, SessionKey, Times};

#[path = "support/ranks.rs"]
mod ranks;

use self::ranks::{LEASE, choice, deadline, every_choice, init, item, run_ranks};

const KEY: SessionKey = ranks::KEY;

fn config() -> NativeConfig {
    NativeConfig {
        socket_ifname: Some("=lo".into()),
        chunk_bytes: 4096,
        sockets_per_channel: 1,
        transport: Some(Transport::Tcp),
        verbs: VerbsConfig::default(),
    }
}

fn rank_engine(rank: u32, world: u32) -> NativeEngine {
    NativeEngine::new(init(rank, world, &KEY), config(), None).unwrap()
}

fn engines(world: u32) -> Vec<NativeEngine> {
    (0..world).map(|rank| rank_engine(rank, world)).collect()
}

fn run_items(world: u32, items: &[Item]) -> Vec<Vec<ItemOutcome>> {
    ranks::run_items(engines(world), items)
}

fn expect_right(world: u32, items: &[Item]) {
    ranks::expect_right(engines(world), 1, items);
}

const REDUCING: [Collective; 3] = [Collective::AllReduce, Collective::ReduceScatter, Collective::Reduce];

#[test]
fn every_choice_is_right_on_one_to_three_ranks() {
    for world in 1..=3 {
        expect_right(world, &every_choice(world));
    }
}

#[test]
fn every_choice_is_right_on_four_and_five_ranks() {
    for world in 4..=5 {
        expect_right(world, &every_choice(world));
    }
}

#[test]
fn every_choice_is_right_on_eight_ranks() {
    expect_right(8, &every_choice(8));
}

#[test]
fn every_type_and_operator_is_right() {
    for world in [2, 5] {
        let mut items = Vec::new();
        for &data_type in DataType::ALL {
            for &op in ReduceOp::ALL {
                for collective in REDUCING {
                    for &protocol in Protocol::ALL {
                        let asked = Some(choice(Algorithm::Ring, protocol, 2));
                        let ring = Item { data_type, op, root: 1, ..item(collective, 9006, asked) };
                        items.push(Item { in_place: true, ..ring.clone() });
                        items.push(ring);
                    }
                }
                let tree = item(Collective::AllReduce, 9006, Some(choice(Algorithm::Tree, Protocol::Simple, 3)));
                items.push(Item { data_type, op, ..tree });
            }
            for collective in [Collective::AllGather, Collective::Broadcast, Collective::AllToAll] {
                items.push(Item { data_type, ..item(collective, 9006, None) });
            }
        }
        expect_right(world, &items);
    }
}

#[test]
fn results_stay_right_after_timed_calls() {
    let mut items = Vec::new();
    for algorithm in [Algorithm::Ring, Algorithm::Tree] {
        let asked = Some(choice(algorithm, Protocol::Ll128, 2));
        let timed = Item { warmup: 3, iterations: 50, ..item(Collective::AllReduce, 40_000, asked) };
        items.extend([timed.clone(), Item { in_place: true, check: false, ..timed.clone() }, timed]);
    }
    for (item, outcome) in run_items(3, &items)[1].iter().enumerate().map(|(i, outcome)| (&items[i], outcome)) {
        let ItemOutcome::Timed(times) = outcome else { panic!("{outcome:?}") };
        assert_eq!(times.checked, item.check);
        assert!(times.mean_us > 0.0 && times.cpu_us > 0.0);
    }
}

#[test]
fn several_sockets_share_a_channel() {
    let config = NativeConfig { sockets_per_channel: 3, ..config() };
    let engines: Vec<_> =
        (0..3).map(|rank| NativeEngine::new(init(rank, 3, &KEY), config.clone(), None).unwrap()).collect();
    let asked = Some(choice(Algorithm::Ring, Protocol::Simple, 2));
    let item = item(Collective::AllReduce, 100_000, asked);
    let outcomes = run_ranks(engines, |_, engine| {
        engine.prepare(std::slice::from_ref(&item), deadline()).unwrap();
        engine.measure(&item).unwrap()
    });
    for outcome in outcomes {
        assert!(matches!(outcome, ItemOutcome::Timed(Times { selected, .. }) if selected == asked), "{outcome:?}");
    }
}

#[test]
fn channels_are_fewer_where_the_message_is_small() {
    let asked = Some(choice(Algorithm::Ring, Protocol::Ll, 4));
    let items = [600, 100_000].map(|bytes| item(Collective::AllReduce, bytes, asked));
    let channels: Vec<_> = run_items(2, &items)[0]
        .iter()
        .map(|outcome| match outcome {
            ItemOutcome::Timed(Times { selected: Some(selected), .. }) => selected.channels,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(channels, [2, 4]);
}

#[test]
fn what_cannot_be_run_is_said_alike_by_all_ranks() {
    let ring = choice(Algorithm::Ring, Protocol::Ll, 1);
    let items = [
        item(Collective::AllReduce, 1024, Some(Choice { algorithm: Algorithm::Nvls, ..ring })),
        item(Collective::AllGather, 1024, Some(Choice { algorithm: Algorithm::Tree, ..ring })),
        item(Collective::AllToAll, 1024, Some(ring)),
        item(Collective::AllReduce, 2 << 20, None),
        Item { root: 2, ..item(Collective::Broadcast, 1024, None) },
        Item { in_place: true, ..item(Collective::SendRecv, 1024, None) },
        Item { graph: true, ..item(Collective::SendRecv, 1024, None) },
        item(Collective::AllReduce, 1024, None),
    ];
    let outcomes = run_items(2, &items);
    assert_eq!(outcomes[0][..6], outcomes[1][..6]);
    let texts: Vec<_> = outcomes[0]
        .iter()
        .map(|outcome| match outcome {
            ItemOutcome::Unsupported(why) => why.as_str(),
            ItemOutcome::Timed(_) => "timed",
            ItemOutcome::Wrong { .. } => "wrong",
        })
        .collect();
    assert_eq!(
        texts,
        [
            "the native engine has no nvls: use ring or tree",
            "allgather has no tree on the native engine: use ring",
            "alltoall takes no choice of algorithm and protocol",
            "2097152 bytes do not fit buffers of 1048576",
            "there is no root 2 among 2 ranks",
            "sendrecv has no in-place form",
            "the native engine has no CUDA graphs",
            "timed",
        ]
    );
}

/// One rule, for messages above a limit.
struct OneRule(u64, Choice);

impl RuleSource for OneRule {
    fn lookup(&self, point: Point, nodes: u32, ranks: u32) -> Option<Choice> {
        (point.bytes > self.0 && (nodes, ranks) == (1, 2)).then_some(self.1)
    }
}

#[test]
fn rules_choose_where_the_item_does_not() {
    let rule = choice(Algorithm::Tree, Protocol::Ll128, 3);
    let unusable = Choice { algorithm: Algorithm::Pat, ..rule };
    let own = choice(Algorithm::Tree, Protocol::Ll, 1);
    let asked = choice(Algorithm::Ring, Protocol::Simple, 2);
    for (rule, expected) in [(rule, rule), (unusable, own)] {
        let engines = (0..2)
            .map(|rank| NativeEngine::new(init(rank, 2, &KEY), config(), Some(Box::new(OneRule(4096, rule)))).unwrap());
        let items = [
            item(Collective::AllReduce, 8192, None),
            item(Collective::AllReduce, 4096, None),
            item(Collective::AllReduce, 8192, Some(asked)),
        ];
        let selected = run_ranks(engines.collect(), |_, engine| {
            engine.prepare(&items, deadline()).unwrap();
            items.each_ref().map(|item| match engine.measure(item).unwrap() {
                ItemOutcome::Timed(times) => times.selected,
                other => panic!("{other:?}"),
            })
        });
        assert_eq!(selected, [[Some(expected), Some(own), Some(asked)]; 2]);
    }
}

#[test]
fn ranks_that_disagree_say_so() {
    let engines = vec![rank_engine(0, 2), rank_engine(1, 2)];
    let errors = run_ranks(engines, |rank, engine| {
        let asked = choice(Algorithm::Ring, Protocol::Ll, 1 + rank as u16);
        let item = item(Collective::AllReduce, 65536, Some(asked));
        // Both prepare the same, as only the barrier's connection is needed.
        engine.prepare(&[], deadline()).unwrap();
        let links = choice(Algorithm::Ring, Protocol::Ll, 2);
        engine.prepare(&[Item { choice: Some(links), ..item.clone() }], deadline()).unwrap();
        engine.measure(&item).unwrap_err().to_string()
    });
    assert!(
        errors.iter().any(|error| error.contains("runs something else than this rank (allreduce 64K with ring/ll"))
    );
}

#[test]
fn a_dead_peer_is_an_error_and_no_hang() {
    let engines = engines(3);
    let item = Item { iterations: 1_000_000, ..item(Collective::AllReduce, 4096, None) };
    let started = Instant::now();
    let errors = run_ranks(engines, |rank, engine| {
        engine.prepare(std::slice::from_ref(&item), deadline()).unwrap();
        if rank == 1 {
            // Takes part in the check, then goes away.
            let short = Item { iterations: 3, ..item.clone() };
            engine.measure(&short).unwrap();
            return None;
        }
        Some(engine.measure(&item).unwrap_err())
    });
    assert!(started.elapsed() < LEASE);
    assert!(errors.iter().flatten().any(|error| matches!(error, EngineError::PeerLost { .. })), "{errors:?}");
}

#[test]
fn a_silent_peer_costs_the_lease_only() {
    let engines = vec![rank_engine(0, 2), rank_engine(1, 2)];
    let (done, wait) = mpsc::channel();
    let wait = std::sync::Mutex::new(wait);
    let item = Item { lease_ms: 50, ..item(Collective::AllReduce, 4096, None) };
    let errors = run_ranks(engines, |rank, engine| {
        engine.prepare(std::slice::from_ref(&item), deadline()).unwrap();
        if rank == 1 {
            wait.lock().unwrap().recv().unwrap();
            return None;
        }
        let error = engine.measure(&item).unwrap_err();
        done.send(()).unwrap();
        Some(error.to_string())
    });
    assert_eq!(errors[0].as_deref(), Some("ran out of time waiting for data of rank 1"));
}

/// The address that a rank's bootstrap bytes name: postcard stores an IPv4 address as its bytes and the port as a varint,
/// last of all.
fn address_of(bootstrap: &[u8]) -> SocketAddr {
    let start = bootstrap.windows(4).rposition(|bytes| bytes == [127, 0, 0, 1]).unwrap() + 4;
    let port = bootstrap[start..].iter().rev().fold(0u32, |port, byte| port << 7 | u32::from(byte & 0x7f));
    SocketAddr::from(([127, 0, 0, 1], port as u16))
}

/// Rank 1 listens; strangers come; then rank 0 connects all the same.
fn with_strangers(strangers: impl FnOnce(SocketAddr) -> Vec<TcpStream>) -> Vec<TcpStream> {
    let (mut zero, mut one) = (rank_engine(0, 2), rank_engine(1, 2));
    let peers = vec![zero.bootstrap().unwrap(), one.bootstrap().unwrap()];
    let kept = strangers(address_of(&peers[1]));
    let item = item(Collective::AllReduce, 4096, None);
    let started = Instant::now();
    std::thread::scope(|scope| {
        for engine in [&mut zero, &mut one] {
            let (peers, item) = (&peers, &item);
            scope.spawn(move || {
                engine.connect(peers, deadline()).unwrap();
                engine.prepare(std::slice::from_ref(item), deadline()).unwrap();
                assert!(matches!(engine.measure(item).unwrap(), ItemOutcome::Timed(_)));
            });
        }
    });
    assert!(started.elapsed() < Duration::from_secs(4), "strangers held a peer up");
    kept
}

#[test]
fn silent_strangers_hold_nobody_up() {
    with_strangers(|address| (0..20).map(|_| TcpStream::connect(address).unwrap()).collect());
}

#[test]
fn garbage_is_refused() {
    let kept = with_strangers(|address| {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(&[0x47; 4096]).unwrap();
        vec![stream]
    });
    let mut answer = Vec::new();
    // The end of the stream or a reset; never a byte.
    drop((&kept[0]).read_to_end(&mut answer));
    assert!(answer.is_empty());
}

#[test]
fn a_flood_is_survived() {
    with_strangers(|address| {
        (0..600)
            .map(|_| {
                let mut stream = TcpStream::connect(address).unwrap();
                stream.set_write_timeout(Some(Duration::from_secs(1))).unwrap();
                // It may have been pushed out already.
                drop(stream.write_all(b"GDRTNAT\x01"));
                stream
            })
            .collect()
    });
}

#[test]
fn a_stranger_that_never_finishes_is_cut_off() {
    let mut one = rank_engine(1, 2);
    let mut stranger = TcpStream::connect(address_of(&one.bootstrap().unwrap())).unwrap();
    stranger.write_all(b"GDRTNAT\x01\0").unwrap();
    stranger.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    // The handshake's limit is 5 s; the end of the stream, and no timeout of ours.
    assert_eq!(stranger.read(&mut [0; 8]).unwrap(), 0);
}

#[test]
fn a_peer_with_another_key_gets_nowhere() {
    let mut one = rank_engine(1, 2);
    let mut stranger = NativeEngine::new(init(0, 2, &SessionKey([8; 32])), config(), None).unwrap();
    let peers = vec![stranger.bootstrap().unwrap(), one.bootstrap().unwrap()];
    let error = stranger.connect(&peers, deadline()).unwrap_err();
    let EngineError::Unreachable { rank: 1, ref why, .. } = error else { panic!("{error}") };
    assert_eq!(why, "who answers there does not hold this run's key");
    let error = one.connect(&peers, Instant::now() + Duration::from_millis(50)).unwrap_err();
    assert!(error.to_string() == "ran out of time waiting for rank 0 to connect over lo", "{error}");
}

#[test]
fn a_peer_that_died_before_connect_is_named() {
    let (mut zero, mut one) = (rank_engine(0, 2), rank_engine(1, 2));
    let peers = vec![zero.bootstrap().unwrap(), one.bootstrap().unwrap()];
    drop(one);
    let error = zero.connect(&peers, deadline()).unwrap_err();
    assert!(matches!(error, EngineError::Unreachable { rank: 1, .. }), "{error}");
}

#[test]
fn peers_that_do_not_fit_are_refused() {
    let other = NativeConfig { sockets_per_channel: 2, ..config() };
    let mut one = NativeEngine::new(init(1, 2, &KEY), other, None).unwrap();
    let one = one.bootstrap().unwrap();
    for (theirs, expected) in [
        (one, "rank 1 does not fit this rank: it has GDRTUNE_NATIVE_NSOCKS=2, this rank 1: set one value on all ranks"),
        (vec![1, 2], "rank 1 does not fit this rank: its bootstrap bytes cannot be read"),
    ] {
        let mut zero = rank_engine(0, 2);
        let peers = vec![zero.bootstrap().unwrap(), theirs];
        let error = zero.connect(&peers, deadline()).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}");
    }
}

#[test]
fn calls_out_of_order_are_refused() {
    let mut engine = rank_engine(0, 1);
    let item = item(Collective::AllReduce, 4, None);
    assert!(matches!(engine.measure(&item), Err(EngineError::Order(_))));
    assert!(matches!(engine.connect(&[], deadline()), Err(EngineError::Order(_))));
}
