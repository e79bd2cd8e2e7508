//! Snapshots of whole screens, and the styles and words that carry meaning.

use ratatui::style::{Color, Modifier, Style};

use super::*;
use crate::ui::start::layout::Lists;

const SIZES: [(u16, u16); 3] = [(80, 24), (120, 40), (60, 15)];

/// A form with two fields that are wrong, and one of them with the focus.
fn wrong_form(size: (u16, u16)) -> State {
    let mut state = lists(size);
    press(&mut state, "n Tab 'node[1- Tab Tab Tab Tab ^U '1K-4Q");
    state
}

/// A form that can be started, with a command line of several rows.
fn long_form(size: (u16, u16)) -> State {
    let mut state = lists(size);
    press(
        &mut state,
        "n Right Tab 'node[001-128],gpu[01-16]-with-a-long-name.cluster.example.org Tab Tab '8 Shift-Tab",
    );
    press(&mut state, "Tab Tab Tab Tab PgDn Tab PgDn Tab '30m Tab Tab ^U 'tuned/on'Monday");
    let check = state.form.words();
    update(&mut state, Input::Checked { words: check, result: Ok(Some("144 hosts of Slurm job 7".to_owned())) });
    state
}

fn with_keys(mut state: State, script: &str) -> State {
    press(&mut state, script);
    state
}

#[test]
fn screens_at_the_sizes_that_people_have() {
    for size in SIZES {
        let at = format!("{}x{}", size.0, size.1);
        let empty = Stock { runs: Vec::new(), n_unreadable: 0, ..stock() };
        for (name, state) in [
            ("empty", with_stock(size, empty)),
            ("runs", with_keys(lists(size), "Down Down Down")),
            ("form_wrong", wrong_form(size)),
            ("form_long", long_form(size)),
            ("profile", profile(size)),
        ] {
            insta::assert_snapshot!(format!("{name}_{at}"), paint(&state, Charset::Unicode));
        }
    }
}

#[test]
fn other_screens() {
    let size = (80, 24);
    let broken =
        Stock { problem: Some("index /x/index.sqlite: file is not a database".to_owned()), ..Stock::default() };
    let mut refused = with_keys(lists(size), "o 'nowhere Enter");
    update(&mut refused, Input::Opened(Err("read nowhere: No such file or directory (os error 2)".to_owned())));
    for (name, state) in [
        ("waiting", waiting(size)),
        ("broken_store", with_stock(size, broken)),
        ("clusters", with_keys(lists(size), "Tab Down")),
        ("prompt_refused", refused),
        ("help", with_keys(lists(size), "?")),
        ("form_of_cluster", with_keys(lists(size), "Tab Enter")),
        ("form_simulated", with_keys(lists(size), "Tab G Enter Shift-Tab")),
        ("form_help_60x15", with_keys(lists((60, 15)), "n F1 Down Down")),
        ("too_small", lists((59, 15))),
    ] {
        insta::assert_snapshot!(name, paint(&state, Charset::Unicode));
    }
    insta::assert_snapshot!("runs_ascii", paint(&lists(size), Charset::Ascii));
}

#[test]
fn ascii_screens_are_ascii() {
    let empty = Stock { runs: stock().runs.into_iter().filter(|run| run.hosts.is_ascii()).collect(), ..stock() };
    let size = (120, 40);
    for state in [with_stock(size, empty), wrong_form(size), long_form(size), profile(size), waiting(size)] {
        let text = screen(&state, Charset::Ascii).concat();
        assert!(text.is_ascii(), "{:?}", text.chars().find(|c| !c.is_ascii()));
    }
}

#[test]
fn no_size_and_no_state_breaks_a_draw() {
    let size = (1, 1);
    for mut state in [waiting(size), lists(size), wrong_form((80, 24)), long_form((80, 24)), profile((80, 24))] {
        for (columns, height) in (1..200).step_by(19).flat_map(|c| (1..60).step_by(7).map(move |h| (c, h))) {
            update(&mut state, Input::Resize(columns, height));
            for script in ["F1", "Esc"] {
                if super::super::layout::is_too_small(state.size) {
                    break;
                }
                press(&mut state, script);
                assert_eq!(screen(&state, Charset::Unicode).len(), usize::from(height));
            }
            assert_eq!(screen(&state, Charset::Unicode).len(), usize::from(height));
        }
    }
}

/// The style of the cells where `text` stands for the first time.
fn style_of(state: &State, text: &str) -> Style {
    let backend = paint(state, Charset::Unicode);
    let rows = screen(state, Charset::Unicode);
    let found = rows.iter().enumerate().find_map(|(y, row)| {
        let byte = row.find(text)?;
        Some((crate::ui::text::width(&row[..byte]) as u16, y as u16))
    });
    let position = found.unwrap_or_else(|| panic!("{text} is not on the screen:\n{}", rows.join("\n")));
    backend.buffer().cell(position).unwrap().style()
}

#[test]
fn styles_tell_what_words_and_symbols_tell_too() {
    let state = lists((80, 24));
    assert_eq!(style_of(&state, "✓ tuned").fg, Some(Color::Green));
    assert_eq!(style_of(&state, "! killed").fg, Some(Color::Magenta));
    assert_eq!(style_of(&state, "✗ failed").fg, Some(Color::Red));
    assert!(style_of(&state, "▸ 2 h ago").add_modifier.contains(Modifier::REVERSED), "the row under the cursor");
    assert!(!style_of(&state, "▸ alps").add_modifier.contains(Modifier::REVERSED), "of the list without the focus");
    let form = wrong_form((80, 24));
    assert_eq!(style_of(&form, "✗ `4Q`").fg, Some(Color::Red));
    assert_eq!(style_of(&form, "✗ cannot be started").fg, Some(Color::Red));
    assert_eq!(style_of(&long_form((80, 24)), "✓ 144 hosts").fg, Some(Color::Green));
    assert_eq!(style_of(&profile((80, 24)), "! EMULATED").fg, Some(Color::Magenta));
    let mono = with_keys(lists((80, 24)), "t t");
    let colours = paint(&mono, Charset::Unicode).buffer().content.iter().filter(|cell| cell.fg != Color::Reset).count();
    assert_eq!(colours, 0);
}

#[test]
fn without_colours_there_is_one_theme() {
    let mut state = State::new((80, 24), ThemeName::Mono, Colour::Refused);
    press(&mut state, "t");
    assert_eq!(state.theme, ThemeName::Mono);
    assert!(screen(&state, Charset::Unicode)[23].starts_with("colours are off"));
}

#[test]
fn a_run_without_an_answer_is_told_from_one_that_has_it() {
    let undecided = run("r1", "localhost", "native", RunState::Undecided("inconclusive".to_owned()));
    let state = with_stock((80, 24), Stock { runs: vec![undecided], ..stock() });
    for (charset, expected) in [(Charset::Unicode, "! inconclusive"), (Charset::Ascii, "! inconclusive")] {
        let rows = screen(&state, charset).concat();
        assert!(rows.contains(expected), "{rows}");
    }
}

#[test]
fn thousands_of_runs_are_as_fast_as_ten() {
    let many = Stock {
        runs: (0..5_000).map(|n| run(&format!("r{n:04}"), "node[01-99]", "nccl", RunState::Killed)).collect(),
        ..stock()
    };
    let mut state = with_stock((80, 24), many);
    press(&mut state, "G");
    assert_eq!(state.runs.selected().map(|run| run.name.as_str()), Some("r4999"));
    assert!(screen(&state, Charset::Unicode).concat().contains("$ gdrtune replay r4999"));
    // A run that is new comes before the others: the cursor stays where it was.
    let mut newer = stock();
    newer.runs.extend((0..5_000).map(|n| run(&format!("r{n:04}"), "node[01-99]", "nccl", RunState::Killed)));
    update(&mut state, Input::Stock(Box::new(newer)));
    assert_eq!(state.runs.selected().map(|run| run.name.as_str()), Some("r4999"));
    assert!(screen(&state, Charset::Unicode).concat().contains("▸ 2 h ago"));
}

#[test]
fn few_runs_leave_their_rows_to_the_clusters() {
    for (n_runs, n_clusters, expected) in
        [(0, 18, 17), (3, 18, 16), (6, 18, 13), (9, 18, 10), (100, 18, 9), (100, 2, 5), (0, 3, 4)]
    {
        let layout = Lists::of((80, 24), n_runs, n_clusters);
        assert_eq!(layout.clusters.height, expected.max(5), "{n_runs} runs, {n_clusters} clusters");
        assert_eq!(layout.runs.height + layout.clusters.height, 21);
        assert!(n_runs.min(10) <= usize::from(layout.run_rows().height), "{n_runs} runs");
    }
}
