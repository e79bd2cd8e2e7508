//! The log.

use gdrtune_session::event::Level;
use ratatui::{buffer::Buffer, layout::Rect, style::Style};

use super::{draw_panel, row};
use crate::ui::{
    run::LogLine,
    state::State,
    tabs::log::{level_name, lines_from},
    text,
    theme::Theme,
};

/// ```text
/// ─ Log ──────────────────── line 12 of 40 ─
///  0:04 info  vh1: ready: 4 cores
///  0:12 WARN  trial 12 ring/ll/8 at
///             allreduce 64K: hung: …
/// ```
/// The newest line is the last row. Lines are wrapped, so the panel is filled from below.
pub(super) fn draw(state: &State, theme: &Theme, area: Rect, buffer: &mut Buffer) {
    let view = &state.view.tabs.log;
    let end = state.shown_log_end();
    let mut right = Vec::new();
    if !view.filter.is_empty() {
        right.push(format!("filter {}, Esc shows all", view.filter.text()));
    }
    if view.least != Level::Debug {
        right.push(format!("from {} on", level_name(view.least)));
    }
    if let Some(bottom) = view.bottom.filter(|bottom| bottom + 1 < end) {
        right.push(format!("line {} of {end}, G newest", bottom + 1));
    }
    let inner = draw_panel(theme, "Log", &right.join(", "), area, buffer);
    let lines = lines_from(state, view.bottom.unwrap_or(usize::MAX - 1)).map(|(_, line)| line);
    draw_lines(state, lines, theme, inner, buffer);
}

/// The last lines that matter so much or more.
pub(super) fn draw_last(state: &State, least: Level, theme: &Theme, area: Rect, buffer: &mut Buffer) {
    let log = &state.run.log;
    let lines = (log.start()..state.shown_log_end()).rev().filter_map(|number| log.get(number));
    draw_lines(state, lines.filter(|line| least <= line.level), theme, area, buffer);
}

/// The last lines of some moments.
pub(super) fn draw_near(state: &State, is_near: impl Fn(u64) -> bool, theme: &Theme, area: Rect, buffer: &mut Buffer) {
    let log = &state.run.log;
    let lines = (log.start()..state.shown_log_end()).rev().filter_map(|number| log.get(number));
    draw_lines(state, lines.filter(|line| is_near(line.t_ms)), theme, area, buffer);
}

/// Draws lines, the newest first in `lines` and last in the area.
fn draw_lines<'a>(
    state: &State,
    lines: impl Iterator<Item = &'a LogLine>,
    theme: &Theme,
    area: Rect,
    buffer: &mut Buffer,
) {
    let mut rows_left = usize::from(area.height);
    let time_columns = text::clock(state.view.elapsed_ms).len().max(5);
    let mut blocks = Vec::new();
    for line in lines {
        if rows_left == 0 {
            break;
        }
        let wrapped = wrap(line, usize::from(area.width).saturating_sub(time_columns + 7));
        rows_left = rows_left.saturating_sub(wrapped.len());
        blocks.push((line, wrapped));
    }
    // The oldest block may stick out at the top: its first rows are not shown.
    let n_rows: usize = blocks.iter().map(|(_, wrapped)| wrapped.len()).sum();
    let mut n_hidden = n_rows.saturating_sub(usize::from(area.height));
    let mut index = 0;
    for (line, wrapped) in blocks.iter().rev() {
        for (part, words) in wrapped.iter().enumerate() {
            if 0 < n_hidden {
                n_hidden -= 1;
                continue;
            }
            let Some(place) = row(area, index) else { return };
            index += 1;
            if part == 0 {
                let time = format!("{:>time_columns$}", text::clock(line.t_ms));
                buffer.set_stringn(place.x, place.y, time, usize::from(place.width), theme.dim);
                let (word, style) = (level_name(line.level), level_style(line.level, theme));
                buffer.set_stringn(place.x + time_columns as u16 + 1, place.y, word, 5, style);
            }
            let x = time_columns as u16 + 7;
            let columns = place.width.saturating_sub(x);
            let words = text::fit(words, usize::from(columns), theme.glyphs.ellipsis);
            let style = if line.level == Level::Debug { theme.dim } else { Style::new() };
            buffer.set_stringn(place.x + x, place.y, words, usize::from(columns), style);
        }
    }
}

fn wrap(line: &LogLine, columns: usize) -> Vec<String> {
    if line.host.is_empty() {
        return text::wrap(&line.text, columns);
    }
    text::wrap(&format!("{}: {}", line.host, line.text), columns)
}

const fn level_style(level: Level, theme: &Theme) -> Style {
    match level {
        Level::Debug => theme.dim,
        Level::Info => Style::new(),
        Level::Warn => theme.warn,
        Level::Error => theme.bad,
    }
}
