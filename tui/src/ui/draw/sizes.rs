//! The sizes: one row per collective and size.

use gdrtune_profiles::size::Size;
use ratatui::{
    buffer::Buffer,
    layout::Rect,
    text::{Line, Span},
};

use super::{draw_cursor, draw_panel, row};
use crate::ui::{
    layout::Layout,
    state::State,
    tabs::{
        list::visible_top,
        sizes::{Certainty, Column, Row, certainty_text, choice_text, cursor_row, rows},
    },
    text,
    theme::Theme,
};

/// Below this many columns the trend and the samples are left out.
const ALL_COLUMNS_MIN: u16 = 100;

/// Below this many columns the default's time is left out too.
const DEFAULT_COLUMNS_MIN: u16 = 76;

/// Columns of the trend.
const TREND_COLUMNS: usize = 16;

/// ```text
/// ─ Sizes ──────────────────────────────── 18 points, by gain ▼ ─
///    point           default us   best us   gain  choice       samples  trend  faster in, or A/B
/// ▸  allreduce   64K      128.7      95.1  1.35x  tree/ll/2       12/9  ▁▂▅    97 % of 108 pairs
///  ● allreduce  256K      301.2     301.2  1.00x  default         12/0         [0.99-1.01] no sure gain
/// ```
pub(super) fn draw(state: &State, theme: &Theme, area: Rect, buffer: &mut Buffer) {
    let view = &state.view.tabs.sizes;
    let rows = rows(state);
    let by = match view.column {
        Column::Point => "size",
        Column::Gain => "gain",
        Column::Certainty => "certainty",
        Column::Repeats => "samples",
    };
    let sorted = theme.glyphs.sorted[usize::from(view.is_reversed)];
    let filter = if view.filter.is_empty() { String::new() } else { format!("filter {}, ", view.filter.text()) };
    let right = format!("{filter}{}, by {by} {sorted}", text::count(rows.len() as u64, "point"));
    let inner = draw_panel(theme, "Sizes", &right, area, buffer);
    let name_columns = rows.iter().map(|row| row.point.collective.name().len()).max().unwrap_or(9);
    let choice_columns = rows.iter().map(|row| text::width(&choice_text(row))).max().unwrap_or(7).max(7);
    let roomy = ALL_COLUMNS_MIN <= area.width;
    if let Some(place) = row(inner, 0) {
        let point_columns = name_columns + 7;
        let default = if DEFAULT_COLUMNS_MIN <= area.width { format!("{:>10}", "default us") } else { String::new() };
        let head = format!(
            "   {:point_columns$}{default}{:>10}{:>7}  {:choice_columns$}  ",
            "point", "best us", "gain", "choice"
        );
        let rest = if roomy {
            format!("{:>9}  {:TREND_COLUMNS$}  faster in, or A/B", "samples", "trend")
        } else {
            "faster in, or A/B".to_owned()
        };
        buffer.set_stringn(place.x, place.y, head + &rest, usize::from(place.width), theme.dim);
    }
    if rows.is_empty() {
        if let Some(place) = row(inner, 1) {
            let text = if view.filter.is_empty() { "no point yet" } else { "no row has these words: Esc shows all" };
            buffer.set_stringn(place.x, place.y, text, usize::from(place.width), theme.dim);
        }
        return;
    }
    let cursor = cursor_row(state, &rows);
    let n_visible = Layout::of(state).map_or(0, |layout| layout.rows(state));
    let top = visible_top(view.top, cursor, rows.len(), n_visible);
    for (line, (index, each)) in rows.iter().enumerate().skip(top).take(n_visible).enumerate() {
        let Some(place) = row(inner, line + 1) else { return };
        let is_marked = view.marks.contains(&each.point);
        let text = line_of(each, is_marked, (name_columns, choice_columns, roomy), theme, usize::from(place.width));
        buffer.set_line(place.x, place.y, &text, place.width);
        if index == cursor {
            draw_cursor(theme, place, buffer);
        }
    }
}

fn line_of(
    row: &Row<'_>,
    is_marked: bool,
    (name_columns, choice_columns, roomy): (usize, usize, bool),
    theme: &Theme,
    total: usize,
) -> Line<'static> {
    let mark = if is_marked { theme.glyphs.mark } else { " " };
    let [default, best] =
        [row.series.default_us(), row.series.best_us()].map(|us| us.map_or_else(|| "-".to_owned(), text::microseconds));
    let (name, size) = (row.point.collective.name(), Size(row.point.bytes).to_string());
    let default = if usize::from(DEFAULT_COLUMNS_MIN) <= total { format!("{default:>10}") } else { String::new() };
    let mut line = Line::from(format!(" {mark} {name:name_columns$} {size:>6}{default}{best:>10}"));
    let gain = row.series.known_gain();
    let gain_text = gain.map_or_else(|| "-".to_owned(), text::ratio);
    let style = if gain.is_some_and(|gain| 1.005 <= gain) { theme.best_series } else { theme.default_series };
    line.push_span(Span::styled(format!("{gain_text:>7}"), style));
    line.push_span(Span::raw(format!("  {:choice_columns$}  ", choice_text(row))));
    if roomy {
        line.push_span(Span::raw(format!("{:>9}  ", format!("{}/{}", row.n_samples.0, row.n_samples.1))));
        line.push_span(Span::styled(format!("{:TREND_COLUMNS$}  ", trend(&row.series.gains, theme)), theme.dim));
    }
    let room = total.saturating_sub(line.width());
    let certainty = certainty_text(row.certainty);
    // Where there is no room for all of it: the share, or the word of the verdict.
    let short = match row.certainty {
        Certainty::Unknown => None,
        Certainty::Pairs(..) => certainty.split_once(" of ").map(|(share, _)| share),
        Certainty::Verdict(_) => certainty.split_once("] ").map(|(_, word)| word),
    };
    let fitting = short.filter(|_| room < text::width(&certainty)).unwrap_or(&certainty);
    let certainty = text::fit(fitting, room, theme.glyphs.ellipsis);
    let style = match row.certainty {
        Certainty::Verdict(verdict) => theme.decision(verdict.decision),
        Certainty::Unknown | Certainty::Pairs(..) => theme.dim,
    };
    line.push_span(Span::styled(certainty, style));
    line
}

/// How the best gain grew, from 1 to the largest.
fn trend(gains: &[f32], theme: &Theme) -> String {
    let bars = theme.glyphs.bars;
    let top = gains.iter().copied().fold(1.1_f32, f32::max).ln();
    let level = |gain: &f32| (gain.max(1.0).ln() / top * (bars.len() - 1) as f32).round() as usize;
    gains.iter().filter_map(|gain| bars.get(level(gain))).copied().collect()
}
