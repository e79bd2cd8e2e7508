//! The worker's view of whatever runs collectives.
//!
//! An engine lives in one worker process and stands for one rank. It is synchronous and may use threads. It never talks
//! to the agent: the worker does. What it cannot do at all it says as [`ItemOutcome::Unsupported`]; an [`EngineError`]
//! ends the worker.

pub mod native;
pub mod nccl;

use std::time::Instant;

use gdrtune_profiles::vocab::{Choice, Point};
use gdrtune_wire::{EngineReport, Item, ItemOutcome};

pub(crate) use self::nccl::{WHEEL_PATH, package_folders};

/// One rank's collectives.
pub trait Engine {
    /// Opens what peers connect to, and describes it in bytes that only the same engine reads.
    ///
    /// # Errors
    /// [`EngineError`] where the rank has nothing to be reached at.
    fn bootstrap(&mut self) -> Result<Vec<u8>, EngineError>;

    /// Takes every rank's [`Engine::bootstrap`] bytes, in rank order, and makes the communicator.
    ///
    /// # Errors
    /// [`EngineError`] where a peer's description cannot be used or a peer cannot be reached by `deadline`.
    fn connect(&mut self, peers: &[Vec<u8>], deadline: Instant) -> Result<(), EngineError>;

    /// Version of the library that a bootstrapped rank has loaded; nothing where the engine is all our own.
    fn library_version(&self) -> Option<String> {
        None
    }

    /// What a connected rank runs with, as far as the engine can tell.
    fn report(&self) -> EngineReport {
        EngineReport::default()
    }

    /// Makes everything that the items of a script need, so that no timed call pays for it. Every rank calls it with
    /// the same items.
    ///
    /// # Errors
    /// [`EngineError`] where a peer cannot be reached by `deadline`.
    fn prepare(&mut self, items: &[Item], deadline: Instant) -> Result<(), EngineError>;

    /// Runs one prepared item. Every rank calls it with the same item.
    ///
    /// # Errors
    /// [`EngineError`] where the communicator is broken or the item's lease ran out; the engine is of no use then.
    fn measure(&mut self, item: &Item) -> Result<ItemOutcome, EngineError>;
}

/// Choices by point and job shape: the rules of emitted files.
///
/// Every rank must hold the same rules, as each decides by itself.
pub trait RuleSource: Send {
    /// The choice of the first rule that matches, if any.
    fn lookup(&self, point: Point, nodes: u32, ranks: u32) -> Option<Choice>;
}

/// Why an engine cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// A process-level setting that the engine cannot follow.
    #[error("{name}={value} cannot be used: {why}")]
    Setting {
        /// The variable.
        name: &'static str,
        /// Its value.
        value: String,
        /// What is wrong, and what would be right.
        why: String,
    },
    /// The system refused something that the engine needs.
    #[error("cannot {what}: {source}")]
    System {
        /// What was tried, as a fragment that fits "cannot".
        what: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// Another rank's bootstrap bytes do not fit this rank's.
    #[error("rank {rank} does not fit this rank: {why}")]
    Peer {
        /// The other rank.
        rank: u32,
        /// What differs, and what to do.
        why: String,
    },
    /// No connection to another rank came about.
    #[error("no connection to rank {rank} at {address} over {interface}: {why}")]
    Unreachable {
        /// The other rank.
        rank: u32,
        /// Where it said that it listens.
        address: std::net::SocketAddr,
        /// The local interface of the same position.
        interface: String,
        /// What happened.
        why: String,
    },
    /// A connection that worked is gone.
    #[error("lost rank {rank}: {why}")]
    PeerLost {
        /// The other rank.
        rank: u32,
        /// What the connection said.
        why: String,
    },
    /// A deadline passed.
    #[error("ran out of time waiting for {awaited}")]
    Deadline {
        /// What did not come, and from whom.
        awaited: String,
    },
    /// Ranks want to run different things: their rules or settings differ.
    #[error("rank {rank} runs something else than this rank ({here}): rules and settings must be equal on all ranks")]
    Disagreement {
        /// The other rank.
        rank: u32,
        /// What this rank was about to run.
        here: String,
    },
    /// A library that the engine runs on is missing, or said no.
    #[error("cannot {what}: {why}")]
    Library {
        /// What was tried, as a fragment that fits "cannot".
        what: String,
        /// What the library said, or where it was looked for.
        why: String,
    },
    /// A method was called out of order.
    #[error("engine used out of order: {0}")]
    Order(&'static str),
}
