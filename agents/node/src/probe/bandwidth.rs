//! Bandwidth of a way: many large writes under way, in laps, for several sizes.

use std::time::{Duration, Instant};

use gdrtune_profiles::stats::median;
use gdrtune_wire::ProbeRate;

use super::{
    measure::{Course, transfer},
    ways::{Failed, REGION_BYTES},
};
use crate::verbs::{Local, Mark};

/// Bytes of the largest message.
pub(super) const LARGEST_BYTES: usize = 8 << 20;

/// Sizes of messages, smallest first: from where rates usually stand, to what large collectives' chunks are.
const SIZES: [usize; 4] = [64 << 10, 256 << 10, 1 << 20, LARGEST_BYTES];

/// Most writes that are under way.
pub(super) const DEPTH_MOST: u32 = 64;

/// Bytes that are to be under way: 400 Gbit/s over 20 us are 1 MB, so that the way is never idle.
const WINDOW_BYTES: usize = 4 << 20;

/// Time that what is under way may take: on a slow way, more would only wait in queues, until it is taken for lost and sent again.
const IN_FLIGHT_TIME: Duration = Duration::from_millis(20);

/// Laps that count for a size; one before them does not.
const LAPS: usize = 5;

/// Time of a lap on a way that is fast enough for it: long against a late wake-up.
const LAP_TIME: Duration = Duration::from_millis(8);

/// Writes of a lap on a way that is too slow for that.
const LEAST_WRITES: usize = 4;

/// How a size is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Plan {
    /// Writes of a lap.
    writes: usize,
    /// Writes under way.
    depth: usize,
}

/// The median rate of each size. Larger sizes are left out where they would not fit the time any more; the smallest never is.
pub(super) fn rates(course: &mut Course<'_>) -> Result<Vec<ProbeRate>, Failed> {
    let mut rates: Vec<ProbeRate> = Vec::new();
    // One write alone tells how slow the way is at least.
    let alone = lap(course, SIZES[0], Plan { writes: 1, depth: 1 })?;
    let mut bytes_per_s = SIZES[0] as f64 / alone.as_secs_f64();
    for bytes in SIZES {
        let plan = Plan::of(bytes, bytes_per_s);
        if !rates.is_empty() && course.until < Instant::now() + plan.time(bytes, bytes_per_s) {
            break;
        }
        let mut laps = Vec::with_capacity(LAPS);
        // The first warms up, and tells how many writes a lap takes.
        let first = lap(course, bytes, plan)?;
        let plan = Plan::of(bytes, (plan.writes * bytes) as f64 / first.as_secs_f64());
        while laps.len() < LAPS && (laps.is_empty() || Instant::now() < course.until) {
            laps.push((plan.writes * bytes) as f64 / lap(course, bytes, plan)?.as_secs_f64());
        }
        bytes_per_s = median(&laps).unwrap_or_default();
        rates.push(ProbeRate { bytes: bytes as u64, gbs: bytes_per_s / 1e9 });
    }
    Ok(rates)
}

impl Plan {
    fn of(bytes: usize, bytes_per_s: f64) -> Self {
        let fits = (LAP_TIME.as_secs_f64() * bytes_per_s / bytes as f64) as usize;
        let in_flight = (IN_FLIGHT_TIME.as_secs_f64() * bytes_per_s / bytes as f64) as usize;
        let depth = (WINDOW_BYTES / bytes).min(in_flight).clamp(2, DEPTH_MOST as usize);
        let writes = fits.max(LEAST_WRITES);
        Self { writes, depth: depth.min(writes) }
    }

    /// What all laps take at a rate.
    fn time(self, bytes: usize, bytes_per_s: f64) -> Duration {
        Duration::from_secs_f64(((LAPS + 1) * self.writes * bytes) as f64 / bytes_per_s.max(1.0))
    }
}

/// Time from the first post to the last acknowledgement.
fn lap(course: &mut Course<'_>, bytes: usize, plan: Plan) -> Result<Duration, Failed> {
    let begun = Instant::now();
    let (mut posted, mut done) = (0, 0);
    while done < plan.writes {
        while posted < plan.writes && posted - done < plan.depth {
            // Different places, as far as there are any, so that no cache line is written twice in a row.
            let offset = posted * bytes % REGION_BYTES;
            let local = Local { region: &course.way.region, offset, bytes };
            let remote = course.remote(offset as u64)?;
            let mark = Mark { id: posted as u64, signalled: true };
            course.way.qp.post_write(local, remote, None, mark).map_err(transfer)?;
            posted += 1;
        }
        done += course.wait()?;
    }
    Ok(begun.elapsed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fast_ways_have_long_laps_and_slow_ones_few_writes() {
        // 50 GB/s: 8 ms are 400 MB.
        assert_eq!(Plan::of(64 << 10, 50e9), Plan { writes: 6103, depth: 64 });
        assert_eq!(Plan::of(8 << 20, 50e9), Plan { writes: 47, depth: 2 });
        // 12 MB/s: four writes, three of them in 16 ms.
        assert_eq!(Plan::of(64 << 10, 12e6), Plan { writes: 4, depth: 3 });
        assert_eq!(Plan::of(64 << 10, 6e6), Plan { writes: 4, depth: 2 });
        assert_eq!(Plan::of(8 << 20, 6e6), Plan { writes: 4, depth: 2 });
        let time = Plan::of(64 << 10, 6e6).time(64 << 10, 6e6);
        assert!((0.25..0.28).contains(&time.as_secs_f64()), "{time:?}");
        assert!(SIZES.iter().all(|bytes| REGION_BYTES.is_multiple_of(*bytes)), "no message goes beyond the region");
    }
}
