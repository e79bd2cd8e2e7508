//! `gdrtune demo` as a stranger runs it: no hardware, no terminal.

mod common;

use std::{fs, time::Duration};

use common::{gdrtune, gdrtune_processes, output, stderr, wait_until};
use gdrtune_profiles::emit::Format;

/// Files of a run besides the emitted ones.
const OWN_FILES: [&str; 5] = ["profile.toml", "choices.json", "summary.md", "report.html", "report.md"];

#[test]
fn the_demo_writes_a_verified_profile_in_every_format() {
    let home = tempfile::tempdir().unwrap();
    let run = output(gdrtune(home.path()).args(["demo", "--headless"]));
    assert!(run.status.success(), "{}", stderr(&run));
    assert!(run.stdout.is_empty(), "progress belongs on stderr");

    let dir = home.path().join("gdrtune-demo");
    let emitted = Format::ALL.iter().map(|format| format.file_name());
    for name in emitted.chain(OWN_FILES) {
        assert!(dir.join(name).is_file(), "{name} is missing: {}", stderr(&run));
    }
    assert_eq!(fs::read_dir(&dir).unwrap().count(), Format::ALL.len() + OWN_FILES.len(), "no temporary file is left");
    let summary = fs::read_to_string(dir.join("summary.md")).unwrap();
    assert!(summary.contains("loopback"), "says what it was measured on: {summary}");

    // What `emit` makes of the profile is what the run wrote.
    for format in Format::ALL {
        let name = format.file_name();
        let emitted =
            output(gdrtune(home.path()).args(["emit", "gdrtune-demo/profile.toml", "--format", format.name()]));
        assert!(emitted.status.success(), "{format}: {}", stderr(&emitted));
        assert_eq!(String::from_utf8(emitted.stdout).unwrap(), fs::read_to_string(dir.join(name)).unwrap(), "{format}");
    }

    // The run is in the store, and nothing of it is running.
    let runs = output(gdrtune(home.path()).arg("runs"));
    let text = String::from_utf8(runs.stdout).unwrap();
    assert!(text.lines().count() == 2 && text.contains("native"), "{text}");
    let home = home.path().display().to_string();
    wait_until("no process of the demo is left", Duration::from_secs(5), || gdrtune_processes(&home).is_empty());
}

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
