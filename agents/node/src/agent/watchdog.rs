//! Kills an agent that does not run any more, because somebody stopped it (`SIGSTOP`) or it hangs.
//!
//! Such an agent sees neither the end of its input nor its client's silence, and would keep its workers and its node for
//! ever. So each has a child that is told again and again that the supervisor works ("beats"), and that sends `SIGKILL`
//! after a number of waits without a beat; what follows is a killed agent's end: the kernel kills the workers and gives the
//! node's lock back. The child runs under a name of its own, so that a signal to everything called `gdrtune agent` does not
//! meet both. It knows nothing of clients and workers, and ends with its agent: by the end of its input, or by the
//! parent-death signal.

use std::{
    fs::File,
    io::{self, ErrorKind, Write as _},
    os::fd::OwnedFd,
    process::ExitCode,
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::{Errno, ioctl_fionbio, read},
    process::{self as sys, Pid, Signal},
    stdio::stdin,
};

use super::process::{self, ChildSpec};

/// The sub-command that makes an executable a watchdog.
const COMMAND: &str = "watchdog";

/// Waits without a beat that are one too many. Waits are counted, not time: where the whole machine stood still, the
/// watchdog did not wait either.
const SILENT_WAITS: u32 = 6;

/// An agent's end of its watchdog.
#[derive(Debug)]
pub(super) struct Watchdog {
    pid: Pid,
    /// `None` once the watchdog is seen to be gone.
    beats: Option<File>,
    interval: Duration,
    next_beat: Instant,
}

impl Watchdog {
    /// Starts the process, which kills this one when there has been no beat for about `limit`. The calling thread is to
    /// live as long as the agent.
    pub(super) fn start(limit: Duration) -> io::Result<Self> {
        let interval = limit / SILENT_WAITS;
        let arguments = [COMMAND.into(), interval.as_millis().to_string().into()];
        // The whole environment: this executable started with it.
        let environment = std::env::vars_os().collect();
        let spec = ChildSpec { program: &process::own_executable(), arguments: &arguments, environment: &environment };
        // It says nothing, and so holds no stream of the agent's.
        let child = process::start(&spec)?;
        // A watchdog that is stopped itself reads nothing; the supervisor must not wait for it.
        ioctl_fionbio(&child.stdin, true)?;
        let beats = Some(File::from(OwnedFd::from(child.stdin)));
        Ok(Self { pid: child.pid, beats, interval, next_beat: Instant::now() })
    }

    /// When [`Self::beat`] is to be called next.
    pub(super) fn next_beat(&self) -> Instant {
        self.next_beat
    }

    /// Says that the supervisor works, where it is time to. Fails once, when the watchdog is gone: the agent is as good as
    /// before then, but nobody ends it if it is stopped.
    pub(super) fn beat(&mut self, now: Instant) -> io::Result<()> {
        if now < self.next_beat {
            return Ok(());
        }
        self.next_beat = now + self.interval;
        let Some(beats) = &mut self.beats else { return Ok(()) };
        match beats.write(&[0]) {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                self.beats = None;
                Err(error)
            }
            // A full pipe holds beats enough.
            _ => Ok(()),
        }
    }

    /// Ends the watchdog; it is gone afterwards, so that nobody else has to reap it.
    pub(super) fn end(self) {
        // A child keeps its id until it is reaped.
        sys::kill_process(self.pid, Signal::KILL).ok();
        process::wait(self.pid);
    }
}

/// `gdrtune watchdog`: waits for beats on standard input, as long as the agent that started this process lives, and kills
/// it where none came in several waits of `interval` each.
pub fn watch(interval: Duration) -> ExitCode {
    let Some(agent) = sys::getppid() else { return ExitCode::FAILURE };
    let Ok(timeout) = Timespec::try_from(interval) else { return ExitCode::FAILURE };
    let mut silent_waits = 0;
    while silent_waits < SILENT_WAITS {
        match wait_for_beat(&timeout) {
            Ok(Heard::Beat) => silent_waits = 0,
            Ok(Heard::Nothing) => silent_waits += 1,
            Ok(Heard::End) => return ExitCode::SUCCESS,
            Err(Errno::INTR) => {}
            Err(_) => return ExitCode::FAILURE,
        }
    }
    // Its child's parent is alive, or a zombie at most: the id is still the agent's.
    if sys::getppid() == Some(agent) {
        // Fails only where the agent changed its user, which it never does.
        sys::kill_process(agent, Signal::KILL).ok();
    }
    ExitCode::SUCCESS
}

enum Heard {
    Beat,
    Nothing,
    End,
}

fn wait_for_beat(timeout: &Timespec) -> Result<Heard, Errno> {
    let input = stdin();
    if poll(&mut [PollFd::new(&input, PollFlags::IN)], Some(timeout))? == 0 {
        return Ok(Heard::Nothing);
    }
    // As many as there are: how many came while this process did not run says nothing.
    match read(input, &mut [0_u8; 64])? {
        0 => Ok(Heard::End),
        _ => Ok(Heard::Beat),
    }
}
