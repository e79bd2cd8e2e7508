//! The runs and the clusters.

use ratatui::{buffer::Buffer, layout::Rect, style::Style};

use super::{command_rows, draw_footer, draw_header};
use crate::ui::{
    parts::{draw_panel, row},
    start::{
        layout::Lists,
        state::{ClusterLine, List, Panel, RunState, State},
    },
    text::{self, ago, fit, ratio, wrap},
    theme::Theme,
};

/// Columns before a row's text: the mark of the one that is selected.
const MARK_COLUMNS: usize = 2;

/// Columns of a name of a cluster.
const NAME_COLUMNS: usize = 20;

/// From this width on the ranks are shown.
const RANKS_FROM: u16 = 72;

/// ```text
/// gdrtune 0.1.0 · what shall be tuned?
/// ━ Recent runs ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━ 3 runs ━
///   began        hosts            engine  ranks  end              gain
/// ▸ 3 days ago   node[01-04]      nccl       32  ✓ tuned          1.21x
/// ─ Clusters ──────────────────────────────────────────────────
///   this machine         4 ranks over the loopback
/// $ gdrtune replay 2026-11-29T14:02:11Z-7f3a
/// q quit  ? help …
/// ```
pub(super) fn draw(state: &State, theme: &Theme, buffer: &mut Buffer) {
    let layout = state.lists_layout();
    draw_header("what shall be tuned?", theme, layout.header, buffer);
    draw_runs(state, theme, layout, buffer);
    draw_clusters(state, theme, layout, buffer);
    draw_command(state, theme, layout.command, buffer);
    draw_footer(state, theme, layout.footer, buffer);
}

fn draw_runs(state: &State, theme: &Theme, layout: Lists, buffer: &mut Buffer) {
    let focused = state.focus == Panel::Runs;
    let inner = draw_panel(focused, "Recent runs", &about_store(state), theme, layout.runs, buffer);
    if state.runs.rows.is_empty() {
        return draw_no_runs(state, theme, inner, buffer);
    }
    if let Some(place) = row(inner, 0) {
        let heads = ["began", "hosts", "engine", "ranks", "end", "gain"].map(str::to_owned);
        draw_cells(&columns(heads, place.width), theme.title, theme, place, buffer);
    }
    draw_rows(&state.runs, focused, theme, layout.run_rows(), buffer, |run, theme, place, style, buffer| {
        let (symbol, word, end_style) = end(&run.end, theme);
        let cells = [
            run.age_s.map_or_else(|| "?".to_owned(), ago),
            run.hosts.clone(),
            run.engine.clone(),
            run.ranks.to_string(),
            format!("{symbol} {word}"),
            run.gain.map(ratio).unwrap_or_default(),
        ];
        let cells = columns(cells, place.width);
        draw_cells(&cells, style, theme, place, buffer);
        if let [.., end, _] = cells.as_slice() {
            let place = Rect { x: place.x + end.x, width: end.columns, ..place };
            buffer.set_style(place, style.patch(end_style));
        }
    });
}

/// What the title says of the store.
fn about_store(state: &State) -> String {
    let Some(stock) = &state.stock else { return String::new() };
    let n_runs = text::count(state.runs.rows.len() as u64, "run");
    let left = (0 < stock.n_left).then(|| format!(", reading {} more", stock.n_left));
    let unreadable = (0 < stock.n_unreadable).then(|| format!(", {} unreadable", stock.n_unreadable));
    [Some(n_runs), left, unreadable].into_iter().flatten().collect()
}

fn draw_no_runs(state: &State, theme: &Theme, area: Rect, buffer: &mut Buffer) {
    let (text, style) = match &state.stock {
        None => (format!("{} reading the run store", theme.glyphs.waiting), theme.dim),
        Some(stock) => match &stock.problem {
            Some(problem) => (format!("{} {problem}", theme.glyphs.failed), theme.bad),
            None if 0 < stock.n_left => (format!("{} reading {}", theme.glyphs.waiting, stock.dir), theme.dim),
            None => (format!("no runs in {} yet: n fills in a new one, d shows the demo", stock.dir), theme.dim),
        },
    };
    for (index, line) in wrap(&text, usize::from(area.width).saturating_sub(MARK_COLUMNS)).iter().enumerate() {
        let Some(place) = row(area, index) else { return };
        buffer.set_stringn(place.x + MARK_COLUMNS as u16, place.y, line, place.width.into(), style);
    }
}

/// Symbol, word and style of a run's end.
fn end<'a>(end: &'a RunState, theme: &Theme) -> (&'static str, &'a str, Style) {
    match end {
        RunState::Running => (theme.glyphs.waiting, "running", theme.current_series),
        RunState::Killed => (theme.glyphs.alert, "killed", theme.warn),
        RunState::CutOff(word) | RunState::Undecided(word) => (theme.glyphs.alert, word, theme.warn),
        RunState::Failed(word) => (theme.glyphs.failed, word, theme.bad),
        RunState::Ended(word) => (theme.glyphs.ok, word, theme.good),
    }
}

/// A cell of a row.
struct Cell {
    text: String,
    x: u16,
    columns: u16,
    is_number: bool,
}

/// The cells of a run, or of the heads, each at its place.
fn columns([began, hosts, engine, ranks, end, gain]: [String; 6], width: u16) -> Vec<Cell> {
    let has_ranks = RANKS_FROM <= width;
    let fixed = [12, 7, if has_ranks { 6 } else { 0 }, 15, 7];
    let n_gaps = if has_ranks { 5 } else { 4 };
    let hosts_columns = width.saturating_sub(MARK_COLUMNS as u16 + fixed.iter().sum::<u16>() + n_gaps);
    let [began_columns, engine_columns, ranks_columns, end_columns, gain_columns] = fixed;
    let mut x = MARK_COLUMNS as u16;
    let all = [
        (began, began_columns, false),
        (hosts, hosts_columns, false),
        (engine, engine_columns, false),
        (ranks, ranks_columns, true),
        (end, end_columns, false),
        (gain, gain_columns, true),
    ];
    let shown = all.into_iter().filter(|(_, columns, _)| 0 < *columns);
    shown
        .map(|(text, columns, is_number)| {
            let cell = Cell { text, x, columns, is_number };
            x += columns + 1;
            cell
        })
        .collect()
}

fn draw_cells(cells: &[Cell], style: Style, theme: &Theme, area: Rect, buffer: &mut Buffer) {
    for cell in cells {
        let text = fit(&cell.text, cell.columns.into(), theme.glyphs.ellipsis);
        let pad = if cell.is_number { usize::from(cell.columns).saturating_sub(text::width(&text)) } else { 0 };
        buffer.set_stringn(area.x + cell.x + pad as u16, area.y, text, cell.columns.into(), style);
    }
}

/// Draws what is visible of a list; the selected row is marked, and where the list has the focus also reversed.
fn draw_rows<T>(
    list: &List<T>,
    focused: bool,
    theme: &Theme,
    area: Rect,
    buffer: &mut Buffer,
    draw: impl Fn(&T, &Theme, Rect, Style, &mut Buffer),
) {
    for (index, item) in list.rows.iter().enumerate().skip(list.top).take(area.height.into()) {
        let Some(place) = row(area, index - list.top) else { return };
        let is_selected = index == list.cursor;
        let style = if is_selected && focused { theme.selected } else { Style::new() };
        buffer.set_style(place, style);
        if is_selected {
            buffer.set_string(place.x, place.y, theme.glyphs.row_cursor, style);
        }
        draw(item, theme, place, style, buffer);
    }
}

fn draw_clusters(state: &State, theme: &Theme, layout: Lists, buffer: &mut Buffer) {
    let focused = state.focus == Panel::Clusters;
    let (n_shown, n_all) = (usize::from(layout.cluster_rows().height), state.clusters.rows.len());
    let count = if n_shown < n_all { format!("{n_shown} of {n_all}, ") } else { String::new() };
    draw_panel(focused, "Clusters", &format!("{count}Enter fills in a new run"), theme, layout.clusters, buffer);
    let draw = |cluster: &ClusterLine, theme: &Theme, place: Rect, style: Style, buffer: &mut Buffer| {
        let name = fit(&cluster.name, NAME_COLUMNS, theme.glyphs.ellipsis);
        buffer.set_string(place.x + MARK_COLUMNS as u16, place.y, name, style);
        let x = (MARK_COLUMNS + NAME_COLUMNS + 2) as u16;
        let room = usize::from(place.width.saturating_sub(x));
        buffer.set_string(place.x + x, place.y, fit(&cluster.about, room, theme.glyphs.ellipsis), style);
    };
    draw_rows(&state.clusters, focused, theme, layout.cluster_rows(), buffer, draw);
}

/// What Enter runs.
fn draw_command(state: &State, theme: &Theme, area: Rect, buffer: &mut Buffer) {
    let Some(words) = state.command() else { return };
    let rows = command_rows(&words, usize::from(area.width).saturating_sub(2), 1, theme);
    buffer.set_string(area.x, area.y, format!("$ {}", rows.concat()), theme.dim);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_columns_of_a_run_fill_the_width() {
        for width in [60, 71, 72, 80, 200] {
            let cells = columns(["a", "b", "c", "d", "e", "f"].map(str::to_owned), width);
            let last = cells.last().unwrap();
            assert_eq!((last.x + last.columns, cells.len()), (width, if width < RANKS_FROM { 5 } else { 6 }));
        }
    }
}
