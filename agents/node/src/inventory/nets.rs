//! Network devices: those of hardware, and others that have an address. A host of containers or virtual machines has hundreds
//! that are neither, or functions that it hands on.

use gdrtune_wire::NetDevice;

use super::{Link, Reader};

/// Network devices below this folder.
pub(super) const FOLDER: &str = "sys/class/net";

impl Reader<'_> {
    /// By name, the loopback left out; `links` are those that have an address.
    pub(super) fn nets(&mut self, links: &[Link]) -> Vec<NetDevice> {
        let names = self.names(FOLDER).into_iter().filter(|name| name != "lo");
        names.filter_map(|name| self.net(name, links)).collect()
    }

    fn net(&mut self, name: String, links: &[Link]) -> Option<NetDevice> {
        let folder = format!("{FOLDER}/{name}");
        let exists = |name: &str| self.path(&format!("{folder}/device/{name}")).exists();
        // A virtual function has a link to its physical one.
        let is_hardware = exists("") && !exists("physfn");
        if !is_hardware && links.iter().all(|link| link.name != name) {
            return None;
        }
        let driver = self.linked_name(&format!("{folder}/device/driver"));
        let text = |name: &str| self.try_text(&format!("{folder}/{name}")).unwrap_or_default();
        let (state, mtu, speed_mbps) = (text("operstate"), text("mtu").parse().unwrap_or_default(), self.speed(&name));
        let place = self.seat(&format!("{folder}/device")).place;
        Some(NetDevice { name, state, speed_mbps, mtu, driver, place })
    }

    /// In Mbit/s. Drivers without a speed fail the read or say -1 (Linux `net/core/net-sysfs.c`); neither is worth a note.
    pub(super) fn speed(&self, name: &str) -> Option<u32> {
        let text = self.try_text(&format!("{FOLDER}/{name}/speed")).ok()?;
        text.parse().ok().filter(|speed| *speed > 0)
    }
}
