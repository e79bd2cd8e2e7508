//! The bench that a run measures with: what an earlier process of the run has measured comes from there, the rest from
//! the bench behind it.
//!
//! Its clock stands still between scripts, and every reading of it is in the store: the search decides by it.

use std::collections::VecDeque;

use gdrtune_profiles::vocab::{Choice, Environment, Point};
use gdrtune_tuner::bench::{Bench, BenchError, BenchInfo, Cancel, Earlier, Sample, Script};

use crate::{event::Event, recorder::Recorder};

/// A script as an earlier process ran it.
#[derive(Debug, Clone, PartialEq)]
pub struct EarlierScript {
    /// What it gave.
    pub samples: Vec<Sample>,
    /// The bench's clock after the last of them, as far as it is known.
    pub now_s: f64,
    /// How it ended; `None` where it was cut off.
    pub end: Option<Result<(), BenchError>>,
}

/// The scripts of a run, over whichever bench runs them.
pub struct Ledger<'r> {
    recorder: &'r Recorder,
    earlier: VecDeque<EarlierScript>,
    scripts: u64,
    now_s: f64,
}

impl<'r> Ledger<'r> {
    /// The ledger of a run that begins, or goes on: `earlier` is what another process has run, in order, the first script
    /// with this number.
    pub fn new(recorder: &'r Recorder, first: u64, earlier: VecDeque<EarlierScript>) -> Self {
        Self { recorder, earlier, scripts: first, now_s: 0.0 }
    }

    /// A bench over `inner`, which is always the same one.
    pub fn over<'a>(&'a mut self, inner: &'a mut dyn Bench) -> RecordedBench<'a, 'r> {
        RecordedBench { inner, ledger: self }
    }
}

/// Measures on a bench, but for what is known already.
pub struct RecordedBench<'a, 'r> {
    inner: &'a mut dyn Bench,
    ledger: &'a mut Ledger<'r>,
}

impl RecordedBench<'_, '_> {
    fn take_up(
        &mut self,
        earlier: &EarlierScript,
        script: &Script,
        cancel: &Cancel,
        sink: &mut dyn FnMut(Sample),
    ) -> Result<(), BenchError> {
        for sample in &earlier.samples {
            if cancel.is_cancelled() {
                return Err(BenchError::Cancelled);
            }
            sink(sample.clone());
        }
        let is_complete = earlier.end.is_some();
        let known = Earlier { samples: &earlier.samples, now_s: earlier.now_s, is_complete };
        let result = self.inner.take_up(script, &known, cancel, sink);
        if !is_complete {
            return result;
        }
        self.ledger.now_s = earlier.now_s;
        earlier.end.clone().unwrap_or(Ok(()))
    }
}

impl Bench for RecordedBench<'_, '_> {
    fn info(&self) -> BenchInfo {
        self.inner.info()
    }

    fn offers(&self, environment: &Environment, point: Point, choice: Option<Choice>) -> bool {
        self.inner.offers(environment, point, choice)
    }

    fn now_s(&self) -> f64 {
        self.ledger.now_s
    }

    fn run(&mut self, script: &Script, cancel: &Cancel, sink: &mut dyn FnMut(Sample)) -> Result<(), BenchError> {
        // Nothing may be measured that cannot be recorded, nor a script that is not the one that was begun.
        if self.ledger.recorder.has_failed() {
            return Err(BenchError::Cancelled);
        }
        let number = self.ledger.scripts;
        self.ledger.scripts += 1;
        let earlier = self.ledger.earlier.pop_front();
        let result = match &earlier {
            Some(earlier) => self.take_up(earlier, script, cancel, sink),
            None => self.inner.run(script, cancel, sink),
        };
        let unstarted = match &result {
            Ok(()) => None,
            Err(BenchError::Setup { setup, why }) => Some((setup.clone(), why.clone())),
            // Cut off: a resume measures the rest.
            Err(BenchError::Cancelled | BenchError::Lost(_)) => {
                self.ledger.recorder.cut_short();
                return result;
            }
        };
        if earlier.is_none_or(|earlier| earlier.end.is_none()) {
            self.ledger.now_s = self.inner.now_s();
        }
        self.ledger.recorder.record(Event::ScriptEnded { script: number, clock_s: self.ledger.now_s, unstarted });
        result
    }
}
