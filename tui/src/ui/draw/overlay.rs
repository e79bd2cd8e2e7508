//! What lies over the screen: the key list and questions.

use ratatui::{
    buffer::Buffer,
    layout::{Constraint, Rect},
    text::{Line, Span},
};

use super::row;
use crate::ui::{
    keys::{self, Context},
    parts::{KeyList, draw_box},
    state::{Question, Source},
    theme::Theme,
};

/// The keys of the main screen.
fn key_list(source: Source) -> KeyList {
    KeyList::new(keys::bindings(Context::main(source)).map(|binding| (binding.key_names(), binding.help)))
}

/// The largest useful scroll of the help on a terminal of this size.
pub(crate) fn help_scroll_limit(size: (u16, u16), source: Source) -> u16 {
    key_list(source).scroll_limit(size)
}

/// Draws the list of keys.
pub(super) fn draw_help(scroll: u16, source: Source, theme: &Theme, area: Rect, buffer: &mut Buffer) {
    key_list(source).draw(scroll, theme, area, buffer);
}

/// A question and what follows from yes.
pub(super) const fn question_text(question: Question) -> (&'static str, [&'static str; 2]) {
    match question {
        Question::Stop => (
            "Stop the run?",
            ["It ends after the current trials. Nothing new is", "written; all trials stay in the run store."],
        ),
        Question::Finish => (
            "Finish the search now?",
            ["The best settings so far are verified against the", "defaults, and what holds is written."],
        ),
    }
}

/// ```text
/// ┏ Stop the run? ────────────────────────────────────┓
/// ┃ It ends after the current trials. Nothing new is  ┃
/// ┃ written; all trials stay in the run store.        ┃
/// ┃                                                   ┃
/// ┃ y yes   N no (Enter)                              ┃
/// ┗───────────────────────────────────────────────────┛
/// ```
pub(super) fn draw_question(question: Question, theme: &Theme, area: Rect, buffer: &mut Buffer) {
    let (title, lines) = question_text(question);
    let place = area.centered(Constraint::Length(55), Constraint::Length(6));
    let inner = draw_box(&format!(" {title} "), "", theme, place, buffer);
    let answers = Line::from(vec![
        Span::styled("y", theme.key),
        Span::raw(" yes   "),
        Span::styled("N", theme.key),
        Span::raw(" no (Enter)"),
    ]);
    let lines = lines.into_iter().map(Line::raw).chain([Line::default(), answers]);
    for (index, line) in lines.enumerate() {
        if let Some(place) = row(inner, index) {
            buffer.set_line(place.x, place.y, &line, place.width);
        }
    }
}
