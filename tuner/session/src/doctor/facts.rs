//! What the checks look at.

use gdrtune_fleet::hosts::fold;
use gdrtune_profiles::{grammar::hca::HcaList, topology::Machine};
use gdrtune_wire::{DialFault, HcaDetails, HcaPort, Inventory, LibraryKind, PortDetails};

use super::interfaces::{self, Chosen};
use crate::{
    homogeneity::{self, Settings},
    topology,
};

/// All that is known of a cluster.
#[derive(Debug, Clone)]
pub struct Facts {
    /// Nodes that were looked at, in the order in which they were named.
    pub nodes: Vec<Node>,
    /// Hosts that could not be.
    pub unusable: Vec<Unusable>,
    /// Connections that were tried between nodes, or why none was.
    pub contacts: Result<Vec<Contact>, String>,
    /// Each node's clock, where it told, or why none was asked.
    pub clocks: Result<Vec<Option<Clock>>, String>,
}

/// A host that cannot be looked at, or was lost meanwhile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unusable {
    /// Its name.
    pub host: String,
    /// What happened.
    pub what: String,
    /// What to do.
    pub fix: String,
}

/// A connection that was tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contact {
    /// The node that dialled, by its place.
    pub from: usize,
    /// The node that was dialled, by its place.
    pub to: usize,
    /// Which of its interfaces that was, in NCCL's order.
    pub place: usize,
    /// Time until both ends had proven themselves, in microseconds, or what was in the way.
    pub outcome: Result<u64, DialFault>,
}

/// What a node's clock said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clock {
    /// How far it is ahead of this machine's, in microseconds.
    pub ahead_us: i64,
    /// How wrong that may be, in microseconds: half of the time until it was told.
    pub error_us: u64,
}

/// A node and what follows from what it has.
#[derive(Debug, Clone)]
pub struct Node {
    /// Its name.
    pub host: String,
    /// What it has.
    pub inventory: Inventory,
    /// Whether that was read from a recorded tree, which knows nothing of a process.
    pub is_recorded: bool,
    /// How it is wired.
    pub(super) machine: Machine,
    /// NCCL's variables there.
    pub(super) settings: Settings,
    /// The interfaces that NCCL takes for sockets, in its order.
    pub(super) interfaces: Chosen,
}

impl Node {
    /// A node with an agent.
    pub fn new(host: impl Into<String>, inventory: Inventory) -> Self {
        let settings = homogeneity::effective(&inventory, gdrtune_profiles::vocab::Engine::Nccl);
        let machine = topology::machine(&inventory);
        let interfaces = interfaces::choose(&inventory, value_of(&settings, "NCCL_SOCKET_IFNAME"));
        Self { host: host.into(), is_recorded: false, machine, settings, interfaces, inventory }
    }

    /// A node of a recorded tree.
    pub fn recorded(host: impl Into<String>, inventory: Inventory) -> Self {
        Self { is_recorded: true, ..Self::new(host, inventory) }
    }

    /// Whether it has neither a GPU nor an HCA.
    pub fn is_bare(&self) -> bool {
        !self.has_gpus() && !self.has_hcas()
    }

    /// GPUs of the node, whoever tells of them.
    pub(super) fn gpu_count(&self) -> usize {
        let inventory = &self.inventory;
        inventory.gpus.len().max(inventory.topology.gpus.len()).max(inventory.gpu_details.len())
    }

    pub(super) fn has_gpus(&self) -> bool {
        self.gpu_count() > 0
    }

    pub(super) fn has_hcas(&self) -> bool {
        !self.inventory.topology.hcas.is_empty()
    }

    /// Models of the GPUs by their numbers, where the driver names them.
    pub(super) fn gpu_models(&self) -> impl Iterator<Item = (usize, &str)> {
        let of_driver = !self.inventory.gpus.is_empty();
        let named = self.inventory.gpus.iter().map(String::as_str).filter(move |_| of_driver);
        let placed = self.machine.gpus.iter().map(|gpu| gpu.model.as_str()).filter(move |_| !of_driver);
        named.chain(placed).enumerate()
    }

    /// The value of one of NCCL's variables, from wherever NCCL takes it.
    pub(super) fn setting(&self, name: &str) -> Option<&str> {
        value_of(&self.settings, name)
    }

    /// Whether kernel modules are known. Where a driver runs they include its own, so none at all is no answer.
    pub(super) fn knows_modules(&self) -> bool {
        !self.inventory.system.modules.is_empty()
    }

    pub(super) fn has_module(&self, name: &str) -> bool {
        self.inventory.system.loaded(name).is_some()
    }

    /// Ports with their details, where there are some.
    pub(super) fn ports(&self) -> impl Iterator<Item = (&HcaPort, Option<&PortDetails>)> {
        self.inventory.hca_ports.iter().map(|port| {
            let is_same = |details: &&PortDetails| details.hca == port.hca && details.port == port.port;
            (port, self.inventory.port_details.iter().find(is_same))
        })
    }

    /// Active ports of RoCE.
    pub(super) fn roce_ports(&self) -> impl Iterator<Item = (&HcaPort, Option<&PortDetails>)> {
        self.ports().filter(|(port, _)| port.is_active() && port.link_layer == "Ethernet")
    }

    /// Details of an HCA.
    pub(super) fn hca_details(&self, name: &str) -> Option<&HcaDetails> {
        self.inventory.hca_details.iter().find(|details| details.hca == name)
    }

    /// Whether all HCAs are of AWS's driver, whose way to GPU memory and to NCCL is another.
    pub(super) fn is_efa(&self) -> bool {
        let hcas = &self.inventory.hca_details;
        !hcas.is_empty() && hcas.iter().all(|hca| hca.driver == "efa")
    }

    /// The list in `NCCL_IB_HCA`, where one is set that NCCL can read.
    pub(super) fn hca_list(&self) -> Option<HcaList> {
        HcaList::parse(self.setting("NCCL_IB_HCA")?).ok()
    }

    /// Whether NCCL may use a port.
    pub(super) fn may_use(&self, port: &HcaPort) -> bool {
        self.hca_list().is_none_or(|list| list.matches(&port.hca, port.port))
    }

    /// Versions of the NCCL libraries that were found, that of the loader's first choice first.
    pub(super) fn nccl_libraries(&self) -> impl Iterator<Item = &gdrtune_wire::Library> {
        self.inventory.system.libraries.iter().filter(|library| library.kind == LibraryKind::Nccl)
    }
}

fn value_of<'s>(settings: &'s Settings, name: &str) -> Option<&'s str> {
    settings.get(name).map(|(value, _)| value.as_str())
}

/// `mlx5_0` for the usual first port, `mlx5_0:2` for others.
pub(super) fn port_name(port: &HcaPort) -> String {
    if port.port == 1 { port.hca.clone() } else { format!("{}:{}", port.hca, port.port) }
}

/// Names with numbers, folded: `GPU[0-3]`.
pub(super) fn gpu_names(numbers: impl IntoIterator<Item = usize>) -> String {
    fold(&numbers.into_iter().map(|number| format!("GPU{number}")).collect::<Vec<_>>())
}

/// Devices by what is said of them: `GPU[0-6]: on; GPU7: off`.
pub(super) fn by_device(said: impl IntoIterator<Item = (String, String)>) -> String {
    let mut groups: Vec<(String, Vec<String>)> = Vec::new();
    for (device, words) in said {
        match groups.iter_mut().find(|(known, _)| *known == words) {
            Some((_, devices)) => devices.push(device),
            None => groups.push((words, vec![device])),
        }
    }
    let line = |(words, devices): (String, Vec<String>)| format!("{}: {words}", fold(&devices));
    groups.into_iter().map(line).collect::<Vec<_>>().join("; ")
}
