//! Agents through a command of the user's.
#![expect(clippy::unwrap_used, reason = "only tests use this")]

#[path = "support/messages.rs"]
mod messages;
#[path = "support/shell.rs"]
mod shell;

use std::{
    fs,
    path::Path,
    sync::mpsc::{Receiver, channel},
};

use gdrtune_fleet::{
    Fleet, FleetConfig, FleetEvent, LaunchErrorKind, LauncherKind, hosts::Host, launcher::LauncherCommand,
};
use messages::BUILD;
use shell::{agent_script, events_until, eventually, executable, processes, write_executable};

async fn connect(folder: &Path, extra: &str, command: &str, hosts: &[&str]) -> (Fleet, Receiver<FleetEvent>) {
    let agent = executable(folder, &agent_script(BUILD, extra));
    let kind = LauncherKind::Exec(LauncherCommand::parse(command).unwrap());
    let mut config = FleetConfig::new(BUILD, agent, kind);
    config.agent_env = vec![("GDRTUNE_X".to_owned(), "it's $HOME \\ !x".to_owned())];
    config.remote_folder = Some(folder.join("kept").display().to_string());
    let (sender, events) = channel();
    let hosts = hosts.iter().map(|host| Host::named(*host)).collect();
    (Fleet::connect(config, hosts, sender).await.unwrap(), events)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn words_and_lines_lead_to_agents() {
    for command in [
        "env WHERE={host} {agent}",
        // As ssh and its like do: the words are joined, and given to a shell.
        "env WHERE={host} sh -c 'exec sh -c \"$*\"' sh {agent_line}",
        "env WHERE={host} sh -c {agent_line}",
    ] {
        let folder = tempfile::tempdir().unwrap();
        let extra = "echo \"$WHERE has $GDRTUNE_X\" >&2";
        let (fleet, events) = connect(folder.path(), extra, command, &["n1", "n2"]).await;
        assert!(fleet.failures().is_empty(), "{command}: {:?}", fleet.failures());
        let mut missing = vec!["n1 has it's $HOME \\ !x", "n2 has it's $HOME \\ !x"];
        while !missing.is_empty() {
            let seen = events_until(&events, |event| matches!(event, FleetEvent::Log { .. }));
            let Some(FleetEvent::Log { line, .. }) = seen.last() else { unreachable!() };
            missing.retain(|wanted| wanted != line);
        }
        fleet.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_that_lead_to_no_agent_say_why() {
    for (command, expected) in [
        (
            "gdrtune-no-such-program {host} {agent}",
            "start the agent on n1: launcher command failed: gdrtune-no-such-program: No such file or directory (os error \
             2); check the first word of --launcher-cmd",
        ),
        (
            "sh -c 'echo no such pod: $0 >&2; exit 3' {host} {agent}",
            "start the agent on n1: launcher command failed: sh ended with exit code 3 and did not run our probe: no such \
             pod: n1; --launcher-cmd must start {agent} on the host, and hand its standard input and output on unchanged \
             (kubectl and docker need -i and no -t)",
        ),
        (
            // Without its input a shell reads no answer, and ends.
            "sh -c 'exec \"$@\" < /dev/null' {host} {agent}",
            "start the agent on n1: upload failed: ",
        ),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let (fleet, _events) = connect(folder.path(), "", command, &["n1"]).await;
        let [(0, error)] = fleet.failures() else { panic!("{command}: {:?}", fleet.failures()) };
        assert!(error.to_string().starts_with(expected), "{command}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_that_ends_at_once_is_not_taken_for_login_noise() {
    let folder = tempfile::tempdir().unwrap();
    let (fleet, _events) = connect(folder.path(), "echo boom >&2; exit 93", "env {agent}", &["n1"]).await;
    let [(0, error)] = fleet.failures() else { panic!("{:?}", fleet.failures()) };
    assert_eq!(error.kind, LaunchErrorKind::EndedEarly, "{error}");
    // Our own note of the upload comes another way than the agent's words: which is first is not promised.
    assert!(error.detail.contains("boom"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_is_asked_to_end_before_it_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let told = folder.path().join("told");
    let wrapper = folder.path().join("wrapper");
    // Outlives its agent until it is told.
    let text =
        format!("#!/bin/sh\ntrap 'echo told > {}; exit' TERM\n\"$@\"\nwhile :; do sleep 0.05; done\n", told.display());
    write_executable(&wrapper, &text);
    let (fleet, _events) = connect(folder.path(), "", &format!("{} {{agent}}", wrapper.display()), &["n1"]).await;
    assert!(fleet.failures().is_empty(), "{:?}", fleet.failures());
    fleet.shutdown().await;
    assert_eq!(fs::read_to_string(told).unwrap(), "told\n");
    let wrapper = wrapper.display().to_string();
    eventually("the end of the command", || !processes().iter().any(|(_, line)| line.contains(&wrapper)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_of_another_build_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let agent = executable(folder.path(), &agent_script("build-0", ""));
    let kind = LauncherKind::Exec(LauncherCommand::parse("env {agent}").unwrap());
    let mut config = FleetConfig::new(BUILD, agent, kind);
    config.remote_folder = Some(folder.path().display().to_string());
    let (sender, events) = channel();
    let fleet = Fleet::connect(config, vec![Host::named("n1")], sender).await.unwrap();
    let [(0, error)] = fleet.failures() else { panic!("{:?}", fleet.failures()) };
    assert_eq!(error.kind, LaunchErrorKind::BuildMismatch, "{error}");
    let again =
        events.try_iter().filter(|event| matches!(event, FleetEvent::Log { line, .. } if line.contains("again")));
    assert_eq!(again.count(), 1);
}
