//! Ports that every node has, and what is odd about them.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    Evidence, Finding, HCAS, Node, PortId, Verdict,
    ceilings::{Ceilings, Judgement},
    most,
};
use crate::{
    grammar::hca::HcaList,
    topology::{Address, Hca, PcieLink, Port},
    vocab::PcieDistance,
};

/// A port that is up on every node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Usable {
    pub(super) id: PortId,
    /// Position of its HCA, by node.
    pub(super) hcas: Vec<usize>,
    pub(super) is_degraded: bool,
    /// Whether it seems to be for storage or management.
    pub(super) is_other: bool,
}

/// What is to be said of the ports of all nodes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Ports {
    pub(super) usable: Vec<Usable>,
    pub(super) findings: Vec<Finding>,
}

/// Ports of a node that NCCL uses where it is not told otherwise: those that are up, of both link layers that it takes, and not
/// left out by the site.
pub(super) fn by_default(node: &Node<'_>) -> BTreeSet<PortId> {
    let ids = node.machine.hcas.iter().flat_map(ids);
    ids.filter(|id| problem(node, id).is_none() && !is_left_out(node, id)).collect()
}

/// The ports of an HCA of which the source tells more than numbers.
fn told(hca: &Hca) -> impl Iterator<Item = &Port> {
    hca.ports.iter().filter(|port| !port.state.is_empty() || !port.link_layer.is_empty())
}

/// The ports of an HCA; one without a number where the source tells nothing of them.
fn ids(hca: &Hca) -> Vec<PortId> {
    let id = |port| PortId { hca: hca.name.clone(), port };
    let told: Vec<PortId> = told(hca).map(|port| id(Some(port.number))).collect();
    if told.is_empty() { vec![id(None)] } else { told }
}

/// A port on a node as far as it is told of, and where its HCA is.
fn find<'n>(node: &Node<'n>, id: &PortId) -> Result<(usize, Option<&'n Port>), &'static str> {
    let found = node.machine.hcas.iter().enumerate().find(|(_, hca)| hca.name == id.hca);
    let (at, hca) = found.ok_or("is not there")?;
    let port = match id.port {
        None => told(hca).next().is_none().then_some(None),
        Some(number) => told(hca).find(|port| port.number == number).map(Some),
    };
    port.map(|port| (at, port)).ok_or("has other ports there, or none that is told of")
}

/// Why NCCL would not use a port on a node (`src/transport/net_ib/init.cc`, `ncclIbInitDevices`).
fn problem(node: &Node<'_>, id: &PortId) -> Option<String> {
    let port = match find(node, id) {
        Ok((_, port)) => port?,
        Err(why) => return Some(why.to_owned()),
    };
    if port.is_down() {
        return Some(format!("is down ({})", port.state));
    }
    let is_taken = port.link_layer.is_empty() || matches!(port.link_layer.as_str(), "InfiniBand" | "Ethernet");
    (!is_taken).then(|| {
        format!(
            "has the link layer {}: NCCL's verbs transport takes InfiniBand and Ethernet only, and a network plugin such as \
             EFA's does not read NCCL_IB_HCA",
            port.link_layer
        )
    })
}

fn is_left_out(node: &Node<'_>, id: &PortId) -> bool {
    // A list says nothing of a port whose number is not known.
    node.only.as_ref().is_some_and(|list| !list.matches(&id.hca, id.port.unwrap_or(1)))
}

impl Ports {
    /// Looks at all ports of all nodes.
    pub(super) fn of(nodes: &[Node<'_>], ceilings: &Ceilings) -> Self {
        let mut ports = Self::default();
        let all: BTreeSet<PortId> = nodes.iter().flat_map(|node| &node.machine.hcas).flat_map(ids).collect();
        for id in all {
            match common(nodes, &id) {
                Ok(hcas) => ports.usable.push(Usable { id, hcas, is_degraded: false, is_other: false }),
                Err(reasons) => reasons.into_iter().for_each(|why| ports.note(&id, Verdict::Refused, why)),
            }
        }
        ports.take_judgements(ceilings);
        ports.compare(nodes);
        ports
    }

    fn note(&mut self, id: &PortId, verdict: Verdict, evidence: Evidence) {
        self.findings.push(Finding { variable: HCAS, what: id.to_string(), verdict, evidence });
    }

    /// Leaves out what was measured to be no use, unless that is all there is.
    fn take_judgements(&mut self, ceilings: &Ceilings) {
        let mut judged = ceilings.judge();
        let is_useless = |usable: &Usable| matches!(judged.get(&usable.id), Some(Judgement::Useless(_)));
        let keeps = self.usable.iter().any(|usable| !is_useless(usable));
        let mut findings = Vec::new();
        self.usable.retain_mut(|usable| {
            let (is_useless, evidence) = match judged.remove(&usable.id) {
                None => return true,
                Some(Judgement::Useless(evidence)) => (keeps, evidence),
                Some(Judgement::Slow(evidence)) => (false, evidence),
            };
            usable.is_degraded |= !is_useless;
            let verdict = if is_useless { Verdict::Refused } else { Verdict::Degraded };
            findings.push(Finding { variable: HCAS, what: usable.id.to_string(), verdict, evidence });
            !is_useless
        });
        self.findings.extend(findings);
    }

    /// Holds every port against those that serve the GPUs, on each node.
    fn compare(&mut self, nodes: &[Node<'_>]) {
        let mut odd: BTreeMap<(usize, Oddity, String), Vec<&str>> = BTreeMap::new();
        for (at, node) in nodes.iter().enumerate() {
            let seen: Vec<Seen<'_>> = self.usable.iter().map(|usable| Seen::of(node, at, usable)).collect();
            let Some(usual) = Usual::of(&seen) else { return };
            for (port, seen) in seen.iter().enumerate() {
                for (oddity, text) in usual.oddities(seen) {
                    odd.entry((port, oddity, text)).or_default().push(node.host);
                }
            }
        }
        for ((port, oddity, text), hosts) in odd {
            let Some(usable) = self.usable.get_mut(port) else { continue };
            let is_everywhere = hosts.len() == nodes.len();
            let is_other = oddity == Oddity::OtherKind || (oddity == Oddity::LowerRate && is_everywhere);
            let verdict = if is_other { Verdict::Other } else { Verdict::Degraded };
            *(if is_other { &mut usable.is_other } else { &mut usable.is_degraded }) = true;
            let hosts = if is_everywhere { Vec::new() } else { hosts.into_iter().map(str::to_owned).collect() };
            self.findings.push(Finding {
                variable: HCAS,
                what: usable.id.to_string(),
                verdict,
                evidence: Evidence { hosts, text },
            });
        }
    }
}

/// Where the HCA of a port is on each node, or why the port can be in no list.
fn common(nodes: &[Node<'_>], id: &PortId) -> Result<Vec<usize>, Vec<Evidence>> {
    if HcaList::parse(&format!("={id}")).is_err() {
        let text = "has no name that NCCL_IB_HCA could name: where it is, /sys/class/infiniband has it".to_owned();
        return Err(vec![Evidence { hosts: Vec::new(), text }]);
    }
    let mut problems: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    let mut layers: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut hcas = Vec::new();
    for node in nodes {
        let left_out = || is_left_out(node, id).then(|| "is left out by the site's nccl.conf".to_owned());
        if let Some(problem) = problem(node, id).or_else(left_out) {
            problems.entry(problem).or_default().push(node.host);
        } else if let Ok((at, port)) = find(node, id) {
            hcas.push(at);
            layers.entry(port.map_or("", |port| &port.link_layer)).or_default().push(node.host);
        }
    }
    if problems.is_empty() && layers.len() > 1 {
        let usual = layers.iter().max_by_key(|(_, hosts)| hosts.len()).map(|(layer, _)| *layer).unwrap_or_default();
        let others = layers.iter().filter(|(layer, _)| **layer != usual);
        problems.extend(others.map(|(layer, hosts)| (format!("has {layer}, elsewhere {usual}"), hosts.clone())));
    }
    if problems.is_empty() {
        return Ok(hcas);
    }
    let evidence = |(text, hosts): (String, Vec<&str>)| {
        let is_everywhere = hosts.len() == nodes.len();
        let hosts = if is_everywhere { Vec::new() } else { hosts.into_iter().map(str::to_owned).collect() };
        Evidence { hosts, text }
    };
    Err(problems.into_iter().map(evidence).collect())
}

/// In what a port is not like the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Oddity {
    /// A fault where only some nodes have it; where all do, the port is of another kind.
    LowerRate,
    /// A fault.
    Fault,
    /// What a port for storage or management has.
    OtherKind,
}

/// A port on one node.
struct Seen<'n> {
    layer: &'n str,
    /// In Gbit/s.
    rate: Option<f64>,
    link: PcieLink,
    /// To the GPU that is nearest, used or not.
    nearest: Option<PcieDistance>,
    networks: BTreeSet<String>,
}

impl<'n> Seen<'n> {
    fn of(node: &Node<'n>, at: usize, usable: &Usable) -> Self {
        let machine = node.machine;
        let place = usable.hcas.get(at).copied().unwrap_or(usize::MAX);
        let hca = machine.hcas.get(place);
        let number = usable.id.port;
        let port = hca.and_then(|hca| hca.ports.iter().find(|port| Some(port.number) == number));
        let nets = hca.map(|hca| hca.nets.as_slice()).unwrap_or_default();
        let own = machine.interfaces.iter().filter(|interface| nets.contains(&interface.name));
        let networks = own.flat_map(|interface| &interface.addresses).filter_map(Address::network);
        Self {
            layer: port.map_or("", |port| &port.link_layer),
            rate: port.and_then(|port| gbps(&port.rate)),
            link: hca.map(|hca| hca.link).unwrap_or_default(),
            nearest: machine.to_hcas.iter().filter_map(|row| *row.get(place)?).min(),
            networks: networks.map(|(first, bits)| format!("{first}/{bits}")).collect(),
        }
    }
}

/// Gbit/s of the kernel's words, such as `400 Gb/s`.
fn gbps(rate: &str) -> Option<f64> {
    let (number, unit) = rate.split_once(' ')?;
    let number: f64 = number.parse().ok()?;
    if unit.starts_with("Gb") { Some(number) } else { unit.starts_with("Mb").then_some(number / 1e3) }
}

/// What the ports have in common that serve a node's GPUs: those that are nearest to one, or all where nothing is near.
struct Usual<'n> {
    layer: &'n str,
    rate: Option<f64>,
    nearest: Option<PcieDistance>,
    /// A network that most ports are in. Where each rail is a network of its own there is none.
    network: Option<String>,
}

impl<'n> Usual<'n> {
    /// `None` where there are no ports.
    fn of(seen: &[Seen<'n>]) -> Option<Self> {
        let nearest = seen.iter().filter_map(|port| port.nearest).min();
        let serving: Vec<&Seen<'n>> = seen.iter().filter(|port| port.nearest == nearest).collect();
        let layer = most(serving.iter().map(|port| port.layer))?;
        // Of rates that are as frequent the highest: nobody buys a port to have it slower. Whole Mbit/s can be compared.
        let rate = most(serving.iter().filter_map(|port| Some((port.rate? * 1e3) as u64)));
        let networks = most(seen.iter().flat_map(|port| port.networks.iter().cloned()));
        let in_it = |network: &String| seen.iter().filter(|port| port.networks.contains(network)).count();
        let network = networks.filter(|network| seen.len() < 2 * in_it(network));
        Some(Self { layer, rate: rate.map(|mbps| mbps as f64 / 1e3), nearest, network })
    }

    fn oddities(&self, port: &Seen<'_>) -> Vec<(Oddity, String)> {
        let mut found = Vec::new();
        if port.layer != self.layer {
            found.push((
                Oddity::OtherKind,
                format!("has {}, those that serve the GPUs have {}", port.layer, self.layer),
            ));
        }
        if let (Some(own), Some(usual)) = (port.rate, self.rate)
            && own < usual
        {
            let text = format!("has {own} Gb/s, those that serve the GPUs have {usual} Gb/s");
            found.push((Oddity::LowerRate, text));
        }
        if let (Some(own), Some(usual)) = (port.nearest, self.nearest)
            && usual <= PcieDistance::Pxb
            && PcieDistance::Pxb < own
        {
            let (own, usual) = (own.nccl_name(), usual.nccl_name());
            found.push((Oddity::OtherKind, format!("is {own} at best from any GPU, others are {usual}")));
        }
        if let Some(usual) = &self.network
            && !port.networks.is_empty()
            && !port.networks.contains(usual)
        {
            let own: Vec<&str> = port.networks.iter().map(String::as_str).collect();
            found.push((Oddity::OtherKind, format!("is in the network {}, most are in {usual}", own.join(" and "))));
        }
        if port.link.is_narrow() || port.link.is_slow() {
            found.push((Oddity::Fault, format!("has a PCIe link of {}", port.link)));
        }
        found
    }
}
