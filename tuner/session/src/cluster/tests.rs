//! What nodes are told, and what comes of it.

mod fake_nodes;

use std::{sync::Arc, time::Duration};

use gdrtune_profiles::vocab::{Environment, Protocol};
use gdrtune_tuner::bench::{Bench, BenchError, Cancel, Earlier, Outcome, Sample, Script, Setup};
use gdrtune_wire::{EndCause, FromWorker, Settings};

use self::fake_nodes::{Fault, Lab, POINT, choice, item, lab, lab_with, live, run};
use super::{CallMode, ClusterNote};

#[test]
fn samples_come_in_order_averaged_over_ranks_and_workers_are_kept() {
    let mut lab = lab(Fault::None);
    let script = live(vec![item(None, 1), item(Some(choice(Protocol::Simple, 1)), 2)]);
    for _ in 0..2 {
        let (samples, result) = run(&mut lab, &script);
        assert_eq!(result, Ok(()));
        assert_eq!(samples.iter().map(|s| (s.item, s.process)).collect::<Vec<_>>(), [(0, 0), (1, 0), (1, 0)]);
        let Outcome::Timed(timing) = samples[0].outcome else { panic!("{samples:?}") };
        assert!((timing.time_us - 101.5).abs() < 1e-9 && (timing.slowest_us - 103.0).abs() < 1e-9, "{timing:?}");
    }
    assert_eq!(lab.log.borrow().len(), 2, "one start on each node: {:?}", lab.log.borrow());
}

#[test]
fn the_way_of_calling_reaches_every_node_in_every_arm() {
    for (graph, register_buffers) in [(false, true), (true, false)] {
        let mut lab = lab_with(Fault::None, CallMode { graph, register_buffers });
        let items = vec![item(None, 2)];
        let site = Script { setup: Setup::Site, fresh: false, items: items.clone() };
        assert_eq!((run(&mut lab, &live(items)).1, run(&mut lab, &site).1), (Ok(()), Ok(())));
        let nodes = lab.nodes.borrow();
        // On each of two nodes: once to learn how long a call takes, then twice in either setup.
        let in_graphs = |items| (if graph { items } else { 0 }, items);
        assert_eq!(nodes.graphs, [1, 1, 2, 2, 2, 2].map(in_graphs));
        assert_eq!(nodes.groups.len(), 4);
        assert!(nodes.groups.iter().all(|(_, start)| start.register_buffers == register_buffers));
    }
}

#[test]
fn a_point_that_is_new_is_called_once_before_it_is_measured() {
    let mut lab = lab(Fault::None);
    let script = live(vec![item(None, 2), item(Some(choice(Protocol::Simple, 1)), 1)]);
    let (samples, _) = run(&mut lab, &script);
    let Outcome::Timed(timing) = samples[0].outcome else { panic!("{samples:?}") };
    // 1 ms of calls that take 0.1 ms: known before the first of them is told.
    assert_eq!((samples.len(), timing.iterations), (3, 9), "{samples:?}");
}

#[test]
fn the_default_arm_has_its_own_processes_and_a_fresh_script_new_ones() {
    let mut lab = lab(Fault::None);
    let site = Script { setup: Setup::Site, fresh: false, items: vec![item(None, 1)] };
    let process = |lab: &mut Lab, script: &Script| run(lab, script).0[0].process;
    assert_eq!(process(&mut lab, &live(vec![item(None, 1)])), 0);
    assert_eq!(process(&mut lab, &site), 1);
    assert_eq!(process(&mut lab, &site), 1, "still there");
    assert_eq!(process(&mut lab, &live(vec![item(None, 1)])), 0, "still there as well");
    assert_eq!(process(&mut lab, &Script { fresh: true, ..site.clone() }), 2);
    assert_eq!(process(&mut lab, &Script { fresh: true, ..site }), 3);
    lab.bench.close();
    assert!(lab.nodes.borrow().groups.is_empty(), "nothing is left");
}

#[test]
fn another_shape_starts_on_its_own_nodes_with_nothing_learnt() {
    let mut lab = lab(Fault::None);
    let files: Arc<[(String, String)]> = Arc::new([("profile.env".into(), "A=1\n".into())]);
    let deployed = Script { setup: Setup::Deployed(files), fresh: true, items: vec![item(None, 1)] };
    let live = live(vec![item(None, 1)]);
    lab.bench.reshape(vec![3]);
    assert_eq!((run(&mut lab, &live).1, run(&mut lab, &deployed).1), (Ok(()), Ok(())));
    assert_eq!((lab.bench.info().nodes, lab.bench.info().ranks), (1, 3));
    let learnt = lab.bench.book.pace(&lab.bench.config.pace, POINT, None);

    lab.bench.reshape(vec![1, 1]);
    assert!(lab.nodes.borrow().groups.is_empty(), "the workers of the first shape are gone");
    assert_ne!(lab.bench.book.pace(&lab.bench.config.pace, POINT, None), learnt);
    lab.log.borrow_mut().clear();
    let (samples, result) = run(&mut lab, &live);
    assert_eq!((samples[0].process, result), (2, Ok(())), "process numbers go on");
    assert_eq!(run(&mut lab, &deployed).1, Ok(()));
    assert_eq!((lab.bench.info().nodes, lab.bench.info().ranks), (2, 2));
    let log = lab.log.borrow();
    let is_on = |node: u32| log.iter().filter(|line| line.contains(&format!(" on {node}: "))).count();
    // Two starts, and the files, which the second node did not have.
    assert_eq!((is_on(0), is_on(1)), (3, 3), "{log:?}");
    assert!(log.iter().any(|line| line.starts_with("start [1] on 1")), "{log:?}");
}

#[test]
fn what_another_process_has_measured_is_not_measured_again() {
    let script = live(vec![item(None, 2), item(Some(choice(Protocol::Simple, 1)), 1)]);
    let (samples, _) = run(&mut lab(Fault::None), &script);
    let mut lab = lab(Fault::None);
    lab.bench.number_processes_from(7);
    let mut take_up = |samples: &[Sample], is_complete| {
        let mut new = Vec::new();
        let earlier = Earlier { samples, now_s: 1_000.0, is_complete };
        let result = lab.bench.take_up(&script, &earlier, &Cancel::new(), &mut |sample| new.push(sample));
        assert_eq!(result, Ok(()));
        (new, lab.log.borrow().len(), lab.bench.now_s())
    };
    let (new, starts, now_s) = take_up(&samples, true);
    assert_eq!((new, starts), (vec![], 0), "nothing is started for what is known");
    assert!((1_000.0..1_100.0).contains(&now_s), "the clock goes on: {now_s}");
    let (new, ..) = take_up(&samples[..1], false);
    let places: Vec<(usize, u32)> = new.iter().map(|sample| (sample.item, sample.process)).collect();
    assert_eq!(places, [(0, 7), (1, 7)], "one of two repeats, and the last item");
}

#[test]
fn emitted_files_reach_every_node_once_and_the_workers_start_from_them() {
    let mut lab = lab(Fault::None);
    let files: Arc<[(String, String)]> = Arc::new([("profile.env".into(), "A=1\n".into())]);
    let script = Script { setup: Setup::Deployed(files), fresh: true, items: vec![item(None, 1)] };
    for _ in 0..2 {
        assert_eq!(run(&mut lab, &script).1, Ok(()));
    }
    let log = lab.log.borrow();
    assert_eq!(log.iter().filter(|l| l.starts_with("store 0")).count(), 2, "{log:?}");
    let deployed = format!("{:?}", Settings::Deployed { bundle: 0 });
    assert_eq!(log.iter().filter(|l| l.starts_with("start") && l.ends_with(&deployed)).count(), 4, "{log:?}");
}

#[test]
fn a_failed_measurement_costs_itself_and_the_rest_runs_in_new_processes() {
    let cases = [
        (Fault::Hang, Outcome::Hung("allreduce 4K ring/ll/1".into())),
        (Fault::Crash, Outcome::Crashed("rank 2 was killed by signal 11".into())),
    ];
    for (fault, expected) in cases {
        let mut lab = lab(fault);
        let items = vec![item(None, 1), item(Some(choice(Protocol::Ll, 1)), 3), item(None, 1)];
        let (samples, result) = run(&mut lab, &live(items));
        assert_eq!(result, Ok(()));
        assert_eq!(samples.iter().map(|s| (s.item, s.process)).collect::<Vec<_>>(), [(0, 0), (1, 0), (2, 1)]);
        assert_eq!(samples[1].outcome, expected);
    }
}

/// Even where it broke them while nothing was to be told yet.
#[test]
fn what_broke_the_workers_is_told_where_they_do_not_start_again() {
    let mut lab = lab(Fault::CrashForGood);
    let (samples, result) = run(&mut lab, &live(vec![item(Some(choice(Protocol::Ll, 1)), 3)]));
    assert_eq!(samples, []);
    let why = result.unwrap_err().to_string();
    assert!(why.contains("`railC`; before that, rank 2 was killed by signal 11"), "{why}");
}

#[test]
fn what_broke_the_workers_is_not_what_slower_ranks_had_not_told_yet() {
    let mut lab = lab(Fault::CrashAhead);
    let items = vec![
        item(None, 1),
        item(Some(choice(Protocol::Simple, 1)), 2),
        item(Some(choice(Protocol::Ll, 1)), 1),
        item(Some(choice(Protocol::Ll, 2)), 1),
        item(None, 1),
    ];
    let (samples, result) = run(&mut lab, &live(items));
    assert_eq!(result, Ok(()));
    let failed = |s: &Sample| matches!(s.outcome, Outcome::Crashed(_));
    let told: Vec<_> = samples.iter().map(|s| (s.item, s.process, failed(s))).collect();
    // The other count of the same family is not tried after it.
    assert_eq!(told, [(0, 0, false), (2, 0, true), (1, 1, false), (1, 1, false), (4, 1, false)]);
}

#[test]
fn a_wrong_result_on_one_rank_disqualifies_the_sample() {
    let mut lab = lab(Fault::Wrong);
    let (samples, _) = run(&mut lab, &live(vec![item(Some(choice(Protocol::Ll, 1)), 1), item(None, 1)]));
    assert_eq!(
        samples[0].outcome,
        Outcome::Wrong("rank 3: 7 wrong elements, the first: element 12 is 3, not 4".into())
    );
    assert!(matches!(samples[1].outcome, Outcome::Timed(_)));
}

#[test]
fn the_time_of_another_choice_is_not_credited() {
    let mut lab = lab(Fault::TwoChannels);
    let asked = |n| Some(choice(Protocol::Simple, n));
    let items = vec![item(asked(1), 1), item(asked(2), 1), item(asked(0), 1), item(asked(8), 1)];
    let (samples, _) = run(&mut lab, &live(items));
    for more_or_fewer in [0, 3] {
        let outcome = &samples[more_or_fewer].outcome;
        assert!(matches!(outcome, Outcome::Substituted { selected, .. } if selected.channels == 2), "{outcome:?}");
    }
    assert!(matches!(samples[1].outcome, Outcome::Timed(_)));
    assert!(matches!(samples[2].outcome, Outcome::Timed(_)), "0 asks for any count");
}

#[test]
fn a_setup_that_cannot_start_is_an_error_with_the_workers_own_words() {
    let mut lab = lab(Fault::RefuseStart);
    let script = Script {
        setup: Setup::Live(Environment::new().with("NCCL_SOCKET_IFNAME", "=railC")),
        fresh: false,
        items: vec![item(None, 1)],
    };
    let (samples, result) = run(&mut lab, &script);
    assert!(samples.is_empty());
    assert_eq!(
        result.unwrap_err().to_string(),
        "start workers with NCCL_SOCKET_IFNAME==railC: rank 0 did not start: no such interface: `railC`"
    );
}

#[test]
fn nodes_with_another_nccl_are_told_before_they_connect() {
    let mut lab = lab(Fault::OtherNccl);
    let (samples, result) = run(&mut lab, &live(vec![item(None, 1)]));
    assert!(samples.is_empty());
    let error = result.unwrap_err().to_string();
    assert!(
        error.contains("the version of NCCL differs: vh1: 2.28.9; vh2: 2.27.3; install one on all hosts"),
        "{error}"
    );
    assert!(lab.nodes.borrow().groups.is_empty(), "nothing is left");
}

#[test]
fn what_a_worker_printed_last_explains_its_exit() {
    let mut group = super::Group::new(1, Setup::Site, 2);
    group.file_end(0, EndCause::Exit(125));
    assert_eq!(group.fate().0.to_string(), "rank 0 ended with exit code 125");
    for line in ["Unable to find image", "docker: no such image"] {
        group.file(0, FromWorker::Output(line.to_owned()));
    }
    let expected = "rank 0 ended with exit code 125; it last printed: docker: no such image";
    assert_eq!(group.fate().0.to_string(), expected);
}

#[test]
fn a_lost_node_and_a_cancel_end_the_script() {
    let mut lost = lab(Fault::LoseNode);
    let (_, result) = run(&mut lost, &live(vec![item(Some(choice(Protocol::Ll, 1)), 1)]));
    assert_eq!(result, Err(BenchError::Lost("vh1 is lost: the agent is gone".into())));
    assert!(lost.notes.borrow().iter().any(|n| matches!(n, ClusterNote::NodeLost { node: 0, .. })));

    // The loss may come while a group is being ended; it must not be swallowed there.
    let mut late = lab(Fault::CrashThenLose);
    let script = live(vec![item(Some(choice(Protocol::Ll, 1)), 1), item(None, 1)]);
    for _ in 0..2 {
        assert_eq!(run(&mut late, &script), (vec![], Err(BenchError::Lost("vh2 is lost: silent for 12 s".into()))));
    }
    assert_eq!(late.log.borrow().len(), 2, "nothing is started on what is left: {:?}", late.log.borrow());

    let mut lab = lab(Fault::Silence);
    let cancel = Cancel::new();
    cancel.cancel();
    let result = lab.bench.run(&live(vec![item(Some(choice(Protocol::Ll, 1)), 1)]), &cancel, &mut |_| {});
    assert_eq!(result, Err(BenchError::Cancelled));
}

/// Skips when it is told so, and gives the samples that came.
fn run_skipping(lab: &mut Lab, script: &Script, cancel: &Cancel, skip_at: &[usize]) -> Vec<Sample> {
    let mut samples: Vec<Sample> = Vec::new();
    let result = lab.bench.run(script, cancel, &mut |sample| {
        samples.push(sample);
        if skip_at.contains(&samples.len()) {
            cancel.skip();
        }
    });
    assert_eq!(result, Ok(()));
    samples
}

#[test]
fn a_skipped_item_is_given_up_alone_and_the_rest_runs_in_new_processes() {
    let simple = |channels| item(Some(choice(Protocol::Simple, channels)), 2);
    let ll = |channels| item(Some(choice(Protocol::Ll, channels)), 2);
    let script = live(vec![simple(1), ll(1), ll(2), simple(2)]);
    // Nobody answers for `ll`, for as long as its lease: only the user knows that it is hopeless.
    let mut lab = lab(Fault::Silence);
    let (cancel, begun) = (Cancel::new(), std::time::Instant::now());
    let samples = run_skipping(&mut lab, &script, &cancel, &[2, 3]);
    let told: Vec<(usize, u32, bool)> =
        samples.iter().map(|s| (s.item, s.process, s.outcome == Outcome::Skipped)).collect();
    // The second was skipped before its workers had begun with it, so they lived on.
    let timed = [(0, 0, false), (0, 0, false)];
    let rest = [(1, 0, true), (2, 1, true), (3, 1, false), (3, 1, false)];
    assert_eq!(told, [&timed[..], &rest].concat());
    assert!(begun.elapsed() < Duration::from_secs(5), "no lease is waited for");
    assert!(!cancel.take_skip() && !cancel.is_cancelled());
    lab.bench.close();
    assert!(lab.nodes.borrow().groups.is_empty());
}

#[test]
fn what_is_skipped_while_its_pace_is_learnt_is_not_asked_again() {
    let mut lab = lab(Fault::Silence);
    let script = live(vec![item(Some(choice(Protocol::Ll, 1)), 2), item(Some(choice(Protocol::Simple, 1)), 1)]);
    let cancel = Cancel::new();
    cancel.skip();
    let samples = run_skipping(&mut lab, &script, &cancel, &[]);
    let told: Vec<(usize, bool)> = samples.iter().map(|s| (s.item, s.outcome == Outcome::Skipped)).collect();
    assert_eq!(told, [(0, true), (1, false)]);
}
