//! What kind of source a text is, by its beginning.

use std::{
    fmt,
    io::{self, BufRead, Read as _},
    str::FromStr,
};

use crate::{grammar::shell, nearest::hint};

/// How much of a source is looked at. Traces of `PyTorch`'s profiler begin with the properties of up to 16 devices.
const BEGINNING: u64 = 64 << 10;

/// A kind of source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// NCCL's log, with the lines of its subsystem COLL.
    NcclLog,
    /// What NCCL's Inspector plugin dumps: JSON objects, one after the other.
    Inspector,
    /// A trace of `PyTorch`'s profiler (Kineto) in Chrome's format.
    Kineto,
    /// A dump of `PyTorch`'s NCCL flight recorder as JSON.
    FlightRecorder,
}

impl Kind {
    /// Every kind.
    pub const ALL: &[Self] = &[Self::NcclLog, Self::Inspector, Self::Kineto, Self::FlightRecorder];

    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NcclLog => "nccl-log",
            Self::Inspector => "inspector",
            Self::Kineto => "torch-trace",
            Self::FlightRecorder => "flight-recorder",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.iter().copied().find(|kind| kind.name() == text).ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.iter().map(|kind| kind.name()).collect();
            format!("unknown kind `{text}`: use one of {}{}", names.join(", "), hint(text, names.iter().copied()))
        })
    }
}

/// The first bytes of a source, which are no longer in the reader then.
pub(super) fn beginning(reader: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    reader.take(BEGINNING).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// What a source is; the user's word goes before what it looks like, but for what cannot be read as text.
///
/// # Errors
/// Why it is not read, and what to do.
pub(super) fn decide(beginning: &[u8], asked: Option<Kind>, file: &str) -> Result<Kind, String> {
    // A command that the user may copy.
    let word = shell::quote(file);
    match beginning {
        // RFC 1952, section 2.3.1; the frame of Zstandard, RFC 8878, section 3.1.1.
        [0x1f, 0x8b, ..] => {
            return Err(format!("compressed: unpack it first, such as `gunzip -c {word} | gdrtune workload import -`"));
        }
        [0x28, 0xb5, 0x2f, 0xfd, ..] => {
            return Err(format!("compressed: unpack it first, such as `zstd -dc {word} | gdrtune workload import -`"));
        }
        // The opcode PROTO of every pickle from protocol 2 on (Python's pickletools).
        [0x80, 2..=5, ..] => {
            return Err(format!(
                "a pickle, which could run any program when it is read: where you trust it, convert it with \
                 `python3 -c 'import json, pickle, sys; json.dump(pickle.load(open(sys.argv[1], \"rb\")), sys.stdout)' \
                 {word} > {word}.json`, or have the job call torch._C._distributed_c10d._dump_nccl_trace_json()"
            ));
        }
        _ => {}
    }
    if let Some(kind) = asked {
        return Ok(kind);
    }
    let has = |word: &str| beginning.windows(word.len()).any(|part| part == word.as_bytes());
    let first = beginning.iter().find(|byte| !byte.is_ascii_whitespace());
    let is_json = matches!(first, Some(b'{' | b'['));
    if !is_json || has("NCCL INFO ") || has("NCCL version ") {
        return Ok(Kind::NcclLog);
    }
    let of_words: [(Kind, &[&str]); 3] = [
        (Kind::Inspector, &["\"coll_perf\"", "\"p2p_perf\"", "\"inspector_output_format_version\""]),
        (Kind::FlightRecorder, &["\"profiling_name\"", "\"collective_seq_id\"", "\"pg_config\"", "\"pg_status\""]),
        (
            Kind::Kineto,
            &["\"traceEvents\"", "\"deviceProperties\"", "\"schemaVersion\"", "\"record_param_comms\"", "\"ph\""],
        ),
    ];
    let found = of_words.iter().find(|(_, words)| words.iter().any(|word| has(word)));
    found.map(|(kind, _)| *kind).ok_or_else(|| {
        "JSON of no kind that is known here (Inspector dump, profiler trace, flight-recorder dump): --kind says what it is"
            .to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_show_what_they_are() {
        for (beginning, expected) in [
            ("gpu-1:1:2 [0] NCCL INFO x", Ok(Kind::NcclLog)),
            ("[2026-06-01 10:00:00] gpu-1:1:2 [0] NCCL INFO x", Ok(Kind::NcclLog)),
            ("", Ok(Kind::NcclLog)),
            ("{\"header\":{\"id\":\"0x1\"},\"metadata\":{},\"coll_perf\":{}}", Ok(Kind::Inspector)),
            ("{\n  \"schemaVersion\": 1,\n  \"deviceProperties\": [", Ok(Kind::Kineto)),
            ("[{\"ph\": \"X\"}]", Ok(Kind::Kineto)),
            ("{\"entries\":[{\"collective_seq_id\":1", Ok(Kind::FlightRecorder)),
            ("{\"a\": 1}", Err("--kind")),
        ] {
            let found = decide(beginning.as_bytes(), None, "f");
            match expected {
                Ok(kind) => assert_eq!(found, Ok(kind), "{beginning}"),
                Err(text) => assert!(found.unwrap_err().contains(text), "{beginning}"),
            }
            let asked = decide(beginning.as_bytes(), Some(Kind::Kineto), "f");
            assert_eq!(asked, Ok(Kind::Kineto));
        }
        for (beginning, text) in [
            (&b"\x80\x02}q"[..], "pickle.load(open(sys.argv[1], \"rb\")), sys.stdout)' 'f' > 'f'.json"),
            (b"\x1f\x8b\x08", "gunzip -c 'f' | gdrtune workload import -"),
            (b"\x28\xb5\x2f\xfd", "zstd -dc 'f'"),
        ] {
            let refused = decide(beginning, Some(Kind::FlightRecorder), "f").unwrap_err();
            assert!(refused.contains(text), "{refused}");
        }
        for kind in Kind::ALL {
            assert_eq!(kind.name().parse(), Ok(*kind));
        }
        assert!("torch-trce".parse::<Kind>().unwrap_err().ends_with("did you mean `torch-trace`?"));
    }
}
