//! What a [`ClusterBench`](super::ClusterBench) is told once.

use gdrtune_profiles::vocab::{DataType, Engine};
use gdrtune_wire::SessionKey;

use super::pace::PaceConfig;

/// Where ranks run and how they are measured.
#[derive(Debug, Clone)]
pub struct ClusterConfig {
    /// What runs the collectives.
    pub engine: Engine,
    /// Names of the nodes, in rank order, for messages.
    pub hosts: Vec<String>,
    /// Whether every rank poses as a node of its own.
    pub emulate_nodes: bool,
    /// Words of the command that starts workers; empty starts them directly.
    pub worker_command: Vec<String>,
    /// Ranks on each node, in rank order.
    pub slots: Vec<u32>,
    /// Element type of all measurements.
    pub data_type: DataType,
    /// Largest buffer in bytes.
    pub max_bytes: u64,
    /// Length of samples.
    pub pace: PaceConfig,
    /// How the collectives are called.
    pub calls: CallMode,
    /// The run's key for data sockets.
    pub key: SessionKey,
}

/// How collectives are called, beside what they are told to do: as the jobs call them that a result is for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CallMode {
    /// Calls are captured into CUDA graphs ([`gdrtune_wire::Item::graph`]).
    pub graph: bool,
    /// Buffers are registered with the communicator ([`gdrtune_wire::StartGroup::register_buffers`]).
    pub register_buffers: bool,
}

/// Nodes and ranks as the engine sees them, of ranks per host.
pub(crate) fn shape(slots: &[u32], emulate_nodes: bool) -> (u32, u32) {
    let ranks = slots.iter().sum();
    (if emulate_nodes { ranks } else { slots.len() as u32 }, ranks)
}

impl ClusterConfig {
    /// Nodes as the engine sees them.
    pub(super) fn nodes(&self) -> u32 {
        shape(&self.slots, self.emulate_nodes).0
    }
}
