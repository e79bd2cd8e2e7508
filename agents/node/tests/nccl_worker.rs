//! Workers with the NCCL engine, on stand-ins for the CUDA driver, NCCL and the tuner plugin.
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

use gdrtune_profiles::vocab::{Algorithm, Choice, Collective, DataType, Engine, Point, Protocol, ReduceOp};
use gdrtune_wire::{FromWorker, Item, ItemOutcome, Script, SessionKey, Times, ToWorker, WorkerInit};
use worker_process::Worker;

const LEASE_MS: u64 = 30_000;
const MAX_BYTES: u64 = 1 << 20;

/// A folder with the stand-ins under the names of what they stand for.
struct Lab {
    folder: tempfile::TempDir,
    variables: Vec<(String, String)>,
}

impl Lab {
    /// Every rank is a node of its own, on one GPU.
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (kind, names) in [
            ("cuda", &["libcuda.so", "libcuda.so.1"][..]),
            ("nccl", &["libnccl.so.2"]),
            ("tuner", &["libnccl-tuner-gdrtune.so"]),
        ] {
            for name in names {
                symlink(stand_in(kind), folder.path().join(name)).unwrap();
            }
        }
        let path = folder.path().to_str().unwrap().to_owned();
        let variables = vec![("LD_LIBRARY_PATH".to_owned(), path.clone()), ("TMPDIR".to_owned(), path)];
        Self { folder, variables }
    }

    /// With the plugin, as the agent starts workers that switch choices.
    fn live() -> Self {
        let lab = Self::new();
        let plugin = lab.path("libnccl-tuner-gdrtune.so");
        lab.with("GDRTUNE_TUNER_PLUGIN", &plugin).with("NCCL_TUNER_PLUGIN", &plugin)
    }

    fn with(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    fn log(&self) -> String {
        fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    fn start_rank(&self, rank: u32, world: u32) -> Worker {
        self.start_rank_with(&[], rank, world)
    }

    fn start_rank_with(&self, arguments: &[&str], rank: u32, world: u32) -> Worker {
        let host = format!("node{rank}");
        let mut variables: Vec<(&str, &str)> = vec![("NCCL_HOSTID", &host)];
        variables.extend(self.variables.iter().map(|(name, value)| (name.as_str(), value.as_str())));
        let mut worker = Worker::start(arguments, &variables);
        worker.send(&init(rank, world));
        worker
    }

    /// Ranks that wait for each other's bootstrap bytes.
    fn start(&self, world: u32) -> Vec<Worker> {
        (0..world).map(|rank| self.start_rank(rank, world)).collect()
    }

    /// Ranks that have been told to connect.
    fn connecting(&self, world: u32) -> Vec<Worker> {
        let mut workers = self.start(world);
        let peers: Vec<Vec<u8>> = workers.iter_mut().map(bootstrap).collect();
        for worker in &mut workers {
            worker.send(&ToWorker::Connect { peers: peers.clone() });
        }
        workers
    }

    fn connected(&self, world: u32) -> Vec<Worker> {
        let mut workers = self.connecting(world);
        for worker in &mut workers {
            let message = worker.receive();
            assert!(matches!(message, Some(FromWorker::Connected { setup_us: 1.., .. })), "{message:?}");
        }
        workers
    }

    /// Runs items on a new group and returns each rank's outcomes. The group must end well.
    fn outcomes(&self, world: u32, items: &[Item]) -> Vec<Vec<ItemOutcome>> {
        let mut workers = self.connected(world);
        for worker in &mut workers {
            worker.send(&ToWorker::Run(Script { id: 1, items: items.to_vec() }));
            worker.send(&ToWorker::Quit);
        }
        workers
            .iter_mut()
            .map(|worker| {
                let outcomes = items.iter().map(|_| outcome(worker)).collect();
                assert_eq!(worker.receive(), Some(FromWorker::ScriptDone { script: 1 }));
                assert_eq!(worker.receive(), None);
                assert!(worker.end().success());
                outcomes
            })
            .collect()
    }

    /// As above, for one item that all ranks must say the same about.
    fn outcome(&self, world: u32, item: Item) -> ItemOutcome {
        let mut all: Vec<ItemOutcome> = self.outcomes(world, &[item]).into_iter().flatten().collect();
        let first = all.remove(0);
        let kind = std::mem::discriminant(&first);
        assert!(all.iter().all(|other| std::mem::discriminant(other) == kind), "{first:?} {all:?}");
        first
    }
}

/// The shared library of a stand-in, which cargo built beside this executable.
fn stand_in(kind: &str) -> PathBuf {
    let executable = std::env::current_exe().unwrap();
    let path = executable.parent().unwrap().join(format!("libgdrtune_standin_{kind}.so"));
    assert!(path.is_file(), "{} was not built", path.display());
    path
}

fn init(rank: u32, world: u32) -> ToWorker {
    ToWorker::Init(WorkerInit {
        rank,
        world,
        nodes: world,
        engine: Engine::Nccl,
        key: SessionKey([3; 32]),
        max_bytes: MAX_BYTES,
        deadline_ms: LEASE_MS,
        register_buffers: false,
    })
}

fn bootstrap(worker: &mut Worker) -> Vec<u8> {
    match worker.receive() {
        Some(FromWorker::Bootstrap(bytes)) => bytes,
        other => panic!("{other:?}"),
    }
}

fn outcome(worker: &mut Worker) -> ItemOutcome {
    match worker.receive() {
        Some(FromWorker::Item { outcome, .. }) => outcome,
        other => panic!("{other:?}"),
    }
}

fn item(collective: Collective, bytes: u64) -> Item {
    Item {
        point: Point { collective, bytes },
        choice: None,
        data_type: DataType::F32,
        op: ReduceOp::Sum,
        root: 0,
        in_place: false,
        graph: false,
        check: true,
        warmup: 1,
        iterations: 3,
        lease_ms: LEASE_MS,
    }
}

const TREE_LL: Choice = Choice { algorithm: Algorithm::Tree, protocol: Protocol::Ll, channels: 4 };

fn chosen(choice: Choice) -> Item {
    Item { choice: Some(choice), ..item(Collective::AllReduce, 4096) }
}

fn timed(outcome: &ItemOutcome) -> &Times {
    match outcome {
        ItemOutcome::Timed(times) => times,
        other => panic!("{other:?}"),
    }
}

fn unsupported(outcome: ItemOutcome) -> String {
    match outcome {
        ItemOutcome::Unsupported(why) => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_collective_is_right_in_every_type_and_place() {
    let mut items = Vec::new();
    for &collective in Collective::ALL {
        for &data_type in DataType::ALL {
            items.push(Item { data_type, root: 1, ..item(collective, 6000) });
        }
        if collective.has_choice() {
            items.push(Item { in_place: true, root: 2, ..item(collective, 4096) });
        }
        if collective.reduces() {
            items.extend(ReduceOp::ALL.iter().map(|&op| Item { op, ..item(collective, 1000) }));
        }
    }
    for (rank, outcomes) in Lab::new().outcomes(3, &items).into_iter().enumerate() {
        for (item, outcome) in items.iter().zip(outcomes) {
            let ItemOutcome::Timed(times) = outcome else { panic!("rank {rank}: {outcome:?} for {item:?}") };
            assert!(times.checked && times.min_us <= times.median_us && times.median_us <= times.max_us);
            assert!(times.mean_us > 0.0 && times.selected.is_none());
        }
    }
}

#[test]
fn choices_switch_inside_a_communicator_and_are_read_back() {
    let lab = Lab::live();
    let log = lab.path("log");
    let lab = lab.with("STANDIN_NCCL_LOG", &log).with("STANDIN_NCCL_COSTS", "allreduce:tree:ll=300,allreduce:*:*=3000");
    let ring = Choice { algorithm: Algorithm::Ring, protocol: Protocol::Simple, channels: 0 };
    let items = [
        chosen(TREE_LL),
        chosen(ring),
        Item { check: false, ..chosen(TREE_LL) },
        Item { choice: None, ..chosen(ring) },
        Item { choice: Some(Choice { channels: 8, ..ring }), ..item(Collective::AllGather, 8192) },
    ];
    for outcomes in lab.outcomes(2, &items) {
        let selected: Vec<String> = outcomes.iter().map(|o| timed(o).selected.unwrap().to_string()).collect();
        assert_eq!(selected, ["tree/ll/4", "ring/simple", "tree/ll/4", "ring/simple", "ring/simple/8"]);
        for (index, least_us) in [(0, 300.0), (1, 3000.0), (2, 300.0), (3, 3000.0)] {
            let times = timed(&outcomes[index]);
            assert!(least_us <= times.mean_us && least_us <= times.min_us + 1.0, "{index}: {times:?}");
        }
    }
    // Check, warm-up and three timed calls; sizes are whole buffers.
    let log = lab.log();
    let count = |line: &str| log.lines().filter(|other| *other == line).count();
    assert_eq!(count("allreduce 4096 tree ll 4"), 5 + 4, "{log}");
    assert_eq!(count("allgather 8192 ring simple 8"), 5, "{log}");
    // How ranks agree is left to NCCL.
    assert!(count("allreduce 16 ring simple 2") > items.len() && !log.contains("allreduce 16 tree"), "{log}");
}

#[test]
fn a_choice_that_did_not_run_is_not_timed() {
    let ll128 = Choice { protocol: Protocol::Ll128, ..TREE_LL };
    let nvls = Choice { algorithm: Algorithm::Nvls, ..TREE_LL };
    let send_recv = Item { choice: Some(TREE_LL), ..item(Collective::SendRecv, 4096) };
    for (lab, item, expected) in [
        (
            Lab::live(),
            chosen(ll128),
            "NCCL 2.28.9 does not allow tree/ll128/4 for allreduce 4K here, and takes ring/simple",
        ),
        (Lab::live(), chosen(nvls), "does not allow nvls/ll/4 for allreduce 4K here"),
        (
            Lab::live().with("STANDIN_NCCL_BYPASS", "1"),
            chosen(TREE_LL),
            "the tuner plugin was not called: NCCL 2.28.9 chose for allreduce without it",
        ),
        // This version looks for no interface that the plugin has.
        (Lab::live().with("STANDIN_NCCL_VERSION", "22203"), chosen(TREE_LL), "the tuner plugin was not called"),
        (Lab::live(), send_recv, "NCCL has no choice for sendrecv"),
        (Lab::new(), chosen(TREE_LL), "choices need the tuner plugin, and this worker was started without it"),
    ] {
        let why = unsupported(lab.outcome(2, item));
        assert!(why.contains(expected), "{why}");
    }
}

#[test]
fn items_that_cannot_run_are_refused_and_the_next_one_runs() {
    let lab = Lab::new().with("STANDIN_CUDA_MEMORY", "300000");
    let items = [
        item(Collective::AllReduce, 400_000),
        item(Collective::AllReduce, 1024),
        item(Collective::AllReduce, 500_000),
        item(Collective::AllReduce, 2 * MAX_BYTES),
        item(Collective::AllGather, 4),
        Item { root: 2, ..item(Collective::Reduce, 64) },
        Item { in_place: true, ..item(Collective::AllToAll, 64) },
        item(Collective::AllReduce, 100_000),
    ];
    for outcomes in lab.outcomes(2, &items) {
        for (index, expected) in [
            (0, "out of memory: two buffers of 400000 bytes"),
            (2, "out of memory: two buffers of 500000 bytes"),
            (3, "2097152 bytes do not fit buffers of 1048576"),
            (4, "4 bytes are less than one float32 for each rank"),
            (5, "there is no root 2 among 2 ranks"),
            (6, "alltoall has no in-place form"),
        ] {
            let why = unsupported(outcomes[index].clone());
            assert!(why.starts_with(expected), "{why}");
        }
        assert!(timed(&outcomes[1]).checked && timed(&outcomes[7]).checked);
    }
}

#[test]
fn memory_that_one_rank_lacks_is_refused_on_all() {
    let lab = Lab::new();
    let poor = Lab::new().with("STANDIN_CUDA_MEMORY", "100000");
    let mut workers = vec![lab.start_rank(0, 2), poor.start_rank(1, 2)];
    let peers: Vec<Vec<u8>> = workers.iter_mut().map(bootstrap).collect();
    let items = vec![item(Collective::AllReduce, 200_000), item(Collective::AllReduce, 2000)];
    for worker in &mut workers {
        worker.send(&ToWorker::Connect { peers: peers.clone() });
        worker.send(&ToWorker::Run(Script { id: 1, items: items.clone() }));
    }
    for worker in &mut workers {
        assert!(matches!(worker.receive(), Some(FromWorker::Connected { .. })));
        assert!(unsupported(outcome(worker)).starts_with("out of memory"));
        assert!(timed(&outcome(worker)).checked);
    }
}

#[test]
fn a_wrong_result_on_one_rank_is_wrong_on_all_and_the_next_choice_runs() {
    let lab = Lab::live().with("STANDIN_NCCL_FAULT", "wrong:allreduce:tree:ll:1");
    let right = Choice { algorithm: Algorithm::Ring, protocol: Protocol::Ll, channels: 1 };
    let outcomes = lab.outcomes(3, &[chosen(TREE_LL), chosen(right)]);
    for (rank, outcomes) in outcomes.iter().enumerate() {
        let ItemOutcome::Wrong { elements, first } = &outcomes[0] else { panic!("{:?}", outcomes[0]) };
        if rank == 1 {
            assert!(*elements == 1 && first.starts_with("element 0 of 1024 on rank 1: expected "), "{first}");
        } else {
            assert_eq!((*elements, first.as_str()), (0, "right on this rank, wrong on another one"));
        }
        assert_eq!(timed(&outcomes[1]).selected, Some(right));
    }
}

#[test]
fn a_crash_and_a_hang_leave_the_others_to_be_ended() {
    for fault in ["crash:allreduce:tree:ll:1", "hang:allreduce:tree:ll:1"] {
        let lab = Lab::live().with("STANDIN_NCCL_FAULT", fault);
        let mut workers = lab.connected(2);
        for worker in &mut workers {
            worker.send(&ToWorker::Run(Script { id: 1, items: vec![item(Collective::Reduce, 64), chosen(TREE_LL)] }));
        }
        for worker in &mut workers {
            assert!(timed(&outcome(worker)).checked);
        }
        if fault.starts_with("crash") {
            assert_eq!(workers[1].receive(), None);
            assert!(!workers[1].end().success());
        }
        for worker in &mut workers {
            // The end of the input ends even a rank that hangs in the library.
            drop(worker.to.take());
            assert_eq!(worker.receive(), None);
        }
    }
}

#[test]
fn errors_of_the_libraries_end_the_worker_with_their_words() {
    for (name, value, expected) in [
        (
            "STANDIN_NCCL_FAULT",
            "error:allreduce:tree:ll:0",
            "rank 0 of 2, allreduce 4K with tree/ll/4: cannot start allreduce: NCCL 2.28.9: invalid usage (run with \
             NCCL_DEBUG=WARN for details) (5): no algorithm/protocol available for function",
        ),
        (
            "STANDIN_CUDA_BROKEN",
            "1",
            "cannot run on the GPU: CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access was encountered",
        ),
    ] {
        let lab = Lab::live().with(name, value);
        let mut workers = lab.connecting(2);
        for worker in &mut workers {
            worker.send(&ToWorker::Run(Script { id: 1, items: vec![chosen(TREE_LL)] }));
        }
        let failure = loop {
            match workers[0].receive() {
                Some(FromWorker::Failed(why)) => break why,
                Some(FromWorker::Connected { .. }) => {}
                other => panic!("{other:?}"),
            }
        };
        assert!(failure.contains(expected), "{failure}");
        assert!(!workers[0].end().success());
    }
}

#[test]
fn a_communicator_that_cannot_be_made_says_why() {
    let text = "Could not find: net interface eth9";
    let lab = Lab::new().with("STANDIN_NCCL_INIT_ERROR", text);
    let mut workers = lab.connecting(2);
    let failure = workers[1].failure();
    assert!(failure.starts_with("rank 1 of 2, connect: cannot make the communicator: NCCL 2.28.9: "), "{failure}");
    assert!(failure.ends_with(&format!(" (2): {text}")), "{failure}");
}

#[test]
fn ranks_on_one_gpu_of_one_node_are_refused_before_nccl_is_asked() {
    let lab = Lab::new().with("NCCL_HOSTID", "one");
    let failure = lab.connecting(2)[0].failure();
    let expected = "rank 1 does not fit this rank: it uses the GPU 0000:01:00.0 (Stand-in GPU) of rank 0";
    assert!(failure.contains(expected), "{failure}");
    // With a GPU each, they may share a node.
    let lab = Lab::new().with("STANDIN_CUDA_DEVICES", "2").with("NCCL_HOSTID", "one");
    let mut workers: Vec<Worker> = Vec::new();
    for rank in 0..2 {
        let lab = Lab { folder: tempfile::tempdir().unwrap(), variables: lab.variables.clone() };
        workers.push(lab.with("GDRTUNE_LOCAL_RANK", &rank.to_string()).start_rank(rank, 2));
    }
    let peers: Vec<Vec<u8>> = workers.iter_mut().map(bootstrap).collect();
    for worker in &mut workers {
        worker.send(&ToWorker::Connect { peers: peers.clone() });
    }
    for worker in &mut workers {
        assert!(matches!(worker.receive(), Some(FromWorker::Connected { .. })));
    }
}

#[test]
fn missing_and_unfit_libraries_are_named() {
    let empty = tempfile::tempdir().unwrap();
    let empty = empty.path().to_str().unwrap();
    let no_driver = Lab::new();
    fs::remove_file(no_driver.path("libcuda.so")).unwrap();
    fs::remove_file(no_driver.path("libcuda.so.1")).unwrap();
    let missing = Path::new(empty).join("libnccl.so.2");
    let missing = missing.to_str().unwrap();
    let lab = Lab::live();
    let not_ours = lab.path("libnccl.so.2");
    let cases = [
        (Lab::new().with("GDRTUNE_NCCL_LIB", missing), "cannot load NCCL: "),
        (Lab::new().with("GDRTUNE_NCCL_LIB", missing), "libnccl.so.2: cannot open shared object file"),
        (Lab::new().with("STANDIN_NCCL_VERSION", "21805"), "is NCCL 2.18.5: 2.19 to 2.32 can be used"),
        (Lab::new().with("STANDIN_NCCL_VERSION", "23300"), "is NCCL 2.33.0: 2.19 to 2.32 can be used"),
        (Lab::new().with("STANDIN_CUDA_DEVICES", "0"), "cannot use a GPU: CUDA shows no device"),
        (Lab::new().with("GDRTUNE_GPU", "3"), "GDRTUNE_GPU=3 cannot be used: CUDA shows 1 devices here"),
        (
            Lab::new().with("GDRTUNE_TUNER_PLUGIN", &not_ours).with("NCCL_TUNER_PLUGIN", &not_ours),
            "undefined symbol: gdrtune_tuner_set",
        ),
    ];
    for (lab, expected) in cases {
        let failure = lab.start_rank(0, 1).failure();
        assert!(failure.contains(expected), "{failure}");
    }
    // A machine with a driver has it in the linker's cache.
    let has_driver = Path::new("/proc/driver/nvidia").exists();
    if !has_driver {
        let failure = no_driver.start_rank(0, 1).failure();
        assert!(failure.contains("cannot load the CUDA driver: libcuda.so.1: cannot open"), "{failure}");
        assert!(failure.contains("this node has no NVIDIA driver, or the container hides it"), "{failure}");
    }
}

#[test]
fn a_plugin_of_another_build_is_not_trusted() {
    let why = unsupported(Lab::live().with("STANDIN_TUNER_BYTES", "999").outcome(2, chosen(TREE_LL)));
    assert!(why.contains("the tuner plugin was not called"), "{why}");
}

#[test]
fn emitted_files_run_by_themselves_and_their_plugin_tells_what_ran() {
    let lab = Lab::new();
    let plugin = lab.path("libnccl-tuner-gdrtune.so");
    fs::write(lab.path("profile.env"), format!("NCCL_TUNER_PLUGIN={plugin}\n")).unwrap();
    fs::write(lab.path("nccl-tuner.csv"), "allreduce,0,4096,tree,ll,2,-1,-1,-1,-1\n").unwrap();
    // A node whose environment has the plugin for choices as well: the files alone count.
    let lab = lab.with("NCCL_TUNER_PLUGIN", &plugin).with("GDRTUNE_TUNER_PLUGIN", &plugin);
    let folder = lab.path("");
    let mut workers: Vec<Worker> = (0..2).map(|rank| lab.start_rank_with(&["--ab", &folder], rank, 2)).collect();
    let peers: Vec<Vec<u8>> = workers.iter_mut().map(bootstrap).collect();
    for worker in &mut workers {
        worker.send(&ToWorker::Connect { peers: peers.clone() });
        worker.send(&ToWorker::Run(Script { id: 1, items: vec![item(Collective::AllReduce, 4096), chosen(TREE_LL)] }));
    }
    for worker in &mut workers {
        assert!(matches!(worker.receive(), Some(FromWorker::Connected { .. })));
        // The stand-in has no rules.
        assert_eq!(timed(&outcome(worker)).selected.unwrap().to_string(), "ring/simple");
        assert!(unsupported(outcome(worker)).starts_with("choices need the tuner plugin"));
    }
}
