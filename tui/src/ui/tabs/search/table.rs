//! The environments as rows, and the knobs.

use gdrtune_session::event::Knob;

use super::{is_searching, shown_overlay};
use crate::ui::{
    run::{EnvironmentRow, Summary},
    state::State,
};

/// How far an environment is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    InPlay,
    Scored,
    /// Clearly worse, so it was not measured to its end.
    GivenUp,
    Failed,
    /// The search ended before it had a score.
    Unscored,
}

impl Stage {
    /// The stage of an environment.
    pub(crate) fn of(summary: &Summary, row: &EnvironmentRow) -> Self {
        if is_searching(summary) && summary.search.in_play == Some(row.overlay) {
            return Self::InPlay;
        }
        match (row.is_over, row.score, row.note.is_empty()) {
            (false, ..) => Self::Unscored,
            (true, None, _) => Self::Failed,
            (true, Some(_), false) => Self::GivenUp,
            (true, Some(_), true) => Self::Scored,
        }
    }

    /// What it is called.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::InPlay => "in play",
            Self::Scored => "scored",
            Self::GivenUp => "given up",
            Self::Failed => "failed",
            Self::Unscored => "no score",
        }
    }
}

/// Default time over best time of an environment.
pub(crate) fn gain(row: &EnvironmentRow) -> Option<f64> {
    row.score.filter(|score| 0.0 < *score).map(|score| 1.0 / score)
}

/// The environments in the order in which they are shown.
pub(crate) fn rows(state: &State) -> Vec<&EnvironmentRow> {
    let view = &state.view.tabs.search;
    let mut rows: Vec<&EnvironmentRow> = state.shown().search.environments.iter().collect();
    if view.is_by_score {
        // The best first; those without a score are last, in the order in which they were tried.
        let score = |row: &EnvironmentRow| row.score.unwrap_or(f64::INFINITY);
        rows.sort_by(|a, b| score(a).total_cmp(&score(b)));
    }
    if view.is_reversed {
        rows.reverse();
    }
    rows
}

/// Where the environment that is shown is among the rows.
pub(crate) fn cursor_row(state: &State, rows: &[&EnvironmentRow]) -> usize {
    let overlay = shown_overlay(state);
    rows.iter().position(|row| row.overlay == overlay).unwrap_or(0)
}

/// A line of the knobs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum KnobLine<'a> {
    /// What the search told of it.
    Told(&'a Knob),
    /// A knob of the space with its values, of which nothing is known yet.
    Searched(&'a str, &'a [Option<String>]),
}

/// The knobs that the search told of, then the others of the space with more than one value.
pub(crate) fn knobs(state: &State) -> impl Iterator<Item = KnobLine<'_>> {
    let search = &state.shown().search;
    let is_told = |name: &str| search.knobs.iter().any(|knob| knob.name == name);
    let others = search.space.dimensions.iter().filter(move |(name, values)| 1 < values.len() && !is_told(name));
    let others = others.map(|(name, values)| KnobLine::Searched(name, values));
    search.knobs.iter().map(KnobLine::Told).chain(others)
}

/// How many lines that are.
pub(crate) fn knob_lines(state: &State) -> usize {
    knobs(state).count()
}
