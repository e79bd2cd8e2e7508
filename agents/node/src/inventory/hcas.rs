//! RDMA adapters and their ports. A machine without any is none the worse, so that leaves no note.

use std::io::ErrorKind;

use gdrtune_wire::{Hca, HcaPort};

use super::{Reader, pcie::Seat};

/// Adapters below this folder.
pub(super) const FOLDER: &str = "sys/class/infiniband";

impl Reader<'_> {
    /// Every port of every adapter.
    pub(super) fn hca_ports(&mut self) -> Vec<HcaPort> {
        let mut found = Vec::new();
        for hca in self.names(FOLDER) {
            let ports = format!("{FOLDER}/{hca}/ports");
            let mut numbers: Vec<u16> = self.names(&ports).iter().filter_map(|number| number.parse().ok()).collect();
            numbers.sort_unstable();
            found.extend(numbers.into_iter().map(|port| self.hca_port(&hca, port, &format!("{ports}/{port}"))));
        }
        found
    }

    fn hca_port(&mut self, hca: &str, port: u16, folder: &str) -> HcaPort {
        let mut text = |name: &str| self.if_there(&format!("{folder}/{name}"));
        // `4: ACTIVE`, `5: LinkUp` (Linux `drivers/infiniband/core/sysfs.c`, `state_show` and `phys_state_show`).
        let word = |text: String| text.split_once(": ").map(|(_, word)| word.to_owned()).unwrap_or_default();
        let (state, phys_state) = (word(text("state")), word(text("phys_state")));
        let (link_layer, rate) = (text("link_layer"), text("rate"));
        HcaPort { hca: hca.to_owned(), port, link_layer, rate, state, phys_state }
    }

    /// Every adapter, with its seat.
    pub(super) fn hcas(&mut self) -> Vec<(Hca, Seat)> {
        let adapter = |name: String, reader: &mut Self| {
            let seat = reader.seat(&format!("{FOLDER}/{name}/device"));
            let nets = reader.names(&format!("{FOLDER}/{name}/device/net"));
            (Hca { name, place: seat.place.clone(), nets }, seat)
        };
        self.names(FOLDER).into_iter().map(|name| adapter(name, self)).collect()
    }

    /// The trimmed text of a file that need not be there; one that is there and cannot be read is noted.
    fn if_there(&mut self, path: &str) -> String {
        match self.try_text(path) {
            Ok(text) => text,
            Err(error) => {
                if error.kind() != ErrorKind::NotFound {
                    self.unreadable.push(format!("{}: {error}", self.path(path).display()));
                }
                String::new()
            }
        }
    }
}
