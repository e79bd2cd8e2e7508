//! What counts as better: weights on points, and one number for many times.
//!
//! Must not know where times come from.

use gdrtune_profiles::vocab::Point;

/// A point and how much it counts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WeightedPoint {
    /// The point.
    pub point: Point,
    /// Its weight, at least 0; only ratios matter.
    pub weight: f64,
}

impl WeightedPoint {
    /// The same weight for every point.
    pub fn equal(points: impl IntoIterator<Item = Point>) -> Vec<Self> {
        points.into_iter().map(|point| Self { point, weight: 1.0 }).collect()
    }
}

/// How the times of many points become one score.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Objective {
    /// Weighted geometric mean of time over default time: every point's *ratio* counts by its weight.
    #[default]
    GeometricMean,
    /// Sum of weight times time over the same sum of the default: weights are calls per step of a job.
    TimePerStep,
}

/// One point's part of a score.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Part {
    /// Weight of the point.
    pub weight: f64,
    /// Time in microseconds.
    pub time_us: f64,
    /// Time of the default arm in microseconds.
    pub default_us: f64,
}

impl Objective {
    /// Its name in events and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::GeometricMean => "geomean",
            Self::TimePerStep => "time-per-step",
        }
    }

    /// The score: 1 is the default, lower is better. `None` if no part has weight.
    pub fn score(self, parts: &[Part]) -> Option<f64> {
        match self {
            Self::GeometricMean => crate::stats::weighted_geometric_mean(
                parts.iter().map(|part| (part.weight, part.time_us / part.default_us)),
            ),
            Self::TimePerStep => {
                let sum = |time: fn(&Part) -> f64| parts.iter().map(|part| part.weight * time(part)).sum::<f64>();
                let default = sum(|part| part.default_us);
                (default > 0.0).then(|| sum(|part| part.time_us) / default)
            }
        }
    }

    /// What a point's weight is worth in the race, where relative times are compared.
    pub fn race_weight(self, weight: f64, default_us: f64) -> f64 {
        match self {
            Self::GeometricMean => weight,
            Self::TimePerStep => weight * default_us,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_follow_their_definitions() {
        let parts = [
            Part { weight: 1.0, time_us: 50.0, default_us: 100.0 },
            Part { weight: 1.0, time_us: 800.0, default_us: 100.0 },
            Part { weight: 0.0, time_us: 1.0, default_us: 100.0 },
        ];
        assert!((Objective::GeometricMean.score(&parts).unwrap() - 2.0).abs() < 1e-12);
        assert!((Objective::TimePerStep.score(&parts).unwrap() - 4.25).abs() < 1e-12);
        assert_eq!(Objective::GeometricMean.score(&[]), None);
        assert_eq!(Objective::TimePerStep.score(&[]), None);
    }
}
