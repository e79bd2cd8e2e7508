//! The profile.

use gdrtune_session::event::Phase;
use ratatui::{
    buffer::Buffer,
    layout::Rect,
    style::Style,
    text::{Line, Span},
};

use super::{draw_panel, draw_parts, row};
use crate::ui::{
    layout::Layout,
    state::State,
    tabs::profile::{self, Look, Section},
    text,
    theme::Theme,
};

/// ```text
/// ─ Profile against old.toml ────────────────── draft of 0:42, not verified ─
///  [Rules]  Diff   toml   sh   env   nccl-conf   tuner-csv   json
/// Settings of every process
///  NCCL_BUFFSIZE=8388608   not measured alone
///    bytes of each buffer between two GPUs
/// allreduce
///   1K to 8K       tree/ll/2      1.42x estimate   12 samples
/// ```
pub(super) fn draw(state: &State, theme: &Theme, area: Rect, buffer: &mut Buffer) {
    let n_visible = Layout::of(state).map_or(0, |layout| layout.rows(state));
    let rows = profile::rows(state);
    let top = profile::top(state, n_visible);
    let mut right = status(state);
    if n_visible < rows.len() {
        let lines = format!("lines {}-{} of {}", top + 1, (top + n_visible).min(rows.len()), rows.len());
        right = if right.is_empty() { lines } else { format!("{right}, {lines}") };
    }
    let view = &state.view.tabs.profile;
    let title = match &view.other {
        Some(other) => {
            let room = usize::from(area.width).saturating_sub(text::width(&right) + 30);
            format!("Profile against {}", text::fit(&text::one_line(&other.name), room, theme.glyphs.ellipsis))
        }
        None => "Profile".to_owned(),
    };
    let inner = draw_panel(theme, &title, &right, area, buffer);
    if let Some(place) = row(inner, 0) {
        draw_sections(view.section, theme, place, buffer);
    }
    for (index, line) in rows.iter().skip(top).take(n_visible).enumerate() {
        let Some(place) = row(inner, index + 1) else { return };
        let spans = line.0.iter().map(|(look, text)| Span::styled(text.as_str(), style_of(*look, theme)));
        buffer.set_line(place.x, place.y, &spans.collect::<Line<'_>>(), place.width);
    }
}

/// How much the profile is worth.
fn status(state: &State) -> String {
    let summary = state.shown();
    let Some(draft) = &summary.draft else { return String::new() };
    match (draft.profile.run.unverified, summary.is_over()) {
        (true, true) => "ended early, not verified".to_owned(),
        (true, false) if summary.phase == Some(Phase::Verify) => "draft, being verified".to_owned(),
        (true, false) => format!("draft of {}, not verified", text::clock(draft.t_ms)),
        (false, true) => "verified".to_owned(),
        (false, false) => "verified so far".to_owned(),
    }
}

/// The names of the sections; the present one is in brackets.
fn draw_sections(present: Section, theme: &Theme, area: Rect, buffer: &mut Buffer) {
    let name = |section: Section| {
        if section == present {
            Span::styled(format!("[{}]", section.name()), theme.focused)
        } else {
            Span::styled(format!(" {} ", section.name()), theme.dim)
        }
    };
    draw_parts(Section::all().map(name).collect(), area, buffer);
}

const fn style_of(look: Look, theme: &Theme) -> Style {
    match look {
        Look::Plain => Style::new(),
        Look::Dim => theme.dim,
        Look::Title => theme.title,
        Look::Good => theme.good,
        Look::Warn => theme.warn,
        Look::Bad => theme.bad,
    }
}
