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

/// What a frame and a record may take. An unoptimised build on a loaded machine stays far below the larger ones; a look at
/// all trials per record or frame does not.
const LIMITS: (Duration, Duration) = if cfg!(debug_assertions) {
    (Duration::from_millis(500), Duration::from_micros(500))
} else {
    (Duration::from_millis(5), Duration::from_micros(50))
};

/// Frames whose median counts.
const N_FRAMES: usize = 9;

fn frame_time(state: &State) -> Duration {
    let theme = Theme::new(state.view.theme, Charset::Unicode);
    let (columns, rows) = state.view.size;
    let mut terminal = Terminal::new(TestBackend::new(columns, rows)).unwrap();
    let mut times: Vec<Duration> = (0..N_FRAMES)
        .map(|_| {
            let start = Instant::now();
            terminal.draw(|frame| draw::draw(state, &theme, frame.area(), frame.buffer_mut())).unwrap();
            start.elapsed()
        })
        .collect();
    times.sort();
    times[N_FRAMES / 2]
}

#[test]
fn a_hundred_thousand_trials_are_neither_slow_to_take_nor_to_draw() {
    let start = Instant::now();
    let mut state = long_run(100_000, 1_000);
    let record = start.elapsed() / 101_000;
    println!("{record:?} per record");
    assert!(record < LIMITS.1, "{record:?} per record");
    assert_eq!(state.run.environments.len(), 2, "overlays are kept once");
    for tab in Tab::ALL {
        state.view.tab = tab;
        let frame = frame_time(&state);
        println!("{frame:?} per frame of {}", tab.name());
        assert!(frame < LIMITS.0, "{frame:?} per frame of {tab:?}");
        assert!(tab != Tab::Trials || rows(&state).join("\n").contains(" 99999 "));
    }
    // Sorted and filtered, a record still costs no look at all the others.
    press(&mut state, "5 / a l l Enter s");
    let trial = RECORDS.iter().find(|r| matches!(r.event, Event::Trial(_))).unwrap();
    let start = Instant::now();
    feed(&mut state, std::iter::repeat_n(trial, 1_000));
    let record = start.elapsed() / 1_000;
    println!("{record:?} per record, sorted and filtered");
    assert!(record < LIMITS.1, "{record:?} per sorted record");
}
