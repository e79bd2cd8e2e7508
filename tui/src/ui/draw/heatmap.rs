//! The heat map: how far each choice of a point is from the best one.

use gdrtune_profiles::vocab::Choice;
use gdrtune_session::event::Failure;
use ratatui::{buffer::Buffer, layout::Rect, style::Style, text::Span};

use super::{draw_panel, draw_parts, row};
use crate::ui::{
    state::State,
    tabs::{
        list::visible_top,
        search::{
            cursor_place,
            grid::{Grid, Standing},
            place_of,
            places::{HeatColumns, SearchLayout, family_name},
            readout,
        },
    },
    text,
    theme::Theme,
};

/// Shares above the best up to which a choice has the first, the second and the third shade. The first is what a verdict
/// may take for noise, the others divide what races usually show.
const SHADES: [f64; 3] = [0.02, 0.1, 0.5];

/// Width of cells that have a symbol beside the number.
const SYMBOL_AND_NUMBER: usize = 6;

/// Width of cells that have no room for a number.
const SYMBOL_ALONE: usize = 2;

/// ```text
/// ─ allreduce 64K, 4 of 18 ──────────────── environment 2 of 12: NCCL_BUFFSIZE=1048576 ─
///  channels               1     2     4     8
///  ring/ll             ▒ 34↓ ◆best ▓  9      ·
/// ▸tree/simple            /     /    ✗h     ·
///  ◆ best  █ 2 % ▓ 10 % ▒ 50 % ░ more  ↓ dropped  ✗ failed  / not offered  ◂ now  · untried
///  tree/simple/4  median 95.1 us of 5 samples, +12.0 % to the best, 1.35x the default
///  dropped: 3.3 times slower than the leader
/// ```
pub(super) fn draw(state: &State, theme: &Theme, area: Rect, buffer: &mut Buffer) {
    let Some(grid) = Grid::of(state) else {
        let inner = draw_panel(theme, "Choices", "", area, buffer);
        return draw_note("no point yet", theme, inner, buffer);
    };
    let held = |is_held: bool| if is_held { ", held" } else { "" };
    let (number, n_points) = place_of(state.shown(), grid.point);
    let view = &state.view.tabs.search;
    let title = format!("{}, {number} of {n_points}{}", grid.point, held(view.point.is_some()));
    let room = usize::from(area.width).saturating_sub(text::width(&title) + 7);
    let right = text::fit(&environment_text(state, &grid, held), room, theme.glyphs.ellipsis);
    let inner = draw_panel(theme, &title, &right, area, buffer);
    if grid.families.is_empty() {
        return draw_note("no choice yet: the defaults are measured first", theme, inner, buffer);
    }
    let n_visible = SearchLayout::n_families(area);
    let cursor = cursor_place(state, &grid);
    let columns = HeatColumns::of(&grid, usize::from(inner.width));
    let top = visible_top(view.top, cursor.0, grid.families.len(), n_visible);
    let map = Map { grid: &grid, columns, left: columns.first(view.left, cursor.1, &grid), cursor, theme };
    if let Some(place) = row(inner, 0) {
        map.draw_heads(place, buffer);
    }
    for (line, index) in (top..grid.families.len()).take(n_visible).enumerate() {
        if let Some(place) = row(inner, line + 1) {
            map.draw_family(index, place, buffer);
        }
    }
    let n_drawn = n_visible.min(grid.families.len());
    if let Some(place) = row(inner, n_drawn + 1) {
        draw_parts(legend(&map, grid.families.len().saturating_sub(n_drawn)), place, buffer);
    }
    if let Some(choice) = grid.choice(cursor.0, cursor.1) {
        map.draw_readout(choice, [row(inner, n_drawn + 2), row(inner, n_drawn + 3)], buffer);
    }
    if let Some(place) = row(inner, n_drawn + 4) {
        let text = " A number: % more time than the best; 4x: 4 times as much";
        let text = text::fit(text, usize::from(place.width), theme.glyphs.ellipsis);
        buffer.set_string(place.x, place.y, text, theme.dim);
    }
}

fn environment_text(state: &State, grid: &Grid<'_>, held: impl Fn(bool) -> &'static str) -> String {
    let summary = state.shown();
    let Some(row) = summary.search.environment_of(grid.overlay) else { return String::new() };
    let held = held(state.view.tabs.search.environment.is_some());
    let of = summary.n_environments.map_or_else(String::new, |n| format!(" of {n}"));
    format!("environment {}{of}{held}: {}", text::nth(row.index), text::one_line(&row.settings))
}

fn draw_note(note: &str, theme: &Theme, area: Rect, buffer: &mut Buffer) {
    if let Some(place) = row(area, 0) {
        buffer.set_stringn(place.x, place.y, note, usize::from(place.width), theme.dim);
    }
}

/// What the cells are drawn with.
struct Map<'a> {
    grid: &'a Grid<'a>,
    columns: HeatColumns,
    /// The first column of the grid that is shown.
    left: usize,
    cursor: (usize, usize),
    theme: &'a Theme,
}

impl Map<'_> {
    /// Columns of the grid that are shown.
    fn shown(&self) -> impl Iterator<Item = (usize, u16)> {
        let channels = self.grid.channels.iter().copied().enumerate();
        channels.skip(self.left).take(self.columns.n_visible)
    }

    /// Where a column of the grid is.
    fn x(&self, column: usize, place: Rect) -> u16 {
        place.x + (self.columns.name + column.saturating_sub(self.left) * self.columns.cell) as u16
    }

    /// The channels. Numbers that would touch the one before are left out, but for the cursor's.
    fn draw_heads(&self, place: Rect, buffer: &mut Buffer) {
        let (name, cell) = (self.columns.name, self.columns.cell);
        let word = text::fit(" channels", name.saturating_sub(1), self.theme.glyphs.ellipsis);
        buffer.set_stringn(place.x, place.y, word, usize::from(place.width), self.theme.dim);
        let label = |channels: u16| if channels == 0 { "own".to_owned() } else { channels.to_string() };
        let start = |column: usize, label: &str| self.x(column, place) + cell.saturating_sub(1 + label.len()) as u16;
        let of_cursor = self.grid.channels.get(self.cursor.1).map(|channels| label(*channels)).unwrap_or_default();
        let cursor_x = start(self.cursor.1, &of_cursor);
        let mut free = place.x + name as u16;
        for (column, channels) in self.shown() {
            let label = label(channels);
            let x = start(column, &label);
            let is_cursor = column == self.cursor.1;
            let touches = x < free || (x < cursor_x && cursor_x <= x + label.len() as u16);
            if touches && !is_cursor {
                continue;
            }
            let style = if is_cursor { self.theme.selected } else { self.theme.dim };
            let room = usize::from(place.right().saturating_sub(x));
            (free, _) = buffer.set_stringn(x, place.y, label, room, style);
            free += 1;
        }
    }

    /// A row of cells.
    fn draw_family(&self, index: usize, place: Rect, buffer: &mut Buffer) {
        let Some(family) = self.grid.families.get(index) else { return };
        let is_cursor = index == self.cursor.0;
        let (symbol, style) =
            if is_cursor { (self.theme.glyphs.row_cursor, self.theme.title) } else { (" ", Style::new()) };
        let name = format!("{symbol}{}", family_name(*family, self.columns.is_short));
        buffer.set_stringn(place.x, place.y, name, usize::from(place.width), style);
        for (column, _) in self.shown() {
            let Some(choice) = self.grid.choice(index, column) else { continue };
            let x = self.x(column, place);
            let (value, style) = self.value(choice);
            let pad = (self.columns.cell - 1).saturating_sub(text::width(&value));
            buffer.set_string(x + pad as u16, place.y, &value, style);
            if let Some((mark, style)) = self.mark(choice) {
                buffer.set_string(x + self.columns.cell as u16 - 1, place.y, mark, style);
            }
            if is_cursor && column == self.cursor.1 {
                let width = (self.columns.cell as u16).min(place.right().saturating_sub(x));
                buffer.set_style(Rect { x, width, ..place }, self.theme.selected);
            }
        }
    }

    /// What stands for a choice, and its style.
    fn value(&self, choice: Choice) -> (String, Style) {
        let (glyphs, theme) = (&self.theme.glyphs, self.theme);
        let is_narrow = self.columns.cell == SYMBOL_ALONE;
        match self.grid.standing(choice) {
            Standing::Absent | Standing::Dropped => (String::new(), Style::new()),
            Standing::Untried => (glyphs.untried.to_owned(), theme.dim),
            Standing::Refused => (glyphs.refused.to_owned(), theme.dim),
            Standing::Failed(_) if is_narrow => (glyphs.failed.to_owned(), theme.bad),
            Standing::Failed(kind) => (format!("{}{}", glyphs.failed, failure_letter(kind)), theme.bad),
            Standing::Timed { .. } if self.grid.is_best(choice) => {
                let word = if self.columns.cell == SYMBOL_AND_NUMBER { "best" } else { "" };
                (format!("{}{word}", glyphs.best_point), theme.best_series)
            }
            Standing::Timed { gap, .. } => {
                let shade = SHADES.iter().position(|limit| gap <= *limit).unwrap_or(SHADES.len());
                let (symbol, style) = (glyphs.heat[shade], theme.heat[shade]);
                let value = match self.columns.cell {
                    SYMBOL_ALONE => symbol.to_owned(),
                    SYMBOL_AND_NUMBER => format!("{symbol}{:>4}", percent(gap, 4)),
                    columns => percent(gap, columns - 1),
                };
                (value, style)
            }
        }
    }

    /// What stands behind it.
    fn mark(&self, choice: Choice) -> Option<(&'static str, Style)> {
        let is_dropped =
            matches!(self.grid.standing(choice), Standing::Dropped | Standing::Timed { is_dropped: true, .. });
        if self.grid.present == Some(choice) {
            Some((self.theme.glyphs.present, self.theme.current_series))
        } else {
            is_dropped.then_some((self.theme.glyphs.dropped, self.theme.dim))
        }
    }

    /// The choice under the cursor in words: its time, and on a line of its own, if there is room, why it is out.
    fn draw_readout(&self, choice: Choice, places: [Option<Rect>; 2], buffer: &mut Buffer) {
        let [first, second] = places;
        let Some(first) = first else { return };
        let (theme, glyphs) = (self.theme, &self.theme.glyphs);
        let (symbol, style) = match self.grid.standing(choice) {
            Standing::Failed(_) => (glyphs.failed, theme.bad),
            Standing::Refused => (glyphs.refused, theme.dim),
            Standing::Untried => (glyphs.untried, theme.dim),
            Standing::Dropped | Standing::Timed { is_dropped: true, .. } => (glyphs.dropped, theme.dim),
            Standing::Absent | Standing::Timed { .. } => ("", theme.dim),
        };
        let [mut measured, mut state] = readout(self.grid, choice);
        if self.grid.present == Some(choice) {
            measured.push_str("; the last trial");
        }
        let name = format!(" {choice}  ");
        let room = usize::from(first.width).saturating_sub(text::width(&name));
        if room < text::width(&measured) {
            let lines = text::wrap(&measured, room);
            let rest = lines.get(1..).unwrap_or_default().join(" ");
            state = if state.is_empty() { rest } else { format!("{rest}; {state}") };
            measured = lines.into_iter().next().unwrap_or_default();
        }
        draw_parts(vec![Span::styled(name, theme.title), Span::raw(measured)], first, buffer);
        if let Some(second) = second {
            let symbol = if symbol.is_empty() { String::new() } else { format!("{symbol} ") };
            let line = text::fit(&format!(" {symbol}{state}"), usize::from(second.width), glyphs.ellipsis);
            buffer.set_string(second.x, second.y, line, style);
        }
    }
}

/// The gap in so many columns: percent, or where that is too much, how many times the best's time.
fn percent(gap: f64, columns: usize) -> String {
    let texts = [format!("{:.0}", gap * 100.0), format!("{:.0}x", gap + 1.0)];
    // A rounded minus zero is none.
    let texts = texts.map(|text| if text == "-0" { "0".to_owned() } else { text });
    let fitting = if gap < 0.0 { texts.into_iter().take(1).collect::<Vec<_>>() } else { texts.to_vec() };
    let limit = if gap < 0.0 { "<0".to_owned() } else { format!(">{}", "9".repeat(columns - 1)) };
    fitting.into_iter().find(|text| text.len() <= columns).unwrap_or(limit)
}

/// The first letter of a failure's name.
const fn failure_letter(kind: Failure) -> &'static str {
    match kind {
        Failure::Wrong => "w",
        Failure::Hung => "h",
        Failure::Crashed => "c",
        Failure::Substituted => "s",
        Failure::Unsupported => "u",
        Failure::Skipped => "k",
    }
}

/// What the symbols mean, and how many rows are not shown.
fn legend(map: &Map<'_>, n_hidden: usize) -> Vec<Span<'static>> {
    let (theme, glyphs) = (map.theme, &map.theme.glyphs);
    let mut parts = vec![Span::raw(" ")];
    if 0 < n_hidden {
        parts.push(Span::styled(format!("{} more  ", text::count(n_hidden as u64, "row")), theme.title));
    }
    let n_columns = map.grid.channels.len();
    if map.columns.n_visible < n_columns {
        let text = format!("columns {}-{} of {n_columns}  ", map.left + 1, map.left + map.columns.n_visible);
        parts.push(Span::styled(text, theme.title));
    }
    parts.push(Span::styled(format!("{} best  ", glyphs.best_point), theme.best_series));
    if map.columns.cell == SYMBOL_ALONE || map.columns.cell == SYMBOL_AND_NUMBER {
        let limits = SHADES.map(|limit| format!("{:.0} % ", limit * 100.0)).into_iter().chain(["more  ".to_owned()]);
        for ((limit, symbol), style) in limits.zip(glyphs.heat).zip(theme.heat) {
            parts.push(Span::styled(format!("{symbol} {limit}"), style));
        }
    } else {
        parts.push(Span::raw("12 % over it  "));
    }
    let marks = [
        (glyphs.dropped, "dropped", theme.dim),
        (glyphs.failed, "failed", theme.bad),
        (glyphs.refused, "not offered", theme.dim),
        (glyphs.present, "now", theme.current_series),
        (glyphs.untried, "untried", theme.dim),
    ];
    parts.extend(marks.map(|(symbol, word, style)| Span::styled(format!("{symbol} {word}  "), style)));
    if let Some(last) = parts.last_mut() {
        last.content = last.content.trim_end().to_owned().into();
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_fit_their_columns() {
        for (gap, expected) in [
            (0.0, ["0", "0", "0"]),
            (-0.001, ["0", "0", "0"]),
            (0.126, ["13", "13", "13"]),
            (0.994, ["99", "99", "99"]),
            (1.26, ["2x", "126", "126"]),
            (8.6, [">9", "860", "860"]),
            (20.4, [">9", "21x", "2040"]),
            (2000.0, [">9", ">99", ">999"]),
            (-0.07, ["-7", "-7", "-7"]),
            (-0.4, ["<0", "-40", "-40"]),
        ] {
            assert_eq!([2, 3, 4].map(|columns| percent(gap, columns)), expected, "{gap}");
        }
    }
}
