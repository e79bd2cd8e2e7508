//! What the search measures with: [`Bench`] runs [`Script`]s and hands back [`Sample`]s.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use gdrtune_profiles::vocab::{Choice, Engine, Environment, Point};

/// What a bench stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BenchInfo {
    /// What produces the numbers.
    pub engine: Engine,
    /// Nodes of the cluster.
    pub nodes: u32,
    /// Ranks over all nodes.
    pub ranks: u32,
}

/// One setup and an ordered list of measurements that run back to back without a round trip in between.
#[derive(Debug, Clone, PartialEq)]
pub struct Script {
    /// What the workers run with.
    pub setup: Setup,
    /// Whether the workers must be new processes, even if workers with this setup are running.
    pub fresh: bool,
    /// The measurements, in order.
    pub items: Vec<Item>,
}

/// What a worker process runs with.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Setup {
    /// The default arm: the site's own environment, in processes of its own. Items have no choice.
    Site,
    /// Variables over the site's environment; the engine takes each item's choice.
    Live(Environment),
    /// The emitted files and nothing else: name and text of each. Items have no choice; the files' rules decide.
    Deployed(Arc<[(String, String)]>),
}

/// One measurement of a script.
#[derive(Debug, Clone, PartialEq)]
pub struct Item {
    /// Collective and size.
    pub point: Point,
    /// What to run; `None` leaves it to the engine (or to the deployed rules).
    pub choice: Option<Choice>,
    /// How many samples to take, one after the other.
    pub repeats: u32,
}

/// One result. Samples come in the order of the items; a failed item gives one sample, whatever its `repeats`.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// Index into [`Script::items`].
    pub item: usize,
    /// The set of processes that measured it: samples of one process are not independent replications.
    pub process: u32,
    /// What came of it.
    pub outcome: Outcome,
}

/// What came of one measurement.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// It was timed, and its result was right.
    Timed(Timing),
    /// The result was wrong: the choice is disqualified.
    Wrong(String),
    /// It overran its deadline and was killed.
    Hung(String),
    /// A worker crashed.
    Crashed(String),
    /// The engine cannot run it, says the engine.
    Unsupported(String),
    /// Something else ran than what was asked for; its time is not credited to the request.
    Substituted {
        /// What ran.
        selected: Choice,
        /// Its time.
        timing: Timing,
    },
    /// The user gave it up while it ran, which says nothing of the choice: it may be asked for again.
    Skipped,
}

/// Times of one sample, over all ranks. Microseconds per operation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Timing {
    /// Wall time of the batch over its iterations, averaged over ranks. What is compared.
    pub time_us: f64,
    /// The same of the slowest rank.
    pub slowest_us: f64,
    /// Median lap of the batch, per call, averaged over ranks.
    pub median_us: f64,
    /// Slowest lap of the batch, per call of any rank.
    pub max_us: f64,
    /// CPU time per operation, averaged over ranks.
    pub cpu_us: f64,
    /// Timed calls of the batch; 0 where nobody says.
    pub iterations: u32,
    /// What ran, where the engine can tell.
    pub selected: Option<Choice>,
}

#[cfg(test)]
impl Timing {
    /// One call whose ranks and laps are all alike.
    pub(crate) const fn even(time_us: f64) -> Self {
        Self {
            time_us,
            slowest_us: time_us,
            median_us: time_us,
            max_us: time_us,
            cpu_us: 0.0,
            iterations: 1,
            selected: None,
        }
    }
}

/// Why a script gave no further samples.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BenchError {
    /// The cancel token was set.
    #[error("cancelled")]
    Cancelled,
    /// The setup could not be started (a bad setting, most likely); others may work.
    #[error("start workers with {setup}: {why}")]
    Setup {
        /// The setup, for people.
        setup: String,
        /// The engine's own words.
        why: String,
    },
    /// The cluster is gone: no further script can succeed.
    #[error("{0}")]
    Lost(String),
}

/// Measures scripts. Synchronous; the caller's thread waits.
pub trait Bench {
    /// What this bench stands for.
    fn info(&self) -> BenchInfo;

    /// Seconds since the run began, on this bench's own clock (simulated clusters have simulated time).
    fn now_s(&self) -> f64;

    /// Whether it can run `choice` (`None`: the engine's own) at `point` under these settings, as far as it knows without
    /// trying. What it cannot run is not asked for.
    fn offers(&self, _environment: &Environment, _point: Point, _choice: Option<Choice>) -> bool {
        true
    }

    /// Runs the script and hands each sample to `sink` as it comes. A hang, a crash or a wrong result is a sample, and so is
    /// what the user skips ([`Cancel::take_skip`]); the bench then goes on with the next item in new processes.
    ///
    /// # Errors
    /// [`BenchError`] when no further sample of this script will come.
    fn run(&mut self, script: &Script, cancel: &Cancel, sink: &mut dyn FnMut(Sample)) -> Result<(), BenchError>;

    /// Goes on with a script that an earlier process of the same run began, or finished: `sink` gets only the samples that
    /// `earlier` lacks. Every script of that process comes here, in order, before the first call of [`Bench::run`].
    ///
    /// As it stands it is for benches that compute their samples: they get into the state that they were in by computing
    /// them again. One that really measures must not.
    ///
    /// # Errors
    /// As [`Bench::run`]; those of a finished script are known to the caller.
    fn take_up(
        &mut self,
        script: &Script,
        earlier: &Earlier<'_>,
        cancel: &Cancel,
        sink: &mut dyn FnMut(Sample),
    ) -> Result<(), BenchError> {
        let mut known = earlier.samples.iter();
        // What was skipped then is skipped now; what the user skips counts from where that process ended.
        let again = cancel.with_own_skips();
        let is_next_skipped = |known: &std::slice::Iter<'_, Sample>| match known.as_slice().first() {
            Some(next) => next.outcome == Outcome::Skipped,
            None => cancel.take_skip(),
        };
        if is_next_skipped(&known) {
            again.skip();
        }
        self.run(script, &again, &mut |sample| {
            if known.next().is_none() {
                sink(sample);
            }
            if is_next_skipped(&known) {
                again.skip();
            }
        })
    }
}

/// What an earlier process of a run has of a script.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Earlier<'a> {
    /// Its samples, in the order in which they came.
    pub samples: &'a [Sample],
    /// The bench's clock after the last of them, as far as it is known.
    pub now_s: f64,
    /// Whether the script was finished.
    pub is_complete: bool,
}

/// What acts on a running script at once, in mid-trial: an end, and the skipping of single measurements. Clones share one.
#[derive(Debug, Clone, Default)]
pub struct Cancel {
    cancelled: Arc<AtomicBool>,
    skips: Arc<AtomicBool>,
}

impl Cancel {
    /// Nothing is asked for.
    pub fn new() -> Self {
        Self::default()
    }

    /// Ends the script, for good.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Release);
    }

    /// Whether it is ended.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Acquire)
    }

    /// Asks for the measurement that runs now to be given up.
    pub fn skip(&self) {
        self.skips.store(true, Ordering::Release);
    }

    /// Whether that was asked for since the last call. A bench asks while a measurement runs, and before one begins.
    pub fn take_skip(&self) -> bool {
        self.skips.swap(false, Ordering::AcqRel)
    }

    /// One that is ended together with this one, and skips only what it is told itself.
    #[must_use]
    pub fn with_own_skips(&self) -> Self {
        Self { cancelled: Arc::clone(&self.cancelled), skips: Arc::default() }
    }
}
