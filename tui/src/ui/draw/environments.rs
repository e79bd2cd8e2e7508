//! The environments as a table, and what the knobs did.

use gdrtune_session::event::{Knob, KnobEffect};
use ratatui::{
    buffer::Buffer,
    layout::Rect,
    style::Style,
    text::{Line, Span},
};

use super::{draw_cursor, draw_panel, row};
use crate::ui::{
    run::EnvironmentRow,
    state::State,
    tabs::{
        list::visible_top,
        search::{
            places::SearchLayout,
            table::{KnobLine, Stage, cursor_row, gain, knobs, rows},
        },
    },
    text,
    theme::Theme,
};

/// Columns of the bar of gains.
const BAR_COLUMNS: usize = 8;

/// A full bar is the largest gain, but at least this one, so that noise does not look like a gain.
const FULL_BAR_MIN: f64 = 1.1;

/// ```text
/// ─ Environments ─────────────────────── 12 of 96, as tried ▼ ─
///      #    gain           state       trials  settings
/// ▸◆   1   1.42x ████████  ◌ in play      120  NCCL_BUFFSIZE=1048576
///      2       - ░░░░░░░░  ✗ failed         4  NCCL_PROTO=LL128
///  NCCL_BUFFSIZE=1048576
///  NCCL_BUFFSIZE moved from unset
/// ```
pub(super) fn draw(state: &State, theme: &Theme, area: Rect, buffer: &mut Buffer) {
    let summary = state.shown();
    let view = &state.view.tabs.search;
    let rows = rows(state);
    let order = if view.is_by_score { "by gain" } else { "as tried" };
    let sorted = theme.glyphs.sorted[usize::from(view.is_reversed)];
    let of = summary.n_environments.map_or_else(String::new, |n| format!(" of {n}"));
    let inner = draw_panel(theme, "Environments", &format!("{}{of}, {order} {sorted}", rows.len()), area, buffer);
    if let Some(place) = row(inner, 0) {
        let head = format!("{:>6}{:>8} {:BAR_COLUMNS$}  {:11}{:>6}  settings", "#", "gain", "", "state", "trials");
        buffer.set_stringn(place.x, place.y, head, usize::from(place.width), theme.dim);
    }
    if rows.is_empty() {
        if let Some(place) = row(inner, 1) {
            buffer.set_stringn(place.x, place.y, " none yet", usize::from(place.width), theme.dim);
        }
        return;
    }
    let n_visible = SearchLayout::n_environments(area);
    let cursor = cursor_row(state, &rows);
    let top = visible_top(view.table_top, cursor, rows.len(), n_visible);
    let best = summary.search.best_environment();
    let full = best.and_then(gain).unwrap_or(1.0).max(FULL_BAR_MIN);
    for (line, (index, each)) in rows.iter().enumerate().skip(top).take(n_visible).enumerate() {
        let Some(place) = row(inner, line + 1) else { return };
        let is_best = best.is_some_and(|best| best.overlay == each.overlay);
        let text = line_of(each, Stage::of(summary, each), is_best, full, theme, usize::from(place.width));
        buffer.set_line(place.x, place.y, &text, place.width);
        if index == cursor {
            draw_cursor(theme, place, buffer);
        }
    }
    let Some(each) = rows.get(cursor) else { return };
    let why = if each.note.is_empty() { each.why.clone() } else { format!("{}; {}", each.why, each.note) };
    let n_drawn = n_visible.min(rows.len());
    for (line, (detail, style)) in [(&each.settings, theme.title), (&why, theme.dim)].into_iter().enumerate() {
        if let Some(place) = row(inner, n_drawn + 1 + line) {
            let detail = text::fit(&text::one_line(detail), usize::from(place.width) - 1, theme.glyphs.ellipsis);
            buffer.set_string(place.x + 1, place.y, detail, style);
        }
    }
}

fn line_of(
    each: &EnvironmentRow,
    stage: Stage,
    is_best: bool,
    full: f64,
    theme: &Theme,
    columns: usize,
) -> Line<'static> {
    let glyphs = &theme.glyphs;
    let best = if is_best { glyphs.best_point } else { " " };
    let gain = gain(each);
    let gain_text = gain.map_or_else(|| "-".to_owned(), text::ratio);
    let style = if gain.is_some_and(|gain| 1.005 <= gain) { theme.best_series } else { theme.default_series };
    let share = (gain.unwrap_or(1.0) - 1.0) / (full - 1.0);
    let n_filled = ((share * BAR_COLUMNS as f64).round().max(0.0) as usize).min(BAR_COLUMNS);
    let [filled, empty] = glyphs.gauge;
    let (symbol, stage_style) = match stage {
        Stage::InPlay => (glyphs.waiting, theme.current_series),
        Stage::Scored => (glyphs.ok, Style::new()),
        Stage::GivenUp => (glyphs.closed, theme.dim),
        Stage::Failed => (glyphs.failed, theme.bad),
        Stage::Unscored => (glyphs.alert, theme.warn),
    };
    let mut line = Line::from(vec![
        Span::styled(format!(" {best}"), theme.best_series),
        Span::raw(format!("{:>4}", text::nth(each.index))),
        Span::styled(format!("{gain_text:>8} {}", filled.repeat(n_filled)), style),
        Span::styled(empty.repeat(BAR_COLUMNS - n_filled), theme.dim),
        Span::styled(format!("  {:11}", format!("{symbol} {}", stage.word())), stage_style),
        Span::raw(format!("{:>6}  ", each.n_trials)),
    ]);
    let room = columns.saturating_sub(line.width());
    line.push_span(Span::raw(text::fit(&text::one_line(&each.settings), room, glyphs.ellipsis)));
    line
}

/// ```text
/// ─ Knobs ──────────────────── time with the worst value over the best's ─
///  ✓ mattered   1.60x [1.45-1.77]  NCCL_BUFFSIZE  best 1048576, worst unset
///  ○ none       1.01x [1.00-1.02]  NCCL_NSOCKS_PERTHREAD
///  ◌ not known                     NCCL_SOCKET_IFNAME  unset, =fast0
/// ```
pub(super) fn draw_knobs(state: &State, theme: &Theme, area: Rect, buffer: &mut Buffer) {
    let n_visible = usize::from(area.height.saturating_sub(1));
    let n_knobs = knobs(state).count();
    let right = if n_visible < n_knobs {
        format!("{n_visible} of {n_knobs}")
    } else {
        "time with the worst value over the best's".to_owned()
    };
    let inner = draw_panel(theme, "Knobs", &right, area, buffer);
    if n_knobs == 0
        && let Some(place) = row(inner, 0)
    {
        buffer.set_stringn(place.x, place.y, " none in this space", usize::from(place.width), theme.dim);
    }
    for (line, knob) in knobs(state).take(n_visible).enumerate() {
        let Some(place) = row(inner, line) else { return };
        let mut line = match knob {
            KnobLine::Told(knob) => told_line(knob, theme),
            KnobLine::Searched(name, values) => {
                let values = values.iter().map(|value| value_text(value.as_deref())).collect::<Vec<_>>().join(", ");
                let state = format!(" {:30}", format!("{} not known yet", theme.glyphs.waiting));
                Line::from(vec![Span::styled(state, theme.dim), Span::raw(format!("{name}  {values}"))])
            }
        };
        let width = usize::from(place.width);
        if width < line.width()
            && let Some(last) = line.spans.pop()
        {
            let room = width.saturating_sub(line.width());
            line.push_span(Span::styled(text::fit(&last.content, room, theme.glyphs.ellipsis), last.style));
        }
        buffer.set_line(place.x, place.y, &line, place.width);
    }
}

fn told_line(knob: &Knob, theme: &Theme) -> Line<'static> {
    let Knob { name, best, worst, factor, low, high, effect } = knob;
    let (symbol, word, style) = match effect {
        KnobEffect::Mattered => (theme.glyphs.ok, "mattered", theme.good),
        KnobEffect::None => (theme.glyphs.closed, "none", theme.dim),
        KnobEffect::Unknown => (theme.glyphs.waiting, "unknown", theme.dim),
    };
    let factor = format!("{} [{low:.2}-{high:.2}]", text::ratio(*factor));
    Line::from(vec![
        Span::styled(format!(" {:11}", format!("{symbol} {word}")), style),
        Span::raw(format!("{factor:17}  ")),
        Span::raw(format!("{name}  best {}, worst {}", value_text(best.as_deref()), value_text(worst.as_deref()))),
    ])
}

fn value_text(value: Option<&str>) -> String {
    text::one_line(value.unwrap_or("unset"))
}
