//! What the samples teach: how noisy they are, where each point's level lies, how linked cells usually differ, and how far
//! another environment has moved them.

use super::{Field, Message, Noise, PRIOR_NOISE, TAIL, VAGUE};
use crate::stats::{location, median};

/// Weight of the prior in pooled spreads, in samples.
const PRIOR_WEIGHT: f64 = 4.0;
/// The same where another environment taught the noise of the pool.
const TAUGHT_WEIGHT: f64 = 16.0;
/// Weight, in samples, of what the cells of its pool scatter in how much a cell does: cells with several modes must not keep steady ones
/// uncertain, and drawn to what neighbours say, for ever; and two samples that agree say little.
const CELL_WEIGHT: f64 = 4.0;
/// Least noise variance (0.3 %): clocks are no better.
const LEAST_VARIANCE: f64 = 1e-5;
/// What another environment changes between choices (log units), until it is learned. Recorded grids: 0.1 to 0.4 for one
/// changed knob.
const ENVIRONMENT_DEVIATION: f64 = 0.2;
/// What another environment changes for all choices of a point alike (log units). Recorded grids: up to 0.7 for large sizes.
const LEVEL_DEVIATION: f64 = 0.3;

impl Field {
    /// Places each pool's priors: vague ones around the pool's measured cells, given ones shifted to fit them.
    pub(super) fn learn_levels(&mut self) {
        let mut offsets: Vec<Vec<f64>> = vec![Vec::new(); self.level.len()];
        let mut taught = vec![false; self.level.len()];
        for cell in self.cells.iter().filter(|cell| !cell.samples.is_empty()) {
            taught[cell.pool] |= cell.prior.is_some();
            let center = median(&cell.samples).unwrap_or_default();
            offsets[cell.pool].push(center - cell.prior.map_or(0.0, |prior| prior.mean));
        }
        let shift = |(pool, offsets): (usize, &Vec<f64>)| {
            Some(median(offsets)? * if taught[pool] { self.share_of_level(pool, offsets.len()) } else { 1.0 })
        };
        let levels: Vec<Option<f64>> = offsets.iter().enumerate().map(shift).collect();
        let all: Vec<f64> = offsets.into_iter().flatten().collect();
        let overall = median(&all).unwrap_or_default();
        for first in 0..levels.len() {
            if !self.next_pool.contains(&Some(first)) {
                self.place_chain(first, &levels, overall);
            }
        }
    }

    /// How much of what `measured` cells of a pool moved, against where the other environment had them, the pool as a whole
    /// did: of a single one, the choice itself may have moved, and then the others are where they were.
    fn share_of_level(&self, pool: usize, measured: usize) -> f64 {
        let (count, apart) = (measured as f64, self.moved.max(ENVIRONMENT_DEVIATION.powi(2)) + self.noise[pool].full);
        let together = count * LEVEL_DEVIATION.powi(2);
        together / (together + apart)
    }

    /// Levels along linked pools: where nothing was measured, in line with what was to both sides.
    fn place_chain(&mut self, first: usize, levels: &[Option<f64>], overall: f64) {
        let chain: Vec<usize> = std::iter::successors(Some(first), |pool| self.next_pool[*pool]).collect();
        let known: Vec<(usize, f64)> =
            chain.iter().enumerate().filter_map(|(place, pool)| Some((place, levels[*pool]?))).collect();
        for (place, pool) in chain.into_iter().enumerate() {
            let right = known.iter().find(|(known, _)| place <= *known);
            let left = known.iter().rev().find(|(known, _)| *known <= place);
            self.level[pool] = match (left, right) {
                (Some((from, low)), Some((to, high))) if from < to => {
                    low + (high - low) * (place - from) as f64 / (to - from) as f64
                }
                (Some((_, level)), _) | (None, Some((_, level))) => *level,
                (None, None) => overall,
            };
        }
    }

    pub(super) fn learn_groups(&mut self) {
        let mut differences: Vec<Vec<(f64, f64)>> = vec![Vec::new(); self.groups.len()];
        for link in &self.links {
            let (from, to) = (self.cells[link.from].pool, self.cells[link.to].pool);
            self.groups[link.group].step = self.level[to] - self.level[from];
        }
        for link in &self.links {
            let (from, to) = (&self.cells[link.from], &self.cells[link.to]);
            if from.samples.is_empty() || to.samples.is_empty() {
                continue;
            }
            let difference = to.own.mean() - from.own.mean() - link.offset;
            let noise = 1.0 / from.own.precision.max(1e-9) + 1.0 / to.own.precision.max(1e-9) + link.slack;
            if from.own.precision > 0.0 && to.own.precision > 0.0 {
                differences[link.group].push((difference, noise));
            }
        }
        for (group, differences) in self.groups.iter_mut().zip(&differences) {
            let values: Vec<f64> = differences.iter().map(|(difference, _)| *difference).collect();
            let Some(center) = median(&values) else {
                // No choice was measured at both ends: all that is known is how far apart the points as such are.
                group.mean = group.step;
                continue;
            };
            let count = values.len() as f64;
            group.mean = center * count / (count + group.pull);
            let (mut sum, mut weights) = (PRIOR_WEIGHT * group.prior_variance, PRIOR_WEIGHT);
            for (difference, noise) in differences {
                let square = (difference - group.mean).powi(2);
                let weight = (TAIL + 1.0) / (TAIL + square / (group.variance + noise));
                sum += (weight * square - noise).max(0.0);
                weights += 1.0;
            }
            group.variance = (sum / weights).max(LEAST_VARIANCE);
        }
    }

    /// Pools the scatter within cells over each point, drawn to the scatter over all points.
    pub(super) fn learn_noise(&mut self) {
        let mut pools = vec![(0.0, 0.0, 0.0); self.noise.len()];
        for cell in self.cells.iter().filter(|cell| cell.samples.len() > 1) {
            let center = median(&cell.samples).unwrap_or_default();
            let pool = &mut pools[cell.pool];
            for sample in &cell.samples {
                // Tails count in full for the noise: with few samples a bimodal cell must look as uncertain as it is.
                let square = (sample - center).powi(2);
                pool.0 += square;
                pool.1 += tail_weight(square, self.noise[cell.pool].core) * square;
            }
            pool.2 += cell.samples.len() as f64 - 1.0;
        }
        let all = pools.iter().fold((0.0, 0.0, 0.0), |sum, p| (sum.0 + p.0, sum.1 + p.1, sum.2 + p.2));
        let prior = PRIOR_WEIGHT * PRIOR_NOISE * PRIOR_NOISE;
        let overall = |sum: f64| (prior + sum) / (PRIOR_WEIGHT + all.2);
        let overall = Noise { full: overall(all.0), core: overall(all.1) };
        for (index, (full, core, count)) in pools.into_iter().enumerate() {
            let (prior, weight) =
                self.taught_noise[index].map_or((overall, PRIOR_WEIGHT), |noise| (noise, TAUGHT_WEIGHT));
            let pooled = |prior: f64, sum: f64| ((weight * prior + sum) / (weight + count)).max(LEAST_VARIANCE);
            self.noise[index] = Noise { full: pooled(prior.full, full), core: pooled(prior.core, core) };
        }
        for cell in &mut self.cells {
            let center = median(&cell.samples).unwrap_or_default();
            let scatter: f64 = cell.samples.iter().map(|sample| (sample - center).powi(2)).sum();
            let others = CELL_WEIGHT * self.noise[cell.pool].full;
            let samples = (cell.samples.len() as f64 - 1.0).max(0.0);
            cell.noise = ((others + scatter) / (CELL_WEIGHT + samples)).max(LEAST_VARIANCE);
        }
    }

    pub(super) fn weigh_samples(&mut self) {
        for cell in &mut self.cells {
            let (variance, core) = (cell.noise, self.noise[cell.pool].core);
            let Some(center) = median(&cell.samples) else { continue };
            // With one or two samples the median cannot tell an outlier; the field's own belief helps, but only where it
            // stands on samples of the same pool: what it says of a size that was never measured may be ten times off, and of
            // a cell that rested it says nothing.
            let says_nothing = !self.grounded[cell.pool] || cell.total.precision <= VAGUE;
            let center = if cell.samples.len() > 2 || says_nothing {
                center
            } else {
                0.5 * (center + cell.total.shift / cell.total.precision)
            };
            let weights = cell.samples.iter().map(|sample| tail_weight((sample - center).powi(2), core));
            let weights: Vec<f64> = weights.collect();
            let precision = weights.iter().sum::<f64>() / variance;
            let weighted = || {
                let sum: f64 = weights.iter().zip(&cell.samples).map(|(weight, sample)| weight * sample).sum();
                sum / variance / precision
            };
            let mean = location(&cell.samples).unwrap_or_else(weighted);
            cell.own = Message { precision, shift: precision * mean };
        }
    }

    /// How far choices moved against each other from where the other environment had them.
    pub(super) fn learn_moved(&mut self) {
        let known = self.moved.max(ENVIRONMENT_DEVIATION.powi(2));
        let mut counts = vec![0.0_f64; self.level.len()];
        let taught = || self.cells.iter().filter(|cell| 0.0 < cell.own.precision && cell.prior.is_some());
        taught().for_each(|cell| counts[cell.pool] += 1.0);
        let (mut sum, mut weights) = (PRIOR_WEIGHT * ENVIRONMENT_DEVIATION.powi(2), PRIOR_WEIGHT);
        for cell in taught() {
            let Some(prior) = cell.prior else { continue };
            let square = (cell.own.mean() - prior.mean - self.level[cell.pool]).powi(2);
            let noise = 1.0 / cell.own.precision + prior.variance;
            // The level follows the cells: a single one is where it is.
            let free = 1.0 - 1.0 / counts[cell.pool];
            sum += (tail_weight(square, known + noise) * square - free * noise).max(0.0);
            weights += free;
        }
        self.moved = sum / weights;
    }
}

/// Weight of a sample at this squared distance, by a Student-t distribution.
fn tail_weight(square: f64, variance: f64) -> f64 {
    (TAIL + 1.0) / (TAIL + square / variance)
}
