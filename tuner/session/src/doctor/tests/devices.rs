//! Cases of the checks of GPUs, HCAs, their links and ports.

use std::net::Ipv6Addr;

use gdrtune_profiles::{
    topology::{GpuPath, Lanes, PcieLink},
    vocab::{Environment, PcieDistance},
};
use gdrtune_wire::*;

use super::{
    Case,
    Change::{All, Facts, Second},
    well::FULL,
};
use crate::doctor::{Node, facts::gpu_names};

fn set(node: &mut Inventory, name: &str, value: &str) {
    node.site_env = std::mem::take(&mut node.site_env).with(name, value);
}

fn without_gpus(node: &mut Inventory) {
    node.gpus.clear();
    node.gpu_details.clear();
    node.driver.clear();
    node.topology.gpus.clear();
    node.topology.distances.clear();
    node.topology.gpu_paths.clear();
}

fn without_hcas(node: &mut Inventory) {
    node.hca_ports.clear();
    node.hca_details.clear();
    node.port_details.clear();
    node.topology.hcas.clear();
    node.topology.distances.iter_mut().for_each(Vec::clear);
}

/// As of a kernel that tells nothing of modules.
fn without_modules(node: &mut Inventory) {
    node.system.modules.clear();
}

fn unload(node: &mut Inventory, module: &str) {
    node.system.modules.retain(|known| known.name != module);
}

fn load(node: &mut Inventory, module: &str) {
    node.system.modules.push(Module { name: module.into(), loaded: true, version: String::new() });
}

fn link(mtps: u32, count: u8) -> PcieLink {
    PcieLink { current: Some(Lanes { mtps, count }), ..FULL }
}

fn gpu(node: &mut Inventory) -> &mut GpuDetails {
    &mut node.gpu_details[1]
}

fn each_gpu(node: &mut Inventory, change: fn(&mut GpuDetails)) {
    node.gpu_details.iter_mut().for_each(change);
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

fn library(node: &mut Inventory, kind: LibraryKind) -> &mut Library {
    node.system.libraries.iter_mut().find(|library| library.kind == kind).unwrap()
}

fn used_gpu(node: &mut Inventory) {
    let devices = vec![UsedDevice::Gpu(1), UsedDevice::Hca("mlx5_0".into())];
    node.device_users.push(DeviceUser { pid: 4711, user: "ann".into(), command: "python3".into(), devices });
}

pub(super) const CASES: &[Case] = &[
    ("gpu-driver-loaded", "SKIP n2: no NVIDIA GPU", Second(without_gpus)),
    (
        "gpu-driver-loaded",
        "FAIL n2: 2 on the PCI bus, and no driver is loaded",
        Second(|n| {
            n.driver.clear();
            n.gpus.clear();
        }),
    ),
    ("gpu-nouveau", "FAIL n2: nouveau is loaded", Second(|n| load(n, "nouveau"))),
    (
        "gpu-nouveau",
        "SKIP n2: the kernel's modules are not known",
        Second(|n| {
            without_modules(n);
            n.driver.clear();
        }),
    ),
    ("gpu-nouveau", "SKIP n2: no NVIDIA GPU", Second(without_gpus)),
    ("gpu-driver-version", "FAIL n2: driver 460.91.03", Second(|n| n.driver = "460.91.03".into())),
    ("gpu-driver-version", "PASS n2: driver 470.42.01", Second(|n| n.driver = "470.42.01".into())),
    ("gpu-driver-version", "SKIP n2: no driver is loaded", Second(|n| n.driver.clear())),
    ("gpu-driver-version", "SKIP n2: `weird` is no version", Second(|n| n.driver = "weird".into())),
    ("gpu-cuda-version", "FAIL n2: CUDA 11.3", Second(|n| n.system.cuda = "11.3".into())),
    ("gpu-cuda-version", "PASS n2: CUDA 11.4", Second(|n| n.system.cuda = "11.4".into())),
    ("gpu-cuda-version", "SKIP n2: neither nvidia-smi", Second(|n| n.system.cuda.clear())),
    (
        "gpu-class",
        "FAIL n2: GPU[0-1]: NVIDIA GeForce RTX 4090",
        Second(|n| {
            n.gpus = vec!["NVIDIA GeForce RTX 4090".into(); 2];
        }),
    ),
    (
        "gpu-class",
        "WARN n2: GPU[0-1]: NVIDIA GeForce RTX 4090",
        Second(|n| {
            without_hcas(n);
            n.gpus = vec!["NVIDIA GeForce RTX 4090".into(); 2];
        }),
    ),
    (
        "gpu-class",
        "SKIP n2: GPU1: NVIDIA X900: a model that is not known here",
        Second(|n| n.gpus[1] = "NVIDIA X900".into()),
    ),
    (
        "gpu-clock-slowdown",
        "FAIL n2: GPU1: hw_slowdown hw_thermal_slowdown",
        Second(|n| {
            gpu(n).clock_limits = Some(ClockLimits(0x8 | 0x40 | 0x1));
        }),
    ),
    ("gpu-clock-slowdown", "PASS n[1-3]: none", Second(|n| gpu(n).clock_limits = Some(ClockLimits(0x4)))),
    (
        "gpu-clock-slowdown",
        "SKIP n2: nvidia-smi does not tell what holds",
        Second(|n| each_gpu(n, |gpu| gpu.clock_limits = None)),
    ),
    (
        "gpu-clock-setting",
        "WARN n2: GPU1: applications_clocks_setting",
        Second(|n| {
            gpu(n).clock_limits = Some(ClockLimits(0x2));
        }),
    ),
    ("gpu-clock-setting", "SKIP n2: nvidia-smi does not tell", Second(|n| each_gpu(n, |gpu| gpu.clock_limits = None))),
    ("gpu-persistence", "WARN n2: GPU1: off", Second(|n| gpu(n).persistence = Some(false))),
    (
        "gpu-persistence",
        "SKIP n2: nvidia-smi does not tell persistence mode",
        Second(|n| each_gpu(n, |gpu| gpu.persistence = None)),
    ),
    ("gpu-ecc", "WARN n2: GPU1: off", Second(|n| gpu(n).ecc = Some(false))),
    ("gpu-ecc", "SKIP n2: nvidia-smi does not tell ECC", Second(|n| each_gpu(n, |gpu| gpu.ecc = None))),
    ("gpu-mig", "FAIL n2: GPU1: on", Second(|n| gpu(n).mig = Some(true))),
    ("gpu-mig", "SKIP n2: nvidia-smi does not tell MIG", Second(|n| each_gpu(n, |gpu| gpu.mig = None))),
    ("gpu-compute-mode", "FAIL n2: GPU1: Prohibited", Second(|n| gpu(n).compute_mode = "Prohibited".into())),
    (
        "gpu-compute-mode",
        "SKIP n2: nvidia-smi does not tell compute mode",
        Second(|n| each_gpu(n, |gpu| gpu.compute_mode.clear())),
    ),
    ("gpu-bar1", "WARN n2: GPU1: 256M for 81559 MiB of memory", Second(|n| gpu(n).bar1_bytes = Some(256 << 20))),
    (
        "gpu-bar1",
        "SKIP n2: nvidia-smi does not tell the size of BAR1",
        Second(|n| each_gpu(n, |gpu| gpu.bar1_bytes = None)),
    ),
    (
        "gpu-fabric",
        "FAIL n2: GPU1: registration is In Progress",
        Second(|n| gpu(n).fabric_state = "In Progress".into()),
    ),
    (
        "gpu-fabric",
        "FAIL n2: 4 NVSwitches, and no fabric manager runs",
        Second(|n| {
            each_gpu(n, |gpu| gpu.fabric_state.clear());
            n.system.fabric.manager_runs = Some(false);
        }),
    ),
    (
        "gpu-fabric",
        "PASS n2: 4 NVSwitches, and a fabric manager runs",
        Second(|n| each_gpu(n, |gpu| gpu.fabric_state.clear())),
    ),
    (
        "gpu-fabric",
        "SKIP n2: no NVSwitch shows",
        Second(|n| {
            each_gpu(n, |gpu| gpu.fabric_state = "N/A".into());
            n.system.fabric.nvswitches = 0;
        }),
    ),
    (
        "gpu-fabric",
        "SKIP n2: 4 NVSwitches; whether",
        Second(|n| {
            each_gpu(n, |gpu| gpu.fabric_state.clear());
            n.system.fabric.manager_runs = None;
        }),
    ),
    (
        "gpu-nvlink",
        "WARN n2: links to the other GPUs: GPU0: 17; others: 18",
        Second(|n| {
            n.topology.gpu_paths[0][1] = Some(GpuPath::NvLinks(17));
        }),
    ),
    (
        "gpu-nvlink",
        "PASS n2: none has any",
        Second(|n| {
            n.topology.gpu_paths[0][1] = Some(GpuPath::Pcie(PcieDistance::Sys));
            n.topology.gpu_paths[1][0] = Some(GpuPath::Pcie(PcieDistance::Sys));
        }),
    ),
    ("gpu-nvlink", "SKIP n2: nvidia-smi does not tell the ways", Second(|n| n.topology.gpu_paths.clear())),
    ("gpu-nvlink", "SKIP n2: fewer than two GPUs", Second(without_gpus)),
    (
        "gdr-path",
        "FAIL n2: no peer memory module is loaded, and no DMA-BUF (proprietary module)",
        Second(|n| {
            unload(n, "nvidia_peermem");
            each_gpu(n, |gpu| gpu.dmabuf = DmaBuf { possible: Some(false), why: "proprietary module".into() });
        }),
    ),
    ("gdr-path", "PASS n2: DMA-BUF", Second(|n| unload(n, "nvidia_peermem"))),
    (
        "gdr-path",
        "FAIL n2: no peer memory module",
        Second(|n| {
            unload(n, "nvidia_peermem");
            set(n, "NCCL_DMABUF_ENABLE", "0");
        }),
    ),
    (
        "gdr-path",
        "SKIP n2: no peer memory module, and whether DMA-BUF works is not known",
        Second(|n| {
            unload(n, "nvidia_peermem");
            each_gpu(n, |gpu| gpu.dmabuf = DmaBuf::default());
        }),
    ),
    (
        "gdr-path",
        "SKIP n2: the kernel's modules are not known",
        Second(|n| {
            without_modules(n);
            each_gpu(n, |gpu| gpu.dmabuf = DmaBuf::default());
        }),
    ),
    ("gdr-path", "SKIP n2: no HCA", Second(without_hcas)),
    (
        "gdr-path-alike",
        "WARN n[1-3]: n[1,3]: nvidia-peermem, DMA-BUF; n2: DMA-BUF",
        Second(|n| unload(n, "nvidia_peermem")),
    ),
    ("gdr-path-alike", "SKIP n[1-3]: fewer than two nodes tell it", All(without_hcas)),
    (
        "gdr-legacy-module",
        "WARN n2: nv_peer_mem is loaded",
        Second(|n| {
            unload(n, "nvidia_peermem");
            load(n, "nv_peer_mem");
        }),
    ),
    ("gdr-legacy-module", "FAIL n2: nv_peer_mem is loaded beside nvidia_peermem", Second(|n| load(n, "nv_peer_mem"))),
    ("gdr-legacy-module", "SKIP n2: the kernel's modules are not known", Second(without_modules)),
    (
        "gdr-distance",
        "WARN n2: GPU1: the nearest HCA is across sockets",
        Second(|n| {
            n.topology.distances[1] = vec![Some(PcieDistance::Sys); 3];
        }),
    ),
    (
        "gdr-distance",
        "WARN n2: GPU0: the nearest HCA is across sockets",
        Second(|n| n.hca_ports[0].state = "DOWN".into()),
    ),
    ("gdr-distance", "SKIP n2: no distance is known", Second(|n| n.topology.distances = vec![vec![None; 3]; 2])),
    (
        "gdr-distance",
        "SKIP n2: no HCA is up",
        Second(|n| n.hca_ports.iter_mut().for_each(|port| port.state = "DOWN".into())),
    ),
    (
        "gdr-topology",
        "WARN n2: GPU[0-1]: how far the HCAs are is not known",
        Second(|n| {
            n.topology.distances = vec![vec![None; 3]; 2];
        }),
    ),
    (
        "gdr-topology",
        "WARN n2: all devices are at one host bridge, without NUMA nodes",
        Second(|n| {
            n.topology.distances = vec![vec![Some(PcieDistance::Phb); 3]; 2];
            n.topology.gpus.iter_mut().for_each(|gpu| gpu.place.numa = None);
        }),
    ),
    (
        "gdr-topology",
        "PASS n2: GPU[0-1]: how far the HCAs are is not known; NCCL_TOPO_FILE tells it",
        Second(|n| {
            n.topology.distances = vec![vec![None; 3]; 2];
            set(n, "NCCL_TOPO_FILE", "/opt/topo.xml");
        }),
    ),
    ("gdr-topology", "SKIP n2: no PCI addresses of GPUs are known", Second(|n| n.topology.distances.clear())),
    ("gdr-acs", "FAIL n2: ACS redirects at 0000:17:00.0", Second(|n| n.bridges[0].acs_redirects = Some(true))),
    (
        "gdr-acs",
        "PASS n2: no switch",
        Second(|n| {
            n.bridges.iter_mut().for_each(|bridge| {
                bridge.kind = Some(BridgeKind::RootPort);
                bridge.acs_redirects = Some(true);
            })
        }),
    ),
    (
        "gdr-acs",
        "SKIP n2: only root may read it",
        Second(|n| n.bridges.iter_mut().for_each(|bridge| bridge.acs_redirects = None)),
    ),
    ("gdr-acs", "SKIP n2: no bridge shows", Second(|n| n.bridges.clear())),
    (
        "gdr-iommu",
        "WARN n2: it translates: DMA-FQ",
        Second(|n| n.system.iommu.types = vec!["identity".into(), "DMA-FQ".into()]),
    ),
    ("gdr-iommu", "PASS n2: off", Second(|n| n.system.iommu = Iommu { groups: Some(0), types: Vec::new() })),
    ("gdr-iommu", "SKIP n2: its groups cannot be read", Second(|n| n.system.iommu = Iommu::default())),
    ("gdr-iommu", "SKIP n2: it is on, and the types", Second(|n| n.system.iommu.types.clear())),
    ("gdr-relaxed-ordering", "WARN n2: mlx5_1: off", Second(|n| n.hca_details[1].pcie.relaxed_ordering = Some(false))),
    (
        "gdr-relaxed-ordering",
        "WARN n2: NCCL_IB_PCI_RELAXED_ORDERING=0",
        Second(|n| set(n, "NCCL_IB_PCI_RELAXED_ORDERING", "0")),
    ),
    (
        "gdr-relaxed-ordering",
        "SKIP n2: only root may read",
        Second(|n| {
            n.hca_details.iter_mut().for_each(|hca| hca.pcie = PcieControl::default());
        }),
    ),
    (
        "gdr-gdrcopy",
        "WARN n2: NCCL_GDRCOPY_ENABLE=1, and gdrdrv is not loaded",
        Second(|n| set(n, "NCCL_GDRCOPY_ENABLE", "1")),
    ),
    (
        "gdr-gdrcopy",
        "SKIP n[1-3]: the kernel's modules are not known",
        All(|n| {
            set(n, "NCCL_GDRCOPY_ENABLE", "1");
            without_modules(n);
        }),
    ),
    (
        "gdr-gdrcopy",
        "PASS n[1-3]: gdrdrv is loaded",
        All(|n| {
            set(n, "NCCL_GDRCOPY_ENABLE", "1");
            load(n, "gdrdrv");
        }),
    ),
    (
        "gdr-storage",
        "WARN n2: nvidia-fs is not loaded: cuFile goes through the CPU",
        Second(|n| {
            unload(n, "nvidia_fs");
            n.system.storage.nvidia_fs.clear();
        }),
    ),
    (
        "gdr-storage",
        "FAIL n2: nvidia-fs is not loaded, and cufile.json forbids",
        Second(|n| {
            unload(n, "nvidia_fs");
            n.system.storage =
                Storage { nvidia_fs: String::new(), compatible: Some(false), ..n.system.storage.clone() };
        }),
    ),
    (
        "gdr-storage",
        "WARN n2: nvidia-fs 2.19 is loaded, and neither libcufile nor cufile.json",
        Second(|n| {
            n.system.storage.cufile_json.clear();
            n.system.libraries.retain(|library| library.kind != LibraryKind::Cufile);
        }),
    ),
    (
        "gdr-storage",
        "SKIP n2: GPUDirect Storage is not installed",
        Second(|n| {
            unload(n, "nvidia_fs");
            n.system.storage = Storage::default();
            n.system.libraries.retain(|library| library.kind != LibraryKind::Cufile);
        }),
    ),
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
    ("hca-ofed", "SKIP n2: not installed", Second(|n| n.system.ofed = None)),
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
        "SKIP n2: a recorded tree has no device files",
        Facts(|facts| {
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
    ("host-busy", "WARN n2: pid 4711 (ann, python3) on GPU 1, HCA mlx5_0", Second(used_gpu)),
    (
        "host-busy",
        "SKIP n2: neither GPU nor HCA",
        Second(|n| {
            without_gpus(n);
            without_hcas(n);
        }),
    ),
];

#[test]
fn numbers_of_gpus_are_folded() {
    assert_eq!(gpu_names([0, 1, 2, 7]), "GPU[0-2,7]");
    assert_eq!(Environment::new().with("A", "b").get("A"), Some("b"));
}
