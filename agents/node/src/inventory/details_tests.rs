//! Details of devices, on recorded trees.

use std::fs;

use gdrtune_wire::{BridgeKind, GidKind, Lossless, NetKind, PciFunction, PcieControl};

use super::{config_space::tests::space, topology_tests::*, *};

const HCA: &str = "pci0000:17/0000:17:01.0/0000:18:00.0";

/// A machine with one GPU and one HCA of RoCE in a bond, each below a root port.
fn machine() -> Tree {
    let tree = Tree::new("0\n");
    tree.pci("pci0000:15/0000:15:01.0/0000:16:00.0", 0, "0x030200", NVIDIA, "0x2335");
    tree.pci("pci0000:15/0000:15:01.0", 0, "0x060400", "0x8086", "0x352a");
    tree.pci("pci0000:17/0000:17:01.0", 0, "0x060400", "0x8086", "0x352a");
    tree.nvidia("0000:16:00.0", "GPU-a");
    tree.hca(HCA, 0, "mlx5_0", "eth1", ["4: ACTIVE\n", "5: LinkUp\n", "400 Gb/sec (4X NDR)\n"]);
    let own = format!("sys/devices/{HCA}/infiniband/mlx5_0");
    let nil = "0000:0000:0000:0000:0000:0000:0000:0000";
    for (path, text) in [
        ("fw_ver", "28.39.1002\n"),
        ("board_id", "MT_0000000838\n"),
        ("hca_type", "MT4129\n"),
        ("node_guid", "9803:9b03:0045:e8a2\n"),
        ("ports/1/link_layer", "Ethernet\n"),
        ("ports/1/lid", "0x0\n"),
        ("ports/1/sm_lid", "0x1f\n"),
        ("ports/1/gids/0", "fe80:0000:0000:0000:9a03:9bff:fe45:e8a2\n"),
        ("ports/1/gid_attrs/types/0", "IB/RoCE v1\n"),
        ("ports/1/gids/10", "0000:0000:0000:0000:0000:ffff:0a00:0001\n"),
        ("ports/1/gid_attrs/types/10", "RoCE v2\n"),
        ("ports/1/gid_attrs/ndevs/10", "bond0\n"),
        ("ports/1/gids/2", nil),
        ("ports/1/gids/3", "fe80:0000:0000:0000:0000:0000:0000:0000\n"),
        ("ports/1/counters/link_downed", "3\n"),
        ("ports/1/hw_counters/out_of_sequence", "7\n"),
        ("ports/1/hw_counters/lifespan", "12\n"),
        ("tc/1/traffic_class", "Global tclass=106\n"),
    ] {
        tree.file(&format!("{own}/{path}"), text);
    }
    tree.file("sys/kernel/config/rdma_cm/mlx5_0/ports/1/default_roce_mode", "RoCE v2\n");
    tree.file("sys/kernel/config/rdma_cm/mlx5_0/ports/1/default_roce_tos", "106\n");
    tree.file(&format!("sys/devices/{HCA}/sriov_totalvfs"), "16\n");
    tree.file(&format!("sys/devices/{HCA}/sriov_numvfs"), "4\n");
    tree.file("sys/devices/virtual/net/bond0/bonding/mode", "802.3ad 4\n");
    tree.file("sys/devices/virtual/net/bond0/mtu", "4200\n");
    tree.link("sys/class/net/bond0", "sys/devices/virtual/net/bond0");
    tree.link("sys/devices/virtual/net/bond0/lower_eth1", &format!("sys/devices/{HCA}/net/eth1"));
    tree.link(&format!("sys/devices/{HCA}/net/eth1/master"), "sys/devices/virtual/net/bond0");
    tree
}

fn read_tree(tree: &Tree) -> Inventory {
    let live = Live { links: Ok(vec![tests::link("bond0", &["10.0.0.1"])]), ..tests::live(vec![]) };
    assemble(tree.0.path(), live)
}

#[test]
fn an_adapter_and_its_port() {
    let inventory = read_tree(&machine());
    let [hca] = inventory.hca_details.as_slice() else { panic!("{inventory:?}") };
    let told = [&hca.firmware, &hca.board, &hca.kind, &hca.vendor, &hca.device, &hca.node_guid, &hca.driver, &hca.bond];
    let expected =
        ["28.39.1002", "MT_0000000838", "MT4129", "15b3", "1021", "9803:9b03:0045:e8a2", "mlx5_core", "bond0"];
    assert_eq!(told, expected);
    assert_eq!(hca.function, PciFunction::Physical { virtual_functions: 4, most: 16 });
    assert_eq!(hca.pcie, PcieControl::default());
    let [port] = inventory.port_details.as_slice() else { panic!("{inventory:?}") };
    assert_eq!((port.lid, port.sm_lid, port.nets.as_slice()), (Some(0), Some(31), &["bond0".to_owned()][..]));
    let gids: Vec<_> =
        port.gids.iter().map(|gid| (gid.index, gid.gid.to_string(), gid.kind, gid.net.as_str())).collect();
    assert_eq!(
        gids,
        [
            (0, "fe80::9a03:9bff:fe45:e8a2".to_owned(), Some(GidKind::InfiniBandOrRoceV1), ""),
            (10, "::ffff:10.0.0.1".to_owned(), Some(GidKind::RoceV2), "bond0"),
        ],
        "entries that nobody has set are none"
    );
    assert_eq!((port.counter("link_downed"), port.counter("out_of_sequence")), (Some(3), Some(7)));
    assert_eq!((port.counter("symbol_error"), port.counter("lifespan")), (None, None));
    assert_eq!(
        (port.traffic_class, port.default_roce_mode.as_str(), port.default_roce_tos),
        (Some(106), "RoCE v2", Some(106))
    );
    assert_eq!((port.active_mtu, port.max_mtu), (Some(4096), None), "of the bond's 4200");
}

#[test]
fn network_devices_and_what_they_are_made_of() {
    let tree = machine();
    tree.file("sys/devices/virtual/net/bond0.7/uevent", "DEVTYPE=vlan\nINTERFACE=bond0.7\n");
    tree.link("sys/class/net/bond0.7", "sys/devices/virtual/net/bond0.7");
    tree.link("sys/devices/virtual/net/bond0.7/lower_bond0", "sys/devices/virtual/net/bond0");
    tree.file("proc/net/vlan/bond0.7", "bond0.7  VID: 7\t REORDER_HDR: 1  dev->priv_flags: 1021\n");
    tree.file("sys/devices/virtual/net/vx/uevent", "DEVTYPE=vxlan\n");
    tree.link("sys/class/net/vx", "sys/devices/virtual/net/vx");
    tree.file("sys/devices/virtual/net/br0/bridge/bridge_id", "8000\n");
    tree.link("sys/class/net/br0", "sys/devices/virtual/net/br0");
    let eth1 = format!("sys/devices/{HCA}/net/eth1");
    tree.file(&format!("{eth1}/qos/trust"), "dscp\n");
    for priority in 0..8 {
        tree.file(&format!("{eth1}/ecn/roce_np/enable/{priority}"), if priority == 3 { "1\n" } else { "0\n" });
    }
    tree.file(&format!("{eth1}/ecn/roce_rp/enable/0"), "1\n");
    let names = ["bond0", "bond0.7", "br0", "vx"];
    let links = names.map(|name| tests::link(name, &["10.0.0.1"])).into();
    let inventory = assemble(tree.0.path(), Live { links: Ok(links), ..tests::live(vec![]) });
    let rows: Vec<_> =
        inventory.net_details.iter().map(|net| (net.name.as_str(), net.kind.clone(), net.master.as_str())).collect();
    assert_eq!(
        rows,
        [
            ("bond0", NetKind::Bond("802.3ad".to_owned()), ""),
            ("bond0.7", NetKind::Vlan(Some(7)), ""),
            ("br0", NetKind::Bridge, ""),
            ("eth1", NetKind::Device, "bond0"),
            ("vx", NetKind::Virtual("vxlan".to_owned()), ""),
        ]
    );
    assert_eq!(
        (&inventory.net_details[0].lower, &inventory.net_details[1].lower),
        (&vec!["eth1".to_owned()], &vec!["bond0".to_owned()])
    );
    let lossless = Lossless { trust: "dscp".to_owned(), pfc: None, ecn_notifies: Some(vec![3]), ecn_reacts: None };
    assert_eq!(inventory.net_details[3].lossless, lossless, "a list that is cut off is not known");
}

#[test]
fn bridges_and_what_only_root_sees_of_them() {
    let tree = machine();
    let write = |folder: &str, bytes: &[u8]| {
        fs::write(tree.0.path().join("sys/devices").join(folder).join("config"), bytes).unwrap();
    };
    let root_port = space(4, 0, Some(0x1d));
    write("pci0000:15/0000:15:01.0", &root_port);
    write("pci0000:17/0000:17:01.0", &root_port[..64]);
    write(HCA, &space(0, 0x5950, None));
    let inventory = read_tree(&tree);
    let rows: Vec<_> =
        inventory.bridges.iter().map(|b| (b.address.as_str(), b.vendor.as_str(), b.kind, b.acs_redirects)).collect();
    assert_eq!(
        rows,
        [("0000:15:01.0", "8086", Some(BridgeKind::RootPort), Some(true)), ("0000:17:01.0", "8086", None, None)]
    );
    assert!(inventory.bridges.iter().all(|bridge| bridge.above.is_empty()));
    let control =
        PcieControl { relaxed_ordering: Some(true), payload_bytes: Some(512), read_request_bytes: Some(4096) };
    assert_eq!(inventory.hca_details[0].pcie, control);
    let note = inventory.unreadable.last().unwrap();
    assert!(note.contains("config of 1 of 2 bridges: only root sees whether ACS is on"), "{note}");
}

/// As driver 550 tells it of the machine's GPU, and of one that is hidden from files.
const LOG: &str = "<nvidia_smi_log>
<driver_version>550.54.15</driver_version>
<cuda_version>12.4</cuda_version>
<gpu id=\"00000000:16:00.0\">
<product_name>NVIDIA H200</product_name>
<product_architecture>Hopper</product_architecture>
<uuid>GPU-a</uuid>
<pci>
<pci_bus_id>00000000:16:00.0</pci_bus_id>
</pci>
<persistence_mode>Enabled</persistence_mode>
<fb_memory_usage>
<total>143771 MiB</total>
</fb_memory_usage>
<ecc_mode>
<current_ecc>Enabled</current_ecc>
</ecc_mode>
<clocks>
<sm_clock>345 MHz</sm_clock>
</clocks>
<max_clocks>
<sm_clock>1980 MHz</sm_clock>
</max_clocks>
<clocks_event_reasons>
<clocks_event_reason_gpu_idle>Active</clocks_event_reason_gpu_idle>
<clocks_event_reason_hw_slowdown>Active</clocks_event_reason_hw_slowdown>
</clocks_event_reasons>
</gpu>
</nvidia_smi_log>
";

#[test]
fn a_gpu_by_the_log_and_by_files() {
    let tree = machine();
    tree.file(
        "proc/driver/nvidia/version",
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.54.15  Release Build  (dvs)\n",
    );
    tree.file("proc/sys/kernel/osrelease", "6.8.0-45-generic\n");
    tree.file(
        "sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0/resource",
        "0x00000000b2000000 0x00000000b2ffffff 0x0000000000040200\n0x0000200000000000 0x0000203fffffffff 0x000000000014220c\n",
    );
    let gpu = |inventory: &Inventory| inventory.gpu_details[0].clone();
    let bare = gpu(&read_tree(&tree));
    assert_eq!(
        (bare.address.as_str(), bare.uuid.as_str(), bare.model.as_str()),
        ("0000:16:00.0", "GPU-a", "NVIDIA H200")
    );
    assert_eq!((bare.bar1_bytes, bare.memory_bytes, bare.ecc), (Some(256 << 30), None, None));
    assert_eq!(bare.dmabuf.possible, None, "{:?}", bare.dmabuf);

    tree.file(RECORDED_LOG, LOG);
    let recorded = read_recorded(tree.0.path());
    let told = gpu(&recorded);
    assert_eq!(
        (told.memory_bytes, told.bar1_bytes, told.compute_capability),
        (Some(143_771 << 20), Some(256 << 30), Some((9, 0)))
    );
    assert_eq!((told.persistence, told.ecc, told.mig), (Some(true), Some(true), None));
    assert_eq!((told.clocks.sm, told.clocks.sm_most, told.clocks.memory), (Some(345), Some(1980), None));
    assert_eq!(told.clock_limits.unwrap().to_string(), "gpu_idle hw_slowdown");
    assert_eq!(told.clock_limits.unwrap().faults().to_string(), "hw_slowdown");
    assert_eq!((told.dmabuf.possible, recorded.system.cuda.as_str()), (Some(true), "12.4"));
    assert_eq!(recorded.driver, "550.54.15", "the log's, as no file has it");

    // One row more than files tell of, and no log of it.
    let row = |index, uuid: &str, capability| nvidia_smi::Gpu {
        index,
        uuid: uuid.to_owned(),
        model: "NVIDIA H200".to_owned(),
        capability,
    };
    let log = smi_log::parse(LOG, "log").ok();
    let gpus = vec![row(0, "GPU-a", Some((9, 0))), row(1, "GPU-b", Some((9, 0)))];
    let answer = nvidia_smi::Answer { gpus, log, tells_apps: true, ..nvidia_smi::Answer::default() };
    let inventory = assemble(tree.0.path(), Live { nvidia_smi: Some(answer), ..tests::live(vec![]) });
    let rows: Vec<_> =
        inventory.gpu_details.iter().map(|gpu| (gpu.uuid.as_str(), gpu.address.as_str(), gpu.memory_bytes)).collect();
    assert_eq!(rows, [("GPU-a", "0000:16:00.0", Some(143_771 << 20)), ("GPU-b", "", None)]);
}

#[test]
fn a_recorded_log_that_cannot_be_read_is_noted() {
    let tree = machine();
    assert!(read_recorded(tree.0.path()).unreadable.last().unwrap().starts_with("nvidia-smi-q.xml: not in"));
    tree.file(RECORDED_LOG, "NVIDIA-SMI has failed\n");
    let unreadable = read_recorded(tree.0.path()).unreadable;
    assert!(unreadable.last().unwrap().starts_with("nvidia-smi-q.xml:1:"), "{unreadable:?}");
}
