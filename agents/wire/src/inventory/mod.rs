//! What a node has: the answer to [`crate::ToAgent::Inventory`]. Part of the messages, under the same rules.

mod gpu;
mod hca;
mod net;
mod pcie;
mod system;

use gdrtune_profiles::{
    topology::{GpuPath, PcieLink},
    vocab::{Environment, PcieDistance},
};
use serde::{Deserialize, Serialize};

pub use self::{gpu::*, hca::*, net::*, pcie::*, system::*};

/// What a node has, as far as its agent could read it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Inventory {
    /// Host name.
    pub hostname: String,
    /// Linux boot id: equal on two "nodes" that are one machine.
    pub boot_id: String,
    /// Kernel release.
    pub kernel: String,
    /// Machine architecture, such as `x86_64`.
    pub arch: String,
    /// Logical CPUs that the agent may use.
    pub cpus: u32,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// Network interfaces that are up and have an address, in kernel order.
    pub interfaces: Vec<Interface>,
    /// `NCCL_*` and `GDRTUNE_*` variables of the agent's environment, and those that choose GPUs: what the site sets
    /// today.
    pub site_env: Environment,
    /// What could not be read, and why.
    pub unreadable: Vec<String>,
    /// Processes that use a GPU or HCA of the node, by process id; the agent's own family and pure monitors left out.
    pub device_users: Vec<DeviceUser>,
    /// Model of the CPUs; empty where unknown.
    pub cpu_model: String,
    /// Models of the GPUs by their numbers; none where there are none, or nothing tells.
    pub gpus: Vec<String>,
    /// Version of NVIDIA's driver; empty where there is none.
    pub driver: String,
    /// Ports of RDMA adapters, by name and number.
    pub hca_ports: Vec<HcaPort>,
    /// Which devices there are, and how far they are from each other.
    pub topology: Topology,
    /// Files of NCCL's settings that are there, in the order in which NCCL reads them: the first that sets a variable wins.
    pub nccl_confs: Vec<ConfFile>,
    /// Files that NCCL's variables name, in the environment or in those.
    pub named_files: Vec<NamedFile>,
    /// Details of the GPUs by their numbers: of those that `nvidia-smi` names, else of [`Topology::gpus`]. They tell their addresses.
    pub gpu_details: Vec<GpuDetails>,
    /// Details of [`Topology::hcas`], in their order.
    pub hca_details: Vec<HcaDetails>,
    /// Details of [`Inventory::hca_ports`], in their order.
    pub port_details: Vec<PortDetails>,
    /// Details of [`Topology::nets`], in their order.
    pub net_details: Vec<NetDetails>,
    /// Bridges above GPUs and RDMA adapters, by address.
    pub bridges: Vec<PcieBridge>,
    /// The node as a whole.
    pub system: System,
}

/// Devices of a node and where they are plugged in. A virtual machine may hide all of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Topology {
    /// NUMA nodes that have CPUs; 0 where unknown.
    pub numa_nodes: u32,
    /// GPUs by PCI address, which is also the order of their numbers.
    pub gpus: Vec<Gpu>,
    /// RDMA adapters by name.
    pub hcas: Vec<Hca>,
    /// Network devices by name: those of hardware, and others that have an address.
    pub nets: Vec<NetDevice>,
    /// From each GPU, in their order, to each adapter, in theirs; `None` where it cannot be known.
    pub distances: Vec<Vec<Option<PcieDistance>>>,
    /// From each GPU to each GPU, as `nvidia-smi` says; empty where it says nothing, as only it knows of NVLinks.
    pub gpu_paths: Vec<Vec<Option<GpuPath>>>,
}

/// Where a device is plugged in.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// PCI address, such as `0000:19:00.0`; empty where it has none.
    pub address: String,
    /// NUMA node, where the kernel knows it.
    pub numa: Option<u32>,
    /// Its PCIe link, where the kernel knows it.
    pub link: PcieLink,
}

/// A GPU.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gpu {
    /// Its model; `vendor:device` in PCI's numbers where no driver names it.
    pub model: String,
    /// Where it is.
    pub place: Place,
}

/// An RDMA adapter. Its ports are in [`Inventory::hca_ports`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hca {
    /// Its name, such as `mlx5_0`.
    pub name: String,
    /// Where it is.
    pub place: Place,
    /// Names of its network devices.
    pub nets: Vec<String>,
}

/// A network device.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetDevice {
    /// Kernel name.
    pub name: String,
    /// State in the kernel's words: `up`, `down`, `unknown`; empty where it cannot be read.
    pub state: String,
    /// Link speed in Mbit/s, where the driver tells.
    pub speed_mbps: Option<u32>,
    /// MTU in bytes; 0 where it cannot be read.
    pub mtu: u32,
    /// Name of the kernel's driver; empty for a virtual device.
    pub driver: String,
    /// Where it is.
    pub place: Place,
}

/// A port of an RDMA adapter, in the kernel's words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HcaPort {
    /// Name of the adapter, such as `mlx5_0`.
    pub hca: String,
    /// Number of the port, from 1.
    pub port: u16,
    /// `InfiniBand` or `Ethernet`.
    pub link_layer: String,
    /// Such as `400 Gb/sec (4X NDR)`.
    pub rate: String,
    /// Such as `ACTIVE` or `DOWN`; empty where it cannot be read.
    pub state: String,
    /// State of the link below, such as `LinkUp` or `Polling`; empty where it cannot be read.
    pub phys_state: String,
}

impl HcaPort {
    /// Whether it is up.
    pub fn is_active(&self) -> bool {
        self.state == "ACTIVE"
    }
}

/// A settings file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfFile {
    /// Its path.
    pub path: String,
    /// What it says.
    pub text: String,
}

/// A file that one of NCCL's variables names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedFile {
    /// The variable.
    pub variable: String,
    /// Its value, an absolute path.
    pub path: String,
    /// Why it cannot be read, where it cannot.
    pub problem: Option<String>,
}

/// A process that uses a GPU or HCA.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceUser {
    /// Its process id, as the agent sees it.
    pub pid: u32,
    /// Name of the user that it runs as, or `uid N` where the node's `/etc/passwd` has no name; empty where unknown.
    pub user: String,
    /// Its name, made printable; empty where unknown.
    pub command: String,
    /// What it uses, at least one.
    pub devices: Vec<UsedDevice>,
}

/// A device that a process uses.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum UsedDevice {
    /// A GPU by its number, which is CUDA's where nothing hides or reorders devices.
    Gpu(u32),
    /// Some GPU, and how it shows: it could be any.
    SomeGpu(String),
    /// An RDMA adapter by its name, such as `mlx5_0`.
    Hca(String),
}

impl std::fmt::Display for UsedDevice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Gpu(index) => write!(f, "GPU {index}"),
            Self::SomeGpu(shown) => write!(f, "a GPU ({shown})"),
            Self::Hca(name) => write!(f, "HCA {name}"),
        }
    }
}

/// A network interface.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Interface {
    /// Kernel name.
    pub name: String,
    /// Addresses in text form, IPv4 first.
    pub addresses: Vec<std::net::IpAddr>,
    /// Bits of each address that name its network, in the order of the addresses.
    pub prefixes: Vec<u8>,
    /// Whether it is the loopback.
    pub loopback: bool,
    /// MTU in bytes.
    pub mtu: u32,
    /// Link speed in Mbit/s, where the driver tells.
    pub speed_mbps: Option<u32>,
}
