//! What the search did: its space, its environments, and what each choice took in each of them.

use std::collections::{BTreeMap, BTreeSet};

use gdrtune_profiles::vocab::{Algorithm, Choice, Point, Protocol};
use gdrtune_session::event::{Failure, Knob};

/// Everything that the search view shows.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct SearchSeen {
    pub(crate) space: Space,
    /// In the order in which they were tried.
    pub(crate) environments: Vec<EnvironmentRow>,
    /// What the user pinned: a knob and its value (`None` = unset).
    pub(crate) pins: BTreeMap<String, Option<String>>,
    /// What each knob did, as the search told it last.
    pub(crate) knobs: Vec<Knob>,
    /// By number of the overlay and by point.
    cells: BTreeMap<(u32, Point), BTreeMap<Choice, Cell>>,
}

/// What is searched.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Space {
    /// Knobs and their values (`None` = unset).
    pub(crate) dimensions: BTreeMap<String, Vec<Option<String>>>,
    /// Choices that may be tried at each point.
    pub(crate) choices: Vec<Choice>,
    /// What the library said that it allows at a point; points without an entry were not asked about.
    pub(crate) allowed: BTreeMap<Point, BTreeSet<(Algorithm, Protocol)>>,
}

impl Space {
    /// Whether the library refuses a choice at a point, by its own word.
    pub(crate) fn is_refused(&self, point: Point, choice: Choice) -> bool {
        self.allowed.get(&point).is_some_and(|allowed| !allowed.contains(&(choice.algorithm, choice.protocol)))
    }
}

/// An environment that the search turned to.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct EnvironmentRow {
    /// Running number from 0.
    pub(crate) index: u64,
    /// Number of its overlay.
    pub(crate) overlay: u32,
    pub(crate) settings: String,
    pub(crate) why: String,
    /// Best time over default time; absent until it is scored, or where it failed.
    pub(crate) score: Option<f64>,
    /// Why it was given up or failed.
    pub(crate) note: String,
    pub(crate) is_over: bool,
    pub(crate) n_trials: u64,
}

/// One choice at one point in one environment.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Cell {
    /// Times in microseconds, sorted.
    samples_us: Vec<f32>,
    /// The last failure, if any.
    pub(crate) failure: Option<Failure>,
    /// Why it is out of the race.
    pub(crate) dropped: Option<Box<str>>,
}

impl Cell {
    /// Times in microseconds, sorted.
    pub(crate) fn samples_us(&self) -> &[f32] {
        &self.samples_us
    }

    /// Median time in microseconds.
    pub(crate) fn median_us(&self) -> Option<f64> {
        let samples = &self.samples_us;
        let upper = f64::from(*samples.get(samples.len() / 2)?);
        let lower = f64::from(*samples.get(samples.len().checked_sub(1)? / 2)?);
        Some(f64::midpoint(lower, upper))
    }

    fn add(&mut self, time_us: f64) {
        let time_us = time_us as f32;
        let position = self.samples_us.partition_point(|v| *v < time_us);
        self.samples_us.insert(position, time_us);
    }
}

impl SearchSeen {
    /// What is known of each choice at a point in an environment.
    pub(crate) fn cells(&self, overlay: u32, point: Point) -> Option<&BTreeMap<Choice, Cell>> {
        self.cells.get(&(overlay, point))
    }

    /// One of them.
    pub(crate) fn cell(&self, overlay: u32, point: Point, choice: Choice) -> Option<&Cell> {
        self.cells.get(&(overlay, point))?.get(&choice)
    }

    /// The search turns to an environment.
    pub(crate) fn start(&mut self, index: u64, overlay: u32, settings: String, why: String) {
        let row = EnvironmentRow {
            index,
            overlay,
            settings,
            why,
            score: None,
            note: String::new(),
            is_over: false,
            n_trials: 0,
        };
        self.environments.push(row);
    }

    /// An environment is over.
    pub(crate) fn score(&mut self, index: u64, score: Option<f64>, note: String) {
        if let Some(row) = self.environments.iter_mut().rev().find(|row| row.index == index) {
            (row.score, row.note, row.is_over) = (score, note, true);
        }
    }

    /// A trial of the search.
    pub(crate) fn add(&mut self, overlay: u32, point: Point, choice: Choice, time_us: Result<f64, Failure>) {
        if let Some(row) = self.environments.last_mut().filter(|row| row.overlay == overlay) {
            row.n_trials += 1;
        }
        let cell = self.cells.entry((overlay, point)).or_default().entry(choice).or_default();
        match time_us {
            Ok(time_us) => cell.add(time_us),
            Err(failure) => cell.failure = Some(failure),
        }
    }

    /// A choice is out of the race.
    pub(crate) fn drop_choice(&mut self, overlay: u32, point: Point, choice: Choice, why: &str) {
        self.cells.entry((overlay, point)).or_default().entry(choice).or_default().dropped = Some(why.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_a_cell_is_that_of_its_times() {
        let mut cell = Cell::default();
        assert_eq!(cell.median_us(), None);
        for (time_us, median) in [(30.0, 30.0), (10.0, 20.0), (11.0, 11.0)] {
            cell.add(time_us);
            assert_eq!(cell.median_us(), Some(median));
        }
        assert_eq!(cell.samples_us(), [10.0, 11.0, 30.0]);
    }
}
