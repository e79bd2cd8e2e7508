//! The names of the views.

use ratatui::{buffer::Buffer, layout::Rect, text::Span};

use super::draw_parts;
use crate::ui::{state::State, tabs::Tab, theme::Theme};

/// From this many columns on every view has its name; below, the present one alone.
const ALL_NAMES_COLUMNS: u16 = 72;

/// The text of a view's place.
fn label(tab: Tab, present: Tab, columns: u16) -> String {
    if ALL_NAMES_COLUMNS <= columns || tab == present {
        format!(" {} {} ", tab.number(), tab.name())
    } else {
        format!(" {} ", tab.number())
    }
}

/// ```text
///  1 Overview  2 Sizes  3 Search  4 Cluster  5 Trials  6 Profile  7 Log
/// ```
/// The present one is in reverse, and named even where there is no room for the others.
pub(super) fn draw(state: &State, theme: &Theme, area: Rect, buffer: &mut Buffer) {
    let present = state.view.tab;
    let parts = Tab::ALL.map(|tab| {
        let style = if tab == present { theme.focused } else { theme.dim };
        Span::styled(label(tab, present, area.width), style)
    });
    draw_parts(parts.to_vec(), area, buffer);
}

/// The view whose name is in a column of the place `area`.
pub(crate) fn tab_at(area: Rect, present: Tab, column: u16) -> Option<Tab> {
    let mut end = area.x;
    Tab::ALL.into_iter().find(|tab| {
        end += label(*tab, present, area.width).len() as u16;
        column < end
    })
}
