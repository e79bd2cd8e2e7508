//! Agents as children of this process: for the demo, for tests, and for a cluster of one machine.
//!
//! Each agent is in a process group of its own, so that Ctrl-C on the terminal reaches us alone.

use std::{
    io,
    process::{Command, Stdio},
};

use futures_util::future::BoxFuture;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::Child;

use super::{AgentProcess, AgentSpec, Ended, Freshness, Launched, Launcher, Stage};
use crate::{
    error::{LaunchError, LaunchErrorKind},
    hosts::Host,
};

/// Starts agents as children of this process, whatever the host is called.
#[derive(Debug, Clone, Copy, Default)]
pub struct LocalLauncher;

impl Launcher for LocalLauncher {
    fn start<'a>(
        &'a self,
        host: &'a Host,
        spec: &'a AgentSpec,
        _freshness: Freshness,
        stage: &'a Stage,
    ) -> BoxFuture<'a, Result<Launched, LaunchError>> {
        stage.set("starting the local agent");
        Box::pin(async move { spawn(spec).map_err(|error| describe(host, spec, &error)) })
    }
}

fn spawn(spec: &AgentSpec) -> io::Result<Launched> {
    use std::os::unix::process::CommandExt;
    let mut command = Command::new(&spec.executable);
    command.arg("agent").envs(spec.env.iter().map(|(name, value)| (name, value))).process_group(0);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = tokio::process::Command::from(command).kill_on_drop(true).spawn()?;
    let missing = || io::Error::other("a stream of the child is missing");
    let stdin = child.stdin.take().ok_or_else(missing)?;
    let stdout = child.stdout.take().ok_or_else(missing)?;
    let stderr = child.stderr.take().ok_or_else(missing)?;
    Ok(Launched {
        stdin: Box::new(stdin),
        stdout: Box::new(stdout),
        stderr: Box::new(stderr),
        process: Box::new(LocalProcess { child }),
    })
}

fn describe(host: &Host, spec: &AgentSpec, error: &io::Error) -> LaunchError {
    let kind = match error.kind() {
        io::ErrorKind::NotFound => LaunchErrorKind::NotFound,
        io::ErrorKind::PermissionDenied => LaunchErrorKind::NotExecutable,
        _ => LaunchErrorKind::Local,
    };
    let detail = format!("{}: {error}", spec.executable.display());
    LaunchError::new(&host.name, kind, detail, "check that this file is there and may be run")
}

struct LocalProcess {
    child: Child,
}

impl LocalProcess {
    /// Kills the agent's process group. The id is only used while the child is not reaped, so it cannot be another's.
    fn kill(&mut self) {
        let Some(group) = self.child.id().and_then(|id| Pid::from_raw(id as i32)) else { return };
        // The group may have ended in this moment; then there is nothing to do.
        kill_process_group(group, Signal::KILL).ok();
    }
}

impl AgentProcess for LocalProcess {
    fn wait(&mut self) -> BoxFuture<'_, Ended> {
        Box::pin(async {
            match self.child.wait().await {
                Ok(status) => status.into(),
                Err(error) => Ended::Unknown(error.to_string()),
            }
        })
    }

    fn close(mut self: Box<Self>) -> BoxFuture<'static, ()> {
        self.kill();
        Box::pin(async move {
            self.wait().await;
        })
    }
}

impl Drop for LocalProcess {
    fn drop(&mut self) {
        self.kill();
    }
}
