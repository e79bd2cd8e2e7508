//! Bandwidth and latency by size: default, best and current series of one collective.
//!
//! The x axis is log2 of the size with the sizes as labels; latency has a log10 y axis. Series differ by symbol, not
//! only by colour.

use gdrtune_profiles::{
    size::Size,
    vocab::{Collective, Point},
};
use ratatui::{
    buffer::Buffer,
    layout::Rect,
    style::{Color, Style},
    text::Span,
    widgets::{Widget as _, canvas},
};

use super::{draw_panel, draw_parts, row};
use crate::ui::{
    run::{PointSeries, Ships, Summary},
    state::State,
    text,
    theme::Theme,
};

/// Columns of the y labels: `1000us` or `12.5`.
const LABEL_COLUMNS: u16 = 6;

/// What a chart shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Quantity {
    /// Bus bandwidth in GB/s, linear.
    Busbw,
    /// Time in microseconds, log10.
    Latency,
}

impl Quantity {
    const fn title(self) -> &'static str {
        match self {
            Self::Busbw => "Bus bandwidth, GB/s",
            Self::Latency => "Time per operation, log scale",
        }
    }

    /// The height of a time in this chart's own unit.
    fn value(self, n_ranks: u32, point: Point, time_us: f64) -> f64 {
        match self {
            Self::Busbw => point.collective.busbw_gbs(n_ranks, point.bytes, time_us),
            Self::Latency => time_us.max(f64::MIN_POSITIVE).log10(),
        }
    }
}

/// One line of a chart: its points as (log2 of the bytes, height).
struct Series {
    points: Vec<(f64, f64)>,
    symbol: &'static str,
    style: Style,
    joined: bool,
}

/// A label and where it stands on the y axis.
struct Tick {
    value: f64,
    label: String,
}

/// The plot and how values map to its cells.
#[derive(Debug, Clone, Copy)]
struct Frame {
    plot: Rect,
    x: [f64; 2],
    y: [f64; 2],
}

impl Frame {
    fn column(&self, x: f64) -> u16 {
        self.plot.x + position(x, self.x, self.plot.width)
    }

    fn row(&self, y: f64) -> u16 {
        self.plot.bottom().saturating_sub(1 + position(y, self.y, self.plot.height))
    }
}

/// Which of `n_cells` cells a value falls in.
fn position(value: f64, [low, high]: [f64; 2], n_cells: u16) -> u16 {
    let last = f64::from(n_cells.saturating_sub(1));
    ((value - low) / (high - low) * last).round().clamp(0.0, last) as u16
}

/// ```text
/// allreduce (1 of 2)  o default  ◆ best  × current   64K: default 128.7 us, best 95.1 us 1.35x tree/ll/2
/// ```
pub(super) fn draw_caption(state: &State, theme: &Theme, area: Rect, buffer: &mut Buffer) {
    let summary = state.shown();
    let Some(collective) = state.collective() else {
        buffer.set_stringn(area.x, area.y, "no collective yet", usize::from(area.width), theme.dim);
        return;
    };
    let number = match summary.collectives.len() {
        0 | 1 => String::new(),
        n => format!(" ({} of {n})", state.view.tabs.overview.collective + 1),
    };
    let glyphs = &theme.glyphs;
    let mut parts = vec![
        Span::styled(collective.name(), theme.title),
        Span::styled(number, theme.dim),
        Span::styled(format!("  {}", glyphs.default_point), theme.default_series),
        Span::raw(" default"),
        Span::styled(format!("  {}", glyphs.best_point), theme.best_series),
        Span::raw(" best"),
        Span::styled(format!("  {}", glyphs.current_point), theme.current_series),
        Span::raw(" current"),
    ];
    if let Some((point, series)) = cursor_point(state, collective) {
        parts.extend(readout(point, series, summary.ships_at(point), theme));
    }
    draw_parts(parts, area, buffer);
}

/// The size under the cursor, or that of the last trial.
fn cursor_point(state: &State, collective: Collective) -> Option<(Point, &PointSeries)> {
    let summary = state.shown();
    if let Some(index) = state.view.tabs.overview.size_cursor {
        return summary.points_of(collective).nth(index);
    }
    let trying = summary.trying?.point;
    summary.points_of(collective).find(|(point, _)| *point == trying)
}

/// The times at a size, and what they were measured with: the best of the search, or what ships.
fn readout(point: Point, series: &PointSeries, ships: Option<Ships>, theme: &Theme) -> Vec<Span<'static>> {
    let mut parts = vec![Span::styled(format!("   {}", Size(point.bytes)), theme.title)];
    let default_us = series.default_us();
    let default = default_us.map_or_else(|| "not measured".to_owned(), |us| format!("{} us", text::microseconds(us)));
    parts.push(Span::raw(format!(" {default}")));
    let Some(best_us) = series.best_us() else { return parts };
    parts.push(Span::raw(format!(" {} {} us", theme.glyphs.arrow, text::microseconds(best_us))));
    if let Some(default_us) = default_us {
        parts.push(Span::styled(format!(" {}", text::ratio(default_us / best_us)), theme.best_series));
    }
    if let Some(ships) = ships {
        parts.push(Span::raw(match ships {
            Ships::Default => " default".to_owned(),
            Ships::SettingsOnly => " engine's own".to_owned(),
            Ships::Choice(choice) => format!(" {choice}"),
        }));
        return parts;
    }
    let Some(best) = &series.best else { return parts };
    parts.push(Span::raw(best.choice.map_or_else(String::new, |choice| format!(" {choice}"))));
    parts.push(Span::styled(format!(" ({})", text::count(u64::from(best.samples), "sample")), theme.dim));
    parts
}

/// ```text
/// ─ Bus bandwidth, GB/s ───────────
///     4 │                  ◆⠤⠤◆
///     2 │        ◆⠤⠤◆⠤⠤⠒⠉o⠤⠤o×
///     0 │o⠤⠤o⠤⠤o
///        1K     16K    256K     4M
/// ```
pub(super) fn draw(state: &State, theme: &Theme, quantity: Quantity, area: Rect, buffer: &mut Buffer) {
    let inner = draw_panel(theme, quantity.title(), "", area, buffer);
    let Some(collective) = state.collective() else { return };
    let summary = state.shown();
    let series = all_series(summary, collective, quantity, theme);
    let values: Vec<f64> = series.iter().flat_map(|s| s.points.iter().map(|p| p.1)).collect();
    if values.is_empty() {
        let text = format!("no time of {collective} yet");
        buffer.set_stringn(inner.x, inner.y, text, usize::from(inner.width), theme.dim);
        return;
    }
    if inner.height < 3 || inner.width < LABEL_COLUMNS + 10 {
        return;
    }
    let plot = Rect {
        x: inner.x + LABEL_COLUMNS + 1,
        width: inner.width.saturating_sub(LABEL_COLUMNS + 2),
        height: inner.height - 1,
        ..inner
    };
    let (y, ticks) = match quantity {
        Quantity::Busbw => linear_axis(&values, plot.height),
        Quantity::Latency => log_axis(&values, plot.height),
    };
    let frame = Frame { plot, x: x_bounds(summary, collective), y };
    draw_y_axis(frame, &ticks, theme, buffer);
    let labels = Rect { y: plot.bottom(), height: 1, ..plot };
    draw_x_labels(summary, collective, frame, labels, theme, buffer);
    draw_lines(frame, &series, theme, buffer);
    draw_cursor(state, collective, frame, theme, buffer);
    for series in &series {
        for (x, y) in &series.points {
            buffer.set_string(frame.column(*x), frame.row(*y), series.symbol, series.style);
        }
    }
}

fn x_of(point: Point) -> f64 {
    (point.bytes.max(1) as f64).log2()
}

/// In drawing order: what is drawn last is on top.
fn all_series(summary: &Summary, collective: Collective, quantity: Quantity, theme: &Theme) -> [Series; 3] {
    let n_ranks = summary.n_ranks();
    let collect = |time_us: fn(&PointSeries) -> Option<f64>| -> Vec<(f64, f64)> {
        let points = summary.points_of(collective);
        points.filter_map(|(p, s)| Some((x_of(p), quantity.value(n_ranks, p, time_us(s)?)))).collect()
    };
    let glyphs = &theme.glyphs;
    [
        Series {
            points: collect(PointSeries::default_us),
            symbol: glyphs.default_point,
            style: theme.default_series,
            joined: true,
        },
        Series {
            points: collect(|s| s.current.map(|c| c.time_us)),
            symbol: glyphs.current_point,
            style: theme.current_series,
            joined: false,
        },
        Series {
            points: collect(PointSeries::best_us),
            symbol: glyphs.best_point,
            style: theme.best_series,
            joined: true,
        },
    ]
}

/// Half a doubling of margin if there is one size only.
fn x_bounds(summary: &Summary, collective: Collective) -> [f64; 2] {
    let mut sizes = summary.points_of(collective).map(|(p, _)| x_of(p));
    let first = sizes.next().unwrap_or(0.0);
    let last = sizes.last().unwrap_or(first);
    if first < last { [first, last] } else { [first - 0.5, first + 0.5] }
}

/// From 0 to a little above the largest value, with labels at steps of 1, 2 or 5 times a power of ten.
fn linear_axis(values: &[f64], rows: u16) -> ([f64; 2], Vec<Tick>) {
    let top = values.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
    let n_steps = f64::from(rows / 2).clamp(1.0, 6.0);
    let rough = top / n_steps;
    let magnitude = 10_f64.powf(rough.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|s| s * magnitude);
    // Where no step is both wide enough and below the top, a label too many is better than none.
    let step = steps.into_iter().find(|s| rough <= *s && *s <= top);
    let step = step.or_else(|| steps.into_iter().rfind(|s| *s <= top)).unwrap_or(top);
    let high = top * 1.05;
    let n_ticks = (high / step).floor() as u32;
    let ticks = (0..=n_ticks).map(|n| f64::from(n) * step).map(|value| Tick { value, label: text::trim(value) });
    ([0.0, high], ticks.collect())
}

/// Labels at 1, 2 and 5 times powers of ten, as many as there are rows for.
fn log_axis(values: &[f64], rows: u16) -> ([f64; 2], Vec<Tick>) {
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    // A tenth of a decade around, so that no point lies on the frame, and a flat line has a height.
    let bounds = [low - 0.1, high + 0.1];
    let decades = (bounds[0].floor() as i32)..=(bounds[1].ceil() as i32);
    let ticks = |factors: &[f64]| -> Vec<Tick> {
        let all = decades.clone().flat_map(|d| factors.iter().map(move |f| f * 10_f64.powi(d)));
        let inside = all.filter(|v| bounds[0] <= v.log10() && v.log10() <= bounds[1]);
        inside.map(|v| Tick { value: v.log10(), label: text::duration_label(v) }).collect()
    };
    let dense = ticks(&[1.0, 2.0, 5.0]);
    let decades_only = ticks(&[1.0]);
    if dense.len() * 2 <= usize::from(rows) || decades_only.len() < 2 {
        (bounds, dense)
    } else {
        (bounds, decades_only)
    }
}

fn draw_y_axis(frame: Frame, ticks: &[Tick], theme: &Theme, buffer: &mut Buffer) {
    let axis_column = frame.plot.x.saturating_sub(1);
    for y in frame.plot.top()..frame.plot.bottom() {
        buffer.set_string(axis_column, y, theme.glyphs.axis, theme.dim);
    }
    let columns = usize::from(LABEL_COLUMNS) - 1;
    let mut free_below = frame.plot.bottom();
    for tick in ticks {
        let y = frame.row(tick.value);
        // Labels that fall on the row of a lower one are left out.
        if free_below <= y {
            continue;
        }
        free_below = y;
        let label = text::fit(&tick.label, columns, theme.glyphs.ellipsis);
        buffer.set_string(axis_column - LABEL_COLUMNS, y, format!("{label:>columns$}"), theme.dim);
    }
}

/// The first and the last size, and those between them that have room.
fn draw_x_labels(
    summary: &Summary,
    collective: Collective,
    frame: Frame,
    area: Rect,
    theme: &Theme,
    buffer: &mut Buffer,
) {
    let place = |point: Point| {
        let label = Size(point.bytes).to_string();
        let width = label.len() as u16;
        let column = frame.column(x_of(point)).saturating_sub(width / 2).max(area.x);
        (column.min((area.right() + 1).saturating_sub(width)), width, label)
    };
    let Some((last, _)) = summary.points_of(collective).last() else { return };
    let last = place(last);
    let mut free_from = area.x;
    for (point, _) in summary.points_of(collective) {
        let (column, width, label) = place(point);
        let is_last = label == last.2;
        if column < free_from || (!is_last && last.0 < column + width + 1) {
            continue;
        }
        buffer.set_string(column, area.y, label, theme.dim);
        free_from = column + width + 1;
    }
}

fn draw_lines(frame: Frame, series: &[Series], theme: &Theme, buffer: &mut Buffer) {
    canvas::Canvas::default()
        .x_bounds(frame.x)
        .y_bounds(frame.y)
        .marker(theme.glyphs.line)
        .paint(|context| {
            for series in series.iter().filter(|s| s.joined) {
                let color = series.style.fg.unwrap_or(Color::Reset);
                for (from, to) in series.points.iter().zip(series.points.iter().skip(1)) {
                    context.draw(&canvas::Line { x1: from.0, y1: from.1, x2: to.0, y2: to.1, color });
                }
            }
        })
        .render(frame.plot, buffer);
}

/// A vertical line through the empty cells above the size under the cursor.
fn draw_cursor(state: &State, collective: Collective, frame: Frame, theme: &Theme, buffer: &mut Buffer) {
    if state.view.tabs.overview.size_cursor.is_none() {
        return;
    }
    let Some((point, _)) = cursor_point(state, collective) else { return };
    let column = frame.column(x_of(point));
    for index in 0..usize::from(frame.plot.height) {
        let Some(place) = row(frame.plot, index) else { return };
        if let Some(cell) = buffer.cell_mut((column, place.y))
            && cell.symbol() == " "
        {
            cell.set_symbol(theme.glyphs.cursor).set_style(theme.dim);
        }
    }
}
