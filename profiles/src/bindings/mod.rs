//! Which devices a job can be bound to, as values of NCCL's variables: candidates from how the nodes are wired, each with why, and
//! what is no candidate, with why not. Pure, and no engine's: whoever reads these variables by NCCL's rules can take them.
//!
//! A list is one for all nodes, so what not every node has is in no candidate. Names are whole names, with `=`, and ports are
//! named. What a candidate is worth is not said here: that is measured.

pub mod ceilings;
mod hcas;
mod interfaces;
mod ports;
#[cfg(test)]
mod tests;

use std::{cmp::Ordering, collections::BTreeMap, fmt};

use serde::{Deserialize, Serialize};

use self::{
    ceilings::Ceilings,
    hcas::Lists,
    ports::{Ports, Usable},
};
pub use self::{
    hcas::{CROSS_NIC, GDR_LEVEL, HCAS, USUAL_GDR_LEVEL, gdr_reaches},
    interfaces::INTERFACES,
};
use crate::{
    grammar::hca::{HcaItem, HcaList},
    setting::Values,
    topology::{Machine, by_number},
    vocab::PcieDistance,
};

/// A node, as far as it matters for bindings.
#[derive(Debug, Clone)]
pub struct Node<'n> {
    /// Its name.
    pub host: &'n str,
    /// The same text on two nodes that are one machine; empty where unknown.
    pub machine_id: &'n str,
    /// What it has.
    pub machine: &'n Machine,
    /// Positions of the GPUs that are used; `None`: any of them.
    pub gpus: Option<Vec<usize>>,
    /// What the site's own settings leave of its HCAs, where they say so and a job keeps to it.
    pub only: Option<HcaList>,
}

impl<'n> Node<'n> {
    /// A node whose GPUs are all used.
    pub const fn whole(host: &'n str, machine: &'n Machine) -> Self {
        Self { host, machine_id: "", machine, gpus: None, only: None }
    }

    /// From each GPU that is used to the HCA of a port, this being the node of position `at`.
    fn distances(&self, port: &Usable, at: usize) -> impl Iterator<Item = (usize, Option<PcieDistance>)> {
        let hca = port.hcas.get(at).copied();
        let is_used = |gpu: usize| self.gpus.as_ref().is_none_or(|used| used.contains(&gpu));
        let rows = self.machine.to_hcas.iter().enumerate().filter(move |(gpu, _)| is_used(*gpu));
        rows.map(move |(gpu, row)| (gpu, hca.and_then(|hca| row.get(hca).copied().flatten())))
    }
}

/// What a job can be bound to. The default is that nothing is known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Bindings {
    /// By variable; one of which nothing is known is not in it.
    pub offers: Vec<Offer>,
    /// What is odd about single HCAs, ports and interfaces.
    pub findings: Vec<Finding>,
    /// What does nothing with some values of another variable.
    pub idle: Vec<Idle>,
    /// Settings that together are the same as others.
    pub forbidden: Vec<Vec<Values>>,
    /// Interfaces that carry data on a node where [`INTERFACES`] is not set, the most of any node; 0 where unknown.
    pub interfaces: u16,
}

/// A variable that does nothing where another has some value: it is as good as unset there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Idle {
    /// The other one.
    pub with: Values,
    /// The variable, with those of its values that do nothing.
    pub knob: Values,
}

/// What may be tried of a variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    /// The variable.
    pub variable: &'static str,
    /// Its values, what seems best first; no two mean the same.
    pub candidates: Vec<Candidate>,
    /// Why there is nothing to try, where that is so.
    pub why_none: String,
}

/// A value of a variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// The value.
    pub value: String,
    /// What it is, in words.
    pub why: String,
    /// Values that mean the same here.
    pub alike: Vec<String>,
    /// Whether leaving the variable unset means the same.
    pub is_default: bool,
}

/// Something odd about a port or an interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The variable whose values it could be part of.
    pub variable: &'static str,
    /// Of which: `mlx5_0:1`, `eth0`.
    pub what: String,
    /// What follows.
    pub verdict: Verdict,
    /// What speaks for it.
    pub evidence: Evidence,
}

/// What follows from a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It is in no candidate.
    Refused,
    /// It is slower than it should be; there are candidates without it.
    Degraded,
    /// It seems to be for storage or management; there are candidates without it.
    Other,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Refused => "not bound",
            Self::Degraded => "degraded",
            Self::Other => "storage or management?",
        })
    }
}

/// What speaks for something, and where.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    /// Nodes of which it holds; none: all of them.
    pub hosts: Vec<String>,
    /// What, in words.
    pub text: String,
}

impl Bindings {
    /// What the wiring of these nodes allows, less what was measured to be no use.
    pub fn of(nodes: &[Node<'_>], ceilings: &Ceilings) -> Self {
        let ports = Ports::of(nodes, ceilings);
        let mut lists = Lists::of(nodes, &ports);
        let hcas = lists.hcas();
        let (idle, forbidden) = (lists.idle(&hcas), lists.forbidden(&hcas));
        let mut offers = vec![hcas];
        offers.extend(lists.cross_nic());
        offers.extend(lists.gdr_levels());
        let mut findings = lists.findings;
        findings.splice(0..0, ports.findings);
        if let Some((interfaces, odd)) = interfaces::interfaces(nodes) {
            offers.push(interfaces);
            findings.extend(odd);
        }
        Self { offers, findings, idle, forbidden, interfaces: interfaces::by_default(nodes) }
    }

    /// What may be tried of a variable; `None` where nothing is known.
    pub fn offer(&self, variable: &str) -> Option<&Offer> {
        self.offers.iter().find(|offer| offer.variable == variable)
    }

    /// Why a value is a candidate.
    pub fn why(&self, variable: &str, value: &str) -> Option<&str> {
        Some(self.offer(variable)?.candidate(value)?.why.as_str())
    }

    /// A variable is not unset where the site sets it: what would be the same as unset is something else there.
    pub fn set_by_site(&mut self, variable: &str) {
        let offers = self.offers.iter_mut().filter(|offer| offer.variable == variable);
        offers.flat_map(|offer| &mut offer.candidates).for_each(|candidate| candidate.is_default = false);
    }
}

impl Offer {
    fn new(variable: &'static str, why_none: &str) -> Self {
        Self { variable, candidates: Vec::new(), why_none: why_none.to_owned() }
    }

    fn candidate(&self, value: &str) -> Option<&Candidate> {
        let is_it = |known: &&Candidate| known.value == value || known.alike.iter().any(|alike| alike == value);
        self.candidates.iter().find(is_it)
    }

    /// Values that differ from leaving the variable unset.
    pub fn values(&self) -> Vec<String> {
        self.candidates.iter().filter(|known| !known.is_default).map(|known| known.value.clone()).collect()
    }

    /// Of these values those that change something, one of each that mean the same; what is no candidate is the user's business.
    pub fn useful(&self, listed: &[String]) -> Vec<String> {
        let mut taken: Vec<&Candidate> = Vec::new();
        let mut is_useful = |value: &&String| {
            let Some(candidate) = self.candidate(value) else { return true };
            let is_new = !candidate.is_default && !taken.contains(&candidate);
            taken.push(candidate);
            is_new
        };
        listed.iter().filter(&mut is_useful).cloned().collect()
    }
}

/// A port of an HCA as a list names it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PortId {
    /// Name of the HCA.
    pub hca: String,
    /// Number of the port, from 1; absent where the source tells of no ports, and all are meant.
    pub port: Option<u16>,
}

impl PortId {
    /// It as an item of a list.
    pub fn item(&self) -> HcaItem {
        HcaItem { name: self.hca.clone(), port: self.port, rail: None, plane: None }
    }
}

impl Ord for PortId {
    fn cmp(&self, other: &Self) -> Ordering {
        by_number(&self.hca, &other.hca).then(self.port.cmp(&other.port))
    }
}

impl PartialOrd for PortId {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for PortId {
    /// `mlx5_0:1`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.item().fmt(f)
    }
}

/// The most frequent value; of several the greatest.
fn most<T: Ord>(values: impl IntoIterator<Item = T>) -> Option<T> {
    let mut counts: BTreeMap<T, usize> = BTreeMap::new();
    for value in values {
        *counts.entry(value).or_default() += 1;
    }
    counts.into_iter().max_by(|(a, n), (b, m)| n.cmp(m).then_with(|| a.cmp(b))).map(|(value, _)| value)
}
