//! A port of an adapter: what `ibv_query_port` says, in numbers that people use.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Attributes of a port.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Port {
    /// Its state.
    pub state: PortState,
    /// What it speaks.
    pub link_layer: LinkLayer,
    /// MTU in use, in bytes.
    pub active_mtu: u16,
    /// Largest MTU, in bytes.
    pub max_mtu: u16,
    /// Local identifier; 0 on Ethernet.
    pub lid: u16,
    /// Data rate in Gbit/s as the standard names it (lanes times lane rate); `None` where the numbers are not known.
    pub rate_gbps: Option<f64>,
}

/// State of a port: a number of `enum ibv_port_state` (`infiniband/verbs.h`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PortState(pub u32);

impl PortState {
    /// Data can flow.
    pub const ACTIVE: Self = Self(4);
}

impl fmt::Display for PortState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = ["NOP", "DOWN", "INIT", "ARMED", "ACTIVE", "ACTIVE_DEFER"];
        match names.get(self.0 as usize) {
            Some(name) => f.write_str(name),
            None => write!(f, "state {}", self.0),
        }
    }
}

/// What a port speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum LinkLayer {
    /// InfiniBand.
    InfiniBand,
    /// Ethernet: RoCE.
    Ethernet,
}

impl fmt::Display for LinkLayer {
    /// In the kernel's words (`link_layer` in sysfs).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::InfiniBand => "InfiniBand",
            Self::Ethernet => "Ethernet",
        })
    }
}

impl LinkLayer {
    /// From the number in `struct ibv_port_attr`. Unspecified is InfiniBand (man `ibv_query_port`).
    pub(super) fn from_number(number: u8) -> Self {
        if u32::from(number) == ibverbs_sys::IBV_LINK_LAYER_ETHERNET { Self::Ethernet } else { Self::InfiniBand }
    }
}

/// Bytes of a number of `enum ibv_mtu`: 1 is 256, 5 is 4096.
pub(super) fn mtu_bytes(number: u32) -> u16 {
    128 << number.clamp(1, 5)
}

/// The number of `enum ibv_mtu` for the largest MTU of no more than `bytes`.
pub(super) fn mtu_number(bytes: u16) -> u32 {
    (1..=5).rev().find(|number| mtu_bytes(*number) <= bytes).unwrap_or(1)
}

/// Gbit/s of a width and a speed (`ibv_devinfo.c` of rdma-core, `width_str` and `speed_str`).
pub(super) fn rate_gbps(width: u8, speed: u8) -> Option<f64> {
    let lanes = match width {
        1 => 1.0,
        2 => 4.0,
        4 => 8.0,
        8 => 12.0,
        16 => 2.0,
        _ => return None,
    };
    let lane = match speed {
        1 => 2.5,
        2 => 5.0,
        4 | 8 => 10.0,
        16 => 14.0,
        32 => 25.0,
        64 => 50.0,
        128 => 100.0,
        _ => return None,
    };
    Some(lanes * lane)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_the_header_become_bytes_and_rates() {
        for (number, bytes) in [(1, 256), (3, 1024), (5, 4096), (0, 256), (9, 4096)] {
            assert_eq!(mtu_bytes(number), bytes);
        }
        for (bytes, number) in [(256, 1), (1500, 3), (4095, 4), (4096, 5), (9000, 5), (100, 1)] {
            assert_eq!(mtu_number(bytes), number);
        }
        for (width, speed, rate) in
            [(2, 128, Some(400.0)), (2, 32, Some(100.0)), (1, 1, Some(2.5)), (3, 1, None), (2, 0, None)]
        {
            assert_eq!(rate_gbps(width, speed), rate);
        }
        assert_eq!(PortState::ACTIVE.to_string(), "ACTIVE");
        assert_eq!(PortState(7).to_string(), "state 7");
    }
}
