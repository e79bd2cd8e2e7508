//! Drawing: pure functions of the state and the theme into a buffer. No IO, no clock; only visible rows are touched.

mod banner;
mod chart;
mod cluster;
mod environments;
mod footer;
mod header;
mod heatmap;
mod log;
mod overlay;
mod overview;
mod profile;
mod search;
mod sizes;
mod tabs;
mod trial_detail;
mod trials;

use ratatui::{
    buffer::Buffer,
    layout::{Alignment, Rect},
    style::Style,
    text::{Line, Span},
    widgets::{Block, Borders, Clear, Paragraph, Widget as _},
};

pub(crate) use self::{banner::banner_rows, overlay::help_scroll_limit, tabs::tab_at};
use super::{
    layout::{Layout, MIN_SIZE},
    state::{Overlay, Question, State},
    tabs::Tab,
    text,
    theme::Theme,
};

/// Draws one frame.
///
/// ```text
/// header   who measures what, phase, time, trials, gain; what is being tried
///  1 Overview  2 Sizes  3 Search  4 Cluster  5 Trials  6 Profile  7 Log
/// banner   only in the overview when the run is over: what was gained, where the files are
/// body     the view
/// footer   keys, or that the display is frozen, or a line that is being typed
/// ```
pub(crate) fn draw(state: &State, theme: &Theme, area: Rect, buffer: &mut Buffer) {
    Clear.render(area, buffer);
    let Some(layout) = Layout::of(state) else {
        draw_too_small(state, theme, area, buffer);
        return;
    };
    header::draw(state, theme, layout.header, buffer);
    tabs::draw(state, theme, layout.tabs, buffer);
    if let Some(place) = layout.banner {
        banner::draw(state, theme, place, buffer);
    }
    match state.view.tab {
        Tab::Overview => overview::draw(state, theme, layout.body, buffer),
        Tab::Sizes => sizes::draw(state, theme, layout.body, buffer),
        Tab::Search => search::draw(state, theme, layout.body, buffer),
        Tab::Cluster => cluster::draw(state, theme, layout.body, buffer),
        Tab::Trials => trials::draw(state, theme, layout.body, buffer),
        Tab::Profile => profile::draw(state, theme, layout.body, buffer),
        Tab::Log => log::draw(state, theme, layout.body, buffer),
    }
    footer::draw(state, theme, layout.footer, buffer);
    match &state.view.overlay {
        None | Some(Overlay::Prompt(_)) => {}
        Some(Overlay::Help { scroll }) => overlay::draw_help(state, *scroll, theme, area, buffer),
        Some(Overlay::Question(question)) => overlay::draw_question(*question, theme, area, buffer),
    }
}

/// ```text
///      terminal too small
///      now 50x12, needed 60x15
///      q quit
/// ```
fn draw_too_small(state: &State, theme: &Theme, area: Rect, buffer: &mut Buffer) {
    let (columns, rows) = state.view.size;
    let question = match &state.view.overlay {
        Some(Overlay::Question(Question::Leave)) => "Leave? d detach, s stop, C cancel".to_owned(),
        Some(Overlay::Question(question)) => format!("{} y/N", overlay::question_text(*question).0),
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

/// Draws the rule and title of a part, with what stands at its right end, and returns the place under it.
fn draw_panel(theme: &Theme, title: &str, right: &str, area: Rect, buffer: &mut Buffer) -> Rect {
    let room = usize::from(area.width).saturating_sub(5 + text::width(title));
    let mut block = Block::new()
        .borders(Borders::TOP)
        .border_set(theme.glyphs.border)
        .border_style(theme.dim)
        .title(Line::from(vec![Span::styled(format!(" {title} "), theme.title)]));
    if !right.is_empty() && text::width(right) <= room {
        block = block.title(Line::styled(format!(" {right} "), theme.dim).right_aligned());
    }
    let inner = block.inner(area);
    block.render(area, buffer);
    inner
}

/// Shows that the cursor is on a row: by a symbol in the first column, and in reverse.
fn draw_cursor(theme: &Theme, place: Rect, buffer: &mut Buffer) {
    buffer.set_string(place.x, place.y, theme.glyphs.row_cursor, Style::new());
    buffer.set_style(place, theme.selected);
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

/// Draws spans at the right end, if they fit beside what is there already; says whether they did.
fn draw_right(spans: Vec<Span<'_>>, used: u16, area: Rect, buffer: &mut Buffer) -> bool {
    let width = spans.iter().map(Span::width).sum::<usize>() as u16;
    let fits = used + 2 + width <= area.width;
    if fits {
        let place = Rect { x: area.right() - width, width, ..area };
        draw_parts(spans, place, buffer);
    }
    fits
}
