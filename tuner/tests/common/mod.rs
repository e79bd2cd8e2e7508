//! A bench whose times are a function, for tests.

use gdrtune_profiles::vocab::{Algorithm, Choice, Collective, Engine, Environment, Point, Protocol};
use gdrtune_tuner::{
    bench::{Bench, BenchError, BenchInfo, Cancel, Outcome, Sample, Script, Setup, Timing},
    observe::{Directive, Note, Observer},
};
use rand::{Rng, SeedableRng, rngs::SmallRng};

/// What a measurement gives: environment (empty for the default arm), point, choice.
pub(crate) type Model = fn(&Environment, Point, Option<Choice>) -> Answer;

/// What the model says.
pub(crate) enum Answer {
    /// A time in microseconds, before noise.
    Time(f64),
    /// A sample without a time.
    Outcome(Outcome),
    /// The environment cannot start.
    NoStart(&'static str),
    /// The cluster is gone.
    Lost(&'static str),
}

/// A bench over a [`Model`] with log-normal-like noise of `noise` (relative).
pub(crate) struct Fake {
    pub(crate) model: Model,
    pub(crate) noise: f64,
    pub(crate) random: SmallRng,
    pub(crate) clock_s: f64,
    pub(crate) samples: u64,
    pub(crate) scripts: Vec<Script>,
}

impl Fake {
    pub(crate) fn new(model: Model, noise: f64, seed: u64) -> Self {
        Self { model, noise, random: SmallRng::seed_from_u64(seed), clock_s: 0.0, samples: 0, scripts: Vec::new() }
    }
}

impl Bench for Fake {
    fn info(&self) -> BenchInfo {
        BenchInfo { engine: Engine::Sim, nodes: 4, ranks: 4 }
    }

    fn now_s(&self) -> f64 {
        self.clock_s
    }

    fn run(&mut self, script: &Script, cancel: &Cancel, sink: &mut dyn FnMut(Sample)) -> Result<(), BenchError> {
        self.scripts.push(script.clone());
        let environment = match &script.setup {
            Setup::Live(environment) => environment.clone(),
            Setup::Site | Setup::Deployed(_) => Environment::new(),
        };
        for (item, asked) in script.items.iter().enumerate() {
            for _ in 0..asked.repeats {
                if cancel.is_cancelled() {
                    return Err(BenchError::Cancelled);
                }
                if cancel.take_skip() {
                    sink(Sample { item, process: 0, outcome: Outcome::Skipped });
                    break;
                }
                let outcome = match (self.model)(&environment, asked.point, asked.choice) {
                    Answer::Time(time_us) => {
                        let uniform: f64 = (0..4).map(|_| self.random.random_range(-0.5..0.5)).sum();
                        Outcome::Timed(timed(time_us * (self.noise * uniform * 1.7).exp()))
                    }
                    Answer::Outcome(outcome) => outcome,
                    Answer::NoStart(why) => {
                        return Err(BenchError::Setup { setup: environment.to_string(), why: why.into() });
                    }
                    Answer::Lost(why) => return Err(BenchError::Lost(why.into())),
                };
                let timed = matches!(outcome, Outcome::Timed(_));
                self.clock_s += 0.01;
                self.samples += 1;
                sink(Sample { item, process: 0, outcome });
                if !timed {
                    break;
                }
            }
        }
        Ok(())
    }
}

pub(crate) fn timed(time_us: f64) -> Timing {
    Timing {
        time_us,
        slowest_us: time_us,
        median_us: time_us,
        max_us: time_us,
        cpu_us: 0.0,
        iterations: 1,
        selected: None,
    }
}

pub(crate) fn choice(algorithm: Algorithm, protocol: Protocol, channels: u16) -> Choice {
    Choice { algorithm, protocol, channels }
}

pub(crate) fn allreduce(bytes: u64) -> Point {
    Point { collective: Collective::AllReduce, bytes }
}

/// Remembers what it was told, as text, and gives a directive after so many scripts.
pub(crate) struct Recorder {
    pub(crate) lines: Vec<String>,
    pub(crate) scripts: usize,
    pub(crate) after: usize,
    pub(crate) then: Directive,
}

impl Recorder {
    pub(crate) fn new() -> Self {
        Self { lines: Vec::new(), scripts: 0, after: usize::MAX, then: Directive::Continue }
    }
}

impl Observer for Recorder {
    fn note(&mut self, note: Note<'_>) {
        self.scripts += usize::from(matches!(note, Note::Script(_)));
        self.lines.push(format!("{note:?}"));
    }

    fn directive(&mut self) -> Directive {
        if self.after <= self.scripts { self.then } else { Directive::Continue }
    }
}
