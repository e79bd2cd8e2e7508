//! Workers as processes, with this test as their agent.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail the test")]

#[path = "support/items.rs"]
mod items;
#[path = "support/worker_process.rs"]
mod worker_process;

use std::{
    path::Path,
    time::{Duration, Instant},
};

use gdrtune_profiles::vocab::{Algorithm, Choice, Collective, Engine, Protocol};
use gdrtune_wire::{FromWorker, Item, ItemOutcome, Script, SessionKey, ToWorker, WorkerInit, codec::encode};
use items::LEASE_MS;
use worker_process::Worker;

fn init(rank: u32, world: u32) -> ToWorker {
    ToWorker::Init(WorkerInit {
        rank,
        world,
        nodes: 1,
        engine: Engine::Native,
        key: SessionKey([3; 32]),
        max_bytes: 1 << 20,
        deadline_ms: LEASE_MS,
        register_buffers: false,
        probe: None,
    })
}

fn item(bytes: u64) -> Item {
    Item { iterations: 5, ..items::item(Collective::AllReduce, bytes) }
}

#[test]
fn registered_buffers_are_refused_by_an_engine_that_has_none() {
    let ToWorker::Init(init) = init(0, 1) else { panic!() };
    let mut worker = Worker::start(&[], &[]);
    worker.send(&ToWorker::Init(WorkerInit { register_buffers: true, ..init }));
    assert_eq!(worker.failure(), "the native engine registers no buffers: NCCL does");
}

fn run(items: Vec<Item>) -> ToWorker {
    ToWorker::Run(Script { id: 9, items })
}

/// How one rank is started.
#[derive(Default, Clone, Copy)]
struct Rank<'a> {
    arguments: &'a [&'a str],
    variables: &'a [(&'a str, &'a str)],
}

/// A connected group.
fn group(ranks: &[Rank<'_>]) -> Vec<Worker> {
    let world = ranks.len() as u32;
    let mut workers: Vec<_> = ranks.iter().map(|rank| Worker::start(rank.arguments, rank.variables)).collect();
    let mut peers = Vec::new();
    for (rank, worker) in workers.iter_mut().enumerate() {
        worker.send(&init(rank as u32, world));
        let Some(FromWorker::Bootstrap(blob)) = worker.receive() else { panic!("no bootstrap") };
        peers.push(blob);
    }
    for worker in &mut workers {
        worker.send(&ToWorker::Connect { peers: peers.clone() });
    }
    for worker in &mut workers {
        assert!(matches!(worker.receive(), Some(FromWorker::Connected { setup_us: 1.., .. })));
    }
    workers
}

#[test]
fn a_script_runs_on_every_rank_while_a_library_prints() {
    let prints = Rank { variables: &[("FIXTURE_PRINTS", "1")], ..Rank::default() };
    let mut workers = group(&[prints, Rank::default()]);
    for worker in &mut workers {
        worker.send(&run(vec![item(1024), item(100_000)]));
        worker.send(&run(vec![]));
        worker.send(&ToWorker::Quit);
    }
    for worker in &mut workers {
        for index in 0..2 {
            let message = worker.receive();
            let is_expected = matches!(
                &message,
                Some(FromWorker::Item { script: 9, item, outcome: ItemOutcome::Timed(_) }) if *item == index
            );
            assert!(is_expected, "{message:?}");
        }
        assert_eq!(worker.receive(), Some(FromWorker::ScriptDone { script: 9 }));
        assert_eq!(worker.receive(), Some(FromWorker::ScriptDone { script: 9 }));
        assert_eq!(worker.receive(), None);
        assert!(worker.end().success());
    }
}

#[test]
fn the_end_of_the_input_ends_a_worker_that_is_stuck() {
    let mut workers = group(&[Rank::default(); 2]);
    // Rank 1 is never told to run: rank 0 waits for it.
    workers[0].send(&run(vec![item(1024)]));
    let started = Instant::now();
    drop(workers[0].to.take());
    assert_eq!(workers[0].receive(), None);
    assert!(workers[0].end().success());
    assert!(started.elapsed() < Duration::from_millis(LEASE_MS / 2));
}

#[test]
fn a_killed_peer_is_a_failure_that_names_it() {
    let mut workers = group(&[Rank::default(); 2]);
    workers[0].send(&run(vec![item(1024)]));
    workers[1].process.kill().unwrap();
    let failure = workers[0].failure();
    let expected = "rank 0 of 2, allreduce 1K with own choice: lost rank 1: ";
    let expected_early = "rank 0 of 2, prepare a script: no connection to rank 1";
    assert!(failure.starts_with(expected) || failure.starts_with(expected_early), "{failure}");
    assert_eq!(workers[0].end().code(), Some(1));
}

#[test]
fn a_lease_that_runs_out_is_a_failure() {
    let mut workers = group(&[Rank::default(); 2]);
    workers[0].send(&run(vec![Item { lease_ms: 50, ..item(1024) }]));
    let expected = "rank 0 of 2, allreduce 1K with own choice: ran out of time waiting for data of rank 1";
    assert_eq!(workers[0].failure(), expected);
}

#[test]
fn what_the_agent_should_not_send_is_a_failure() {
    for (bytes, expected) in [
        (encode(&ToWorker::Quit).unwrap(), "the agent sent something else than init"),
        (vec![255; 64], "read from the agent: frame of 4294967295 bytes is over the limit of 16777216"),
    ] {
        let mut worker = Worker::start(&[], &[]);
        worker.send_bytes(&bytes);
        assert_eq!(worker.failure(), expected);
        assert_eq!(worker.end().code(), Some(1));
    }
}

#[test]
fn settings_that_cannot_be_used_are_failures() {
    let text = init(0, 1);
    for (variable, value, expected) in [
        ("NCCL_SOCKET_IFNAME", "=no0", "NCCL_SOCKET_IFNAME==no0 cannot be used: no interface is left"),
        ("GDRTUNE_NATIVE_NSOCKS", "0", "GDRTUNE_NATIVE_NSOCKS=0 cannot be used: use 1 to 16"),
    ] {
        let mut worker = Worker::start(&[], &[(variable, value)]);
        worker.send(&text);
        let failure = worker.failure();
        assert!(failure.contains(expected), "{failure}");
    }
    let mut worker = Worker::start(&[], &[]);
    let ToWorker::Init(init) = text else { panic!() };
    worker.send(&ToWorker::Init(WorkerInit { engine: Engine::Replay, ..init }));
    assert_eq!(worker.failure(), "no engine replay runs in a worker of this build: use native or nccl");
}

fn write_bundle(folder: &Path, environment: &str, rules: &str) {
    std::fs::write(folder.join("profile.env"), environment).unwrap();
    std::fs::write(folder.join("nccl-tuner.csv"), rules).unwrap();
}

#[test]
fn a_deployed_folder_gives_the_rules() {
    let folder = tempfile::tempdir().unwrap();
    write_bundle(folder.path(), "NCCL_SOCKET_IFNAME==lo\n", "allreduce,0,4096,ring,simple,1,-1,2\n");
    let arguments = ["--ab", folder.path().to_str().unwrap()];
    let mut workers = group(&[Rank { arguments: &arguments, ..Rank::default() }; 2]);
    for worker in &mut workers {
        worker.send(&run(vec![item(1024)]));
    }
    let message = workers[0].receive();
    let Some(FromWorker::Item { outcome: ItemOutcome::Timed(times), .. }) = message else { panic!("{message:?}") };
    let ring = Choice { algorithm: Algorithm::Ring, protocol: Protocol::Simple, channels: 1 };
    assert_eq!(times.selected, Some(ring));
}

#[test]
fn a_deployed_folder_that_cannot_be_followed_is_a_failure() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["--ab", folder.path().to_str().unwrap()];
    for (environment, rules, expected) in [
        ("NCCL_SOCKET_IFNAME==eth9\n", "", "NCCL_SOCKET_IFNAME is =eth9 there, but =lo in this process"),
        ("", "allreduce,0,4096,rong,simple,1,-1,2\n", "nccl-tuner.csv:1: "),
    ] {
        write_bundle(folder.path(), environment, rules);
        let mut worker = Worker::start(&arguments, &[]);
        worker.send(&init(0, 1));
        let failure = worker.failure();
        assert!(failure.contains(expected), "{failure}");
    }
}

#[cfg(not(feature = "test-faults"))]
#[test]
fn a_fault_cannot_be_asked_for_in_production() {
    let variables = [("GDRTUNE_TEST_FAULT", "crash:*:*:*:0")];
    let mut workers = group(&[Rank { variables: &variables, ..Rank::default() }]);
    workers[0].send(&run(vec![item(1024)]));
    assert!(matches!(workers[0].receive(), Some(FromWorker::Item { outcome: ItemOutcome::Timed(_), .. })));
}

#[cfg(feature = "test-faults")]
mod faults {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    fn pair(fault: &str) -> Vec<Worker> {
        let variables = [("GDRTUNE_TEST_FAULT", fault)];
        let mut workers = group(&[Rank { variables: &variables, ..Rank::default() }; 2]);
        for worker in &mut workers {
            worker.send(&run(vec![Item { lease_ms: 300, ..item(1024) }]));
        }
        workers
    }

    #[test]
    fn a_wrong_result_is_found_on_the_rank_that_has_it() {
        let mut workers = pair("wrong:allreduce:*:*:1");
        let outcomes: Vec<_> = workers
            .iter_mut()
            .map(|worker| match worker.receive() {
                Some(FromWorker::Item { outcome: ItemOutcome::Wrong { elements, first }, .. }) => (elements, first),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(outcomes[0], (0, "right on this rank, wrong on another one".to_owned()));
        assert_eq!(outcomes[1].0, 1);
        assert!(outcomes[1].1.starts_with("element 0 of 256 on rank 1: expected "), "{}", outcomes[1].1);
        // The group is still of use.
        assert_eq!(workers[0].receive(), Some(FromWorker::ScriptDone { script: 9 }));
    }

    #[test]
    fn a_hang_costs_the_peer_its_lease() {
        let mut workers = pair("hang:allreduce:tree:ll:1");
        assert!(workers[0].failure().ends_with("ran out of time waiting for data of rank 1"));
        assert!(workers[1].process.try_wait().unwrap().is_none());
    }

    #[test]
    fn a_panic_is_a_failure_and_not_silence() {
        let mut workers = pair("panic:*:*:*:1");
        assert_eq!(workers[1].failure(), "the engine panicked: the fault that was asked for");
        assert_eq!(workers[1].end().code(), Some(1));
    }

    #[test]
    fn a_crash_is_seen_by_the_peer() {
        let mut workers = pair("crash:*:*:*:1");
        assert!(workers[0].failure().contains("lost rank 1: "));
        assert_eq!(workers[1].end().signal(), Some(6));
    }
}
