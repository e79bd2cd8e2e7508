//! Runs from outside: `attach`, `replay` and `runs export`.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod common;

use std::{
    fs,
    path::Path,
    process::{Child, Output, Stdio},
};

use common::{
    gdrtune, output, stderr,
    terminal::{MEASURED, SOON, Terminal, assert_no_process_is_left},
};

/// A simulated run that has ended.
fn simulated(home: &Path) {
    let args = ["tune", "--engine", "sim", "--cluster", "slow-hca", "--trials", "300", "--headless", "--out", "out"];
    let run = output(gdrtune(home).args(args));
    assert!(run.status.success(), "{}", stderr(&run));
}

/// A run that goes on until it is killed. A test that failed must not leave it behind.
struct Headless(Child);

impl Headless {
    fn start(home: &Path) -> Self {
        let args = ["tune", "--sizes", "1K,4K", "--budget", "300s", "--ranks-per-node", "2", "--headless"];
        Self(gdrtune(home).args(args).stderr(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Headless {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn store(home: &Path) -> String {
    let runs = fs::read_dir(home.join("state/runs")).into_iter().flatten().flatten().map(|entry| entry.path());
    let stored =
        runs.filter(|path| path.extension().is_some_and(|e| e == "jsonl")).find_map(|p| fs::read_to_string(p).ok());
    stored.unwrap_or_default()
}

#[test]
fn a_run_is_watched_from_another_terminal_and_goes_on() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let mut run = Headless::start(home);
    common::wait_until("a run", MEASURED, || store(home).contains(r#""type":"trial""#));

    let mut terminal = Terminal::start(home, &["attach", "last"]);
    terminal.wait_until_searching();
    assert!(terminal.rows()[0].contains(" ATTACHED ") && terminal.rows()[0].contains("native engine"), "{terminal}");
    assert!(terminal.rows()[23].starts_with("q quit  ? help"), "{terminal}");
    let before = terminal.rows()[1].clone();
    terminal.wait_for("more trials", MEASURED, |terminal| terminal.rows()[1] != before);
    // What would stop a run of one's own.
    terminal.type_keys(b"F y\x03");
    assert_eq!(terminal.wait_for_exit(SOON), 0);
    terminal.assert_restored();
    assert!(run.0.try_wait().unwrap().is_none() && !store(home).contains(r#""type":"finished""#), "it goes on");

    let mut terminal = Terminal::start(home, &["attach", "last"]);
    terminal.wait_until_searching();
    let pid = run.0.id();
    drop(run);
    terminal.wait_for_text(" cut off ", MEASURED);
    assert!(terminal.shows(&format!("the process of this run (pid {pid} on ")), "{terminal}");
    terminal.type_keys(b"q");
    assert_eq!(terminal.wait_for_exit(SOON), 0);

    let plain = output(gdrtune(home).args(["attach", "last"]));
    assert_eq!(plain.status.code(), Some(1));
    let text = stdout(&plain);
    assert!(text.contains("engine native") && text.contains("phase: search"), "{text}");
    assert!(stderr(&plain).contains(&format!("(pid {pid} on ")), "{}", stderr(&plain));
    assert_no_process_is_left(home);
}

#[test]
fn a_replay_goes_where_the_keys_say() {
    let home = tempfile::tempdir().unwrap();
    simulated(home.path());
    // So slow that nothing comes by itself.
    let mut terminal = Terminal::start(home.path(), &["replay", "last", "--speed", "0.001"]);
    terminal.wait_for_text(" SIMULATED ", MEASURED);
    for label in [" REPLAY ", " begun just now"] {
        assert!(terminal.rows()[0].contains(label), "{label}\n{terminal}");
    }
    for (keys, seen) in [
        ("$", "✓ tuned"),
        ("b", " 95 % at 0.001x"),
        (" ", "PAUSED"),
        (">", " at 0.5x"),
        ("0", "  0 % at 0.5x"),
        ("....", " of 300 trials"),
        ("f", "  5 % at 0.5x"),
    ] {
        terminal.type_keys(keys.as_bytes());
        terminal.wait_for_text(seen, SOON);
    }
    terminal.type_keys(b"q");
    assert_eq!(terminal.wait_for_exit(SOON), 0);
    terminal.assert_restored();

    let mut terminal = Terminal::start(home.path(), &["replay", "last", "--speed", "max"]);
    terminal.wait_for_text("q leaves", SOON);
    terminal.type_keys(b"q");
    assert_eq!(terminal.wait_for_exit(SOON), 0);
}

#[test]
fn every_trial_is_exported() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    simulated(home);
    let n_trials = store(home).matches(r#""type":"trial""#).count();
    let export = |args: &[&str]| output(gdrtune(home).args(["runs", "export", "last"]).args(args));
    let csv = export(&[]);
    assert!(csv.status.success(), "{}", stderr(&csv));
    let text = stdout(&csv);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 1 + n_trials);
    assert!(lines[0].starts_with("run,engine,label,trial,") && lines[1].contains(",sim,simulated,0,"), "{}", lines[1]);
    fs::write(home.join("trials.csv"), "old").unwrap();
    let refused = export(&["-o", "trials.csv"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(
        stderr(&refused).contains("trials.csv is there already") && stderr(&refused).contains("--force replaces it")
    );
    assert_eq!(fs::read_to_string(home.join("trials.csv")).unwrap(), "old");
    let quiet = export(&["-o", "trials.csv", "--force"]);
    assert!(quiet.status.success() && quiet.stdout.is_empty() && quiet.stderr.is_empty());
    assert_eq!(fs::read_to_string(home.join("trials.csv")).unwrap(), text, "the same each time");
    let jsonl = export(&["--format", "jsonl"]);
    assert_eq!(stdout(&jsonl).lines().count(), n_trials);

    // A run that has ended is not waited for.
    let plain = output(gdrtune(home).args(["attach", "last"]));
    assert!(plain.status.success(), "{}", stderr(&plain));
    assert!(stdout(&plain).contains("SIMULATED: from a model"));
    for command in [&["attach"][..], &["replay"], &["runs", "export"]] {
        let run = output(gdrtune(home).args(command).arg("lats"));
        assert_eq!(run.status.code(), Some(2));
        assert!(stderr(&run).contains("no run `lats` in ") && stderr(&run).contains("did you mean `last`?"));
    }
}
