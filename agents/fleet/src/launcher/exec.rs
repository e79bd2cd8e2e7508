//! Agents through a command of the user's, such as `kubectl exec -i {host} -- {agent}`. No shell runs it.

use std::{ffi::OsString, io, process::Command};

use futures_util::future::BoxFuture;
use gdrtune_wire::{Syntax, Template, TemplateError};

use super::{
    AgentSpec, Freshness, Launched, Launcher, Stage,
    bootstrap::{Bootstrap, BootstrapError, LastWords},
    child::{self, Farewell},
    payload::PayloadCell,
};
use crate::{
    error::{LaunchError, LaunchErrorKind},
    hosts::Host,
};

static SYNTAX: Syntax = Syntax {
    program: "agent",
    line: Some("agent_line"),
    others: &["host"],
    example: "kubectl exec -i {host} -- {agent}",
};

/// A command that runs a program on a host and hands its standard input and output on unchanged. `{agent}` is that program
/// with its arguments; `{agent_line}` is the same quoted as one text, for commands that give it to a shell; `{host}` is the
/// host's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LauncherCommand(Template);

impl LauncherCommand {
    /// Reads one line, as the user writes it.
    ///
    /// # Errors
    /// As [`Template::parse`].
    pub fn parse(text: &str) -> Result<Self, TemplateError> {
        Template::parse(text, &SYNTAX).map(Self)
    }

    /// Whether it leads to different hosts at all.
    pub fn names_host(&self) -> bool {
        self.0.uses("host")
    }

    fn program(&self) -> &str {
        self.0.words().first().map_or("", String::as_str)
    }
}

/// Starts agents by a command; uploads the executable where it is missing.
#[derive(Debug)]
pub struct ExecLauncher {
    command: LauncherCommand,
    payloads: PayloadCell,
}

impl ExecLauncher {
    /// A launcher by this command.
    pub fn new(command: LauncherCommand) -> Self {
        Self { command, payloads: PayloadCell::default() }
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
        stage.set("running the launcher command");
        let bootstrap = Bootstrap::new(host, spec, &payloads, freshness, stage);
        let words = expand(&self.command, host, &bootstrap.words(), &bootstrap.line());
        let program = self.command.program();
        let failure = |kind, detail: String, hint: &str| LaunchError::new(&host.name, kind, detail, hint);
        let [first, arguments @ ..] = &words[..] else {
            return Err(failure(LaunchErrorKind::Local, "the command has no words".to_owned(), "see --launcher-cmd"));
        };
        let mut command = Command::new(first);
        command.args(arguments);
        let child = child::spawn(command, Farewell::Ask).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied => failure(
                LaunchErrorKind::Command,
                format!("{program}: {error}"),
                "check the first word of --launcher-cmd",
            ),
            _ => failure(LaunchErrorKind::Local, format!("{program}: {error}"), "check the limits on processes"),
        })?;
        bootstrap.run(child).await.map_err(|error| match error {
            BootstrapError::Launch(error) => error,
            BootstrapError::NoAnswer(LastWords { ended, said }) => {
                let detail = format!("{program} ended with {ended} and did not run our probe: {said}");
                let hint = "--launcher-cmd must start {agent} on the host, and hand its standard input and output on \
                            unchanged (kubectl and docker need -i and no -t)";
                failure(LaunchErrorKind::Command, detail, hint)
            }
        })
    }
}

fn expand(command: &LauncherCommand, host: &Host, agent: &[String], line: &str) -> Vec<OsString> {
    let agent: Vec<OsString> = agent.iter().map(OsString::from).collect();
    command.0.expand(&agent, |name| if name == "host" { (&host.name).into() } else { line.into() })
}

impl Launcher for ExecLauncher {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_agent_goes_in_as_words_or_as_a_line() {
        let agent = ["sh", "-c", "a b"].map(str::to_owned);
        for (text, expected) in [
            ("kubectl exec -i {host} -- {agent}", &["kubectl", "exec", "-i", "pod-1", "--", "sh", "-c", "a b"][..]),
            ("tsh ssh {host} {agent_line}", &["tsh", "ssh", "pod-1", "LINE"]),
            ("cloud ssh {host} --command={agent_line}", &["cloud", "ssh", "pod-1", "--command=LINE"]),
        ] {
            let command = LauncherCommand::parse(text).unwrap();
            assert!(command.names_host());
            assert_eq!(expand(&command, &Host::named("pod-1"), &agent, "LINE"), expected, "{text}");
        }
        assert!(!LauncherCommand::parse("docker exec -i box {agent}").unwrap().names_host());
        let error = LauncherCommand::parse("kubectl exec -i {host}").unwrap_err().to_string();
        assert_eq!(error, "`{agent}` is missing: put it where the program to run goes");
    }
}
