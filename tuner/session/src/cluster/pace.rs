//! How long a measurement is: iterations of a sample and the lease after which it counts as hung.
//!
//! A sample should last long enough to average over the scheduler's noise and short enough that a trial costs little.
//! What is known of a point's time comes from earlier samples; the first sample of a choice is short, since it may be a
//! catastrophe.

use std::collections::HashMap;

use gdrtune_profiles::vocab::{Choice, Point};

/// Limits of a sample.
#[derive(Debug, Clone, PartialEq)]
pub struct PaceConfig {
    /// Time that the timed iterations of one sample should take, in microseconds.
    pub sample_us: f64,
    /// Most iterations of a sample.
    pub max_iterations: u32,
    /// Shortest lease of an item, in milliseconds. NCCL needs about 20 s (see the trial lease rule of the design); the
    /// native engine's slowest first call takes well under one.
    pub min_lease_ms: u64,
}

impl Default for PaceConfig {
    fn default() -> Self {
        Self { sample_us: 10_000.0, max_iterations: 200, min_lease_ms: 20_000 }
    }
}

/// Iterations and lease of one item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// Timed calls.
    pub iterations: u32,
    /// Lease in milliseconds.
    pub lease_ms: u64,
}

/// What is known of the time of points and choices, in microseconds per operation.
#[derive(Debug, Default)]
pub struct PaceBook {
    seen: HashMap<(Point, Option<Choice>), f64>,
    any: HashMap<Point, f64>,
}

impl PaceBook {
    /// Learns one sample's time.
    pub fn learn(&mut self, point: Point, choice: Option<Choice>, time_us: f64) {
        self.seen.insert((point, choice), time_us);
        let best = self.any.entry(point).or_insert(time_us);
        *best = best.min(time_us);
    }

    /// Whether any sample of a point is known.
    pub fn knows(&self, point: Point) -> bool {
        self.any.contains_key(&point)
    }

    /// The pace of the next sample.
    pub fn pace(&self, config: &PaceConfig, point: Point, choice: Option<Choice>) -> Pace {
        // 100 us and 0.5 GB/s: the order of a loopback or a slow rail; only the first sample of a point relies on it.
        let guess_us = || 100.0 + point.bytes as f64 / 500.0;
        let (expected_us, share) = match (self.seen.get(&(point, choice)), self.any.get(&point)) {
            (Some(&time), _) => (time, 1.0),
            // An unknown choice gets a third of the time: it may be many times slower than what is known.
            (None, Some(&time)) => (time, 1.0 / 3.0),
            (None, None) => (guess_us(), 1.0 / 3.0),
        };
        // A call that takes longer than a sample should is timed once: its noise is small against its length.
        let fewest = if expected_us > config.sample_us { 1.0 } else { 2.0 };
        let iterations =
            (config.sample_us * share / expected_us.max(0.1)).clamp(fewest, f64::from(config.max_iterations));
        // Ten times the expectation, as for a trial on a busy machine, for warm-up, check and the timed calls together.
        let lease_ms = 10.0 * (iterations + 3.0) * expected_us.max(guess_us()) / 1e3;
        Pace { iterations: iterations as u32, lease_ms: config.min_lease_ms.max(lease_ms as u64) }
    }
}

#[cfg(test)]
mod tests {
    use gdrtune_profiles::vocab::Collective;

    use super::*;

    #[test]
    fn samples_last_about_as_long_as_wanted_once_the_time_is_known() {
        let config = PaceConfig { sample_us: 10_000.0, max_iterations: 100, min_lease_ms: 500 };
        let point = Point { collective: Collective::AllReduce, bytes: 1 << 20 };
        let mut book = PaceBook::default();
        let first = book.pace(&config, point, None);
        book.learn(point, None, 1_000.0);
        let second = book.pace(&config, point, None);
        assert_eq!(second.iterations, 10);
        assert!(first.iterations < second.iterations);
        book.learn(point, None, 1.0);
        assert_eq!(book.pace(&config, point, None).iterations, 100, "capped");
        book.learn(point, None, 1e9);
        let slow = book.pace(&config, point, None);
        assert_eq!(slow.iterations, 1, "once is enough for what takes long");
        assert!(slow.lease_ms >= 40_000_000, "ten times what is expected: {}", slow.lease_ms);
    }
}
