//! The search view: a heat map of the choices of one point in one environment, the environments, and the knobs.

use std::fmt::Write as _;

use gdrtune_profiles::{
    size::Size,
    vocab::{Choice, Point},
};
use gdrtune_session::event::Phase;

pub(crate) mod grid;
pub(crate) mod places;
pub(crate) mod table;

use self::{
    grid::{Grid, Standing},
    places::{HeatColumns, SearchLayout},
    table::Stage,
};
use super::{Motion, Sorting, list::visible_top};
use crate::ui::{
    layout::Layout,
    run::{Cell, Summary},
    state::State,
    text::{self, csv_field, one_line},
};

/// What is looked at.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Search {
    /// The part that the keys move in.
    pub(crate) part: Part,
    /// The point of the heat map; absent is the one that is being tried. A cursor that is moved holds it.
    pub(crate) point: Option<Point>,
    /// The environment of the heat map, by its running number; absent is the one that the search is in, or after it the best.
    pub(crate) environment: Option<u64>,
    /// The choice under the cursor; absent is the best one.
    pub(crate) cursor: Option<Choice>,
    /// The first row and column of the heat map on the screen, as they were when it was last scrolled.
    pub(crate) top: usize,
    pub(crate) left: usize,
    /// The first environment on the screen.
    pub(crate) table_top: usize,
    pub(crate) is_by_score: bool,
    pub(crate) is_reversed: bool,
}

/// A part of the view.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Part {
    #[default]
    HeatMap,
    Environments,
}

/// Whether choices are still being tried.
pub(crate) fn is_searching(summary: &Summary) -> bool {
    !summary.is_over() && summary.phase.is_none_or(|phase| phase < Phase::Verify)
}

/// All points in the order of the run.
fn points(summary: &Summary) -> impl Iterator<Item = Point> {
    summary.collectives.iter().flat_map(|collective| summary.points_of(*collective)).map(|(point, _)| point)
}

/// The point of the heat map.
pub(crate) fn shown_point(state: &State) -> Option<Point> {
    let summary = state.shown();
    let held = state.view.tabs.search.point.filter(|point| summary.points.contains_key(point));
    held.or_else(|| summary.trying.map(|trying| trying.point)).or_else(|| points(summary).next())
}

/// Where a point is among all: from 1, and how many there are.
pub(crate) fn place_of(summary: &Summary, point: Point) -> (usize, usize) {
    let position = points(summary).position(|each| each == point);
    (position.map_or(0, |index| index + 1), summary.points.len())
}

/// The overlay of the heat map's environment.
pub(crate) fn shown_overlay(state: &State) -> u32 {
    let summary = state.shown();
    let search = &summary.search;
    let held = state.view.tabs.search.environment;
    let held = held.and_then(|index| search.environments.iter().find(|row| row.index == index));
    let best = || search.best_environment().filter(|_| !is_searching(summary));
    held.or_else(best).map(|row| row.overlay).or(search.in_play).unwrap_or(0)
}

/// Row and column of the cursor.
pub(crate) fn cursor_place(state: &State, grid: &Grid<'_>) -> (usize, usize) {
    let cursor = state.view.tabs.search.cursor.or(grid.best.map(|(best, _)| best)).or(grid.present);
    cursor.map_or((0, 0), |choice| grid.place(choice))
}

/// The choice under the cursor.
pub(crate) fn cursor_choice(state: &State, grid: &Grid<'_>) -> Option<Choice> {
    let (row, column) = cursor_place(state, grid);
    grid.choice(row, column)
}

/// The places of the parts; absent on a terminal that is too small.
fn layout(state: &State) -> Option<SearchLayout> {
    Layout::of(state).map(|layout| SearchLayout::of(state, layout.body))
}

fn set_cell(state: &mut State, target: impl Fn(&Grid<'_>, (usize, usize)) -> (usize, usize)) {
    let Some(layout) = layout(state) else { return };
    let Some(grid) = Grid::of(state) else { return };
    let (row, column) = target(&grid, cursor_place(state, &grid));
    let Some(choice) = grid.choice(row, column) else { return };
    let view = &state.view.tabs.search;
    let top = visible_top(view.top, row, grid.families.len(), layout.rows(Part::HeatMap));
    let width = layout.heat.map_or(0, |heat| usize::from(heat.width));
    let left = HeatColumns::of(&grid, width).first(view.left, column, &grid);
    // A heat map that goes along would take the choice away from under the cursor.
    let (point, row) = (grid.point, state.shown().search.environment_of(grid.overlay));
    let environment = row.map(|row| row.index);
    let view = &mut state.view.tabs.search;
    (view.cursor, view.top, view.left) = (Some(choice), top, left);
    (view.point, view.environment) = (Some(point), environment);
}

fn set_environment(state: &mut State, target: impl Fn(usize, usize) -> usize) {
    let n_visible = layout(state).map_or(0, |layout| layout.rows(Part::Environments));
    let rows = table::rows(state);
    let index = target(table::cursor_row(state, &rows), rows.len());
    let Some(number) = rows.get(index).map(|row| row.index) else {
        state.notice("there is no environment yet");
        return;
    };
    let top = visible_top(state.view.tabs.search.table_top, index, rows.len(), n_visible);
    let view = &mut state.view.tabs.search;
    (view.environment, view.table_top) = (Some(number), top);
}

pub(super) fn move_cursor(state: &mut State, motion: Motion) {
    match state.view.tabs.search.part {
        Part::HeatMap => {
            set_cell(state, |grid, (row, column)| (motion.from(row, grid.families.len()), column));
        }
        Part::Environments => set_environment(state, |row, n_rows| motion.from(row, n_rows)),
    }
}

/// Moves the cursor of the heat map to the left (up) or to the right (down).
pub(crate) fn move_sideways(state: &mut State, motion: Motion) {
    set_cell(state, |grid, (row, column)| (row, motion.from(column, grid.channels.len())));
}

/// Shows another point; the last one is followed by the first.
pub(crate) fn turn_point(state: &mut State, steps: isize) {
    let summary = state.shown();
    let all: Vec<Point> = points(summary).collect();
    let here = shown_point(state).and_then(|point| all.iter().position(|each| *each == point)).unwrap_or(0);
    match turned(here, steps, all.len()).and_then(|index| all.get(index)) {
        Some(point) if 1 < all.len() => state.view.tabs.search.point = Some(*point),
        _ => state.notice("there is no other point"),
    }
}

/// Shows another environment, in the order of the table; the last one is followed by the first.
pub(crate) fn turn_environment(state: &mut State, steps: isize) {
    if state.shown().search.environments.len() < 2 {
        state.notice("there is no other environment yet");
        return;
    }
    set_environment(state, |row, n_rows| turned(row, steps, n_rows).unwrap_or(row));
}

/// `None` of nothing.
fn turned(index: usize, steps: isize, n: usize) -> Option<usize> {
    index.checked_add_signed(steps).map_or_else(|| n.checked_sub(1), |next| next.checked_rem(n))
}

/// Goes back to what the search does: the point that is tried, the environment that it is in, the best choice.
pub(crate) fn follow(state: &mut State) {
    let view = &mut state.view.tabs.search;
    (view.point, view.environment, view.cursor) = (None, None, None);
    state.notice("the heat map goes along with the search");
}

/// Shows the environments or the heat map, or moves the keys to them where both are shown.
pub(crate) fn turn_part(state: &mut State) {
    let part = &mut state.view.tabs.search.part;
    *part = match part {
        Part::HeatMap => Part::Environments,
        Part::Environments => Part::HeatMap,
    };
}

pub(super) fn sort(state: &mut State, sorting: Sorting) {
    let view = &mut state.view.tabs.search;
    match sorting {
        Sorting::Next => view.is_by_score = !view.is_by_score,
        Sorting::Reversed => view.is_reversed = !view.is_reversed,
    }
    let order = match (view.is_by_score, view.is_reversed) {
        (false, false) => "environments as they were tried",
        (false, true) => "environments, the last one first",
        (true, false) => "environments by gain, the best first",
        (true, true) => "environments by gain, the worst first",
    };
    state.notice(order);
}

/// `line` and `column` are counted from under the view's title.
pub(super) fn click(state: &mut State, line: usize, column: usize) {
    let (Some(whole), Some(layout)) = (Layout::of(state), layout(state)) else { return };
    // In lines of the body, whose line 0 is the title.
    let line = line + 1;
    let line_in = |place: ratatui::layout::Rect, head: usize| {
        let (top, left) = (usize::from(place.y - whole.body.y), usize::from(place.x - whole.body.x));
        let is_inside = (left..left + usize::from(place.width)).contains(&column);
        line.checked_sub(top + head).filter(|_| is_inside)
    };
    if let Some(place) = layout.environments
        && let Some(row) = line_in(place, 2).filter(|row| *row < layout.rows(Part::Environments))
    {
        state.view.tabs.search.part = Part::Environments;
        let top = state.view.tabs.search.table_top;
        set_environment(state, |here, n_rows| if top + row < n_rows { top + row } else { here });
    } else if let Some(place) = layout.heat
        && let Some(row) = line_in(place, 2).filter(|row| *row < layout.rows(Part::HeatMap))
    {
        state.view.tabs.search.part = Part::HeatMap;
        let view = &state.view.tabs.search;
        let (top, left) = (view.top, view.left);
        set_cell(state, |grid, here| {
            let columns = HeatColumns::of(grid, usize::from(place.width));
            let (top, left) = (
                visible_top(top, here.0, grid.families.len(), layout.rows(Part::HeatMap)),
                columns.first(left, here.1, grid),
            );
            let row = if top + row < grid.families.len() { top + row } else { here.0 };
            let cell = column.checked_sub(columns.name).map(|column| column / columns.cell);
            let column = cell.filter(|cell| *cell < columns.n_visible).map_or(here.1, |cell| left + cell);
            (row, column)
        });
    }
}

/// What is known of a choice, in one line each: its time, and why it is out.
pub(crate) fn readout(grid: &Grid<'_>, choice: Choice) -> [String; 2] {
    let cell = grid.cell(choice);
    let standing = grid.standing(choice);
    let measured = cell.and_then(|cell| Some((cell.median_us()?, cell.samples_us().len()))).map(|(us, n)| {
        let samples = text::count(n as u64, "sample");
        let gap = match standing {
            Standing::Timed { .. } if grid.is_best(choice) => ", the best here".to_owned(),
            Standing::Timed { gap, .. } => format!(", {:+.1} % to the best", gap * 100.0),
            _ => String::new(),
        };
        let gain = grid.gain(choice).map_or_else(String::new, |gain| format!(", {} the default", text::ratio(gain)));
        format!("median {} us of {samples}{gap}{gain}", text::microseconds(us))
    });
    let why = cell.and_then(|cell| cell.dropped.as_deref()).map(one_line);
    let state = match (standing, why) {
        (Standing::Timed { is_dropped: false, .. }, _) => String::new(),
        (standing, Some(why)) => format!("{}: {why}", standing.word()),
        (standing, None) => standing.word().to_owned(),
    };
    [measured.unwrap_or_else(|| "no time".to_owned()), state]
}

/// The choice or the environment under the cursor, in one line.
pub(super) fn copied(state: &State) -> Option<String> {
    let summary = state.shown();
    if state.view.tabs.search.part == Part::Environments {
        let rows = table::rows(state);
        let row = rows.get(table::cursor_row(state, &rows))?;
        let gain = table::gain(row).map_or_else(String::new, |gain| format!(", {} the default", text::ratio(gain)));
        let note = if row.note.is_empty() { String::new() } else { format!(" ({})", row.note) };
        let (number, word) = (text::nth(row.index), Stage::of(summary, row).word());
        let trials = text::count(row.n_trials, "trial");
        return Some(one_line(&format!(
            "environment {number}: {}: {word}{gain}, {trials}: {}{note}",
            row.settings, row.why
        )));
    }
    let grid = Grid::of(state)?;
    let choice = cursor_choice(state, &grid)?;
    let environment = summary.search.environment_of(grid.overlay);
    let environment = environment.map_or_else(String::new, |row| format!(" with {}", row.settings));
    let [measured, why] = readout(&grid, choice);
    let why = if why.is_empty() { why } else { format!("; {why}") };
    Some(one_line(&format!("{choice} at {}{environment}: {measured}{why}", grid.point)))
}

/// Every choice of which anything is known, in every environment, as CSV.
pub(super) fn exported(state: &State) -> Option<String> {
    let summary = state.shown();
    let mut csv =
        "environment,settings,collective,bytes,size,choice,median_us,samples,gap_percent,gain,state,why\n".to_owned();
    let mut is_empty = true;
    for (overlay, point, cells) in summary.search.all_cells() {
        let grid = Grid::at(state, point, overlay);
        let row = summary.search.environment_of(overlay);
        let number = row.map_or_else(String::new, |row| text::nth(row.index).to_string());
        let settings = state.run.environments.get(overlay as usize).map_or("", String::as_str);
        for (choice, cell) in cells {
            is_empty = false;
            write_cell(&mut csv, &grid, &format!("{number},{}", csv_field(settings)), (*choice, cell));
        }
    }
    (!is_empty).then_some(csv)
}

fn write_cell(csv: &mut String, grid: &Grid<'_>, environment: &str, (choice, cell): (Choice, &Cell)) {
    let number = |value: Option<f64>| value.map_or_else(String::new, |value| format!("{value:.4}"));
    let Point { collective, bytes } = grid.point;
    let standing = grid.standing(choice);
    let gap = if let Standing::Timed { gap, .. } = standing { Some(gap * 100.0) } else { None };
    let why = cell.dropped.as_deref().unwrap_or_default();
    // Writing to a String cannot fail.
    writeln!(
        csv,
        "{environment},{collective},{bytes},{},{choice},{},{},{},{},{},{}",
        Size(bytes),
        number(cell.median_us()),
        cell.samples_us().len(),
        number(gap),
        number(grid.gain(choice)),
        standing.word(),
        csv_field(&one_line(why))
    )
    .unwrap_or_default();
}
