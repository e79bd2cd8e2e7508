//! Cases of the checks of GPUs, and of the way between them and HCAs.

use gdrtune_profiles::{topology::GpuPath, vocab::PcieDistance};
use gdrtune_wire::*;

use super::{
    Case,
    Change::{All, Second},
    change::{set, used_gpu, without_gpus, without_hcas},
};

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

fn gpu(node: &mut Inventory) -> &mut GpuDetails {
    &mut node.gpu_details[1]
}

fn each_gpu(node: &mut Inventory, change: fn(&mut GpuDetails)) {
    node.gpu_details.iter_mut().for_each(change);
}

/// The second GPU has no HCA nearer than that.
fn far(node: &mut Inventory, distance: PcieDistance) {
    node.topology.distances[1] = vec![Some(distance); 3];
}

/// The same of a GPU with a chip-to-chip link to its CPU, under this NCCL.
fn linked(node: &mut Inventory, version: &str) {
    far(node, PcieDistance::Node);
    node.gpus[1] = "NVIDIA GH200 480GB".into();
    let libraries = node.system.libraries.iter_mut().filter(|library| library.kind == LibraryKind::Nccl);
    libraries.for_each(|library| library.version = version.into());
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
        "WARN n2: GPU1: the nearest HCA is SYS; NCCL's default allows PXB",
        Second(|n| far(n, PcieDistance::Sys)),
    ),
    ("gdr-distance", "WARN n2: GPU0: the nearest HCA is SYS", Second(|n| n.hca_ports[0].state = "DOWN".into())),
    ("gdr-distance", "WARN n2: GPU1: the nearest HCA is PHB; NCCL's", Second(|n| far(n, PcieDistance::Phb))),
    ("gdr-distance", "WARN n2: GPU1: the nearest HCA is NODE; NCCL's", Second(|n| far(n, PcieDistance::Node))),
    ("gdr-distance", "PASS n2: GPU0: PIX; GPU1: PXB", Second(|n| far(n, PcieDistance::Pxb))),
    (
        "gdr-distance",
        "WARN n2: GPU1: the nearest HCA is PXB; NCCL_NET_GDR_LEVEL=PIX allows less",
        Second(|n| {
            far(n, PcieDistance::Pxb);
            set(n, "NCCL_NET_GDR_LEVEL", "PIX");
        }),
    ),
    (
        "gdr-distance",
        "PASS n2: GPU0: PIX; GPU1: NODE",
        Second(|n| {
            far(n, PcieDistance::Node);
            set(n, "NCCL_NET_GDR_LEVEL", "3");
        }),
    ),
    ("gdr-distance", "SKIP n2: NCCL_NET_GDR_LEVEL=far is no level", Second(|n| set(n, "NCCL_NET_GDR_LEVEL", "far"))),
    (
        "gdr-distance",
        "SKIP n2: GPU1: the nearest HCA is NODE; NCCL takes the distances of NCCL_TOPO_FILE",
        Second(|n| {
            far(n, PcieDistance::Node);
            set(n, "NCCL_TOPO_FILE", "/opt/topo.xml");
        }),
    ),
    ("gdr-distance", "PASS n2: GPU0: PIX; GPU1: NODE", Second(|n| linked(n, "2.27.3"))),
    ("gdr-distance", "WARN n2: GPU1: the nearest HCA is NODE", Second(|n| linked(n, "2.26.2"))),
    (
        "gdr-distance",
        "WARN n2: GPU1: the nearest HCA is NODE",
        Second(|n| {
            linked(n, "2.27.3");
            set(n, "NCCL_NET_GDR_C2C", "0");
        }),
    ),
    ("gdr-distance", "SKIP n2: GPU1: no distance to an HCA", Second(|n| n.topology.distances[1] = vec![None; 3])),
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
            });
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
