//! What the RDMA probe asks of workers, and what they answer. Part of the messages, under the same rules.
//!
//! A probe's group has two ranks, one on each node of a pair. Each opens its side of every way and describes it in
//! [`crate::FromWorker::Bootstrap`]; after [`crate::ToWorker::Connect`] the ways stand. A step then measures one way in one
//! direction: only the side that writes is told, since RDMA needs no processor of the other.

use gdrtune_profiles::bindings::ceilings::{Failure, Memory};
use serde::{Deserialize, Serialize};

/// What a worker of a probe opens.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeSetup {
    /// The ways, in the same order on both sides.
    pub ways: Vec<ProbeWay>,
}

/// A way between two nodes, over the same port of both.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeWay {
    /// Name of the HCA, such as `mlx5_0`.
    pub hca: String,
    /// Its port, from 1.
    pub port: u16,
    /// What the writing side writes from.
    pub memory: Memory,
}

/// Asks a worker to measure one way, towards its peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeStep {
    /// Names it in the answer.
    pub number: u32,
    /// Index into [`ProbeSetup::ways`].
    pub way: u32,
    /// Time to measure in, in milliseconds; on slow ways, large messages are left out for it.
    pub time_ms: u64,
    /// Time until the answer, in milliseconds; later the worker is killed.
    pub lease_ms: u64,
}

/// What came of a step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum ProbeOutcome {
    /// It was measured.
    Measured {
        /// Bandwidth by size of the messages, smallest first.
        rates: Vec<ProbeRate>,
        /// Median time of a small write, one way, in microseconds.
        latency_us: f64,
    },
    /// It failed.
    Failed {
        /// In what.
        failure: Failure,
        /// Status and likely cause, for people.
        why: String,
    },
}

/// Bandwidth with messages of one size.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ProbeRate {
    /// Bytes of a message.
    pub bytes: u64,
    /// Median over the laps, in GB/s (10^9 bytes).
    pub gbs: f64,
}
