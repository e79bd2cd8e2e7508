//! Takes lines, and keeps what they say, by process and rank. Memory is bounded by the ranks and their NICs, not by the log.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, btree_map::Entry},
    sync::Arc,
};

use super::{End, Evidence, Report, reason::Facts, report};
use crate::{
    diagnostic::printable,
    grammar::{
        nccl_log::{self, CommunicatorName, Connection, Fact, Joined, Side, Way, Writer},
        without_escapes,
    },
};

/// Characters of a line that are kept as evidence. NCCL cuts its own lines at 1024 bytes.
const EVIDENCE_CHARACTERS: usize = 200;

/// Most processes, and most ways of a rank: far more than any job has. What is beyond is counted as damaged.
const MOST_PROCESSES: usize = 1 << 17;
const MOST_RANKS: usize = 1 << 19;
const MOST_WAYS: usize = 512;

/// A process: what one pid of one host writes to one file. A file may have several jobs', but those are other pids.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) host: String,
    pub(super) facts: Facts,
    /// Indexes of its ranks, in the order in which they came.
    ranks: Vec<usize>,
    /// The rank for which each thread made a communicator last.
    threads: HashMap<u32, usize>,
    /// Whether its ranks are those of another file's process: it is the same.
    pub(super) is_repeated: bool,
}

/// A rank of a communicator.
#[derive(Debug)]
pub(super) struct RankLines {
    pub(super) process: usize,
    pub(super) communicator: Option<CommunicatorName>,
    pub(super) rank: Option<u32>,
    pub(super) size: Option<u32>,
    pub(super) gpu: u32,
    pub(super) bus_id: Option<u64>,
    /// Whether it has said that it begins, and that it is complete: each once.
    has_begun: bool,
    is_complete: bool,
    pub(super) links: BTreeMap<LinkKey, Links>,
}

impl RankLines {
    /// Takes in what the same rank's lines say in another place. What both tell of are the same connections.
    fn join(&mut self, again: Self) {
        for (key, links) in again.links {
            match self.links.entry(key) {
                Entry::Vacant(vacant) => drop(vacant.insert(links)),
                Entry::Occupied(mut known) => {
                    let known = known.get_mut();
                    known.connections = known.connections.max(links.connections);
                    known.channels.extend(links.channels);
                }
            }
        }
    }
}

/// What makes connections alike.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LinkKey {
    pub(super) end: End,
    pub(super) path: String,
    pub(super) network: String,
    pub(super) device: u32,
    pub(super) proxy: Option<u32>,
    pub(super) is_gdr: bool,
}

/// Connections that are alike.
#[derive(Debug)]
pub(super) struct Links {
    pub(super) channels: BTreeSet<u16>,
    pub(super) connections: u64,
    pub(super) evidence: Evidence,
}

/// Logs that are being read.
#[derive(Debug)]
pub struct Log {
    file: Arc<str>,
    /// Running number of the file: the same pid in another file is another process.
    number: usize,
    line: u64,
    pub(super) lines: u64,
    pub(super) damaged: u64,
    pub(super) processes: Vec<Process>,
    by_name: HashMap<(usize, String, u32), usize>,
    pub(super) ranks: Vec<RankLines>,
    /// How often a rank's lines were there again.
    pub(super) repeated_ranks: u64,
    /// Lines of all, which no process wrote in its own name.
    pub(super) common: Facts,
}

impl Default for Log {
    fn default() -> Self {
        Self::new()
    }
}

impl Log {
    /// Nothing is read yet.
    pub fn new() -> Self {
        Self {
            file: Arc::from(""),
            number: 0,
            line: 0,
            lines: 0,
            damaged: 0,
            processes: Vec::new(),
            by_name: HashMap::new(),
            ranks: Vec::new(),
            repeated_ranks: 0,
            common: Facts::default(),
        }
    }

    /// What comes is of this file, from its first line on.
    pub fn begin(&mut self, file: &str) {
        (self.file, self.line, self.number) = (Arc::from(file), 0, self.number + 1);
    }

    /// Takes the next line, without its end.
    pub fn take(&mut self, line: &[u8]) {
        self.line += 1;
        if line.contains(&b'\x1b') {
            self.take_plain(without_escapes(&String::from_utf8_lossy(line)).as_bytes());
        } else {
            self.take_plain(line);
        }
    }

    /// What was read.
    pub fn finish(mut self) -> Report {
        self.join_repeated();
        report::of(&self)
    }

    /// A rank whose lines are there again, in a copy of the file or further down, is one rank.
    fn join_repeated(&mut self) {
        let mut places: HashMap<(u64, u32), usize> = HashMap::new();
        let mut joined: Vec<RankLines> = Vec::with_capacity(self.ranks.len());
        for again in std::mem::take(&mut self.ranks) {
            // Names of parts are those of other communicators' parts, too.
            if let (Some(CommunicatorName::Id(id)), Some(rank)) = (again.communicator, again.rank) {
                let at = *places.entry((id, rank)).or_insert(joined.len());
                if let Some(first) = joined.get_mut(at) {
                    self.repeated_ranks += 1;
                    if let Some(process) =
                        self.processes.get_mut(again.process).filter(|_| again.process != first.process)
                    {
                        process.is_repeated = true;
                    }
                    first.join(again);
                    continue;
                }
            }
            joined.push(again);
        }
        self.ranks = joined;
    }

    fn take_plain(&mut self, line: &[u8]) {
        let messages = nccl_log::messages(line) as u64;
        let fact = nccl_log::fact(line);
        if messages == 0 {
            if let Some(fact @ Fact::Version(_)) = fact {
                self.lines += 1;
                let evidence = self.evidence(line);
                self.common.take(&fact, &evidence);
            }
            return;
        }
        self.lines += 1;
        self.damaged += messages - 1;
        let Some(writer) = nccl_log::writer(line) else {
            self.damaged += 1;
            return;
        };
        let Some(at) = self.process(writer) else {
            self.damaged += 1;
            return;
        };
        match fact {
            // There is a line of these for every call, perhaps.
            None | Some(Fact::Run(_) | Fact::Channels(_) | Fact::Tuner(_)) => {}
            Some(Fact::Joined(joined)) => self.join(at, writer, &joined),
            Some(Fact::Connection(connection)) => self.connect(at, writer, &connection, line),
            Some(fact) => {
                let evidence = self.evidence(line);
                if let Some(process) = self.processes.get_mut(at) {
                    process.facts.take(&fact, &evidence);
                }
            }
        }
    }

    /// The line's message as evidence.
    fn evidence(&self, line: &[u8]) -> Evidence {
        let text = String::from_utf8_lossy(line);
        let message = text.rsplit_once(" NCCL INFO ").or_else(|| text.rsplit_once(" NCCL WARN "));
        let message = message.map_or(&*text, |(_, message)| message).trim();
        let text = printable(&message.chars().take(EVIDENCE_CHARACTERS).collect::<String>());
        Evidence { file: Arc::clone(&self.file), line: self.line, text }
    }

    fn process(&mut self, writer: Writer<'_>) -> Option<usize> {
        let name = (self.number, writer.host.to_owned(), writer.pid);
        if let Some(&at) = self.by_name.get(&name) {
            return Some(at);
        }
        if MOST_PROCESSES <= self.processes.len() {
            return None;
        }
        let at = self.processes.len();
        self.processes.push(Process {
            host: writer.host.to_owned(),
            facts: Facts::default(),
            ranks: Vec::new(),
            threads: HashMap::new(),
            is_repeated: false,
        });
        self.by_name.insert(name, at);
        Some(at)
    }

    fn join(&mut self, process: usize, writer: Writer<'_>, joined: &Joined) {
        let Joined { name, rank, ranks, gpu, bus_id, is_start } = *joined;
        let is_part = matches!(name, CommunicatorName::Part { .. });
        let is_it = |other: &RankLines| {
            let has_said_so = if is_start { other.has_begun || other.is_complete } else { other.is_complete };
            (other.communicator, other.rank) == (Some(name), Some(rank)) && (is_part || !has_said_so)
        };
        let known = self.rank_of(process, is_it);
        let new = || RankLines {
            process,
            communicator: Some(name),
            rank: Some(rank),
            size: Some(ranks),
            gpu,
            bus_id: Some(bus_id),
            has_begun: false,
            is_complete: false,
            links: BTreeMap::new(),
        };
        let Some(at) = known.or_else(|| self.add(process, new())) else { return };
        if let Some(rank) = self.ranks.get_mut(at) {
            rank.has_begun |= is_start;
            rank.is_complete |= !is_start;
        }
        if let Some(process) = self.processes.get_mut(process) {
            process.threads.insert(writer.thread, at);
        }
    }

    /// A rank of the process, the last one first.
    fn rank_of(&self, process: usize, is_it: impl Fn(&RankLines) -> bool) -> Option<usize> {
        let ranks = &self.processes.get(process)?.ranks;
        ranks.iter().rev().copied().find(|&at| self.ranks.get(at).is_some_and(&is_it))
    }

    fn add(&mut self, process: usize, rank: RankLines) -> Option<usize> {
        if MOST_RANKS <= self.ranks.len() {
            self.damaged += 1;
            return None;
        }
        let at = self.ranks.len();
        self.ranks.push(rank);
        self.processes.get_mut(process)?.ranks.push(at);
        Some(at)
    }

    fn connect(&mut self, process: usize, writer: Writer<'_>, connection: &Connection<'_>, line: &[u8]) {
        let Some(at) = self.connected_rank(process, writer, connection) else { return };
        let key = match connection.way {
            Way::Local(path) => LinkKey {
                end: End::Local,
                path: path.to_owned(),
                network: String::new(),
                device: 0,
                proxy: None,
                is_gdr: false,
            },
            Way::Network(side, way) => LinkKey {
                end: if side == Side::Send { End::Sends } else { End::Receives },
                path: way.path.to_owned(),
                network: way.network.to_owned(),
                device: way.device,
                proxy: way.proxy,
                is_gdr: way.is_gdr,
            },
        };
        let is_known = self.ranks.get(at).is_some_and(|rank| rank.links.contains_key(&key));
        let evidence = (!is_known).then(|| self.evidence(line));
        let Some(rank) = self.ranks.get_mut(at) else { return };
        if let Some(evidence) = evidence {
            if MOST_WAYS <= rank.links.len() {
                self.damaged += 1;
                return;
            }
            rank.links.insert(key.clone(), Links { channels: BTreeSet::new(), connections: 0, evidence });
        }
        if let Some(links) = rank.links.get_mut(&key) {
            links.connections += 1;
            links.channels.extend(connection.channel);
        }
    }

    /// Which rank a connection is of: that of the communicator that the thread makes, if it has this number; else the last one
    /// with it, since later connections are made by other threads; else one of a communicator whose start is not in the log.
    fn connected_rank(&mut self, process: usize, writer: Writer<'_>, connection: &Connection<'_>) -> Option<usize> {
        let Connection { rank, peer, .. } = *connection;
        let has_number = |lines: &RankLines| {
            (rank.is_none() || lines.rank == rank) && lines.size.is_none_or(|size| peer.is_none_or(|peer| peer < size))
        };
        let of_thread = self.processes.get(process)?.threads.get(&writer.thread).copied();
        let of_thread = of_thread.filter(|&at| self.ranks.get(at).is_some_and(has_number));
        of_thread.or_else(|| self.rank_of(process, has_number)).or_else(|| {
            let lines = RankLines {
                process,
                communicator: None,
                rank,
                size: None,
                gpu: writer.gpu,
                bus_id: None,
                has_begun: false,
                is_complete: false,
                links: BTreeMap::new(),
            };
            self.add(process, lines)
        })
    }
}
