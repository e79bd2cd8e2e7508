//! Which nodes are alike, and which are odd.

use std::time::{Duration, Instant};

use gdrtune_profiles::vocab::PcieDistance;
use gdrtune_session::event::{GpuFacts, HcaFacts, NetFacts, PortFacts};

use super::*;

/// A node of 8 GPUs and 8 HCAs, four of each on a socket.
pub(crate) fn facts() -> NodeFacts {
    let numa = |number: usize| Some(number as u32 / 4);
    let distance = |gpu: usize, hca: usize| match (gpu == hca, gpu / 4 == hca / 4) {
        (true, _) => PcieDistance::Pix,
        (false, true) => PcieDistance::Node,
        (false, false) => PcieDistance::Sys,
    };
    let gpu = |number: usize| GpuFacts {
        model: "NVIDIA H200".into(),
        address: format!("0000:{number}9:00.0"),
        numa: numa(number),
        to_hcas: (0..8).map(|hca| Some(distance(number, hca))).collect(),
    };
    let port = PortFacts {
        port: 1,
        state: "ACTIVE".into(),
        phys_state: "LinkUp".into(),
        link_layer: "InfiniBand".into(),
        rate: "400 Gb/sec (4X NDR)".into(),
    };
    let hca = |number: usize| HcaFacts {
        name: format!("mlx5_{number}"),
        address: format!("0000:{number}a:00.0"),
        numa: numa(number),
        nets: vec![format!("ib{number}")],
        ports: vec![port.clone()],
    };
    let net = NetFacts {
        name: "eno1".into(),
        state: "up".into(),
        speed_mbps: Some(25_000),
        mtu: 1500,
        driver: "bnxt_en".into(),
        address: "0000:04:00.0".into(),
        numa: Some(0),
    };
    NodeFacts {
        kernel: "6.8.0-45".into(),
        cpu_model: "Xeon 8480C".into(),
        cpus: 224,
        numa_nodes: 2,
        memory_bytes: 2 << 40,
        driver: "550.54.15".into(),
        gpus: (0..8).map(gpu).collect(),
        hcas: (0..8).map(hca).collect(),
        nets: vec![net],
        unreadable: Vec::new(),
    }
}

/// Nodes under construction.
#[derive(Default)]
pub(crate) struct Built {
    pub(crate) groups: NodeGroups,
    pub(crate) nodes: BTreeMap<u32, Node>,
}

impl Built {
    pub(crate) fn state(&mut self, index: u32, state: NodeState, detail: &str) {
        let node = Node { host: format!("vh{:02}", index + 1), state, detail: detail.to_owned() };
        self.groups.tell_state(index, &node);
        self.nodes.insert(index, node);
    }

    fn tell(&mut self, index: u32, facts: FactsOf) {
        self.groups.tell_facts(index, facts, self.nodes.get(&index));
    }

    pub(crate) fn slow(&mut self, index: u32, why: &str) {
        self.groups.tell_slow(index, why.to_owned(), self.nodes.get(&index));
    }

    pub(crate) fn own(&mut self, index: u32, change: impl Fn(&mut NodeFacts)) {
        let mut facts = facts();
        change(&mut facts);
        self.tell(index, FactsOf::Own(Box::new(facts)));
    }

    /// So many equal nodes that are ready.
    pub(crate) fn new(count: u32) -> Self {
        let mut built = Self::default();
        for index in 0..count {
            built.state(index, NodeState::Ready, "8 CPUs");
            if index == 0 { built.own(0, |_| ()) } else { built.tell(index, FactsOf::Like(0)) }
        }
        built
    }

    /// The groups in words.
    fn words(&self) -> Vec<String> {
        let words = |(standing, _, group): (Standing, u32, &Group)| {
            let first = &self.nodes[group.nodes.first().unwrap()].host;
            match group.nodes.len() {
                1 => format!("{}: {first}", standing.word()),
                count => format!("{}: {count} like {first}", standing.word()),
            }
        };
        self.groups.groups().into_iter().map(words).collect()
    }

    fn differences(&self, index: u32) -> Vec<String> {
        let group = self.groups.group_of(index).unwrap();
        let words =
            |difference: Difference<'_>| format!("{}: {}, not {}", difference.name(), difference.own, difference.usual);
        self.groups.differences(group).map(words).collect()
    }
}

#[test]
fn equal_nodes_are_folded_and_odd_ones_come_first() {
    let mut built = Built::new(32);
    built.own(5, |facts| facts.gpus.truncate(7));
    built.state(9, NodeState::Lost, "vh10: silent for 12 s");
    built.state(20, NodeState::Failed, "auth refused");
    built.slow(3, "vh04 is slow: 4.1 GB/s");
    built.state(30, NodeState::Connecting, "");
    let all = ["failed: vh21", "lost: vh10", "slow: vh04", "differs: vh06", "connecting: vh31", "ready: 27 like vh01"];
    assert_eq!(built.words(), all);
    assert_eq!(built.differences(5), ["GPUs: 7 x H200, not 8 x H200", "GPU to nearest HCA: 7 x PIX, not 8 x PIX"]);
    let why = [3, 9, 20].map(|index| built.groups.group_of(index).unwrap().why());
    assert_eq!(why, ["4.1 GB/s", "silent for 12 s", "auth refused"], "the host's name is said already");
    let summary = built.groups.summary(built.groups.group_of(0).unwrap());
    assert_eq!(summary, "8 GPUs H200, 8 HCAs 400 Gb/s");
    let tally: Vec<_> = built.groups.tally().into_iter().collect();
    assert_eq!(tally.iter().map(|(_, count)| *count).sum::<usize>(), 32);
    assert_eq!(tally.last(), Some(&(Standing::Ready, 27)));
}

#[test]
fn what_can_be_odd() {
    for (change, expected) in [
        (
            (|facts| facts.hcas[3].ports[0].rate = "100 Gb/sec (4X EDR)".into()) as fn(&mut NodeFacts),
            &["HCA ports: 7 x InfiniBand 400 Gb/s, 1 x InfiniBand 100 Gb/s, not 8 x InfiniBand 400 Gb/s"][..],
        ),
        (
            |facts| {
                (facts.hcas[3].ports[0].state, facts.hcas[3].ports[0].phys_state) = ("DOWN".into(), "Polling".into());
            },
            &[
                "HCA ports: 7 x InfiniBand 400 Gb/s, not 8 x InfiniBand 400 Gb/s",
                "idle HCA ports: mlx5_3:1 DOWN Polling, not none",
            ],
        ),
        (|facts| facts.driver = "535.1".into(), &["driver: 535.1, not 550.54.15"]),
        (|facts| facts.kernel = String::new(), &["kernel: unknown, not 6.8.0-45"]),
        (|facts| facts.nets[0].speed_mbps = Some(10_000), &["NICs: 1 x 10 Gb/s, not 1 x 25 Gb/s"]),
        (|facts| facts.nets[0].state = "down".into(), &["NICs: 1 x down, not 1 x 25 Gb/s"]),
        (
            |facts| facts.gpus[0].to_hcas[0] = Some(PcieDistance::Sys),
            &["GPU to nearest HCA: 7 x PIX, 1 x NODE, not 8 x PIX"],
        ),
        (|facts| facts.memory_bytes = 1 << 40, &["memory: 1024G, not 2048G"]),
        // Numbers of slots and names of devices are as they come.
        (|facts| facts.gpus[0].address = "0000:77:00.0".into(), &[]),
        (|facts| facts.nets[0].name = "eth7".into(), &[]),
    ] {
        let mut built = Built::new(3);
        built.own(1, change);
        assert_eq!(built.differences(1), expected);
        assert_eq!(built.differences(0), Vec::<String>::new(), "most nodes are as usual");
    }
}

#[test]
fn of_two_halves_neither_is_odd_and_one_more_decides() {
    let mut built = Built::new(4);
    for index in [2, 3] {
        built.own(index, |facts| facts.driver = "560.1".into());
    }
    assert_eq!(built.words(), ["ready: 2 like vh01", "ready: 2 like vh03"]);
    built.state(4, NodeState::Ready, "");
    built.tell(4, FactsOf::Like(3));
    assert_eq!(built.words(), ["differs: 2 like vh01", "ready: 3 like vh03"]);
    // Told again by a run that goes on, and now with what the others have.
    (0..2).for_each(|index| built.own(index, |facts| facts.driver = "560.1".into()));
    assert_eq!(built.words(), ["ready: 5 like vh01"]);
    assert_eq!(built.groups.counts[5].len(), 1, "{:?}", built.groups.counts[5]);
}

#[test]
fn a_run_that_is_older_than_facts_has_a_tree_of_states() {
    let mut built = Built::default();
    (0..3).for_each(|index| built.state(index, NodeState::Ready, "8 CPUs"));
    built.tell(2, FactsOf::Like(77));
    assert_eq!(built.words(), ["ready: 3 like vh01"]);
    assert_eq!(built.groups.summary(built.groups.group_of(2).unwrap()), "");
    assert!(built.groups.facts(2).is_none());
    built.state(1, NodeState::Ready, "4 CPUs");
    assert_eq!(built.words(), ["ready: 2 like vh01", "ready: vh02"]);
}

#[test]
fn a_thousand_nodes_cost_little_to_take() {
    let begun = Instant::now();
    let mut built = Built::new(1_000);
    for index in (0..1_000).step_by(7) {
        built.own(index, |facts| facts.kernel = format!("6.{index}"));
    }
    let per_record = begun.elapsed() / 2_143;
    assert_eq!(built.words().len(), 144);
    // An unoptimized build on a loaded machine stays far below.
    assert!(per_record < Duration::from_micros(500), "{per_record:?} per record");
}
