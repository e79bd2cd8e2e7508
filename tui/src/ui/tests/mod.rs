//! Tests of the UI through its two doors: inputs into `update`, and `draw` of the state that results.

mod cluster;
mod drawing;
mod effects;
mod profile;
mod scale;
mod scrolling;
mod search;

use std::sync::{Arc, LazyLock};

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use gdrtune_session::event::{Event, Phase, Record};
use ratatui::{Terminal, backend::TestBackend, buffer::Buffer};

use super::{
    draw, keys,
    state::{Colour, Effect, Input, Playback, Source, Speed, State},
    theme::{Charset, Theme, ThemeName},
    update::update,
};

/// A run of 4 nodes with two rails: two collectives, nine sizes, three failures, 126 trials.
static RECORDS: LazyLock<Vec<Record>> = LazyLock::new(|| {
    let lines = include_str!("../fixtures/run.jsonl").lines();
    lines.map(|line| serde_json::from_str(line).unwrap()).collect()
});

fn new_state(size: (u16, u16)) -> State {
    State::new(size, ThemeName::Base, Colour::Allowed, Source::Live)
}

fn feed<'a>(state: &mut State, records: impl IntoIterator<Item = &'a Record>) {
    for record in records {
        update(state, Input::Record(Arc::new(record.clone())));
    }
}

/// In the middle of the second environment.
fn searching(size: (u16, u16)) -> State {
    let mut state = new_state(size);
    let second = RECORDS.iter().position(|r| matches!(r.event, Event::EnvironmentStarted { index: 1, .. })).unwrap();
    feed(&mut state, RECORDS.iter().take(second + 30));
    state
}

/// A run of another process, in the middle of its second environment.
fn attached(size: (u16, u16)) -> State {
    let mut state = searching(size);
    state.control.source = Source::Attached;
    state
}

/// A run of 100 s, three days ago, played back to second 40.
fn replayed(size: (u16, u16)) -> State {
    let mut state = searching(size);
    state.control.source = Source::Replay;
    let playback = Playback { age_s: Some(3 * 86_400), total_ms: 100_000, speed: Speed::new(10.0).unwrap() };
    state.control.playback = Some(playback);
    state.view.elapsed_ms = 40_000;
    state
}

/// At the first record of the verification.
fn verifying(size: (u16, u16)) -> State {
    let mut state = new_state(size);
    let verify = RECORDS.iter().position(|r| r.event == Event::Phase { phase: Phase::Verify }).unwrap();
    feed(&mut state, RECORDS.iter().take(verify + 1));
    state
}

/// All records.
fn finished(size: (u16, u16)) -> State {
    let mut state = new_state(size);
    feed(&mut state, RECORDS.iter());
    state
}

/// The event of a key by the name that the help shows, or of a character.
fn key(name: &str) -> KeyEvent {
    let mut all = keys::BINDINGS.iter().flat_map(|b| b.keys.iter());
    match (all.find(|chord| chord.name() == name), name.chars().next()) {
        (Some(chord), _) => chord.event(),
        (None, Some(c)) if name.len() == c.len_utf8() => KeyEvent::new(KeyCode::Char(c), KeyModifiers::NONE),
        _ => panic!("no key is called {name}"),
    }
}

/// Presses keys, separated by spaces, and returns the effects other than redraws.
fn press(state: &mut State, script: &str) -> Vec<Effect> {
    let effects = script.split_whitespace().flat_map(|name| update(state, Input::Key(key(name)))).collect::<Vec<_>>();
    effects.into_iter().filter(|e| *e != Effect::Redraw).collect()
}

fn paint(state: &State, charset: Charset) -> TestBackend {
    let (columns, rows) = state.view.size;
    let mut terminal = Terminal::new(TestBackend::new(columns, rows)).unwrap();
    let theme = Theme::new(state.view.theme, charset);
    terminal.draw(|frame| draw::draw(state, &theme, frame.area(), frame.buffer_mut())).unwrap();
    terminal.backend().clone()
}

/// The rows of the screen as text.
fn rows(state: &State) -> Vec<String> {
    let backend = paint(state, Charset::Unicode);
    rows_of(backend.buffer())
}

fn rows_of(buffer: &Buffer) -> Vec<String> {
    let cells = buffer.content.chunks(usize::from(buffer.area.width));
    cells.map(|row| row.iter().map(ratatui::buffer::Cell::symbol).collect()).collect()
}
