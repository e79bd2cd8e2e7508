//! Plays a stored run back at its own pace, slower or faster, from any moment. The UI cannot tell its records from a live
//! run's.

use std::{sync::Arc, time::Duration};

use gdrtune_session::event::{Event, Record};
use tokio::{
    sync::mpsc::{UnboundedReceiver, UnboundedSender},
    time::{Instant, sleep_until},
};

use super::{
    run::{Run, TrialRow},
    state::{Direction, Input, Jump, Play, Speed},
};

/// Snapshots of a run: a jump takes no more than this part of its records again.
const SNAPSHOTS: usize = 16;

/// Records between two snapshots at least: so many are taken again at once.
const MIN_RECORDS_APART: usize = 500;

/// What a run was at any moment.
struct Past {
    /// Shared with the UI while it has not taken them: at the highest speed that is all of them at once.
    records: Vec<Arc<Record>>,
    /// The run after some of them, in their order.
    snapshots: Vec<Snapshot>,
    /// The trials up to the last snapshot: they only grow, so the snapshots need not have them.
    trials: Vec<TrialRow>,
}

/// The run after some records.
struct Snapshot {
    /// How many records.
    taken: usize,
    /// Without its trials.
    run: Run,
    n_trials: usize,
}

impl Past {
    fn new(records: Vec<Record>) -> Self {
        let records = records.into_iter().map(Arc::new).collect();
        Self { records, snapshots: Vec::new(), trials: Vec::new() }
    }

    /// The run after so many records.
    fn after(&mut self, count: usize) -> Run {
        let apart = self.records.len().div_ceil(SNAPSHOTS).max(MIN_RECORDS_APART);
        let (taken, mut run) = self.nearest(count);
        for index in taken..count.min(self.records.len()) {
            let Some(record) = self.records.get(index) else { break };
            run.ingest(Record::clone(record));
            let taken = index + 1;
            if taken.is_multiple_of(apart) && self.snapshots.last().is_none_or(|last| last.taken < taken) {
                self.keep(taken, &mut run);
            }
        }
        run
    }

    /// The run as of the last snapshot before so many records, and how many it has taken.
    fn nearest(&self, count: usize) -> (usize, Run) {
        let nearest = self.snapshots.partition_point(|snapshot| snapshot.taken <= count);
        let Some(Snapshot { taken, run, n_trials }) = nearest.checked_sub(1).and_then(|i| self.snapshots.get(i)) else {
            return (0, Run::default());
        };
        let trials = self.trials.iter().take(*n_trials).cloned().collect();
        (*taken, Run { trials, ..run.clone() })
    }

    fn keep(&mut self, taken: usize, run: &mut Run) {
        let trials = std::mem::take(&mut run.trials);
        self.trials.extend(trials.iter().skip(self.trials.len()).cloned());
        self.snapshots.push(Snapshot { taken, run: run.clone(), n_trials: trials.len() });
        run.trials = trials;
    }

    /// Records up to a moment.
    fn count_until(&self, t_ms: u64) -> usize {
        self.records.partition_point(|record| record.t_ms <= t_ms)
    }

    /// Records up to the next event that shows, after `count` of them, or up to the one before the last that does.
    fn step(&self, count: usize, direction: Direction) -> usize {
        let (before, after) = self.records.split_at_checked(count).unwrap_or((&self.records, &[]));
        match direction {
            Direction::Forward => after.iter().position(shows).map_or(self.records.len(), |index| count + index + 1),
            Direction::Back => {
                let mut shown = before.iter().rposition(shows).into_iter();
                shown.next().and_then(|last| before[..last].iter().rposition(shows)).map_or(0, |index| index + 1)
            }
        }
    }
}

/// Whether an event is one that a step stops at.
fn shows(record: &Arc<Record>) -> bool {
    matches!(
        record.event,
        Event::Trial(_) | Event::Phase { .. } | Event::Verdict { .. } | Event::Written { .. } | Event::Finished { .. }
    )
}

/// Where the playback is.
struct Player {
    past: Past,
    sender: UnboundedSender<Input>,
    /// Records that were played.
    played: usize,
    speed: Speed,
    paused: bool,
    /// A moment of the run, and when it was (or would have been) played.
    origin: (f64, Instant),
}

/// Plays records until nobody listens any more; stands still at their end.
pub(crate) async fn play(
    records: Vec<Record>,
    sender: UnboundedSender<Input>,
    mut commands: UnboundedReceiver<Play>,
    speed: Speed,
) {
    let origin = (0.0, Instant::now());
    let mut player = Player { past: Past::new(records), sender, played: 0, speed, paused: false, origin };
    player.tell_end();
    loop {
        let due = player.due();
        tokio::select! {
            biased;
            command = commands.recv() => match command {
                None => return,
                Some(command) => player.obey(command),
            },
            () = sleep_until(due.unwrap_or(player.origin.1)), if due.is_some() => player.play_next(),
        }
        if player.sender.is_closed() {
            return;
        }
    }
}

impl Player {
    /// When the next record is to be played.
    fn due(&self) -> Option<Instant> {
        let record = self.past.records.get(self.played).filter(|_| !self.paused)?;
        let (origin_ms, origin) = self.origin;
        let wait_s = self.speed.factor().map_or(0.0, |factor| (record.t_ms as f64 - origin_ms) / 1e3 / factor);
        // At a speed of next to nothing, never.
        origin.checked_add(Duration::try_from_secs_f64(wait_s.max(0.0)).ok()?)
    }

    fn play_next(&mut self) {
        let Some(record) = self.past.records.get(self.played) else { return };
        self.tell(Input::Record(Arc::clone(record)));
        self.played += 1;
        self.tell_end();
    }

    fn obey(&mut self, command: Play) {
        self.origin = (self.now_ms(), Instant::now());
        match command {
            Play::Pause => self.paused = true,
            Play::Resume => self.paused = false,
            Play::Speed(speed) => self.speed = speed,
            Play::Seek(t_ms) => self.jump(self.past.count_until(t_ms), t_ms),
            Play::Step(direction) => {
                self.paused = true;
                let count = self.past.step(self.played, direction);
                let last = count.checked_sub(1).and_then(|index| self.past.records.get(index));
                self.jump(count, last.map_or(0, |record| record.t_ms));
            }
        }
    }

    /// The moment of the run that is shown now.
    fn now_ms(&self) -> f64 {
        let (origin_ms, origin) = self.origin;
        let reached_ms = self.played.checked_sub(1).and_then(|index| self.past.records.get(index));
        let reached_ms = reached_ms.map_or(0.0, |record| record.t_ms as f64);
        match self.speed.factor() {
            Some(factor) if !self.paused => (origin_ms + origin.elapsed().as_secs_f64() * 1e3 * factor).max(reached_ms),
            _ => origin_ms.max(reached_ms),
        }
    }

    fn jump(&mut self, count: usize, t_ms: u64) {
        let run = self.past.after(count);
        self.tell(Input::Jumped(Box::new(Jump { run, t_ms })));
        self.played = count;
        self.origin = (t_ms as f64, Instant::now());
        self.tell_end();
    }

    /// Says that nothing follows, once that is so: the last record of a killed run does not.
    fn tell_end(&self) {
        if self.played == self.past.records.len() {
            self.tell(Input::RecordsClosed);
        }
    }

    fn tell(&self, input: Input) {
        // A UI that was left is noticed by the loop.
        self.sender.send(input).ok();
    }
}

#[cfg(test)]
mod tests {
    use gdrtune_session::event::Phase;
    use tokio::sync::mpsc::unbounded_channel;

    use super::*;

    fn record(seq: u64, t_ms: u64) -> Record {
        Record { seq, t_ms, event: Event::Phase { phase: Phase::Search } }
    }

    /// What comes of records at these times under commands that are given `after` so many milliseconds: what is told, when.
    async fn played(times: &[u64], speed: f64, commands: &[(u64, Play)]) -> Vec<(u128, String)> {
        let (sender, mut receiver) = unbounded_channel();
        let (told, command_receiver) = unbounded_channel();
        let start = Instant::now();
        let records = (0..).zip(times).map(|(seq, t_ms)| record(seq, *t_ms)).collect();
        let player = tokio::spawn(play(records, sender, command_receiver, Speed::new(speed).unwrap()));
        let script = commands.to_vec();
        tokio::spawn(async move {
            for (at_ms, command) in script {
                sleep_until(start + Duration::from_millis(at_ms)).await;
                told.send(command).unwrap();
            }
            // Long after the last record; it ends the player.
            sleep_until(start + Duration::from_secs(1_000)).await;
        });
        let mut seen = Vec::new();
        while let Some(input) = receiver.recv().await {
            let what = match input {
                Input::Record(record) => format!("record {}", record.seq),
                Input::Jumped(jump) => format!("jump to {} of {}", jump.t_ms, jump.run.log.end()),
                Input::RecordsClosed => "end".to_owned(),
                other => panic!("{other:?}"),
            };
            seen.push((start.elapsed().as_millis(), what));
        }
        player.await.unwrap();
        seen
    }

    #[tokio::test(start_paused = true)]
    async fn records_come_when_the_playback_has_come_to_them() {
        /// A speed, commands and when they are given, and what is told when.
        type Case = (f64, Vec<(u64, Play)>, Vec<(u128, &'static str)>);
        let times = [0, 4_000, 8_000];
        let speed = |factor| Play::Speed(Speed::new(factor).unwrap());
        let cases: Vec<Case> = vec![
            (2.0, vec![], vec![(0, "record 0"), (2_000, "record 1"), (4_000, "record 2"), (4_000, "end")]),
            (f64::INFINITY, vec![], vec![(0, "record 0"), (0, "record 1"), (0, "record 2"), (0, "end")]),
            (
                1.0,
                vec![(1_000, Play::Pause), (6_000, Play::Resume)],
                vec![(0, "record 0"), (9_000, "record 1"), (13_000, "record 2"), (13_000, "end")],
            ),
            (
                1.0,
                vec![(2_000, speed(4.0)), (3_000, speed(0.5))],
                vec![(0, "record 0"), (2_500, "record 1"), (7_000, "record 2"), (7_000, "end")],
            ),
            // Back from the end, and on from there.
            (
                1.0,
                vec![(9_000, Play::Seek(3_000))],
                vec![
                    (0, "record 0"),
                    (4_000, "record 1"),
                    (8_000, "record 2"),
                    (8_000, "end"),
                    (9_000, "jump to 3000 of 1"),
                    (10_000, "record 1"),
                    (14_000, "record 2"),
                    (14_000, "end"),
                ],
            ),
            (
                1.0,
                vec![
                    (1_000, Play::Step(Direction::Forward)),
                    (2_000, Play::Step(Direction::Back)),
                    (3_000, Play::Step(Direction::Back)),
                    (4_000, Play::Seek(8_000)),
                ],
                vec![
                    (0, "record 0"),
                    (1_000, "jump to 4000 of 2"),
                    (2_000, "jump to 0 of 1"),
                    (3_000, "jump to 0 of 0"),
                    (4_000, "jump to 8000 of 3"),
                    (4_000, "end"),
                ],
            ),
        ];
        for (factor, commands, expected) in cases {
            let expected: Vec<_> = expected.into_iter().map(|(at, what)| (at, what.to_owned())).collect();
            assert_eq!(played(&times, factor, &commands).await, expected, "{factor} {commands:?}");
        }
    }

    #[test]
    fn a_run_at_any_moment_is_what_its_records_made_it() {
        let lines = include_str!("fixtures/run.jsonl").lines();
        let once: Vec<Record> = lines.map(|line| serde_json::from_str(line).unwrap()).collect();
        let records: Vec<Record> = std::iter::repeat_n(once, 20).flatten().collect();
        let mut past = Past::new(records.clone());
        let (n, mut run, mut runs) = (records.len(), Run::default(), vec![Run::default()]);
        for record in records {
            run.ingest(record);
            runs.push(run.clone());
        }
        for count in [n, 0, 1, n / 2, n / 2 + 1, 700, MIN_RECORDS_APART, MIN_RECORDS_APART - 1, n - 1] {
            assert!(past.after(count) == runs[count], "after {count} of {n}");
        }
        assert_eq!(past.snapshots.len(), n / n.div_ceil(SNAPSHOTS).max(MIN_RECORDS_APART));
        assert!(past.snapshots.iter().all(|snapshot| snapshot.run.trials.is_empty()), "each trial is kept once");
    }
}
