//! A cluster file: what the simulated cluster is made of, what is planted in it, and the truth that follows.
//!
//! A plain value; `read` makes it of a text. Must not know how times are computed.

use std::collections::BTreeMap;

use gdrtune_profiles::vocab::{Algorithm, Choice, Collective, Environment, Point, Protocol};
use serde::Deserialize;
use toml::Spanned;

use super::value::{Bytes, Count, NotNegative, Positive, Share, Sizes};

/// Most ranks that are simulated.
pub const MOST_RANKS: u32 = 10_000;

/// The variables that the model knows; searching any other would find nothing, silently.
pub const KNOBS: &[&str] = &[
    "NCCL_BUFFSIZE",
    "NCCL_CROSS_NIC",
    "NCCL_IB_HCA",
    "NCCL_IB_QPS_PER_CONNECTION",
    "NCCL_MIN_CTAS",
    "NCCL_NET_GDR_LEVEL",
    "NCCL_NSOCKS_PERTHREAD",
    "NCCL_NTHREADS",
    "NCCL_PXN_DISABLE",
    "NCCL_SOCKET_IFNAME",
    "NCCL_SOCKET_NTHREADS",
];

/// Algorithms that the model has.
pub const ALGORITHMS: &[Algorithm] = &[Algorithm::Tree, Algorithm::Ring, Algorithm::Nvls, Algorithm::Pat];

/// A simulated cluster.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cluster {
    /// What it is, in a few words.
    pub name: String,
    /// Nodes.
    pub nodes: Count,
    /// Ranks (GPUs) on each.
    pub ranks_per_node: Count,
    /// Seconds from the start of new processes to the first sample; without it, 1.5 s and 2 ms for each rank.
    #[serde(default)]
    pub start_s: Option<Positive>,
    /// Within a node.
    pub node: Node,
    /// Between nodes; required where there are several.
    #[serde(default)]
    pub network: Option<Network>,
    /// What can be chosen, and what the engine chooses by itself.
    pub engine: EngineModel,
    /// Variables to search, with the values to try besides leaving them alone.
    #[serde(default)]
    pub search: BTreeMap<String, Spanned<Vec<String>>>,
    /// How samples scatter.
    #[serde(default)]
    pub noise: Noise,
    /// What is planted: the engine's own cost model knows nothing of it.
    #[serde(default)]
    pub effect: Vec<Effect>,
    /// What goes wrong.
    #[serde(default)]
    pub fault: Vec<Fault>,
    /// What a tuner should find, where somebody planted it; without it, nothing is known of that.
    #[serde(default)]
    pub truth: Truth,
}

/// Within a node.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Node {
    /// Bus bandwidth of a ring over all GPUs, in GB/s.
    pub nvlink_gbs: Positive,
    /// What one channel carries, in GB/s.
    pub channel_gbs: Positive,
}

/// How nodes are connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NetworkKind {
    /// InfiniBand or RoCE.
    Verbs,
    /// TCP.
    Sockets,
}

/// Distance of GPU and HCA, and the values of `NCCL_NET_GDR_LEVEL`, nearest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Distance {
    /// Never.
    Loc,
    /// One PCI switch.
    Pix,
    /// Several PCI switches.
    Pxb,
    /// A CPU's own PCI bridge.
    Phb,
    /// Across CPUs.
    Sys,
}

/// Between nodes.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Network {
    /// Verbs or sockets.
    pub kind: NetworkKind,
    /// The HCAs (or interfaces) of every node, one a rail. Channels are dealt out to them in this order.
    pub nics: Vec<Nic>,
    /// What one connection (a queue pair, a socket) of one channel carries, in GB/s.
    pub connection_gbs: Positive,
    /// What every further connection adds to a hop, in microseconds.
    #[serde(default)]
    pub connection_us: NotNegative,
    /// What a hop takes beyond NCCL's figures, in microseconds.
    #[serde(default)]
    pub hop_us: NotNegative,
    /// Overhead of each chunk (an eighth of `NCCL_BUFFSIZE`) of the simple protocol, in microseconds.
    #[serde(default)]
    pub chunk_us: NotNegative,
    /// Whether NCCL's paths leave their rail with `NCCL_CROSS_NIC` unset.
    #[serde(default)]
    pub crosses_by_default: bool,
    /// Share of the bandwidth that is left on a path that leaves its rail.
    #[serde(default = "whole")]
    pub crossing: Share,
    /// Share of the bandwidth that is left with PXN (which is on unless `NCCL_PXN_DISABLE` is 1, and where there are several
    /// ranks on a node).
    #[serde(default = "whole")]
    pub with_pxn: Share,
    /// The same without it.
    #[serde(default = "whole")]
    pub without_pxn: Share,
    /// What PXN adds to a hop, in microseconds.
    #[serde(default)]
    pub pxn_us: NotNegative,
    /// Distance of GPUs and HCAs.
    #[serde(default = "pix")]
    pub gdr_distance: Distance,
    /// Share of the bandwidth that is left with `GPUDirect` RDMA, which is used up to `NCCL_NET_GDR_LEVEL` (PXB if unset).
    #[serde(default = "whole")]
    pub with_gdr: Share,
    /// The same without it, through host memory.
    #[serde(default = "whole")]
    pub without_gdr: Share,
    /// What host memory adds to a hop, in microseconds.
    #[serde(default)]
    pub bounce_us: NotNegative,
}

fn whole() -> Share {
    Share(1.0)
}

fn pix() -> Distance {
    Distance::Pix
}

/// One HCA or interface.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Nic {
    /// Name, such as `mlx5_0`.
    pub name: String,
    /// Rate in GB/s, as the engine believes.
    pub rate_gbs: Positive,
    /// Rate of the slowest node's, if another.
    #[serde(default)]
    pub slowest_gbs: Option<Positive>,
}

/// How the engine chooses by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Own {
    /// The best algorithm and protocol of its cost model, and channels by its rule of least bytes a channel.
    #[default]
    Model,
    /// The best of all choices by its cost model: what is planted is all there is to gain.
    Best,
}

/// The engine.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EngineModel {
    /// Algorithms; which collectives take them is NCCL's table.
    pub algorithms: Vec<Algorithm>,
    /// Protocols.
    pub protocols: Vec<Protocol>,
    /// Channel counts to try.
    pub channels: Vec<u16>,
    /// Most channels that the engine uses, unless `NCCL_MIN_CTAS` raises it.
    pub ceiling: u16,
    /// How it chooses.
    #[serde(default)]
    pub own: Own,
    /// What it never chooses by itself.
    #[serde(default)]
    pub avoids: Vec<Calls>,
    /// Whether all choices take the same time: a null cluster.
    #[serde(default)]
    pub equal: bool,
}

/// How samples scatter.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Noise {
    /// Standard deviation of a sample's log time.
    pub sample: NotNegative,
    /// Standard deviation of a process's log time: all its samples share it.
    pub process: NotNegative,
    /// Share of samples that stall.
    pub stalls: Share,
    /// How many times as long those take.
    pub stall_factor: NotNegative,
    /// By how much an hour makes everything slower (0.01 is 1 %).
    pub drift_per_hour: NotNegative,
}

/// Calls that something applies to: all whose fields fit. Nothing given fits everything.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Calls {
    /// The collective.
    pub collective: Option<Collective>,
    /// The algorithm that runs.
    pub algorithm: Option<Algorithm>,
    /// The protocol that runs.
    pub protocol: Option<Protocol>,
    /// Channels from here on.
    pub min_channels: Option<u16>,
    /// Channels up to here.
    pub max_channels: Option<u16>,
    /// Bytes from here on.
    pub min_bytes: Option<Bytes>,
    /// Bytes up to here.
    pub max_bytes: Option<Bytes>,
    /// Variables with their values; an empty one means that the variable is not set.
    pub environment: BTreeMap<String, String>,
}

impl Calls {
    /// Whether a call is among them; `ran` is what runs, where the engine has a choice.
    pub fn contain(&self, environment: &Environment, point: Point, ran: Option<Choice>) -> bool {
        let of_choice = self.algorithm.is_some()
            || self.protocol.is_some()
            || self.min_channels.is_some()
            || self.max_channels.is_some();
        self.collective.is_none_or(|collective| collective == point.collective)
            && self.min_bytes.is_none_or(|least| least.0 <= point.bytes)
            && self.max_bytes.is_none_or(|most| point.bytes <= most.0)
            && self.environment.iter().all(|(name, value)| environment.get(name).unwrap_or_default() == value)
            && ran.map_or(!of_choice, |ran| self.takes(ran))
    }

    fn takes(&self, ran: Choice) -> bool {
        self.algorithm.is_none_or(|algorithm| algorithm == ran.algorithm)
            && self.protocol.is_none_or(|protocol| protocol == ran.protocol)
            && self.min_channels.is_none_or(|least| least <= ran.channels)
            && self.max_channels.is_none_or(|most| ran.channels <= most)
    }
}

/// Something that the engine's cost model does not know.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Effect {
    /// How many times as long the calls take.
    pub factor: Positive,
    /// Which calls.
    #[serde(default)]
    pub calls: Calls,
}

/// What a fault does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FaultKind {
    /// The call never ends.
    Hang,
    /// The worker crashes.
    Crash,
    /// The result is wrong.
    Wrong,
    /// The engine refuses it.
    Unsupported,
    /// Workers with the environment of `calls` do not start.
    NoStart,
    /// A node is lost `at_s` seconds after the start.
    LostNode,
}

/// Something that goes wrong.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// What happens.
    pub kind: FaultKind,
    /// Which calls.
    #[serde(default)]
    pub calls: Calls,
    /// When a node is lost, in seconds of the simulated clock.
    #[serde(default)]
    pub at_s: NotNegative,
}

/// What a tuner should find on the cluster.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Truth {
    /// Collectives to tune for.
    pub collectives: Vec<Collective>,
    /// Sizes of each.
    pub sizes: Sizes,
    /// The variables that ship, all of them.
    #[serde(default)]
    pub environment: Environment,
    /// What is gained at least where.
    #[serde(default)]
    pub gains: Vec<Gain>,
    /// Whether nothing at all ships: the defaults are best.
    #[serde(default)]
    pub nothing: bool,
    /// Calls that no rule may make.
    #[serde(default)]
    pub never: Vec<Calls>,
}

impl Truth {
    /// The points to tune for.
    pub fn points(&self) -> Vec<Point> {
        let of = |&collective: &Collective| self.sizes.0.iter().map(move |&bytes| Point { collective, bytes });
        self.collectives.iter().flat_map(of).collect()
    }
}

/// What is gained at a point.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gain {
    /// The collective.
    pub collective: Collective,
    /// The size.
    pub bytes: Bytes,
    /// Default time over the time with what ships, at least.
    pub least: Positive,
}

impl Cluster {
    /// Ranks over all nodes.
    pub fn ranks(&self) -> u32 {
        self.nodes.0.saturating_mul(self.ranks_per_node.0)
    }
}
