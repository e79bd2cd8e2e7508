//! The footer: the keys of the context, or what the user must not forget.

use ratatui::{buffer::Buffer, layout::Rect, style::Style, text::Span};

use super::{draw_parts, draw_right};
use crate::ui::{
    keys,
    state::{Asks, Overlay, Playback, Prompt, State},
    text,
    theme::Theme,
};

/// ```text
///  DISPLAY FROZEN  34 records since, p shows them │ q quit  ? help  p freeze …
///  43 % at 10x  q quit  ? help  space pause …
/// ```
/// Keys are dropped from the right when the line is too narrow; a notice takes their place until the next key.
pub(super) fn draw(state: &State, theme: &Theme, area: Rect, buffer: &mut Buffer) {
    if let Some(Overlay::Prompt(prompt)) = &state.view.overlay {
        draw_prompt(prompt, theme, area, buffer);
        return;
    }
    let mut parts: Vec<Span<'_>> = Vec::new();
    if let Some(frozen) = &state.view.frozen {
        parts.push(Span::styled(" DISPLAY FROZEN ", theme.badge));
        let since = text::count(frozen.n_records_since, "record");
        parts.push(Span::raw(format!(" {since} since, p goes on  ")));
    }
    if let Some(playback) = &state.control.playback {
        parts.push(Span::styled(format!("{}  ", position(state.shown_elapsed_ms(), playback)), theme.title));
    }
    if let Some(notice) = &state.view.notice {
        let used: usize = parts.iter().map(Span::width).sum();
        let room = usize::from(area.width).saturating_sub(used);
        let notice = text::fit(&text::one_line(notice), room, theme.glyphs.ellipsis);
        parts.push(Span::styled(notice, theme.title));
    } else {
        let contexts = state.contexts();
        for binding in keys::footer(&contexts).filter(|b| b.is_useful(state.run.summary.is_over())) {
            let (Some(label), Some(chord)) = (binding.footer, binding.keys.first()) else { continue };
            let key = Span::styled(chord.name(), theme.key);
            let label = Span::styled(format!(" {label}  "), theme.dim);
            // Key and word stay together.
            let used: usize = parts.iter().map(Span::width).sum();
            if usize::from(area.width) < used + key.width() + label.width().saturating_sub(2) {
                break;
            }
            parts.extend([key, label]);
        }
    }
    buffer.set_style(area, Style::new());
    if let Some(last) = parts.last_mut() {
        last.content = last.content.trim_end().to_owned().into();
    }
    draw_parts(parts, area, buffer);
}

/// Where a replay is, and how fast it goes on.
fn position(elapsed_ms: u64, playback: &Playback) -> String {
    let share = elapsed_ms.min(playback.total_ms) as f64 / playback.total_ms.max(1) as f64;
    format!("{:3.0} % at {}", share * 100.0, playback.speed)
}

/// ```text
/// filter: ring ll▏                                       Enter done  Esc cancel
/// ```
/// What is wrong with the line takes the place of the keys.
fn draw_prompt(prompt: &Prompt, theme: &Theme, area: Rect, buffer: &mut Buffer) {
    buffer.set_style(area, Style::new());
    let asks = match prompt.asks {
        Asks::Filter => "filter, ! in front shows the others: ",
        Asks::Pin => "pin KNOB=VALUE (KNOB= unset, KNOB alone unpins): ",
        Asks::Budget => "add time or trials (90s, 5m, 200 trials): ",
    };
    let (before, behind) = prompt.line.split();
    let (under, rest) = behind.split_at(behind.chars().next().map_or(0, char::len_utf8));
    let under = if under.is_empty() { theme.glyphs.text_cursor } else { under };
    // Of a line that is too long, the part around the cursor is shown.
    let room = usize::from(area.width).saturating_sub(text::width(asks) + text::width(under));
    let mut start = before;
    while room < text::width(start) {
        start = start.get(start.chars().next().map_or(0, char::len_utf8)..).unwrap_or_default();
    }
    let rest = text::fit(rest, room.saturating_sub(text::width(start)), "");
    let parts = vec![
        Span::styled(asks, theme.dim),
        Span::raw(start.to_owned()),
        Span::styled(under.to_owned(), theme.selected),
        Span::raw(rest),
    ];
    let used = draw_parts(parts, area, buffer);
    let right = prompt.error.as_ref().map_or_else(
        || {
            vec![
                Span::styled("Enter", theme.key),
                Span::styled(" done  ", theme.dim),
                Span::styled("Esc", theme.key),
                Span::styled(" cancel", theme.dim),
            ]
        },
        |error| {
            let room = usize::from(area.width.saturating_sub(used + 2));
            vec![Span::styled(text::fit(&text::one_line(error), room, theme.glyphs.ellipsis), theme.bad)]
        },
    );
    draw_right(right, used, area, buffer);
}
