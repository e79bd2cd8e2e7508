//! Knobs that decide what a call runs: algorithm, protocol, channels, threads, buffers.

use super::{Kind, Knob, Scope};

/// Channel and CTA counts end at 64 (NCCL `src/include/device.h`, `MAXCHANNELS`; 32 up to 2.24).
const CHANNELS: Kind = Kind::Int { min: 1, max: 64 };
const CTA_POLICIES: &[&str] = &["DEFAULT", "EFFICIENCY", "ZERO", "0", "1", "2"];
/// Smallest and largest buffer that is plausible; the default is 4 MiB.
const BUFFER: Kind = Kind::Bytes { min: 1024, max: 1 << 30 };

pub(super) const KNOBS: &[Knob] = &[
    Knob::debugging("NCCL_ALGO", Kind::Algorithms, "algorithms that may be used, per collective since 2.24")
        .scope(Scope::Call),
    Knob::debugging("NCCL_BUFFSIZE", BUFFER, "buffer between a pair of GPUs, in bytes (default 4 MiB)")
        .tries(&["1048576", "2097152", "8388608", "16777216"]),
    Knob::debugging(
        "NCCL_CGA_CLUSTER_SIZE",
        Kind::Int { min: 0, max: 8 },
        "thread block cluster size, compute capability 9.0 and later",
    )
    .since(2, 16)
    .scope(Scope::Communicator),
    Knob::system("NCCL_COLLNET_ENABLE", Kind::Flag, "use the CollNet plugin (SHARP) for reductions")
        .since(2, 6)
        .tries(&["1"])
        .scope(Scope::Communicator),
    Knob::system(
        "NCCL_COLLNET_NODE_THRESHOLD",
        Kind::Int { min: 1, max: 65536 },
        "CollNet is used from this number of nodes on",
    )
    .since(2, 9),
    Knob::system(
        "NCCL_CTA_POLICY",
        Kind::Words(CTA_POLICIES, '|'),
        "default, fewest CTAs at the same speed, or none where possible",
    )
    .since(2, 27)
    .scope(Scope::Communicator),
    // NCCL src/graph/tuning.cc: whether LL128 is automatic between nodes over a C2C link.
    Knob::debugging("NCCL_LL128_C2C", Kind::Flag, "allow automatic LL128 over chip-to-chip links").since(2, 27),
    Knob::debugging("NCCL_MAX_CTAS", CHANNELS, "most CTAs (channels) of a collective")
        .since(2, 17)
        .tries(&["4", "8", "16", "32"])
        .scope(Scope::Communicator)
        .conflicts(&["NCCL_MAX_NCHANNELS"]),
    Knob::debugging(
        "NCCL_MAX_NCHANNELS",
        CHANNELS,
        "older name of NCCL_MAX_CTAS; where both are set the tighter one wins",
    )
    .until(2, 17)
    .conflicts(&["NCCL_MAX_CTAS"]),
    // NCCL src/init.cc: MAX_P2P_NCHANNELS, default MAXCHANNELS.
    Knob::debugging("NCCL_MAX_P2P_NCHANNELS", CHANNELS, "most channels of send and receive (and so of all-to-all)")
        .tries(&["4", "8", "16"]),
    Knob::debugging("NCCL_MIN_CTAS", CHANNELS, "fewest CTAs (channels); raising it slows calls that no rule covers")
        .since(2, 17)
        .tries(&["4", "8", "16", "32"])
        .scope(Scope::Communicator)
        .conflicts(&["NCCL_MIN_NCHANNELS"]),
    Knob::debugging(
        "NCCL_MIN_NCHANNELS",
        CHANNELS,
        "older name of NCCL_MIN_CTAS; where both are set the tighter one wins",
    )
    .until(2, 17)
    .conflicts(&["NCCL_MIN_CTAS"]),
    Knob::debugging("NCCL_MIN_P2P_NCHANNELS", CHANNELS, "fewest channels of send and receive").tries(&["2", "4", "8"]),
    // NCCL src/init.cc: NCHANNELS_PER_NET_PEER, also a field of ncclConfig_t.
    Knob::debugging("NCCL_NCHANNELS_PER_NET_PEER", CHANNELS, "channels per remote peer of send and receive")
        .tries(&["1", "2", "4", "8"])
        .scope(Scope::Communicator),
    Knob::debugging("NCCL_NTHREADS", Kind::Word(&["64", "128", "256", "512"]), "CUDA threads per block")
        .tries(&["256", "512"]),
    Knob::debugging(
        "NCCL_NVLS_CHUNKSIZE",
        Kind::Bytes { min: 1024, max: 1 << 24 },
        "chunk of NVLink SHARP, in bytes (default 128 KiB)",
    )
    .since(2, 21)
    .tries(&["65536", "262144"]),
    Knob::debugging(
        "NCCL_NVLS_ENABLE",
        Kind::Word(&["0", "1", "2"]),
        "NVLink SHARP: off, on, where available (default)",
    )
    .since(2, 17)
    .tries(&["0"]),
    Knob::debugging(
        "NCCL_P2P_LL_THRESHOLD",
        Kind::Bytes { min: 0, max: 1 << 30 },
        "send and receive use LL up to this size",
    )
    .since(2, 14)
    .tries(&["0", "8192", "32768"]),
    Knob::debugging(
        "NCCL_P2P_NET_CHUNKSIZE",
        Kind::Bytes { min: 1024, max: 1 << 26 },
        "message size of send and receive on the network (default 128 KiB)",
    )
    .since(2, 14)
    .tries(&["262144", "524288"]),
    // NCCL src/graph/tuning.cc: PAT_ENABLE, default 2.
    Knob::debugging(
        "NCCL_PAT_ENABLE",
        Kind::Word(&["0", "1", "2"]),
        "PAT: off, on, automatic (default: one GPU per node only)",
    )
    .since(2, 23)
    .tries(&["0"]),
    Knob::debugging("NCCL_PROTO", Kind::Protocols, "protocols that may be used; naming LL128 skips its safety test")
        .scope(Scope::Call),
    Knob::debugging("NCCL_RUNTIME_CONNECT", Kind::Flag, "connect peers at first use (default) instead of at init")
        .since(2, 22),
];
