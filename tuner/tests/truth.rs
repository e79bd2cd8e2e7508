//! Every cluster of the library is tuned, and its planted truth is found; a few seeds each. `examples/sim_truth.rs` does twenty.

mod course;

use std::{fs, path::PathBuf};

use gdrtune_profiles::vocab::{Environment, Point};
use gdrtune_tuner::sim::{Cluster, SimConfig, Simulated};

const SEEDS: u64 = 2;
/// Where nothing may ship, luck has more chances: were a rule asked for no gain and P(faster) of 0.5, something would ship
/// in 6 of 10. At 0.95 it does in one of twenty.
const SEEDS_OF_NOTHING: u64 = 8;

fn cluster(name: &str) -> Cluster {
    Cluster::preset(name).unwrap_or_else(|error| panic!("{error}"))
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
