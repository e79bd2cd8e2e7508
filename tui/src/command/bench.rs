//! `gdrtune bench`: one setting, one table like nccl-tests'.

mod csv;
mod grid;

use std::io::{self, Write};

use gdrtune_profiles::{
    json,
    setting::parse_settings,
    vocab::{Choice, Collective, Environment, Point},
};
use gdrtune_session::{
    cluster::pace::PaceConfig,
    open::{Admission, Present},
};
use gdrtune_tuner::bench::{Bench, BenchError, Cancel, Item, Outcome, Script, Setup, Timing};

use self::csv::Csv;
use crate::{
    cli::BenchArgs,
    exit::{Exit, Failure},
};

/// Time that one sample takes, in microseconds: longer than in a search, since there is only one setting.
const SAMPLE_US: f64 = 30_000.0;

pub(crate) fn bench(args: &BenchArgs) -> Result<Exit, Failure> {
    let points = super::points(&args.measure)?;
    let environment = parse_settings(&args.environment).map_err(Failure::usage)?;
    let mut cluster = super::cluster(&args.hosts, &args.measure, &args.nccl)?;
    let min_nodes = super::min_nodes(args.min_nodes, &cluster)?;
    cluster.admission = Admission { min_nodes, allow_mixed: args.force, ..Admission::default() };
    if args.choices.is_some() {
        return grid::bench(args, &cluster, environment, &points);
    }
    let pace =
        PaceConfig { sample_us: SAMPLE_US, max_iterations: 2_000, min_lease_ms: args.measure.trial.min_lease_ms() };
    let cancel = Cancel::new();
    let mut csv = args.csv.as_ref().map(|path| Csv::create(path, args.force, &cancel)).transpose()?;
    let (rows, present) = super::with_bench(&cluster, &points, pace, |bench, nodes| {
        (measure(bench, args, environment, &points, &mut csv, &cancel), nodes.clone())
    })?;
    // A file that could not be written is why measuring ended, where it did.
    csv.map_or(Ok(()), Csv::finish)?;
    let rows = rows?;
    let ranks = present.request.slots.iter().sum();
    let failed = rows.iter().any(|row| row.timing.is_err());
    print(args, ranks, &rows)?;
    Ok(exit(&present, failed))
}

/// How a benchmark of these hosts ends.
fn exit(present: &Present, has_failure: bool) -> Exit {
    match has_failure {
        _ if !present.left_out.is_empty() => Exit::NodesLost,
        true => Exit::TrialsFailed,
        false => Exit::Done,
    }
}

/// Why there are no further samples.
fn ended(args: &BenchArgs, error: BenchError) -> Failure {
    let is_special = !args.environment.is_empty() || args.choice.is_some() || args.measure.trial.worker_cmd.is_some();
    match error {
        // What the user asked for is the likely cause; where that is nothing special, it is the hosts.
        BenchError::Setup { .. } if !is_special => Failure::new(Exit::Preflight, error),
        BenchError::Setup { .. } => Failure::usage(error),
        BenchError::Lost(_) | BenchError::Cancelled => Failure::new(Exit::NodesLost, error),
    }
}

/// One size.
struct Row {
    point: Point,
    /// Median over the samples, or what went wrong.
    timing: Result<Timing, String>,
}

fn measure(
    bench: &mut dyn Bench,
    args: &BenchArgs,
    environment: Environment,
    points: &[Point],
    csv: &mut Option<Csv>,
    cancel: &Cancel,
) -> Result<Vec<Row>, Failure> {
    let setup = if environment.is_empty() && args.choice.is_none() { Setup::Site } else { Setup::Live(environment) };
    let choice = |point: Point| args.choice.filter(|_| point.collective.has_choice());
    let items = points.iter().map(|&point| Item { point, choice: choice(point), repeats: args.repeats }).collect();
    let mut samples: Vec<Vec<Timing>> = vec![Vec::new(); points.len()];
    let mut failures: Vec<Option<String>> = vec![None; points.len()];
    let mut keep = |item: usize, choice: Option<Choice>, timing: Timing| {
        if let Some(csv) = csv.as_mut() {
            csv.add(samples[item].len() as u32, points[item], choice, &timing);
        }
        samples[item].push(timing);
    };
    let mut sink = |sample: gdrtune_tuner::bench::Sample| match sample.outcome {
        Outcome::Timed(timing) => keep(sample.item, choice(points[sample.item]), timing),
        // A benchmark reports what ran; the table shows it beside what was asked for.
        Outcome::Substituted { selected, timing } => {
            keep(sample.item, Some(selected), Timing { selected: Some(selected), ..timing });
        }
        // The first failure of a point says most: later ones may be no more than its consequence.
        Outcome::Wrong(why) => drop(failures[sample.item].get_or_insert(format!("wrong result: {why}"))),
        Outcome::Hung(why) => drop(failures[sample.item].get_or_insert(format!("hung: {why}"))),
        // Nobody can skip here.
        Outcome::Skipped => {}
        Outcome::Crashed(why) | Outcome::Unsupported(why) => drop(failures[sample.item].get_or_insert(why)),
    };
    let script = Script { setup, fresh: false, items };
    bench.run(&script, cancel, &mut sink).map_err(|error| ended(args, error))?;
    let rows = points.iter().zip(samples).zip(failures).map(|((&point, mut samples), failure)| {
        let timing = match (failure, middle(&mut samples)) {
            (Some(why), _) => Err(why),
            (None, Some(timing)) => Ok(timing),
            (None, None) => Err("no sample".to_owned()),
        };
        Row { point, timing }
    });
    Ok(rows.collect())
}

/// The sample with the median time.
fn middle(samples: &mut [Timing]) -> Option<Timing> {
    samples.sort_by(|a, b| a.time_us.total_cmp(&b.time_us));
    samples.get(samples.len() / 2).copied()
}

fn print(args: &BenchArgs, ranks: u32, rows: &[Row]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    if args.json {
        let results: Vec<serde_json::Value> = rows.iter().map(|row| json_row(row, ranks)).collect();
        let document = serde_json::json!({
            "schema_version": 1,
            "engine": args.measure.engine,
            "ranks": ranks,
            "emulated": args.nccl.emulate_nodes,
            "graph": args.nccl.calls.graph,
            "register_buffers": args.nccl.calls.register_buffers,
            "data_type": args.measure.sizes.data_type,
            "repeats": args.repeats,
            "requested": args.choice,
            "results": results,
        });
        return out.write_all(json::document(&document).as_bytes());
    }
    let emulated = if args.nccl.emulate_nodes { " EMULATED nodes," } else { "" };
    let graphs = if args.nccl.calls.graph { " CUDA graphs," } else { "" };
    let registered = if args.nccl.calls.register_buffers { " registered buffers," } else { "" };
    writeln!(
        out,
        "# engine {},{emulated}{graphs}{registered} {ranks} ranks, {}, median of {} samples",
        args.measure.engine, args.measure.sizes.data_type, args.repeats
    )?;
    writeln!(
        out,
        "# {:>12} {:>12} {:>13} {:>6} {:>10} {:>12} {:>12} {:>8}  ran",
        "size (B)", "count", "collective", "redop", "time (us)", "algbw (GB/s)", "busbw (GB/s)", "#wrong"
    )?;
    for Row { point, timing } in rows {
        let count = point.collective.count(ranks, point.bytes, args.measure.sizes.data_type);
        let redop = if point.collective.reduces() { "sum" } else { "none" };
        write!(out, "  {:>12} {count:>12} {:>13} {redop:>6} ", point.bytes, point.collective)?;
        match timing {
            Ok(t) => {
                let algbw = point.bytes as f64 / t.time_us / 1e3;
                let busbw = point.collective.busbw_gbs(ranks, point.bytes, t.time_us);
                let ran = t.selected.map_or_else(|| "-".to_owned(), |c| c.to_string());
                writeln!(out, "{:>10.2} {algbw:>12.4} {busbw:>12.4} {:>8}  {ran}", t.time_us, 0)?;
            }
            Err(why) => writeln!(out, "failed: {why}")?,
        }
    }
    Ok(())
}

fn json_row(row: &Row, ranks: u32) -> serde_json::Value {
    let Point { collective, bytes } = row.point;
    match &row.timing {
        Err(why) => serde_json::json!({"collective": collective, "bytes": bytes, "error": why}),
        Ok(t) => serde_json::json!({
            "collective": collective,
            "bytes": bytes,
            "time_us": t.time_us,
            "slowest_us": t.slowest_us,
            "median_us": t.median_us,
            "max_us": t.max_us,
            "cpu_us": t.cpu_us,
            "algbw_gbs": bytes as f64 / t.time_us / 1e3,
            "busbw_gbs": Collective::busbw_gbs(collective, ranks, bytes, t.time_us),
            "wrong": 0,
            "selected": t.selected,
        }),
    }
}
