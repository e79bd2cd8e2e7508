//! What `gdrtune tune` measures with where it reaches no hosts: a recorded grid, or a simulated cluster.

use std::{collections::BTreeSet, fs};

use gdrtune_profiles::{
    setting::SpaceSettings,
    size::parse_sizes,
    vocab::{Collective, Engine, Point},
    workload::Workload,
};
use gdrtune_session::{
    offline::{OfflineRequest, ReplayRequest, SimRequest},
    run::Target,
};

use super::{presets, tune::Task};
use crate::{cli::TuneArgs, exit::Failure};

/// Options about hosts, workers and how NCCL is called there.
const HOST_OPTIONS: [&str; 21] = [
    "hosts",
    "exclude-hosts",
    "hostfile",
    "site",
    "ranks-per-node",
    "min-nodes",
    "no-probe",
    "launcher",
    "launcher-cmd",
    "ssh-config",
    "accept-new-host-keys",
    "fanout",
    "remote-dir",
    "data-type",
    "trial-timeout",
    "shared",
    "worker-cmd",
    "nccl",
    "emulate-nodes",
    "graph",
    "register-buffers",
];

/// Draws for each recorded cell, where the user limits neither trials nor time: at 5 for each of 750 cells, the recorded
/// grids' picks are within 4 % of the best (`benches/search`).
const DRAWS_PER_CELL: u64 = 5;

/// Measurements of a simulated cluster's search, where the user limits neither these nor the time: with as many the library's
/// planted truths are found (`tuner/tests/truth.rs`), and they take a few seconds.
const SIMULATED_TRIALS: u64 = 4_000;

/// The run without hosts that the user asks for, if that is so.
///
/// # Errors
/// Wrong use: options that do not go together, or a file that cannot be used, with the place.
pub(super) fn task(
    args: &TuneArgs,
    workload: Option<&Workload>,
    settings: &SpaceSettings,
) -> Result<Option<Task>, Failure> {
    let engine = args.measure.engine;
    for (option, of) in [("grid", Engine::Replay), ("cluster", Engine::Sim)] {
        if engine != of && args.gives(option) {
            let text =
                format!("--{option}: the {engine} engine reads none: add --engine {of}, or leave --{option} out");
            return Err(Failure::usage_text(text));
        }
    }
    let (request, points, usual) = match engine {
        Engine::Replay => {
            refuse_host_options(args)?;
            let replay = replay(args, settings)?;
            let points = recorded_points(args, workload, &replay)?;
            let draws = DRAWS_PER_CELL * replay.cells(&points);
            (OfflineRequest::Replay(replay), points, draws)
        }
        Engine::Sim => {
            refuse_host_options(args)?;
            let sim = sim(args, settings)?;
            let points = simulated_points(args, workload, &sim)?;
            (OfflineRequest::Sim(sim), points, SIMULATED_TRIALS)
        }
        Engine::Native | Engine::Nccl => return Ok(None),
    };
    let usual = args.budget.is_none().then_some(usual);
    Ok(Some(Task {
        target: Target::Offline(request),
        shapes: Vec::new(),
        points,
        // The clock is not the user's: only what the user says ends it by time.
        budget_s: args.budget,
        max_trials: args.trials.or(usual),
    }))
}

fn refuse_host_options(args: &TuneArgs) -> Result<(), Failure> {
    let engine = args.measure.engine;
    match HOST_OPTIONS.iter().find(|option| args.gives(option)) {
        Some(option) => {
            let text = format!("--{option}: --engine {engine} reaches no host and starts no worker: leave it out");
            Err(Failure::usage_text(text))
        }
        None => Ok(()),
    }
}

fn replay(args: &TuneArgs, settings: &SpaceSettings) -> Result<ReplayRequest, Failure> {
    let path = args.offline.grid.as_deref().ok_or_else(|| {
        Failure::usage_text(
            "--engine replay needs a recorded grid: name one with --grid FILE.csv (`gdrtune bench --choices all --csv FILE.csv` \
             records one)",
        )
    })?;
    if let Some(add) = settings.adds.first() {
        let text = format!("--add {add}: a recorded grid has the values that were recorded: leave it out");
        return Err(Failure::usage_text(text));
    }
    let name = path.display().to_string();
    let shape = match &args.shapes {
        None => None,
        Some(shapes) => Some(shapes.single().ok_or_else(|| {
            Failure::usage_text(format!("--shapes {shapes}: a recorded grid is of one job shape: name that one"))
        })?),
    };
    let context = format!("read --grid {name}");
    let bytes = fs::read(path).map_err(|error| Failure::usage(anyhow::Error::from(error).context(context.clone())))?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let line = 1 + error.as_bytes().iter().take(error.utf8_error().valid_up_to()).filter(|b| **b == b'\n').count();
        Failure::usage_text(format!("{context}: line {line}: not UTF-8 text"))
    })?;
    ReplayRequest::read(&name, &text, shape).map_err(Failure::usage)
}

/// The grid's points, or of these what the user names.
fn recorded_points(
    args: &TuneArgs,
    workload: Option<&Workload>,
    replay: &ReplayRequest,
) -> Result<Vec<Point>, Failure> {
    if let Some(workload) = workload {
        let recorded = replay.points();
        return match workload.points().find(|point| !recorded.contains(point)) {
            None => Ok(workload.points().collect()),
            Some(point) => Err(Failure::usage_text(format!(
                "--workload {}: {point} is not recorded in the grid: leave it out of the workload, or record it",
                workload.name
            ))),
        };
    }
    let collectives = args.gives("collectives").then_some(args.measure.collectives.as_slice());
    let sizes = &args.measure.sizes;
    let sizes =
        if args.gives("sizes") { Some(parse_sizes(&sizes.sizes, sizes.factor).map_err(Failure::usage)?) } else { None };
    replay.select(collectives, sizes.as_deref()).map_err(Failure::usage)
}

fn sim(args: &TuneArgs, settings: &SpaceSettings) -> Result<SimRequest, Failure> {
    let given = args.offline.cluster.as_deref().ok_or_else(|| {
        let text = "--engine sim needs a cluster: name one with --cluster NAME or --cluster FILE.toml (`gdrtune tune --help` lists \
                    them, and shows a file)";
        Failure::usage_text(text)
    })?;
    for (option, why) in [
        ("shapes", "a simulated cluster is of one job shape, the nodes and ranks_per_node of its file"),
        ("space", "the [search] of the cluster file says what is searched; --add, --pin and --exclude change it"),
    ] {
        if args.gives(option) {
            return Err(Failure::usage_text(format!("--{option}: {why}: leave it out")));
        }
    }
    let sim = presets::cluster(given)?;
    sim.check(settings).map_err(Failure::usage)?;
    Ok(sim)
}

/// The workload's points; else what the user names, where that is not said the cluster file, and where that says
/// nothing, as every run.
fn simulated_points(args: &TuneArgs, workload: Option<&Workload>, sim: &SimRequest) -> Result<Vec<Point>, Failure> {
    if let Some(workload) = workload {
        return Ok(workload.points().collect());
    }
    let (asked, listed) = (super::points(&args.measure)?, sim.points());
    if listed.is_empty() {
        return Ok(asked);
    }
    let has_sizes = args.gives("sizes") || args.gives("factor");
    let (by_collective, by_size) = match (args.gives("collectives"), has_sizes) {
        (true, true) => return Ok(asked),
        (false, false) => return Ok(listed),
        (true, false) => (asked, listed),
        (false, true) => (listed, asked),
    };
    let collectives: BTreeSet<Collective> = by_collective.iter().map(|point| point.collective).collect();
    let sizes: BTreeSet<u64> = by_size.iter().map(|point| point.bytes).collect();
    let of = |&collective| sizes.iter().map(move |&bytes| Point { collective, bytes });
    Ok(collectives.iter().flat_map(of).collect())
}
