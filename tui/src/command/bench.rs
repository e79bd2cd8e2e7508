//! `gdrtune bench`: one setting, one table like nccl-tests'.

use std::io::{self, Write};

use gdrtune_fleet::FleetConfig;
use gdrtune_profiles::vocab::{Collective, Engine, Environment, Point};
use gdrtune_session::{
    cluster::{CallMode, ClusterBench, ClusterConfig, link::FleetLink, pace::PaceConfig},
    connect, run,
};
use gdrtune_tuner::bench::{Bench, BenchError, Cancel, Item, Outcome, Script, Setup, Timing};

use super::tune::launcher;
use crate::{
    BUILD_ID,
    cli::{BenchArgs, CallArgs},
    exit::{Exit, Failure},
    hosts,
};

/// What tells workers where NCCL is (`gdrtune_node::engine::nccl`).
const NCCL_PATH_VARIABLE: &str = "GDRTUNE_NCCL_LIB";

/// Time that one sample takes, in microseconds: longer than in a search, since there is only one setting.
const SAMPLE_US: f64 = 30_000.0;

pub(crate) fn bench(args: &BenchArgs) -> Result<Exit, Failure> {
    let place = hosts::resolve(&args.hosts)?;
    let points = super::points(&args.measure)?;
    let calls = call_mode(args)?;
    let environment = run::parse_settings(&args.environment).map_err(Failure::usage)?;
    for warning in &place.warnings {
        writeln!(io::stderr(), "gdrtune: warning: {warning}")?;
    }
    let runtime = super::runtime()?;
    let config = FleetConfig {
        fanout: usize::from(args.hosts.fanout),
        agent_env: nccl_path(args)?,
        ..FleetConfig::new(BUILD_ID.to_owned(), std::env::current_exe()?, launcher(&args.hosts, &place))
    };
    let connected = connect::connect(runtime.handle(), config, &place.hosts, None, &|| false)
        .map_err(|error| Failure::new(Exit::Preflight, error))?;

    let max_bytes = points.iter().map(|p| p.bytes).max().unwrap_or(0);
    if let Err(error) = connect::check_memory(&place.hosts, &place.slots, &connected.inventories, max_bytes) {
        runtime.block_on(connected.fleet.shutdown());
        return Err(Failure::new(Exit::Preflight, error));
    }
    let cluster = ClusterConfig {
        engine: args.measure.engine,
        hosts: place.hosts.iter().map(|h| h.name.clone()).collect(),
        emulate_nodes: args.emulate_nodes,
        slots: place.slots.clone(),
        data_type: args.measure.data_type,
        max_bytes,
        pace: PaceConfig {
            sample_us: SAMPLE_US,
            max_iterations: 2_000,
            min_lease_ms: (args.measure.trial_timeout * 1e3) as u64,
        },
        calls,
        key: run::new_key(),
    };
    let link = FleetLink::new(&connected.fleet, &connected.events);
    let mut bench = ClusterBench::new(Box::new(link), cluster, Box::new(|_| {}));
    let rows = measure(&mut bench, args, environment, &points);
    bench.close();
    drop(bench);
    runtime.block_on(connected.fleet.shutdown());

    let rows = rows?;
    let ranks = place.slots.iter().sum();
    let failed = rows.iter().any(|row| row.timing.is_err());
    print(args, ranks, &rows)?;
    Ok(if failed { Exit::TrialsFailed } else { Exit::Done })
}

/// How the collectives are called, if the engine has more than one way.
fn call_mode(args: &BenchArgs) -> Result<CallMode, Failure> {
    let CallArgs { graph, register_buffers } = args.calls;
    for (option, is_given) in [("--graph", graph), ("--register-buffers", register_buffers)] {
        if is_given && args.measure.engine != Engine::Nccl {
            let engine = args.measure.engine;
            return Err(Failure::usage_text(format!("{option}: the {engine} engine has none: use --engine nccl")));
        }
    }
    Ok(CallMode { graph, register_buffers })
}

/// Where the workers find NCCL, if the user says so. It must reach every arm alike, so it goes to the agents.
fn nccl_path(args: &BenchArgs) -> Result<Vec<(String, String)>, Failure> {
    let Some(path) = &args.nccl else { return Ok(Vec::new()) };
    let text = path.to_str().ok_or_else(|| Failure::usage_text("--nccl: the path is no UTF-8 text"))?;
    Ok(vec![(NCCL_PATH_VARIABLE.to_owned(), text.to_owned())])
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
) -> Result<Vec<Row>, Failure> {
    let setup = if environment.is_empty() && args.choice.is_none() { Setup::Site } else { Setup::Live(environment) };
    let choice = |point: Point| args.choice.filter(|_| point.collective.has_choice());
    let item = |&point: &Point, repeats| Item { point, choice: choice(point), repeats };
    let mut samples: Vec<Vec<Timing>> = vec![Vec::new(); points.len()];
    let mut failures: Vec<Option<String>> = vec![None; points.len()];
    // The first pass learns how long each point takes, so that the second one's samples are long enough; it is dropped.
    for (pass, repeats) in [(0, 1), (1, args.repeats)] {
        let items = points.iter().map(|p| item(p, repeats)).collect();
        let script = Script { setup: setup.clone(), fresh: false, items };
        let mut sink = |sample: gdrtune_tuner::bench::Sample| match sample.outcome {
            Outcome::Timed(timing) if pass == 1 => samples[sample.item].push(timing),
            Outcome::Timed(_) => {}
            Outcome::Substituted { selected, timing } => {
                // A benchmark reports what ran; the table shows it beside what was asked for.
                if pass == 1 {
                    samples[sample.item].push(Timing { selected: Some(selected), ..timing });
                }
            }
            // The first failure of a point says most: later ones may be no more than its consequence.
            Outcome::Wrong(why) => drop(failures[sample.item].get_or_insert(format!("wrong result: {why}"))),
            Outcome::Hung(why) => drop(failures[sample.item].get_or_insert(format!("hung: {why}"))),
            Outcome::Crashed(why) | Outcome::Unsupported(why) => drop(failures[sample.item].get_or_insert(why)),
        };
        bench.run(&script, &Cancel::new(), &mut sink).map_err(|error| match error {
            BenchError::Setup { .. } => Failure::usage(error),
            BenchError::Lost(_) | BenchError::Cancelled => Failure::new(Exit::NodesLost, error),
        })?;
    }
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
            "emulated": args.emulate_nodes,
            "graph": args.calls.graph,
            "register_buffers": args.calls.register_buffers,
            "data_type": args.measure.data_type,
            "repeats": args.repeats,
            "requested": args.choice,
            "results": results,
        });
        return writeln!(out, "{document:#}");
    }
    let emulated = if args.emulate_nodes { " EMULATED nodes," } else { "" };
    let graphs = if args.calls.graph { " CUDA graphs," } else { "" };
    let registered = if args.calls.register_buffers { " registered buffers," } else { "" };
    writeln!(
        out,
        "# engine {},{emulated}{graphs}{registered} {ranks} ranks, {}, median of {} samples",
        args.measure.engine, args.measure.data_type, args.repeats
    )?;
    writeln!(
        out,
        "# {:>12} {:>12} {:>13} {:>6} {:>10} {:>12} {:>8} {:>8}  ran",
        "size (B)", "count", "collective", "redop", "time (us)", "algbw (GB/s)", "busbw", "#wrong"
    )?;
    for Row { point, timing } in rows {
        let count = point.bytes / args.measure.data_type.bytes();
        let redop = if point.collective.reduces() { "sum" } else { "none" };
        write!(out, "  {:>12} {count:>12} {:>13} {redop:>6} ", point.bytes, point.collective)?;
        match timing {
            Ok(t) => {
                let algbw = point.bytes as f64 / t.time_us / 1e3;
                let busbw = point.collective.busbw_gbs(ranks, point.bytes, t.time_us);
                let ran = t.selected.map_or_else(|| "-".to_owned(), |c| c.to_string());
                writeln!(out, "{:>10.2} {algbw:>12.4} {busbw:>8.4} {:>8}  {ran}", t.time_us, 0)?;
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
