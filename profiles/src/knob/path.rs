//! Knobs that decide which way data takes inside a node, and whether the NIC reads GPU memory itself.

use super::{Kind, Knob};

/// Path types (NCCL `src/graph/topo.cc`, `topoPathTypeStr`). Digits are legacy and change meaning: not offered.
const P2P_LEVELS: &[&str] = &["LOC", "NVL", "PIX", "PXB", "PHB", "SYS"];
const GDR_LEVELS: &[&str] = &["LOC", "PIX", "PXB", "PHB", "SYS"];

pub(super) const KNOBS: &[Knob] = &[
    Knob::debugging("NCCL_CUMEM_ENABLE", Kind::Flag, "allocate with the cuMem API (automatic since 2.19)").since(2, 18),
    Knob::debugging("NCCL_DMABUF_ENABLE", Kind::Flag, "register GPU memory by dma-buf instead of peer memory")
        .since(2, 13),
    Knob::debugging("NCCL_GDRCOPY_ENABLE", Kind::Flag, "use GDRCopy for flags and flushes").tries(&["1"]),
    Knob::debugging(
        "NCCL_IGNORE_NET_MISMATCH",
        Kind::Flag,
        "accept nodes with different NIC counts (default 1: may hang)",
    )
    .since(2, 30),
    Knob::debugging(
        "NCCL_MNNVL_ENABLE",
        Kind::Word(&["0", "1", "2"]),
        "NVLink between nodes: off, on, where available (default)",
    )
    .since(2, 21)
    .tries(&["0"]),
    Knob::debugging(
        "NCCL_NET_FORCE_FLUSH",
        Kind::Flag,
        "flush after every GPUDirect receive, where NCCL holds it needless",
    ),
    Knob::debugging("NCCL_NET_GDR_C2C", Kind::Flag, "GPUDirect RDMA through a CPU on a chip-to-chip link")
        .since(2, 26)
        .tries(&["0"]),
    Knob::debugging("NCCL_NET_GDR_LEVEL", Kind::Word(GDR_LEVELS), "largest distance of NIC and GPU for GPUDirect RDMA")
        .tries(&["LOC", "PIX", "PXB", "PHB", "SYS"]),
    Knob::debugging("NCCL_NET_GDR_READ", Kind::Flag, "the NIC reads GPU memory when sending").tries(&["0", "1"]),
    Knob::debugging("NCCL_NET_SHARED_BUFFERS", Kind::Flag, "share send and receive buffers between peers (default 1)")
        .since(2, 8),
    Knob::debugging("NCCL_NVB_DISABLE", Kind::Flag, "do not reach GPUs through a neighbour's NVLink").since(2, 11),
    Knob::debugging(
        "NCCL_P2P_DIRECT_DISABLE",
        Kind::Flag,
        "do not read user buffers of GPUs of the same process directly",
    ),
    Knob::debugging("NCCL_P2P_DISABLE", Kind::Flag, "no peer-to-peer transport between GPUs")
        .conflicts(&["NCCL_P2P_LEVEL"]),
    Knob::debugging(
        "NCCL_P2P_LEVEL",
        Kind::Word(P2P_LEVELS),
        "largest distance of two GPUs for peer-to-peer transport",
    )
    .tries(&["NVL", "PXB", "PHB", "SYS"])
    .conflicts(&["NCCL_P2P_DISABLE"]),
    Knob::debugging(
        "NCCL_P2P_PXN_LEVEL",
        Kind::Int { min: 0, max: 2 },
        "send and receive through another GPU's NIC: 0 never, 2 always",
    )
    .since(2, 12)
    .tries(&["0", "1"]),
    Knob::debugging("NCCL_PXN_C2C", Kind::Flag, "reach a NIC through another GPU over a chip-to-chip link")
        .since(2, 27),
    Knob::debugging("NCCL_PXN_DISABLE", Kind::Flag, "do not reach NICs through another GPU").since(2, 12).tries(&["1"]),
    Knob::debugging("NCCL_SHM_DISABLE", Kind::Flag, "no shared memory transport between GPUs of a node"),
];
