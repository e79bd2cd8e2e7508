//! Cases of the checks of HCAs, of PCIe links, and of RoCE.

use std::net::Ipv6Addr;

use gdrtune_profiles::topology::{Lanes, PcieLink};
use gdrtune_wire::*;

use super::{
    Case,
    Change::{All, Facts, Second},
    change::{library, set, used_gpu, without_gpus, without_hcas},
    well::FULL,
};
use crate::doctor::Node;

fn link(mtps: u32, count: u8) -> PcieLink {
    PcieLink { current: Some(Lanes { mtps, count }), ..FULL }
}

fn roce(node: &mut Inventory) -> &mut PortDetails {
    &mut node.port_details[2]
}

fn lossless(node: &mut Inventory) -> &mut Lossless {
    &mut node.net_details[1].lossless
}

fn without_roce(node: &mut Inventory) {
    node.hca_ports[2].link_layer = "InfiniBand".into();
}

pub(super) const CASES: &[Case] = &[
    ("hca-present", "WARN n2: GPUs, and no HCA", Second(without_hcas)),
    (
        "hca-present",
        "SKIP n2: neither GPU nor HCA",
        Second(|n| {
            without_gpus(n);
            without_hcas(n);
        }),
    ),
    ("hca-present", "SKIP n1: fewer than two nodes", Facts(|facts| facts.nodes.truncate(1))),
    (
        "hca-port-active",
        "FAIL n2: mlx5_0: DOWN Polling, though nearest to GPU0",
        Second(|n| {
            n.hca_ports[0].state = "DOWN".into();
            n.hca_ports[0].phys_state = "Polling".into();
        }),
    ),
    ("hca-port-active", "WARN n2: mlx5_2: DOWN LinkUp", Second(|n| n.hca_ports[2].state = "DOWN".into())),
    (
        "hca-port-active",
        "PASS n2: mlx5_[0-1] active",
        Second(|n| {
            n.hca_ports[2].state = "DOWN".into();
            set(n, "NCCL_IB_HCA", "^=mlx5_2");
        }),
    ),
    (
        "hca-port-active",
        "FAIL n2: none is: mlx5_[0-2]: INIT LinkUp",
        Second(|n| {
            n.hca_ports.iter_mut().for_each(|port| port.state = "INIT".into());
        }),
    ),
    ("hca-port-active", "SKIP n2: no port's state", Second(|n| n.hca_ports.clear())),
    (
        "hca-subnet-manager",
        "FAIL n2: mlx5_1: the link is up, and no subnet manager",
        Second(|n| n.hca_ports[1].state = "INIT".into()),
    ),
    ("hca-subnet-manager", "FAIL n2: mlx5_0: the link is up", Second(|n| n.port_details[0].sm_lid = Some(0))),
    ("hca-subnet-manager", "PASS n2: every port with a link is active", Second(|n| n.port_details.clear())),
    (
        "hca-subnet-manager",
        "SKIP n2: no InfiniBand port with a link",
        Second(|n| {
            n.hca_ports.iter_mut().for_each(|port| port.link_layer = "Ethernet".into());
        }),
    ),
    (
        "hca-rate",
        "FAIL n2: mlx5_1: 200 Gb/sec (4X HDR), others of its kind 400 Gb/s",
        Second(|n| {
            n.hca_ports[1].rate = "200 Gb/sec (4X HDR)".into();
        }),
    ),
    (
        "hca-rate",
        "FAIL n2: mlx5_1: 100 Gb/sec (1X NDR)",
        Second(|n| {
            n.hca_details.iter_mut().for_each(|hca| hca.kind = "MT4131".into());
            n.hca_ports.iter_mut().for_each(|port| port.rate = "100 Gb/sec (4X EDR)".into());
            n.hca_ports[1].rate = "100 Gb/sec (1X NDR)".into();
        }),
    ),
    // Another kind may be as slow as it is made.
    (
        "hca-rate",
        "PASS n2: mlx5_[0-1]: 400 Gb/sec (4X NDR); mlx5_2: 100 Gb/sec (4X EDR)",
        Second(|n| {
            n.hca_details[2].kind = "MT4119".into();
            n.hca_ports[2].rate = "100 Gb/sec (4X EDR)".into();
        }),
    ),
    (
        "hca-rate",
        "SKIP n2: no active port tells its rate",
        Second(|n| n.hca_ports.iter_mut().for_each(|port| port.rate.clear())),
    ),
    ("hca-mtu", "WARN n2: mlx5_1: 2048 of 4096", Second(|n| n.port_details[1].active_mtu = Some(2048))),
    (
        "hca-mtu",
        "SKIP n2: no active InfiniBand port tells",
        Second(|n| n.port_details.iter_mut().for_each(|p| p.active_mtu = None)),
    ),
    (
        "hca-link-errors",
        "WARN n2: mlx5_1: symbol_error 12, link_downed 3",
        Second(|n| {
            n.port_details[1].counters.iter_mut().zip([12, 3]).for_each(|(counter, value)| counter.value = value);
        }),
    ),
    (
        "hca-link-errors",
        "SKIP n2: no port's counters",
        Second(|n| n.port_details.iter_mut().for_each(|port| port.counters.clear())),
    ),
    (
        "hca-ofed",
        "FAIL n2: version 4.9-2.2.4.0",
        Second(|n| {
            n.system.ofed = Some(Ofed { version: "4.9-2.2.4.0".into(), source: String::new() });
        }),
    ),
    ("hca-ofed", "PASS n2: version 5.0-1.0", Second(|n| n.system.ofed.as_mut().unwrap().version = "5.0-1.0".into())),
    ("hca-ofed", "SKIP n2: none shows", Second(|n| n.system.ofed = None)),
    (
        "hca-verbs-library",
        "FAIL n2: libibverbs.so is not found",
        Second(|n| {
            n.system.libraries.retain(|library| library.kind != LibraryKind::Verbs);
        }),
    ),
    ("hca-verbs-library", "SKIP n2: no HCA", Second(without_hcas)),
    (
        "hca-device-files",
        "FAIL n2: no uverbs file in /dev/infiniband",
        Second(|n| n.system.container.rdma_devices.clear()),
    ),
    (
        "hca-device-files",
        "WARN n2: 2 uverbs files for 3 HCAs",
        Second(|n| {
            n.system.container.rdma_devices.remove(0);
        }),
    ),
    (
        "hca-device-files",
        "SKIP n2: this recorded tree has no device files",
        Facts(|facts| {
            facts.nodes[1].inventory.system.container.rdma_devices.clear();
            facts.nodes[1] = Node::recorded("n2", facts.nodes[1].inventory.clone());
        }),
    ),
    (
        "hca-net-plugin",
        "FAIL n2: no libnccl-net*.so is found",
        Second(|n| {
            n.hca_details.iter_mut().for_each(|hca| hca.driver = "efa".into());
        }),
    ),
    (
        "hca-net-plugin",
        "PASS n[1-3]: /opt/libnccl-net.so",
        All(|n| {
            n.hca_details.iter_mut().for_each(|hca| hca.driver = "efa".into());
            let kind = LibraryKind::NcclNet;
            n.system.libraries.push(Library { kind, path: "/opt/libnccl-net.so".into(), ..Library::default() });
        }),
    ),
    (
        "pcie-gpu-width",
        "FAIL n2: GPU1: 32 GT/s x8 of 32 GT/s x16",
        Second(|n| n.topology.gpus[1].place.link = link(32_000, 8)),
    ),
    ("pcie-gpu-width", "PASS n[1-3]: GPU[0-1]: x16", Second(|n| n.topology.gpus[1].place.link = link(2_500, 16))),
    (
        "pcie-gpu-width",
        "SKIP n2: the kernel does not tell",
        Second(|n| {
            n.topology.gpus.iter_mut().for_each(|gpu| gpu.place.link = PcieLink::default());
        }),
    ),
    (
        "pcie-gpu-speed",
        "SKIP n2: idle GPUs have their links slowed down",
        Second(|n| n.topology.gpus[1].place.link = link(2_500, 16)),
    ),
    (
        "pcie-gpu-speed",
        "FAIL n2: GPU1: 16 GT/s x16 of 32 GT/s x16",
        Second(|n| {
            used_gpu(n);
            n.topology.gpus[1].place.link = link(16_000, 16);
        }),
    ),
    (
        "pcie-hca-width",
        "FAIL n2: mlx5_1: 32 GT/s x8 of 32 GT/s x16",
        Second(|n| n.topology.hcas[1].place.link = link(32_000, 8)),
    ),
    ("pcie-hca-width", "SKIP n2: no HCA", Second(without_hcas)),
    (
        "pcie-hca-speed",
        "FAIL n2: mlx5_1: 8 GT/s x16 of 32 GT/s x16",
        Second(|n| n.topology.hcas[1].place.link = link(8_000, 16)),
    ),
    (
        "pcie-hca-speed",
        "SKIP n2: the kernel does not tell",
        Second(|n| {
            n.topology.hcas.iter_mut().for_each(|hca| hca.place.link = PcieLink::default());
        }),
    ),
    (
        "pcie-hca-room",
        "WARN n2: mlx5_1: 16 GT/s x16 carries 252 Gb/s of 400 Gb/s",
        Second(|n| {
            n.topology.hcas[1].place.link = link(16_000, 16);
        }),
    ),
    (
        "pcie-hca-room",
        "SKIP n2: no HCA tells both",
        Second(|n| n.hca_ports.iter_mut().for_each(|port| port.rate.clear())),
    ),
    ("roce-gid", "FAIL n2: mlx5_2: version 2 with link-local addresses only", Second(|n| roce(n).gids.truncate(2))),
    (
        "roce-gid",
        "FAIL n2: mlx5_2: no GID of version 2",
        Second(|n| roce(n).gids.retain(|gid| gid.kind != Some(GidKind::RoceV2))),
    ),
    ("roce-gid", "SKIP n2: no RoCE port's GIDs can be read", Second(|n| roce(n).gids.clear())),
    (
        "roce-gid",
        "SKIP n2: the kernel does not tell the versions",
        Second(|n| roce(n).gids.iter_mut().for_each(|gid| gid.kind = None)),
    ),
    ("roce-gid", "SKIP n2: no active RoCE port", Second(without_roce)),
    (
        "roce-gid-index",
        "PASS n2: NCCL_IB_GID_INDEX=3 is version 2 and routes",
        Second(|n| set(n, "NCCL_IB_GID_INDEX", "3")),
    ),
    (
        "roce-gid-index",
        "FAIL n2: NCCL_IB_GID_INDEX=1: mlx5_2: GID 1 is link-local",
        Second(|n| set(n, "NCCL_IB_GID_INDEX", "1")),
    ),
    (
        "roce-gid-index",
        "FAIL n2: NCCL_IB_GID_INDEX=2: mlx5_2: GID 2 is version 1",
        Second(|n| set(n, "NCCL_IB_GID_INDEX", "2")),
    ),
    (
        "roce-gid-index",
        "FAIL n2: NCCL_IB_GID_INDEX=7: mlx5_2: GID 7 is not set",
        Second(|n| set(n, "NCCL_IB_GID_INDEX", "7")),
    ),
    (
        "roce-gid-index",
        "WARN n2: NCCL 2.20.5 takes index 0",
        Second(|n| library(n, LibraryKind::Nccl).version = "2.20.5".into()),
    ),
    ("roce-gid-index", "PASS n[1-3]: NCCL finds it by itself", Second(|n| set(n, "NCCL_IB_GID_INDEX", "-1"))),
    (
        "roce-gid-index",
        "SKIP n2: NCCL_IB_GID_INDEX is not set, and the version",
        Second(|n| n.system.libraries.clear()),
    ),
    ("roce-mtu", "WARN n2: rail2: MTU 1500", Second(|n| n.topology.nets[2].mtu = 1500)),
    ("roce-mtu", "SKIP n2: no RoCE port tells its network device", Second(|n| roce(n).nets.clear())),
    ("roce-pfc", "WARN n2: rail2: PFC at no priority", Second(|n| lossless(n).pfc = Some(Vec::new()))),
    ("roce-pfc", "SKIP n2: sysfs does not tell", Second(|n| lossless(n).pfc = None)),
    (
        "roce-ecn",
        "WARN n2: rail2: no ECN at priority 3, which has PFC",
        Second(|n| lossless(n).ecn_reacts = Some(vec![2])),
    ),
    (
        "roce-ecn",
        "WARN n2: rail2: ECN at no priority",
        Second(|n| {
            *lossless(n) = Lossless {
                pfc: None,
                ecn_notifies: Some(Vec::new()),
                ecn_reacts: Some(Vec::new()),
                ..Lossless::default()
            };
        }),
    ),
    ("roce-ecn", "SKIP n2: sysfs does not tell", Second(|n| lossless(n).ecn_notifies = None)),
    (
        "roce-traffic-class",
        "WARN n2: mlx5_2: class 0 goes at priority 0, and PFC is at 3",
        Second(|n| roce(n).traffic_class = None),
    ),
    (
        "roce-traffic-class",
        "PASS n[1-3]: class 106 is priority 3",
        Second(|n| {
            roce(n).traffic_class = Some(0);
            set(n, "NCCL_IB_TC", "106");
        }),
    ),
    (
        "roce-traffic-class",
        "SKIP n2: priorities are taken from VLAN tags",
        Second(|n| lossless(n).trust = "pcp".into()),
    ),
    ("roce-traffic-class", "SKIP n2: no RoCE port has PFC", Second(|n| lossless(n).pfc = None)),
    (
        "roce-subnet",
        "WARN n2: mlx5_2: 10.1.7.0/24, on most nodes 10.1.2.0/24",
        Second(|n| {
            roce(n).gids[3].gid = "::ffff:10.1.7.2".parse::<Ipv6Addr>().unwrap();
        }),
    ),
    (
        "roce-subnet",
        "FAIL n2: swapped: mlx5_1: 10.1.2.0/24, on most nodes 10.1.1.0/24; mlx5_2: 10.1.1.0/24, on most nodes",
        All(|n| {
            // A second RoCE port, whose addresses the second node has the other way round.
            n.hca_ports[1].link_layer = "Ethernet".into();
            let mut other = n.port_details[2].clone();
            other.hca = "mlx5_1".into();
            other.gids[3].gid = "::ffff:10.1.1.1".parse().unwrap();
            n.port_details[1] = other;
            if n.hostname == "n2" {
                let (a, b) = (n.port_details[1].gids.clone(), n.port_details[2].gids.clone());
                (n.port_details[1].gids, n.port_details[2].gids) = (b, a);
            }
        }),
    ),
    ("roce-subnet", "SKIP n[1-3]: fewer than two nodes tell", All(without_roce)),
    ("roce-loss", "WARN n2: mlx5_2: out_of_sequence 9", Second(|n| roce(n).counters[0].value = 9)),
    ("roce-loss", "SKIP n2: no port's counters", Second(|n| roce(n).counters.clear())),
];
