//! The agent as a real process, with workers that misbehave: whatever happens, each rank's end is told once, and nothing is
//! left.

#[path = "agent/lock.rs"]
mod lock;
#[path = "agent/nccl.rs"]
mod nccl;
mod support;
#[path = "agent/worker_command.rs"]
mod worker_command;

use std::{
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use gdrtune_node::agent::{EXIT_BROKEN_STREAM, EXIT_CLIENT_LOST, EXIT_MISMATCH};
use gdrtune_profiles::vocab::Environment;
use gdrtune_wire::{
    DeviceUser, EndCause, FromAgent, FromWorker, GroupId, PROTOCOL, Settings, StartGroup, ToAgent, ToWorker, UsedDevice,
};
use rustix::process::{Pid, Signal, kill_process};
use support::{Agent, Builder, PROGRAM, hello, script, start, wait_until, write_script};

const LOST: i32 = EXIT_CLIENT_LOST as i32;
const MISMATCH: i32 = EXIT_MISMATCH as i32;
const BROKEN: i32 = EXIT_BROKEN_STREAM as i32;

/// Workers of every stubborn kind: deaf to `SIGTERM`, with a child in another session that has one in a third, with an
/// orphaned one, and one that does not read.
const STUBBORN: &str = "0=ignore-term+nested+daemon+hang-at-start;1=ignore-term+hang-at-start;2=never-read";

fn agent_with_stubborn_workers(builder: Builder) -> Agent {
    let mut agent = builder.connect();
    agent.start_group(1, &[0, 1, 2], STUBBORN);
    let mut awaited = vec!["sleeper ready", "sleeper ready", "sleeper ready", "hanging", "hanging", "deaf"];
    while !awaited.is_empty() {
        let line = agent.wait_for(|message| match message {
            FromAgent::Worker { message: FromWorker::Output(line), .. } => Some(line.clone()),
            _ => None,
        });
        let at = awaited.iter().position(|text| *text == line).unwrap_or_else(|| panic!("{line}"));
        awaited.remove(at);
    }
    assert_eq!(agent.marked_processes().len(), 8, "agent, watchdog, three workers, three sleepers");
    agent
}

#[test]
fn answers_and_shuts_down() {
    let mut agent = Builder::new().env("NCCL_FIXTURE", "1").connect();
    agent.send(&ToAgent::Ping(41));
    assert_eq!(agent.next(), FromAgent::Pong(41));
    agent.send(&ToAgent::Inventory);
    let FromAgent::Inventory(inventory) = agent.next() else { panic!("no inventory") };
    assert_eq!(inventory.site_env.get("NCCL_FIXTURE"), Some("1"));
    agent.send(&ToAgent::Hello(hello("fixture", PROTOCOL)));
    assert!(matches!(agent.next(), FromAgent::Refused { .. }));
    agent.send(&ToAgent::Shutdown);
    assert_eq!((agent.exit_code(), agent.rest()), (0, vec![]));
}

/// Every user's processes, by way of a program that is found in the agent's own `PATH`.
#[test]
fn users_of_gpus_are_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let text = "#!/bin/sh\ncase \"$1\" in --query-gpu=*) echo '0, GPU-a, H200';; *) echo \"$PPID, GPU-a, own, 1 MiB\"; echo '4294967, GPU-a, job, 1 MiB';; esac\n";
    write_script(&folder.path().join("nvidia-smi"), text);
    let path = format!("{}:/usr/bin:/bin", folder.path().display());
    let mut agent = Builder::new().env("PATH", &path).connect();
    agent.send(&ToAgent::Inventory);
    let FromAgent::Inventory(inventory) = agent.next() else { panic!("no inventory") };
    let mut users = inventory.device_users;
    users.retain(|user| user.devices.contains(&UsedDevice::Gpu(0)));
    let job = DeviceUser {
        pid: 4_294_967,
        user: String::new(),
        command: "job".to_owned(),
        devices: vec![UsedDevice::Gpu(0)],
    };
    assert_eq!(users, [job], "the agent itself is no user");
    agent.send(&ToAgent::Shutdown);
    assert_eq!((agent.exit_code(), agent.rest()), (0, vec![]));
}

/// No trial and no profile switches on what the node has switched off.
#[test]
fn a_setting_that_the_node_forces_starts_no_worker() {
    let mut agent = Builder::new().env("NCCL_NVLS_ENABLE", "0").connect();
    let settings = |value: &str| Settings::Live(Environment::new().with("NCCL_NVLS_ENABLE", value));
    let with = |settings, group| ToAgent::Start(StartGroup { settings, ..start(group, &[0], "") });
    agent.send(&with(settings("1"), 1));
    let text = b"NCCL_NVLS_ENABLE=1\n".to_vec();
    agent.send(&ToAgent::StoreFiles { bundle: 7, files: vec![("profile.env".to_owned(), text)] });
    agent.send(&with(Settings::Deployed { bundle: 7 }, 2));
    for group in [1, 2] {
        let ends = agent.ends(group, 1);
        assert!(
            matches!(&ends[..], [EndCause::NotStarted(why)] if why.starts_with("`NCCL_NVLS_ENABLE` is 0")),
            "{ends:?}"
        );
    }
    agent.send(&with(settings("0"), 3));
    agent.wait_for(|message| matches!(message, FromAgent::Worker { group: GroupId(3), .. }).then_some(()));
    agent.send(&ToAgent::Shutdown);
    assert_eq!(agent.exit_code(), 0);
}

#[test]
fn a_stranger_is_told_who_we_are_and_left() {
    for first in [
        ToAgent::Hello(hello("other build", PROTOCOL)),
        ToAgent::Hello(hello("fixture", PROTOCOL + 1)),
        ToAgent::Start(start(1, &[0], "")),
    ] {
        let mut agent = Builder::new().start();
        agent.send(&first);
        let own = agent.next();
        assert!(matches!(&own, FromAgent::Hello(own) if own.build_id == "fixture"), "{own:?}");
        assert_eq!((agent.exit_code(), agent.rest()), (MISMATCH, vec![]), "{first:?}");
    }
    let mut agent = Builder::new().start();
    agent.send_bytes(b"ssh: some banner instead of frames");
    assert!(matches!(agent.next(), FromAgent::Hello(_)));
    assert_eq!(agent.exit_code(), MISMATCH);
}

#[test]
fn a_group_runs_from_start_to_quit() {
    let mut agent = Builder::new().connect();
    agent.connect_group(1, &[0, 3], "");
    agent.pass_on(1, script(9, &[60_000, 60_000]));
    let mut items = [vec![], vec![]];
    let mut done = 0;
    while done < 2 {
        match agent.next() {
            FromAgent::Worker { message: FromWorker::ScriptDone { script: 9 }, .. } => done += 1,
            FromAgent::Worker { rank, message: FromWorker::Item { script: 9, item, .. }, .. } => {
                items[usize::from(rank == 3)].push(item);
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(items, [[0, 1], [0, 1]]);
    agent.pass_on(1, ToWorker::Quit);
    assert_eq!(agent.ends(1, 2), [EndCause::Finished, EndCause::Finished]);

    // The number is free again.
    agent.start_group(1, &[0], "");
    agent.send(&ToAgent::Stop(GroupId(1)));
    assert_eq!(agent.ends(1, 1), [EndCause::Stopped]);
    agent.send(&ToAgent::Shutdown);
    assert_eq!((agent.exit_code(), agent.rest()), (0, vec![]));
}

#[test]
fn end_of_input_ends_everything() {
    let mut agent = agent_with_stubborn_workers(Builder::new());
    agent.close_stdin();
    assert_eq!(agent.ends(1, 3), [EndCause::Stopped, EndCause::Stopped, EndCause::Stopped]);
    assert_eq!(agent.exit_code(), LOST);
    assert_eq!(agent.marked_processes(), Vec::<i32>::new(), "all are gone before the agent is");
}

#[test]
fn a_signal_ends_everything() {
    for (signal, code) in [(Signal::TERM, 143), (Signal::HUP, 129), (Signal::INT, 130)] {
        let mut agent = Builder::new().connect();
        agent.start_group(1, &[0], "0=ignore-term+session+hang-at-start");
        agent.wait_for_line("sleeper ready");
        agent.signal(signal);
        assert_eq!(agent.ends(1, 1), [EndCause::Stopped]);
        assert_eq!(agent.exit_code(), code);
        assert_eq!(agent.marked_processes(), Vec::<i32>::new());
    }
}

#[test]
fn a_killed_agent_leaves_no_worker() {
    let mut agent = Builder::new().connect();
    agent.start_group(1, &[0, 1, 2], "0=ignore-term+hang-at-start;1=never-read;2=hang-at-start");
    for _ in 0..2 {
        agent.wait_for_line("hanging");
    }
    agent.signal(Signal::KILL);
    assert_eq!(agent.exit_code(), -9);
    agent.assert_nothing_left();
}

/// It is no stuck one only because nothing happens for longer than the limit.
#[test]
fn a_stopped_agent_is_killed_and_leaves_no_worker() {
    let limit = Duration::from_millis(1200);
    let mut agent = Builder::new().env("FIXTURE_STUCK_MS", &limit.as_millis().to_string()).connect();
    agent.start_group(1, &[0, 1, 2], "0=ignore-term+hang-at-start;1=never-read;2=hang-at-start");
    for _ in 0..2 {
        agent.wait_for_line("hanging");
    }
    thread::sleep(limit * 2);
    agent.send(&ToAgent::Ping(7));
    agent.wait_for(|message| (*message == FromAgent::Pong(7)).then_some(()));
    agent.signal(Signal::STOP);
    assert_eq!(agent.exit_code(), -9);
    agent.assert_nothing_left();
}

#[test]
fn an_agent_without_its_watchdog_works_on() {
    let mut agent = Builder::new().env("FIXTURE_STUCK_MS", "600").connect();
    let own = agent.pid().as_raw_nonzero().get();
    let watchdog = agent.marked_processes().into_iter().find(|pid| *pid != own).unwrap();
    kill_process(Pid::from_raw(watchdog).unwrap(), Signal::KILL).unwrap();
    wait_until("it is told", || agent.log().contains("the watchdog is gone"));
    agent.start_group(1, &[0], "0=exit");
    assert_eq!(agent.ends(1, 1), [EndCause::Exit(3)]);
    agent.send(&ToAgent::Shutdown);
    assert_eq!((agent.exit_code(), agent.marked_processes()), (0, vec![]));
    assert_eq!(agent.log().matches("the watchdog is gone").count(), 1);
}

#[test]
fn silence_ends_everything() {
    let mut agent = agent_with_stubborn_workers(Builder::new().env("FIXTURE_SILENCE_MS", "3000"));
    assert_eq!((agent.exit_code(), agent.marked_processes()), (LOST, vec![]));
    assert!(agent.log().contains("ending: client silent for 3s"));

    let mut agent = Builder::new().env("FIXTURE_SILENCE_MS", "50").start();
    assert_eq!((agent.exit_code(), agent.rest()), (LOST, vec![]), "a client that never says hello");
}

#[test]
fn pings_keep_an_agent_alive() {
    let mut agent = Builder::new().env("FIXTURE_SILENCE_MS", "1000").connect();
    for number in 0..12 {
        agent.send(&ToAgent::Ping(number));
        assert_eq!(agent.next(), FromAgent::Pong(number));
        thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(agent.exit_code(), LOST);
}

#[test]
fn a_client_that_never_reads_cannot_keep_workers() {
    let (mut agent, unread) = Builder::new().env("FIXTURE_SILENCE_MS", "1000").start_unread();
    agent.send(&ToAgent::Hello(hello("fixture", PROTOCOL)));
    agent.start_group(1, &[0, 1], "0=frame-flood+ignore-term;1=stderr-flood+ignore-term");
    // It goes on saying that it lives.
    while agent.try_send(&ToAgent::Ping(1)) {
        thread::sleep(Duration::from_millis(20));
    }
    assert_eq!((agent.exit_code(), agent.marked_processes()), (LOST, vec![]));
    // Which limit comes first depends on how fast the workers flood: the time without a read, or the bytes that wait.
    let causes = ["ending: client has read nothing for 1s", "ending: lost the client: the reader does not keep up"];
    assert!(causes.iter().any(|cause| agent.log().contains(cause)), "{}", agent.log());
    drop(unread);
}

#[test]
fn a_rank_that_hangs_before_connecting_meets_the_deadline() {
    for (plan, during) in [
        ("1=hang-at-start", "starting, before its bootstrap"),
        ("1=hang-in-connect+ignore-term", "connecting to the other ranks"),
    ] {
        let mut agent = Builder::new().connect();
        let mut group = start(1, &[0, 1], plan);
        group.deadline_ms = 1500;
        agent.send(&ToAgent::Start(group));
        if plan.contains("connect") {
            agent.wait_for_each(1, &[0, 1], |message| matches!(message, FromWorker::Bootstrap(_)));
            agent.pass_on(1, ToWorker::Connect { peers: vec![] });
        }
        assert_eq!(agent.ends(1, 2), [EndCause::PeerEnded, EndCause::Deadline { during: during.to_owned() }]);
        assert_eq!(agent.marked_processes().len(), 2, "the agent and its watchdog alone");
    }
}

#[test]
fn a_rank_that_hangs_in_an_item_meets_its_lease() {
    let mut agent = Builder::new().connect();
    agent.connect_group(1, &[0, 1, 2], "0=hang-at-item:1+ignore-term+nested;2=hang-at-item:2");
    agent.pass_on(1, script(5, &[60_000, 1000, 60_000]));
    let during = "measuring allreduce 1K with the engine's own choice (item 2 of 3, script 5)".to_owned();
    assert_eq!(agent.ends(1, 3), [EndCause::Deadline { during }, EndCause::PeerEnded, EndCause::PeerEnded]);
    assert_eq!(agent.marked_processes().len(), 2, "the agent and its watchdog alone");
}

#[test]
fn a_rank_that_does_not_quit_is_ended() {
    let mut agent = Builder::new().connect();
    agent.connect_group(1, &[0, 1], "1=deaf-to-quit+ignore-term");
    agent.pass_on(1, ToWorker::Quit);
    assert_eq!(agent.ends(1, 1), [EndCause::Finished]);
    agent.send(&ToAgent::Stop(GroupId(1)));
    assert_eq!(agent.ends(1, 1), [EndCause::Stopped]);
}

#[test]
fn a_rank_that_dies_takes_its_peers_along() {
    for (plan, cause, last_words) in [
        ("0=hang-at-start;1=exit", EndCause::Exit(3), Some("last words")),
        ("0=hang-at-start;1=crash", EndCause::Signal(6), Some("about to crash")),
        ("0=hang-at-start+ignore-term;1=garbage", EndCause::Signal(15), None),
    ] {
        let mut agent = Builder::new().connect();
        agent.start_group(1, &[0, 1], plan);
        let mut said = vec![];
        let end = agent.wait_for(|message| match message {
            FromAgent::Worker { rank: 1, message, .. } => {
                said.push(message.clone());
                None
            }
            FromAgent::WorkerEnded { rank: 1, cause, .. } => Some(cause.clone()),
            _ => None,
        });
        assert_eq!(end, cause, "{plan}");
        match last_words {
            Some(words) => assert_eq!(said, [FromWorker::Output(words.to_owned())]),
            None => assert!(said.iter().any(|message| matches!(message, FromWorker::Failed(_))), "{said:?}"),
        }
        agent.send(&ToAgent::Shutdown);
        assert_eq!(agent.exit_code(), 0);
        // Rank 0 may have been told before rank 1; either way it is told once.
        assert_eq!(agent.marked_processes(), Vec::<i32>::new());
    }
}

#[test]
fn peers_of_a_dead_rank_are_told_once() {
    let mut agent = Builder::new().connect();
    agent.connect_group(1, &[0, 1, 2], "1=exit-at-item:0;0=hang-at-item:0+ignore-term;2=hang-at-item:0");
    agent.pass_on(1, script(1, &[60_000]));
    assert_eq!(agent.ends(1, 3), [EndCause::PeerEnded, EndCause::Exit(3), EndCause::PeerEnded]);
    agent.pass_on(1, ToWorker::Quit);
    assert!(matches!(agent.next(), FromAgent::Refused { .. }), "nothing is said twice");
}

#[test]
fn two_groups_are_strangers_to_each_other() {
    let mut agent = Builder::new().connect();
    agent.connect_group(1, &[0, 1], "0=ignore-term+daemon");
    agent.connect_group(2, &[0, 1], "");
    agent.start_group(2, &[0], "");
    let refused = agent.wait_for(|message| match message {
        FromAgent::Refused { why } => Some(why.clone()),
        _ => None,
    });
    assert_eq!(refused, "start group 2: it runs already");

    agent.send(&ToAgent::Stop(GroupId(1)));
    assert_eq!(agent.ends(1, 2), [EndCause::Stopped, EndCause::Stopped]);
    agent.pass_on(2, script(1, &[60_000]));
    agent.wait_for_each(2, &[0, 1], |message| *message == FromWorker::ScriptDone { script: 1 });
    agent.send(&ToAgent::Shutdown);
    assert_eq!(agent.ends(2, 2), [EndCause::Stopped, EndCause::Stopped]);
    assert_eq!((agent.exit_code(), agent.rest()), (0, vec![]));
}

#[test]
fn files_are_stored_and_workers_start_from_them() {
    let mut agent = Builder::new().env("FIXTURE_SHOWN", "site").connect();
    for name in ["../evil", "/etc/evil", "..", "a/b", "nul\0"] {
        let files = vec![("fine".to_owned(), vec![]), (name.to_owned(), vec![])];
        agent.send(&ToAgent::StoreFiles { bundle: 1, files });
        let answer = agent.next();
        assert!(matches!(&answer, FromAgent::Refused { why } if why.contains("plain file name")), "{answer:?}");
    }
    assert_eq!(agent.temporary_files(), 0);

    let files = vec![("profile.env".to_owned(), b"# rules\nFIXTURE_SHOWN=a b=c\n".to_vec())];
    agent.send(&ToAgent::StoreFiles { bundle: 4, files });
    assert_eq!(agent.next(), FromAgent::FilesStored { bundle: 4 });

    for (settings, shown, folder) in [
        (Settings::Deployed { bundle: 4 }, "a b=c", "--ab "),
        (Settings::Live(Environment::new().with("FIXTURE_SHOWN", "live")), "live", ""),
        (Settings::Site, "site", ""),
    ] {
        let mut group = start(1, &[0], "");
        group.settings = settings;
        agent.send(&ToAgent::Start(group));
        let introduction = agent.wait_for(|message| match message {
            FromAgent::Worker { message: FromWorker::Bootstrap(bytes), .. } => String::from_utf8(bytes.clone()).ok(),
            _ => None,
        });
        let expected = format!("0/1 native shown={shown} args=worker {folder}");
        assert!(introduction.starts_with(expected.trim_end()), "{introduction}");
        agent.send(&ToAgent::Stop(GroupId(1)));
        agent.ends(1, 1);
    }
    agent.close_stdin();
    assert_eq!((agent.exit_code(), agent.temporary_files()), (LOST, 0));
}

#[test]
fn what_cannot_be_started_is_told_for_each_rank() {
    let not_started = |why: &str| EndCause::NotStarted(why.to_owned());
    let mut agent = Builder::new().connect();
    let mut unknown_bundle = start(1, &[0, 1], "");
    unknown_bundle.settings = Settings::Deployed { bundle: 7 };
    let mut bad_name = start(1, &[0, 1], "");
    bad_name.settings = Settings::Live(Environment::new().with("A=B", "1"));
    let mut outside = start(1, &[0, 1], "");
    outside.world = 1;
    for (group, why) in [
        (unknown_bundle, "bundle 7 was never stored"),
        (bad_name, "`A=B` is no variable name: use letters, digits and underscores"),
        (outside, "rank 1 is outside a group of 1"),
        (start(1, &[0, 1, 0], ""), "ranks [0, 1, 0] name one twice"),
    ] {
        agent.send(&ToAgent::Start(group));
        assert_eq!(agent.ends(1, 2), [not_started(why), not_started(why)]);
    }
    agent.start_group(1, &[], "");
    assert!(matches!(agent.next(), FromAgent::Refused { .. }));

    let mut agent = Builder::new().env("FIXTURE_PROGRAM", "/nowhere/gdrtune").connect();
    agent.start_group(1, &[0], "");
    assert_eq!(agent.ends(1, 1), [not_started("start /nowhere/gdrtune: No such file or directory (os error 2)")]);
}

#[test]
fn a_flood_on_stderr_is_cut_but_ends_with_its_last_line() {
    let mut agent = Builder::new().connect();
    agent.start_group(1, &[0], "0=stderr-flood+exit");
    let mut lines = vec![];
    agent.wait_for(|message| match message {
        FromAgent::Worker { message: FromWorker::Output(line), .. } => {
            lines.push(line.clone());
            None
        }
        FromAgent::WorkerEnded { .. } => Some(()),
        _ => None,
    });
    assert_eq!(lines.last().map(String::as_str), Some("last words"));
    assert_eq!(lines[lines.len() - 2], "flood ends");
    assert!(lines.len() < 20_000, "{} of 100001 lines came through", lines.len());
}

#[test]
fn a_broken_stream_ends_everything() {
    let mut agent = Builder::new().connect();
    agent.start_group(1, &[0], "0=hang-at-start+ignore-term");
    agent.wait_for_line("hanging");
    agent.send_bytes(&[0xff; 8]);
    assert_eq!(agent.ends(1, 1), [EndCause::Stopped]);
    assert_eq!((agent.exit_code(), agent.marked_processes()), (BROKEN, vec![]));
}

#[test]
fn background_jobs_of_a_login_shell_are_not_ours_to_kill() {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", "sleep 1000 </dev/null >/dev/null 2>&1 & exec \"$0\" agent", PROGRAM]);
    let mut agent = Builder::with_command(command, &[]).connect();
    agent.start_group(1, &[0], "0=exit+daemon");
    assert_eq!(agent.ends(1, 1), [EndCause::Exit(3)]);
    assert_eq!(agent.marked_processes().len(), 3, "the agent, its watchdog and the shell's job");
    agent.send(&ToAgent::Shutdown);
    assert_eq!(agent.exit_code(), 0);
    assert_eq!(agent.marked_processes().len(), 1, "the shell's job");
}

/// A parent that ignores its children's ends hands that down, and the kernel would reap workers behind our back.
#[test]
fn an_inherited_signal_disposition_hides_no_end() {
    // GNU coreutils' env; a shell does not hand an ignored SIGCHLD down.
    let mut command = Command::new("env");
    command.args(["--ignore-signal=CHLD,HUP,TERM", PROGRAM, "agent"]);
    let mut agent = Builder::with_command(command, &[]).connect();
    agent.start_group(1, &[0], "0=exit");
    assert_eq!(agent.ends(1, 1), [EndCause::Exit(3)]);
    agent.signal(Signal::TERM);
    assert_eq!(agent.exit_code(), 143);
}

#[test]
fn standard_input_and_output_may_be_closed() {
    let status = Command::new("/bin/sh")
        .args(["-c", "exec \"$0\" agent <&- >&-", PROGRAM])
        .stderr(Stdio::null())
        .status()
        .unwrap();
    assert_eq!(status.code(), Some(LOST));
}
