use gdrtune_profiles::{
    profile::PointChoice,
    vocab::{Algorithm, Collective, Protocol},
};

use super::*;
use crate::event::Trial;

const GOLDEN: &str = include_str!("../../../../profiles/tests/golden/nccl.toml");

fn profile() -> Profile {
    Profile::parse(GOLDEN, "golden").unwrap().0
}

fn point(bytes: u64) -> Point {
    Point { collective: Collective::AllReduce, bytes }
}

fn choice(algorithm: Algorithm, protocol: Protocol, channels: u16) -> Choice {
    Choice { algorithm, protocol, channels }
}

const TREE: Choice = Choice { algorithm: Algorithm::Tree, protocol: Protocol::Ll, channels: 2 };
const RING: Choice = Choice { algorithm: Algorithm::Ring, protocol: Protocol::Simple, channels: 0 };

fn started() -> Event {
    Event::RunStarted {
        schema_version: 1,
        run: "r1".into(),
        tool: "0".into(),
        engine: Engine::Nccl,
        hosts: "n[1-4]".into(),
        nodes: 4,
        ranks: 32,
        points: vec![],
        seed: 1,
        budget_s: None,
        max_trials: None,
        workload: "default".into(),
        objective: "geomean".into(),
        sm_cost: 0.0,
    }
}

/// A trial; the fourth is what was asked for in the search, and what ran in the default arm.
fn trial(arm: Arm, environment: &Environment, bytes: u64, ran: Option<Choice>, time_us: f64) -> Event {
    let result = TrialResult::Timed {
        time_us,
        slowest_us: time_us,
        median_us: time_us,
        max_us: time_us,
        cpu_us: 0.0,
        busbw_gbs: 0.0,
        iterations: 1,
    };
    let (requested, selected) = if arm == Arm::Search { (ran, None) } else { (None, ran) };
    let environment = environment.clone();
    let (trial, process, item) = (0, 3, None);
    Event::Trial(Trial { trial, arm, environment, point: point(bytes), requested, selected, process, item, result })
}

fn failed(environment: &Environment, bytes: u64, requested: Choice) -> Event {
    let Event::Trial(mut trial) = trial(Arm::Search, environment, bytes, Some(requested), 1.0) else { unreachable!() };
    trial.result = TrialResult::Failed { kind: Failure::Hung, detail: "20 s".into(), ran: None };
    Event::Trial(trial)
}

fn dropped(environment: &Environment, bytes: u64, choice: Choice, why: &str) -> Event {
    Event::Dropped { environment: environment.clone(), point: point(bytes), choice, why: why.into() }
}

fn told(events: Vec<Event>) -> Story {
    let records: Vec<Record> = (0..).zip(events).map(|(seq, event)| Record { seq, t_ms: 0, event }).collect();
    story(&records, None).unwrap()
}

#[test]
fn a_point_tells_what_ran_what_was_tried_and_what_became_of_it() {
    let none = Environment::new();
    let ring = choice(Algorithm::Ring, Protocol::Ll128, 4);
    let own = choice(Algorithm::Ring, Protocol::Ll, 8);
    let left_out = vec!["allreduce 1K, 4K tree/ll/2: dropped: not clearly faster".to_owned(), "x: y".to_owned()];
    let story = told(vec![
        started(),
        Event::Predicted { point: point(1024), times_us: vec![(RING, 30.0), (TREE, 20.0)] },
        trial(Arm::Default, &none, 1024, Some(own), 40.0),
        trial(Arm::Default, &none, 1024, Some(own), 44.0),
        trial(Arm::Default, &none, 1024, Some(TREE), 42.0),
        trial(Arm::Search, &none, 1024, Some(TREE), 30.0),
        trial(Arm::Search, &none, 1024, Some(TREE), 32.0),
        trial(Arm::Search, &none, 1024, Some(ring), 35.0),
        failed(&none, 1024, RING),
        failed(&none, 1024, RING),
        dropped(&none, 1024, RING, "hung: 20 s"),
        trial(Arm::Candidate, &none, 1024, None, 1.0),
        Event::Profile { profile: Box::new(profile()), left_out },
    ]);
    let told = &story.points[&point(1024)];
    let times = |median_us, samples, spread| Times { median_us, samples, processes: 1, spread };
    assert_eq!(told.default.map(|t| (t.median_us, t.samples, t.processes)), Some((42.0, 3, 1)));
    assert_eq!(told.own, [(own, 2), (TREE, 1)]);
    assert_eq!(told.predicted, [(TREE, 20.0), (RING, 30.0)]);
    let tried: Vec<_> = told.tried.iter().map(|t| (t.choice.unwrap(), t.times.map(|t| t.median_us))).collect();
    assert_eq!(tried, [(TREE, Some(31.0)), (ring, Some(35.0)), (RING, None)]);
    assert_eq!(told.tried[2].failures, [(Failure::Hung, 2, "20 s".to_owned())]);
    assert_eq!(told.tried[2].dropped.as_deref(), Some("hung: 20 s"));
    assert_eq!((told.time_us(&none, None), told.time_us(&none, Some(TREE))), (Some(42.0), Some(31.0)));
    assert_eq!(told.time_us(&Environment::new().with("A", "1"), Some(TREE)), None);
    assert_eq!(told.tried[1].times, Some(times(35.0, 1, told.tried[1].times.and_then(|t| t.spread))));
    assert_eq!(story.left_out_at(point(4096)), ["allreduce 1K, 4K tree/ll/2: dropped: not clearly faster"]);
    assert!(story.left_out_at(point(16384)).is_empty());
}

#[test]
fn shapes_are_told_apart_and_their_sentences_too() {
    let none = Environment::new();
    let shape = |nodes, ranks| Event::Shape { index: 0, of: 2, nodes, ranks };
    let left_out = vec!["2x8: allreduce 1K ring/ll: dropped: a".to_owned(), "4x8: allreduce 1K ring/ll: b".to_owned()];
    let records: Vec<Record> = (0..)
        .zip([
            started(),
            shape(4, 32),
            trial(Arm::Default, &none, 1024, None, 10.0),
            shape(2, 16),
            trial(Arm::Default, &none, 1024, None, 20.0),
            Event::Profile { profile: Box::new(profile()), left_out },
        ])
        .map(|(seq, event)| Record { seq, t_ms: 0, event })
        .collect();
    let at = |shape| story(&records, Some(shape)).unwrap();
    let default_us = |story: &Story| story.points[&point(1024)].default.unwrap().median_us;
    assert_eq!((default_us(&at((4, 32))), default_us(&at((2, 16)))), (10.0, 20.0));
    assert_eq!(at((2, 16)).left_out_at(point(1024)), ["2x8: allreduce 1K ring/ll: dropped: a"]);
    assert_eq!(story(&records, None).unwrap().shapes, [(4, 32), (2, 16)]);
    assert!(at((1, 8)).points.is_empty());
    assert!(story(&records[1..], None).is_none(), "no run");
    let of_one = told(vec![started(), trial(Arm::Default, &none, 1024, None, 10.0)]);
    assert_eq!((of_one.shape, of_one.points.len()), ((4, 32), 1));
    let records = [started(), trial(Arm::Default, &none, 1024, None, 10.0)];
    let records: Vec<Record> = (0..).zip(records).map(|(seq, event)| Record { seq, t_ms: 0, event }).collect();
    assert!(story(&records, Some((2, 16))).unwrap().points.is_empty(), "the only shape of a run is not every shape");
}

#[test]
fn an_answer_names_the_rule_its_neighbours_and_what_the_engine_would_do() {
    let mut profile = profile();
    profile.env.clear();
    let none = Environment::new();
    let own = choice(Algorithm::Ring, Protocol::Ll, 8);
    let story = told(vec![
        started(),
        trial(Arm::Default, &none, 16_384, Some(own), 60.0),
        trial(Arm::Search, &none, 16_384, Some(TREE), 50.0),
        trial(Arm::Default, &none, 1 << 20, Some(RING), 100.0),
        trial(Arm::Search, &none, 1 << 20, Some(TREE), 150.0),
        trial(Arm::Default, &none, 1 << 25, None, 1000.0),
        Event::Predicted { point: point(1 << 25), times_us: vec![(RING, 900.0)] },
    ]);
    let subject = Subject { profile: &profile, story: Some(&story), picks: &[], shape: (4, 32) };
    let here = answer(subject, point(16_384)).unwrap();
    assert_eq!(here.stretch.rule.map(|(place, _)| place), Some(0));
    assert_eq!(here.own, [(16_384, OwnChoice::Ran(vec![(own, 1)]))]);
    assert!(here.below.is_none() && here.hidden.is_empty());
    let above = here.above.unwrap();
    assert_eq!((above.stretch.bytes.min, above.stretch.rule), (65_537, None));
    let crossing = |bytes, own_us, other_us| Crossing { bytes, own_us: Some(own_us), other_us: Some(other_us) };
    assert_eq!(above.crossings, [crossing(16_384, 50.0, 60.0), crossing(1 << 20, 150.0, 100.0)]);

    // Between measured sizes both are told; beyond them the last one.
    let between = answer(subject, point(1 << 24)).unwrap().own;
    let sizes: Vec<u64> = between.iter().map(|(bytes, _)| *bytes).collect();
    assert_eq!(sizes, [1 << 20, 1 << 25]);
    assert_eq!(between[1].1, OwnChoice::Predicted(RING, 900.0));
    assert_eq!(answer(subject, point(1 << 30)).unwrap().own.len(), 1);

    let alone = Subject { story: None, ..subject };
    assert_eq!(answer(alone, point(16_384)).unwrap().own, [(16_384, OwnChoice::Unknown)]);
    let elsewhere = Subject { shape: (2, 16), ..subject };
    assert_eq!(answer(elsewhere, point(16_384)).unwrap().stretch.rule, None);
}

#[test]
fn a_run_that_was_broken_off_has_not_decided_what_has_no_verdict() {
    let none = Environment::new();
    let phase = |phase| Event::Phase { phase };
    let finished = |end| Event::Finished { end, summary: String::new() };
    let search =
        vec![started(), phase(Phase::Baseline), trial(Arm::Default, &none, 1024, None, 10.0), phase(Phase::Search)];
    let shape = |nodes, ranks| Event::Shape { index: 0, of: 2, nodes, ranks };
    let then = |more: Vec<Event>| told([search.clone(), more].concat());
    for (more, phase, decided) in [
        (vec![], Phase::Search, false),
        (vec![phase(Phase::Done), finished(RunEnd::Interrupted)], Phase::Search, false),
        (vec![phase(Phase::Verify)], Phase::Verify, false),
        (vec![phase(Phase::Verify), phase(Phase::Write)], Phase::Write, true),
        (vec![phase(Phase::Verify), phase(Phase::Done), finished(RunEnd::DefaultsBest)], Phase::Verify, true),
    ] {
        let story = then(more.clone());
        assert_eq!((story.phase, story.is_decided), (Some(phase), decided), "{more:?}");
    }
    let events = [vec![shape(4, 32)], search[1..].to_vec(), vec![shape(2, 16)], search[1..].to_vec()].concat();
    let events = [vec![started()], events].concat();
    let records: Vec<Record> = (0..).zip(events).map(|(seq, event)| Record { seq, t_ms: 0, event }).collect();
    let decided = [(4, 32), (2, 16)].map(|shape| story(&records, Some(shape)).unwrap().is_decided);
    assert_eq!(decided, [true, false], "shapes come one after the other");
}

#[test]
fn picks_are_those_of_the_shape() {
    let profile = profile();
    let pick = PointChoice {
        collective: Collective::AllReduce,
        bytes: 1024,
        choice: TREE,
        median_us: 1.0,
        samples: 1,
        nodes: None,
        ranks: None,
    };
    let of = |picks: &[PointChoice], shape| {
        answer(Subject { profile: &profile, story: None, picks, shape }, point(1024)).unwrap().pick.is_some()
    };
    assert!(of(std::slice::from_ref(&pick), (4, 32)) && !of(std::slice::from_ref(&pick), (2, 16)));
    let named = PointChoice { nodes: Some(2), ranks: Some(16), ..pick };
    assert!(of(std::slice::from_ref(&named), (2, 16)) && !of(&[named], (4, 32)));
}

#[test]
fn rules_that_come_too_late_are_named() {
    let mut profile = profile();
    profile.rule.push(profile.rule[0].clone());
    let subject = Subject { profile: &profile, story: None, picks: &[], shape: (4, 32) };
    assert_eq!(answer(subject, point(1024)).unwrap().hidden, [2]);
}

#[test]
fn a_setting_tells_what_was_tried_in_its_place_and_why_it_stays_or_goes() {
    let profile = profile();
    let set = |value: &str| Environment::new().with("NCCL_IB_QPS_PER_CONNECTION", value);
    let scored = |environment: Environment, score| Event::EnvironmentScored {
        index: 0,
        environment,
        score,
        note: String::new(),
    };
    let name = "NCCL_IB_QPS_PER_CONNECTION";
    let values = [None, Some("2".to_owned()), Some("4".to_owned())].to_vec();
    let log = |text: &str| Event::Log { level: crate::event::Level::Info, host: String::new(), text: text.into() };
    let story = told(vec![
        started(),
        Event::Space {
            dimensions: BTreeMap::from([(name.to_owned(), values)]),
            choices: vec![],
            environments: 3,
            name: String::new(),
        },
        log("not searched: NCCL_PXN_DISABLE, NCCL_NVLS_ENABLE: one node"),
        Event::Site { environments: vec![("n[1-4]".into(), Environment::new().with("NCCL_SOCKET_IFNAME", "=eth0"))] },
        scored(Environment::new(), Some(1.0)),
        scored(set("4"), Some(0.9)),
        scored(set("4").with("NCCL_PXN_DISABLE", "1"), Some(0.8)),
        scored(set("2"), None),
        Event::Profile {
            profile: Box::new(profile.clone()),
            left_out: vec![format!("{name}: left out: with it only 1.00x")],
        },
    ]);
    let subject = Subject { profile: &profile, story: Some(&story), picks: &[], shape: (4, 32) };
    let answer = setting(subject, name).unwrap();
    let tried = |value: Option<&str>, environments, best_score| ValueTried {
        value: value.map(str::to_owned),
        environments,
        best_score,
    };
    let expected = [tried(None, 1, Some(1.0)), tried(Some("2"), 1, None), tried(Some("4"), 2, Some(0.8))];
    assert_eq!(answer.values, expected);
    assert!(answer.setting.is_some() && !answer.is_alone && answer.knob.is_some());
    assert_eq!(answer.left_out, [format!("{name}: left out: with it only 1.00x")]);
    let pxn = setting(subject, "NCCL_PXN_DISABLE").unwrap();
    assert!(pxn.setting.is_none() && pxn.values.is_empty());
    assert_eq!(pxn.not_searched, ["not searched: NCCL_PXN_DISABLE, NCCL_NVLS_ENABLE: one node"]);
    assert_eq!(setting(subject, "NCCL_SOCKET_IFNAME").unwrap().site, [("n[1-4]", "=eth0")]);
    assert!(setting(subject, "NCCL_NOTHING").is_none());
}
