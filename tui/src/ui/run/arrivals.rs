//! The last trials, as they came.

use std::collections::VecDeque;

/// Trials that are kept: more than the widest terminal has columns.
const MAX_ARRIVALS: usize = 512;

/// One trial.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Arrival {
    /// Milliseconds since the run began.
    pub(crate) t_ms: u64,
    pub(crate) kind: ArrivalKind,
}

/// What came of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum ArrivalKind {
    /// Default time over its time.
    Gain(f64),
    /// It is of the default arm, or there is no default to hold it against yet.
    Default,
    Failed,
}

/// The last trials, oldest first.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Arrivals(VecDeque<Arrival>);

impl Arrivals {
    /// Adds a trial and forgets the oldest one if there are too many.
    pub(crate) fn push(&mut self, arrival: Arrival) {
        if self.0.len() == MAX_ARRIVALS {
            self.0.pop_front();
        }
        self.0.push_back(arrival);
    }

    /// The last `n`, oldest first.
    pub(crate) fn last(&self, n: usize) -> impl Iterator<Item = &Arrival> {
        self.0.iter().skip(self.0.len().saturating_sub(n))
    }

    /// Trials per second over what is kept of the last `window_ms` before `now_ms`.
    pub(crate) fn per_second(&self, now_ms: u64, window_ms: u64) -> f64 {
        let from = now_ms.saturating_sub(window_ms);
        let recent = || self.0.iter().rev().take_while(|a| from <= a.t_ms);
        let n = recent().count();
        // Where more came than is kept, the window is what they took.
        let since = recent().last().filter(|_| n == MAX_ARRIVALS).map_or(from, |oldest| oldest.t_ms);
        let seconds = now_ms.saturating_sub(since) as f64 / 1000.0;
        if 0.0 < seconds { n as f64 / seconds } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_that_of_the_window() {
        let mut arrivals = Arrivals::default();
        let near = |rate: f64, expected: f64| (rate - expected).abs() < 1e-9;
        assert!(near(arrivals.per_second(0, 5_000), 0.0));
        for n in 0..20 {
            arrivals.push(Arrival { t_ms: n * 500, kind: ArrivalKind::Failed });
        }
        assert!(near(arrivals.per_second(9_500, 5_000), 11.0 / 5.0));
        assert!(near(arrivals.per_second(60_000, 5_000), 0.0));
        for n in 0..2_000 {
            arrivals.push(Arrival { t_ms: 100_000 + n, kind: ArrivalKind::Failed });
        }
        assert_eq!(arrivals.last(usize::MAX).count(), MAX_ARRIVALS);
        assert!((arrivals.per_second(101_999, 5_000) - 1000.0).abs() < 5.0, "what is kept is half a second");
    }
}
