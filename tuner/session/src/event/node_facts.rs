//! What a node has, as a run's record keeps it: what people compare nodes by, and nothing that names users or settings.

use gdrtune_profiles::vocab::PcieDistance;
use gdrtune_wire::{HcaPort, Inventory, NetDevice, Place};
use serde::{Deserialize, Serialize};

/// Notes of what could not be read that are kept of a node; the log has them all.
const MOST_NOTES: usize = 8;

/// Whose facts a node has. Most clusters are of one kind of node, so that a thousand take little more room than one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FactsOf {
    /// Its own.
    Own(Box<NodeFacts>),
    /// The very same as the node of this position in rank order, which told them last.
    Like(u32),
}

/// What a node has. An empty text, 0 or an absent value is what could not be read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeFacts {
    /// Kernel release.
    pub kernel: String,
    /// Model of the CPUs.
    pub cpu_model: String,
    /// Logical CPUs that the agent may use.
    pub cpus: u32,
    /// NUMA nodes that have CPUs.
    pub numa_nodes: u32,
    /// Memory in bytes, rounded down to 8 GiB or, below that, to 256 MiB: equal machines reserve a few pages more or less.
    pub memory_bytes: u64,
    /// Version of NVIDIA's driver.
    pub driver: String,
    /// GPUs by their numbers.
    pub gpus: Vec<GpuFacts>,
    /// RDMA adapters by name.
    pub hcas: Vec<HcaFacts>,
    /// Network devices by name.
    pub nets: Vec<NetFacts>,
    /// What could not be read, and why.
    pub unreadable: Vec<String>,
}

/// A GPU.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct GpuFacts {
    /// Its model.
    pub model: String,
    /// PCI address; empty where unknown.
    pub address: String,
    /// NUMA node.
    pub numa: Option<u32>,
    /// How far each of [`NodeFacts::hcas`] is, in their order.
    pub to_hcas: Vec<Option<PcieDistance>>,
}

/// An RDMA adapter.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HcaFacts {
    /// Its name, such as `mlx5_0`.
    pub name: String,
    /// PCI address; empty where unknown.
    pub address: String,
    /// NUMA node.
    pub numa: Option<u32>,
    /// Names of its network devices.
    pub nets: Vec<String>,
    /// Its ports by number.
    pub ports: Vec<PortFacts>,
}

/// A port of an RDMA adapter, in the kernel's words.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PortFacts {
    /// From 1.
    pub port: u16,
    /// Such as `ACTIVE` or `DOWN`.
    pub state: String,
    /// Such as `LinkUp` or `Polling`.
    pub phys_state: String,
    /// `InfiniBand` or `Ethernet`.
    pub link_layer: String,
    /// Such as `400 Gb/sec (4X NDR)`.
    pub rate: String,
}

impl PortFacts {
    /// Whether it is up.
    pub fn is_active(&self) -> bool {
        self.state == "ACTIVE"
    }
}

/// A network device.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NetFacts {
    /// Its name.
    pub name: String,
    /// `up`, `down`, `unknown`.
    pub state: String,
    /// Link speed in Mbit/s.
    pub speed_mbps: Option<u32>,
    /// MTU in bytes.
    pub mtu: u32,
    /// Name of the kernel's driver; empty for a virtual device.
    pub driver: String,
    /// PCI address; empty where it has none.
    pub address: String,
    /// NUMA node.
    pub numa: Option<u32>,
}

impl From<&Inventory> for NodeFacts {
    fn from(inventory: &Inventory) -> Self {
        let topology = &inventory.topology;
        let hcas = topology.hcas.iter().map(|hca| {
            let ports = inventory.hca_ports.iter().filter(|port| port.hca == hca.name).map(PortFacts::from).collect();
            let Place { address, numa, .. } = hca.place.clone();
            HcaFacts { name: hca.name.clone(), address, numa, nets: hca.nets.clone(), ports }
        });
        Self {
            kernel: inventory.kernel.clone(),
            cpu_model: inventory.cpu_model.clone(),
            cpus: inventory.cpus,
            numa_nodes: topology.numa_nodes,
            memory_bytes: round_down(inventory.memory_bytes),
            driver: inventory.driver.clone(),
            gpus: gpus(inventory),
            hcas: hcas.collect(),
            nets: topology.nets.iter().map(NetFacts::from).collect(),
            unreadable: inventory.unreadable.iter().take(MOST_NOTES).cloned().collect(),
        }
    }
}

/// GPUs by their numbers, with their places where both sources tell of the same ones.
fn gpus(inventory: &Inventory) -> Vec<GpuFacts> {
    let topology = &inventory.topology;
    let is_one_list = inventory.gpus.is_empty() || inventory.gpus.len() == topology.gpus.len();
    if !is_one_list {
        let unplaced = |model: &String| GpuFacts { model: model.clone(), ..GpuFacts::default() };
        return inventory.gpus.iter().map(unplaced).collect();
    }
    let placed = |(number, gpu): (usize, &gdrtune_wire::Gpu)| {
        let model = inventory.gpus.get(number).unwrap_or(&gpu.model).clone();
        let Place { address, numa, .. } = gpu.place.clone();
        GpuFacts { model, address, numa, to_hcas: topology.distances.get(number).cloned().unwrap_or_default() }
    };
    topology.gpus.iter().enumerate().map(placed).collect()
}

fn round_down(bytes: u64) -> u64 {
    let bits = if bytes < 8 << 30 { 28 } else { 33 };
    bytes >> bits << bits
}

impl From<&HcaPort> for PortFacts {
    fn from(port: &HcaPort) -> Self {
        let HcaPort { hca: _, port, link_layer, rate, state, phys_state } = port.clone();
        Self { port, state, phys_state, link_layer, rate }
    }
}

impl From<&NetDevice> for NetFacts {
    fn from(net: &NetDevice) -> Self {
        let NetDevice { name, state, speed_mbps, mtu, driver, place: Place { address, numa, .. } } = net.clone();
        Self { name, state, speed_mbps, mtu, driver, address, numa }
    }
}

/// Finds nodes that have the very same as an earlier one.
#[derive(Debug, Default)]
pub(crate) struct KnownFacts {
    /// Different ones, and who told them.
    known: Vec<(NodeFacts, u32)>,
}

impl KnownFacts {
    /// What to record of the node at position `index`.
    pub(crate) fn of(&mut self, index: u32, inventory: &Inventory) -> FactsOf {
        let facts = NodeFacts::from(inventory);
        if let Some((_, first)) = self.known.iter().find(|(known, _)| *known == facts) {
            return FactsOf::Like(*first);
        }
        self.known.push((facts.clone(), index));
        FactsOf::Own(Box::new(facts))
    }
}

#[cfg(test)]
mod tests {
    use gdrtune_wire::{Gpu, Hca, Topology};

    use super::*;

    fn inventory() -> Inventory {
        let place = |address: &str| Place { address: address.to_owned(), numa: Some(0), ..Place::default() };
        let gpu = |address| Gpu { model: "as PCI says".to_owned(), place: place(address) };
        let hca = |name: &str, address| Hca { name: name.to_owned(), place: place(address), nets: vec!["ib0".into()] };
        let port = |hca: &str, state: &str| HcaPort {
            hca: hca.to_owned(),
            port: 1,
            link_layer: "InfiniBand".into(),
            rate: "400 Gb/sec (4X NDR)".into(),
            state: state.to_owned(),
            phys_state: "LinkUp".into(),
        };
        Inventory {
            memory_bytes: (2 << 40) - 12_345,
            gpus: vec!["NVIDIA H200".to_owned(); 2],
            hca_ports: vec![port("mlx5_0", "ACTIVE"), port("mlx5_1", "DOWN")],
            topology: Topology {
                numa_nodes: 2,
                gpus: vec![gpu("0000:01:00.0"), gpu("0000:11:00.0")],
                hcas: vec![hca("mlx5_0", "0000:02:00.0"), hca("mlx5_1", "0000:12:00.0")],
                nets: vec![NetDevice { name: "ib0".into(), ..NetDevice::default() }],
                distances: vec![vec![Some(PcieDistance::Pix), None], vec![None, Some(PcieDistance::Pix)]],
                gpu_paths: Vec::new(),
            },
            ..Inventory::default()
        }
    }

    #[test]
    fn equal_nodes_are_recorded_once() {
        let mut known = KnownFacts::default();
        let FactsOf::Own(facts) = known.of(3, &inventory()) else { panic!("the first one tells") };
        assert_eq!(facts.gpus[1].model, "NVIDIA H200");
        assert_eq!(
            (facts.gpus[1].address.as_str(), facts.gpus[1].to_hcas[1]),
            ("0000:11:00.0", Some(PcieDistance::Pix))
        );
        assert_eq!((facts.hcas[0].ports[0].is_active(), facts.hcas[1].ports[0].is_active()), (true, false));
        let a_page_less = Inventory { memory_bytes: (2 << 40) - 20_000, ..inventory() };
        assert_eq!(known.of(4, &a_page_less), FactsOf::Like(3));
        let other = Inventory { driver: "550.90".into(), ..inventory() };
        assert!(matches!(known.of(5, &other), FactsOf::Own(_)));
        assert_eq!(known.of(6, &other), FactsOf::Like(5));
    }

    #[test]
    fn gpus_of_which_the_sources_differ_have_no_place() {
        let hidden = Inventory { gpus: vec!["NVIDIA H200".to_owned()], ..inventory() };
        let facts = NodeFacts::from(&hidden);
        assert_eq!((facts.gpus.len(), facts.gpus[0].address.as_str()), (1, ""));
        let unnamed = Inventory { gpus: Vec::new(), ..inventory() };
        assert_eq!(NodeFacts::from(&unnamed).gpus[1].model, "as PCI says");
    }

    #[test]
    fn an_older_or_newer_record_still_reads() {
        let facts: NodeFacts = serde_json::from_str(r#"{"kernel":"6.1","gpus":[{"model":"A"}],"new":1}"#).unwrap();
        assert_eq!((facts.kernel.as_str(), facts.gpus[0].model.as_str(), facts.hcas.len()), ("6.1", "A", 0));
        let own = FactsOf::Own(Box::new(NodeFacts::from(&inventory())));
        for facts in [own, FactsOf::Like(7)] {
            let text = serde_json::to_string(&facts).unwrap();
            assert_eq!(serde_json::from_str::<FactsOf>(&text).unwrap(), facts, "{text}");
        }
        let line = serde_json::to_string(&FactsOf::Like(7)).unwrap();
        assert_eq!(line, r#"{"like":7}"#);
    }
}
