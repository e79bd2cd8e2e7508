//! Runs on a recorded grid that are cut off, and go on.

use std::{
    fs,
    path::{Path, PathBuf},
};

use gdrtune_profiles::{bindings::ceilings::Ceilings, setting::SpaceSettings, space::SpaceFile, vocab::Point};
use gdrtune_session::{
    control::Controls,
    event::{Command, Event, Invocation, Phase, Record, RunEnd},
    offline::{OfflineRequest, ReplayRequest},
    output::{Existing, OutputDir},
    recorder::{Listener, Recorder},
    resume::Earlier,
    run::{self, Goal, OUTPUT_FILES, RunConfig, RunError, Target},
    store::{self, RunWriter},
};
use gdrtune_tuner::search::Strategy;

pub(crate) const GRID: &str = include_str!("../../../../benches/search/data/h200-emulated-4nodes-env.csv");
const RUN: &str = "r1";

/// One place for a run: its store and its output folder.
pub(crate) struct Place {
    dir: tempfile::TempDir,
    /// Seconds of the simulated clock, and trials.
    limits: (f64, u64),
}

impl Place {
    /// With a budget that both the search and the A/B use up.
    pub(crate) fn new() -> Self {
        Self::with(60.0, 1_000)
    }

    pub(crate) fn with(budget_s: f64, max_trials: u64) -> Self {
        Self { dir: tempfile::tempdir().unwrap(), limits: (budget_s, max_trials) }
    }

    pub(crate) fn out(&self) -> PathBuf {
        self.dir.path().join("out")
    }

    pub(crate) fn store(&self) -> PathBuf {
        self.dir.path().join("r1.jsonl")
    }

    pub(crate) fn records(&self) -> Vec<Record> {
        store::read_run(&self.store()).unwrap().records
    }

    pub(crate) fn config(&self, grid: &str) -> RunConfig {
        let grid = ReplayRequest::read("grid.csv", grid, None).unwrap();
        let points: Vec<Point> = grid.points().into_iter().take(2).collect();
        RunConfig {
            run_id: RUN.into(),
            tool: "0".into(),
            target: Target::Offline(OfflineRequest::Replay(grid)),
            shapes: Vec::new(),
            points,
            goal: Goal::default(),
            space: SpaceFile::preset(SpaceFile::STANDARD).unwrap(),
            settings: SpaceSettings::default(),
            ceilings: Ceilings::default(),
            budget_s: Some(self.limits.0),
            max_trials: Some(self.limits.1),
            strategy: Strategy::Auto,
            min_lease_ms: 1_000,
            seed: 4,
            out: OutputDir::claim(&self.out(), OUTPUT_FILES, Existing::Refuse).unwrap(),
            invocation: Invocation { args: vec!["tune".into()], ..Invocation::default() },
        }
    }

    /// Runs from the start. `hear` may give commands.
    pub(crate) fn run(&self, hear: impl FnMut(&Record, &Controls) + Send + 'static) -> Result<(), RunError> {
        let controls = Controls::new();
        let recorder = Recorder::new(RunWriter::create(self.dir.path(), RUN).unwrap(), listener(&controls, hear));
        tune(&self.config(GRID), None, &recorder, &controls)
    }

    /// Goes on from the store.
    pub(crate) fn resume(
        &self,
        grid: &str,
        hear: impl FnMut(&Record, &Controls) + Send + 'static,
    ) -> Result<(), RunError> {
        let (writer, run) = RunWriter::reopen(&self.store()).unwrap();
        let earlier = Earlier::read(&run.records).unwrap();
        let out = OutputDir::claim_again(&self.out(), OUTPUT_FILES, earlier.invocation.out, |_| true).unwrap();
        let again = Self::with(self.limits.0, self.limits.1);
        let config = RunConfig { out, ..again.config(grid) };
        let controls = Controls::new();
        let recorder = Recorder::resume(writer, listener(&controls, hear), &earlier);
        tune(&config, Some(earlier), &recorder, &controls)
    }

    /// The first lines of another place's store, and half of the next one.
    pub(crate) fn begin_as(&self, other: &Path, lines: usize) {
        let text = fs::read_to_string(other).unwrap();
        let mut kept: String = text.split_inclusive('\n').take(lines).collect();
        let torn = text.lines().nth(lines).unwrap_or_default();
        kept.push_str(&torn[..torn.len() / 2]);
        fs::write(self.store(), kept).unwrap();
    }

    /// All that the run wrote and decided.
    pub(crate) fn outcome(&self) -> (Vec<String>, Vec<Event>) {
        let files = OUTPUT_FILES.iter().map(|name| fs::read_to_string(self.out().join(name)).unwrap());
        let is_timeless = |event: &Event| match event {
            Event::Invoked(_) | Event::Resumed { .. } | Event::Written { .. } => false,
            Event::Finished { end, .. } => *end == RunEnd::Tuned,
            // The files of an early end; later ones replace them.
            Event::Log { text, .. } => !text.starts_with("wrote "),
            Event::Phase { phase } => *phase != Phase::Done,
            // What was told at an early end is one more.
            Event::Profile { profile, .. } => !profile.run.unverified,
            _ => true,
        };
        let events = self.records().into_iter().map(|record| record.event).filter(is_timeless);
        (files.collect(), events.collect())
    }
}

fn listener(controls: &Controls, mut hear: impl FnMut(&Record, &Controls) + Send + 'static) -> Listener {
    let controls = controls.clone();
    Box::new(move |record| hear(record, &controls))
}

fn tune(
    config: &RunConfig,
    earlier: Option<Earlier>,
    recorder: &Recorder,
    controls: &Controls,
) -> Result<(), RunError> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    run::tune(config, earlier.map(|earlier| earlier.measured), recorder, controls, runtime.handle()).map(drop)
}

pub(crate) fn nothing(_: &Record, _: &Controls) {}

/// Gives commands when these trials are shown.
pub(crate) fn at_trials(commands: Vec<(u64, Command)>) -> impl FnMut(&Record, &Controls) + Send + 'static {
    move |record, controls| {
        let Event::Trial(trial) = &record.event else { return };
        for (_, command) in commands.iter().filter(|(number, _)| *number == trial.trial) {
            controls.apply(command.clone());
        }
    }
}
