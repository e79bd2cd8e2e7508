//! What a profile means for a job's step: communication time before and after, from what was measured, and nothing else.
//!
//! A size between two measured ones has a time that is interpolated, linearly in the logarithms of size and time. A size
//! outside of the measured ones, or of a collective that was not measured, has none: it is named and left out of both sums.

use gdrtune_profiles::{
    profile::{Profile, Rule, Speedup},
    vocab::Point,
    workload::Workload,
};

/// A ratio (default time over tuned time) with its interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ratio {
    /// Ratio of medians.
    pub median: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Ratio {
    /// Nothing changes.
    pub const NONE: Self = Self { median: 1.0, low: 1.0, high: 1.0 };
}

impl From<Speedup> for Ratio {
    fn from(speedup: Speedup) -> Self {
        Self { median: speedup.median, low: speedup.low, high: speedup.high }
    }
}

/// What was measured at a point.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Measured {
    /// The point.
    pub point: Point,
    /// Time of one call with the defaults, in microseconds.
    pub default_us: f64,
    /// What everything that was to ship did to it in the A/B, where that had this point.
    pub ratio: Option<Ratio>,
}

/// Where a time is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// It was measured at this very size.
    Measured,
    /// It lies between the times of these two sizes.
    Between(u64, u64),
}

/// A size of the workload with its times.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PointTimes {
    /// The point.
    pub point: Point,
    /// Calls in a step.
    pub calls: f64,
    /// Time of one call with the defaults, in microseconds.
    pub default_us: f64,
    /// What the profile does to it.
    pub ratio: Ratio,
    /// Where the default time is from.
    pub origin: Origin,
}

/// Why a size has no time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unknown {
    /// The collective was not measured.
    Collective,
    /// The size is smaller than all that were measured, of which this is the first.
    Below(u64),
    /// The size is larger than all that were measured, of which this is the last.
    Above(u64),
    /// The profile sets variables, whose effect was not measured here or at a neighbour.
    Effect,
}

/// Communication of one step.
#[derive(Debug, Clone, PartialEq)]
pub struct Prediction {
    /// Sizes whose times are known.
    pub points: Vec<PointTimes>,
    /// Sizes that are left out, with their calls.
    pub unknown: Vec<(Point, f64, Unknown)>,
}

/// Sums over the calls of a step, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StepSums {
    /// With the defaults.
    pub default_us: f64,
    /// With the profile.
    pub tuned_us: f64,
    /// With the profile, if every ratio is at the upper end of its interval.
    pub least_us: f64,
    /// With the profile, if every ratio is at the lower end.
    pub most_us: f64,
}

/// What a step of `workload` takes by `profile`'s evidence, for the shape (nodes, ranks).
pub fn predict(workload: &Workload, profile: &Profile, shape: (u32, u32), measured: &[Measured]) -> Prediction {
    let mut prediction = Prediction { points: Vec::new(), unknown: Vec::new() };
    for (point, calls) in &workload.calls {
        match times(*point, *calls, profile, shape, measured) {
            Ok(times) => prediction.points.push(times),
            Err(why) => prediction.unknown.push((*point, *calls, why)),
        }
    }
    prediction
}

impl Prediction {
    /// Part of a step's bytes that has a time, from 0 to 1.
    pub fn measured_share(&self) -> f64 {
        let known: f64 = self.points.iter().map(|times| times.point.bytes as f64 * times.calls).sum();
        let unknown: f64 = self.unknown.iter().map(|(point, calls, _)| point.bytes as f64 * calls).sum();
        known / (known + unknown)
    }

    /// The sums over all sizes whose times are known.
    pub fn sums(&self) -> StepSums {
        let sum = |time: &dyn Fn(&PointTimes) -> f64| self.points.iter().map(|times| times.calls * time(times)).sum();
        StepSums {
            default_us: sum(&|times| times.default_us),
            tuned_us: sum(&|times| times.default_us / times.ratio.median),
            least_us: sum(&|times| times.default_us / times.ratio.high),
            most_us: sum(&|times| times.default_us / times.ratio.low),
        }
    }
}

fn times(
    point: Point,
    calls: f64,
    profile: &Profile,
    shape: (u32, u32),
    measured: &[Measured],
) -> Result<PointTimes, Unknown> {
    let (below, above) = neighbours(point, measured)?;
    let (default_us, origin) = default_between(point, below, above);
    let rule = profile.rule_of(shape, point);
    let own = below.ratio.zip(above.ratio).map(|(low, high)| {
        let part = |of: &dyn Fn(Ratio) -> f64| match origin {
            Origin::Measured => of(low),
            Origin::Between(..) => between(point.bytes, (below.point.bytes, of(low)), (above.point.bytes, of(high))),
        };
        Ratio { median: part(&|ratio| ratio.median), low: part(&|ratio| ratio.low), high: part(&|ratio| ratio.high) }
    });
    let ratio = match rule {
        // A variable reaches every call, and rules were measured on top of it: only the whole was compared with the defaults.
        _ if !profile.env.is_empty() => own.ok_or(Unknown::Effect)?,
        None => Ratio::NONE,
        // What was measured at this size or at both neighbours under the same rule goes before that of the rule's sizes together.
        Some(rule) => {
            let is_within = |other: Measured| profile.rule_of(shape, other.point) == Some(rule);
            own.filter(|_| is_within(below) && is_within(above)).unwrap_or_else(|| rule.speedup.into())
        }
    };
    Ok(PointTimes { point, calls, default_us, ratio, origin })
}

/// Time of one call at `point` with the defaults, in microseconds; nothing outside of what was measured.
pub fn default_time(point: Point, measured: &[Measured]) -> Option<f64> {
    let (below, above) = neighbours(point, measured).ok()?;
    Some(default_between(point, below, above).0)
}

fn default_between(point: Point, below: Measured, above: Measured) -> (f64, Origin) {
    if below.point == above.point {
        return (below.default_us, Origin::Measured);
    }
    let time = between(point.bytes, (below.point.bytes, below.default_us), (above.point.bytes, above.default_us));
    (time, Origin::Between(below.point.bytes, above.point.bytes))
}

/// The measured points at or around `point`.
fn neighbours(point: Point, measured: &[Measured]) -> Result<(Measured, Measured), Unknown> {
    let alike = || measured.iter().filter(|other| other.point.collective == point.collective);
    let below = alike().filter(|other| other.point.bytes <= point.bytes).max_by_key(|other| other.point.bytes);
    let above = alike().filter(|other| point.bytes <= other.point.bytes).min_by_key(|other| other.point.bytes);
    match (below, above) {
        (Some(below), Some(above)) => Ok((*below, *above)),
        (Some(last), None) => Err(Unknown::Above(last.point.bytes)),
        (None, Some(first)) => Err(Unknown::Below(first.point.bytes)),
        (None, None) => Err(Unknown::Collective),
    }
}

/// The value at `bytes` on the line between two points in logarithms.
fn between(bytes: u64, low: (u64, f64), high: (u64, f64)) -> f64 {
    let log = |bytes: u64| (bytes.max(1) as f64).ln();
    let part = (log(bytes) - log(low.0)) / (log(high.0) - log(low.0));
    (low.1.ln() + part * (high.1.ln() - low.1.ln())).exp()
}

/// What a profile tells of times by itself, where the store of its run is not there: rules of a single size, and the picks
/// of the search that a rule ships, whose default time follows from the rule's speed-up. Nothing where variables ship: its
/// rules are compared with these then, not with the defaults.
pub fn measured_by_profile(
    profile: &Profile,
    choices: &[gdrtune_profiles::profile::PointChoice],
    shape: (u32, u32),
) -> Vec<Measured> {
    if !profile.env.is_empty() {
        return Vec::new();
    }
    let of_shape = |rule: &&Rule| (rule.nodes, rule.ranks) == shape;
    let single =
        profile.rule.iter().filter(of_shape).filter(|rule| rule.bytes.max == Some(rule.bytes.min)).map(|rule| {
            let point = Point { collective: rule.collective, bytes: rule.bytes.min };
            Measured { point, default_us: rule.default_us, ratio: Some(rule.speedup.into()) }
        });
    let mut measured: Vec<Measured> = single.collect();
    for choice in choices {
        // Picks of a run of one shape do not name it.
        let of = choice.nodes.zip(choice.ranks).unwrap_or((profile.cluster.nodes, profile.cluster.ranks));
        let is_of_shape = of == shape;
        let Some(rule) = profile.rule_of(shape, choice.point()).filter(|rule| rule.choice() == choice.choice) else {
            continue;
        };
        if is_of_shape && measured.iter().all(|other| other.point != choice.point()) {
            let ratio = Ratio::from(rule.speedup);
            let default_us = choice.median_us * ratio.median;
            measured.push(Measured { point: choice.point(), default_us, ratio: Some(ratio) });
        }
    }
    measured
}

#[cfg(test)]
mod tests;
