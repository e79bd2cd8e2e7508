//! Which environment is best, and how sure that is.

use std::{collections::BTreeMap, f64::consts::SQRT_2};

use gdrtune_profiles::vocab::Point;

use super::{Evaluator, Explored};
use crate::{
    bench::Item,
    objective::Part,
    race::{Pick, expected_fall},
};

/// Standard errors that an environment must be ahead of one with fewer settings: many are compared, one will be lucky.
const AHEAD: f64 = 2.5;
/// Standard deviation between sets of processes with equal settings, in log units of the score: each environment runs in
/// one set or two, so no number of samples shows it. NCCL on one H200, 4 ranks: 0.01 to 0.03 over nine sizes.
const PROCESSES: f64 = 0.015;
/// Standard errors that count in an environment's favour before it is given up as no better.
const FUTILE: f64 = 1.0;
/// Samples of a pick after which it stays in doubt.
const MOST_CONFIRMING: u32 = 16;
/// Scores this close (relative) are a tie, which goes to fewer settings: the least gain that a verdict asks of a setting.
const TIE: f64 = 0.02;

/// A pick that may or may not be worth a rule.
pub(super) struct Doubt {
    /// What to measure again.
    pub(super) item: Item,
    /// What is lost if it is one and is not proposed: its part of the score, in log units.
    pub(super) value: f64,
}

impl Evaluator<'_> {
    pub(super) fn usable(&self) -> impl Iterator<Item = (usize, &Explored)> {
        let all = self.explored.iter().enumerate();
        all.filter(|(_, e)| e.failed.is_none() && !e.abandoned && e.score.is_finite())
    }

    /// The environment with the best score.
    pub(super) fn leader(&self) -> Option<usize> {
        self.usable().min_by(|(_, a), (_, b)| a.score.total_cmp(&b.score)).map(|(index, _)| index)
    }

    /// The environment to build on: of those that the leader is not clearly ahead of, the one with the fewest settings,
    /// then the best score.
    pub(super) fn incumbent(&self) -> Option<usize> {
        let best = &self.explored[self.leader()?];
        let tied = self.usable().filter(|(_, e)| {
            let margin = AHEAD * e.deviation.hypot(best.deviation).hypot(PROCESSES * SQRT_2);
            (e.score / best.score).ln() <= margin.max(TIE)
        });
        let order = |e: &Explored| (e.environment.0.len(), e.score);
        tied.min_by(|(_, a), (_, b)| {
            let ((settings_a, score_a), (settings_b, score_b)) = (order(a), order(b));
            settings_a.cmp(&settings_b).then(score_a.total_cmp(&score_b))
        })
        .map(|(index, _)| index)
    }

    /// Whether more samples of an environment cannot make it one to change to: even with perfect choices it would not be
    /// ahead by what a change asks.
    pub(super) fn is_futile(&mut self, index: usize, incumbent: usize) -> bool {
        self.rescore(index);
        let explored = &self.explored[index];
        let best_case = explored.score.ln() - explored.potential - FUTILE * explored.deviation;
        self.explored[incumbent].score.ln() - TIE < best_case
    }

    /// The environment where more samples are expected to improve the final answer most: the one that would ship, by better
    /// or surer choices, or one that may yet get as far ahead of it as a change asks.
    pub(super) fn contender(&mut self) -> Option<usize> {
        // Before anything has a score, the first environment is all there is.
        let first = self.explored.first().filter(|first| first.failed.is_none() && !first.settled).map(|_| 0);
        let Some(incumbent) = self.incumbent() else { return first };
        let in_doubt = self.doubts(incumbent).iter().map(|doubt| doubt.value).sum::<f64>();
        let bar = self.explored[incumbent].score.ln() - TIE.max(AHEAD * PROCESSES * SQRT_2);
        let gain = |index: usize, e: &Explored| {
            if index == incumbent {
                return e.potential + in_doubt;
            }
            expected_fall(e.score.ln() - e.potential - bar, e.deviation)
        };
        let open = self.usable().filter(|(_, e)| !e.settled).map(|(index, e)| (gain(index, e), index));
        open.max_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1))).map(|(_, index)| index)
    }

    /// Picks that look faster than the default and are not sure enough to be proposed: more samples of them decide whether
    /// there is a rule.
    pub(super) fn doubts(&mut self, index: usize) -> Vec<Doubt> {
        let picks = self.explored[index].race.picks();
        let total: f64 = self.race_points().iter().map(|weighted| weighted.weight).sum();
        let mut doubts = Vec::new();
        for weighted in &self.plan.points {
            let Some(pick) = picks.iter().find(|pick| pick.point == weighted.point) else { continue };
            let (Some(choice), Some(default)) = (pick.choice, self.default_time(pick.point)) else { continue };
            let gain = (default.median_us / pick.expected_us).ln();
            let needed = self.plan.least_gain.ln_1p();
            if needed <= gain && gain - pick.deviation < needed && pick.samples < MOST_CONFIRMING {
                let item = Item { point: pick.point, choice: Some(choice), repeats: 1 };
                let weight = self.plan.objective.race_weight(weighted.weight, default.median_us);
                doubts.push(Doubt { item, value: gain * weight / total });
            }
        }
        doubts
    }

    pub(super) fn rescore(&mut self, index: usize) {
        let picks = self.explored[index].race.picks();
        let picks: BTreeMap<Point, Pick> = picks.into_iter().map(|pick| (pick.point, pick)).collect();
        let (mut parts, mut variance, mut weights) = (Vec::new(), 0.0, 0.0);
        for weighted in &self.plan.points {
            let Some(default) = self.default_time(weighted.point) else { continue };
            let pick = picks.get(&weighted.point);
            // A point without a time here gains nothing here.
            let toll = |pick: &Pick| pick.choice.map_or(0.0, |choice| self.plan.race.toll(choice));
            let time_us = pick.map_or(default.median_us, |pick| pick.expected_us * toll(pick).exp());
            parts.push(Part { weight: weighted.weight, time_us, default_us: default.median_us });
            let weight = self.plan.objective.race_weight(weighted.weight, default.median_us);
            variance += pick.map_or(0.0, |pick| (weight * pick.deviation).powi(2));
            weights += weight;
        }
        self.explored[index].potential = self.explored[index].race.potential();
        let score = self.plan.objective.score(&parts).filter(|_| !picks.is_empty());
        self.explored[index].score = score.unwrap_or(f64::INFINITY);
        self.explored[index].deviation = if weights > 0.0 { variance.sqrt() / weights } else { 0.0 };
    }
}
