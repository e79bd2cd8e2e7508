//! A run that goes on from its store.
//!
//! The search is deterministic for equal samples and clock readings. So a resumed run is the same course once more, with
//! the same arguments and seed, over a [`Ledger`] that answers from the store for as long as the store knows, and
//! a recorder that holds every decision against the stored one ([`Retrace`]) instead of recording it again.

mod bench;
mod numbers;
mod retrace;

use std::collections::VecDeque;

use gdrtune_profiles::bindings::ceilings::Ceilings;
use gdrtune_tuner::bench::{BenchError, Outcome, Sample, Timing};

pub(crate) use self::retrace::{Told, is_decision};
pub use self::{
    bench::{EarlierScript, Ledger, RecordedBench},
    numbers::Numbers,
    retrace::{Divergence, Retrace},
};
use crate::event::{
    Event, Extension, Failure, Invocation, LeftOut, RanInstead, Record, RunEnd, Trial, TrialResult, Wish,
};

/// A run that cannot go on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ResumeError {
    /// The file does not begin as a run.
    #[error("this is no run: its first record is not the beginning of one")]
    NoRun,
    /// Its result is there.
    #[error("run {run} has finished: {summary}")]
    Finished {
        /// Run id.
        run: String,
        /// How.
        summary: String,
    },
    /// The gdrtune that began it kept too little.
    #[error("run {run} cannot be resumed: gdrtune {tool}, which began it, did not record {missing}")]
    TooOld {
        /// Run id.
        run: String,
        /// Its version.
        tool: String,
        /// What is missing.
        missing: &'static str,
    },
}

/// What an earlier process of a run has left.
#[derive(Debug, Clone)]
pub struct Earlier {
    /// Run id.
    pub run: String,
    /// How it was asked for.
    pub invocation: Invocation,
    /// What is held against the run's decisions.
    pub retrace: Retrace,
    /// What was measured.
    pub measured: Measured,
    /// Number of the next record.
    pub next_seq: u64,
    /// Milliseconds that the run has taken.
    pub t_ms: u64,
}

/// What an earlier process of a run has measured on the nodes that it had last. The default is that of a new run.
#[derive(Debug, Clone, Default)]
pub struct Measured {
    /// Its scripts, in order; only the last can be cut off.
    pub scripts: VecDeque<EarlierScript>,
    /// The question how to go on that was first answered with the end of the search.
    pub finish_at: Option<u64>,
    /// What the user wanted otherwise on these nodes.
    pub granted: VecDeque<Granted>,
    /// What the user had wanted on other nodes before, which holds from the beginning.
    pub standing: Vec<Granted>,
    /// Hosts of the run that were left out.
    pub left_out: Vec<LeftOut>,
    /// What a probe measured between these nodes.
    pub ceilings: Option<Ceilings>,
    /// Where the numbers of these nodes' events begin.
    pub first: Numbers,
    /// The numbers that come after all that is in the store.
    pub next: Numbers,
}

/// A wish of the user's that is in the store.
#[derive(Debug, Clone, PartialEq)]
pub enum Granted {
    /// To search otherwise.
    Wish {
        /// Before the how manieth question how to go on it was taken, from 1.
        question: u64,
        /// What.
        wish: Wish,
    },
    /// To have more time or trials.
    Extension(Extension),
}

impl Granted {
    /// The wish that an event records, if it does.
    pub(crate) fn of(event: &Event) -> Option<Self> {
        match event {
            Event::Wish { question, wish } => Some(Self::Wish { question: *question, wish: wish.clone() }),
            Event::Extended(extension) => Some(Self::Extension(*extension)),
            _ => None,
        }
    }

    /// Before which question it was taken.
    pub(crate) const fn question(&self) -> u64 {
        match self {
            Self::Wish { question, .. } => *question,
            Self::Extension(extension) => extension.question,
        }
    }
}

impl Earlier {
    /// Reads what a resume needs.
    ///
    /// # Errors
    /// [`ResumeError`]: the run is over, or the store lacks something.
    pub fn read(records: &[Record]) -> Result<Self, ResumeError> {
        let (Some(first), Some(last)) = (records.first(), records.last()) else { return Err(ResumeError::NoRun) };
        let Event::RunStarted { run, tool, .. } = &first.event else { return Err(ResumeError::NoRun) };
        if let Event::Finished { end: RunEnd::Tuned | RunEnd::DefaultsBest | RunEnd::Inconclusive, summary } =
            &last.event
        {
            return Err(ResumeError::Finished { run: run.clone(), summary: summary.clone() });
        }
        let too_old = |missing| ResumeError::TooOld { run: run.clone(), tool: tool.clone(), missing };
        let invocation = records.iter().find_map(|record| match &record.event {
            Event::Invoked(invocation) => Some(invocation.clone()),
            _ => None,
        });
        let invocation = invocation.ok_or_else(|| too_old("how it was asked for"))?;
        if invocation.args.is_empty() {
            return Err(too_old("its arguments, which are no UTF-8 text"));
        }
        Ok(Self {
            run: run.clone(),
            invocation,
            retrace: Retrace::of(records),
            measured: Measured::of(records).ok_or_else(|| too_old("which script its trials belong to"))?,
            next_seq: last.seq + 1,
            t_ms: last.t_ms,
        })
    }
}

impl Measured {
    /// What a run begins with on other nodes: nothing; the numbers go on, and what the user wanted stays.
    pub(crate) fn nothing(numbers: Numbers, standing: Vec<Granted>) -> Self {
        Self { first: numbers, next: numbers, standing, ..Self::default() }
    }

    /// All that the user wanted so far.
    pub(crate) fn wanted(&self) -> Vec<Granted> {
        self.standing.iter().chain(&self.granted).cloned().collect()
    }

    /// Trials on these nodes.
    pub fn trials(&self) -> u64 {
        self.next.trials - self.first.trials
    }

    /// `None` where a trial cannot be placed.
    fn of(records: &[Record]) -> Option<Self> {
        let mut measured = Self::default();
        // The bench's clock when the last script ended, and the run's time when the next one began.
        let mut clock = (0.0, 0);
        for Record { t_ms, event, .. } in records {
            measured.next.count(event);
            match event {
                Event::NodeSet { left_out, .. } => {
                    clock = (0.0, *t_ms);
                    measured = Self { left_out: left_out.clone(), ..Self::nothing(measured.next, measured.wanted()) };
                }
                Event::Script { .. } => {
                    clock.1 = *t_ms;
                    measured.scripts.push_back(EarlierScript { samples: Vec::new(), now_s: clock.0, end: None });
                }
                Event::Trial(trial) => {
                    let script = measured.scripts.back_mut()?;
                    script.samples.push(sample(trial)?);
                    script.now_s = clock.0 + t_ms.saturating_sub(clock.1) as f64 / 1e3;
                }
                Event::ScriptEnded { clock_s, unstarted, .. } => {
                    let script = measured.scripts.back_mut()?;
                    let unstarted = unstarted.clone().map(|(setup, why)| BenchError::Setup { setup, why });
                    (script.now_s, script.end) = (*clock_s, Some(unstarted.map_or(Ok(()), Err)));
                    clock.0 = *clock_s;
                }
                Event::Finishing { question } => measured.finish_at = Some(*question),
                Event::Ceilings(ceilings) => measured.ceilings = Some(ceilings.clone()),
                other => measured.granted.extend(Granted::of(other)),
            }
        }
        Some(measured)
    }
}

/// The sample that a trial was; `None` for trials of old stores.
fn sample(trial: &Trial) -> Option<Sample> {
    let outcome = match &trial.result {
        TrialResult::Timed { time_us, slowest_us, median_us, max_us, cpu_us, iterations, .. } => {
            Outcome::Timed(Timing {
                time_us: *time_us,
                slowest_us: *slowest_us,
                median_us: *median_us,
                max_us: *max_us,
                cpu_us: *cpu_us,
                iterations: *iterations,
                selected: trial.selected,
            })
        }
        TrialResult::Failed { kind, detail, ran } => match kind {
            Failure::Wrong => Outcome::Wrong(detail.clone()),
            Failure::Hung => Outcome::Hung(detail.clone()),
            Failure::Crashed => Outcome::Crashed(detail.clone()),
            Failure::Unsupported => Outcome::Unsupported(detail.clone()),
            Failure::Skipped => Outcome::Skipped,
            Failure::Substituted => {
                let RanInstead { time_us, slowest_us, median_us, max_us, cpu_us, iterations } = (*ran)?;
                let selected = trial.selected;
                let timing = Timing { time_us, slowest_us, median_us, max_us, cpu_us, iterations, selected };
                Outcome::Substituted { selected: selected?, timing }
            }
        },
    };
    Some(Sample { item: trial.item? as usize, process: trial.process, outcome })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::ScriptSetup;

    #[test]
    fn what_was_probed_is_taken_from_the_store_and_only_of_these_nodes() {
        let started = |script| Event::Script { script, setup: ScriptSetup::Site, fresh: false, items: Vec::new() };
        let probed = |hca: &str| {
            let text = format!(
                r#"{{"links": [{{"node": "a", "hca": "{hca}", "port": 1, "peer": "b", "outcome": {{"measured": {{"gbs": 24.5}}}}}}]}}"#
            );
            Event::Ceilings(serde_json::from_str(&text).unwrap())
        };
        let set = Event::NodeSet { hosts: "a,c".into(), nodes: 2, ranks: 2, left_out: Vec::new() };
        let of = |events: &[Event]| {
            let record = |(seq, event): (u64, &Event)| Record { seq, t_ms: 0, event: event.clone() };
            // As it is read from a store.
            let lines = (0..).zip(events).map(record).map(|record| serde_json::to_string(&record).unwrap());
            let records: Vec<Record> = lines.map(|line| serde_json::from_str(&line).unwrap()).collect();
            Measured::of(&records).unwrap().ceilings.map(Event::Ceilings)
        };
        assert_eq!(of(&[probed("mlx5_0"), started(0)]), Some(probed("mlx5_0")));
        assert_eq!(of(&[probed("mlx5_0"), set.clone(), started(0)]), None);
        assert_eq!(of(&[probed("mlx5_0"), set, probed("mlx5_1")]), Some(probed("mlx5_1")));
        assert_eq!(of(&[started(0)]), None);
        assert!(is_decision(&probed("mlx5_0")), "what is searched follows from it");
    }

    #[test]
    fn what_was_measured_on_other_nodes_is_not_taken_up_and_its_numbers_are_not_used_again() {
        let script = |script| Event::Script { script, setup: ScriptSetup::Site, fresh: false, items: Vec::new() };
        let workers = |process| Event::WorkersStarted { process, setup: String::new(), setup_ms: 1.0, engine: None };
        let out = LeftOut { index: 1, host: "b".into(), why: "lost".into() };
        let set = Event::NodeSet { hosts: "a,c".into(), nodes: 2, ranks: 2, left_out: vec![out.clone()] };
        let finishing = Event::Finishing { question: 3 };
        let pin = |value: &str| Wish::Pin { knob: "algo".into(), value: Some(value.into()) };
        let [early, late] = [("ring", 2), ("tree", 5)].map(|(value, question)| (pin(value), question));
        let wish = |(wish, question): (Wish, u64)| Event::Wish { question, wish };
        let granted = |(wish, question): (Wish, u64)| Granted::Wish { question, wish };
        let early_event = wish(early.clone());
        let events = [
            workers(0),
            script(0),
            early_event,
            script(1),
            finishing,
            workers(3),
            set,
            workers(4),
            script(2),
            wish(late.clone()),
        ];
        let record = |(seq, event): (u64, Event)| Record { seq, t_ms: 0, event };
        let measured = Measured::of(&(0..).zip(events).map(record).collect::<Vec<_>>()).unwrap();
        assert_eq!((measured.scripts.len(), measured.finish_at, measured.trials()), (1, None, 0));
        assert_eq!(measured.left_out, [out]);
        assert_eq!((measured.standing, measured.granted), (vec![granted(early)], [granted(late)].into()));
        let numbers = |scripts, processes| Numbers { trials: 0, scripts, processes };
        assert_eq!((measured.first, measured.next), (numbers(2, 4), numbers(3, 5)));
    }
}
