//! A run from outside: what it is asked to do, what comes of it, and from the first agent to the last file.

mod course;
mod draft;
pub(crate) mod facts;
mod goal;
mod id;
mod observer;
mod roster;
mod shape;
mod slow_nodes;
mod summary;
mod venue;
mod verify;
mod wishes;
mod write;

use std::{cell::RefCell, path::PathBuf};

use gdrtune_profiles::{
    bindings::ceilings::Ceilings,
    setting::SpaceSettings,
    space::SpaceFile,
    vocab::{Engine, Point},
};
use gdrtune_tuner::{
    bench::{BenchError, BenchInfo},
    observe::Directive,
    search::{SearchError, Strategy},
};
use tokio::runtime::Handle;

pub(crate) use self::id::utc;
pub(crate) use self::summary::{arms_words, decision_words, engine_words};
use self::{
    course::{Course, Run},
    roster::Roster,
    venue::{ClusterVenue, OfflineVenue, Venue},
};
pub use self::{
    facts::sha256,
    goal::{Goal, NoCalls},
    id::{began_at, new_run_id},
    shape::{Shape, ShapeError, Shapes},
    write::OUTPUT_FILES,
};
use crate::{
    cluster::{ClusterNote, pace::PaceConfig},
    connect::{ConnectError, Register},
    control::Controls,
    event::{Event, Invocation, LeftOut, Level, NodeState, Phase, RunEnd, SCHEMA_VERSION},
    offline::OfflineRequest,
    open::{self, ClusterRequest, Measuring, Watcher},
    output::{OutputDir, OutputError},
    recorder::{RecordError, Recorder},
    resume::{Divergence, Measured},
    store::StoreError,
};

/// What a run is to do.
#[derive(Debug, Clone)]
pub struct RunConfig {
    /// Run id.
    pub run_id: String,
    /// Version of gdrtune.
    pub tool: String,
    /// Where, and with which engine.
    pub target: Target,
    /// Job shapes to tune one after the other: ranks on each of the first hosts. Empty tunes the cluster as it is; of several,
    /// only rules are searched, since a variable would reach jobs of every shape.
    pub shapes: Vec<Vec<u32>>,
    /// What is tuned.
    pub points: Vec<Point>,
    /// What counts as better.
    pub goal: Goal,
    /// What is searched; its settings are part of the next.
    pub space: SpaceFile,
    /// What is fixed, left out and added.
    pub settings: SpaceSettings,
    /// What a probe measured of HCAs before; those that are no use are not searched.
    pub ceilings: Ceilings,
    /// Time for the whole run in seconds.
    pub budget_s: Option<f64>,
    /// Measurements of the search at most.
    pub max_trials: Option<u64>,
    /// How environments are searched.
    pub strategy: Strategy,
    /// Shortest lease of a measurement in milliseconds.
    pub min_lease_ms: u64,
    /// Seed of every random decision.
    pub seed: u64,
    /// Where the files go.
    pub out: OutputDir,
    /// How it was asked for, as far as that can be repeated.
    pub invocation: Invocation,
}

/// Where a run takes place.
#[derive(Debug, Clone)]
pub enum Target {
    /// On hosts, by agents. Its hosts and ranks have room for every shape.
    Cluster(Box<ClusterRequest>),
    /// On a bench that needs no agents.
    Offline(OfflineRequest),
}

impl Target {
    /// What measures.
    pub fn engine(&self) -> Engine {
        match self {
            Self::Cluster(cluster) => cluster.engine,
            Self::Offline(offline) => offline.info().engine,
        }
    }
}

/// What came of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunOutcome {
    /// How it ended.
    pub end: RunEnd,
    /// One sentence.
    pub summary: String,
    /// Files that were written.
    pub written: Vec<PathBuf>,
    /// Hangs, crashes and wrong results.
    pub failed_trials: u64,
    /// Hosts that it is not about, although they were asked for.
    pub left_out: Vec<LeftOut>,
}

/// A run without an outcome.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// Hosts cannot be used.
    #[error(transparent)]
    Connect(ConnectError),
    /// The request makes no sense there.
    #[error("{0}")]
    Usage(String),
    /// The hosts answer, and the engine does not run on them.
    #[error("start the engine: {0}")]
    Unusable(String),
    /// Nodes were lost.
    #[error("{0}")]
    NodesLost(String),
    /// The user ended it.
    #[error("interrupted")]
    Interrupted,
    /// The files could not be written.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// The run store could not be written.
    #[error(transparent)]
    Store(StoreError),
    /// A resumed run is not the one that was begun.
    #[error(transparent)]
    Diverged(Divergence),
    /// Nothing that was measured worked, not even the defaults: something is wrong with the hosts, or between them.
    #[error("{0}")]
    Broken(String),
    /// Something that should not happen.
    #[error("{0}")]
    Internal(String),
}

impl From<SearchError> for RunError {
    fn from(error: SearchError) -> Self {
        match error {
            SearchError::Cancelled => Self::Interrupted,
            SearchError::Lost(why) => Self::NodesLost(why),
            SearchError::NoPoints => Self::Usage(error.to_string()),
            SearchError::Baseline(_) => Self::Broken(error.to_string()),
            SearchError::Solver { .. } => Self::Internal(error.to_string()),
        }
    }
}

impl From<BenchError> for RunError {
    fn from(error: BenchError) -> Self {
        match error {
            BenchError::Cancelled => Self::Interrupted,
            BenchError::Lost(why) => Self::NodesLost(why),
            BenchError::Setup { .. } => Self::Internal(error.to_string()),
        }
    }
}

/// Runs from the first agent, or the first draw from an offline bench, to the last file. Blocks; runs on a thread of its own.
///
/// A run that another process began goes on: `earlier` is what that one has measured, and `recorder` resumes its store.
///
/// # Errors
/// [`RunError`]; whatever was measured is in the run store.
pub fn tune(
    config: &RunConfig,
    earlier: Option<Measured>,
    recorder: &Recorder,
    controls: &Controls,
    runtime: &Handle,
) -> Result<RunOutcome, RunError> {
    recorder.record(started(config));
    recorder.record(match &earlier {
        None => Event::Invoked(Invocation { out: config.out.claimed(), ..config.invocation.clone() }),
        Some(earlier) => Event::Resumed { at: id::now(), trials: earlier.trials(), by: config.invocation.by.clone() },
    });
    if let Some(warning) = config.goal.other_ranks(&ranks_of_shapes(config)) {
        recorder.log(Level::Warn, "", warning);
    }
    let result = match &config.target {
        Target::Cluster(cluster) => connect_and_run(config, cluster, earlier, recorder, controls, runtime),
        Target::Offline(offline) => {
            let mut venue = OfflineVenue::new(offline, config.seed);
            run_at(config, earlier.unwrap_or_default(), recorder, controls, &mut venue)
        }
    };
    // A store that cannot be written, or is of another run, explains whatever else went wrong.
    let result = match recorder.failure() {
        Some(RecordError::Store(error)) => Err(RunError::Store(error)),
        Some(RecordError::Diverged(error)) => Err(RunError::Diverged(error)),
        None => result,
    };
    if result.is_err() {
        config.out.abandon();
    }
    let (end, summary) = match &result {
        Ok(outcome) => (outcome.end, outcome.summary.clone()),
        Err(error) => (end_of(error), with_hint(error)),
    };
    recorder.record(Event::Phase { phase: Phase::Done });
    recorder.record(Event::Finished { end, summary });
    result
}

/// What is wrong and, where that is known, what to do about it: who watches the run sees nothing else.
fn with_hint(error: &RunError) -> String {
    match error {
        RunError::Connect(refused) if let Some(hint) = refused.hint() => format!("{error}; {hint}"),
        _ => error.to_string(),
    }
}

fn started(config: &RunConfig) -> Event {
    let (hosts, nodes, ranks) = match &config.target {
        Target::Cluster(cluster) => {
            let names: Vec<&str> = cluster.hosts.iter().map(|h| h.name.as_str()).collect();
            let ranks = ranks_of_shapes(config).into_iter().max().unwrap_or_default();
            (gdrtune_fleet::hosts::fold(&names), cluster.slots.len() as u32, ranks)
        }
        Target::Offline(offline) => {
            let BenchInfo { nodes, ranks, .. } = offline.info();
            (offline.name(), nodes, ranks)
        }
    };
    Event::RunStarted {
        schema_version: SCHEMA_VERSION,
        run: config.run_id.clone(),
        tool: config.tool.clone(),
        engine: config.target.engine(),
        hosts,
        nodes,
        ranks,
        points: config.points.clone(),
        seed: config.seed,
        budget_s: config.budget_s,
        max_trials: config.max_trials,
        workload: config.goal.workload.clone(),
        objective: config.goal.objective.name().to_owned(),
        sm_cost: config.goal.sm_cost,
    }
}

/// Ranks of each shape that is tuned.
fn ranks_of_shapes(config: &RunConfig) -> Vec<u32> {
    match &config.target {
        Target::Cluster(cluster) if config.shapes.is_empty() => vec![cluster.slots.iter().sum()],
        Target::Cluster(_) => config.shapes.iter().map(|slots| slots.iter().sum()).collect(),
        Target::Offline(offline) => vec![offline.info().ranks],
    }
}

const fn end_of(error: &RunError) -> RunEnd {
    match error {
        RunError::Interrupted | RunError::Connect(ConnectError::Interrupted) => RunEnd::Interrupted,
        RunError::NodesLost(_) => RunEnd::NodesLost,
        RunError::Connect(_)
        | RunError::Usage(_)
        | RunError::Unusable(_)
        | RunError::Output(_)
        | RunError::Store(_)
        | RunError::Diverged(_)
        | RunError::Broken(_)
        | RunError::Internal(_) => RunEnd::Failed,
    }
}

fn run_at(
    config: &RunConfig,
    earlier: Measured,
    recorder: &Recorder,
    controls: &Controls,
    venue: &mut dyn Venue,
) -> Result<RunOutcome, RunError> {
    Course::new(config, recorder, controls, venue).run(venue, earlier)
}

/// Runs on the hosts. Where some are lost and the user allows it, the run begins anew on those that are left.
fn connect_and_run(
    config: &RunConfig,
    cluster: &ClusterRequest,
    earlier: Option<Measured>,
    recorder: &Recorder,
    controls: &Controls,
    runtime: &Handle,
) -> Result<RunOutcome, RunError> {
    // A resumed run connects too, but it is further.
    if earlier.is_none() {
        recorder.record(Event::Phase { phase: Phase::Connect });
    }
    // Nodes that measured before were looked at then.
    let mut is_new = earlier.is_none();
    let mut earlier = earlier.unwrap_or_default();
    let mut wanted = earlier.wanted();
    let roster = RefCell::new(Roster::new(cluster, earlier.left_out.clone()));
    let mut first_loss = None;
    loop {
        let lost = RefCell::new(Vec::new());
        let stage = Stage { config, roster: &roster, lost: &lost, recorder, controls };
        let result = run_on(&stage, runtime, is_new, earlier);
        is_new = false;
        let is_wanted = controls.directive() == Directive::Continue && !recorder.has_failed();
        match (result, first_loss) {
            (Err(RunError::NodesLost(why)), _) if is_wanted && roster.borrow_mut().lose(&lost.take()) => {
                first_loss = Some(why);
            }
            (Err(RunError::Connect(error)), Some(why)) => {
                return Err(RunError::NodesLost(format!("{why}; and the others cannot be used: {error}")));
            }
            (result, _) => return result.map(|outcome| roster.borrow().label(outcome)),
        }
        wanted.extend(recorder.take_granted());
        earlier = Measured::nothing(recorder.numbers(), wanted.clone());
    }
}

/// A run on the hosts of its roster.
#[derive(Clone, Copy)]
struct Stage<'a, 'r> {
    config: &'a RunConfig,
    roster: &'a RefCell<Roster<'r>>,
    /// Takes the hosts that are lost on the way, by their places among those that are in.
    lost: &'a RefCell<Vec<(usize, String)>>,
    recorder: &'a Recorder,
    controls: &'a Controls,
}

/// Runs on the hosts that are in; slow ones are named first where the run is new.
fn run_on(stage: &Stage<'_, '_>, runtime: &Handle, is_new: bool, earlier: Measured) -> Result<RunOutcome, RunError> {
    let Stage { config, roster, lost, recorder, controls } = *stage;
    let (request, numbers) = (roster.borrow().request(), roster.borrow().numbers());
    let max_bytes = config.points.iter().map(|p| p.bytes).max().unwrap_or(0);
    let pace = PaceConfig { min_lease_ms: config.min_lease_ms, ..PaceConfig::default() };
    let watcher = Watcher {
        register: Register { recorder: Some(recorder), numbers: &numbers },
        // Nothing was found yet that could be written.
        interrupted: &|| controls.is_aborted() || controls.is_winding_up() || recorder.has_failed(),
        tell: &|text| recorder.log(Level::Warn, "", text.to_owned()),
        notes: Box::new(|note| {
            if let ClusterNote::NodeLost { node, why } = &note {
                lost.borrow_mut().push((*node, why.clone()));
            }
            record_note(recorder, &roster.borrow(), note);
        }),
    };
    let measuring = Measuring { max_bytes, pace };
    let result = open::with_cluster(runtime, &request, &config.run_id, measuring, watcher, |bench, nodes| {
        let changed = roster.borrow_mut().settle(&nodes.left_out);
        let earlier = match changed {
            None => earlier,
            Some(event) => {
                recorder.change_nodes(event);
                Measured::nothing(recorder.numbers(), earlier.wanted())
            }
        };
        if is_new && nodes.request.admission.probe_pairs {
            let numbers = roster.borrow().numbers();
            slow_nodes::name(bench, &nodes.request.hosts, &numbers, recorder, controls.cancel())?;
        }
        bench.number_processes_from(earlier.next.processes);
        let notes = [roster.borrow().notes(), nodes.accepted.clone()].concat();
        run_at(config, earlier, recorder, controls, &mut ClusterVenue::new(nodes, bench, notes))
    });
    result.unwrap_or_else(|error| match error {
        ConnectError::Interrupted => Err(RunError::Interrupted),
        other => Err(RunError::Connect(other)),
    })
}

fn record_note(recorder: &Recorder, roster: &Roster<'_>, note: ClusterNote) {
    match note {
        ClusterNote::WorkersStarted { process, setup, setup_time, engine, .. } => {
            let (setup_ms, engine) = (setup_time.as_secs_f64() * 1e3, facts::engine_facts(*engine));
            recorder.record(Event::WorkersStarted { process, setup, setup_ms, engine });
        }
        ClusterNote::NodeLost { node, why } => {
            let (index, host) = roster.member(node);
            let (host, state, detail) = (host.to_owned(), NodeState::Lost, why);
            recorder.record(Event::Node { index, host, state, detail });
        }
        ClusterNote::Log { node, warning, line } => {
            recorder.log(if warning { Level::Warn } else { Level::Debug }, roster.member(node).1, line);
        }
    }
}
