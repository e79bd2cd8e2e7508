//! What `gdrtune tune` measures with where it reaches no hosts: a recorded grid.

use std::{fs, path::Path};

use gdrtune_profiles::{
    size::parse_sizes,
    vocab::{Engine, Point},
    workload::Workload,
};
use gdrtune_session::{
    offline::{OfflineRequest, ReplayRequest},
    run::Target,
};

use super::tune::Task;
use crate::{cli::TuneArgs, exit::Failure};

/// Options about hosts, workers and how NCCL is called there.
const HOST_OPTIONS: [&str; 19] = [
    "hosts",
    "exclude-hosts",
    "hostfile",
    "site",
    "ranks-per-node",
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

/// The run without hosts that the user asks for, if that is so.
///
/// # Errors
/// Wrong use: options that do not go together, or a file that cannot be used, with the place.
pub(super) fn task(args: &TuneArgs, workload: Option<&Workload>) -> Result<Option<Task>, Failure> {
    let engine = args.measure.engine;
    match (engine, &args.grid) {
        (Engine::Replay, Some(grid)) => {
            refuse_host_options(args)?;
            let replay = replay(args, grid)?;
            let points = points(args, workload, &replay)?;
            let usual = args.budget.is_none().then(|| DRAWS_PER_CELL * replay.cells(&points));
            Ok(Some(Task {
                target: Target::Offline(OfflineRequest::Replay(replay)),
                shapes: Vec::new(),
                points,
                // The clock is not the user's: only what the user says ends it by time.
                budget_s: args.budget,
                max_trials: args.trials.or(usual),
            }))
        }
        (Engine::Replay, None) => {
            let text = "--engine replay needs a recorded grid: name one with --grid FILE.csv (`gdrtune bench --choices all --csv \
                        FILE.csv` records one)";
            Err(Failure::usage_text(text))
        }
        (_, Some(_)) => {
            let text = format!(
                "--grid: the {engine} engine measures and reads no grid: add --engine replay, or leave --grid out"
            );
            Err(Failure::usage_text(text))
        }
        (_, None) => Ok(None),
    }
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

fn replay(args: &TuneArgs, path: &Path) -> Result<ReplayRequest, Failure> {
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
fn points(args: &TuneArgs, workload: Option<&Workload>, replay: &ReplayRequest) -> Result<Vec<Point>, Failure> {
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
