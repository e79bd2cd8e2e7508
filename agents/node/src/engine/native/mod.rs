//! Our own collectives on host memory, over TCP or RDMA verbs.
//!
//! One thread per rank moves all data over connections that do not block ([`transport`]). A call is planned ([`plan`]), bound
//! to connections and run ([`pump`]). This module owns the order of things: bootstrap, connect, prepare, measure. It must not
//! know how a plan is made or how bytes move.

mod barrier;
mod config;
mod element;
#[cfg(feature = "test-faults")]
mod fault;
pub(super) mod pattern;
pub(super) mod plan;
mod pump;
#[cfg(any(test, feature = "rdma"))]
mod ring;
mod select;
mod split;
pub(crate) mod tcp;
pub(super) mod timing;
mod transport;
mod tree;
#[cfg_attr(not(feature = "rdma"), path = "no_verbs.rs")]
mod verbs;
mod wait;

use std::{
    collections::BTreeSet,
    hash::{DefaultHasher, Hash, Hasher},
    time::{Duration, Instant},
};

use gdrtune_wire::{EngineReport, Item, ItemOutcome, WorkerInit};

pub use self::config::{
    CHUNK_VARIABLE, HCA_VARIABLE, IFNAME_VARIABLE, NativeConfig, SOCKETS_VARIABLE, TRANSPORT_VARIABLE, Transport,
    VerbsConfig,
};
use self::{
    element::Kernel,
    pattern::Pattern,
    plan::Call,
    pump::{Buffers, Pump},
    select::{Circumstances, Selected, select},
    transport::{Identity, Mesh, Offer, Opened},
};
use super::{Engine, EngineError, RuleSource};

/// Changes whenever ranks of different builds could not work together.
const BOOTSTRAP_VERSION: u16 = 2;

/// What a rank tells the others.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
struct Bootstrap {
    version: u16,
    sockets_per_channel: usize,
    offer: Offer,
}

/// A rank of the native engine.
pub struct NativeEngine {
    init: WorkerInit,
    config: NativeConfig,
    rules: Option<Box<dyn RuleSource>>,
    stage: Stage,
    #[cfg(feature = "test-faults")]
    fault: Option<fault::Fault>,
}

/// How far the engine is.
enum Stage {
    New,
    Open(Box<Opened>),
    Connected(Box<Ready>),
    Broken,
}

/// What a connected rank works with.
struct Ready {
    mesh: Mesh,
    buffers: Buffers,
    /// Bytes of the input that are backed by memory of their own.
    touched: usize,
    /// Counts barriers, so that ranks that are out of step notice.
    meetings: u64,
}

/// An item made ready to plan.
#[derive(Clone, Copy)]
struct Resolved {
    selected: Selected,
    call: Call,
}

impl NativeEngine {
    /// A rank that has opened nothing yet. `rules` choose for items without a choice.
    ///
    /// # Errors
    /// [`EngineError::Setting`] where a fault for tests is asked for wrongly.
    pub fn new(
        init: WorkerInit,
        config: NativeConfig,
        rules: Option<Box<dyn RuleSource>>,
    ) -> Result<Self, EngineError> {
        Ok(Self {
            #[cfg(feature = "test-faults")]
            fault: fault::Fault::from_environment(init.rank)?,
            init,
            config,
            rules,
            stage: Stage::New,
        })
    }

    fn identity(&self) -> Identity {
        Identity { rank: self.init.rank, world: self.init.world, key: self.init.key.clone() }
    }

    /// What the item runs; the error says why it cannot, and is the same on all ranks.
    fn resolve(&self, item: &Item, rails: usize) -> Result<Resolved, String> {
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
        if item.graph {
            return Err("the native engine has no CUDA graphs".to_owned());
        }
        let bytes = item.point.bytes as usize;
        let at = Circumstances { collective, bytes, world, rails };
        let selected = if item.choice.is_some() {
            select(item.choice, at)?
        } else {
            let rule = self.rules.as_ref().and_then(|rules| rules.lookup(item.point, self.init.nodes, world));
            // As in NCCL, a rule that cannot be followed leaves the choice to the engine.
            select(rule, at).or_else(|_| select(None, at))?
        };
        let call = Call {
            collective,
            algorithm: selected.algorithm,
            bytes,
            element: item.data_type.bytes() as usize,
            rank: self.init.rank,
            world,
            root: item.root,
            in_place: item.in_place,
            lanes: selected.channels * self.config.sockets_per_channel,
        };
        Ok(Resolved { selected, call })
    }

    /// Takes the connected state; after an error it does not come back, as streams are cut in mid-message then.
    fn take_ready(&mut self) -> Result<Box<Ready>, EngineError> {
        match std::mem::replace(&mut self.stage, Stage::Broken) {
            Stage::Connected(ready) => Ok(ready),
            Stage::New | Stage::Open(_) => Err(EngineError::Order("measure comes after connect")),
            Stage::Broken => Err(EngineError::Order("nothing comes after a failure")),
        }
    }

    /// Reads a rank's bootstrap bytes; the error says what does not fit.
    fn read_peer(&self, bytes: &[u8]) -> Result<Offer, String> {
        let peer: Bootstrap =
            postcard::from_bytes(bytes).map_err(|error| format!("its bootstrap bytes cannot be read: {error}"))?;
        if peer.version != BOOTSTRAP_VERSION {
            return Err(format!("it speaks version {}, this rank {BOOTSTRAP_VERSION}", peer.version));
        }
        let (theirs, ours) = (peer.sockets_per_channel, self.config.sockets_per_channel);
        if theirs != ours {
            return Err(format!("it has {SOCKETS_VARIABLE}={theirs}, this rank {ours}: set one value on all ranks"));
        }
        Ok(peer.offer)
    }

    fn measure_ready(&self, ready: &mut Ready, item: &Item) -> Result<ItemOutcome, EngineError> {
        let deadline = Instant::now() + Duration::from_millis(item.lease_ms);
        let resolved = match self.resolve(item, ready.mesh.rails()) {
            Ok(resolved) => resolved,
            Err(why) => return Ok(ItemOutcome::Unsupported(why)),
        };
        let Resolved { selected, call } = resolved;
        let plan = call.plan();
        if plan.uses_scratch() {
            ready.buffers.grow_scratch();
        }
        let kernel = Kernel::new(item.data_type, item.op);
        let manner = selected.manner(self.config.chunk_bytes);
        let pump = Pump::new(plan, &ready.mesh.table, kernel, call.element, manner)?;
        let mut run = Run { engine: self, ready, pump, item, resolved, deadline };
        run.meet(false)?;
        if !item.check {
            run.ready.touch(call.span());
        } else if let Some(wrong) = run.check()? {
            return Ok(wrong);
        }
        for _ in 0..item.warmup {
            run.once()?;
        }
        run.meet(false)?;
        let mut watch = timing::Watch::start(item.iterations);
        for _ in 0..item.iterations {
            run.once()?;
            watch.lap();
        }
        Ok(ItemOutcome::Timed(watch.times(selected.choice(item.point.collective), item.check)))
    }
}

/// One item while it runs.
struct Run<'a> {
    engine: &'a NativeEngine,
    ready: &'a mut Ready,
    pump: Pump,
    item: &'a Item,
    resolved: Resolved,
    deadline: Instant,
}

impl Run<'_> {
    /// Runs the call once.
    fn once(&mut self) -> Result<(), EngineError> {
        #[cfg(feature = "test-faults")]
        if let Some(fault) = &self.engine.fault {
            fault.strike(self.item.point.collective, self.resolved.selected);
        }
        self.pump.run(&mut self.ready.mesh, &mut self.ready.buffers, self.deadline)
    }

    /// Runs the call on known input. An outcome comes back where any rank's result is wrong; then all ranks stop here.
    fn check(&mut self) -> Result<Option<ItemOutcome>, EngineError> {
        let pattern = Pattern { call: self.resolved.call, data_type: self.item.data_type, op: self.item.op };
        let (input, output) = self.ready.buffers.ends();
        pattern.fill(input, output);
        self.ready.touched = self.ready.touched.max(pattern.call.span());
        self.once()?;
        let (input, output) = self.ready.buffers.ends();
        #[cfg(feature = "test-faults")]
        if let Some(fault) = &self.engine.fault {
            let result = pattern.result(input, output);
            fault.spoil(self.item.point.collective, self.resolved.selected, result);
        }
        let difference = pattern.check(input, output);
        if !self.meet(difference.is_some())? {
            return Ok(None);
        }
        Ok(Some(match difference {
            Some(found) => ItemOutcome::Wrong { elements: found.elements, first: found.first },
            None => ItemOutcome::Wrong { elements: 0, first: "right on this rank, wrong on another one".to_owned() },
        }))
    }

    /// Waits for all ranks; true where any of them says true.
    fn meet(&mut self, flag: bool) -> Result<bool, EngineError> {
        let (item, selected, init) = (self.item, self.resolved.selected, &self.engine.init);
        let what = format!(
            "{} with {}/{}/{}, {} {}, root {}, in place {}",
            item.point,
            selected.algorithm,
            selected.protocol,
            selected.channels,
            item.data_type,
            item.op,
            item.root,
            item.in_place
        );
        self.ready.meetings += 1;
        let mut hasher = DefaultHasher::new();
        (&what, self.ready.meetings, self.engine.config.chunk_bytes).hash(&mut hasher);
        barrier::meet(&mut self.ready.mesh, (init.rank, init.world), (hasher.finish(), flag), &what, self.deadline)
    }
}

impl Ready {
    /// Gives the first `bytes` of the input memory of their own: pages that were never written share one page of zeros,
    /// which would be read from the cache.
    fn touch(&mut self, bytes: usize) {
        if self.touched < bytes {
            let (input, _) = self.buffers.ends();
            input[self.touched..bytes].fill(0);
            self.touched = bytes;
        }
    }
}

impl Engine for NativeEngine {
    fn bootstrap(&mut self) -> Result<Vec<u8>, EngineError> {
        let opened = Opened::open(&self.identity(), &self.config)?;
        let blob = Bootstrap {
            version: BOOTSTRAP_VERSION,
            sockets_per_channel: self.config.sockets_per_channel,
            offer: opened.offer()?,
        };
        let bytes = postcard::to_stdvec(&blob).map_err(|error| EngineError::System {
            what: "encode the bootstrap bytes".to_owned(),
            source: std::io::Error::other(error),
        })?;
        self.stage = Stage::Open(Box::new(opened));
        Ok(bytes)
    }

    fn connect(&mut self, peers: &[Vec<u8>], deadline: Instant) -> Result<(), EngineError> {
        let Stage::Open(opened) = std::mem::replace(&mut self.stage, Stage::Broken) else {
            return Err(EngineError::Order("connect comes once, after bootstrap"));
        };
        if peers.len() != self.init.world as usize {
            let why = format!("{} ranks' bootstrap bytes came for a group of {}", peers.len(), self.init.world);
            return Err(EngineError::Peer { rank: self.init.rank, why });
        }
        let mut offers = Vec::with_capacity(peers.len());
        for (rank, bytes) in peers.iter().enumerate() {
            let offer = self.read_peer(bytes);
            offers.push(offer.map_err(|why| EngineError::Peer { rank: rank as u32, why })?);
        }
        let mut mesh = opened.meet(&self.identity(), &self.config, offers)?;
        // The barrier's connections prove that the ranks can reach each other; all others follow with the scripts.
        let links = barrier::links(self.init.rank, self.init.world, mesh.meeting_lane());
        mesh.ensure(&links, deadline)?;
        let buffers = Buffers::new(self.init.max_bytes as usize);
        self.stage = Stage::Connected(Box::new(Ready { mesh, buffers, touched: 0, meetings: 0 }));
        Ok(())
    }

    fn report(&self) -> EngineReport {
        let Stage::Connected(ready) = &self.stage else { return EngineReport::default() };
        EngineReport { network: ready.mesh.network(), ..EngineReport::default() }
    }

    fn prepare(&mut self, items: &[Item], deadline: Instant) -> Result<(), EngineError> {
        let mut ready = self.take_ready()?;
        let mut links = BTreeSet::new();
        for item in items {
            // What cannot be run needs no connection; `measure` says why.
            if let Ok(resolved) = self.resolve(item, ready.mesh.rails()) {
                links.extend(resolved.call.plan().links());
            }
        }
        ready.mesh.ensure(&links, deadline)?;
        self.stage = Stage::Connected(ready);
        Ok(())
    }

    fn measure(&mut self, item: &Item) -> Result<ItemOutcome, EngineError> {
        let mut ready = self.take_ready()?;
        let outcome = self.measure_ready(&mut ready, item)?;
        self.stage = Stage::Connected(ready);
        Ok(outcome)
    }
}
