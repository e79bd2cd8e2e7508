//! Where the parts of the search view lie, and how wide the columns of its heat map are.

use gdrtune_profiles::vocab::Algorithm;
use ratatui::layout::{Constraint, Layout as Split, Rect};

use super::{Part, grid::Grid, table::knob_lines};
use crate::ui::{state::State, tabs::list::visible_top};

/// From this size of the body on, heat map and environments are both shown: that of a terminal of 120x40, less header, names
/// of the views and footer.
const BOTH_MIN: (u16, u16) = (120, 34);

/// From this many columns on, the knobs are beside the environments.
const BESIDE_COLUMNS: u16 = 150;

/// Rows of the heat map that are no choices: title, channels, legend, and two lines of the choice under the cursor.
const HEAT_FRAME_ROWS: u16 = 5;

/// Rows of the environments that are none: title, column heads, and two lines of the one under the cursor.
const TABLE_FRAME_ROWS: u16 = 4;

/// The places of the search view. An absent part is not shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SearchLayout {
    pub(crate) heat: Option<Rect>,
    pub(crate) environments: Option<Rect>,
    pub(crate) knobs: Option<Rect>,
}

impl SearchLayout {
    /// The parts of a body: both where there is room, else the one that has the focus.
    pub(crate) fn of(state: &State, body: Rect) -> Self {
        let focus = state.view.tabs.search.part;
        let is_roomy = BOTH_MIN.0 <= body.width && BOTH_MIN.1 <= body.height;
        if !is_roomy && focus == Part::HeatMap {
            return Self { heat: Some(body), environments: None, knobs: None };
        }
        let (heat, below) = if is_roomy {
            let n_families = Grid::of(state).map_or(0, |grid| grid.families.len()) as u16;
            let rows = n_families.max(1).saturating_add(HEAT_FRAME_ROWS).min(body.height * 3 / 5);
            let [heat, below] = Split::vertical([Constraint::Length(rows), Constraint::Fill(1)]).areas(body);
            (Some(heat), below)
        } else {
            (None, body)
        };
        let [environments, knobs] = if BESIDE_COLUMNS <= body.width {
            Split::horizontal([Constraint::Fill(1), Constraint::Fill(1)]).spacing(1).areas(below)
        } else {
            // The title and a line are always there; environments get at least two thirds.
            let rows = (knob_lines(state).max(1) as u16).saturating_add(1).min(below.height / 3);
            Split::vertical([Constraint::Fill(1), Constraint::Length(rows)]).areas(below)
        };
        Self { heat, environments: Some(environments), knobs: Some(knobs) }
    }

    /// Rows of choices of the heat map, or of environments.
    pub(crate) fn rows(&self, part: Part) -> usize {
        match part {
            Part::HeatMap => self.heat.map_or(0, Self::n_families),
            Part::Environments => self.environments.map_or(0, Self::n_environments),
        }
    }

    /// Rows of choices of a heat map at a place.
    pub(crate) fn n_families(heat: Rect) -> usize {
        usize::from(heat.height.saturating_sub(HEAT_FRAME_ROWS))
    }

    /// Rows of environments of a table at a place.
    pub(crate) fn n_environments(table: Rect) -> usize {
        usize::from(table.height.saturating_sub(TABLE_FRAME_ROWS))
    }
}

/// The columns of a heat map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HeatColumns {
    /// Of the names of the rows, with a column for the cursor and one of space.
    pub(crate) name: usize,
    /// Whether long names of algorithms are shortened.
    pub(crate) is_short: bool,
    /// Of each cell: the value, and one for a mark.
    pub(crate) cell: usize,
    /// Cells that there is room for.
    pub(crate) n_visible: usize,
}

/// Widths of a cell, the best first, and whether names are shortened for it: symbol and number of four digits, number of
/// three, of two, and a symbol alone.
const WIDTHS: [(usize, bool); 6] = [(6, false), (4, false), (3, false), (3, true), (2, false), (2, true)];

impl HeatColumns {
    /// What fits beside the names in so many columns.
    pub(crate) fn of(grid: &Grid<'_>, columns: usize) -> Self {
        let name_columns = |is_short: bool| {
            let names = grid.families.iter().map(|family| family_name(*family, is_short).len());
            names.max().unwrap_or(0) + 2
        };
        let names = [name_columns(false), name_columns(true)];
        let n = grid.channels.len();
        let of = |(cell, is_short): (usize, bool)| {
            let name = names[usize::from(is_short)];
            let n_visible = (columns.saturating_sub(name) / cell).min(n);
            Self { name, is_short, cell, n_visible }
        };
        let narrowest = of(WIDTHS[WIDTHS.len() - 1]);
        WIDTHS.into_iter().map(of).find(|columns| columns.n_visible == n).unwrap_or(narrowest)
    }

    /// The first column of the grid to show, near `left`, so that `cursor` can be seen.
    pub(crate) fn first(&self, left: usize, cursor: usize, grid: &Grid<'_>) -> usize {
        visible_top(left, cursor, grid.channels.len(), self.n_visible)
    }
}

/// `ring/simple`; a short one has no more than nine columns of algorithm.
pub(crate) fn family_name((algorithm, protocol): super::grid::Family, is_short: bool) -> String {
    let name = match algorithm {
        Algorithm::CollNetDirect if is_short => "cn_direct",
        Algorithm::CollNetChain if is_short => "cn_chain",
        _ => algorithm.name(),
    };
    format!("{name}/{protocol}")
}
