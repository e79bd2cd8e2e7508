//! `gdrtune` without arguments, as a user has it on a terminal.

mod common;

use std::fs;

use common::{
    gdrtune, output, stderr,
    terminal::{MEASURED, SOON, Terminal, assert_no_process_is_left},
};
use rustix::process::Signal;

#[test]
fn a_form_that_is_filled_in_becomes_a_run() {
    let home = tempfile::tempdir().unwrap();
    let mut terminal = Terminal::start(home.path(), &[]);
    terminal.wait_for_text("no runs in", SOON);
    assert!(terminal.screen().alternate_screen() && terminal.screen().hide_cursor(), "{terminal}");

    terminal.type_keys(b"n");
    terminal.wait_for_text("[native]", SOON);
    // The engine, then a cluster that is none, then one that is.
    terminal.type_keys(b"\x1b[C\x1b[C\tbimodal");
    terminal.wait_for_text("unknown cluster `bimodal`", SOON);
    terminal.type_keys(b"-channels");
    terminal.wait_for_text("can be started", SOON);
    terminal.resize(100, 30);
    terminal.wait_for("100x30", SOON, |t| t.rows()[29].starts_with("Esc back") && t.shows("can be started"));
    assert!(terminal.shows("gdrtune tune --engine sim --cluster bimodal-channels"), "{terminal}");
    terminal.type_keys(b"\x1b[Z\x1b[Z\r");
    terminal.wait_for_text("q leaves", MEASURED);
    assert!(terminal.shows("SIMULATED"), "{terminal}");
    terminal.type_keys(b"q");
    assert_eq!(terminal.wait_for_exit(SOON), 0, "{terminal}");
    terminal.assert_restored();
    let main_screen = terminal.screen().contents();
    for text in ["gdrtune tune --engine sim --cluster bimodal-channels", "gdrtune-out/profile.toml", "run store: "] {
        assert!(main_screen.contains(text), "{text} is missing\n{terminal}");
    }

    // The run knows how it was asked for.
    let shown = output(gdrtune(home.path()).args(["runs", "show", "last"]));
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.contains("gdrtune tune --engine sim --cluster bimodal-channels\n"), "{shown}");

    // It is in the list now, and so is its profile's folder open to be read; Enter plays it back.
    let mut terminal = Terminal::start(home.path(), &[]);
    terminal.wait_for_text("✓ tuned", SOON);
    terminal.type_keys(b"ogdrtune-out\r");
    terminal.wait_for_text("Rules (", SOON);
    assert!(terminal.shows("SIMULATED"), "{terminal}");
    terminal.type_keys(b"q\r");
    terminal.wait_for_text("REPLAY", SOON);
    terminal.type_keys(b"q");
    assert_eq!(terminal.wait_for_exit(SOON), 0, "{terminal}");
    terminal.assert_restored();
    assert_no_process_is_left(home.path());
}

#[test]
fn leaving_gives_the_terminal_back() {
    for (signal, code) in [(None, 0), (Some(Signal::TERM), 130), (Some(Signal::INT), 0)] {
        let home = tempfile::tempdir().unwrap();
        let mut terminal = Terminal::start(home.path(), &[]);
        terminal.wait_for_text("no runs in", SOON);
        match signal {
            None => terminal.type_keys(b"q"),
            Some(signal) => terminal.signal(signal),
        }
        assert_eq!(terminal.wait_for_exit(SOON), code, "{signal:?}\n{terminal}");
        terminal.assert_restored();
        assert!(!home.path().join("state").exists(), "a look writes nothing");
    }
}

#[test]
fn what_the_command_refuses_is_said_after_the_screen() {
    let home = tempfile::tempdir().unwrap();
    let runs = home.path().join("state/runs");
    fs::create_dir_all(&runs).unwrap();
    let started = r#"{"seq":0,"t_ms":0,"event":{"type":"run_started","schema_version":1,"run":"2026-01-01T00:00:00Z-aaaa","tool":"0","engine":"native","hosts":"vh1","nodes":1,"ranks":1,"points":[],"seed":1,"budget_s":null,"max_trials":null,"workload":"default","objective":"geomean","sm_cost":0.0}}"#;
    fs::write(runs.join("2026-01-01T00:00:00Z-aaaa.jsonl"), format!("{started}\n")).unwrap();
    let mut terminal = Terminal::start(home.path(), &[]);
    terminal.wait_for_text("killed", SOON);
    // It has no command line to go on with.
    terminal.type_keys(b"r");
    terminal.wait_for_text("nothing to go on with", SOON);
    terminal.type_keys(b"n\x1b[C\x1b[C\x1b[C\t");
    terminal.wait_for_text("--grid", SOON);
    terminal.type_keys(b"/dev/zero");
    terminal.wait_for_text("/dev/zero is no file", SOON);
    terminal.type_keys(b"\x03");
    assert_eq!(terminal.wait_for_exit(SOON), 0, "{terminal}");
    terminal.assert_restored();
}

#[test]
fn without_a_terminal_there_is_the_help() {
    let home = tempfile::tempdir().unwrap();
    let run = output(&mut gdrtune(home.path()));
    assert_eq!(run.status.code(), Some(2));
    assert!(stderr(&run).contains("Usage: gdrtune"), "{}", stderr(&run));
}
