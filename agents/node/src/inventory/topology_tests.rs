//! Topologies of recorded trees: folders of devices as the kernel nests them, and the links that lead there.

use std::{fs, os::unix::fs::symlink, path::Path};

use gdrtune_profiles::{topology::GpuPath, vocab::PcieDistance};

use super::{tests::link, *};

pub(super) const NVIDIA: &str = "0x10de";

/// A tree under construction.
pub(super) struct Tree(pub(super) tempfile::TempDir);

impl Tree {
    pub(super) fn new(numa_list: &str) -> Self {
        let tree = Self(tempfile::tempdir().unwrap());
        tree.file("sys/devices/system/node/has_cpu", numa_list);
        tree
    }

    pub(super) fn file(&self, path: &str, text: &str) {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// A link from one place of the tree to another, relative as the kernel's are.
    pub(super) fn link(&self, from: &str, to: &str) {
        let path = self.0.path().join(from);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::create_dir_all(self.0.path().join(to)).unwrap();
        let up = "../".repeat(from.matches('/').count());
        symlink(format!("{up}{to}"), path).unwrap();
    }

    /// A PCI device, by its folder below `sys/devices`.
    pub(super) fn pci(&self, folder: &str, numa: i32, class: &str, vendor: &str, device: &str) {
        let address = folder.rsplit('/').next().unwrap();
        for (name, text) in
            [("numa_node", &*numa.to_string()), ("class", class), ("vendor", vendor), ("device", device)]
        {
            self.file(&format!("sys/devices/{folder}/{name}"), text);
        }
        self.link(&format!("sys/bus/pci/devices/{address}"), &format!("sys/devices/{folder}"));
    }

    pub(super) fn hca(&self, folder: &str, numa: i32, name: &str, net: &str, port: [&str; 3]) {
        self.pci(folder, numa, "0x020700", "0x15b3", "0x1021");
        let own = format!("sys/devices/{folder}/infiniband/{name}");
        let [state, phys_state, rate] = port;
        for (file, text) in
            [("state", state), ("phys_state", phys_state), ("rate", rate), ("link_layer", "InfiniBand\n")]
        {
            self.file(&format!("{own}/ports/1/{file}"), text);
        }
        self.link(&format!("{own}/device"), &format!("sys/devices/{folder}"));
        self.link(&format!("sys/class/infiniband/{name}"), &own);
        self.net(folder, net, "mlx5_core", "up\n", "400000\n");
    }

    pub(super) fn net(&self, folder: &str, name: &str, driver: &str, state: &str, speed: &str) {
        let own = format!("sys/devices/{folder}/net/{name}");
        for (file, text) in [("operstate", state), ("speed", speed), ("mtu", "4092\n")] {
            self.file(&format!("{own}/{file}"), text);
        }
        self.link(&format!("{own}/device"), &format!("sys/devices/{folder}"));
        if !self.0.path().join(format!("sys/devices/{folder}/driver")).exists() {
            self.link(&format!("sys/devices/{folder}/driver"), &format!("sys/bus/pci/drivers/{driver}"));
        }
        self.link(&format!("sys/class/net/{name}"), &own);
    }

    pub(super) fn nvidia(&self, address: &str, uuid: &str) {
        let text = format!("Model: \t\t NVIDIA H200\nIRQ: 1\nGPU UUID: \t {uuid}\n");
        self.file(&format!("proc/driver/nvidia/gpus/{address}/information"), &text);
    }

    fn read(&self, links: &[Link], nvidia_smi: Option<&nvidia_smi::Answer>) -> (Topology, Vec<gdrtune_wire::HcaPort>) {
        let mut reader = Reader::new(self.0.path());
        let read = (reader.topology(links, nvidia_smi).0, reader.hca_ports());
        assert_eq!(reader.unreadable, Vec::<String>::new());
        read
    }
}

/// Two sockets, each with a switch that has a GPU and an HCA behind it; and a NIC on the first one's board.
fn two_sockets() -> Tree {
    let tree = Tree::new("0-1\n");
    for (socket, bridge) in [(0, "17"), (1, "c9")] {
        let switch = format!("pci0000:{bridge}/0000:{bridge}:01.0/0000:a{socket}:00.0");
        tree.pci(&format!("{switch}/0000:b{socket}:00.0/0000:{socket}1:00.0"), socket, "0x030200", NVIDIA, "0x2335");
        let port = ["4: ACTIVE\n", "5: LinkUp\n", "400 Gb/sec (4X NDR)\n"];
        let hca = format!("{switch}/0000:b{socket}:01.0/0000:{socket}2:00.0");
        tree.hca(&hca, socket, &format!("mlx5_{socket}"), &format!("ib{socket}"), port);
        tree.nvidia(&format!("0000:{socket}1:00.0"), &format!("GPU-{socket}"));
    }
    tree.pci("pci0000:00/0000:00:1c.0/0000:03:00.0", 0, "0x030000", "0x1a03", "0x2000");
    tree.pci("pci0000:00/0000:00:1c.1/0000:04:00.0", 0, "0x020000", "0x14e4", "0x1657");
    tree.net("pci0000:00/0000:00:1c.1/0000:04:00.0", "eno1", "tg3", "down\n", "-1\n");
    tree.pci("pci0000:00/0000:00:1c.1/0000:04:00.1", 0, "0x020000", "0x14e4", "0x16af");
    tree.net("pci0000:00/0000:00:1c.1/0000:04:00.1", "eno1v0", "tg3", "up\n", "-1\n");
    tree.link(
        "sys/devices/pci0000:00/0000:00:1c.1/0000:04:00.1/physfn",
        "sys/devices/pci0000:00/0000:00:1c.1/0000:04:00.0",
    );
    tree
}

#[test]
fn a_box_of_two_sockets_with_switches() {
    let (topology, ports) = two_sockets().read(&[], None);
    assert_eq!(topology.numa_nodes, 2);
    let gpus: Vec<_> =
        topology.gpus.iter().map(|g| (g.model.as_str(), g.place.address.as_str(), g.place.numa)).collect();
    assert_eq!(gpus, [("NVIDIA H200", "0000:01:00.0", Some(0)), ("NVIDIA H200", "0000:11:00.0", Some(1))]);
    let hcas: Vec<_> =
        topology.hcas.iter().map(|h| (h.name.as_str(), h.place.address.as_str(), h.place.numa)).collect();
    assert_eq!(hcas, [("mlx5_0", "0000:02:00.0", Some(0)), ("mlx5_1", "0000:12:00.0", Some(1))]);
    assert_eq!(topology.hcas[1].nets, ["ib1"]);
    let (near, far) = (Some(PcieDistance::Pix), Some(PcieDistance::Sys));
    assert_eq!(topology.distances, [[near, far], [far, near]]);
    let nets: Vec<_> =
        topology.nets.iter().map(|n| (n.name.as_str(), n.state.as_str(), n.speed_mbps, n.driver.as_str())).collect();
    assert_eq!(
        nets,
        [
            ("eno1", "down", None, "tg3"),
            ("ib0", "up", Some(400_000), "mlx5_core"),
            ("ib1", "up", Some(400_000), "mlx5_core")
        ]
    );
    assert_eq!((topology.nets[0].place.numa, topology.nets[1].mtu), (Some(0), 4092));
    assert_eq!(
        (ports[0].state.as_str(), ports[0].phys_state.as_str(), ports[0].is_active()),
        ("ACTIVE", "LinkUp", true)
    );
}

#[test]
fn what_nvidia_smi_hides_is_no_gpu_of_ours() {
    let tree = two_sockets();
    let row = |uuid: &str| nvidia_smi::Gpu {
        index: 0,
        uuid: uuid.to_owned(),
        model: "NVIDIA H200".to_owned(),
        capability: None,
    };
    let addresses = |uuid: &str| {
        let answer = nvidia_smi::Answer { gpus: vec![row(uuid)], ..nvidia_smi::Answer::default() };
        let gpus = tree.read(&[], Some(&answer)).0.gpus;
        gpus.into_iter().map(|gpu| gpu.place.address).collect::<Vec<_>>()
    };
    assert_eq!(addresses("GPU-1"), ["0000:11:00.0"]);
    assert_eq!(addresses("GPU-of-another-numbering").len(), 2, "nobody knows which");
}

#[test]
fn nvlinks_are_those_of_the_gpus_that_both_sources_see() {
    let tree = two_sockets();
    let row = |index, uuid: &str| nvidia_smi::Gpu {
        index,
        uuid: uuid.to_owned(),
        model: "NVIDIA H200".to_owned(),
        capability: None,
    };
    let nv18 = Some(GpuPath::NvLinks(18));
    let gpu_paths = vec![vec![None, nv18], vec![nv18, None]];
    let mut answer =
        nvidia_smi::Answer { gpus: vec![row(0, "GPU-0"), row(1, "GPU-1")], gpu_paths, ..Default::default() };
    assert_eq!(tree.read(&[], Some(&answer)).0.gpu_paths, answer.gpu_paths);
    answer.gpus.pop();
    assert_eq!(tree.read(&[], Some(&answer)).0.gpu_paths, Vec::<Vec<_>>::new(), "of GPUs that are hidden from us");
}

#[test]
fn links_are_read_now_and_at_most() {
    let tree = two_sockets();
    let folder = "sys/bus/pci/devices/0000:02:00.0";
    for (name, text) in [
        ("current_link_speed", "16.0 GT/s PCIe\n"),
        ("current_link_width", "8\n"),
        ("max_link_speed", "32.0 GT/s PCIe\n"),
        ("max_link_width", "16\n"),
    ] {
        tree.file(&format!("{folder}/{name}"), text);
    }
    let (topology, _) = tree.read(&[], None);
    assert_eq!(topology.hcas[0].place.link.to_string(), "16 GT/s x8 of 32 GT/s x16");
    assert_eq!(topology.hcas[1].place.link.to_string(), "?", "files that are not there leave no note");
}

#[test]
fn a_virtual_machine_without_a_pcie_tree() {
    let tree = Tree::new("0\n");
    tree.pci("pci0000:00/0000:00:1e.0", -1, "0x030200", NVIDIA, "0x2335");
    tree.nvidia("0000:00:1e.0", "GPU-0");
    let port = ["4: ACTIVE\n", "5: LinkUp\n", "200 Gb/sec (4X HDR)\n"];
    tree.hca("pci0000:00/0000:00:1f.0", -1, "mlx5_0", "eth1", port);
    // A paravirtual device sits below its PCI function; a bare one of the hypervisor's bus has no PCI address.
    tree.pci("pci0000:00/0000:00:05.0", -1, "0x020000", "0x1af4", "0x1041");
    tree.net("pci0000:00/0000:00:05.0/virtio0", "eth0", "virtio_net", "up\n", "-1\n");
    tree.hca("LNXSYSTM:00/VMBUS:00/7c1e", -1, "mana_0", "eth2", port);
    tree.net("virtual", "docker7", "none", "up\n", "10000\n");
    fs::remove_file(tree.0.path().join("sys/devices/virtual/net/docker7/device")).unwrap();
    let (topology, _) = tree.read(&[], None);
    assert_eq!(topology.gpus[0].place.numa, None);
    let hcas: Vec<_> = topology.hcas.iter().map(|h| (h.name.as_str(), h.place.address.as_str())).collect();
    assert_eq!(hcas, [("mana_0", ""), ("mlx5_0", "0000:00:1f.0")]);
    assert_eq!(topology.distances, [[None, Some(PcieDistance::Phb)]]);
    let nets: Vec<_> = topology.nets.iter().map(|n| (n.name.as_str(), n.place.address.as_str())).collect();
    assert_eq!(nets, [("eth0", "0000:00:05.0"), ("eth1", "0000:00:1f.0"), ("eth2", "")], "without a container's");
    assert_eq!(tree.read(&[link("docker7", &["10.0.0.1"])], None).0.nets.len(), 4, "one that has an address");
}

#[test]
fn a_desktop_without_a_driver_and_a_machine_without_anything() {
    let tree = Tree::new("0\n");
    tree.pci("pci0000:00/0000:00:02.0", -1, "0x030000", "0x8086", "0x4680");
    tree.pci("pci0000:00/0000:00:01.0/0000:01:00.0", -1, "0x030000", NVIDIA, "0x2684");
    tree.pci("pci0000:00/0000:00:01.0/0000:01:00.1", -1, "0x040300", NVIDIA, "0x22ba");
    tree.pci("pci0000:00/0000:00:1c.0/0000:05:00.0", -1, "0x020000", "0x8086", "0x15f3");
    tree.net("pci0000:00/0000:00:1c.0/0000:05:00.0", "enp5s0", "igc", "up\n", "2500\n");
    let (topology, ports) = tree.read(&[], None);
    let gpus: Vec<_> = topology.gpus.iter().map(|g| (g.model.as_str(), g.place.address.as_str())).collect();
    assert_eq!(gpus, [("10de:2684", "0000:01:00.0")]);
    assert_eq!((topology.distances, ports.len(), topology.nets[0].speed_mbps), (vec![vec![]], 0, Some(2500)));

    let mut reader = Reader::new(Path::new("/nowhere"));
    assert_eq!((reader.topology(&[], None).0, reader.unreadable), (Topology::default(), vec![]));
}
