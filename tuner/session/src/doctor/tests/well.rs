//! A node with which nothing is wrong: two H100, each with an InfiniBand HCA behind its switch, and a RoCE HCA for storage.

use std::net::{IpAddr, Ipv4Addr};

use gdrtune_profiles::{
    topology::{GpuPath, Lanes, PcieLink},
    vocab::PcieDistance,
};
use gdrtune_wire::*;

const GEN5: Lanes = Lanes { mtps: 32_000, count: 16 };

/// A link at its best.
pub(super) const FULL: PcieLink = PcieLink { current: Some(GEN5), most: Some(GEN5) };

fn place(address: &str, numa: u32) -> Place {
    Place { address: address.to_owned(), numa: Some(numa), link: FULL }
}

fn gpu_details(address: &str) -> GpuDetails {
    GpuDetails {
        address: address.to_owned(),
        uuid: format!("GPU-{address}"),
        model: "NVIDIA H100 80GB HBM3".into(),
        memory_bytes: Some(81_559 << 20),
        bar1_bytes: Some(128 << 30),
        compute_capability: Some((9, 0)),
        persistence: Some(true),
        ecc: Some(true),
        mig: Some(false),
        compute_mode: "Default".into(),
        clock_limits: Some(ClockLimits(0x1)),
        fabric_state: "Completed".into(),
        dmabuf: DmaBuf { possible: Some(true), why: "open module".into() },
        ..GpuDetails::default()
    }
}

fn hca_details(hca: &str) -> HcaDetails {
    HcaDetails {
        hca: hca.to_owned(),
        firmware: "28.39.1002".into(),
        board: "MT_0000000838".into(),
        kind: "MT4129".into(),
        vendor: "15b3".into(),
        device: "1021".into(),
        driver: "mlx5_core".into(),
        pcie: PcieControl { relaxed_ordering: Some(true), ..PcieControl::default() },
        ..HcaDetails::default()
    }
}

fn port(hca: &str, link_layer: &str) -> HcaPort {
    HcaPort {
        hca: hca.to_owned(),
        port: 1,
        link_layer: link_layer.to_owned(),
        rate: "400 Gb/sec (4X NDR)".into(),
        state: "ACTIVE".into(),
        phys_state: "LinkUp".into(),
    }
}

fn counters(names: &[&str]) -> Vec<Counter> {
    names.iter().map(|name| Counter { name: (*name).to_owned(), value: 0 }).collect()
}

fn infiniband(hca: &str) -> PortDetails {
    PortDetails {
        hca: hca.to_owned(),
        port: 1,
        active_mtu: Some(4096),
        max_mtu: Some(4096),
        lid: Some(7),
        sm_lid: Some(1),
        counters: counters(&["symbol_error", "link_downed"]),
        ..PortDetails::default()
    }
}

fn roce(hca: &str, number: u8) -> PortDetails {
    let gid =
        |index, text: &str, kind| Gid { index, gid: text.parse().unwrap(), kind: Some(kind), net: "rail2".into() };
    PortDetails {
        hca: hca.to_owned(),
        port: 1,
        gids: vec![
            gid(0, "fe80::1", GidKind::InfiniBandOrRoceV1),
            gid(1, "fe80::1", GidKind::RoceV2),
            gid(2, &format!("::ffff:10.1.2.{number}"), GidKind::InfiniBandOrRoceV1),
            gid(3, &format!("::ffff:10.1.2.{number}"), GidKind::RoceV2),
        ],
        nets: vec!["rail2".into()],
        counters: counters(&["out_of_sequence", "local_ack_timeout_err", "symbol_error"]),
        traffic_class: Some(106),
        ..PortDetails::default()
    }
}

fn interface(name: &str, [a, b, c, d]: [u8; 4]) -> Interface {
    let address = IpAddr::V4(Ipv4Addr::new(a, b, c, d));
    Interface {
        name: name.to_owned(),
        addresses: vec![address],
        prefixes: vec![24],
        loopback: name == "lo",
        mtu: 9000,
        speed_mbps: Some(100_000),
    }
}

fn net(name: &str) -> NetDevice {
    NetDevice {
        name: name.to_owned(),
        state: "up".into(),
        mtu: 9000,
        driver: "mlx5_core".into(),
        ..NetDevice::default()
    }
}

fn net_details(name: &str) -> NetDetails {
    let lossless =
        Lossless { trust: "dscp".into(), pfc: Some(vec![3]), ecn_notifies: Some(vec![3]), ecn_reacts: Some(vec![3]) };
    NetDetails { name: name.to_owned(), lossless, ..NetDetails::default() }
}

fn library(kind: LibraryKind, path: &str, version: &str) -> Library {
    let cuda = if kind == LibraryKind::Nccl { "12.4" } else { "" };
    let (version, cuda) = (version.to_owned(), cuda.to_owned());
    Library { kind, path: path.to_owned(), version, cuda, found: LibrarySource::LoaderCache }
}

fn system() -> System {
    let module = |name: &str| Module { name: name.to_owned(), loaded: true, version: String::new() };
    System {
        modules: ["nvidia", "nvidia_peermem", "nvidia_fs", "ib_uverbs", "mlx5_ib"].map(module).to_vec(),
        nvidia_module: Some(NvidiaModule { version: "550.54.15".into(), open: true }),
        cuda: "12.4".into(),
        fabric: Fabric { nvswitches: 4, manager_runs: Some(true) },
        ofed: Some(Ofed { version: "23.10-0.5.5".into(), source: "/etc/mlnx-release".into() }),
        iommu: Iommu { groups: Some(40), types: vec!["identity".into()] },
        memlock: Some(Memlock { soft: None, hard: None }),
        memory: MemorySettings {
            transparent_huge_pages: "madvise".into(),
            numa_balancing: Some(false),
            shm_bytes: Some(512 << 30),
            shm_free_bytes: Some(500 << 30),
            ..MemorySettings::default()
        },
        cpu: CpuDetails {
            governors: vec!["performance".into()],
            most_khz: Some(3_800_000),
            hardware_most_khz: Some(3_800_000),
            ..CpuDetails::default()
        },
        container: Container {
            rdma_devices: ["uverbs0", "uverbs1", "uverbs2", "rdma_cm"].map(str::to_owned).to_vec(),
            ..Container::default()
        },
        libraries: vec![
            library(LibraryKind::Nccl, "/usr/lib/libnccl.so.2.28.9", "2.28.9"),
            library(LibraryKind::Verbs, "/usr/lib/libibverbs.so.1.14", ""),
            library(LibraryKind::Cufile, "/usr/lib/libcufile.so.1.9", ""),
        ],
        storage: Storage { nvidia_fs: "2.19".into(), cufile_json: "/etc/cufile.json".into(), compatible: Some(true) },
        ..System::default()
    }
}

/// The node `n1`, `n2`, ...
pub(super) fn well(number: u8) -> Inventory {
    let (gpus, hcas) = (["0000:18:00.0", "0000:97:00.0"], ["mlx5_0", "mlx5_1", "mlx5_2"]);
    let bridge = |address: &str| PcieBridge {
        address: address.to_owned(),
        kind: Some(BridgeKind::Downstream),
        acs_redirects: Some(false),
        ..PcieBridge::default()
    };
    let (near, far) = (Some(PcieDistance::Pix), Some(PcieDistance::Sys));
    let links = |a, b| vec![a, b];
    Inventory {
        hostname: format!("n{number}"),
        boot_id: format!("boot-{number}"),
        kernel: "6.8.0-45-generic".into(),
        arch: "x86_64".into(),
        cpus: 96,
        memory_bytes: 1 << 40,
        interfaces: vec![
            interface("lo", [127, 0, 0, 1]),
            interface("eth0", [10, 0, 0, number]),
            interface("eth1", [10, 9, 0, number]),
        ],
        cpu_model: "INTEL(R) XEON(R) PLATINUM 8558".into(),
        gpus: vec!["NVIDIA H100 80GB HBM3".into(); 2],
        driver: "550.54.15".into(),
        hca_ports: vec![port("mlx5_0", "InfiniBand"), port("mlx5_1", "InfiniBand"), port("mlx5_2", "Ethernet")],
        topology: Topology {
            numa_nodes: 2,
            gpus: gpus
                .iter()
                .zip(0..)
                .map(|(at, numa)| Gpu { model: "10de:2330".into(), place: place(at, numa) })
                .collect(),
            hcas: hcas
                .iter()
                .zip([("0000:19:00.0", 0), ("0000:98:00.0", 1), ("0000:99:00.0", 1)])
                .map(|(name, (at, numa))| Hca { name: (*name).to_owned(), place: place(at, numa), nets: Vec::new() })
                .collect(),
            nets: vec![net("eth0"), net("eth1"), net("rail2")],
            distances: vec![vec![near, far, far], vec![far, near, Some(PcieDistance::Node)]],
            gpu_paths: vec![links(None, Some(GpuPath::NvLinks(18))), links(Some(GpuPath::NvLinks(18)), None)],
        },
        gpu_details: gpus.map(gpu_details).to_vec(),
        hca_details: hcas.map(hca_details).to_vec(),
        port_details: vec![infiniband("mlx5_0"), infiniband("mlx5_1"), roce("mlx5_2", number)],
        net_details: vec![NetDetails { name: "eth0".into(), ..NetDetails::default() }, net_details("rail2")],
        bridges: vec![bridge("0000:17:00.0"), bridge("0000:96:00.0")],
        system: system(),
        ..Inventory::default()
    }
}
