//! Where devices are plugged in, and how far apart, by the folders of `/sys/devices`: each bridge is a folder above what is
//! behind it.

use std::path::{Component, Path, PathBuf};

use gdrtune_profiles::{
    topology::{Lanes, PcieLink},
    vocab::PcieDistance,
};
use gdrtune_wire::Place;

use super::Reader;

/// Functions below a switch have its downstream port and themselves below the port that they share.
const BEHIND_ONE_SWITCH: usize = 2;

/// Where a device is, with what is above it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Seat {
    pub(super) place: Place,
    /// The host bridge's folder.
    root: PathBuf,
    /// Addresses from the host bridge's side down to the device.
    chain: Vec<String>,
}

impl Reader<'_> {
    /// The seat of what a link below `/sys` leads to; an empty one where it leads to nothing on PCI.
    pub(super) fn seat(&mut self, link: &str) -> Seat {
        let Ok(folder) = self.path(link).canonicalize() else { return Seat::default() };
        let mut seat = Seat::of(&folder);
        let Some(address) = seat.chain.last().cloned() else { return seat };
        // A machine that does not know says -1 (Linux `Documentation/ABI/testing/sysfs-bus-pci`).
        let numa = self.try_text(&format!("sys/bus/pci/devices/{address}/numa_node")).ok();
        let link = self.pcie_link(&address);
        seat.place = Place { address, numa: numa.and_then(|text| text.parse().ok()), link };
        seat
    }

    /// Linux `Documentation/ABI/testing/sysfs-bus-pci`: files that only devices of PCI Express have.
    pub(super) fn pcie_link(&self, address: &str) -> PcieLink {
        let text = |name: &str| self.try_text(&format!("sys/bus/pci/devices/{address}/{name}")).ok();
        let lanes =
            |which: &str| Lanes::read(&text(&format!("{which}_link_speed"))?, &text(&format!("{which}_link_width"))?);
        PcieLink { current: lanes("current"), most: lanes("max") }
    }

    /// NUMA nodes with CPUs. Memory of GPUs and expanders makes nodes of its own on some machines.
    pub(super) fn numa_nodes(&self) -> u32 {
        self.try_text("sys/devices/system/node/has_cpu")
            .ok()
            .and_then(|list| super::count_list(&list))
            .unwrap_or_default()
    }
}

impl Seat {
    fn of(folder: &Path) -> Self {
        let mut seat = Self::default();
        for component in folder.components() {
            let name = match component {
                Component::Normal(name) => name.to_string_lossy(),
                _ => continue,
            };
            if is_host_bridge(&name) {
                // One behind another is of a controller that hides its devices; the inner one counts.
                folder.ancestors().find(|path| path.ends_with(&*name)).unwrap_or(folder).clone_into(&mut seat.root);
                seat.chain.clear();
            } else if is_address(&name) && !seat.root.as_os_str().is_empty() {
                seat.chain.push(name.into_owned());
            }
        }
        seat
    }

    /// Addresses of the bridges above, from the host bridge's side.
    pub(super) fn bridges(&self) -> &[String] {
        self.chain.split_last().map(|(_, above)| above).unwrap_or_default()
    }

    /// How far another device is; `None` where one is not on PCI, or nobody knows its NUMA node.
    pub(super) fn distance(&self, other: &Self, numa_nodes: u32) -> Option<PcieDistance> {
        if self.chain.is_empty() || other.chain.is_empty() {
            return None;
        }
        if self.root != other.root {
            return match (self.place.numa, other.place.numa) {
                (Some(a), Some(b)) => Some(if a == b { PcieDistance::Node } else { PcieDistance::Sys }),
                _ => (numa_nodes == 1).then_some(PcieDistance::Node),
            };
        }
        let shared = self.chain.iter().zip(&other.chain).take_while(|(a, b)| a == b).count();
        if shared == 0 {
            return Some(PcieDistance::Phb);
        }
        let below = self.chain.len().max(other.chain.len()) - shared;
        Some(if below <= BEHIND_ONE_SWITCH { PcieDistance::Pix } else { PcieDistance::Pxb })
    }
}

/// `pci0000:17`.
fn is_host_bridge(name: &str) -> bool {
    let parts = name.strip_prefix("pci").and_then(|rest| rest.split_once(':'));
    parts.is_some_and(|(domain, bus)| domain.len() >= 4 && is_hex(domain) && bus.len() == 2 && is_hex(bus))
}

/// `0000:19:00.0`.
pub(super) fn is_address(name: &str) -> bool {
    let mut parts = name.split([':', '.']);
    let mut has = |least: usize, most: usize| {
        parts.next().is_some_and(|part| (least..=most).contains(&part.len()) && is_hex(part))
    };
    // Domains beyond 16 bits are those of controllers that hide their devices.
    has(4, 8) && has(2, 2) && has(2, 2) && has(1, 1) && parts.next().is_none()
}

fn is_hex(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seat(folder: &str, numa: Option<u32>) -> Seat {
        let mut seat = Seat::of(Path::new(folder));
        seat.place.numa = numa;
        seat
    }

    #[test]
    fn distances_are_those_of_nvidia_smi() {
        // A root port, a switch's upstream port, its downstream ports.
        let switch = "/sys/devices/pci0000:17/0000:17:01.0/0000:18:00.0";
        let gpu = format!("{switch}/0000:19:00.0/0000:1a:00.0");
        let a_switch_below = format!("{switch}/0000:19:02.0/0000:20:00.0/0000:21:00.0/0000:22:00.0");
        for (other, numa, numa_nodes, expected) in [
            (format!("{switch}/0000:19:01.0/0000:1b:00.0/infiniband/mlx5_0"), Some(0), 2, Some(PcieDistance::Pix)),
            (format!("{switch}/0000:19:00.0/0000:1a:00.1"), Some(0), 2, Some(PcieDistance::Pix)),
            (a_switch_below, Some(0), 2, Some(PcieDistance::Pxb)),
            (format!("{switch}/0000:19:02.0/0000:20:00.0/0000:21:00.0"), Some(0), 2, Some(PcieDistance::Pxb)),
            ("/sys/devices/pci0000:17/0000:17:03.0/0000:30:00.0".into(), Some(0), 2, Some(PcieDistance::Phb)),
            ("/sys/devices/pci0000:3a/0000:3a:01.0/0000:3b:00.0".into(), Some(0), 2, Some(PcieDistance::Node)),
            ("/sys/devices/pci0000:c9/0000:c9:01.0/0000:ca:00.0".into(), Some(1), 2, Some(PcieDistance::Sys)),
            ("/sys/devices/pci0000:3a/0000:3a:01.0/0000:3b:00.0".into(), None, 2, None),
            ("/sys/devices/pci0000:3a/0000:3a:01.0/0000:3b:00.0".into(), None, 1, Some(PcieDistance::Node)),
            ("/sys/devices/virtual/net/veth0".into(), None, 1, None),
            // Behind a controller that hides its devices.
            (
                "/sys/devices/pci0000:17/0000:17:05.5/pci10000:e0/10000:e0:02.0/10000:e1:00.0".into(),
                Some(0),
                2,
                Some(PcieDistance::Node),
            ),
        ] {
            let (gpu, other) = (seat(&gpu, Some(0)), seat(&other, numa));
            assert_eq!(gpu.distance(&other, numa_nodes), expected, "{other:?}");
            assert_eq!(other.distance(&gpu, numa_nodes), expected, "the way back: {other:?}");
        }
    }

    #[test]
    fn addresses_and_host_bridges_are_told_from_other_folders() {
        for (name, is_pcie, is_bridge) in [
            ("0000:19:00.0", true, false),
            ("10000:e1:00.0", true, false),
            ("pci0000:17", false, true),
            ("pci10000:e0", false, true),
            ("0000:19:00", false, false),
            ("0000:19:00.0.1", false, false),
            ("00000:19:0g.0", false, false),
            ("pcip0", false, false),
            ("", false, false),
        ] {
            assert_eq!((is_address(name), is_host_bridge(name)), (is_pcie, is_bridge), "{name}");
        }
    }
}
