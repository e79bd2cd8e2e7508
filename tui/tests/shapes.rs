//! `tune --shapes`: several job shapes in one run, on this machine.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod common;

use std::{
    fs,
    io::{BufRead, BufReader},
    path::Path,
    process::Stdio,
    time::Duration,
};

use common::{gdrtune, gdrtune_processes, output, stderr, wait_until};
use gdrtune_profiles::profile::{ByteRange, Profile, Rule};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

const NATIVE: &str = include_str!("../../profiles/tests/golden/native.toml");

fn events(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["event"].clone()).collect()
}

fn store(home: &Path) -> String {
    let stored = fs::read_dir(home.join("state/runs")).unwrap().flatten().next().expect("a run store").path();
    fs::read_to_string(stored).unwrap()
}

#[test]
fn each_shape_is_tuned_and_kept_apart() {
    let home = tempfile::tempdir().unwrap();
    let run = output(
        gdrtune(home.path())
            .args(["tune", "--headless", "--shapes", "1x2,1x4", "--sizes", "1K,64K", "--budget", "20s"])
            .args(["--trials", "160", "--out", "out"]),
    );
    let log = stderr(&run);
    assert!(run.status.success(), "{log}");
    assert!(log.contains("shape 2 of 2: 1 node, 4 ranks") && log.contains("only rules are searched"), "{log}");

    let told = events(&store(home.path()));
    let shapes: Vec<_> = told.iter().filter(|e| e["type"] == "shape").map(|e| (&e["index"], &e["ranks"])).collect();
    assert_eq!(shapes, [(&Value::from(0), &Value::from(2)), (&Value::from(1), &Value::from(4))]);
    assert_eq!(told.iter().filter(|e| e["type"] == "phase" && e["phase"] == "baseline").count(), 2);
    let trials: Vec<u64> = told.iter().filter(|e| e["type"] == "trial").map(|e| e["trial"].as_u64().unwrap()).collect();
    assert_eq!(trials, (0..trials.len() as u64).collect::<Vec<_>>(), "trials are numbered through");
    assert!(told.iter().all(|e| e["type"] != "trial" || e["environment"] == serde_json::json!({})), "only rules");

    let out = |name: &str| fs::read_to_string(home.path().join("out").join(name)).unwrap();
    let (profile, _) = Profile::parse(&out("profile.toml"), "profile.toml").unwrap();
    assert_eq!((profile.cluster.nodes, profile.cluster.ranks), (1, 4), "the largest");
    let summary = out("summary.md");
    let sections = ["\n- 1x4: ", "\n- 1x2: ", "## Shape 1x4: 1 node, 4 ranks", "## Shape 1x2: 1 node, 2 ranks"];
    let places: Vec<usize> = sections.iter().map(|text| summary.find(text).expect(text)).collect();
    assert!(places.is_sorted(), "{summary}");
    let choices: Vec<Value> = serde_json::from_str(&out("choices.json")).unwrap();
    let picks: Vec<_> = choices.iter().map(|choice| (&choice["ranks"], &choice["bytes"])).collect();
    assert!(picks.iter().any(|pick| *pick.0 == 4) && picks.iter().any(|pick| *pick.0 == 2), "{picks:?}");

    let replayed = output(gdrtune(home.path()).args(["replay", "2"]));
    assert!(String::from_utf8_lossy(&replayed.stdout).contains("shape 2 of 2"), "{}", stderr(&replayed));
}

#[test]
fn an_interruption_in_the_second_shape_keeps_the_first_ones_results_in_the_store() {
    let home = tempfile::tempdir().unwrap();
    let mut child = gdrtune(home.path())
        .args(["tune", "--json", "--shapes", "1x2,1x3", "--sizes", "1K,64K", "--budget", "16s", "--out", "out"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.by_ref().any(|line| line.contains(r#""type":"shape","index":1"#)), "the second shape");
    assert!(lines.by_ref().any(|line| line.contains(r#""type":"trial""#)), "a trial of it");
    let drain = std::thread::spawn(move || lines.for_each(drop));
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    wait_until("the run ends", Duration::from_secs(20), || child.try_wait().unwrap().is_some());
    drain.join().unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(!home.path().join("out").exists(), "nothing is half-written");
    let told = events(&store(home.path()));
    let at = |is: &dyn Fn(&Value) -> bool| told.iter().position(is);
    let verified = at(&|e| e["phase"] == "verify").expect("the first shape was verified");
    assert!(verified < at(&|e| e["type"] == "shape" && e["index"] == 1).unwrap());
    assert_eq!(told.last().unwrap()["end"], "interrupted");
    let marker = home.path().display().to_string();
    wait_until("no process is left", Duration::from_secs(15), || gdrtune_processes(&marker).is_empty());
}

#[test]
fn shapes_that_do_not_fit_are_refused_before_anything_starts() {
    let home = tempfile::tempdir().unwrap();
    for (args, text) in [
        (&["--shapes", "2x1"][..], "--shapes: the shape 2x1 needs 2 hosts, and there is 1"),
        (&["--shapes", "4x1,2x2", "--engine", "nccl", "--emulate-nodes"], "an emulated node is one rank; write 2x1"),
        (&["--shapes", "1x2", "--ranks-per-node", "2"], "cannot be used with"),
    ] {
        let run = output(gdrtune(home.path()).args(["tune", "--headless", "--out", "out"]).args(args));
        assert_eq!(run.status.code(), Some(2), "{}", stderr(&run));
        assert!(stderr(&run).contains(text), "{args:?}: {}", stderr(&run));
        assert!(!home.path().join("out").exists());
    }
}

#[test]
fn a_profile_is_verified_at_the_shape_that_is_there() {
    let home = tempfile::tempdir().unwrap();
    let (mut profile, _) = Profile::parse(NATIVE, "golden").unwrap();
    profile.env.clear();
    let rule = |ranks, min, max| Rule { nodes: 1, ranks, bytes: ByteRange { min, max }, ..profile.rule[0].clone() };
    profile.rule = vec![rule(4, 0, None), rule(2, 2048, Some(8192))];
    (profile.cluster.nodes, profile.cluster.ranks) = (1, 4);
    fs::write(home.path().join("p.toml"), profile.to_toml()).unwrap();
    let verify = |ranks: &str, sizes: &[&str]| {
        let args = ["verify", "p.toml", "--ranks-per-node", ranks, "--pairs", "2", "--json"];
        output(gdrtune(home.path()).args(args).args(sizes))
    };
    let other = verify("3", &[]);
    assert_eq!(other.status.code(), Some(2));
    let text = "the profile is for 1 nodes with 4 ranks or 1 nodes with 2 ranks, and here are 1 with 3";
    assert!(stderr(&other).contains(text), "{}", stderr(&other));
    for (named, expected) in [
        (&["--sizes", "1K,4K,16K"][..], &[4096][..]),
        // What nobody names is what its own rules are about.
        (&[], &[2048, 4096, 8192]),
    ] {
        let small = verify("2", named);
        let document: Value = serde_json::from_slice(&small.stdout).unwrap_or_else(|_| panic!("{}", stderr(&small)));
        let sizes: Vec<&Value> = document["points"].as_array().unwrap().iter().map(|point| &point["bytes"]).collect();
        let expected: Vec<Value> = expected.iter().map(|&bytes: &u64| bytes.into()).collect();
        assert_eq!((&document["ranks"], sizes), (&Value::from(2), expected.iter().collect()), "{named:?}");
    }
}
