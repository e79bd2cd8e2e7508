//! The words that every crate shares: collective, algorithm, protocol, choice, point, environment, engine.
//!
//! Names follow NCCL. Lower-case forms are those of NVIDIA's tuner CSV (`plugins/tuner/example/plugin.c`), which are
//! also the forms of the profile file and of the command line.

use std::{collections::BTreeMap, fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// A name that is none of the known ones.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown {what} `{name}`: use one of {known}")]
pub struct UnknownName {
    /// What was expected, such as `collective`.
    pub what: &'static str,
    /// The text that was found.
    pub name: String,
    /// The accepted names, separated by commas.
    pub known: String,
}

/// Declares an enum whose variants have one lower-case name (ours, and the tuner CSV's) and one NCCL spelling.
macro_rules! named_enum {
    ($(#[$meta:meta])* $name:ident, $what:literal { $($(#[$vmeta:meta])* $variant:ident = $text:literal / $nccl:literal,)* }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum $name { $($(#[$vmeta])* #[serde(rename = $text)] $variant,)* }

        impl $name {
            /// Every value, in table order.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The lower-case name of the profile, the tuner CSV and the command line.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }

            /// NCCL's own spelling, as in `NCCL_ALGO` and its documentation.
            pub const fn nccl_name(self) -> &'static str {
                match self { $(Self::$variant => $nccl,)* }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.name())
            }
        }

        impl FromStr for $name {
            type Err = UnknownName;

            fn from_str(text: &str) -> Result<Self, UnknownName> {
                Self::ALL.iter().copied().find(|v| v.name() == text).ok_or_else(|| UnknownName {
                    what: $what,
                    name: text.to_owned(),
                    known: Self::ALL.iter().map(|v| v.name()).collect::<Vec<_>>().join(", "),
                })
            }
        }
    };
}

named_enum! {
    /// A collective operation.
    Collective, "collective" {
        AllReduce = "allreduce" / "AllReduce",
        AllGather = "allgather" / "AllGather",
        ReduceScatter = "reducescatter" / "ReduceScatter",
        Broadcast = "broadcast" / "Broadcast",
        Reduce = "reduce" / "Reduce",
        AllToAll = "alltoall" / "AlltoAll",
        /// Every rank sends to the next and receives from the previous one.
        SendRecv = "sendrecv" / "SendRecv",
    }
}

impl Collective {
    /// Whether algorithm, protocol and channels can be chosen per call.
    ///
    /// NCCL's algorithm choice covers five functions; all-to-all and send-recv never reach it (NCCL `src/enqueue.cc`).
    pub const fn has_choice(self) -> bool {
        !matches!(self, Self::AllToAll | Self::SendRecv)
    }

    /// Whether elements are combined (and a reduction operator matters).
    pub const fn reduces(self) -> bool {
        matches!(self, Self::AllReduce | Self::ReduceScatter | Self::Reduce)
    }

    /// Whether the size column counts every rank's block, as in nccl-tests.
    pub const fn counts_blocks(self) -> bool {
        matches!(self, Self::AllGather | Self::ReduceScatter | Self::AllToAll)
    }

    /// Elements of the count column of nccl-tests for `bytes` of its size column: of sizes that count every rank's block, those of one.
    pub const fn count(self, ranks: u32, bytes: u64, data_type: DataType) -> u64 {
        let blocks = if self.counts_blocks() && 0 < ranks { ranks as u64 } else { 1 };
        bytes / data_type.bytes() / blocks
    }

    /// Bus bandwidth over algorithm bandwidth for `ranks` ranks (nccl-tests `doc/PERFORMANCE.md`).
    pub fn busbw_factor(self, ranks: u32) -> f64 {
        let n = f64::from(ranks.max(1));
        match self {
            Self::AllReduce => 2.0 * (n - 1.0) / n,
            Self::AllGather | Self::ReduceScatter | Self::AllToAll => (n - 1.0) / n,
            Self::Broadcast | Self::Reduce | Self::SendRecv => 1.0,
        }
    }

    /// Bus bandwidth in GB/s (10^9 bytes) of `bytes` (nccl-tests size column) in `time_us` microseconds.
    pub fn busbw_gbs(self, ranks: u32, bytes: u64, time_us: f64) -> f64 {
        if time_us > 0.0 { bytes as f64 / time_us / 1e3 * self.busbw_factor(ranks) } else { 0.0 }
    }
}

named_enum! {
    /// An algorithm, in NCCL's table order (ties between equal costs go to the earlier one).
    Algorithm, "algorithm" {
        Tree = "tree" / "Tree",
        Ring = "ring" / "Ring",
        CollNetDirect = "collnet_direct" / "CollNetDirect",
        CollNetChain = "collnet_chain" / "CollNetChain",
        Nvls = "nvls" / "NVLS",
        NvlsTree = "nvls_tree" / "NVLSTree",
        Pat = "pat" / "PAT",
    }
}

named_enum! {
    /// A wire protocol, in NCCL's table order.
    Protocol, "protocol" {
        Ll = "ll" / "LL",
        Ll128 = "ll128" / "LL128",
        Simple = "simple" / "Simple",
    }
}

named_enum! {
    /// An element type.
    DataType, "data type" {
        F32 = "float32" / "float",
        F16 = "float16" / "half",
        Bf16 = "bfloat16" / "bfloat16",
        I32 = "int32" / "int32",
    }
}

impl DataType {
    /// Size of one element in bytes.
    pub const fn bytes(self) -> u64 {
        match self {
            Self::F32 | Self::I32 => 4,
            Self::F16 | Self::Bf16 => 2,
        }
    }
}

named_enum! {
    /// A reduction operator.
    ReduceOp, "reduction" {
        Sum = "sum" / "sum",
        Prod = "prod" / "prod",
        Min = "min" / "min",
        Max = "max" / "max",
    }
}

named_enum! {
    /// What produced a number.
    Engine, "engine" {
        /// NVIDIA's NCCL on GPUs.
        Nccl = "nccl" / "nccl",
        /// Our own collectives on host memory.
        Native = "native" / "native",
        /// A recorded grid, its repeats drawn at random.
        Replay = "replay" / "replay",
        /// An analytic cluster.
        Sim = "sim" / "sim",
    }
}

impl Engine {
    /// Whether collectives really run when it measures.
    pub const fn is_real(self) -> bool {
        matches!(self, Self::Nccl | Self::Native)
    }

    /// What everything that shows or keeps its numbers says of them; nothing for NCCL's.
    pub const fn label(self) -> Option<&'static str> {
        match self {
            Self::Nccl => None,
            Self::Native => {
                Some("NOT MEASURED WITH NCCL: gdrtune's native engine on host memory; choices do not carry over")
            }
            Self::Replay => Some("REPLAYED: from a recorded grid, not measured on this cluster"),
            Self::Sim => Some("SIMULATED: from a model of a cluster, not measured on a real one"),
        }
    }
}

named_enum! {
    /// How far two devices of a node are apart on PCI, the nearest first: the classes of `nvidia-smi topo -m`.
    PcieDistance, "PCIe distance" {
        /// At most one bridge between them: a switch.
        Pix = "pix" / "PIX",
        /// Several bridges, but no host bridge.
        Pxb = "pxb" / "PXB",
        /// Over the host bridge, which is the CPU.
        Phb = "phb" / "PHB",
        /// Over two host bridges of one NUMA node.
        Node = "node" / "NODE",
        /// Over the link between NUMA nodes.
        Sys = "sys" / "SYS",
    }
}

/// What one call runs: algorithm, protocol and channel count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Choice {
    /// The algorithm.
    pub algorithm: Algorithm,
    /// The protocol.
    pub protocol: Protocol,
    /// The number of channels; 0 leaves the count to the engine, as in NCCL's tuner API.
    #[serde(default)]
    pub channels: u16,
}

impl fmt::Display for Choice {
    /// `tree/ll/2`, or `tree/ll` where the engine chooses the channels.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self.channels {
            0 => format!("{}/{}", self.algorithm, self.protocol),
            n => format!("{}/{}/{n}", self.algorithm, self.protocol),
        };
        f.pad(&text)
    }
}

/// A (collective, bytes) pair: what a rule is chosen for. Bytes are those of the nccl-tests size column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Point {
    /// The collective.
    pub collective: Collective,
    /// Bytes of the whole buffer (for all-gather and reduce-scatter: the gathered one).
    pub bytes: u64,
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{} {}", self.collective, crate::size::Size(self.bytes)))
    }
}

/// Process-level settings of one worker start: variable name to value, in name order.
///
/// A value is an overlay: names that are absent keep what the site has set.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Environment(pub BTreeMap<String, String>);

impl Environment {
    /// The empty overlay: what the user's jobs run with today.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether nothing is overlaid.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The value of `name`, if it is set here.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// This environment with `name` set to `value`.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.0.insert(name.into(), value.into());
        self
    }

    /// Name and value pairs in name order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(k, v)| (k.as_str(), v.as_str()))
    }
}

impl fmt::Display for Environment {
    /// `A=1 B=2`, or `defaults` when nothing is overlaid. For people only: values are not quoted.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.pad("defaults");
        }
        f.pad(&self.iter().map(|(k, v)| format!("{k}={v}")).collect::<Vec<_>>().join(" "))
    }
}

impl FromIterator<(String, String)> for Environment {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(iter: I) -> Self {
        Self(iter.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_reads_back() {
        for c in Collective::ALL {
            assert_eq!(c.name().parse(), Ok(*c));
        }
        for a in Algorithm::ALL {
            assert_eq!(a.name().parse(), Ok(*a));
        }
        let error = "all_reduce".parse::<Collective>().unwrap_err();
        assert!(error.to_string().starts_with("unknown collective `all_reduce`: use one of allreduce, "), "{error}");
    }

    #[test]
    fn counts_are_of_one_block_as_in_nccl_tests() {
        assert_eq!(Collective::AllReduce.count(4, 1024, DataType::F32), 256);
        assert_eq!(Collective::AllGather.count(4, 1024, DataType::Bf16), 128);
        assert_eq!(Collective::AllToAll.count(0, 1024, DataType::F16), 512);
    }

    #[test]
    fn bus_bandwidth_follows_nccl_tests() {
        // 4 ranks, 1 GB in 1 s: algbw 1 GB/s, busbw 2 * 3 / 4.
        assert!((Collective::AllReduce.busbw_gbs(4, 1_000_000_000, 1e6) - 1.5).abs() < 1e-12);
        assert!((Collective::AllGather.busbw_gbs(4, 1_000_000_000, 1e6) - 0.75).abs() < 1e-12);
        assert!((Collective::Broadcast.busbw_gbs(4, 1_000_000_000, 1e6) - 1.0).abs() < 1e-12);
    }
}
