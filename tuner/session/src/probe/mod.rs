//! The RDMA probe: what each way between two nodes carries, way by way, over the same port of both.
//!
//! Pairs of nodes are measured in the rounds of a tournament ([`rounds`]): a node is in at most one pair of a round, so that
//! pairs of a round have no HCA and no PCIe link in common. Within a pair, one way in one direction is measured at a time. Each
//! pair has workers of its own; their ends of the ways meet by way of this module and of nothing else, as no control port listens.

mod pair;
mod plan;
#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use gdrtune_fleet::hosts::Host;
use gdrtune_profiles::{
    bindings::ceilings::{Ceiling, Ceilings, Failure, Outcome},
    grammar::hca::HcaList,
};
use gdrtune_wire::{FromAgent, Inventory, ProbeOutcome, ProbeRate, SessionKey};

use self::pair::PairRun;
pub use self::plan::rounds;
use crate::{
    cluster::link::{Link, LinkEvent},
    lock::Company,
};

/// Longest wait for one event, so that an interrupt is seen.
const POLL: Duration = Duration::from_millis(50);

/// What a probe measures.
#[derive(Debug)]
pub struct ProbePlan<'a> {
    /// The nodes, in rank order; at least two.
    pub hosts: &'a [Host],
    /// What each has.
    pub inventories: &'a [Inventory],
    /// Ports to measure; without a list, all that are active.
    pub only: Option<HcaList>,
    /// What is written from, and to.
    pub memory: ProbeMemory,
    /// Most partners of a node; without a number, all others.
    pub partners: Option<usize>,
    /// Time to measure one way in one direction.
    pub time: Duration,
    /// Key of the run.
    pub key: SessionKey,
}

/// Memory that a probe writes from, and to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProbeMemory {
    /// The host's.
    Host,
    /// Of the GPU that is nearest to each HCA.
    NearestGpu,
    /// Of every GPU, with each HCA.
    EveryGpu,
}

/// What a probe found.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Probe {
    /// Every way in every direction, in the order in which they were measured.
    pub links: Vec<ProbedLink>,
    /// Nodes that were lost meanwhile, and why.
    pub lost: Vec<(String, String)>,
}

/// One way in one direction.
#[derive(Debug, Clone, PartialEq)]
pub struct ProbedLink {
    /// Which it is, and what it carries at most.
    pub ceiling: Ceiling,
    /// Its bandwidth by size of the messages; none where it failed.
    pub rates: Vec<ProbeRate>,
}

impl Probe {
    /// What the search takes: the most that each way carries.
    pub fn ceilings(&self) -> Ceilings {
        Ceilings { links: self.links.iter().map(|link| link.ceiling.clone()).collect() }
    }
}

/// Why there is no probe.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// Too few nodes.
    #[error("a probe measures between nodes, and there is one: name at least two hosts")]
    OneNode,
    /// No port of any HCA that two nodes have.
    #[error("no two hosts have an active port of an HCA of the same name{}", if *.only { " among those of --hca" } else { "" })]
    NoWay {
        /// Whether the user named ports.
        only: bool,
    },
    /// The user wants no more.
    #[error("interrupted while probing")]
    Interrupted,
}

/// Measures every way. Blocks; not for a tokio thread. A way that fails is in the result, and ends nothing.
///
/// # Errors
/// [`ProbeError`] where there is nothing to measure, or the user wants no more; no worker is left then.
pub fn probe(link: &mut dyn Link, plan: &ProbePlan<'_>, company: Company<'_>) -> Result<Probe, ProbeError> {
    if plan.hosts.len() < 2 {
        return Err(ProbeError::OneNode);
    }
    let rounds = rounds(plan.hosts.len());
    let count = plan.partners.map_or(rounds.len(), |most| most.clamp(1, rounds.len()));
    let mut prober = Prober { link, plan, found: Probe::default(), lost: BTreeMap::new(), groups: 0 };
    let has_way = |round: &Vec<(usize, usize)>| round.iter().any(|pair| !plan::ways(plan, *pair).ways.is_empty());
    if !rounds.iter().take(count).any(has_way) {
        return Err(ProbeError::NoWay { only: plan.only.is_some() });
    }
    for (number, round) in (1..).zip(rounds.iter().take(count)) {
        (company.tell)(&format!("round {number} of {count}: {} at a time", plan::count_pairs(round.len())));
        prober.round(round, company)?;
    }
    let name = |node: usize| plan.hosts.get(node).map_or(String::new(), |host| host.name.clone());
    prober.found.lost = prober.lost.into_iter().map(|(node, why)| (name(node), why)).collect();
    Ok(prober.found)
}

struct Prober<'a> {
    link: &'a mut dyn Link,
    plan: &'a ProbePlan<'a>,
    found: Probe,
    /// Nodes that are gone, and why.
    lost: BTreeMap<usize, String>,
    groups: u32,
}

impl Prober<'_> {
    /// Measures the pairs of a round at the same time.
    fn round(&mut self, round: &[(usize, usize)], company: Company<'_>) -> Result<(), ProbeError> {
        let mut runs = Vec::with_capacity(round.len());
        for &pair in round {
            let ways = plan::ways(self.plan, pair);
            self.found.links.extend(ways.unusable);
            self.groups += 1;
            let mut run = PairRun::new(self.groups, pair, ways.ways, self.plan);
            for node in [pair.0, pair.1] {
                if let Some(why) = self.lost.get(&node) {
                    run.lose(node, why);
                }
            }
            run.start(self.link);
            runs.push(run);
        }
        while !runs.iter().all(PairRun::is_over) {
            if (company.interrupted)() {
                for run in &mut runs {
                    run.stop(self.link);
                }
                return Err(ProbeError::Interrupted);
            }
            if let Some(event) = self.link.receive(POLL) {
                self.file(&mut runs, event);
            }
            let now = Instant::now();
            for run in &mut runs {
                run.advance(self.link, now);
            }
        }
        for run in runs {
            let links: Vec<ProbedLink> = run.into_results().into_iter().map(|result| self.link_of(result)).collect();
            self.found.links.extend(links);
        }
        Ok(())
    }

    fn file(&mut self, runs: &mut [PairRun], event: LinkEvent) {
        match event {
            LinkEvent::Log { .. } => {}
            LinkEvent::Lost { node, why } => {
                for run in runs.iter_mut() {
                    run.lose(node, &why);
                }
                self.lost.insert(node, why);
            }
            LinkEvent::Message { node, message } => {
                for run in runs.iter_mut() {
                    match &message {
                        FromAgent::Worker { group, rank, message } => run.file(*group, *rank, message),
                        FromAgent::WorkerEnded { group, rank, cause } => run.file_end(*group, *rank, cause),
                        FromAgent::Refused { why } => run.refuse(node, why),
                        _ => {}
                    }
                }
            }
        }
    }

    fn link_of(&self, (step, outcome): (pair::Step, ProbeOutcome)) -> ProbedLink {
        let name = |node: usize| self.plan.hosts.get(node).map_or(String::new(), |host| host.name.clone());
        let (rates, outcome) = match outcome {
            ProbeOutcome::Measured { rates, latency_us } => {
                // The most that it carries, whatever the size that it takes.
                let gbs = rates.iter().map(|rate| rate.gbs).fold(0.0, f64::max);
                (rates, Outcome::Measured { gbs, us: Some(latency_us) })
            }
            ProbeOutcome::Failed { failure, why } => (Vec::new(), Outcome::Failed { failure, why }),
        };
        let way = step.way;
        let (node, peer) = (name(step.from), name(step.to));
        ProbedLink { ceiling: Ceiling { node, hca: way.hca, port: way.port, peer, memory: way.memory, outcome }, rates }
    }
}

/// A failure in the words of a result.
fn failed(failure: Failure, why: impl Into<String>) -> ProbeOutcome {
    ProbeOutcome::Failed { failure, why: why.into() }
}
