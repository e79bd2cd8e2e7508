use std::{cell::RefCell, collections::VecDeque};

use gdrtune_profiles::{bindings::ceilings::Memory, vocab::PcieDistance};
use gdrtune_wire::{EndCause, FromWorker, Gpu, GroupId, Hca, HcaPort, StartGroup, ToAgent, ToWorker, Topology};

use super::*;

#[test]
fn every_pair_meets_once_and_no_node_is_in_two_pairs_of_a_round() {
    assert!(rounds(0).is_empty() && rounds(1).is_empty());
    assert_eq!(rounds(2), [[(0, 1)]]);
    for nodes in 2..40 {
        let rounds = rounds(nodes);
        assert_eq!(rounds.len(), nodes - 1 + nodes % 2);
        let mut all: Vec<(usize, usize)> = Vec::new();
        for round in &rounds {
            let mut seen: Vec<usize> = round.iter().flat_map(|(a, b)| [*a, *b]).collect();
            seen.sort_unstable();
            let count = seen.len();
            seen.dedup();
            assert_eq!((seen.len(), count), (count, nodes - nodes % 2), "{nodes} nodes: {round:?}");
            all.extend(round);
        }
        let pairs = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!((all.len(), pairs), (nodes * (nodes - 1) / 2, pairs), "{nodes} nodes");
    }
}

fn port(hca: &str, state: &str) -> HcaPort {
    let [link_layer, rate, phys_state] = ["Ethernet", "100 Gb/sec (4X EDR)", "LinkUp"].map(str::to_owned);
    HcaPort { hca: hca.to_owned(), port: 1, link_layer, rate, state: state.to_owned(), phys_state }
}

fn node(ports: &[(&str, &str)]) -> Inventory {
    Inventory { hca_ports: ports.iter().map(|(hca, state)| port(hca, state)).collect(), ..Inventory::default() }
}

fn hosts(count: usize) -> Vec<Host> {
    (0..count).map(|number| Host::named(format!("n{number}"))).collect()
}

fn plan<'a>(hosts: &'a [Host], inventories: &'a [Inventory]) -> ProbePlan<'a> {
    ProbePlan {
        hosts,
        inventories,
        only: None,
        memory: ProbeMemory::Host,
        partners: None,
        time: Duration::from_millis(100),
        key: SessionKey([3; 32]),
    }
}

fn names(ways: &plan::Ways) -> Vec<&str> {
    ways.ways.iter().map(|way| way.hca.as_str()).collect()
}

#[test]
fn ways_are_ports_that_both_have_and_the_others_are_named() {
    let hosts = hosts(2);
    let here = node(&[("mlx5_10", "ACTIVE"), ("mlx5_2", "ACTIVE"), ("mlx5_3", "DOWN"), ("mlx5_4", "ACTIVE")]);
    let there = node(&[("mlx5_10", "ACTIVE"), ("mlx5_2", "ACTIVE"), ("mlx5_3", "DOWN"), ("mlx5_4", "DOWN")]);
    let inventories = [here, there];
    let ways = plan::ways(&plan(&hosts, &inventories), (0, 1));
    assert_eq!(names(&ways), ["mlx5_2", "mlx5_10"], "by number; what is down on both is nobody's loss");
    let [unusable] = &ways.unusable[..] else { panic!("{:?}", ways.unusable) };
    assert_eq!((unusable.ceiling.node.as_str(), unusable.ceiling.peer.as_str()), ("n1", "n0"));
    assert_eq!(
        unusable.ceiling.outcome,
        Outcome::Failed { failure: Failure::Device, why: "its port is DOWN LinkUp".to_owned() }
    );
    let only = Some(HcaList::parse("=mlx5_10").unwrap());
    assert_eq!(names(&plan::ways(&ProbePlan { only, ..plan(&hosts, &inventories) }, (0, 1))), ["mlx5_10"]);
}

#[test]
fn gpus_are_the_nearest_or_all() {
    let (hosts, distant, near) = (hosts(2), Some(PcieDistance::ALL[4]), Some(PcieDistance::ALL[0]));
    let topology = Topology {
        gpus: vec![Gpu::default(), Gpu::default()],
        hcas: vec![Hca { name: "a".to_owned(), ..Hca::default() }, Hca { name: "b".to_owned(), ..Hca::default() }],
        distances: vec![vec![near.max(distant), near.min(distant)], vec![near.min(distant), None]],
        ..Topology::default()
    };
    let both = Inventory { topology, ..node(&[("a", "ACTIVE"), ("b", "ACTIVE")]) };
    let inventories = [both.clone(), both];
    let of = |memory| {
        let ways = plan::ways(&ProbePlan { memory, ..plan(&hosts, &inventories) }, (0, 1)).ways;
        ways.into_iter().map(|way| (way.hca, way.memory)).collect::<Vec<_>>()
    };
    let expect =
        |ways: &[(&str, u32)]| ways.iter().map(|(hca, gpu)| ((*hca).to_owned(), Memory::Gpu(*gpu))).collect::<Vec<_>>();
    assert_eq!(of(ProbeMemory::NearestGpu), expect(&[("a", 1), ("b", 0)]));
    assert_eq!(of(ProbeMemory::EveryGpu), expect(&[("a", 0), ("a", 1), ("b", 0), ("b", 1)]));
}

/// What one node does.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Does {
    Well,
    /// Its executable has no RDMA.
    Fails,
    Refuses,
    /// Killed in mid-step.
    Hangs,
    /// Gone with its first step.
    Lost,
    /// One of its ways fails; the others go on.
    OneWay,
}

/// Nodes that answer as agents with a worker would, at once.
struct Nodes {
    does: Vec<Does>,
    queue: RefCell<VecDeque<LinkEvent>>,
    starts: RefCell<Vec<(usize, StartGroup)>>,
    /// Steps: node, way.
    steps: RefCell<Vec<(usize, u32)>>,
}

impl Nodes {
    fn new(does: &[Does]) -> Self {
        let (queue, starts, steps) = Default::default();
        Self { does: does.to_vec(), queue, starts, steps }
    }

    fn say(&self, node: usize, message: FromAgent) {
        self.queue.borrow_mut().push_back(LinkEvent::Message { node, message });
    }

    fn rank(&self, node: usize, group: GroupId) -> u32 {
        let starts = self.starts.borrow();
        starts.iter().find(|(at, start)| (*at, start.group) == (node, group)).map_or(9, |(_, start)| start.ranks[0])
    }

    fn worker(&self, node: usize, group: GroupId, message: FromWorker) {
        self.say(node, FromAgent::Worker { group, rank: self.rank(node, group), message });
    }

    fn end(&self, node: usize, group: GroupId, cause: EndCause) {
        self.say(node, FromAgent::WorkerEnded { group, rank: self.rank(node, group), cause });
    }

    fn step(&self, node: usize, group: GroupId, step: ProbeStepOf) {
        self.steps.borrow_mut().push((node, step.1));
        match self.does[node] {
            Does::Hangs => {
                let during = "probing way 0".to_owned();
                return self.end(node, group, EndCause::Deadline { during });
            }
            Does::Lost => {
                let why = "no answer".to_owned();
                return self.queue.borrow_mut().push_back(LinkEvent::Lost { node, why });
            }
            _ => {}
        }
        let outcome = if self.does[node] == Does::OneWay && step.1 == 0 {
            failed(Failure::Transfer, "IBV_WC_RETRY_EXC_ERR")
        } else {
            let rates = [(65536, 1.0), (1 << 20, 2.0 + f64::from(step.1)), (8 << 20, 1.5)];
            let rates = rates.map(|(bytes, gbs)| ProbeRate { bytes, gbs }).to_vec();
            ProbeOutcome::Measured { rates, latency_us: 3.0 }
        };
        self.worker(node, group, FromWorker::Probed { number: step.0, outcome });
    }
}

/// Number and way.
type ProbeStepOf = (u32, u32);

impl Link for Nodes {
    fn send(&self, node: usize, message: ToAgent) {
        match message {
            ToAgent::Start(start) => {
                let group = start.group;
                assert!(start.probe.is_some() && start.world == 2);
                self.starts.borrow_mut().push((node, start));
                match self.does[node] {
                    Does::Refuses => self.say(node, FromAgent::Refused { why: "no memory".to_owned() }),
                    Does::Fails => {
                        self.worker(node, group, FromWorker::Failed("built without RDMA".to_owned()));
                        self.end(node, group, EndCause::Exit(1));
                    }
                    _ => self.worker(node, group, FromWorker::Bootstrap(vec![node as u8])),
                }
            }
            ToAgent::ToWorkers { group, message } => match message {
                ToWorker::Connect { peers } => {
                    assert_eq!(peers[self.rank(node, group) as usize], [node as u8]);
                    self.worker(node, group, FromWorker::Connected { setup_us: 1, engine: Box::default() });
                }
                ToWorker::Probe(step) => self.step(node, group, (step.number, step.way)),
                ToWorker::Quit => self.end(node, group, EndCause::Finished),
                other => panic!("{other:?}"),
            },
            ToAgent::Stop(group) => self.end(node, group, EndCause::Stopped),
            other => panic!("{other:?}"),
        }
    }

    fn receive(&mut self, _: Duration) -> Option<LinkEvent> {
        self.queue.borrow_mut().pop_front()
    }
}

fn probed(does: &[Does], partners: Option<usize>) -> (Nodes, Probe) {
    let hosts = hosts(does.len());
    let inventories = vec![node(&[("rxe1", "ACTIVE"), ("rxe2", "ACTIVE")]); does.len()];
    let mut nodes = Nodes::new(does);
    let company = Company { interrupted: &|| false, tell: &|_| {} };
    let found = probe(&mut nodes, &ProbePlan { partners, ..plan(&hosts, &inventories) }, company).unwrap();
    (nodes, found)
}

fn told(link: &ProbedLink) -> String {
    let Ceiling { node, hca, peer, outcome, .. } = &link.ceiling;
    match outcome {
        Outcome::Measured { gbs, us } => format!("{node}>{peer} {hca} {gbs} {}", us.unwrap_or_default()),
        Outcome::Failed { failure, why } => format!("{node}>{peer} {hca} {failure:?}: {why}"),
    }
}

#[test]
fn both_directions_of_every_way_are_measured_one_at_a_time() {
    let (nodes, found) = probed(&[Does::Well; 2], None);
    let lines: Vec<String> = found.links.iter().map(told).collect();
    assert_eq!(lines, ["n0>n1 rxe1 2 3", "n1>n0 rxe1 2 3", "n0>n1 rxe2 3 3", "n1>n0 rxe2 3 3"]);
    assert_eq!(nodes.steps.into_inner(), [(0, 0), (1, 0), (0, 1), (1, 1)]);
    assert!(found.lost.is_empty() && found.links[0].rates.len() == 3);
    assert_eq!(found.ceilings().links.len(), 4);
}

#[test]
fn all_pairs_or_as_many_partners_as_wanted() {
    for (partners, pairs) in [(None, 10), (Some(1), 2), (Some(2), 4), (Some(99), 10)] {
        let (_, found) = probed(&[Does::Well; 5], partners);
        assert_eq!(found.links.len(), 4 * pairs, "{partners:?}");
    }
}

#[test]
fn what_fails_spoils_nothing_else() {
    for (second, expected) in [
        (Does::Fails, "n0>n1 rxe1 Device: built without RDMA"),
        (Does::Refuses, "n0>n1 rxe1 Device: no memory"),
        (Does::Hangs, "n1>n0 rxe1 Timeout: it hung in probing way 0"),
        (Does::Lost, "n1>n0 rxe1 Transfer: the node is lost: no answer"),
        (Does::OneWay, "n1>n0 rxe1 Transfer: IBV_WC_RETRY_EXC_ERR"),
    ] {
        let (nodes, found) = probed(&[Does::Well, second, Does::Well, Does::Well], None);
        let lines: Vec<String> = found.links.iter().map(told).collect();
        assert_eq!(lines.len(), 4 * 6, "{second:?}");
        assert!(lines.iter().any(|line| line == expected), "{second:?}: {lines:?}");
        let others = lines.iter().filter(|line| !line.contains("n1"));
        assert!(others.clone().count() == 12 && others.clone().all(|line| line.ends_with(" 3")), "{lines:?}");
        assert_eq!(found.lost.len(), usize::from(second == Does::Lost));
        if second == Does::Lost {
            let starts = nodes.starts.into_inner();
            assert_eq!(starts.iter().filter(|(node, _)| *node == 1).count(), 1, "a lost node is asked no more");
        }
    }
}

#[test]
fn nothing_to_measure_is_said() {
    let company = Company { interrupted: &|| false, tell: &|_| {} };
    let mut nodes = Nodes::new(&[Does::Well; 2]);
    let (one, two) = (hosts(1), hosts(2));
    let inventories = [node(&[("a", "ACTIVE")]), node(&[("b", "ACTIVE")])];
    let error = probe(&mut nodes, &plan(&one, &inventories), company).unwrap_err();
    assert!(matches!(error, ProbeError::OneNode), "{error}");
    let error = probe(&mut nodes, &plan(&two, &inventories), company).unwrap_err();
    assert_eq!(error.to_string(), "no two hosts have an active port of an HCA of the same name");
}

#[test]
fn an_interrupt_stops_the_workers() {
    let asked = std::cell::Cell::new(0);
    let interrupted = || {
        asked.set(asked.get() + 1);
        asked.get() > 3
    };
    let mut nodes = Nodes::new(&[Does::Well; 2]);
    let (two, inventories) = (hosts(2), vec![node(&[("a", "ACTIVE")]); 2]);
    let company = Company { interrupted: &interrupted, tell: &|_| {} };
    let error = probe(&mut nodes, &plan(&two, &inventories), company).unwrap_err();
    assert!(matches!(error, ProbeError::Interrupted), "{error}");
    let ended = nodes.queue.into_inner().into_iter().filter(|event| {
        matches!(event, LinkEvent::Message { message: FromAgent::WorkerEnded { cause: EndCause::Stopped, .. }, .. })
    });
    assert_eq!(ended.count(), 2);
}
