//! `gdrtune tune` and `gdrtune demo`: a whole run, shown by the terminal UI or by lines. Here is what it is to do.

mod execute;

use std::{cell::RefCell, fs, io, path::Path};

use anyhow::Context as _;
use gdrtune_fleet::{LauncherKind, hosts::parse_list};
use gdrtune_profiles::{
    bindings::{INTERFACES, ceilings::Ceilings},
    profile::Profile,
    setting::SpaceSettings,
    size::parse_sizes,
    source::Preset,
    space::SpaceFile,
    vocab::{Collective, DataType, Point},
    workload::Workload,
};
use gdrtune_session::{
    event::{Event, InputFile, Invocation, Owner, Record},
    open::{Admission, ClusterRequest},
    output::{Existing, OutputClaim, OutputDir, OutputError},
    resume::Earlier,
    run::{self, Goal, OUTPUT_FILES, RunConfig, Target},
    store::RunWriter,
};
use gdrtune_tuner::{objective::Objective, search::Strategy, sim::Cluster};
use rustix::system::uname;

use self::execute::{AtEnd, execute};
use super::{offline, presets::file_of, report};
use crate::{
    cli::{DemoArgs, GoalArgs, HostArgs, ObjectiveArg, SpaceArgs, TuneArgs},
    exit::{Exit, Failure},
    hosts,
};

/// What the demo's ranks talk over.
const LOOPBACK: &str = "=lo";

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
    let mut cluster = super::cluster_at(hosts::this_machine(hosts::LOCAL_RANKS), &super::announce)?;
    // Its ranks need no network, and the engine takes a channel at least for each interface, those of containers too.
    if std::env::var_os(INTERFACES).is_none() {
        cluster.environment.push((INTERFACES.to_owned(), LOOPBACK.to_owned()));
    }
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
    let ceilings: Ceilings = serde_json::from_str(&text)
        .map_err(|error| Failure::usage(anyhow::Error::from(error).context(name.clone())))?;
    ceilings.check().map_err(|error| Failure::usage(anyhow::Error::from(error).context(name)))?;
    Ok(ceilings)
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
