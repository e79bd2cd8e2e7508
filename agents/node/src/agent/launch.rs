//! Turns a [`StartGroup`] into running workers.
//!
//! Checks the request, makes the environment, and starts one process per rank. Never a shell.

use std::{
    collections::BTreeSet,
    ffi::OsString,
    path::Path,
    sync::mpsc::SyncSender,
    time::{Duration, Instant},
};

use gdrtune_profiles::install;
use gdrtune_wire::{EndCause, Settings, StartGroup, ToWorker, WorkerInit, codec};

use super::{
    AgentConfig,
    bundles::Bundles,
    environment::{self, Variables},
    event::{Event, Serial},
    nccl_log::NcclLogs,
    process::{self, ChildSpec},
    progress::Progress,
    ranks,
    worker::{Identity, Worker},
    wrapper::Wrapper,
};

/// The sub-command that makes an executable a worker.
const WORKER_COMMAND: &str = "worker";

/// Its option that names a folder of emitted files.
const BUNDLE_OPTION: &str = "--ab";

/// What to do where the program of the user's command is not there.
const WRAPPER_HINT: &str = " (first word of the worker command: install it on this node, or write its path)";

/// What a start needs of the agent.
pub(super) struct Launcher<'a> {
    pub(super) config: &'a AgentConfig<'a>,
    pub(super) environment: &'a Variables,
    pub(super) bundles: &'a mut Bundles,
    pub(super) events: &'a SyncSender<Event>,
    /// Where the workers' NCCL is to log to, if it is.
    pub(super) logs: Option<&'a NcclLogs>,
}

/// What all ranks of a start share.
struct Prepared {
    /// Program and arguments of a worker.
    command: Vec<OsString>,
    shared: ranks::Shared,
    /// What starts that, where it is not started directly.
    wrapper: Option<Wrapper>,
}

/// What came of a start: each rank is in one of the two.
#[derive(Debug, Default)]
pub(super) struct Launched {
    pub(super) workers: Vec<Worker>,
    pub(super) failed: Vec<(u32, EndCause)>,
}

impl Launcher<'_> {
    /// Starts every rank of the group, or none that stays: one that cannot be started ends the others.
    pub(super) fn start(&mut self, now: Instant, start: &StartGroup, next_serial: &mut u64) -> Launched {
        let ranks: BTreeSet<u32> = start.ranks.iter().copied().collect();
        let prepared = match self.prepare(start, &ranks) {
            Ok(prepared) => prepared,
            Err(why) => {
                let failed = ranks.into_iter().map(|rank| (rank, EndCause::NotStarted(why.clone()))).collect();
                return Launched { workers: vec![], failed };
            }
        };
        let mut launched = Launched::default();
        for (local_rank, rank) in ranks.into_iter().enumerate() {
            *next_serial += 1;
            let identity = Identity { serial: Serial(*next_serial), rank };
            match self.start_rank(now, start, &prepared, identity, local_rank) {
                Ok(worker) => launched.workers.push(worker),
                Err(why) => launched.failed.push((rank, EndCause::NotStarted(why))),
            }
        }
        if !launched.failed.is_empty() {
            for worker in &mut launched.workers {
                worker.end(now, self.config.kill_grace, EndCause::PeerEnded);
            }
        }
        launched
    }

    fn start_rank(
        &self,
        now: Instant,
        start: &StartGroup,
        prepared: &Prepared,
        identity: Identity,
        local_rank: usize,
    ) -> Result<Worker, String> {
        let mut environment = ranks::of_rank(&prepared.shared, start, identity.rank, local_rank);
        if let Some(logs) = self.logs {
            logs.request(&mut environment, identity.rank)?;
        }
        let command = match &prepared.wrapper {
            Some(wrapper) => wrapper.command(identity, local_rank, &prepared.command, &environment)?,
            None => prepared.command.clone(),
        };
        let [program, arguments @ ..] = command.as_slice() else {
            return Err("the worker command is empty".to_owned());
        };
        let spec = ChildSpec { program: Path::new(program), arguments, environment: &environment };
        let init = ToWorker::Init(WorkerInit {
            rank: identity.rank,
            world: start.world,
            nodes: start.nodes,
            engine: start.engine,
            key: start.key.clone(),
            max_bytes: start.max_bytes,
            deadline_ms: start.deadline_ms,
            register_buffers: start.register_buffers,
            probe: start.probe.clone(),
        });
        let frame = codec::encode(&init).map_err(|error| format!("encode its init message: {error}"))?;
        let progress = Progress::new(now, Duration::from_millis(start.deadline_ms));
        Worker::start(identity, &spec, frame, progress, self.events).map_err(|error| {
            let hint = if prepared.wrapper.is_some() { WRAPPER_HINT } else { "" };
            format!("start {}: {error}{hint}", spec.program.display())
        })
    }

    /// Checks the request and makes what all ranks share.
    fn prepare(&mut self, start: &StartGroup, ranks: &BTreeSet<u32>) -> Result<Prepared, String> {
        if ranks.len() != start.ranks.len() {
            return Err(format!("ranks {:?} name one twice", start.ranks));
        }
        if let Some(rank) = ranks.last().filter(|rank| start.world <= **rank) {
            return Err(format!("rank {rank} is outside a group of {}", start.world));
        }
        let program = self.config.worker_program.clone().unwrap_or_else(process::own_executable);
        let is_link = program == Path::new(process::OWN_EXECUTABLE);
        let wrapper = Wrapper::prepare(&start.worker_command, &program, is_link, self.bundles)?;
        let program = wrapper.as_ref().map_or(program, |wrapper| wrapper.program().to_owned());
        let mut command = vec![program.into(), OsString::from(WORKER_COMMAND)];
        let mut rules = None;
        let environment = match &start.settings {
            Settings::Site => Ok(self.environment.clone()),
            Settings::Live(overlay) => environment::overlaid(self.environment, overlay),
            Settings::Deployed { bundle } => {
                let folder = self.bundles.folder(*bundle).ok_or_else(|| format!("bundle {bundle} was never stored"))?;
                command.extend([BUNDLE_OPTION.into(), folder.into()]);
                rules = environment::rules(folder).map_err(|error| error.to_string())?;
                environment::deployed(self.environment, folder)
            }
            Settings::Installed { folder } => {
                environment::from_file(self.environment, &Path::new(folder).join(install::ENV_FILE))
            }
        };
        let environment = environment.map_err(|error| error.to_string())?;
        Ok(Prepared { command, shared: ranks::Shared { environment, rules }, wrapper })
    }
}
