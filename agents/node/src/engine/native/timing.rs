//! Times of a batch of calls.

use std::time::{Duration, Instant};

use gdrtune_profiles::{stats::quantile_of_sorted, vocab::Choice};
use gdrtune_wire::Times;
use rustix::time::{ClockId, clock_gettime};

/// A running measurement.
pub(super) struct Watch {
    started: Instant,
    cpu_us: f64,
    laps: Vec<Instant>,
}

impl Watch {
    /// Starts now; room for `iterations` laps is made before.
    pub(super) fn start(iterations: u32) -> Self {
        let laps = Vec::with_capacity(iterations as usize);
        Self { laps, cpu_us: process_cpu_us(), started: Instant::now() }
    }

    /// An iteration is over.
    pub(super) fn lap(&mut self) {
        self.laps.push(Instant::now());
    }

    /// The batch is over.
    pub(super) fn times(self, selected: Option<Choice>, checked: bool) -> Times {
        let cpu_us = process_cpu_us() - self.cpu_us;
        let iterations = self.laps.len().max(1) as f64;
        let total = self.laps.last().map_or(Duration::ZERO, |last| last.duration_since(self.started));
        let mut before = self.started;
        let mut single: Vec<f64> = Vec::with_capacity(self.laps.len());
        for &lap in &self.laps {
            single.push(micros(lap.duration_since(before)));
            before = lap;
        }
        single.sort_by(f64::total_cmp);
        Times {
            mean_us: micros(total) / iterations,
            median_us: quantile_of_sorted(&single, 0.5).unwrap_or_default(),
            min_us: single.first().copied().unwrap_or(0.0),
            max_us: single.last().copied().unwrap_or(0.0),
            cpu_us: cpu_us / iterations,
            selected,
            checked,
            predictions: Vec::new(),
        }
    }
}

fn micros(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}

/// CPU time of all threads of this process, in microseconds.
pub(in crate::engine) fn process_cpu_us() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 * 1e6 + time.tv_nsec as f64 / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn laps_add_up() {
        let mut watch = Watch::start(3);
        for _ in 0..3 {
            watch.lap();
        }
        let times = watch.times(None, true);
        assert!(times.min_us <= times.median_us && times.median_us <= times.max_us);
        assert!(times.mean_us <= times.max_us && times.checked);
        let none = Watch::start(0).times(None, false);
        assert!(none.mean_us.abs() < f64::EPSILON && none.median_us.abs() < f64::EPSILON);
    }
}
