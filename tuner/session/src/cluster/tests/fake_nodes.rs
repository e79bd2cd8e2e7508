//! A bench over nodes that live in this process.

use std::{cell::RefCell, collections::VecDeque, rc::Rc, time::Duration};

use gdrtune_profiles::vocab::{Algorithm, Choice, Collective, DataType, Engine, Environment, Point, Protocol};
use gdrtune_tuner::bench::{Bench, BenchError, Cancel, Item, Sample, Script, Setup};
use gdrtune_wire::{
    EndCause, FromAgent, FromWorker, GroupId, ItemOutcome, SessionKey, StartGroup, Times, ToAgent, ToWorker,
};

use crate::cluster::{
    CallMode, ClusterBench, ClusterConfig, ClusterNote,
    link::{Link, LinkEvent},
    pace::PaceConfig,
};

pub(super) const POINT: Point = Point { collective: Collective::AllReduce, bytes: 4096 };

pub(super) fn choice(protocol: Protocol, channels: u16) -> Choice {
    Choice { algorithm: Algorithm::Ring, protocol, channels }
}

/// What the fake nodes do with a measurement of `ll`; every other one takes 100 us.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Fault {
    None,
    Hang,
    Crash,
    /// The same, and the first node is too slow to tell what came before.
    CrashAhead,
    Wrong,
    LoseNode,
    /// A worker of the first node ends, and then the second node is gone.
    CrashThenLose,
    Silence,
    RefuseStart,
    /// As `Crash`, and workers do not start again after it.
    CrashForGood,
    OtherNccl,
    TwoChannels,
}

/// Nodes in this process. Each message is answered at once.
pub(super) struct FakeNodes {
    fault: Fault,
    events: VecDeque<LinkEvent>,
    /// Ranks of each node in each living group.
    pub(super) groups: Vec<(usize, StartGroup)>,
    log: Rc<RefCell<Vec<String>>>,
    /// Of each script on each node: items in graphs, and all.
    pub(super) graphs: Vec<(usize, usize)>,
}

impl FakeNodes {
    fn say(&mut self, node: usize, message: FromAgent) {
        self.events.push_back(LinkEvent::Message { node, message });
    }

    fn worker(&mut self, node: usize, group: GroupId, rank: u32, message: FromWorker) {
        self.say(node, FromAgent::Worker { group, rank, message });
    }

    fn end(&mut self, node: usize, group: GroupId, cause: &EndCause) {
        let at = self.groups.iter().position(|(n, g)| *n == node && g.group == group);
        let Some((_, start)) = at.map(|at| self.groups.remove(at)) else { return };
        for rank in start.ranks {
            self.say(node, FromAgent::WorkerEnded { group, rank, cause: cause.clone() });
        }
    }

    fn run(&mut self, node: usize, start: &StartGroup, script: &gdrtune_wire::Script) {
        for (index, item) in (0..).zip(&script.items) {
            let comes_hit =
                script.items[index as usize..].iter().any(|i| i.choice.is_some_and(|c| c.protocol == Protocol::Ll));
            if self.fault == Fault::CrashAhead && comes_hit && node == 0 && index > 0 {
                return self.end(node, start.group, &EndCause::Stopped);
            }
            let hit = item.choice.is_some_and(|c| c.protocol == Protocol::Ll);
            let mut selected = item.choice;
            match self.fault {
                Fault::Hang if hit => {
                    let cause = EndCause::Deadline { during: format!("{} {}", item.point, item.choice.unwrap()) };
                    return self.end(node, start.group, &cause);
                }
                Fault::Crash | Fault::CrashAhead | Fault::CrashForGood if hit => {
                    let cause = if node == 1 { EndCause::Signal(11) } else { EndCause::Exit(1) };
                    return self.end(node, start.group, &cause);
                }
                Fault::CrashThenLose if hit && node == 0 => return self.end(node, start.group, &EndCause::Exit(1)),
                Fault::CrashThenLose if hit => {
                    return self.events.push_back(LinkEvent::Lost { node, why: "silent for 12 s".into() });
                }
                Fault::LoseNode if hit => {
                    return self.events.push_back(LinkEvent::Lost { node, why: "the agent is gone".into() });
                }
                Fault::Silence if hit => return,
                Fault::TwoChannels => selected = item.choice.map(|c| Choice { channels: 2, ..c }),
                _ => {}
            }
            for &rank in &start.ranks {
                let outcome = if self.fault == Fault::Wrong && hit && rank == 3 {
                    ItemOutcome::Wrong { elements: 7, first: "element 12 is 3, not 4".into() }
                } else {
                    ItemOutcome::Timed(Times {
                        mean_us: 100.0 + f64::from(rank),
                        median_us: 99.0,
                        min_us: 90.0,
                        max_us: 150.0,
                        cpu_us: 10.0,
                        selected,
                        checked: item.check,
                        predictions: vec![],
                    })
                };
                self.worker(node, start.group, rank, FromWorker::Item { script: script.id, item: index, outcome });
            }
        }
        for &rank in &start.ranks {
            self.worker(node, start.group, rank, FromWorker::ScriptDone { script: script.id });
        }
    }
}

struct FakeLink(Rc<RefCell<FakeNodes>>);

impl Link for FakeLink {
    fn send(&self, node: usize, message: ToAgent) {
        let mut nodes = self.0.borrow_mut();
        match message {
            ToAgent::Start(start) => {
                let text = format!("start {:?} on {node}: {:?}", start.ranks, start.settings);
                nodes.log.borrow_mut().push(text);
                nodes.groups.push((node, start.clone()));
                let is_again = start.group != GroupId(0);
                if nodes.fault == Fault::RefuseStart || (nodes.fault == Fault::CrashForGood && is_again) {
                    let cause = EndCause::NotStarted("no such interface: `railC`".into());
                    return nodes.end(node, start.group, &cause);
                }
                for rank in start.ranks {
                    if nodes.fault == Fault::OtherNccl {
                        let version = if node == 1 { "2.27.3" } else { "2.28.9" }.to_owned();
                        nodes.worker(node, start.group, rank, FromWorker::Library { version });
                    }
                    nodes.worker(node, start.group, rank, FromWorker::Bootstrap(vec![rank as u8]));
                }
            }
            ToAgent::ToWorkers { group, message } => {
                let Some(start) = nodes.groups.iter().find(|(n, g)| *n == node && g.group == group).cloned() else {
                    return;
                };
                match message {
                    ToWorker::Connect { peers } => {
                        let in_rank_order: Vec<Vec<u8>> = (0..start.1.world as u8).map(|rank| vec![rank]).collect();
                        assert_eq!(peers, in_rank_order);
                        for rank in start.1.ranks {
                            nodes.worker(
                                node,
                                group,
                                rank,
                                FromWorker::Connected { setup_us: 1, engine: Box::default() },
                            );
                        }
                    }
                    ToWorker::Run(script) => {
                        let graphs = script.items.iter().filter(|item| item.graph).count();
                        nodes.graphs.push((graphs, script.items.len()));
                        nodes.run(node, &start.1, &script);
                    }
                    ToWorker::Init(_) | ToWorker::Probe(_) | ToWorker::Quit => {}
                }
            }
            ToAgent::Stop(group) => nodes.end(node, group, &EndCause::Stopped),
            ToAgent::StoreFiles { bundle, files } => {
                let text = format!("store {bundle} on {node}: {}", files[0].0);
                nodes.log.borrow_mut().push(text);
                nodes.say(node, FromAgent::FilesStored { bundle });
            }
            _ => {}
        }
    }

    fn receive(&mut self, _timeout: Duration) -> Option<LinkEvent> {
        self.0.borrow_mut().events.pop_front()
    }
}

pub(super) struct Lab {
    pub(super) bench: ClusterBench<'static>,
    pub(super) nodes: Rc<RefCell<FakeNodes>>,
    pub(super) log: Rc<RefCell<Vec<String>>>,
    pub(super) notes: Rc<RefCell<Vec<ClusterNote>>>,
}

/// Two nodes with two ranks each.
pub(super) fn lab(fault: Fault) -> Lab {
    lab_with(fault, CallMode::default())
}

pub(super) fn lab_with(fault: Fault, calls: CallMode) -> Lab {
    let log = Rc::new(RefCell::new(Vec::new()));
    let nodes = FakeNodes { fault, events: VecDeque::new(), groups: Vec::new(), log: log.clone(), graphs: Vec::new() };
    let nodes = Rc::new(RefCell::new(nodes));
    let heard = Rc::new(RefCell::new(Vec::new()));
    let config = ClusterConfig {
        engine: Engine::Native,
        hosts: vec!["vh1".into(), "vh2".into()],
        emulate_nodes: false,
        worker_command: vec![],
        slots: vec![2, 2],
        data_type: DataType::F32,
        max_bytes: 4096,
        pace: PaceConfig { sample_us: 1_000.0, max_iterations: 10, min_lease_ms: 10 },
        calls,
        key: SessionKey([7; 32]),
    };
    let hear = heard.clone();
    let hear = Box::new(move |note| hear.borrow_mut().push(note));
    Lab { bench: ClusterBench::new(Box::new(FakeLink(nodes.clone())), config, hear), nodes, log, notes: heard }
}

pub(super) fn item(choice: Option<Choice>, repeats: u32) -> Item {
    Item { point: POINT, choice, repeats }
}

pub(super) fn live(items: Vec<Item>) -> Script {
    Script { setup: Setup::Live(Environment::new()), fresh: false, items }
}

pub(super) fn run(lab: &mut Lab, script: &Script) -> (Vec<Sample>, Result<(), BenchError>) {
    let mut samples = Vec::new();
    let result = lab.bench.run(script, &Cancel::new(), &mut |s| samples.push(s));
    (samples, result)
}
