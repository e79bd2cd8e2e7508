//! The rows of the trials table.

use gdrtune_profiles::vocab::{Choice, Point};
use gdrtune_session::event::{Arm, Failure};

/// One row of the trials table.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TrialRow {
    pub(crate) trial: u64,
    /// Milliseconds since the run began.
    pub(crate) t_ms: u64,
    /// The set of processes that measured it.
    pub(crate) process: u32,
    pub(crate) arm: Arm,
    pub(crate) environment: u32,
    pub(crate) point: Point,
    pub(crate) requested: Option<Choice>,
    pub(crate) selected: Option<Choice>,
    pub(crate) outcome: Outcome,
}

/// The result of a row.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Outcome {
    /// Timed.
    Timed(Measured),
    /// Did not count.
    Failed { kind: Failure, detail: Box<str> },
}

/// What a trial that counts measured, in microseconds per call and averaged over ranks where nothing else is said.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Measured {
    /// What is compared: wall time over calls.
    pub(crate) time_us: f64,
    /// The same of the slowest rank.
    pub(crate) slowest_us: f64,
    /// Median lap of the batch.
    pub(crate) median_us: f64,
    /// Slowest lap of the batch.
    pub(crate) max_us: f64,
    /// CPU time.
    pub(crate) cpu_us: f64,
    /// Bus bandwidth in GB/s.
    pub(crate) busbw_gbs: f64,
    /// Timed calls; 0 where nobody said.
    pub(crate) iterations: u32,
    /// Default time, as it was known then, over this time.
    pub(crate) gain: Option<f64>,
}

impl TrialRow {
    /// What it measured, if it counts.
    pub(crate) const fn measured(&self) -> Option<&Measured> {
        match &self.outcome {
            Outcome::Timed(measured) => Some(measured),
            Outcome::Failed { .. } => None,
        }
    }
}
