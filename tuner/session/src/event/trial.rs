//! A measurement of a run, and what came of it.

use gdrtune_profiles::vocab::{Choice, Environment, Point};
use serde::{Deserialize, Serialize};

use super::RanInstead;

/// One measurement, as it was asked for and as it went.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// Running number from 0.
    pub trial: u64,
    /// Which arm it belongs to.
    pub arm: Arm,
    /// Settings over the site's.
    pub environment: Environment,
    /// The point.
    pub point: Point,
    /// What was asked for; absent leaves it to the engine or to the deployed rules.
    pub requested: Option<Choice>,
    /// What ran, where the engine can tell.
    pub selected: Option<Choice>,
    /// The set of processes that measured it.
    pub process: u32,
    /// Place in its script's items; absent in old stores, which cannot be resumed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item: Option<u32>,
    /// What came of it.
    pub result: TrialResult,
}

/// The arm of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arm {
    /// The default arm.
    Default,
    /// The search.
    Search,
    /// The candidate of the A/B, through the emitted files.
    Candidate,
}

/// What came of a trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum TrialResult {
    /// Timed. Microseconds per operation, averaged over ranks.
    Timed {
        /// Wall time over iterations. What is compared.
        time_us: f64,
        /// The same of the slowest rank.
        slowest_us: f64,
        /// Median lap of the batch, per call.
        median_us: f64,
        /// Slowest lap of the batch, per call.
        max_us: f64,
        /// CPU time.
        cpu_us: f64,
        /// Bus bandwidth in GB/s.
        busbw_gbs: f64,
        /// Timed calls; 0 where nobody says.
        #[serde(default)]
        iterations: u32,
    },
    /// Not timed, or the time does not count.
    Failed {
        /// Which kind.
        kind: Failure,
        /// What was said.
        detail: String,
        /// Times of what ran in its place.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ran: Option<RanInstead>,
    },
}

impl TrialResult {
    /// Whether it hung, crashed or gave a wrong result. Where the engine ran something else, or does not offer what was asked
    /// for, that is about the choice; what was skipped says nothing.
    pub const fn has_failed(&self) -> bool {
        matches!(self, Self::Failed { kind: Failure::Wrong | Failure::Hung | Failure::Crashed, .. })
    }
}

/// Kinds of failed trials.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Failure {
    /// Wrong result: the choice is disqualified.
    Wrong,
    /// Killed at its deadline.
    Hung,
    /// A worker crashed.
    Crashed,
    /// The engine cannot run it.
    Unsupported,
    /// Something else ran.
    Substituted,
    /// The user skipped it, which says nothing of the choice.
    Skipped,
}
