use gdrtune_profiles::{
    profile::PointChoice,
    vocab::{Algorithm, Choice, Collective, Environment, Protocol},
    workload::Counting,
};

use super::*;

const SHAPE: (u32, u32) = (2, 16);

fn profile(env: &Environment, rules: &str) -> Profile {
    let entry = |(name, value)| format!("[[env]]\nname = \"{name}\"\nvalue = \"{value}\"\nclass = \"debugging\"\n");
    let env = env.iter().map(entry).collect::<Vec<_>>().concat();
    let text = format!(
        "format = 1\n[cluster]\nnodes = 2\nranks = 16\nnccl = \"2.28.9\"\nfingerprint = \"sha256:0\"\n[run]\nid = \"r\"\ntool = \"0\"\n\
         engine = \"nccl\"\nbaseline = \"site\"\nworkload = \"w\"\ntrials = 1\n{env}{rules}"
    );
    Profile::parse(&text, "p.toml").unwrap_or_else(|error| panic!("{error}\n{text}")).0
}

fn rule(min: u64, max: u64, median: f64) -> String {
    format!(
        "[[rule]]\ncollective = \"allreduce\"\nnodes = 2\nranks = 16\nbytes = {{ min = {min}, max = {max} }}\nalgorithm = \"tree\"\n\
         protocol = \"ll\"\ndefault_us = {}\ntuned_us = 100.0\nspeedup = {{ median = {median}, low = 1.1, high = 3.0, \
         p_faster = 0.99, repeats = 9 }}\n",
        median * 100.0
    )
}

fn point(bytes: u64) -> Point {
    Point { collective: Collective::AllReduce, bytes }
}

fn workload(calls: &[(Point, f64)]) -> Workload {
    Workload {
        name: "w".into(),
        about: String::new(),
        counting: Counting::CallsPerStep,
        ranks: None,
        calls: calls.to_vec(),
    }
}

fn measured(bytes: u64, default_us: f64, ratio: Option<f64>) -> Measured {
    let ratio = ratio.map(|median| Ratio { median, low: median * 0.9, high: median * 1.1 });
    Measured { point: point(bytes), default_us, ratio }
}

#[test]
fn what_no_rule_covers_takes_its_default_time_and_what_one_covers_its_evidence() {
    let profile = profile(&Environment::new(), &rule(4096, 16384, 2.0));
    let at = [measured(1024, 10.0, Some(1.5)), measured(4096, 40.0, Some(1.6)), measured(65536, 640.0, None)];
    let job = workload(&[(point(1024), 3.0), (point(4096), 2.0), (point(8192), 1.0), (point(65536), 1.0)]);
    let prediction = predict(&job, &profile, SHAPE, &at);
    let shown: Vec<_> =
        prediction.points.iter().map(|p| (p.point.bytes, p.default_us, p.ratio.median, p.origin)).collect();
    // Time grows with the size here, so the time between is in proportion.
    let (bytes, default_us, median, origin) = shown[2];
    assert!((default_us - 80.0).abs() < 1e-9 && (median - 2.0).abs() < 1e-9 && bytes == 8192, "{shown:?}");
    assert_eq!(origin, Origin::Between(4096, 65536));
    assert_eq!(shown[0], (1024, 10.0, 1.0, Origin::Measured), "no rule, whatever the A/B said of it");
    assert_eq!(shown[1], (4096, 40.0, 1.6, Origin::Measured), "its own evidence");
    let sums = prediction.sums();
    let expected = [30.0 + 80.0 + 80.0 + 640.0, 30.0 + 50.0 + 40.0 + 640.0];
    assert!((sums.default_us - expected[0]).abs() < 1e-6 && (sums.tuned_us - expected[1]).abs() < 1e-6, "{sums:?}");
    assert!(sums.least_us < sums.tuned_us && sums.tuned_us < sums.most_us && sums.most_us < sums.default_us);
    // Between two sizes of one rule, its own evidence is interpolated.
    let both = [measured(4096, 40.0, Some(1.0)), measured(16384, 160.0, Some(4.0))];
    let within = predict(&workload(&[(point(8192), 1.0)]), &profile, SHAPE, &both);
    assert!((within.points[0].ratio.median - 2.0).abs() < 1e-9, "{within:?}");
    let other_shape = predict(&job, &profile, (2, 8), &at).sums();
    assert!((other_shape.default_us - other_shape.tuned_us).abs() < 1e-9);
}

#[test]
fn a_variable_changes_every_call_as_the_whole_was_measured() {
    let profile = profile(&Environment::new().with("NCCL_BUFFSIZE", "2097152"), &rule(4096, 16384, 9.0));
    let at = [measured(1024, 10.0, Some(1.0)), measured(16384, 10.0, Some(4.0)), measured(65536, 10.0, None)];
    let job = workload(&[(point(1024), 1.0), (point(4096), 1.0), (point(16384), 1.0), (point(32768), 1.0)]);
    let prediction = predict(&job, &profile, SHAPE, &at);
    let ratios: Vec<f64> = prediction.points.iter().map(|times| times.ratio.median).collect();
    assert!((ratios[1] - 2.0).abs() < 1e-9, "half way in the logarithm of the size: {ratios:?}");
    assert_eq!((ratios[0], ratios[2]), (1.0, 4.0));
    assert_eq!(prediction.unknown, [(point(32768), 1.0, Unknown::Effect)]);
}

#[test]
fn nothing_is_extrapolated() {
    let profile = profile(&Environment::new(), &rule(4096, 16384, 2.0));
    let at = [measured(1024, 10.0, None), measured(4096, 40.0, None)];
    let gather = Point { collective: Collective::AllGather, bytes: 4096 };
    let job = workload(&[(point(512), 1.0), (point(8192), 2.0), (gather, 3.0)]);
    let prediction = predict(&job, &profile, SHAPE, &at);
    let unknown = [
        (point(512), 1.0, Unknown::Below(1024)),
        (point(8192), 2.0, Unknown::Above(4096)),
        (gather, 3.0, Unknown::Collective),
    ];
    assert_eq!((prediction.points.len(), prediction.unknown.as_slice()), (0, &unknown[..]));
}

#[test]
fn a_profile_alone_tells_times_where_its_rules_do() {
    let rules = rule(1024, 1024, 2.0) + &rule(4096, 16384, 1.5);
    let pick = |bytes, algorithm, median_us| PointChoice {
        collective: Collective::AllReduce,
        bytes,
        choice: Choice { algorithm, protocol: Protocol::Ll, channels: 0 },
        median_us,
        samples: 3,
        nodes: None,
        ranks: None,
    };
    let choices = [
        pick(1024, Algorithm::Tree, 7.0),
        pick(4096, Algorithm::Tree, 20.0),
        pick(8192, Algorithm::Ring, 30.0),
        pick(65536, Algorithm::Tree, 90.0),
    ];
    let plain = profile(&Environment::new(), &rules);
    let found: Vec<_> =
        measured_by_profile(&plain, &choices, SHAPE).iter().map(|m| (m.point.bytes, m.default_us)).collect();
    assert_eq!(found, [(1024, 200.0), (4096, 30.0)], "not what another choice took, and not what no rule covers");
    let set = profile(&Environment::new().with("NCCL_BUFFSIZE", "2097152"), &rules);
    assert!(measured_by_profile(&set, &choices, SHAPE).is_empty());
    assert!(measured_by_profile(&plain, &choices, (2, 8)).is_empty());
}
