//! A model of what environments cost: a Gaussian process over index vectors.
//!
//! The cost of a vector is a constant, plus an effect of each dimension's value, plus what is left over (values that
//! act together), plus noise. How large the effects of a dimension are is learnt from the data, one dimension after
//! another, over a few scales; what was learnt of those already tried is the expectation for those that were not
//! (empirical Bayes), so that a search over knobs that all do nothing loses its hope. Costs are percent of log time. Must
//! not know what a vector stands for.

use super::solver::Vector;

/// Scales (standard deviations, percent) that the effects of a dimension may have, and below how likely each is beforehand: most
/// process-level knobs do next to nothing, few do a lot.
const SCALES: [f64; 5] = [0.3, 1.0, 3.0, 10.0, 30.0];
const USUAL_ODDS: [f64; 5] = [0.30, 0.20, 0.20, 0.20, 0.10];
/// The same of what binds a job to devices: a wrong one costs a tenth to more than half of a step, and that other knobs do nothing
/// says nothing of it.
const BINDING_ODDS: [f64; 5] = [0.10, 0.10, 0.15, 0.30, 0.35];
/// How many tried dimensions the expectation above counts as.
const PRIOR_DIMENSIONS: f64 = 4.0;
/// Standard deviation of the constant, percent: unknown.
const LEVEL: f64 = 100.0;
/// Standard deviation of what two or more values do together, as a part of the largest effect's: while searching, that values may
/// be better together is hope, which should not be lost to the first few environments.
const TOGETHER: f64 = 0.35;
/// The same where it is learnt, too.
const TOGETHERS: [f64; 4] = [0.02, 0.06, 0.15, TOGETHER];
/// Least such standard deviation, percent.
const LEAST_TOGETHER: f64 = 0.5;
/// How alike that is for vectors that differ in one dimension more.
const ALIKE: f64 = 0.5;
/// Costs this far (percent) above the least one are drawn in: how bad a bad environment is does not matter.
const FAR: f64 = 60.0;
/// Rounds over the dimensions to learn their scales.
const ROUNDS: usize = 3;

/// What is expected of a dimension before anything is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Prior {
    /// What the others that were tried did.
    Usual,
    /// That it may do a lot, whatever the others did.
    Binding,
}

/// A vector's cost with its standard error, both in percent.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Observation {
    pub(super) vector: Vector,
    /// Infinite if the environment cannot start.
    pub(super) cost: f64,
    pub(super) error: f64,
}

/// Mean and standard deviation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Estimate {
    pub(super) mean: f64,
    pub(super) deviation: f64,
}

/// How large effects are.
#[derive(Debug, Clone)]
struct Scales {
    /// Variance of each dimension's effects.
    variances: Vec<f64>,
    /// Standard deviation of what values do together, as a part of the largest effect's.
    together: f64,
}

/// The model, fitted to observations.
#[derive(Debug)]
pub(super) struct Surrogate {
    observations: Vec<Observation>,
    scales: Scales,
    factor: Factor,
    /// Inverse covariance times costs.
    weights: Vec<f64>,
}

impl Surrogate {
    /// Fits the model to what was observed, with what is expected of each dimension; `None` without a finite cost.
    pub(super) fn fit(observations: &[Observation], priors: &[Prior]) -> Option<Self> {
        let observations = drawn_in(observations)?;
        let scales = learn(&observations, priors, TOGETHER);
        Self::of(observations, scales)
    }

    /// The model for looking back: with all costs as they are, however far above the least one, and with what values do together
    /// learnt. No cost may be infinite.
    pub(super) fn fit_in_hindsight(observations: &[Observation], priors: &[Prior]) -> Option<Self> {
        let costs: Vec<f64> = observations.iter().map(|o| o.cost).collect();
        let fit = |together: f64| {
            let model = Self::of(observations.to_vec(), learn(observations, priors, together))?;
            Some((model.factor.log_likelihood(&costs), model))
        };
        let fits = TOGETHERS.into_iter().filter(|_| !observations.is_empty()).filter_map(fit);
        fits.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, model)| model)
    }

    /// The model with what another fit, to much the same observations, learned of the dimensions: learning is the slow part.
    pub(super) fn refit(&self, observations: &[Observation]) -> Option<Self> {
        Self::of(drawn_in(observations)?, self.scales.clone())
    }

    fn of(observations: Vec<Observation>, scales: Scales) -> Option<Self> {
        let factor = Factor::of(&observations, &scales)?;
        let costs: Vec<f64> = observations.iter().map(|o| o.cost).collect();
        let weights = factor.solve(&costs);
        Some(Self { observations, scales, factor, weights })
    }

    /// What a vector costs, without noise.
    pub(super) fn predict(&self, vector: &[usize]) -> Estimate {
        let covariances = self.observations.iter().map(|o| covariance(&o.vector, vector, &self.scales));
        self.estimate(&covariances.collect::<Vec<_>>(), covariance(vector, vector, &self.scales))
    }

    /// By how much the cost of `to` in one dimension is above that of `from`, other things equal.
    pub(super) fn contrast(&self, dimension: usize, from: usize, to: usize) -> Estimate {
        let variance = self.scales.variances[dimension];
        let is = |o: &Observation, value: usize| f64::from(u8::from(o.vector[dimension] == value));
        let covariances = self.observations.iter().map(|o| variance * (is(o, to) - is(o, from)));
        self.estimate(&covariances.collect::<Vec<_>>(), 2.0 * variance)
    }

    /// By how much the cost of the vector `to` is above that of `from`.
    pub(super) fn difference(&self, from: &[usize], to: &[usize]) -> Estimate {
        let between = |a: &[usize], b: &[usize]| covariance(a, b, &self.scales);
        let covariances = self.observations.iter().map(|o| between(&o.vector, to) - between(&o.vector, from));
        let variance = between(from, from) + between(to, to) - 2.0 * between(from, to);
        self.estimate(&covariances.collect::<Vec<_>>(), variance)
    }

    fn estimate(&self, covariances: &[f64], variance: f64) -> Estimate {
        let mean = covariances.iter().zip(&self.weights).map(|(c, w)| c * w).sum();
        let known: f64 = self.factor.half_solve(covariances).iter().map(|v| v * v).sum();
        Estimate { mean, deviation: (variance - known).max(0.0).sqrt() }
    }
}

/// With costs that are not too far above the least one; `None` if none is finite.
fn drawn_in(observations: &[Observation]) -> Option<Vec<Observation>> {
    let least = observations.iter().map(|o| o.cost).fold(f64::INFINITY, f64::min);
    let draw_in = |o: &Observation| Observation { cost: o.cost.min(least + FAR), ..o.clone() };
    least.is_finite().then(|| observations.iter().map(draw_in).collect())
}

/// How large the effects of each dimension are.
fn learn(observations: &[Observation], priors: &[Prior], together: f64) -> Scales {
    let is_varied = |d: usize| observations.iter().any(|o| o.vector[d] != observations[0].vector[d]);
    let mut usual = USUAL_ODDS.to_vec();
    let variances = priors.iter().map(|prior| expected_variance(prior.odds(&usual))).collect();
    let mut scales = Scales { variances, together };
    for _ in 0..ROUNDS {
        let mut sums: Vec<f64> = USUAL_ODDS.iter().map(|odds| PRIOR_DIMENSIONS * odds).collect();
        for (dimension, prior) in priors.iter().enumerate().filter(|(dimension, _)| is_varied(*dimension)) {
            let posterior = scale_odds(observations, &mut scales, dimension, prior.odds(&usual));
            scales.variances[dimension] = expected_variance(&posterior);
            if *prior == Prior::Usual {
                sums.iter_mut().zip(&posterior).for_each(|(sum, odds)| *sum += odds);
            }
        }
        let total: f64 = sums.iter().sum();
        usual = sums.iter().map(|sum| sum / total).collect();
        for (dimension, prior) in priors.iter().enumerate().filter(|(dimension, _)| !is_varied(*dimension)) {
            scales.variances[dimension] = expected_variance(prior.odds(&usual));
        }
    }
    scales
}

impl Prior {
    /// How likely each scale is, with what was learnt of the usual dimensions.
    fn odds(self, usual: &[f64]) -> &[f64] {
        match self {
            Self::Usual => usual,
            Self::Binding => &BINDING_ODDS,
        }
    }
}

/// How likely each scale of a dimension's effects is, the others' variances given.
fn scale_odds(observations: &[Observation], scales: &mut Scales, dimension: usize, odds: &[f64]) -> Vec<f64> {
    let costs: Vec<f64> = observations.iter().map(|o| o.cost).collect();
    let mut logs = Vec::with_capacity(SCALES.len());
    for (scale, odds) in SCALES.iter().zip(odds) {
        scales.variances[dimension] = scale * scale;
        let likelihood = Factor::of(observations, scales).map_or(f64::NEG_INFINITY, |f| f.log_likelihood(&costs));
        logs.push(likelihood + odds.max(1e-12).ln());
    }
    let most = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let weights: Vec<f64> = logs.iter().map(|log| (log - most).exp()).collect();
    let total: f64 = weights.iter().sum();
    weights.into_iter().map(|weight| weight / total).collect()
}

fn expected_variance(odds: &[f64]) -> f64 {
    SCALES.iter().zip(odds).map(|(scale, odds)| odds * scale * scale).sum()
}

fn covariance(left: &[usize], right: &[usize], scales: &Scales) -> f64 {
    let (mut shared, mut largest, mut apart) = (0.0, 0.0_f64, 0);
    for ((a, b), variance) in left.iter().zip(right).zip(&scales.variances) {
        largest = largest.max(*variance);
        if a == b {
            shared += variance;
        } else {
            apart += 1;
        }
    }
    let together = (scales.together * scales.together * largest).max(LEAST_TOGETHER * LEAST_TOGETHER);
    LEVEL * LEVEL + shared + together * ALIKE.powi(apart)
}

/// The lower Cholesky factor of the observations' covariance, row by row.
#[derive(Debug)]
struct Factor {
    rows: Vec<Vec<f64>>,
}

impl Factor {
    fn of(observations: &[Observation], scales: &Scales) -> Option<Self> {
        let mut rows: Vec<Vec<f64>> = Vec::with_capacity(observations.len());
        for (i, left) in observations.iter().enumerate() {
            let mut row = Vec::with_capacity(i + 1);
            for (j, right) in observations.iter().enumerate().take(i) {
                let dot: f64 = row.iter().zip(&rows[j]).map(|(a, b)| a * b).sum();
                row.push((covariance(&left.vector, &right.vector, scales) - dot) / rows[j][j]);
            }
            let norm: f64 = row.iter().map(|v| v * v).sum();
            let rest = covariance(&left.vector, &left.vector, scales) + left.error * left.error - norm;
            if rest <= 0.0 {
                return None;
            }
            row.push(rest.sqrt());
            rows.push(row);
        }
        Some(Self { rows })
    }

    /// Forward substitution.
    fn half_solve(&self, right: &[f64]) -> Vec<f64> {
        let mut solution: Vec<f64> = Vec::with_capacity(right.len());
        for (row, value) in self.rows.iter().zip(right) {
            let dot: f64 = row.iter().zip(&solution).map(|(a, b)| a * b).sum();
            solution.push((value - dot) / row[solution.len()]);
        }
        solution
    }

    fn solve(&self, right: &[f64]) -> Vec<f64> {
        let mut solution = self.half_solve(right);
        for i in (0..solution.len()).rev() {
            let dot: f64 = (i + 1..solution.len()).map(|j| self.rows[j][i] * solution[j]).sum();
            solution[i] = (solution[i] - dot) / self.rows[i][i];
        }
        solution
    }

    /// Up to a constant.
    fn log_likelihood(&self, costs: &[f64]) -> f64 {
        let fit: f64 = self.half_solve(costs).iter().map(|v| v * v).sum();
        let volume: f64 = self.rows.iter().filter_map(|row| row.last()).map(|v| v.ln()).sum();
        -0.5 * fit - volume
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observed(vector: &[usize], cost: f64) -> Observation {
        Observation { vector: vector.to_vec(), cost, error: 1.0 }
    }

    #[test]
    fn effects_add_up_and_what_was_not_tried_is_uncertain() {
        let seen = [observed(&[0, 0, 0], 0.0), observed(&[1, 0, 0], -20.0), observed(&[0, 1, 0], -15.0)];
        let model = Surrogate::fit(&seen, &[Prior::Usual; 3]).unwrap();
        let both = model.predict(&[1, 1, 0]);
        assert!((-40.0..-25.0).contains(&both.mean), "{both:?}");
        let (known, open) = (model.predict(&[1, 0, 0]), model.predict(&[1, 0, 1]));
        assert!(known.deviation < 1.5 && 3.0 < open.deviation, "{known:?} {open:?}");
        let contrast = model.contrast(0, 0, 1);
        assert!((-21.0..-15.0).contains(&contrast.mean), "{contrast:?}");
    }

    #[test]
    fn dimensions_that_do_nothing_lower_what_is_expected_of_others_but_not_of_devices() {
        let mut seen = vec![observed(&[0; 9], 0.0)];
        let untried = |seen: &[Observation], prior: Prior| {
            let mut priors = [Prior::Usual; 9];
            priors[8] = prior;
            let mut vector = [0; 9];
            vector[8] = 1;
            Surrogate::fit(seen, &priors).unwrap().predict(&vector).deviation
        };
        let before = [Prior::Usual, Prior::Binding].map(|prior| untried(&seen, prior));
        for dimension in 0..8 {
            let mut vector = vec![0; 9];
            vector[dimension] = 1;
            seen.push(observed(&vector, if dimension % 2 == 0 { 0.4 } else { -0.4 }));
        }
        let after = [Prior::Usual, Prior::Binding].map(|prior| untried(&seen, prior));
        assert!(after[0] < 0.6 * before[0], "{before:?} {after:?}");
        assert!(before[0] < before[1] && 0.95 * before[1] < after[1], "{before:?} {after:?}");
    }

    #[test]
    fn an_environment_that_cannot_start_is_bad_news_for_its_value() {
        let seen = [observed(&[0, 0], 0.0), observed(&[1, 0], f64::INFINITY), observed(&[0, 1], -5.0)];
        let model = Surrogate::fit(&seen, &[Prior::Usual; 2]).unwrap();
        assert!(20.0 < model.predict(&[1, 1]).mean);
        assert!(Surrogate::fit(&seen[1..2], &[Prior::Usual; 2]).is_none());
        assert!(Surrogate::fit(&[], &[Prior::Usual; 2]).is_none());
    }
}
