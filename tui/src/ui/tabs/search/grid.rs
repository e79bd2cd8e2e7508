//! The choices of one point in one environment, laid out as a grid: algorithm and protocol downwards, channels across.

use std::collections::{BTreeMap, BTreeSet};

use gdrtune_profiles::vocab::{Algorithm, Choice, Point, Protocol};
use gdrtune_session::event::{Arm, Failure};

use super::{is_searching, shown_overlay, shown_point};
use crate::ui::{
    run::{Cell, PointSeries, Space},
    state::State,
};

/// Algorithm and protocol: a row of the grid.
pub(crate) type Family = (Algorithm, Protocol);

/// The grid that is shown. Making it costs a few steps for each choice of the space.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Grid<'a> {
    pub(crate) point: Point,
    /// Number of the environment's overlay.
    pub(crate) overlay: u32,
    /// The rows, with those that the library refuses at this point last.
    pub(crate) families: Vec<Family>,
    /// The columns.
    pub(crate) channels: Vec<u16>,
    /// The fastest choice and its median time in microseconds.
    pub(crate) best: Option<(Choice, f64)>,
    /// Median time of the default in microseconds.
    pub(crate) default_us: Option<f64>,
    /// The choice of the last trial, while the search is here.
    pub(crate) present: Option<Choice>,
    choices: BTreeSet<Choice>,
    cells: Option<&'a BTreeMap<Choice, Cell>>,
    space: &'a Space,
}

/// What is known of one place of the grid.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Standing {
    /// The space has no such choice.
    Absent,
    Untried,
    /// The library does not offer it, at this point or at all.
    Refused,
    Failed(Failure),
    /// Timed, and its median is this share above the best one (0.1 is 10 % slower).
    Timed {
        gap: f64,
        is_dropped: bool,
    },
    /// Given up before it had a time.
    Dropped,
}

impl Standing {
    /// One word, or two.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Absent => "no choice of this space",
            Self::Untried => "not tried yet",
            Self::Refused => "not offered by the library here",
            Self::Failed(kind) => crate::ui::text::failure_name(kind),
            Self::Timed { is_dropped: false, .. } => "timed",
            Self::Timed { is_dropped: true, .. } | Self::Dropped => "dropped",
        }
    }
}

/// What a failed choice failed with. A choice that worked before or after is not a failed one, unless it was given up or
/// its result was wrong.
fn failure_of(cell: &Cell) -> Option<Failure> {
    let is_out = cell.samples_us().is_empty() || cell.dropped.is_some();
    cell.failure.filter(|kind| is_out || *kind == Failure::Wrong)
}

impl<'a> Grid<'a> {
    /// The grid of the point and the environment that are shown; absent before there is a point.
    pub(crate) fn of(state: &'a State) -> Option<Self> {
        Some(Self::at(state, shown_point(state)?, shown_overlay(state)))
    }

    /// The grid of a point in the environment of an overlay.
    pub(crate) fn at(state: &'a State, point: Point, overlay: u32) -> Self {
        let summary = state.shown();
        let space = &summary.search.space;
        let cells = summary.search.cells(overlay, point);
        let tried = cells.into_iter().flat_map(BTreeMap::keys);
        let choices: BTreeSet<Choice> = space.choices.iter().chain(tried).copied().collect();
        let families: BTreeSet<(bool, Family)> = choices
            .iter()
            .map(|choice| (space.is_refused(point, *choice), (choice.algorithm, choice.protocol)))
            .collect();
        let channels: BTreeSet<u16> = choices.iter().map(|choice| choice.channels).collect();
        let timed = |is_dropped: bool| {
            let of = cells.into_iter().flatten().filter(move |(_, cell)| cell.dropped.is_some() == is_dropped);
            let of = of.filter(|(_, cell)| failure_of(cell).is_none());
            of.filter_map(|(choice, cell)| Some((*choice, cell.median_us()?))).min_by(|a, b| a.1.total_cmp(&b.1))
        };
        let is_here = is_searching(summary) && summary.search.in_play == Some(overlay);
        let last = summary.trying.filter(|trying| is_here && trying.arm == Arm::Search && trying.point == point);
        Self {
            point,
            overlay,
            families: families.into_iter().map(|(_, family)| family).collect(),
            channels: channels.into_iter().collect(),
            best: timed(false).or_else(|| timed(true)),
            default_us: summary.points.get(&point).and_then(PointSeries::default_us),
            present: last.and_then(|trying| trying.choice),
            choices,
            cells,
            space,
        }
    }

    /// The choice of a place.
    pub(crate) fn choice(&self, row: usize, column: usize) -> Option<Choice> {
        let ((algorithm, protocol), channels) = (*self.families.get(row)?, *self.channels.get(column)?);
        Some(Choice { algorithm, protocol, channels })
    }

    /// Where a choice is; the first row or column where the grid has none of its own.
    pub(crate) fn place(&self, choice: Choice) -> (usize, usize) {
        let row = self.families.iter().position(|family| *family == (choice.algorithm, choice.protocol));
        let column = self.channels.iter().position(|channels| *channels == choice.channels);
        (row.unwrap_or(0), column.unwrap_or(0))
    }

    /// What was measured of a choice.
    pub(crate) fn cell(&self, choice: Choice) -> Option<&'a Cell> {
        self.cells?.get(&choice)
    }

    /// What is known of a choice.
    pub(crate) fn standing(&self, choice: Choice) -> Standing {
        if !self.choices.contains(&choice) {
            return Standing::Absent;
        }
        let is_refused = self.space.is_refused(self.point, choice);
        let Some(cell) = self.cell(choice) else {
            return if is_refused { Standing::Refused } else { Standing::Untried };
        };
        let is_dropped = cell.dropped.is_some();
        match (failure_of(cell), cell.median_us().zip(self.best)) {
            (Some(Failure::Unsupported), _) => Standing::Refused,
            (Some(kind), _) => Standing::Failed(kind),
            (None, Some((median_us, (_, best_us)))) => Standing::Timed { gap: median_us / best_us - 1.0, is_dropped },
            (None, None) if is_refused => Standing::Refused,
            (None, None) if is_dropped => Standing::Dropped,
            (None, None) => Standing::Untried,
        }
    }

    /// Whether a choice is the fastest.
    pub(crate) fn is_best(&self, choice: Choice) -> bool {
        self.best.is_some_and(|(best, _)| best == choice)
    }

    /// Default time over its time.
    pub(crate) fn gain(&self, choice: Choice) -> Option<f64> {
        let median_us = self.cell(choice)?.median_us().filter(|us| 0.0 < *us)?;
        Some(self.default_us? / median_us)
    }
}
