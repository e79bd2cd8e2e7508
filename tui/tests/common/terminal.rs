//! gdrtune in a pseudo terminal, and a terminal emulator on the other side of it.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::{
    collections::BTreeMap,
    fmt,
    io::{Read as _, Write},
    num::NonZeroU16,
    path::Path,
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    thread,
    time::{Duration, Instant},
};

use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};
use rustix::process::{Pid, Signal, kill_process};
use vt100::{MouseProtocolMode, Parser, Screen};

use super::{gdrtune, gdrtune_processes, wait_until};

/// For what takes the UI a few frames.
pub(crate) const SOON: Duration = Duration::from_secs(5);

/// For what takes the run some measurements.
pub(crate) const MEASURED: Duration = Duration::from_secs(25);

/// gdrtune in a pseudo terminal, and a terminal emulator on the other side of it.
pub(crate) struct Terminal {
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
    pub(crate) fn start(home: &Path, args: &[&str]) -> Self {
        Self::start_with(home, args, &[])
    }

    /// The same with more variables.
    pub(crate) fn start_with(home: &Path, args: &[&str], variables: &[(&str, &str)]) -> Self {
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
        let child = Running(pair.slave.spawn_command(command(home, args, variables)).unwrap());
        let emulator = Parser::new(non_zero(rows), non_zero(columns), 0);
        Self { emulator, raw: Vec::new(), output, keyboard, pty, child, mode_before }
    }

    pub(crate) fn screen(&self) -> &Screen {
        self.emulator.screen()
    }

    /// The rows of the screen, right-trimmed.
    pub(crate) fn rows(&self) -> Vec<String> {
        let (_, columns) = self.screen().size();
        self.screen().rows(0, columns.get()).map(|row| row.trim_end().to_owned()).collect()
    }

    /// The rows from one that contains `text` on; empty if there is none.
    pub(crate) fn rows_from(&self, text: &str) -> Vec<String> {
        self.rows().into_iter().skip_while(|row| !row.contains(text)).collect()
    }

    pub(crate) fn shows(&self, text: &str) -> bool {
        !self.rows_from(text).is_empty()
    }

    pub(crate) fn type_keys(&mut self, keys: &[u8]) {
        self.keyboard.write_all(keys).unwrap();
        self.keyboard.flush().unwrap();
    }

    pub(crate) fn resize(&mut self, columns: u16, rows: u16) {
        self.emulator.set_size(non_zero(rows), non_zero(columns));
        self.pty.resize(pty_size(columns, rows)).unwrap();
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = self.child.0.process_id().and_then(|pid| Pid::from_raw(pid.cast_signed())).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Reads until `seen` holds of what is shown; the deadline is a failure of the test.
    pub(crate) fn wait_for(&mut self, what: &str, limit: Duration, seen: impl Fn(&Self) -> bool) {
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

    pub(crate) fn wait_for_text(&mut self, text: &str, limit: Duration) {
        self.wait_for(text, limit, |terminal| terminal.shows(text));
    }

    pub(crate) fn wait_until_searching(&mut self) {
        self.wait_for("the search phase, and a trial", MEASURED, |terminal| {
            let progress = &terminal.rows()[1];
            progress.starts_with("search ") && progress.contains(" trial") && !progress.contains(" 0 trials")
        });
        assert!(self.screen().alternate_screen() && self.screen().hide_cursor(), "{self}");
        assert_eq!(self.screen().mouse_protocol_mode(), MouseProtocolMode::AnyMotion);
        let mode = mode(&*self.pty);
        assert!(!mode.contains("ICANON") && !mode.contains("ECHO "), "raw mode: {mode}");
    }

    /// Waits for the end of gdrtune and of its output. The exit code.
    pub(crate) fn wait_for_exit(&mut self, limit: Duration) -> u32 {
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
    pub(crate) fn close(self) -> Running {
        // The thread that reads has the terminal too: it ends when the UI draws next, at the latest after a second.
        let Self { child, .. } = self;
        child
    }

    fn take(&mut self, bytes: &[u8]) {
        self.emulator.process(bytes);
        self.raw.extend_from_slice(bytes);
    }

    /// The terminal is as it was before gdrtune, and no thread panicked on the way out.
    pub(crate) fn assert_restored(&self) {
        self.assert_given_back();
        assert!(!String::from_utf8_lossy(&self.raw).contains("panicked"), "{self}");
    }

    /// The terminal is as it was before gdrtune.
    pub(crate) fn assert_given_back(&self) {
        let left_on: Vec<u16> = private_modes(&self.raw).into_iter().filter(|(_, on)| *on).map(|(m, _)| m).collect();
        // 25 is the visible cursor, the only mode of these that is on in a fresh terminal.
        assert_eq!(left_on, [25], "private modes that are still on\n{self}");
        assert!(!self.screen().alternate_screen() && !self.screen().hide_cursor(), "{self}");
        assert_eq!(self.screen().mouse_protocol_mode(), MouseProtocolMode::None);
        assert_eq!(mode(&*self.pty), self.mode_before, "the mode that stty shows");
        assert!(self.mode_before.contains("ICANON") && self.mode_before.contains("ECHO "), "{}", self.mode_before);
    }
}

/// gdrtune itself. A test that failed must not leave its run behind.
pub(crate) struct Running(Box<dyn Child + Send + Sync>);

impl Running {
    /// Waits for the end of the process. The exit code.
    pub(crate) fn wait_for_exit(&mut self, limit: Duration) -> u32 {
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
fn command(home: &Path, args: &[&str], variables: &[(&str, &str)]) -> CommandBuilder {
    let hermetic = gdrtune(home);
    let mut command = CommandBuilder::new(hermetic.get_program());
    command.env_clear();
    for (name, value) in hermetic.get_envs() {
        command.env(name, value.unwrap_or_default());
    }
    command.env("TERM", "xterm-256color");
    command.env("LANG", "C.UTF-8");
    for (name, value) in variables {
        command.env(name, value);
    }
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

/// That no process of gdrtune's with this HOME is left.
pub(crate) fn assert_no_process_is_left(home: &Path) {
    let home = home.display().to_string();
    wait_until("no process is left", Duration::from_secs(15), || gdrtune_processes(&home).is_empty());
}
