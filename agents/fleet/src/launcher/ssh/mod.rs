//! Agents over the system's ssh, so that jump hosts, Kerberos, certificates, agents and the user's configuration work.
//!
//! One connection ("master") per host in a background process of ssh's own, spoken to through its control socket; on it
//! at most two channels at a time. Host keys are checked strictly. Nothing ever prompts.

mod bootstrap;
mod control;
mod diagnose;
mod master;
mod payload;

use std::{path::PathBuf, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use tokio::sync::OnceCell;

use super::{AgentProcess, AgentSpec, Ended, Freshness, Launched, Launcher, Stage};
use crate::{
    error::{FleetError, LaunchError, LaunchErrorKind},
    hosts::Host,
};
use bootstrap::Bootstrap;
use control::ControlDirectory;
use master::Master;
use payload::Payload;

/// How ssh is to connect.
#[derive(Debug, Clone)]
pub struct SshOptions {
    /// Configuration file in place of the user's own (`ssh -F`).
    pub ssh_config: Option<PathBuf>,
    /// Takes the key of a host that is in no known hosts file, and remembers it. A changed key is always refused.
    pub accept_new_host_keys: bool,
    /// Time for one TCP connection and the server's greeting, in whole seconds.
    pub connect_timeout: Duration,
}

impl SshOptions {
    /// The user's own configuration, strict host keys, 10 s to connect.
    pub fn new() -> Self {
        Self { ssh_config: None, accept_new_host_keys: false, connect_timeout: Duration::from_secs(10) }
    }

    /// How a user would connect by hand, for hints.
    fn by_hand(&self, host: &Host) -> String {
        let config = self.ssh_config.as_ref().map_or_else(String::new, |path| format!("-F {} ", path.display()));
        let user = host.user.as_ref().map_or_else(String::new, |user| format!("{user}@"));
        format!("ssh {config}{user}{}", host.name)
    }
}

impl Default for SshOptions {
    fn default() -> Self {
        Self::new()
    }
}

/// Starts agents over ssh; uploads the executable where it is missing.
#[derive(Debug)]
pub struct SshLauncher {
    options: SshOptions,
    control: Arc<ControlDirectory>,
    payload: OnceCell<Arc<Payload>>,
}

impl SshLauncher {
    /// Makes the private folder for control sockets; it is removed with the last connection.
    ///
    /// # Errors
    /// [`FleetError::Setup`] where that folder cannot be made.
    pub fn new(options: SshOptions) -> Result<Self, FleetError> {
        let control = Arc::new(ControlDirectory::create()?);
        Ok(Self { options, control, payload: OnceCell::new() })
    }

    async fn payload(&self, host: &Host, spec: &AgentSpec) -> Result<Arc<Payload>, LaunchError> {
        let read = || Payload::read(spec.executable.clone());
        self.payload.get_or_try_init(read).await.map(Arc::clone).map_err(|error| {
            let detail = format!("{}: {error}", spec.executable.display());
            LaunchError::new(&host.name, LaunchErrorKind::Local, detail, "check that our own executable may be read")
        })
    }

    async fn launch(
        &self,
        host: &Host,
        spec: &AgentSpec,
        freshness: Freshness,
        stage: &Stage,
    ) -> Result<Launched, LaunchError> {
        stage.set("reading the executable");
        let payload = self.payload(host, spec).await?;
        stage.set("connecting with ssh");
        let master = Master::connect(&self.options, &self.control, host).await?;
        let bootstrap = Bootstrap { host, session: master.session(), payload: &payload, stage };
        let path = bootstrap.provide(freshness).await?;
        stage.set("waiting for the agent's first word");
        let mut child = bootstrap.start_agent(&path, &spec.env).await?;
        let missing = || {
            let detail = "a stream of the ssh channel is missing";
            LaunchError::new(&host.name, LaunchErrorKind::Other, detail, "report this: it is a fault in gdrtune")
        };
        let stdin = child.stdin().take().ok_or_else(missing)?;
        let stdout = child.stdout().take().ok_or_else(missing)?;
        let stderr = child.stderr().take().ok_or_else(missing)?;
        Ok(Launched {
            stdin: Box::new(stdin),
            stdout: Box::new(stdout),
            stderr: Box::new(stderr),
            process: Box::new(SshProcess { end: End::Waiting(Box::pin(bootstrap::end_of(child))), master }),
        })
    }
}

impl Launcher for SshLauncher {
    fn start<'a>(
        &'a self,
        host: &'a Host,
        spec: &'a AgentSpec,
        freshness: Freshness,
        stage: &'a Stage,
    ) -> BoxFuture<'a, Result<Launched, LaunchError>> {
        Box::pin(self.launch(host, spec, freshness, stage))
    }

    fn can_replace(&self) -> bool {
        true
    }
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
