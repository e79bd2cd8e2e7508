//! Knobs that choose libraries, networks and topology files.

use super::{Kind, Knob, Scope};

pub(super) const KNOBS: &[Knob] = &[
    Knob::system("NCCL_GRAPH_FILE", Kind::Path, "file of a precomputed graph: a stale one breaks runs"),
    Knob::system("NCCL_NET", Kind::Text, "network by name: IB, Socket or a plugin's own").scope(Scope::Communicator),
    Knob::system("NCCL_NETDEVS_POLICY", Kind::NetDevices, "NICs per GPU: AUTO, MAX:N or ALL")
        .since(2, 28)
        .tries(&["AUTO", "ALL"]),
    Knob::debugging(
        "NCCL_NET_MERGE_LEVEL",
        Kind::Word(&["LOC", "PORT", "PIX", "PXB", "PHB", "SYS"]),
        "largest distance of NICs that are merged into one",
    )
    .since(2, 24),
    // NCCL src/graph/tuning.cc, getNetOverhead: 1 us for Intel, 2 us for AMD x86; must be equal on all nodes.
    Knob::debugging(
        "NCCL_NET_OVERHEAD",
        Kind::Int { min: 0, max: 1_000_000 },
        "nanoseconds per network post in the cost model",
    ),
    Knob::system("NCCL_NET_PLUGIN", Kind::Text, "network plugin: name, suffix, path or none").since(2, 11),
    Knob::system("NCCL_PROFILER_PLUGIN", Kind::Text, "profiler plugin: name, suffix or path").since(2, 23),
    Knob::system("NCCL_TOPO_FILE", Kind::Path, "XML file with the topology, as cloud images ship it").since(2, 6),
    Knob::system("NCCL_TUNER_CONFIG_FILE", Kind::Path, "rules of the CSV tuner plugin; an absolute path").since(2, 19),
    Knob::system("NCCL_TUNER_PLUGIN", Kind::Text, "tuner plugin: name, suffix, path or none").since(2, 19),
];
