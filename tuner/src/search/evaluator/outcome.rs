//! What a search has found, at its end or before.

use std::collections::BTreeMap;

use super::{Evaluator, Explored};
use crate::{
    observe::Note,
    race::Pick,
    search::{EnvironmentScore, PointResult, SearchOutcome, StoppedBy, importance::importance},
};

impl Evaluator<'_> {
    /// The result.
    pub(in crate::search) fn outcome(mut self, stopped_by: StoppedBy) -> SearchOutcome {
        let outcome = self.conclusion(stopped_by);
        if !outcome.importance.is_empty() {
            self.observer.note(Note::Importance(&outcome.importance));
        }
        outcome
    }

    /// Tells what the result would be if the search ended now. Leaves no trace in what the search does next.
    pub(super) fn tell_so_far(&mut self) {
        let (explored, between) = (self.explored.clone(), self.between);
        let outcome = self.conclusion(StoppedBy::Request);
        (self.explored, self.between) = (explored, between);
        self.observer.note(Note::SoFar(&outcome));
    }

    fn conclusion(&mut self, stopped_by: StoppedBy) -> SearchOutcome {
        for index in 0..self.explored.len() {
            self.explored[index].race.adopt(&self.quarantine);
            if self.explored[index].failed.is_none() && self.explored[index].given_up.is_none() {
                self.rescore(index);
            }
        }
        let importance = importance(&self.space.dimensions, &self.hindsight(), self.plan.seed);
        let winner = self.incumbent();
        let points = winner.map(|index| self.results(index)).unwrap_or_default();
        let environment = winner.map(|index| self.explored[index].environment.clone()).unwrap_or_default();
        let first = self.canonical(&[]);
        let fallback = first.as_ref().and_then(|first| self.known.get(first).copied());
        let fallback = fallback.map(|index| self.results(index)).unwrap_or_default();
        let score = |explored: &Explored| EnvironmentScore {
            environment: explored.environment.clone(),
            score: explored.score,
            abandoned: explored.given_up.is_some(),
            failed: explored.failed.clone(),
            trials: explored.trials,
        };
        SearchOutcome {
            defaults: self.default_us.keys().filter_map(|point| Some((*point, self.default_time(*point)?))).collect(),
            environment,
            points,
            first_environment: self.space.environment(&first.unwrap_or_default()),
            fallback,
            environments: self.explored.iter().map(score).collect(),
            best_ever: self.best_ever.clone(),
            importance,
            bans: self.quarantine.bans(),
            trials: self.trials,
            seconds: self.bench.now_s() - self.started_s,
            stopped_by,
        }
    }

    fn results(&mut self, index: usize) -> Vec<PointResult> {
        let weights: BTreeMap<_, f64> = self.plan.points.iter().map(|w| (w.point, w.weight)).collect();
        let picks = self.explored[index].race.picks();
        let race = &self.explored[index].race;
        let result = |pick: Pick| PointResult {
            weight: weights.get(&pick.point).copied().unwrap_or_default(),
            default: self.default_time(pick.point),
            own_choice_us: race.own_choice_us(pick.point),
            pick,
        };
        picks.into_iter().map(result).collect()
    }
}
