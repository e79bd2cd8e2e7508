//! Knobs of TCP: which interfaces, how many sockets and threads. The interface list is read by both engines.

use super::{Engines, Kind, Knob};

pub(super) const KNOBS: &[Knob] = &[
    // The product with NCCL_SOCKET_NTHREADS may not exceed 64 (NCCL src/transport/net_socket.cc, MAX_SOCKETS).
    Knob::system(
        "NCCL_NSOCKS_PERTHREAD",
        Kind::Int { min: 1, max: 64 },
        "sockets per helper thread of the socket transport",
    )
    .tries(&["1", "2", "4", "8"]),
    Knob::system("NCCL_OOB_NET_ENABLE", Kind::Flag, "use the network plugin for out-of-band communication")
        .since(2, 23),
    Knob::system(
        "NCCL_OOB_NET_IFNAME",
        Kind::Interfaces,
        "interfaces for out-of-band communication over the network plugin",
    )
    .since(2, 23),
    Knob::system("NCCL_SOCKET_FAMILY", Kind::Word(&["AF_INET", "AF_INET6"]), "IPv4 or IPv6 only"),
    Knob::system(
        "NCCL_SOCKET_IFNAME",
        Kind::Interfaces,
        "interfaces for sockets: [^][=]name[,name]; without = names are prefixes",
    )
    .engines(Engines::Both),
    // NCCL src/transport/net_socket.cc: MAX_THREADS 16.
    Knob::system(
        "NCCL_SOCKET_NTHREADS",
        Kind::Int { min: 1, max: 16 },
        "helper threads per connection of the socket transport",
    )
    .tries(&["1", "2", "4", "8"]),
    Knob::system(
        "NCCL_SOCKET_RETRY_CNT",
        Kind::Int { min: 0, max: 10_000 },
        "how often a refused connection is tried again",
    )
    .since(2, 24),
];
