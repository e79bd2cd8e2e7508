//! How far one start of the same environment is from another: no number of samples of one process shows it.

use std::collections::BTreeMap;

use gdrtune_profiles::vocab::{Choice, Point};

use crate::{race::Race, stats};

/// Standard deviation between sets of processes with equal settings until it is measured, in log units of the score. NCCL
/// on one H200, 4 ranks: 0.01 to 0.03 over nine sizes.
const BETWEEN: f64 = 0.015;
/// How many further starts that counts as.
const PRIOR_STARTS: f64 = 3.0;
/// Samples per process that are kept: what one process is off by is known well before.
const KEPT: usize = 256;

/// The samples of one environment by the processes that took them.
#[derive(Debug, Clone, Default)]
pub(super) struct Starts(BTreeMap<u32, Vec<Taken>>);

#[derive(Debug, Clone, Copy)]
struct Taken {
    point: Point,
    choice: Choice,
    log_us: f64,
}

impl Starts {
    pub(super) fn take(&mut self, process: u32, point: Point, choice: Choice, time_us: f64) {
        let taken = self.0.entry(process).or_default();
        if taken.len() < KEPT {
            taken.push(Taken { point, choice, log_us: time_us.ln() });
        }
    }

    /// Starts so far.
    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    /// Sum of squares between the processes beyond the samples' own noise, and its degrees of freedom.
    fn scatter(&self, race: &Race) -> (f64, f64) {
        let offsets: Vec<(f64, f64)> = self.0.values().filter_map(|taken| offset(taken, race)).collect();
        if offsets.len() < 2 {
            return (0.0, 0.0);
        }
        let count = offsets.len() as f64;
        let mean = offsets.iter().map(|(offset, _)| offset).sum::<f64>() / count;
        let scatter: f64 = offsets.iter().map(|(offset, _)| (offset - mean).powi(2)).sum();
        let noise = offsets.iter().map(|(_, error)| error * error).sum::<f64>() * (count - 1.0) / count;
        (scatter - noise, count - 1.0)
    }
}

/// How far a process is off what the race believes of what it measured, and the standard error of that.
fn offset(taken: &[Taken], race: &Race) -> Option<(f64, f64)> {
    let rest = |taken: &Taken| Some(taken.log_us - race.expected_log_us(taken.point, taken.choice)?);
    let rests: Vec<f64> = taken.iter().filter_map(rest).collect();
    let noise = stats::robust_deviation(&rests).filter(|_| 3 < rests.len())?;
    Some((stats::median(&rests)?, stats::MEDIAN_ERROR * noise / (rests.len() as f64).sqrt()))
}

/// Standard deviation between starts, by all environments that were started more than once.
pub(super) fn between<'a>(environments: impl Iterator<Item = (&'a Starts, &'a Race)>) -> f64 {
    let (mut sum, mut weight) = (PRIOR_STARTS * BETWEEN * BETWEEN, PRIOR_STARTS);
    for (starts, race) in environments {
        let (scatter, freedom) = starts.scatter(race);
        sum += scatter;
        weight += freedom;
    }
    // One lucky scatter must not make starts look exactly alike.
    (sum.max(0.0) / weight).sqrt().max(BETWEEN / 5.0)
}
