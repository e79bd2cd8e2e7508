//! What a verdict means for the job: communication time of one step, before and after.

use gdrtune_profiles::{profile::Speedup, vocab::Point};

use super::{AbPoint, Thresholds, Verdict, arm_median, arms};
use crate::{
    objective::Objective,
    stats::{Arms, compare},
};

/// Communication time of one step of a job, without overlap with computation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StepTime {
    /// With the defaults, in microseconds.
    pub default_us: f64,
    /// With what ships.
    pub tuned_us: f64,
    /// The one over the other, and how sure that is.
    pub speedup: Speedup,
}

/// The time per step over the whole workload, where something ships.
///
/// `workload` has the calls per step of each point and the default time of one, in microseconds; weights in `data` are calls per
/// step too. What ships changes some points: their times are those of the A/B. All others take their default time in both
/// arms, so they shrink the speed-up and its interval.
pub fn step_time(
    workload: &[(Point, f64, f64)],
    data: &[AbPoint],
    verdict: &Verdict,
    thresholds: &Thresholds,
) -> Option<StepTime> {
    let is_changed = |point: Point| {
        !verdict.shipped_environment.is_empty() || verdict.shipped.iter().any(|shipped| shipped.rule.covers(point))
    };
    let is_measured = |ab: &&AbPoint| arm_median(&ab.default).is_some() && arm_median(&ab.candidate).is_some();
    let changed: Vec<&AbPoint> = data.iter().filter(|ab| is_changed(ab.point)).filter(is_measured).collect();
    let pairs: Vec<Arms<'_>> = changed.iter().map(|ab| arms(ab)).collect();
    let speedup = compare(&pairs, Objective::TimePerStep, thresholds.design, thresholds.seed)?;
    let before: f64 = changed.iter().filter_map(|ab| Some(ab.weight * arm_median(&ab.default)?)).sum();
    let others = workload.iter().filter(|(point, ..)| !changed.iter().any(|ab| ab.point == *point));
    let rest: f64 = others.map(|(_, calls, default_us)| calls * default_us).sum();
    let after = |ratio: f64| before / ratio + rest;
    let whole = |ratio: f64| (before + rest) / after(ratio);
    Some(StepTime {
        default_us: before + rest,
        tuned_us: after(speedup.median),
        speedup: Speedup {
            median: whole(speedup.median),
            low: whole(speedup.low),
            high: whole(speedup.high),
            ..speedup
        },
    })
}
