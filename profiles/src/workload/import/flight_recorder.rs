//! Dumps of `PyTorch`'s NCCL flight recorder: the JSON of `_dump_nccl_trace_json()`, or a pickle that was converted to JSON
//! (`torch/csrc/distributed/c10d/FlightRecorder.cpp`, versions 2.1 to 2.10).
//!
//! A dump is one rank's, and a ring of its last entries, so it is held whole.

use std::{
    collections::{BTreeMap, HashMap},
    io::BufRead,
};

use serde::Deserialize;
use serde_json::Value;

use super::{
    ImportError,
    json::{malformed, rank_count, word},
    names::{Operation, operation, torch_type_bytes},
    tally::{Label, Reason, StreamId, Tally},
};
use crate::vocab::Collective;

#[derive(Deserialize)]
struct Dump {
    #[serde(default)]
    entries: Vec<Entry>,
    #[serde(default)]
    pg_config: BTreeMap<String, Group>,
}

#[derive(Deserialize)]
struct Group {
    #[serde(default)]
    desc: Value,
    #[serde(default)]
    ranks: Value,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Entry {
    profiling_name: String,
    /// Name and description.
    process_group: Value,
    input_sizes: Vec<Vec<u64>>,
    input_dtypes: Vec<String>,
    output_sizes: Vec<Vec<u64>>,
    output_dtypes: Vec<String>,
    is_p2p: bool,
}

/// Reads a dump.
///
/// # Errors
/// The reader's, and what is no such dump.
pub(super) fn read(tally: &mut Tally, file: &str, reader: impl BufRead) -> Result<(), ImportError> {
    let Dump { entries, pg_config } = serde_json::from_reader(reader).map_err(|error| malformed(file, error))?;
    if entries.is_empty() {
        let cause = "no entries: start the job with TORCH_FR_BUFFER_SIZE=20000 (before PyTorch 2.7: \
                     TORCH_NCCL_TRACE_BUFFER_SIZE), and dump with includeCollectives"
            .to_owned();
        return Err(ImportError::NotRead { file: file.to_owned(), cause });
    }
    let owner = tally.owner(file);
    let mut streams: HashMap<String, Option<StreamId>> = HashMap::new();
    for entry in &entries {
        let name = group_name(&entry.process_group);
        let stream = *streams.entry(name.clone()).or_insert_with(|| {
            let group = pg_config.get(&name)?;
            let ranks = rank_count(&group.ranks).filter(|ranks| 0 < *ranks)?;
            let id = format!("{name} {}", word(&group.ranks));
            let about = word(&group.desc);
            let label = if matches!(about.as_str(), "" | "undefined") { name.clone() } else { about };
            Some(tally.stream(owner, Label { id, name: label, ranks }))
        });
        match called(entry) {
            Ok(Some((collective, bytes))) => {
                if let Some(stream) = stream {
                    tally.call(stream, collective, bytes);
                } else {
                    let group = || format!("process group {name} without ranks in pg_config of {file}");
                    tally.leave_out(Reason::NoSize, 1, group);
                }
            }
            Ok(None) => {}
            Err((reason, what)) => tally.leave_out(reason, 1, || format!("{what} in {file}")),
        }
    }
    Ok(())
}

/// `0` of `["0", "default_pg"]`, or a name alone.
fn group_name(value: &Value) -> String {
    match value {
        Value::Array(parts) => parts.first().map(word).unwrap_or_default(),
        other => word(other),
    }
}

/// The collective and its bytes; nothing for what is no call.
fn called(entry: &Entry) -> Result<Option<(Collective, u64)>, (Reason, String)> {
    let name = entry.profiling_name.clone();
    let collective = match operation(&name) {
        _ if entry.is_p2p => return Err((Reason::PointToPoint, name)),
        Some(Operation::Collective(collective)) => collective,
        Some(Operation::Bookkeeping) => return Ok(None),
        Some(Operation::PointToPoint) => return Err((Reason::PointToPoint, name)),
        None => return Err((Reason::OtherCollective, name)),
    };
    // The gathered buffer is the output; that of all others is the input.
    let (sizes, types) = match collective {
        Collective::AllGather => (&entry.output_sizes, &entry.output_dtypes),
        _ => (&entry.input_sizes, &entry.input_dtypes),
    };
    let Some(data_type) = types.first().filter(|_| !sizes.is_empty()) else {
        return Err((Reason::NoSize, name));
    };
    let Some(element) = torch_type_bytes(data_type) else {
        return Err((Reason::UnknownType, format!("{data_type} of {name}")));
    };
    let elements = |shape: &Vec<u64>| shape.iter().try_fold(1_u64, |all, dimension| all.checked_mul(*dimension));
    let total = sizes.iter().try_fold(0_u64, |sum, shape| sum.checked_add(elements(shape)?));
    match total.and_then(|total| total.checked_mul(element)) {
        Some(0) => Err((Reason::Empty, name)),
        Some(bytes) => Ok(Some((collective, bytes))),
        None => Err((Reason::Broken, name)),
    }
}
