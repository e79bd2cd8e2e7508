//! The fleet over agents in memory, with paused time: heartbeats, losses, handshakes, the window.
#![expect(clippy::unwrap_used, reason = "only tests use this")]

#[path = "support/fake.rs"]
mod fake;
#[path = "support/messages.rs"]
mod messages;

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
        mpsc::{Receiver, channel},
    },
    time::Duration,
};

use fake::{Agent, Fake, Far, agent};
use gdrtune_fleet::{
    Fleet, FleetConfig, FleetError, FleetEvent, LaunchError, LaunchErrorKind, LauncherKind, SendError,
    hosts::Host,
    launcher::{Ended, Freshness},
};
use gdrtune_wire::{FromAgent, GroupId, HEARTBEAT, SILENCE_LIMIT, ToAgent, codec};
use messages::{BUILD, hello, inventory};
use tokio::{
    io::AsyncWriteExt,
    time::{Instant, sleep},
};

struct Setup {
    config: FleetConfig,
    alive: Arc<AtomicUsize>,
}

fn setup(agent: Agent) -> Setup {
    let alive = Arc::new(AtomicUsize::new(0));
    let fake = Fake { agent, can_replace: false, alive: Arc::clone(&alive) };
    Setup { config: FleetConfig::new(BUILD, "/unused", LauncherKind::Other(Arc::new(fake))), alive }
}

fn hosts(count: usize) -> Vec<Host> {
    (0..count).map(|index| Host::named(format!("n{index}"))).collect()
}

/// One agent; gives the fleet, its events and the count of agents alive.
async fn one(agent: Agent) -> (Fleet, Receiver<FleetEvent>, Arc<AtomicUsize>) {
    let setup = setup(agent);
    let (sender, events) = channel();
    (Fleet::connect(setup.config, hosts(1), sender).await.unwrap(), events, setup.alive)
}

fn failure(fleet: &Fleet) -> &LaunchError {
    let [(0, error)] = fleet.failures() else { panic!("{:?}", fleet.failures()) };
    error
}

fn losses(events: &Receiver<FleetEvent>) -> Vec<String> {
    events
        .try_iter()
        .filter_map(|event| if let FleetEvent::Lost { why, .. } = event { Some(why) } else { None })
        .collect()
}

#[tokio::test(start_paused = true)]
async fn talks_to_every_node_and_ends_them() {
    let Setup { config, alive } = setup(agent(Far::serve));
    let (sender, events) = channel();
    let fleet = Fleet::connect(config, hosts(3), sender).await.unwrap();
    assert!(fleet.failures().is_empty());
    let started: Vec<FleetEvent> = events.try_iter().collect();
    for node in 0..3 {
        assert!(started.contains(&FleetEvent::Connecting { node }));
        assert!(started.contains(&FleetEvent::Ready { node, hello: hello(BUILD), inventory: inventory() }));
    }
    fleet.send(1, &ToAgent::Stop(GroupId(5))).unwrap();
    fleet.broadcast(&ToAgent::Stop(GroupId(6))).unwrap();
    sleep(Duration::from_secs(1)).await;
    let answers: Vec<FleetEvent> = events.try_iter().collect();
    let refused = |node, group| FleetEvent::Message {
        node,
        message: FromAgent::Refused { why: format!("{:?}", GroupId(group)) },
    };
    for event in [refused(1, 5), refused(0, 6), refused(1, 6), refused(2, 6)] {
        assert!(answers.contains(&event), "{event:?} in {answers:?}");
    }
    assert_eq!(answers.len(), 4);
    assert!(matches!(fleet.send(3, &ToAgent::Shutdown), Err(SendError::NoSuchNode { node: 3, nodes: 3 })));
    let before = Instant::now();
    fleet.shutdown().await;
    assert!(before.elapsed() < Duration::from_secs(1));
    assert_eq!(alive.load(Ordering::SeqCst), 0);
    assert_eq!(events.iter().count(), 0, "a wanted end is no loss");
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_ignores_shutdown_is_ended_after_the_grace() {
    let deaf = agent(|mut far: Far| async move {
        far.introduce(BUILD).await;
        while far.hear().await.is_some() {}
        std::future::pending().await
    });
    let (fleet, events, alive) = one(deaf).await;
    let before = Instant::now();
    fleet.shutdown().await;
    assert!((Duration::from_secs(5)..Duration::from_secs(8)).contains(&before.elapsed()));
    assert_eq!((alive.load(Ordering::SeqCst), losses(&events).len()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn the_window_bounds_launches() {
    let peak = Arc::new(AtomicUsize::new(0));
    let now = Arc::new(AtomicUsize::new(0));
    let slow = {
        let (peak, now) = (Arc::clone(&peak), Arc::clone(&now));
        agent(move |mut far: Far| {
            let (peak, now) = (Arc::clone(&peak), Arc::clone(&now));
            async move {
                peak.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                sleep(Duration::from_secs(1)).await;
                now.fetch_sub(1, Ordering::SeqCst);
                far.introduce(BUILD).await;
                far.hear().await;
                Ended::Code(0)
            }
        })
    };
    let Setup { mut config, .. } = setup(slow);
    config.fanout = 4;
    let (sender, _events) = channel();
    let before = Instant::now();
    let fleet = Fleet::connect(config, hosts(10), sender).await.unwrap();
    assert!(fleet.failures().is_empty());
    assert_eq!((peak.load(Ordering::SeqCst), before.elapsed().as_secs()), (4, 3));
}

#[tokio::test(start_paused = true)]
async fn heartbeats_keep_a_quiet_agent() {
    let pings = Arc::new(Mutex::new(Vec::new()));
    let counting = {
        let pings = Arc::clone(&pings);
        agent(move |mut far: Far| {
            let pings = Arc::clone(&pings);
            async move {
                far.introduce(BUILD).await;
                while let Some(message) = far.hear_all().await {
                    if let ToAgent::Ping(number) = message {
                        pings.lock().unwrap().push(number);
                        far.say(&FromAgent::Pong(number)).await;
                    }
                }
                Ended::Code(0)
            }
        })
    };
    let (_fleet, events, alive) = one(counting).await;
    sleep(SILENCE_LIMIT * 10).await;
    assert!(losses(&events).is_empty());
    assert_eq!(alive.load(Ordering::SeqCst), 1);
    let expected = (SILENCE_LIMIT * 10).as_secs() / HEARTBEAT.as_secs();
    let pings = pings.lock().unwrap();
    assert!(pings.len() as u64 >= expected && pings.iter().copied().eq(0..pings.len() as u64), "{pings:?}");
}

#[tokio::test(start_paused = true)]
async fn silence_is_a_loss_once() {
    let silent = agent(|mut far: Far| async move {
        far.introduce(BUILD).await;
        while far.hear_all().await.is_some() {}
        std::future::pending().await
    });
    let (fleet, events, alive) = one(silent).await;
    sleep(SILENCE_LIMIT.checked_sub(Duration::from_millis(100)).unwrap()).await;
    assert!(losses(&events).is_empty());
    sleep(Duration::from_secs(20)).await;
    assert_eq!(losses(&events), ["nothing heard from it for 12 s"]);
    assert_eq!(alive.load(Ordering::SeqCst), 0);
    let error = fleet.send(0, &ToAgent::Shutdown).unwrap_err();
    assert_eq!(error.to_string(), "send to node 0 (n0): lost: nothing heard from it for 12 s");
    fleet.shutdown().await;
    assert!(losses(&events).is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_reads_nothing_does_not_stop_the_sender() {
    let stuck = agent(|mut far: Far| async move {
        far.introduce(BUILD).await;
        std::future::pending::<()>().await;
        drop(far);
        Ended::Code(0)
    });
    let (fleet, events, _alive) = one(stuck).await;
    for _ in 0..100 {
        let files = vec![("profile.env".to_owned(), vec![7; 10_000])];
        fleet.send(0, &ToAgent::StoreFiles { bundle: 1, files }).unwrap();
    }
    let huge = ToAgent::StoreFiles { bundle: 1, files: vec![(String::new(), vec![7; codec::MAX_FRAME])] };
    assert!(matches!(fleet.send(0, &huge), Err(SendError::Encode { .. })));
    sleep(SILENCE_LIMIT * 2).await;
    assert_eq!(losses(&events).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_end_is_a_loss_with_the_last_words() {
    let talking = agent(|mut far: Far| async move {
        far.introduce(BUILD).await;
        far.say(&FromAgent::Log("in frames".to_owned())).await;
        far.stderr.write_all(b"panicked at x.rs\nfor good").await.unwrap();
        Ended::Code(101)
    });
    let (_fleet, events, _alive) = one(talking).await;
    sleep(Duration::from_mins(1)).await;
    let seen: Vec<FleetEvent> = events.try_iter().collect();
    for line in ["in frames", "panicked at x.rs", "for good"] {
        assert!(seen.contains(&FleetEvent::Log { node: 0, line: line.to_owned() }), "{seen:?}");
    }
    let why = "its agent ended (exit code 101): panicked at x.rs / for good".to_owned();
    assert_eq!(seen.last(), Some(&FleetEvent::Lost { node: 0, why }));
}

#[tokio::test(start_paused = true)]
async fn nonsense_is_a_loss() {
    let nonsense = agent(|mut far: Far| async move {
        far.introduce(BUILD).await;
        far.stdout.write_all(&[0xff; 64]).await.unwrap();
        far.hear().await;
        std::future::pending().await
    });
    let (_fleet, events, alive) = one(nonsense).await;
    sleep(Duration::from_secs(30)).await;
    let losses = losses(&events);
    assert!(losses.len() == 1 && losses[0].starts_with("its agent sent nonsense: frame of 4294967295"), "{losses:?}");
    assert_eq!(alive.load(Ordering::SeqCst), 0);
}

#[tokio::test(start_paused = true)]
async fn another_build_is_an_error_that_names_both() {
    let (fleet, _events, alive) = one(agent(|mut far: Far| async move {
        far.introduce("build-0").await;
        std::future::pending().await
    }))
    .await;
    let error = failure(&fleet);
    assert_eq!(error.kind, LaunchErrorKind::BuildMismatch);
    assert_eq!(error.detail, "here is build build-1 with protocol 1, on far is build build-0 with protocol 1");
    assert_eq!(alive.load(Ordering::SeqCst), 0);
    assert!(fleet.send(0, &ToAgent::Shutdown).unwrap_err().to_string().contains("other build"));
}

#[tokio::test(start_paused = true)]
async fn another_build_is_replaced_once() {
    for (fresh_build, works) in [(BUILD, true), ("build-2", false)] {
        let stale = agent(move |mut far: Far| async move {
            let build = if far.freshness == Freshness::Reuse { "build-0" } else { fresh_build };
            far.introduce(build).await;
            while far.hear().await.is_some() {}
            Ended::Code(0)
        });
        let alive = Arc::new(AtomicUsize::new(0));
        let fake = Fake { agent: stale, can_replace: true, alive: Arc::clone(&alive) };
        let config = FleetConfig::new(BUILD, "/unused", LauncherKind::Other(Arc::new(fake)));
        let (sender, _events) = channel();
        let fleet = Fleet::connect(config, hosts(1), sender).await.unwrap();
        assert_eq!(fleet.failures().is_empty(), works);
        assert_eq!(alive.load(Ordering::SeqCst), usize::from(works));
    }
}

#[tokio::test(start_paused = true)]
async fn noise_before_the_preamble_is_skipped_wherever_it_is_cut() {
    // Looks like the preamble's start, twice.
    let noise = b"Welcome!\nGDRGDRTUNE\n";
    for cut in 0..noise.len() + codec::PREAMBLE.len() {
        let chatty = agent(move |mut far: Far| async move {
            let mut bytes = noise.to_vec();
            bytes.extend(codec::PREAMBLE);
            far.stdout.write_all(&bytes[..cut]).await.unwrap();
            sleep(Duration::from_millis(10)).await;
            far.stdout.write_all(&bytes[cut..]).await.unwrap();
            assert!(matches!(far.hear().await, Some(ToAgent::Hello(_))));
            far.say(&FromAgent::Hello(hello(BUILD))).await;
            far.hear().await;
            far.say(&FromAgent::Inventory(inventory())).await;
            while far.hear().await.is_some() {}
            Ended::Code(0)
        });
        let (fleet, events, _alive) = one(chatty).await;
        assert!(fleet.failures().is_empty(), "cut at {cut}: {:?}", fleet.failures());
        let seen: Vec<FleetEvent> = events.try_iter().collect();
        assert!(seen.contains(&FleetEvent::Log { node: 0, line: "Welcome!".to_owned() }));
    }
}

#[tokio::test(start_paused = true)]
async fn launches_that_end_early_are_told_apart() {
    for (stdout, stderr, ended, kind, words) in [
        ("", "out of memory\n", Ended::Code(1), LaunchErrorKind::EndedEarly, "out of memory"),
        ("", "sh: x: not found\n", Ended::Code(127), LaunchErrorKind::NotFound, "not found"),
        ("Your account expired\n", "", Ended::Code(1), LaunchErrorKind::NoPreamble, "Your account expired"),
        ("", "boom\n", Ended::Signal(6), LaunchErrorKind::EndedEarly, "signal 6: boom"),
        ("", "", Ended::Code(3), LaunchErrorKind::EndedEarly, "exit code 3 without a word"),
    ] {
        let dying = agent(move |mut far: Far| {
            let ended = ended.clone();
            async move {
                far.stdout.write_all(stdout.as_bytes()).await.unwrap();
                far.stderr.write_all(stderr.as_bytes()).await.unwrap();
                ended
            }
        });
        let (fleet, _events, alive) = one(dying).await;
        let error = failure(&fleet);
        assert_eq!(error.kind, kind, "{error}");
        assert!(error.detail.contains(words), "{error}");
        assert_eq!(alive.load(Ordering::SeqCst), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn endless_noise_is_cut_off() {
    let chatty = agent(|mut far: Far| async move {
        while far.stdout.write_all(b"fortune cookie\n").await.is_ok() {}
        Ended::Code(0)
    });
    let (fleet, _events, _alive) = one(chatty).await;
    let error = failure(&fleet);
    assert_eq!(error.kind, LaunchErrorKind::NoPreamble);
    assert!(error.detail.contains("fortune cookie / fortune") && error.detail.len() < 500, "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_launch_has_a_deadline_and_says_what_it_waited_for() {
    for (say_preamble, noise, kind, words) in [
        (false, "", LaunchErrorKind::Timeout, "within 60 s, waiting for the agent's first word"),
        (false, "Menu: 1) 2)", LaunchErrorKind::NoPreamble, "first word; it printed \"Menu: 1) 2)\""),
        (true, "", LaunchErrorKind::Timeout, "waiting for the agent's Hello"),
    ] {
        let hanging = agent(move |mut far: Far| async move {
            far.stdout.write_all(noise.as_bytes()).await.unwrap();
            if say_preamble {
                far.stdout.write_all(codec::PREAMBLE).await.unwrap();
            }
            std::future::pending::<()>().await;
            drop(far);
            Ended::Code(0)
        });
        let (fleet, _events, alive) = one(hanging).await;
        let error = failure(&fleet);
        assert_eq!(error.kind, kind);
        assert!(error.detail.contains(words), "{error}");
        assert_eq!(alive.load(Ordering::SeqCst), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn one_bad_host_stops_no_other() {
    let mixed = agent(|far: Far| async move { if far.host == "n1" { Ended::Code(1) } else { far.serve().await } });
    let Setup { config, alive } = setup(mixed);
    let (sender, events) = channel();
    let fleet = Fleet::connect(config, hosts(3), sender).await.unwrap();
    let failed: Vec<usize> = fleet.failures().iter().map(|(node, _)| *node).collect();
    assert_eq!((failed, alive.load(Ordering::SeqCst)), (vec![1], 2));
    let seen: Vec<FleetEvent> = events.try_iter().collect();
    assert!(seen.iter().any(|event| matches!(event, FleetEvent::Failed { node: 1, .. })));
    fleet.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn dropping_ends_the_agents() {
    let (fleet, _events, alive) = one(agent(Far::serve)).await;
    drop(fleet);
    sleep(Duration::from_millis(1)).await;
    assert_eq!(alive.load(Ordering::SeqCst), 0);

    let never = setup(agent(|far: Far| async move {
        std::future::pending::<()>().await;
        drop(far);
        Ended::Code(0)
    }));
    let (sender, _events) = channel();
    let connecting = Fleet::connect(never.config, hosts(2), sender);
    assert!(tokio::time::timeout(Duration::from_secs(1), connecting).await.is_err());
    sleep(Duration::from_millis(1)).await;
    assert_eq!(never.alive.load(Ordering::SeqCst), 0);
}

#[tokio::test(start_paused = true)]
async fn no_hosts_is_an_error() {
    let (sender, _events) = channel();
    let error = Fleet::connect(setup(agent(Far::serve)).config, vec![], sender).await.unwrap_err();
    assert_eq!(error, FleetError::NoHosts);
}
