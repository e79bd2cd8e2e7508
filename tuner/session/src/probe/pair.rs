//! One pair of nodes while it is measured: two workers, the ways between them, and which step is due. Sends, but never waits.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use gdrtune_profiles::{
    bindings::ceilings::{Failure, Memory},
    vocab::{Engine, Environment},
};
use gdrtune_wire::{
    EndCause, FromWorker, GroupId, ProbeOutcome, ProbeSetup, ProbeStep, ProbeWay, Settings, StartGroup, ToAgent,
    ToWorker,
};

use super::{ProbePlan, failed};
use crate::{
    cluster::{AGENT_GRACE, link::Link},
    install::check::describe,
};

/// Time for both workers to open and connect their ways. GPUs' contexts and 64 pinned regions take some seconds.
const SETUP_DEADLINE: Duration = Duration::from_secs(30);

/// Time that a step may take on top of what it measures: the worker's own patience with a slow way is 5 s.
const STEP_GRACE: Duration = Duration::from_secs(12);

/// Makes CUDA number GPUs as the inventory does: by PCI address.
const GPU_ORDER: (&str, &str) = ("CUDA_DEVICE_ORDER", "PCI_BUS_ID");

/// One way in one direction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) way: ProbeWay,
    /// Index of the way.
    index: u32,
    /// The node that writes.
    pub(super) from: usize,
    /// The other one.
    pub(super) to: usize,
    /// The writing side: 0 or 1, which is also the rank.
    side: usize,
}

/// What is known of one of the two workers.
#[derive(Debug, Default)]
struct Side {
    node: usize,
    bootstrap: Option<Vec<u8>>,
    connected: bool,
    failed: Option<String>,
    last_line: String,
    /// Why there is no worker any more.
    ended: Option<String>,
    /// Whether that was its deadline.
    hung: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Opening,
    Connecting,
    Measuring,
    Closing,
    Over,
}

/// A pair that is being measured.
#[derive(Debug)]
pub(super) struct PairRun {
    group: GroupId,
    sides: [Side; 2],
    setup: ProbeSetup,
    settings: Settings,
    key: gdrtune_wire::SessionKey,
    time: Duration,
    stage: Stage,
    deadline: Instant,
    due: VecDeque<Step>,
    /// Whether the first of them was asked for.
    is_asked: bool,
    results: Vec<(Step, ProbeOutcome)>,
}

impl PairRun {
    /// Both directions of every way, way by way.
    pub(super) fn new(group: u32, (a, b): (usize, usize), ways: Vec<ProbeWay>, plan: &ProbePlan<'_>) -> Self {
        let step = |(index, way): (u32, &ProbeWay), side: usize| {
            let (from, to) = if side == 0 { (a, b) } else { (b, a) };
            Step { way: way.clone(), index, from, to, side }
        };
        let due = (0..).zip(&ways).flat_map(|way| [step(way, 0), step(way, 1)]).collect();
        let on_gpus = ways.iter().any(|way| way.memory != Memory::Host);
        let environment = Environment::new();
        let environment = if on_gpus { environment.with(GPU_ORDER.0, GPU_ORDER.1) } else { environment };
        Self {
            group: GroupId(group),
            sides: [a, b].map(|node| Side { node, ..Side::default() }),
            setup: ProbeSetup { ways },
            settings: Settings::Live(environment),
            key: plan.key.clone(),
            time: plan.time,
            stage: Stage::Opening,
            deadline: Instant::now() + SETUP_DEADLINE + AGENT_GRACE,
            due,
            is_asked: false,
            results: Vec::new(),
        }
    }

    /// Whether all is measured, or has failed, and no worker is left.
    pub(super) fn is_over(&self) -> bool {
        self.stage == Stage::Over
    }

    /// Everything that was measured.
    pub(super) fn into_results(self) -> Vec<(Step, ProbeOutcome)> {
        self.results
    }

    /// Starts both workers.
    pub(super) fn start(&mut self, link: &dyn Link) {
        if self.due.is_empty() || self.sides.iter().any(|side| side.ended.is_some()) {
            self.give_up();
            self.stage = Stage::Over;
            return;
        }
        for (rank, side) in (0..).zip(&self.sides) {
            let start = StartGroup {
                group: self.group,
                world: 2,
                nodes: 2,
                ranks: vec![rank],
                engine: Engine::Native,
                settings: self.settings.clone(),
                key: self.key.clone(),
                max_bytes: 0,
                deadline_ms: SETUP_DEADLINE.as_millis() as u64,
                emulate_nodes: false,
                register_buffers: false,
                worker_command: Vec::new(),
                probe: Some(self.setup.clone()),
            };
            link.send(side.node, ToAgent::Start(start));
        }
    }

    /// Takes what a worker says.
    pub(super) fn file(&mut self, group: GroupId, rank: u32, message: &FromWorker) {
        if group != self.group {
            return;
        }
        let Some(side) = self.sides.get_mut(rank as usize) else { return };
        match message {
            FromWorker::Bootstrap(bytes) => side.bootstrap = Some(bytes.clone()),
            FromWorker::Connected { .. } => side.connected = true,
            FromWorker::Failed(why) => side.failed = Some(why.clone()),
            FromWorker::Output(line) => side.last_line.clone_from(line),
            FromWorker::Probed { number, outcome } if self.is_asked && *number == self.number() => {
                self.is_asked = false;
                self.results.extend(self.due.pop_front().map(|step| (step, outcome.clone())));
            }
            _ => {}
        }
    }

    /// Takes a worker's end.
    pub(super) fn file_end(&mut self, group: GroupId, rank: u32, cause: &EndCause) {
        if group == self.group
            && let Some(side) = self.sides.get_mut(rank as usize)
        {
            side.hung |= matches!(cause, EndCause::Deadline { .. });
            side.ended.get_or_insert_with(|| describe(cause));
        }
    }

    /// A node is gone, and with it its worker.
    pub(super) fn lose(&mut self, node: usize, why: &str) {
        for side in self.sides.iter_mut().filter(|side| side.node == node) {
            side.failed = Some(format!("the node is lost: {why}"));
            side.ended = Some(why.to_owned());
        }
    }

    /// A node refused what it was asked; of a worker that has said nothing, nothing will come.
    pub(super) fn refuse(&mut self, node: usize, why: &str) {
        for side in self.sides.iter_mut().filter(|side| side.node == node && side.bootstrap.is_none()) {
            side.ended.get_or_insert_with(|| why.to_owned());
        }
    }

    /// Ends the workers at once.
    pub(super) fn stop(&mut self, link: &dyn Link) {
        for side in self.sides.iter().filter(|side| side.ended.is_none()) {
            link.send(side.node, ToAgent::Stop(self.group));
        }
    }

    /// Does what is due.
    pub(super) fn advance(&mut self, link: &dyn Link, now: Instant) {
        if self.stage == Stage::Over {
            return;
        }
        let is_late = self.deadline < now;
        if self.stage == Stage::Closing {
            if is_late || self.sides.iter().all(|side| side.ended.is_some()) {
                self.stage = Stage::Over;
            }
            return;
        }
        if is_late || self.sides.iter().any(|side| side.ended.is_some()) {
            self.give_up();
            self.stop(link);
            self.close(now);
            return;
        }
        match self.stage {
            Stage::Opening if self.sides.iter().all(|side| side.bootstrap.is_some()) => {
                let peers = self.sides.iter_mut().map(|side| side.bootstrap.take().unwrap_or_default()).collect();
                self.tell(link, &ToWorker::Connect { peers });
                self.stage = Stage::Connecting;
            }
            Stage::Connecting if self.sides.iter().all(|side| side.connected) => self.stage = Stage::Measuring,
            _ => {}
        }
        if self.stage == Stage::Measuring && !self.is_asked {
            self.ask(link, now);
        }
    }

    /// Number of the step that is due.
    fn number(&self) -> u32 {
        self.results.len() as u32
    }

    /// Asks for the step that is due; ends the workers where none is.
    fn ask(&mut self, link: &dyn Link, now: Instant) {
        let Some(step) = self.due.front() else {
            self.tell(link, &ToWorker::Quit);
            self.close(now);
            return;
        };
        let lease = self.time + STEP_GRACE;
        let message = ToWorker::Probe(ProbeStep {
            number: self.number(),
            way: step.index,
            time_ms: self.time.as_millis() as u64,
            lease_ms: lease.as_millis() as u64,
        });
        if let Some(side) = self.sides.get(step.side) {
            link.send(side.node, ToAgent::ToWorkers { group: self.group, message });
        }
        self.is_asked = true;
        self.deadline = now + lease + AGENT_GRACE;
    }

    fn tell(&self, link: &dyn Link, message: &ToWorker) {
        for side in &self.sides {
            link.send(side.node, ToAgent::ToWorkers { group: self.group, message: message.clone() });
        }
    }

    fn close(&mut self, now: Instant) {
        self.stage = Stage::Closing;
        self.deadline = now + AGENT_GRACE;
    }

    /// What was not measured has failed, for the reason of the side that has one.
    fn give_up(&mut self) {
        let own_words = self.sides.iter().find(|side| side.failed.is_some());
        let side = own_words.or_else(|| self.sides.iter().find(|side| side.ended.is_some()));
        let (failure, why) = match side {
            None => (Failure::Timeout, "no answer in time".to_owned()),
            Some(side) => {
                let ended = side.ended.as_deref().unwrap_or("its worker failed");
                let why = side.failed.clone().unwrap_or_else(|| match side.last_line.as_str() {
                    "" => ended.to_owned(),
                    line => format!("{ended}; it last printed: {line}"),
                });
                let failure = match self.stage {
                    _ if side.hung => Failure::Timeout,
                    Stage::Measuring => Failure::Transfer,
                    Stage::Connecting => Failure::Connect,
                    _ => Failure::Device,
                };
                (failure, why)
            }
        };
        let due = std::mem::take(&mut self.due);
        self.results.extend(due.into_iter().map(|step| (step, failed(failure, why.clone()))));
    }
}
