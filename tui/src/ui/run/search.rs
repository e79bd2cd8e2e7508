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
    /// The environment that is being measured, by the number of its overlay: the search comes back to old ones.
    pub(crate) in_play: Option<u32>,
    /// Places in `environments`, by number of the overlay.
    rows: BTreeMap<u32, usize>,
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

    /// Everything that is known of any choice: number of the overlay, point, choices.
    pub(crate) fn all_cells(&self) -> impl Iterator<Item = (u32, Point, &BTreeMap<Choice, Cell>)> {
        self.cells.iter().map(|((overlay, point), cells)| (*overlay, *point, cells))
    }

    /// The environment of an overlay, if the search turned to it.
    pub(crate) fn environment_of(&self, overlay: u32) -> Option<&EnvironmentRow> {
        self.environments.get(*self.rows.get(&overlay)?)
    }

    /// The environment with the lowest score.
    pub(crate) fn best_environment(&self) -> Option<&EnvironmentRow> {
        let scored = self.environments.iter().filter_map(|row| Some((row, row.score?)));
        scored.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(row, _)| row)
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
        self.rows.insert(overlay, self.environments.len());
        self.environments.push(row);
        self.in_play = Some(overlay);
    }

    /// An environment is over.
    pub(crate) fn score(&mut self, index: u64, score: Option<f64>, note: String) {
        if let Some(row) = self.environments.iter_mut().rev().find(|row| row.index == index) {
            (row.score, row.note, row.is_over) = (score, note, true);
        }
    }

    /// A trial of the search.
    pub(crate) fn add(&mut self, overlay: u32, point: Point, choice: Choice, time_us: Result<f64, Failure>) {
        if let Some(row) = self.rows.get(&overlay).and_then(|index| self.environments.get_mut(*index)) {
            row.n_trials += 1;
        }
        self.in_play = Some(overlay);
        let cell = self.cells.entry((overlay, point)).or_default().entry(choice).or_default();
        match time_us {
            Ok(time_us) => cell.add(time_us),
            // The user gave up the trial, not the choice.
            Err(Failure::Skipped) => {}
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
    use gdrtune_profiles::vocab::Collective;

    use super::*;

    #[test]
    fn a_trial_counts_where_it_was_measured_and_a_skipped_one_is_no_failure() {
        let mut search = SearchSeen::default();
        let point = Point { collective: Collective::AllReduce, bytes: 1024 };
        let choice = Choice { algorithm: Algorithm::Ring, protocol: Protocol::Ll, channels: 1 };
        search.start(0, 7, "defaults".to_owned(), "start".to_owned());
        search.start(1, 9, "A=1".to_owned(), "a try".to_owned());
        assert_eq!(search.in_play, Some(9));
        for (overlay, result) in [(9, Ok(3.0)), (7, Ok(4.0)), (7, Err(Failure::Skipped))] {
            search.add(overlay, point, choice, result);
        }
        let counts: Vec<u64> = search.environments.iter().map(|row| row.n_trials).collect();
        assert_eq!((counts, search.in_play), (vec![2, 1], Some(7)), "it came back to the first");
        assert_eq!(search.cell(7, point, choice).map(|cell| (cell.samples_us().len(), cell.failure)), Some((1, None)));
        search.score(0, Some(0.9), String::new());
        search.score(1, Some(0.8), String::new());
        assert_eq!(search.best_environment().map(|row| row.index), Some(1));
        assert_eq!(search.environment_of(7).map(|row| row.index), Some(0));
    }

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
