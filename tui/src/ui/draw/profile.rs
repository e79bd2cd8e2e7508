//! The Profile view.

use ratatui::{buffer::Buffer, layout::Rect};

use super::draw_panel;
use crate::ui::{state::State, theme::Theme};

pub(super) fn draw(_state: &State, theme: &Theme, area: Rect, buffer: &mut Buffer) {
    draw_panel(theme, "Profile", "", area, buffer);
}
