//! Streams of bytes over memory that the peer writes into: a ring for each protocol and direction. Pure but for the [`Wire`].
//!
//! - `ll`: lines of 8 bytes, 4 of data and a flag of 4 behind them. The receiver watches the flag in its memory.
//! - `ll128`: lines of 128 bytes, 120 of data and a flag of 8 behind them.
//! - `simple`: slots that are written with an immediate, whose completion tells the receiver how long the data is.
//!
//! A flag holds how often the ring went round, so that what was there before is never taken for new, and how many of the
//! line's bytes are data, so that a stream may be cut anywhere. The receiver writes back how much it has taken: that is the
//! sender's credit, and without it a sender overwrites nothing.
//!
//! What `ll` and `ll128` rely on: bytes of one RDMA write reach memory in the order of their addresses within a line. The
//! InfiniBand specification does not promise it; NCCL's LL and LL128 rely on the like, and adapters keep to it while a region is not
//! registered for relaxed ordering, which none here is. A flag is behind its data and read first, so that a line is taken only
//! when all before its flag is there. Results are checked for every choice all the same, as everywhere. `simple` relies on
//! nothing but the specification: a completion follows all of its data.

use gdrtune_profiles::vocab::Protocol;

use crate::engine::EngineError;

/// What streams need of the memory and the queue pair below them. Positions are in this rank's region; the peer's region has the
/// same layout.
pub(super) trait Wire {
    /// Eight bytes, in little-endian order, at a multiple of 8. What was written before them is seen by later reads.
    fn load(&self, at: usize) -> Result<u64, EngineError>;

    /// Bytes that the peer wrote.
    fn read(&self, at: usize, room: &mut [u8]) -> Result<(), EngineError>;

    /// Stores bytes that are to be written to the peer.
    fn store(&mut self, at: usize, bytes: &[u8]) -> Result<(), EngineError>;

    /// Writes `bytes` bytes at `from` to `to` in the peer's region. False where the queue has no room now.
    fn write(&mut self, from: usize, bytes: usize, to: usize, immediate: Option<u32>) -> Result<bool, EngineError>;

    /// The next immediate that came with a write of the peer.
    fn arrival(&mut self) -> Result<Option<u32>, EngineError>;

    /// Makes room for another immediate.
    fn replenish(&mut self) -> Result<(), EngineError>;
}

/// Bytes of an `ll` line, and how many of them are data.
const LL: (usize, usize) = (8, 4);
/// The same of `ll128`.
const LL128: (usize, usize) = (128, 120);

/// Longest slot of `simple`: four of them are some 10 us at 400 Gbit/s, about what a credit takes to come back.
const MAX_SLOT_BYTES: usize = 128 << 10;

/// Words that a peer writes come first, those that are written to it follow in the next cache line.
const WORDS_BYTES: usize = 64;

/// The word by which a peer shows that it can be reached.
pub(super) const PULSE: usize = 3 * 8;
const _: () = assert!(PULSE + 8 <= WORDS_BYTES, "words that are written to the peer are behind those that it writes");

/// Where a word that is written to the peer's `word` is stored.
pub(super) const fn outgoing_word(word: usize) -> usize {
    WORDS_BYTES + word
}

/// What a region holds: words, then a ring for each protocol that the peer writes, then those that are written to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(super) struct Layout {
    /// Lines of `ll`, lines of `ll128`, slots of `simple`: powers of two, or none.
    units: [u32; 3],
    slot_bytes: u32,
}

impl Layout {
    /// For data, where `simple` passes on chunks of this many bytes: 32 and 120 KiB of data, and four slots.
    pub(super) fn data(chunk_bytes: usize) -> Self {
        Self { units: [8192, 1024, 4], slot_bytes: chunk_bytes.min(MAX_SLOT_BYTES) as u32 }
    }

    /// For messages of a few bytes: `ll` only, 2 KiB of data.
    pub(super) fn control() -> Self {
        Self { units: [512, 0, 0], slot_bytes: 0 }
    }

    /// Most immediates that may be on their way.
    pub(super) fn slots(&self) -> usize {
        self.units[Protocol::Simple as usize] as usize
    }

    fn unit_bytes(&self, protocol: Protocol) -> usize {
        match protocol {
            Protocol::Ll => LL.0,
            Protocol::Ll128 => LL128.0,
            Protocol::Simple => self.slot_bytes as usize,
        }
    }

    fn ring_bytes(&self, protocol: Protocol) -> usize {
        // Whole lines of 128 bytes, so that no line of `ll128` crosses a packet's end (MTUs are multiples of it).
        (self.units[protocol as usize] as usize * self.unit_bytes(protocol)).next_multiple_of(LL128.0)
    }

    /// Where the ring that the peer writes begins.
    fn incoming(&self, protocol: Protocol) -> usize {
        let before = RINGS.iter().take_while(|&&known| known != protocol).map(|&known| self.ring_bytes(known));
        2 * WORDS_BYTES + before.sum::<usize>()
    }

    /// Where the ring begins that is written to the peer.
    fn outgoing(&self, protocol: Protocol) -> usize {
        let all: usize = RINGS.iter().map(|&known| self.ring_bytes(known)).sum();
        self.incoming(protocol) + all
    }

    /// Bytes of the whole region.
    pub(super) fn bytes(&self) -> usize {
        self.outgoing(Protocol::Simple) + self.ring_bytes(Protocol::Simple)
    }
}

/// The protocols in the order of their rings.
const RINGS: [Protocol; 3] = [Protocol::Ll, Protocol::Ll128, Protocol::Simple];

/// Streams of one connection, both ways.
pub(super) struct Streams {
    outgoing: [Outgoing; 3],
    incoming: [Incoming; 3],
}

/// A ring that is written to the peer.
struct Outgoing {
    protocol: Protocol,
    /// Where it is stored here.
    here: usize,
    /// Where it is in the peer's region.
    there: usize,
    unit_bytes: usize,
    units: u64,
    /// Lines or slots that were written, ever.
    sent: u64,
    lines: Vec<u8>,
}

/// A ring that the peer writes.
struct Incoming {
    protocol: Protocol,
    here: usize,
    unit_bytes: usize,
    units: u64,
    /// Lines or slots that were taken, ever.
    taken: u64,
    /// The peer's credit: how many of those it was told of.
    told: u64,
    /// Bytes of the present line or slot that were taken.
    offset: usize,
    /// Bytes of the present slot; 0 where it has not come.
    slot: usize,
}

impl Streams {
    pub(super) fn new(layout: &Layout) -> Self {
        let outgoing = RINGS.map(|protocol| Outgoing {
            protocol,
            here: layout.outgoing(protocol),
            there: layout.incoming(protocol),
            unit_bytes: layout.unit_bytes(protocol),
            units: layout.units[protocol as usize].into(),
            sent: 0,
            lines: vec![],
        });
        let incoming = RINGS.map(|protocol| Incoming {
            protocol,
            here: layout.incoming(protocol),
            unit_bytes: layout.unit_bytes(protocol),
            units: layout.units[protocol as usize].into(),
            taken: 0,
            told: 0,
            offset: 0,
            slot: 0,
        });
        Self { outgoing, incoming }
    }

    /// Sends what has room; returns how many bytes that were.
    pub(super) fn send(
        &mut self,
        wire: &mut impl Wire,
        protocol: Protocol,
        bytes: &[u8],
    ) -> Result<usize, EngineError> {
        self.outgoing[protocol as usize].send(wire, bytes)
    }

    /// Receives what is there, up to the room; `None` where that is nothing.
    pub(super) fn receive(
        &mut self,
        wire: &mut impl Wire,
        protocol: Protocol,
        room: &mut [u8],
    ) -> Result<Option<usize>, EngineError> {
        let incoming = &mut self.incoming[protocol as usize];
        let bytes = match protocol {
            Protocol::Ll => incoming.take_ll(wire, room)?,
            Protocol::Ll128 => incoming.take_ll128(wire, room)?,
            Protocol::Simple => incoming.take_slots(wire, room)?,
        };
        incoming.give_credit(wire)?;
        Ok((bytes > 0).then_some(bytes))
    }
}

/// How often a ring of `units` has gone round when its `count`th unit is written, from 1, in `bits` bits.
fn lap(count: u64, units: u64, bits: u32) -> u64 {
    ((count >> units.max(1).trailing_zeros()) + 1) & ((1 << bits) - 1)
}

/// Where in a ring of `units`, a power of two, the `count`th unit is.
fn place(count: u64, units: u64) -> u64 {
    count & units.saturating_sub(1)
}

/// Bits of a flag that hold the lap: the others hold the length, less 1 for `ll`.
const LL_LAP_BITS: u32 = 30;
const LL128_LAP_BITS: u32 = 57;

impl Outgoing {
    fn send(&mut self, wire: &mut impl Wire, bytes: &[u8]) -> Result<usize, EngineError> {
        let credit = wire.load(self.protocol as usize * 8)?;
        let mut done = 0;
        while done < bytes.len() {
            let rest = &bytes[done..];
            let free = self.units.saturating_sub(self.sent.saturating_sub(credit));
            let at = place(self.sent, self.units);
            // What lies in one piece.
            let run = free.min(self.units - at) as usize;
            if run == 0 {
                break;
            }
            let (units, taken) = match self.protocol {
                Protocol::Ll => self.fill_ll(run, rest),
                Protocol::Ll128 => self.fill_ll128(run, rest),
                Protocol::Simple => (1, rest.len().min(self.unit_bytes)),
            };
            let (from, to) = (self.here + at as usize * self.unit_bytes, self.there + at as usize * self.unit_bytes);
            let is_written = if self.protocol == Protocol::Simple {
                wire.store(from, &rest[..taken])?;
                wire.write(from, taken, to, Some(taken as u32))?
            } else {
                wire.store(from, &self.lines)?;
                wire.write(from, self.lines.len(), to, None)?
            };
            if !is_written {
                break;
            }
            self.sent += units as u64;
            done += taken;
        }
        Ok(done)
    }

    /// Makes up to `most` lines of the bytes' beginning; returns how many, and of how many bytes.
    fn fill_ll(&mut self, most: usize, bytes: &[u8]) -> (usize, usize) {
        self.lines.clear();
        let flag = (lap(self.sent, self.units, LL_LAP_BITS) as u32) << 2;
        let mut taken = 0;
        let mut lines = 0;
        // One piece of the ring is of one lap.
        for data in bytes.chunks(LL.1).take(most) {
            let mut line = [0; LL.0];
            line[..data.len()].copy_from_slice(data);
            line[LL.1..].copy_from_slice(&(flag | (data.len() as u32 - 1)).to_le_bytes());
            self.lines.extend_from_slice(&line);
            taken += data.len();
            lines += 1;
        }
        (lines, taken)
    }

    fn fill_ll128(&mut self, most: usize, bytes: &[u8]) -> (usize, usize) {
        self.lines.clear();
        let flag = lap(self.sent, self.units, LL128_LAP_BITS) << 7;
        let mut taken = 0;
        let mut lines = 0;
        for data in bytes.chunks(LL128.1).take(most) {
            let mut line = [0; LL128.0];
            line[..data.len()].copy_from_slice(data);
            line[LL128.1..].copy_from_slice(&(flag | data.len() as u64).to_le_bytes());
            self.lines.extend_from_slice(&line);
            taken += data.len();
            lines += 1;
        }
        (lines, taken)
    }
}

impl Incoming {
    /// Where the present line or slot is.
    fn at(&self) -> usize {
        self.here + place(self.taken, self.units) as usize * self.unit_bytes
    }

    /// Takes `bytes` bytes of a line or slot that holds `length`; true where it is used up.
    fn advance(&mut self, bytes: usize, length: usize) -> bool {
        self.offset += bytes;
        let is_over = self.offset == length;
        if is_over {
            self.offset = 0;
            self.taken += 1;
        }
        is_over
    }

    fn take_ll(&mut self, wire: &impl Wire, room: &mut [u8]) -> Result<usize, EngineError> {
        let mut done = 0;
        while done < room.len() {
            let line = wire.load(self.at())?;
            let flag = (line >> 32) as u32;
            if u64::from(flag >> 2) != lap(self.taken, self.units, LL_LAP_BITS) {
                break;
            }
            let length = (flag & 3) as usize + 1;
            let data = &line.to_le_bytes()[self.offset..length];
            let bytes = data.len().min(room.len() - done);
            room[done..done + bytes].copy_from_slice(&data[..bytes]);
            done += bytes;
            self.advance(bytes, length);
        }
        Ok(done)
    }

    fn take_ll128(&mut self, wire: &impl Wire, room: &mut [u8]) -> Result<usize, EngineError> {
        let mut done = 0;
        while done < room.len() {
            let flag = wire.load(self.at() + LL128.1)?;
            if flag >> 7 != lap(self.taken, self.units, LL128_LAP_BITS) {
                break;
            }
            let length = ((flag & 0x7f) as usize).min(LL128.1);
            let bytes = length.saturating_sub(self.offset).min(room.len() - done);
            wire.read(self.at() + self.offset, &mut room[done..done + bytes])?;
            done += bytes;
            self.advance(bytes, length);
        }
        Ok(done)
    }

    fn take_slots(&mut self, wire: &mut impl Wire, room: &mut [u8]) -> Result<usize, EngineError> {
        let mut done = 0;
        while done < room.len() {
            if self.slot == 0 {
                let Some(length) = wire.arrival()? else { break };
                self.slot = (length as usize).min(self.unit_bytes);
            }
            let bytes = (self.slot - self.offset).min(room.len() - done);
            wire.read(self.at() + self.offset, &mut room[done..done + bytes])?;
            done += bytes;
            if self.advance(bytes, self.slot) {
                self.slot = 0;
                wire.replenish()?;
            }
        }
        Ok(done)
    }

    /// Tells the peer what was taken, where that is worth a write: every slot, a quarter of the lines.
    fn give_credit(&mut self, wire: &mut impl Wire) -> Result<(), EngineError> {
        if self.taken - self.told < (self.units / 4).max(1) {
            return Ok(());
        }
        let word = self.protocol as usize * 8;
        wire.store(outgoing_word(word), &self.taken.to_le_bytes())?;
        if wire.write(outgoing_word(word), 8, word, None)? {
            self.told = self.taken;
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "ring_tests.rs"]
mod tests;
