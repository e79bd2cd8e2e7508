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
    layout::Rect,
    style::Style,
    text::Span,
    widgets::{Clear, Widget as _},
};

pub(crate) use self::{
    banner::banner_rows,
    overlay::{help_rows, help_scroll_limit},
    tabs::tab_at,
};
use super::{
    layout::Layout,
    parts::{self, draw_parts, row},
    state::{Overlay, Question, State},
    tabs::Tab,
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

/// Says how large the terminal must be, and what can be answered all the same.
fn draw_too_small(state: &State, theme: &Theme, area: Rect, buffer: &mut Buffer) {
    let last = match &state.view.overlay {
        Some(Overlay::Question(Question::Leave)) => "Leave? d detach, s stop, C cancel".to_owned(),
        Some(Overlay::Question(question)) => format!("{} y/N", overlay::question_text(*question).0),
        _ => "q quit".to_owned(),
    };
    parts::draw_too_small(state.view.size, &last, theme, area, buffer);
}

/// Draws the rule and title of a part, with what stands at its right end, and returns the place under it.
fn draw_panel(theme: &Theme, title: &str, right: &str, area: Rect, buffer: &mut Buffer) -> Rect {
    parts::draw_panel(false, title, right, theme, area, buffer)
}

/// Shows that the cursor is on a row: by a symbol in the first column, and in reverse.
fn draw_cursor(theme: &Theme, place: Rect, buffer: &mut Buffer) {
    buffer.set_string(place.x, place.y, theme.glyphs.row_cursor, Style::new());
    buffer.set_style(place, theme.selected);
}

/// Draws spans at the right end, if they fit beside what is there already; says whether they did.
fn draw_right(spans: Vec<Span<'_>>, used: u16, area: Rect, buffer: &mut Buffer) -> bool {
    let width: usize = spans.iter().map(Span::width).sum();
    let fits = usize::from(used) + 2 + width <= usize::from(area.width);
    if fits {
        let width = width as u16;
        let place = Rect { x: area.right() - width, width, ..area };
        draw_parts(spans, place, buffer);
    }
    fits
}
