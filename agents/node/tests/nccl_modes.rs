//! What workers with the NCCL engine do when memory runs out, with calls in CUDA graphs, and with registered buffers; on
//! stand-ins for the CUDA driver, NCCL and the tuner plugin.
//!
//! What a stand-in cannot show: that the real libraries behave as it does. See `benches/gpu`.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail the test")]

#[path = "support/worker_process.rs"]
mod worker_process;

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use gdrtune_profiles::vocab::{Collective, DataType, Engine, Point, ReduceOp};
use gdrtune_wire::{FromWorker, Item, ItemOutcome, Script, SessionKey, ToWorker, WorkerInit};
use worker_process::Worker;

const LEASE_MS: u64 = 30_000;

/// What the agents tell workers that differs between tests.
#[derive(Clone, Copy)]
struct Terms {
    max_bytes: u64,
}

const TERMS: Terms = Terms { max_bytes: 1 << 20 };

/// A group of ranks on stand-ins, each a node of its own, on one GPU.
struct Group {
    workers: Vec<Worker>,
}

/// A folder with the stand-ins under the names of what they stand for, and the variables of the workers.
struct Lab {
    folder: tempfile::TempDir,
    variables: Vec<(String, String)>,
}

impl Lab {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (kind, name) in [("cuda", "libcuda.so"), ("cuda", "libcuda.so.1"), ("nccl", "libnccl.so.2")] {
            symlink(stand_in(kind), folder.path().join(name)).unwrap();
        }
        let path = text(folder.path());
        let variables = vec![("LD_LIBRARY_PATH".to_owned(), path.clone()), ("TMPDIR".to_owned(), path)];
        Self { folder, variables }
    }

    fn with(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    fn start_rank(&self, terms: Terms, rank: u32, world: u32) -> Worker {
        let host = format!("node{rank}");
        let mut variables: Vec<(&str, &str)> = vec![("NCCL_HOSTID", &host)];
        variables.extend(self.variables.iter().map(|(name, value)| (name.as_str(), value.as_str())));
        let mut worker = Worker::start(&[], &variables);
        worker.send(&ToWorker::Init(WorkerInit {
            rank,
            world,
            nodes: world,
            engine: Engine::Nccl,
            key: SessionKey([3; 32]),
            max_bytes: terms.max_bytes,
            deadline_ms: LEASE_MS,
        }));
        worker
    }

    fn connected(&self, terms: Terms, world: u32) -> Group {
        Group::connect((0..world).map(|rank| self.start_rank(terms, rank, world)).collect())
    }
}

impl Group {
    fn connect(mut workers: Vec<Worker>) -> Self {
        let bootstrap = |worker: &mut Worker| match worker.receive() {
            Some(FromWorker::Bootstrap(bytes)) => bytes,
            other => panic!("{other:?}"),
        };
        let peers: Vec<Vec<u8>> = workers.iter_mut().map(bootstrap).collect();
        for worker in &mut workers {
            worker.send(&ToWorker::Connect { peers: peers.clone() });
        }
        for worker in &mut workers {
            let message = worker.receive();
            assert!(matches!(message, Some(FromWorker::Connected { .. })), "{message:?}");
        }
        Self { workers }
    }

    /// Runs items; each rank's outcomes. The workers must end well.
    fn outcomes(mut self, items: &[Item]) -> Vec<Vec<ItemOutcome>> {
        for worker in &mut self.workers {
            worker.send(&ToWorker::Run(Script { id: 1, items: items.to_vec() }));
            worker.send(&ToWorker::Quit);
        }
        let outcomes = |worker: &mut Worker| {
            let outcomes = items.iter().map(|_| match worker.receive() {
                Some(FromWorker::Item { outcome, .. }) => outcome,
                other => panic!("{other:?}"),
            });
            let outcomes = outcomes.collect();
            assert_eq!(worker.receive(), Some(FromWorker::ScriptDone { script: 1 }));
            assert_eq!(worker.receive(), None);
            assert!(worker.end().success());
            outcomes
        };
        self.workers.iter_mut().map(outcomes).collect()
    }
}

/// The shared library of a stand-in, which cargo built beside this executable.
fn stand_in(kind: &str) -> PathBuf {
    let executable = std::env::current_exe().unwrap();
    let path = executable.parent().unwrap().join(format!("libgdrtune_standin_{kind}.so"));
    assert!(path.is_file(), "{} was not built", path.display());
    path
}

fn text(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}

fn item(bytes: u64) -> Item {
    Item {
        point: Point { collective: Collective::AllReduce, bytes },
        choice: None,
        data_type: DataType::F32,
        op: ReduceOp::Sum,
        root: 0,
        in_place: false,
        check: true,
        warmup: 1,
        iterations: 3,
        lease_ms: LEASE_MS,
    }
}

/// What came of an item, in short.
fn told(outcome: &ItemOutcome) -> &str {
    match outcome {
        ItemOutcome::Timed(times) => {
            assert!(times.checked && times.mean_us > 0.0, "{times:?}");
            "timed"
        }
        ItemOutcome::Unsupported(why) => why,
        other @ ItemOutcome::Wrong { .. } => panic!("{other:?}"),
    }
}

#[test]
fn a_size_without_room_is_said_once_and_larger_ones_are_not_tried() {
    // 32 bytes are for flags. `cuda-log` counts what was tried.
    let lab = Lab::new().with("STANDIN_CUDA_MEMORY", "3145728");
    let log = text(&lab.folder.path().join("cuda-log"));
    let lab = lab.with("STANDIN_CUDA_LOG", &log);
    let terms = Terms { max_bytes: 8 << 20 };
    let items = [1 << 18, 2 << 20, 1 << 20, 2 << 20, 4 << 20, 1 << 10].map(item);
    for outcomes in lab.connected(terms, 2).outcomes(&items) {
        let outcomes: Vec<&str> = outcomes.iter().map(told).collect();
        let full = "out of memory: two buffers of 2M bytes have no room on Stand-in GPU of rank 0 \
                    (CUDA_ERROR_OUT_OF_MEMORY, 3.0 MiB free of 3.0 MiB)";
        let again = "out of memory: two buffers of 2M bytes are not tried, as 2M had no room";
        let larger = "out of memory: two buffers of 4M bytes are not tried, as 2M had no room";
        assert_eq!(outcomes[0], "timed");
        assert!(outcomes[1] == full || outcomes[1] == full.replace("Stand-in GPU", "the GPU"), "{}", outcomes[1]);
        assert_eq!(outcomes[2..], ["timed", again, larger, "timed"]);
    }
    // The script's largest, once on each rank; after the refusal of 2M, neither it nor the largest again.
    let log = fs::read_to_string(log).unwrap();
    let refused = |bytes: usize| log.lines().filter(|line| *line == format!("refused {bytes}")).count();
    assert_eq!((refused(8 << 20), refused(4 << 20), refused(2 << 20)), (2, 2, 2), "{log}");
}

#[test]
fn the_rank_that_has_no_room_is_named_on_all() {
    let (rich, poor) = (Lab::new(), Lab::new().with("STANDIN_CUDA_MEMORY", "1048576"));
    let group =
        Group::connect(vec![rich.start_rank(TERMS, 0, 3), poor.start_rank(TERMS, 1, 3), rich.start_rank(TERMS, 2, 3)]);
    let outcomes = group.outcomes(&[item(1 << 20), item(1 << 19), item(1 << 10)]);
    for (rank, outcomes) in outcomes.iter().enumerate() {
        let gpu = if rank == 1 { "Stand-in GPU" } else { "the GPU" };
        let expected = format!("out of memory: two buffers of 1M bytes have no room on {gpu} of rank 1 (CUDA_ERROR_");
        assert!(told(&outcomes[0]).starts_with(&expected), "{rank}: {:?}", outcomes[0]);
        let expected = "out of memory: two buffers of 512K bytes have no room ";
        assert!(told(&outcomes[1]).starts_with(expected), "{rank}: {:?}", outcomes[1]);
        assert_eq!(told(&outcomes[2]), "timed", "{rank}");
    }
}
