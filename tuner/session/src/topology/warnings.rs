//! What is wrong with a node's wiring, or may be, each with its next step.

use std::collections::BTreeMap;

use gdrtune_fleet::hosts::fold;
use gdrtune_profiles::{
    topology::{Machine, PcieLink},
    vocab::PcieDistance,
};

use super::Nearest;

/// What to do where a virtual machine or a container does not show how devices are wired.
const TOPOLOGY_FILE: &str = "a virtual machine or container may hide it: have jobs set NCCL_TOPO_FILE to the provider's topology \
                             file, and read that here with --from FILE";

/// All that is to be said of a machine; `nearest` are the nearest working HCAs of each GPU.
pub(super) fn warnings(machine: &Machine, nearest: &[Option<Nearest>]) -> Vec<String> {
    let mut all = Vec::new();
    if !machine.hcas.is_empty() {
        all.extend(far(nearest));
        all.extend(near_but_down(machine, nearest));
        all.extend(unknown(machine));
        all.extend(flat(machine));
    }
    all.extend(links(machine));
    all
}

fn gpus(numbers: impl Iterator<Item = usize>) -> String {
    fold(&numbers.map(|number| format!("GPU{number}")).collect::<Vec<_>>())
}

/// GPUs whose nearest HCA is across sockets.
fn far(nearest: &[Option<Nearest>]) -> Option<String> {
    let is_far = |nearest: &Option<Nearest>| nearest.as_ref().is_some_and(|near| near.distance == PcieDistance::Sys);
    let names = gpus(nearest.iter().enumerate().filter(|(_, nearest)| is_far(nearest)).map(|(gpu, _)| gpu));
    (!names.is_empty()).then(|| {
        format!(
            "{names}: the nearest HCA is across sockets or NUMA nodes (SYS), over which NCCL uses no GPUDirect RDMA unless \
             NCCL_NET_GDR_LEVEL=SYS: use an HCA at that socket, or measure both ways"
        )
    })
}

/// HCAs that would be nearer than the nearest that works.
fn near_but_down(machine: &Machine, nearest: &[Option<Nearest>]) -> Vec<String> {
    let mut by_hca: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (gpu, (row, nearest)) in machine.to_hcas.iter().zip(nearest).enumerate() {
        for (at, (hca, distance)) in machine.hcas.iter().zip(row).enumerate() {
            let is_nearer = distance.is_some_and(|d| nearest.as_ref().is_none_or(|near| d < near.distance));
            if hca.is_down() && is_nearer {
                by_hca.entry(at).or_default().push(gpu);
            }
        }
    }
    let text = |(at, near): (usize, Vec<usize>)| {
        let hca = machine.hcas.get(at)?;
        let state = hca.ports.first().map(|port| port.state.as_str()).unwrap_or_default();
        let gpus = gpus(near.into_iter());
        Some(format!(
            "{}: down ({state}), though nearest to {gpus}: check its cable and its subnet manager or switch",
            hca.name
        ))
    };
    by_hca.into_iter().filter_map(text).collect()
}

/// GPUs of which no distance is known.
fn unknown(machine: &Machine) -> Option<String> {
    let is_unknown = |row: &&Vec<Option<PcieDistance>>| row.iter().all(Option::is_none);
    let all = machine.to_hcas.iter().enumerate().filter(|(_, row)| is_unknown(row));
    let names = gpus(all.map(|(gpu, _)| gpu));
    (!names.is_empty()).then(|| format!("{names}: how far the HCAs are is not known: {TOPOLOGY_FILE}"))
}

/// Whether all devices are at one bridge, without NUMA nodes: virtual machines often show that, and no hardware is wired so.
pub(crate) fn is_flat(machine: &Machine) -> bool {
    let all: Vec<PcieDistance> = machine.to_hcas.iter().flatten().flatten().copied().collect();
    machine.gpus.len() > 1
        && !all.is_empty()
        && all.iter().all(|distance| *distance == PcieDistance::Phb)
        && machine.gpus.iter().all(|gpu| gpu.numa.is_none())
}

fn flat(machine: &Machine) -> Option<String> {
    is_flat(machine).then(|| {
        format!(
            "all devices are at one host bridge, without NUMA nodes: that is not how hardware is wired; {TOPOLOGY_FILE}"
        )
    })
}

/// Links with fewer lanes than the device has; of HCAs, which never idle theirs, slower ones as well.
fn links(machine: &Machine) -> Vec<String> {
    let mut degraded: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut file = |name: String, link: PcieLink| degraded.entry(link.to_string()).or_default().push(name);
    for (number, gpu) in machine.gpus.iter().enumerate().filter(|(_, gpu)| gpu.link.is_narrow()) {
        file(format!("GPU{number}"), gpu.link);
    }
    for hca in machine.hcas.iter().filter(|hca| hca.link.is_narrow() || hca.link.is_slow()) {
        file(hca.name.clone(), hca.link);
    }
    let text = |(link, names): (String, Vec<String>)| {
        format!("{}: PCIe link {link}: the slot or a riser has less, or the card sits badly", fold(&names))
    };
    degraded.into_iter().map(text).collect()
}
