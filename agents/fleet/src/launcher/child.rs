//! Programs that are children of this process. Each is in a process group of its own, so that Ctrl-C on the terminal
//! reaches us alone.

use std::{
    io,
    os::unix::process::CommandExt,
    process::{Command, Stdio},
    time::Duration,
};

use futures_util::future::BoxFuture;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::{process::Child, time::timeout};

use super::{AgentProcess, Ended, Launched};

/// Time for a child to end by itself after it was asked to. srun tells the step's node, and waits for `KillWait` there only
/// where a task does not go.
const GRACE: Duration = Duration::from_secs(2);

/// How a child is ended that does not end by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Farewell {
    /// Killed: it is the agent, which has had its time.
    Kill,
    /// Asked first: it stands for an agent elsewhere, and may be able to end that.
    Ask,
}

/// Starts a command with its three streams in our hands.
pub(super) fn spawn(mut command: Command, farewell: Farewell) -> io::Result<Launched> {
    command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = tokio::process::Command::from(command).kill_on_drop(true).spawn()?;
    let missing = || io::Error::other("a stream of the child is missing");
    let stdin = child.stdin.take().ok_or_else(missing)?;
    let stdout = child.stdout.take().ok_or_else(missing)?;
    let stderr = child.stderr.take().ok_or_else(missing)?;
    Ok(Launched {
        stdin: Box::new(stdin),
        stdout: Box::new(stdout),
        stderr: Box::new(stderr),
        process: Box::new(ChildProcess { child, farewell }),
    })
}

struct ChildProcess {
    child: Child,
    farewell: Farewell,
}

impl ChildProcess {
    /// Signals the child's process group. The id is only used while the child is not reaped, so it cannot be another's.
    fn signal(&mut self, signal: Signal) {
        let Some(group) = self.child.id().and_then(|id| Pid::from_raw(id as i32)) else { return };
        // The group may have ended in this moment; then there is nothing to do.
        kill_process_group(group, signal).ok();
    }
}

impl AgentProcess for ChildProcess {
    fn wait(&mut self) -> BoxFuture<'_, Ended> {
        Box::pin(async {
            match self.child.wait().await {
                Ok(status) => status.into(),
                Err(error) => Ended::Unknown(error.to_string()),
            }
        })
    }

    fn close(mut self: Box<Self>) -> BoxFuture<'static, ()> {
        if self.farewell == Farewell::Kill {
            self.signal(Signal::KILL);
        }
        Box::pin(async move {
            if self.farewell == Farewell::Ask {
                self.signal(Signal::TERM);
                timeout(GRACE, self.wait()).await.ok();
                self.signal(Signal::KILL);
            }
            self.wait().await;
        })
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}
