//! What starts an agent somewhere and gives its three streams. One implementation per way in: a child of this process,
//! ssh, Slurm, and a command of the user's. Launchers know nothing of the protocol on the streams.

mod bootstrap;
mod child;
mod exec;
mod local;
mod payload;
mod quote;
mod slurm;
mod ssh;

use std::{
    fmt,
    path::PathBuf,
    process::ExitStatus,
    sync::{Arc, Mutex, PoisonError},
};

use futures_util::future::BoxFuture;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::OwnedSemaphorePermit,
};

pub use exec::{ExecLauncher, LauncherCommand};
pub use local::LocalLauncher;
pub use quote::quote;
pub use slurm::SlurmLauncher;
pub use ssh::{DEFAULT_JUMP_WINDOW, SshLauncher, SshOptions};

use crate::{error::LaunchError, hosts::Host};

/// What an agent is started from.
#[derive(Debug, Clone)]
pub struct AgentSpec {
    /// Hash of the sources that we were built from; every executable that is brought onto hosts must have the same.
    pub build_id: String,
    /// Our executable on this machine; run with the argument `agent`.
    pub executable: PathBuf,
    /// Folder on this machine with builds for other machines, or for older systems than ours: `gdrtune-aarch64`.
    pub agent_folder: Option<PathBuf>,
    /// Variables over the environment that the agent finds. Visible in process lists: no secrets.
    pub env: Vec<(String, String)>,
    /// Folder on the hosts below which the executable is kept, an absolute path; without one, the user's cache folder.
    pub remote_folder: Option<String>,
}

/// Whether an executable that is already on the host may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Freshness {
    /// Use it if it is there.
    Reuse,
    /// Put it there anew: the one that is there is wrong.
    Replace,
}

/// What a launch is doing right now, for the error of a launch that takes too long.
#[derive(Debug, Clone)]
pub struct Stage(Arc<Mutex<&'static str>>);

impl Stage {
    /// Nothing has happened yet.
    pub fn new() -> Self {
        Self(Arc::new(Mutex::new("starting")))
    }

    /// Says what happens now: `uploading the agent`.
    pub fn set(&self, doing: &'static str) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = doing;
    }

    /// What was said last.
    pub fn get(&self) -> &'static str {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Stage {
    fn default() -> Self {
        Self::new()
    }
}

/// How an agent's process ended, as far as this side can tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// With this exit code.
    Code(i32),
    /// By this signal.
    Signal(i32),
    /// Nobody can say; the words of whoever noticed.
    Unknown(String),
}

impl From<ExitStatus> for Ended {
    fn from(status: ExitStatus) -> Self {
        use std::os::unix::process::ExitStatusExt;
        match (status.code(), status.signal()) {
            (Some(code), _) => Self::Code(code),
            (None, Some(signal)) => Self::Signal(signal),
            (None, None) => Self::Unknown(status.to_string()),
        }
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exit code {code}"),
            Self::Signal(signal) => write!(f, "signal {signal}"),
            Self::Unknown(words) => f.write_str(words),
        }
    }
}

/// The far end of a launch: a process, or a channel to one. Dropping it kills or cuts it off at once.
pub trait AgentProcess: Send {
    /// Waits until it has ended. May be called again, and may be dropped half-way.
    fn wait(&mut self) -> BoxFuture<'_, Ended>;

    /// Ends it if it has not ended, and waits until nothing of it is left on this machine.
    fn close(self: Box<Self>) -> BoxFuture<'static, ()>;
}

/// Stream to the agent.
pub type AgentStdin = Box<dyn AsyncWrite + Send + Unpin>;
/// Stream from the agent.
pub type AgentOutput = Box<dyn AsyncRead + Send + Unpin>;

/// A started agent. Closing `stdin` tells it to end.
pub struct Launched {
    /// Frames to the agent.
    pub stdin: AgentStdin,
    /// Preamble and frames from the agent, perhaps after noise of a login shell.
    pub stdout: AgentOutput,
    /// Lines for the log.
    pub stderr: AgentOutput,
    /// The process itself.
    pub process: Box<dyn AgentProcess>,
}

impl fmt::Debug for Launched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Launched(..)")
    }
}

/// A way to start agents.
pub trait Launcher: Send + Sync + fmt::Debug {
    /// Starts an agent on a host. Dropping the future leaves nothing behind on this machine.
    fn start<'a>(
        &'a self,
        host: &'a Host,
        spec: &'a AgentSpec,
        freshness: Freshness,
        stage: &'a Stage,
    ) -> BoxFuture<'a, Result<Launched, LaunchError>>;

    /// Waits for a host's turn, where more launches at one time than the launcher can take would disturb each other; the
    /// launch holds what is given until it is over. The waiting does not count for the launch's deadline.
    fn turn<'a>(&'a self, _host: &'a Host) -> BoxFuture<'a, Option<OwnedSemaphorePermit>> {
        Box::pin(async { None })
    }

    /// Whether [`Freshness::Replace`] can help against an agent of another build.
    fn can_replace(&self) -> bool {
        false
    }
}
