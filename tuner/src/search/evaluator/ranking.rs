//! Which environment is best, and how sure that is.

use std::collections::BTreeMap;

use gdrtune_profiles::vocab::Point;

use super::{Evaluator, Explored, processes, wishes::UNWANTED};
use crate::{
    bench::Item,
    objective::Part,
    race::{Pick, expected_fall},
    search::{
        importance::MOST_LEARNED,
        priors,
        surrogate::{Estimate, Observation, Surrogate},
    },
    stats,
};

/// Standard errors that an environment must be ahead of one with fewer settings: many are compared, one will be lucky. The
/// verification asks for more; this only decides what it is asked about.
const AHEAD: f64 = 1.0;
/// Standard errors between two environments below which it is not plain which one is better.
const DOUBTFUL: f64 = 2.0;
/// Times that an environment's picks are measured to compare it.
const MOST_COMPARISONS: u32 = 12;
/// Expected gain (log) below which an environment is given up as no better.
const FUTILE: f64 = 0.0015;
/// How far (log) an environment is behind that no choices of its own will make up for. Recorded grids: a tenth.
const FAR: f64 = 0.25;
/// Samples of a pick, or of the default arm, after which a doubt about it stays.
const MOST_CONFIRMING: u32 = 16;
/// Expected gain (log) of a rule below which nothing is measured to find out whether there is one.
const WORTH_ASKING: f64 = 0.002;
/// Scores this close (relative) are a tie, which goes to fewer settings: the least gain that a verdict asks of a setting.
const TIE: f64 = 0.02;

/// Standard error of what an environment that was given up after its first points is slower by, as a part of it: what a setting
/// does differs that much between sizes.
const PROJECTED: f64 = 0.3;

/// How good an environment is.
struct Standing {
    index: usize,
    settings: usize,
    /// Logarithm of the score.
    log: f64,
    /// Standard error of that.
    error: f64,
}

/// A pick that may or may not be worth a rule.
pub(super) struct Doubt {
    /// What to measure again: the pick, or without a choice, the default arm.
    pub(super) item: Item,
    /// What a rule is expected to gain if it turns out to be worth one: its part of the score, in log units.
    pub(super) value: f64,
}

impl Explored {
    /// Standard error of the score's logarithm over what its processes may have been off by.
    fn error(&self, between: f64) -> f64 {
        self.deviation.hypot(between / (self.starts.count().max(1) as f64).sqrt())
    }
}

impl Evaluator<'_> {
    pub(super) fn usable(&self) -> impl Iterator<Item = (usize, &Explored)> {
        let all = self.explored.iter().enumerate();
        all.filter(|(_, e)| e.is_wanted && e.failed.is_none() && e.given_up.is_none() && e.score.is_finite())
    }

    /// What was learned of environments so far, for the model: costs in percent of log time. With `potential`, those of the
    /// best choices that may yet be found.
    pub(in crate::search) fn observations(&self, potential: bool) -> Vec<Observation> {
        let observe = |(vector, index): (&Vec<usize>, &usize)| {
            let explored = &self.explored[*index];
            let potential = if potential { explored.potential } else { 0.0 };
            let cost = 100.0 * (explored.score.ln() - potential);
            Observation { vector: vector.clone(), cost, error: 100.0 * explored.error(self.between) }
        };
        self.told().map(observe).collect()
    }

    /// The environments that tell of the knobs: not those that were left too early for the user's sake.
    fn told(&self) -> impl Iterator<Item = (&Vec<usize>, &usize)> {
        self.known.iter().filter(|(_, index)| self.explored[**index].given_up != Some(UNWANTED))
    }

    /// The same for looking back, where a score must be as sure as it says: one of few samples has picks that are off by what these
    /// scatter, all in one direction, and one that was projected is a guess.
    pub(super) fn hindsight(&self) -> Vec<Observation> {
        let least = self.usable().map(|(_, explored)| explored.score.ln()).fold(f64::INFINITY, f64::min);
        let doubt = |(vector, index): (&Vec<usize>, &usize)| {
            let explored = &self.explored[*index];
            let of_picks = self.of_picks(*index);
            let projected = if explored.given_up.is_some() { PROJECTED * (explored.score.ln() - least) } else { 0.0 };
            let known = explored.error(self.between);
            Observation {
                vector: vector.clone(),
                cost: 100.0 * explored.score.ln(),
                error: 100.0 * known.hypot(of_picks.max(projected)),
            }
        };
        self.told().map(doubt).collect()
    }

    /// How far (log) the score of an environment may be off because its best choices were not asked often enough to be found: by
    /// what as many samples scatter, and all in one direction.
    fn of_picks(&self, index: usize) -> f64 {
        let explored = &self.explored[index];
        let points = self.points().count().max(1) as f64;
        let noise = self.points().map(|weighted| explored.race.noise(weighted.point)).sum::<f64>() / points;
        noise * (points / explored.trials.max(1) as f64).sqrt()
    }

    /// Learns what the knobs do from all environments so far.
    pub(super) fn learn_effects(&mut self) {
        let few = self.explored.len() <= MOST_LEARNED;
        self.effects = Surrogate::fit(&self.observations(true), &priors(self.space)).filter(|_| few);
    }

    /// Whether an environment may be no worse than the explored one, by what the knobs did so far.
    pub(super) fn may_be_as_good(&self, vector: &[usize], index: usize) -> bool {
        let known = self.known.iter().find(|(_, known)| **known == index).map(|(vector, _)| vector);
        let (Some(known), Some(model)) = (known, &self.effects) else { return true };
        let (other, this) = (model.predict(vector), model.predict(known));
        other.mean - this.mean < 100.0 * TIE + other.deviation
    }

    /// The environment to build on: of those that are as good as the best, the one with the fewest settings.
    pub(super) fn incumbent(&self) -> Option<usize> {
        let standings = self.standings();
        let best = standings.iter().min_by(|a, b| a.log.total_cmp(&b.log))?;
        let tied = standings.iter().filter(|s| s.log - best.log <= TIE.max(AHEAD * s.error.hypot(best.error)));
        tied.min_by(|a, b| a.settings.cmp(&b.settings).then(a.log.total_cmp(&b.log))).map(|s| s.index)
    }

    /// Of the environments that may turn out to be the one to build on, the one that was compared least; `None` if it is plain
    /// which one that is.
    pub(super) fn rival(&self) -> Option<usize> {
        let incumbent = self.incumbent()?;
        let standings = self.standings();
        let this = standings.iter().find(|s| s.index == incumbent)?;
        let is_open = |s: &&Standing| (s.log - this.log).abs() <= TIE.max(DOUBTFUL * s.error.hypot(this.error));
        let open: Vec<&Standing> = standings.iter().filter(is_open).collect();
        let compared = |s: &&&Standing| self.explored[s.index].comparisons;
        let least = open.iter().filter(|s| compared(s) < MOST_COMPARISONS).min_by_key(compared);
        least.filter(|_| 1 < open.len()).map(|s| s.index)
    }

    /// How good each environment is, as the model says: of many, one will be lucky, and what its settings did in the others
    /// tells.
    fn standings(&self) -> Vec<Standing> {
        let model = self.effects.as_ref().and_then(|effects| effects.refit(&self.observations(false)));
        let vectors: BTreeMap<usize, &Vec<usize>> = self.known.iter().map(|(vector, index)| (*index, vector)).collect();
        let standing = |(index, e): (usize, &Explored)| {
            let predict = model.as_ref().zip(vectors.get(&index)).map(|(model, vector)| model.predict(vector));
            let (log, error) = match predict {
                Some(Estimate { mean, deviation }) => (mean / 100.0, deviation / 100.0),
                None => (e.score.ln(), e.error(self.between)),
            };
            Standing { index, settings: e.environment.0.len(), log, error }
        };
        self.usable().map(standing).collect()
    }

    /// Whether more samples of an environment are not worth it: it is not expected to get ahead by what a change asks. Before
    /// it had a fair share of samples, only what is far behind is given up.
    pub(super) fn is_futile(&mut self, index: usize, incumbent: usize, is_fair: bool) -> bool {
        self.rescore(index);
        let error = self.explored[index].error(self.between).hypot(self.explored[incumbent].error(self.between));
        let behind = self.explored[index].score.ln() - self.explored[incumbent].score.ln();
        (is_fair || FAR + 2.0 * error < behind) && self.hope(index, incumbent) < FUTILE
    }

    /// By how much (log) an environment is expected to get further ahead of the incumbent than a change asks, with the best
    /// choices that may yet be found.
    fn hope(&self, index: usize, incumbent: usize) -> f64 {
        let (explored, incumbent) = (&self.explored[index], &self.explored[incumbent]);
        let bar = incumbent.score.ln() - TIE;
        let error = explored.error(self.between).hypot(incumbent.error(self.between)).hypot(self.of_picks(index));
        expected_fall(explored.score.ln() - explored.potential - bar, error)
    }

    /// The environment where more samples are expected to improve the final answer most: the one that would ship, by better
    /// or surer choices, or one that may yet get as far ahead of it as a change asks.
    pub(super) fn contender(&mut self) -> Option<usize> {
        // Before anything has a score, the first environment is all there is.
        let first = self
            .explored
            .first()
            .filter(|first| first.is_wanted && first.failed.is_none() && !first.settled)
            .map(|_| 0);
        let Some(incumbent) = self.incumbent() else { return first };
        let in_doubt = self.doubts(incumbent).iter().map(|doubt| doubt.value).sum::<f64>();
        let gain = |index: usize, e: &Explored| {
            if index == incumbent { e.potential + in_doubt } else { self.hope(index, incumbent) }
        };
        let open = self.usable().filter(|(_, e)| !e.settled).map(|(index, e)| (gain(index, e), index));
        open.max_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1))).map(|(_, index)| index)
    }

    /// Picks that may be faster than the default and are not sure enough to be proposed: more samples of the less certain of
    /// the two times decide whether there is a rule.
    pub(super) fn doubts(&mut self, index: usize) -> Vec<Doubt> {
        let picks = self.explored[index].race.picks();
        let total: f64 = self.race_points().iter().map(|weighted| weighted.weight).sum();
        let needed = self.plan.least_gain.ln_1p();
        let mut doubts = Vec::new();
        for weighted in &self.plan.points {
            let Some(pick) = picks.iter().find(|pick| pick.point == weighted.point) else { continue };
            let (Some(choice), Some(default)) = (pick.choice, self.default_time(pick.point)) else { continue };
            let noise = self.explored[index].race.noise(pick.point);
            let default_error = stats::MEDIAN_ERROR * noise / f64::from(default.samples).sqrt();
            let gain = (default.median_us / pick.expected_us).ln();
            let value = expected_fall(needed - gain, pick.deviation.hypot(default_error));
            if needed <= gain - pick.deviation || value < WORTH_ASKING {
                continue;
            }
            let (choice, samples) =
                if default_error < pick.deviation { (Some(choice), pick.samples) } else { (None, default.samples) };
            if samples < MOST_CONFIRMING {
                let item = Item { point: pick.point, choice, repeats: 1 };
                let weight = self.plan.objective.race_weight(weighted.weight, default.median_us);
                doubts.push(Doubt { item, value: value * weight / total });
            }
        }
        doubts
    }

    pub(super) fn rescore(&mut self, index: usize) {
        self.between = processes::between(self.explored.iter().map(|explored| (&explored.starts, &explored.race)));
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
