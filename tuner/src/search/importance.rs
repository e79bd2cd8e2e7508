//! Which knobs mattered: what the model learned of each searched dimension, in words that a site can act on.
//!
//! The effect of a dimension is what its values do in the best environment that was found, with the best choices in each: that is
//! where a search looks closest, and what a site will run with. Must not measure.

use std::fmt;

use rand::{SeedableRng, rngs::SmallRng, seq::IndexedRandom as _};

use super::surrogate::{Estimate, Observation, Prior, Surrogate};
use crate::space::Dimension;

/// Environments that the report learns from at most: the effort grows with the cube of their number.
pub(super) const MOST_LEARNED: usize = 64;
/// Standard deviations of the interval, to each side.
const DEVIATIONS: f64 = 2.0;
/// An effect that is surely larger than this factor mattered: the least gain that a verdict asks of a setting.
const MATTERS: f64 = 1.02;
/// An effect that is surely smaller than this one did not: twice that gain. Starts of one environment are 1 to 3 % apart, so the
/// interval of an effect that is none reaches to 1.02 or 1.03 with a handful of environments for each value, and a bound below
/// that would never be met.
const DOES_NOT: f64 = 1.04;

/// What came of a searched dimension.
#[derive(Debug, Clone, PartialEq)]
pub struct KnobImportance {
    /// Name of the dimension.
    pub name: String,
    /// The value expected best of those that were tried; `None` is unset.
    pub best: Option<String>,
    /// The value expected worst.
    pub worst: Option<String>,
    /// Time with the worst over time with the best.
    pub factor: f64,
    /// Lower end of its interval (two standard deviations).
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// What follows.
    pub effect: Effect,
}

/// Whether a knob mattered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// By more than a verdict asks of a setting.
    Mattered,
    /// By next to nothing.
    None,
    /// It cannot be told.
    Unknown,
}

impl KnobImportance {
    fn new(dimension: &Dimension, best: usize, worst: usize, effect: Estimate) -> Self {
        let value = |index: usize| dimension.values.get(index).cloned().flatten();
        let factor = |percent: f64| (percent / 100.0).exp();
        let reach = DEVIATIONS * effect.deviation;
        // The worst is slower by choice: what is below 1 only says that it may be the other way round.
        let (low, high) = (factor(effect.mean - reach), factor(effect.mean + reach));
        let effect_word = match () {
            () if MATTERS < low => Effect::Mattered,
            () if high < DOES_NOT => Effect::None,
            () => Effect::Unknown,
        };
        Self {
            name: dimension.name.clone(),
            best: value(best),
            worst: value(worst),
            factor: factor(effect.mean),
            low,
            high,
            effect: effect_word,
        }
    }
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Mattered => "mattered",
            Self::None => "did not matter",
            Self::Unknown => "not known",
        })
    }
}

/// What each dimension did that had several values among the observed vectors, the largest effects first.
pub(super) fn importance(dimensions: &[Dimension], observations: &[Observation], seed: u64) -> Vec<KnobImportance> {
    // What cannot start has no time.
    let mut known: Vec<Observation> = observations.iter().filter(|o| o.cost.is_finite()).cloned().collect();
    if MOST_LEARNED < known.len() {
        // At random, since every order in which environments are tried favours some dimension.
        let mut random = SmallRng::seed_from_u64(seed);
        known = known.choose_multiple(&mut random, MOST_LEARNED).cloned().collect();
    }
    let Some(model) = Surrogate::fit_in_hindsight(&known, &vec![Prior::Usual; dimensions.len()]) else {
        return Vec::new();
    };
    let cost = |o: &&Observation| model.predict(&o.vector).mean;
    let Some(home) = known.iter().min_by(|a, b| cost(a).total_cmp(&cost(b))).map(|o| &o.vector) else {
        return Vec::new();
    };
    let of = |(index, dimension): (usize, &Dimension)| {
        let mut tried: Vec<usize> = known.iter().map(|o| o.vector[index]).collect();
        tried.sort_unstable();
        tried.dedup();
        let with = |value: usize| home.iter().enumerate().map(|(i, v)| if i == index { value } else { *v }).collect();
        let difference = |from: usize, to: usize| -> Estimate {
            let (from, to): (Vec<usize>, Vec<usize>) = (with(from), with(to));
            model.difference(&from, &to)
        };
        let cost = |value: &&usize| difference(home[index], **value).mean;
        let best = tried.iter().min_by(|a, b| cost(a).total_cmp(&cost(b)))?;
        // Of values that are alike, another one than the best.
        let worst = tried.iter().filter(|value| *value != best).max_by(|a, b| cost(a).total_cmp(&cost(b)))?;
        Some(KnobImportance::new(dimension, *best, *worst, difference(*best, *worst)))
    };
    let mut found: Vec<KnobImportance> = dimensions.iter().enumerate().filter_map(of).collect();
    found.sort_by(|a, b| b.factor.total_cmp(&a.factor));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three dimensions: 0 takes 40 % off with value 2, 1 does nothing, 2 never varied.
    fn dimensions() -> Vec<Dimension> {
        let values = |count: usize| (0..count).map(|v| (v > 0).then(|| v.to_string())).collect();
        [("A", 3), ("B", 2), ("C", 2)]
            .map(|(name, count)| Dimension { name: name.into(), values: values(count) })
            .into()
    }

    fn grid(noise: f64, error: f64) -> Vec<Observation> {
        let cell = |(number, (a, b)): (usize, (usize, usize))| {
            let cost = if a == 2 { 100.0 * 0.6f64.ln() } else { 0.0 };
            let wiggle = noise * [-1.0, 1.0, 1.0, -1.0, 0.5][number % 5];
            Observation { vector: vec![a, b, 0], cost: cost + wiggle, error }
        };
        (0..3).flat_map(|a| (0..2).map(move |b| (a, b))).enumerate().map(cell).collect()
    }

    #[test]
    fn a_strong_knob_mattered_and_a_null_one_did_not() {
        let found = importance(&dimensions(), &grid(0.5, 1.0), 1);
        let words: Vec<(&str, Effect)> = found.iter().map(|k| (k.name.as_str(), k.effect)).collect();
        assert_eq!(words, [("A", Effect::Mattered), ("B", Effect::None)], "{found:?}");
        assert_eq!(found[0].best.as_deref(), Some("2"));
        assert!((1.5..1.75).contains(&found[0].factor), "{found:?}");
        assert!(found[0].low < found[0].factor && found[0].factor < found[0].high);
    }

    #[test]
    fn what_is_not_sure_is_not_known_and_what_cannot_start_has_no_effect() {
        let found = importance(&dimensions(), &grid(10.0, 15.0), 1);
        assert!(found.iter().any(|k| k.name == "B" && k.effect == Effect::Unknown), "{found:?}");
        let mut seen = grid(0.5, 1.0);
        seen.push(Observation { vector: vec![0, 0, 1], cost: f64::INFINITY, error: 1.0 });
        assert!(importance(&dimensions(), &seen, 1).iter().all(|k| k.name != "C"));
        assert_eq!(importance(&dimensions(), &seen[..1], 1), []);
    }

    #[test]
    fn many_environments_are_thinned_without_losing_a_dimension() {
        // In the order of an exhaustive search the last dimension varies last.
        let dimension = |name: &str| Dimension { name: name.into(), values: vec![None, Some("1".into())] };
        let dimensions: Vec<Dimension> = ["A", "B", "C", "D", "E", "F", "G", "H"].map(dimension).into();
        let vector = |number: usize| (0..8).map(|bit| number >> bit & 1).collect::<Vec<_>>();
        let cost = |vector: &[usize]| 20.0 * vector[0] as f64 + 10.0 * vector[7] as f64;
        let seen = (0..256).map(vector).map(|v| Observation { cost: cost(&v), vector: v, error: 1.0 });
        let found = importance(&dimensions, &seen.collect::<Vec<_>>(), 3);
        let mattered: Vec<&str> =
            found.iter().filter(|k| k.effect == Effect::Mattered).map(|k| k.name.as_str()).collect();
        assert_eq!((found.len(), mattered), (8, vec!["A", "H"]), "{found:?}");
    }
}
