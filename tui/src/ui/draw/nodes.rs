//! The nodes panel.

use gdrtune_session::event::NodeState;
use ratatui::{buffer::Buffer, layout::Rect, style::Style, text::Span};

use super::{draw_panel, row};
use crate::ui::{
    ingest::node_state_text,
    state::{Panel, State},
    text,
    theme::Theme,
};

/// ```text
/// ─ Nodes ───────── 3 of 4 ready ─
/// ✓ ready      vh1 4 cores, fast0
/// ✗ failed     vh2 auth refused
/// ```
pub(super) fn draw(state: &State, theme: &Theme, area: Rect, buffer: &mut Buffer) {
    let summary = state.shown();
    let n_ready = summary.nodes.values().filter(|n| n.state == NodeState::Ready).count();
    let n_nodes = summary.label.as_ref().map_or(summary.nodes.len(), |l| l.n_nodes as usize);
    let is_real = summary.label.as_ref().is_none_or(|label| label.engine.is_real());
    let right = if n_nodes == 0 || !is_real { String::new() } else { format!("{n_ready} of {n_nodes} ready") };
    let inner = draw_panel(state, theme, Panel::Nodes, "Nodes", &right, area, buffer);
    if summary.nodes.is_empty() {
        let text = if is_real { "no node yet" } else { "none: nothing runs on nodes" };
        buffer.set_stringn(inner.x, inner.y, text, usize::from(inner.width), theme.dim);
        return;
    }
    let rows = usize::from(inner.height);
    let top = state.view.nodes_top.min(summary.nodes.len().saturating_sub(rows));
    let visible = || summary.nodes.values().skip(top).take(rows);
    // Symbol, space, the longest word that is visible, two spaces.
    let state_columns = visible().map(|n| node_state_text(n.state).len()).max().unwrap_or(0) + 4;
    let host_columns = visible().map(|n| text::width(&n.host)).max().unwrap_or(0);
    for (index, node) in visible().enumerate() {
        let Some(place) = row(inner, index) else { return };
        let (symbol, style) = match node.state {
            NodeState::Connecting => (theme.glyphs.waiting, theme.dim),
            NodeState::Ready => (theme.glyphs.ok, theme.good),
            NodeState::Failed => (theme.glyphs.failed, theme.bad),
            NodeState::Lost => (theme.glyphs.alert, theme.bad),
            NodeState::Closed => (theme.glyphs.closed, theme.dim),
        };
        let word = format!("{symbol} {}", node_state_text(node.state));
        buffer.set_span(place.x, place.y, &Span::styled(word, style), place.width);
        let columns = usize::from(place.width).saturating_sub(state_columns);
        let pad = " ".repeat(host_columns.saturating_sub(text::width(&node.host)) + 2);
        let rest = [node.host.as_str(), &pad, &node.detail].concat();
        let rest = text::fit(rest.trim_end(), columns, theme.glyphs.ellipsis);
        buffer.set_stringn(place.x + state_columns as u16, place.y, rest, columns, Style::new());
    }
}
