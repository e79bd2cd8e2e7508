//! The one place that makes, signals and reaps child processes.
//!
//! Every child leads its own session and process group, dies with the agent, and gets an explicit environment. Nothing
//! here knows what a worker is for.
#![expect(unsafe_code, reason = "`pre_exec` is the only way to run code between fork and exec")]

use std::{
    collections::{BTreeMap, HashSet},
    ffi::OsString,
    fs,
    io::{self, ErrorKind},
    os::unix::{fs::MetadataExt as _, process::CommandExt as _},
    path::{Path, PathBuf},
    process::{ChildStderr, ChildStdin, ChildStdout, Command, Stdio},
};

use rustix::{
    io::Errno,
    process::{self as sys, Pid, Signal, WaitId, WaitIdOptions},
};

use super::signals;

/// This process's executable, whatever has become of its path.
pub(super) const OWN_EXECUTABLE: &str = "/proc/self/exe";

/// What to start.
pub(crate) struct ChildSpec<'a> {
    /// The executable.
    pub(crate) program: &'a Path,
    /// Its arguments, without its name.
    pub(crate) arguments: &'a [OsString],
    /// Its whole environment.
    pub(crate) environment: &'a BTreeMap<OsString, OsString>,
}

/// A running child and our ends of its pipes.
pub(crate) struct Child {
    /// Process, session and process group id at once.
    pub(crate) pid: Pid,
    pub(crate) stdin: ChildStdin,
    pub(crate) stdout: ChildStdout,
    pub(crate) stderr: ChildStderr,
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    Exit(i32),
    Signal(i32),
}

/// Starts a child that is killed when the *calling thread* ends, so call it from the thread that lives longest.
pub(crate) fn start(spec: &ChildSpec<'_>) -> io::Result<Child> {
    let agent = sys::getpid();
    let mut command = Command::new(spec.program);
    command
        .args(spec.arguments)
        .env_clear()
        .envs(spec.environment)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    // SAFETY: the closure makes plain system calls only; it neither allocates nor locks.
    unsafe { command.pre_exec(move || prepare_child(agent)) };
    let mut child = command.spawn()?;
    let pid = Pid::from_child(&child);
    match (child.stdin.take(), child.stdout.take(), child.stderr.take()) {
        (Some(stdin), Some(stdout), Some(stderr)) => Ok(Child { pid, stdin, stdout, stderr }),
        _ => Err(io::Error::from(ErrorKind::BrokenPipe)),
    }
}

/// Runs in the child, between fork and exec.
fn prepare_child(agent: Pid) -> io::Result<()> {
    sys::setsid()?;
    sys::set_parent_process_death_signal(Some(Signal::KILL))?;
    // The agent may have died before the line above; then nobody would send the signal.
    if sys::getppid() != Some(agent) {
        return Err(io::Error::from(Errno::SRCH));
    }
    signals::unblock_all()
}

/// Sends a signal to every process of the group. The leader must not be reaped yet, so that the id is still ours.
pub(crate) fn signal_group(leader: Pid, signal: Signal) {
    // The only possible failure is that the whole group is gone already, which is what we want.
    sys::kill_process_group(leader, signal).ok();
}

/// How the child ended, or `None` while it runs. Leaves it unreaped.
pub(crate) fn peek_end(pid: Pid) -> Option<Status> {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    match sys::waitid(WaitId::Pid(pid), options) {
        Ok(Some(status)) => Some(match (status.exit_status(), status.terminating_signal()) {
            (Some(code), _) => Status::Exit(code),
            (None, signal) => Status::Signal(signal.unwrap_or_default()),
        }),
        Ok(None) => None,
        // No such child: cannot be while we are the only one who reaps; counts as ended rather than as immortal.
        Err(_) => Some(Status::Signal(0)),
    }
}

/// Reaps a child that has ended; its id may be given to a new process from here on.
pub(crate) fn reap(pid: Pid) {
    // Fails only if there is no such child, so there is nothing to do about it.
    sys::waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOHANG).ok();
}

/// Waits until a child has ended, and reaps it.
pub(super) fn wait(pid: Pid) {
    // Fails otherwise only if there is no such child.
    while sys::waitid(WaitId::Pid(pid), WaitIdOptions::EXITED).err() == Some(Errno::INTR) {}
}

/// The path of this executable, or the kernel's link to it where another file has taken that path: a child must be of the
/// agent's own build, and a process list should show its real name where it can.
pub(super) fn own_executable() -> PathBuf {
    let link = PathBuf::from(OWN_EXECUTABLE);
    let is_same = |path: &PathBuf| match (fs::metadata(path), fs::metadata(&link)) {
        (Ok(file), Ok(own)) => (file.dev(), file.ino()) == (own.dev(), own.ino()),
        _ => false,
    };
    fs::read_link(&link).ok().filter(is_same).unwrap_or(link)
}

/// Asks the kernel to hand orphaned descendants to this process instead of to init.
pub(super) fn adopt_orphans() -> io::Result<()> {
    Ok(sys::set_child_subreaper(Some(sys::getpid()))?)
}

/// Every child of this process, dead ones included. Empty where `/proc` cannot be read.
pub(super) fn children() -> HashSet<Pid> {
    let me = sys::getpid().as_raw_nonzero().get();
    let Ok(entries) = fs::read_dir("/proc") else { return HashSet::new() };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|pid| parent_of(*pid) == Some(me))
        .filter_map(Pid::from_raw)
        .collect()
}

/// Kills and reaps children that are not in `known`; returns how many are left.
///
/// Such a child is an orphan: its parent ended, so no worker owns it. Its own children come to us in turn, so call this
/// until nothing is left.
pub(super) fn sweep_orphans(known: &HashSet<Pid>) -> usize {
    let orphans: Vec<Pid> = children().difference(known).copied().collect();
    for orphan in &orphans {
        // A child of ours keeps its id until we reap it, so this hits no stranger.
        sys::kill_process(*orphan, Signal::KILL).ok();
        reap(*orphan);
    }
    orphans.len()
}

/// Parent of a process, from `/proc/PID/stat` (`man 5 proc`): the second field after the command's last parenthesis.
fn parent_of(pid: i32) -> Option<i32> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let after_command = stat.iter().rposition(|byte| *byte == b')')? + 1;
    let fields = std::str::from_utf8(&stat[after_command..]).ok()?;
    fields.split_ascii_whitespace().nth(1)?.parse().ok()
}
