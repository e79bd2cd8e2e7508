//! What a rank receives, combines and sends for one call. Pure.
//!
//! A lane is one connection per peer: a channel, or one of the sockets that share a channel's data. Each lane has its own
//! share of the elements and moves it without regard to other lanes. A peer's connection carries at most one stream of
//! segments each way, in plan order, without headers: both ends derive the same plan.
//!
//! A segment that must wait for data names a [`Gate`]: the receive stream, and how far into it the segment begins. How
//! much of a gated segment may go out early is the protocol's matter, not the plan's.

use std::{collections::BTreeSet, ops::Range};

use gdrtune_profiles::vocab::{Algorithm, Collective};

use super::{split::share, tree};

/// One of a rank's buffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::engine) enum Area {
    /// What the call reads.
    Input,
    /// Where its result goes.
    Output,
    /// Partial results that have no place in the output.
    Scratch,
}

/// A position in a buffer, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::engine) struct Place {
    pub(in crate::engine) area: Area,
    pub(in crate::engine) start: usize,
}

/// Wait for a receive stream of the same lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Gate {
    /// Index into [`LanePlan::receives`].
    pub(super) stream: usize,
    /// Bytes of that stream that come before the byte which the segment's first byte depends on.
    pub(super) base: usize,
}

/// What to do with received bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    /// Store them.
    Copy,
    /// Store their combination with what is at this place.
    Combine(Place),
}

/// A run of bytes to receive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ReceiveSegment {
    pub(super) target: Place,
    pub(super) bytes: usize,
    pub(super) action: Action,
    pub(super) gate: Option<Gate>,
}

/// A run of bytes to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SendSegment {
    pub(super) source: Place,
    pub(super) bytes: usize,
    pub(super) gate: Option<Gate>,
}

/// Everything that comes from, or goes to, one peer on one lane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stream<Segment> {
    pub(super) peer: u32,
    pub(super) segments: Vec<Segment>,
}

/// A lane's part of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LanePlan {
    pub(super) lane: usize,
    pub(super) receives: Vec<Stream<ReceiveSegment>>,
    pub(super) sends: Vec<Stream<SendSegment>>,
}

/// Bytes that stay on this rank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LocalCopy {
    pub(super) source: Place,
    pub(super) target: Place,
    pub(super) bytes: usize,
}

/// A rank's part of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) lanes: Vec<LanePlan>,
    pub(super) copies: Vec<LocalCopy>,
}

impl Plan {
    /// The (peer, lane) pairs whose connections the call uses.
    pub(super) fn links(&self) -> BTreeSet<(u32, usize)> {
        let of_lane = |lane: &LanePlan| {
            let number = lane.lane;
            let receives = lane.receives.iter().map(|stream| stream.peer);
            receives
                .chain(lane.sends.iter().map(|stream| stream.peer))
                .map(move |peer| (peer, number))
                .collect::<Vec<_>>()
        };
        self.lanes.iter().flat_map(of_lane).collect()
    }

    /// Whether the call needs the scratch buffer.
    pub(super) fn uses_scratch(&self) -> bool {
        let segments = self.lanes.iter().flat_map(|lane| &lane.receives).flat_map(|stream| &stream.segments);
        segments.map(|segment| segment.target.area).any(|area| area == Area::Scratch)
    }
}

/// A call as all ranks see it, and the rank that plans it.
#[derive(Debug, Clone, Copy)]
pub(in crate::engine) struct Call {
    pub(in crate::engine) collective: Collective,
    pub(in crate::engine) algorithm: Algorithm,
    /// Bytes of the nccl-tests size column.
    pub(in crate::engine) bytes: usize,
    /// Bytes of one element.
    pub(in crate::engine) element: usize,
    pub(in crate::engine) rank: u32,
    pub(in crate::engine) world: u32,
    pub(in crate::engine) root: u32,
    pub(in crate::engine) in_place: bool,
    pub(in crate::engine) lanes: usize,
}

impl Call {
    /// Elements of one rank's block, or of the whole buffer where there are no blocks.
    pub(in crate::engine) fn count(&self) -> usize {
        let elements = self.bytes / self.element;
        if self.collective.counts_blocks() { elements / self.world as usize } else { elements }
    }

    /// Bytes of every buffer that the call touches.
    pub(in crate::engine) fn span(&self) -> usize {
        let blocks = if self.collective.counts_blocks() { self.world as usize } else { 1 };
        self.count() * self.element * blocks
    }

    /// Bytes before a rank's block.
    fn block(&self, rank: u32) -> usize {
        rank as usize * self.count() * self.element
    }

    /// Where byte `start` of what the call reads is.
    pub(in crate::engine) fn input(&self, start: usize) -> Place {
        match self.collective {
            Collective::AllGather if self.in_place => {
                Place { area: Area::Output, start: start + self.block(self.rank) }
            }
            Collective::AllReduce | Collective::Broadcast | Collective::Reduce if self.in_place => {
                Place { area: Area::Output, start }
            }
            _ => Place { area: Area::Input, start },
        }
    }

    /// Where byte `start` of the result is.
    pub(in crate::engine) fn output(&self, start: usize) -> Place {
        if self.in_place && self.collective == Collective::ReduceScatter {
            return Place { area: Area::Input, start: start + self.block(self.rank) };
        }
        Place { area: Area::Output, start }
    }

    /// Makes the plan of the call's rank.
    pub(super) fn plan(&self) -> Plan {
        let lanes = if self.world > 1 { self.lanes } else { 0 };
        let lanes = (0..lanes).map(|lane| {
            let elements = share(&(0..self.count()), self.lanes, lane);
            let part = elements.start * self.element..elements.end * self.element;
            let mut builder = Builder { call: self, lane: LanePlan { lane, receives: vec![], sends: vec![] } };
            builder.build(part);
            builder.lane
        });
        Plan { lanes: lanes.collect(), copies: self.local_copies() }
    }

    fn local_copies(&self) -> Vec<LocalCopy> {
        let own = self.block(self.rank);
        let (source, target) = match self.collective {
            Collective::AllGather => (self.input(0), self.output(own)),
            Collective::AllToAll => (self.input(own), self.output(own)),
            Collective::Broadcast if self.rank == self.root => (self.input(0), self.output(0)),
            _ if self.world == 1 => (self.input(0), self.output(0)),
            _ => return vec![],
        };
        let bytes = self.count() * self.element;
        if source == target || bytes == 0 { vec![] } else { vec![LocalCopy { source, target, bytes }] }
    }
}

/// Builds one lane's streams. `part` is the lane's byte range within a block (or within the buffer).
struct Builder<'a> {
    call: &'a Call,
    lane: LanePlan,
}

impl Builder<'_> {
    fn build(&mut self, part: Range<usize>) {
        match (self.call.collective, self.call.algorithm) {
            (Collective::AllReduce, Algorithm::Tree) => {
                let reduced = self.tree_up(&part, Call::output);
                self.tree_down(&part, reduced);
            }
            (Collective::Reduce, Algorithm::Tree) => {
                self.tree_up(&part, partial_of_reduce);
            }
            (Collective::Broadcast, Algorithm::Tree) => self.tree_down(&part, None),
            (Collective::AllReduce, _) => self.ring_all_reduce(&part),
            (Collective::AllGather, _) => self.ring_all_gather(&part),
            (Collective::ReduceScatter, _) => self.ring_reduce_scatter(&part),
            (Collective::Broadcast, _) => self.chain_broadcast(&part),
            (Collective::Reduce, _) => self.chain_reduce(&part),
            (Collective::AllToAll, _) => self.pairwise(&part),
            (Collective::SendRecv, _) => self.shift(&part),
        }
    }

    /// The rank `distance` places after this one.
    fn after(&self, distance: u32) -> u32 {
        (self.call.rank + distance) % self.call.world
    }

    /// The rank `distance` places before this one; at most twice around.
    fn before(&self, distance: u32) -> u32 {
        (self.call.rank + 2 * self.call.world - distance) % self.call.world
    }

    fn add_receive(&mut self, peer: u32) -> usize {
        self.lane.receives.push(Stream { peer, segments: vec![] });
        self.lane.receives.len() - 1
    }

    fn add_send(&mut self, peer: u32) -> usize {
        self.lane.sends.push(Stream { peer, segments: vec![] });
        self.lane.sends.len() - 1
    }

    /// Appends to a receive stream; the gate opens as the segment arrives.
    fn receive(&mut self, stream: usize, target: Place, bytes: usize, action: Action) -> Gate {
        let segments = &mut self.lane.receives[stream].segments;
        let base = segments.iter().map(|segment| segment.bytes).sum();
        if bytes > 0 {
            segments.push(ReceiveSegment { target, bytes, action, gate: None });
        }
        Gate { stream, base }
    }

    fn send(&mut self, stream: usize, source: Place, bytes: usize, gate: Option<Gate>) {
        if bytes > 0 {
            self.lane.sends[stream].segments.push(SendSegment { source, bytes, gate });
        }
    }

    /// Reduce-scatter around the ring, then all-gather around the ring.
    fn ring_all_reduce(&mut self, part: &Range<usize>) {
        let call = self.call;
        let elements = part.start / call.element..part.end / call.element;
        let chunk = |rank: u32| {
            let chunk = share(&elements, call.world as usize, rank as usize);
            chunk.start * call.element..chunk.end * call.element
        };
        let (from, to) = (self.add_receive(self.before(1)), self.add_send(self.after(1)));
        let mut gate = None;
        for step in 0..call.world - 1 {
            let out = chunk(self.before(step));
            let source = if step == 0 { call.input(out.start) } else { call.output(out.start) };
            self.send(to, source, out.len(), gate);
            let inward = chunk(self.before(step + 1));
            let action = Action::Combine(call.input(inward.start));
            gate = Some(self.receive(from, call.output(inward.start), inward.len(), action));
        }
        for step in 0..call.world - 1 {
            let out = chunk(self.before(step + call.world - 1));
            self.send(to, call.output(out.start), out.len(), gate);
            let inward = chunk(self.before(step));
            gate = Some(self.receive(from, call.output(inward.start), inward.len(), Action::Copy));
        }
    }

    fn ring_all_gather(&mut self, part: &Range<usize>) {
        let call = self.call;
        let (from, to) = (self.add_receive(self.before(1)), self.add_send(self.after(1)));
        let mut gate = None;
        for step in 0..call.world - 1 {
            let out = call.block(self.before(step)) + part.start;
            let source = if step == 0 { call.input(part.start) } else { call.output(out) };
            self.send(to, source, part.len(), gate);
            let inward = call.block(self.before(step + 1)) + part.start;
            gate = Some(self.receive(from, call.output(inward), part.len(), Action::Copy));
        }
    }

    fn ring_reduce_scatter(&mut self, part: &Range<usize>) {
        let call = self.call;
        let (from, to) = (self.add_receive(self.before(1)), self.add_send(self.after(1)));
        let mut gate = None;
        for step in 0..call.world - 1 {
            let out = call.block(self.before(step + 1)) + part.start;
            let source = if step == 0 { call.input(out) } else { Place { area: Area::Scratch, start: out } };
            self.send(to, source, part.len(), gate);
            let owner = self.before(step + 2);
            let inward = call.block(owner) + part.start;
            let target =
                if owner == call.rank { call.output(part.start) } else { Place { area: Area::Scratch, start: inward } };
            gate = Some(self.receive(from, target, part.len(), Action::Combine(call.input(inward))));
        }
    }

    /// Root, next, next after that, to the rank before the root.
    fn chain_broadcast(&mut self, part: &Range<usize>) {
        let call = self.call;
        let mut source = call.input(part.start);
        let mut gate = None;
        if call.rank != call.root {
            let from = self.add_receive(self.before(1));
            source = call.output(part.start);
            gate = Some(self.receive(from, source, part.len(), Action::Copy));
        }
        if self.after(1) != call.root {
            let to = self.add_send(self.after(1));
            self.send(to, source, part.len(), gate);
        }
    }

    /// From the rank after the root around to the root.
    fn chain_reduce(&mut self, part: &Range<usize>) {
        let call = self.call;
        let mut source = call.input(part.start);
        let mut gate = None;
        if self.before(1) != call.root {
            let from = self.add_receive(self.before(1));
            let action = Action::Combine(source);
            source = partial_of_reduce(call, part.start);
            gate = Some(self.receive(from, source, part.len(), action));
        }
        if call.rank != call.root {
            let to = self.add_send(self.after(1));
            self.send(to, source, part.len(), gate);
        }
    }

    /// Combines the children's data with this rank's and passes it to the parent. The gate of the finished combination
    /// is returned; a leaf has none.
    fn tree_up(&mut self, part: &Range<usize>, partial: fn(&Call, usize) -> Place) -> Option<Gate> {
        let call = self.call;
        let family = tree::neighbours(call.rank, call.world, call.root, self.lane.lane);
        let (mut source, mut gate) = (call.input(part.start), None);
        for child in family.children {
            let from = self.add_receive(child);
            let target = partial(call, part.start);
            let next = self.receive(from, target, part.len(), Action::Combine(source));
            // The second child's data is combined with the first one's result, so it has to wait for it.
            if let Some(segment) = self.lane.receives[from].segments.last_mut() {
                segment.gate = gate;
            }
            (source, gate) = (target, Some(next));
        }
        if let Some(parent) = family.parent {
            let to = self.add_send(parent);
            self.send(to, source, part.len(), gate);
        }
        gate
    }

    /// Passes the parent's data (at the root: what is there once `gate` opens) to the children.
    fn tree_down(&mut self, part: &Range<usize>, gate: Option<Gate>) {
        let call = self.call;
        let family = tree::neighbours(call.rank, call.world, call.root, self.lane.lane);
        let (mut source, mut gate) =
            if gate.is_some() { (call.output(part.start), gate) } else { (call.input(part.start), None) };
        if let Some(parent) = family.parent {
            let from = self.add_receive(parent);
            source = call.output(part.start);
            gate = Some(self.receive(from, source, part.len(), Action::Copy));
        }
        for child in family.children {
            let to = self.add_send(child);
            self.send(to, source, part.len(), gate);
        }
    }

    fn pairwise(&mut self, part: &Range<usize>) {
        let call = self.call;
        for distance in 1..call.world {
            let (next, previous) = (self.after(distance), self.before(distance));
            let (to, from) = (self.add_send(next), self.add_receive(previous));
            self.send(to, call.input(call.block(next) + part.start), part.len(), None);
            self.receive(from, call.output(call.block(previous) + part.start), part.len(), Action::Copy);
        }
    }

    fn shift(&mut self, part: &Range<usize>) {
        let (to, from) = (self.add_send(self.after(1)), self.add_receive(self.before(1)));
        self.send(to, self.call.input(part.start), part.len(), None);
        self.receive(from, self.call.output(part.start), part.len(), Action::Copy);
    }
}

/// Only the root of a reduce has an output.
fn partial_of_reduce(call: &Call, start: usize) -> Place {
    if call.rank == call.root { call.output(start) } else { Place { area: Area::Scratch, start } }
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
