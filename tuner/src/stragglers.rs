//! Nodes that are clearly slower than the others, by times of pairs of nodes.
//!
//! Every node is measured with two partners ([`ring`]), with a small and a large message. A slow link between two nodes makes
//! one pair slow; a slow node makes both of its pairs slow, so its *better* pair is held against the median of the pairs that
//! it is not in. Must not decide anything: whoever runs it names the nodes, and the user leaves them out or not.

use std::collections::BTreeSet;

use crate::stats;

/// A node whose better pair takes this many times the others' median for the large message is slow: a link that came up at
/// half its rate, or lost a lane, is beyond it, and neighbours on an oversubscribed switch are not.
const SLOW_LARGE: f64 = 1.4;

/// The same for the small message, whose times scatter more (15 to 130 % on one machine).
const SLOW_SMALL: f64 = 2.0;

/// Standard deviations of the others by which it must be beyond their median, so that a cluster whose pairs all differ has
/// no stragglers.
const SURE: f64 = 4.0;

/// Nodes below which nobody can tell which of a pair is slow.
pub const LEAST_NODES: usize = 3;

/// Nodes from which on pairs without a common node are measured at the same time: one after the other, 16 pairs take about
/// two seconds.
const PARALLEL_FROM: usize = 16;

/// Times of one pair, in microseconds; `None` where it failed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pair {
    /// The nodes, by their places.
    pub nodes: (usize, usize),
    /// Of the small message.
    pub small_us: Option<f64>,
    /// Of the large message.
    pub large_us: Option<f64>,
}

/// What a node is slow at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Slow {
    /// Nothing comes through.
    Silent,
    /// Large messages.
    Large,
    /// Small messages.
    Small,
}

/// A node that is slower than the others.
#[derive(Debug, Clone, PartialEq)]
pub struct Straggler {
    /// Its place.
    pub node: usize,
    /// The worst that it is slow at.
    pub slow: Slow,
    /// The nodes that it was measured with.
    pub partners: Vec<usize>,
    /// Time of its better pair; infinite where it is silent.
    pub own_us: f64,
    /// Median time of the pairs without it.
    pub others_us: f64,
    /// Whether it cannot be that only its partners are slow.
    pub is_certain: bool,
}

/// Pairs in which every node has two partners, its neighbours.
pub fn ring(nodes: usize) -> Vec<(usize, usize)> {
    if nodes < LEAST_NODES { Vec::new() } else { (0..nodes).map(|node| (node, (node + 1) % nodes)).collect() }
}

/// In which order the pairs of [`ring`] are measured: those of one round at the same time. In small clusters each pair has a
/// round of its own.
pub fn rounds(nodes: usize) -> Vec<Vec<usize>> {
    if nodes < PARALLEL_FROM {
        return ring(nodes).iter().enumerate().map(|(pair, _)| vec![pair]).collect();
    }
    // In a ring of odd length the last pair has a node in common with either half.
    let paired = nodes - nodes % 2;
    let mut rounds: Vec<Vec<usize>> = (0..2).map(|first| (first..paired).step_by(2).collect()).collect();
    if paired < nodes {
        rounds.push(vec![paired]);
    }
    rounds
}

/// The slow nodes, in order.
pub fn find(pairs: &[Pair]) -> Vec<Straggler> {
    let mut found = slow_at(pairs, Slow::Large, SLOW_LARGE, |pair| pair.large_us);
    let mut at_small = slow_at(pairs, Slow::Small, SLOW_SMALL, |pair| pair.small_us);
    at_small.retain(|new| found.iter().all(|known| known.node != new.node));
    found.extend(at_small);
    found.sort_by_key(|straggler| straggler.node);
    found
}

fn slow_at(pairs: &[Pair], slow: Slow, factor: f64, time: fn(&Pair) -> Option<f64>) -> Vec<Straggler> {
    let nodes: BTreeSet<usize> = pairs.iter().flat_map(|pair| [pair.nodes.0, pair.nodes.1]).collect();
    let us = |pair: &Pair| time(pair).unwrap_or(f64::INFINITY);
    let judge = |&node: &usize| {
        let (own, others): (Vec<&Pair>, Vec<&Pair>) =
            pairs.iter().partition(|pair| pair.nodes.0 == node || pair.nodes.1 == node);
        if own.len() < 2 {
            return None;
        }
        let own_us = own.iter().map(|pair| us(pair)).fold(f64::INFINITY, f64::min);
        let others_us = stats::median(&others.iter().map(|pair| us(pair)).collect::<Vec<_>>())?;
        let logs: Vec<f64> = others.iter().map(|pair| us(pair).ln()).filter(|log| log.is_finite()).collect();
        let bound = factor.ln().max(SURE * stats::robust_deviation(&logs)?);
        let is_slow = others_us.is_finite() && own_us.ln() - others_us.ln() > bound;
        let partner = |pair: &&Pair| if pair.nodes.0 == node { pair.nodes.1 } else { pair.nodes.0 };
        let partners: BTreeSet<usize> = own.iter().map(partner).collect();
        let slow = if own_us.is_finite() { slow } else { Slow::Silent };
        let partners = partners.into_iter().collect();
        is_slow.then_some(Straggler { node, slow, partners, own_us, others_us, is_certain: true })
    };
    let mut found: Vec<Straggler> = nodes.iter().filter_map(judge).collect();
    // A pair with a node that has a good pair elsewhere is slow for this one.
    let slow_nodes: BTreeSet<usize> = found.iter().map(|straggler| straggler.node).collect();
    for straggler in &mut found {
        straggler.is_certain = straggler.partners.iter().any(|partner| !slow_nodes.contains(partner));
    }
    found
}

#[cfg(test)]
mod tests {
    use gdrtune_profiles::vocab::{Collective, Point};

    use super::*;
    use crate::{
        bench::{Bench as _, Cancel, Item, Outcome, Script, Setup},
        sim::{Cluster, SimConfig, Simulated},
    };

    /// A ring in which slow nodes make their pairs take `factor` as long.
    fn pairs(nodes: usize, slow: &[usize], factor: f64) -> Vec<Pair> {
        let of = |(a, b): (usize, usize)| {
            let factor = if slow.contains(&a) || slow.contains(&b) { factor } else { 1.0 };
            // A few percent of scatter, which is no noise of a clock: the same every time.
            let scatter = 1.0 + 0.01 * (a % 4) as f64;
            Pair { nodes: (a, b), small_us: Some(20.0 * scatter), large_us: Some(700.0 * factor * scatter) }
        };
        ring(nodes).into_iter().map(of).collect()
    }

    fn found(pairs: &[Pair]) -> Vec<(usize, Slow, bool)> {
        find(pairs).into_iter().map(|straggler| (straggler.node, straggler.slow, straggler.is_certain)).collect()
    }

    #[test]
    fn slow_nodes_are_told_from_slow_pairs() {
        let large = |node| (node, Slow::Large, true);
        for (nodes, slow, expected) in [
            (3, &[1][..], vec![large(1)]),
            (4, &[0], vec![large(0)]),
            (16, &[], vec![]),
            (16, &[7], vec![large(7)]),
            (16, &[7, 8], vec![large(7), large(8)]),
            (16, &[3, 12], vec![large(3), large(12)]),
            // The one in between may be as good as any.
            (16, &[3, 5], vec![large(3), (4, Slow::Large, false), large(5)]),
        ] {
            assert_eq!(found(&pairs(nodes, slow, 2.8)), expected, "{nodes} nodes, {slow:?} slow");
        }
        let mut one_link = pairs(8, &[], 1.0);
        one_link[3].large_us = Some(9e9);
        assert_eq!(found(&one_link), [], "a slow link is no slow node");
        assert_eq!(found(&pairs(8, &[2], 1.2)), [], "a fifth slower is not clearly slower");
        assert_eq!(found(&pairs(2, &[0], 9.0)), [], "of two nodes nobody can tell");
        let straggler = &find(&pairs(16, &[7], 2.0))[0];
        assert_eq!(straggler.partners, [6, 8]);
        assert!((1.9..2.1).contains(&(straggler.own_us / straggler.others_us)), "{straggler:?}");
    }

    #[test]
    fn a_silent_node_and_one_with_a_long_way_are_found_too() {
        let mut mixed = pairs(8, &[], 1.0);
        for pair in [1, 2] {
            (mixed[pair].small_us, mixed[pair].large_us) = (None, None);
        }
        for pair in [4, 5] {
            mixed[pair].small_us = Some(95.0);
        }
        assert_eq!(found(&mixed), [(2, Slow::Silent, true), (5, Slow::Small, true)]);
        let all = mixed.iter().map(|pair| Pair { small_us: None, large_us: None, ..*pair }).collect::<Vec<_>>();
        assert_eq!(found(&all), [], "where nothing comes through, no node is worse than the others");
    }

    #[test]
    fn no_node_is_in_two_pairs_of_a_round_and_all_pairs_are_measured() {
        for nodes in [3, 8, 16, 17, 64, 65] {
            let (ring, rounds) = (ring(nodes), rounds(nodes));
            let mut all: Vec<usize> = rounds.concat();
            all.sort_unstable();
            assert_eq!(all, (0..nodes).collect::<Vec<_>>());
            for round in &rounds {
                let busy: Vec<usize> = round.iter().flat_map(|&pair| [ring[pair].0, ring[pair].1]).collect();
                assert_eq!(busy.iter().collect::<BTreeSet<_>>().len(), busy.len(), "{nodes}: {round:?}");
            }
            assert!(nodes < 64 || rounds.len() <= 3);
        }
    }

    const TWO_NODES: &str = include_str!("../clusters/slow-hca.toml");

    /// Median of three samples at 1 KiB and 32 MiB of two simulated nodes; one may have a NIC at a quarter of its rate.
    fn simulated(is_slow: bool, seed: u64) -> (Option<f64>, Option<f64>) {
        let text = TWO_NODES.replace("nodes = 8", "nodes = 2");
        let text = if is_slow { text } else { text.replace(", slowest_gbs = 12.0", "") };
        let cluster = Cluster::parse(&text, "two-nodes.toml").unwrap();
        let mut bench = Simulated::new(cluster, SimConfig { seed, read_deployment: None });
        let item = |bytes| Item { point: Point { collective: Collective::AllReduce, bytes }, choice: None, repeats: 3 };
        let script = Script { setup: Setup::Site, fresh: false, items: vec![item(1 << 10), item(32 << 20)] };
        let mut times = [Vec::new(), Vec::new()];
        bench
            .run(&script, &Cancel::new(), &mut |sample| {
                if let Outcome::Timed(timing) = sample.outcome {
                    times[sample.item].push(timing.time_us);
                }
            })
            .unwrap();
        (stats::median(&times[0]), stats::median(&times[1]))
    }

    #[test]
    fn a_bad_nic_of_a_simulated_node_is_found_and_good_nodes_are_left_alone() {
        for seed in 0..40 {
            let nodes = if seed % 2 == 0 { 8 } else { 32 };
            let slow = (seed % 4 != 3).then_some(seed as usize % nodes);
            let measured = |(pair, (a, b)): (usize, (usize, usize))| {
                let (small_us, large_us) = simulated(slow == Some(a) || slow == Some(b), 1000 * seed + pair as u64);
                Pair { nodes: (a, b), small_us, large_us }
            };
            let pairs: Vec<Pair> = ring(nodes).into_iter().enumerate().map(measured).collect();
            let expected: Vec<_> = slow.into_iter().map(|node| (node, Slow::Large, true)).collect();
            assert_eq!(found(&pairs), expected, "seed {seed}");
        }
    }
}
