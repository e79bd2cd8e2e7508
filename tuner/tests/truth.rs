//! Every cluster of the library is tuned, and its planted truth is found; a few seeds each. `examples/sim_truth.rs` does twenty.

mod course;

use std::{collections::BTreeMap, fs, path::PathBuf};

use course::Files;
use gdrtune_profiles::vocab::{Environment, Point};
use gdrtune_tuner::{
    ab::{self, AbPlan},
    bench::{Bench, Cancel, Setup},
    plan::{self, Candidate},
    race::Pick,
    search::{DefaultTime, EnvironmentScore, PointResult, SearchOutcome, StoppedBy},
    sim::{Cluster, SimConfig, Simulated},
    stats::Design,
    steadiness::Unsteady,
    verdict::{self, Thresholds},
    verify::{Deployer, Verified},
};

const SEEDS: u64 = 2;
/// Where nothing may ship, luck has more chances: were a rule asked for no gain and P(faster) of 0.5, something would ship
/// in 6 of 10. At 0.95 it does in one of twenty.
const SEEDS_OF_NOTHING: u64 = 8;

fn cluster(name: &str) -> Cluster {
    Cluster::preset(name).unwrap_or_else(|error| panic!("{error}"))
}

/// A file of the library with one text replaced.
fn changed(file: &str, from: &str, to: &str) -> Cluster {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("clusters").join(file);
    let text = fs::read_to_string(path).expect("a cluster file");
    assert!(text.contains(from), "{file} has no `{from}`");
    Cluster::parse(&text.replace(from, to), file).unwrap_or_else(|error| panic!("{error}"))
}

/// What does not hold still in a cluster, as far as its file says.
fn planted(cluster: &Cluster) -> Vec<&'static str> {
    if cluster.noise.stalls.0 > 0.0 { vec!["stalls"] } else { Vec::new() }
}

fn kind(unsteady: &Unsteady) -> &'static str {
    match unsteady {
        Unsteady::Drift { .. } => "drift",
        Unsteady::Stalls { .. } => "stalls",
    }
}

#[test]
fn drift_is_told_and_does_not_ship_anything() {
    let cluster = changed("defaults-best.toml", "[noise]", "[noise]\ndrift_per_hour = 2.0");
    for seed in 0..SEEDS {
        let report = course::tune(&cluster, seed);
        let drift = (report.simulated_s / 3_600.0).mul_add(2.0, 1.0);
        let [Unsteady::Drift { factor }] = report.unsteady[..] else { panic!("seed {seed}: {:?}", report.unsteady) };
        // The default arm is not measured to the very end.
        assert!(1.05 < factor && factor < 1.03 * drift, "seed {seed}: {factor} of {drift}");
        assert!(!report.ships, "seed {seed}: {}", report.shipped);
    }
}

#[test]
fn a_variable_that_loses_a_little_at_one_size_does_not_ship() {
    // 2.7 % at 1 KiB, for twice the bandwidth at large sizes.
    let cluster = changed("trade-off.toml", "connection_us = 1.5", "connection_us = 0.3");
    for seed in 0..2 * SEEDS {
        let report = course::tune(&cluster, seed);
        assert_eq!(report.losing, Vec::<String>::new(), "seed {seed}: {}", report.shipped);
        assert!(report.ships, "seed {seed}: {:?}", report.left_out);
    }
}

/// A test for each cluster, so that they run side by side and fail by name.
macro_rules! library {
    ($($test:ident = $name:literal,)*) => {
        const LIBRARY: &[&str] = &[$($name,)*];

        $(#[test]
        fn $test() {
            let cluster = cluster($name);
            let nothing = cluster.truth.nothing;
            let mut lucky = 0;
            for seed in 0..if nothing { SEEDS_OF_NOTHING } else { SEEDS } {
                let report = course::tune(&cluster, seed);
                assert_eq!(report.losing, Vec::<String>::new(), "seed {seed}: {}", report.shipped);
                if nothing && report.ships {
                    lucky += 1;
                    assert!(lucky <= 1, "seed {seed}: {}", report.shipped);
                    continue;
                }
                assert_eq!(report.missed, Vec::<String>::new(), "seed {seed}: {:?}", report.left_out);
                assert_eq!(report.ships, !nothing, "seed {seed}: {}", report.shipped);
                assert!(report.environments > 0 && report.trials <= course::TRIALS, "seed {seed}: {report:?}");
                assert_eq!(report.unsteady.iter().map(kind).collect::<Vec<_>>(), planted(&cluster), "seed {seed}");
                assert!(report.simulated_s <= course::BUDGET_S, "seed {seed}: {report:?}");
            }
        })*
    };
}

library! {
    bimodal_channels = "bimodal-channels",
    cross_rail_broken = "cross-rail-broken",
    defaults_best = "defaults-best",
    gdr_broken = "gdr-broken",
    hanging_choice = "hanging-choice",
    ll_larger = "ll-larger",
    ll128_wrong = "ll128-wrong",
    null = "null",
    one_node_tree = "one-node-tree",
    pat_small = "pat-small",
    pxn_hurts = "pxn-hurts",
    rail_optimised = "rail-optimised",
    slow_hca = "slow-hca",
    stalls = "stalls",
    tcp_buffers = "tcp-buffers",
    thousand_nodes = "thousand-nodes",
    trade_off = "trade-off",
}

/// Default time over the least time of any choice, the engine's own included, under `environment`.
fn best(bench: &Simulated, environment: &Environment, point: Point) -> f64 {
    let space = bench.space();
    let choices = space.choices.get(&point.collective).into_iter().flatten().map(|choice| Some(*choice));
    let times = choices.chain([None]).map(|choice| bench.truth_us(environment, point, choice));
    bench.truth_us(&Environment::new(), point, None) / times.fold(f64::INFINITY, f64::min)
}

#[test]
fn what_the_files_state_is_there_and_every_file_is_tuned() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("clusters");
    let mut names: Vec<String> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    assert_eq!(names, LIBRARY.iter().map(|name| format!("{name}.toml")).collect::<Vec<_>>());
    assert_eq!(LIBRARY, Cluster::PRESETS.iter().map(|preset| preset.name).collect::<Vec<_>>());
    for name in LIBRARY {
        let bench = Simulated::new(cluster(name), SimConfig { seed: 0, read_deployment: None });
        let (truth, space) = (&bench.cluster().truth, bench.space());
        assert!(!truth.points().is_empty(), "{name}");
        for gain in &truth.gains {
            let point = Point { collective: gain.collective, bytes: gain.bytes.0 };
            let found = best(&bench, &truth.environment, point);
            assert!(truth.points().contains(&point) && gain.least.0 <= found, "{name}, {point}: {found}");
        }
        assert!(space.indices(&truth.environment).is_some(), "{name}: {}", truth.environment);
        // All environments with one setting are enough: the planted ones do not need each other.
        let settings = space.dimensions.iter().flat_map(|dimension| {
            dimension.values.iter().flatten().map(|value| Environment::new().with(&dimension.name, value))
        });
        for environment in settings.chain([Environment::new()]).filter(|_| truth.nothing) {
            for point in truth.points() {
                let found = best(&bench, &environment, point);
                assert!(found < 1.005, "{name}, {point}, {environment}: {found}");
            }
        }
    }
}

/// Four nodes whose processes take ten seconds to start. Two settings gain 4.7 % each, and a third one nothing.
const COSTLY: &str = r#"
name = "costly starts"
nodes = 4
ranks_per_node = 1
start_s = 10

[node]
nvlink_gbs = 100.0
channel_gbs = 24.0

[network]
kind = "sockets"
nics = [{ name = "eth0", rate_gbs = 11.0 }]
connection_gbs = 11.0

[engine]
algorithms = ["ring"]
protocols = ["simple"]
channels = [1]
ceiling = 1
own = "best"

[search]
NCCL_CROSS_NIC = ["1"]
NCCL_NTHREADS = ["256"]
NCCL_PXN_DISABLE = ["1"]

[noise]
sample = 0.02
process = 0.08

[[effect]]
factor = 0.955
calls = { environment = { NCCL_NTHREADS = "256" } }

[[effect]]
factor = 0.955
calls = { environment = { NCCL_PXN_DISABLE = "1" } }

[truth]
collectives = ["allreduce"]
sizes = "4M,16M"
environment = { NCCL_NTHREADS = "256", NCCL_PXN_DISABLE = "1" }
"#;

/// What a search leaves that takes three settings for good there.
fn found(bench: &Simulated) -> SearchOutcome {
    let default = DefaultTime { median_us: 100.0, samples: 3 };
    let result = |point: Point| {
        let pick = Pick { point, choice: None, median_us: 85.0, expected_us: 85.0, deviation: 0.02, samples: 3 };
        PointResult { weight: 1.0, default: Some(default), pick, own_choice_us: None }
    };
    let points = bench.cluster().truth.points();
    let environment =
        Environment::new().with("NCCL_CROSS_NIC", "1").with("NCCL_NTHREADS", "256").with("NCCL_PXN_DISABLE", "1");
    let score = |environment: &Environment, score: f64| EnvironmentScore {
        environment: environment.clone(),
        score,
        abandoned: false,
        failed: None,
        trials: 9,
    };
    SearchOutcome {
        defaults: points.iter().map(|point| (*point, default)).collect(),
        points: points.iter().copied().map(result).collect(),
        first_environment: Environment::new(),
        fallback: Vec::new(),
        best_ever: BTreeMap::new(),
        environments: vec![score(&Environment::new(), 1.0), score(&environment, 0.85)],
        environment,
        importance: Vec::new(),
        bans: Vec::new(),
        trials: 18,
        seconds: 0.0,
        stopped_by: StoppedBy::Seconds,
    }
}

/// Whether the environment ships where all arms take turns in every round, its ablations too.
fn ships_in_one_go(bench: &mut Simulated, outcome: &SearchOutcome, seed: u64, until_s: f64) -> bool {
    let candidate = plan::candidate(outcome, 0.02);
    let mut candidates = vec![candidate.clone()];
    let without = verdict::ablations(&candidate.environment).into_iter();
    candidates.extend(without.map(|a| Candidate { environment: a.environment, rules: Vec::new() }));
    let mut files = Files::of(bench);
    let mut arms = vec![Setup::Site];
    arms.extend(files.deploy(&candidates).unwrap_or_else(|error| panic!("{error}")));
    let points: Vec<Point> = outcome.defaults.keys().copied().collect();
    let plan =
        AbPlan { arms, points, repeats: 2, min_rounds: 7, max_rounds: 21, most_rounds: 42, resolve: 0.02, until_s };
    let result = ab::interleave(bench, &plan, &mut files, &Cancel::new());
    let result = result.unwrap_or_else(|error| panic!("{error}"));
    let thresholds = Thresholds { design: Design::Rounds, ..Thresholds::standard(seed) };
    let verdict = verdict::verdict(&result.pairs(&plan.points, |_| 1.0), &thresholds, &candidate);
    !verdict.keeps_defaults()
}

fn parsed(text: &str) -> Cluster {
    Cluster::parse(text, "costly").unwrap_or_else(|error| panic!("{error}"))
}

fn verify_found(cluster: &Cluster, seed: u64, until_s: f64) -> (Verified, f64) {
    let mut bench = course::bench(cluster, seed);
    let (outcome, mut files) = (found(&bench), Files::of(&bench));
    let verified = course::verify(&mut bench, &outcome, &mut files, seed, until_s);
    (verified, bench.now_s())
}

#[test]
fn what_processes_cost_goes_where_it_decides() {
    let cluster = parsed(COSTLY);
    let (mut in_one_go, mut in_order, mut as_a_whole) = (0, 0, 0);
    for seed in 0..10 {
        let mut bench = course::bench(&cluster, seed);
        let outcome = found(&bench);
        in_one_go += u32::from(ships_in_one_go(&mut bench, &outcome, seed, 360.0));
        let (verified, now_s) = verify_found(&cluster, seed, 600.0);
        in_order += u32::from(!verified.keeps_defaults());
        let is_whole = verified.left_out.iter().any(|line| line.ends_with("what passed ships as a whole"));
        assert!(!is_whole || verified.environment() == outcome.environment, "seed {seed}: {:?}", verified.left_out);
        as_a_whole += u32::from(is_whole);
        // At most the least rounds of the ablations and of what they leave: 6 of 4 processes and 7 of 2, 10 s each.
        assert!(now_s < 600.0 + 24.0 * 10.0, "seed {seed}: {now_s}");
    }
    assert!(in_one_go <= 6 && in_one_go + 2 <= in_order, "{in_one_go} and {in_order} of 10");
    assert!(0 < as_a_whole, "there is no time to make sure of what is left");
}

#[test]
fn a_useless_setting_is_left_out_after_all_together_passed() {
    let cluster = parsed(&COSTLY.replace("process = 0.08", "process = 0.01"));
    for seed in 0..4 {
        let (verified, now_s) = verify_found(&cluster, seed, 5_000.0);
        assert_eq!(verified.environment(), cluster.truth.environment, "seed {seed}: {:?}", verified.left_out);
        let [line] = verified.left_out.as_slice() else { panic!("seed {seed}: {:?}", verified.left_out) };
        assert!(line.starts_with("NCCL_CROSS_NIC: left out: with it only"), "{line}");
        // 21 rounds of two arms twice, and no 21 of four: each setting was settled before.
        assert!(now_s < (2 * 21 * 2 + 12 * 4) as f64 * 10.5, "seed {seed}: {now_s}");
    }
}

#[test]
fn a_setting_without_which_nothing_starts_stays() {
    let fault = r#"[[fault]]
kind = "no-start"
calls = { environment = { NCCL_NTHREADS = "256", NCCL_CROSS_NIC = "" } }

[truth]"#;
    let text = COSTLY.replace("process = 0.08", "process = 0.01").replace("[truth]", fault);
    let (verified, _) = verify_found(&parsed(&text), 0, 5_000.0);
    let (found, needed) = (verified.environment(), verified.ablations.iter().find(|a| a.name == "NCCL_CROSS_NIC"));
    assert_eq!(found.iter().count(), 3, "{:?}", verified.left_out);
    let sentence = &needed.expect("it was compared").sentence;
    assert!(sentence.starts_with("stays: without it did not start: "), "{sentence}");
}

#[test]
fn what_gains_nothing_ends_as_soon_as_that_is_sure() {
    let cluster = parsed(&COSTLY.replace("factor = 0.955", "factor = 1.0").replace("process = 0.08", "process = 0.01"));
    for seed in 0..4 {
        let (verified, now_s) = verify_found(&cluster, seed, 5_000.0);
        assert!(verified.keeps_defaults(), "seed {seed}: {:?}", verified.left_out);
        // Of 21 rounds of two processes.
        assert!(now_s < 10.0 * 2.0 * 10.5, "seed {seed}: {now_s}");
    }
}
