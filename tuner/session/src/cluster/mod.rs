//! The real cluster as a [`Bench`]: workers are started per setup, take many scripts, and are replaced when they die.
//!
//! Owns which groups of workers are alive and what is known of each point's pace. A hang, a crash or a wrong result is
//! a sample; the rest of the script runs in new processes. Only a lost node or a setup that cannot start ends a script.

mod config;
mod credit;
mod group;
pub mod link;
pub mod pace;
mod pairs;
mod probe;
mod rest;
mod running;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, HashMap, HashSet, VecDeque},
    time::{Duration, Instant},
};

use gdrtune_profiles::vocab::{Choice, Point};
use gdrtune_tuner::bench::{Bench, BenchError, BenchInfo, Cancel, Earlier, Outcome, Sample, Script, Setup};
use gdrtune_wire::{EngineReport, FromAgent, FromWorker, Prediction, ToAgent, ToWorker};

pub(crate) use self::config::shape;
pub use self::{
    config::{CallMode, ClusterConfig},
    pairs::PairProbe,
    probe::Probe,
};
use self::{
    group::{Group, describe},
    link::{Link, LinkEvent},
    pace::PaceBook,
    rest::Rest,
};
use crate::homogeneity::by_value;

/// How long a group may take from its start to a working communicator.
const SETUP_DEADLINE: Duration = Duration::from_secs(30);

/// What an agent may add to a lease before the coordinator stops waiting for it: TERM, grace, KILL, reap.
pub(crate) const AGENT_GRACE: Duration = Duration::from_secs(10);

/// Longest wait for one event, so that a cancel acts soon.
const POLL: Duration = Duration::from_millis(50);

/// Groups kept alive at once: the default arm's and the search's.
const MAX_GROUPS: usize = 2;

/// Something that happened to the workers, for whoever records the run.
#[derive(Debug, Clone, PartialEq)]
pub enum ClusterNote {
    /// A group is up.
    WorkersStarted {
        /// Running number of the set of processes.
        process: u32,
        /// What it runs with, for people.
        setup: String,
        /// Time from the start to a working communicator.
        setup_time: Duration,
        /// What the ranks run with, over all of them.
        engine: Box<EngineReport>,
        /// What each runs with, in rank order.
        ranks: Vec<EngineReport>,
    },
    /// A node is gone.
    NodeLost {
        /// Position in rank order.
        node: usize,
        /// Why.
        why: String,
    },
    /// A line for the log.
    Log {
        /// Position in rank order.
        node: usize,
        /// Whether somebody should look at it.
        warning: bool,
        /// The line.
        line: String,
    },
}

/// The cluster behind a [`Link`].
pub struct ClusterBench<'a> {
    link: Box<dyn Link + 'a>,
    config: ClusterConfig,
    started: Instant,
    /// What the clock showed then: not 0 in a run that another process began.
    started_s: f64,
    groups: VecDeque<Group>,
    next_group: u32,
    next_script: u64,
    next_bundle: u32,
    bundles: HashMap<Setup, u32>,
    book: PaceBook,
    /// Points and choices whose result was checked, per set of processes.
    checked: HashSet<(u32, Point, Option<Choice>)>,
    notes: Box<dyn FnMut(ClusterNote) + 'a>,
    /// What the group that was started last runs with.
    last_report: EngineReport,
    /// The library's predictions for points that ran with its own choice.
    predictions: BTreeMap<Point, Vec<Prediction>>,
    /// Why the cluster is gone. A node's loss is told once, perhaps while a group is being ended.
    lost: Option<String>,
}

impl<'a> ClusterBench<'a> {
    /// A bench over connected nodes. `notes` hears what happens to the workers.
    pub fn new(link: Box<dyn Link + 'a>, config: ClusterConfig, notes: Box<dyn FnMut(ClusterNote) + 'a>) -> Self {
        Self {
            link,
            config,
            started: Instant::now(),
            started_s: 0.0,
            groups: VecDeque::new(),
            next_group: 0,
            next_script: 0,
            next_bundle: 0,
            bundles: HashMap::new(),
            book: PaceBook::default(),
            checked: HashSet::new(),
            notes,
            last_report: EngineReport::default(),
            predictions: BTreeMap::new(),
            lost: None,
        }
    }

    /// Ends all workers and waits until the agents have reaped them, or the grace is over.
    pub fn close(&mut self) {
        while let Some(mut group) = self.groups.pop_front() {
            self.end_group(&mut group);
        }
    }

    /// Numbers sets of processes from `first` on, as a run does that has had others.
    pub fn number_processes_from(&mut self, first: u32) {
        self.next_group = first;
    }

    /// Ends all workers and lays the ranks out anew: `slots` on the first nodes, in rank order. What was learnt of points
    /// belongs to the old layout and is forgotten.
    pub fn reshape(&mut self, slots: Vec<u32>) {
        self.close();
        self.config.slots = slots;
        // Other nodes may not have them.
        self.bundles.clear();
        self.book = PaceBook::default();
        self.predictions.clear();
    }

    fn world(&self) -> u32 {
        self.config.slots.iter().sum()
    }

    /// Waits for the next event that concerns `group`, and files it. Other groups' ends are filed too.
    fn pump(&mut self, group: &mut Group, cancel: Option<&Cancel>) -> Result<(), BenchError> {
        if cancel.is_some_and(Cancel::is_cancelled) {
            return Err(BenchError::Cancelled);
        }
        match self.link.receive(POLL) {
            None => Ok(()),
            Some(LinkEvent::Lost { node, why }) => Err(self.lose(node, &why)),
            Some(LinkEvent::Log { node, line }) => {
                (self.notes)(ClusterNote::Log { node, warning: false, line });
                Ok(())
            }
            Some(LinkEvent::Message { node, message }) => {
                self.file_message(group, node, message);
                Ok(())
            }
        }
    }

    fn file_message(&mut self, group: &mut Group, node: usize, message: FromAgent) {
        match message {
            FromAgent::Worker { group: id, rank, message: FromWorker::Output(line) } => {
                (self.notes)(ClusterNote::Log { node, warning: false, line: format!("rank {rank}: {line}") });
                if id == group.id {
                    group.file(rank, FromWorker::Output(line));
                }
            }
            FromAgent::Worker { group: id, rank, message } if id == group.id => group.file(rank, message),
            FromAgent::WorkerEnded { group: id, rank, cause } if id == group.id => group.file_end(rank, cause),
            FromAgent::WorkerEnded { group: id, rank, cause } => {
                if let Some(other) = self.groups.iter_mut().find(|g| g.id == id) {
                    other.file_end(rank, cause);
                }
            }
            FromAgent::FilesStored { bundle } => group.file_stored(bundle),
            FromAgent::Refused { why } => {
                (self.notes)(ClusterNote::Log { node, warning: true, line: why.clone() });
                let first: u32 = self.config.slots.iter().take(node).sum();
                let count = self.config.slots.get(node).copied().unwrap_or_default();
                group.file_refused(first..first + count, why);
            }
            FromAgent::Log(line) => (self.notes)(ClusterNote::Log { node, warning: true, line }),
            FromAgent::Worker { .. }
            | FromAgent::Hello(_)
            | FromAgent::Pong(_)
            | FromAgent::Inventory(_)
            | FromAgent::Lock(_)
            | FromAgent::Installation(_)
            | FromAgent::Listening(_)
            | FromAgent::Dialled(_)
            | FromAgent::Clock(_) => {}
        }
    }

    fn lose(&mut self, node: usize, why: &str) -> BenchError {
        (self.notes)(ClusterNote::NodeLost { node, why: why.to_owned() });
        let host = self.config.hosts.get(node).map_or("a node", String::as_str);
        let why = format!("{host} is lost: {why}");
        self.lost.get_or_insert_with(|| why.clone());
        BenchError::Lost(why)
    }

    fn check_lost(&self) -> Result<(), BenchError> {
        self.lost.clone().map_or(Ok(()), |why| Err(BenchError::Lost(why)))
    }

    /// A living group with this setup, or a new one.
    fn take_group(&mut self, script: &Script, cancel: &Cancel) -> Result<Group, BenchError> {
        self.check_lost()?;
        let found = self.groups.iter().position(|g| g.setup == script.setup);
        if let Some(mut group) = found.and_then(|at| self.groups.remove(at)) {
            if !script.fresh && group.is_alive() {
                return Ok(group);
            }
            self.end_group(&mut group);
        }
        // A fresh pair of arms runs alone; otherwise the default arm's workers may sleep beside the search's.
        let keep = if script.fresh { 0 } else { MAX_GROUPS - 1 };
        while self.groups.len() > keep {
            if let Some(mut oldest) = self.groups.pop_front() {
                self.end_group(&mut oldest);
            }
        }
        self.start_group(&script.setup, cancel)
    }

    fn start_group(&mut self, setup: &Setup, cancel: &Cancel) -> Result<Group, BenchError> {
        let begun = Instant::now();
        let id = self.next_group;
        self.next_group += 1;
        let mut group = Group::new(id, setup.clone(), self.world());
        let bundle = match setup {
            Setup::Deployed(files) => Some(self.store_bundle(&mut group, setup, files, cancel)?),
            Setup::Site | Setup::Live(_) => None,
        };
        let result = self.bring_up(&mut group, bundle, cancel, begun + SETUP_DEADLINE);
        match result {
            Ok(()) => {
                let (setup, setup_time) = (describe(setup), begun.elapsed());
                self.last_report = group.report();
                let (engine, ranks) = (Box::new(self.last_report.clone()), group.reports());
                (self.notes)(ClusterNote::WorkersStarted { process: id, setup, setup_time, engine, ranks });
                Ok(group)
            }
            Err(error) => {
                self.end_group(&mut group);
                Err(error)
            }
        }
    }

    /// Puts the emitted files on every node, once per set of files.
    fn store_bundle(
        &mut self,
        group: &mut Group,
        setup: &Setup,
        files: &[(String, String)],
        cancel: &Cancel,
    ) -> Result<u32, BenchError> {
        if let Some(&bundle) = self.bundles.get(setup) {
            return Ok(bundle);
        }
        let bundle = self.next_bundle;
        self.next_bundle += 1;
        let files: Vec<(String, Vec<u8>)> = files.iter().map(|(n, t)| (n.clone(), t.clone().into_bytes())).collect();
        for node in 0..self.config.slots.len() {
            self.link.send(node, ToAgent::StoreFiles { bundle, files: files.clone() });
        }
        let deadline = Instant::now() + SETUP_DEADLINE;
        group.expect_stored(bundle, self.config.slots.len());
        while !group.all_stored() {
            self.pump(group, Some(cancel))?;
            if let Some(why) = group.refusal() {
                return Err(BenchError::Setup { setup: describe(setup), why });
            }
            if Instant::now() > deadline {
                return Err(BenchError::Setup { setup: describe(setup), why: "files were not stored in time".into() });
            }
        }
        self.bundles.insert(setup.clone(), bundle);
        Ok(bundle)
    }

    fn bring_up(
        &mut self,
        group: &mut Group,
        bundle: Option<u32>,
        cancel: &Cancel,
        deadline: Instant,
    ) -> Result<(), BenchError> {
        for (node, start) in group.start_messages(&self.config, bundle, SETUP_DEADLINE) {
            self.link.send(node, ToAgent::Start(start));
        }
        self.wait_for(group, cancel, deadline, Group::all_bootstrapped)?;
        if let Some(why) = self.other_versions(group) {
            return Err(BenchError::Setup { setup: describe(&group.setup), why });
        }
        let connect = ToWorker::Connect { peers: group.take_bootstrap() };
        self.tell_workers(group, &connect);
        self.wait_for(group, cancel, deadline, Group::all_connected)
    }

    /// That nodes have loaded different versions of NCCL, which can hang where it does not refuse them itself.
    fn other_versions(&self, group: &Group) -> Option<String> {
        // Of every rank, or of none where the engine has no library.
        let of_rank = group.library_versions();
        let ranks = self.config.hosts.iter().zip(&self.config.slots);
        let ranks = ranks.flat_map(|(host, &slots)| std::iter::repeat_n(host.as_str(), slots as usize));
        let mut known: Vec<(&str, String)> = ranks.zip(of_rank.iter().map(|version| (*version).to_owned())).collect();
        known.dedup();
        let versions = by_value(known.into_iter());
        let texts: Vec<String> = versions.iter().map(|(hosts, version)| format!("{hosts}: {version}")).collect();
        (texts.len() > 1).then(|| {
            format!(
                "the version of NCCL differs: {}; install one on all hosts, name it with --nccl PATH, or leave hosts out \
                 with -x",
                texts.join("; ")
            )
        })
    }

    /// Waits until `done`; a worker that ends, or the deadline, is a failed setup.
    fn wait_for(
        &mut self,
        group: &mut Group,
        cancel: &Cancel,
        deadline: Instant,
        done: fn(&Group) -> bool,
    ) -> Result<(), BenchError> {
        loop {
            if done(group) {
                return Ok(());
            }
            self.pump(group, Some(cancel))?;
            let why = match (group.refusal(), group.first_end()) {
                (Some(why), _) => why,
                (None, true) => {
                    self.end_group(group);
                    self.check_lost()?;
                    self.config.told(&group.fate().0)
                }
                (None, false) if Instant::now() > deadline + AGENT_GRACE => "no answer in time".to_owned(),
                (None, false) => continue,
            };
            return Err(BenchError::Setup { setup: describe(&group.setup), why });
        }
    }

    fn tell_workers(&self, group: &Group, message: &ToWorker) {
        for node in 0..self.config.slots.len() {
            self.link.send(node, ToAgent::ToWorkers { group: group.id, message: message.clone() });
        }
    }

    /// Stops the group's workers and waits until every one is reaped, the grace is over, or a node is lost: that node's
    /// workers will never be heard of, and the other agents reap theirs without being watched.
    fn end_group(&mut self, group: &mut Group) {
        if group.was_started() && !group.all_ended() {
            for node in 0..self.config.slots.len() {
                self.link.send(node, ToAgent::Stop(group.id));
            }
            let deadline = Instant::now() + AGENT_GRACE;
            while !group.all_ended() && Instant::now() < deadline && self.lost.is_none() {
                // A loss is kept in `lost`, and nothing else can fail without a cancel token.
                self.pump(group, None).ok();
            }
        }
        self.checked.retain(|(process, ..)| *process != group.process());
    }
}

impl Bench for ClusterBench<'_> {
    fn info(&self) -> BenchInfo {
        BenchInfo { engine: self.config.engine, nodes: self.config.nodes(), ranks: self.world() }
    }

    fn now_s(&self) -> f64 {
        self.started_s + self.started.elapsed().as_secs_f64()
    }

    fn run(&mut self, script: &Script, cancel: &Cancel, sink: &mut dyn FnMut(Sample)) -> Result<(), BenchError> {
        self.run_rest(script, Rest::of(&script.items), cancel, sink)
    }

    fn take_up(
        &mut self,
        script: &Script,
        earlier: &Earlier<'_>,
        cancel: &Cancel,
        sink: &mut dyn FnMut(Sample),
    ) -> Result<(), BenchError> {
        (self.started, self.started_s) = (Instant::now(), earlier.now_s);
        for Sample { item, outcome, .. } in earlier.samples {
            if let (Some(item), Outcome::Timed(timing)) = (script.items.get(*item), outcome) {
                self.book.learn(item.point, item.choice, timing.time_us);
            }
        }
        if earlier.is_complete {
            return Ok(());
        }
        self.run_rest(script, Rest::after(&script.items, earlier.samples), cancel, sink)
    }
}
