//! Choices that hang, crash or give wrong results: each costs itself, and the run ends with a profile without it.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod common;

use std::{fs, path::Path, time::Duration};

use common::{gdrtune, gdrtune_processes, output, stderr, wait_until};
use serde_json::Value;

/// Runs a small local tune whose workers misbehave; gives its events and how it ended.
fn tune(home: &Path, fault: &str) -> (Vec<Value>, Option<i32>, String) {
    let run = output(gdrtune(home).env("GDRTUNE_TEST_FAULT", fault).args([
        "tune",
        "--json",
        "--sizes",
        "1K,16K",
        "--budget",
        "14s",
        "--trial-timeout",
        "1s",
        "--ranks-per-node",
        "2",
        "--out",
        "out",
    ]));
    let text = String::from_utf8(run.stdout.clone()).unwrap();
    let events = text.lines().map(|l| serde_json::from_str::<Value>(l).unwrap()["event"].clone()).collect();
    (events, run.status.code(), stderr(&run))
}

fn trials<'a>(events: &'a [Value], protocol: &'a str) -> impl Iterator<Item = &'a Value> {
    events.iter().filter(move |e| e["type"] == "trial" && e["requested"]["protocol"] == protocol)
}

/// `protocol` fails as `kind` whenever it is tried, is given up, and is in nothing that is written.
fn expect_disqualified(fault: &str, kind: &str, most_trials: usize) {
    let home = tempfile::tempdir().unwrap();
    let (events, code, log) = tune(home.path(), fault);
    assert_eq!(code, Some(100), "some trials failed: {log}");
    let failed: Vec<&Value> = trials(&events, "ll128").collect();
    assert!(!failed.is_empty(), "it was tried");
    assert!(failed.iter().all(|t| t["result"]["kind"] == kind), "{failed:?}");
    assert!(failed.len() <= most_trials, "given up after a few: {}", failed.len());
    assert!(trials(&events, "simple").any(|t| t["result"]["outcome"] == "timed"), "the others go on");
    for name in ["profile.toml", "nccl-tuner.csv", "choices.json"] {
        let text = fs::read_to_string(home.path().join("out").join(name)).unwrap();
        assert!(!text.contains("ll128"), "{name}: {text}");
    }
    let marker = home.path().display().to_string();
    wait_until("no process is left", Duration::from_secs(15), || gdrtune_processes(&marker).is_empty());
}

#[test]
fn a_hung_choice_costs_its_deadline_and_is_quarantined() {
    expect_disqualified("hang:allreduce:*:ll128", "hung", 20);
}

#[test]
fn a_wrong_result_disqualifies_the_choice() {
    expect_disqualified("wrong:allreduce:*:ll128", "wrong", 20);
}

#[test]
fn a_crashing_choice_is_given_up() {
    expect_disqualified("crash:allreduce:*:ll128", "crashed", 20);
}
