//! A long run must not make the UI slow. Steps are counted, not timed, except for one generous bound.

use std::time::{Duration, Instant};

use super::*;
use crate::ui::tabs::Tab;

/// Trials of a long run on many nodes.
fn long_run(n_trials: u64, n_nodes: u32) -> State {
    let mut state = new_state((200, 60));
    feed(&mut state, RECORDS.iter().take(1));
    for index in 0..n_nodes {
        let ready = gdrtune_session::event::NodeState::Ready;
        let event = Event::Node { index, host: format!("node{index:04}"), state: ready, detail: "8 GPUs".to_owned() };
        feed(&mut state, [&Record { seq: 0, t_ms: 1, event }]);
    }
    let trials: Vec<_> = RECORDS.iter().filter(|r| matches!(r.event, Event::Trial(_))).collect();
    for n in 0..n_trials {
        let mut record = (*trials.get(n as usize % trials.len()).unwrap()).clone();
        record.t_ms = n;
        if let Event::Trial(trial) = &mut record.event {
            trial.trial = n;
        }
        feed(&mut state, [&record]);
    }
    state
}

#[test]
fn a_hundred_thousand_trials_are_neither_slow_to_take_nor_to_draw() {
    let start = Instant::now();
    let mut state = long_run(100_000, 1_000);
    let update_time = start.elapsed() / 100_000;
    assert_eq!(state.run.environments.len(), 2, "overlays are kept once");
    for tab in Tab::ALL {
        state.view.tab = tab;
        let start = Instant::now();
        let screen = rows(&state);
        let draw_time = start.elapsed();
        // An unoptimized build on a loaded machine stays far below; a scan of all trials per record or frame does not.
        assert!(draw_time < Duration::from_millis(500), "{draw_time:?} per frame of {tab:?}");
        assert!(tab != Tab::Trials || screen.join("\n").contains(" 99999 "));
    }
    assert!(update_time < Duration::from_micros(500), "{update_time:?} per record");
    // Sorted and filtered, a record still costs no look at all the others.
    press(&mut state, "5 / a l l Enter s");
    let start = Instant::now();
    let trial = RECORDS.iter().find(|r| matches!(r.event, Event::Trial(_))).unwrap();
    feed(&mut state, std::iter::repeat_n(trial, 1_000));
    let update_time = start.elapsed() / 1_000;
    assert!(update_time < Duration::from_micros(500), "{update_time:?} per sorted record");
}
