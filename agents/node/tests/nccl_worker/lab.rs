//! A group of workers on stand-ins for the CUDA driver and NCCL, with the real tuner plugin.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail the test")]

use std::{fs, os::unix::fs::symlink, path::PathBuf, rc::Rc};

use gdrtune_profiles::vocab::{Algorithm, Choice, Collective, Engine, Protocol};
use gdrtune_wire::{EngineReport, FromWorker, Item, ItemOutcome, Script, SessionKey, Times, ToWorker, WorkerInit};

pub(crate) use crate::items::{LEASE_MS, item};
use crate::worker_process::Worker;

pub(crate) const MAX_BYTES: u64 = 1 << 20;

/// The plugin's name as it is deployed.
pub(crate) const PLUGIN: &str = "libnccl-tuner-gdrtune.so";

/// A folder with the stand-ins under the names of what they stand for.
#[derive(Clone)]
pub(crate) struct Lab {
    folder: Rc<tempfile::TempDir>,
    variables: Vec<(String, String)>,
    /// Whether NCCL is asked for its log, as the agent asks it.
    is_logged: bool,
    max_bytes: u64,
    register_buffers: bool,
}

impl Lab {
    /// Every rank is a node of its own, on one GPU.
    pub(crate) fn new() -> Self {
        let folder = Rc::new(tempfile::tempdir().unwrap());
        for (library, name) in [
            ("gdrtune_standin_cuda", "libcuda.so"),
            ("gdrtune_standin_cuda", "libcuda.so.1"),
            ("gdrtune_standin_nccl", "libnccl.so.2"),
            ("gdrtune_nccl_tuner", PLUGIN),
        ] {
            symlink(library_path(library), folder.path().join(name)).unwrap();
        }
        let path = folder.path().to_str().unwrap().to_owned();
        let set = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let variables = vec![set("LD_LIBRARY_PATH", &path), set("TMPDIR", &path), set("STANDIN_NCCL_CHANNELS", "8")];
        Self { folder, variables, is_logged: false, max_bytes: MAX_BYTES, register_buffers: false }
    }

    /// With the plugin, as the agent starts workers that switch choices.
    pub(crate) fn live() -> Self {
        let lab = Self::new();
        let plugin = lab.path(PLUGIN);
        lab.with("GDRTUNE_TUNER_PLUGIN", &plugin).with("NCCL_TUNER_PLUGIN", &plugin)
    }

    /// As above, and with NCCL's log.
    pub(crate) fn logged() -> Self {
        Self { is_logged: true, ..Self::live() }
    }

    /// With buffers of NCCL's own, registered.
    pub(crate) fn registered(self) -> Self {
        Self { register_buffers: true, ..self }
    }

    /// With a workload up to this size.
    pub(crate) fn with_room(self, max_bytes: u64) -> Self {
        Self { max_bytes, ..self }
    }

    /// With a stand-in's log in a file of the variable's name.
    pub(crate) fn with_log(self, variable: &str) -> Self {
        let path = self.path(variable);
        self.with(variable, &path)
    }

    /// Lines of such a log that are equal to this one.
    pub(crate) fn count(&self, variable: &str, line: &str) -> usize {
        let log = fs::read_to_string(self.path(variable)).unwrap_or_default();
        log.lines().filter(|other| *other == line).count()
    }

    /// Puts a copy of a library that lacks a function under these names.
    pub(crate) fn without(self, library: &str, names: &[&str], function: &str) -> Self {
        let mut bytes = fs::read(library_path(library)).unwrap();
        let (symbol, length) = (format!("\0{function}\0").into_bytes(), function.len());
        let places: Vec<usize> =
            bytes.windows(length + 2).enumerate().filter(|(_, w)| *w == symbol).map(|(at, _)| at).collect();
        assert!(!places.is_empty(), "{library} has no {function}");
        for at in places {
            bytes[at + length] = b'_';
        }
        for name in names {
            fs::remove_file(self.path(name)).unwrap();
            fs::write(self.path(name), &bytes).unwrap();
        }
        self
    }

    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    pub(crate) fn start_rank(&self, rank: u32, world: u32) -> Worker {
        self.start_rank_with(&[], rank, world)
    }

    pub(crate) fn start_rank_with(&self, arguments: &[&str], rank: u32, world: u32) -> Worker {
        let host = format!("node{rank}");
        let log = self.path(&format!("rank-{rank}.log"));
        let mut variables: Vec<(&str, &str)> = vec![("NCCL_HOSTID", &host)];
        if self.is_logged {
            fs::write(&log, "").unwrap();
            let request = [("NCCL_DEBUG", "INFO"), ("NCCL_DEBUG_SUBSYS", "INIT,TUNING"), ("NCCL_DEBUG_FILE", &log)];
            variables.extend(request);
            variables.push(("GDRTUNE_NCCL_LOG", &log));
        }
        variables.extend(self.variables.iter().map(|(name, value)| (name.as_str(), value.as_str())));
        let mut worker = Worker::start(arguments, &variables);
        worker.send(&self.init(rank, world));
        worker
    }

    fn init(&self, rank: u32, world: u32) -> ToWorker {
        ToWorker::Init(WorkerInit {
            rank,
            world,
            nodes: world,
            engine: Engine::Nccl,
            key: SessionKey([3; 32]),
            max_bytes: self.max_bytes,
            deadline_ms: LEASE_MS,
            register_buffers: self.register_buffers,
            probe: None,
        })
    }

    /// Ranks that wait for each other's bootstrap bytes.
    pub(crate) fn start(&self, world: u32) -> Vec<Worker> {
        (0..world).map(|rank| self.start_rank(rank, world)).collect()
    }

    /// Ranks that have been told to connect.
    pub(crate) fn connecting(&self, world: u32) -> Vec<Worker> {
        connect(self.start(world))
    }

    pub(crate) fn connected(&self, world: u32) -> Vec<Worker> {
        let mut workers = self.connecting(world);
        for worker in &mut workers {
            report(worker);
        }
        workers
    }

    /// What each rank says that it runs with.
    pub(crate) fn reports(&self, world: u32) -> Vec<EngineReport> {
        self.connecting(world).iter_mut().map(report).collect()
    }

    /// Runs items on a new group and returns each rank's outcomes. The group must end well.
    pub(crate) fn outcomes(&self, world: u32, items: &[Item]) -> Vec<Vec<ItemOutcome>> {
        run(self.connecting(world), items)
    }

    /// As above, for one item that all ranks must say the same about.
    pub(crate) fn outcome(&self, world: u32, item: Item) -> ItemOutcome {
        let mut all: Vec<ItemOutcome> = self.outcomes(world, &[item]).into_iter().flatten().collect();
        let first = all.remove(0);
        let kind = std::mem::discriminant(&first);
        assert!(all.iter().all(|other| std::mem::discriminant(other) == kind), "{first:?} {all:?}");
        first
    }
}

/// A shared library that cargo built beside this executable.
fn library_path(name: &str) -> PathBuf {
    let executable = std::env::current_exe().unwrap();
    let path = executable.parent().unwrap().join(format!("lib{name}.so"));
    assert!(path.is_file(), "{} was not built", path.display());
    path
}

/// Tells ranks to connect.
pub(crate) fn connect(mut workers: Vec<Worker>) -> Vec<Worker> {
    let peers: Vec<Vec<u8>> = workers.iter_mut().map(bootstrap).collect();
    for worker in &mut workers {
        worker.send(&ToWorker::Connect { peers: peers.clone() });
    }
    workers
}

/// Runs items on ranks that connect, and ends them; each rank's outcomes.
pub(crate) fn run(mut workers: Vec<Worker>, items: &[Item]) -> Vec<Vec<ItemOutcome>> {
    for worker in &mut workers {
        worker.send(&ToWorker::Run(Script { id: 1, items: items.to_vec() }));
        worker.send(&ToWorker::Quit);
    }
    let outcomes_of = |worker: &mut Worker| {
        report(worker);
        let outcomes = items.iter().map(|_| outcome(worker)).collect();
        assert_eq!(worker.receive(), Some(FromWorker::ScriptDone { script: 1 }));
        assert_eq!(worker.receive(), None);
        assert!(worker.end().success());
        outcomes
    };
    workers.iter_mut().map(outcomes_of).collect()
}

pub(crate) fn bootstrap(worker: &mut Worker) -> Vec<u8> {
    let mut message = worker.receive();
    if matches!(message, Some(FromWorker::Library { .. })) {
        message = worker.receive();
    }
    match message {
        Some(FromWorker::Bootstrap(bytes)) => bytes,
        other => panic!("{other:?}"),
    }
}

pub(crate) fn report(worker: &mut Worker) -> EngineReport {
    match worker.receive() {
        Some(FromWorker::Connected { setup_us: 1.., engine }) => *engine,
        other => panic!("{other:?}"),
    }
}

pub(crate) fn outcome(worker: &mut Worker) -> ItemOutcome {
    match worker.receive() {
        Some(FromWorker::Item { outcome, .. }) => outcome,
        other => panic!("{other:?}"),
    }
}

pub(crate) const TREE_LL: Choice = Choice { algorithm: Algorithm::Tree, protocol: Protocol::Ll, channels: 4 };

pub(crate) fn chosen(choice: Choice) -> Item {
    Item { choice: Some(choice), ..item(Collective::AllReduce, 4096) }
}

pub(crate) fn timed(outcome: &ItemOutcome) -> &Times {
    match outcome {
        ItemOutcome::Timed(times) => times,
        other => panic!("{other:?}"),
    }
}

pub(crate) fn unsupported(outcome: ItemOutcome) -> String {
    match outcome {
        ItemOutcome::Unsupported(why) => why,
        other => panic!("{other:?}"),
    }
}

/// What ran, as one rank says.
pub(crate) fn selected(outcome: &ItemOutcome) -> String {
    timed(outcome).selected.map(|choice| choice.to_string()).unwrap_or_default()
}
