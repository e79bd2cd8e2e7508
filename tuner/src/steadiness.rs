//! Whether a cluster held still while it was measured: the default arm's level from the beginning to the end, and samples that
//! stall.
//!
//! Verdicts stand both: arms are interleaved, and medians are compared. But a cluster that drifts or stalls is one whose job
//! times will, too, and what the search compared at different times is less sure. Must not decide anything.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fmt,
};

use gdrtune_profiles::vocab::{Choice, Engine, Point};

use crate::{
    bench::{Outcome, Sample, Setup},
    observe::Note,
    stats::{self, MEDIAN_ERROR},
};

/// Standard deviation (log) between starts of equal processes until it is measured, as in the search: NCCL on one H200,
/// 4 ranks, 0.01 to 0.03.
const BETWEEN: f64 = 0.015;
/// How many further starts that counts as.
const PRIOR_STARTS: f64 = 3.0;
/// Standard errors that a change of level must exceed. The noise is not quite normal, and every run is tested.
const SURE: f64 = 4.0;
/// Least change (log) that is worth a word: 5 %.
const LEAST_DRIFT: f64 = 0.05;
/// Part of the later default scripts that are the end.
const END_SHARE: f64 = 1.0 / 3.0;
/// A sample that takes this many times the median of its kind has stalled.
const STALL: f64 = 5.0;
/// Samples of a kind below which there is no median to speak of.
const LEAST_SAMPLES: usize = 4;
/// Share of stalled samples from which on they are worth a word, and least number of them.
const STALL_SHARE: f64 = 0.01;
const LEAST_STALLS: usize = 5;

/// Times in microseconds by what was measured in one setup.
type Kinds = BTreeMap<(Point, Option<Choice>), Vec<f64>>;

/// What was measured so far.
#[derive(Debug, Clone, Default)]
pub struct Steadiness {
    /// Scripts of the default arm, in order.
    defaults: Vec<DefaultScript>,
    /// Whether something else than the default arm has run.
    is_searching: bool,
    kinds: HashMap<Setup, Kinds>,
}

#[derive(Debug, Clone, Default)]
struct DefaultScript {
    /// Before anything else was measured.
    is_first: bool,
    /// Logarithms of times.
    samples: Vec<(Point, f64)>,
}

/// Something that did not hold still.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Unsteady {
    /// The default arm's level changed.
    Drift {
        /// Time at the end over time at the beginning.
        factor: f64,
    },
    /// Samples stalled.
    Stalls {
        /// How many.
        stalled: usize,
        /// Of how many.
        samples: usize,
        /// The point where more than half of them were, if there is one.
        mostly: Option<Point>,
    },
}

impl Unsteady {
    /// A sentence that ends with what to do.
    pub fn words(&self, engine: Engine) -> String {
        let look = match engine {
            Engine::Nccl => "compare `nvidia-smi -q -d CLOCK` and the jobs on the nodes",
            Engine::Native => "compare clocks and processes on the nodes (`top`)",
            Engine::Replay | Engine::Sim => "look at where these times come from",
        };
        match *self {
            Self::Drift { factor } => {
                let percent = 100.0 * (factor.max(1.0 / factor) - 1.0);
                let way = if factor > 1.0 { "slower" } else { "faster" };
                format!(
                    "the default arm became {percent:.0} % {way} during the run: another job or a clock change? {look}, and run \
                     again when it is quiet"
                )
            }
            Self::Stalls { stalled, samples, mostly } => {
                let share = 100.0 * stalled as f64 / samples as f64;
                let place = mostly.map(|point| format!(", most of them at {point}")).unwrap_or_default();
                let errors = match engine {
                    Engine::Nccl | Engine::Native => "link errors and retransmits (`ethtool -S`, `perfquery -x`)",
                    Engine::Replay | Engine::Sim => "what the recorded or planted noise is",
                };
                format!(
                    "{share:.1} % of {samples} samples took over {STALL:.0} times their median{place}: something stalls now and \
                     then, and all ranks wait for it; look for {errors} and other jobs, and run again when they are gone"
                )
            }
        }
    }
}

impl fmt::Display for Unsteady {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words(Engine::Nccl))
    }
}

impl Steadiness {
    /// Takes what a watcher of a run is told.
    pub fn note(&mut self, note: &Note<'_>) {
        match note {
            Note::Script(script) if script.setup == Setup::Site => {
                self.defaults.push(DefaultScript { is_first: !self.is_searching, samples: Vec::new() });
            }
            Note::Script(_) => self.is_searching = true,
            Note::Sample { script, sample } => {
                let Some(item) = script.items.get(sample.item) else { return };
                self.sample(&script.setup, item.point, item.choice, sample);
            }
            _ => {}
        }
    }

    fn sample(&mut self, setup: &Setup, point: Point, choice: Option<Choice>, sample: &Sample) {
        let Outcome::Timed(timing) = &sample.outcome else { return };
        if let Some(last) = self.defaults.last_mut().filter(|_| *setup == Setup::Site) {
            last.samples.push((point, timing.time_us.ln()));
        }
        if !self.kinds.contains_key(setup) {
            self.kinds.insert(setup.clone(), Kinds::new());
        }
        if let Some(kind) = self.kinds.get_mut(setup) {
            kind.entry((point, choice)).or_default().push(timing.time_us);
        }
    }

    /// What did not hold still.
    pub fn findings(&self) -> Vec<Unsteady> {
        self.drift().into_iter().chain(self.stalls()).collect()
    }

    /// The default arm at the end against its beginning, over the points of both.
    fn drift(&self) -> Option<Unsteady> {
        let later = self.defaults.iter().filter(|script| !script.is_first).count();
        let n_end = (END_SHARE * later as f64).ceil() as usize;
        let (first, end) =
            (self.defaults.iter().filter(|script| script.is_first), self.defaults.iter().rev().take(n_end));
        let (first, end): (Vec<&DefaultScript>, Vec<&DefaultScript>) = (first.collect(), end.collect());
        let points = |scripts: &[&DefaultScript]| -> BTreeSet<Point> {
            scripts.iter().flat_map(|script| &script.samples).map(|(point, _)| *point).collect()
        };
        let centers: BTreeMap<Point, f64> = points(&first)
            .intersection(&points(&end))
            .filter_map(|point| {
                let all = first.iter().chain(&end).flat_map(|script| &script.samples);
                let logs: Vec<f64> = all.filter(|(p, _)| p == point).map(|(_, log)| *log).collect();
                Some((*point, stats::median(&logs)?))
            })
            .collect();
        let (first, end) = (offsets(&first, &centers), offsets(&end, &centers));
        // Of few samples the scatter is not known well: of all together it is.
        let within: Vec<f64> = first.iter().chain(&end).flat_map(|offset| offset.within.iter().copied()).collect();
        let noise = stats::robust_deviation(&within)?;
        let (first, end) = (Level::of(&first, noise)?, Level::of(&end, noise)?);
        let change = end.mean - first.mean;
        (LEAST_DRIFT.max(SURE * first.error.hypot(end.error)) <= change.abs())
            .then(|| Unsteady::Drift { factor: change.exp() })
    }

    fn stalls(&self) -> Option<Unsteady> {
        let (mut samples, mut stalls) = (0, BTreeMap::<Point, usize>::new());
        let kinds = self.kinds.values().flatten().filter(|(_, times)| LEAST_SAMPLES <= times.len());
        for ((point, _), times) in kinds {
            let Some(median) = stats::median(times) else { continue };
            samples += times.len();
            *stalls.entry(*point).or_default() += times.iter().filter(|time| STALL * median < **time).count();
        }
        let stalled: usize = stalls.values().sum();
        let most = stalls.iter().max_by_key(|(_, stalled)| **stalled);
        let mostly = most.filter(|(_, most)| stalls.len() > 1 && stalled < 2 * **most).map(|(point, _)| *point);
        let is_much = LEAST_STALLS <= stalled && STALL_SHARE * samples as f64 <= stalled as f64;
        is_much.then_some(Unsteady::Stalls { stalled, samples, mostly })
    }
}

/// How far a script of the default arm is off the points' centers, in log units.
struct Offset {
    /// In the middle.
    median: f64,
    /// What its samples are off that.
    within: Vec<f64>,
}

fn offsets(scripts: &[&DefaultScript], centers: &BTreeMap<Point, f64>) -> Vec<Offset> {
    let offset = |script: &&DefaultScript| {
        let rests: Vec<f64> =
            script.samples.iter().filter_map(|(point, log)| Some(log - centers.get(point)?)).collect();
        let median = stats::median(&rests)?;
        Some(Offset { median, within: rests.into_iter().map(|rest| rest - median).collect() })
    };
    scripts.iter().filter_map(offset).collect()
}

/// The level of some scripts of the default arm, in log units against the points' centers.
struct Level {
    mean: f64,
    /// Standard error, starts of processes included.
    error: f64,
}

impl Level {
    /// `noise` is the standard deviation of a sample.
    fn of(offsets: &[Offset], noise: f64) -> Option<Self> {
        let medians: Vec<f64> = offsets.iter().map(|offset| offset.median).collect();
        let count = offsets.len() as f64;
        let variance = |offset: &Offset| (MEDIAN_ERROR * noise).powi(2) / offset.within.len() as f64;
        let of_samples = offsets.iter().map(variance).sum::<f64>() / count;
        let mean = medians.iter().sum::<f64>() / count;
        let scatter: f64 = medians.iter().map(|median| (median - mean).powi(2)).sum();
        let between = (PRIOR_STARTS * BETWEEN * BETWEEN + (scatter - (count - 1.0) * of_samples).max(0.0))
            / (PRIOR_STARTS + count - 1.0);
        // Of one or two, the median is the mean.
        let of_median = if offsets.len() < 3 { 1.0 } else { MEDIAN_ERROR };
        Some(Self { mean: stats::median(&medians)?, error: of_median * ((between + of_samples) / count).sqrt() })
    }
}

#[cfg(test)]
mod tests {
    use gdrtune_profiles::vocab::{Collective, Environment};
    use rand::{Rng, SeedableRng, rngs::SmallRng};

    use super::*;
    use crate::bench::{Item, Script, Timing};

    /// A run over six points: a baseline, a search, and twelve rounds of an A/B. `level` gives the default arm's factor in
    /// script `n`, and one sample of `stalls` takes ten times as long.
    fn run(level: impl Fn(usize) -> f64, noise: f64, stalls: Option<usize>, seed: u64) -> Steadiness {
        let mut random = SmallRng::seed_from_u64(seed);
        let mut steadiness = Steadiness::default();
        let (mut n_default, mut n_sample) = (0, 0);
        let live = Setup::Live(Environment::new().with("A", "1"));
        let setups = std::iter::once(Setup::Site).chain((0..12).flat_map(|_| [live.clone(), Setup::Site]));
        for setup in setups {
            let point = |bytes| Point { collective: Collective::AllReduce, bytes };
            let item = |power: u32| Item { point: point(1 << power), choice: None, repeats: 1 };
            let script = Script { setup, fresh: true, items: (10..16).chain(10..16).map(item).collect() };
            steadiness.note(&Note::Script(&script));
            let is_default = script.setup == Setup::Site;
            let luck: f64 = 0.02 * random.random_range(-1.0..1.0);
            let factor = if is_default { level(n_default) } else { 1.0 };
            for (item, asked) in script.items.iter().enumerate() {
                n_sample += 1;
                let stall = if stalls.is_some_and(|every| n_sample % every == 0) { 10.0 } else { 1.0 };
                let scatter: f64 = (0..3).map(|_| random.random_range(-noise..noise)).sum();
                let time_us = factor * stall * asked.point.bytes as f64 * (luck + scatter).exp();
                let timing = Timing::even(time_us);
                let sample = Sample { item, process: 0, outcome: Outcome::Timed(timing) };
                steadiness.note(&Note::Sample { script: &script, sample: &sample });
            }
            n_default += usize::from(is_default);
        }
        steadiness
    }

    #[test]
    fn quiet_and_noisy_clusters_are_not_warned_about() {
        for seed in 0..200 {
            for noise in [0.01, 0.1, 0.4] {
                assert_eq!(run(|_| 1.0, noise, None, seed).findings(), [], "{noise} {seed}");
            }
            // A bad moment is not a change of level.
            assert_eq!(run(|n| if n == 11 { 1.5 } else { 1.0 }, 0.05, None, seed).findings(), [], "{seed}");
        }
    }

    #[test]
    fn a_change_of_level_is_told_with_its_size() {
        for (last, way) in [(1.2, "20 % slower"), (1.0 / 1.2, "20 % faster")] {
            for seed in 0..20 {
                let found = run(|n| if n == 0 { 1.0 } else { last }, 0.02, None, seed).findings();
                let [Unsteady::Drift { factor }] = found[..] else { panic!("{seed}: {found:?}") };
                assert!((factor / last - 1.0).abs() < 0.05, "{seed}: {factor}");
            }
            let words = Unsteady::Drift { factor: last }.to_string();
            assert!(words.starts_with(&format!("the default arm became {way} during the run")), "{words}");
            assert!(
                words.contains("`nvidia-smi -q -d CLOCK`") && words.ends_with("run again when it is quiet"),
                "{words}"
            );
        }
        // Slowly, over the whole of it.
        let slowly = run(|n| 1.0 + 0.02 * n as f64, 0.02, None, 1).findings();
        assert!(matches!(slowly[..], [Unsteady::Drift { factor }] if 1.15 < factor && factor < 1.27), "{slowly:?}");
    }

    #[test]
    fn stalls_are_told_with_their_share() {
        let found = run(|_| 1.0, 0.05, Some(20), 1).findings();
        let [Unsteady::Stalls { stalled, samples, mostly: None }] = found[..] else { panic!("{found:?}") };
        assert_eq!((stalled, samples), (15, 300));
        let words = found[0].to_string();
        assert!(words.starts_with("5.0 % of 300 samples took over 5 times their median: something stalls"), "{words}");
        // Every 36th sample is of the same point.
        let found = run(|_| 1.0, 0.05, Some(36), 1).findings();
        let last = Point { collective: Collective::AllReduce, bytes: 1 << 15 };
        assert!(matches!(found[..], [Unsteady::Stalls { mostly: Some(point), .. }] if point == last), "{found:?}");
        assert_eq!(run(|_| 1.0, 0.05, Some(290), 1).findings(), [], "one is none");
    }
}
