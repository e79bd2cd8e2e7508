//! What starts an agent on a host. A launcher gives three byte streams and something that ends the process.

use std::{future::Future, path::PathBuf, pin::Pin, process::Stdio, sync::Arc};

use tokio::{
    io::{AsyncRead, AsyncWrite},
    process::{Child, Command},
};

use crate::{
    error::{LaunchError, LaunchErrorKind},
    hosts::Host,
    ssh::{SshConfig, SshLauncher},
};

/// Which launcher a fleet uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LauncherKind {
    /// Children of this process: every host is this machine.
    Local,
    /// The system's ssh.
    Ssh(SshConfig),
}

/// A started agent's ends of the line.
pub(crate) struct Launched {
    pub(crate) stdin: Box<dyn AsyncWrite + Send + Unpin>,
    pub(crate) stdout: Box<dyn AsyncRead + Send + Unpin>,
    pub(crate) stderr: Box<dyn AsyncRead + Send + Unpin>,
    pub(crate) process: Box<dyn AgentProcess>,
}

pub(crate) type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The agent's process, as far as this side can reach it. Dropping it kills or disconnects.
pub(crate) trait AgentProcess: Send {
    /// Waits until the process is gone, and says how it ended, for people.
    fn wait(&mut self) -> BoxFuture<'_, String>;

    /// Ends it, the hard way.
    fn kill(&mut self) -> BoxFuture<'_, ()>;
}

/// Starts agents. New kinds (Slurm, a user's command) fit behind the same two streams.
pub(crate) trait Launcher: Send + Sync {
    /// Starts the agent on `host`.
    fn launch<'a>(&'a self, host: &'a Host) -> BoxFuture<'a, Result<Launched, LaunchError>>;
}

/// The launcher of a kind, for the executable at `executable`.
pub(crate) fn launcher(kind: &LauncherKind, executable: PathBuf) -> Result<Arc<dyn Launcher>, crate::FleetError> {
    match kind {
        LauncherKind::Local => Ok(Arc::new(LocalLauncher { executable })),
        LauncherKind::Ssh(config) => Ok(Arc::new(SshLauncher::new(config.clone(), executable)?)),
    }
}

/// Agents as children of this process.
struct LocalLauncher {
    executable: PathBuf,
}

impl Launcher for LocalLauncher {
    fn launch<'a>(&'a self, host: &'a Host) -> BoxFuture<'a, Result<Launched, LaunchError>> {
        Box::pin(async move {
            // Its own process group: Ctrl-C in the terminal is for this process, which ends its agents in order.
            let child = Command::new(&self.executable)
                .arg("agent")
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .process_group(0)
                .kill_on_drop(true)
                .spawn();
            let failed = |detail: String| LaunchError::new(&host.name, LaunchErrorKind::AgentEnded, detail);
            let mut child = child.map_err(|e| failed(format!("{}: {e}", self.executable.display())))?;
            let (Some(stdin), Some(stdout), Some(stderr)) =
                (child.stdin.take(), child.stdout.take(), child.stderr.take())
            else {
                return Err(failed("no pipes to the agent".to_owned()));
            };
            Ok(Launched {
                stdin: Box::new(stdin),
                stdout: Box::new(stdout),
                stderr: Box::new(stderr),
                process: Box::new(LocalProcess(child)),
            })
        })
    }
}

struct LocalProcess(Child);

impl AgentProcess for LocalProcess {
    fn wait(&mut self) -> BoxFuture<'_, String> {
        Box::pin(async move {
            match self.0.wait().await {
                Ok(status) => status.to_string(),
                Err(error) => error.to_string(),
            }
        })
    }

    fn kill(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            // A process that is gone already needs no killing.
            self.0.kill().await.ok();
        })
    }
}
