//! One end of a connection, and how long it is patient.

use std::{fmt, net::Ipv6Addr, time::Duration};

use serde::{Deserialize, Serialize};

use super::port::LinkLayer;

/// What a peer needs to connect to a queue pair. It goes over the control channel only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Endpoint {
    /// Number of the queue pair, 24 bits.
    pub qpn: u32,
    /// Number of the first packet, 24 random bits.
    pub psn: u32,
    /// Local identifier of the port; 0 on Ethernet.
    pub lid: u16,
    /// Its GID.
    pub gid: [u8; 16],
    /// Its MTU in bytes; both ends use the lower one.
    pub mtu: u16,
    /// What the port speaks.
    pub link_layer: LinkLayer,
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let gid = Ipv6Addr::from(self.gid);
        match gid.to_ipv4_mapped() {
            Some(address) => write!(f, "{address} (QP {})", self.qpn),
            None if self.link_layer == LinkLayer::InfiniBand => write!(f, "LID {} (QP {})", self.lid, self.qpn),
            None => write!(f, "{gid} (QP {})", self.qpn),
        }
    }
}

impl Endpoint {
    /// Whether the subnet prefixes (first half of the GID) differ, so that a router is between.
    pub(super) fn is_beyond_router(&self, other: &Self) -> bool {
        self.gid[..8] != other.gid[..8]
    }
}

/// How a connection treats its packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PathOptions {
    /// When it gives up.
    pub timeouts: Timeouts,
    /// InfiniBand service level, as `NCCL_IB_SL`.
    pub service_level: u8,
    /// Traffic class of RoCE packets, as `NCCL_IB_TC`.
    pub traffic_class: u8,
}

/// When a connection gives up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// A packet that is not acknowledged is sent again after 4.096 us * 2^this (InfiniBand specification, 11.2.5.2, Local
    /// ACK Timeout; man `ibv_modify_qp`).
    pub ack_exponent: u8,
    /// How often it is sent again, up to 7.
    pub retries: u8,
    /// Code of the time that a sender waits where no receive is posted (the table in man `ibv_modify_qp`).
    pub rnr_timer: u8,
    /// How often it tries then; 7 would be for ever.
    pub rnr_retries: u8,
}

impl Default for Timeouts {
    /// Gives up within a second where the link is cut. 4.096 us * 2^13 * (6 + 1) are 235 ms; an adapter may take up to four
    /// times as long for each try (InfiniBand specification, 9.9.2.1.1), which makes 0.94 s at most. A peer that posts no
    /// receive has 20.48 ms (code 22) times 7.
    fn default() -> Self {
        Self { ack_exponent: 13, retries: 6, rnr_timer: 22, rnr_retries: 6 }
    }
}

impl Timeouts {
    /// The longest time from a cut link to `IBV_WC_RETRY_EXC_ERR`, by the specification's bound.
    pub fn gives_up_within(&self) -> Duration {
        let slowest = 4 * (u64::from(self.retries) + 1);
        Duration::from_nanos(slowest * (4096 << self.ack_exponent.min(31)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_link_is_noticed_within_a_second() {
        // Four times 4.096 us * 2^13 * 7.
        assert_eq!(Timeouts::default().gives_up_within(), Duration::from_nanos(939_524_096));
        let patient = Timeouts { ack_exponent: 14, retries: 7, ..Timeouts::default() };
        assert_eq!(patient.gives_up_within(), Duration::from_nanos(2_147_483_648));
    }

    #[test]
    fn a_peer_is_named_by_its_address() {
        let end = |gid: &str, link_layer| {
            let gid = gid.parse::<Ipv6Addr>().unwrap().octets();
            Endpoint { qpn: 17, psn: 1, lid: 4, gid, mtu: 1024, link_layer }
        };
        assert_eq!(end("::ffff:10.99.1.2", LinkLayer::Ethernet).to_string(), "10.99.1.2 (QP 17)");
        assert_eq!(end("fe80::1", LinkLayer::Ethernet).to_string(), "fe80::1 (QP 17)");
        let ib = end("fe80::1", LinkLayer::InfiniBand);
        assert_eq!(ib.to_string(), "LID 4 (QP 17)");
        assert!(!ib.is_beyond_router(&end("fe80::2", LinkLayer::InfiniBand)));
        assert!(ib.is_beyond_router(&end("fec0::2", LinkLayer::InfiniBand)));
    }
}
