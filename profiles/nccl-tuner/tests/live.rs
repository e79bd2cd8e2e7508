//! Live mode: choices from the process, in one program of its own, as the mode never goes back.

mod support;

use std::{
    ptr,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
};

use gdrtune_nccl_tuner::{
    GdrtuneDecision, SOURCE_LIVE, SOURCE_NONE, gdrtune_tuner_clear, gdrtune_tuner_last, gdrtune_tuner_set,
};
use support::{
    ALL_GATHER, ALL_REDUCE, COLLECTIVES, LL, LL128, Query, RING, SIMPLE, TREE, Tuner, WARN, last, set_variable,
    take_log, texts, turn,
};

#[test]
fn a_choice_holds_for_its_collective_until_it_is_changed_or_cleared() {
    let _turn = turn();
    gdrtune_tuner_clear();
    for version in 3..=6 {
        let tuner = Tuner::start(version, 32, 4);
        assert_eq!(tuner.choose(Query::new(ALL_REDUCE, 8)), None);
        assert_eq!(gdrtune_tuner_set(ALL_REDUCE, 0, 0, 4), 0);
        for bytes in [0, 8, usize::MAX] {
            assert_eq!(tuner.choose(Query::new(ALL_REDUCE, bytes)), Some((TREE, LL, 4)), "v{version}");
        }
        assert_eq!(tuner.choose(Query::new(ALL_GATHER, 8)), None);
        assert_eq!(gdrtune_tuner_set(-1, 1, 2, 0), 0);
        for collective in COLLECTIVES {
            assert_eq!(tuner.choose(Query::new(collective, 8)), Some((RING, SIMPLE, 0)), "v{version}");
        }
        assert_eq!(tuner.choose(Query::new(5, 8)), None, "SendRecv has no choice");
        gdrtune_tuner_clear();
        assert_eq!(tuner.choose(Query::new(ALL_REDUCE, 8)), None);
    }
    let v2 = Tuner::start(2, 32, 4);
    assert_eq!(v2.ask_v2(ALL_REDUCE, 8), (-1, -1, 0));
    assert_eq!(gdrtune_tuner_set(-1, 0, 2, 3), 0);
    assert_eq!(v2.ask_v2(ALL_REDUCE, 8), (0, 2, 3));
    assert_eq!(v2.ask_v2(ALL_GATHER, 8), (-1, -1, 0));
}

#[test]
fn what_nccl_does_not_allow_is_not_forced_and_last_says_so() {
    let _turn = turn();
    gdrtune_tuner_clear();
    let tuner = Tuner::start(5, 32, 4);
    assert_eq!(gdrtune_tuner_set(ALL_REDUCE, 1, 1, 8), 0);
    assert_eq!(tuner.choose(Query::new(ALL_REDUCE, 4096).forbid(RING, LL128)), None);
    let refused = last().unwrap();
    let expected = GdrtuneDecision {
        api_version: 5,
        calls: refused.calls,
        bytes: 4096,
        ranks: 32,
        nodes: 4,
        collective: ALL_REDUCE,
        num_pipe_ops: 1,
        reg_buff: 0,
        source: SOURCE_LIVE,
        rule_line: 0,
        algorithm: 1,
        protocol: 1,
        channels: 8,
        is_allowed: 0,
        num_algorithms: 7,
        num_protocols: 3,
        costs_us: refused.costs_us,
        ..GdrtuneDecision::EMPTY
    };
    assert_eq!(refused, expected);
    assert_eq!(refused.costs_us[1][..3], [97.0, -1.0, 95.0]);

    assert_eq!(tuner.choose(Query::new(ALL_REDUCE, 4096)), Some((RING, LL128, 8)));
    let taken = last().unwrap();
    assert_eq!((taken.calls, taken.is_allowed, taken.costs_us[1][1]), (refused.calls + 1, 1, 96.0));

    // A table without the row of PAT, and one that is larger than the copy.
    assert_eq!(gdrtune_tuner_set(ALL_REDUCE, 6, 2, 8), 0);
    assert_eq!(tuner.choose(Query::sized(ALL_REDUCE, 8, 6, 3)), None);
    assert_eq!((last().unwrap().is_allowed, last().unwrap().num_algorithms), (0, 6));
    assert_eq!(tuner.choose(Query::sized(ALL_REDUCE, 8, 12, 5)), Some((6, SIMPLE, 8)));
    assert_eq!((last().unwrap().num_algorithms, last().unwrap().num_protocols), (12, 5));

    gdrtune_tuner_clear();
    tuner.choose(Query::new(ALL_REDUCE, 8));
    let left = last().unwrap();
    assert_eq!((left.source, left.is_allowed, left.algorithm, left.channels), (SOURCE_NONE, -1, -1, -1));
}

#[test]
#[expect(unsafe_code, reason = "a C interface")]
fn arguments_that_nccl_does_not_know_change_nothing() {
    let _turn = turn();
    gdrtune_tuner_clear();
    let tuner = Tuner::start(4, 32, 4);
    assert_eq!(gdrtune_tuner_set(ALL_REDUCE, 0, 2, 2), 0);
    for (collective, algorithm, protocol, channels) in [
        (5, 0, 0, 0),
        (-2, 0, 0, 0),
        (4, -1, 0, 0),
        (4, 7, 0, 0),
        (4, 0, -1, 0),
        (4, 0, 3, 0),
        (4, 0, 0, -1),
        (4, 0, 0, 65),
        (i32::MIN, i32::MIN, i32::MIN, i32::MIN),
        (-1, i32::MAX, i32::MAX, i32::MAX),
        (4, 256, 256, 256),
    ] {
        assert_eq!(gdrtune_tuner_set(collective, algorithm, protocol, channels), 1);
        assert_eq!(tuner.choose(Query::new(ALL_REDUCE, 8)), Some((TREE, SIMPLE, 2)));
    }
    // SAFETY: NULL is what this is about.
    assert_eq!(unsafe { gdrtune_tuner_last(ptr::null_mut()) }, 0);
}

#[test]
fn rules_are_not_even_read() {
    let _turn = turn();
    gdrtune_tuner_clear();
    let tuner = Tuner::with_rules(4, "allreduce,0,8,tree,ll,1,-1,-1\n");
    assert_eq!(tuner.choose(Query::new(ALL_REDUCE, 8)), None);
    set_variable("GDRTUNE_RULES", Some(std::path::Path::new("/absent")));
    drop(Tuner::start(4, 32, 4));
    let log = take_log();
    assert_eq!(texts(&log, WARN), [""; 0]);
    assert!(log.iter().all(|line| line.2 == "TUNER/gdrtune: live mode: choices come from this process"), "{log:?}");
}

/// Choices whose parts belong together: a mix of two of them shows.
const WHOLE: [(usize, usize, i32); 4] = [(TREE, LL, 1), (RING, LL128, 22), (4, SIMPLE, 43), (6, LL, 64)];

#[test]
fn threads_see_whole_choices_and_every_call_is_counted() {
    const CALLS: u64 = 20_000;
    const CALLERS: usize = 3;
    let _turn = turn();
    gdrtune_tuner_clear();
    let tuner = Tuner::start(4, 32, 4);
    tuner.choose(Query::new(ALL_REDUCE, 8));
    let before = last().unwrap().calls;
    assert_eq!(gdrtune_tuner_set(ALL_REDUCE, 0, 0, 1), 0);
    let (is_over, n_preferred) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for (algorithm, protocol, channels) in WHOLE.iter().cycle() {
                assert_eq!(gdrtune_tuner_set(-1, *algorithm as i32, *protocol as i32, *channels), 0);
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
            }
        });
        scope.spawn(|| {
            let mut n_calls = 0;
            while !is_over.load(Ordering::Relaxed) {
                let seen = last().unwrap();
                assert!(n_calls <= seen.calls, "the count goes up only");
                n_calls = seen.calls;
                let choice = (seen.algorithm as usize, seen.protocol as usize, seen.channels);
                assert!(seen.source == SOURCE_NONE || WHOLE.contains(&choice), "{seen:?}");
            }
        });
        let callers: Vec<_> = (0..CALLERS)
            .map(|_| {
                scope.spawn(|| {
                    for _ in 0..CALLS {
                        let choice = tuner.choose(Query::new(ALL_REDUCE, 8)).expect("one is always set");
                        assert!(WHOLE.contains(&choice), "{choice:?}");
                        n_preferred.fetch_add(1, Ordering::Relaxed);
                    }
                })
            })
            .collect();
        let outcomes: Vec<_> = callers.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        is_over.store(true, Ordering::Relaxed);
        assert!(outcomes.iter().all(Result::is_ok));
    });
    assert_eq!(last().unwrap().calls, before + CALLS * CALLERS as u64);
    assert_eq!(n_preferred.into_inner(), CALLS * CALLERS as u64);
}
