//! The calls of every rank of every communicator, as sources tell them.

use std::collections::{BTreeMap, HashMap};

use crate::vocab::{Collective, Point};

/// Calls of a stream whose order is kept, to find the step in. A step of the largest models has some thousands.
const MOST_ORDERED: usize = 1 << 16;

/// Different points whose order is kept.
const MOST_SYMBOLS: usize = u16::MAX as usize;

/// A rank of a communicator, as an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct StreamId(usize);

/// What a source says of a communicator.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Label {
    /// What tells it from all others, in every source; empty where a source does not tell.
    pub(super) id: String,
    /// Its name, for people; empty where it has none.
    pub(super) name: String,
    /// How many ranks it has.
    pub(super) ranks: u32,
}

/// The calls of one rank on one communicator.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Stream {
    pub(super) label: Label,
    /// The process, or the GPU of it, that made the calls.
    pub(super) owner: u32,
    /// How often each was called.
    pub(super) counts: BTreeMap<Point, u64>,
    /// Their order, as symbols, from the first call on.
    pub(super) order: Vec<u16>,
    /// Steps that the source marks.
    pub(super) steps: Option<u64>,
}

/// Why something is not in a workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Reason {
    /// Sends and receives.
    PointToPoint,
    /// A collective that gdrtune does not measure.
    OtherCollective,
    /// A type of no known size.
    UnknownType,
    /// No elements.
    Empty,
    /// Sizes are missing.
    NoSize,
    /// A communicator of one rank.
    Alone,
    /// A line or an entry that is cut off, or mixed with another.
    Broken,
    /// Calls that a source counted, but did not keep.
    Lost,
}

/// How much was left out for a reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LeftOut {
    pub(super) calls: u64,
    /// The first one: a name, a type, and where it is.
    pub(super) example: String,
}

/// Collects calls.
#[derive(Debug, Default)]
pub(super) struct Tally {
    streams: Vec<Stream>,
    owners: HashMap<String, u32>,
    symbols: HashMap<Point, u16>,
    points: Vec<Point>,
    left_out: BTreeMap<Reason, LeftOut>,
    notes: Vec<String>,
    calls: u64,
    /// First stream of the present source.
    source_start: usize,
}

impl Tally {
    /// Calls so far.
    pub(super) fn calls(&self) -> u64 {
        self.calls
    }

    /// What comes is of another source.
    pub(super) fn begin_source(&mut self) {
        self.source_start = self.streams.len();
    }

    /// The number of whoever is called `name`.
    pub(super) fn owner(&mut self, name: &str) -> u32 {
        if let Some(owner) = self.owners.get(name) {
            return *owner;
        }
        let owner = u32::try_from(self.owners.len()).unwrap_or(u32::MAX);
        self.owners.insert(name.to_owned(), owner);
        owner
    }

    /// A new rank of a communicator.
    pub(super) fn stream(&mut self, owner: u32, label: Label) -> StreamId {
        self.streams.push(Stream { label, owner, counts: BTreeMap::new(), order: Vec::new(), steps: None });
        StreamId(self.streams.len() - 1)
    }

    /// A call whose buffer has `bytes` by nccl-tests' size column.
    pub(super) fn call(&mut self, stream: StreamId, collective: Collective, bytes: u64) {
        let point = Point { collective, bytes };
        let known = self.symbols.len();
        let symbol = match self.symbols.get(&point) {
            Some(symbol) => Some(*symbol),
            None if known < MOST_SYMBOLS => {
                self.points.push(point);
                let symbol = known as u16;
                self.symbols.insert(point, symbol);
                Some(symbol)
            }
            None => None,
        };
        let Some(stream) = self.streams.get_mut(stream.0) else { return };
        if stream.label.ranks == 1 {
            return self.leave_out(Reason::Alone, 1, || collective.to_string());
        }
        self.calls += 1;
        *stream.counts.entry(point).or_default() += 1;
        match symbol {
            Some(symbol) if stream.order.len() < MOST_ORDERED => stream.order.push(symbol),
            _ => {}
        }
    }

    /// A call whose argument `count` has `bytes`, as NCCL's functions take it: for the collectives whose size column counts
    /// the blocks of all ranks it is one block (nccl-tests, `src/all_gather.cu`, `reduce_scatter.cu`, `alltoall.cu`).
    pub(super) fn call_of_count(&mut self, stream: StreamId, collective: Collective, bytes: u64) {
        let ranks = self.streams.get(stream.0).map_or(1, |stream| u64::from(stream.label.ranks));
        let blocks = if collective.counts_blocks() { ranks } else { 1 };
        match bytes.checked_mul(blocks) {
            Some(0) => self.leave_out(Reason::Empty, 1, || collective.to_string()),
            Some(bytes) => self.call(stream, collective, bytes),
            None => self.leave_out(Reason::Broken, 1, || format!("{collective} of {bytes} bytes")),
        }
    }

    /// Steps of the job that the present source has marked, for all its streams.
    pub(super) fn mark_steps(&mut self, steps: u64) {
        for stream in self.streams.iter_mut().skip(self.source_start) {
            stream.steps = Some(steps);
        }
    }

    /// Calls that are not counted; the first one's `example` is kept.
    pub(super) fn leave_out(&mut self, reason: Reason, calls: u64, example: impl FnOnce() -> String) {
        let left = self.left_out.entry(reason).or_insert_with(|| LeftOut { calls: 0, example: example() });
        left.calls += calls;
    }

    /// Something that a reader of the workload should know, once.
    pub(super) fn note(&mut self, text: String) {
        if !self.notes.contains(&text) {
            self.notes.push(text);
        }
    }

    /// Streams with calls, the points of their symbols, what was left out, notes.
    pub(super) fn into_parts(self) -> (Vec<Stream>, Vec<Point>, BTreeMap<Reason, LeftOut>, Vec<String>) {
        let streams = self.streams.into_iter().filter(|stream| !stream.counts.is_empty()).collect();
        (streams, self.points, self.left_out, self.notes)
    }
}
