//! Agents over the system's ssh, so that jump hosts, Kerberos, certificates, agents and the user's configuration work.
//!
//! One connection ("master") per host in a background process of ssh's own, spoken to through its control socket; on it
//! at most two channels at a time. Host keys are checked strictly. Nothing ever prompts.

mod channel;
mod control;
mod diagnose;
mod jump;
mod master;

use std::{path::PathBuf, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use tokio::sync::OwnedSemaphorePermit;

use super::{
    AgentSpec, Freshness, Launched, Launcher, Stage,
    bootstrap::{Bootstrap, BootstrapError, LastWords},
    payload::PayloadCell,
};
use crate::{
    error::{FleetError, LaunchError, LaunchErrorKind},
    hosts::Host,
};
use control::ControlDirectory;
use jump::Jumps;
use master::Master;

pub use jump::DEFAULT_JUMP_WINDOW;

/// How ssh is to connect.
#[derive(Debug, Clone)]
pub struct SshOptions {
    /// Configuration file in place of the user's own (`ssh -F`).
    pub ssh_config: Option<PathBuf>,
    /// Takes the key of a host that is in no known hosts file, and remembers it. A changed key is always refused.
    pub accept_new_host_keys: bool,
    /// Time for one TCP connection and the server's greeting, in whole seconds.
    pub connect_timeout: Duration,
    /// Connections that are being opened at one time through the same jump host; at least one.
    pub jump_window: usize,
}

impl SshOptions {
    /// The user's own configuration, strict host keys, 10 s to connect.
    pub fn new() -> Self {
        Self {
            ssh_config: None,
            accept_new_host_keys: false,
            connect_timeout: Duration::from_secs(10),
            jump_window: DEFAULT_JUMP_WINDOW,
        }
    }

    /// How a user would connect by hand, for hints.
    fn by_hand(&self, host: &Host) -> String {
        let config = self.ssh_config.as_ref().map_or_else(String::new, |path| format!("-F {} ", path.display()));
        let user = host.user.as_ref().map_or_else(String::new, |user| format!("{user}@"));
        let port = host.port.map_or_else(String::new, |port| format!("-p {port} "));
        format!("ssh {config}{port}{user}{}", host.name)
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
    payloads: PayloadCell,
    jumps: Jumps,
}

impl SshLauncher {
    /// Makes the private folder for control sockets; it is removed with the last connection.
    ///
    /// # Errors
    /// [`FleetError::Setup`] where that folder cannot be made.
    pub fn new(options: SshOptions) -> Result<Self, FleetError> {
        let control = Arc::new(ControlDirectory::create()?);
        let jumps = Jumps::new(options.jump_window);
        Ok(Self { options, control, payloads: PayloadCell::default(), jumps })
    }

    async fn launch(
        &self,
        host: &Host,
        spec: &AgentSpec,
        freshness: Freshness,
        stage: &Stage,
    ) -> Result<Launched, LaunchError> {
        stage.set("reading the executable");
        let payloads = self.payloads.get(host, spec).await?;
        stage.set("connecting with ssh");
        let master = Master::connect(&self.options, &self.control, host).await?;
        let bootstrap = Bootstrap::new(host, spec, &payloads, freshness, stage);
        let shell = channel::open(host, master, &format!("exec {}", bootstrap.line())).await?;
        bootstrap.run(shell).await.map_err(|error| match error {
            BootstrapError::Launch(error) => error,
            BootstrapError::NoAnswer(LastWords { ended, said }) => {
                let detail = format!("the login shell did not run our probe ({ended}): {said}");
                let hint = "check that a command such as `ssh HOST true` works there: restricted shells and forced commands do not";
                LaunchError::new(&host.name, LaunchErrorKind::Probe, detail, hint)
            }
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

    fn turn<'a>(&'a self, host: &'a Host) -> BoxFuture<'a, Option<OwnedSemaphorePermit>> {
        Box::pin(self.jumps.turn(&self.options, host))
    }

    fn can_replace(&self) -> bool {
        true
    }
}
