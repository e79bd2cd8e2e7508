//! What a [`ClusterBench`](super::ClusterBench) is told once.

use gdrtune_profiles::vocab::{DataType, Engine};
use gdrtune_wire::SessionKey;

use super::{group::WorkerFate, pace::PaceConfig};

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

    /// Name of the host that a rank is on.
    fn host_of(&self, rank: u32) -> Option<&str> {
        let ends = self.slots.iter().scan(0, |end, slots| {
            *end += slots;
            Some(*end)
        });
        self.hosts.iter().zip(ends).find(|(_, end)| rank < *end).map(|(host, _)| host.as_str())
    }

    /// Why workers broke, for people: two ranks that found no way to each other by their hosts.
    pub(super) fn told(&self, fate: &WorkerFate) -> String {
        match fate {
            WorkerFate::Unreached { rank, peer, why } => match (self.host_of(*rank), self.host_of(*peer)) {
                (Some(from), Some(to)) if from != to => format!("{from} does not reach {to}: {why}"),
                _ => fate.to_string(),
            },
            _ => fate.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use gdrtune_tuner::bench::Setup;
    use gdrtune_wire::{EndCause, FromWorker};

    use super::{super::group::Group, *};

    #[test]
    fn ranks_without_a_way_to_each_other_are_told_by_their_hosts() {
        let config = |hosts: &[&str], slots: &[u32]| ClusterConfig {
            engine: Engine::Native,
            hosts: hosts.iter().map(|host| (*host).to_owned()).collect(),
            emulate_nodes: false,
            worker_command: Vec::new(),
            slots: slots.to_vec(),
            data_type: DataType::F32,
            max_bytes: 1024,
            pace: PaceConfig::default(),
            calls: CallMode::default(),
            key: SessionKey([0; 32]),
        };
        let mut group = Group::new(1, Setup::Site, 4);
        group.file(1, FromWorker::Unreached { peer: 2 });
        group.file(1, FromWorker::Failed("no connection to rank 2 over eth1".to_owned()));
        group.file_end(1, EndCause::Exit(1));
        let fate = group.fate().0;
        let told = |hosts: &[&str], slots: &[u32]| config(hosts, slots).told(&fate);
        assert_eq!(told(&["a", "b"], &[2, 2]), "a does not reach b: no connection to rank 2 over eth1");
        assert_eq!(told(&["a", "b", "c"], &[1, 1, 2]), "b does not reach c: no connection to rank 2 over eth1");
        assert_eq!(told(&["a"], &[4]), "rank 1: no connection to rank 2 over eth1");
    }
}
