//! The verdict: collectives with and without GPU Direct RDMA on a cluster.

use std::io::{self, Write};

use gdrtune_profiles::{
    json,
    profile::Speedup,
    size::parse_sizes,
    vocab::{Engine, Point},
};
use gdrtune_session::{
    cluster::pace::PaceConfig,
    gdr::{GdrOutcome, GdrPlan, GdrResult, Paths, RankPath, Unproven, measure},
};
use gdrtune_tuner::{
    bench::{BenchError, Cancel},
    gdr::{Decision, Marks, Row, Side, Standing},
};
use gdrtune_wire::NetworkUse;
use serde_json::{Value, json};

use super::super::{print_fitted, verify::Progress};
use crate::{
    cli::{GdrArgs, MeasureArgs, SizeArgs},
    exit::{Exit, Failure},
    ui::text::count,
};

/// Factor between the sizes of a range.
const FACTOR: u64 = 4;

/// What is said around the figures.
struct Frame {
    level: &'static str,
    nodes: u32,
    ranks: u32,
    is_emulated: bool,
    marks: Marks,
}

pub(super) fn verdict(args: &GdrArgs) -> Result<Exit, Failure> {
    let given = &args.measure;
    let marks = Marks {
        gain: given.min_gain / 100.0,
        latency_cut: given.min_latency_cut / 100.0,
        ..Marks::standard(given.seed)
    };
    if 1.0 <= marks.latency_cut {
        return Err(Failure::usage_text("--min-latency-cut 100%: no collective takes no time at all: ask for less"));
    }
    let plan = GdrPlan {
        bandwidth: points(args, "--bandwidth-sizes", &given.bandwidth_sizes)?,
        latency: points(args, "--latency-sizes", &given.latency_sizes)?,
        level: given.level.nccl_name(),
        pairs: given.pairs,
        marks,
    };
    let measured = measure_args(args);
    let mut cluster = super::super::cluster(&args.hosts, &measured, &args.nccl)?;
    cluster.admission.allow_mixed = given.force;
    let (nodes, ranks) = cluster.shape();
    let frame = Frame { level: plan.level, nodes, ranks, is_emulated: cluster.emulate_nodes, marks };
    let pace = PaceConfig { min_lease_ms: args.trial.min_lease_ms(), ..PaceConfig::default() };
    let all: Vec<Point> = plan.bandwidth.iter().chain(&plan.latency).copied().collect();
    let paths = Paths::default();
    // Both arms are looked at once before the pairs.
    let mut progress = Progress::new(2 * plan.pairs + 2);
    let outcome = super::super::with_bench_heard(&cluster, &all, pace, paths.listener(), |bench, _| {
        measure(bench, &plan, &paths, &mut progress, &Cancel::new())
    })?;
    let outcome = outcome.map_err(|error| match &error {
        BenchError::Lost(_) => Failure::new(Exit::NodesLost, error),
        BenchError::Cancelled => Failure::new(Exit::Interrupted, error),
        BenchError::Setup { .. } => Failure::new(Exit::Preflight, error),
    })?;
    show(args, &frame, &outcome)
}

fn points(args: &GdrArgs, option: &str, sizes: &str) -> Result<Vec<Point>, Failure> {
    let sizes = parse_sizes(sizes, FACTOR)
        .map_err(|error| Failure::usage(anyhow::Error::from(error).context(option.to_owned())))?;
    super::super::whole_elements(option, sizes.iter().copied(), args.measure.data_type)?;
    let at_sizes = |&collective| sizes.iter().map(move |&bytes| Point { collective, bytes });
    Ok(args.measure.collectives.iter().flat_map(at_sizes).collect())
}

fn measure_args(args: &GdrArgs) -> MeasureArgs {
    let sizes =
        SizeArgs { sizes: args.measure.bandwidth_sizes.clone(), factor: FACTOR, data_type: args.measure.data_type };
    let collectives = args.measure.collectives.clone();
    MeasureArgs { engine: Engine::Nccl, collectives, sizes, trial: args.trial.clone() }
}

fn show(args: &GdrArgs, frame: &Frame, outcome: &GdrOutcome) -> Result<Exit, Failure> {
    if args.json {
        io::stdout().lock().write_all(json::document(&document(frame, outcome)).as_bytes())?;
    }
    match outcome {
        GdrOutcome::NotApplicable(why) => {
            Err(Failure::new(Exit::Preflight, anyhow::anyhow!("GPU Direct RDMA does not apply here: {why}")))
        }
        GdrOutcome::Unproven(unproven) => Err(no_verdict(unproven)),
        GdrOutcome::Measured(result) => {
            for failure in &result.failures {
                super::super::say(&format!("warning: {failure}"));
            }
            if let Some(broken) = &result.broken {
                return Err(Failure::new(Exit::TrialsFailed, anyhow::anyhow!("{broken}")));
            }
            if !args.json {
                print_fitted(&text(frame, result))?;
            }
            Ok(exit(args, result))
        }
    }
}

fn exit(args: &GdrArgs, result: &GdrResult) -> Exit {
    match result.verdict.decision {
        Decision::NotMeasured => Exit::TrialsFailed,
        Decision::Slower => Exit::Regression,
        Decision::Between | Decision::Open if args.measure.expect_gain => Exit::NoGain,
        _ if !result.failures.is_empty() => Exit::TrialsFailed,
        Decision::Passes | Decision::Between | Decision::Open => Exit::Done,
    }
}

/// The reason in the place of a verdict.
fn no_verdict(unproven: &Unproven) -> Failure {
    let mut text = format!("no verdict: {}", unproven.what);
    for line in rank_lines(&unproven.ranks) {
        text.push_str("\n  ");
        text.push_str(&line);
    }
    for (what, _) in &unproven.reasons {
        text.push_str("\n  because ");
        text.push_str(what);
    }
    let fixes: Vec<&str> = unproven.reasons.iter().map(|(_, fix)| fix.as_str()).collect();
    let failure = Failure::new(Exit::Findings, anyhow::Error::msg(text));
    let hint = "gdrtune gdr --log explains a job's own log; gdrtune topo shows distances".to_owned();
    failure.with_hint(if fixes.is_empty() { hint } else { fixes.join("; ") })
}

/// How ranks are connected, equal ones in one line.
fn rank_lines(ranks: &[RankPath]) -> Vec<String> {
    let mut groups: Vec<(String, Vec<u32>)> = Vec::new();
    for RankPath { rank, network } in ranks {
        let words = network.as_ref().map_or_else(|| "no log".to_owned(), path_words);
        match groups.iter_mut().find(|(known, _)| *known == words) {
            Some((_, members)) => members.push(*rank),
            None => groups.push((words, vec![*rank])),
        }
    }
    let line = |(words, members): &(String, Vec<u32>)| match members.as_slice() {
        [rank] => format!("rank {rank}: {words}"),
        [first, .., last] if (*last - *first) as usize + 1 == members.len() => format!("ranks {first}-{last}: {words}"),
        _ => format!("ranks {}: {words}", members.iter().map(u32::to_string).collect::<Vec<_>>().join(",")),
    };
    groups.iter().map(line).collect()
}

fn path_words(network: &NetworkUse) -> String {
    let NetworkUse { paths, sends, gdr_sends, receives, gdr_receives } = network;
    if paths.is_empty() {
        return "no connection over the network".to_owned();
    }
    let paths = paths.join(", ");
    format!("{paths}, GDR on {gdr_sends} of {sends} that send, {gdr_receives} of {receives} that receive")
}

/// Where a side stands, and how sure it is to miss its mark.
fn standing_words(side: &Side, marks: &Marks) -> &'static str {
    match side.standing {
        Standing::Passes => "passes",
        Standing::Faster if side.p_mark <= 1.0 - marks.p => "better, but not by that much",
        Standing::Faster => "better, but not surely by that much",
        Standing::Open => "no sure difference",
        Standing::Slower => "WORSE with GDR",
        Standing::NotMeasured => "not measured",
    }
}

const fn decision_words(decision: Decision) -> &'static str {
    match decision {
        Decision::Passes => "passes",
        Decision::Between => "between: better with GDR, but not by what was asked for",
        Decision::Open => "open: not sure to be better with GDR",
        Decision::Slower => "SLOWER with GDR",
        Decision::NotMeasured => "not measured",
    }
}

/// Figures, proof and verdict.
fn text(frame: &Frame, result: &GdrResult) -> String {
    let Frame { level, nodes, ranks, is_emulated, marks } = frame;
    let verdict = &result.verdict;
    let emulated = if *is_emulated { ", EMULATED nodes" } else { "" };
    let mut lines = vec![
        format!(
            "# GPU Direct RDMA, NCCL_NET_GDR_LEVEL={level} against LOC: {}, {} on {}{emulated}; intervals of 90 %",
            count(u64::from(result.pairs), "process pair"),
            count(u64::from(*ranks), "rank"),
            count(u64::from(*nodes), "node"),
        ),
        format!(
            "# {:>13} {:>10} {:>10} {:>10} {:>8} {:>8} {:>8} {:>8} {:>8}",
            "collective", "size (B)", "off us", "on us", "off GB/s", "on GB/s", "off cpu", "on cpu", "speed-up"
        ),
    ];
    lines.extend(verdict.rows.iter().map(|row| row_line(row, *ranks)));
    for (name, side, change, mark) in [
        ("bus bandwidth", &verdict.bandwidth, verdict.bandwidth.gain(), marks.gain),
        ("latency", &verdict.latency, verdict.latency.latency_change(), -marks.latency_cut),
    ] {
        let (words, standing) =
            (change.map_or_else(String::new, |c| change_words(c) + ", "), standing_words(side, marks));
        let mark = mark * 100.0;
        lines.push(format!("{name:<14} {words}asked for {mark:+.0} % (P {:.3}): {standing}", side.p_mark));
    }
    if let Some(cpu) = verdict.cpu {
        let change = [cpu.high, cpu.median, cpu.low].map(|ratio| 1.0 / ratio - 1.0);
        lines.push(format!("{:<14} {} per operation and rank", "CPU time", change_words(change)));
    }
    for (name, ranks) in [("on", &result.with), ("off", &result.without)] {
        lines.extend(rank_lines(ranks).iter().map(|line| format!("{:<14} {line}", format!("path, {name}"))));
    }
    lines.push(format!("{:<14} {}", "verdict", decision_words(verdict.decision)));
    lines.iter().fold(String::new(), |text, line| text + line.trim_end() + "\n")
}

fn row_line(row: &Row, ranks: u32) -> String {
    let Row { point, off_us, on_us, off_cpu_us, on_cpu_us, speedup } = row;
    let us = |time: Option<f64>| time.map_or_else(|| "-".to_owned(), |us| format!("{us:.1}"));
    let busbw = |time: Option<f64>| {
        let gbs = time.map(|us| point.collective.busbw_gbs(ranks, point.bytes, us));
        gbs.map_or_else(|| "-".to_owned(), |gbs| format!("{gbs:.3}"))
    };
    let ratio = speedup.map_or_else(|| "-".to_owned(), |speedup| format!("{:.2}x", speedup.median));
    format!(
        "  {:>13} {:>10} {:>10} {:>10} {:>8} {:>8} {:>8} {:>8} {ratio:>8}",
        point.collective,
        point.bytes,
        us(*off_us),
        us(*on_us),
        busbw(*off_us),
        busbw(*on_us),
        us(*off_cpu_us),
        us(*on_cpu_us),
    )
}

/// `+41 % (+38 to +45 %)`.
fn change_words([low, middle, high]: [f64; 3]) -> String {
    let [low, middle, high] = [low, middle, high].map(|change| change * 100.0);
    format!("{middle:+.0} % ({low:+.0} to {high:+.0} %)")
}

fn document(frame: &Frame, outcome: &GdrOutcome) -> Value {
    let Frame { level, nodes, ranks, is_emulated, marks } = frame;
    let mut document = json!({
        "schema_version": 1,
        "level": level,
        "nodes": nodes,
        "ranks": ranks,
        "emulated": is_emulated,
        "min_gain": marks.gain,
        "min_latency_cut": marks.latency_cut,
    });
    let more = match outcome {
        GdrOutcome::NotApplicable(why) => json!({"verdict": "not applicable", "reason": why}),
        GdrOutcome::Unproven(Unproven { what, ranks, reasons }) => {
            let reasons: Vec<Value> = reasons.iter().map(|(what, fix)| json!({"what": what, "fix": fix})).collect();
            json!({"verdict": "none", "reason": what, "reasons": reasons, "ranks_on": ranks_value(ranks)})
        }
        GdrOutcome::Measured(result) => result_value(frame, result),
    };
    if let (Value::Object(document), Value::Object(more)) = (&mut document, more) {
        document.extend(more);
    }
    document
}

fn result_value(frame: &Frame, result: &GdrResult) -> Value {
    let verdict = &result.verdict;
    let word = match verdict.decision {
        Decision::Passes => "passes",
        Decision::Between => "between",
        Decision::Open => "open",
        Decision::Slower => "slower",
        Decision::NotMeasured => "not measured",
    };
    let side = |side: &Side, change: Option<[f64; 3]>| {
        let change = change.map(|[low, median, high]| json!({"low": low, "median": median, "high": high}));
        json!({"standing": standing_words(side, &frame.marks), "change": change, "speedup": side.speedup, "p_mark": side.p_mark})
    };
    let row = |row: &Row| {
        let Point { collective, bytes } = row.point;
        let busbw = |us: Option<f64>| us.map(|us| collective.busbw_gbs(frame.ranks, bytes, us));
        json!({
            "collective": collective,
            "bytes": bytes,
            "off_us": row.off_us,
            "on_us": row.on_us,
            "off_busbw_gbs": busbw(row.off_us),
            "on_busbw_gbs": busbw(row.on_us),
            "off_cpu_us": row.off_cpu_us,
            "on_cpu_us": row.on_cpu_us,
            "speedup": row.speedup,
        })
    };
    let cpu: Option<Speedup> = verdict.cpu;
    json!({
        "verdict": word,
        "bus_bandwidth": side(&verdict.bandwidth, verdict.bandwidth.gain()),
        "latency": side(&verdict.latency, verdict.latency.latency_change()),
        "cpu_speedup": cpu,
        "pairs": result.pairs,
        "points": verdict.rows.iter().map(row).collect::<Vec<_>>(),
        "ranks_on": ranks_value(&result.with),
        "ranks_off": ranks_value(&result.without),
        "failures": result.failures,
        "broken": result.broken,
    })
}

fn ranks_value(ranks: &[RankPath]) -> Vec<Value> {
    let of_rank = |RankPath { rank, network }: &RankPath| {
        let network = network.as_ref().map(|NetworkUse { paths, sends, gdr_sends, receives, gdr_receives }| {
            json!({"paths": paths, "sends": sends, "gdr_sends": gdr_sends, "receives": receives, "gdr_receives": gdr_receives})
        });
        json!({"rank": rank, "network": network})
    };
    ranks.iter().map(of_rank).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use gdrtune_profiles::vocab::Collective;
    use gdrtune_tuner::gdr::{GdrPoint, Measured, judge};

    use super::*;

    fn samples(us: f64) -> BTreeMap<u32, Vec<f64>> {
        (0..9).map(|round| (round, vec![us * (1.0 + 0.01 * f64::from(round % 3))])).collect()
    }

    fn point(bytes: u64, off_us: f64, on_us: f64) -> GdrPoint {
        GdrPoint {
            point: Point { collective: Collective::AllReduce, bytes },
            off_us: samples(off_us),
            on_us: samples(on_us),
            off_cpu_us: samples(off_us / 4.0),
            on_cpu_us: samples(on_us / 5.0),
        }
    }

    fn rank(rank: u32, direct: u32) -> RankPath {
        let path = format!("NET/IB/{}", rank / 4);
        let use_of = NetworkUse { paths: vec![path], sends: 8, gdr_sends: direct, receives: 8, gdr_receives: direct };
        RankPath { rank, network: (rank != 3).then_some(use_of) }
    }

    fn shown(bandwidth: [f64; 2], latency: [f64; 2]) -> String {
        let measured = Measured {
            bandwidth: vec![point(64 << 20, bandwidth[0], bandwidth[1])],
            latency: vec![point(1024, latency[0], latency[1])],
        };
        let marks = Marks::standard(1);
        let result = GdrResult {
            verdict: judge(&measured, &marks),
            pairs: 9,
            with: (0..8).map(|number| rank(number, 8)).collect(),
            without: (4..8).map(|number| rank(number, 0)).collect(),
            failures: vec![],
            broken: None,
        };
        text(&Frame { level: "SYS", nodes: 2, ranks: 8, is_emulated: false, marks }, &result)
    }

    #[test]
    fn figures_proof_and_verdict_are_shown() {
        insta::assert_snapshot!("between", shown([4200.0, 3000.0], [100.0, 70.0]));
        insta::assert_snapshot!("slower", shown([2400.0, 3000.0], [100.0, 40.0]));
    }
}
