//! PCI functions and the bridges above them. What is in the configuration space beyond its first 64 bytes only root can read
//! (Linux `drivers/pci/pci-sysfs.c`, `pci_read_config`).

use gdrtune_profiles::topology::PcieLink;
use serde::{Deserialize, Serialize};

/// Which kind of PCI function a device is, for SR-IOV.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PciFunction {
    /// None, or nobody tells. A virtual machine's device may be a virtual function without saying so.
    #[default]
    Plain,
    /// A physical function that can have virtual ones.
    Physical {
        /// Virtual functions that it has now.
        virtual_functions: u32,
        /// Virtual functions that it can have.
        most: u32,
    },
    /// A virtual function.
    Virtual {
        /// Address of its physical function.
        of: String,
    },
}

/// Settings of a device on PCI Express; absent for who is not root.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PcieControl {
    /// Whether it may mark its transactions as relaxed in order.
    pub relaxed_ordering: Option<bool>,
    /// Largest payload that it sends, in bytes.
    pub payload_bytes: Option<u32>,
    /// Largest read that it requests, in bytes.
    pub read_request_bytes: Option<u32>,
}

/// A bridge above a GPU or RDMA adapter: a root port, or a port of a switch.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PcieBridge {
    /// PCI address.
    pub address: String,
    /// Address of the bridge above; empty below a host bridge.
    pub above: String,
    /// PCI's number of the vendor, such as `1000`.
    pub vendor: String,
    /// PCI's number of the device.
    pub device: String,
    /// Its link, which is that to what is below a root port or downstream port, and to what is above an upstream port.
    pub link: PcieLink,
    /// What it is; `None` where only root could tell.
    pub kind: Option<BridgeKind>,
    /// Whether access control services send peers' transactions up to the root (ACS P2P request redirect, completion redirect or upstream
    /// forwarding is on): `Some(false)` where they are off, or it has none; `None` where only root could tell.
    pub acs_redirects: Option<bool>,
    /// Whether it routes atomic operations; `None` where only root could tell.
    pub routes_atomics: Option<bool>,
}

/// What a bridge is (PCI Express Base Specification, device/port type of the capabilities register).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BridgeKind {
    /// A port of the root complex.
    RootPort,
    /// A switch's port towards the root.
    Upstream,
    /// A switch's port away from the root.
    Downstream,
    /// A bridge from or to another kind of bus.
    Other,
}
