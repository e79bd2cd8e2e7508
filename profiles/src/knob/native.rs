//! Knobs of our own engine on host memory.

use super::{Engines, Kind, Knob};

pub(super) const CHUNKSIZE: &str = "GDRTUNE_NATIVE_CHUNKSIZE";
pub(super) const NSOCKS: &str = "GDRTUNE_NATIVE_NSOCKS";
pub(super) const TRANSPORT: &str = "GDRTUNE_NATIVE_TRANSPORT";

pub(super) const KNOBS: &[Knob] = &[
    Knob::system(CHUNKSIZE, Kind::Bytes { min: 4 << 10, max: 16 << 20 }, "bytes per chunk of the simple protocol")
        .engines(Engines::Native)
        .tries(&["65536", "262144", "1048576", "4194304"]),
    Knob::system(NSOCKS, Kind::Int { min: 1, max: 16 }, "sockets or queue pairs per channel")
        .engines(Engines::Native)
        .tries(&["1", "2", "4"]),
    Knob::system(
        TRANSPORT,
        Kind::Word(&["tcp", "verbs"]),
        "what carries data: tcp or verbs; unset, verbs where all ranks can",
    )
    .engines(Engines::Native)
    .tries(&["tcp", "verbs"]),
];
