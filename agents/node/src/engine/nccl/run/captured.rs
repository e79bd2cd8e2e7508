//! An item whose calls are in a CUDA graph.
//!
//! The timed batch is one graph, as with nccl-tests' `-G`, so that the times can be compared: a graph of a single call,
//! launched over and over, would time the launches at small sizes, which is what jobs capture their steps to be rid of.
//! Nothing else is in it, as in theirs: with time stamps between laps as nodes, an all-reduce of 8 bytes between two H200
//! took 7.1 us, with the stamps before and after the graph 5.5, as nccl-tests says (`benches/multi-gpu.sh`). The wall time of
//! such a batch of 500 calls is 0.02 us a call longer than what the stamps say: there is little else in it than calls.
//!
//! NCCL asks the tuner, and says what it takes, when a call is captured and not when it runs: a choice is set before the
//! capture and read after it.
//!
//! A graph lives no longer than its item: NCCL waits for the end of all graphs when a communicator ends.

use gdrtune_wire::{ItemOutcome, MOST_GRAPH_CALLS, Prediction};

use super::{Decision, Run};
use crate::engine::{
    EngineError,
    nccl::{device::Graph, memory::FLAGS},
};

/// Calls in a graph, and what the plugin did when they were captured.
pub(super) struct Captured {
    graph: Graph,
    calls: usize,
    decision: Decision,
    predictions: Vec<Prediction>,
}

impl Captured {
    /// Number of calls in the graph.
    pub(super) fn calls(&self) -> usize {
        self.calls
    }

    /// What the plugin did. The graph ends.
    pub(super) fn into_choice(self) -> (Decision, Vec<Prediction>) {
        (self.decision, self.predictions)
    }
}

impl Run<'_> {
    /// The item's timed calls as a graph that has run once, or nothing where they are to be queued one by one. An outcome
    /// comes back where the item ends here.
    pub(super) fn batch_graph(&mut self) -> Result<Result<Option<Captured>, ItemOutcome>, EngineError> {
        if !self.item.graph {
            return Ok(Ok(None));
        }
        let captured = match self.capture(self.item.iterations.min(MOST_GRAPH_CALLS) as usize)? {
            Ok(captured) => captured,
            Err(outcome) => return Ok(Err(outcome)),
        };
        // The first launch of a graph also brings it to the GPU.
        self.launch(&captured)?;
        self.ready.wait()?;
        Ok(Ok(Some(captured)))
    }

    /// Runs the call to its end, in a graph of its own. An outcome comes back where the item ends here.
    pub(super) fn run_once_captured(&mut self) -> Result<Result<Decision, ItemOutcome>, EngineError> {
        let captured = match self.capture(1)? {
            Ok(captured) => captured,
            Err(outcome) => return Ok(Err(outcome)),
        };
        self.launch(&captured)?;
        self.ready.wait()?;
        Ok(Ok(captured.decision))
    }

    pub(super) fn launch(&mut self, captured: &Captured) -> Result<(), EngineError> {
        self.ready.device.launch(&captured.graph)
    }

    /// Captures calls on all ranks, or on none.
    fn capture(&mut self, calls: usize) -> Result<Result<Captured, ItemOutcome>, EngineError> {
        self.begin();
        let seen = self.plugin_calls();
        let graph = self.capture_here(calls)?;
        let (decision, predictions) = (self.decision_since(seen), self.predictions());
        let mut own = [0; FLAGS];
        own[0] = i32::from(graph.is_err());
        let is_refused = self.ready.meet(own)?[0] != 0;
        Ok(match graph {
            Ok(graph) if !is_refused => Ok(Captured { graph, calls, decision, predictions }),
            Ok(_) => Err(ItemOutcome::Unsupported("another rank cannot capture the call into a CUDA graph".to_owned())),
            Err(why) => Err(ItemOutcome::Unsupported(why)),
        })
    }

    /// Captures calls on this rank. The inner error says why that was refused; nothing is broken then.
    fn capture_here(&mut self, calls: usize) -> Result<Result<Graph, String>, EngineError> {
        if let Err(refusal) = self.ready.device.begin_capture() {
            return Ok(Err(refusal.to_string()));
        }
        let queued = self.queue_captured(calls);
        // Always: a stream that still captures runs nothing.
        let graph = self.ready.device.end_capture();
        Ok(match queued? {
            Some(refusal) => Err(refusal),
            None => graph.map_err(|refusal| refusal.to_string()),
        })
    }

    /// Queues calls on the capturing stream; says why one was refused.
    fn queue_captured(&mut self, calls: usize) -> Result<Option<String>, EngineError> {
        for index in 0..calls {
            let call = self.nccl_call(index);
            let ready = &mut *self.ready;
            if let Some(refusal) = ready.comm.capture(&call, ready.device.stream())? {
                return Ok(Some(refusal));
            }
        }
        Ok(None)
    }
}
