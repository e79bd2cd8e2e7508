//! A profile.

use ratatui::{buffer::Buffer, style::Style};

use super::{draw_footer, draw_header};
use crate::ui::{
    parts::{draw_panel, row},
    start::{layout, profile::LineKind, state::State},
    text::fit,
    theme::Theme,
};

/// ```text
/// gdrtune 0.1.0 · profile
/// ━ tuned/profile.toml ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━ 1-20 of 64 ━
/// cluster   4 nodes, 32 ranks, NVIDIA H200, NCCL 2.28.9
/// …
/// Rules (7)
/// allreduce     0 to 64K         tree/ll/2            4 nodes, 32 ranks
///   128.7 us to 113.6 us: 1.13x (90 % interval 1.09x to 1.18x), …
/// Esc back …
/// ```
pub(super) fn draw(state: &State, theme: &Theme, buffer: &mut Buffer) {
    let layout = layout::Profile::of(state.size);
    draw_header("profile", theme, layout.header, buffer);
    draw_footer(state, theme, layout.footer, buffer);
    let Some(shown) = &state.profile else { return };
    let (lines, n_rows) = (&shown.lines, usize::from(layout.rows().height));
    let last = (shown.top + n_rows).min(lines.len());
    let part = format!("{}-{last} of {}", shown.top + 1, lines.len());
    let room = usize::from(layout.page.width).saturating_sub(8 + part.len());
    let title = fit(&shown.page.path, room, theme.glyphs.ellipsis);
    let inner = draw_panel(true, &title, &part, theme, layout.page, buffer);
    for (index, line) in lines.iter().skip(shown.top).enumerate() {
        let Some(place) = row(inner, index) else { return };
        let style = match line.kind {
            LineKind::Title => theme.title,
            LineKind::Warning => theme.warn,
            LineKind::Plain => Style::new(),
            LineKind::Dim => theme.dim,
        };
        buffer.set_string(place.x, place.y, fit(&line.text, place.width.into(), theme.glyphs.ellipsis), style);
    }
}
