//! Details of network devices: what they are made of, and what keeps RoCE's packets from being dropped.

use gdrtune_wire::{Lossless, NetDetails, NetDevice, NetKind};

use super::{
    Reader,
    dcb::{self, Pfc},
    nets::FOLDER,
};

/// Priorities of Ethernet (IEEE 802.1Q).
const PRIORITIES: u8 = 8;

impl Reader<'_> {
    /// Details of these devices, in their order. Where this is no recorded tree, the kernel is asked for priority flow control.
    pub(super) fn net_details(&mut self, nets: &[NetDevice], asks: bool) -> Vec<NetDetails> {
        let names: Vec<String> = nets.iter().map(|net| net.name.clone()).collect();
        let pfc = if asks { dcb::ask(&names) } else { Vec::new() };
        let pfc = pfc.as_slice();
        nets.iter().map(|net| self.net_detail(&net.name, pfc)).collect()
    }

    fn net_detail(&mut self, name: &str, pfc: &[Pfc]) -> NetDetails {
        let folder = format!("{FOLDER}/{name}");
        let lower = self.names(&folder).into_iter().filter_map(|entry| Some(entry.strip_prefix("lower_")?.to_owned()));
        let lower = lower.collect();
        let mut ecn = |point: &str| {
            let on = |priority: u8, reader: &mut Self| {
                reader.number::<u8>(&format!("{folder}/ecn/{point}/enable/{priority}")).map(|on| (priority, on == 1))
            };
            let told: Option<Vec<(u8, bool)>> = (0..PRIORITIES).map(|priority| on(priority, self)).collect();
            told.map(|told| told.into_iter().filter(|(_, on)| *on).map(|(priority, _)| priority).collect())
        };
        let (ecn_notifies, ecn_reacts) = (ecn("roce_np"), ecn("roce_rp"));
        let trust = self.value(&format!("{folder}/qos/trust")).unwrap_or_default();
        let pfc = pfc.iter().find(|pfc| pfc.net == name).map(|pfc| pfc.priorities.clone());
        NetDetails {
            name: name.to_owned(),
            kind: self.net_kind(name, &folder),
            master: self.linked_name(&format!("{folder}/master")),
            lower,
            function: self.pci_function(&format!("{folder}/device")),
            lossless: Lossless { trust, pfc, ecn_notifies, ecn_reacts },
        }
    }

    fn net_kind(&mut self, name: &str, folder: &str) -> NetKind {
        // `802.3ad 4` (Linux `drivers/net/bonding/bond_sysfs.c`).
        if let Some(mode) = self.value(&format!("{folder}/bonding/mode")) {
            return NetKind::Bond(mode.split_whitespace().next().unwrap_or_default().to_owned());
        }
        if self.path(&format!("{folder}/bridge")).exists() {
            return NetKind::Bridge;
        }
        let uevent = self.value(&format!("{folder}/uevent")).unwrap_or_default();
        let kind = super::field(&uevent, "DEVTYPE=").unwrap_or_default();
        if kind == "vlan" {
            // `eth1.100  VID: 100	 REORDER_HDR: 1` (Linux `net/8021q/vlanproc.c`).
            let text = self.value(&format!("proc/net/vlan/{name}")).unwrap_or_default();
            let number = text.split_once("VID:").and_then(|(_, rest)| rest.split_whitespace().next()?.parse().ok());
            return NetKind::Vlan(number);
        }
        if self.path(&format!("{folder}/device")).exists() {
            NetKind::Device
        } else {
            NetKind::Virtual(kind.to_owned())
        }
    }
}
