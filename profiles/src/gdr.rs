//! What NCCL's logs say of GPU Direct RDMA: which ranks and channels use it, and why the others do not.
//!
//! [`Log`] takes lines, of any size of log in bounded memory; [`Report`] says what they amount to. Every reason rests on a line,
//! or says which line is missing. Nothing here touches a file.

mod collect;
mod reason;
pub mod render;
mod report;

use std::{collections::BTreeSet, sync::Arc};

pub use self::collect::Log;
use crate::{grammar::nccl_log::CommunicatorName, version::Version};

/// A line that something rests on.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Evidence {
    /// The file, as the user named it.
    pub file: Arc<str>,
    /// The line, counted from 1.
    pub line: u64,
    /// What NCCL says there, without its prefix.
    pub text: String,
}

/// What logs say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// Versions of NCCL, most often one.
    pub versions: BTreeSet<Version>,
    /// Hosts that wrote.
    pub hosts: BTreeSet<String>,
    /// Lines of NCCL.
    pub lines: u64,
    /// Lines that another write cut off, or that lack their prefix: what they said is lost.
    pub damaged: u64,
    /// Communicators in the order in which they come, each with its ranks.
    pub communicators: Vec<Communicator>,
    /// Why connections over the network do without it; [`Use::reasons`] are indexes into this.
    pub reasons: Vec<Reason>,
    /// What else NCCL warns of that has to do with it.
    pub problems: Vec<Problem>,
    /// What to know about the log itself.
    pub notes: Vec<String>,
}

/// A communicator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Communicator {
    /// Its name; nothing where the log has no line of its start.
    pub name: Option<CommunicatorName>,
    /// How many ranks it has, where the log says so.
    pub size: Option<u32>,
    /// The ranks that are in the log, in order.
    pub ranks: Vec<Rank>,
}

/// A rank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rank {
    /// Its number; nothing for a process whose lines do not tell.
    pub rank: Option<u32>,
    /// Its host.
    pub host: String,
    /// Its CUDA device.
    pub gpu: u32,
    /// Whether NVLink's multicast is there; it takes no part in GPU Direct RDMA.
    pub nvls: Option<bool>,
    /// How it is connected.
    pub uses: Vec<Use>,
}

/// Connections of a rank that go the same way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Use {
    /// Which end the rank is.
    pub end: End,
    /// `NET/IB/0`, or `P2P/CUMEM`.
    pub path: String,
    /// Whether the NIC goes to the GPU's memory itself.
    pub is_gdr: bool,
    /// The rank whose GPU hands the data to the NIC (PXN).
    pub proxy: Option<u32>,
    /// The channels.
    pub channels: BTreeSet<u16>,
    /// Connections; a channel may have several peers.
    pub connections: u64,
    /// The first line of them.
    pub evidence: Evidence,
    /// Why it is not used, as indexes into [`Report::reasons`]: none where it is, and none within a node.
    pub reasons: Vec<usize>,
}

/// An end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum End {
    /// It sends over the network.
    Sends,
    /// It receives over the network.
    Receives,
    /// Within a node, or over NVLink: no NIC takes part.
    Local,
}

/// Why connections over the network do without GPU Direct RDMA.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reason {
    /// A stable name, for programs.
    pub id: &'static str,
    /// What the matter is.
    pub what: String,
    /// What to do about it.
    pub fix: String,
    /// Lines that show it; where none does, nothing.
    pub evidence: Vec<Evidence>,
    /// Ranks with such connections.
    pub ranks: u64,
    /// Such connections.
    pub connections: u64,
}

/// Something that NCCL warns of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// A stable name, for programs.
    pub id: &'static str,
    /// What the matter is.
    pub what: &'static str,
    /// What to do about it.
    pub fix: &'static str,
    /// The first line of it.
    pub evidence: Evidence,
    /// How many processes say so.
    pub processes: u64,
}

impl Communicator {
    /// Its name for people.
    pub fn label(&self) -> String {
        match self.name {
            Some(CommunicatorName::Id(id)) => format!("communicator {id:#x}"),
            Some(CommunicatorName::Part { number, color }) => format!("part {number} of a communicator, color {color}"),
            None => "a communicator whose start is not in the log".to_owned(),
        }
    }
}

impl Report {
    /// Connections over the network: all, and those with GPU Direct RDMA.
    pub fn connections(&self) -> (u64, u64) {
        let uses = self.communicators.iter().flat_map(|one| &one.ranks).flat_map(|rank| &rank.uses);
        uses.filter(|one| one.end != End::Local).fold((0, 0), |(all, direct), one| {
            (all + one.connections, direct + if one.is_gdr { one.connections } else { 0 })
        })
    }

    /// Whether the log has a line of any connection: without one, who uses what is not known.
    pub fn tells_connections(&self) -> bool {
        self.communicators.iter().flat_map(|one| &one.ranks).any(|rank| !rank.uses.is_empty())
    }

    /// Whether there is something to do: connections without it, or warnings about it.
    pub fn has_findings(&self) -> bool {
        !self.reasons.is_empty() || !self.problems.is_empty()
    }
}
