//! What is too noisy to say, and how much more would tell.

use gdrtune_profiles::profile::Speedup;

use super::{AbPoint, Thresholds};
use crate::stats::{ArmSamples, relative_spread};

/// Longer than this nobody is told to the second.
const LONG_S: f64 = 600.0;
/// Longer than this is not said: what an A/B of some rounds projects that far is a guess.
const MOST_S: f64 = 3_600.0;
/// More rounds than this are not counted either.
const MOST_ROUNDS: f64 = 1_000.0;

/// Why a point cannot be judged, and what it would take.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Noise {
    /// Distance between the quartiles of an arm's samples over their median; of the noisier arm.
    pub spread: f64,
    /// Rounds that are missing.
    pub rounds: f64,
    /// The same in seconds of the bench's clock, where it tells.
    pub seconds: Option<f64>,
}

impl Noise {
    /// What the A/B at this point lacks, by the width of its interval, which shrinks with the root of the rounds: for a gain or a loss
    /// that matters, that it is sure; for less, that one of the two is excluded.
    pub(super) fn of(data: &AbPoint, speedup: &Speedup, thresholds: &Thresholds) -> Self {
        let all = |arm: &ArmSamples| arm.values().flatten().copied().collect::<Vec<f64>>();
        let spread = |arm: &ArmSamples| relative_spread(&all(arm)).unwrap_or_default();
        let (gain, least) = (speedup.median.ln().abs(), thresholds.gain.ln_1p());
        let reach = if least <= gain { gain } else { gain + least };
        // The interval covers 90 %: its half width is what a bound on one side takes.
        let half = (speedup.high.ln() - speedup.low.ln()) / 2.0;
        let times = (half / reach).powi(2);
        let rounds = (f64::from(speedup.repeats) * (times - 1.0)).round().max(1.0);
        let seconds = (thresholds.round_s > 0.0).then_some(rounds * thresholds.round_s);
        Self { spread: spread(&data.default).max(spread(&data.candidate)), rounds, seconds }
    }

    /// Of several points, what it takes for all.
    pub fn all(noises: impl Iterator<Item = Self>) -> Option<Self> {
        noises.reduce(|a, b| Self {
            spread: a.spread.max(b.spread),
            rounds: a.rounds.max(b.rounds),
            seconds: a.seconds.zip(b.seconds).map(|(a, b)| a.max(b)),
        })
    }
}

impl std::fmt::Display for Noise {
    /// `spread 40 %, need about 300 s more`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "spread {:.0} %, need ", 100.0 * self.spread)?;
        match self.seconds {
            Some(seconds) if MOST_S < seconds => f.write_str("more than an hour more"),
            Some(seconds) if LONG_S < seconds => write!(f, "about {:.0} min more", (seconds / 60.0).ceil()),
            Some(seconds) => write!(f, "about {:.0} s more", (seconds / 10.0).ceil() * 10.0),
            None if MOST_ROUNDS < self.rounds => write!(f, "more than {MOST_ROUNDS:.0} processes more per arm"),
            None => write!(f, "about {:.0} processes more per arm", self.rounds),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(median: f64, half: f64, round_s: f64) -> Noise {
        let (low, high) = (median * (-half).exp(), median * half.exp());
        let speedup = Speedup { median, low, high, p_faster: 0.7, repeats: 20 };
        let arm = |factor: f64| (0..5).map(|i| (i, vec![factor * (80.0 + 10.0 * f64::from(i))])).collect();
        let data = AbPoint {
            point: gdrtune_profiles::vocab::Point {
                collective: gdrtune_profiles::vocab::Collective::AllReduce,
                bytes: 1024,
            },
            weight: 1.0,
            default: arm(1.0),
            candidate: arm(1.0 / median),
        };
        Noise::of(&data, &speedup, &Thresholds { round_s, ..Thresholds::standard(1) })
    }

    #[test]
    fn what_is_missing_grows_with_the_square_of_the_spread() {
        // A gain of 10 % with an interval of twice that: four times as many rounds, so 60 more.
        let gain = noise(1.1, 2.0 * 1.1f64.ln(), 5.0);
        assert_eq!((gain.rounds, gain.seconds), (60.0, Some(300.0)));
        assert_eq!(gain.to_string(), "spread 20 %, need about 300 s more");
        assert_eq!(noise(1.1, 4.0 * 1.1f64.ln(), 1.0).seconds, Some(300.0));
        // A loss counts as much as a gain.
        assert_eq!(noise(1.0 / 1.1, 2.0 * 1.1f64.ln(), 5.0).seconds, Some(300.0));
        // Where nothing is gained, one of gain and loss must be excluded.
        assert_eq!(noise(1.0, 2.0 * 1.02f64.ln(), 1.0).seconds, Some(60.0));
    }

    #[test]
    fn silly_numbers_are_not_said() {
        assert!(noise(1.0, 0.2, 1_000.0).to_string().ends_with("need more than an hour more"));
        assert!(noise(1.1, 2.0 * 1.1f64.ln(), 30.0).to_string().ends_with("about 30 min more"));
        assert!(noise(1.1, 2.0 * 1.1f64.ln(), 0.0).to_string().ends_with("about 60 processes more per arm"));
        assert!(noise(1.0, 0.5, 0.0).to_string().ends_with("more than 1000 processes more per arm"));
    }
}
