//! Both ends in memory, over a wire that is as slow and as cut up as the specification allows.

use std::{cell::RefCell, collections::VecDeque, rc::Rc};

use proptest::prelude::*;

use super::*;

/// A write on its way.
struct Posted {
    to: usize,
    bytes: Vec<u8>,
    immediate: Option<u32>,
}

/// What one end sends the other.
#[derive(Default)]
struct Way {
    posted: VecDeque<Posted>,
    memory: Vec<u8>,
    immediates: VecDeque<u32>,
    receives: usize,
}

impl Way {
    /// Lets `bytes` bytes arrive, in the order of their addresses.
    fn arrive(&mut self, mut bytes: usize) {
        while bytes > 0 {
            let Some(first) = self.posted.front_mut() else { return };
            let part = bytes.min(first.bytes.len());
            self.memory[first.to..first.to + part].copy_from_slice(&first.bytes[..part]);
            first.bytes.drain(..part);
            first.to += part;
            bytes -= part;
            if first.bytes.is_empty() {
                if let Some(immediate) = first.immediate {
                    assert!(self.receives > 0, "a write with an immediate found no receive");
                    self.receives -= 1;
                    self.immediates.push_back(immediate);
                }
                self.posted.pop_front();
            }
        }
    }
}

struct End {
    own: Vec<u8>,
    into: Rc<RefCell<Way>>,
    out: Rc<RefCell<Way>>,
    depth: usize,
}

impl Wire for End {
    fn load(&self, at: usize) -> Result<u64, EngineError> {
        assert_eq!(at % 8, 0);
        Ok(u64::from_le_bytes(self.into.borrow().memory[at..at + 8].try_into().unwrap()))
    }

    fn read(&self, at: usize, room: &mut [u8]) -> Result<(), EngineError> {
        room.copy_from_slice(&self.into.borrow().memory[at..at + room.len()]);
        Ok(())
    }

    fn store(&mut self, at: usize, bytes: &[u8]) -> Result<(), EngineError> {
        self.own[at..at + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn write(&mut self, from: usize, bytes: usize, to: usize, immediate: Option<u32>) -> Result<bool, EngineError> {
        let mut out = self.out.borrow_mut();
        if out.posted.len() >= self.depth {
            return Ok(false);
        }
        out.posted.push_back(Posted { to, bytes: self.own[from..from + bytes].to_vec(), immediate });
        Ok(true)
    }

    fn arrival(&mut self) -> Result<Option<u32>, EngineError> {
        Ok(self.into.borrow_mut().immediates.pop_front())
    }

    fn replenish(&mut self) -> Result<(), EngineError> {
        self.into.borrow_mut().receives += 1;
        Ok(())
    }
}

fn pair(layout: &Layout, depth: usize) -> [(End, Streams); 2] {
    let way =
        || Rc::new(RefCell::new(Way { memory: vec![0; layout.bytes()], receives: layout.slots(), ..Way::default() }));
    let (there, back) = (way(), way());
    let end = |into: &Rc<RefCell<Way>>, out: &Rc<RefCell<Way>>| {
        let own = vec![0; layout.bytes()];
        (End { own, into: Rc::clone(into), out: Rc::clone(out), depth }, Streams::new(layout))
    };
    [end(&back, &there), end(&there, &back)]
}

const SMALL: Layout = Layout { units: [8, 4, 2], slot_bytes: 100 };

/// Sends `length` bytes in pieces of `sends`, receives them in pieces of `rooms`, while the wire delivers `steps` bytes at a time.
fn cross(
    ends: &mut [(End, Streams); 2],
    protocol: Protocol,
    length: usize,
    (sends, rooms, steps): (&[usize], &[usize], &[usize]),
) {
    let bytes: Vec<u8> = (0..length).map(|at| (at * 7 + at / 251) as u8).collect();
    let mut got = Vec::new();
    let mut sent = 0;
    let mut quiet = 0;
    for turn in 0.. {
        let [(sender, outgoing), (receiver, incoming)] = ends;
        let piece = sends[turn % sends.len()].min(length - sent);
        sent += outgoing.send(sender, protocol, &bytes[sent..sent + piece]).unwrap();
        sender.out.borrow_mut().arrive(steps[turn % steps.len()]);
        let mut room = vec![0; rooms[turn % rooms.len()].min(length - got.len())];
        let taken = incoming.receive(receiver, protocol, &mut room).unwrap();
        got.extend_from_slice(&room[..taken.unwrap_or(0)]);
        receiver.out.borrow_mut().arrive(steps[(turn + 1) % steps.len()]);
        quiet = if taken.is_some() { 0 } else { quiet + 1 };
        assert!(quiet < 2000, "{protocol} stands still after {} of {length} bytes, {sent} sent", got.len());
        if got.len() == length {
            break;
        }
    }
    assert!(got == bytes, "{protocol}: other bytes came than were sent");
}

fn pieces(most: usize) -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(1..=most, 1..6)
}

proptest! {
    #[test]
    fn what_is_sent_comes_however_the_wire_cuts_it(
        lengths in prop::collection::vec((0usize..3, 0usize..3000), 1..6),
        sends in pieces(700),
        rooms in pieces(300),
        steps in pieces(150),
        depth in 1usize..5,
    ) {
        let mut ends = pair(&SMALL, depth);
        for (protocol, length) in lengths {
            cross(&mut ends, RINGS[protocol], length, (&sends, &rooms, &steps));
        }
    }
}

/// A byte at a time: a line is never taken before its last byte is there.
#[test]
fn lines_that_are_half_there_are_left_alone() {
    for protocol in RINGS {
        cross(&mut pair(&SMALL, 3), protocol, 1500, (&[400], &[1000], &[1]));
    }
}

#[test]
fn laps_go_on_after_the_flag_has_gone_round() {
    let units = u64::from(SMALL.units[0]);
    let mut ends = pair(&SMALL, 3);
    let begun = (units << LL_LAP_BITS) - 2 * units;
    for (end, streams) in &mut ends {
        streams.outgoing[0].sent = begun;
        (streams.incoming[0].taken, streams.incoming[0].told) = (begun, begun);
        end.into.borrow_mut().memory[..8].copy_from_slice(&begun.to_le_bytes());
    }
    cross(&mut ends, Protocol::Ll, 4 * units as usize * LL.1, (&[64], &[64], &[64]));
}

#[test]
fn a_sender_without_credit_overwrites_nothing() {
    for (protocol, most) in [(Protocol::Ll, 8 * 4), (Protocol::Ll128, 4 * 120), (Protocol::Simple, 2 * 100)] {
        let [(mut sender, mut outgoing), _] = pair(&SMALL, 1000);
        assert_eq!(outgoing.send(&mut sender, protocol, &[7; 4000]).unwrap(), most, "{protocol}");
        assert_eq!(outgoing.send(&mut sender, protocol, &[7; 4000]).unwrap(), 0, "{protocol}");
    }
}

#[test]
fn rings_do_not_overlap_and_lines_are_aligned() {
    for layout in [Layout::data(1 << 20), Layout::data(5000), Layout::control(), SMALL] {
        let mut next = 2 * WORDS_BYTES;
        let rings = RINGS.map(|protocol| (layout.incoming(protocol), protocol));
        for (start, protocol) in rings.into_iter().chain(RINGS.map(|protocol| (layout.outgoing(protocol), protocol))) {
            assert_eq!((start, start % LL128.0), (next, 0));
            next += layout.ring_bytes(protocol);
        }
        assert_eq!(layout.bytes(), next);
    }
}
