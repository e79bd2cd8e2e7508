//! The whole course of a run: connect, search, verify, write.

pub(crate) mod facts;
mod id;
mod observer;
mod settings;
mod summary;
mod verify;
mod write;

use std::{cell::RefCell, collections::BTreeSet, path::PathBuf};

use gdrtune_profiles::vocab::{Choice, Engine, Point};
use gdrtune_tuner::{
    bench::{Bench, BenchError, BenchInfo},
    objective::{Objective, WeightedPoint},
    race::RaceConfig,
    search::{self, SearchError, SearchOutcome, SearchPlan, Strategy},
    space::{Space, SpaceError},
    verdict::Thresholds,
};
use gdrtune_wire::Inventory;
use tokio::runtime::Handle;

pub use self::{
    id::new_run_id,
    settings::{SettingError, SpaceSettings, parse_settings},
    write::OUTPUT_FILES,
};
use self::{observer::RunObserver, verify::Verified};
use crate::{
    cluster::{ClusterBench, ClusterNote, Probe, pace::PaceConfig},
    connect::ConnectError,
    control::Controls,
    event::{Event, GdrUse, Level, NodeState, Phase, RunEnd, SCHEMA_VERSION},
    open::{self, ClusterRequest, Measuring, Watcher},
    output::{OutputDir, OutputError},
    recorder::Recorder,
    store::StoreError,
};

/// Share of the budget that is kept for the verification. Its rounds have a minimum, so it may take longer.
const VERIFY_SHARE: f64 = 0.4;

/// What a run is to do.
#[derive(Debug, Clone)]
pub struct RunConfig {
    /// Run id.
    pub run_id: String,
    /// Version of gdrtune.
    pub tool: String,
    /// Where, and with which engine.
    pub cluster: ClusterRequest,
    /// What is tuned.
    pub points: Vec<Point>,
    /// How large the space is.
    pub space: SpaceSize,
    /// What the user fixes and leaves out.
    pub settings: SpaceSettings,
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
}

/// How large the space is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpaceSize {
    /// Two values per setting and one or two channels: for the demo's half minute.
    Small,
    /// Everything that the engine offers there.
    Standard,
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
            SearchError::Baseline(_) | SearchError::Solver { .. } => Self::Internal(error.to_string()),
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

/// Runs from the first agent to the last file. Blocks; runs on a thread of its own.
///
/// # Errors
/// [`RunError`]; whatever was measured is in the run store.
pub fn tune(
    config: &RunConfig,
    recorder: &Recorder,
    controls: &Controls,
    runtime: &Handle,
) -> Result<RunOutcome, RunError> {
    recorder.record(started(config));
    let result = connect_and_run(config, recorder, controls, runtime);
    // A store that cannot be written explains whatever else went wrong.
    let result = match recorder.failure() {
        Some(error) => Err(RunError::Store(error)),
        None => result,
    };
    if result.is_err() {
        config.out.abandon();
    }
    let (end, summary) = match &result {
        Ok(outcome) => (outcome.end, outcome.summary.clone()),
        Err(error) => (end_of(error), error.to_string()),
    };
    recorder.record(Event::Phase { phase: Phase::Done });
    recorder.record(Event::Finished { end, summary });
    result
}

fn started(config: &RunConfig) -> Event {
    Event::RunStarted {
        schema_version: SCHEMA_VERSION,
        run: config.run_id.clone(),
        tool: config.tool.clone(),
        engine: config.cluster.engine,
        hosts: host_text(config),
        nodes: config.cluster.slots.len() as u32,
        ranks: config.cluster.slots.iter().sum(),
        points: config.points.clone(),
        seed: config.seed,
        budget_s: config.budget_s,
        max_trials: config.max_trials,
    }
}

fn host_text(config: &RunConfig) -> String {
    let names: Vec<&str> = config.cluster.hosts.iter().map(|h| h.name.as_str()).collect();
    gdrtune_fleet::hosts::fold(&names)
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
        | RunError::Internal(_) => RunEnd::Failed,
    }
}

fn connect_and_run(
    config: &RunConfig,
    recorder: &Recorder,
    controls: &Controls,
    runtime: &Handle,
) -> Result<RunOutcome, RunError> {
    recorder.record(Event::Phase { phase: Phase::Connect });
    let max_bytes = config.points.iter().map(|p| p.bytes).max().unwrap_or(0);
    let pace = PaceConfig { min_lease_ms: config.min_lease_ms, ..PaceConfig::default() };
    let notes = RefCell::new(recorder.clone());
    let hosts: Vec<&str> = config.cluster.hosts.iter().map(|h| h.name.as_str()).collect();
    let watcher = Watcher {
        recorder: Some(recorder),
        interrupted: &|| controls.is_aborted() || recorder.has_failed(),
        notes: Box::new(|note| record_note(&notes.borrow(), &hosts, note)),
    };
    let measuring = Measuring { max_bytes, pace };
    let result = open::with_cluster(runtime, &config.cluster, measuring, watcher, |bench, inventories| {
        let probe = probe(config, bench, recorder, controls)?;
        Run { config, recorder, controls, inventories, info: bench.info(), probe }.course(bench)
    });
    result.unwrap_or_else(|error| match error {
        ConnectError::Interrupted => Err(RunError::Interrupted),
        other => Err(RunError::Connect(other)),
    })
}

/// Asks NCCL what it is and what it allows here. Our own engine needs no asking.
fn probe(
    config: &RunConfig,
    bench: &mut ClusterBench<'_>,
    recorder: &Recorder,
    controls: &Controls,
) -> Result<Option<Probe>, RunError> {
    if config.cluster.engine != Engine::Nccl {
        return Ok(None);
    }
    let probe = bench.probe(config.settings.pins.clone(), &config.points, controls.cancel()).map_err(|e| match e {
        // Nothing is wrong with gdrtune: NCCL, a driver or a GPU is missing there, or a pinned setting is no good.
        BenchError::Setup { why, .. } => RunError::Unusable(why),
        other => other.into(),
    })?;
    if let Some(engine) = facts::engine_facts(probe.report.clone()) {
        let level = if engine.gdr == Some(GdrUse::Partly) { Level::Warn } else { Level::Info };
        recorder.log(level, "", engine.to_string());
    }
    for (point, why) in &probe.failures {
        recorder.log(Level::Warn, "", format!("{point} with NCCL's own choice: {why}"));
    }
    for (&point, predictions) in &probe.predictions {
        let choice =
            |p: &gdrtune_wire::Prediction| Choice { algorithm: p.algorithm, protocol: p.protocol, channels: 0 };
        let times_us = predictions.iter().map(|p| (choice(p), p.time_us.into())).collect();
        recorder.record(Event::Predicted { point, times_us });
    }
    if probe.predictions.is_empty() {
        let version = probe.report.version.as_deref().unwrap_or("of this version");
        let why = if probe.measured == 0 {
            "could not show which choices it takes, as its own failed"
        } else {
            "does not take choices from a tuner plugin here"
        };
        let text = format!("NCCL {version} {why}: process-level settings only");
        recorder.log(Level::Warn, "", text);
    }
    Ok(Some(probe))
}

fn record_note(recorder: &Recorder, hosts: &[&str], note: ClusterNote) {
    let host = |node: usize| hosts.get(node).copied().unwrap_or_default();
    match note {
        ClusterNote::WorkersStarted { process, setup, setup_time, engine } => {
            let (setup_ms, engine) = (setup_time.as_secs_f64() * 1e3, facts::engine_facts(engine));
            recorder.record(Event::WorkersStarted { process, setup, setup_ms, engine });
        }
        ClusterNote::NodeLost { node, why } => recorder.record(Event::Node {
            index: node as u32,
            host: host(node).to_owned(),
            state: NodeState::Lost,
            detail: why,
        }),
        ClusterNote::Log { node, warning, line } => {
            recorder.log(if warning { Level::Warn } else { Level::Debug }, host(node), line);
        }
    }
}

/// A run with its nodes connected.
struct Run<'a> {
    config: &'a RunConfig,
    recorder: &'a Recorder,
    controls: &'a Controls,
    inventories: &'a [Inventory],
    /// Nodes and ranks as the engine sees them.
    info: BenchInfo,
    /// What NCCL said, where that is the engine.
    probe: Option<Probe>,
}

impl Run<'_> {
    fn course(&self, bench: &mut dyn Bench) -> Result<RunOutcome, RunError> {
        let emulated = facts::emulated(self.config, self.inventories);
        if let Some(why) = &emulated {
            self.recorder.record(Event::Emulated { why: why.clone() });
        }
        let mut observer = RunObserver::new(self.recorder, self.controls, bench.info().ranks);
        let outcome = self.search(bench, &mut observer)?;
        if outcome.points.is_empty() {
            return Err(self.nothing_measured(&outcome));
        }
        let verified = verify::verify(self, bench, &outcome, &mut observer)?;
        if self.controls.is_aborted() {
            return Err(RunError::Interrupted);
        }
        self.write(&outcome, &verified, emulated.is_some(), observer.failed)
    }

    fn search(&self, bench: &mut dyn Bench, observer: &mut RunObserver<'_>) -> Result<SearchOutcome, RunError> {
        let config = self.config;
        let space = self.space().map_err(|error| RunError::Usage(error.to_string()))?;
        self.recorder.record(Event::Space {
            dimensions: space.dimensions.iter().map(|d| (d.name.clone(), d.values.clone())).collect(),
            choices: facts::all_choices(&space),
            environments: space.environments() as u64,
        });
        let plan = SearchPlan {
            points: WeightedPoint::equal(config.points.iter().copied()),
            objective: Objective::GeometricMean,
            budget_trials: config.max_trials.unwrap_or(u64::MAX),
            budget_s: config
                .budget_s
                .map_or(f64::INFINITY, |total| ((1.0 - VERIFY_SHARE) * (total - bench.now_s())).max(1.0)),
            strategy: config.strategy,
            seed: config.seed,
            least_gain: Thresholds::standard(config.seed).gain,
            race: RaceConfig::standard(config.seed),
        };
        Ok(search::run_search(bench, &space, &plan, observer, self.controls.cancel())?)
    }

    fn space(&self) -> Result<Space, SpaceError> {
        let forced = facts::forced(self.inventories);
        for (name, host) in &forced {
            self.recorder.log(Level::Info, host, format!("{name} is set there and stays as it is"));
        }
        let nccl = self.probe.as_ref().map(|probe| facts::nccl(probe, self.info.nodes)).unwrap_or_default();
        let forced: BTreeSet<String> = forced.into_keys().collect();
        facts::space(self.config, &self.info, self.inventories, forced, nccl)
    }

    /// Why there is no result although the default arm runs.
    fn nothing_measured(&self, outcome: &SearchOutcome) -> RunError {
        let tried = outcome.environments.len();
        let why = outcome.environments.iter().find_map(|e| e.failed.clone()).unwrap_or_else(|| "no time".to_owned());
        let text = format!("none of {tried} environments could be measured; the first: {why}");
        if self.config.settings.pins.is_empty() { RunError::Internal(text) } else { RunError::Usage(text) }
    }

    fn write(
        &self,
        outcome: &SearchOutcome,
        verified: &Verified,
        emulated: bool,
        failed_trials: u64,
    ) -> Result<RunOutcome, RunError> {
        self.recorder.record(Event::Phase { phase: Phase::Write });
        let files = write::files(self, outcome, verified, emulated)?;
        let written = self.config.out.write_all(&files)?;
        self.recorder.record(Event::Written { files: written.iter().map(|path| path.display().to_string()).collect() });
        let end = if verified.keeps_defaults() { RunEnd::DefaultsBest } else { RunEnd::Tuned };
        Ok(RunOutcome { end, summary: verified.headline(), written, failed_trials })
    }
}
