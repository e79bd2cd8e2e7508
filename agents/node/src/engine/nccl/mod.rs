//! NVIDIA's NCCL on one GPU per rank, found at run time.
//!
//! Collectives run on device memory in one stream; choices switch inside the communicator through our tuner plugin. This
//! module owns the order of things: bootstrap, connect, prepare, measure. What hangs in NCCL hangs here: the agent's lease
//! ends it.

mod api;
mod bootstrap;
mod communicator;
mod config;
pub(crate) mod device;
pub(crate) mod loader;
mod log;
mod log_file;
mod memory;
mod registration;
mod run;
mod tuner_link;

use std::{collections::HashSet, fs, time::Instant};

use gdrtune_profiles::vocab::{Algorithm, Choice, Collective};
use gdrtune_wire::{EngineReport, Item, ItemOutcome, WorkerInit};

pub use self::config::{
    GPU_VARIABLE, HOST_ID_VARIABLE, LIBRARY_VARIABLE, LOCAL_RANK_VARIABLE, LOG_REQUEST_VARIABLES, LOG_VARIABLE,
    NCCL_PLUGIN_VARIABLE, NcclConfig, PLUGIN_VARIABLE, RULES_VARIABLE,
};
pub(crate) use self::loader::{WHEEL_PATH, package_folders};
use self::{
    bootstrap::Bootstrap,
    communicator::Communicator,
    device::Device,
    loader::Nccl,
    log_file::LogFile,
    memory::Buffers,
    registration::Registrar,
    run::{MOST_EVENTS, Run},
    tuner_link::TunerLink,
};
use super::{Engine, EngineError, native::plan::Call};

/// The kernel's name for this boot of this machine.
const BOOT_ID_FILE: &str = "/proc/sys/kernel/random/boot_id";

/// A rank of the NCCL engine.
pub struct NcclEngine {
    init: WorkerInit,
    config: NcclConfig,
    stage: Stage,
}

/// How far the engine is.
enum Stage {
    New,
    Loaded(Box<Loaded>),
    Connected(Box<Ready>),
    /// On the way to the next stage, or never to get there.
    Broken,
}

/// What a rank has before it has peers.
struct Loaded {
    nccl: Nccl,
    device: Device,
    tuner: Tuner,
    log: Option<LogFile>,
    /// Where buffers are to be registered.
    registrar: Option<Registrar>,
}

/// Our end of a tuner plugin.
enum Tuner {
    /// None of ours is loaded: NCCL chooses as it does for everybody.
    Absent,
    /// It takes choices.
    Live(TunerLink),
    /// NCCL, on this rank or another one, never asked it: choices are refused with this text.
    Silent(String),
    /// It runs by its rules, and tells what it decided.
    Deployed(TunerLink),
}

/// What a connected rank works with.
struct Ready {
    // Order matters: the communicator ends before the memory that it may still use; see `drop` for what it knows of.
    comm: Communicator,
    buffers: Buffers,
    device: Device,
    tuner: Tuner,
    /// NCCL's log, where it keeps one for us.
    log: Option<LogFile>,
    /// What was called before, so that the first call's set-up is never timed.
    called: HashSet<(Collective, Option<Choice>)>,
}

impl Drop for Ready {
    /// A communicator that is aborted forgets registrations by itself, and what is on the GPU may still use them.
    fn drop(&mut self) {
        if self.comm.is_usable() && self.has_registrations() && self.release().is_err() {
            self.comm.give_up();
        }
    }
}

impl NcclEngine {
    /// A rank that has loaded nothing yet.
    pub fn new(init: WorkerInit, config: NcclConfig) -> Self {
        Self { init, config, stage: Stage::New }
    }

    fn open_tuner(&self) -> Result<Tuner, EngineError> {
        if let Some(path) = &self.config.live_plugin {
            let link = TunerLink::open(path)?;
            link.clear();
            return Ok(Tuner::Live(link));
        }
        // A site may deploy with another plugin; then nobody tells what ran.
        let link = self.config.deployed_plugin.as_ref().and_then(|path| TunerLink::open(path).ok());
        Ok(link.map_or(Tuner::Absent, Tuner::Deployed))
    }

    /// Rules that nobody follows would be measured as if they did nothing.
    fn check_rules(&self, ready: &Ready) -> Result<(), EngineError> {
        let is_deaf = match &ready.tuner {
            Tuner::Deployed(link) => link.calls() == 0,
            Tuner::Absent => true,
            Tuner::Live(_) | Tuner::Silent(_) => false,
        };
        if !(self.config.has_rules && is_deaf) {
            return Ok(());
        }
        let plugin = self.config.deployed_plugin.as_ref().map_or_else(String::new, |path| path.display().to_string());
        let why = format!("NCCL {} did not load the tuner plugin {plugin}, or does not ask it", ready.comm.version());
        Err(EngineError::Library { what: "run by the emitted rules".to_owned(), why })
    }

    /// What the item runs; the error says why it cannot, and is the same on all ranks.
    fn resolve(&self, item: &Item, tuner: &Tuner) -> Result<Call, String> {
        let (collective, world) = (item.point.collective, self.init.world);
        if item.point.bytes > self.init.max_bytes {
            return Err(format!("{} bytes do not fit buffers of {}", item.point.bytes, self.init.max_bytes));
        }
        if item.root >= world {
            return Err(format!("there is no root {} among {world} ranks", item.root));
        }
        if item.in_place && !collective.has_choice() {
            return Err(format!("{collective} has no in-place form"));
        }
        if item.choice.is_some() && !collective.has_choice() {
            return Err(format!("NCCL has no choice for {collective}"));
        }
        match tuner {
            Tuner::Live(_) => {}
            _ if item.choice.is_none() => {}
            Tuner::Silent(why) => return Err(why.clone()),
            Tuner::Absent | Tuner::Deployed(_) => {
                return Err("choices need the tuner plugin, and this worker was started without it".to_owned());
            }
        }
        let call = Call {
            collective,
            // NCCL's own matter; only positions in buffers are asked of this.
            algorithm: Algorithm::Ring,
            bytes: item.point.bytes as usize,
            element: item.data_type.bytes() as usize,
            rank: self.init.rank,
            world,
            root: item.root,
            in_place: item.in_place,
            lanes: 1,
        };
        if call.count() == 0 {
            return Err(format!("{} bytes are less than one {} for each rank", item.point.bytes, item.data_type));
        }
        Ok(call)
    }

    /// Takes the connected state, where it is of use.
    fn take_ready(&mut self) -> Result<Box<Ready>, EngineError> {
        match std::mem::replace(&mut self.stage, Stage::Broken) {
            Stage::Connected(ready) if ready.comm.is_usable() => Ok(ready),
            Stage::New | Stage::Loaded(_) => Err(EngineError::Order("measure comes after connect")),
            Stage::Connected(_) | Stage::Broken => Err(EngineError::Order("nothing comes after a failure")),
        }
    }

    /// Runs `work` on the connected state. What is left after a failure is ended with the engine: that may hang, so
    /// whoever runs the engine tells people first.
    fn with_ready<T>(
        &mut self,
        work: impl FnOnce(&Self, &mut Ready) -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        let mut ready = self.take_ready()?;
        let result = work(self, &mut ready).map_err(|error| log_file::explained(error, ready.log.as_mut()));
        if result.is_err() {
            ready.comm.give_up();
        }
        self.stage = Stage::Connected(ready);
        result
    }

    fn measure_ready(&self, ready: &mut Ready, item: &Item) -> Result<ItemOutcome, EngineError> {
        let call = match self.resolve(item, &ready.tuner) {
            Ok(call) => call,
            Err(why) => return Ok(ItemOutcome::Unsupported(why)),
        };
        if !ready.make_room(call.span(), self.init.max_bytes as usize)? {
            return Ok(ItemOutcome::Unsupported(ready.buffers.why_no_room(call.span())));
        }
        ready.device.reserve_events(MOST_EVENTS)?;
        Run::new(ready, item, call).measure()
    }
}

impl Ready {
    /// The first calls: they prove that data flows, pay for what NCCL sets up with them, and show whether NCCL asks the
    /// plugin. A choice on a rank that takes none would hang the others, so all ranks take choices or none.
    fn settle(&mut self) -> Result<(), EngineError> {
        self.meet([0; memory::FLAGS])?;
        if let Some(log) = &mut self.log {
            log.catch_up();
        }
        let is_deaf = !matches!(&self.tuner, Tuner::Live(link) if link.calls() > 0);
        let [is_any_deaf, ..] = self.meet([i32::from(is_deaf), 0, 0, 0])?;
        if is_any_deaf != 0 && matches!(self.tuner, Tuner::Live(_)) {
            self.tuner = Tuner::Silent(self.why_silent(is_deaf));
        }
        Ok(())
    }

    fn why_silent(&self, is_own: bool) -> String {
        if !is_own {
            return "the tuner plugin was not called on another rank, so choices cannot be made".to_owned();
        }
        let version = self.comm.version();
        let mut why = format!("the tuner plugin was not called: NCCL {version} runs without it");
        if version < loader::Version::FIRST_WITH_PLUGIN {
            why += " (2.21 is the first that can load it)";
        }
        // What NCCL was told is no news here. The very last may say less than the one before it: that NCCL goes on by itself.
        let all = self.log.as_ref().map_or(&[][..], |log| &log.facts.tuner);
        let news: Vec<&str> = all.iter().map(String::as_str).filter(|text| !text.contains("set by env")).collect();
        let said = news[news.len().saturating_sub(2)..].join("; ");
        if said.is_empty() { why } else { format!("{why}; its log says: {said}") }
    }

    /// What NCCL's log said, where it said anything.
    fn facts(&self) -> Option<&log::Facts> {
        // Every version counts its channels once the communicator is made: a log without that is not NCCL's.
        self.log.as_ref().map(|log| &log.facts).filter(|facts| facts.channels.is_some())
    }
}

impl Engine for NcclEngine {
    fn bootstrap(&mut self) -> Result<Vec<u8>, EngineError> {
        // First: NCCL reads its environment when it is loaded.
        let log = self.config.log.as_deref().and_then(LogFile::open);
        let device = Device::open(&self.config)?;
        let nccl = Nccl::load(self.config.library.as_deref())?;
        let registrar = self.init.register_buffers.then(|| Registrar::new(&nccl)).transpose()?;
        let tuner = self.open_tuner()?;
        let host = self.config.host_id.clone().unwrap_or_else(boot_id);
        let gpu = (device.name.clone(), device.pci.clone());
        let mut own = Bootstrap::new(nccl.version, nccl.path.display().to_string(), host, gpu);
        if self.init.rank == 0 {
            own.unique_id = Some(communicator::make_unique_id(&nccl)?);
        }
        let bytes = own.encode()?;
        self.stage = Stage::Loaded(Box::new(Loaded { nccl, device, tuner, log, registrar }));
        Ok(bytes)
    }

    fn connect(&mut self, peers: &[Vec<u8>], _deadline: Instant) -> Result<(), EngineError> {
        let Stage::Loaded(loaded) = std::mem::replace(&mut self.stage, Stage::Broken) else {
            return Err(EngineError::Order("connect comes once, after bootstrap"));
        };
        let Loaded { nccl, device, tuner, mut log, registrar } = *loaded;
        let id = bootstrap::agree(peers, self.init.world)?;
        let comm = Communicator::join(nccl, &id, self.init.rank, self.init.world)
            .map_err(|error| log_file::explained(error, log.as_mut()))?;
        let buffers = Buffers::new(registrar)?;
        let ready = Ready { comm, buffers, device, tuner, log, called: HashSet::new() };
        self.stage = Stage::Connected(Box::new(ready));
        self.with_ready(|engine, ready| {
            ready.settle()?;
            engine.check_rules(ready)
        })
    }

    fn library_version(&self) -> Option<String> {
        match &self.stage {
            Stage::Loaded(loaded) => Some(loaded.nccl.version.to_string()),
            _ => None,
        }
    }

    fn report(&self) -> EngineReport {
        let Stage::Connected(ready) = &self.stage else { return EngineReport::default() };
        EngineReport {
            version: Some(ready.comm.version().to_string()),
            library: Some(ready.comm.library()),
            device: Some(ready.device.name.clone()),
            channels: ready.facts().and_then(|facts| facts.channels),
            network: ready.facts().map(|facts| facts.network.clone()),
            gdr_log: ready.facts().map(log::Facts::gdr_lines).unwrap_or_default(),
            plugin_log: ready.log.as_ref().map(|log| log.facts.tuner.clone()).unwrap_or_default(),
        }
    }

    fn prepare(&mut self, items: &[Item], _deadline: Instant) -> Result<(), EngineError> {
        self.with_ready(|engine, ready| {
            let spans = items.iter().filter_map(|item| engine.resolve(item, &ready.tuner).ok()).map(|call| call.span());
            let Some(largest) = spans.max() else { return Ok(()) };
            // Where there is no room for the largest, the others may still run; `measure` says so for each.
            ready.make_room(largest, engine.init.max_bytes as usize).map(drop)
        })
    }

    fn measure(&mut self, item: &Item) -> Result<ItemOutcome, EngineError> {
        self.with_ready(|engine, ready| engine.measure_ready(ready, item))
    }
}

/// Names this machine where NCCL is not told a name: equal for all ranks that share its GPUs.
fn boot_id() -> String {
    fs::read_to_string(BOOT_ID_FILE).map(|text| text.trim().to_owned()).unwrap_or_default()
}
