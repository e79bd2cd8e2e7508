//! The simulated cluster: its file, its clock, its noise and its faults.

use gdrtune_profiles::vocab::{Algorithm, Choice, Collective, Engine, Environment, Point, Protocol};
use gdrtune_tuner::{
    bench::{Bench, BenchError, Cancel, Earlier, Item, Outcome, Sample, Script, Setup},
    sim::{Cluster, SimConfig, Simulated},
    stats,
};

const RAILS: &str = include_str!("../clusters/rail-optimised.toml");

fn simulated(text: &str, seed: u64) -> Simulated {
    let cluster = Cluster::parse(text, "c.toml").unwrap_or_else(|error| panic!("{error}"));
    Simulated::new(cluster, SimConfig { seed, read_deployment: None })
}

fn point(collective: Collective, bytes: u64) -> Point {
    Point { collective, bytes }
}

fn allreduce(bytes: u64) -> Point {
    point(Collective::AllReduce, bytes)
}

fn choice(algorithm: Algorithm, protocol: Protocol, channels: u16) -> Choice {
    Choice { algorithm, protocol, channels }
}

fn ring(channels: u16) -> Choice {
    choice(Algorithm::Ring, Protocol::Simple, channels)
}

fn live() -> Setup {
    Setup::Live(Environment::new())
}

fn env(name: &str, value: &str) -> Environment {
    Environment::new().with(name, value)
}

fn run(bench: &mut Simulated, setup: Setup, items: &[(Point, Option<Choice>, u32)]) -> Result<Vec<Sample>, BenchError> {
    let items = items.iter().map(|&(point, choice, repeats)| Item { point, choice, repeats }).collect();
    let mut samples = Vec::new();
    let script = Script { setup, fresh: false, items };
    bench.run(&script, &Cancel::new(), &mut |sample| samples.push(sample)).map(|()| samples)
}

fn times(samples: &[Sample]) -> Vec<f64> {
    let time = |sample: &Sample| match &sample.outcome {
        Outcome::Timed(timing) => Some(timing.time_us),
        _ => None,
    };
    samples.iter().filter_map(time).collect()
}

#[test]
fn errors_have_a_line_and_the_nearest_name() {
    for (wrong, right, cause) in [
        ("ranks_per_nod = 8", "ranks_per_node = 8", "unknown field `ranks_per_nod`"),
        ("ranks_per_nod = 8", "ranks_per_node = 8", "did you mean `ranks_per_node`?"),
        ("nodes = 0", "nodes = 8", "0 must be at least 1"),
        ("nodes = 2000", "nodes = 8", "nodes times ranks_per_node is 16000: it must be 2 to 10000"),
        (
            "kind = \"verb\"",
            "kind = \"verbs\"",
            "unknown name `verb`: use one of verbs, sockets; did you mean `verbs`?",
        ),
        ("channel_gbs = -1.0", "channel_gbs = 24.0", "-1 must be above 0"),
        ("\"mlx5_1\", rate_gbs", "\"mlx5_0\", rate_gbs", "two nics are called `mlx5_1`"),
        ("[\"ring\", \"nvls_tree\"]", "[\"ring\", \"tree\"]", "the model has no nvls_tree: use tree, ring, nvls, pat"),
        ("[\"ring\", \"treee\"]", "[\"ring\", \"tree\"]", "did you mean `tree`?"),
        ("NCCL_CROS_NIC =", "NCCL_CROSS_NIC =", "did you mean `NCCL_CROSS_NIC`?"),
        ("NCCL_CROSS_NIC = [\"3\"]", "NCCL_CROSS_NIC = [\"0\", \"1\"]", "NCCL_CROSS_NIC: "),
        ("sizes = \"1K-256X\"", "sizes = \"1K-256M\"", "`256X` is not a size"),
    ] {
        // Of two NICs with one name the list is named.
        let place = if right.contains("mlx5") { "nics = [" } else { right };
        let line = 1 + RAILS.lines().position(|line| line.contains(place)).unwrap();
        let error = Cluster::parse(&RAILS.replace(right, wrong), "c.toml").unwrap_err().to_string();
        assert!(error.starts_with(&format!("c.toml:{line}:")) && error.contains(cause), "{wrong}: {error}");
    }
}

#[test]
fn the_space_is_what_the_file_names_and_the_engine_has() {
    let bench = simulated(RAILS, 1);
    let space = bench.space();
    let shape: Vec<(&str, usize)> = space.dimensions.iter().map(|d| (d.name.as_str(), d.values.len())).collect();
    let names = ["NCCL_CROSS_NIC", "NCCL_IB_QPS_PER_CONNECTION", "NCCL_NET_GDR_LEVEL", "NCCL_PXN_DISABLE"];
    assert_eq!(shape, [(names[0], 3), (names[1], 3), (names[2], 3), (names[3], 2)]);
    assert!(space.dimensions.iter().all(|dimension| dimension.values[0].is_none()));
    // No tree for all-gather in NCCL, nothing to choose for all-to-all.
    assert_eq!(space.choices[&Collective::AllReduce].len(), 2 * 3 * 5);
    assert_eq!(space.choices[&Collective::AllGather].len(), 3 * 5);
    assert!(!space.choices.contains_key(&Collective::AllToAll));
    let info = bench.info();
    assert_eq!((info.engine, info.nodes, info.ranks), (Engine::Sim, 8, 64));
}

#[test]
fn samples_scatter_around_the_truth_and_processes_have_their_luck() {
    let text = RAILS.replace("sample = 0.04", "sample = 0.1").replace("process = 0.01", "process = 0.1");
    let mut bench = simulated(&text, 3);
    let (at, chosen) = (allreduce(1 << 20), Some(ring(8)));
    let truth = bench.truth_us(&Environment::new(), at, chosen);
    let medians: Vec<f64> = (0..40)
        .map(|round| {
            let setup = Setup::Live(env("NCCL_CROSS_NIC", if round % 2 == 0 { "0" } else { "1" }));
            stats::median(&times(&run(&mut bench, setup, &[(at, chosen, 50)]).unwrap())).unwrap().ln()
        })
        .collect();
    let center = stats::median(&medians).unwrap() - truth.ln();
    let spread = stats::robust_deviation(&medians).unwrap();
    assert!(center.abs() < 0.06 && (0.06..0.16).contains(&spread), "{center} {spread}");
}

#[test]
fn a_run_goes_on_at_a_position_as_if_it_had_never_stopped() {
    let items = [(allreduce(4096), None, 3), (allreduce(1 << 24), Some(ring(16)), 3)];
    let mut whole = simulated(RAILS, 5);
    let mut first = simulated(RAILS, 5);
    run(&mut whole, live(), &items).unwrap();
    run(&mut first, live(), &items).unwrap();
    let config = SimConfig { seed: 5, read_deployment: None };
    let mut resumed = Simulated::at(first.cluster().clone(), config, first.position().clone());
    for setup in [live(), Setup::Site] {
        assert_eq!(run(&mut whole, setup.clone(), &items), run(&mut resumed, setup, &items));
    }
    assert_eq!(whole.position(), resumed.position());
    assert_ne!(run(&mut simulated(RAILS, 6), live(), &items), run(&mut simulated(RAILS, 5), live(), &items));
}

#[test]
fn the_clock_counts_starts_calls_and_warm_up() {
    let text = RAILS.replace("sample = 0.04", "").replace("process = 0.01", "");
    let mut bench = simulated(&text, 1);
    run(&mut bench, live(), &[]).unwrap();
    let start = 1.5 + 0.002 * 64.0;
    assert!((bench.now_s() - start).abs() < 1e-9, "{}", bench.now_s());
    let at = allreduce(1 << 20);
    let samples = run(&mut bench, live(), &[(at, Some(ring(8)), 2)]).unwrap();
    let Outcome::Timed(timing) = samples[1].outcome else { panic!("{samples:?}") };
    assert!((timing.time_us - bench.truth_us(&Environment::new(), at, Some(ring(8)))).abs() < 1e-9);
    let spent = 2.0 * (500.0 + timing.time_us * f64::from(timing.iterations + 3)) / 1e6;
    assert!((bench.now_s() - start - spent).abs() < 1e-9, "no second start, {} {spent}", bench.now_s());
    assert!((1..=200).contains(&timing.iterations));
}

#[test]
fn stalls_are_thirty_times_slower_and_drift_is_slow() {
    let noise = "stalls = 0.05\nstall_factor = 30.0\ndrift_per_hour = 0.01";
    let text = RAILS.replace("sample = 0.04\nprocess = 0.01", noise);
    let mut bench = simulated(&text, 1);
    let at = allreduce(1 << 20);
    let truth = bench.truth_us(&Environment::new(), at, Some(ring(8)));
    let drawn = times(&run(&mut bench, live(), &[(at, Some(ring(8)), 4_000)]).unwrap());
    let stalled = drawn.iter().filter(|time| **time > 29.0 * truth).count();
    assert!((150..250).contains(&stalled), "{stalled} of 4,000");
    let expected = truth * (1.0 + 0.01 * bench.now_s() / 3_600.0);
    let last = drawn.iter().rev().find(|time| **time < 2.0 * truth).unwrap();
    assert!((last / expected - 1.0).abs() < 1e-4 && *last > truth, "{last} {expected}");
}

#[test]
fn faults_are_outcomes_and_only_lost_nodes_and_bad_environments_end_a_script() {
    let fault =
        |kind: &str, calls: &str, rest: &str| format!("[[fault]]\nkind = \"{kind}\"\ncalls = {{ {calls} }}\n{rest}\n");
    let faults = [
        fault("hang", "protocol = \"ll\", max_channels = 1", ""),
        fault("wrong", "protocol = \"ll128\"", ""),
        fault("unsupported", "algorithm = \"tree\", protocol = \"simple\"", ""),
        fault("crash", "algorithm = \"tree\", protocol = \"ll\"", ""),
        fault("no-start", "environment = { NCCL_CROSS_NIC = \"1\" }", ""),
        fault("lost-node", "", "at_s = 90.0"),
    ]
    .concat();
    let mut bench = simulated(&format!("{RAILS}\n{faults}"), 1);
    let at = allreduce(65536);
    let (tree, ring_algorithm) = (Algorithm::Tree, Algorithm::Ring);
    let asked = [
        (at, Some(choice(ring_algorithm, Protocol::Ll, 1)), 2),
        (at, Some(choice(ring_algorithm, Protocol::Ll, 2)), 1),
        (at, Some(choice(tree, Protocol::Ll128, 2)), 2),
        (at, Some(choice(tree, Protocol::Simple, 2)), 2),
        (at, Some(choice(tree, Protocol::Ll, 2)), 2),
        (at, Some(choice(ring_algorithm, Protocol::Simple, 32)), 1),
        (point(Collective::AllGather, 65536), Some(choice(tree, Protocol::Ll, 2)), 1),
        (at, Some(choice(ring_algorithm, Protocol::Simple, 2)), 1),
    ];
    let samples = run(&mut bench, live(), &asked).unwrap();
    let shown: Vec<(usize, u32, String)> = samples
        .iter()
        .map(|sample| (sample.item, sample.process, format!("{:?}", sample.outcome).chars().take(4).collect()))
        .collect();
    let expected = [
        (0, 1, "Hung"),
        (1, 2, "Time"),
        (2, 2, "Wron"),
        (3, 2, "Unsu"),
        (4, 2, "Cras"),
        (5, 3, "Subs"),
        (6, 3, "Unsu"),
        (7, 3, "Time"),
    ];
    assert_eq!(shown, expected.map(|(item, process, text)| (item, process, text.to_owned())));
    let Outcome::Substituted { selected, .. } = samples[5].outcome else { panic!() };
    assert_eq!(selected.channels, 16);
    assert!(bench.now_s() > 20.0, "a hang costs a lease");
    let error = run(&mut bench, Setup::Live(env("NCCL_CROSS_NIC", "1")), &asked).unwrap_err();
    assert!(matches!(error, BenchError::Setup { .. }), "{error}");
    let error = run(&mut bench, Setup::Live(env("NCCL_IB_HCA", "=mlx5_9")), &asked).unwrap_err();
    assert!(error.to_string().contains("NCCL_IB_HCA==mlx5_9 names nothing that is there"), "{error}");
    let hangs = [(at, Some(choice(ring_algorithm, Protocol::Ll, 1)), 1); 9];
    let mut count = 0;
    let script = hangs.map(|(point, choice, repeats)| Item { point, choice, repeats }).to_vec();
    let script = Script { setup: live(), fresh: false, items: script };
    let lost = bench.run(&script, &Cancel::new(), &mut |_| count += 1).unwrap_err();
    assert_eq!(lost.to_string(), "a node is gone since 90 s of simulated time");
    assert!((1..9).contains(&count), "{count}");
    assert!(matches!(run(&mut bench, Setup::Site, &[]), Err(BenchError::Lost(_))));
}

#[test]
fn a_skip_costs_the_processes_and_a_run_that_goes_on_skips_the_same() {
    let items = [(allreduce(1024), None, 3), (allreduce(65536), Some(ring(2)), 3), (allreduce(4096), None, 2)];
    let items = items.map(|(point, choice, repeats)| Item { point, choice, repeats }).to_vec();
    let script = Script { setup: live(), fresh: false, items };
    let cancel = Cancel::new();
    let mut whole = Vec::new();
    let mut bench = simulated(RAILS, 1);
    cancel.skip();
    bench
        .run(&script, &cancel, &mut |sample| {
            whole.push(sample);
            if whole.len() == 2 {
                cancel.skip();
            }
        })
        .unwrap();
    let told: Vec<(usize, u32, bool)> =
        whole.iter().map(|s| (s.item, s.process, s.outcome == Outcome::Skipped)).collect();
    assert_eq!(told, [(0, 1, true), (1, 2, false), (1, 2, true), (2, 3, false), (2, 3, false)]);
    for known in 0..=whole.len() {
        let mut again = simulated(RAILS, 1);
        let earlier = Earlier { samples: &whole[..known], now_s: 0.0, is_complete: known == whole.len() };
        let mut rest = Vec::new();
        // What was not known yet is skipped by the user once more.
        let skips = |rest: &[Sample]| {
            if matches!(known + rest.len(), 0 | 2) {
                cancel.skip();
            }
        };
        skips(&rest);
        let sink = &mut |sample| {
            rest.push(sample);
            skips(&rest);
        };
        again.take_up(&script, &earlier, &cancel, sink).unwrap();
        assert_eq!(rest, whole[known..], "{known} known");
        assert_eq!(again.position(), bench.position());
        cancel.take_skip();
    }
}

/// Largest time of `environment` over that of none, at a large size.
fn slowdown(text: &str, environment: &Environment, collective: Collective) -> f64 {
    let bench = simulated(text, 1);
    let time_us = |environment: &Environment| bench.truth_us(environment, point(collective, 1 << 38), None);
    time_us(environment) / time_us(&Environment::new())
}

#[test]
fn variables_act_where_they_should() {
    let ratio = |text: &str, name: &str, value: &str| slowdown(text, &env(name, value), Collective::AllReduce);
    let with = |line: &str| RAILS.replace("hop_us = 5.0", line);
    let near = |ratio: f64, want: f64| assert!((ratio - want).abs() < 0.02 * want, "{ratio} is not {want}");
    near(ratio(RAILS, "NCCL_IB_HCA", "=mlx5_0,mlx5_1,mlx5_2,mlx5_3"), 370.0 / 192.0);
    near(ratio(RAILS, "NCCL_IB_HCA", "=mlx5_1"), 370.0 / 48.0);
    near(ratio(RAILS, "NCCL_CROSS_NIC", "1"), 1.0);
    near(ratio(&with("crossing = 0.5"), "NCCL_CROSS_NIC", "1"), 370.0 / 192.0);
    near(ratio(&with("crossing = 0.5\ncrosses_by_default = true"), "NCCL_CROSS_NIC", "0"), 192.0 / 370.0);
    near(ratio(RAILS, "NCCL_PXN_DISABLE", "1"), 370.0 / (0.9 * 384.0));
    near(ratio(RAILS, "NCCL_NET_GDR_LEVEL", "LOC"), 370.0 / (0.6 * 384.0));
    near(ratio(&with("gdr_distance = \"PHB\""), "NCCL_NET_GDR_LEVEL", "SYS"), 0.6 * 384.0 / 370.0);
    let narrow = RAILS.replace("connection_gbs = 24.0", "connection_gbs = 12.0");
    near(ratio(&narrow, "NCCL_IB_QPS_PER_CONNECTION", "2"), 192.0 / 370.0);
    let chunks = with("chunk_us = 10.0");
    assert!(ratio(&chunks, "NCCL_BUFFSIZE", "8388608") < 0.95 && ratio(&chunks, "NCCL_BUFFSIZE", "1048576") > 1.2);
    near(ratio(RAILS, "NCCL_NTHREADS", "256"), 1.0);
    // All-to-all changes rails without PXN, whatever NCCL_CROSS_NIC says.
    let crossing = with("crossing = 0.5");
    let without_pxn = env("NCCL_PXN_DISABLE", "1").with("NCCL_CROSS_NIC", "0");
    assert!(slowdown(&crossing, &without_pxn, Collective::AllToAll) > 1.8);
    assert!(slowdown(&crossing, &without_pxn, Collective::AllReduce) < 1.2);
}
