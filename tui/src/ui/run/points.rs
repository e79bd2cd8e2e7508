//! What is known of each point.

use gdrtune_profiles::{profile::Speedup, vocab::Choice};
use gdrtune_session::event::Decision;

/// Gains that are kept of a point: as many as the trend has columns.
const MAX_GAINS: usize = 16;

/// What is known of one point.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct PointSeries {
    /// Times of the default arm in microseconds, sorted.
    default_samples_us: Vec<f64>,
    /// The default's median as the search or the A/B told it.
    told_default_us: Option<f64>,
    pub(crate) best: Option<BestKnown>,
    /// Gains of each best that there was, oldest first: the trend.
    pub(crate) gains: Vec<f32>,
    /// The latest trial in the environment that the search is in.
    pub(crate) current: Option<Current>,
    pub(crate) verdict: Option<PointVerdict>,
}

impl PointSeries {
    /// Takes a sample of the default arm.
    pub(crate) fn add_default_sample(&mut self, time_us: f64) {
        let position = self.default_samples_us.partition_point(|v| *v < time_us);
        self.default_samples_us.insert(position, time_us);
    }

    /// Takes the median that the search or the A/B uses.
    pub(crate) fn tell_default(&mut self, default_us: f64) {
        self.told_default_us = Some(default_us);
    }

    /// Times of the default arm in microseconds, sorted.
    pub(crate) fn default_samples_us(&self) -> &[f64] {
        &self.default_samples_us
    }

    /// Takes a best of the search's.
    pub(crate) fn set_best(&mut self, best: BestKnown) {
        self.best = Some(best);
        if self.gains.len() == MAX_GAINS {
            self.gains.remove(0);
        }
        self.gains.extend(self.estimated_gain().map(|gain| gain as f32));
    }

    /// Median time of the default arm in microseconds.
    pub(crate) fn default_us(&self) -> Option<f64> {
        let samples = &self.default_samples_us;
        let middle = samples.len() / 2;
        let upper = samples.get(middle).copied();
        let median = match (samples.len() % 2, middle.checked_sub(1).and_then(|i| samples.get(i)), upper) {
            (0, Some(lower), Some(upper)) => Some(f64::midpoint(*lower, upper)),
            _ => upper,
        };
        self.told_default_us.or(median)
    }

    /// Time of what is best, in microseconds: what the A/B measured of it, else the search's estimate.
    pub(crate) fn best_us(&self) -> Option<f64> {
        match self.verdict {
            Some(PointVerdict { decision: Decision::Ship, tuned_us, .. }) => Some(tuned_us),
            Some(_) => self.default_us(),
            None => self.best.as_ref().map(|b| b.time_us),
        }
    }

    /// Default time over best time: what the A/B says of what ships, else the search's estimate. Where the A/B left the default,
    /// that is best, whatever ratio it measured.
    pub(crate) fn known_gain(&self) -> Option<f64> {
        match self.verdict {
            Some(PointVerdict { decision: Decision::Ship, speedup, .. }) => Some(speedup.median),
            Some(_) => Some(1.0),
            None => self.estimated_gain(),
        }
    }

    /// Default time over best time, by the search's estimate; the default stays where it is best.
    pub(crate) fn estimated_gain(&self) -> Option<f64> {
        let default_us = self.default_us()?;
        let best_us = self.best.as_ref().map_or(default_us, |b| b.time_us);
        (default_us > 0.0 && best_us > 0.0).then(|| (default_us / best_us).max(1.0))
    }
}

/// The best setting of a point.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct BestKnown {
    pub(crate) choice: Option<Choice>,
    pub(crate) environment: u32,
    pub(crate) time_us: f64,
    pub(crate) samples: u32,
}

/// The latest trial of a point.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Current {
    pub(crate) time_us: f64,
}

/// What the A/B said of a point.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct PointVerdict {
    pub(crate) speedup: Speedup,
    /// Median of the candidate in microseconds.
    pub(crate) tuned_us: f64,
    pub(crate) decision: Decision,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_the_median_until_the_search_tells_it() {
        let mut series = PointSeries::default();
        assert_eq!(series.default_us(), None);
        for (sample, median) in [(30.0, 30.0), (10.0, 20.0), (11.0, 11.0)] {
            series.add_default_sample(sample);
            assert_eq!(series.default_us(), Some(median));
        }
        series.tell_default(12.0);
        assert_eq!(series.default_us(), Some(12.0));
    }

    #[test]
    fn a_best_that_is_slower_than_the_default_gains_nothing() {
        let mut series = PointSeries::default();
        assert_eq!(series.estimated_gain(), None);
        series.tell_default(10.0);
        for (time_us, gain) in [(5.0, 2.0), (20.0, 1.0)] {
            series.best = Some(BestKnown { choice: None, environment: 0, time_us, samples: 3 });
            assert_eq!(series.estimated_gain(), Some(gain));
        }
    }
}
