//! The terminal UI as a user has it: the executable in a pseudo terminal, what it shows, and how it leaves.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod common;

use std::{
    collections::BTreeMap,
    fmt, fs,
    io::{Read as _, Write},
    num::NonZeroU16,
    path::Path,
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    thread,
    time::{Duration, Instant},
};

use common::{gdrtune, gdrtune_processes, wait_until};
use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};
use rustix::process::{Pid, Signal, kill_process};
use vt100::{MouseProtocolMode, Parser, Screen};

/// For what takes the UI a few frames.
const SOON: Duration = Duration::from_secs(5);

/// For what takes the run some measurements.
const MEASURED: Duration = Duration::from_secs(25);

/// A run that searches until it is stopped.
const LONG_RUN: &[&str] = &["tune", "--sizes", "1K,4K", "--budget", "300s", "--ranks-per-node", "2", "--out", "out"];

/// gdrtune in a pseudo terminal, and a terminal emulator on the other side of it.
struct Terminal {
    emulator: Parser,
    /// Every byte that came so far.
    raw: Vec<u8>,
    output: Receiver<Vec<u8>>,
    // Dropping it sends an end of file.
    keyboard: Box<dyn Write + Send>,
    pty: Box<dyn MasterPty + Send>,
    child: Running,
    /// The terminal's mode before gdrtune started; everything that `stty -a` shows.
    mode_before: String,
}

impl Terminal {
    /// Starts gdrtune at 80x24 with its own HOME and state.
    fn start(home: &Path, args: &[&str]) -> Self {
        let (columns, rows) = (80, 24);
        let pair = native_pty_system().openpty(pty_size(columns, rows)).unwrap();
        let pty = pair.master;
        let mode_before = mode(&*pty);
        let mut reader = pty.try_clone_reader().unwrap();
        let (sender, output) = channel();
        thread::spawn(move || {
            let mut bytes = vec![0; 64 * 1024];
            while let Ok(n @ 1..) = reader.read(&mut bytes) {
                if sender.send(bytes[..n].to_vec()).is_err() {
                    return;
                }
            }
        });
        let keyboard = pty.take_writer().unwrap();
        // The slave is dropped here: the output ends when the last process that has the terminal is gone.
        let child = Running(pair.slave.spawn_command(command(home, args)).unwrap());
        let emulator = Parser::new(non_zero(rows), non_zero(columns), 0);
        Self { emulator, raw: Vec::new(), output, keyboard, pty, child, mode_before }
    }

    fn screen(&self) -> &Screen {
        self.emulator.screen()
    }

    /// The rows of the screen, right-trimmed.
    fn rows(&self) -> Vec<String> {
        let (_, columns) = self.screen().size();
        self.screen().rows(0, columns.get()).map(|row| row.trim_end().to_owned()).collect()
    }

    /// The rows from one that contains `text` on; empty if there is none.
    fn rows_from(&self, text: &str) -> Vec<String> {
        self.rows().into_iter().skip_while(|row| !row.contains(text)).collect()
    }

    fn shows(&self, text: &str) -> bool {
        !self.rows_from(text).is_empty()
    }

    fn type_keys(&mut self, keys: &[u8]) {
        self.keyboard.write_all(keys).unwrap();
        self.keyboard.flush().unwrap();
    }

    fn resize(&mut self, columns: u16, rows: u16) {
        self.emulator.set_size(non_zero(rows), non_zero(columns));
        self.pty.resize(pty_size(columns, rows)).unwrap();
    }

    fn signal(&self, signal: Signal) {
        let pid = self.child.0.process_id().and_then(|pid| Pid::from_raw(pid.cast_signed())).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Reads until `seen` holds of what is shown; the deadline is a failure of the test.
    fn wait_for(&mut self, what: &str, limit: Duration, seen: impl Fn(&Self) -> bool) {
        let deadline = Instant::now() + limit;
        while !seen(self) {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.output.recv_timeout(left) {
                Ok(bytes) => self.take(&bytes),
                Err(RecvTimeoutError::Timeout) => panic!("not within {limit:?}: {what}\n{self}"),
                Err(RecvTimeoutError::Disconnected) => panic!("gdrtune left before: {what}\n{self}"),
            }
        }
    }

    fn wait_for_text(&mut self, text: &str, limit: Duration) {
        self.wait_for(text, limit, |terminal| terminal.shows(text));
    }

    fn wait_until_searching(&mut self) {
        self.wait_for("the search phase, and a trial", MEASURED, |terminal| {
            let trials = terminal.rows_from(" Trials ");
            terminal.rows()[1].starts_with("search ")
                && trials.iter().take_while(|r| !r.contains(" Nodes ")).any(|r| is_trial(r))
        });
        assert!(self.screen().alternate_screen() && self.screen().hide_cursor(), "{self}");
        assert_eq!(self.screen().mouse_protocol_mode(), MouseProtocolMode::AnyMotion);
        let mode = mode(&*self.pty);
        assert!(!mode.contains("ICANON") && !mode.contains("ECHO "), "raw mode: {mode}");
    }

    /// Waits for the end of gdrtune and of its output. The exit code.
    fn wait_for_exit(&mut self, limit: Duration) -> u32 {
        let deadline = Instant::now() + limit;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.output.recv_timeout(left) {
                Ok(bytes) => self.take(&bytes),
                Err(RecvTimeoutError::Timeout) => panic!("gdrtune did not leave within {limit:?}\n{self}"),
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        self.child.wait_for_exit(SOON)
    }

    /// Closes the terminal under gdrtune, as a closed window or a lost ssh connection does.
    fn close(self) -> Running {
        // The thread that reads has the terminal too: it ends when the UI draws next, at the latest after a second.
        let Self { child, .. } = self;
        child
    }

    fn take(&mut self, bytes: &[u8]) {
        self.emulator.process(bytes);
        self.raw.extend_from_slice(bytes);
    }

    /// The terminal is as it was before gdrtune, and no thread panicked on the way out.
    fn assert_restored(&self) {
        let left_on: Vec<u16> = private_modes(&self.raw).into_iter().filter(|(_, on)| *on).map(|(m, _)| m).collect();
        // 25 is the visible cursor, the only mode of these that is on in a fresh terminal.
        assert_eq!(left_on, [25], "private modes that are still on\n{self}");
        assert!(!self.screen().alternate_screen() && !self.screen().hide_cursor(), "{self}");
        assert_eq!(self.screen().mouse_protocol_mode(), MouseProtocolMode::None);
        assert_eq!(mode(&*self.pty), self.mode_before, "the mode that stty shows");
        assert!(self.mode_before.contains("ICANON") && self.mode_before.contains("ECHO "), "{}", self.mode_before);
        let words = String::from_utf8_lossy(&self.raw);
        assert!(!words.contains("panicked"), "{self}");
    }
}

/// gdrtune itself. A test that failed must not leave its run behind.
struct Running(Box<dyn Child + Send + Sync>);

impl Running {
    /// Waits for the end of the process. The exit code.
    fn wait_for_exit(&mut self, limit: Duration) -> u32 {
        let mut status = None;
        wait_until("gdrtune exits", limit, || {
            status = self.0.try_wait().unwrap();
            status.is_some()
        });
        let status = status.unwrap();
        assert_eq!(status.signal(), None);
        status.exit_code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Fails where the process has ended, as it should have.
        self.0.kill().ok();
    }
}

impl fmt::Display for Terminal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.rows().iter().try_for_each(|row| writeln!(f, "|{row}"))
    }
}

/// The hermetic command of the other tests, for a pseudo terminal.
fn command(home: &Path, args: &[&str]) -> CommandBuilder {
    let hermetic = gdrtune(home);
    let mut command = CommandBuilder::new(hermetic.get_program());
    command.env_clear();
    for (name, value) in hermetic.get_envs() {
        command.env(name, value.unwrap_or_default());
    }
    command.env("TERM", "xterm-256color");
    command.env("LANG", "C.UTF-8");
    command.cwd(home);
    command.args(args);
    command
}

fn pty_size(columns: u16, rows: u16) -> PtySize {
    PtySize { rows, cols: columns, pixel_width: 0, pixel_height: 0 }
}

fn non_zero(n: u16) -> NonZeroU16 {
    NonZeroU16::new(n).unwrap()
}

/// The terminal's mode (termios) as text, each flag by its name and followed by a space.
fn mode(pty: &dyn MasterPty) -> String {
    format!("{:?}", pty.get_termios().unwrap()).replace([')', ',', '|'], " ")
}

/// Whether a row is a trial: its number, its point, its time.
fn is_trial(row: &str) -> bool {
    let words: Vec<&str> = row.split_whitespace().collect();
    words.first().is_some_and(|number| number.parse::<u64>().is_ok()) && words.contains(&"allreduce")
}

/// The DEC private modes (`CSI ? n h` and `CSI ? n l`) that were switched, and whether they are on at the end.
fn private_modes(output: &[u8]) -> BTreeMap<u16, bool> {
    let text = String::from_utf8_lossy(output);
    let mut modes = BTreeMap::new();
    for sequence in text.split("\x1b[?").skip(1) {
        let Some(end) = sequence.find(|c: char| c.is_ascii_alphabetic()) else { continue };
        let on = match sequence.as_bytes()[end] {
            b'h' => true,
            b'l' => false,
            _ => continue,
        };
        modes.extend(sequence[..end].split(';').map(|mode| (mode.parse::<u16>().unwrap(), on)));
    }
    modes
}

/// The last record of the only run in the store: how it ended.
fn stored_end(home: &Path) -> serde_json::Value {
    let stored = fs::read_dir(home.join("state/runs")).unwrap().flatten().next().unwrap().path();
    let text = fs::read_to_string(stored).unwrap();
    serde_json::from_str(text.lines().last().unwrap()).unwrap()
}

fn assert_no_process_is_left(home: &Path) {
    let home = home.display().to_string();
    wait_until("no process is left", Duration::from_secs(15), || gdrtune_processes(&home).is_empty());
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
