//! The terminal UI as a user has it: the executable in a pseudo terminal, what it shows, and how it leaves.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod common;

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use common::terminal::{MEASURED, SOON, Terminal, assert_no_process_is_left};
use rustix::process::Signal;

/// A run that searches until it is stopped.
const LONG_RUN: &[&str] = &["tune", "--sizes", "1K,4K", "--budget", "300s", "--ranks-per-node", "2", "--out", "out"];

/// The file of the only run in the store.
fn store(home: &Path) -> PathBuf {
    let mut files = fs::read_dir(home.join("state/runs")).unwrap().flatten().map(|file| file.path());
    files.find(|path| path.extension() == Some("jsonl".as_ref())).unwrap()
}

/// The last record of the only run in the store: how it ended.
fn stored_end(home: &Path) -> serde_json::Value {
    let text = fs::read_to_string(store(home)).unwrap();
    serde_json::from_str(text.lines().last().unwrap()).unwrap()
}

/// Rows that only one view has.
const VIEWS: [(&[u8], &str); 7] = [
    (b"1", " Bus bandwidth, GB/s "),
    (b"2", " Sizes ─"),
    (b"3", " channels "),
    (b"4", " Cluster"),
    (b"5", " Trials ─"),
    (b"6", " Profile"),
    (b"7", " Log ─"),
];

#[test]
fn the_demo_is_drawn_steered_and_stopped_by_keys() {
    let home = tempfile::tempdir().unwrap();
    let mut terminal = Terminal::start(home.path(), &["demo", "--out", "out"]);
    terminal.wait_until_searching();
    assert!(terminal.rows()[23].starts_with("q quit  ? help"), "the footer is in the last row\n{terminal}");

    terminal.resize(100, 30);
    terminal.wait_for("100x30", SOON, |terminal| {
        let rows = terminal.rows();
        let full_width = |row: &String| row.contains(" Now ─") && row.ends_with(" 7 shows the whole log");
        // The gauge of the budget is shown from 100 columns on.
        rows[29].starts_with("q quit  ? help") && rows[1].contains(" %") && rows.iter().any(full_width)
    });

    terminal.type_keys(b"?");
    terminal.wait_for_text("read the next smaller size off the charts", SOON);
    terminal.type_keys(b"\x1b");
    terminal.wait_for("the help is closed", SOON, |t| !t.shows("read the next smaller") && t.shows(" Now ─"));

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

    for (key, row) in VIEWS {
        terminal.type_keys(key);
        terminal.wait_for(row, SOON, |terminal| terminal.rows()[4..].iter().any(|line| line.contains(row)));
    }
    terminal.type_keys(b"5e");
    terminal.wait_for_text("wrote gdrtune-", SOON);
    terminal.type_keys(b"B60");
    terminal.wait_for_text("time or trials? Such as 5m", SOON);
    terminal.type_keys(b"s\r");
    terminal.wait_for("the budget has grown", MEASURED, |terminal| terminal.rows()[1].contains(" of 1:2"));

    terminal.type_keys(b" ");
    terminal.wait_for_text(" PAUSED ", SOON);
    terminal.type_keys(b"q");
    terminal.wait_for_text("Leave the run?", SOON);
    terminal.type_keys(b"s");
    terminal.wait_for_text("interrupted  ", MEASURED);
    terminal.type_keys(b"1");
    terminal.wait_for_text(" interrupted ", SOON);
    terminal.type_keys(b"q");
    assert_eq!(terminal.wait_for_exit(SOON), 130);
    terminal.assert_restored();
    assert!(!home.path().join("out/profile.toml").exists(), "a stopped run writes no profile");
    let exported =
        fs::read_dir(home.path()).unwrap().flatten().find(|file| file.path().extension() == Some("csv".as_ref()));
    let exported = fs::read_to_string(exported.unwrap().path()).unwrap();
    assert!(exported.starts_with("trial,t_ms,arm,collective,bytes,") && 10 < exported.lines().count(), "{exported}");
    assert_no_process_is_left(home.path());
}

#[test]
fn a_detached_run_goes_on_in_the_background_and_ends_well() {
    let home = tempfile::tempdir().unwrap();
    let args = ["tune", "--sizes", "1K,4K", "--budget", "12s", "--ranks-per-node", "2", "--out", "out"];
    let mut terminal = Terminal::start(home.path(), &args);
    terminal.wait_until_searching();
    terminal.type_keys(b"qd");
    assert_eq!(terminal.wait_for_exit(MEASURED), 0, "{terminal}");
    terminal.assert_restored();
    let said = terminal.screen().contents();
    assert!(said.contains("goes on in the background") && said.contains("gdrtune attach "), "{said}");
    // Closing the terminal is nothing to it.
    drop(terminal);
    common::wait_until("the profile", Duration::from_mins(1), || home.path().join("out/profile.toml").is_file());
    common::wait_until("the end", SOON, || stored_end(home.path())["event"]["type"] == "finished");
    assert_ne!(stored_end(home.path())["event"]["end"], "interrupted");
    let home = home.path().to_str().unwrap();
    common::wait_until("no process of it", SOON, || common::gdrtune_processes(home).is_empty());
}

#[cfg(feature = "test-faults")]
#[test]
fn a_panic_gives_the_terminal_back_and_the_run_can_go_on() {
    let home = tempfile::tempdir().unwrap();
    let mut terminal = Terminal::start_with(home.path(), LONG_RUN, &[("GDRTUNE_UI_PANICS_AT_TRIAL", "20")]);
    // Not Rust's own 101, which says that nodes were lost.
    assert_eq!(terminal.wait_for_exit(MEASURED), 1, "{terminal}");
    terminal.assert_given_back();
    let said = terminal.screen().contents();
    assert!(said.contains("panicked at") && said.contains("a panic on purpose"), "{said}");
    assert_no_process_is_left(home.path());
    let shown = common::output(common::gdrtune(home.path()).args(["runs", "show", "last"]));
    let text = String::from_utf8_lossy(&shown.stdout);
    assert!(text.contains("killed"), "{text}");
    let trials = fs::read_to_string(store(home.path())).unwrap().matches(r#""type":"trial""#).count();
    assert!(20 <= trials, "{trials} trials are in the store");
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
