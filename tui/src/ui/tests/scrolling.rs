//! Scrolling by keys and by the mouse, and the clock.

use crossterm::event::{MouseButton, MouseEvent, MouseEventKind};

use super::*;
use crate::ui::state::Panel;

/// The numbers of the trials that can be seen.
fn visible_trials(state: &State) -> Vec<u64> {
    let screen = rows(state);
    let head = screen.iter().position(|row| row.contains("# arm")).unwrap();
    let numbers = screen.iter().skip(head + 1).map_while(|row| row.get(..5)?.trim().parse().ok());
    numbers.collect()
}

#[test]
fn trials_follow_the_newest_until_they_are_scrolled() {
    let mut state = searching((80, 24));
    let newest = state.run.summary.n_trials - 1;
    let seen = |top: u64| (0..4).map(|n| top - n).collect::<Vec<_>>();
    assert_eq!(visible_trials(&state), seen(newest));
    for (script, top) in [
        ("j j", newest - 2),
        ("k", newest - 1),
        ("PgDn", newest - 4),
        ("^U", newest - 1),
        ("G", 3),
        ("j", 3),
        ("k k", 5),
        ("g", newest),
        ("k", newest),
    ] {
        press(&mut state, script);
        assert_eq!(visible_trials(&state), seen(top), "{script}");
    }
}

#[test]
fn scrolled_trials_stay_while_new_ones_come() {
    let mut state = searching((80, 24));
    press(&mut state, "j j");
    let before = visible_trials(&state);
    feed(&mut state, RECORDS.iter().skip(150).take(30));
    assert_eq!(visible_trials(&state), before);
    press(&mut state, "g");
    assert_eq!(visible_trials(&state).first(), state.run.trials.last().map(|row| &row.trial));
}

#[test]
fn the_log_shows_its_end_until_it_is_scrolled() {
    let mut state = finished((120, 40));
    let text = |state: &State| rows(state).join("\n");
    assert!(text(&state).contains("slower at every size"));
    state.view.focus = Panel::Log;
    press(&mut state, "g");
    assert!(text(&state).contains("run 2026-11-29T14:02:11Z-7f3a of gdrtune 0.1.0 on vh[1-4]"), "{}", text(&state));
    press(&mut state, "G");
    assert_eq!(state.view.log_bottom, None);
}

#[test]
fn nodes_scroll_no_further_than_the_last_page() {
    let mut state = searching((80, 24));
    for index in 0..20 {
        let event = Event::Node {
            index,
            host: format!("node{index:02}"),
            state: gdrtune_session::event::NodeState::Ready,
            detail: String::new(),
        };
        feed(&mut state, [&Record { seq: 0, t_ms: 0, event }]);
    }
    state.view.focus = Panel::Nodes;
    for (script, top) in [("G", 16), ("j", 16), ("k", 15), ("g", 0), ("k", 0), ("PgDn", 3)] {
        press(&mut state, script);
        assert_eq!(state.view.nodes_top, top, "{script}");
    }
}

#[test]
fn the_cursor_reads_sizes_off_the_charts() {
    let mut state = searching((120, 40));
    state.view.focus = Panel::Busbw;
    for (script, size) in [("g", "1K"), ("j", "4K"), ("k k", "1K"), ("G", "64M"), ("j", "64M"), ("k", "16M")] {
        press(&mut state, script);
        let screen = rows(&state);
        let caption = screen.iter().find(|row| row.starts_with("allreduce (1 of 2)")).unwrap();
        assert!(caption.contains(&format!("current   {size} ")), "{script}: {caption}");
    }
}

#[test]
fn the_mouse_scrolls_and_focuses_what_is_under_it() {
    let mouse = |kind, column, row| Input::Mouse(MouseEvent { kind, column, row, modifiers: key("q").modifiers });
    let mut state = searching((80, 24));
    let newest = state.run.trials.len() - 1;
    update(&mut state, mouse(MouseEventKind::ScrollDown, 40, 15));
    assert_eq!((state.view.focus, state.view.trials_top), (Panel::Trials, Some(newest - 3)));
    for (column, row, panel) in
        [(10, 21, Panel::Nodes), (60, 21, Panel::Log), (5, 7, Panel::Busbw), (70, 7, Panel::Latency)]
    {
        update(&mut state, mouse(MouseEventKind::Down(MouseButton::Left), column, row));
        assert_eq!(state.view.focus, panel);
    }
    assert_eq!(update(&mut state, mouse(MouseEventKind::Moved, 1, 1)), []);
    assert_eq!(update(&mut state, mouse(MouseEventKind::Down(MouseButton::Left), 1, 0)), []);
}

#[test]
fn the_clock_asks_for_a_draw_once_a_second_and_never_goes_back() {
    let mut state = new_state((80, 24));
    for (t_ms, effects, shown) in [
        (250, vec![], 250),
        (999, vec![], 999),
        (1_000, vec![Effect::Redraw], 1_000),
        (900, vec![], 1_000),
        (1_250, vec![], 1_250),
    ] {
        assert_eq!(update(&mut state, Input::Tick(t_ms)), effects, "{t_ms}");
        assert_eq!(state.view.elapsed_ms, shown);
    }
}
