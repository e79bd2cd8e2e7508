//! Dumps of NCCL's Inspector plugin: an object for every call of every rank (NCCL `plugins/profiler/inspector`, from 2.28 on;
//! `inspector_json.cc` writes it).
//!
//! `coll_msg_size_bytes` is the count of the call times its type, as for NCCL's functions. `coll_sn` counts the calls of one
//! collective on one communicator, so what is missing in it was not kept.

use std::{collections::HashMap, io::BufRead};

use serde::Deserialize;

use super::{
    ImportError,
    json::{Each, malformed},
    names::{Operation, operation},
    tally::{Label, Reason, StreamId, Tally},
};

#[derive(Deserialize)]
struct Entry {
    /// What is not of a communicator has none.
    header: Option<Header>,
    #[serde(default)]
    metadata: Metadata,
    coll_perf: Option<Collective>,
    p2p_perf: Option<serde::de::IgnoredAny>,
}

#[derive(Deserialize)]
struct Header {
    id: String,
    rank: u32,
    n_ranks: u32,
    /// From 2.30 on.
    #[serde(default)]
    comm_name: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Metadata {
    hostname: String,
    pid: u64,
}

#[derive(Deserialize)]
struct Collective {
    coll: String,
    coll_sn: u64,
    coll_msg_size_bytes: u64,
}

/// First and last number of a collective's calls on a stream, and how many there were.
#[derive(Clone, Copy)]
struct Numbers {
    first: u64,
    last: u64,
    seen: u64,
}

#[derive(Default)]
struct Ranks {
    streams: HashMap<(String, u32), StreamId>,
    numbers: HashMap<(StreamId, String), Numbers>,
}

/// Reads a dump: objects one after the other, or an array of them.
///
/// # Errors
/// The reader's, and what is no such object.
pub(super) fn read(tally: &mut Tally, file: &str, mut reader: impl BufRead) -> Result<(), ImportError> {
    let mut ranks = Ranks::default();
    let is_array = matches!(reader.fill_buf(), Ok(bytes) if bytes.trim_ascii_start().first() == Some(&b'['));
    let mut json = serde_json::Deserializer::from_reader(reader);
    let result = if is_array {
        let mut each = |entry| take(tally, &mut ranks, file, entry);
        serde::de::DeserializeSeed::deserialize(Each::<Entry, _>::new(&mut each), &mut json)
    } else {
        json.into_iter().try_for_each(|entry| entry.map(|entry| take(tally, &mut ranks, file, entry)))
    };
    // A process that is killed leaves half an object.
    match result {
        Err(error) if error.is_eof() => tally.leave_out(Reason::Broken, 1, || format!("the end of {file}")),
        other => other.map_err(|error| malformed(file, error))?,
    }
    for ((_, name), Numbers { first, last, seen }) in ranks.numbers {
        let lost = (last - first + 1).saturating_sub(seen);
        if 0 < lost {
            tally.leave_out(Reason::Lost, lost, || format!("{name} in {file}"));
        }
    }
    Ok(())
}

fn take(tally: &mut Tally, ranks: &mut Ranks, file: &str, entry: Entry) {
    let Entry { header, metadata, coll_perf, p2p_perf } = entry;
    if p2p_perf.is_some() {
        tally.leave_out(Reason::PointToPoint, 1, || format!("in {file}"));
    }
    let (Some(header), Some(call)) = (header, coll_perf) else { return };
    let Collective { coll, coll_sn, coll_msg_size_bytes: bytes } = call;
    let Some(Operation::Collective(collective)) = operation(&coll) else {
        return tally.leave_out(Reason::OtherCollective, 1, || format!("{coll} in {file}"));
    };
    let key = (header.id, header.rank);
    let stream = if let Some(stream) = ranks.streams.get(&key) {
        *stream
    } else {
        let owner = tally.owner(&format!("{}\0{}", metadata.hostname, metadata.pid));
        // What the plugin calls those that have no name.
        let name = if header.comm_name == "unknown" { String::new() } else { header.comm_name };
        let stream = tally.stream(owner, Label { id: key.0.clone(), name, ranks: header.n_ranks });
        ranks.streams.insert(key, stream);
        stream
    };
    let one = Numbers { first: coll_sn, last: coll_sn, seen: 0 };
    let numbers = ranks.numbers.entry((stream, coll)).or_insert(one);
    (numbers.first, numbers.last) = (numbers.first.min(coll_sn), numbers.last.max(coll_sn));
    numbers.seen += 1;
    tally.call_of_count(stream, collective, bytes);
}
