//! `gdrtune bench --choices all`: every choice at every point, beside the engine's own.

use std::{
    collections::BTreeMap,
    io::{self, Write as _},
};

use gdrtune_profiles::vocab::{Choice, Environment, Point};
use gdrtune_session::{
    cluster::{ClusterBench, pace::PaceConfig},
    grid::{self, GridError},
    open::ClusterRequest,
};
use gdrtune_tuner::{
    bench::{BenchError, Cancel, Setup, Timing},
    grid::{GridNote, GridPlan},
    stats,
};

use super::{csv::Csv, ended, exit};
use crate::{
    cli::BenchArgs,
    command,
    exit::{Exit, Failure},
};

/// Times by point and choice.
type Times = BTreeMap<Point, BTreeMap<Option<Choice>, Vec<f64>>>;

/// What a grid came to.
#[derive(Debug, Default)]
struct Measured {
    times: Times,
    has_failure: bool,
}

/// Measures the grid and prints the best of each point.
pub(super) fn bench(
    args: &BenchArgs,
    cluster: &ClusterRequest,
    environment: Environment,
    points: &[Point],
) -> Result<Exit, Failure> {
    let cancel = Cancel::new();
    let mut csv = args.csv.as_ref().map(|path| Csv::create(path, args.force, &cancel)).transpose()?;
    // As long as in a search: what a grid is compared with.
    let pace = PaceConfig { min_lease_ms: args.measure.trial.min_lease_ms(), ..PaceConfig::default() };
    let (measured, present) = command::with_bench(cluster, points, pace, |bench, nodes| {
        (measure(bench, args, environment, points, &mut csv, &cancel), nodes.clone())
    })?;
    // A file that could not be written is why measuring ended, where it did.
    csv.map_or(Ok(()), Csv::finish)?;
    let measured = measured?;
    print(args, present.request.slots.iter().sum(), &measured.times)?;
    Ok(exit(&present, measured.has_failure))
}

fn measure(
    bench: &mut ClusterBench<'_>,
    args: &BenchArgs,
    environment: Environment,
    points: &[Point],
    csv: &mut Option<Csv>,
    cancel: &Cancel,
) -> Result<Measured, Failure> {
    let choices = grid::choices(bench, environment.clone(), points, cancel).map_err(|error| match error {
        GridError::Bench(error) => ended(args, error),
        other => Failure::usage(other),
    })?;
    let setup = Setup::Live(environment);
    let plan = GridPlan { points: points.to_vec(), choices, repeats: args.repeats, setup, seed: args.seed };
    let mut measured = Measured::default();
    let result = gdrtune_tuner::grid::measure(bench, &plan, cancel, &mut |note| match note {
        GridNote::Timed { repeat, point, choice, timing } => {
            let Timing { time_us, .. } = timing;
            measured.times.entry(point).or_default().entry(choice).or_default().push(time_us);
            if let Some(csv) = csv {
                csv.add(repeat, point, choice, &timing);
            }
        }
        GridNote::LeftOut { point, choice, why, is_failure } => {
            measured.has_failure |= is_failure;
            let choice = choice.map_or_else(|| "default".to_owned(), |choice| choice.to_string());
            // Nothing is to be done about a standard error that is closed.
            writeln!(io::stderr(), "gdrtune: left out: {point} {choice}: {why}").ok();
        }
    });
    match result {
        // Only the file cancels, and tells itself.
        Ok(()) | Err(BenchError::Cancelled) => Ok(measured),
        Err(error) => Err(ended(args, error)),
    }
}

/// The engine's own choice and the best one of each point.
fn print(args: &BenchArgs, ranks: u32, times: &Times) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let emulated = if args.nccl.emulate_nodes { " EMULATED nodes," } else { "" };
    writeln!(
        out,
        "# engine {},{emulated} {ranks} ranks, {}, every choice, medians of {} samples; the best of many is best by luck too",
        args.measure.engine, args.measure.sizes.data_type, args.repeats
    )?;
    writeln!(
        out,
        "# {:>12} {:>13} {:>8} {:>13} {:>10} {:>8}  best",
        "size (B)", "collective", "choices", "default (us)", "best (us)", "speed-up"
    )?;
    for (point, cells) in times {
        let medians = || cells.iter().filter_map(|(choice, times)| Some((*choice, stats::median(times)?)));
        let own = medians().find(|(choice, _)| choice.is_none()).map(|(_, time_us)| time_us);
        let chosen = || medians().filter_map(|(choice, time_us)| Some((choice?, time_us)));
        let best = chosen().min_by(|a, b| a.1.total_cmp(&b.1));
        let text =
            |value: Option<f64>, digits: usize| value.map_or_else(|| "-".to_owned(), |v| format!("{v:.digits$}"));
        let best_us = best.map(|(_, time_us)| time_us);
        let speedup = own.zip(best_us).map(|(own, best)| own / best);
        let name = best.map_or_else(|| "-".to_owned(), |(choice, _)| choice.to_string());
        writeln!(
            out,
            "  {:>12} {:>13} {:>8} {:>13} {:>10} {:>8}  {name}",
            point.bytes,
            point.collective,
            chosen().count(),
            text(own, 2),
            text(best_us, 2),
            text(speedup, 3)
        )?;
    }
    Ok(())
}
