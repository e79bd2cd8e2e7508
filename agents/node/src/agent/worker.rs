//! One worker process: started, fed, ended, reaped.
//!
//! Owns the process until it is reaped. Says when it wants to be looked at again, and leaves the decision whom to end to
//! its group.

use std::{
    fs::File,
    io,
    os::fd::OwnedFd,
    sync::{Arc, mpsc::SyncSender},
    time::{Duration, Instant},
};

use gdrtune_wire::{EndCause, FromWorker, Script, ToWorker};
use rustix::process::{Pid, Signal};

use super::{
    event::{self, Event, Serial},
    outbox::{Outbox, OutboxError},
    process::{self, Child, ChildSpec, Status},
    progress::Progress,
};

/// Bytes that may wait for a worker to read them: two frames of the largest size.
const STDIN_QUEUE_BYTES: usize = 2 * (gdrtune_wire::codec::MAX_FRAME + 4);

/// Time to read what a dead worker left in its pipes, where somebody else still holds them open.
const DRAIN_LIMIT: Duration = Duration::from_secs(1);

/// Time that a killed process may take to go away before people are told. Longer means stuck in the kernel.
const STUCK_AFTER: Duration = Duration::from_secs(5);

/// How often a dying worker is looked at, should its `SIGCHLD` be late.
const DYING_POLL: Duration = Duration::from_millis(100);

/// A worker.
#[derive(Debug)]
pub(super) struct Worker {
    pub(super) serial: Serial,
    pub(super) rank: u32,
    pub(super) pid: Pid,
    pub(super) progress: Progress,
    stdin: Option<Outbox>,
    /// Why we ended it; `None` while nobody did.
    cause: Option<EndCause>,
    state: State,
    open_streams: u32,
}

#[derive(Debug)]
enum State {
    Running,
    Terminating { kill_at: Instant },
    Killed { at: Instant, told: bool },
    Reaped { at: Instant, status: Status },
}

/// Who a worker is to the agent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Identity {
    pub(super) serial: Serial,
    pub(super) rank: u32,
}

impl Worker {
    /// Starts the process and the threads on its pipes; `first_frame` is its init message.
    pub(super) fn start(
        identity: Identity,
        spec: &ChildSpec<'_>,
        first_frame: Vec<u8>,
        progress: Progress,
        events: &SyncSender<Event>,
    ) -> io::Result<Self> {
        let child = process::start(spec)?;
        let pid = child.pid;
        let Identity { serial, rank } = identity;
        let mut worker =
            Self { serial, rank, pid, progress, stdin: None, cause: None, state: State::Running, open_streams: 2 };
        match attach(child, serial, events) {
            Ok(stdin) => {
                // A worker that is gone already shows as ended.
                stdin.push(first_frame).ok();
                worker.stdin = Some(stdin);
            }
            Err(error) => worker.kill(Instant::now(), EndCause::NotStarted(format!("make its threads: {error}"))),
        }
        Ok(worker)
    }

    /// Whether it runs and nobody has decided to end it.
    pub(super) fn is_running(&self) -> bool {
        matches!(self.state, State::Running)
    }

    /// Whether it is reaped.
    pub(super) fn is_reaped(&self) -> bool {
        matches!(self.state, State::Reaped { .. })
    }

    /// Whether it ended in a way that leaves its group without hope.
    pub(super) fn broke_its_group(&self) -> bool {
        match (&self.cause, &self.state) {
            (Some(EndCause::Stopped | EndCause::PeerEnded), _) => false,
            (Some(_), _) => true,
            (None, State::Reaped { status, .. }) => !(self.progress.is_quitting() && *status == Status::Exit(0)),
            (None, _) => false,
        }
    }

    /// Sends an encoded message to a running worker.
    pub(super) fn send(
        &mut self,
        now: Instant,
        frame: Vec<u8>,
        message: &ToWorker,
        script: Option<&Arc<Script>>,
    ) -> Result<(), OutboxError> {
        let Some(stdin) = self.stdin.as_ref().filter(|_| matches!(self.state, State::Running)) else { return Ok(()) };
        match stdin.push(frame) {
            Ok(()) => self.progress.note_sent(now, message, script),
            // It closed its input or died; both have a result of their own.
            Err(OutboxError::Closed) => {}
            Err(OutboxError::Full) => return Err(OutboxError::Full),
        }
        Ok(())
    }

    /// Notes what the worker said.
    pub(super) fn note_heard(&mut self, now: Instant, message: &FromWorker) {
        if self.is_running() {
            self.progress.note_heard(now, message);
        }
    }

    /// Notes that one of its output streams is over.
    pub(super) fn note_stream_end(&mut self) {
        self.open_streams = self.open_streams.saturating_sub(1);
    }

    /// Asks the whole process group to end, and kills it after `grace`. The first cause is the one that is reported.
    pub(super) fn end(&mut self, now: Instant, grace: Duration, cause: EndCause) {
        if self.terminate(now, grace) {
            self.cause.get_or_insert(cause);
        }
    }

    /// Like [`Worker::end`], but how it ends is reported as it is: the worker is at fault.
    pub(super) fn terminate(&mut self, now: Instant, grace: Duration) -> bool {
        let running = self.is_running();
        if running {
            self.stdin = None;
            process::signal_group(self.pid, Signal::TERM);
            self.state = State::Terminating { kill_at: now + grace };
        }
        running
    }

    fn kill(&mut self, now: Instant, cause: EndCause) {
        self.cause.get_or_insert(cause);
        process::signal_group(self.pid, Signal::KILL);
        self.state = State::Killed { at: now, told: false };
    }

    /// Reaps the process if it has ended, after killing what is left of its group. Returns whether it did.
    pub(super) fn reap_if_ended(&mut self, now: Instant) -> bool {
        if self.is_reaped() {
            return false;
        }
        let Some(status) = process::peek_end(self.pid) else { return false };
        process::signal_group(self.pid, Signal::KILL);
        process::reap(self.pid);
        self.stdin = None;
        self.state = State::Reaped { at: now, status };
        true
    }

    /// Kills a process that did not heed the request to end. Returns what people should know.
    pub(super) fn escalate(&mut self, now: Instant) -> Option<String> {
        match &mut self.state {
            State::Terminating { kill_at } if *kill_at <= now => {
                process::signal_group(self.pid, Signal::KILL);
                self.state = State::Killed { at: now, told: false };
                None
            }
            State::Killed { at, told } if !*told && *at + STUCK_AFTER <= now => {
                *told = true;
                let (rank, pid) = (self.rank, self.pid.as_raw_nonzero());
                Some(format!("rank {rank} (pid {pid}) survives SIGKILL: it is stuck in the kernel, look at its driver"))
            }
            _ => None,
        }
    }

    /// When to look at it again, if nothing is heard before.
    pub(super) fn wakeup(&self, now: Instant) -> Option<Instant> {
        match self.state {
            State::Running => self.progress.deadline(),
            State::Terminating { kill_at } => Some(kill_at.min(now + DYING_POLL)),
            State::Killed { .. } => Some(now + DYING_POLL),
            State::Reaped { at, .. } => Some(at + DRAIN_LIMIT).filter(|drained| now < *drained),
        }
    }

    /// Its cause of death, once it is reaped and all that it said is read.
    pub(super) fn obituary(&self, now: Instant) -> Option<EndCause> {
        let State::Reaped { at, status } = self.state else { return None };
        if self.open_streams > 0 && now < at + DRAIN_LIMIT {
            return None;
        }
        Some(match (&self.cause, status) {
            (Some(cause), _) => cause.clone(),
            (None, Status::Exit(0)) if self.progress.is_quitting() => EndCause::Finished,
            (None, Status::Exit(code)) => EndCause::Exit(code),
            (None, Status::Signal(signal)) => EndCause::Signal(signal),
        })
    }
}

/// Starts the threads on a child's pipes and returns the queue to its input.
fn attach(child: Child, serial: Serial, events: &SyncSender<Event>) -> io::Result<Outbox> {
    let (stdout, stderr) = (child.stdout, child.stderr);
    let stdin = Outbox::start("worker-in", File::from(OwnedFd::from(child.stdin)), STDIN_QUEUE_BYTES)?;
    let sender = events.clone();
    super::spawn_thread("worker-out", move || event::read_worker(stdout, serial, &sender))?;
    let sender = events.clone();
    super::spawn_thread("worker-err", move || event::read_lines(stderr, serial, &sender))?;
    Ok(stdin)
}
