//! `gdrtune tune` and `gdrtune demo`: a whole run, shown by the terminal UI or by lines.

use std::{
    io::{self, IsTerminal, Write},
    sync::{Arc, Mutex, PoisonError},
    thread,
};

use anyhow::Context as _;
use gdrtune_fleet::LauncherKind;
use gdrtune_profiles::{
    setting::SpaceSettings,
    size::parse_sizes,
    space::SpaceFile,
    vocab::{Collective, Point},
    workload::Workload,
};
use gdrtune_session::{
    connect::{ConnectError, IN_USE_HINT},
    control::Controls,
    event::{Command, Record, RunEnd},
    open::ClusterRequest,
    output::{Existing, OutputDir},
    recorder::Recorder,
    run::{self, Goal, OUTPUT_FILES, RunConfig, RunOutcome, Target},
    store::RunWriter,
};
use gdrtune_tuner::{objective::Objective, search::Strategy};
use tokio::sync::{mpsc, oneshot};

use super::offline;
use crate::{
    cli::{DemoArgs, GoalArgs, ObjectiveArg, ShowArgs, SpaceArgs, TuneArgs},
    exit::{Exit, Failure},
    headless::{JsonLines, PlainLines, Progress},
    hosts, interrupt, paths,
    ui::{self, Source, UiEnd},
};

/// Sizes of the demo: three decades in seven points, so that its half minute goes into repeats.
const DEMO_SIZES: &str = "1K-4M";

/// Shortest deadline of a measurement in the demo, in milliseconds: nothing there takes a tenth of it.
const DEMO_LEASE_MS: u64 = 5_000;

pub(crate) fn demo(args: &DemoArgs) -> Result<Exit, Failure> {
    let cluster = super::cluster_at(hosts::this_machine(hosts::LOCAL_RANKS), LauncherKind::Local)?;
    let sizes = parse_sizes(DEMO_SIZES, 4).map_err(Failure::usage)?;
    let points = sizes.iter().map(|&bytes| Point { collective: Collective::AllReduce, bytes }).collect();
    let out = claim(&args.out, Existing::Replace)?;
    let config = RunConfig {
        min_lease_ms: DEMO_LEASE_MS,
        seed: args.seed,
        ..base_config(Target::Cluster(cluster), points, super::presets::space(SpaceFile::DEMO)?, out)
    };
    execute(config, &args.show, false)
}

pub(crate) fn tune(args: &TuneArgs) -> Result<Exit, Failure> {
    let space = super::presets::space(&args.space.space)?;
    let workload = args.goal.workload.as_deref().map(super::presets::workload).transpose()?;
    let goal = goal(&args.goal, workload.as_ref())?;
    let Task { target, shapes, points, budget_s, max_trials } = match offline::task(args, workload.as_ref())? {
        Some(task) => task,
        None => cluster_task(args, workload.as_ref(), space.budget_s)?,
    };
    let SpaceArgs { pin, exclude, add, .. } = &args.space;
    let settings = SpaceSettings::parse(pin, exclude, add).map_err(Failure::usage)?;
    let existing = if args.force { Existing::Replace } else { Existing::Refuse };
    let out = claim(&args.out, existing)?;
    let config = RunConfig {
        shapes,
        goal,
        settings: space.settings.clone().then(settings),
        budget_s,
        max_trials,
        strategy: args.strategy,
        min_lease_ms: args.measure.trial.min_lease_ms(),
        seed: args.seed,
        ..base_config(target, points, space, out)
    };
    execute(config, &args.show, args.expect_gain)
}

/// What is tuned where, and how long.
pub(super) struct Task {
    pub(super) target: Target,
    /// Ranks of each shape, where there are several.
    pub(super) shapes: Vec<Vec<u32>>,
    pub(super) points: Vec<Point>,
    pub(super) budget_s: Option<f64>,
    pub(super) max_trials: Option<u64>,
}

/// A cluster is tuned: a workload's points there, or the collectives and sizes that were named.
fn cluster_task(args: &TuneArgs, workload: Option<&Workload>, usual_s: f64) -> Result<Task, Failure> {
    let mut cluster = super::cluster(&args.hosts, &args.measure, &args.nccl)?;
    let shapes = shapes(args, &mut cluster)?;
    let points = match workload {
        None => super::points(&args.measure)?,
        Some(workload) => {
            let points: Vec<Point> = workload.points().collect();
            let sizes = points.iter().map(|point| point.bytes);
            super::whole_elements("--workload", sizes, args.measure.sizes.data_type)?;
            points
        }
    };
    Ok(Task {
        target: Target::Cluster(cluster),
        shapes,
        points,
        budget_s: Some(args.budget.unwrap_or(usual_s)),
        max_trials: args.trials,
    })
}

/// What counts as better.
fn goal(args: &GoalArgs, workload: Option<&Workload>) -> Result<Goal, Failure> {
    let objective = args.objective.map(|objective| match objective {
        ObjectiveArg::Geomean => Objective::GeometricMean,
        ObjectiveArg::TimePerStep => Objective::TimePerStep,
    });
    Goal::new(workload, objective, args.sm_cost)
        .map_err(|error| Failure::usage(anyhow::Error::from(error).context("--objective")))
}

/// Ranks of each shape where there are several; `cluster` becomes what they need together. A single shape is a cluster like
/// any other.
fn shapes(args: &TuneArgs, cluster: &mut ClusterRequest) -> Result<Vec<Vec<u32>>, Failure> {
    let Some(shapes) = &args.shapes else { return Ok(Vec::new()) };
    let layouts =
        shapes.lay_out(cluster).map_err(|error| Failure::usage(anyhow::Error::from(error).context("--shapes")))?;
    Ok(if layouts.len() > 1 { layouts } else { Vec::new() })
}

/// What `tune` and `demo` share, with the defaults of a plain `tune` in this space.
fn base_config(target: Target, points: Vec<Point>, space: SpaceFile, out: OutputDir) -> RunConfig {
    RunConfig {
        run_id: run::new_run_id(),
        tool: env!("CARGO_PKG_VERSION").to_owned(),
        target,
        shapes: Vec::new(),
        points,
        goal: Goal::default(),
        settings: space.settings.clone(),
        budget_s: Some(space.budget_s),
        space,
        max_trials: None,
        strategy: Strategy::Auto,
        min_lease_ms: 20_000,
        seed: 1,
        out,
    }
}

fn claim(path: &std::path::Path, existing: Existing) -> Result<OutputDir, Failure> {
    OutputDir::claim(path, OUTPUT_FILES, existing).map_err(|error| {
        let failure = Failure::usage(error);
        match existing {
            Existing::Refuse => {
                failure.with_hint("choose another folder with --out; --force replaces the files of an earlier run")
            }
            Existing::Replace => failure.with_hint("choose another folder with --out"),
        }
    })
}

/// Runs, shows, and says at the end what came of it.
fn execute(config: RunConfig, show: &ShowArgs, expect_gain: bool) -> Result<Exit, Failure> {
    let dir = paths::runs_dir()?;
    let writer = RunWriter::create(&dir, &config.run_id).map_err(|error| {
        Failure::new(Exit::Unexpected, error).with_hint("set GDRTUNE_STATE_DIR to a folder that can be written")
    })?;
    let store = writer.path().to_owned();
    let runtime = super::runtime()?;
    let controls = Controls::new();
    let use_ui = !show.headless && !show.json && io::stdout().is_terminal() && io::stdin().is_terminal();

    let (records, receiver) = mpsc::unbounded_channel();
    let listener: Box<dyn FnMut(&Record) + Send> = if use_ui {
        // A UI that was left does not need the records any more.
        Box::new(move |record| drop(records.send(record.clone())))
    } else {
        headless_listener(show.json, controls.clone())
    };
    let recorder = Recorder::new(writer, listener);
    let (done, finished) = oneshot::channel();
    let handle = runtime.handle().clone();
    let session_controls = controls.clone();
    let session = thread::Builder::new().name("session".to_owned()).spawn(move || {
        let outcome = run::tune(&config, &recorder, &session_controls, &handle);
        // The receiver waits until the end, unless this process is leaving anyway.
        done.send(()).ok();
        outcome
    })?;

    if use_ui {
        let ui_controls = controls.clone();
        let options = super::ui_options(Source::Live, &show.look);
        let end = runtime.block_on(ui::run(receiver, move |command| ui_controls.apply(command), options))?;
        match end {
            UiEnd::Left => {}
            // The third Ctrl-C: the agents see the end of their stdin and clean up by themselves.
            UiEnd::Abandoned => {
                // Dropping it would end the fleet under the session, which would then record that nodes were lost.
                std::mem::forget(runtime);
                return Ok(Exit::Interrupted);
            }
            UiEnd::Terminated | UiEnd::TerminalLost => controls.apply(Command::Kill),
        }
    } else {
        runtime.block_on(async {
            interrupt::watch(controls.clone())?;
            // An error means that the session thread died: its join says why.
            drop(finished.await);
            io::Result::Ok(())
        })?;
    }
    let joined = session.join().ok();
    let outcome =
        joined.with_context(|| format!("the session thread panicked; the run store is {}", store.display()))?;
    conclude(outcome, &store, use_ui, expect_gain)
}

fn headless_listener(json: bool, controls: Controls) -> Box<dyn FnMut(&Record) + Send> {
    let progress: Box<dyn Progress> =
        if json { Box::new(JsonLines(io::stdout())) } else { Box::new(PlainLines::new(io::stderr())) };
    let progress = Arc::new(Mutex::new(progress));
    Box::new(move |record| {
        let mut progress = progress.lock().unwrap_or_else(PoisonError::into_inner);
        if progress.show(record).is_err() {
            // Nobody reads any more (`gdrtune ... --json | head`): end the run instead of measuring for nobody.
            controls.apply(Command::Stop);
        }
    })
}

/// The exit code, and the last words on stderr.
fn conclude(
    outcome: Result<RunOutcome, run::RunError>,
    store: &std::path::Path,
    after_ui: bool,
    expect_gain: bool,
) -> Result<Exit, Failure> {
    let outcome = outcome.map_err(|error| {
        let exit = match &error {
            run::RunError::Connect(_) | run::RunError::Unusable(_) => Exit::Preflight,
            run::RunError::Usage(_) => Exit::Usage,
            run::RunError::NodesLost(_) => Exit::NodesLost,
            run::RunError::Interrupted => Exit::Interrupted,
            run::RunError::Output(_) | run::RunError::Store(_) | run::RunError::Internal(_) => Exit::Unexpected,
        };
        let hint = match &error {
            run::RunError::Connect(ConnectError::InUse { .. }) => IN_USE_HINT.to_owned(),
            _ => format!("everything that was measured is in {}", store.display()),
        };
        Failure::new(exit, error).with_hint(hint)
    })?;
    let mut last_words = String::new();
    if after_ui {
        last_words = format!("{}\n", outcome.summary);
        for file in &outcome.written {
            last_words.push_str(&["  ", &file.display().to_string(), "\n"].concat());
        }
    }
    last_words.push_str(&["run store: ", &store.display().to_string(), "\n"].concat());
    // A closed stderr changes nothing about the exit code.
    drop(io::stderr().write_all(last_words.as_bytes()));
    Ok(match outcome.end {
        RunEnd::Interrupted => Exit::Interrupted,
        RunEnd::NodesLost => Exit::NodesLost,
        RunEnd::Failed => Exit::Unexpected,
        RunEnd::Tuned | RunEnd::DefaultsBest if outcome.failed_trials > 0 => Exit::TrialsFailed,
        RunEnd::DefaultsBest if expect_gain => Exit::NoGain,
        RunEnd::Tuned | RunEnd::DefaultsBest => Exit::Done,
    })
}
