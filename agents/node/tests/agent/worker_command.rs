//! Workers that start through a command of the user's: what it is given, and that nothing of it is left.

use std::fs;

use gdrtune_profiles::vocab::{Engine, Environment};
use gdrtune_wire::{EndCause, FromAgent, FromWorker, GroupId, Settings, StartGroup, ToAgent};

use crate::{
    LOST,
    support::{Agent, Builder, start, write_script},
};

/// The fixture's words for who it is and how it was started.
fn introduction(agent: &mut Agent) -> String {
    agent.wait_for(|message| match message {
        FromAgent::Worker { message: FromWorker::Bootstrap(bytes), .. } => String::from_utf8(bytes.clone()).ok(),
        FromAgent::WorkerEnded { cause, .. } => panic!("{cause:?}"),
        _ => None,
    })
}

fn words(command: &[&str]) -> Vec<String> {
    command.iter().map(|word| (*word).to_owned()).collect()
}

#[test]
fn workers_start_through_a_command() {
    let folder = tempfile::tempdir().unwrap();
    let wrapper = folder.path().join("wrap me");
    let record = folder.path().join("record");
    // Writes down what it was given, and becomes the worker.
    let text = "#!/bin/sh\nfor word; do printf '<%s>\\n' \"$word\"; done >\"$RECORD.$1\"\ncat \"$4\" >\"$RECORD.$1.env\"\nstat -c %a \"$4\" \"$3\" >\"$RECORD.$1.modes\"\nshift 4\nexec \"$@\"\n";
    write_script(&wrapper, text);
    let path = format!("{}:/usr/bin:/bin", folder.path().display());
    let builder = Builder::new().env("PATH", &path).env("RECORD", record.to_str().unwrap()).env("NCCL_SITE", "a b");
    let mut agent = builder.env("FIXTURE_SHOWN", "site").connect();
    let files = vec![("profile.env".to_owned(), b"NCCL_DEPLOYED=1\n".to_vec())];
    agent.send(&ToAgent::StoreFiles { bundle: 4, files });
    assert_eq!(agent.next(), FromAgent::FilesStored { bundle: 4 });

    let mut group = start(1, &[3, 5], "");
    group.settings = Settings::Deployed { bundle: 4 };
    group.worker_command = words(&["wrap me", "{rank}", "l={local_rank}", "{dir}", "{env}", "{worker}"]);
    agent.send(&ToAgent::Start(group));
    for _ in 0..2 {
        assert!(introduction(&mut agent).contains("args=worker --ab "));
    }
    for (local_rank, rank) in [3, 5].into_iter().enumerate() {
        let read = |suffix: &str| fs::read_to_string(format!("{}.{rank}{suffix}", record.display())).unwrap();
        let given = read("");
        let lines: Vec<&str> = given.lines().map(|line| &line[1..line.len() - 1]).collect();
        let [r, l, dir, env, program, "worker", "--ab", bundle] = lines[..] else { panic!("{given}") };
        assert_eq!((r, l), (rank.to_string().as_str(), format!("l={local_rank}").as_str()));
        assert_eq!(program, format!("{dir}/gdrtune"));
        assert!(env.starts_with(&format!("{dir}/rank-{rank}.")) && bundle.starts_with(&format!("{dir}/")), "{given}");
        assert_eq!(read(".env"), "NCCL_DEPLOYED=1\nNCCL_SITE=a b\n");
        assert_eq!(read(".modes"), "600\n700\n");
    }
    agent.send(&ToAgent::Stop(GroupId(1)));
    agent.ends(1, 2);

    let mut group = start(1, &[0], "");
    group.worker_command = words(&["env", "-u", "FIXTURE_SHOWN", "{worker}"]);
    agent.send(&ToAgent::Start(group));
    let said = introduction(&mut agent);
    assert!(said.starts_with("0/1 native shown= args=worker"), "{said}");
    agent.close_stdin();
    assert_eq!((agent.exit_code(), agent.temporary_files()), (LOST, 0));
}

#[test]
fn the_env_file_has_all_that_the_agent_tells_a_rank_of_nccl() {
    let folder = tempfile::tempdir().unwrap();
    let (wrapper, given) = (folder.path().join("wrap"), folder.path().join("given"));
    write_script(&wrapper, "#!/bin/sh\ncat \"$1\" >\"$RECORD\"\nshift\nexec \"$@\"\n");
    let builder = Builder::new().env("RECORD", given.to_str().unwrap()).env("GDRTUNE_TUNER_PLUGIN", "/p.so");
    let mut agent = builder.connect();
    let files = vec![
        ("profile.env".to_owned(), b"NCCL_DEPLOYED=1\n".to_vec()),
        ("nccl-tuner.csv".to_owned(), b"allreduce,0,1,ring,ll,1\n".to_vec()),
    ];
    agent.send(&ToAgent::StoreFiles { bundle: 4, files });
    assert_eq!(agent.next(), FromAgent::FilesStored { bundle: 4 });
    let live = Settings::Live(Environment::new().with("NCCL_ALGO", "Tree"));
    let log = "{dir}/logs-1.N/rank-0.log";
    for (group, settings, expected) in [
        (
            1,
            live,
            vec![
                "GDRTUNE_LOCAL_RANK=0".to_owned(),
                format!("GDRTUNE_NCCL_LOG={log}"),
                "GDRTUNE_TUNER_PLUGIN=/p.so".to_owned(),
                "NCCL_ALGO=Tree".to_owned(),
                "NCCL_DEBUG=INFO".to_owned(),
                format!("NCCL_DEBUG_FILE={log}"),
                "NCCL_DEBUG_SUBSYS=INIT,ENV,TUNING".to_owned(),
                "NCCL_TUNER_PLUGIN=/p.so".to_owned(),
            ],
        ),
        (
            2,
            Settings::Deployed { bundle: 4 },
            vec![
                "GDRTUNE_LOCAL_RANK=0".to_owned(),
                "GDRTUNE_RULES={dir}/4.N/nccl-tuner.csv".to_owned(),
                "NCCL_DEPLOYED=1".to_owned(),
                "NCCL_TUNER_PLUGIN=/p.so".to_owned(),
            ],
        ),
    ] {
        let plain = start(group, &[0], "");
        let through = words(&[wrapper.to_str().unwrap(), "{env}", "{worker}"]);
        agent.send(&ToAgent::Start(StartGroup { engine: Engine::Nccl, settings, worker_command: through, ..plain }));
        introduction(&mut agent);
        let text = fs::read_to_string(&given).unwrap();
        assert_eq!(text.lines().map(in_own_folder).collect::<Vec<_>>(), expected);
    }
}

/// The line with `{dir}` for the agent's folder, and `N` for the number that makes a folder in it new.
fn in_own_folder(line: &str) -> String {
    let shown = || {
        let (name, path) = line.split_once('=')?;
        let (_, below) = path.split_once("/gdrtune-agent-")?;
        let (_, inside) = below.split_once('/')?;
        let (folder, file) = inside.split_once('/')?;
        let (folder, _) = folder.rsplit_once('.')?;
        Some(format!("{name}={{dir}}/{folder}.N/{file}"))
    };
    shown().unwrap_or_else(|| line.to_owned())
}

#[test]
fn a_command_around_a_worker_ends_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let wrapper = folder.path().join("around");
    write_script(&wrapper, "#!/bin/sh\ntrap '' TERM\n\"$@\"\nexit $?\n");
    let command = words(&[wrapper.to_str().unwrap(), "{worker}"]);
    let mut agent = Builder::new().connect();
    let mut group = start(1, &[0, 1], "0=hang-at-start+ignore-term+nested;1=hang-at-start");
    group.worker_command.clone_from(&command);
    group.deadline_ms = 1500;
    agent.send(&ToAgent::Start(group));
    let during = EndCause::Deadline { during: "starting, before its bootstrap".to_owned() };
    let ends = agent.ends(1, 2);
    assert!(ends.contains(&during), "{ends:?}");
    assert_eq!(agent.marked_processes().len(), 2, "the agent and its watchdog alone");

    // Its own end is the worker's.
    for (plan, cause) in [("0=exit", EndCause::Exit(3)), ("0=crash", EndCause::Exit(134))] {
        let mut group = start(2, &[0], plan);
        group.worker_command.clone_from(&command);
        agent.send(&ToAgent::Start(group));
        assert_eq!(agent.ends(2, 1), [cause], "{plan}");
    }

    let mut group = start(3, &[0], "0=ignore-term");
    group.worker_command = command;
    agent.send(&ToAgent::Start(group));
    introduction(&mut agent);
    agent.close_stdin();
    assert_eq!((agent.exit_code(), agent.marked_processes()), (LOST, vec![]));
}

#[test]
fn a_command_that_cannot_run_says_why() {
    let mut agent = Builder::new().env("NCCL_BROKEN", "a\nb").connect();
    for (command, why) in [
        (
            &["no-such-container-tool", "{worker}"][..],
            "start no-such-container-tool: No such file or directory (os error 2) (first word of the worker command: \
             install it on this node, or write its path)",
        ),
        (&["env", "{wroker}"], "worker command: unknown placeholder `{wroker}`; did you mean `{worker}`?"),
        (
            &["env", "--file={env}", "{worker}"],
            "the value of `NCCL_BROKEN` has a line break, which no env file can hold",
        ),
    ] {
        let mut group = start(1, &[0, 1], "");
        group.worker_command = words(command);
        agent.send(&ToAgent::Start(group));
        let not_started = EndCause::NotStarted(why.to_owned());
        assert_eq!(agent.ends(1, 2), [not_started.clone(), not_started]);
    }
    let mut group = start(1, &[0], "");
    group.worker_command = words(&["false", "{worker}"]);
    agent.send(&ToAgent::Start(group));
    assert_eq!(agent.ends(1, 1), [EndCause::Exit(1)]);
}
