//! A run that ended too early goes on from its store as if nothing had happened, wherever it ended.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::{
    fs,
    path::{Path, PathBuf},
};

use gdrtune_profiles::{setting::SpaceSettings, space::SpaceFile, vocab::Point};
use gdrtune_session::{
    control::Controls,
    event::{Command, Event, Invocation, Record, RunEnd},
    offline::{OfflineRequest, ReplayRequest},
    output::{Existing, OutputDir},
    recorder::{Listener, Recorder},
    resume::{Earlier, ResumeError},
    run::{self, Goal, OUTPUT_FILES, RunConfig, RunError, Target},
    store::{self, RunWriter},
};
use gdrtune_tuner::search::Strategy;

const GRID: &str = include_str!("../../../benches/search/data/h200-emulated-4nodes-env.csv");
const RUN: &str = "r1";

/// One place for a run: its store and its output folder.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn out(&self) -> PathBuf {
        self.0.path().join("out")
    }

    fn store(&self) -> PathBuf {
        self.0.path().join("r1.jsonl")
    }

    fn records(&self) -> Vec<Record> {
        store::read_run(&self.store()).unwrap().records
    }

    fn config(&self, grid: &str) -> RunConfig {
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
            // Seconds of the simulated clock. There are more trials than it takes, so that the clock decides.
            budget_s: Some(60.0),
            max_trials: Some(1_000),
            strategy: Strategy::Auto,
            min_lease_ms: 1_000,
            seed: 4,
            out: OutputDir::claim(&self.out(), OUTPUT_FILES, Existing::Refuse).unwrap(),
            invocation: Invocation { args: vec!["tune".into()], ..Invocation::default() },
        }
    }

    /// Runs from the start. `hear` may give commands.
    fn run(&self, hear: impl FnMut(&Record, &Controls) + Send + 'static) -> Result<(), RunError> {
        let controls = Controls::new();
        let recorder = Recorder::new(RunWriter::create(self.0.path(), RUN).unwrap(), listener(&controls, hear));
        tune(&self.config(GRID), None, &recorder, &controls)
    }

    /// Goes on from the store.
    fn resume(&self, grid: &str, hear: impl FnMut(&Record, &Controls) + Send + 'static) -> Result<(), RunError> {
        let (writer, run) = RunWriter::reopen(&self.store()).unwrap();
        let earlier = Earlier::read(&run.records).unwrap();
        let out = OutputDir::claim_again(&self.out(), OUTPUT_FILES, earlier.invocation.out, |_| true).unwrap();
        let again = Self::new();
        let config = RunConfig { out, ..again.config(grid) };
        let controls = Controls::new();
        let recorder = Recorder::resume(writer, listener(&controls, hear), &earlier);
        tune(&config, Some(earlier), &recorder, &controls)
    }

    /// The first lines of another place's store, and half of the next one.
    fn begin_as(&self, other: &Path, lines: usize) {
        let text = fs::read_to_string(other).unwrap();
        let mut kept: String = text.split_inclusive('\n').take(lines).collect();
        let torn = text.lines().nth(lines).unwrap_or_default();
        kept.push_str(&torn[..torn.len() / 2]);
        fs::write(self.store(), kept).unwrap();
    }

    /// All that the run wrote and decided.
    fn outcome(&self) -> (Vec<String>, Vec<Event>) {
        let files = OUTPUT_FILES.iter().map(|name| fs::read_to_string(self.out().join(name)).unwrap());
        let is_timeless = |event: &Event| match event {
            Event::Invoked(_) | Event::Resumed { .. } | Event::Written { .. } => false,
            Event::Finished { end, .. } => *end == RunEnd::Tuned,
            // The files of an early end; later ones replace them.
            Event::Log { text, .. } => !text.starts_with("wrote "),
            Event::Phase { phase } => *phase != gdrtune_session::event::Phase::Done,
            // That of an early end is one more.
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

fn nothing(_: &Record, _: &Controls) {}

/// Gives a command when that trial is shown.
fn at_trial(number: u64, command: Command) -> impl FnMut(&Record, &Controls) + Send + 'static {
    move |record, controls| {
        if matches!(&record.event, Event::Trial(trial) if trial.trial == number) {
            controls.apply(command);
        }
    }
}

#[test]
fn wherever_a_run_is_cut_off_it_goes_on_to_the_same_end() {
    let whole = Place::new();
    whole.run(nothing).unwrap();
    let lines = whole.records().len();
    let is_written = |record: &Record| matches!(record.event, Event::Written { .. });
    // Its paths are of the other place.
    let written = whole.records().iter().position(is_written).unwrap();
    // A prime, so that all kinds of records are last once.
    for cut in (3..written).step_by(61).chain([written]) {
        let place = Place::new();
        place.begin_as(&whole.store(), cut);
        place.resume(GRID, nothing).unwrap();
        assert_eq!(place.outcome(), whole.outcome(), "cut off after {cut} of {lines} lines");
        let seqs: Vec<u64> = place.records().iter().map(|record| record.seq).collect();
        assert_eq!(seqs, (0..=lines as u64).collect::<Vec<_>>(), "one run, with one record of the resume");
    }
}

#[test]
fn an_early_end_that_the_user_wanted_is_found_again() {
    let whole = Place::new();
    whole.run(at_trial(40, Command::Finish)).unwrap();
    let finishing = whole.records().iter().position(|r| matches!(r.event, Event::Finishing { .. })).unwrap();
    let lines = whole.records().len();
    for cut in [finishing + 1, usize::midpoint(finishing, lines)] {
        let place = Place::new();
        place.begin_as(&whole.store(), cut);
        place.resume(GRID, nothing).unwrap();
        assert_eq!(place.outcome(), whole.outcome());
    }
    // The wish of a user who resumes counts from where the run had ended.
    let place = Place::new();
    place.begin_as(&whole.store(), finishing);
    place
        .resume(GRID, |record, controls| {
            if matches!(record.event, Event::Resumed { .. }) {
                controls.apply(Command::Finish);
            }
        })
        .unwrap();
    assert_eq!(place.outcome(), whole.outcome());
}

#[test]
fn a_run_that_the_user_ended_goes_on_and_what_its_end_made_of_the_search_is_forgotten() {
    let whole = Place::new();
    whole.run(nothing).unwrap();
    for command in [Command::Stop, Command::Kill] {
        let place = Place::new();
        assert!(matches!(place.run(at_trial(70, command)), Err(RunError::Interrupted)));
        assert!(!place.out().exists());
        assert!(matches!(place.resume(GRID, at_trial(90, command)), Err(RunError::Interrupted)), "and once more");
        place.resume(GRID, nothing).unwrap();
        assert_eq!(place.outcome(), whole.outcome(), "{command:?}");
    }
}

#[test]
fn a_run_that_was_wound_up_leaves_its_best_so_far_and_goes_on_to_the_same_end() {
    let whole = Place::new();
    whole.run(nothing).unwrap();
    let trials = whole.records().iter().filter(|record| matches!(record.event, Event::Trial(_))).count() as u64;
    let profile = |place: &Place| fs::read_to_string(place.out().join("profile.toml")).unwrap();
    // In the search, and in the A/B.
    for number in [70, trials - 40] {
        let place = Place::new();
        place.run(at_trial(number, Command::WindUp)).unwrap();
        assert!(profile(&place).contains("\nunverified = true\n") && profile(&place).contains("[[rule]]"), "{number}");
        let last = place.records().pop().unwrap().event;
        assert!(matches!(last, Event::Finished { end: RunEnd::Interrupted, .. }), "{last:?}");
        place.resume(GRID, nothing).unwrap();
        assert_eq!(place.outcome(), whole.outcome(), "wound up at trial {number} of {trials}");
    }
    let place = Place::new();
    assert!(matches!(place.run(at_trial(0, Command::WindUp)), Err(RunError::Interrupted)), "nothing is known yet");
    assert!(!place.out().exists());
}

#[test]
fn what_is_not_as_it_was_is_named_and_the_store_stays_as_it_is() {
    let whole = Place::new();
    whole.run(nothing).unwrap();
    let place = Place::new();
    place.begin_as(&whole.store(), 100);
    let other: String = GRID.split_inclusive('\n').filter(|line| !line.contains(",ring,ll,")).collect();
    let error = place.resume(&other, nothing).unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, RunError::Diverged(_)), "{text}");
    assert!(text.contains("of its store has `space`: choices["), "{text}");
    let ended = |record: &Record| matches!(record.event, Event::Finished { .. });
    assert!(!place.records().iter().any(ended), "the run can still go on where all is as it was");
    place.resume(GRID, nothing).unwrap();
    assert_eq!(place.outcome(), whole.outcome());
}

#[test]
fn a_finished_run_and_one_of_an_old_gdrtune_are_refused() {
    let whole = Place::new();
    whole.run(nothing).unwrap();
    let records = whole.records();
    let error = Earlier::read(&records).unwrap_err();
    assert!(error.to_string().starts_with("run r1 has finished: "), "{error}");
    let without = |is_out: fn(&Event) -> bool| {
        let mut records: Vec<Record> = records[..100].to_vec();
        records.retain(|record| !is_out(&record.event));
        Earlier::read(&records).unwrap_err().to_string()
    };
    assert_eq!(
        without(|event| matches!(event, Event::Invoked(_))),
        "run r1 cannot be resumed: gdrtune 0, which began it, did not record how it was asked for"
    );
    assert!(without(|event| matches!(event, Event::Script { .. })).ends_with("which script its trials belong to"));
    assert_eq!(Earlier::read(&records[1..]).unwrap_err(), ResumeError::NoRun);
}
