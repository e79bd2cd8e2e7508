//! The bench that a run measures with: what an earlier process of the run has measured comes from there, the rest from
//! the bench behind it.
//!
//! Its clock stands still between scripts, and every reading of it is in the store: the search decides by it.

use std::collections::VecDeque;

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

/// Measures on `inner`, but for what is known already.
pub struct RecordedBench<'a, B: ?Sized> {
    inner: &'a mut B,
    recorder: &'a Recorder,
    earlier: VecDeque<EarlierScript>,
    scripts: u64,
    now_s: f64,
}

impl<'a, B: Bench + ?Sized> RecordedBench<'a, B> {
    /// A bench over `inner`, which must be a new one. `earlier` is what another process has run, in order.
    pub fn new(inner: &'a mut B, recorder: &'a Recorder, earlier: VecDeque<EarlierScript>) -> Self {
        Self { inner, recorder, earlier, scripts: 0, now_s: 0.0 }
    }

    /// The bench behind it, for what is no measurement of the run.
    pub fn inner(&mut self) -> &mut B {
        self.inner
    }

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
        self.now_s = earlier.now_s;
        earlier.end.clone().unwrap_or(Ok(()))
    }
}

impl<B: Bench + ?Sized> Bench for RecordedBench<'_, B> {
    fn info(&self) -> BenchInfo {
        self.inner.info()
    }

    fn now_s(&self) -> f64 {
        self.now_s
    }

    fn run(&mut self, script: &Script, cancel: &Cancel, sink: &mut dyn FnMut(Sample)) -> Result<(), BenchError> {
        // Nothing may be measured that cannot be recorded, nor a script that is not the one that was begun.
        if self.recorder.has_failed() {
            return Err(BenchError::Cancelled);
        }
        let number = self.scripts;
        self.scripts += 1;
        let earlier = self.earlier.pop_front();
        let result = match &earlier {
            Some(earlier) => self.take_up(earlier, script, cancel, sink),
            None => self.inner.run(script, cancel, sink),
        };
        let unstarted = match &result {
            Ok(()) => None,
            Err(BenchError::Setup { setup, why }) => Some((setup.clone(), why.clone())),
            // Cut off: a resume measures the rest.
            Err(BenchError::Cancelled | BenchError::Lost(_)) => {
                self.recorder.cut_short();
                return result;
            }
        };
        if earlier.is_none_or(|earlier| earlier.end.is_none()) {
            self.now_s = self.inner.now_s();
        }
        self.recorder.record(Event::ScriptEnded { script: number, clock_s: self.now_s, unstarted });
        result
    }
}
