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
    layout::Rect,
    widgets::{Clear, Widget as _},
};

pub(crate) use self::{banner::banner_rows, overlay::help_scroll_limit};
use super::{
    layout::Layout,
    parts::{self, draw_parts, row},
    state::{Overlay, Panel, State},
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

/// Says how large the terminal must be, and what can be answered all the same.
fn draw_too_small(state: &State, theme: &Theme, area: Rect, buffer: &mut Buffer) {
    let last = match state.view.overlay {
        Some(Overlay::Question(question)) => format!("{} y/N", overlay::question_text(question).0),
        _ => "q quit".to_owned(),
    };
    parts::draw_too_small(state.view.size, &last, theme, area, buffer);
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
    parts::draw_panel(state.view.focus == panel, title, right, theme, area, buffer)
}
