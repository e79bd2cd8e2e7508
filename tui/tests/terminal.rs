//! The terminal UI as a user has it: the executable in a pseudo terminal, what it shows, and how it leaves.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod common;

use std::{fs, path::Path, time::Duration};

use common::terminal::{MEASURED, SOON, Terminal, assert_no_process_is_left};
use rustix::process::Signal;

/// A run that searches until it is stopped.
const LONG_RUN: &[&str] = &["tune", "--sizes", "1K,4K", "--budget", "300s", "--ranks-per-node", "2", "--out", "out"];

/// The last record of the only run in the store: how it ended.
fn stored_end(home: &Path) -> serde_json::Value {
    let stored = fs::read_dir(home.join("state/runs")).unwrap().flatten().next().unwrap().path();
    let text = fs::read_to_string(stored).unwrap();
    serde_json::from_str(text.lines().last().unwrap()).unwrap()
}

#[test]
fn the_demo_is_drawn_steered_and_stopped_by_keys() {
    let home = tempfile::tempdir().unwrap();
    let mut terminal = Terminal::start(home.path(), &["demo", "--out", "out"]);
    terminal.wait_until_searching();
    assert!(terminal.rows()[23].starts_with("q quit  ? help"), "the footer is in the last row\n{terminal}");

    terminal.resize(100, 30);
    terminal.wait_for("100x30", SOON, |terminal| {
        let rows = terminal.rows();
        let full_width = |row: &String| row.contains(" Log ─") && row.chars().count() == 100;
        // The gauge of the budget is shown from 100 columns on.
        rows[29].starts_with("q quit  ? help") && rows[1].contains(" %") && rows.iter().any(full_width)
    });

    terminal.type_keys(b"?");
    terminal.wait_for_text("freeze the display only; measuring goes on", SOON);
    terminal.type_keys(b"\x1b");
    terminal.wait_for("the help is closed", SOON, |t| !t.shows("freeze the display only") && t.shows(" Trials "));

    terminal.type_keys(b"p");
    terminal.wait_for_text("DISPLAY FROZEN", SOON);
    let frozen = terminal.rows()[1].clone();
    terminal.wait_for("records that are not shown", MEASURED, |terminal| {
        let footer = terminal.rows()[29].clone();
        footer.contains(" since, p goes on") && !footer.contains(" 0 records since")
    });
    assert_eq!(terminal.rows()[1], frozen, "the display stands still");
    terminal.type_keys(b"p");
    terminal.wait_for("the display goes on", SOON, |t| !t.shows("DISPLAY FROZEN") && t.rows()[1] != frozen);

    assert!(terminal.rows_from(" Trials ")[0].contains('━'), "the trials have the focus at first\n{terminal}");
    terminal.type_keys(b"\t");
    terminal.wait_for("the focus on the nodes", SOON, |terminal| {
        !terminal.rows_from(" Trials ")[0].contains('━') && terminal.rows_from(" Nodes ")[0].contains('━')
    });

    terminal.type_keys(b"q");
    terminal.wait_for_text("Stop the run?", SOON);
    terminal.type_keys(b"y");
    terminal.wait_for_text("q leaves", MEASURED);
    assert!(terminal.shows(" interrupted "), "{terminal}");
    terminal.type_keys(b"q");
    assert_eq!(terminal.wait_for_exit(SOON), 130);
    terminal.assert_restored();
    assert!(!home.path().join("out/profile.toml").exists(), "a stopped run writes no profile");
    assert_no_process_is_left(home.path());
}

#[test]
fn a_run_that_ends_leaves_its_summary_on_the_main_screen() {
    let home = tempfile::tempdir().unwrap();
    let args = ["tune", "--sizes", "1K,4K", "--budget", "8s", "--ranks-per-node", "2", "--out", "out"];
    let mut terminal = Terminal::start(home.path(), &args);
    terminal.wait_for_text("q leaves", MEASURED);
    assert!(terminal.screen().alternate_screen(), "the end is shown until the user leaves\n{terminal}");
    terminal.type_keys(b"q");
    assert_eq!(terminal.wait_for_exit(SOON), 0, "{terminal}");
    terminal.assert_restored();
    // The emulator keeps both screens apart: this is what the user's own screen shows.
    let main_screen = terminal.screen().contents();
    for text in ["out/profile.toml", "out/summary.md", "run store: "] {
        assert!(main_screen.contains(text), "{text} is missing\n{terminal}");
    }
    assert!(!main_screen.contains("q leaves"), "{terminal}");
    assert!(home.path().join("out/profile.toml").is_file());
    assert_no_process_is_left(home.path());
}

#[test]
fn three_times_ctrl_c_leaves_at_once() {
    let home = tempfile::tempdir().unwrap();
    let mut terminal = Terminal::start(home.path(), LONG_RUN);
    terminal.wait_until_searching();
    // At once: the run must not have time to end after the first one, which would make the second one leave it.
    terminal.type_keys(b"\x03\x03\x03");
    assert_eq!(terminal.wait_for_exit(SOON), 130);
    terminal.assert_restored();
    assert_ne!(stored_end(home.path())["event"]["end"], "nodes_lost", "the user left, no node did");
    assert_no_process_is_left(home.path());
}

#[test]
fn signals_that_end_a_process_end_the_run_and_give_the_terminal_back() {
    for signal in [Signal::TERM, Signal::HUP] {
        let home = tempfile::tempdir().unwrap();
        let mut terminal = Terminal::start(home.path(), LONG_RUN);
        terminal.wait_until_searching();
        terminal.signal(signal);
        assert_eq!(terminal.wait_for_exit(Duration::from_secs(15)), 130, "{signal:?}\n{terminal}");
        terminal.assert_restored();
        assert_eq!(stored_end(home.path())["event"]["end"], "interrupted", "{signal:?}");
        assert_no_process_is_left(home.path());
    }
}

#[test]
fn a_terminal_that_vanishes_ends_the_run() {
    let home = tempfile::tempdir().unwrap();
    let mut terminal = Terminal::start(home.path(), LONG_RUN);
    terminal.wait_until_searching();
    assert_eq!(terminal.close().wait_for_exit(Duration::from_secs(15)), 130);
    assert_eq!(stored_end(home.path())["event"]["end"], "interrupted");
    assert_no_process_is_left(home.path());
}
