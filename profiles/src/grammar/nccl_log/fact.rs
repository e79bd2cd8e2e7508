//! What lines of NCCL's log can say.

use crate::{
    version::Version,
    vocab::{Algorithm, Choice, Collective, Protocol},
};

/// What one call ran. Only rank 0 logs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ran {
    /// The function; versions before 2.23 do not name it.
    pub collective: Option<Collective>,
    /// Bytes of one rank's part (from 2.24 on), or of the whole collective (before).
    pub bytes: u64,
    /// The algorithm.
    pub algorithm: Algorithm,
    /// The protocol.
    pub protocol: Protocol,
    /// How many channels it ran on; versions before 2.24 do not say it.
    pub channels: Option<u16>,
}

impl Ran {
    /// What ran, with what the plugin `told` of it where the log is silent.
    pub fn beside(self, told: Option<Choice>) -> Choice {
        let Self { algorithm, protocol, channels, .. } = self;
        let same = told.filter(|told| (told.algorithm, told.protocol) == (algorithm, protocol));
        Choice { algorithm, protocol, channels: channels.or(same.map(|told| told.channels)).unwrap_or(0) }
    }
}

/// Which end of a connection a rank tells of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    /// The rank sends.
    Send,
    /// The rank receives.
    Receive,
}

/// A connection over the network, or to a switch that reduces (`COLLNET`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NetworkWay<'a> {
    /// Transport and device: `NET/IB/0` of `NET/IB/0(2)/GDRDMA(PCI)/Shared`.
    pub path: &'a str,
    /// The network's name: `IB`.
    pub network: &'a str,
    /// Number of the device: `0`.
    pub device: u32,
    /// The rank whose GPU hands the data to the NIC, where it is another one (PXN): `2`.
    pub proxy: Option<u32>,
    /// Whether the NIC goes to the GPU's memory itself.
    pub is_gdr: bool,
}

/// The way of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way<'a> {
    /// Over the network.
    Network(Side, NetworkWay<'a>),
    /// Within a node, or over NVLink between nodes: `P2P/CUMEM/read`, `P2P/MNNVL`, `SHM/direct`.
    Local(&'a str),
}

/// A connection of one channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Connection<'a> {
    /// The channel; nothing where the line names none.
    pub channel: Option<u16>,
    /// The rank that tells of it.
    pub rank: Option<u32>,
    /// The rank at the other end; nothing where that is a switch.
    pub peer: Option<u32>,
    /// The way.
    pub way: Way<'a>,
}

/// What names a communicator in all its ranks' logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CommunicatorName {
    /// `commId`.
    Id(u64),
    /// A part of another one: which of its parts, and the colour. The line does not name the other one.
    Part {
        /// Running number among the parts of the other one.
        number: u32,
        /// The colour.
        color: i64,
    },
}

/// A rank's own account of a communicator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Joined {
    /// Which one.
    pub name: CommunicatorName,
    /// The rank in it.
    pub rank: u32,
    /// Its ranks.
    pub ranks: u32,
    /// The rank's CUDA device.
    pub gpu: u32,
    /// The GPU's PCI address as one number, as NCCL writes it.
    pub bus_id: u64,
    /// Whether it begins; it is complete else.
    pub is_start: bool,
}

/// Whether a GPU and an HCA may do GPU Direct RDMA with each other. From 2.29 on NCCL does not log this.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PairVerdict<'a> {
    /// The GPU: rank (from 2.24 on), or PCI address in hexadecimal (before).
    pub gpu: &'a str,
    /// The HCA: number, in hexadecimal from 2.22 on; its upper byte is the number of the node.
    pub hca: &'a str,
    /// Their distance, as this version's number of a path type.
    pub distance: u32,
    /// The largest distance that is allowed, likewise.
    pub level: u32,
    /// Whether they may.
    pub is_enabled: bool,
}

/// What a line says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fact<'a> {
    /// A call was scheduled.
    Run(Ran),
    /// A collective has at most so many channels.
    Channels(u16),
    /// A connection is being made.
    Connection(Connection<'a>),
    /// Something about tuner plugins.
    Tuner(&'a str),
    /// A warning, which NCCL writes for every failure.
    Warning(&'a str),
    /// The library's version.
    Version(Version),
    /// The CUDA version that the driver supports, as CUDA's number: 12040.
    CudaDriver(u32),
    /// A communicator is being made, or is complete.
    Joined(Joined),
    /// The network that a communicator uses: `IB`, `Socket`, `AWS Libfabric`.
    Network(&'a str),
    /// The HCA ports that NCCL uses, `[0]mlx5_0:1/IB [1]mlx5_1:1/RoCE [RO]`; empty where there are none.
    Hcas(&'a str),
    /// There is no HCA with an active port, or none that `NCCL_IB_HCA` leaves.
    NoHca,
    /// libibverbs cannot be loaded.
    NoVerbs,
    /// Whether an HCA can reach GPU memory, whichever GPU's.
    HcaGdr {
        /// The network's name.
        network: &'a str,
        /// Number of the device.
        device: u32,
        /// Its name.
        name: &'a str,
        /// Whether it can.
        is_enabled: bool,
    },
    /// Whether a GPU and an HCA may use it with each other.
    Pair(PairVerdict<'a>),
    /// The GPU's memory can be exported as a DMA-BUF.
    DmaBuf,
    /// A variable that is set, and to what.
    Variable {
        /// Its name.
        name: &'a str,
        /// Its value.
        value: &'a str,
    },
    /// A set of channels was searched: path types within nodes and between them, such as `NVL` and `PXB`.
    Pattern {
        /// Largest between GPU and NIC.
        inter: &'a str,
    },
    /// Whether NVLink's multicast is there.
    Nvls(bool),
    /// Something that a network plugin, or NCCL about one, says.
    Plugin(&'a str),
    /// NCCL's hint about an error that it has warned of.
    Hint(&'a str),
}

impl Fact<'_> {
    /// Whether it is one of those, connections aside, that [`crate::gdr`] draws reasons from.
    pub const fn is_about_gdr(&self) -> bool {
        match self {
            Self::Run(_) | Self::Channels(_) | Self::Tuner(_) | Self::Connection(_) | Self::Nvls(_) => false,
            Self::Warning(_)
            | Self::Version(_)
            | Self::CudaDriver(_)
            | Self::Joined(_)
            | Self::Network(_)
            | Self::Hcas(_)
            | Self::NoHca
            | Self::NoVerbs
            | Self::HcaGdr { .. }
            | Self::Pair(_)
            | Self::DmaBuf
            | Self::Variable { .. }
            | Self::Pattern { .. }
            | Self::Plugin(_)
            | Self::Hint(_) => true,
        }
    }
}

/// Who wrote a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Writer<'a> {
    /// The host, without its domain.
    pub host: &'a str,
    /// The process.
    pub pid: u32,
    /// The thread.
    pub thread: u32,
    /// The CUDA device that is current in the thread.
    pub gpu: u32,
}
