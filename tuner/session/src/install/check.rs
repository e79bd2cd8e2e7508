//! Proves an installation: workers start as a job would, run one collective, and show what NCCL loaded on every rank.
//!
//! It keeps its own group of workers: [`crate::cluster`] makes one result of all ranks and gives up at the first that fails,
//! and here every rank is judged by itself, and by its log.

use std::time::{Duration, Instant};

use gdrtune_profiles::{
    install::Manifest,
    vocab::{Collective, DataType, Engine, Point, ReduceOp},
};
use gdrtune_wire::{
    EndCause, FromAgent, FromWorker, GroupId, Item, ItemOutcome, Script, SessionKey, Settings, StartGroup, ToAgent,
    ToWorker,
};

use super::evidence;
use crate::cluster::{
    link::{Link, LinkEvent},
    shape,
};

/// Time for all ranks to start, connect and run the collective. A first communicator of many nodes takes some 10 s.
const DEADLINE: Duration = Duration::from_mins(2);

/// What an agent may add to that: TERM, grace, KILL, reap.
const AGENT_GRACE: Duration = Duration::from_secs(10);

/// The one group of workers.
const GROUP: GroupId = GroupId(0);

/// Bytes of the collective for each rank: NCCL plans it like any other.
const BYTES_PER_RANK: u64 = 4096;

/// What is checked.
#[derive(Debug, Clone)]
pub struct CheckPlan {
    /// Ranks on each node, in rank order.
    pub slots: Vec<u32>,
    /// Whether every rank poses as a node of its own.
    pub emulate_nodes: bool,
    /// The folder of the installation.
    pub folder: String,
    /// What is installed there.
    pub manifest: Manifest,
    /// The run's key for data sockets.
    pub key: SessionKey,
}

/// What one rank showed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RankVerdict {
    /// The rank.
    pub rank: u32,
    /// Its node, in rank order.
    pub node: usize,
    /// Lines of NCCL's log that prove the installation (none where it has settings only); or what is wrong.
    pub result: Result<Vec<String>, String>,
}

/// What is known of a rank.
#[derive(Debug, Default)]
struct Rank {
    node: usize,
    bootstrap: Option<Vec<u8>>,
    log: Option<Vec<String>>,
    outcome: Option<ItemOutcome>,
    done: bool,
    failed: Option<String>,
    ended: Option<String>,
}

/// Starts one worker per rank from the installation, and judges each. Blocks until all workers are gone.
pub fn check(link: &mut dyn Link, plan: &CheckPlan) -> Vec<RankVerdict> {
    let mut check = Check::new(link, plan);
    check.start();
    check.wait(|rank| rank.bootstrap.is_some());
    if check.is_going() {
        let peers = check.ranks.iter_mut().map(|rank| rank.bootstrap.take().unwrap_or_default()).collect();
        check.tell(&ToWorker::Connect { peers });
        check.wait(|rank| rank.log.is_some());
    }
    if check.is_going() {
        check.tell(&ToWorker::Run(check.script()));
        check.wait(|rank| rank.done);
    }
    check.end();
    check.verdicts()
}

struct Check<'a> {
    link: &'a mut dyn Link,
    plan: &'a CheckPlan,
    ranks: Vec<Rank>,
    deadline: Instant,
    /// What keeps the check from going on, beyond single ranks.
    broken: Option<String>,
}

impl<'a> Check<'a> {
    fn new(link: &'a mut dyn Link, plan: &'a CheckPlan) -> Self {
        let of_node = |(node, &slots): (usize, &u32)| (0..slots).map(move |_| Rank { node, ..Rank::default() });
        let ranks = plan.slots.iter().enumerate().flat_map(of_node).collect();
        Self { link, plan, ranks, deadline: Instant::now() + DEADLINE, broken: None }
    }

    fn world(&self) -> u32 {
        self.ranks.len() as u32
    }

    fn start(&mut self) {
        let (nodes, _) = shape(&self.plan.slots, self.plan.emulate_nodes);
        for node in 0..self.plan.slots.len() {
            let ranks = (0u32..).zip(&self.ranks).filter(|(_, rank)| rank.node == node).map(|(rank, _)| rank).collect();
            let start = StartGroup {
                group: GROUP,
                world: self.world(),
                nodes,
                ranks,
                engine: Engine::Nccl,
                settings: Settings::Installed { folder: self.plan.folder.clone() },
                key: self.plan.key.clone(),
                max_bytes: self.bytes(),
                deadline_ms: DEADLINE.as_millis() as u64,
                emulate_nodes: self.plan.emulate_nodes,
                register_buffers: false,
                worker_command: Vec::new(),
                probe: None,
            };
            self.link.send(node, ToAgent::Start(start));
        }
    }

    fn bytes(&self) -> u64 {
        BYTES_PER_RANK * u64::from(self.world())
    }

    /// One all-reduce whose result is checked.
    fn script(&self) -> Script {
        let item = Item {
            point: Point { collective: Collective::AllReduce, bytes: self.bytes() },
            choice: None,
            data_type: DataType::F32,
            op: ReduceOp::Sum,
            root: 0,
            in_place: false,
            graph: false,
            check: true,
            warmup: 0,
            iterations: 1,
            lease_ms: DEADLINE.as_millis() as u64,
        };
        Script { id: 1, items: vec![item] }
    }

    fn tell(&mut self, message: &ToWorker) {
        for node in 0..self.plan.slots.len() {
            self.link.send(node, ToAgent::ToWorkers { group: GROUP, message: message.clone() });
        }
    }

    fn is_going(&self) -> bool {
        self.broken.is_none() && self.ranks.iter().all(|rank| rank.ended.is_none())
    }

    fn wait(&mut self, is_ready: impl Fn(&Rank) -> bool) {
        while self.is_going() && !self.ranks.iter().all(&is_ready) {
            self.pump();
            if self.deadline + AGENT_GRACE < Instant::now() {
                self.broken = Some(format!("no answer within {} s", (DEADLINE + AGENT_GRACE).as_secs()));
            }
        }
    }

    /// Stops the workers and waits until they are reaped, so that each one's last words and cause of death are known.
    fn end(&mut self) {
        for node in 0..self.plan.slots.len() {
            self.link.send(node, ToAgent::Stop(GROUP));
        }
        let deadline = Instant::now() + AGENT_GRACE;
        while self.broken.is_none() && self.ranks.iter().any(|rank| rank.ended.is_none()) && Instant::now() < deadline {
            self.pump();
        }
    }

    fn pump(&mut self) {
        match self.link.receive(Duration::from_millis(50)) {
            None | Some(LinkEvent::Log { .. }) => {}
            Some(LinkEvent::Lost { why, .. }) => self.broken = Some(why),
            Some(LinkEvent::Message { message, .. }) => self.file(message),
        }
    }

    fn file(&mut self, message: FromAgent) {
        match message {
            FromAgent::Worker { group: GROUP, rank, message } => {
                if let Some(rank) = self.ranks.get_mut(rank as usize) {
                    rank.file(message);
                }
            }
            FromAgent::WorkerEnded { group: GROUP, rank, cause } => {
                if let Some(rank) = self.ranks.get_mut(rank as usize) {
                    rank.ended = Some(describe(&cause));
                }
            }
            FromAgent::Refused { why } => self.broken = Some(why),
            _ => {}
        }
    }

    fn verdicts(&self) -> Vec<RankVerdict> {
        let verdict =
            |(number, rank): (u32, &Rank)| RankVerdict { rank: number, node: rank.node, result: self.judge(rank) };
        (0u32..).zip(&self.ranks).map(verdict).collect()
    }

    fn judge(&self, rank: &Rank) -> Result<Vec<String>, String> {
        match (&rank.failed, &rank.outcome) {
            (Some(why), _) | (None, Some(ItemOutcome::Unsupported(why))) => return Err(why.clone()),
            (None, Some(ItemOutcome::Wrong { elements, first })) => {
                return Err(format!("the collective's result is wrong in {elements} elements: {first}"));
            }
            (None, Some(ItemOutcome::Timed(_)) | None) => {}
        }
        let Some(log) = &rank.log else {
            let why = self.broken.as_ref().or(rank.ended.as_ref()).map_or("it did not connect", String::as_str);
            return Err(why.to_owned());
        };
        // Without rules there is no plugin: that the collective ran under the settings is all that there is to show.
        let evidence = if self.plan.manifest.rules > 0 { evidence::judge(&self.plan.manifest, log)? } else { vec![] };
        if rank.done {
            return Ok(evidence);
        }
        let why = self.broken.as_ref().or(rank.ended.as_ref()).map_or("it did not end", String::as_str);
        Err(format!("the collective did not run: {why}"))
    }
}

impl Rank {
    fn file(&mut self, message: FromWorker) {
        match message {
            FromWorker::Bootstrap(bytes) => self.bootstrap = Some(bytes),
            FromWorker::Connected { engine, .. } => self.log = Some(engine.plugin_log),
            FromWorker::Item { outcome, .. } => self.outcome = Some(outcome),
            FromWorker::ScriptDone { .. } => self.done = true,
            FromWorker::Failed(why) => self.failed = Some(why),
            FromWorker::Output(_)
            | FromWorker::Library { .. }
            | FromWorker::Probed { .. }
            | FromWorker::Unreached { .. } => {}
        }
    }
}

/// Why a worker ended, for people.
pub(crate) fn describe(cause: &EndCause) -> String {
    match cause {
        EndCause::Finished | EndCause::Stopped | EndCause::PeerEnded => "another rank failed".to_owned(),
        EndCause::Deadline { during } => format!("it hung in {during}"),
        EndCause::Exit(code) => format!("it ended with exit code {code}"),
        EndCause::Signal(signal) => format!("it was killed by signal {signal}"),
        EndCause::NotStarted(why) => format!("it did not start: {why}"),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use gdrtune_profiles::install::MANIFEST_FORMAT;
    use gdrtune_wire::{EngineReport, Times};

    use super::*;

    const LOADED: &str =
        "TUNER/Plugin: Using gdrtune; Successfully loaded external tuner plugin /opt/libnccl-tuner-gdrtune.so";
    const READ: &str =
        "TUNER/gdrtune: read 1 rules, 1 of them for 2 nodes and 2 ranks, checksum 0, from /opt/nccl-tuner.csv";

    /// Nodes of one rank each that answer as a worker would; rank 1 may answer otherwise.
    struct Nodes {
        second: Second,
        queue: VecDeque<LinkEvent>,
        sent: Vec<String>,
    }

    #[derive(Clone, Copy, PartialEq)]
    enum Second {
        Good,
        NoRules,
        Wrong,
        Refuses,
        Fails,
        Crashes,
        Lost,
    }

    impl Nodes {
        fn say(&mut self, node: usize, message: FromAgent) {
            self.queue.push_back(LinkEvent::Message { node, message });
        }

        fn worker(&mut self, node: usize, message: FromWorker) {
            self.say(node, FromAgent::Worker { group: GROUP, rank: node as u32, message });
        }

        fn answer(&mut self, node: usize, to: &ToWorker, kind: Second) {
            match to {
                ToWorker::Connect { peers } => {
                    assert_eq!(peers, &[vec![0], vec![1]]);
                    let lines = if kind == Second::NoRules { &[LOADED][..] } else { &[LOADED, READ] };
                    let plugin_log = lines.iter().map(|line| (*line).to_owned()).collect();
                    let engine = Box::new(EngineReport { plugin_log, ..EngineReport::default() });
                    self.worker(node, FromWorker::Connected { setup_us: 1, engine });
                }
                ToWorker::Run(script) => match kind {
                    Second::Crashes => {
                        let cause = EndCause::Signal(11);
                        self.say(node, FromAgent::WorkerEnded { group: GROUP, rank: node as u32, cause });
                    }
                    Second::Lost => self.queue.push_back(LinkEvent::Lost { node, why: "vh2 is gone".to_owned() }),
                    _ => {
                        let outcome = if kind == Second::Wrong {
                            ItemOutcome::Wrong { elements: 3, first: "element 0".to_owned() }
                        } else {
                            ItemOutcome::Timed(times())
                        };
                        assert_eq!(script.items.len(), 1);
                        self.worker(node, FromWorker::Item { script: script.id, item: 0, outcome });
                        self.worker(node, FromWorker::ScriptDone { script: script.id });
                    }
                },
                other => panic!("{other:?}"),
            }
        }
    }

    /// Sends answers at once; a cell, since sending borrows it shared.
    struct Fake(std::cell::RefCell<Nodes>);

    impl Link for Fake {
        fn send(&self, node: usize, message: ToAgent) {
            let mut nodes = self.0.borrow_mut();
            let kind = if node == 1 { nodes.second } else { Second::Good };
            match message {
                ToAgent::Start(start) => {
                    nodes.sent.push(format!("{:?} {:?} {}", start.ranks, start.settings, start.nodes));
                    match kind {
                        Second::Refuses => nodes.say(node, FromAgent::Refused { why: "no such folder".to_owned() }),
                        Second::Fails => nodes.worker(node, FromWorker::Failed("no driver".to_owned())),
                        _ => nodes.worker(node, FromWorker::Bootstrap(vec![node as u8])),
                    }
                    if kind == Second::Fails {
                        nodes.say(node, FromAgent::WorkerEnded { group: GROUP, rank: 1, cause: EndCause::Exit(1) });
                    }
                }
                ToAgent::ToWorkers { message, .. } => nodes.answer(node, &message, kind),
                ToAgent::Stop(group) => {
                    let cause = EndCause::Stopped;
                    nodes.say(node, FromAgent::WorkerEnded { group, rank: node as u32, cause });
                }
                other => panic!("{other:?}"),
            }
        }

        fn receive(&mut self, _: Duration) -> Option<LinkEvent> {
            self.0.borrow_mut().queue.pop_front()
        }
    }

    fn times() -> Times {
        Times {
            mean_us: 1.0,
            median_us: 1.0,
            min_us: 1.0,
            max_us: 1.0,
            cpu_us: 1.0,
            selected: None,
            checked: true,
            predictions: vec![],
        }
    }

    fn checked(second: Second, rules: u32) -> Vec<Result<usize, String>> {
        let manifest = Manifest {
            format: MANIFEST_FORMAT,
            gdrtune: "1".to_owned(),
            run: "r".to_owned(),
            path: "/opt".to_owned(),
            labels: vec![],
            rules,
            files: vec![],
        };
        let plan = CheckPlan {
            slots: vec![1, 1],
            emulate_nodes: false,
            folder: "/opt".to_owned(),
            manifest,
            key: SessionKey([0; 32]),
        };
        let mut link = Fake(Nodes { second, queue: VecDeque::new(), sent: vec![] }.into());
        let verdicts = check(&mut link, &plan);
        assert_eq!(link.0.into_inner().sent[1], "[1] Installed { folder: \"/opt\" } 2");
        assert_eq!(verdicts.iter().map(|v| (v.rank, v.node)).collect::<Vec<_>>(), [(0, 0), (1, 1)]);
        verdicts.into_iter().map(|verdict| verdict.result.map(|evidence| evidence.len())).collect()
    }

    #[test]
    fn every_rank_is_judged_by_itself() {
        let lines = 2 + 1;
        assert_eq!(checked(Second::Good, 1), [Ok(lines), Ok(lines)]);
        assert_eq!(checked(Second::NoRules, 0), [Ok(0), Ok(0)], "without rules there is no plugin to look for");
        let no_rules = checked(Second::NoRules, 1);
        assert!(no_rules[0].is_ok() && no_rules[1].as_ref().is_err_and(|why| why.contains("has read no rules")));
        for (second, first, why) in [
            (Second::Wrong, None, "the collective's result is wrong in 3 elements: element 0"),
            (Second::Refuses, Some("no such folder"), "no such folder"),
            (Second::Fails, Some("another rank failed"), "no driver"),
            (Second::Crashes, None, "the collective did not run: it was killed by signal 11"),
            (Second::Lost, None, "the collective did not run: vh2 is gone"),
        ] {
            let verdicts = checked(second, 1);
            assert_eq!(verdicts[1], Err(why.to_owned()));
            let expected = first.map_or(Ok(lines), |why| Err(why.to_owned()));
            assert_eq!(verdicts[0], expected, "{why}");
        }
    }
}
