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

use common::{gdrtune, gdrtune_processes, output, stderr, terminal::assert_no_process_is_left, wait_until};
use rustix::process::{Pid, Signal, kill_process};

/// A run that has begun to search.
fn searching(home: &Path) -> Child {
    begun(home, &["--budget", "300s"], r#""type":"trial""#)
}

/// A run with these limits that has come to a record.
fn begun(home: &Path, limits: &[&str], record: &str) -> Child {
    let mut child = gdrtune(home)
        .args(["tune", "--json", "--sizes", "1K,64K", "--ranks-per-node", "2", "--out", "out"])
        .args(limits)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.by_ref().any(|l| l.unwrap().contains(record)), "{record}");
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
    assert_no_process_is_left(home.path());
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

fn send(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

#[test]
fn sigterm_writes_the_best_so_far_marked_as_not_verified_and_a_resume_replaces_it() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let child = begun(home, &["--budget", "8s", "--trials", "120"], r#""type":"best""#);
    send(&child, Signal::TERM);
    let run = child.wait_with_output().unwrap();
    assert_eq!(run.status.code(), Some(130), "{}", stderr(&run));
    assert!(stderr(&run).contains("gdrtune: SIGTERM: the best so far is written"), "{}", stderr(&run));
    assert!(stderr(&run).contains("gdrtune runs resume 2"), "{}", stderr(&run));
    let written = |name: &str| fs::read_to_string(home.join("out").join(name)).unwrap();
    assert!(written("profile.toml").contains("\nunverified = true\n"), "{}", written("profile.toml"));
    for name in ["profile.sh", "profile.env", "nccl.conf", "nccl-tuner.csv", "profile.json", "summary.md"] {
        assert!(written(name).to_uppercase().contains("NOT VERIFIED"), "{name}:\n{}", written(name));
    }
    assert_no_process_is_left(home);

    let run = output(gdrtune(home).args(["runs", "resume", "last", "-q"]));
    assert!(run.status.success(), "{}", stderr(&run));
    assert!(!written("profile.toml").contains("unverified") && !written("summary.md").contains("Not verified"));
    assert!(
        stderr(&run).contains("NOT MEASURED WITH NCCL") && !stderr(&run).contains("phase: verify"),
        "{}",
        stderr(&run)
    );
}

#[test]
fn a_signal_after_sigterm_ends_at_once() {
    for second in [Signal::TERM, Signal::INT] {
        let home = tempfile::tempdir().unwrap();
        let home = home.path();
        let mut child = begun(home, &["--budget", "300s"], r#""type":"best""#);
        // Trials that do not end, so that there is something to end.
        let marker = home.display().to_string();
        let is_worker = |pid: &u32| {
            let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            command.split(|&byte| byte == 0).any(|word| word == b"worker")
        };
        for worker in gdrtune_processes(&marker).into_iter().filter(is_worker) {
            kill_process(Pid::from_raw(worker.cast_signed()).unwrap(), Signal::STOP).unwrap();
        }
        send(&child, Signal::TERM);
        let said =
            BufReader::new(child.stderr.take().unwrap()).lines().find(|l| l.as_ref().unwrap().contains("SIGTERM"));
        assert!(said.is_some());
        send(&child, second);
        // Far less than a trial's deadline.
        wait_until("the run ends", Duration::from_secs(10), || child.try_wait().unwrap().is_some());
        assert_eq!(child.wait().unwrap().code(), Some(130));
        assert!(!home.join("out/profile.toml").exists());
        assert_no_process_is_left(home);
    }
}
