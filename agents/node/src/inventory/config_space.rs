//! What a PCI function's configuration space tells. Who is not root sees its first 64 bytes, which hold none of it (Linux
//! `drivers/pci/pci-sysfs.c`, `pci_read_config`). Offsets are those of the PCI Express Base Specification, names Linux's
//! (`include/uapi/linux/pci_regs.h`).

use gdrtune_wire::{BridgeKind, PcieControl};

/// Bytes of the configuration space of PCI Express.
pub(super) const BYTES: u64 = 4096;

/// Bytes that everybody sees.
const PUBLIC_BYTES: usize = 64;

/// Longest list of capabilities that is followed: no more fit.
const MOST_CAPABILITIES: usize = 48;

/// Longest list of extended capabilities that is followed.
const MOST_EXTENDED: usize = 480;

/// PCI Express (`PCI_CAP_ID_EXP`).
const EXPRESS: u8 = 0x10;

/// Access control services (`PCI_EXT_CAP_ID_ACS`).
const ACS: u16 = 0x0d;

/// Redirect of peers' requests and completions, and forwarding upstream (`PCI_ACS_RR`, `PCI_ACS_CR`, `PCI_ACS_UF`).
const ACS_REDIRECTS: u16 = 0x04 | 0x08 | 0x10;

/// A configuration space, as far as it was readable.
#[derive(Debug, Clone, Copy)]
pub(super) struct ConfigSpace<'b> {
    bytes: &'b [u8],
    /// Offset of the capability of PCI Express.
    express: Option<usize>,
}

impl<'b> ConfigSpace<'b> {
    pub(super) fn new(bytes: &'b [u8]) -> Self {
        let mut space = Self { bytes, express: None };
        space.express = space.find_capability(EXPRESS);
        space
    }

    /// Whether more than everybody sees is there.
    pub(super) fn is_whole(self) -> bool {
        self.bytes.len() > PUBLIC_BYTES
    }

    /// Settings of a device.
    pub(super) fn control(self) -> PcieControl {
        // `PCI_EXP_DEVCTL`: bit 4 relaxed ordering; bits 5 to 7 and 12 to 14 sizes as powers of two from 128 bytes on.
        let Some(control) = self.express(0x08) else { return PcieControl::default() };
        let size = |bits: u16| Some(128 << (bits & 7));
        PcieControl {
            relaxed_ordering: Some(control & 0x10 != 0),
            payload_bytes: size(control >> 5),
            read_request_bytes: size(control >> 12),
        }
    }

    /// What a bridge is.
    pub(super) fn bridge_kind(self) -> Option<BridgeKind> {
        // `PCI_EXP_FLAGS_TYPE`.
        Some(match self.express(0x02)? >> 4 & 0xf {
            4 => BridgeKind::RootPort,
            5 => BridgeKind::Upstream,
            6 => BridgeKind::Downstream,
            _ => BridgeKind::Other,
        })
    }

    /// Whether it routes atomic operations (`PCI_EXP_DEVCAP2_ATOMIC_ROUTE`).
    pub(super) fn routes_atomics(self) -> Option<bool> {
        Some(self.express(0x24)? & 0x40 != 0)
    }

    /// Whether access control services send peers' transactions up.
    pub(super) fn acs_redirects(self) -> Option<bool> {
        /// Where extended capabilities begin.
        const FIRST: usize = 0x100;
        self.word(FIRST)?;
        let mut at = FIRST;
        for _ in 0..MOST_EXTENDED {
            let (id, next) = (self.word(at)?, usize::from(self.word(at + 2)? >> 4));
            if id == ACS {
                return Some(self.word(at + 6)? & ACS_REDIRECTS != 0);
            }
            if next < FIRST {
                return Some(false);
            }
            at = next;
        }
        None
    }

    fn find_capability(self, wanted: u8) -> Option<usize> {
        // `PCI_STATUS_CAP_LIST`, `PCI_CAPABILITY_LIST`.
        if self.word(0x06)? & 0x10 == 0 {
            return None;
        }
        let mut at = usize::from(*self.bytes.get(0x34)? & 0xfc);
        for _ in 0..MOST_CAPABILITIES {
            if at == 0 {
                return None;
            }
            if *self.bytes.get(at)? == wanted {
                return Some(at);
            }
            at = usize::from(*self.bytes.get(at + 1)? & 0xfc);
        }
        None
    }

    /// A word of the capability of PCI Express.
    fn express(self, offset: usize) -> Option<u16> {
        self.word(self.express? + offset)
    }

    fn word(self, at: usize) -> Option<u16> {
        Some(u16::from_le_bytes([*self.bytes.get(at)?, *self.bytes.get(at + 1)?]))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A bridge's space: a capability of power management, then PCI Express of this type; extended ones: error reports, then ACS.
    pub(crate) fn space(kind: u8, device_control: u16, acs_control: Option<u16>) -> Vec<u8> {
        let mut bytes = vec![0; 4096];
        let mut word = |at: usize, value: u16| bytes[at..at + 2].copy_from_slice(&value.to_le_bytes());
        word(0x06, 0x10);
        word(0x34, 0x40);
        word(0x40, 0x5001);
        word(0x50, 0x0010);
        word(0x52, u16::from(kind) << 4 | 2);
        word(0x58, device_control);
        word(0x74, 0x40);
        word(0x100, 0x0001);
        word(0x102, 0x1501);
        word(0x150, if acs_control.is_some() { ACS } else { 0x000e });
        word(0x152, 0x0001);
        word(0x156, acs_control.unwrap_or(0x1f));
        bytes
    }

    #[test]
    fn capabilities_are_found() {
        for (kind, name) in
            [(4, BridgeKind::RootPort), (5, BridgeKind::Upstream), (6, BridgeKind::Downstream), (7, BridgeKind::Other)]
        {
            let bytes = space(kind, 0x2950, Some(0x1d));
            let space = ConfigSpace::new(&bytes);
            assert_eq!(
                (space.bridge_kind(), space.acs_redirects(), space.routes_atomics()),
                (Some(name), Some(true), Some(true))
            );
            let control =
                PcieControl { relaxed_ordering: Some(true), payload_bytes: Some(512), read_request_bytes: Some(512) };
            assert_eq!(space.control(), control);
        }
        for (acs, redirects) in [(Some(0x01), false), (Some(0x00), false), (Some(0x04), true), (None, false)] {
            assert_eq!(ConfigSpace::new(&space(4, 0, acs)).acs_redirects(), Some(redirects), "{acs:?}");
        }
    }

    #[test]
    fn what_only_root_sees_is_not_known() {
        let mut bytes = space(4, 0x10, Some(0x1d));
        bytes.truncate(64);
        let space = ConfigSpace::new(&bytes);
        assert_eq!((space.bridge_kind(), space.acs_redirects(), space.routes_atomics()), (None, None, None));
        assert_eq!((space.control(), space.is_whole()), (PcieControl::default(), false));
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_taken(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..600)) {
            let space = ConfigSpace::new(&bytes);
            let _ = (space.bridge_kind(), space.acs_redirects(), space.control(), space.routes_atomics());
        }
    }
}
