//! The form of a new run.

use gdrtune_profiles::vocab::Engine;
use ratatui::{buffer::Buffer, layout::Rect, style::Style};

use super::{command_rows, draw_footer, draw_header};
use crate::ui::{
    parts::{draw_panel, draw_parts, line_spans, row},
    start::{
        form::{Field, FieldId, Focus, Line, Verdict},
        layout,
        state::State,
    },
    text::{fit, wrap},
    theme::Theme,
};

/// Columns before a field's label: the mark of the one that has the focus.
const MARK_COLUMNS: u16 = 2;

/// Columns of a label and of the gap after it.
const LABEL_COLUMNS: u16 = 16;

/// ```text
/// gdrtune 0.1.0 · new run
///   engine          native nccl [sim] replay
/// ▸ cluster         rail-optimised_
///   ✗               what is wrong with it
///   [ start ]
/// Cluster for --engine sim: …            what the field is
/// ━ Command ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━
/// gdrtune tune --engine sim --cluster rail-optimised
/// ✓ can be started
/// Esc back …
/// ```
pub(super) fn draw(state: &State, theme: &Theme, buffer: &mut Buffer) {
    let layout = layout::Form::of(state.size);
    draw_header("new run", theme, layout.header, buffer);
    draw_badge(state, theme, layout.header, buffer);
    let form = &state.form;
    let lines = form.lines();
    for (index, line) in lines.iter().skip(form.top).enumerate() {
        let Some(place) = row(layout.fields, index) else { break };
        match line {
            Line::Field(id) => {
                let focused = form.focus == Focus::Field(*id);
                if let Some(field) = form.field(*id) {
                    draw_field(field, form.hint(*id), focused, theme, place, buffer);
                }
            }
            Line::Problem(id) => {
                let problem = form.field(*id).and_then(|field| field.problem.as_deref()).unwrap_or_default();
                let room = place.width.saturating_sub(MARK_COLUMNS + 2);
                let text = fit(problem, room.into(), theme.glyphs.ellipsis);
                buffer.set_string(
                    place.x + MARK_COLUMNS,
                    place.y,
                    format!("{} {text}", theme.glyphs.failed),
                    theme.bad,
                );
            }
            Line::Start => {
                let focused = form.focus == Focus::Start;
                draw_mark(focused, theme, place, buffer);
                let style = if focused { theme.selected } else { theme.title };
                buffer.set_string(place.x + MARK_COLUMNS, place.y, "[ start ]", style);
            }
        }
    }
    draw_help(state, theme, layout.help, buffer);
    let inner = draw_panel(false, "Command", "", theme, layout.command, buffer);
    let rows = command_rows(&form.words(), inner.width.into(), inner.height.into(), theme);
    for (index, text) in rows.iter().enumerate() {
        let Some(place) = row(inner, index) else { break };
        buffer.set_string(place.x, place.y, text, Style::new());
    }
    draw_verdict(state, theme, layout.verdict, buffer);
    draw_footer(state, theme, layout.footer, buffer);
}

/// Says at the right end that nothing will be measured, where that is so.
fn draw_badge(state: &State, theme: &Theme, area: Rect, buffer: &mut Buffer) {
    let engine = state.form.field(FieldId::Engine).and_then(|field| field.value().parse::<Engine>().ok());
    let badge = match engine {
        Some(Engine::Sim) => " SIMULATED ",
        Some(Engine::Replay) => " REPLAYED ",
        _ => return,
    };
    buffer.set_string(area.right().saturating_sub(badge.len() as u16), area.y, badge, theme.badge);
}

fn draw_mark(focused: bool, theme: &Theme, place: Rect, buffer: &mut Buffer) {
    if focused {
        buffer.set_string(place.x, place.y, theme.glyphs.row_cursor, theme.title);
    }
}

fn draw_field(field: &Field, hint: &str, focused: bool, theme: &Theme, place: Rect, buffer: &mut Buffer) {
    draw_mark(focused, theme, place, buffer);
    let label = if focused { theme.title } else { Style::new() };
    buffer.set_string(place.x + MARK_COLUMNS, place.y, field.id.label(), label);
    let indent = MARK_COLUMNS + LABEL_COLUMNS;
    let value = Rect { x: place.x + indent, width: place.width.saturating_sub(indent), ..place };
    if field.id.is_choice() {
        return draw_choice(field, focused, theme, value, buffer);
    }
    if field.input.text().is_empty() && !focused {
        let hint = format!("{} {hint}", theme.glyphs.dot);
        buffer.set_string(value.x, value.y, fit(hint.trim_end(), value.width.into(), theme.glyphs.ellipsis), theme.dim);
        return;
    }
    if focused {
        draw_parts(line_spans(&field.input, value.width.into(), theme).to_vec(), value, buffer);
        return;
    }
    let text = fit(field.input.text(), value.width.into(), theme.glyphs.ellipsis);
    buffer.set_string(value.x, value.y, text, Style::new());
}

/// All values; the chosen one in brackets.
fn draw_choice(field: &Field, focused: bool, theme: &Theme, place: Rect, buffer: &mut Buffer) {
    let mut x = place.x;
    for value in field.id.values() {
        let is_chosen = value == field.value();
        let (text, style) = match (is_chosen, focused) {
            (true, true) => (format!("[{value}]"), theme.selected),
            (true, false) => (format!("[{value}]"), theme.title),
            (false, _) => (format!(" {value} "), theme.dim),
        };
        (x, _) = buffer.set_stringn(x, place.y, text, place.right().saturating_sub(x).into(), style);
    }
}

/// What the field is that has the focus, or all that is wrong with it.
fn draw_help(state: &State, theme: &Theme, area: Rect, buffer: &mut Buffer) {
    let (text, style) = match state.form.focus {
        Focus::Start => ("Enter runs the command below; its own screen opens", theme.dim),
        Focus::Field(id) => match state.form.field(id) {
            Some(Field { problem: Some(problem), .. }) => (problem.as_str(), theme.bad),
            field => (field.map_or("", |field| field.help.as_str()), theme.dim),
        },
    };
    let ellipsis = theme.glyphs.ellipsis;
    let lines = wrap(text, area.width.into());
    for (index, line) in lines.iter().enumerate() {
        let Some(place) = row(area, index) else { return };
        let is_cut = index + 1 == usize::from(area.height) && index + 1 < lines.len();
        let line = if is_cut { format!("{line} {ellipsis}") } else { line.clone() };
        buffer.set_string(place.x, place.y, fit(&line, area.width.into(), ellipsis), style);
    }
}

/// Whether the command can be started, in one line.
fn draw_verdict(state: &State, theme: &Theme, area: Rect, buffer: &mut Buffer) {
    let glyphs = &theme.glyphs;
    let (symbol, text, style) = match &state.form.verdict {
        Verdict::Wrong(None) => (glyphs.failed, "cannot be started: see above", theme.bad),
        Verdict::Wrong(Some(why)) => (glyphs.failed, why.as_str(), theme.bad),
        Verdict::Asked => (glyphs.waiting, "looking at files and hosts", theme.dim),
        Verdict::Fine(None) => (glyphs.ok, "can be started", theme.good),
        Verdict::Fine(Some(about)) => (glyphs.ok, about.as_str(), theme.good),
    };
    let text = fit(&format!("{symbol} {text}"), area.width.into(), glyphs.ellipsis);
    buffer.set_string(area.x, area.y, text, style);
}
