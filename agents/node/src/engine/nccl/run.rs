//! One item: checked, warmed up, timed.

mod captured;
mod laps;

use std::time::Instant;

use gdrtune_profiles::{grammar::nccl_log::Ran, stats::quantile_of_sorted, vocab::Choice};
use gdrtune_wire::{Item, ItemOutcome, Prediction, Times};

pub(super) use self::laps::MOST_EVENTS;
use self::{captured::Captured, laps::Laps};
use super::{Ready, Tuner, communicator::NcclCall, memory::FLAGS, tuner_link::Decision};
use crate::engine::{
    EngineError,
    native::{
        pattern::{Difference, Pattern},
        plan::{Area, Call},
        timing,
    },
};

/// Calls of a batch begin at multiples of this in the buffers: NCCL copies what is not aligned to 16 bytes in another way.
const ALIGNMENT: usize = 256;

/// One item while it runs.
pub(super) struct Run<'a> {
    ready: &'a mut Ready,
    item: &'a Item,
    call: Call,
    /// What NCCL's log says that the last call ran.
    ran: Option<Ran>,
}

impl<'a> Run<'a> {
    /// The call's buffers have room.
    pub(super) fn new(ready: &'a mut Ready, item: &'a Item, call: Call) -> Self {
        Self { ready, item, call, ran: None }
    }

    /// Runs the item. All ranks come to the same kind of outcome.
    pub(super) fn measure(mut self) -> Result<ItemOutcome, EngineError> {
        let what = (self.item.point.collective, self.item.choice);
        if let Some(outcome) = self.try_out(!self.ready.called.contains(&what))? {
            return Ok(outcome);
        }
        self.ready.called.insert(what);
        self.begin();
        for index in 0..self.item.warmup as usize {
            self.queue(index)?;
        }
        self.ready.wait()?;
        let captured = match self.batch_graph()? {
            Ok(captured) => captured,
            Err(outcome) => return Ok(outcome),
        };
        self.ready.meet([0; FLAGS])?;
        self.begin();
        self.batch(captured)
    }

    /// The untimed first call: checked if that is wanted. An outcome comes back where the item ends here.
    fn try_out(&mut self, is_first: bool) -> Result<Option<ItemOutcome>, EngineError> {
        let is_asked = self.item.choice.is_some();
        if !(self.item.check || is_first) {
            return Ok(None);
        }
        if self.item.graph && is_first {
            // What NCCL sets up with a first call is better not done while a stream captures.
            self.run_once()?;
        }
        if self.item.check {
            self.fill()?;
        }
        let decision = if self.item.graph {
            match self.run_once_captured()? {
                Ok(decision) => decision,
                Err(outcome) => return Ok(Some(outcome)),
            }
        } else {
            self.run_once()?
        };
        self.look_up_ran();
        let difference = if self.item.check { self.difference()? } else { None };
        let (is_bypassed, is_refused) = (decision == Decision::NotCalled, matches!(decision, Decision::NotAllowed(_)));
        let own = [difference.is_some(), is_asked && is_bypassed, is_asked && is_refused, false].map(i32::from);
        let [wrong, bypassed, refused, _] = self.ready.meet(own)?;
        // A result of another choice than the one asked for says nothing about that one.
        if bypassed != 0 {
            return Ok(Some(ItemOutcome::Unsupported(self.why_bypassed())));
        }
        if refused != 0 {
            return Ok(Some(ItemOutcome::Unsupported(self.why_refused(decision))));
        }
        Ok((wrong != 0).then(|| wrong_outcome(difference)))
    }

    /// Runs the call to its end.
    fn run_once(&mut self) -> Result<Decision, EngineError> {
        self.begin();
        let seen = self.plugin_calls();
        self.queue(0)?;
        self.ready.wait()?;
        Ok(self.decision_since(seen))
    }

    /// Times the batch. The stream is idle, and all ranks have just met.
    fn batch(&mut self, captured: Option<Captured>) -> Result<ItemOutcome, EngineError> {
        let laps = match &captured {
            Some(captured) => Laps::one(captured.calls()),
            None => Laps::of(self.item.iterations as usize),
        };
        let seen = self.plugin_calls();
        let cpu_us = timing::process_cpu_us();
        let started = Instant::now();
        match &captured {
            Some(captured) => {
                self.ready.device.record(0)?;
                self.launch(captured)?;
                self.ready.device.record(1)?;
            }
            None => self.queue_batch(laps)?,
        }
        self.ready.wait()?;
        let wall_us = started.elapsed().as_secs_f64() * 1e6;
        let cpu_us = timing::process_cpu_us() - cpu_us;
        let (decision, predictions) = match captured {
            Some(captured) => captured.into_choice(),
            None => (self.decision_since(seen), self.predictions()),
        };
        self.look_up_ran();
        if self.item.choice.is_some() && decision == Decision::NotCalled {
            return Ok(ItemOutcome::Unsupported(self.why_bypassed()));
        }
        let mut laps_us = Vec::with_capacity(laps.events());
        for (lap, calls) in laps.lengths().enumerate() {
            laps_us.push(self.ready.device.lap_us(lap)? / calls as f64);
        }
        laps_us.sort_by(f64::total_cmp);
        let per_call = laps.calls().max(1) as f64;
        Ok(ItemOutcome::Timed(Times {
            mean_us: wall_us / per_call,
            median_us: quantile_of_sorted(&laps_us, 0.5).unwrap_or_default(),
            min_us: laps_us.first().copied().unwrap_or(0.0),
            max_us: laps_us.last().copied().unwrap_or(0.0),
            cpu_us: cpu_us / per_call,
            selected: self.ran.map(|ran| ran.beside(told(decision))).or(told(decision)),
            checked: self.item.check,
            predictions,
        }))
    }

    /// Queues the calls with a time stamp before them and after each lap.
    fn queue_batch(&mut self, laps: Laps) -> Result<(), EngineError> {
        self.ready.device.record(0)?;
        for call in 0..laps.calls() {
            self.queue(call)?;
            if let Some(event) = laps.event_after(call) {
                self.ready.device.record(event)?;
            }
        }
        Ok(())
    }

    /// Queues one call of a batch.
    fn queue(&mut self, index: usize) -> Result<(), EngineError> {
        let call = self.nccl_call(index);
        self.ready.comm.queue(&call, self.ready.device.stream())
    }

    /// A call of a batch as NCCL takes it; the first is at the start of the buffers.
    fn nccl_call(&self, index: usize) -> NcclCall {
        let (buffers, call) = (&self.ready.buffers, &self.call);
        let start = start_of(index, call.span(), buffers.capacity());
        NcclCall {
            collective: call.collective,
            count: call.count(),
            data_type: self.item.data_type,
            op: self.item.op,
            root: call.root,
            send: buffers.address(call.input(start)),
            receive: buffers.address(call.output(start)),
        }
    }

    /// Makes the item's choice hold until ranks meet.
    fn begin(&self) {
        let Tuner::Live(link) = &self.ready.tuner else { return };
        link.clear();
        if let Some(choice) = self.item.choice {
            // One that the plugin does not know is seen as not followed.
            link.set(self.item.point.collective, choice);
        }
    }

    fn plugin_calls(&self) -> u64 {
        match &self.ready.tuner {
            Tuner::Absent | Tuner::Silent(_) => 0,
            Tuner::Live(link) | Tuner::Deployed(link) => link.calls(),
        }
    }

    fn decision_since(&self, before: u64) -> Decision {
        match &self.ready.tuner {
            Tuner::Absent | Tuner::Silent(_) => Decision::NotCalled,
            Tuner::Live(link) | Tuner::Deployed(link) => link.decision_since(before, self.item.point.collective),
        }
    }

    /// Reads in NCCL's log what this item's last call ran. Where nothing new is said, what was said before holds.
    fn look_up_ran(&mut self) {
        let Some(log) = self.ready.log.as_mut().filter(|_| self.call.collective.has_choice()) else { return };
        let part = (self.call.count() * self.call.element) as u64;
        // From 2.24 on, a rank's part is logged; before, the whole collective.
        let sizes = [part, part * u64::from(self.call.world)];
        let collective = self.call.collective;
        let is_wanted =
            |ran: &Ran| ran.collective.is_none_or(|other| other == collective) && sizes.contains(&ran.bytes);
        self.ran = log.last_run(is_wanted).or(self.ran);
    }

    /// NCCL's own predictions for the call that was made last; once per checked item, as they do not change.
    fn predictions(&self) -> Vec<Prediction> {
        match &self.ready.tuner {
            Tuner::Live(link) | Tuner::Deployed(link) if self.item.check => {
                link.predictions(self.item.point.collective)
            }
            _ => Vec::new(),
        }
    }

    fn pattern(&self) -> Pattern {
        Pattern { call: self.call, data_type: self.item.data_type, op: self.item.op }
    }

    /// Puts known input, and poison elsewhere, into the device's buffers.
    fn fill(&mut self) -> Result<(), EngineError> {
        let (pattern, span) = (self.pattern(), self.call.span());
        let Ready { buffers, device, .. } = &mut *self.ready;
        for host in [&mut buffers.host_input, &mut buffers.host_output] {
            if host.len() < span {
                host.resize(span, 0);
            }
        }
        pattern.fill(&mut buffers.host_input, &mut buffers.host_output);
        for (area, host) in [(Area::Input, &buffers.host_input), (Area::Output, &buffers.host_output)] {
            if let Some(memory) = buffers.area(area) {
                device.copy_in(memory, &host[..span])?;
            }
        }
        self.ready.wait()
    }

    /// Compares the result on the host.
    fn difference(&mut self) -> Result<Option<Difference>, EngineError> {
        let (pattern, span) = (self.pattern(), self.call.span());
        let mut host_input = std::mem::take(&mut self.ready.buffers.host_input);
        let mut host_output = std::mem::take(&mut self.ready.buffers.host_output);
        let result = self.call.output(0).area;
        let host = if result == Area::Input { &mut host_input } else { &mut host_output };
        if let Some(memory) = self.ready.buffers.area(result) {
            self.ready.device.copy_out(&mut host[..span], memory)?;
        }
        self.ready.wait()?;
        let difference = pattern.check(&host_input, &host_output);
        (self.ready.buffers.host_input, self.ready.buffers.host_output) = (host_input, host_output);
        Ok(difference)
    }

    fn why_bypassed(&self) -> String {
        let (collective, version) = (self.item.point.collective, self.ready.comm.version());
        format!("the tuner plugin was not called: NCCL {version} chose for {collective} without it")
    }

    fn why_refused(&self, decision: Decision) -> String {
        let asked = self.item.choice.map(|choice| choice.to_string()).unwrap_or_default();
        let ran = match decision {
            Decision::NotAllowed(Some(own)) => format!(", and takes {own}"),
            _ => String::new(),
        };
        format!("NCCL {} does not allow {asked} for {} here{ran}", self.ready.comm.version(), self.item.point)
    }
}

/// Where a call of a batch begins in the buffers: behind the one before it, and after the last that fits at the start again. A
/// call that comes back to the memory of the one before it finds it in the GPU's cache, where a job's data hardly is: between
/// two H200 that made 4 MiB 7 % faster. So does nccl-tests (`common.cu`, `startColl`).
fn start_of(index: usize, span: usize, capacity: usize) -> usize {
    let step = span.next_multiple_of(ALIGNMENT).max(ALIGNMENT);
    index % (capacity / step).max(1) * step
}

fn wrong_outcome(difference: Option<Difference>) -> ItemOutcome {
    match difference {
        Some(found) => ItemOutcome::Wrong { elements: found.elements, first: found.first },
        None => ItemOutcome::Wrong { elements: 0, first: "right on this rank, wrong on another one".to_owned() },
    }
}

/// What ran, where the plugin can tell.
fn told(decision: Decision) -> Option<Choice> {
    match decision {
        Decision::NotCalled => None,
        Decision::Own(choice) | Decision::NotAllowed(choice) => choice,
        Decision::Applied(choice) => Some(choice),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_of_a_batch_walk_through_the_buffers_and_stay_in_them() {
        let starts = |span, capacity| (0..5).map(|index| start_of(index, span, capacity)).collect::<Vec<_>>();
        assert_eq!(starts(1024, 4096), [0, 1024, 2048, 3072, 0]);
        assert_eq!(starts(1000, 3000), [0, 1024, 0, 1024, 0], "aligned, and the last one fits");
        assert_eq!(starts(4096, 4096), [0; 5]);
        assert_eq!(starts(100, 100), [0; 5], "less than the alignment");
        for span in 1..2_000 {
            for index in 0..50 {
                let start = start_of(index, span, 5_000);
                assert!(start + span <= 5_000 && start.is_multiple_of(ALIGNMENT), "{span} {index}: {start}");
            }
        }
    }
}
