//! The log panel.

use gdrtune_session::event::Level;
use ratatui::{buffer::Buffer, layout::Rect, style::Style};

use super::{draw_panel, row};
use crate::ui::{
    run::LogLine,
    state::{Panel, State},
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
    let log = &state.run.log;
    let end = state.shown_log_end();
    let bottom = state.view.log_bottom.map_or(end, |bottom| (bottom + 1).min(end));
    let right = if bottom < end { format!("line {bottom} of {end}, G newest") } else { String::new() };
    let inner = draw_panel(state, theme, Panel::Log, "Log", &right, area, buffer);
    let mut rows_left = usize::from(inner.height);
    let time_columns = text::clock(state.view.elapsed_ms).len().max(5);
    let mut blocks = Vec::new();
    for line in (log.start()..bottom).rev().map_while(|number| log.get(number)) {
        let wrapped = wrap(line, usize::from(inner.width).saturating_sub(time_columns + 7));
        if rows_left == 0 {
            break;
        }
        rows_left = rows_left.saturating_sub(wrapped.len());
        blocks.push((line, wrapped));
    }
    // The oldest block may stick out at the top: its first rows are not shown.
    let n_rows: usize = blocks.iter().map(|(_, wrapped)| wrapped.len()).sum();
    let mut n_hidden = n_rows.saturating_sub(usize::from(inner.height));
    let mut index = 0;
    for (line, wrapped) in blocks.iter().rev() {
        let (word, style) = level_text(line.level, theme);
        for (part, words) in wrapped.iter().enumerate() {
            if 0 < n_hidden {
                n_hidden -= 1;
                continue;
            }
            let Some(place) = row(inner, index) else { return };
            index += 1;
            if part == 0 {
                let time = format!("{:>time_columns$}", text::clock(line.t_ms));
                buffer.set_stringn(place.x, place.y, time, usize::from(place.width), theme.dim);
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

const fn level_text(level: Level, theme: &Theme) -> (&'static str, Style) {
    match level {
        Level::Debug => ("debug", theme.dim),
        Level::Info => ("info", Style::new()),
        Level::Warn => ("WARN", theme.warn),
        Level::Error => ("ERROR", theme.bad),
    }
}
