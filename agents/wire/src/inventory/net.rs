//! What is known of network devices beyond their place and speed.

use serde::{Deserialize, Serialize};

use super::PciFunction;

/// Details of a network device. An empty text or an absent value is what nobody told.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetDetails {
    /// Kernel name.
    pub name: String,
    /// What it is.
    pub kind: NetKind,
    /// The device that it belongs to: its bond, bridge or team; empty where it belongs to none.
    pub master: String,
    /// The devices that it consists of (bond, bridge) or lies on (VLAN).
    pub lower: Vec<String>,
    /// Which kind of PCI function it is.
    pub function: PciFunction,
    /// What keeps the network from dropping RoCE's packets.
    pub lossless: Lossless,
}

/// What a network device is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NetKind {
    /// A device of hardware, or of a hypervisor.
    #[default]
    Device,
    /// A bond, with its mode, such as `802.3ad`.
    Bond(String),
    /// A VLAN, with its number where known.
    Vlan(Option<u16>),
    /// A bridge.
    Bridge,
    /// Another virtual device, in the kernel's word for its type, which may be empty.
    Virtual(String),
}

/// Settings of a port that make Ethernet lossless, as NVIDIA's driver package shows them in sysfs. Others' drivers, and the kernel's own,
/// tell only by netlink.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lossless {
    /// What priorities are taken from: `pcp` or `dscp`.
    pub trust: String,
    /// Priorities with priority flow control; `None` where it cannot be read.
    pub pfc: Option<Vec<u8>>,
    /// Priorities for which it tells senders of congestion (ECN, notification point).
    pub ecn_notifies: Option<Vec<u8>>,
    /// Priorities for which it slows down when told (ECN, reaction point).
    pub ecn_reacts: Option<Vec<u8>>,
}
