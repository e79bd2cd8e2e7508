//! Runs scripts: on one group of workers as long as those live, and what is left in new processes.
//!
//! Starts and ends no group itself, and knows the agents' answers only as outcomes.

use std::{
    collections::HashSet,
    time::{Duration, Instant},
};

use gdrtune_profiles::vocab::ReduceOp;
use gdrtune_tuner::bench::{BenchError, Cancel, Item, Outcome, Sample, Script};
use gdrtune_wire::ToWorker;

use super::{
    AGENT_GRACE, ClusterBench,
    credit::{credit, timed_calls, with_calls},
    group::{Group, Progress, WorkerFate},
    rest::{Ran, Rest},
};

/// What samples are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// To be told.
    Measure,
    /// To learn how long calls take.
    Acquaint,
}

/// Keeps why workers broke.
fn note_break(sample: &Sample, broke: &mut Option<String>) {
    if let Outcome::Crashed(why) | Outcome::Hung(why) = &sample.outcome {
        *broke = Some(why.clone());
    }
}

impl ClusterBench<'_> {
    /// Runs what is left of a script, in as many sets of processes as it takes.
    pub(super) fn run_rest(
        &mut self,
        script: &Script,
        mut rest: Rest,
        cancel: &Cancel,
        sink: &mut dyn FnMut(Sample),
    ) -> Result<(), BenchError> {
        let mut script_part = script.clone();
        let mut strangers = self.strangers(&rest);
        // What broke workers last.
        let mut broke = None;
        if !strangers.is_empty() {
            // What breaks workers here does so again below, and is told then; what the user skips must not come again.
            let mut keep_skipped = |sample: Sample| {
                note_break(&sample, &mut broke);
                if sample.outcome == Outcome::Skipped {
                    rest.give_up(sample.item);
                    sink(sample);
                }
            };
            self.run_part(&mut script_part, &mut strangers, Purpose::Acquaint, cancel, &mut keep_skipped)?;
        }
        while !rest.is_empty() {
            let mut tell = |sample: Sample| {
                note_break(&sample, &mut broke);
                sink(sample);
            };
            let ran = self.run_part(&mut script_part, &mut rest, Purpose::Measure, cancel, &mut tell);
            ran.map_err(|error| match (error, broke.take()) {
                // It says more than why they do not start again.
                (BenchError::Setup { setup, why }, Some(first)) => {
                    BenchError::Setup { setup, why: format!("{why}; before that, {first}") }
                }
                (error, _) => error,
            })?;
        }
        Ok(())
    }

    /// One sample of each point that nobody has timed yet. How many calls a sample needs is not known of those, and the start and
    /// end of too few take longer than the calls: between two H200, two calls of 1 MiB took 25 us each, and 200 took 13.
    fn strangers(&self, rest: &Rest) -> Rest {
        let mut met = HashSet::new();
        rest.once_each(|item| !self.book.knows(item.point) && met.insert(item.point))
    }

    /// Runs on one group of workers, for as long as those live.
    fn run_part(
        &mut self,
        script: &mut Script,
        rest: &mut Rest,
        purpose: Purpose,
        cancel: &Cancel,
        sink: &mut dyn FnMut(Sample),
    ) -> Result<(), BenchError> {
        let mut group = self.take_group(script, cancel)?;
        let process = group.process();
        let mut forward = |item: usize, outcome| sink(Sample { item, process, outcome });
        if let Err(error) = self.run_items(&mut group, rest, purpose, cancel, &mut forward) {
            self.end_group(&mut group);
            return Err(error);
        }
        // The rest of a script whose workers died runs in new processes of the same setup.
        if group.is_alive() {
            self.groups.push_back(group);
        }
        script.fresh = false;
        Ok(())
    }

    /// The items as the workers get them: one wire item per sample.
    fn wire_items(&mut self, group: &Group, items: &[Item], purpose: Purpose) -> (Vec<gdrtune_wire::Item>, Vec<usize>) {
        let mut wire = Vec::new();
        let mut origin = Vec::new();
        for (index, item) in items.iter().enumerate() {
            let pace = self.book.pace(&self.config.pace, item.point, item.choice);
            for _ in 0..item.repeats {
                // What comes of the first samples of a point is not told, so they must not count as its check.
                let check =
                    purpose == Purpose::Measure && self.checked.insert((group.process(), item.point, item.choice));
                wire.push(gdrtune_wire::Item {
                    point: item.point,
                    choice: item.choice,
                    data_type: self.config.data_type,
                    op: ReduceOp::Sum,
                    root: 0,
                    in_place: false,
                    graph: self.config.calls.graph,
                    check,
                    // The checked call warms up as well as an unchecked one.
                    warmup: u32::from(!check),
                    iterations: pace.iterations,
                    lease_ms: pace.lease_ms,
                });
                origin.push(index);
            }
        }
        (wire, origin)
    }

    /// Runs what is left of a script until it is done, the group is broken or the user skips an item, and takes off what is
    /// finished with.
    fn run_items(
        &mut self,
        group: &mut Group,
        rest: &mut Rest,
        purpose: Purpose,
        cancel: &Cancel,
        sink: &mut dyn FnMut(usize, Outcome),
    ) -> Result<(), BenchError> {
        let (items, places) = (rest.items(), rest.places());
        if cancel.take_skip() {
            // The workers were being started for it; nothing of them is lost.
            sink(places[0], Outcome::Skipped);
            rest.give_up(places[0]);
            return Ok(());
        }
        let (wire, origin) = self.wire_items(group, &items, purpose);
        let id = self.next_script;
        self.next_script += 1;
        group.begin_script(id, wire.len());
        let leases: Vec<Duration> = wire.iter().map(|item| Duration::from_millis(item.lease_ms)).collect();
        let calls: Vec<u32> = wire.iter().map(timed_calls).collect();
        self.tell_workers(group, &ToWorker::Run(gdrtune_wire::Script { id, items: wire }));

        let mut done = 0;
        let mut drain = |bench: &mut Self, group: &mut Group| {
            while let Some((outcome, predictions)) = group.next_outcome() {
                let index = origin[done];
                if !predictions.is_empty() && items[index].choice.is_none() {
                    bench.predictions.insert(items[index].point, predictions);
                }
                let outcome = credit(with_calls(outcome, calls[done]), items[index].choice);
                if let Outcome::Timed(timing) = &outcome {
                    bench.book.learn(items[index].point, items[index].choice, timing.time_us);
                }
                sink(places[index], outcome);
                done += 1;
            }
            done
        };
        let mut at = 0;
        let mut silent_since = Instant::now();
        loop {
            let now_at = drain(self, group);
            if now_at > at {
                (at, silent_since) = (now_at, Instant::now());
            }
            match group.progress() {
                Progress::Done => {
                    rest.take_off(Ran::All, &origin);
                    return Ok(());
                }
                Progress::Broken => break,
                Progress::Going => {}
            }
            if at < leases.len() && cancel.take_skip() {
                // Told before the workers are gone, which may take their agents a while.
                sink(places[origin[at]], Outcome::Skipped);
                self.end_group(group);
                rest.take_off(Ran::Skipped { sampled: at }, &origin);
                return self.check_lost();
            }
            if at < leases.len() && silent_since.elapsed() > leases[at] + AGENT_GRACE {
                group.overrun();
                break;
            }
            self.pump(group, Some(cancel))?;
        }
        self.end_group(group);
        self.check_lost()?;
        // Answers of other nodes may have been on their way when the first worker ended.
        let sampled = drain(self, group);
        let (fate, lead) = group.fate();
        let at = (sampled + lead).min(origin.len().saturating_sub(1));
        let outcome = match fate {
            WorkerFate::Hung(why) => Outcome::Hung(why),
            fate => Outcome::Crashed(self.config.told(&fate)),
        };
        if let Some(&index) = origin.get(at) {
            sink(places[index], outcome);
        }
        rest.take_off(Ran::Broken { sampled, at }, &origin);
        Ok(())
    }
}
