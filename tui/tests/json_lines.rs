//! A run as a program reads it; the demo is what the manual's tutorial runs (`book.rs`).

mod common;

use std::fs;

use common::{gdrtune, output, stderr};

#[test]
fn json_lines_tell_the_whole_run() {
    let home = tempfile::tempdir().unwrap();
    let run = output(gdrtune(home.path()).args([
        "tune",
        "--json",
        "--sizes",
        "1K,64K",
        "--budget",
        "6s",
        "--trials",
        "40",
        "--ranks-per-node",
        "2",
        "--out",
        "out",
    ]));
    assert!(run.status.success(), "{}", stderr(&run));
    let text = String::from_utf8(run.stdout).unwrap();
    let records: Vec<serde_json::Value> = text.lines().map(|l| serde_json::from_str(l).expect("a JSON line")).collect();
    for (index, record) in records.iter().enumerate() {
        assert_eq!(record["seq"], index, "no gap");
    }
    assert_eq!(records[0]["event"]["type"], "run_started");
    assert_eq!(records.last().unwrap()["event"]["type"], "finished");
    let facts: Vec<_> =
        records.iter().map(|record| &record["event"]).filter(|event| event["type"] == "node_facts").collect();
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    assert!(facts.len() == 1 && facts[0]["facts"]["own"]["kernel"] == kernel.trim(), "{facts:?}");
    let stored = fs::read_dir(home.path().join("state/runs")).unwrap().flatten().next().expect("a run store").path();
    assert_eq!(fs::read_to_string(stored).unwrap(), text, "the store holds the same lines");
}
