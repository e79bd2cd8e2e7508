//! `gdrtune agent`: the supervisor on a node.
//!
//! Speaks frames over standard input and output with gdrtune, starts one worker per rank, and sees to it that no worker
//! outlives its deadline, its group, its agent or its client. Links no GPU or RDMA library and runs no collective: whatever
//! may hang or crash lives in a worker.
//!
//! ```text
//! reader thread ──┐                           ┌── writer thread ── frames to gdrtune
//! signal thread ──┼── events ── supervisor ───┼── writer thread per worker (its stdin)
//! worker streams ─┘            (this thread)  └── log thread ── JSON lines on stderr
//! ```
//!
//! The supervisor never blocks on a peer: each writer has a bounded queue and its own thread. What ends an agent: end of
//! file on its input, silence of the client, a client that does not read, `SIGHUP`, `SIGINT`, `SIGTERM`, or `Shutdown`. All
//! take one path, which kills, reaps, and sweeps up orphans. If the agent itself is killed, the kernel kills its workers
//! (`PR_SET_PDEATHSIG`), and their inputs end; if it is stopped or hangs, its [`watchdog`] kills it. Only a worker's child that left its session could outlive that; our workers
//! make none. A worker command ([`wrapper`]) that runs the worker as a child or through a daemon has the input's end only.

mod bundles;
mod environment;
mod event;
mod group;
mod incarnation;
mod install;
mod launch;
mod leftovers;
mod lines;
mod log;
mod nccl_log;
mod node_lock;
mod outbox;
pub(crate) mod process;
mod progress;
mod ranks;
mod reach;
mod signals;
mod stdio;
mod supervisor;
mod watchdog;
mod worker;
mod wrapper;

use std::{
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::ExitCode,
    sync::mpsc::{self, SyncSender},
    thread,
    time::Duration,
};

use event::{Event, Heard};
use gdrtune_wire::codec::PREAMBLE;
use incarnation::Incarnation;
use log::{Level, Log};
use outbox::Outbox;
use supervisor::Supervisor;
use watchdog::Watchdog;
pub use watchdog::watch;

use crate::inventory::LOCK_VARIABLE;

/// Exit code where the client is of another build, or its first frame is no Hello.
pub const EXIT_MISMATCH: u8 = 90;
/// Exit code where the client went away, fell silent, or stopped reading.
pub const EXIT_CLIENT_LOST: u8 = 91;
/// Exit code where the client sent something that is no sequence of frames.
pub const EXIT_BROKEN_STREAM: u8 = 92;
/// Exit code where the agent could not set itself up; the cause is on standard error.
pub const EXIT_SETUP: u8 = 93;

/// Events that may wait for the supervisor; whoever sends more waits.
const EVENT_QUEUE: usize = 256;

/// Bytes that may wait for gdrtune to read them; beyond it counts as lost. Four frames of the largest size.
const CLIENT_QUEUE_BYTES: usize = 4 * gdrtune_wire::codec::MAX_FRAME;

/// Time for the last frames and log lines to be written when the agent ends.
const FLUSH_LIMIT: Duration = Duration::from_secs(1);

/// Stack of the helper threads, which keep their buffers on the heap.
const STACK_BYTES: usize = 256 << 10;

/// How an agent behaves.
#[derive(Debug, Clone)]
pub struct AgentConfig<'a> {
    /// Hash of the sources; the client must have the same.
    pub build_id: &'a str,
    /// What workers run, with `worker` as first argument; `None` is this very executable.
    pub worker_program: Option<PathBuf>,
    /// Silence of the client after which it counts as lost.
    pub silence_limit: Duration,
    /// Time without any work of the supervisor after which the agent counts as stuck and is killed.
    pub stuck_limit: Duration,
    /// Time between `SIGTERM` and `SIGKILL`.
    pub kill_grace: Duration,
    /// Where the private folder for stored files is made, and such folders of killed agents are removed.
    pub temporary_folder: PathBuf,
    /// The folder of the node's lock, the same for all users.
    pub lock_folder: PathBuf,
    /// The tuner plugin as a shared object, which NCCL in the workers loads. Written out when the first NCCL group starts,
    /// unless the node's `GDRTUNE_TUNER_PLUGIN` names another one.
    pub tuner_plugin: Option<&'a [u8]>,
}

impl<'a> AgentConfig<'a> {
    /// What the product uses.
    pub fn product(build_id: &'a str, tuner_plugin: &'a [u8]) -> Self {
        Self {
            build_id,
            worker_program: None,
            silence_limit: gdrtune_wire::SILENCE_LIMIT,
            // The client has given it up long before, however busy the node is.
            stuck_limit: 2 * gdrtune_wire::SILENCE_LIMIT,
            kill_grace: Duration::from_secs(2),
            temporary_folder: std::env::temp_dir(),
            lock_folder: std::env::var_os(LOCK_VARIABLE).map_or_else(|| node_lock::FOLDER.into(), PathBuf::from),
            tuner_plugin: Some(tuner_plugin),
        }
    }
}

/// Runs the agent until its client is done or gone, and returns the process's exit code: 0 after `Shutdown`, 128 plus the
/// signal after a signal, else one of the `EXIT_*` constants.
///
/// Takes over the whole process: descriptors 0 and 1, the signal mask, every child. Call it once, from the main thread,
/// before any other thread is started.
pub fn run(config: &AgentConfig<'_>) -> ExitCode {
    match serve(config) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            // Standard error may be closed; the exit code says it then.
            writeln!(io::stderr(), "gdrtune agent: failed to set up: {error}").ok();
            ExitCode::from(EXIT_SETUP)
        }
    }
}

fn serve(config: &AgentConfig<'_>) -> io::Result<u8> {
    let blocked = signals::block()?;
    process::adopt_orphans()?;
    let streams = stdio::take()?;
    let mut watchdog = Watchdog::start(config.stuck_limit)
        .map_err(|error| io::Error::new(error.kind(), format!("start its watchdog: {error}")))?;
    let log = Log::start(streams.log)?;
    let client = Outbox::start("client-out", streams.output, CLIENT_QUEUE_BYTES)?;
    // Said at once, so that the client can tell our stream from login noise before it says anything. A client that is
    // gone already shows as end of file.
    client.push(PREAMBLE.to_vec()).ok();

    let (sender, events) = mpsc::sync_channel(EVENT_QUEUE);
    let heard = Heard::now();
    let (input, reader_heard, reader_events) = (streams.input, heard.clone(), sender.clone());
    spawn_thread("client-in", move || event::read_client(input, &reader_heard, &reader_events))?;
    let signal_events = sender.clone();
    spawn_thread("signals", move || forward_signals(&blocked, &signal_events))?;
    let (parent, sweep_events) = (config.temporary_folder.clone(), sender.clone());
    spawn_thread("leftovers", move || sweep_leftovers(&parent, &sweep_events))?;

    let mut supervisor = Supervisor::new(config, client, heard, sender, &log);
    let code = supervisor.run(&events, &mut watchdog);
    supervisor.close(FLUSH_LIMIT);
    log.write(Level::Info, &format!("agent ends with exit code {code}"));
    log.finish(FLUSH_LIMIT);
    watchdog.end();
    Ok(code)
}

fn forward_signals(blocked: &signals::Blocked, events: &SyncSender<Event>) {
    while let Ok(signal) = blocked.wait() {
        if events.send(Event::Signal(signal)).is_err() {
            return;
        }
    }
}

/// The folder may be slow, or large: nobody waits for it.
fn sweep_leftovers(parent: &Path, events: &SyncSender<Event>) {
    if let Ok(own) = Incarnation::own() {
        // Fails only when the agent has ended.
        events.send(Event::Swept(leftovers::remove(parent, &own))).ok();
    }
}

/// Starts a helper thread. Nobody joins it: it ends with its descriptor, or with the process.
fn spawn_thread(name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<()> {
    thread::Builder::new().name(name.to_owned()).stack_size(STACK_BYTES).spawn(body).map(drop)
}
