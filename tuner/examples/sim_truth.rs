//! Tunes every cluster of the library with many seeds and compares with the planted truth: `sim_truth [SEEDS [CLUSTER...]]`.
//! SEEDS is a number, or FIRST..END. A cluster is a name of the library or a path. `sim_truth times CLUSTER` shows what there is to find instead, and
//! `sim_truth cost CLUSTER` what the tuner itself takes for a search, in time and memory.

#[path = "../tests/course/mod.rs"]
mod course;

use std::{
    fs,
    num::ParseIntError,
    ops::Range,
    path::Path,
    time::{Duration, Instant},
};

use gdrtune_profiles::vocab::{Choice, Environment};
use gdrtune_tuner::{
    bench::{Bench, BenchError, BenchInfo, Cancel, Sample, Script},
    observe::Silent,
    search::run_search,
    sim::{Cluster, SimConfig, Simulated},
    stats::median,
};

#[expect(clippy::print_stdout, reason = "an example reports on stdout")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|first| first == "times") {
        return arguments[1..].iter().try_for_each(|name| cluster(name).map(|cluster| times(&cluster)));
    }
    if arguments.first().is_some_and(|first| first == "cost") {
        return arguments[1..].iter().try_for_each(|name| cost(&cluster(name)?));
    }
    let seeds = if arguments.is_empty() { 0..20 } else { seeds(&arguments.remove(0))? };
    let library = || Cluster::PRESETS.iter().map(|preset| preset.name.to_owned()).collect();
    let names: Vec<String> = if arguments.is_empty() { library() } else { arguments };
    println!(
        "{:<24} {:>7} {:>7} {:>7} {:>7} {:>6} {:>9} {:>7}",
        "cluster", "found", "losing", "shipped", "trials", "envs", "simulated", "wall"
    );
    for name in names {
        let cluster = cluster(&name)?;
        let started = Instant::now();
        let reports: Vec<course::Report> = seeds.clone().map(|seed| course::tune(&cluster, seed)).collect();
        let count = |is: fn(&course::Report) -> bool| reports.iter().filter(|report| is(report)).count();
        let middle = |value: fn(&course::Report) -> f64| {
            median(&reports.iter().map(value).collect::<Vec<_>>()).unwrap_or_default()
        };
        println!(
            "{name:<24} {:>4}/{:<2} {:>7} {:>7} {:>7.0} {:>6.0} {:>7.0} s {:>5.1} s",
            count(|report| report.missed.is_empty()),
            reports.len(),
            count(|report| !report.losing.is_empty()),
            count(|report| report.ships),
            middle(|report| report.trials as f64),
            middle(|report| report.environments as f64),
            middle(|report| report.simulated_s),
            started.elapsed().as_secs_f64(),
        );
        for (seed, report) in seeds.clone().zip(&reports) {
            for unsteady in &report.unsteady {
                println!("    seed {seed}: {unsteady:?}");
            }
            let problems = report.missed.iter().chain(&report.losing);
            for problem in problems {
                println!("    seed {seed}: {problem}");
            }
            if !report.missed.is_empty() || !report.losing.is_empty() {
                println!("    seed {seed}: ships {}; left out: {:?}", report.shipped, report.left_out);
            }
        }
    }
    Ok(())
}

/// `20` or `1001..1061`.
fn seeds(text: &str) -> Result<Range<u64>, ParseIntError> {
    let (first, end) = text.split_once("..").unwrap_or(("0", text));
    Ok(first.parse()?..end.parse()?)
}

/// Adds up the time that is spent in the bench, so that the rest is the tuner's own.
struct Timed {
    bench: Simulated,
    inside: Duration,
}

impl Bench for Timed {
    fn info(&self) -> BenchInfo {
        self.bench.info()
    }

    fn now_s(&self) -> f64 {
        self.bench.now_s()
    }

    fn run(&mut self, script: &Script, cancel: &Cancel, sink: &mut dyn FnMut(Sample)) -> Result<(), BenchError> {
        let started = Instant::now();
        let result = self.bench.run(script, cancel, sink);
        self.inside += started.elapsed();
        result
    }
}

/// Time of the tuner's own per trial, and the most memory that the process had.
#[expect(clippy::print_stdout, reason = "an example reports on stdout")]
fn cost(cluster: &Cluster) -> Result<(), Box<dyn std::error::Error>> {
    let bench = Simulated::new(cluster.clone(), SimConfig { seed: 0, read_deployment: None });
    let (space, plan) = (bench.space(), course::plan(cluster, 0));
    let mut timed = Timed { bench, inside: Duration::ZERO };
    let started = Instant::now();
    let outcome = run_search(&mut timed, &space, &plan, &mut Silent, &Cancel::new())?;
    let own = started.elapsed().saturating_sub(timed.inside);
    let status = fs::read_to_string("/proc/self/status")?;
    let memory = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or("unknown").trim();
    let own_us = own.as_secs_f64() * 1e6 / outcome.trials as f64;
    println!("{}: {} trials, {own_us:.0} us of the tuner's own each, {memory} at most", cluster.name, outcome.trials);
    Ok(())
}

fn cluster(name: &str) -> Result<Cluster, Box<dyn std::error::Error>> {
    let is_path = Path::new(name).extension().is_some_and(|extension| extension == "toml");
    Ok(if is_path { Cluster::parse(&fs::read_to_string(name)?, name)? } else { Cluster::preset(name)? })
}

/// The default's time, the best choice alone, and the best environment alone and with choices.
#[expect(clippy::print_stdout, reason = "an example reports on stdout")]
fn times(cluster: &Cluster) {
    let bench = Simulated::new(cluster.clone(), SimConfig { seed: 0, read_deployment: None });
    let space = bench.space();
    let site = Environment::new();
    println!("{}", cluster.name);
    let mut environments: Vec<Environment> = vec![site.clone()];
    for dimension in &space.dimensions {
        let values = dimension.values.iter().flatten();
        environments.extend(values.map(|value| Environment::new().with(&dimension.name, value)));
    }
    environments.push(cluster.truth.environment.clone());
    for point in cluster.truth.points() {
        let default_us = bench.truth_us(&site, point, None);
        println!("{point}: {default_us:.1} us");
        for environment in &environments {
            let time_us = |choice: Choice| (bench.truth_us(environment, point, Some(choice)), choice);
            let mut choices: Vec<(f64, Choice)> =
                space.choices.get(&point.collective).into_iter().flatten().map(|c| time_us(*c)).collect();
            choices.sort_by(|a, b| a.0.total_cmp(&b.0));
            let best: Vec<String> =
                choices.iter().take(3).map(|(time, choice)| format!("{choice} {:.3}x", default_us / time)).collect();
            let own = default_us / bench.truth_us(environment, point, None);
            println!("    {own:.3}x own, {} under {environment}", best.join(", "));
        }
    }
}
