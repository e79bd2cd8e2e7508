//! Bridges above GPUs and RDMA adapters, and which kind of PCI function a device is.

use std::collections::BTreeMap;

use gdrtune_wire::{PciFunction, PcieBridge, PcieControl};

use super::{
    Reader,
    config_space::{self, ConfigSpace},
    pcie::Seat,
};

impl Reader<'_> {
    /// The bridges above these devices, each once, by address.
    pub(super) fn bridges<'s>(&mut self, seats: impl Iterator<Item = &'s Seat>) -> Vec<PcieBridge> {
        let mut above: BTreeMap<String, String> = BTreeMap::new();
        for seat in seats {
            let bridges = seat.bridges();
            let mut last = "";
            for address in bridges {
                above.insert(address.clone(), last.to_owned());
                last = address;
            }
        }
        above.into_iter().map(|(address, above)| self.bridge(address, above)).collect()
    }

    /// Says, once and after all that is rarer, what is hidden from who is not root.
    pub(super) fn note_hidden_bridges(&mut self, bridges: &[PcieBridge]) {
        if self.hidden_bridges > 0 {
            let (hidden, all, folder) = (self.hidden_bridges, bridges.len(), self.path("sys/bus/pci/devices"));
            self.unreadable.push(format!(
                "{}/*/config of {hidden} of {all} bridges: only root sees whether ACS is on, and settings of PCI Express",
                folder.display()
            ));
        }
    }

    fn bridge(&mut self, address: String, above: String) -> PcieBridge {
        let (vendor, device) = self.pci_ids(&address);
        let bytes = self.config_space(&address);
        let space = ConfigSpace::new(&bytes);
        if !bytes.is_empty() && !space.is_whole() {
            self.hidden_bridges += 1;
        }
        PcieBridge {
            link: self.pcie_link(&address),
            vendor,
            device,
            kind: space.bridge_kind(),
            acs_redirects: space.acs_redirects(),
            routes_atomics: space.routes_atomics(),
            address,
            above,
        }
    }

    /// Settings of a device on PCI Express.
    pub(super) fn pcie_control(&self, address: &str) -> PcieControl {
        ConfigSpace::new(&self.config_space(address)).control()
    }

    fn config_space(&self, address: &str) -> Vec<u8> {
        let path = format!("sys/bus/pci/devices/{address}/config");
        if address.is_empty() { Vec::new() } else { self.try_bytes(&path, config_space::BYTES).unwrap_or_default() }
    }

    /// PCI's numbers of vendor and device, without `0x`; empty where they cannot be read.
    pub(super) fn pci_ids(&self, address: &str) -> (String, String) {
        let number = |name: &str| {
            let text = self.try_text(&format!("sys/bus/pci/devices/{address}/{name}")).unwrap_or_default();
            text.trim_start_matches("0x").to_owned()
        };
        if address.is_empty() { Default::default() } else { (number("vendor"), number("device")) }
    }

    /// Which kind of function the device in this folder is (Linux `Documentation/ABI/testing/sysfs-bus-pci`).
    pub(super) fn pci_function(&mut self, folder: &str) -> PciFunction {
        let of = self.linked_name(&format!("{folder}/physfn"));
        if !of.is_empty() {
            return PciFunction::Virtual { of };
        }
        match self.number(&format!("{folder}/sriov_totalvfs")) {
            None | Some(0) => PciFunction::Plain,
            Some(most) => {
                let virtual_functions = self.number(&format!("{folder}/sriov_numvfs")).unwrap_or_default();
                PciFunction::Physical { virtual_functions, most }
            }
        }
    }
}
