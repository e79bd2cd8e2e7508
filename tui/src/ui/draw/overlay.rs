//! What lies over the screen: the key list and questions.

use std::borrow::Cow;

use ratatui::{
    buffer::Buffer,
    layout::{Constraint, Rect},
    text::{Line, Span},
};

use super::row;
use crate::ui::{
    keys::{self, Context},
    parts::{KeyList, draw_box},
    state::{Question, State},
    theme::Theme,
};

/// The keys under a heading for each kind: those of the present view, those of the run, those that are the same everywhere.
fn key_list(state: &State) -> KeyList {
    let mut list = KeyList::default();
    let mut contexts = Context::of(state.control.source, state.view.tab);
    contexts.sort_by_key(|context| *context == Context::Main);
    for context in contexts {
        for binding in keys::bindings(&[context]) {
            list.add(context.heading(), binding.key_names(), binding.help);
        }
    }
    list
}

/// The largest useful scroll of the help.
pub(crate) fn help_scroll_limit(state: &State) -> u16 {
    key_list(state).scroll_limit(state.view.size)
}

/// Lines of the help that are seen at once.
pub(crate) fn help_rows(state: &State) -> u16 {
    key_list(state).n_visible(state.view.size)
}

/// Draws the list of keys.
pub(super) fn draw_help(state: &State, scroll: u16, theme: &Theme, area: Rect, buffer: &mut Buffer) {
    key_list(state).draw(scroll, theme, area, buffer);
}

/// A question and what follows from yes.
pub(super) fn question_text(question: Question) -> (Cow<'static, str>, [&'static str; 2]) {
    match question {
        Question::Leave => (
            "Leave the run?".into(),
            [
                "Detached, it goes on in the background. Stopped, it",
                "ends after its trials, which stay in the run store.",
            ],
        ),
        Question::Finish => (
            "Finish the search now?".into(),
            ["The best settings so far are verified against the", "defaults, and what holds is written."],
        ),
        Question::Drop(point, choice) => (
            format!("Drop {choice} at {point}?").into(),
            ["It is not tried there any more, in this environment", "and in all later ones."],
        ),
    }
}

/// ```text
/// ┏ Leave the run? ───────────────────────────────────┓
/// ┃ Detached, it goes on in the background. Stopped …  ┃
/// ┃                                                   ┃
/// ┃ d detach   s stop   c cancel (Enter)              ┃
/// ┗───────────────────────────────────────────────────┛
/// ```
pub(super) fn draw_question(question: Question, theme: &Theme, area: Rect, buffer: &mut Buffer) {
    let (title, lines) = question_text(question);
    let place = area.centered(Constraint::Length(55), Constraint::Length(6));
    let inner = draw_box(&format!(" {title} "), "", theme, place, buffer);
    let answers: &[(&str, &str)] = match question {
        Question::Leave => &[("d", " detach   "), ("s", " stop   "), ("c", " cancel (Enter)")],
        Question::Finish | Question::Drop(..) => &[("y", " yes   "), ("n", " no (Enter)")],
    };
    let answer = |(key, word): &(&'static str, &'static str)| [Span::styled(*key, theme.key), Span::raw(*word)];
    let answers = Line::from(answers.iter().flat_map(answer).collect::<Vec<_>>());
    let lines = lines.into_iter().map(Line::raw).chain([Line::default(), answers]);
    for (index, line) in lines.enumerate() {
        if let Some(place) = row(inner, index) {
            buffer.set_line(place.x, place.y, &line, place.width);
        }
    }
}
