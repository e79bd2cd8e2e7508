//! Drawing: pure functions of the state and the theme into a buffer. No IO, no clock; only visible rows are touched.

mod banner;
mod chart;
mod footer;
mod header;
mod log;
mod nodes;
mod overlay;
mod trials;

use ratatui::{
    buffer::Buffer,
    layout::{Alignment, Rect},
    text::{Line, Span},
    widgets::{Block, Borders, Clear, Paragraph, Widget as _},
};

pub(crate) use self::{banner::banner_rows, overlay::help_scroll_limit};
use super::{
    layout::{Layout, MIN_SIZE},
    state::{Overlay, Panel, State},
    text,
    theme::Theme,
};

/// Draws one frame.
///
/// ```text
/// header   who measures what, phase, time, trials, gain; what is being tried
/// banner   only when the run is over: what was gained, where the files are
/// caption  collective, legend, the size under the cursor
/// ─ Bus bandwidth ─────────  ─ Latency ───────────────
/// ─ Trials ───────────────────────────────────────────
/// ─ Nodes ──────  ─ Log ──────────────────────────────
/// footer   keys, or that the display is frozen
/// ```
pub(crate) fn draw(state: &State, theme: &Theme, area: Rect, buffer: &mut Buffer) {
    Clear.render(area, buffer);
    let Some(layout) = Layout::of(state) else {
        draw_too_small(state, theme, area, buffer);
        return;
    };
    header::draw(state, theme, layout.header, buffer);
    if let Some(place) = layout.banner {
        banner::draw(state, theme, place, buffer);
    }
    chart::draw_caption(state, theme, layout.caption, buffer);
    for (panel, place) in Panel::ALL.into_iter().filter_map(|panel| Some((panel, layout.place(panel)?))) {
        match panel {
            Panel::Busbw => chart::draw(state, theme, chart::Quantity::Busbw, place, buffer),
            Panel::Latency => chart::draw(state, theme, chart::Quantity::Latency, place, buffer),
            Panel::Trials => trials::draw(state, theme, place, buffer),
            Panel::Nodes => nodes::draw(state, theme, place, buffer),
            Panel::Log => log::draw(state, theme, place, buffer),
        }
    }
    footer::draw(state, theme, layout.footer, buffer);
    match state.view.overlay {
        None => {}
        Some(Overlay::Help { scroll }) => overlay::draw_help(scroll, state.control.source, theme, area, buffer),
        Some(Overlay::Question(question)) => overlay::draw_question(question, theme, area, buffer),
    }
}

/// ```text
///      terminal too small
///      now 50x12, needed 60x15
///      q quit
/// ```
fn draw_too_small(state: &State, theme: &Theme, area: Rect, buffer: &mut Buffer) {
    let (columns, rows) = state.view.size;
    let question = match state.view.overlay {
        Some(Overlay::Question(question)) => format!("{} y/N", overlay::question_text(question).0),
        _ => "q quit".to_owned(),
    };
    let lines = [
        Line::styled("terminal too small", theme.title),
        Line::raw(format!("now {columns}x{rows}, needed {}x{}", MIN_SIZE.0, MIN_SIZE.1)),
        Line::raw(question),
    ];
    let top = area.height.saturating_sub(lines.len() as u16) / 2;
    let middle = Rect { y: area.y + top, height: area.height - top, ..area };
    Paragraph::new(lines.to_vec()).alignment(Alignment::Center).render(middle, buffer);
}

/// Draws the rule and title of a panel, with what stands at its right end, and returns the place under it.
fn draw_panel(
    state: &State,
    theme: &Theme,
    panel: Panel,
    title: &str,
    right: &str,
    area: Rect,
    buffer: &mut Buffer,
) -> Rect {
    let focused = state.view.focus == panel;
    let (style, border) =
        if focused { (theme.focused, theme.glyphs.focused_border) } else { (theme.title, theme.glyphs.border) };
    let room = usize::from(area.width).saturating_sub(5 + text::width(title));
    let mut block = Block::new()
        .borders(Borders::TOP)
        .border_set(border)
        .border_style(if focused { theme.title } else { theme.dim })
        .title(Line::from(vec![Span::styled(format!(" {title} "), style)]));
    if !right.is_empty() && text::width(right) <= room {
        block = block.title(Line::styled(format!(" {right} "), theme.dim).right_aligned());
    }
    let inner = block.inner(area);
    block.render(area, buffer);
    inner
}

/// The row of a place, if it has that many.
fn row(area: Rect, index: usize) -> Option<Rect> {
    let index = u16::try_from(index).ok()?;
    (index < area.height).then(|| Rect { y: area.y + index, height: 1, ..area })
}

/// Draws a line whose last spans are dropped whole if they do not fit; returns the columns that it took.
fn draw_parts(parts: Vec<Span<'_>>, area: Rect, buffer: &mut Buffer) -> u16 {
    let mut x = area.x;
    for part in parts {
        let width = part.width() as u16;
        if area.right() < x.saturating_add(width) {
            break;
        }
        buffer.set_span(x, area.y, &part, width);
        x += width;
    }
    x - area.x
}
