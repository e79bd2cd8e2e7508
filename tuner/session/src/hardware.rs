//! What nodes have that a result depends on, in words that can be compared: another driver, other GPUs or HCAs are another cluster.

use std::collections::{BTreeMap, BTreeSet};

use gdrtune_wire::Inventory;

use crate::event::{Event, FactsOf, GpuFacts, HcaFacts, NodeFacts, Record};

/// What the nodes of a run have.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hardware {
    /// What differs between nodes has several values.
    values: BTreeMap<&'static str, BTreeSet<String>>,
}

/// Something that is otherwise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// What: `GPUs`, `HCAs`, `driver` or `kernel`.
    pub what: &'static str,
    /// Before.
    pub from: String,
    /// After.
    pub to: String,
}

impl Hardware {
    /// Of a run's nodes, as its store has them; `None` where it has none, as of a run without hosts.
    pub fn of_records(records: &[Record]) -> Option<Self> {
        let mut nodes: BTreeMap<u32, &NodeFacts> = BTreeMap::new();
        for record in records {
            match &record.event {
                Event::NodeFacts { index, facts: FactsOf::Own(facts), .. } => drop(nodes.insert(*index, facts)),
                Event::NodeFacts { index, facts: FactsOf::Like(first), .. } => {
                    if let Some(facts) = nodes.get(first).copied() {
                        nodes.insert(*index, facts);
                    }
                }
                _ => {}
            }
        }
        (!nodes.is_empty()).then(|| Self::of_nodes(nodes.into_values()))
    }

    /// Of nodes as their agents tell.
    pub fn of_inventories(inventories: &[Inventory]) -> Self {
        let nodes: Vec<NodeFacts> = inventories.iter().map(NodeFacts::from).collect();
        Self::of_nodes(&nodes)
    }

    fn of_nodes<'a>(nodes: impl IntoIterator<Item = &'a NodeFacts>) -> Self {
        let mut hardware = Self::default();
        for node in nodes {
            for (what, value) in [
                ("GPUs", gpus(&node.gpus)),
                ("HCAs", hcas(&node.hcas)),
                ("driver", node.driver.clone()),
                ("kernel", node.kernel.clone()),
            ] {
                hardware.values.entry(what).or_default().insert(if value.is_empty() { "none".into() } else { value });
            }
        }
        hardware
    }

    /// What is otherwise in `now`.
    pub fn differences(&self, now: &Self) -> Vec<Difference> {
        let both = self.values.iter().filter_map(|(what, from)| Some((*what, from, now.values.get(what)?)));
        let words = |values: &BTreeSet<String>| values.iter().map(String::as_str).collect::<Vec<_>>().join("; or ");
        let difference = |(what, from, to)| Difference { what, from: words(from), to: words(to) };
        both.filter(|(_, from, to)| from != to).map(difference).collect()
    }
}

/// `8 x NVIDIA H200`.
fn gpus(gpus: &[GpuFacts]) -> String {
    let mut models: BTreeMap<&str, u32> = BTreeMap::new();
    for gpu in gpus {
        *models.entry(&gpu.model).or_default() += 1;
    }
    models.iter().map(|(model, count)| format!("{count} x {model}")).collect::<Vec<_>>().join(", ")
}

/// `mlx5_0:1 at 400 Gb/sec (4X NDR)`: ports that are up.
fn hcas(hcas: &[HcaFacts]) -> String {
    let ports = hcas.iter().flat_map(|hca| hca.ports.iter().map(move |port| (hca, port)));
    let up = ports.filter(|(_, port)| port.is_active());
    up.map(|(hca, port)| format!("{}:{} at {}", hca.name, port.port, port.rate)).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use gdrtune_wire::{Hca, HcaPort, Topology};

    use super::*;

    fn node(hcas: &[&str], driver: &str) -> Inventory {
        let port = |hca: &&str| HcaPort {
            hca: (*hca).to_owned(),
            port: 1,
            link_layer: "InfiniBand".into(),
            rate: "400 Gb/sec".into(),
            state: "ACTIVE".into(),
            phys_state: "LinkUp".into(),
        };
        let hca =
            |name: &&str| Hca { name: (*name).to_owned(), place: gdrtune_wire::Place::default(), nets: Vec::new() };
        Inventory {
            driver: driver.into(),
            gpus: vec!["NVIDIA H200".to_owned(); 8],
            hca_ports: hcas.iter().map(port).collect(),
            topology: Topology { hcas: hcas.iter().map(hca).collect(), ..Topology::default() },
            ..Inventory::default()
        }
    }

    #[test]
    fn what_is_otherwise_is_said_once_whatever_the_number_of_nodes() {
        let then = Hardware::of_inventories(&[node(&["mlx5_0", "mlx5_1"], "550"), node(&["mlx5_0", "mlx5_1"], "550")]);
        assert!(then.differences(&then).is_empty());
        let now = Hardware::of_inventories(&[node(&["mlx5_0"], "550"), node(&["mlx5_0", "mlx5_1"], "550")]);
        let both = "mlx5_0:1 at 400 Gb/sec, mlx5_1:1 at 400 Gb/sec";
        let to = format!("mlx5_0:1 at 400 Gb/sec; or {both}");
        assert_eq!(then.differences(&now), [Difference { what: "HCAs", from: both.into(), to }]);
        let (from, to) = ("550".into(), "570".into());
        let newer = Hardware::of_inventories(&[node(&["mlx5_0", "mlx5_1"], "570")]);
        assert_eq!(then.differences(&newer), [Difference { what: "driver", from, to }]);
    }

    #[test]
    fn records_tell_the_same_as_the_nodes() {
        let (a, b) = (node(&["mlx5_0"], "550"), node(&[], "550"));
        let told = |index, facts| Event::NodeFacts { index, host: String::new(), facts };
        let own = |inventory: &Inventory| FactsOf::Own(Box::new(NodeFacts::from(inventory)));
        let events = [told(0, own(&a)), told(1, FactsOf::Like(0)), told(2, own(&b))];
        let records: Vec<Record> = (0..).zip(events).map(|(seq, event)| Record { seq, t_ms: 0, event }).collect();
        assert_eq!(Hardware::of_records(&records), Some(Hardware::of_inventories(&[a.clone(), a, b])));
        assert_eq!(Hardware::of_records(&[]), None);
    }
}
