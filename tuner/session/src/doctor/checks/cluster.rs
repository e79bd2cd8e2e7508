//! What should be the same on all nodes.

use std::collections::BTreeMap;

use gdrtune_fleet::hosts::fold;
use gdrtune_profiles::{size::Size, topology::by_number};
use gdrtune_wire::HcaPort;

use super::{super::facts::port_name, Check, Facts, Fault, Node, Outcome, Outcomes, Scope, about_all};
use crate::{homogeneity, topology::Survey};

const ALIKE: &str = "make them alike, or leave the others out with -x";

pub(super) const CHECKS: &[Check] = &[
    Check::all(
        Scope::Cluster,
        [
            "alike-gpus",
            "all nodes have the same GPUs",
            "Models and numbers of GPUs. NCCL decides by the GPU: mixed ones hang where ranks decide differently, and the slowest sets the pace.",
            ALIKE,
            "NVIDIA/nccl issues 1136, 1184",
        ],
        |facts| alike(facts, gpus, Fault::warn),
    ),
    Check::all(
        Scope::Cluster,
        [
            "alike-driver",
            "all nodes have the same NVIDIA driver",
            "Versions of the driver. Features that NCCL decides by (NVLS, DMA-BUF, cuMem) come and go with it.",
            "install the same driver on all nodes",
            "NCCL src/init.cc",
        ],
        |facts| alike(facts, |node| known(&node.inventory.driver), Fault::warn),
    ),
    Check::all(
        Scope::Cluster,
        [
            "alike-hcas",
            "all nodes have the same HCA ports",
            "Active ports that NCCL may use, by link and rate. Nodes with other sets hang, with 2.30 without a word (NCCL_IGNORE_NET_MISMATCH).",
            "bring the missing ports up, or name the common ones on all nodes: NCCL_IB_HCA==NAME,NAME",
            "NVIDIA/nccl issues 2428, 1478",
        ],
        |facts| alike(facts, hcas, Fault::fail),
    ),
    Check::all(
        Scope::Cluster,
        [
            "alike-hca-names",
            "HCA ports have the same names on all nodes",
            "Names of active ports that NCCL may use. NCCL_IB_HCA is one list for all nodes: with other names it means other ports, or none.",
            "rename them by udev (rdma-core's 60-rdma-persistent-naming.rules), the same on all nodes",
            "NVIDIA/nccl issue 1478; rdma-core",
        ],
        |facts| alike(facts, |node| Some(hca_names(node)), Fault::warn),
    ),
    Check::all(
        Scope::Cluster,
        [
            "alike-hca-firmware",
            "HCAs of one board have the same firmware",
            "Firmware versions by board (PSID). Mixed ones differ in congestion control and fixes.",
            "`mlxfwmanager --online -u`, or the vendor's tool",
            "NVIDIA firmware release notes",
        ],
        firmware,
    ),
    Check::all(
        Scope::Cluster,
        [
            "alike-ofed",
            "all nodes have the same RDMA drivers",
            "Versions of NVIDIA's driver package; `none` is the kernel's own.",
            "install the same package on all nodes",
            "MLNX_OFED release notes",
        ],
        |facts| alike(facts, ofed, Fault::warn),
    ),
    Check::all(
        Scope::Cluster,
        [
            "alike-cpu",
            "all nodes have the same CPUs",
            "CPU models and numbers. NCCL's cost model knows Intel from AMD: ranks on mixed CPUs choose differently, and hang.",
            ALIKE,
            "NVIDIA/nccl issues 1136, 1184; src/graph/tuning.cc, getNetOverhead",
        ],
        |facts| alike(facts, cpu, Fault::warn),
    ),
    Check::all(
        Scope::Cluster,
        [
            "alike-memory",
            "all nodes have as much memory",
            "Memory of each node, but for a few GiB. Less on one is a module that failed.",
            "look at `dmidecode -t memory` and the BIOS's log on the others",
            "Linux /proc/meminfo",
        ],
        |facts| alike(facts, memory, Fault::warn),
    ),
    Check::all(
        Scope::Cluster,
        [
            "alike-kernel",
            "all nodes run the same kernel",
            "Kernel releases.",
            "install the same kernel on all nodes, and boot it",
            "uname(1)",
        ],
        |facts| alike(facts, |node| known(&node.inventory.kernel), Fault::warn),
    ),
    Check::all(
        Scope::Cluster,
        [
            "alike-wiring",
            "all nodes are wired alike",
            "Distances, sockets, lanes, ports and NVLinks of each node against what most have, as `gdrtune topo` compares them.",
            "`gdrtune topo` shows both; a card is in another slot, or something of it is down",
            "gdrtune topo",
        ],
        wiring,
    ),
];

/// What a node has of which it has nothing.
const NONE: &str = "none";

fn known(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

/// Whether what `value` says is the same on all nodes. Those of which it says nothing are left out.
pub(super) fn alike(facts: &Facts, value: impl Fn(&Node) -> Option<String>, fault: fn(String) -> Fault) -> Outcomes {
    if facts.nodes.len() < 2 {
        return about_all(facts, Outcome::skip("fewer than two nodes"));
    }
    let values: Vec<(&str, String)> =
        facts.nodes.iter().filter_map(|node| Some((node.host.as_str(), value(node)?))).collect();
    if values.len() < 2 {
        return about_all(facts, Outcome::skip("fewer than two nodes tell it"));
    }
    let told: Vec<String> = values.iter().map(|(host, _)| (*host).to_owned()).collect();
    let groups = homogeneity::by_value(values.into_iter());
    let outcome: Outcome = match groups.as_slice() {
        [(_, none)] if none == NONE => Outcome::skip("no node has any"),
        [(_, value)] => Outcome::pass(value.clone()),
        groups => {
            let words: Vec<String> = groups.iter().map(|(hosts, value)| format!("{hosts}: {value}")).collect();
            fault(words.join("; ")).into()
        }
    };
    vec![(told, outcome)]
}

fn counted<'n>(names: impl Iterator<Item = &'n str>) -> Option<String> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    names.for_each(|name| *counts.entry(name).or_default() += 1);
    let words: Vec<String> = counts.into_iter().map(|(name, count)| format!("{count} x {name}")).collect();
    (!words.is_empty()).then(|| words.join(", "))
}

fn gpus(node: &Node) -> Option<String> {
    counted(node.gpu_models().map(|(_, model)| model)).or_else(|| Some(NONE.to_owned()))
}

/// Active ports that NCCL may use.
fn usable(node: &Node) -> impl Iterator<Item = &HcaPort> {
    node.inventory.hca_ports.iter().filter(|port| port.is_active() && node.may_use(port))
}

fn hcas(node: &Node) -> Option<String> {
    let kinds: Vec<String> = usable(node).map(|port| format!("{} {}", port.link_layer, port.rate)).collect();
    counted(kinds.iter().map(|kind| kind.trim())).or_else(|| Some(NONE.to_owned()))
}

fn hca_names(node: &Node) -> String {
    let mut names: Vec<String> = usable(node).map(port_name).collect();
    names.sort_by(|a, b| by_number(a, b));
    if names.is_empty() { NONE.to_owned() } else { fold(&names) }
}

fn firmware(facts: &Facts) -> Outcomes {
    // Other boards have other firmware: each is compared with its own kind.
    let mut boards: BTreeMap<&str, BTreeMap<&str, Vec<&str>>> = BTreeMap::new();
    for node in &facts.nodes {
        for hca in node.inventory.hca_details.iter().filter(|hca| !hca.firmware.is_empty() && !hca.board.is_empty()) {
            let hosts = boards.entry(&hca.board).or_default().entry(&hca.firmware).or_default();
            if hosts.last() != Some(&node.host.as_str()) {
                hosts.push(&node.host);
            }
        }
    }
    if boards.is_empty() {
        return about_all(facts, Outcome::skip("no HCA tells board and firmware"));
    }
    let mixed: Vec<Fault> = boards
        .iter()
        .filter(|(_, versions)| versions.len() > 1)
        .map(|(board, versions)| {
            let words: Vec<String> =
                versions.iter().map(|(version, hosts)| format!("{version} on {}", fold(hosts))).collect();
            Fault::warn(format!("{board}: {}", words.join("; ")))
        })
        .collect();
    let words: Vec<String> = boards
        .iter()
        .map(|(board, versions)| format!("{board}: {}", versions.keys().copied().collect::<Vec<_>>().join(", ")))
        .collect();
    about_all(facts, Outcome::unless(mixed, words.join("; ")))
}

fn ofed(node: &Node) -> Option<String> {
    let is_nvidia = node.inventory.hca_details.iter().any(|hca| hca.vendor == "15b3");
    is_nvidia.then(|| node.inventory.system.ofed.as_ref().map_or(NONE.to_owned(), |ofed| ofed.version.clone()))
}

fn cpu(node: &Node) -> Option<String> {
    let model = known(&node.inventory.cpu_model)?;
    Some(format!("{} x {model}", node.inventory.cpus))
}

fn memory(node: &Node) -> Option<String> {
    // As where a run looks at it: a few reserved pages are no difference.
    (node.inventory.memory_bytes > 0).then(|| Size(node.inventory.memory_bytes >> 33 << 33).to_string())
}

/// Differences that are named; the others are counted.
const SHOWN: usize = 6;

fn wiring(facts: &Facts) -> Outcomes {
    if facts.nodes.len() < 2 {
        return about_all(facts, Outcome::skip("fewer than two nodes"));
    }
    if facts.nodes.iter().all(|node| node.machine.gpus.is_empty() && node.machine.hcas.is_empty()) {
        return about_all(facts, Outcome::skip("no GPU and no HCA shows its place"));
    }
    let survey = Survey::of(facts.nodes.iter().map(|node| (node.host.clone(), node.machine.clone())).collect());
    let mut all = Vec::new();
    for of_group in survey.differences.chunk_by(|a, b| a.hosts == b.hosts) {
        let shown = of_group.iter().take(SHOWN);
        let mut words: Vec<String> =
            shown.map(|other| format!("{}: {}, most have {}", other.what, other.own, other.most)).collect();
        let more = of_group.len().saturating_sub(SHOWN);
        if more > 0 {
            words.push(format!("and {more} more"));
        }
        all.push((of_group[0].hosts.clone(), Fault::warn(words.join("; ")).into()));
    }
    if all.is_empty() { about_all(facts, Outcome::pass("no difference")) } else { all }
}
