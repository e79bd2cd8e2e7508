//! The tree of nodes. Only the rows on the screen are put into words.

use ratatui::{buffer::Buffer, layout::Rect, style::Style, text::Span};

use super::{draw_cursor, draw_panel, row};
use crate::ui::{
    run::{Summary, node_groups::Standing},
    state::State,
    tabs::cluster::{Health, Row, Words, cursor_and_top, rows},
    text,
    theme::Theme,
};

/// Columns of the longest word of a node's state.
const WORD_COLUMNS: usize = 10;

/// Least columns of a device's name, so that those of most devices stand in one column.
const NAME_COLUMNS: usize = 9;

/// Most columns of a host's name, as a part of the line.
const HOST_SHARE: usize = 3;

/// ```text
/// ─ Cluster ─────────────────── 1 lost, 1 differs, 30 ready ─
///    ▸ ! lost       vh10  silent for 12 s
/// ▸  ▾ ! differs    vh06  HCA ports 7 x InfiniBand 400 Gb/s, …
///        GPU 0      H200  NUMA 0  PIX mlx5_0  SYS mlx5_[4-7]
///      ✓ mlx5_0:1   ACTIVE LinkUp  InfiniBand 400 Gb/s
///  ● ▸ ✓ ready      30 nodes like vh01: 8 GPUs H200, …
/// ```
pub(super) fn draw(state: &State, theme: &Theme, area: Rect, buffer: &mut Buffer) {
    let summary = state.shown();
    let title_room = usize::from(area.width).saturating_sub("Cluster".len() + 6);
    let right = text::fit(&title_right(state, summary), title_room, theme.glyphs.ellipsis);
    let inner = draw_panel(theme, "Cluster", &right, area, buffer);
    let rows = rows(state);
    if rows.len() == 0 {
        let is_real = summary.label.as_ref().is_none_or(|label| label.engine.is_real());
        let text = match (summary.nodes.is_empty(), is_real) {
            (false, _) => "no node has these words: Esc shows all",
            (true, true) => "no node yet",
            (true, false) => "none: the times come from a model or a file, not from nodes",
        };
        buffer.set_stringn(inner.x, inner.y, text, usize::from(inner.width), theme.dim);
        return;
    }
    let n_visible = usize::from(inner.height);
    let (cursor, top) = cursor_and_top(state, &rows, n_visible);
    let visible: Vec<(usize, Row, u8, Words)> = (top..top + n_visible)
        .filter_map(|position| {
            let (row, depth) = rows.get(position)?;
            Some((position, row, depth, Words::of(summary, row)?))
        })
        .collect();
    let is_host = |row: &Row| matches!(row, Row::Node(_));
    let hosts = visible.iter().filter(|(_, row, ..)| is_host(row)).map(|(.., words)| text::width(&words.name));
    let host_columns = hosts.max().unwrap_or(0).min(usize::from(inner.width) / HOST_SHARE);
    for (line, (position, row_shown, depth, words)) in visible.iter().enumerate() {
        let Some(place) = row(inner, line) else { return };
        let name_columns = if row_shown.has_more() { host_columns } else { NAME_COLUMNS };
        draw_row(state, theme, (*row_shown, *depth, words), name_columns, place, buffer);
        if *position == cursor {
            draw_cursor(theme, place, buffer);
        }
    }
}

/// The marked nodes, as an option of the command line takes them; else how many nodes stand where.
fn title_right(state: &State, summary: &Summary) -> String {
    let view = &state.view.tabs.cluster;
    let tally = || {
        let of_standing = |(standing, count): (Standing, usize)| {
            let word = if standing == Standing::Odd && count != 1 { "differ" } else { standing.word() };
            format!("{count} {word}")
        };
        summary.node_groups.tally().into_iter().map(of_standing).collect::<Vec<_>>().join(", ")
    };
    let words = view.marked().map_or_else(tally, |(count, hosts)| format!("{count} marked: -x {hosts}"));
    if view.filter.is_empty() { words } else { format!("{words}, filter {}", view.filter.text()) }
}

/// Cursor, mark, what can be expanded, symbol and word of the state, name, what is said.
fn draw_row(
    state: &State,
    theme: &Theme,
    (row, depth, words): (Row, u8, &Words),
    name_columns: usize,
    place: Rect,
    buffer: &mut Buffer,
) {
    let view = &state.view.tabs.cluster;
    if view.is_marked(row, &state.shown().node_groups) {
        buffer.set_string(place.x + 1, place.y, theme.glyphs.mark, Style::new());
    }
    let indent = " ".repeat(3 + 2 * usize::from(depth));
    let fold = if row.has_more() {
        format!("{} ", theme.glyphs.fold[usize::from(view.is_expanded(row))])
    } else {
        String::new()
    };
    let (symbol, style) = symbol(theme, words.health);
    let (state_word, word_style) = match words.health {
        Health::Node(standing) => (format!("{symbol} {:WORD_COLUMNS$} ", standing.word()), style),
        _ => (format!("{symbol} "), style),
    };
    let columns = name_columns.max(if row.has_more() { 0 } else { text::width(&words.name) });
    let name = text::fit(&words.name, columns, theme.glyphs.ellipsis);
    let pad = if words.name.is_empty() { 0 } else { columns - text::width(&name) + 2 };
    let before =
        [Span::raw(indent), Span::raw(fold), Span::styled(state_word, word_style), Span::raw(name + &" ".repeat(pad))];
    let mut x = place.x;
    for span in before {
        (x, _) = buffer.set_span(x, place.y, &span, place.right().saturating_sub(x));
    }
    let room = usize::from(place.right().saturating_sub(x));
    let said = said(&words.pieces, room, theme.glyphs.ellipsis);
    let style = if words.health == Health::Idle { theme.dim } else { Style::new() };
    buffer.set_stringn(x, place.y, said, room, style);
}

/// The pieces up to the first one that does not fit whole, with a sign of it; the first one in any case.
fn said(pieces: &[String], room: usize, ellipsis: &str) -> String {
    let mut line = String::new();
    for (number, piece) in pieces.iter().enumerate() {
        let is_last = number + 1 == pieces.len();
        // Room for the sign, unless there is nothing more to say.
        let more = if is_last { 0 } else { 1 + text::width(ellipsis) };
        let needed = text::width(&line) + 2 + text::width(piece) + more;
        if line.is_empty() {
            line.clone_from(piece);
        } else if needed <= room {
            line.push_str("  ");
            line.push_str(piece);
        } else {
            line.push(' ');
            line.push_str(ellipsis);
            break;
        }
    }
    text::fit(&line, room, ellipsis)
}

/// The symbol and style of a row's health; a word goes with each but the plain ones.
const fn symbol(theme: &Theme, health: Health) -> (&'static str, Style) {
    let glyphs = &theme.glyphs;
    match health {
        Health::Node(Standing::Failed) => (glyphs.failed, theme.bad),
        Health::Node(Standing::Lost) => (glyphs.alert, theme.bad),
        Health::Node(Standing::Slow | Standing::Odd) | Health::Alert => (glyphs.alert, theme.warn),
        Health::Node(Standing::Connecting) => (glyphs.waiting, theme.dim),
        Health::Node(Standing::Ready) | Health::Good => (glyphs.ok, theme.good),
        Health::Node(Standing::Closed) | Health::Idle => (glyphs.closed, theme.dim),
        Health::Plain => (" ", Style::new()),
    }
}
