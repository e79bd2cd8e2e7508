//! A command on a host, over an open ssh connection.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use openssh::{Child, Session, Stdio};

use super::master::Master;
use crate::{
    error::{LaunchError, LaunchErrorKind},
    hosts::Host,
    launcher::{AgentProcess, Ended, Launched},
};

/// Runs a line in the login shell. The connection is the command's from here on.
pub(super) async fn open(host: &Host, master: Master, line: &str) -> Result<Launched, LaunchError> {
    let error = |kind, detail: String, hint: &str| LaunchError::new(&host.name, kind, detail, hint);
    let mut command = Session::to_raw_command(master.session(), line);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().await.map_err(|cause| {
        let detail = format!("ssh connected, but opened no channel: {}", chain(&cause));
        let hint = "the server may limit sessions (MaxSessions) or forbid commands; check its sshd_config";
        error(LaunchErrorKind::Other, detail, hint)
    })?;
    let missing = || {
        let detail = "a stream of the ssh channel is missing".to_owned();
        error(LaunchErrorKind::Other, detail, "report this: it is a fault in gdrtune")
    };
    let stdin = child.stdin().take().ok_or_else(missing)?;
    let stdout = child.stdout().take().ok_or_else(missing)?;
    let stderr = child.stderr().take().ok_or_else(missing)?;
    Ok(Launched {
        stdin: Box::new(stdin),
        stdout: Box::new(stdout),
        stderr: Box::new(stderr),
        process: Box::new(SshProcess { end: End::Waiting(Box::pin(end_of(child))), master }),
    })
}

enum End {
    Waiting(BoxFuture<'static, Ended>),
    Known(Ended),
}

/// The channel to an agent and the connection that it runs on. Both end when it is dropped.
struct SshProcess {
    end: End,
    master: Master,
}

impl AgentProcess for SshProcess {
    fn wait(&mut self) -> BoxFuture<'_, Ended> {
        Box::pin(async {
            let ended = match &mut self.end {
                End::Waiting(future) => future.await,
                End::Known(ended) => ended.clone(),
            };
            self.end = End::Known(ended.clone());
            ended
        })
    }

    fn close(self: Box<Self>) -> BoxFuture<'static, ()> {
        Box::pin(self.master.close())
    }
}

/// Waits for the end of a remote command.
async fn end_of(child: Child<Arc<Session>>) -> Ended {
    match child.wait().await {
        Ok(status) => status.into(),
        // The crate turns exit code 127 into this error.
        Err(openssh::Error::Remote(error)) if error.kind() == std::io::ErrorKind::NotFound => Ended::Code(127),
        Err(openssh::Error::RemoteProcessTerminated) => {
            Ended::Unknown("killed by a signal, or the connection was lost".to_owned())
        }
        Err(error) => Ended::Unknown(chain(&error)),
    }
}

/// An error and its causes in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text = format!("{text}: {inner}");
        cause = inner.source();
    }
    text
}
