//! What each row says, without where and how it is drawn: drawing, copying and exporting share it.

use std::{collections::BTreeMap, fmt};

use gdrtune_fleet::hosts::fold;
use gdrtune_profiles::{size::Size, vocab::PcieDistance};
use gdrtune_session::event::{GpuFacts, HcaFacts, NetFacts, NodeFacts, PortFacts};

use super::rows::{Part, Row};
use crate::ui::{
    run::{
        Summary,
        node_groups::{Standing, model, rate, speed},
    },
    text,
};

/// How a row is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Health {
    /// Of a node.
    Node(Standing),
    /// A device that works.
    Good,
    /// Something that needs a look.
    Alert,
    /// A device that is not in use.
    Idle,
    /// Nothing that is good or bad.
    Plain,
}

/// A row in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Words {
    pub(crate) health: Health,
    /// What it is about: a host, a device. Empty for a group.
    pub(crate) name: String,
    /// What is said of it, what matters most first.
    pub(crate) pieces: Vec<String>,
}

impl fmt::Display for Words {
    /// `differs  vh03  GPUs 7 x H200, most have 8 x H200`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let standing = if let Health::Node(standing) = self.health { standing.word() } else { "" };
        let pieces = self.pieces.iter().map(String::as_str);
        let words: Vec<&str> =
            [standing, &self.name].into_iter().chain(pieces).filter(|word| !word.is_empty()).collect();
        f.write_str(&words.join("  "))
    }
}

impl Words {
    /// The words of a row; `None` where it is of a node that is not there any more.
    pub(crate) fn of(summary: &Summary, row: Row) -> Option<Self> {
        match row {
            Row::Group(number) => Self::of_group(summary, number),
            Row::Node(index) => Self::of_node(summary, index),
            Row::Part(index, part) => Self::of_part(summary, index, part),
        }
    }

    fn new(health: Health, name: impl Into<String>, pieces: Vec<String>) -> Self {
        let pieces = pieces.into_iter().filter(|piece| !piece.is_empty()).collect();
        Self { health, name: name.into(), pieces }
    }

    fn of_group(summary: &Summary, number: u32) -> Option<Self> {
        let groups = &summary.node_groups;
        let group = groups.group(number)?;
        let first = summary.nodes.get(group.nodes.first()?)?;
        let mut pieces = vec![format!("{} nodes like {}", group.nodes.len(), first.host)];
        pieces.extend(what_stands_out(summary, *group.nodes.first()?));
        Some(Self::new(Health::Node(groups.standing(group)), "", vec![pieces.join(": ")]))
    }

    fn of_node(summary: &Summary, index: u32) -> Option<Self> {
        let groups = &summary.node_groups;
        let node = summary.nodes.get(&index)?;
        let standing = groups.standing(groups.group_of(index)?);
        Some(Self::new(Health::Node(standing), &node.host, what_stands_out(summary, index).into_iter().collect()))
    }

    fn of_part(summary: &Summary, index: u32, part: Part) -> Option<Self> {
        let groups = &summary.node_groups;
        let facts = groups.facts(index);
        match part {
            Part::Why => Some(Self::new(Health::Alert, "why", vec![groups.group_of(index)?.why().to_owned()])),
            Part::Difference(number) => {
                let mut differences = groups.differences(groups.group_of(index)?);
                let difference = differences.find(|difference| difference.number == number)?;
                let words = format!("{}, most have {}", difference.own, difference.usual);
                Some(Self::new(Health::Alert, difference.name(), vec![words]))
            }
            Part::Detail => {
                let detail = summary.nodes.get(&index)?.detail.clone();
                let detail = if detail.is_empty() { "nothing is known of it yet".to_owned() } else { detail };
                Some(Self::new(Health::Plain, "system", vec![detail]))
            }
            Part::System => Some(system(facts?)),
            Part::Gpu(number) => Some(gpu(number, facts?.gpus.get(usize::from(number))?, facts?)),
            Part::Port(number, place) => {
                let hca = facts?.hcas.get(usize::from(number))?;
                Some(port(hca, hca.ports.get(usize::from(place))?, facts?))
            }
            Part::Net(number) => Some(net(facts?.nets.get(usize::from(number))?)),
            Part::Unreadable(number) => {
                Some(Self::new(Health::Plain, "not read", vec![facts?.unreadable.get(usize::from(number))?.clone()]))
            }
        }
    }
}

/// What is wrong with a node, or else what it has.
fn what_stands_out(summary: &Summary, index: u32) -> Option<String> {
    let groups = &summary.node_groups;
    let group = groups.group_of(index)?;
    if !group.why().is_empty() {
        return Some(group.why().to_owned());
    }
    let differences: Vec<String> = groups
        .differences(group)
        .map(|difference| format!("{} {}, most have {}", difference.name(), difference.own, difference.usual))
        .collect();
    if !differences.is_empty() {
        return Some(differences.join("; "));
    }
    let has = groups.summary(group);
    let told = if has.is_empty() { &summary.nodes.get(&index)?.detail } else { has };
    (!told.is_empty()).then(|| told.to_owned())
}

fn system(facts: &NodeFacts) -> Words {
    let named = |name: &str, value: &str| if value.is_empty() { String::new() } else { format!("{name} {value}") };
    let numa = if facts.numa_nodes == 0 { "?".to_owned() } else { facts.numa_nodes.to_string() };
    let pieces = vec![
        format!("{} {}", text::count(u64::from(facts.cpus), "CPU"), facts.cpu_model).trim().to_owned(),
        format!("NUMA nodes {numa}"),
        format!("memory {}", Size(facts.memory_bytes)),
        named("driver", &facts.driver),
        named("kernel", &facts.kernel),
    ];
    Words::new(Health::Plain, "system", pieces)
}

fn numa(numa: Option<u32>) -> String {
    format!("NUMA {}", numa.map_or("?".to_owned(), |node| node.to_string()))
}

/// With the adapters by their distance, the nearest first: `PIX mlx5_0`, `NODE mlx5_[1-3]`, `SYS mlx5_[4-7]`.
fn gpu(number: u16, gpu: &GpuFacts, facts: &NodeFacts) -> Words {
    let mut by_distance: BTreeMap<(bool, Option<PcieDistance>), Vec<&str>> = BTreeMap::new();
    for (hca, distance) in facts.hcas.iter().zip(gpu.to_hcas.iter().copied().chain(std::iter::repeat(None))) {
        by_distance.entry((distance.is_none(), distance)).or_default().push(&hca.name);
    }
    let words = |((_, distance), hcas): (&(bool, Option<PcieDistance>), &Vec<&str>)| {
        format!("{} {}", distance.map_or("?", PcieDistance::nccl_name), fold(hcas))
    };
    let mut pieces = vec![model(&gpu.model).to_owned(), numa(gpu.numa)];
    pieces.extend(by_distance.iter().map(words));
    pieces.push(gpu.address.clone());
    Words::new(Health::Plain, format!("GPU {number}"), pieces)
}

fn port(hca: &HcaFacts, port: &PortFacts, facts: &NodeFacts) -> Words {
    let usual = usual_rate(facts);
    let is_other = port.is_active() && usual.is_some_and(|usual| usual != port.rate);
    let other = usual.filter(|_| is_other).map_or_else(String::new, |usual| format!("others {}", rate(usual)));
    let health = if port.is_active() && !is_other { Health::Good } else { Health::Alert };
    let state = format!("{} {}", port.state, port.phys_state).trim().to_owned();
    let state = if state.is_empty() { "state ?".to_owned() } else { state };
    let link = format!("{} {}", port.link_layer, rate(&port.rate)).trim().to_owned();
    let pieces = vec![state, link, other, numa(hca.numa), hca.nets.join(" "), hca.address.clone()];
    Words::new(health, format!("{}:{}", hca.name, port.port), pieces)
}

/// The rate of most active ports of a node; `None` where no rate has the most.
fn usual_rate(facts: &NodeFacts) -> Option<&str> {
    let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
    for port in facts.hcas.iter().flat_map(|hca| &hca.ports).filter(|port| port.is_active()) {
        *counts.entry(&port.rate).or_default() += 1;
    }
    let most = counts.values().max().copied()?;
    let mut usual = counts.iter().filter(|(_, count)| **count == most).map(|(rate, _)| *rate);
    let first = usual.next();
    usual.next().map_or(first, |_| None)
}

fn net(net: &NetFacts) -> Words {
    let health = match net.state.as_str() {
        "up" => Health::Good,
        _ => Health::Idle,
    };
    let state = if net.state.is_empty() { "state ?".to_owned() } else { net.state.clone() };
    let mtu = if net.mtu == 0 { String::new() } else { format!("mtu {}", net.mtu) };
    let is_virtual = net.driver.is_empty() && net.address.is_empty();
    let (place, driver) =
        if is_virtual { (String::new(), "virtual".to_owned()) } else { (numa(net.numa), net.driver.clone()) };
    let pieces = vec![state, net.speed_mbps.map_or_else(String::new, speed), mtu, place, driver, net.address.clone()];
    Words::new(health, &net.name, pieces)
}
