//! What a probe measured over single HCAs: how fast each one is, and where it failed. Who measures is no matter here.

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Serialize};

use super::{Evidence, PortId};
use crate::stats::median;

/// Slower than this share of its peers' median, an HCA is left out of all candidates. Collectives deal the data out evenly, so
/// that `n` rails with one at share `s` are as fast as `n * s` of the others: over both of two rails that is less than over the
/// other one alone where `s` is below a half, and over more rails it is so the sooner.
pub const LEAST_SHARE: f64 = 0.5;

/// Slower than this share of its peers' median, an HCA counts as degraded: the search has candidates with and without it.
/// Repeated medians of one link differ by a few percent.
pub const USUAL_SHARE: f64 = 0.9;

/// What was measured, one HCA of one node to one peer at a time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Ceilings {
    /// In any order; several of one way are several measurements.
    pub links: Vec<Ceiling>,
}

/// One way between two nodes over the HCAs of one name, and what came of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ceiling {
    /// Host name of the node that sends.
    pub node: String,
    /// Name of its HCA, such as `mlx5_0`.
    pub hca: String,
    /// Its port, from 1.
    pub port: u16,
    /// Host name of the node that receives, over its HCA of the same name.
    pub peer: String,
    /// What it sends from.
    #[serde(default)]
    pub memory: Memory,
    /// What came of it.
    pub outcome: Outcome,
}

/// What an HCA reads and writes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Memory {
    /// Memory of the host.
    #[default]
    Host,
    /// Memory of the GPU of this number.
    Gpu(u32),
}

/// What came of a measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It was measured.
    Measured {
        /// Median bandwidth with many large writes under way, in GB/s (10^9 bytes).
        gbs: f64,
        /// Median time of a small write, one way, in microseconds; absent where it was not measured.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        us: Option<f64>,
    },
    /// It failed.
    Failed {
        /// In what.
        failure: Failure,
        /// Why, in words: status, likely cause.
        why: String,
    },
}

/// What failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Failure {
    /// The device could not be opened, or memory not be registered with it.
    Device,
    /// No connection came about.
    Connect,
    /// Work that was posted failed.
    Transfer,
    /// It was not done in its time.
    Timeout,
    /// What arrived was not what was sent.
    Wrong,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Device => "its device failed",
            Self::Connect => "no connection came about",
            Self::Transfer => "a transfer failed",
            Self::Timeout => "it took too long",
            Self::Wrong => "it changed the data",
        })
    }
}

/// A measurement that cannot be one.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("links[{index}] ({way}): {what} is {value}, which is no measurement: it must be a finite number from 0 on")]
pub struct BadCeiling {
    /// Which one, from 0.
    pub index: usize,
    /// Whose.
    pub way: String,
    /// Which figure.
    pub what: &'static str,
    /// What it is.
    pub value: f64,
}

/// What measurements say of a port.
#[derive(Debug, Clone, PartialEq)]
pub enum Judgement {
    /// It is no use.
    Useless(Evidence),
    /// It is slower than its peers.
    Slow(Evidence),
}

impl Ceilings {
    /// Whether every figure can be one.
    ///
    /// # Errors
    /// [`BadCeiling`], the first that cannot.
    pub fn check(&self) -> Result<(), BadCeiling> {
        for (index, link) in self.links.iter().enumerate() {
            let Outcome::Measured { gbs, us } = link.outcome else { continue };
            for (what, value) in [("gbs", gbs), ("us", us.unwrap_or_default())] {
                if !value.is_finite() || value < 0.0 {
                    let way = format!("{} of {} to {}", link.port_id(), link.node, link.peer);
                    return Err(BadCeiling { index, way, what, value });
                }
            }
        }
        Ok(())
    }

    /// What was measured between some of the nodes.
    #[must_use]
    pub fn among(&self, hosts: &[&str]) -> Self {
        let is_among = |link: &&Ceiling| hosts.contains(&link.node.as_str()) && hosts.contains(&link.peer.as_str());
        Self { links: self.links.iter().filter(is_among).cloned().collect() }
    }

    /// Ports that are slower than the median of their peers, or failed. Those that are as they should be, or of which nothing is
    /// known, are not in it; nor is any where every port failed, which says something of the probe alone.
    pub fn judge(&self) -> BTreeMap<PortId, Judgement> {
        let mut judged: BTreeMap<PortId, Judgement> = BTreeMap::new();
        let figures = self.figures();
        for (port, nodes) in &figures {
            let others = figures.iter().filter(|(other, _)| *other != port).flat_map(|(_, nodes)| nodes);
            let Some(usual) = median(&others.map(|(_, gbs)| *gbs).collect::<Vec<_>>()) else { continue };
            let slower = |share: f64| nodes.iter().filter(move |(_, gbs)| **gbs < share * usual);
            let evidence = |share: f64| Evidence {
                hosts: slower(share).map(|(node, _)| (*node).to_owned()).collect(),
                text: format!(
                    "measured {:.2} GB/s at worst, the median of its peers is {usual:.2} GB/s",
                    nodes.values().copied().fold(f64::INFINITY, f64::min)
                ),
            };
            if slower(LEAST_SHARE).next().is_some() {
                judged.insert(port.clone(), Judgement::Useless(evidence(LEAST_SHARE)));
            } else if slower(USUAL_SHARE).next().is_some() {
                judged.insert(port.clone(), Judgement::Slow(evidence(USUAL_SHARE)));
            }
        }
        let failures = self.failures();
        if figures.keys().any(|port| !failures.contains_key(port)) {
            judged.extend(failures.into_iter().map(|(port, evidence)| (port, Judgement::Useless(evidence))));
        }
        judged
    }

    /// By port, the bandwidth of each node in GB/s: the best over the kinds of memory, as it is the HCA that is asked about, and
    /// of these the median over the peers, so that a slow peer does not make a node slow.
    fn figures(&self) -> BTreeMap<PortId, BTreeMap<&str, f64>> {
        let mut by_peer: BTreeMap<(PortId, &str), BTreeMap<&str, f64>> = BTreeMap::new();
        for link in &self.links {
            if let Outcome::Measured { gbs, .. } = link.outcome
                && gbs.is_finite()
            {
                let peers = by_peer.entry((link.port_id(), &link.node)).or_default();
                let best = peers.entry(&link.peer).or_default();
                *best = best.max(gbs);
            }
        }
        let mut figures: BTreeMap<PortId, BTreeMap<&str, f64>> = BTreeMap::new();
        for ((port, node), peers) in by_peer {
            if let Some(gbs) = median(&peers.into_values().collect::<Vec<_>>()) {
                figures.entry(port).or_default().insert(node, gbs);
            }
        }
        figures
    }

    fn failures(&self) -> BTreeMap<PortId, Evidence> {
        let mut failures: BTreeMap<PortId, Evidence> = BTreeMap::new();
        for link in &self.links {
            let Outcome::Failed { failure, why } = &link.outcome else { continue };
            let text = format!("{failure} to {}: {why}", link.peer);
            let evidence = failures.entry(link.port_id()).or_insert(Evidence { hosts: Vec::new(), text });
            if !evidence.hosts.contains(&link.node) {
                evidence.hosts.push(link.node.clone());
            }
        }
        failures
    }
}

impl Ceiling {
    fn port_id(&self) -> PortId {
        PortId { hca: self.hca.clone(), port: Some(self.port) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(node: &str, hca: &str, peer: &str, gbs: f64) -> Ceiling {
        let outcome = Outcome::Measured { gbs, us: None };
        let [node, hca, peer] = [node, hca, peer].map(str::to_owned);
        Ceiling { node, hca, port: 1, peer, memory: Memory::Host, outcome }
    }

    /// Both ways between `a` and `b` over rails of these bandwidths.
    fn rails(gbs: &[f64]) -> Vec<Ceiling> {
        let rail = |(number, gbs): (usize, &f64)| {
            let hca = format!("mlx5_{number}");
            [link("a", &hca, "b", *gbs), link("b", &hca, "a", *gbs)]
        };
        gbs.iter().enumerate().flat_map(rail).collect()
    }

    fn words(links: Vec<Ceiling>) -> Vec<String> {
        let judged = Ceilings { links }.judge();
        let word = |(port, judgement): (PortId, Judgement)| match judgement {
            Judgement::Useless(Evidence { hosts, text }) => format!("{port} useless on {}: {text}", hosts.join(",")),
            Judgement::Slow(Evidence { hosts, text }) => format!("{port} slow on {}: {text}", hosts.join(",")),
        };
        judged.into_iter().map(word).collect()
    }

    #[test]
    fn a_rail_is_held_against_its_peers() {
        for (gbs, expected) in [
            (&[24.0, 23.0][..], &[][..]),
            (
                &[24.0, 3.0],
                &["mlx5_1:1 useless on a,b: measured 3.00 GB/s at worst, the median of its peers is 24.00 GB/s"],
            ),
            (
                &[24.0, 15.0],
                &["mlx5_1:1 slow on a,b: measured 15.00 GB/s at worst, the median of its peers is 24.00 GB/s"],
            ),
            // Storage rails, as many as others.
            (
                &[48.0, 48.0, 12.0, 12.0],
                &[
                    "mlx5_2:1 useless on a,b: measured 12.00 GB/s at worst, the median of its peers is 48.00 GB/s",
                    "mlx5_3:1 useless on a,b: measured 12.00 GB/s at worst, the median of its peers is 48.00 GB/s",
                ],
            ),
            (&[24.0], &[]),
            (&[], &[]),
        ] {
            assert_eq!(words(rails(gbs)), expected, "{gbs:?}");
        }
    }

    #[test]
    fn a_slow_peer_or_far_memory_makes_no_rail_slow_and_a_slow_node_does() {
        // Between three nodes one way is slow, which no node is to blame for.
        let all = ["a", "b", "c"];
        let ways = |hca: &str| -> Vec<Ceiling> {
            let pairs = all.iter().flat_map(|a| all.iter().filter(move |b| *b != a).map(move |b| (*a, *b)));
            pairs.map(|(a, b)| link(a, hca, b, 24.0)).collect()
        };
        let mut links = [ways("mlx5_0"), ways("mlx5_1")].concat();
        links.push(Ceiling { memory: Memory::Gpu(3), ..link("a", "mlx5_0", "b", 2.0) });
        assert_eq!(words(links.clone()), [""; 0]);
        for link in links.iter_mut().filter(|link| link.node == "c" && link.hca == "mlx5_0") {
            link.outcome = Outcome::Measured { gbs: 6.0, us: Some(2.0) };
        }
        let expected = "mlx5_0:1 useless on c: measured 6.00 GB/s at worst, the median of its peers is 24.00 GB/s";
        assert_eq!(words(links), [expected]);
    }

    #[test]
    fn what_failed_is_useless_but_a_probe_that_always_fails_says_nothing() {
        let failed = |link: Ceiling| {
            let why = "IBV_WC_RETRY_EXC_ERR".to_owned();
            Ceiling { outcome: Outcome::Failed { failure: Failure::Transfer, why }, ..link }
        };
        let mut links = rails(&[24.0, 24.0]);
        links[2] = failed(links[2].clone());
        assert_eq!(words(links), ["mlx5_1:1 useless on a: a transfer failed to b: IBV_WC_RETRY_EXC_ERR"]);
        assert_eq!(words(rails(&[24.0, 24.0]).into_iter().map(failed).collect()), [""; 0]);
    }

    #[test]
    fn figures_that_cannot_be_are_refused_with_their_place() {
        let mut links = rails(&[24.0, 0.0]);
        assert_eq!(Ceilings { links: links.clone() }.check(), Ok(()));
        for (gbs, us, expected) in [
            (-3.0, None, "gbs is -3"),
            (f64::NAN, None, "gbs is NaN"),
            (f64::INFINITY, None, "gbs is inf"),
            (1.0, Some(-0.5), "us is -0.5"),
        ] {
            links[2].outcome = Outcome::Measured { gbs, us };
            let error = Ceilings { links: links.clone() }.check().unwrap_err().to_string();
            assert_eq!(
                error,
                format!(
                    "links[2] (mlx5_1:1 of a to b): {expected}, which is no measurement: it must be a finite number from 0 on"
                )
            );
        }
    }

    #[test]
    fn they_are_read_back_as_written_and_cut_to_some_nodes() {
        let mut links = rails(&[24.5]);
        links[0].memory = Memory::Gpu(1);
        links[1].outcome = Outcome::Failed { failure: Failure::Timeout, why: "1 s".into() };
        let ceilings = Ceilings { links };
        let text = serde_json::to_string(&ceilings).unwrap();
        assert_eq!(serde_json::from_str::<Ceilings>(&text).unwrap(), ceilings, "{text}");
        assert!(ceilings.among(&["a", "c"]).links.is_empty());
        assert_eq!(ceilings.among(&["b", "a"]), ceilings);
    }
}
