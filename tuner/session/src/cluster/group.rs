//! One group of workers: who has answered what, and how it ended. Plain state; it sends nothing.

use std::{cmp::Reverse, collections::VecDeque, fmt, ops::Range, time::Duration};

use gdrtune_profiles::vocab::Choice;
use gdrtune_tuner::bench::{Outcome, Setup, Timing};
use gdrtune_wire::{EndCause, EngineReport, FromWorker, GroupId, ItemOutcome, Prediction, Settings, StartGroup, Times};

use super::{ClusterConfig, probe};

/// What an agent ends a worker with.
const SIGTERM: i32 = 15;

/// Why a group is broken, the most telling cause of all its ranks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum WorkerFate {
    /// Killed at a deadline.
    Hung(String),
    /// Ended by a signal.
    Signal { rank: u32, signal: i32 },
    /// Said why, and ended.
    Failed { rank: u32, why: String },
    /// Found no way to another rank.
    Unreached { rank: u32, peer: u32, why: String },
    /// Ended without a word to us; what it or the command around it printed last may say why.
    Exit { rank: u32, code: i32, last_line: String },
    /// Never ran.
    NotStarted { rank: u32, why: String },
    /// Nothing of the above.
    Ended,
}

impl fmt::Display for WorkerFate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hung(during) => write!(f, "hung in {during}; killed at its deadline"),
            Self::Signal { rank, signal } => write!(f, "rank {rank} was killed by signal {signal}"),
            Self::Failed { rank, why } | Self::Unreached { rank, why, .. } => write!(f, "rank {rank}: {why}"),
            Self::Exit { rank, code: 0, last_line } if last_line.is_empty() => {
                write!(
                    f,
                    "rank {rank} ended without a result and without an error: its standard input was closed, or a worker \
                     command did not wait for it"
                )
            }
            Self::Exit { rank, code, last_line } if last_line.is_empty() => {
                write!(f, "rank {rank} ended with exit code {code}")
            }
            Self::Exit { rank, code, last_line } => {
                write!(f, "rank {rank} ended with exit code {code}; it last printed: {last_line}")
            }
            Self::NotStarted { rank, why } => write!(f, "rank {rank} did not start: {why}"),
            Self::Ended => f.write_str("the workers ended"),
        }
    }
}

/// How far the current script is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    Going,
    Done,
    Broken,
}

#[derive(Debug, Default)]
struct Rank {
    bootstrap: Option<Vec<u8>>,
    /// Version of the library that its engine has loaded.
    library: Option<String>,
    connected: Option<EngineReport>,
    outcomes: VecDeque<ItemOutcome>,
    script_done: bool,
    failed: Option<String>,
    /// The rank that it found no way to.
    unreached: Option<u32>,
    last_line: String,
    ended: Option<EndCause>,
}

/// A group of workers.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) id: GroupId,
    pub(super) setup: Setup,
    ranks: Vec<Rank>,
    started: bool,
    script: Option<u64>,
    items: usize,
    taken: usize,
    overrun: bool,
    stored: Option<(u32, usize)>,
    refused: Option<String>,
}

impl Group {
    pub(super) fn new(id: u32, setup: Setup, world: u32) -> Self {
        Self {
            id: GroupId(id),
            setup,
            ranks: (0..world).map(|_| Rank::default()).collect(),
            started: false,
            script: None,
            items: 0,
            taken: 0,
            overrun: false,
            stored: None,
            refused: None,
        }
    }

    /// Running number of this set of processes.
    pub(super) fn process(&self) -> u32 {
        self.id.0
    }

    /// One message per node.
    pub(super) fn start_messages(
        &mut self,
        config: &ClusterConfig,
        bundle: Option<u32>,
        deadline: Duration,
    ) -> Vec<(usize, StartGroup)> {
        self.started = true;
        let settings = match (&self.setup, bundle) {
            (Setup::Live(environment), _) => Settings::Live(environment.clone()),
            (Setup::Deployed(_), Some(bundle)) => Settings::Deployed { bundle },
            (Setup::Site | Setup::Deployed(_), _) => Settings::Site,
        };
        let mut next_rank = 0;
        let mut messages = Vec::new();
        for (node, &slots) in config.slots.iter().enumerate() {
            let ranks = (next_rank..next_rank + slots).collect();
            next_rank += slots;
            messages.push((
                node,
                StartGroup {
                    group: self.id,
                    world: self.ranks.len() as u32,
                    nodes: config.nodes(),
                    ranks,
                    engine: config.engine,
                    settings: settings.clone(),
                    key: config.key.clone(),
                    max_bytes: config.max_bytes,
                    deadline_ms: deadline.as_millis() as u64,
                    emulate_nodes: config.emulate_nodes,
                    register_buffers: config.calls.register_buffers,
                    worker_command: config.worker_command.clone(),
                    probe: None,
                },
            ));
        }
        messages
    }

    pub(super) fn file(&mut self, rank: u32, message: FromWorker) {
        let script = self.script;
        let Some(state) = self.ranks.get_mut(rank as usize) else { return };
        match message {
            FromWorker::Bootstrap(bytes) => state.bootstrap = Some(bytes),
            FromWorker::Connected { engine, .. } => state.connected = Some(*engine),
            FromWorker::Item { script: id, outcome, .. } if Some(id) == script => state.outcomes.push_back(outcome),
            FromWorker::ScriptDone { script: id } if Some(id) == script => state.script_done = true,
            FromWorker::Failed(why) => state.failed = Some(why),
            FromWorker::Unreached { peer } => state.unreached = Some(peer),
            FromWorker::Output(line) => state.last_line = line,
            FromWorker::Library { version } => state.library = Some(version),
            FromWorker::Item { .. } | FromWorker::ScriptDone { .. } | FromWorker::Probed { .. } => {}
        }
    }

    pub(super) fn file_end(&mut self, rank: u32, cause: EndCause) {
        if let Some(state) = self.ranks.get_mut(rank as usize) {
            state.ended = Some(cause);
        }
    }

    pub(super) fn file_stored(&mut self, bundle: u32) {
        if let Some((expected, missing)) = &mut self.stored
            && *expected == bundle
        {
            *missing = missing.saturating_sub(1);
        }
    }

    /// A node refused what it was asked. It has no worker of those `ranks` that it never said anything of: nothing more will
    /// be heard of them.
    pub(super) fn file_refused(&mut self, ranks: Range<u32>, why: String) {
        if self.started {
            let of_node = self.ranks.iter_mut().take(ranks.end as usize).skip(ranks.start as usize);
            for rank in of_node.filter(|rank| rank.bootstrap.is_none() && rank.connected.is_none()) {
                rank.ended.get_or_insert_with(|| EndCause::NotStarted(why.clone()));
            }
        }
        self.refused.get_or_insert(why);
    }

    pub(super) fn expect_stored(&mut self, bundle: u32, nodes: usize) {
        self.stored = Some((bundle, nodes));
    }

    pub(super) fn all_stored(&self) -> bool {
        self.stored.is_some_and(|(_, missing)| missing == 0)
    }

    pub(super) fn refusal(&self) -> Option<String> {
        self.refused.clone()
    }

    pub(super) fn all_bootstrapped(&self) -> bool {
        self.ranks.iter().all(|r| r.bootstrap.is_some())
    }

    pub(super) fn take_bootstrap(&mut self) -> Vec<Vec<u8>> {
        self.ranks.iter_mut().map(|r| r.bootstrap.take().unwrap_or_default()).collect()
    }

    /// Versions of the ranks' library, in rank order; none where there is no library.
    pub(super) fn library_versions(&self) -> Vec<&str> {
        self.ranks.iter().filter_map(|r| r.library.as_deref()).collect()
    }

    pub(super) fn all_connected(&self) -> bool {
        self.ranks.iter().all(|r| r.connected.is_some())
    }

    /// What each rank runs with, in rank order.
    pub(super) fn reports(&self) -> Vec<EngineReport> {
        self.ranks.iter().map(|rank| rank.connected.clone().unwrap_or_default()).collect()
    }

    /// What the ranks run with, over all of them.
    pub(super) fn report(&self) -> EngineReport {
        probe::merge(self.ranks.iter().filter_map(|r| r.connected.as_ref()))
    }

    pub(super) fn was_started(&self) -> bool {
        self.started
    }

    pub(super) fn first_end(&self) -> bool {
        self.ranks.iter().any(|r| r.ended.is_some())
    }

    pub(super) fn all_ended(&self) -> bool {
        self.ranks.iter().all(|r| r.ended.is_some())
    }

    pub(super) fn is_alive(&self) -> bool {
        self.started && !self.overrun && !self.first_end()
    }

    pub(super) fn begin_script(&mut self, id: u64, items: usize) {
        self.script = Some(id);
        self.items = items;
        self.taken = 0;
        for rank in &mut self.ranks {
            rank.outcomes.clear();
            rank.script_done = false;
        }
    }

    /// The next item that all ranks have answered, over all ranks; with the predictions that came along.
    pub(super) fn next_outcome(&mut self) -> Option<(Outcome, Vec<Prediction>)> {
        if self.ranks.iter().any(|r| r.outcomes.is_empty()) {
            return None;
        }
        self.taken += 1;
        let mut outcomes: Vec<ItemOutcome> = self.ranks.iter_mut().filter_map(|r| r.outcomes.pop_front()).collect();
        let predictions = outcomes.first_mut().map(take_predictions).unwrap_or_default();
        Some((combine(&outcomes), predictions))
    }

    /// Whether every rank has answered every item of the script.
    pub(super) fn script_is_done(&self) -> bool {
        self.ranks.iter().all(|r| r.script_done)
    }

    /// The agents did not keep the lease themselves.
    pub(super) fn overrun(&mut self) {
        self.overrun = true;
    }

    pub(super) fn progress(&self) -> Progress {
        if self.taken == self.items && self.script_is_done() {
            Progress::Done
        } else if self.overrun || self.first_end() {
            Progress::Broken
        } else {
            Progress::Going
        }
    }

    /// Why the group is broken, and how many items its cause had answered that others had not.
    ///
    /// One rank's end takes the others along, so the most telling cause counts, not the first. The others may be behind:
    /// what they had not answered yet did not fail.
    pub(super) fn fate(&self) -> (WorkerFate, usize) {
        let (mut fate, mut lead) = (WorkerFate::Ended, 0);
        let mut weight = 0;
        for (rank, state) in (0u32..).zip(&self.ranks) {
            let (candidate, candidate_weight) = match (&state.ended, &state.failed) {
                (Some(EndCause::Deadline { during }), _) => (WorkerFate::Hung(during.clone()), 5),
                (Some(EndCause::NotStarted(why)), _) => (WorkerFate::NotStarted { rank, why: why.clone() }, 5),
                // It was ended for what was said of it, such as output that cannot be read; its peers' fates follow from it.
                (Some(EndCause::Signal(SIGTERM)), Some(why)) => (WorkerFate::Failed { rank, why: why.clone() }, 4),
                (Some(EndCause::Signal(signal)), _) => (WorkerFate::Signal { rank, signal: *signal }, 4),
                (Some(EndCause::Exit(code)), None) => {
                    (WorkerFate::Exit { rank, code: *code, last_line: state.last_line.clone() }, 3)
                }
                (_, Some(why)) => (failed(rank, state.unreached, why.clone()), 2),
                _ => continue,
            };
            if candidate_weight > weight {
                (fate, weight, lead) = (candidate, candidate_weight, state.outcomes.len());
            }
        }
        if weight < 5 && self.overrun {
            (WorkerFate::Hung("a measurement (no answer from the agents)".into()), 0)
        } else {
            (fate, lead)
        }
    }
}

fn failed(rank: u32, unreached: Option<u32>, why: String) -> WorkerFate {
    match unreached {
        Some(peer) => WorkerFate::Unreached { rank, peer, why },
        None => WorkerFate::Failed { rank, why },
    }
}

/// A setup in words.
pub(super) fn describe(setup: &Setup) -> String {
    match setup {
        Setup::Site => "the site's own environment".to_owned(),
        Setup::Live(environment) => environment.to_string(),
        Setup::Deployed(files) => {
            format!("emitted files {}", files.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", "))
        }
    }
}

fn take_predictions(outcome: &mut ItemOutcome) -> Vec<Prediction> {
    match outcome {
        ItemOutcome::Timed(times) => std::mem::take(&mut times.predictions),
        ItemOutcome::Wrong { .. } | ItemOutcome::Unsupported(_) => Vec::new(),
    }
}

/// One item's outcomes on all ranks as one.
fn combine(outcomes: &[ItemOutcome]) -> Outcome {
    let wrong = (0..).zip(outcomes).filter_map(|(rank, outcome)| match outcome {
        ItemOutcome::Wrong { elements, first } => Some((*elements, rank, first)),
        ItemOutcome::Timed(_) | ItemOutcome::Unsupported(_) => None,
    });
    // Every rank tells; those that found nothing themselves say so with 0 elements.
    if let Some((elements, rank, first)) = wrong.max_by_key(|&(elements, rank, _)| (elements, Reverse::<u32>(rank))) {
        return Outcome::Wrong(format!("rank {rank}: {elements} wrong elements, the first: {first}"));
    }
    let mut times: Vec<&Times> = Vec::with_capacity(outcomes.len());
    for outcome in outcomes {
        match outcome {
            ItemOutcome::Unsupported(why) => return Outcome::Unsupported(why.clone()),
            ItemOutcome::Timed(t) => times.push(t),
            ItemOutcome::Wrong { .. } => {}
        }
    }
    let mean = |field: fn(&Times) -> f64| times.iter().map(|t| field(t)).sum::<f64>() / times.len().max(1) as f64;
    let max = |field: fn(&Times) -> f64| times.iter().map(|t| field(t)).fold(0.0, f64::max);
    Outcome::Timed(Timing {
        time_us: mean(|t| t.mean_us),
        slowest_us: max(|t| t.mean_us),
        median_us: mean(|t| t.median_us),
        max_us: max(|t| t.max_us),
        cpu_us: mean(|t| t.cpu_us),
        // Who sent the item knows.
        iterations: 0,
        selected: selected(&times),
    })
}

/// What ran, by the word of the first rank that knows: NCCL logs on rank 0 alone what really ran, and elsewhere the plugin
/// tells what it asked for. Another rank that says the same may know the channels where the first one does not.
fn selected(times: &[&Times]) -> Option<Choice> {
    let told = || times.iter().filter_map(|t| t.selected);
    let first = told().next()?;
    let is_same = |other: &Choice| (other.algorithm, other.protocol) == (first.algorithm, first.protocol);
    Some(told().filter(is_same).find(|choice| choice.channels > 0).unwrap_or(first))
}

#[cfg(test)]
mod tests {
    use gdrtune_profiles::vocab::{Algorithm, Protocol};

    use super::*;

    #[test]
    fn what_ran_is_the_word_of_the_first_rank_that_knows() {
        let ring = |channels| Some(Choice { algorithm: Algorithm::Ring, protocol: Protocol::Ll, channels });
        let tree = |channels| Some(Choice { algorithm: Algorithm::Tree, protocol: Protocol::Ll, channels });
        for (told, expected) in [
            (vec![], None),
            (vec![None, None], None),
            // By the log, fewer channels than were asked for.
            (vec![ring(2), ring(8), ring(8)], ring(2)),
            (vec![None, ring(8)], ring(8)),
            (vec![ring(0), ring(0), ring(4)], ring(4)),
            (vec![ring(0), ring(0)], ring(0)),
            // By the log of a version that names no channels, another algorithm than was asked for.
            (vec![ring(0), tree(8)], ring(0)),
        ] {
            let times: Vec<Times> = told.into_iter().map(time).collect();
            assert_eq!(selected(&times.iter().collect::<Vec<_>>()), expected, "{times:?}");
        }
    }

    #[test]
    fn a_worker_that_was_ended_for_its_fault_is_told_by_the_fault() {
        let unreadable = || FromWorker::Failed("read its messages: too large".to_owned());
        for (failed, ended, expected) in [
            (true, EndCause::Signal(15), "rank 1: read its messages: too large"),
            (false, EndCause::Signal(15), "rank 1 was killed by signal 15"),
            (true, EndCause::Signal(11), "rank 1 was killed by signal 11"),
            (true, EndCause::Exit(1), "rank 1: read its messages: too large"),
            (false, EndCause::Exit(3), "rank 1 ended with exit code 3"),
        ] {
            let mut group = Group::new(1, Setup::Site, 3);
            if failed {
                group.file(1, unreadable());
            }
            for (rank, cause) in [(0, EndCause::PeerEnded), (1, ended), (2, EndCause::PeerEnded)] {
                group.file_end(rank, cause);
            }
            assert_eq!(group.fate().0.to_string(), expected);
        }
        let silent = WorkerFate::Exit { rank: 2, code: 0, last_line: String::new() }.to_string();
        assert!(silent.starts_with("rank 2 ended without a result") && silent.contains("standard input"), "{silent}");
    }

    #[test]
    fn nobody_waits_for_ranks_of_a_node_that_refused_to_start_them() {
        let mut group = Group::new(1, Setup::Site, 3);
        group.started = true;
        group.file(0, FromWorker::Bootstrap(vec![1]));
        group.file_refused(1..3, "no space left".to_owned());
        assert!(!group.all_ended(), "rank 0 runs");
        group.file_end(0, EndCause::Stopped);
        assert!(group.all_ended());
        assert_eq!(group.refusal().as_deref(), Some("no space left"));
    }

    fn time(selected: Option<Choice>) -> Times {
        Times {
            mean_us: 1.0,
            median_us: 1.0,
            min_us: 1.0,
            max_us: 1.0,
            cpu_us: 1.0,
            selected,
            checked: true,
            predictions: vec![],
        }
    }
}
