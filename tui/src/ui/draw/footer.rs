//! The footer: the keys of the context, or what the user must not forget.

use ratatui::{
    buffer::Buffer,
    layout::Rect,
    style::Style,
    text::Span,
    widgets::{Clear, Widget as _},
};

use super::{draw_parts, draw_right, row};
use crate::ui::{
    keys,
    parts::{add_keys, line_spans},
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
        let useful = keys::footer(&contexts).filter(|b| b.is_useful(state.run.summary.is_over()));
        let named = useful.filter_map(|binding| Some((binding.keys.first()?.name(), binding.footer?)));
        add_keys(&mut parts, named, area.width, theme);
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
/// What is wrong with the line takes the place of the keys, or of the rows above where it needs more room.
fn draw_prompt(prompt: &Prompt, theme: &Theme, area: Rect, buffer: &mut Buffer) {
    buffer.set_style(area, Style::new());
    let asks = match prompt.asks {
        Asks::Filter => "filter, ! in front shows the others: ",
        Asks::Pin => "pin KNOB=VALUE (KNOB= unset, KNOB alone unpins): ",
        Asks::Load => "profile or output folder to compare with: ",
        Asks::Budget => "add time or trials (90s, 5m, 200 trials): ",
    };
    let room = usize::from(area.width).saturating_sub(text::width(asks));
    let mut parts = vec![Span::styled(asks, theme.dim)];
    parts.extend(line_spans(&prompt.line, room, theme));
    let used = draw_parts(parts, area, buffer);
    let keys = || {
        vec![
            Span::styled("Enter", theme.key),
            Span::styled(" done  ", theme.dim),
            Span::styled("Esc", theme.key),
            Span::styled(" cancel", theme.dim),
        ]
    };
    let Some(error) = prompt.error.as_ref().map(|error| text::one_line(error)) else {
        draw_right(keys(), used, area, buffer);
        return;
    };
    if !draw_right(vec![Span::styled(error.clone(), theme.bad)], used, area, buffer) {
        draw_right(keys(), used, area, buffer);
        draw_above(&format!("{} {error}", theme.glyphs.failed), theme, area, buffer);
    }
}

/// Draws what is wrong on as many rows above the line as it needs.
fn draw_above(error: &str, theme: &Theme, area: Rect, buffer: &mut Buffer) {
    let lines = text::wrap(error, usize::from(area.width).saturating_sub(2));
    let n_rows = (lines.len() as u16).min(area.y);
    let place = Rect { y: area.y - n_rows, height: n_rows, ..area };
    Clear.render(place, buffer);
    for (index, line) in lines.iter().enumerate() {
        let Some(place) = row(place, index) else { return };
        let line = text::fit(line, usize::from(place.width).saturating_sub(2), theme.glyphs.ellipsis);
        buffer.set_stringn(place.x + 1, place.y, line, usize::from(place.width), theme.bad);
    }
}
