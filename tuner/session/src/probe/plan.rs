//! Which pairs are measured when, and over which ways. Pure.

use gdrtune_profiles::{
    bindings::ceilings::{Ceiling, Failure, Memory, Outcome},
    vocab::PcieDistance,
};
use gdrtune_wire::{HcaPort, Inventory, ProbeWay};

use super::{ProbeMemory, ProbePlan, ProbedLink};

/// All pairs of nodes in rounds, in each of which every node is in at most one pair: a round-robin tournament by the circle
/// method (one node stays, the others move on by one place from round to round). An even number of nodes has one round less than
/// nodes, an odd one as many, with one node sitting out each.
pub fn rounds(nodes: usize) -> Vec<Vec<(usize, usize)>> {
    if nodes < 2 {
        return Vec::new();
    }
    let seats = nodes.next_multiple_of(2);
    let moving = seats - 1;
    (0..moving)
        .map(|round| {
            let seat = |at: usize| if at == 0 { moving } else { (round + at - 1) % moving };
            let pairs = (0..seats / 2).map(|at| (seat(at), seat(seats - 1 - at)));
            // The last seat of an odd number is empty.
            let real = pairs.filter(|(a, b)| *a < nodes && *b < nodes);
            let mut pairs: Vec<(usize, usize)> = real.map(|(a, b)| (a.min(b), a.max(b))).collect();
            pairs.sort_unstable();
            pairs
        })
        .collect()
}

/// `1 pair`, `3 pairs`.
pub(super) fn count_pairs(count: usize) -> String {
    if count == 1 { "1 pair".to_owned() } else { format!("{count} pairs") }
}

/// Ways of a pair.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Ways {
    /// Those that can be measured.
    pub(super) ways: Vec<ProbeWay>,
    /// Those that one of the two nodes cannot use, while the other could.
    pub(super) unusable: Vec<ProbedLink>,
}

/// The ways of a pair: ports of the same HCA and number that are active on both.
pub(super) fn ways(plan: &ProbePlan<'_>, (a, b): (usize, usize)) -> Ways {
    let mut found = Ways::default();
    let (Some(here), Some(there)) = (plan.inventories.get(a), plan.inventories.get(b)) else { return found };
    let mut ports: Vec<(&str, u16)> = [here, there].iter().flat_map(|node| active(node)).collect();
    ports.sort_by(|x, y| gdrtune_profiles::topology::by_number(x.0, y.0).then(x.1.cmp(&y.1)));
    ports.dedup();
    for (hca, port) in ports {
        if plan.only.as_ref().is_some_and(|only| !only.matches(hca, port)) {
            continue;
        }
        let blocked = [(here, a, b), (there, b, a)].map(|(node, own, other)| (why_not(node, hca, port), own, other));
        let usable = blocked.iter().all(|(why, ..)| why.is_none());
        if usable {
            let memories = memories(plan.memory, here, hca);
            found.ways.extend(memories.into_iter().map(|memory| ProbeWay { hca: hca.to_owned(), port, memory }));
        }
        for (why, own, other) in blocked {
            if let Some(why) = why {
                let name = |node: usize| plan.hosts.get(node).map_or(String::new(), |host| host.name.clone());
                let outcome = Outcome::Failed { failure: Failure::Device, why };
                let (node, peer, hca) = (name(own), name(other), hca.to_owned());
                let ceiling = Ceiling { node, hca, port, peer, memory: Memory::Host, outcome };
                found.unusable.push(ProbedLink { ceiling, rates: Vec::new() });
            }
        }
    }
    found
}

fn active(node: &Inventory) -> impl Iterator<Item = (&str, u16)> {
    node.hca_ports.iter().filter(|port| port.is_active()).map(|port| (port.hca.as_str(), port.port))
}

/// Why a node cannot use a port.
fn why_not(node: &Inventory, hca: &str, port: u16) -> Option<String> {
    let found: Option<&HcaPort> = node.hca_ports.iter().find(|known| known.hca == hca && known.port == port);
    match found {
        None => Some(format!("it has no port {port} of {hca}")),
        Some(found) if !found.is_active() => Some(format!("its port is {} {}", found.state, found.phys_state)),
        Some(_) => None,
    }
}

/// Memory to write from: GPUs by their numbers on the first node of the pair, and the same on the other.
fn memories(wanted: ProbeMemory, node: &Inventory, hca: &str) -> Vec<Memory> {
    let gpus = node.topology.gpus.len() as u32;
    match wanted {
        ProbeMemory::Host => vec![Memory::Host],
        ProbeMemory::EveryGpu => (0..gpus).map(Memory::Gpu).collect(),
        ProbeMemory::NearestGpu => {
            let at = node.topology.hcas.iter().position(|known| known.name == hca);
            let distance = |gpu: u32| -> Option<PcieDistance> { *node.topology.distances.get(gpu as usize)?.get(at?)? };
            // Where nothing is known of distances, the first one.
            let nearest = (0..gpus).min_by_key(|&gpu| distance(gpu).map_or((true, None), |known| (false, Some(known))));
            nearest.map(Memory::Gpu).into_iter().collect()
        }
    }
}
