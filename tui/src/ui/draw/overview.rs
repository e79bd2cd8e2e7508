//! The overview: charts by size, the last samples, the nodes in a line, the last decisions.

use gdrtune_session::event::{Level, NodeState};
use ratatui::{buffer::Buffer, layout::Rect, style::Style, text::Span};

use super::{chart, draw_panel, draw_parts, log, row};
use crate::ui::{
    layout::OverviewLayout,
    run::{Arrival, ArrivalKind},
    state::State,
    text,
    theme::Theme,
};

/// The rate of trials is that of the last so many milliseconds.
const RATE_WINDOW_MS: u64 = 5_000;

/// ```text
/// caption  collective, legend, the size under the cursor
/// ─ Bus bandwidth ─────────  ─ Latency ───────────────
/// ─ Samples: time of the default over theirs ── 38 /s ─
/// ▁▂▂▃▅▁▁ ▂▃
/// nodes  ✓ 30 ready  ✗ 2 failed: vh07 vh12
/// ─ Now ──────────────────────────────────────────────
/// ```
pub(super) fn draw(state: &State, theme: &Theme, area: Rect, buffer: &mut Buffer) {
    let layout = OverviewLayout::of(area);
    chart::draw_caption(state, theme, layout.caption, buffer);
    chart::draw(state, theme, chart::Quantity::Busbw, layout.busbw, buffer);
    if let Some(place) = layout.latency {
        chart::draw(state, theme, chart::Quantity::Latency, place, buffer);
    }
    if let Some(place) = layout.arrivals {
        draw_arrivals(state, theme, place, buffer);
    }
    if let Some(place) = layout.nodes {
        draw_nodes(state, theme, place, buffer);
    }
    if let Some(place) = layout.recent {
        let inner = draw_panel(theme, "Now", "7 shows the whole log", place, buffer);
        log::draw_last(state, Level::Info, theme, inner, buffer);
    }
}

/// ```text
/// ─ Samples: gain of each, 0.5x to 2x ────────── 38 per s ─
/// ▁▂▂▃▅▁▁×▂▃
/// ```
/// Log scale with the default in the middle; a sample of the default arm is a dot at the foot, a failure a cross.
fn draw_arrivals(state: &State, theme: &Theme, area: Rect, buffer: &mut Buffer) {
    let arrivals = &state.shown().arrivals;
    let rate = arrivals.per_second(state.shown_elapsed_ms(), RATE_WINDOW_MS);
    // Recorded and simulated time is not that of the clock beside it.
    let is_real = state.shown().label.as_ref().is_some_and(|label| label.engine.is_real());
    let right = if is_real { format!("{rate:.0} trials per s") } else { String::new() };
    let seen: Vec<Arrival> = arrivals.last(usize::from(area.width)).copied().collect();
    // At least a doubling up and down, so that noise looks like noise.
    let gain = |arrival: &Arrival| if let ArrivalKind::Gain(gain) = arrival.kind { Some(gain) } else { None };
    let furthest = seen.iter().filter_map(|arrival| Some(gain(arrival)?.log2().abs())).fold(1.0, f64::max).ceil();
    let top = furthest.exp2();
    let title = format!("Samples against the default, {} to {top}x", text::trim(1.0 / top));
    let inner = draw_panel(theme, &title, &right, area, buffer);
    let bars = theme.glyphs.bars;
    let n_levels = usize::from(inner.height) * bars.len();
    for (column, arrival) in seen.iter().enumerate() {
        let x = inner.x + column as u16;
        let foot = inner.bottom().saturating_sub(1);
        let gain = match arrival.kind {
            ArrivalKind::Gain(gain) => gain,
            ArrivalKind::Default => {
                buffer.set_string(x, foot, theme.glyphs.dot, theme.dim);
                continue;
            }
            ArrivalKind::Failed => {
                buffer.set_string(x, foot, theme.glyphs.missing, theme.bad);
                continue;
            }
        };
        let share = f64::midpoint(gain.log2() / furthest, 1.0);
        let level = ((share * n_levels as f64).ceil() as usize).clamp(1, n_levels);
        let style = if 1.0 < gain { theme.best_series } else { theme.default_series };
        for step in 0..inner.height {
            let filled = level.saturating_sub(usize::from(step) * bars.len()).min(bars.len());
            let Some(bar) = filled.checked_sub(1).and_then(|index| bars.get(index)) else { break };
            buffer.set_string(x, foot - step, bar, style);
        }
    }
}

/// ```text
/// nodes  ✓ 30 ready  ✗ 2 failed: vh07 vh12
/// ```
/// What is well is counted, what is not is named.
fn draw_nodes(state: &State, theme: &Theme, area: Rect, buffer: &mut Buffer) {
    let summary = state.shown();
    let is_real = summary.label.as_ref().is_none_or(|label| label.engine.is_real());
    let mut parts = vec![Span::styled("nodes  ", theme.title)];
    if summary.nodes.is_empty() {
        let text = if is_real { "none yet" } else { "none: the times come from a model or a file, not from nodes" };
        parts.push(Span::styled(text, theme.dim));
    }
    for (node_state, word) in [
        (NodeState::Failed, "failed"),
        (NodeState::Lost, "lost"),
        (NodeState::Connecting, "connecting"),
        (NodeState::Ready, "ready"),
        (NodeState::Closed, "closed"),
    ] {
        let of_state = || summary.nodes.values().filter(|node| node.state == node_state);
        let n = of_state().count();
        // How many are ready is told even if none is.
        if n == 0 && (node_state != NodeState::Ready || summary.nodes.is_empty()) {
            continue;
        }
        let (symbol, style) = theme.node_state(node_state);
        let of = match (node_state, &summary.label) {
            (NodeState::Ready, Some(label)) => format!(" of {}", label.n_nodes),
            _ => String::new(),
        };
        let mut text = format!("{symbol} {n}{of} {word}");
        if matches!(node_state, NodeState::Failed | NodeState::Lost) {
            // Named as far as there is room; the cluster view has them all.
            let names: Vec<&str> = of_state().take(8).map(|node| node.host.as_str()).collect();
            text = format!("{text}: {}", names.join(" "));
        }
        text.push_str("  ");
        let used: usize = parts.iter().map(Span::width).sum();
        let room = usize::from(area.width).saturating_sub(used);
        parts.push(Span::styled(text::fit(&text, room, theme.glyphs.ellipsis), style));
    }
    if let Some(place) = row(area, 0) {
        buffer.set_style(place, Style::new());
        draw_parts(parts, place, buffer);
    }
}
