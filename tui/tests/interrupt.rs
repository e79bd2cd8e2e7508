//! Ctrl-C: once stops after the script, twice kills the trial, three times leaves at once. Nothing stays behind.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod common;

use std::{
    fs,
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Stdio},
    time::Duration,
};

use common::{gdrtune, gdrtune_processes, wait_until};
use rustix::process::{Pid, Signal, kill_process};

/// A run that has begun to search.
fn searching(home: &Path) -> Child {
    let mut child = gdrtune(home)
        .args(["tune", "--json", "--sizes", "1K,64K", "--budget", "300s", "--ranks-per-node", "2", "--out", "out"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.by_ref().any(|l| l.unwrap().contains(r#""type":"trial""#)), "a trial");
    // Keeps the pipe open and empty, so that the run is not stopped by it.
    std::thread::spawn(move || lines.for_each(drop));
    child
}

fn interrupted(presses: usize, limit: Duration) {
    let home = tempfile::tempdir().unwrap();
    let mut child = searching(home.path());
    for _ in 0..presses {
        kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    }
    wait_until("the run ends", limit, || child.try_wait().unwrap().is_some());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(!home.path().join("out/profile.toml").exists(), "an interrupted run writes no profile");
    let stored = fs::read_dir(home.path().join("state/runs")).unwrap().flatten().next().unwrap().path();
    let text = fs::read_to_string(stored).unwrap();
    for line in text.lines() {
        serde_json::from_str::<serde_json::Value>(line).expect("the run store is intact");
    }
    let marker = home.path().display().to_string();
    wait_until("no process is left", Duration::from_secs(15), || gdrtune_processes(&marker).is_empty());
}

#[test]
fn once_stops_after_the_script() {
    interrupted(1, Duration::from_secs(20));
}

#[test]
fn twice_kills_the_trial() {
    interrupted(2, Duration::from_secs(15));
}

#[test]
fn three_times_leaves_at_once() {
    interrupted(3, Duration::from_secs(10));
}
