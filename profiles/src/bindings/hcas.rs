//! Candidates for `NCCL_IB_HCA`, and for what depends on which HCAs are there: `NCCL_CROSS_NIC` and `NCCL_NET_GDR_LEVEL`.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    Candidate, Evidence, Finding, Idle, Node, Offer, PortId, Verdict, most,
    ports::{Ports, Usable, by_default},
};
use crate::{
    grammar::hca::{HcaList, MOST_ITEMS},
    setting::Values,
    vocab::PcieDistance,
};

/// The variable.
pub const HCAS: &str = "NCCL_IB_HCA";
/// Whether rings and trees may go from one HCA of a node to another of the next.
pub const CROSS_NIC: &str = "NCCL_CROSS_NIC";
/// Up to which distance NICs read and write GPU memory themselves.
pub const GDR_LEVEL: &str = "NCCL_NET_GDR_LEVEL";

/// Each HCA alone is a candidate up to this many: with more, one alone is a small part of a node's bandwidth.
const MOST_ALONE: usize = 4;

/// Values of [`GDR_LEVEL`] (NCCL `src/graph/topo.cc`, `topoPathTypeStr`), nearest first.
const LEVELS: [&str; 5] = ["LOC", "PIX", "PXB", "PHB", "SYS"];
/// The one that NCCL takes where nothing is set (NCCL `src/graph/paths.cc`, `ncclTopoCheckGdr`; where the GPU is at the CPU by a
/// chip-to-chip link it goes further, which PCI does not show).
const USUAL_LEVEL: usize = 2;
/// The word of that level.
pub const USUAL_GDR_LEVEL: &str = LEVELS[USUAL_LEVEL];

/// Positions of usable ports.
type Set = BTreeSet<usize>;

/// Sets of HCAs for all nodes, and what each is.
pub(super) struct Lists<'a, 'n> {
    nodes: &'a [Node<'n>],
    ports: &'a Ports,
    sets: Vec<(Set, Vec<String>)>,
    pub(super) findings: Vec<Finding>,
}

impl<'a, 'n> Lists<'a, 'n> {
    pub(super) fn of(nodes: &'a [Node<'n>], ports: &'a Ports) -> Self {
        let mut lists = Self { nodes, ports, sets: Vec::new(), findings: Vec::new() };
        let without = |is_out: &dyn Fn(&Usable) -> bool| -> (Set, String) {
            let (out, kept): (Vec<usize>, Vec<usize>) =
                (0..ports.usable.len()).partition(|at| ports.usable.get(*at).is_some_and(is_out));
            (kept.into_iter().collect(), lists_names(ports, out.into_iter()))
        };
        let (sound, degraded) = without(&|port| port.is_degraded);
        let (own, other) = without(&|port| port.is_other);
        let (best, odd) = without(&|port| port.is_degraded || port.is_other);
        let all: Set = (0..ports.usable.len()).collect();
        if !degraded.is_empty() && !other.is_empty() {
            lists.add(best, format!("without what is degraded, or seems to be for storage or management: {odd}"));
        }
        if !other.is_empty() {
            lists.add(own, format!("without what seems to be for storage or management: {other}"));
        }
        if !degraded.is_empty() {
            lists.add(sound, format!("without what is degraded: {degraded}"));
        }
        lists.near();
        lists.one_per_gpu();
        let count = ports.usable.len();
        lists.add(
            all,
            if count == 1 {
                "the one that every node has, up".into()
            } else {
                format!("all {count} that every node has, up")
            },
        );
        lists.alone();
        lists
    }

    /// Takes a set in; one that is there gets one more reason.
    fn add(&mut self, set: Set, why: String) {
        if set.is_empty() {
            return;
        }
        match self.sets.iter_mut().find(|(known, _)| *known == set) {
            Some((_, reasons)) => reasons.push(why),
            None => self.sets.push((set, vec![why])),
        }
    }

    fn refuse(&mut self, what: &str, hosts: Vec<String>, text: String) {
        let evidence = Evidence { hosts, text };
        self.findings.push(Finding { variable: HCAS, what: what.to_owned(), verdict: Verdict::Refused, evidence });
    }

    /// Takes the set of every node in where it is the same on all of them.
    fn add_common(&mut self, what: &str, sets: &[Set]) {
        let Some(usual) = most(sets.iter().cloned()) else { return };
        let differing = self.nodes.iter().zip(sets).filter(|(_, set)| **set != usual);
        let hosts: Vec<String> = differing.map(|(node, _)| node.host.to_owned()).collect();
        if hosts.is_empty() {
            return self.add(usual, what.to_owned());
        }
        let names = lists_names(self.ports, usual.into_iter());
        self.refuse(HCAS, hosts, format!("{what} would be another list than on the other nodes, which have {names}"));
    }

    /// Those at a switch with a GPU that is used.
    fn near(&mut self) {
        let ports = self.ports;
        let of_node = |(at, node): (usize, &Node<'_>)| -> Set {
            let is_near = |port: &&(usize, &Usable)| {
                node.distances(port.1, at).any(|(_, distance)| distance.is_some_and(|d| d <= PcieDistance::Pxb))
            };
            ports.usable.iter().enumerate().filter(|port| is_near(&port)).map(|(port, _)| port).collect()
        };
        let sets: Vec<Set> = self.nodes.iter().enumerate().map(of_node).collect();
        self.add_common("those that are PIX or PXB of a GPU that is used", &sets);
    }

    /// For each GPU that is used the nearest that no other has.
    fn one_per_gpu(&mut self) {
        let sets: Vec<Set> =
            self.nodes.iter().enumerate().map(|(at, node)| assign(node, at, &self.ports.usable)).collect();
        self.add_common("for each GPU that is used the nearest HCA that no other has", &sets);
    }

    /// Each rail by itself.
    fn alone(&mut self) {
        let ports = self.ports;
        if !(2..=MOST_ALONE).contains(&ports.usable.len()) {
            return;
        }
        for (at, port) in ports.usable.iter().enumerate() {
            self.add([at].into(), format!("{} alone", port.id));
        }
    }

    /// What may be tried of [`HCAS`].
    pub(super) fn hcas(&mut self) -> Offer {
        let defaults: Vec<BTreeSet<PortId>> = self.nodes.iter().map(by_default).collect();
        let why_none = match self.ports.usable.len() {
            0 if self.nodes.iter().all(|node| node.machine.hcas.is_empty()) => "no node has an HCA",
            0 => "no HCA is there and up on all nodes",
            _ => "the nodes have no other HCAs than NCCL takes by itself",
        };
        let mut offer = Offer::new(HCAS, why_none);
        for (set, reasons) in std::mem::take(&mut self.sets) {
            if set.len() > MOST_ITEMS {
                // NCCL drops the others without a word.
                let text = format!("{} would be {} HCAs, and NCCL reads {MOST_ITEMS}", reasons.join("; "), set.len());
                self.refuse(HCAS, Vec::new(), text);
                continue;
            }
            let ids: BTreeSet<PortId> =
                set.iter().filter_map(|at| self.ports.usable.get(*at)).map(|port| port.id.clone()).collect();
            let value = HcaList::exactly(ids.iter().map(PortId::item).collect()).to_string();
            let is_default = defaults.iter().all(|default| *default == ids);
            offer.candidates.push(Candidate { value, why: reasons.join("; "), alike: Vec::new(), is_default });
            self.sets.push((set, reasons));
        }
        offer
    }

    /// What may be tried of [`CROSS_NIC`]. `None` where no HCA is known at all.
    pub(super) fn cross_nic(&self) -> Option<Offer> {
        if self.nodes.iter().all(|node| node.machine.hcas.is_empty()) {
            return None;
        }
        let mut offer = Offer::new(CROSS_NIC, "there is one rail, or none");
        if self.ports.usable.len() > 1 {
            let candidate = |(value, why, is_default): (&str, &str, bool)| Candidate {
                value: value.to_owned(),
                why: format!("{} rails: {why}", self.ports.usable.len()),
                alike: Vec::new(),
                is_default,
            };
            let known = [
                ("0", "each ring and tree keeps to one", false),
                ("1", "rings and trees may change them", false),
                ("2", "they change only where that is no slower, NCCL's own", true),
            ];
            offer.candidates = known.into_iter().map(candidate).collect();
        }
        Some(offer)
    }

    /// What may be tried of [`GDR_LEVEL`]: of levels with the same effect here the first. `None` where no distance is known.
    pub(super) fn gdr_levels(&self) -> Option<Offer> {
        let all: Set = (0..self.ports.usable.len()).collect();
        let pairs = self.pairs(&all);
        if pairs.iter().sum::<usize>() == 0 {
            return None;
        }
        let mut offer = Offer::new(GDR_LEVEL, "no level changes anything here");
        for group in levels_by_effect(&pairs) {
            let Some((first, alike)) = group.split_first() else { continue };
            let reached: usize = pairs.iter().take(first + 1).sum();
            let why = format!("GPUDirect RDMA for {reached} of {} pairs of GPU and HCA", pairs.iter().sum::<usize>());
            let alike = alike.iter().filter_map(|level| Some((*LEVELS.get(*level)?).to_owned())).collect();
            let value = LEVELS.get(*first).copied().unwrap_or_default().to_owned();
            offer.candidates.push(Candidate { value, why, alike, is_default: group.contains(&USUAL_LEVEL) });
        }
        Some(offer)
    }

    /// What does nothing with a list: [`CROSS_NIC`] where there is one HCA, and levels that reach the same as NCCL's own.
    pub(super) fn idle(&self, hcas: &Offer) -> Vec<Idle> {
        let values = |value: &str| Values { name: HCAS.to_owned(), values: vec![value.to_owned()] };
        let mut idle = Vec::new();
        for ((set, _), candidate) in self.sets.iter().zip(&hcas.candidates) {
            let with = values(&candidate.value);
            if set.len() == 1 {
                let knob = Values { name: CROSS_NIC.to_owned(), values: Vec::new() };
                idle.push(Idle { with: with.clone(), knob });
            }
            let pairs = self.pairs(set);
            let usual = levels_by_effect(&pairs).into_iter().find(|group| group.contains(&USUAL_LEVEL));
            if pairs.iter().sum::<usize>() > 0 {
                idle.push(Idle { with, knob: levels(usual.unwrap_or_default()) });
            }
        }
        idle
    }

    /// Levels that are the same as another one with a list, though not as NCCL's own.
    pub(super) fn forbidden(&self, hcas: &Offer) -> Vec<Vec<Values>> {
        let whole = self.pairs(&(0..self.ports.usable.len()).collect());
        let mut forbidden = Vec::new();
        for ((set, _), candidate) in self.sets.iter().zip(&hcas.candidates) {
            let groups = levels_by_effect(&self.pairs(set)).into_iter().filter(|group| !group.contains(&USUAL_LEVEL));
            for group in groups {
                // A space has at most one of the levels that are the same with all HCAs.
                let kept = first_of_its_own(&group, &whole).unwrap_or_default();
                let others: Vec<usize> = group.into_iter().filter(|level| !kept.contains(level)).collect();
                if !others.is_empty() {
                    let list = Values { name: HCAS.to_owned(), values: vec![candidate.value.clone()] };
                    forbidden.push(vec![list, levels(others)]);
                }
            }
        }
        forbidden
    }

    /// Pairs of a GPU that is used and an HCA of the set, over all nodes, by the level that reaches them.
    fn pairs(&self, set: &Set) -> [usize; LEVELS.len()] {
        let mut pairs = [0; LEVELS.len()];
        for (at, node) in self.nodes.iter().enumerate() {
            for port in set.iter().filter_map(|port| self.ports.usable.get(*port)) {
                for level in node.distances(port, at).filter_map(|(_, distance)| Some(level(distance?))) {
                    if let Some(count) = pairs.get_mut(level) {
                        *count += 1;
                    }
                }
            }
        }
        pairs
    }
}

/// Of levels with one effect under a list, those with the effect of the first of them where all HCAs are used: a space has at most
/// one of these.
fn first_of_its_own(group: &[usize], whole: &[usize; LEVELS.len()]) -> Option<Vec<usize>> {
    let first = group.first()?;
    levels_by_effect(whole).into_iter().find(|levels| levels.contains(first))
}

fn levels(levels: Vec<usize>) -> Values {
    let names = levels.into_iter().filter_map(|level| Some((*LEVELS.get(level)?).to_owned()));
    Values { name: GDR_LEVEL.to_owned(), values: names.collect() }
}

/// The level that reaches a distance. NCCL has no word of its own for NODE: host bridges of one NUMA node are PHB to it
/// (`src/graph/topo.cc` hangs them at one CPU; env.rst, `NCCL_NET_GDR_LEVEL`).
const fn level(distance: PcieDistance) -> usize {
    match distance {
        PcieDistance::Pix => 1,
        PcieDistance::Pxb => 2,
        PcieDistance::Phb | PcieDistance::Node => 3,
        PcieDistance::Sys => 4,
    }
}

/// Whether NCCL uses GPUDirect RDMA over a distance with a value of [`GDR_LEVEL`]; `None` for a value that is no level. A number is
/// one of the old levels, of which all from 4 on are SYS (NCCL `src/graph/paths.cc`, `levelsOldToNew`).
pub fn gdr_reaches(value: &str, distance: PcieDistance) -> Option<bool> {
    let by_name = LEVELS.iter().position(|known| *known == value);
    let most = by_name.or_else(|| Some(value.parse::<usize>().ok()?.min(LEVELS.len() - 1)))?;
    Some(level(distance) <= most)
}

/// Levels in groups that reach the same pairs.
fn levels_by_effect(pairs: &[usize; LEVELS.len()]) -> Vec<Vec<usize>> {
    let mut groups: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    let mut reached = 0;
    for (level, count) in pairs.iter().enumerate() {
        reached += count;
        groups.entry(reached).or_default().push(level);
    }
    groups.into_values().collect()
}

/// Gives each GPU that is used the nearest port that no other has, the nearest pairs first, ties by name; where ports are short,
/// GPUs share.
fn assign(node: &Node<'_>, at: usize, usable: &[Usable]) -> Set {
    let of_port = |(port, usable): (usize, &Usable)| {
        node.distances(usable, at).filter_map(move |(gpu, distance)| Some((distance?, gpu, port))).collect::<Vec<_>>()
    };
    let mut pairs: Vec<(PcieDistance, usize, usize)> = usable.iter().enumerate().flat_map(of_port).collect();
    pairs.sort_unstable();
    let (mut taken, mut served) = (Set::new(), BTreeSet::new());
    for (_, gpu, port) in pairs {
        if !served.contains(&gpu) && !taken.contains(&port) {
            served.insert(gpu);
            taken.insert(port);
        }
    }
    taken
}

fn lists_names(ports: &Ports, at: impl Iterator<Item = usize>) -> String {
    let names = at.filter_map(|at| ports.usable.get(at)).map(|port| port.id.to_string());
    names.collect::<Vec<_>>().join(", ")
}
