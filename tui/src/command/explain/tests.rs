use std::collections::BTreeMap;

use gdrtune_profiles::{
    profile::Speedup,
    vocab::{Algorithm, Choice, Engine, Environment, Protocol},
};
use gdrtune_session::event::{
    Arm, Decision, Event, Failure as TrialFailure, Knob, KnobEffect, Phase, Record, RunEnd, Trial, TrialResult,
};

use super::*;
use crate::ui::text::width;

const TREE: Choice = Choice { algorithm: Algorithm::Tree, protocol: Protocol::Ll, channels: 2 };
const RING: Choice = Choice { algorithm: Algorithm::Ring, protocol: Protocol::Ll, channels: 8 };
const SIMPLE: Choice = Choice { algorithm: Algorithm::Ring, protocol: Protocol::Simple, channels: 16 };
const LL128: Choice = Choice { algorithm: Algorithm::Ring, protocol: Protocol::Ll128, channels: 4 };

fn profile() -> Profile {
    Profile::parse(include_str!("../../../../profiles/tests/golden/nccl.toml"), "golden").unwrap().0
}

fn point(bytes: u64) -> Point {
    Point { collective: Collective::AllReduce, bytes }
}

fn trial(arm: Arm, bytes: u64, ran: Choice, time_us: f64) -> Event {
    let timed = TrialResult::Timed {
        time_us,
        slowest_us: time_us,
        median_us: time_us,
        max_us: time_us,
        cpu_us: 0.0,
        busbw_gbs: 0.0,
        iterations: 1,
    };
    let hung = TrialResult::Failed { kind: TrialFailure::Hung, detail: "killed after 20 s".into(), ran: None };
    let in_search = arm == Arm::Search;
    Event::Trial(Trial {
        trial: 0,
        arm,
        environment: if in_search { profile().environment() } else { Environment::new() },
        point: point(bytes),
        requested: in_search.then_some(ran),
        selected: (!in_search).then_some(ran),
        process: 1,
        item: None,
        result: if time_us > 0.0 { timed } else { hung },
    })
}

/// What was faster in the search, but with settings that do not ship.
fn other_settings() -> Event {
    let Event::Trial(mut trial) = trial(Arm::Search, 1 << 16, TREE, 90.0) else { unreachable!() };
    trial.environment = Environment::new().with("NCCL_CROSS_NIC", "0").with("NCCL_NET_GDR_LEVEL", "SYS");
    Event::Trial(trial)
}

fn verdict(bytes: u64, median: f64, decision: Decision, note: &str) -> Event {
    let speedup = Speedup { median, low: median - 0.04, high: median + 0.05, p_faster: 0.991, repeats: 21 };
    let (default_us, tuned_us) = (100.0 * median, 100.0);
    Event::Verdict { point: point(bytes), speedup, default_us, tuned_us, decision, note: note.into() }
}

/// A run of the golden profile: two sizes under its first rule, one between the rules, one under the second.
fn records() -> Vec<Record> {
    let mut events = vec![
        Event::RunStarted {
            schema_version: 1,
            run: profile().run.id,
            tool: "0.1.0".into(),
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
        },
        Event::Site { environments: vec![("n[1-4]".into(), Environment::new().with("NCCL_SOCKET_IFNAME", "=eth0"))] },
        Event::Space {
            dimensions: BTreeMap::from([(
                "NCCL_IB_QPS_PER_CONNECTION".to_owned(),
                vec![None, Some("2".into()), Some("4".into())],
            )]),
            choices: vec![],
            environments: 3,
            name: "standard".into(),
        },
        Event::Predicted { point: point(1 << 24), times_us: vec![(TREE, 9000.0), (SIMPLE, 2100.0)] },
    ];
    for (bytes, own, tree) in [(1 << 10, 128.0, 112.0), (1 << 16, 131.0, 115.0), (1 << 20, 180.0, 260.0)] {
        events.extend([
            trial(Arm::Default, bytes, RING, own),
            trial(Arm::Default, bytes, RING, own + 2.0),
            trial(Arm::Search, bytes, TREE, tree),
            trial(Arm::Search, bytes, LL128, tree + 9.0),
            trial(Arm::Search, bytes, SIMPLE, 0.0),
        ]);
    }
    let (environment, why) = (profile().environment(), "1.08 times slower than the leader".to_owned());
    events.extend([
        Event::Dropped { environment, point: point(1 << 16), choice: LL128, why },
        other_settings(),
        Event::EnvironmentScored { index: 0, environment: Environment::new(), score: Some(1.0), note: String::new() },
        Event::EnvironmentScored {
            index: 1,
            environment: profile().environment(),
            score: Some(0.84),
            note: String::new(),
        },
        Event::Importance {
            knobs: vec![Knob {
                name: "NCCL_IB_QPS_PER_CONNECTION".into(),
                best: Some("4".into()),
                worst: None,
                factor: 1.06,
                low: 1.02,
                high: 1.1,
                effect: KnobEffect::Mattered,
            }],
        },
        verdict(1 << 10, 1.15, Decision::Ship, ""),
        verdict(1 << 16, 1.14, Decision::Ship, ""),
        verdict(1 << 20, 1.01, Decision::TooNoisy, "spread 38 %, need about 190 s more"),
        Event::Profile {
            profile: Box::new(profile()),
            left_out: vec!["allreduce 1M ring/ll128/4: dropped: not clearly faster as a whole".into()],
        },
        Event::Finished { end: RunEnd::Tuned, summary: String::new() },
    ]);
    (0..).zip(events).map(|(seq, event)| Record { seq, t_ms: 0, event }).collect()
}

fn loaded(records: Option<Vec<Record>>) -> Loaded {
    let notes = if records.is_some() { vec![] } else { vec!["the store of the run is not here".to_owned()] };
    Loaded { name: "profile tuned/profile.toml".into(), profile: profile(), records, picks: Vec::new(), notes }
}

fn args(words: &[&str]) -> ExplainArgs {
    let cli = crate::cli::Cli::read(["gdrtune", "explain", "p"].iter().chain(words).map(std::ffi::OsString::from));
    let crate::cli::Command::Explain(args) = cli.unwrap_or_else(|error| panic!("{error}")).command else {
        panic!("not explain")
    };
    args
}

/// What is printed for these arguments.
fn printed(loaded: &Loaded, words: &[&str]) -> Result<String, String> {
    print(loaded, &args(words)).map_err(|failure| failure.error.to_string())
}

#[test]
fn a_call_is_explained_with_all_that_its_run_knows() {
    let with_run = loaded(Some(records()));
    insta::assert_snapshot!("call", printed(&with_run, &["allreduce", "64K"]).unwrap());
    insta::assert_snapshot!("call_without_rule", printed(&with_run, &["allreduce", "1M"]).unwrap());
    insta::assert_snapshot!("call_without_run", printed(&loaded(None), &["allreduce", "1K"]).unwrap());
}

#[test]
fn decisions_over_all_sizes_and_settings_are_listed() {
    let with_run = loaded(Some(records()));
    insta::assert_snapshot!("overview", printed(&with_run, &[]).unwrap());
    let table = printed(&with_run, &["allreduce", "--table"]).unwrap();
    assert!(table.starts_with("allreduce on 4 nodes, 32 ranks\n") && table.contains("above 64K, below 16M"), "{table}");
    let other = printed(&with_run, &["--table", "--nodes", "2", "--ranks", "16"]).unwrap();
    assert!(other.contains("0 and more  NCCL's own choice  not measured"), "{other}");
}

#[test]
fn a_variable_is_explained_whether_or_not_it_is_set() {
    let with_run = loaded(Some(records()));
    insta::assert_snapshot!("setting", printed(&with_run, &["--env", "NCCL_IB_QPS_PER_CONNECTION"]).unwrap());
    let alone = printed(&with_run, &["--env", "NCCL_SOCKET_IFNAME"]).unwrap();
    assert!(alone.contains("sets it to =eth0 on n[1-4]") && alone.contains("not measured alone"), "{alone}");
    let unset = printed(&with_run, &["--env", "NCCL_NVLS_ENABLE"]).unwrap();
    assert!(unset.contains("not set by this profile") && unset.contains("it was not searched"), "{unset}");
    let error = printed(&with_run, &["--env", "NCCL_IB_HCAA"]).unwrap_err();
    assert!(error.ends_with("did you mean `NCCL_IB_HCA`?"), "{error}");
}

/// The records without those that `out` names.
fn without(out: impl Fn(&Event) -> bool) -> Vec<Record> {
    records().into_iter().filter(|record| !out(&record.event)).collect()
}

#[test]
fn a_run_that_was_broken_off_says_so_and_decides_nothing() {
    let mut records = without(|event| matches!(event, Event::Verdict { .. } | Event::Finished { .. }));
    let last = records.len() as u64;
    records.push(Record { seq: last, t_ms: 0, event: Event::Phase { phase: Phase::Search } });
    for (end, words) in [
        (None, "has no end: it was killed, or still runs, in the search"),
        (Some(RunEnd::Interrupted), "was interrupted in the search"),
    ] {
        let mut records = records.clone();
        records.extend(end.map(|end| Record {
            seq: last + 1,
            t_ms: 0,
            event: Event::Finished { end, summary: String::new() },
        }));
        let killed = loaded(Some(records));
        for args in [&[][..], &["--table"]] {
            let text = printed(&killed, args).unwrap();
            assert!(text.contains("1 size: not decided"), "{text}");
            assert!(text.contains(&format!("UNFINISHED: the run {words}")), "{text}");
        }
        let call = printed(&killed, &["allreduce", "64K"]).unwrap();
        let call = call.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(call.contains("not decided, as the run") && !call.contains("had nothing there"), "{call}");
    }
}

#[test]
fn sizes_that_are_faster_without_a_rule_are_told_as_such() {
    let mut records = without(|event| matches!(event, Event::Verdict { point, .. } if point.bytes == 1 << 20));
    records.push(Record { seq: 999, t_ms: 0, event: verdict(1 << 20, 1.5, Decision::Ship, "") });
    let mut loaded = loaded(Some(records));
    let flat = |loaded: &Loaded| printed(loaded, &[]).unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
    let text = flat(&loaded);
    assert!(text.contains("1 size: surely faster with the settings"), "{text}");
    loaded.profile.env.clear();
    let text = flat(&loaded);
    assert!(text.contains("1 size: faster but no rule passed"), "{text}");
}

#[test]
fn labels_stand_above_the_table_alone_too() {
    let mut loaded = loaded(Some(records()));
    (loaded.profile.run.engine, loaded.profile.run.unverified) = (Engine::Sim, true);
    let text = printed(&loaded, &["--table"]).unwrap();
    assert!(text.starts_with("SIMULATED: ") && text.contains("\nNOT VERIFIED: "), "{text}");
}

#[test]
fn what_was_measured_on_other_shapes_is_not_shown_but_named() {
    let with_run = loaded(Some(records()));
    let text = printed(&with_run, &["allreduce", "64K", "--nodes", "2", "--ranks", "16"]).unwrap();
    assert!(text.contains("note: nothing was measured on 2 nodes, 16 ranks, but on 4 nodes, 32 ranks"), "{text}");
    assert!(!text.contains("last A/B"), "{text}");
    let mut two = records();
    for (place, (nodes, ranks)) in [(1, (4, 32)), (2, (2, 16))] {
        two.insert(place, Record { seq: 0, t_ms: 0, event: Event::Shape { index: 0, of: 2, nodes, ranks } });
    }
    let mut two = loaded(Some(two));
    two.profile.rule.clear();
    let text = printed(&two, &[]).unwrap();
    assert!(text.contains("note: the run is of 4 nodes, 32 ranks; 2 nodes, 16 ranks; --nodes and"), "{text}");
}

#[test]
fn a_single_value_of_the_search_is_not_said_to_have_lost() {
    let mut records = records();
    for record in &mut records {
        if let Event::Space { dimensions, .. } = &mut record.event {
            dimensions
                .extend(["NCCL_PXN_DISABLE", "NCCL_IB_HCA"].map(|name| (name.to_owned(), vec![Some("1".to_owned())])));
        }
    }
    let loaded = loaded(Some(records));
    for name in ["NCCL_PXN_DISABLE", "NCCL_IB_HCA"] {
        let text = printed(&loaded, &["--env", name]).unwrap();
        assert!(text.contains(&format!("all of it ran with {name}=1, pinned or")), "{text}");
        assert!(!text.contains("among what the search took for best"), "{text}");
    }
}

#[test]
fn every_line_fits_80_columns() {
    for records in [None, Some(records())] {
        let loaded = loaded(records);
        for words in [
            &["allreduce", "64K"][..],
            &["allreduce", "1M"],
            &["allgather", "1M"],
            &["allreduce", "3"],
            &[],
            &["--env", "NCCL_IB_HCA"],
            &["--env", "NCCL_P2P_LEVEL"],
        ] {
            let text = printed(&loaded, words).unwrap();
            let wide = text.lines().find(|line| width(line) > 80);
            assert!(wide.is_none(), "{words:?}: {wide:?}");
        }
    }
    let mut native = loaded(Some(records()));
    native.profile.run.engine = Engine::Native;
    native.profile.rule[0].bytes.min = (1 << 10) + 1;
    native.profile.rule[1].algorithm = Algorithm::CollNetDirect;
    native.profile.rule[1].channels = Some(16);
    let text = printed(&native, &[]).unwrap();
    let wide = text.lines().find(|line| width(line) > 80);
    assert!(wide.is_none() && text.contains("the engine's own choice  "), "{text}");
}

#[test]
fn shapes_are_completed_from_what_is_known() {
    let mut loaded = loaded(None);
    let mut small = loaded.profile.rule[0].clone();
    (small.nodes, small.ranks) = (2, 16);
    loaded.profile.rule.push(small);
    for (words, expected) in [
        (&[][..], Ok((4, 32))),
        (&["--nodes", "2"], Ok((2, 16))),
        (&["--ranks", "32"], Ok((4, 32))),
        (&["--nodes", "8", "--ranks", "64"], Ok((8, 64))),
        (&["--nodes", "8"], Err("no such shape is known, but 4 nodes, 32 ranks; 2 nodes, 16 ranks")),
        (&["--nodes", "8", "--ranks", "4"], Err("8 nodes have as many ranks at least")),
    ] {
        let found = shape(&args(words), &loaded).map_err(|failure| failure.error.to_string());
        match expected {
            Ok(expected) => assert_eq!(found.ok(), Some(expected), "{words:?}"),
            Err(text) => assert!(found.as_ref().is_err_and(|error| error.contains(text)), "{words:?}: {found:?}"),
        }
    }
    let text = printed(&loaded, &["allreduce", "1K", "--nodes", "8", "--ranks", "64"]).unwrap();
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("there are no rules for 8 nodes, 64 ranks, but for 4 nodes, 32 ranks; 2 nodes"), "{text}");
}

#[test]
fn json_has_everything_that_was_tried() {
    let with_run = loaded(Some(records()));
    let parsed =
        |words: &[&str]| serde_json::from_str::<serde_json::Value>(&printed(&with_run, words).unwrap()).unwrap();
    let call = parsed(&["allreduce", "64K", "--json"]);
    assert_eq!(call["decision"]["rule"], 1);
    assert_eq!(call["own_choice"][0]["ran"][0]["choice"]["algorithm"], "ring");
    assert_eq!(call["measured"]["tried"].as_array().unwrap().len(), 4);
    assert_eq!(call["measured"]["tried"][3]["failures"][0]["kind"], "hung");
    assert_eq!(call["larger"]["boundary"][1]["bytes"], 1 << 20);
    let unknown = parsed(&["allreduce", "16M", "--json"]);
    assert_eq!(
        (&unknown["own_choice"][0]["known_by"], &unknown["labels"]),
        (&"prediction".into(), &serde_json::json!([]))
    );
    let table = parsed(&["--table", "--json"]);
    assert_eq!(table["collectives"][0]["decisions"].as_array().unwrap().len(), 3);
    let setting = parsed(&["--env", "NCCL_IB_QPS_PER_CONNECTION", "--json"]);
    assert_eq!((&setting["evidence_of"], &setting["searched"][2]["best_score"]), (&"ablation".into(), &0.84.into()));
}
