//! By what nodes are compared. Addresses may differ between machines of one model, and an idle GPU's link is slower than a
//! busy one's: neither makes a node another.

use std::collections::BTreeMap;

use gdrtune_fleet::hosts::fold;
use gdrtune_profiles::{
    topology::{Machine, PcieLink},
    vocab::PcieDistance,
};

use super::Group;

/// What a node has, by what is compared, what matters most first.
pub(super) type Aspects = Vec<(String, String)>;

/// How some nodes differ from most.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Nodes that are alike among themselves.
    pub hosts: Vec<String>,
    /// In what, such as `mlx5_3 port 1`.
    pub what: String,
    /// What they have.
    pub own: String,
    /// What most have.
    pub most: String,
}

/// What the groups after the first have otherwise than it.
pub(super) fn differences(groups: &[(Aspects, Group)]) -> Vec<Difference> {
    let Some(((usual, _), others)) = groups.split_first() else { return Vec::new() };
    let usual: BTreeMap<&str, &str> = usual.iter().map(|(what, value)| (what.as_str(), value.as_str())).collect();
    let of = |(aspects, group): &(Aspects, Group)| {
        let other = |(what, own): &(String, String)| {
            // What only one of them has shows in the lists of GPUs and HCAs.
            let most = usual.get(what.as_str()).filter(|most| *most != own)?;
            let (hosts, most) = (group.hosts.clone(), (*most).to_owned());
            Some(Difference { hosts, what: what.clone(), own: own.clone(), most })
        };
        aspects.iter().filter_map(other).collect::<Vec<_>>()
    };
    others.iter().flat_map(of).collect()
}

/// All that is compared.
pub(super) fn aspects(machine: &Machine) -> Aspects {
    let number = |number: Option<u32>| number.map_or("unknown".to_owned(), |number| number.to_string());
    let mut all = vec![("GPUs".to_owned(), models(machine)), ("HCAs".to_owned(), names(machine))];
    all.push(("NUMA nodes".to_owned(), number(machine.numa_nodes)));
    for hca in &machine.hcas {
        for port in &hca.ports {
            let value = [port.state.as_str(), &port.link_layer, &port.rate];
            let value: Vec<&str> = value.into_iter().filter(|word| !word.is_empty()).collect();
            all.push((format!("{} port {}", hca.name, port.number), value.join(" ")));
        }
        all.push((format!("{} NUMA node", hca.name), number(hca.numa)));
        all.push((format!("{} PCIe link", hca.name), hca.link.to_string()));
    }
    for (gpu, found) in machine.gpus.iter().enumerate() {
        all.push((format!("GPU{gpu} NUMA node"), number(found.numa)));
        all.push((format!("GPU{gpu} PCIe link"), width(found.link)));
        for (hca, distance) in machine.hcas.iter().zip(machine.to_hcas.get(gpu).into_iter().flatten()) {
            let value = distance.map_or("unknown", PcieDistance::nccl_name);
            all.push((format!("GPU{gpu} to {}", hca.name), value.to_owned()));
        }
        for (other, path) in machine.gpu_paths.get(gpu).into_iter().flatten().enumerate().skip(gpu + 1) {
            all.push((format!("GPU{gpu} to GPU{other}"), path.map_or("unknown".to_owned(), |path| path.to_string())));
        }
    }
    all
}

/// Without the speed that a GPU's link has just now.
fn width(link: PcieLink) -> String {
    let lanes = link.current.map_or("?".to_owned(), |lanes| format!("x{}", lanes.count));
    link.most.map_or(lanes.clone(), |most| format!("{lanes} of {most}"))
}

/// `8 x NVIDIA H200`.
pub(super) fn models(machine: &Machine) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for gpu in &machine.gpus {
        *counts.entry(gpu.model.as_str()).or_default() += 1;
    }
    let word = |(model, count): (&str, usize)| format!("{count} x {}", if model.is_empty() { "GPU" } else { model });
    if counts.is_empty() { "none".to_owned() } else { counts.into_iter().map(word).collect::<Vec<_>>().join(", ") }
}

fn names(machine: &Machine) -> String {
    let names: Vec<&str> = machine.hcas.iter().map(|hca| hca.name.as_str()).collect();
    if names.is_empty() { "none".to_owned() } else { fold(&names) }
}
