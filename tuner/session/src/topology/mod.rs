//! How the devices of a cluster's nodes are wired: what is the same on all of them, and what is not.
//!
//! Looks at nodes and measures nothing, so it takes no node's lock and does not mind other processes.

pub mod bindings;
mod compare;
mod rails;
#[cfg(test)]
mod tests;
mod warnings;

use gdrtune_fleet::{FleetConfig, hosts::Host};
use gdrtune_profiles::{
    topology::{Address, Gpu, Hca, Interface, Machine, Port, by_number},
    vocab::PcieDistance,
};
use gdrtune_wire::{self as wire, HcaPort, Inventory};
use tokio::runtime::Handle;

pub(crate) use self::warnings::is_flat;
pub use self::{compare::Difference, rails::Rail};
use crate::connect::{self, ConnectError, Register};

/// What is known of one host: its inventory, or why that is not known.
pub type HostInventory = (String, Result<Inventory, String>);

/// Reads the inventory of every host; one that fails does not keep the others from being read. Blocks; not for a tokio thread.
///
/// # Errors
/// [`ConnectError`] where no agent could be started for a reason that lies here, or the user wants no more.
pub fn look(
    runtime: &Handle,
    config: FleetConfig,
    hosts: &[Host],
    interrupted: &dyn Fn() -> bool,
) -> Result<Vec<HostInventory>, ConnectError> {
    let register = Register { recorder: None, numbers: &[] };
    let gathered = connect::gather(runtime, config, hosts, register, interrupted)?;
    runtime.block_on(gathered.fleet.shutdown());
    let missing = gathered.missing.map(|refusal| refusal.hosts).unwrap_or_default();
    let why = |node: usize| missing.iter().find(|(missing, _)| *missing == node).map(|(_, why)| why.clone());
    let host = |(node, (host, inventory)): (usize, (&Host, Option<Inventory>))| {
        (host.name.clone(), inventory.ok_or_else(|| why(node).unwrap_or_else(|| "no answer".to_owned())))
    };
    Ok(hosts.iter().zip(gathered.inventories).enumerate().map(host).collect())
}

/// The topology in an inventory.
pub fn machine(inventory: &Inventory) -> Machine {
    let topology = &inventory.topology;
    let mut order: Vec<usize> = (0..topology.hcas.len()).collect();
    order.sort_by(|a, b| by_number(&topology.hcas[*a].name, &topology.hcas[*b].name));
    let hcas = order.iter().filter_map(|at| topology.hcas.get(*at)).map(|hca| {
        let ports = inventory.hca_ports.iter().filter(|port| port.hca == hca.name).map(port).collect();
        let place = &hca.place;
        let (address, nets) = (place.address.clone(), hca.nets.clone());
        Hca { name: hca.name.clone(), address, numa: place.numa, link: place.link, ports, nets }
    });
    // The driver's models, where they are of the same GPUs.
    let is_one_list = inventory.gpus.len() == topology.gpus.len();
    let gpus = topology.gpus.iter().enumerate().map(|(number, gpu)| {
        let model = inventory.gpus.get(number).filter(|_| is_one_list).unwrap_or(&gpu.model).clone();
        Gpu { model, address: gpu.place.address.clone(), numa: gpu.place.numa, link: gpu.place.link }
    });
    let row = |row: &Vec<Option<PcieDistance>>| order.iter().map(|at| row.get(*at).copied().flatten()).collect();
    Machine {
        numa_nodes: (topology.numa_nodes > 0).then_some(topology.numa_nodes),
        gpus: gpus.collect(),
        hcas: hcas.collect(),
        to_hcas: topology.distances.iter().map(row).collect(),
        gpu_paths: topology.gpu_paths.clone(),
        interfaces: inventory.interfaces.iter().map(interface).collect(),
        notes: unknown(inventory),
    }
}

fn interface(interface: &wire::Interface) -> Interface {
    let prefixes = interface.prefixes.iter().copied().map(Some).chain(std::iter::repeat(None));
    let addresses = interface.addresses.iter().zip(prefixes).map(|(ip, prefix)| Address { ip: *ip, prefix });
    Interface { name: interface.name.clone(), is_loopback: interface.loopback, addresses: addresses.collect() }
}

fn port(port: &HcaPort) -> Port {
    let state = format!("{} {}", port.state, if port.is_active() { "" } else { &port.phys_state });
    // `400 Gb/s` of the kernel's `400 Gb/sec (4X NDR)`.
    let rate = port.rate.split_once(" (").map_or(port.rate.as_str(), |(rate, _)| rate);
    let rate = rate.strip_suffix("/sec").map_or(rate.to_owned(), |rate| format!("{rate}/s"));
    Port { number: port.port, state: state.trim().to_owned(), link_layer: port.link_layer.clone(), rate }
}

/// What the inventory could not know.
fn unknown(inventory: &Inventory) -> Vec<String> {
    let (named, placed) = (inventory.gpus.len(), inventory.topology.gpus.len());
    let mut notes = Vec::new();
    if placed < named {
        notes.push(format!("nvidia-smi names {named} GPUs, and /proc and /sys show {placed}: the others have no row"));
    }
    if placed > 1 && inventory.topology.gpu_paths.is_empty() {
        let said = |words| inventory.unreadable.iter().find(|line| line.contains(words));
        let why = said("nvidia-smi topo").or_else(|| said("nvidia-smi"));
        let why = why.map_or("it is not on the PATH there, or sees other GPUs", String::as_str);
        notes.push(format!("NVLinks are not known: nvidia-smi, which alone tells of them, gave no answer ({why})"));
    }
    notes
}

/// How the nodes of a cluster are wired.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Survey {
    /// Nodes that are alike, the largest group first.
    pub groups: Vec<Group>,
    /// How the others differ from the first group.
    pub differences: Vec<Difference>,
    /// HCAs over the cluster.
    pub rails: Vec<Rail>,
    /// What stands in the way of rails.
    pub notes: Vec<String>,
}

/// Nodes that are wired alike.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Their names, in the order in which they were given.
    pub hosts: Vec<String>,
    /// What the first of them has. Addresses, and how fast the link of an idle GPU is, may be others on the others.
    pub machine: Machine,
    /// By GPU, the nearest HCAs that work; `None` where there are none, or no distance is known.
    pub nearest: Vec<Option<Nearest>>,
    /// What is wrong, or may be.
    pub warnings: Vec<String>,
}

/// The nearest HCAs of a GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nearest {
    /// How far.
    pub distance: PcieDistance,
    /// Which, by position.
    pub hcas: Vec<usize>,
}

impl Survey {
    /// Compares nodes.
    pub fn of(machines: Vec<(String, Machine)>) -> Self {
        let mut known: Vec<(compare::Aspects, Group)> = Vec::new();
        for (host, machine) in machines {
            let aspects = compare::aspects(&machine);
            match known.iter_mut().find(|(known, _)| *known == aspects) {
                Some((_, group)) => group.hosts.push(host),
                None => known.push((aspects, Group::of(host, machine))),
            }
        }
        // Stable, so that of equally large ones the first that was named is the usual one.
        known.sort_by_key(|(_, group)| std::cmp::Reverse(group.hosts.len()));
        let differences = compare::differences(&known);
        let groups: Vec<Group> = known.into_iter().map(|(_, group)| group).collect();
        let (rails, notes) = rails::rails(&groups);
        Self { groups, differences, rails, notes }
    }
}

impl Group {
    fn of(host: String, machine: Machine) -> Self {
        let nearest: Vec<Option<Nearest>> = (0..machine.gpus.len()).map(|gpu| nearest(&machine, gpu)).collect();
        let warnings = warnings::warnings(&machine, &nearest);
        Self { hosts: vec![host], machine, nearest, warnings }
    }
}

/// The nearest HCAs of a GPU that are not down.
pub(crate) fn nearest(machine: &Machine, gpu: usize) -> Option<Nearest> {
    let row = machine.to_hcas.get(gpu)?;
    let working = machine.hcas.iter().zip(row).enumerate().filter(|(_, (hca, _))| !hca.is_down());
    let known: Vec<(usize, PcieDistance)> = working.filter_map(|(at, (_, d))| Some((at, (*d)?))).collect();
    let distance = known.iter().map(|(_, distance)| *distance).min()?;
    let hcas = known.iter().filter(|(_, other)| *other == distance).map(|(at, _)| *at).collect();
    Some(Nearest { distance, hcas })
}
