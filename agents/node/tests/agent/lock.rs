//! The node's lock as clients see it, and what killed agents leave.

use std::{fs, path::Path};

use gdrtune_wire::{FromAgent, LockOutcome, LockRequest, ToAgent};
use rustix::process::Signal;

use crate::support::{Agent, Builder, wait_until};

fn request(client: u64) -> ToAgent {
    ToAgent::Lock(LockRequest { run: format!("run {client}"), client, shared: false })
}

fn agent(lock: &Path) -> Agent {
    Builder::new().env("GDRTUNE_LOCK_DIR", &lock.display().to_string()).connect()
}

fn ask(agent: &mut Agent, client: u64) -> LockOutcome {
    agent.send(&request(client));
    agent.wait_for(|message| match message {
        FromAgent::Lock(outcome) => Some(outcome.clone()),
        _ => None,
    })
}

/// Process ids of those who keep a client out.
fn holders(agent: &mut Agent, client: u64) -> Vec<i32> {
    match ask(agent, client) {
        LockOutcome::InUse(holders) => {
            assert!(holders.iter().all(|holder| holder.run == "run 1"), "{holders:?}");
            let mut pids: Vec<i32> = holders.iter().map(|holder| holder.pid as i32).collect();
            pids.sort_unstable();
            pids
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn agents_of_one_client_share_the_node_and_keep_others_out() {
    let folder = tempfile::tempdir().unwrap();
    let mut ours = [agent(folder.path()), agent(folder.path())];
    for agent in &mut ours {
        assert_eq!(ask(agent, 1), LockOutcome::Held);
    }
    ours[0].send(&request(1));
    assert!(matches!(ours[0].next(), FromAgent::Refused { .. }), "once is enough");
    let mut other = agent(folder.path());
    let mut pids = ours.each_ref().map(|agent| agent.pid().as_raw_nonzero().get());
    pids.sort_unstable();
    assert_eq!(holders(&mut other, 2), pids);

    let [mut first, mut second] = ours;
    first.send(&ToAgent::Unlock);
    first.send(&ToAgent::Ping(1));
    assert_eq!(first.next(), FromAgent::Pong(1));
    assert_eq!(holders(&mut other, 2), [second.pid().as_raw_nonzero().get()]);
    second.send(&ToAgent::Shutdown);
    assert_eq!(second.exit_code(), 0);
    assert_eq!(ask(&mut other, 2), LockOutcome::Held);
    assert!(matches!(ask(&mut first, 1), LockOutcome::InUse(_)), "what was given back has to be asked for");
}

#[test]
fn a_killed_agent_keeps_nobody_out() {
    let folder = tempfile::tempdir().unwrap();
    let mut killed = agent(folder.path());
    assert_eq!(ask(&mut killed, 1), LockOutcome::Held);
    let mut other = agent(folder.path());
    assert_eq!(holders(&mut other, 2).len(), 1);
    killed.signal(Signal::KILL);
    assert_eq!(killed.exit_code(), -9);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "its file is still there");
    assert_eq!(ask(&mut other, 2), LockOutcome::Held);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "and is gone now");
}

#[test]
fn an_agent_that_ends_keeps_the_node_until_its_workers_are_gone() {
    let folder = tempfile::tempdir().unwrap();
    let lock = folder.path().to_str().unwrap();
    let mut ending = Builder::new().env("GDRTUNE_LOCK_DIR", lock).env("FIXTURE_GRACE_MS", "60000").connect();
    assert_eq!(ask(&mut ending, 1), LockOutcome::Held);
    ending.start_group(1, &[0], "0=ignore-term+hang-at-start");
    ending.wait_for_line("hanging");
    ending.close_stdin();
    wait_until("the agent knows", || ending.log().contains("ending: end of input"));
    let mut other = agent(folder.path());
    assert_eq!(holders(&mut other, 2).len(), 1);
    ending.signal(Signal::KILL);
    ending.assert_nothing_left();
}

#[test]
fn what_a_killed_agent_left_is_removed_by_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let temporary = folder.path().to_str().unwrap();
    let with_files = || {
        let mut agent = Builder::new().env("TMPDIR", temporary).connect();
        agent.send(&ToAgent::StoreFiles { bundle: 7, files: vec![("a".to_owned(), vec![1])] });
        agent.wait_for(|message| matches!(message, FromAgent::FilesStored { bundle: 7 }).then_some(()));
        agent
    };
    let count = || fs::read_dir(folder.path()).unwrap().count();
    fs::create_dir(folder.path().join("gdrtune-agent-notes")).unwrap();
    let mut killed = with_files();
    let living = with_files();
    assert_eq!(count(), 3);
    killed.signal(Signal::KILL);
    assert_eq!(killed.exit_code(), -9);
    let mut next = with_files();
    wait_until("it has looked", || next.log().contains("which a killed agent has left"));
    assert_eq!(count(), 3, "those of the living stay, and what only looks like one");
    for mut agent in [living, next] {
        agent.send(&ToAgent::Shutdown);
        assert_eq!(agent.exit_code(), 0);
    }
    assert_eq!(count(), 1);
}
