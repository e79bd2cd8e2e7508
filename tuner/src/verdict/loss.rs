//! Which points lose, and how sure that is.

use std::fmt;

use gdrtune_profiles::{profile::Speedup, vocab::Point};

use super::{Decision, PointVerdict, Thresholds};

/// A point that is slower than the default.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Loss {
    /// The point.
    pub point: Point,
    /// Default time over candidate time.
    pub speedup: Speedup,
}

impl fmt::Display for Loss {
    /// `allreduce 1K loses 1.3 % [0.4 %, 2.2 %]`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |ratio: f64| 100.0 * (1.0 - ratio);
        let Speedup { median, low, high, .. } = self.speedup;
        let (loss, least, most) = (percent(median), percent(high), percent(low));
        write!(f, "{} loses {loss:.1} % [{least:.1} %, {most:.1} %]", self.point)
    }
}

/// Least loss that counts where it is sure: less is below what measurements of a cluster repeat from day to day, and must not cost
/// what is gained elsewhere (on one H200, 0.5 % at 64 KiB against 1.8 times as fast at 16 MiB).
const LEAST_LOSS: f64 = 0.01;

/// Points that are clearly slower, or by less than a verdict asks of a gain, but so surely that chance does it in one of
/// twenty A/Bs of as many points (Bonferroni).
pub(super) fn losing(points: &[PointVerdict], thresholds: &Thresholds) -> Vec<Loss> {
    let level = (1.0 - thresholds.p_faster) / points.len().max(1) as f64;
    let is_sure = |s: &Speedup| s.p_faster <= level && s.median <= 1.0 / (1.0 + LEAST_LOSS);
    let loss = |p: &PointVerdict| {
        let speedup = p.speedup.filter(|s| p.decision == Decision::Regression || is_sure(s))?;
        Some(Loss { point: p.point, speedup })
    };
    points.iter().filter_map(loss).collect()
}

/// Points whose interval has no gain, however small the loss: of many points one may be here by chance.
pub fn perhaps_losing(points: &[PointVerdict]) -> impl Iterator<Item = Loss> {
    let loss = |p: &PointVerdict| {
        let speedup = p.speedup.filter(|s| s.high < 1.0 && s.median <= 1.0 / (1.0 + LEAST_LOSS))?;
        Some(Loss { point: p.point, speedup })
    };
    points.iter().filter_map(loss)
}
