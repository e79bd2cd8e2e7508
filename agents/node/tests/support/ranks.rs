//! Ranks of the native engine as threads of one process.

use std::time::{Duration, Instant};

use gdrtune_node::engine::{Engine as _, native::NativeEngine};
use gdrtune_profiles::vocab::{
    Algorithm, Choice, Collective, DataType, Engine as EngineName, Point, Protocol, ReduceOp,
};
use gdrtune_wire::{Item, ItemOutcome, SessionKey, WorkerInit};

pub(crate) const KEY: SessionKey = SessionKey([7; 32]);
pub(crate) const LEASE: Duration = Duration::from_secs(20);

pub(crate) fn init(rank: u32, world: u32, key: &SessionKey) -> WorkerInit {
    WorkerInit {
        rank,
        world,
        nodes: 1,
        engine: EngineName::Native,
        key: key.clone(),
        max_bytes: 1 << 20,
        register_buffers: false,
        probe: None,
        deadline_ms: LEASE.as_millis() as u64,
    }
}

pub(crate) fn deadline() -> Instant {
    Instant::now() + LEASE
}

/// A checked call of `f32` sums.
pub(crate) fn item(collective: Collective, bytes: u64, choice: Option<Choice>) -> Item {
    Item {
        point: Point { collective, bytes },
        choice,
        data_type: DataType::F32,
        op: ReduceOp::Sum,
        root: 0,
        in_place: false,
        graph: false,
        check: true,
        warmup: 0,
        iterations: 1,
        lease_ms: LEASE.as_millis() as u64,
    }
}

pub(crate) const fn choice(algorithm: Algorithm, protocol: Protocol, channels: u16) -> Choice {
    Choice { algorithm, protocol, channels }
}

/// Starts engines, connects them and lets each rank's thread run `work`; results come in rank order.
pub(crate) fn run_ranks<T: Send>(
    engines: Vec<NativeEngine>,
    work: impl Fn(u32, &mut NativeEngine) -> T + Sync,
) -> Vec<T> {
    let mut engines = engines;
    let peers: Vec<Vec<u8>> = engines.iter_mut().map(|engine| engine.bootstrap().unwrap()).collect();
    std::thread::scope(|scope| {
        let (peers, work) = (&peers, &work);
        let threads: Vec<_> = engines
            .into_iter()
            .enumerate()
            .map(|(rank, mut engine)| {
                scope.spawn(move || {
                    engine.connect(peers, deadline()).unwrap();
                    work(rank as u32, &mut engine)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// Outcomes of all items, by rank.
pub(crate) fn run_items(engines: Vec<NativeEngine>, items: &[Item]) -> Vec<Vec<ItemOutcome>> {
    run_ranks(engines, |_, engine| {
        engine.prepare(items, deadline()).unwrap();
        items.iter().map(|item| engine.measure(item).unwrap()).collect()
    })
}

/// Runs all items over `rails` rails, which must come out right with what was asked for; channels may be fewer.
pub(crate) fn expect_right(engines: Vec<NativeEngine>, rails: u16, items: &[Item]) {
    let world = engines.len();
    for (rank, outcomes) in run_items(engines, items).into_iter().enumerate() {
        for (item, outcome) in items.iter().zip(outcomes) {
            let ItemOutcome::Timed(times) = outcome else {
                panic!("rank {rank} of {world}: {outcome:?} for {item:?}");
            };
            assert!(times.checked && times.min_us <= times.median_us && times.median_us <= times.max_us);
            if let (Some(asked), Some(ran)) = (item.choice, times.selected) {
                assert_eq!((ran.algorithm, ran.protocol), (asked.algorithm, asked.protocol));
                assert!(0 < ran.channels && ran.channels <= asked.channels.max(rails));
            }
        }
    }
}

const WITH_TREE: [Collective; 3] = [Collective::AllReduce, Collective::Broadcast, Collective::Reduce];

/// Every choice for every collective that has one.
fn choices(collective: Collective) -> Vec<Option<Choice>> {
    if !collective.has_choice() {
        return vec![None];
    }
    let mut all = vec![None];
    for algorithm in [Algorithm::Ring, Algorithm::Tree] {
        if algorithm == Algorithm::Tree && !WITH_TREE.contains(&collective) {
            continue;
        }
        for &protocol in Protocol::ALL {
            all.extend([1, 2, 4].map(|channels| Some(choice(algorithm, protocol, channels))));
        }
    }
    all
}

/// Odd sizes: none, one element, fewer elements than ranks, not divisible, and longer than slots and chunks.
const SIZES: [u64; 5] = [0, 4, 12, 1000, 70_004];

pub(crate) fn every_choice(world: u32) -> Vec<Item> {
    let mut items = Vec::new();
    for &collective in Collective::ALL {
        for choice in choices(collective) {
            for (index, &bytes) in SIZES.iter().enumerate() {
                let in_place = collective.has_choice() && index % 2 == 1;
                items.push(Item { root: index as u32 % world, in_place, ..item(collective, bytes, choice) });
            }
        }
    }
    items
}
