//! The local launcher with real processes.

#[path = "support/messages.rs"]
mod messages;
#[path = "support/shell.rs"]
mod shell;

use std::sync::mpsc::channel;

use gdrtune_fleet::{Fleet, FleetConfig, FleetEvent, LaunchErrorKind, LauncherKind, hosts::Host};
use messages::BUILD;
use shell::{agent_script, events_until, eventually, executable, processes};

fn config(executable: impl Into<std::path::PathBuf>) -> FleetConfig {
    FleetConfig::new(BUILD, executable, LauncherKind::Local)
}

fn hosts() -> Vec<Host> {
    vec![Host::named("a"), Host::named("b")]
}

fn running(marker: &str) -> usize {
    processes().iter().filter(|(_, line)| line.contains(marker)).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn starts_and_ends_children() {
    let folder = tempfile::tempdir().unwrap();
    let script = agent_script(BUILD, "echo \"group $(ps -o pgid= -p $$) of $$ with $GDRTUNE_X $1\" >&2");
    let mut config = config(executable(folder.path(), &script));
    config.agent_env = vec![("GDRTUNE_X".to_owned(), "it's !".to_owned())];
    let (sender, events) = channel();
    let fleet = Fleet::connect(config, hosts(), sender).await.unwrap();
    assert!(fleet.failures().is_empty(), "{:?}", fleet.failures());
    let seen = events_until(&events, |event| matches!(event, FleetEvent::Log { .. }));
    let Some(FleetEvent::Log { line, .. }) = seen.last() else { unreachable!() };
    let words: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(words[1], words[3], "each agent leads its own process group: {line}");
    assert_eq!(words[5..], ["it's", "!", "agent"]);
    fleet.shutdown().await;
    assert_eq!(running(folder.path().to_str().unwrap()), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dropping_the_fleet_kills_deaf_children() {
    let folder = tempfile::tempdir().unwrap();
    let marker = folder.path().join("agent.sh").display().to_string();
    // After the introduction it neither reads nor ends.
    let script = agent_script(BUILD, "").replace("exec cat > /dev/null", "while test -e $0; do sleep 0.2; done");
    let (sender, _events) = channel();
    let fleet = Fleet::connect(config(executable(folder.path(), &script)), hosts(), sender).await.unwrap();
    assert!(fleet.failures().is_empty(), "{:?}", fleet.failures());
    // A child that is just forking a `sleep` shows up twice.
    assert!(running(&marker) >= 2);
    drop(fleet);
    eventually("the end of the children", || running(&marker) == 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_child_is_a_loss() {
    let folder = tempfile::tempdir().unwrap();
    let script = agent_script(BUILD, "").replace("exec cat > /dev/null", "kill -9 $$");
    let (sender, events) = channel();
    let _fleet = Fleet::connect(config(executable(folder.path(), &script)), hosts(), sender).await.unwrap();
    let seen = events_until(&events, |event| matches!(event, FleetEvent::Lost { .. }));
    let Some(FleetEvent::Lost { why, .. }) = seen.last() else { unreachable!() };
    assert_eq!(why, "its agent ended (signal 9)");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_run_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let plain = folder.path().join("plain");
    std::fs::write(&plain, "x").unwrap();
    for (path, kind) in [
        (folder.path().join("absent"), LaunchErrorKind::NotFound),
        (plain, LaunchErrorKind::NotExecutable),
        ("/bin/true".into(), LaunchErrorKind::EndedEarly),
    ] {
        let (sender, _events) = channel();
        let fleet = Fleet::connect(config(path), hosts(), sender).await.unwrap();
        let kinds: Vec<LaunchErrorKind> = fleet.failures().iter().map(|(_, error)| error.kind).collect();
        assert_eq!(kinds, [kind, kind]);
    }
}
