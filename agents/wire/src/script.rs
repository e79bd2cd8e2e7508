//! Measurements, as they go to the ranks and as their results come back. The rules of [`crate`]'s messages hold here too.

use gdrtune_profiles::vocab::{Algorithm, Choice, DataType, Point, Protocol, ReduceOp};
use serde::{Deserialize, Serialize};

/// An ordered list of measurements that all ranks run without a word in between.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Script {
    /// Chosen by the sender; comes back with every result.
    pub id: u64,
    /// The measurements.
    pub items: Vec<Item>,
}

/// Most calls in one CUDA graph. A library keeps a plan, and perhaps memory, for every captured call until its graph is
/// gone; a few hundred are as many as a sample of the search has.
pub const MOST_GRAPH_CALLS: u32 = 500;

/// One measurement: a point and choice, timed over back-to-back iterations.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Item {
    /// Collective and size.
    pub point: Point,
    /// What to run; `None` leaves it to the engine's own choice, or to the rules of its emitted files.
    pub choice: Option<Choice>,
    /// Element type.
    pub data_type: DataType,
    /// Reduction operator.
    pub op: ReduceOp,
    /// Root rank of broadcast and reduce.
    pub root: u32,
    /// Whether the result replaces the input.
    pub in_place: bool,
    /// Whether the calls are captured into a CUDA graph, as a job's are that captures its steps. The checked call goes
    /// through a graph of its own; warm-up calls go without. The timed calls are one graph, launched once untimed and
    /// once timed, so they are without the cost of starting each. At most [`MOST_GRAPH_CALLS`] of them are timed.
    pub graph: bool,
    /// Checks every element of one extra, untimed call before the timed ones.
    pub check: bool,
    /// Untimed calls before the timed ones.
    pub warmup: u32,
    /// Timed calls.
    pub iterations: u32,
    /// Time that the whole item may take, in milliseconds. The agent kills the group afterwards.
    pub lease_ms: u64,
}

/// What the library predicts for one algorithm and protocol.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Prediction {
    /// The algorithm.
    pub algorithm: Algorithm,
    /// The protocol.
    pub protocol: Protocol,
    /// Time in microseconds.
    pub time_us: f32,
}

/// What came of one item on one rank.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum ItemOutcome {
    /// It ran, and its result (if checked) was right.
    Timed(Times),
    /// The result was wrong; nothing was timed.
    Wrong {
        /// Elements that differ on this rank.
        elements: u64,
        /// The first difference, for people.
        first: String,
    },
    /// The engine cannot run this item; all ranks say so alike.
    Unsupported(String),
}

/// Times of one item on one rank. Per operation, in microseconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Times {
    /// Wall time of the batch over its iterations.
    pub mean_us: f64,
    /// Median lap: an equal part of the batch (one iteration, or more where a time stamp after each would cost too much;
    /// all of a graph), per iteration.
    pub median_us: f64,
    /// Fastest lap, as [`Self::median_us`].
    pub min_us: f64,
    /// Slowest lap, as [`Self::median_us`].
    pub max_us: f64,
    /// CPU time of the worker's process over the iterations.
    pub cpu_us: f64,
    /// What really ran, where the engine can tell.
    pub selected: Option<Choice>,
    /// Whether the result of this item was checked.
    pub checked: bool,
    /// The library's own predictions for the combinations that it allows at this point; only where the result was
    /// checked and the library told.
    pub predictions: Vec<Prediction>,
}
