//! The collectives themselves, on what all ranks have published.

use std::{
    ffi::{c_int, c_void},
    hash::{DefaultHasher, Hash as _, Hasher as _},
    time::Instant,
};

use crate::{
    Comm, INVALID_USAGE, SUCCESS,
    capture::Task,
    debug, failed,
    purpose::{self, Fault, Selection},
};

/// `ncclFunc_t`, of those with a choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    Broadcast = 0,
    Reduce = 1,
    AllGather = 2,
    ReduceScatter = 3,
    AllReduce = 4,
}

/// One call of one of them.
pub(crate) struct Call {
    kind: Kind,
    send: *const u8,
    receive: *mut u8,
    count: usize,
    data_type: c_int,
    op: c_int,
    root: usize,
}

/// A send or a receive of a group.
pub(crate) enum Transfer {
    Send { from: *const u8, bytes: usize, peer: usize },
    Receive { to: *mut u8, bytes: usize, peer: usize },
}

/// Size of an element of `ncclDataType_t`.
pub(crate) const fn element_bytes(data_type: c_int) -> usize {
    match data_type {
        0 | 1 => 1,
        6 | 9 => 2,
        4 | 5 | 8 => 8,
        _ => 4,
    }
}

impl Call {
    pub(crate) fn new(kind: Kind, send: *const c_void, receive: *mut c_void, count: usize, data_type: c_int) -> Self {
        Self { kind, send: send.cast(), receive: receive.cast(), count, data_type, op: 0, root: 0 }
    }

    pub(crate) fn with_op(self, op: c_int) -> Self {
        Self { op, ..self }
    }

    pub(crate) fn with_root(self, root: c_int) -> Self {
        Self { root: root as usize, ..self }
    }

    fn bytes(&self) -> usize {
        self.count * element_bytes(self.data_type)
    }

    /// Bytes that a rank sends, and bytes that it gets.
    fn spans(&self, rank: usize, world: usize) -> (usize, usize) {
        let (bytes, is_root) = (self.bytes(), rank == self.root);
        match self.kind {
            Kind::AllReduce => (bytes, bytes),
            Kind::AllGather => (bytes, bytes * world),
            Kind::ReduceScatter => (bytes * world, bytes),
            Kind::Broadcast => (if is_root { bytes } else { 0 }, bytes),
            Kind::Reduce => (bytes, if is_root { bytes } else { 0 }),
        }
    }
}

impl Comm {
    /// Chooses for a call and starts it.
    pub(crate) fn enqueue(&self, call: Call) -> c_int {
        let selection = crate::tuner::select(self.tuner.as_ref(), call.kind as usize, self.size(&call));
        let selection = purpose::substituted(selection);
        if self.rank == 0 {
            debug::log_call(selection, call.bytes(), self.size(&call));
        }
        if purpose::fault(selection, self.rank) == Some(Fault::Error) {
            return failed(INVALID_USAGE, "no algorithm/protocol available for function");
        }
        self.start(Task::Call(call, selection))
    }

    /// As NCCL counts: the larger side of the whole collective.
    fn size(&self, call: &Call) -> usize {
        let scale = if matches!(call.kind, Kind::AllGather | Kind::ReduceScatter) { self.segment.world } else { 1 };
        call.bytes() * scale
    }

    /// Runs one call to its end.
    pub(crate) fn run(&self, call: &Call, selection: Selection) -> c_int {
        let started = Instant::now();
        let (sent, received) = call.spans(self.rank, self.segment.world);
        let fault = purpose::fault(selection, self.rank);
        match fault {
            Some(Fault::Hang) => loop {
                std::thread::park();
            },
            Some(Fault::Crash) => std::process::abort(),
            Some(Fault::Late) => purpose::be_late(),
            Some(Fault::Wrong | Fault::Error) | None => {}
        }
        let mut hasher = DefaultHasher::new();
        (selection, call.kind, call.count, call.data_type, call.op, call.root).hash(&mut hasher);
        // SAFETY: the caller's buffers hold what the call names.
        if !unsafe { self.segment.publish(call.send, sent, hasher.finish()) } {
            return failed(INVALID_USAGE, "ranks run different things, which would hang");
        }
        let mut result = self.result(call);
        if fault == Some(Fault::Wrong)
            && let Some(first) = result.first_mut()
        {
            *first ^= 0x41;
        }
        // Results may replace inputs only when all ranks have read them.
        self.segment.barrier();
        // SAFETY: as above.
        unsafe { call.receive.copy_from_nonoverlapping(result.as_ptr(), received.min(result.len())) };
        purpose::log(selection, self.size(call), self.rank);
        purpose::pay(selection, self.size(call), started);
        SUCCESS
    }

    fn result(&self, call: &Call) -> Vec<u8> {
        let (segment, bytes) = (&self.segment, call.bytes());
        match call.kind {
            Kind::AllGather => (0..segment.world).flat_map(|rank| segment.published(rank).iter().copied()).collect(),
            Kind::Broadcast => segment.published(call.root).to_vec(),
            Kind::ReduceScatter => self.combined(call, self.rank * bytes),
            Kind::Reduce if self.rank != call.root => vec![],
            Kind::AllReduce | Kind::Reduce => self.combined(call, 0),
        }
    }

    /// All ranks' elements from byte `start` on, combined.
    fn combined(&self, call: &Call, start: usize) -> Vec<u8> {
        let size = element_bytes(call.data_type);
        let mut result = Vec::with_capacity(call.bytes());
        for at in (start..start + call.bytes()).step_by(size) {
            let of_rank = |rank: usize| load(call.data_type, &self.segment.published(rank)[at..at + size]);
            let combine = |a: f64, b: f64| match call.op {
                0 => a + b,
                1 => a * b,
                2 => a.max(b),
                _ => a.min(b),
            };
            let value = (0..self.segment.world).map(of_rank).reduce(combine).unwrap_or_default();
            result.extend_from_slice(&store(call.data_type, value)[..size]);
        }
        result
    }

    /// Runs the sends and receives of one group, in which all ranks take part.
    pub(crate) fn transfer(&self, transfers: &[Transfer]) -> c_int {
        // Destination, length, data; one after the other.
        let mut own = Vec::new();
        for transfer in transfers {
            if let Transfer::Send { from, bytes, peer } = *transfer {
                own.extend_from_slice(&(peer as u64).to_ne_bytes());
                own.extend_from_slice(&(bytes as u64).to_ne_bytes());
                // SAFETY: the caller's buffer holds what the call names.
                own.extend_from_slice(unsafe { std::slice::from_raw_parts(from, bytes) });
            }
        }
        // SAFETY: a buffer of our own.
        unsafe { self.segment.publish(own.as_ptr(), own.len(), 0) };
        let mut result = SUCCESS;
        for transfer in transfers {
            let Transfer::Receive { to, bytes, peer } = *transfer else { continue };
            match find(self.segment.published(peer), self.rank) {
                Some(data) if data.len() == bytes => {
                    // SAFETY: as above.
                    unsafe { to.copy_from_nonoverlapping(data.as_ptr(), bytes) };
                }
                _ => result = failed(INVALID_USAGE, "a receive has no send of its size, which would hang"),
            }
        }
        self.segment.barrier();
        result
    }
}

/// What is for `rank` in a peer's sends.
fn find(mut sends: &[u8], rank: usize) -> Option<&[u8]> {
    loop {
        let (peer, rest) = sends.split_first_chunk::<8>()?;
        let (bytes, rest) = rest.split_first_chunk::<8>()?;
        let (data, rest) = rest.split_at_checked(u64::from_ne_bytes(*bytes) as usize)?;
        if u64::from_ne_bytes(*peer) == rank as u64 {
            return Some(data);
        }
        sends = rest;
    }
}

/// An element as a number; tests use whole numbers that every type holds.
fn load(data_type: c_int, bytes: &[u8]) -> f64 {
    let pair = || u16::from_ne_bytes([bytes[0], bytes[1]]);
    let quad = || [bytes[0], bytes[1], bytes[2], bytes[3]];
    match data_type {
        2 => f64::from(i32::from_ne_bytes(quad())),
        6 => half_to_number(pair()),
        9 => f64::from(f32::from_bits(u32::from(pair()) << 16)),
        _ => f64::from(f32::from_ne_bytes(quad())),
    }
}

fn store(data_type: c_int, value: f64) -> [u8; 4] {
    let wide = |[a, b]: [u8; 2]| [a, b, 0, 0];
    match data_type {
        2 => (value as i32).to_ne_bytes(),
        6 => wide(number_to_half(value).to_ne_bytes()),
        9 => wide((((value as f32).to_bits() >> 16) as u16).to_ne_bytes()),
        _ => (value as f32).to_ne_bytes(),
    }
}

/// Normal numbers and zero only.
fn half_to_number(bits: u16) -> f64 {
    let (exponent, mantissa) = (i32::from(bits >> 10 & 0x1f), f64::from(bits & 0x3ff));
    let magnitude = if exponent == 0 { 0.0 } else { (1.0 + mantissa / 1024.0) * 2f64.powi(exponent - 15) };
    if bits & 0x8000 == 0 { magnitude } else { -magnitude }
}

/// Whole numbers below 2048 only.
fn number_to_half(value: f64) -> u16 {
    let sign = if value < 0.0 { 0x8000 } else { 0 };
    let magnitude = value.abs();
    if magnitude < 1.0 {
        return sign;
    }
    let exponent = magnitude.log2().floor();
    let mantissa = (magnitude / exponent.exp2() - 1.0) * 1024.0;
    sign | ((exponent as u16 + 15) << 10) | mantissa as u16
}
