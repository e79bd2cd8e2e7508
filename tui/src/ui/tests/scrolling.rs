//! Scrolling by keys and by the mouse, and the clock.

use crossterm::event::{MouseButton, MouseEvent, MouseEventKind};

use super::*;
use crate::ui::{run::TrialRow, tabs::Tab};

/// The numbers of the trials that can be seen.
fn visible_trials(state: &State) -> Vec<u64> {
    let screen = rows(state);
    let head = screen.iter().position(|row| row.contains("# arm")).unwrap();
    let number = |row: &String| row.trim_start_matches(['▸', '●', ' ']).split(' ').next()?.parse().ok();
    screen.iter().skip(head + 1).map_while(number).collect()
}

/// A trial by its number.
fn trial(state: &State, number: u64) -> &TrialRow {
    state.run.trials.iter().find(|row| row.trial == number).unwrap()
}

#[test]
fn trials_follow_the_newest_until_the_cursor_leaves_it() {
    let mut state = searching((80, 24));
    press(&mut state, "5");
    let newest = state.run.summary.n_trials - 1;
    let n_rows = visible_trials(&state).len() as u64;
    assert_eq!(n_rows, 17);
    let seen = |top: u64| (0..n_rows).map(|n| top - n).collect::<Vec<_>>();
    assert_eq!(visible_trials(&state), seen(newest));
    for (script, cursor, top) in [
        ("j j", Some(newest - 2), newest),
        ("k", Some(newest - 1), newest),
        ("PgDn", Some(newest - 17), newest - 1),
        ("^U", Some(newest - 1), newest - 1),
        ("G", Some(0), n_rows - 1),
        ("j", Some(0), n_rows - 1),
        ("k k", Some(2), n_rows - 1),
        ("g", None, newest),
        ("k", None, newest),
    ] {
        press(&mut state, script);
        assert_eq!(state.view.tabs.trials.cursor.map(|position| position as u64), cursor, "{script}");
        assert_eq!(visible_trials(&state), seen(top), "{script}");
    }
}

#[test]
fn the_trial_under_the_cursor_stays_while_new_ones_come() {
    let mut state = searching((80, 24));
    press(&mut state, "5 j j");
    let (before, cursor) = (visible_trials(&state), state.view.tabs.trials.cursor);
    feed(&mut state, RECORDS.iter().skip(150).take(40));
    assert_eq!(state.view.tabs.trials.cursor, cursor);
    let screen = rows(&state);
    let marked = screen.iter().find(|row| row.starts_with('▸')).unwrap();
    assert!(marked.contains(&format!(" {} ", before[2])), "{marked}");
    press(&mut state, "g");
    assert_eq!(visible_trials(&state).first(), state.run.trials.last().map(|row| &row.trial));
}

#[test]
fn trials_are_sorted_and_filtered_as_they_come() {
    let sorted = |script: &str, value: fn(&TrialRow) -> f64| {
        let mut state = searching((120, 40));
        press(&mut state, script);
        feed(&mut state, RECORDS.iter().skip(150).take(40));
        let seen = visible_trials(&state);
        let values: Vec<f64> = seen.iter().map(|n| value(trial(&state, *n))).collect();
        assert!(30 < seen.len() && values.is_sorted_by(|a, b| b <= a), "{script}: {values:?}");
        let mut turned = state.clone();
        press(&mut turned, "S");
        let last = *visible_trials(&turned).first().unwrap();
        let minimum = state.run.trials.iter().map(value).fold(f64::INFINITY, f64::min);
        assert!(value(trial(&state, last)).total_cmp(&minimum).is_eq(), "{script}");
        // One by one or all at once: the same.
        let n_trials = state.run.trials.len();
        let mut rebuilt = state.view.tabs.trials.clone();
        rebuilt.rebuild(&state.run, n_trials);
        assert!(rebuilt == state.view.tabs.trials, "{script}");
    };
    sorted("5 s", |row| row.measured().and_then(|m| m.gain).unwrap_or(f64::NEG_INFINITY));
    sorted("5 s s", |row| row.measured().map_or(f64::NEG_INFINITY, |m| m.busbw_gbs));
    sorted("5 s s s", |row| row.measured().map_or(f64::NEG_INFINITY, |m| m.time_us));

    let mut state = searching((120, 40));
    press(&mut state, "5 / t r e e Enter");
    feed(&mut state, RECORDS.iter().skip(150).take(40));
    let shown = visible_trials(&state);
    assert!(
        !shown.is_empty()
            && shown.iter().all(|n| {
                let row = trial(&state, *n);
                [row.requested, row.selected].into_iter().flatten().any(|choice| choice.to_string().contains("tree"))
            })
    );
    press(&mut state, "/ Home ! Enter");
    assert!(visible_trials(&state).iter().all(|n| !shown.contains(n)));
    press(&mut state, "/ ^U z z Enter");
    assert!(rows(&state).concat().contains("no trial has these words: Esc shows all"));
    press(&mut state, "Esc");
    assert_eq!(visible_trials(&state).first(), state.run.trials.last().map(|row| &row.trial));
}

#[test]
fn a_frozen_table_takes_in_what_came_when_it_thaws() {
    let mut state = searching((80, 24));
    press(&mut state, "5 / r i n g Enter p");
    let before = visible_trials(&state);
    feed(&mut state, RECORDS.iter().skip(150).take(40));
    assert_eq!(visible_trials(&state), before);
    press(&mut state, "p");
    assert_ne!(visible_trials(&state), before);
}

#[test]
fn marks_stay_with_their_rows() {
    let mut state = searching((80, 24));
    press(&mut state, "5 j m j j m g ' ");
    let newest = state.run.trials.len() - 1;
    assert_eq!(state.view.tabs.trials.cursor, Some(newest - 1));
    press(&mut state, "'");
    assert_eq!(state.view.tabs.trials.cursor, Some(newest - 3));
    press(&mut state, "' m");
    assert_eq!(state.view.tabs.trials.marks.iter().copied().collect::<Vec<_>>(), [newest - 3]);
    press(&mut state, "2 '");
    assert!(rows(&state).last().unwrap().contains("nothing is marked"));
}

#[test]
fn the_log_shows_its_end_until_it_is_scrolled() {
    let mut state = finished((120, 40));
    let text = |state: &State| rows(state).join("\n");
    press(&mut state, "7");
    assert!(text(&state).contains("both rails together were slower"));
    press(&mut state, "g");
    assert!(text(&state).contains("run 2026-11-29T14:02:11Z-7f3a of gdrtune 0.1.0 on vh[1-4]"), "{}", text(&state));
    let top = state.view.tabs.log.bottom;
    press(&mut state, "j j");
    assert_eq!(state.view.tabs.log.bottom, top.map(|line| line + 2));
    press(&mut state, "k k k");
    assert_eq!(state.view.tabs.log.bottom, top);
    press(&mut state, "G");
    assert_eq!(state.view.tabs.log.bottom, None);
    press(&mut state, "v v");
    assert!(!text(&state).contains(" info "), "{}", text(&state));
    press(&mut state, "v v / v e r i f y Enter");
    assert!(text(&state).contains("verifying the winners") && !text(&state).contains("of gdrtune 0.1.0 on"));
}

#[test]
fn sizes_keep_their_cursor_when_they_are_sorted() {
    let mut state = finished((120, 40));
    press(&mut state, "2 j j");
    let under_cursor = |state: &State| rows(state).into_iter().find(|row| row.starts_with('▸')).unwrap();
    let before = under_cursor(&state);
    for _ in 0..4 {
        press(&mut state, "s S");
        assert_eq!(under_cursor(&state), before);
    }
    press(&mut state, "/ a l l g a t h e r Enter");
    assert!(under_cursor(&state).contains("allgather"), "the first row that is shown");
}

#[test]
fn the_cursor_reads_sizes_off_the_charts() {
    let mut state = searching((120, 40));
    for (script, size) in [("g", "1K"), ("j", "4K"), ("k k", "1K"), ("G", "64M"), ("j", "64M"), ("k", "16M")] {
        press(&mut state, script);
        let screen = rows(&state);
        let caption = screen.iter().find(|row| row.starts_with("allreduce (1 of 2)")).unwrap();
        assert!(caption.contains(&format!("current   {size} ")), "{script}: {caption}");
    }
}

#[test]
fn the_mouse_scrolls_and_chooses_what_is_under_it() {
    let mouse = |kind, column, row| Input::Mouse(MouseEvent { kind, column, row, modifiers: key("q").modifiers });
    let click = |column, row| mouse(MouseEventKind::Down(MouseButton::Left), column, row);
    let mut state = searching((80, 24));
    let newest = state.run.trials.len() - 1;
    let names = rows(&state).into_iter().nth(3).unwrap();
    for tab in Tab::ALL {
        let column = names.find(tab.name()).unwrap() as u16;
        update(&mut state, click(column, 3));
        assert_eq!(state.view.tab, tab);
    }
    press(&mut state, "5");
    update(&mut state, mouse(MouseEventKind::ScrollDown, 40, 15));
    assert_eq!(state.view.tabs.trials.cursor, Some(newest - 3));
    update(&mut state, click(10, 7));
    assert_eq!(state.view.tabs.trials.cursor, Some(newest - 1), "title, heads, two rows");
    assert_eq!(update(&mut state, mouse(MouseEventKind::Moved, 1, 1)), []);
    assert_eq!(update(&mut state, click(1, 0)), []);
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

#[test]
fn the_help_is_read_by_pages_and_says_where_it_is() {
    let mut state = searching((60, 15));
    press(&mut state, "5 ?");
    let n_visible = 13;
    let last = crate::ui::draw::help_scroll_limit(&state) + 1;
    let all = last - 1 + n_visible;
    assert!(2 * n_visible < last, "more than three pages: {all}");
    for (script, first) in [
        ("PgDn", 13),
        ("PgUp", 1),
        ("space j", 14),
        ("^U k", 1),
        ("G", last),
        ("PgDn", last),
        ("g", 1),
        ("End", last),
        ("Home", 1),
    ] {
        press(&mut state, script);
        let title = format!("┏ Keys, lines {first}-{} of {all} ", first + n_visible - 1);
        assert!(rows(&state)[0].contains(&title), "{script}: {}", rows(&state)[0]);
    }
}

#[test]
fn the_help_has_the_keys_of_the_run_before_those_that_are_the_same_everywhere() {
    let mut state = searching((120, 90));
    press(&mut state, "?");
    let screen = rows(&state);
    let line = |text: &str| screen.iter().position(|row| row.contains(text)).unwrap();
    assert!(line("┃ This view") < line("┃ This run") && line("┃ This run") < line("┃ Everywhere"));
}
