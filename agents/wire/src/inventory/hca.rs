//! What is known of RDMA adapters and their ports beyond their place and state, from sysfs.

use std::{fmt, net::Ipv6Addr};

use serde::{Deserialize, Serialize};

use super::{PciFunction, PcieControl};

/// Details of an RDMA adapter. An empty text or an absent value is what nobody told.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HcaDetails {
    /// Its name, such as `mlx5_0`.
    pub hca: String,
    /// Version of its firmware.
    pub firmware: String,
    /// Its board: the PSID of an NVIDIA adapter, such as `MT_0000000838`.
    pub board: String,
    /// Its kind in the vendor's words, such as `MT4129`.
    pub kind: String,
    /// PCI's number of the vendor, such as `15b3`.
    pub vendor: String,
    /// PCI's number of the device, such as `1021`.
    pub device: String,
    /// Node GUID, such as `9803:9b03:0045:e8a2`.
    pub node_guid: String,
    /// Name of the kernel's driver, such as `mlx5_core`.
    pub driver: String,
    /// Which kind of PCI function it is.
    pub function: PciFunction,
    /// The bond that its network devices are in; empty where they are in none.
    pub bond: String,
    /// Its settings on PCI Express.
    pub pcie: PcieControl,
}

/// Details of a port of an RDMA adapter.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortDetails {
    /// Name of the adapter.
    pub hca: String,
    /// Number of the port, from 1.
    pub port: u16,
    /// MTU of the link in bytes, 256 to 4096: RoCE's follows from its network device, InfiniBand's only `ibv_devinfo` tells.
    pub active_mtu: Option<u32>,
    /// Largest MTU that the port can have, in bytes.
    pub max_mtu: Option<u32>,
    /// Local identifier; 0 on Ethernet, and before a subnet manager gave one.
    pub lid: Option<u32>,
    /// Local identifier of the subnet manager.
    pub sm_lid: Option<u32>,
    /// GIDs that are set, by index.
    pub gids: Vec<Gid>,
    /// Its network devices, by the GIDs or else of the adapter's function.
    pub nets: Vec<String>,
    /// Counters of errors and congestion that were readable, by name; they count from the driver's start.
    pub counters: Vec<Counter>,
    /// Traffic class that is forced on all connections (`tc/N/traffic_class` of NVIDIA's driver package).
    pub traffic_class: Option<u8>,
    /// What `rdma_cm` takes where a program does not choose, such as `RoCE v2`.
    pub default_roce_mode: String,
    /// Type of service of `rdma_cm`'s connections.
    pub default_roce_tos: Option<u8>,
}

impl PortDetails {
    /// A counter by its name, such as `link_downed`.
    pub fn counter(&self, name: &str) -> Option<u64> {
        self.counters.iter().find(|counter| counter.name == name).map(|counter| counter.value)
    }
}

/// An entry of a port's GID table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gid {
    /// Its index, which `NCCL_IB_GID_INDEX` means.
    pub index: u16,
    /// The identifier; RoCE's is the network device's address, IPv4 as `::ffff:10.0.0.1`.
    pub gid: Ipv6Addr,
    /// What it is for; `None` where the kernel does not say.
    pub kind: Option<GidKind>,
    /// Name of its network device; empty where the kernel does not say.
    pub net: String,
}

/// What a GID is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GidKind {
    /// InfiniBand, or RoCE version 1: the kernel's `IB/RoCE v1` is one word for both.
    InfiniBandOrRoceV1,
    /// RoCE version 2, which is routed.
    RoceV2,
}

impl fmt::Display for GidKind {
    /// The kernel's words.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::InfiniBandOrRoceV1 => "IB/RoCE v1",
            Self::RoceV2 => "RoCE v2",
        })
    }
}

/// A counter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counter {
    /// Its name in sysfs, such as `symbol_error` or `out_of_sequence`.
    pub name: String,
    /// What it counted.
    pub value: u64,
}
