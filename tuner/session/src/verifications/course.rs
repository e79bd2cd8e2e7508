//! The course of what a profile gains, over its verifications.

use gdrtune_profiles::{
    profile::{Profile, Rule, Speedup},
    vocab::{Collective, Point},
};
use gdrtune_tuner::stats::{geometric_mean, trend};

use super::{Verification, VerifiedPoint};

/// Verifications from which on a direction is asked for by Mann and Kendall's test: of fewer, no order is unlikely enough.
const MIN_STEPS: usize = 5;

/// Chance below which a direction is none: as a verdict's.
const MAX_P: f64 = 0.05;

/// Pairs of processes below which no interval is one to rely on: with fewer, not even complete separation makes a verdict sure
/// (1 - 2^-n is below 0.95).
pub const MIN_PAIRS: u32 = 5;

/// What a change must exceed to matter, as a verdict's gain.
pub const MIN_GAIN: f64 = 0.02;

/// What a course is of.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Of<'a> {
    /// A rule, with its place in the profile.
    Rule(usize, &'a Rule),
    /// Sizes of a collective that no rule covers, where the profile sets variables.
    Uncovered(Collective),
}

/// What one verification says of it: the geometric mean over its sizes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step<'a> {
    /// Which.
    pub verification: &'a Verification,
    /// Default time over the profile's, with everything that the profile sets.
    pub median: f64,
    /// Lower end, where all sizes are at the lower ends of their intervals.
    pub low: f64,
    /// Upper end, likewise.
    pub high: f64,
}

/// Whether it changes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Drift {
    /// There is nothing to compare yet.
    TooFew,
    /// No change that is sure and matters.
    Steady,
    /// All of the course leans to one side: the change from its first to its last on the median slope, 0.1 for 10 % more, and the chance
    /// that it is none.
    Trend {
        /// The change.
        change: f64,
        /// The chance.
        p: f64,
    },
    /// The intervals of the first and the last do not overlap, and both had pairs enough: the change.
    Step(f64),
}

/// One course.
#[derive(Debug, Clone, PartialEq)]
pub struct Course<'a> {
    /// What of.
    pub of: Of<'a>,
    /// Nodes, and ranks over all of them.
    pub shape: (u32, u32),
    /// Its sizes: those that most verifications had, so that one of a few sizes changes no course; of equally many, the newest's.
    pub sizes: Vec<u64>,
    /// Verifications that have all of these, in the order of time.
    pub steps: Vec<Step<'a>>,
    /// Verifications of other sizes.
    pub left_out: usize,
    /// What follows.
    pub drift: Drift,
}

/// The courses of a profile's rules, and where it sets variables, of the other sizes; those that were ever verified.
pub fn courses<'a>(profile: &'a Profile, all: &'a [Verification]) -> Vec<Course<'a>> {
    let rules = profile.rule.iter().enumerate().map(|(place, rule)| (Of::Rule(place, rule), (rule.nodes, rule.ranks)));
    let mut shapes: Vec<(u32, u32)> = all.iter().map(|one| (one.nodes, one.ranks)).collect();
    shapes.sort_unstable();
    shapes.dedup();
    let uncovered =
        shapes.into_iter().flat_map(|shape| Collective::ALL.iter().map(move |one| (Of::Uncovered(*one), shape)));
    rules.chain(uncovered).filter_map(|(of, shape)| course(profile, of, shape, all)).collect()
}

fn course<'a>(profile: &Profile, of: Of<'a>, shape: (u32, u32), all: &'a [Verification]) -> Option<Course<'a>> {
    let of_shape = || all.iter().filter(|one| (one.nodes, one.ranks) == shape);
    let points = |one: &'a Verification| -> Vec<&'a VerifiedPoint> {
        one.points.iter().filter(|verified| belongs(profile, of, shape, verified.point)).collect()
    };
    let measured: Vec<Vec<u64>> = of_shape()
        .map(|one| points(one).iter().map(|verified| verified.point.bytes).collect())
        .filter(|sizes: &Vec<u64>| !sizes.is_empty())
        .collect();
    let times = |sizes: &Vec<u64>| measured.iter().filter(|other| *other == sizes).count();
    // Of equals, the last.
    let sizes = measured.iter().max_by_key(|sizes| times(sizes))?.clone();
    let step = |one: &'a Verification| {
        let points = points(one);
        let at = |bytes: &u64| {
            points.iter().find(|verified| verified.point.bytes == *bytes).map(|verified| verified.speedup)
        };
        let speedups: Vec<Speedup> = sizes.iter().map(at).collect::<Option<_>>()?;
        let mean = |of: fn(&Speedup) -> f64| geometric_mean(&speedups.iter().map(of).collect::<Vec<_>>());
        Some(Step { verification: one, median: mean(|s| s.median)?, low: mean(|s| s.low)?, high: mean(|s| s.high)? })
    };
    let steps: Vec<Step<'a>> = of_shape().filter_map(step).collect();
    let (left_out, drift) = (measured.len() - steps.len(), drift(&steps));
    Some(Course { of, shape, sizes, steps, left_out, drift })
}

/// Whether a point is one of those that a course is of: the first rule that holds decides.
fn belongs(profile: &Profile, of: Of<'_>, shape: (u32, u32), point: Point) -> bool {
    let first = profile.rule_of(shape, point);
    match of {
        Of::Rule(_, rule) => first.is_some_and(|first| std::ptr::eq(first, rule)),
        Of::Uncovered(collective) => first.is_none() && point.collective == collective,
    }
}

fn drift(steps: &[Step<'_>]) -> Drift {
    let (Some(first), Some(last)) = (steps.first(), steps.last().filter(|_| 1 < steps.len())) else {
        return Drift::TooFew;
    };
    let logs: Vec<f64> = steps.iter().map(|step| step.median.ln()).collect();
    if let Some(found) = trend(&logs).filter(|found| MIN_STEPS <= steps.len() && found.p <= MAX_P) {
        let change = (found.slope * (steps.len() - 1) as f64).exp() - 1.0;
        if MIN_GAIN < change.abs() {
            return Drift::Trend { change, p: found.p };
        }
    }
    let have_pairs = [first, last].iter().all(|step| MIN_PAIRS <= step.verification.pairs);
    let is_apart = have_pairs && (last.high < first.low || first.high < last.low);
    let change = last.median / first.median - 1.0;
    if is_apart && MIN_GAIN < change.abs() { Drift::Step(change) } else { Drift::Steady }
}
