//! The default arm: measured before the search and once more after it, in processes of its own.

use std::collections::BTreeMap;

use gdrtune_profiles::vocab::Point;

use super::{BASELINE_SHARE, Broken, Evaluator, Stop};
use crate::{
    bench::{Item, Outcome, Setup},
    observe::{Note, Phase},
    search::SearchError,
};

/// Samples of the default arm per point: at most.
const BASELINE_REPEATS: u32 = 3;

impl Evaluator<'_> {
    /// Measures the default arm in processes of its own.
    pub(in crate::search) fn baseline(&mut self) -> Result<(), SearchError> {
        self.observer.note(Note::Phase(Phase::Baseline));
        let (failures, stopped) = match self.measure_baseline() {
            Ok(failures) => (failures, None),
            Err(Broken::Stop(Stop::Fatal(error))) => return Err(error),
            Err(Broken::Setup(why)) => (BTreeMap::new(), Some(why)),
            Err(Broken::Stop(stop)) => (BTreeMap::new(), Some(stop.to_string())),
            // No pin is about the default arm.
            Err(Broken::Unwanted) => (BTreeMap::new(), None),
        };
        if self.default_us.is_empty() {
            let last = || failures.last_key_value().map(|(point, why)| format!("{point}: {why}"));
            return Err(SearchError::Baseline(stopped.or_else(last).unwrap_or_else(|| "no sample came".into())));
        }
        for (point, why) in failures.iter().filter(|(point, _)| !self.default_us.contains_key(*point)) {
            self.observer.note(Note::PointLeftOut { point: *point, why });
            self.left_out.insert(*point);
        }
        self.observer.note(Note::Phase(Phase::Search));
        Ok(())
    }

    /// Measures every point of the default arm. One that has no time because the user skipped it has another chance.
    fn measure_baseline(&mut self) -> Result<BTreeMap<Point, String>, Broken> {
        let mut failures = self.measure_default(self.default_repeats().max(1))?;
        let is_open = |point: &Point| !self.default_us.contains_key(point) && !failures.contains_key(point);
        let open: Vec<Point> = self.points().map(|weighted| weighted.point).filter(is_open).collect();
        if !open.is_empty() {
            self.run_default(open.iter().map(|&point| Item { point, choice: None, repeats: 1 }).collect())?;
            for point in open {
                failures.entry(point).or_insert_with(|| describe(&Outcome::Skipped));
            }
        }
        Ok(failures)
    }

    /// Measures the default arm once more, in new processes: one lucky or unlucky start must not colour every result.
    pub(in crate::search) fn baseline_again(&mut self) -> Result<(), SearchError> {
        match self.default_repeats() {
            0 => Ok(()),
            repeats => match self.measure_default(repeats) {
                Err(Broken::Stop(Stop::Fatal(error))) => Err(error),
                _ => Ok(()),
            },
        }
    }

    /// Samples of the default arm per point that its share of the trials allows.
    fn default_repeats(&self) -> u32 {
        let affordable = BASELINE_SHARE * self.budget_trials as f64 / self.plan.points.len() as f64;
        (affordable as u32).min(BASELINE_REPEATS)
    }

    /// Gives why points could not be measured, where a sample failed: the first reason of each.
    fn measure_default(&mut self, repeats: u32) -> Result<BTreeMap<Point, String>, Broken> {
        let points: Vec<Point> = self.points().map(|weighted| weighted.point).collect();
        // Rounds over all points, so that one bad moment does not hit all samples of a point.
        let round = points.iter().map(|point| Item { point: *point, choice: None, repeats: 1 });
        let items: Vec<Item> = (0..repeats).flat_map(|_| round.clone()).collect();
        self.run_default(items)
    }

    /// Runs items of the default arm; gives the first reason of each point where a sample failed.
    pub(super) fn run_default(&mut self, items: Vec<Item>) -> Result<BTreeMap<Point, String>, Broken> {
        let mut failures = BTreeMap::new();
        for (item, outcome) in self.run(Setup::Site, items)? {
            match outcome {
                Outcome::Timed(timing) => self.default_us.entry(item.point).or_default().push(timing.time_us),
                Outcome::Skipped => {}
                other => drop(failures.entry(item.point).or_insert_with(|| describe(&other))),
            }
        }
        Ok(failures)
    }
}

fn describe(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Timed(_) | Outcome::Substituted { .. } => "something else ran".into(),
        Outcome::Wrong(why) => format!("wrong result: {why}"),
        Outcome::Hung(why) => format!("hung: {why}"),
        Outcome::Crashed(why) => format!("crashed: {why}"),
        Outcome::Unsupported(why) => why.clone(),
        Outcome::Skipped => "skipped by the user".into(),
    }
}
