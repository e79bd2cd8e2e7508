//! Knobs of the verbs transport: which HCAs, and how they are driven.

use super::{Engines, Kind, Knob};

/// Service level and traffic class fields of an InfiniBand address handle and an IP header.
const SERVICE_LEVEL: Kind = Kind::Int { min: 0, max: 15 };
const TRAFFIC_CLASS: Kind = Kind::Int { min: 0, max: 255 };

pub(super) const KNOBS: &[Knob] = &[
    Knob::system(
        "NCCL_CROSS_NIC",
        Kind::Int { min: 0, max: 2 },
        "rings and trees may change NICs: 0 never, 1 yes, 2 rather not (default)",
    )
    .tries(&["0", "1"]),
    Knob::debugging("NCCL_IB_ADAPTIVE_ROUTING", Kind::Flag, "use adaptive routing where the service level has it")
        .since(2, 16)
        .tries(&["0", "1"]),
    Knob::system("NCCL_IB_ADDR_FAMILY", Kind::Word(&["AF_INET", "AF_INET6"]), "address family of the chosen GID")
        .since(2, 21),
    Knob::system("NCCL_IB_ADDR_RANGE", Kind::Text, "range that the chosen GID must lie in, such as 10.0.0.0/8")
        .since(2, 21),
    Knob::debugging(
        "NCCL_IB_AR_THRESHOLD",
        Kind::Bytes { min: 0, max: 1 << 30 },
        "adaptive routing is used above this size (default 8192)",
    )
    .since(2, 6)
    .tries(&["0", "65536"]),
    Knob::debugging("NCCL_IB_DISABLE", Kind::Flag, "no verbs transport: sockets instead").conflicts(&["NCCL_IB_HCA"]),
    Knob::debugging("NCCL_IB_ECE_ENABLE", Kind::Flag, "enhanced connection establishment (congestion control options)")
        .since(2, 23),
    Knob::system("NCCL_IB_FIFO_TC", TRAFFIC_CLASS, "traffic class of control messages").since(2, 22),
    Knob::system(
        "NCCL_IB_GID_INDEX",
        Kind::Int { min: -1, max: 255 },
        "GID index; leave unset since 2.21, it differs per HCA and node",
    ),
    Knob::system("NCCL_IB_HCA", Kind::Hcas, "HCAs: [^][=]hca[:port][,hca[:port]]; write = or names are prefixes")
        .engines(Engines::Both)
        .conflicts(&["NCCL_IB_DISABLE"]),
    Knob::debugging("NCCL_IB_MERGE_NICS", Kind::Flag, "merge the ports of a dual-port NIC (default 1)")
        .since(2, 20)
        .tries(&["0"]),
    Knob::debugging("NCCL_IB_OOO_RQ", Kind::Flag, "out-of-order consumption of receive requests").since(2, 30),
    Knob::debugging(
        "NCCL_IB_PCI_RELAXED_ORDERING",
        Kind::Word(&["0", "1", "2"]),
        "PCI relaxed ordering: off, on, where available (default)",
    )
    .since(2, 12)
    .tries(&["0", "1"]),
    Knob::debugging(
        "NCCL_IB_QPS_PER_CONNECTION",
        Kind::Int { min: 1, max: 128 },
        "queue pairs per connection; both ends use the larger",
    )
    .tries(&["1", "2", "4", "8"]),
    Knob::system("NCCL_IB_RETRY_CNT", Kind::Int { min: 0, max: 7 }, "verbs retry count (default 7)")
        .engines(Engines::Both),
    Knob::system("NCCL_IB_ROCE_VERSION_NUM", Kind::Word(&["1", "2"]), "RoCE version of the chosen GID (default 2)")
        .since(2, 21),
    Knob::system("NCCL_IB_SL", SERVICE_LEVEL, "InfiniBand service level").engines(Engines::Both),
    Knob::debugging(
        "NCCL_IB_SPLIT_DATA_ON_QPS",
        Kind::Flag,
        "split every message over the queue pairs (default 0 since 2.20)",
    )
    .since(2, 18)
    .tries(&["0", "1"]),
    Knob::system("NCCL_IB_TC", TRAFFIC_CLASS, "InfiniBand or RoCE traffic class").engines(Engines::Both),
    // 0, or 32 and more, mean an infinite timeout: a lost peer would hang the job.
    Knob::system("NCCL_IB_TIMEOUT", Kind::Int { min: 1, max: 31 }, "verbs timeout, 4.096 us x 2^n (default 20)")
        .engines(Engines::Both),
    Knob::debugging("NCCL_IB_USE_INLINE", Kind::Flag, "send control messages inline").tries(&["1"]),
];
