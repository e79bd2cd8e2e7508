//! Records and keys that nobody would send: nothing of it may panic or take long.

use std::time::{Duration, Instant};

use crossterm::event::{MouseButton, MouseEvent, MouseEventKind};
use serde_json::Value;

use super::*;
use crate::ui::{run::Run, state::Jump};

/// A generator that is the same everywhere (Knuth's MMIX constants).
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % sides.max(1)
    }
}

const TEXTS: [&str; 8] = [
    "",
    "日本語ホスト名日本語ホスト名日本語ホスト名日本語ホスト名",
    "\u{1b}[2J\u{1b}]52;c;aGk=\u{7}\r\nx\ty",
    "e\u{301}\u{301}\u{301}\u{202e}abc\u{200d}\u{1f469}\u{200d}\u{1f469}\u{200d}\u{1f467}",
    "שלום עולם",
    "((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((",
    "a b c d e f g h i j k l m n o p q r s t u v w x y z a b c d e f g h i j k l m n o p q r s t u v w x y z",
    "=",
];

fn spoil(value: &mut Value, dice: &mut Dice) {
    match value {
        Value::Number(_) if dice.roll(12) == 0 => {
            *value = match dice.roll(9) {
                0 => 0.into(),
                1 => (-1).into(),
                2 => 1e308.into(),
                3 => 5e-324.into(),
                4 => u64::MAX.into(),
                5 => u32::MAX.into(),
                6 => (-1e308).into(),
                7 => 65_535.into(),
                _ => 1.into(),
            };
        }
        Value::String(text) if dice.roll(20) == 0 => *text = TEXTS[dice.roll(TEXTS.len())].to_owned(),
        Value::Array(all) => {
            if dice.roll(40) == 0 {
                all.clear();
            }
            for value in all {
                spoil(value, dice);
            }
        }
        Value::Object(all) => {
            for value in all.values_mut() {
                spoil(value, dice);
            }
        }
        _ => {}
    }
}

/// Runs of spoiled records with keys among them.
const N_RUNS: u64 = 20;

#[test]
fn spoiled_records_and_any_keys_are_taken_and_drawn() {
    let lines: Vec<Value> =
        include_str!("../fixtures/run.jsonl").lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for seed in 0..N_RUNS {
        println!("seed {seed}");
        let mut dice = Dice(seed);
        let mut state = if dice.roll(3) == 0 { replayed((80, 24)) } else { new_state((80, 24)) };
        let mut past = vec![state.run.clone()];
        for mut line in lines.clone() {
            spoil(&mut line, &mut dice);
            // What is no record is refused where the store is read.
            let Ok(record) = serde_json::from_value::<Record>(line) else { continue };
            feed(&mut state, [&record]);
            for _ in 0..dice.roll(3) {
                act(&mut state, &past, &mut dice);
            }
            if dice.roll(50) == 0 {
                past.push(state.run.clone());
            }
            if dice.roll(8) == 0 {
                let charset = if dice.roll(2) == 0 { Charset::Unicode } else { Charset::Ascii };
                paint(&state, charset);
            }
        }
    }
}

#[test]
fn numbers_at_their_end_are_shown() {
    for event in [
        r#"{"type":"environment_started","index":18446744073709551615,"environment":{},"why":"start"}"#,
        r#"{"type":"node_set","hosts":"n1","nodes":4294967295,"ranks":4294967295,"left_out":[]}"#,
        r#"{"type":"shape","index":4294967295,"of":1,"nodes":4294967295,"ranks":4294967295}"#,
    ] {
        let mut state = searching((120, 40));
        let event = serde_json::from_str(event).unwrap();
        feed(&mut state, [&Record { seq: 0, t_ms: u64::MAX, event }]);
        for tab in 1..=7 {
            press(&mut state, &tab.to_string());
            paint(&state, Charset::Unicode);
        }
    }
}

#[test]
fn pasted_text_goes_into_a_line_and_is_no_key() {
    let paste = |state: &mut State, text: &str| update(state, Input::Paste(text.to_owned()));
    let mut state = searching((80, 24));
    let before = state.control.clone();
    assert_eq!(paste(&mut state, "qsFyx "), [Effect::Redraw]);
    assert!(state.view.overlay.is_none() && state.control == before, "no command was given");
    assert!(rows(&state).last().unwrap().contains("pasted text"));
    press(&mut state, "q");
    paste(&mut state, "s");
    assert_eq!(state.control, before, "a question is not answered, either");
    press(&mut state, "Esc 5 /");
    paste(&mut state, "no such\ttrial\n");
    assert!(rows(&state).last().unwrap().contains("no such trial"));
    assert_eq!(state.view.tabs.trials.n_rows(state.n_shown_trials()), 0, "it filters");
}

#[test]
fn a_line_of_twenty_thousand_characters_is_drawn_at_once() {
    let mut state = searching((80, 24));
    press(&mut state, "P");
    let start = Instant::now();
    update(&mut state, Input::Paste("日x".repeat(10_000)));
    paint(&state, Charset::Unicode);
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
}

/// A key, a click, a new size; where a replay is told to go elsewhere, it does.
fn act(state: &mut State, past: &[Run], dice: &mut Dice) {
    let input = match dice.roll(10) {
        0 => {
            let kind = match dice.roll(3) {
                0 => MouseEventKind::ScrollUp,
                1 => MouseEventKind::ScrollDown,
                _ => MouseEventKind::Down(MouseButton::Left),
            };
            let (column, row) = (dice.roll(200) as u16, dice.roll(60) as u16);
            Input::Mouse(MouseEvent { kind, column, row, modifiers: KeyModifiers::NONE })
        }
        1 => {
            let sizes = [(1, 1), (80, 24), (60, 15), (59, 14), (300, 100), (120, 40), (60, 100), (300, 15), (80, 20)];
            let (columns, rows) = sizes[dice.roll(sizes.len())];
            Input::Resize(columns, rows)
        }
        2 => {
            let all = TEXTS[dice.roll(TEXTS.len())].chars().chain("=!ringtree 1".chars()).collect::<Vec<_>>();
            Input::Key(KeyEvent::new(KeyCode::Char(all[dice.roll(all.len())]), KeyModifiers::NONE))
        }
        3 => Input::Key(KeyEvent::new([KeyCode::Enter, KeyCode::Esc][dice.roll(2)], KeyModifiers::NONE)),
        _ => {
            let binding = &keys::BINDINGS[dice.roll(keys::BINDINGS.len())];
            Input::Key(binding.keys[dice.roll(binding.keys.len())].event())
        }
    };
    for effect in update(state, input) {
        match effect {
            Effect::Load(name) => {
                update(state, Input::Loaded { name, read: Err("no".to_owned()) });
            }
            Effect::Play(_) => {
                let (run, t_ms) = (past[dice.roll(past.len())].clone(), dice.roll(100_000) as u64);
                update(state, Input::Jumped(Box::new(Jump { run, t_ms })));
            }
            _ => {}
        }
    }
}
