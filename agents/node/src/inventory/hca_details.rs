//! Details of RDMA adapters and their ports, from sysfs (Linux `Documentation/ABI/stable/sysfs-class-infiniband`).

use std::net::Ipv6Addr;

use gdrtune_wire::{Counter, Gid, GidKind, Hca, HcaDetails, HcaPort, PortDetails, Topology};

use super::{Reader, hcas::FOLDER, ibv_devinfo::PortMtu};

/// Most entries of a GID table that are read. One of a host with many VLANs or containers has some hundred.
const MOST_GIDS: usize = 512;

/// Counters of errors and congestion, of InfiniBand ports, of NVIDIA's adapters (`hw_counters`, "Understanding mlx5 Linux counters") and of
/// EFA. What only counts traffic is left out.
const COUNTERS: [&str; 26] = [
    "symbol_error",
    "link_error_recovery",
    "link_downed",
    "local_link_integrity_errors",
    "excessive_buffer_overrun_errors",
    "port_rcv_errors",
    "port_rcv_remote_physical_errors",
    "port_rcv_switch_relay_errors",
    "port_xmit_discards",
    "port_xmit_wait",
    "out_of_sequence",
    "out_of_buffer",
    "packet_seq_err",
    "implied_nak_seq_err",
    "local_ack_timeout_err",
    "req_transport_retries_exceeded",
    "rnr_nak_retry_err",
    "rx_icrc_encapsulated",
    "roce_adp_retrans",
    "roce_slow_restart",
    "np_cnp_sent",
    "np_ecn_marked_roce_packets",
    "rp_cnp_handled",
    "rp_cnp_ignored",
    "rx_drops",
    "retrans_pkts",
];

/// Headers of RoCE that come off a network device's MTU, in bytes: GRH 40, UDP 8, BTH 12, XRC 4, atomic 28, ICRC 4 (Linux
/// `include/rdma/ib_addr.h`, `iboe_get_mtu`).
const ROCE_HEADERS: u32 = 96;

/// MTUs of InfiniBand and RoCE (InfiniBand Architecture Specification, `ib_mtu`).
const MTUS: [u32; 5] = [4096, 2048, 1024, 512, 256];

impl Reader<'_> {
    /// Details of these adapters, in their order.
    pub(super) fn hca_details(&mut self, hcas: &[Hca]) -> Vec<HcaDetails> {
        hcas.iter().map(|hca| self.hca_detail(hca)).collect()
    }

    fn hca_detail(&mut self, hca: &Hca) -> HcaDetails {
        let folder = format!("{FOLDER}/{}", hca.name);
        let mut text = |name: &str| self.value(&format!("{folder}/{name}")).unwrap_or_default();
        let (firmware, board, kind, node_guid) =
            (text("fw_ver"), text("board_id"), text("hca_type"), text("node_guid"));
        let (vendor, device) = self.pci_ids(&hca.place.address);
        let bond = hca.nets.iter().map(|net| self.bond_of(net)).find(|bond| !bond.is_empty());
        HcaDetails {
            hca: hca.name.clone(),
            firmware,
            board,
            kind,
            vendor,
            device,
            node_guid,
            driver: self.linked_name(&format!("{folder}/device/driver")),
            function: self.pci_function(&format!("{folder}/device")),
            bond: bond.unwrap_or_default(),
            pcie: self.pcie_control(&hca.place.address),
        }
    }

    /// Details of these ports, in their order. `mtus` is what verbs say.
    pub(super) fn port_details(
        &mut self,
        ports: &[HcaPort],
        topology: &Topology,
        mtus: &[PortMtu],
    ) -> Vec<PortDetails> {
        let Topology { hcas, nets, .. } = topology;
        let nets_of =
            |name: &str| hcas.iter().find(|hca| hca.name == name).map(|hca| hca.nets.as_slice()).unwrap_or_default();
        let detail = |port: &HcaPort| {
            let mut details = self.port_detail(port, nets_of(&port.hca));
            let told = mtus.iter().find(|told| told.hca == port.hca && told.port == port.port);
            details.active_mtu = told.and_then(|told| told.active);
            details.max_mtu = told.and_then(|told| told.most);
            if details.active_mtu.is_none() && port.link_layer == "Ethernet" {
                let of_net =
                    |name: &String| nets.iter().find(|net| net.name == *name).and_then(|net| roce_mtu(net.mtu));
                details.active_mtu = details.nets.iter().find_map(of_net);
            }
            details
        };
        ports.iter().map(detail).collect()
    }

    fn port_detail(&mut self, port: &HcaPort, nets_of_hca: &[String]) -> PortDetails {
        let (hca, number) = (&port.hca, port.port);
        let folder = format!("{FOLDER}/{hca}/ports/{number}");
        let mut lid = |name: &str| {
            let text = self.value(&format!("{folder}/{name}"))?;
            u32::from_str_radix(text.trim_start_matches("0x"), 16).ok()
        };
        let (lid, sm_lid) = (lid("lid"), lid("sm_lid"));
        let gids = self.gids(&folder);
        let mut nets: Vec<String> = Vec::new();
        for gid in &gids {
            if !gid.net.is_empty() && !nets.contains(&gid.net) {
                nets.push(gid.net.clone());
            }
        }
        if nets.is_empty() {
            nets = nets_of_hca.to_vec();
        }
        // Configured where the folder was made by an administrator.
        let cm = format!("sys/kernel/config/rdma_cm/{hca}/ports/{number}");
        PortDetails {
            hca: hca.clone(),
            port: number,
            active_mtu: None,
            max_mtu: None,
            lid,
            sm_lid,
            gids,
            nets,
            counters: self.counters(&folder),
            traffic_class: self.traffic_class(hca, number),
            default_roce_mode: self.value(&format!("{cm}/default_roce_mode")).unwrap_or_default(),
            default_roce_tos: self.number(&format!("{cm}/default_roce_tos")),
        }
    }

    /// `Global tclass=106`, where a class is forced.
    fn traffic_class(&mut self, hca: &str, port: u16) -> Option<u8> {
        let text = self.value(&format!("{FOLDER}/{hca}/tc/{port}/traffic_class"))?;
        let (_, class) = text.lines().next()?.rsplit_once('=')?;
        class.trim().parse().ok()
    }

    /// Entries that are set, by index.
    fn gids(&mut self, folder: &str) -> Vec<Gid> {
        let names = self.names(&format!("{folder}/gids"));
        let mut indices: Vec<u16> = names.iter().filter_map(|name| name.parse().ok()).collect();
        indices.sort_unstable();
        indices.into_iter().take(MOST_GIDS).filter_map(|index| self.gid(folder, index)).collect()
    }

    fn gid(&mut self, folder: &str, index: u16) -> Option<Gid> {
        let gid: Ipv6Addr = self.number(&format!("{folder}/gids/{index}"))?;
        // A subnet prefix alone is an entry that nobody has set.
        if gid.segments()[4..] == [0; 4] {
            return None;
        }
        let kind = match self.value(&format!("{folder}/gid_attrs/types/{index}")).as_deref() {
            Some("IB/RoCE v1") => Some(GidKind::InfiniBandOrRoceV1),
            Some("RoCE v2") => Some(GidKind::RoceV2),
            _ => None,
        };
        let net = self.value(&format!("{folder}/gid_attrs/ndevs/{index}")).unwrap_or_default();
        Some(Gid { index, gid, kind, net })
    }

    fn counters(&mut self, folder: &str) -> Vec<Counter> {
        let read = |name: &&str| {
            let mut of = |kind: &str| self.number(&format!("{folder}/{kind}/{name}"));
            let value = of("counters").or_else(|| of("hw_counters"))?;
            Some(Counter { name: (*name).to_owned(), value })
        };
        COUNTERS.iter().filter_map(read).collect()
    }

    /// The bond that a network device is in.
    fn bond_of(&self, net: &str) -> String {
        let master = self.linked_name(&format!("sys/class/net/{net}/master"));
        let is_bond = !master.is_empty() && self.path(&format!("sys/class/net/{master}/bonding")).exists();
        if is_bond { master } else { String::new() }
    }
}

/// The MTU that RoCE has on a network device of this MTU.
fn roce_mtu(net: u32) -> Option<u32> {
    MTUS.into_iter().find(|mtu| net.checked_sub(ROCE_HEADERS).is_some_and(|room| *mtu <= room))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roce_has_the_mtu_that_fits() {
        for (net, roce) in
            [(9000, Some(4096)), (4200, Some(4096)), (4191, Some(2048)), (1500, Some(1024)), (300, None), (0, None)]
        {
            assert_eq!(roce_mtu(net), roce, "{net}");
        }
    }
}
