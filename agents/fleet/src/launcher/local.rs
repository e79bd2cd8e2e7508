//! Agents as children of this process: for the demo, for tests, and for a cluster of one machine.

use std::{io, process::Command};

use futures_util::future::BoxFuture;

use super::{
    AgentSpec, Freshness, Launched, Launcher, Stage,
    child::{self, Farewell},
};
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
        Box::pin(async move {
            let mut command = Command::new(&spec.executable);
            command.arg("agent").envs(spec.env.iter().map(|(name, value)| (name, value)));
            child::spawn(command, Farewell::Kill).map_err(|error| describe(host, spec, &error))
        })
    }
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
