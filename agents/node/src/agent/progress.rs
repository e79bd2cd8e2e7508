//! How far a worker has come, and until when it must come further.
//!
//! Every step that can hang has a deadline: start to connected, each item of a script, the end of a script, a probe's step,
//! quitting. Pure:
//! time is a value, and nobody is killed here.

use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, Instant},
};

use gdrtune_wire::{FromWorker, Item, ProbeStep, Script, ToWorker};

/// Time from the last item to the end of its script, and from [`ToWorker::Quit`] to the end of the worker: nothing is left
/// to do but to say so and to free memory.
const CLOSING_LIMIT: Duration = Duration::from_secs(5);

/// Longest lease. A larger one would only overflow the clock.
const LONGEST_LEASE: Duration = Duration::from_hours(24);

/// What a worker is doing.
#[derive(Debug)]
pub(super) struct Progress {
    stage: Stage,
    connect_by: Instant,
    deadline: Option<Instant>,
    scripts: VecDeque<Running>,
    /// The step of a probe that is due.
    probe: Option<ProbeStep>,
    quitting: bool,
    milestones: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Starting,
    Bootstrapped,
    Connecting,
    Connected,
}

#[derive(Debug)]
struct Running {
    script: Arc<Script>,
    next_item: usize,
}

impl Progress {
    /// A worker that starts now and must be connected within `connect_limit`.
    pub(super) fn new(now: Instant, connect_limit: Duration) -> Self {
        let connect_by = now + connect_limit.min(LONGEST_LEASE);
        Self {
            stage: Stage::Starting,
            connect_by,
            deadline: Some(connect_by),
            scripts: VecDeque::new(),
            probe: None,
            quitting: false,
            milestones: 0,
        }
    }

    /// When the worker counts as hung, unless it comes further before.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Steps done so far. All ranks of a group do the same steps, so the smallest count tells who holds up the others.
    pub(super) fn milestones(&self) -> u64 {
        self.milestones
    }

    /// Whether it was told to quit, so that its end is no surprise.
    pub(super) fn is_quitting(&self) -> bool {
        self.quitting
    }

    /// Notes what the worker was sent. `script` is what a [`ToWorker::Run`] carries, shared by the ranks.
    pub(super) fn note_sent(&mut self, now: Instant, message: &ToWorker, script: Option<&Arc<Script>>) {
        match message {
            ToWorker::Connect { .. } if self.stage == Stage::Bootstrapped => self.stage = Stage::Connecting,
            ToWorker::Init(_) | ToWorker::Connect { .. } => {}
            ToWorker::Run(_) => {
                self.scripts.extend(script.map(|script| Running { script: Arc::clone(script), next_item: 0 }));
                if self.stage == Stage::Connected && self.scripts.len() == 1 {
                    self.restart_clock(now);
                }
            }
            ToWorker::Probe(step) => {
                self.probe = Some(*step);
                self.restart_clock(now);
            }
            ToWorker::Quit => {
                self.quitting = true;
                if self.stage != Stage::Connected || self.scripts.is_empty() {
                    self.restart_clock(now);
                }
            }
        }
    }

    /// Notes what the worker said. Only the step that is due counts as progress.
    pub(super) fn note_heard(&mut self, now: Instant, message: &FromWorker) {
        let progressed = match message {
            FromWorker::Bootstrap(_) if self.stage == Stage::Starting => {
                self.stage = Stage::Bootstrapped;
                true
            }
            FromWorker::Connected { .. } if self.stage != Stage::Connected => {
                self.stage = Stage::Connected;
                true
            }
            FromWorker::Item { script, item, .. } => self.finish_item(*script, *item),
            FromWorker::ScriptDone { script } => self.finish_script(*script),
            FromWorker::Probed { number, .. } => self.probe.take_if(|step| step.number == *number).is_some(),
            _ => false,
        };
        if progressed {
            self.milestones += 1;
            self.restart_clock(now);
        }
    }

    /// What the worker is doing, for people: fits "hung while {}".
    pub(super) fn during(&self) -> String {
        match (self.stage, self.scripts.front()) {
            (_, None) if self.quitting => "quitting".to_owned(),
            (Stage::Starting, _) => "starting, before its bootstrap".to_owned(),
            (Stage::Bootstrapped, _) => "waiting for the other ranks' bootstrap".to_owned(),
            (Stage::Connecting, _) => "connecting to the other ranks".to_owned(),
            (Stage::Connected, Some(running)) => running.during(),
            (Stage::Connected, None) => {
                self.probe.map_or_else(|| "idle".to_owned(), |step| format!("probing way {}", step.way))
            }
        }
    }

    fn finish_item(&mut self, script: u64, item: u32) -> bool {
        match self.scripts.front_mut() {
            Some(running) if running.script.id == script && running.next_item == item as usize => {
                running.next_item += 1;
                true
            }
            _ => false,
        }
    }

    fn finish_script(&mut self, script: u64) -> bool {
        self.scripts.pop_front_if(|running| running.script.id == script).is_some()
    }

    fn restart_clock(&mut self, now: Instant) {
        self.deadline = match (self.stage, self.scripts.front()) {
            (Stage::Connected, Some(running)) => Some(now + running.lease()),
            _ if self.quitting => Some(now + CLOSING_LIMIT),
            (Stage::Connected, None) => {
                self.probe.map(|step| now + Duration::from_millis(step.lease_ms).min(LONGEST_LEASE))
            }
            _ => Some(self.connect_by),
        };
    }
}

impl Running {
    fn item(&self) -> Option<&Item> {
        self.script.items.get(self.next_item)
    }

    fn lease(&self) -> Duration {
        self.item().map_or(CLOSING_LIMIT, |item| Duration::from_millis(item.lease_ms).min(LONGEST_LEASE))
    }

    fn during(&self) -> String {
        let Some(item) = self.item() else { return format!("ending script {}", self.script.id) };
        let choice = item.choice.map_or_else(|| "the engine's own choice".to_owned(), |choice| choice.to_string());
        let (number, count) = (self.next_item + 1, self.script.items.len());
        format!("measuring {} with {choice} (item {number} of {count}, script {})", item.point, self.script.id)
    }
}

#[cfg(test)]
mod tests {
    use gdrtune_profiles::vocab::{Collective, DataType, Point, ReduceOp};
    use gdrtune_wire::{ItemOutcome, ProbeOutcome};

    use super::*;

    fn script(id: u64, leases_ms: &[u64]) -> Arc<Script> {
        let item = |lease_ms: &u64| Item {
            point: Point { collective: Collective::AllReduce, bytes: 65536 },
            choice: None,
            data_type: DataType::F32,
            op: ReduceOp::Sum,
            root: 0,
            in_place: false,
            graph: false,
            check: false,
            warmup: 0,
            iterations: 1,
            lease_ms: *lease_ms,
        };
        Arc::new(Script { id, items: leases_ms.iter().map(item).collect() })
    }

    fn item(script: u64, item: u32) -> FromWorker {
        FromWorker::Item { script, item, outcome: ItemOutcome::Unsupported(String::new()) }
    }

    struct Clock(Instant, Progress);

    impl Clock {
        fn at(&self, ms: u64) -> Instant {
            self.0 + Duration::from_millis(ms)
        }

        fn heard(&mut self, ms: u64, message: &FromWorker) {
            self.1.note_heard(self.at(ms), message);
        }

        fn run(&mut self, ms: u64, script: &Arc<Script>) {
            self.1.note_sent(self.at(ms), &ToWorker::Run((**script).clone()), Some(script));
        }

        /// Deadline in milliseconds from the start.
        fn due(&self) -> Option<u64> {
            self.1.deadline().map(|deadline| (deadline - self.0).as_millis() as u64)
        }
    }

    fn connected() -> Clock {
        let start = Instant::now();
        let mut clock = Clock(start, Progress::new(start, Duration::from_secs(1)));
        clock.heard(100, &FromWorker::Bootstrap(vec![]));
        clock.1.note_sent(clock.at(100), &ToWorker::Connect { peers: vec![] }, None);
        clock.heard(200, &FromWorker::Connected { setup_us: 1, engine: Box::default() });
        clock
    }

    #[test]
    fn connecting_has_one_deadline_that_talk_does_not_move() {
        let start = Instant::now();
        let mut clock = Clock(start, Progress::new(start, Duration::from_secs(1)));
        assert_eq!((clock.due(), clock.1.during().as_str()), (Some(1000), "starting, before its bootstrap"));
        clock.heard(500, &FromWorker::Output("noise".into()));
        clock.heard(600, &FromWorker::Bootstrap(vec![]));
        assert_eq!((clock.due(), clock.1.during().as_str()), (Some(1000), "waiting for the other ranks' bootstrap"));
        clock.1.note_sent(clock.at(700), &ToWorker::Connect { peers: vec![] }, None);
        assert_eq!((clock.due(), clock.1.during().as_str()), (Some(1000), "connecting to the other ranks"));
        clock.heard(900, &FromWorker::Connected { setup_us: 1, engine: Box::default() });
        assert_eq!((clock.due(), clock.1.during().as_str()), (None, "idle"));
    }

    #[test]
    fn each_item_has_its_lease_and_the_script_an_end() {
        let mut clock = connected();
        clock.run(1000, &script(7, &[10, 20]));
        assert_eq!(clock.due(), Some(1010));
        assert_eq!(clock.1.during(), "measuring allreduce 64K with the engine's own choice (item 1 of 2, script 7)");
        clock.heard(1005, &item(7, 0));
        assert_eq!(clock.due(), Some(1025));
        clock.heard(1015, &item(7, 1));
        assert_eq!((clock.due(), clock.1.during().as_str()), (Some(6015), "ending script 7"));
        clock.heard(1016, &FromWorker::ScriptDone { script: 7 });
        assert_eq!(clock.due(), None);
        assert_eq!(clock.1.milestones(), 5);
    }

    #[test]
    fn a_second_script_waits_for_the_first_and_stray_results_do_not_count() {
        let mut clock = connected();
        clock.run(1000, &script(1, &[10]));
        clock.run(1001, &script(2, &[30]));
        assert_eq!(clock.due(), Some(1010));
        for stray in [item(2, 0), item(1, 1), FromWorker::ScriptDone { script: 2 }, FromWorker::Bootstrap(vec![])] {
            clock.heard(1002, &stray);
            assert_eq!(clock.due(), Some(1010), "{stray:?}");
        }
        clock.heard(1003, &item(1, 0));
        clock.heard(1004, &FromWorker::ScriptDone { script: 1 });
        assert_eq!(clock.due(), Some(1034));
    }

    #[test]
    fn a_script_before_the_connection_gets_its_lease_from_there() {
        let start = Instant::now();
        let mut clock = Clock(start, Progress::new(start, Duration::from_secs(1)));
        clock.run(0, &script(1, &[10]));
        assert_eq!(clock.due(), Some(1000));
        clock.heard(500, &FromWorker::Connected { setup_us: 1, engine: Box::default() });
        assert_eq!(clock.due(), Some(510));
    }

    #[test]
    fn a_step_of_a_probe_has_its_lease() {
        let mut clock = connected();
        let step = ProbeStep { number: 4, way: 2, time_ms: 10, lease_ms: 50 };
        clock.1.note_sent(clock.at(1000), &ToWorker::Probe(step), None);
        assert_eq!((clock.due(), clock.1.during().as_str()), (Some(1050), "probing way 2"));
        let outcome = ProbeOutcome::Measured { rates: vec![], latency_us: 1.0 };
        clock.heard(1010, &FromWorker::Probed { number: 3, outcome: outcome.clone() });
        assert_eq!(clock.due(), Some(1050), "another step's");
        clock.heard(1020, &FromWorker::Probed { number: 4, outcome });
        assert_eq!((clock.due(), clock.1.during().as_str()), (None, "idle"));
    }

    #[test]
    fn quitting_comes_after_the_scripts_and_has_a_limit() {
        let mut clock = connected();
        clock.run(1000, &script(1, &[10]));
        clock.1.note_sent(clock.at(1001), &ToWorker::Quit, None);
        assert_eq!(clock.due(), Some(1010));
        clock.heard(1002, &item(1, 0));
        clock.heard(1003, &FromWorker::ScriptDone { script: 1 });
        assert_eq!((clock.due(), clock.1.during().as_str()), (Some(6003), "quitting"));
        assert!(clock.1.is_quitting());
    }

    #[test]
    fn absurd_leases_do_not_overflow() {
        let start = Instant::now();
        let mut clock = Clock(start, Progress::new(start, Duration::MAX));
        clock.heard(0, &FromWorker::Connected { setup_us: 1, engine: Box::default() });
        clock.run(0, &script(1, &[u64::MAX]));
        assert_eq!(clock.due(), Some(LONGEST_LEASE.as_millis() as u64));
    }
}
