//! `gdrtune tune` and `gdrtune demo`: a whole run, shown by the terminal UI or by lines.

use std::{
    cell::RefCell,
    fs,
    io::{self, IsTerminal, Write},
    mem::ManuallyDrop,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    thread,
};

use anyhow::Context as _;
use gdrtune_fleet::{LauncherKind, hosts::parse_list};
use gdrtune_profiles::{
    bindings::ceilings::Ceilings,
    profile::Profile,
    setting::SpaceSettings,
    size::parse_sizes,
    source::Preset,
    space::SpaceFile,
    vocab::{Collective, DataType, Engine, Point},
    workload::Workload,
};
use gdrtune_session::{
    control::Controls,
    event::{Command, Event, InputFile, Invocation, Owner, Record, RunEnd},
    open::{Admission, ClusterRequest},
    output::{Existing, OutputClaim, OutputDir, OutputError},
    recorder::Recorder,
    resume::Earlier,
    run::{self, Goal, OUTPUT_FILES, RunConfig, RunOutcome, Target},
    store::RunWriter,
};
use gdrtune_tuner::{objective::Objective, search::Strategy, sim::Cluster};
use rustix::system::uname;
use tokio::sync::{mpsc, oneshot};

use super::{detach, offline, presets::file_of, report};
use crate::{
    cli::{DemoArgs, GoalArgs, HostArgs, ObjectiveArg, ShowArgs, SpaceArgs, TuneArgs},
    exit::{Exit, Failure},
    headless::{JsonLines, PlainLines, Progress},
    hosts, interrupt, paths,
    ui::{self, Source, Steering, UiEnd},
};

/// Sizes of the demo: three decades in seven points, so that its half minute goes into repeats.
const DEMO_SIZES: &str = "1K-4M";

/// Shortest deadline of a measurement in the demo, in milliseconds: nothing there takes a tenth of it.
const DEMO_LEASE_MS: u64 = 5_000;

/// A run of which an earlier process has left a part.
pub(crate) struct Again {
    /// At the end of its store.
    pub(crate) writer: RunWriter,
    /// What is in the store.
    pub(crate) records: Vec<Record>,
    /// The same as the run reads it.
    pub(crate) earlier: Earlier,
}

impl Again {
    /// Adds the run's hosts that a smaller Slurm allocation lacks: where they may be left out, they are so with a reason.
    ///
    /// # Errors
    /// Wrong use: the store's hosts cannot be read.
    fn bring_back_hosts(&self, cluster: &mut ClusterRequest) -> Result<(), Failure> {
        let Some(Event::RunStarted { hosts, ranks, .. }) = self.records.first().map(|record| &record.event) else {
            return Ok(());
        };
        let all = parse_list("the run's hosts", hosts).map_err(Failure::usage)?.hosts;
        let place = |name: &str| cluster.hosts.iter().position(|host| host.name == name);
        let found = all.iter().filter(|host| place(&host.name).is_some()).count();
        let of_allocation = matches!(cluster.launcher, LauncherKind::Slurm);
        if !of_allocation || found < cluster.hosts.len() || found == all.len() {
            return Ok(());
        }
        // Jobs have as many tasks on each node; where that is not so, the run's beginning will not be the same.
        let usual = ranks / all.len() as u32;
        let slots = all.iter().map(|host| place(&host.name).map_or(usual, |at| cluster.slots[at])).collect();
        (cluster.slots, cluster.hosts) = (slots, all);
        Ok(())
    }
}

pub(crate) fn demo(args: &DemoArgs, again: Option<Again>) -> Result<Exit, Failure> {
    let cluster = super::cluster_at(hosts::this_machine(hosts::LOCAL_RANKS), &super::announce)?;
    let sizes = parse_sizes(DEMO_SIZES, 4).map_err(Failure::usage)?;
    let points = sizes.iter().map(|&bytes| Point { collective: Collective::AllReduce, bytes }).collect();
    let out = claim(&args.out, true, Existing::Replace, again.as_ref())?;
    let invocation = invocation(&[], Some(cluster.data_type), &args.words, again.as_ref())?;
    let config = RunConfig {
        min_lease_ms: DEMO_LEASE_MS,
        seed: args.seed,
        ..base_config(
            Target::Cluster(Box::new(cluster)),
            points,
            super::presets::space(SpaceFile::DEMO)?,
            out,
            invocation,
        )
    };
    execute(config, &args.show, AtEnd { expect_gain: false, report: true }, again)
}

pub(crate) fn tune(args: &TuneArgs, again: Option<Again>) -> Result<Exit, Failure> {
    let Plan { space, settings, ceilings, goal, task } = plan(args, again.as_ref(), &super::announce)?;
    let Task { target, shapes, points, budget_s, max_trials } = task;
    let out = claim(&args.out, !args.no_report, existing(args), again.as_ref())?;
    // Recorded and simulated times are of bytes.
    let data_type = target.engine().is_real().then_some(args.measure.sizes.data_type);
    let invocation = invocation(&inputs(args), data_type, &args.words, again.as_ref())?;
    let config = RunConfig {
        shapes,
        goal,
        settings,
        ceilings,
        budget_s,
        max_trials,
        strategy: args.strategy,
        min_lease_ms: args.measure.trial.min_lease_ms(),
        seed: args.seed,
        ..base_config(target, points, space, out, invocation)
    };
    execute(config, &args.show, AtEnd { expect_gain: args.expect_gain, report: !args.no_report }, again)
}

/// What is done when a run is over.
#[derive(Debug, Clone, Copy)]
struct AtEnd {
    /// Whether it is to end with a code of its own where the defaults are best.
    expect_gain: bool,
    /// Whether its reports are written beside the profile.
    report: bool,
}

impl AtEnd {
    /// Writes the reports of a run that has a result. That one is on disk already, and without them it is as good.
    fn reports(self, out: &OutputDir, store: &Path, outcome: &RunOutcome) -> anyhow::Result<Vec<PathBuf>> {
        if self.report && !outcome.written.is_empty() { report::write_beside(out, store) } else { Ok(Vec::new()) }
    }
}

/// Names of the files that a run writes.
fn file_names(report: bool) -> Vec<&'static str> {
    let reports = report::FILES.into_iter().filter(|_| report);
    OUTPUT_FILES.iter().copied().chain(reports).collect()
}

/// Says what `tune` would refuse now, before it claims its folder and reaches any host. Reads the files that the arguments
/// name, changes nothing and prints nothing. Which hosts it would be, where the arguments do not name them.
///
/// # Errors
/// Wrong use, as `tune` would say it.
pub(crate) fn check(args: &TuneArgs) -> Result<Option<String>, Failure> {
    for input in inputs(args) {
        // What has no end, or waits for somebody to write, cannot be looked at.
        if let Input::File(path) = input
            && path.exists()
            && !path.is_file()
        {
            return Err(Failure::usage_text(format!("{} is no file", path.display())));
        }
    }
    let about = RefCell::new(None);
    let hear = |place: &hosts::Place| {
        about.borrow_mut().clone_from(&place.about);
        Ok(())
    };
    plan(args, None, &hear)?;
    OutputDir::look(&args.out, &file_names(!args.no_report), existing(args))
        .map_err(|error| occupied(error, existing(args)))?;
    Ok(about.into_inner())
}

/// What a run tunes, in which space, and what counts.
struct Plan {
    space: SpaceFile,
    settings: SpaceSettings,
    ceilings: Ceilings,
    goal: Goal,
    task: Task,
}

/// `hear` is told which hosts these are.
fn plan(
    args: &TuneArgs,
    again: Option<&Again>,
    hear: &dyn Fn(&hosts::Place) -> io::Result<()>,
) -> Result<Plan, Failure> {
    let mut space = super::presets::space(&args.space.space)?;
    let workload = args.goal.workload.as_deref().map(super::presets::workload).transpose()?;
    let goal = goal(&args.goal, workload.as_ref())?;
    let SpaceArgs { pin, exclude, add, .. } = &args.space;
    let settings = space.settings.clone().then(SpaceSettings::parse(pin, exclude, add).map_err(Failure::usage)?);
    let task = match offline::task(args, workload.as_ref(), &settings)? {
        Some(task) => task,
        None => cluster_task(args, workload.as_ref(), space.budget_s, again, hear)?,
    };
    if let Target::Offline(request) = &task.target {
        // It brings its own.
        space.name = request.name();
    }
    let ceilings = args.ceilings.as_deref().map(ceilings).transpose()?.unwrap_or_default();
    Ok(Plan { space, settings, ceilings, goal, task })
}

/// What was measured of HCAs before.
fn ceilings(path: &Path) -> Result<Ceilings, Failure> {
    let name = path.display().to_string();
    let text = fs::read_to_string(path).with_context(|| format!("read {name}")).map_err(Failure::usage)?;
    serde_json::from_str(&text).map_err(|error| Failure::usage(anyhow::Error::from(error).context(name)))
}

const fn existing(args: &TuneArgs) -> Existing {
    if args.force { Existing::Replace } else { Existing::Refuse }
}

/// What decides what a run does, besides its arguments.
#[derive(Debug, Clone, Copy)]
enum Input<'a> {
    /// A file that the arguments name.
    File(&'a Path),
    /// A cluster of the library: samples are computed from it, so that another gdrtune's may not go on with a run.
    Preset(&'a Preset),
}

/// What decides what a run does. Workloads and spaces of the library show in what the run records.
fn inputs(args: &TuneArgs) -> Vec<Input<'_>> {
    let workload = args.goal.workload.as_deref().and_then(|given| file_of(given, Workload::PRESETS));
    let space = file_of(&args.space.space, SpaceFile::PRESETS);
    let cluster = args.offline.cluster.as_deref();
    let preset = Cluster::PRESETS.iter().find(|preset| Some(preset.name) == cluster);
    let cluster = cluster.and_then(|given| file_of(given, Cluster::PRESETS));
    let HostArgs { hostfile, site, .. } = &args.hosts;
    let (grid, ceilings) = (args.offline.grid.as_deref(), args.ceilings.as_deref());
    let files = [hostfile.as_deref(), site.as_deref(), grid, workload, space, cluster, ceilings];
    files.into_iter().flatten().map(Input::File).chain(preset.map(Input::Preset)).collect()
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
fn cluster_task(
    args: &TuneArgs,
    workload: Option<&Workload>,
    usual_s: f64,
    again: Option<&Again>,
    hear: &dyn Fn(&hosts::Place) -> io::Result<()>,
) -> Result<Task, Failure> {
    let mut cluster = super::cluster_heard(&args.hosts, &args.measure, &args.nccl, hear)?;
    if let Some(again) = again {
        again.bring_back_hosts(&mut cluster)?;
    }
    cluster.admission = Admission {
        min_nodes: super::min_nodes(args.min_nodes, &cluster)?,
        allow_mixed: args.force,
        probe_pairs: !args.no_probe,
    };
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
        target: Target::Cluster(Box::new(cluster)),
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
fn base_config(
    target: Target,
    points: Vec<Point>,
    space: SpaceFile,
    out: OutputDir,
    invocation: Invocation,
) -> RunConfig {
    RunConfig {
        run_id: run::new_run_id(),
        tool: env!("CARGO_PKG_VERSION").to_owned(),
        target,
        shapes: Vec::new(),
        points,
        goal: Goal::default(),
        settings: space.settings.clone(),
        ceilings: Ceilings::default(),
        budget_s: Some(space.budget_s),
        space,
        max_trials: None,
        strategy: Strategy::Auto,
        min_lease_ms: 20_000,
        seed: 1,
        out,
        invocation,
    }
}

/// How this process was asked for what it does in these words, `inputs` being what they name; of a run that goes on, how
/// that was.
///
/// # Errors
/// Wrong use: a file that cannot be read, or is not what it was when the run began.
fn invocation(
    inputs: &[Input<'_>],
    data_type: Option<DataType>,
    words: &[String],
    again: Option<&Again>,
) -> Result<Invocation, Failure> {
    let read = |input: &Input<'_>| match input {
        Input::File(path) => {
            let name = path.display().to_string();
            let bytes = fs::read(path).with_context(|| format!("read {name}")).map_err(Failure::usage)?;
            Ok(InputFile { path: name, sha256: run::sha256(&bytes) })
        }
        Input::Preset(Preset { name, text }) => {
            Ok(InputFile { path: (*name).to_owned(), sha256: run::sha256(text.as_bytes()) })
        }
    };
    let inputs = inputs.iter().map(read).collect::<Result<Vec<InputFile>, Failure>>()?;
    let host = uname().nodename().to_string_lossy().into_owned();
    let by = Owner { pid: std::process::id(), host };
    let Some(again) = again else {
        let dir = std::env::current_dir()?.display().to_string();
        return Ok(Invocation { args: words.to_vec(), dir, inputs, by, out: OutputClaim::default(), data_type });
    };
    let begun = &again.earlier.invocation;
    if let Some(changed) = inputs.iter().find(|input| !begun.inputs.contains(input)) {
        let text = format!("{} is not what it was when run {} began", changed.path, again.earlier.run);
        let hint = "put the file back as it was (a cluster of the library: the gdrtune that began the run), or begin another run";
        return Err(Failure::usage_text(text).with_hint(hint));
    }
    Ok(Invocation { by, ..begun.clone() })
}

fn claim(path: &Path, report: bool, existing: Existing, again: Option<&Again>) -> Result<OutputDir, Failure> {
    let names = file_names(report);
    let claimed = match again {
        None => OutputDir::claim(path, &names, existing),
        Some(Again { earlier, .. }) => {
            OutputDir::claim_again(path, &names, earlier.invocation.out, |dir| is_of_run(dir, &earlier.run))
        }
    };
    claimed.map_err(|error| occupied(error, existing))
}

/// A folder that cannot be taken, with the next step.
pub(super) fn occupied(error: OutputError, existing: Existing) -> Failure {
    let failure = Failure::usage(error);
    match existing {
        Existing::Refuse => {
            failure.with_hint("choose another folder with --out; --force replaces the files of an earlier run")
        }
        Existing::Replace => failure.with_hint("choose another folder with --out"),
    }
}

/// Whether the folder's profile is of that run.
fn is_of_run(dir: &Path, run: &str) -> bool {
    let text = fs::read_to_string(dir.join("profile.toml")).unwrap_or_default();
    Profile::parse(&text, "profile.toml").is_ok_and(|(profile, _)| profile.run.id == run)
}

/// Runs, shows, and says at the end what came of it.
fn execute(mut config: RunConfig, show: &ShowArgs, at_end: AtEnd, again: Option<Again>) -> Result<Exit, Failure> {
    let (writer, told, earlier) = match again {
        Some(Again { writer, records, earlier }) => {
            config.run_id.clone_from(&earlier.run);
            (writer, records, Some(earlier))
        }
        None => (create_store(&config.run_id)?, Vec::new(), None),
    };
    let store = writer.path().to_owned();
    // Dropping it ends the fleet under the session, which would then record that nodes were lost: not on the way out of a panic.
    let runtime = ManuallyDrop::new(super::runtime()?);
    let controls = Controls::new();
    let use_ui = !show.is_headless() && io::stdout().is_terminal() && io::stdin().is_terminal();

    let (records, receiver) = mpsc::unbounded_channel();
    let listener: Box<dyn FnMut(&Record) + Send> = if use_ui {
        // What a resumed run has done is shown as its own.
        for record in told {
            // The UI takes them as soon as it runs.
            drop(records.send(ui::Input::Record(Arc::new(record))));
        }
        // A UI that was left does not need the records any more.
        Box::new(move |record| drop(records.send(ui::Input::Record(Arc::new(record.clone())))))
    } else {
        headless_listener(show, &told, controls.clone())
    };
    let recorder = match &earlier {
        Some(earlier) => Recorder::resume(writer, listener, earlier),
        None => Recorder::new(writer, listener),
    };
    let measured = earlier.map(|earlier| earlier.measured);
    let engine = config.target.engine();
    let (done, finished) = oneshot::channel();
    let handle = runtime.handle().clone();
    let session_controls = controls.clone();
    let its_store = store.clone();
    let session = thread::Builder::new().name("session".to_owned()).spawn(move || {
        let outcome = run::tune(&config, measured, &recorder, &session_controls, &handle);
        // Now, and not when the user has looked at the end for long enough.
        let ended = outcome.map(|outcome| (at_end.reports(&config.out, &its_store, &outcome), outcome));
        // The receiver waits until the end, unless this process is leaving anyway.
        done.send(()).ok();
        ended
    })?;

    if use_ui {
        let ui_controls = controls.clone();
        let options = super::ui_options(Source::Live, &show.look);
        let steering = Steering::Run(Box::new(move |command| ui_controls.apply(command)));
        let end = runtime.block_on(ui::run(receiver, steering, options))?;
        match end {
            UiEnd::Left => {}
            UiEnd::Detached => {
                // The store is the background's when the session has let go of it.
                drop(session.join());
                drop(ManuallyDrop::into_inner(runtime));
                return detach::hand_over(&store);
            }
            // The third Ctrl-C: the agents see the end of their stdin and clean up by themselves.
            UiEnd::Abandoned => return Ok(Exit::Interrupted),
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
    let ended = joined.with_context(|| format!("the session thread panicked; the run store is {}", store.display()))?;
    let (reports, outcome) = ended.map_err(|error| failure(error, engine, &store))?;
    let reports = reports.unwrap_or_else(|error| {
        super::say(&format!("warning: the run's report is not written: {error:#}"));
        Vec::new()
    });
    Ok(conclude(&outcome, (&store, &reports), use_ui, at_end.expect_gain))
}

fn create_store(run: &str) -> Result<RunWriter, Failure> {
    RunWriter::create(&paths::runs_dir()?, run).map_err(|error| {
        Failure::new(Exit::Unexpected, error).with_hint("set GDRTUNE_STATE_DIR to a folder that can be written")
    })
}

/// Shows what comes as lines; `told` is what an earlier process of the run has shown.
fn headless_listener(show: &ShowArgs, told: &[Record], controls: Controls) -> Box<dyn FnMut(&Record) + Send> {
    let mut progress: Box<dyn Progress> = if show.json {
        Box::new(JsonLines(io::stdout()))
    } else {
        Box::new(PlainLines::new(io::stderr(), show.detail()))
    };
    for record in told {
        progress.catch_up(record);
    }
    let progress = Arc::new(Mutex::new(progress));
    Box::new(move |record| {
        let mut progress = progress.lock().unwrap_or_else(PoisonError::into_inner);
        if progress.show(record).is_err() {
            // Nobody reads any more (`gdrtune ... --json | head`): end the run instead of measuring for nobody.
            controls.apply(Command::Stop);
        }
    })
}

/// A run without an outcome, with its exit code and the next step.
fn failure(error: run::RunError, engine: Engine, store: &Path) -> Failure {
    let exit = match &error {
        run::RunError::Connect(_) | run::RunError::Unusable(_) => Exit::Preflight,
        run::RunError::Usage(_) | run::RunError::Diverged(_) => Exit::Usage,
        run::RunError::NodesLost(_) => Exit::NodesLost,
        run::RunError::Interrupted => Exit::Interrupted,
        run::RunError::Output(_) | run::RunError::Store(_) | run::RunError::Internal(_) => Exit::Unexpected,
    };
    let hint = match &error {
        run::RunError::Connect(refused) if let Some(hint) = refused.hint() => hint.to_owned(),
        run::RunError::Diverged(_) => {
            "the machine, the files or gdrtune are not what they were: put them back, or begin \
                                       another run with gdrtune tune"
                .to_owned()
        }
        // A resumed run would lose it again.
        run::RunError::NodesLost(_) if engine == Engine::Sim => format!(
            "the cluster file says so: take its lost-node out, or give fewer --trials; what was measured is in {}",
            store.display()
        ),
        run::RunError::Interrupted => {
            let run = store.file_stem().unwrap_or_default().display();
            format!("gdrtune runs resume {run} goes on from here; what was measured is in {}", store.display())
        }
        run::RunError::NodesLost(_) => {
            let run = store.file_stem().unwrap_or_default().display();
            format!(
                "gdrtune runs resume {run} goes on from here once they are back; with --min-nodes N it begins anew on the \
                 others, if N are left; what was measured is in {}",
                store.display()
            )
        }
        _ => format!("everything that was measured is in {}", store.display()),
    };
    Failure::new(exit, error).with_hint(hint)
}

/// The exit code, and the last words on stderr.
fn conclude(outcome: &RunOutcome, (store, reports): (&Path, &[PathBuf]), after_ui: bool, expect_gain: bool) -> Exit {
    let mut last_words = String::new();
    if after_ui {
        last_words = format!("{}\n", outcome.summary);
        for file in &outcome.written {
            last_words.push_str(&["  ", &file.display().to_string(), "\n"].concat());
        }
    }
    if outcome.end == RunEnd::Interrupted {
        let run = store.file_stem().unwrap_or_default().display();
        last_words.push_str(&["gdrtune runs resume ", &run.to_string(), " goes on from here\n"].concat());
    }
    if let Some(report) = reports.first() {
        last_words.push_str(&["report: ", &report.display().to_string(), "\n"].concat());
    }
    last_words.push_str(&["run store: ", &store.display().to_string(), "\n"].concat());
    // A closed stderr changes nothing about the exit code.
    drop(io::stderr().write_all(last_words.as_bytes()));
    match outcome.end {
        RunEnd::Interrupted => Exit::Interrupted,
        RunEnd::NodesLost => Exit::NodesLost,
        RunEnd::Failed => Exit::Unexpected,
        // The result is of another cluster than was asked for, which whoever deploys it must know first of all.
        RunEnd::Tuned | RunEnd::DefaultsBest if !outcome.left_out.is_empty() => Exit::NodesLost,
        RunEnd::Tuned | RunEnd::DefaultsBest if outcome.failed_trials > 0 => Exit::TrialsFailed,
        RunEnd::DefaultsBest if expect_gain => Exit::NoGain,
        RunEnd::Tuned | RunEnd::DefaultsBest => Exit::Done,
    }
}
