//! Moves the bytes of a plan: one thread, connections that do not block, no more order than the plan's gates demand.
//!
//! Received bytes are combined or stored as they come, and gated segments go out as soon as the protocol lets them, so that
//! receiving, combining and sending overlap. Outstanding data is bounded by the connections.

use std::time::Instant;

use gdrtune_profiles::vocab::Protocol;
use rustix::event::PollFlags;

use super::{
    element::Kernel,
    plan::{Action, Area, Gate, Place, Plan, ReceiveSegment, SendSegment},
    transport::{Connection, Mesh, Table},
    wait::Waiter,
};
use crate::engine::EngineError;

/// Received bytes that are combined at a time; half of a small second-level cache.
const STAGING_BYTES: usize = 128 << 10;

/// Largest element in bytes.
const MAX_ELEMENT_BYTES: usize = 4;

/// How early a gated segment may go out, and in what pieces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pace {
    /// Only when all of it is there, then at once: `ll`.
    Whole,
    /// In pieces of this many bytes as they become ready: `ll128` and `simple`.
    Pieces(usize),
}

impl Pace {
    /// Bytes of a segment that may go out when `ready` of its `bytes` are there.
    pub(super) fn release(self, ready: usize, bytes: usize) -> usize {
        match self {
            _ if ready >= bytes => bytes,
            Self::Whole => 0,
            Self::Pieces(piece) => ready - ready % piece,
        }
    }

    /// Most bytes at a time.
    fn burst(self) -> usize {
        match self {
            Self::Whole => usize::MAX,
            Self::Pieces(piece) => piece,
        }
    }
}

/// How a protocol moves data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Manner {
    /// Which it is: connections may move its bytes in a way of its own.
    pub(super) protocol: Protocol,
    pub(super) pace: Pace,
}

/// The memory that calls work on.
pub(super) struct Buffers {
    areas: [Vec<u8>; 3],
    staging: Vec<u8>,
}

impl Buffers {
    /// Input and output of `bytes` each; scratch comes with [`Buffers::grow_scratch`].
    pub(super) fn new(bytes: usize) -> Self {
        Self { areas: [vec![0; bytes], vec![0; bytes], vec![]], staging: vec![0; STAGING_BYTES] }
    }

    /// Gives the scratch area the size of the others.
    pub(super) fn grow_scratch(&mut self) {
        let bytes = self.areas[0].len();
        if self.areas[Area::Scratch as usize].is_empty() {
            self.areas[Area::Scratch as usize] = vec![0; bytes];
        }
    }

    /// Input and output.
    pub(super) fn ends(&mut self) -> (&mut [u8], &mut [u8]) {
        let [input, output, _] = &mut self.areas;
        (input, output)
    }

    fn at(&self, place: Place, bytes: usize) -> &[u8] {
        &self.areas[place.area as usize][place.start..place.start + bytes]
    }

    fn copy(&mut self, source: Place, target: Place, bytes: usize) {
        if source.area == target.area {
            self.areas[source.area as usize].copy_within(source.start..source.start + bytes, target.start);
        } else if let Ok([from, to]) = self.areas.get_disjoint_mut([source.area as usize, target.area as usize]) {
            to[target.start..target.start + bytes].copy_from_slice(&from[source.start..source.start + bytes]);
        }
    }

    /// `target = operand op staging[..bytes]`. The operand is the target itself or lies in another area.
    fn combine(&mut self, kernel: Kernel, target: Place, operand: Place, bytes: usize) {
        let incoming = &self.staging[..bytes];
        if target.area == operand.area {
            let place = &mut self.areas[target.area as usize][target.start..target.start + bytes];
            (kernel.into)(place, incoming);
        } else if let Ok([to, from]) = self.areas.get_disjoint_mut([target.area as usize, operand.area as usize]) {
            let to = &mut to[target.start..target.start + bytes];
            (kernel.from)(to, &from[operand.start..operand.start + bytes], incoming);
        }
    }
}

/// A receive stream on its way.
struct Receiver {
    connection: usize,
    segments: Vec<ReceiveSegment>,
    current: usize,
    /// Bytes of the current segment that are stored or combined.
    done: usize,
    /// Bytes of the whole stream that are.
    total: usize,
    /// First bytes of an element whose rest has not come yet.
    carry: [u8; MAX_ELEMENT_BYTES],
    carried: usize,
}

/// A send stream on its way.
struct Sender {
    connection: usize,
    segments: Vec<SendSegment>,
    current: usize,
    /// Bytes of the current segment that are sent.
    done: usize,
    /// Whether the connection took less than it was offered.
    is_blocked: bool,
}

struct Lane {
    receivers: Vec<Receiver>,
    senders: Vec<Sender>,
}

/// A plan with its connections, to be run any number of times.
pub(super) struct Pump {
    lanes: Vec<Lane>,
    copies: Vec<super::plan::LocalCopy>,
    kernel: Kernel,
    element: usize,
    manner: Manner,
}

impl Pump {
    /// Binds a plan to its connections.
    pub(super) fn new(
        plan: Plan,
        table: &Table,
        kernel: Kernel,
        element: usize,
        manner: Manner,
    ) -> Result<Self, EngineError> {
        let mut lanes = Vec::new();
        for lane in plan.lanes {
            let (mut receivers, mut senders) = (Vec::new(), Vec::new());
            for stream in lane.receives {
                receivers.push(Receiver {
                    connection: table.position((stream.peer, lane.lane))?,
                    segments: stream.segments,
                    current: 0,
                    done: 0,
                    total: 0,
                    carry: [0; MAX_ELEMENT_BYTES],
                    carried: 0,
                });
            }
            for stream in lane.sends {
                let connection = table.position((stream.peer, lane.lane))?;
                senders.push(Sender { connection, segments: stream.segments, current: 0, done: 0, is_blocked: false });
            }
            lanes.push(Lane { receivers, senders });
        }
        Ok(Self { lanes, copies: plan.copies, kernel, element, manner })
    }

    /// Runs the call once. `deadline` is that of the item.
    pub(super) fn run(&mut self, mesh: &mut Mesh, buffers: &mut Buffers, deadline: Instant) -> Result<(), EngineError> {
        self.rewind();
        let connections = mesh.table.connections();
        self.push_all(connections, buffers)?;
        for copy in &self.copies {
            buffers.copy(copy.source, copy.target, copy.bytes);
        }
        let mut waiter = Waiter::new(deadline);
        while !self.is_done() {
            let has_received = self.pull_all(connections, buffers)?;
            let has_sent = self.push_all(connections, buffers)?;
            if has_received || has_sent {
                waiter.rest();
            } else {
                waiter.wait(connections, || self.interest())?;
            }
        }
        Ok(())
    }

    fn rewind(&mut self) {
        for lane in &mut self.lanes {
            for receiver in &mut lane.receivers {
                (receiver.current, receiver.done, receiver.total, receiver.carried) = (0, 0, 0, 0);
            }
            for sender in &mut lane.senders {
                (sender.current, sender.done, sender.is_blocked) = (0, 0, false);
            }
        }
    }

    fn is_done(&self) -> bool {
        self.lanes.iter().all(|lane| {
            lane.receivers.iter().all(|receiver| receiver.current == receiver.segments.len())
                && lane.senders.iter().all(|sender| sender.current == sender.segments.len())
        })
    }

    fn pull_all(
        &mut self,
        connections: &mut [Box<dyn Connection>],
        buffers: &mut Buffers,
    ) -> Result<bool, EngineError> {
        let mut has_moved = false;
        for lane in &mut self.lanes {
            for index in 0..lane.receivers.len() {
                let allowed = lane.receivable(index);
                let receiver = &mut lane.receivers[index];
                if allowed > 0 {
                    has_moved |=
                        receiver.pull(connections, buffers, (self.kernel, self.element, self.manner), allowed)?;
                }
            }
        }
        Ok(has_moved)
    }

    fn push_all(&mut self, connections: &mut [Box<dyn Connection>], buffers: &Buffers) -> Result<bool, EngineError> {
        let mut has_moved = false;
        for lane in &mut self.lanes {
            let Lane { receivers, senders } = lane;
            for sender in senders {
                has_moved |= sender.push(connections, buffers, receivers, self.manner)?;
            }
        }
        Ok(has_moved)
    }

    /// What the call waits for: positions of connections, and directions.
    fn interest(&self) -> Vec<(usize, PollFlags)> {
        let mut wanted = Vec::new();
        for lane in &self.lanes {
            let receivers = lane.receivers.iter().enumerate().filter(|(index, _)| lane.receivable(*index) > 0);
            wanted.extend(receivers.map(|(_, receiver)| (receiver.connection, PollFlags::IN)));
            let blocked = lane.senders.iter().filter(|sender| sender.is_blocked);
            wanted.extend(blocked.map(|sender| (sender.connection, PollFlags::OUT)));
        }
        wanted
    }
}

/// Bytes of a segment that its gate lets through.
fn through(gate: Option<Gate>, bytes: usize, receivers: &[Receiver]) -> usize {
    match gate {
        None => bytes,
        Some(gate) => receivers[gate.stream].total.saturating_sub(gate.base).min(bytes),
    }
}

impl Lane {
    /// Bytes of the stream's current segment that may be received now, those that are carried not counted.
    fn receivable(&self, index: usize) -> usize {
        let receiver = &self.receivers[index];
        let Some(segment) = receiver.segments.get(receiver.current) else { return 0 };
        through(segment.gate, segment.bytes, &self.receivers).saturating_sub(receiver.done + receiver.carried)
    }
}

impl Receiver {
    /// Receives once; false where nothing was there.
    fn pull(
        &mut self,
        connections: &mut [Box<dyn Connection>],
        buffers: &mut Buffers,
        (kernel, element, Manner { protocol, pace }): (Kernel, usize, Manner),
        allowed: usize,
    ) -> Result<bool, EngineError> {
        let segment = &self.segments[self.current];
        let connection = &mut connections[self.connection];
        let target = Place { start: segment.target.start + self.done, ..segment.target };
        let allowed = allowed.min(pace.burst());
        let advanced = match segment.action {
            Action::Copy => {
                let room = &mut buffers.areas[target.area as usize][target.start..target.start + allowed];
                let Some(bytes) = connection.receive(protocol, room)? else { return Ok(false) };
                bytes
            }
            Action::Combine(operand) => {
                let carried = self.carried;
                buffers.staging[..carried].copy_from_slice(&self.carry[..carried]);
                let room = (carried + allowed).min(STAGING_BYTES);
                let room = &mut buffers.staging[carried..room];
                let Some(bytes) = connection.receive(protocol, room)? else { return Ok(false) };
                let whole = (carried + bytes) / element * element;
                self.carried = carried + bytes - whole;
                self.carry[..self.carried].copy_from_slice(&buffers.staging[whole..carried + bytes]);
                buffers.combine(kernel, target, Place { start: operand.start + self.done, ..operand }, whole);
                whole
            }
        };
        self.done += advanced;
        self.total += advanced;
        if self.done == segment.bytes {
            self.current += 1;
            self.done = 0;
        }
        Ok(true)
    }
}

impl Sender {
    /// Sends what the gates and the connection let through; false where that is nothing.
    fn push(
        &mut self,
        connections: &mut [Box<dyn Connection>],
        buffers: &Buffers,
        receivers: &[Receiver],
        Manner { protocol, pace }: Manner,
    ) -> Result<bool, EngineError> {
        self.is_blocked = false;
        let mut has_moved = false;
        while let Some(segment) = self.segments.get(self.current) {
            let ready = through(segment.gate, segment.bytes, receivers);
            let released = pace.release(ready, segment.bytes);
            if released <= self.done {
                break;
            }
            let bytes = (released - self.done).min(pace.burst());
            let source = Place { start: segment.source.start + self.done, ..segment.source };
            let sent = connections[self.connection].send(protocol, buffers.at(source, bytes))?;
            has_moved |= sent > 0;
            self.done += sent;
            if self.done == segment.bytes {
                self.current += 1;
                self.done = 0;
            }
            if sent < bytes {
                self.is_blocked = true;
                break;
            }
            if segment.bytes > pace.burst() {
                // Long segments alternate with receiving, so that neither direction starves the other.
                break;
            }
        }
        Ok(has_moved)
    }
}
