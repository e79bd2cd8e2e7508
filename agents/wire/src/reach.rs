//! Whether nodes reach each other over the interfaces that a run would use, and what their clocks say. Part of the messages,
//! under the same rules.

use std::net::{Ipv4Addr, SocketAddrV4};

use serde::{Deserialize, Serialize};

use crate::message::SessionKey;

/// Most addresses of a [`ListenRequest`], and targets of a [`DialRequest`]: each costs a socket or a thread.
pub const MOST_TARGETS: usize = 64;

/// Asks an agent to take connections for a while, at a free port of each address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListenRequest {
    /// The node's own number.
    pub number: u32,
    /// Nodes that may dial it; their numbers are below.
    pub nodes: u32,
    /// What a dialling node must prove to hold.
    pub key: SessionKey,
    /// Where it listens, at most [`MOST_TARGETS`].
    pub addresses: Vec<Ipv4Addr>,
    /// How long, in milliseconds.
    pub lifetime_ms: u64,
}

/// Asks an agent to connect to others, to all at the same time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DialRequest {
    /// The node's own number.
    pub number: u32,
    /// What both ends must prove to hold.
    pub key: SessionKey,
    /// Whom, at most [`MOST_TARGETS`].
    pub targets: Vec<DialTarget>,
    /// Time for each, in milliseconds.
    pub limit_ms: u64,
}

/// Where another node listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DialTarget {
    /// Its number.
    pub number: u32,
    /// Which of its addresses, by its place in the [`ListenRequest`].
    pub place: u32,
    /// The address, with the port that its agent answered.
    pub address: SocketAddrV4,
}

/// What came of one [`DialTarget`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dialled {
    /// As in the target.
    pub number: u32,
    /// As in the target.
    pub place: u32,
    /// Time from the first packet until both ends had proven themselves, in microseconds; or why they have not.
    pub outcome: Result<u64, DialFault>,
}

/// Why a node does not reach another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum DialFault {
    /// No answer in time: something drops the packets.
    Silent,
    /// Refused at once: something rejects the packets, or another machine has the address.
    Refused,
    /// Somebody else than the node answers at its address.
    Stranger,
    /// There is no way there; the kernel's words.
    NoRoute(String),
    /// Anything else; the kernel's words.
    Other(String),
}
