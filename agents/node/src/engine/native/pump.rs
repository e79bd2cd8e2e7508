//! Moves the bytes of a plan: one thread, non-blocking sockets, no more order than the plan's gates demand.
//!
//! Received bytes are combined or stored as they come, and gated segments go out as soon as the protocol lets them, so that
//! receiving, combining and sending overlap. Outstanding data is bounded by the sockets' buffers, which are the credits of
//! the chunked protocol: a receiver that does not read stops its sender.

use std::{
    io::{ErrorKind, Read, Write},
    time::Instant,
};

use rustix::event::PollFlags;

use super::{
    element::Kernel,
    mesh::{Connection, Mesh},
    plan::{Action, Area, Gate, Place, Plan, ReceiveSegment, SendSegment},
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

    /// Most bytes for one system call.
    fn burst(self) -> usize {
        match self {
            Self::Whole => usize::MAX,
            Self::Pieces(piece) => piece,
        }
    }
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
    /// Whether the socket took less than it was offered.
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
    pace: Pace,
}

impl Pump {
    /// Binds a plan to the mesh's connections.
    pub(super) fn new(
        plan: Plan,
        mesh: &Mesh,
        kernel: Kernel,
        element: usize,
        pace: Pace,
    ) -> Result<Self, EngineError> {
        let mut lanes = Vec::new();
        for lane in plan.lanes {
            let (mut receivers, mut senders) = (Vec::new(), Vec::new());
            for stream in lane.receives {
                receivers.push(Receiver {
                    connection: mesh.position((stream.peer, lane.lane))?,
                    segments: stream.segments,
                    current: 0,
                    done: 0,
                    total: 0,
                    carry: [0; MAX_ELEMENT_BYTES],
                    carried: 0,
                });
            }
            for stream in lane.sends {
                let connection = mesh.position((stream.peer, lane.lane))?;
                senders.push(Sender { connection, segments: stream.segments, current: 0, done: 0, is_blocked: false });
            }
            lanes.push(Lane { receivers, senders });
        }
        Ok(Self { lanes, copies: plan.copies, kernel, element, pace })
    }

    /// Runs the call once. `deadline` is that of the item.
    pub(super) fn run(&mut self, mesh: &Mesh, buffers: &mut Buffers, deadline: Instant) -> Result<(), EngineError> {
        self.rewind();
        let connections = mesh.connections();
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

    fn pull_all(&mut self, connections: &[Connection], buffers: &mut Buffers) -> Result<bool, EngineError> {
        let mut has_moved = false;
        for lane in &mut self.lanes {
            for index in 0..lane.receivers.len() {
                let allowed = lane.receivable(index);
                let receiver = &mut lane.receivers[index];
                if allowed > 0 {
                    has_moved |=
                        receiver.pull(connections, buffers, (self.kernel, self.element, self.pace), allowed)?;
                }
            }
        }
        Ok(has_moved)
    }

    fn push_all(&mut self, connections: &[Connection], buffers: &Buffers) -> Result<bool, EngineError> {
        let mut has_moved = false;
        for lane in &mut self.lanes {
            let Lane { receivers, senders } = lane;
            for sender in senders {
                has_moved |= sender.push(connections, buffers, receivers, self.pace)?;
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
        connections: &[Connection],
        buffers: &mut Buffers,
        (kernel, element, pace): (Kernel, usize, Pace),
        allowed: usize,
    ) -> Result<bool, EngineError> {
        let segment = &self.segments[self.current];
        let connection = &connections[self.connection];
        let target = Place { start: segment.target.start + self.done, ..segment.target };
        let allowed = allowed.min(pace.burst());
        let advanced = match segment.action {
            Action::Copy => {
                let room = &mut buffers.areas[target.area as usize][target.start..target.start + allowed];
                let Some(bytes) = receive(connection, room)? else { return Ok(false) };
                bytes
            }
            Action::Combine(operand) => {
                let carried = self.carried;
                buffers.staging[..carried].copy_from_slice(&self.carry[..carried]);
                let room = (carried + allowed).min(STAGING_BYTES);
                let Some(bytes) = receive(connection, &mut buffers.staging[carried..room])? else { return Ok(false) };
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
    /// Sends what the gates and the socket let through; false where that is nothing.
    fn push(
        &mut self,
        connections: &[Connection],
        buffers: &Buffers,
        receivers: &[Receiver],
        pace: Pace,
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
            let sent = send(&connections[self.connection], buffers.at(source, bytes))?;
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

/// Receives what is there, up to the room; `None` where that is nothing.
pub(super) fn receive(connection: &Connection, room: &mut [u8]) -> Result<Option<usize>, EngineError> {
    match (&connection.stream).read(room) {
        Ok(0) => Err(EngineError::PeerLost { rank: connection.peer, why: "it closed the connection".to_owned() }),
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(None),
        Err(error) => Err(EngineError::PeerLost { rank: connection.peer, why: error.to_string() }),
    }
}

/// Sends what the socket takes at once.
pub(super) fn send(connection: &Connection, bytes: &[u8]) -> Result<usize, EngineError> {
    match (&connection.stream).write(bytes) {
        Ok(sent) => Ok(sent),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(0),
        Err(error) => Err(EngineError::PeerLost { rank: connection.peer, why: error.to_string() }),
    }
}
