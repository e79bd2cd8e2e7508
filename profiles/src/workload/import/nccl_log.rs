//! NCCL's log: lines of its subsystem COLL, one for every call of every rank, and those of INIT, which tell which ranks make a
//! communicator.
//!
//! The form of a call is that of `ncclEnqueueCheck` in `src/enqueue.cc`, which is the same from NCCL 2.19 to 2.30; RCCL puts
//! `acc` into it, and `task` and `globalrank` behind it. `opCount` is no number of the call: in communicators of one node it stays 0 from 2.27 on
//! (NVIDIA/nccl, pull request 2021).

use std::{collections::HashMap, io::BufRead};

use super::{
    ImportError,
    lines::each_line,
    names::{Operation, nccl_type_bytes, operation},
    pairs::Pairs,
    tally::{Label, Reason, StreamId, Tally},
};
use crate::{
    grammar::nccl_log::{information_of, writer},
    vocab::Collective,
};

/// A call, as its line tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Call<'a> {
    name: &'a str,
    count: u64,
    data_type: u64,
    /// Of a send or a receive: the other rank.
    root: u64,
    communicator: u64,
    ranks: u32,
}

/// The beginning or the end of a communicator.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Life<'a> {
    Begins { communicator: u64, rank: u32, ranks: u32, origin: Origin<'a> },
    Ends { communicator: u64 },
}

/// What tells a communicator from all others.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Origin<'a> {
    /// The hash of its unique id.
    Id(&'a str),
    /// Which split of which one it is: number of the split and colour.
    Split { parent: u64, number: &'a str, color: &'a str },
}

/// A communicator of a process, by its address.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Present {
    /// What NCCL tells it by, and the rank in it.
    origin: (String, u32),
    /// What tells it from all others.
    id: String,
    stream: Option<StreamId>,
    pairs: Pairs,
}

/// The communicators of a process that writes the log, by their addresses.
type Process = HashMap<u64, Present>;

/// Every process that writes the log.
#[derive(Debug, Default)]
struct Processes {
    /// By pid; hosts may have the same one.
    numbers: HashMap<u32, Vec<(String, usize)>>,
    all: Vec<Process>,
}

impl Processes {
    fn of(&mut self, host: &str, pid: u32) -> &mut Process {
        let hosts = self.numbers.entry(pid).or_default();
        let number = hosts.iter().find(|(name, _)| name == host).map_or(self.all.len(), |(_, number)| *number);
        if number == self.all.len() {
            hosts.push((host.to_owned(), number));
            self.all.push(Process::new());
        }
        &mut self.all[number]
    }
}

/// Reads a log.
///
/// # Errors
/// The reader's, and a log without a single call.
pub(super) fn read(tally: &mut Tally, file: &str, reader: impl BufRead) -> Result<(), ImportError> {
    let mut processes = Processes::default();
    let mut seen = false;
    let result = each_line(reader, |number, line| {
        let Some(message) = information_of(line) else { return };
        // A line without its writer is taken for the only one's.
        let (host, pid, gpu) = writer(line).map_or(("", 0, 0), |writer| (writer.host, writer.pid, writer.gpu));
        if message.contains(": opCount ") {
            seen = true;
            let Some(call) = call(message) else {
                return tally.leave_out(Reason::Broken, 1, || format!("{file}:{number}"));
            };
            let owner = || format!("{file}\0{host}\0{pid}\0{gpu}");
            take(tally, processes.of(host, pid), call, (file, number), owner);
        } else if let Some(life) = life(message) {
            live(processes.of(host, pid), life);
        }
    });
    result.map_err(|source| ImportError::Io { file: file.to_owned(), source })?;
    for present in processes.all.iter_mut().flat_map(HashMap::values_mut) {
        present.pairs.end(tally, file);
    }
    if seen {
        return Ok(());
    }
    let cause = "no line of a collective: run the job with NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,COLL \
                 NCCL_DEBUG_FILE=nccl.%h.%p.log for some steps"
        .to_owned();
    Err(ImportError::NotRead { file: file.to_owned(), cause })
}

/// Counts a call.
fn take(tally: &mut Tally, process: &mut Process, call: Call<'_>, at: (&str, usize), owner: impl Fn() -> String) {
    let (file, number) = at;
    let place = |what: String| format!("{what} in {file}:{number}");
    let present = process.entry(call.communicator).or_default();
    let stream = *present.stream.get_or_insert_with(|| {
        let owner = tally.owner(&owner());
        tally.stream(owner, Label { id: present.id.clone(), name: String::new(), ranks: call.ranks })
    });
    let Some(element) = nccl_type_bytes(call.data_type) else {
        return tally.leave_out(Reason::UnknownType, 1, || place(format!("type {} of {}", call.data_type, call.name)));
    };
    let Some(bytes) = call.count.checked_mul(element) else {
        return tally.leave_out(Reason::Broken, 1, || place(call.name.to_owned()));
    };
    match operation(call.name) {
        Some(Operation::Collective(collective)) => {
            present.pairs.end(tally, file);
            tally.call_of_count(stream, collective, bytes);
        }
        Some(Operation::PointToPoint) => {
            let is_send = call.name == "Send";
            if let Some(block) = present.pairs.take(is_send, call.root, bytes, call.ranks, tally, file) {
                tally.call_of_count(stream, Collective::AllToAll, block);
            }
        }
        Some(Operation::Bookkeeping) | None => {
            present.pairs.end(tally, file);
            tally.leave_out(Reason::OtherCollective, 1, || place(call.name.to_owned()));
        }
    }
}

/// An address may be used again once its communicator has ended.
fn live(process: &mut Process, life: Life<'_>) {
    match life {
        Life::Ends { communicator } => drop(process.remove(&communicator)),
        Life::Begins { communicator, rank, ranks, origin } => {
            let told = match origin {
                Origin::Id(id) => format!("{id}/{ranks}"),
                Origin::Split { parent, number, color } => match process.get(&parent) {
                    Some(parent) if !parent.id.is_empty() => format!("{} split {number}.{color}", parent.id),
                    _ => String::new(),
                },
            };
            let origin = (told, rank);
            // It is told twice: when it begins to be made, and when it is complete.
            if process.get(&communicator).is_some_and(|present| present.origin == origin) {
                return;
            }
            // Before 2.24 parts of one communicator with one colour have one name, and come in the same order on all ranks.
            let same =
                process.iter().filter(|(address, other)| **address != communicator && other.origin == origin).count();
            let id = match same {
                _ if origin.0.is_empty() => String::new(),
                0 => origin.0.clone(),
                more => format!("{} #{}", origin.0, more + 1),
            };
            process.insert(communicator, Present { origin, id, ..Present::default() });
        }
    }
}

/// `AllReduce: opCount 0 sendbuff 0x7f.. recvbuff 0x7f.. count 1 datatype 7 op 0 root 0 comm 0x55.. [nranks=16] stream 0x55..`
fn call(message: &str) -> Option<Call<'_>> {
    let (name, rest) = message.split_once(": opCount ")?;
    let mut words = rest.split_ascii_whitespace();
    words.next()?;
    // Pairs of a key and its value, up to the communicator.
    let (mut count, mut data_type, mut root) = (None, None, None);
    let communicator = loop {
        match (words.next()?, words.next()?) {
            ("comm", value) => break address(value)?,
            ("count", value) => count = Some(value.parse().ok()?),
            ("datatype", value) => data_type = Some(value.parse().ok()?),
            ("root", value) => root = Some(value.parse().ok()?),
            ("sendbuff" | "recvbuff" | "acc" | "op", _) => {}
            _ => return None,
        }
    };
    let ranks = words.next()?.strip_prefix("[nranks=")?.strip_suffix(']')?.parse().ok().filter(|ranks| 0 < *ranks)?;
    // Without this word the line may be cut in the middle of a number.
    words.next().filter(|word| *word == "stream")?;
    Some(Call { name, count: count?, data_type: data_type?, root: root?, communicator, ranks })
}

/// `ncclCommInitRank comm 0x55.. rank 0 nranks 16 .. commId 0x1.. - Init COMPLETE`, or `.. parent 0x55.. splitCount 1 color 0
/// key 0 - ..` (2.29: `childCount`; 2.23: without the number), or `.. - Destroy COMPLETE`.
fn life(message: &str) -> Option<Life<'_>> {
    let is_end = message.ends_with("Destroy COMPLETE") || message.ends_with("Abort COMPLETE");
    let is_begin = message.ends_with("Init START") || message.ends_with("Init COMPLETE");
    let (_, rest) = message.split_once("comm ").filter(|_| is_begin || is_end)?;
    let mut words = rest.split_ascii_whitespace();
    let communicator = address(words.next()?)?;
    if is_end {
        return Some(Life::Ends { communicator });
    }
    let words: Vec<&str> = words.collect();
    let value = |key: &str| words.iter().position(|word| *word == key).and_then(|at| words.get(at + 1)).copied();
    let (rank, ranks) = (value("rank")?.parse().ok()?, value("nranks")?.parse().ok()?);
    let origin = match (value("parent"), value("commId")) {
        // 2.22 tells both, and the id of a split is its own.
        (_, Some(id)) => Origin::Id(id),
        (Some(parent), None) => Origin::Split {
            parent: address(parent)?,
            number: value("splitCount").or_else(|| value("childCount")).unwrap_or_default(),
            color: value("color")?,
        },
        (None, None) => return None,
    };
    Some(Life::Begins { communicator, rank, ranks, origin })
}

fn address(word: &str) -> Option<u64> {
    u64::from_str_radix(word.strip_prefix("0x")?, 16).ok()
}
