//! What lies over the screen: the key list and questions.

use std::borrow::Cow;

use ratatui::{
    buffer::Buffer,
    layout::{Constraint, Rect},
    text::{Line, Span},
    widgets::{Block, Clear, Widget as _},
};

use super::row;
use crate::ui::{
    keys::{self, Context},
    state::{Question, State},
    text,
    theme::Theme,
};

/// Columns of the key names in the help.
const KEY_COLUMNS: usize = 16;

/// Columns of the help with its borders: room for the longest sentence of the key table.
const HELP_COLUMNS: u16 = 74;

/// Rows of borders and of the last line.
const HELP_FRAME_ROWS: u16 = 2;

/// The lines of the help under a heading for each kind of key, those of the present view first: keys and what they do.
fn help_lines(state: &State, columns: usize) -> Vec<(String, String)> {
    let help_columns = columns.saturating_sub(KEY_COLUMNS + 1);
    let mut sections: Vec<(&'static str, Vec<(String, String)>)> = Vec::new();
    for context in Context::of(state.control.source, state.view.tab) {
        for binding in keys::bindings(&[context]) {
            let heading = context.heading();
            let wrapped = text::wrap(binding.help, help_columns).into_iter().enumerate();
            let lines = wrapped.map(|(i, part)| (if i == 0 { binding.key_names() } else { String::new() }, part));
            match sections.iter_mut().find(|section| section.0 == heading) {
                Some(section) => section.1.extend(lines),
                None => sections.push((heading, lines.collect())),
            }
        }
    }
    let headed = |(heading, lines): (&str, Vec<_>)| std::iter::once((heading.to_owned(), String::new())).chain(lines);
    sections.into_iter().flat_map(headed).collect()
}

fn help_area(state: &State) -> Rect {
    let (columns, rows) = state.view.size;
    let area = Rect::new(0, 0, columns, rows);
    let columns = HELP_COLUMNS.min(area.width.saturating_sub(2));
    let rows = help_lines(state, usize::from(columns.saturating_sub(4))).len() as u16 + HELP_FRAME_ROWS;
    area.centered(Constraint::Length(columns), Constraint::Length(rows.min(area.height)))
}

/// The largest useful scroll of the help.
pub(crate) fn help_scroll_limit(state: &State) -> u16 {
    let area = help_area(state);
    let n_lines = help_lines(state, usize::from(area.width.saturating_sub(4))).len() as u16;
    n_lines.saturating_sub(area.height.saturating_sub(HELP_FRAME_ROWS))
}

/// ```text
/// ┏ Keys ──────────────────── ? Esc close ┓
/// ┃ This view                             ┃
/// ┃ Enter          show the trial in …    ┃
/// ┃ Everywhere                            ┃
/// ┃ ? F1           show this list         ┃
/// ┗───────────────────────────────────────┛
/// ```
pub(super) fn draw_help(state: &State, scroll: u16, theme: &Theme, area: Rect, buffer: &mut Buffer) {
    let limit = help_scroll_limit(state);
    let place = help_area(state).intersection(area);
    let more = if 0 < limit { " j k scroll, Esc close " } else { " Esc close " };
    let inner = draw_box(" Keys ", more, theme, place, buffer);
    let lines = help_lines(state, usize::from(inner.width));
    for (index, (names, help)) in lines.iter().skip(usize::from(scroll.min(limit))).enumerate() {
        let Some(place) = row(inner, index) else { return };
        let style = if help.is_empty() { theme.dim } else { theme.key };
        buffer.set_stringn(place.x, place.y, names, usize::from(place.width).min(KEY_COLUMNS * 2), style);
        let columns = usize::from(place.width).saturating_sub(KEY_COLUMNS + 1);
        buffer.set_stringn(place.x + KEY_COLUMNS as u16 + 1, place.y, help, columns, ratatui::style::Style::new());
    }
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
/// ┃ d detach   s stop   C cancel (Enter)              ┃
/// ┗───────────────────────────────────────────────────┛
/// ```
pub(super) fn draw_question(question: Question, theme: &Theme, area: Rect, buffer: &mut Buffer) {
    let (title, lines) = question_text(question);
    let place = area.centered(Constraint::Length(55), Constraint::Length(6));
    let inner = draw_box(&format!(" {title} "), "", theme, place, buffer);
    let answers: &[(&str, &str)] = match question {
        Question::Leave => &[("d", " detach   "), ("s", " stop   "), ("C", " cancel (Enter)")],
        Question::Finish | Question::Drop(..) => &[("y", " yes   "), ("N", " no (Enter)")],
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

/// Clears a place, frames it, and returns the inside without its margin.
fn draw_box(title: &str, right: &str, theme: &Theme, area: Rect, buffer: &mut Buffer) -> Rect {
    Clear.render(area, buffer);
    let block = Block::bordered()
        .border_set(theme.glyphs.focused_border)
        .title(Line::styled(title.to_owned(), theme.title))
        .title(Line::styled(right.to_owned(), theme.dim).right_aligned());
    let inner = block.inner(area);
    block.render(area, buffer);
    Rect { x: inner.x + 1, width: inner.width.saturating_sub(2), ..inner }
}
