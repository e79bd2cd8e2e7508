//! How ranks are connected, by NCCL's own log, and what that proves of an arm.

use std::{cell::RefCell, collections::BTreeMap, rc::Rc};

use gdrtune_profiles::gdr::Log;
use gdrtune_wire::{EngineReport, NetworkUse};

use crate::cluster::ClusterNote;

/// Hears what the workers of every set of processes run with, while they are measured.
#[derive(Debug, Clone, Default)]
pub struct Paths(Rc<RefCell<BTreeMap<u32, Vec<EngineReport>>>>);

/// A rank's connections to other nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RankPath {
    /// The rank.
    pub rank: u32,
    /// By NCCL's log; nothing where there is none.
    pub network: Option<NetworkUse>,
}

impl Paths {
    /// What a bench tells its notes to.
    pub fn listener(&self) -> Box<dyn FnMut(ClusterNote)> {
        let heard = Rc::clone(&self.0);
        Box::new(move |note| {
            if let ClusterNote::WorkersStarted { process, ranks, .. } = note {
                heard.borrow_mut().insert(process, ranks);
            }
        })
    }

    /// The ranks of a set of processes, in order; none where it was never heard of.
    pub(super) fn ranks_of(&self, process: u32) -> Vec<RankPath> {
        let heard = self.0.borrow();
        let reports = heard.get(&process).map(Vec::as_slice).unwrap_or_default();
        let path = |(rank, report): (u32, &EngineReport)| RankPath { rank, network: report.network.clone() };
        (0..).zip(reports).map(path).collect()
    }

    /// Why connections do without it: what, and what to do.
    pub(super) fn reasons_of(&self, process: u32) -> Vec<(String, String)> {
        let mut log = Log::new();
        for (rank, report) in self.0.borrow().get(&process).into_iter().flatten().enumerate() {
            log.begin(&format!("rank {rank}"));
            report.gdr_log.iter().for_each(|line| log.take(line.as_bytes()));
        }
        log.finish().reasons.into_iter().map(|reason| (reason.what, reason.fix)).collect()
    }
}

/// What the connections of a set of processes prove.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Proof {
    /// All of them are direct.
    All,
    /// None is.
    None,
    /// Some are.
    Part { direct: u64, all: u64 },
    /// They are sockets, which cannot be.
    Sockets,
    /// No rank has a connection over the network.
    NoConnection,
    /// A rank has no log.
    Unknown,
}

pub(super) fn prove(ranks: &[RankPath]) -> Proof {
    let networks: Option<Vec<&NetworkUse>> = ranks.iter().map(|rank| rank.network.as_ref()).collect();
    let Some(networks) = networks.filter(|networks| !networks.is_empty()) else { return Proof::Unknown };
    let sum = |of: fn(&NetworkUse) -> u32| networks.iter().map(|network| u64::from(of(network))).sum::<u64>();
    let all = sum(|network| network.sends) + sum(|network| network.receives);
    let direct = sum(|network| network.gdr_sends) + sum(|network| network.gdr_receives);
    let is_socket = |path: &String| path.starts_with("NET/Socket/");
    if all == 0 {
        Proof::NoConnection
    } else if networks.iter().flat_map(|network| &network.paths).all(is_socket) {
        Proof::Sockets
    } else if direct == all {
        Proof::All
    } else if direct == 0 {
        Proof::None
    } else {
        Proof::Part { direct, all }
    }
}
