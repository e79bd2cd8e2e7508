//! By what nodes are compared, in words.

use std::{cmp::Reverse, collections::BTreeMap};

use gdrtune_profiles::size::Size;
use gdrtune_session::event::{NetFacts, NodeFacts};

use crate::ui::text;

/// Something that is usually the same on all nodes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Trait {
    /// What it is called.
    pub(super) name: &'static str,
    words: fn(&NodeFacts) -> String,
}

/// All that is compared, what matters most first.
pub(super) const TRAITS: [Trait; 10] = [
    Trait { name: "GPUs", words: gpus },
    Trait { name: "HCA ports", words: ports },
    Trait { name: "idle HCA ports", words: idle_ports },
    Trait { name: "GPU to nearest HCA", words: nearest },
    Trait { name: "NICs", words: nics },
    Trait { name: "driver", words: |facts| or_none(&facts.driver) },
    Trait { name: "kernel", words: |facts| or_none(&facts.kernel) },
    Trait { name: "CPUs", words: |facts| format!("{} x {}", facts.cpus, or_none(&facts.cpu_model)) },
    Trait { name: "NUMA nodes", words: |facts| facts.numa_nodes.to_string() },
    Trait { name: "memory", words: |facts| Size(facts.memory_bytes).to_string() },
];

/// What a node has, in the order of [`TRAITS`].
pub(super) fn values(facts: &NodeFacts) -> Vec<String> {
    TRAITS.iter().map(|compared| (compared.words)(facts)).collect()
}

/// `8 GPUs H200, 8 HCAs 400 Gb/s`: what a node is, for the line of many that are alike.
pub(super) fn summary(facts: &NodeFacts) -> String {
    let kinds = |items: Vec<String>, noun: &str| {
        let counts = counted(items);
        let words =
            counts.iter().map(|(kind, count)| format!("{} {kind}", text::count(*count, noun)).trim().to_owned());
        if counts.is_empty() { format!("no {noun}") } else { words.collect::<Vec<_>>().join(", ") }
    };
    let gpus = kinds(facts.gpus.iter().map(|gpu| model(&gpu.model).to_owned()).collect(), "GPU");
    let rates = |hca: &gdrtune_session::event::HcaFacts| {
        hca.ports.iter().find(|port| port.is_active()).map_or("idle", |port| rate(&port.rate)).to_owned()
    };
    let hcas = kinds(facts.hcas.iter().map(rates).collect(), "HCA");
    match (facts.gpus.is_empty(), facts.hcas.is_empty()) {
        (true, true) => format!("{gpus}, {hcas}, {}", text::count(u64::from(facts.cpus), "CPU")),
        _ => format!("{gpus}, {hcas}"),
    }
}

/// `H200` of `NVIDIA H200`: the vendor goes without saying.
pub(crate) fn model(model: &str) -> &str {
    model.strip_prefix("NVIDIA ").unwrap_or(model)
}

/// `400 Gb/s` of the kernel's `400 Gb/sec (4X NDR)`.
pub(crate) fn rate(rate: &str) -> &str {
    let number = rate.split_once(" (").map_or(rate, |(number, _)| number);
    number.strip_suffix("ec").unwrap_or(number)
}

/// `100 Gb/s` of megabits.
pub(crate) fn speed(mbps: u32) -> String {
    if mbps < 1000 { format!("{mbps} Mb/s") } else { format!("{} Gb/s", text::trim(f64::from(mbps) / 1e3)) }
}

fn or_none(value: &str) -> String {
    if value.is_empty() { "unknown".to_owned() } else { value.to_owned() }
}

/// Each kind and how many there are, the most frequent first, then by name.
fn counted(items: Vec<String>) -> Vec<(String, u64)> {
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for item in items {
        *counts.entry(item).or_default() += 1;
    }
    let mut counts: Vec<(String, u64)> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| Reverse(*count));
    counts
}

/// `8 x H200, 1 x L4`.
fn list(items: Vec<String>) -> String {
    let words: Vec<String> = counted(items).iter().map(|(kind, count)| format!("{count} x {kind}")).collect();
    if words.is_empty() { "none".to_owned() } else { words.join(", ") }
}

fn gpus(facts: &NodeFacts) -> String {
    list(facts.gpus.iter().map(|gpu| model(&gpu.model).to_owned()).collect())
}

fn ports(facts: &NodeFacts) -> String {
    let ports = facts.hcas.iter().flat_map(|hca| &hca.ports).filter(|port| port.is_active());
    list(ports.map(|port| format!("{} {}", port.link_layer, rate(&port.rate))).collect())
}

fn idle_ports(facts: &NodeFacts) -> String {
    let ports = facts.hcas.iter().flat_map(|hca| hca.ports.iter().map(move |port| (&hca.name, port)));
    let idle = ports.filter(|(_, port)| !port.is_active());
    let words: Vec<String> = idle
        .map(|(hca, port)| format!("{hca}:{} {} {}", port.port, port.state, port.phys_state).trim().to_owned())
        .collect();
    if words.is_empty() { "none".to_owned() } else { words.join(", ") }
}

fn nearest(facts: &NodeFacts) -> String {
    let nearest = |gpu: &gdrtune_session::event::GpuFacts| gpu.to_hcas.iter().flatten().min().copied();
    list(facts.gpus.iter().filter_map(nearest).map(|distance| distance.nccl_name().to_owned()).collect())
}

/// Network devices of hardware; virtual ones come and go.
fn nics(facts: &NodeFacts) -> String {
    let words = |net: &NetFacts| match (net.state.as_str(), net.speed_mbps) {
        ("up" | "unknown", Some(mbps)) => speed(mbps),
        (state, _) => or_none(state),
    };
    list(facts.nets.iter().filter(|net| !net.driver.is_empty()).map(words).collect())
}
