//! How far one start of the same environment is from another: no number of samples of one process shows it.

use std::collections::BTreeMap;

use gdrtune_profiles::vocab::{Choice, Point};

use crate::{race::Race, stats};

/// Standard deviation between sets of processes with equal settings until it is measured, in log units of the score. NCCL
/// on one H200, 4 ranks: 0.01 to 0.03 over nine sizes.
const BETWEEN: f64 = 0.015;
/// The upper end of that.
const MOST_BETWEEN: f64 = 0.03;
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

    /// Sum of squares between the processes beyond the samples' own noise, and its degrees of freedom. Processes that are
    /// not known well say little.
    fn scatter(&self, race: &Race) -> (f64, f64) {
        let offsets: Vec<Offset> = self.0.values().filter_map(|taken| Offset::of(taken, race)).collect();
        let total: f64 = offsets.iter().map(Offset::weight).sum();
        let mean =
            offsets.iter().map(|offset| offset.weight() * offset.log).sum::<f64>() / total.max(f64::MIN_POSITIVE);
        offsets.iter().fold((0.0, 0.0), |(sum, freedom), offset| {
            // The mean follows each process by its share.
            let free = 1.0 - offset.weight() / total;
            let square = (offset.log - mean).powi(2) - free * offset.error * offset.error;
            (sum + offset.weight() * square, freedom + offset.weight() * free)
        })
    }
}

/// How far a process is off what the race believes of what it measured, and the standard error of that.
struct Offset {
    log: f64,
    error: f64,
}

impl Offset {
    fn of(taken: &[Taken], race: &Race) -> Option<Self> {
        let rest = |taken: &Taken| {
            let log = taken.log_us - race.expected_log_us(taken.point, taken.choice)?;
            Some((log, race.noise_of(taken.point, taken.choice)?))
        };
        // What a few samples of one process scatter says nothing: a pick with two modes may show one of them only.
        let (rests, noises): (Vec<f64>, Vec<f64>) = taken.iter().filter_map(rest).unzip();
        let count = rests.len() as f64;
        let noise = noises.iter().map(|noise| noise * noise).sum::<f64>() / count;
        let log = stats::median(&rests).filter(|_| 3 < rests.len())?;
        Some(Self { log, error: stats::MEDIAN_ERROR * (noise / count).sqrt() })
    }

    /// What it counts: all where its error is small against what starts are apart.
    fn weight(&self) -> f64 {
        1.0 / (1.0 + (self.error / MOST_BETWEEN).powi(2)).powi(2)
    }
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

#[cfg(test)]
mod tests {
    use gdrtune_profiles::vocab::{Algorithm, Collective, Protocol};

    use super::*;
    use crate::{
        bench::{Outcome, Timing},
        objective::WeightedPoint,
        race::{Quarantine, RaceConfig},
    };

    /// What is learned from processes with these times of one choice.
    fn learned(processes: &[Vec<f64>]) -> f64 {
        let point = Point { collective: Collective::AllReduce, bytes: 1024 };
        let choice = Choice { algorithm: Algorithm::Ring, protocol: Protocol::Simple, channels: 1 };
        let choices = BTreeMap::from([(Collective::AllReduce, vec![choice])]);
        let points = WeightedPoint::equal([point]);
        let mut race = Race::new(&points, &choices, RaceConfig::standard(1), None, Quarantine::default());
        let mut starts = Starts::default();
        for (process, times) in (0..).zip(processes) {
            for &time_us in times {
                let timing = Timing::even(time_us);
                race.learn(point, Some(choice), &Outcome::Timed(timing));
                starts.take(process, point, choice, time_us);
            }
        }
        race.picks();
        between([(&starts, &race)].into_iter())
    }

    #[test]
    fn a_few_samples_in_the_same_mode_are_no_slow_start() {
        let both = |count: usize| (0..count).map(|sample| [100.0, 112.0, 170.0][sample % 3]).collect::<Vec<f64>>();
        let slow = vec![170.0; 6];
        let found = learned(&[both(60), both(6), slow.clone(), both(6), slow, both(6)]);
        assert!(found < 1.5 * BETWEEN, "{found}");
    }

    #[test]
    fn starts_that_are_apart_are_told() {
        let around = |center: f64| (0..40).map(|sample| center * [0.98, 1.0, 1.02][sample % 3]).collect::<Vec<f64>>();
        let found = learned(&[around(100.0), around(110.0), around(104.0), around(94.0), around(101.0)]);
        assert!((0.03..0.08).contains(&found), "{found}");
        let alike = learned(&[around(100.0), around(100.0), around(100.0), around(100.0)]);
        assert!(alike < BETWEEN, "{alike}");
    }
}
