//! The way between GPUs and HCAs: GPUDirect RDMA, and GPUDirect Storage.

use gdrtune_profiles::{
    bindings::{GDR_LEVEL, USUAL_GDR_LEVEL, gdr_reaches},
    version::Version,
    vocab::PcieDistance,
};
use gdrtune_wire::BridgeKind;

use super::{
    super::facts::{by_device, gpu_names},
    Check, Facts, Fault, Node, Outcome, Outcomes, Scope, no_gpu, no_hca, word,
};
use crate::topology::{is_flat, nearest};

pub(super) const CHECKS: &[Check] = &[
    Check::node(
        [
            "gdr-path",
            "HCAs can register GPU memory",
            "Whether nvidia-peermem is loaded, or the GPUs' memory can be exported as DMA-BUF (open kernel module, Linux 5.12, CUDA 11.7). Without either on *both* ends NCCL copies through host memory, and says so in an INFO line only.",
            "`modprobe nvidia-peermem`, and its name in /etc/modules-load.d/; or NVIDIA's open kernel module on Linux 5.12 or newer, for DMA-BUF",
            "NCCL troubleshooting guide, GPU-to-NIC communication; src/transport/net_ib/gdr.cc; NVIDIA/nccl issue 897",
        ],
        path,
    ),
    Check::all(
        Scope::Cluster,
        [
            "gdr-path-alike",
            "GPU memory is registered the same way on all nodes",
            "Which of nvidia-peermem and DMA-BUF each node has. Nodes of both kinds work, but not at the same speed, and one side without either takes GPUDirect from both.",
            "load the same module on all nodes: `modprobe nvidia-peermem`",
            "NVIDIA/nccl issue 897; NCCL docs, NCCL_DMABUF_ENABLE",
        ],
        path_alike,
    ),
    Check::node(
        [
            "gdr-legacy-module",
            "the peer memory module is the driver's own",
            "Whether the old nv_peer_mem is loaded. It is not maintained since driver 470 brings nvidia-peermem, and both at once fight.",
            "remove the package nv_peer_mem, then `modprobe nvidia-peermem`",
            "NVIDIA driver README, GPUDirect RDMA Peer Memory Client; Mellanox/nv_peer_memory",
        ],
        legacy_module,
    ),
    Check::node(
        [
            "gdr-distance",
            "every GPU has a working HCA that GPUDirect RDMA reaches",
            "PCI distances from each GPU to the nearest HCA that is up, against NCCL_NET_GDR_LEVEL. Where it is not set NCCL uses GPUDirect RDMA up to PXB: over switches, but neither through the CPU (PHB, NODE) nor across sockets (SYS). GPUs with a chip-to-chip link to their CPU also reach its HCAs, since 2.27. A file in NCCL_TOPO_FILE has other distances.",
            "NCCL_NET_GDR_LEVEL=PHB (across sockets SYS), where `gdrtune gdr -w HOSTS` measures a gain with it; in a virtual machine first NCCL_TOPO_FILE; or put the HCA into a slot at the GPU's switch",
            "NCCL docs, NCCL_NET_GDR_LEVEL, NCCL_NET_GDR_C2C; src/graph/paths.cc, ncclTopoCheckGdr; NVIDIA/nccl issue 1151",
        ],
        distance,
    ),
    Check::node(
        [
            "gdr-topology",
            "the PCI topology is that of the hardware",
            "Whether distances are known, and not all devices at one bridge without NUMA nodes, as hypervisors show them. NCCL pairs GPUs and HCAs by what it sees.",
            "have jobs set NCCL_TOPO_FILE to the provider's topology file, and mount /sys into containers",
            "NCCL troubleshooting guide, Topology detection; Azure/aks-rdma-infiniband issue 36",
        ],
        topology,
    ),
    Check::node(
        [
            "gdr-acs",
            "PCI switches let peers talk straight",
            "ACS on the switch ports above GPUs and HCAs. Where it redirects, every packet between GPU and HCA goes up to the CPU: a fraction of the bandwidth, or a hang. In virtual machines it must be on, and ATS helps.",
            "switch ACS off in the BIOS, or after each boot: `sudo setpci -s ADDRESS ECAP_ACS+0x6.w=0000`",
            "NCCL troubleshooting guide, PCI Access Control Services",
        ],
        acs,
    ),
    Check::node(
        [
            "gdr-iommu",
            "the IOMMU passes addresses through",
            "The IOMMU's groups of GPUs and HCAs. One that translates puts every transaction through its tables, and turns peer-to-peer off or slow.",
            "boot with iommu=pt (x86: intel_iommu=on or amd_iommu=on; ARM: iommu.passthrough=1), or switch it off in the BIOS",
            "NCCL troubleshooting guide, PCI Access Control Services; Linux kernel-parameters.txt, iommu",
        ],
        iommu,
    ),
    Check::node(
        [
            "gdr-relaxed-ordering",
            "HCAs may relax the order of their writes",
            "The HCA's PCIe setting and NCCL_IB_PCI_RELAXED_ORDERING. In strict order GPUDirect RDMA is slow on many CPUs, and in virtual machines much slower.",
            "`mlxconfig -d DEVICE set PCI_WR_ORDERING=1`, and leave NCCL_IB_PCI_RELAXED_ORDERING alone",
            "NCCL docs, NCCL_IB_PCI_RELAXED_ORDERING; src/transport/net_ib/init.cc",
        ],
        relaxed_ordering,
    ),
    Check::node(
        [
            "gdr-gdrcopy",
            "GDRCopy is there where it is asked for",
            "Whether gdrdrv is loaded where NCCL_GDRCOPY_ENABLE=1. Without it the setting does nothing.",
            "install and load gdrdrv (NVIDIA/gdrcopy), or take NCCL_GDRCOPY_ENABLE away",
            "NVIDIA/gdrcopy; NCCL src/gdrwrap.cc",
        ],
        gdrcopy,
    ),
    Check::node(
        [
            "gdr-storage",
            "GPUDirect Storage goes around the CPU",
            "Where cuFile is installed: whether nvidia-fs is loaded, and cuFile has its settings. Without the module every read is copied by the CPU, without a word.",
            "install and load nvidia-fs: `modprobe nvidia-fs`; `/usr/local/cuda/gds/tools/gdscheck -p` tells the rest",
            "GPUDirect Storage installation and troubleshooting guide",
        ],
        storage,
    ),
];

/// Ways to register GPU memory that a node has; empty where it has none, `Err` where that cannot be known.
fn ways(node: &Node) -> Result<Vec<&'static str>, &'static str> {
    const MODULES: [(&str, &str); 3] = [
        ("nvidia_peermem", "nvidia-peermem"),
        ("nv_peer_mem", "nv_peer_mem"),
        // AWS's driver has a client of its own.
        ("efa_nv_peermem", "efa_nv_peermem"),
    ];
    let loaded = MODULES.iter().filter(|(module, _)| node.has_module(module)).map(|(_, name)| *name);
    let mut ways: Vec<&'static str> = loaded.collect();
    let exports: Vec<Option<bool>> = node.inventory.gpu_details.iter().map(|gpu| gpu.dmabuf.possible).collect();
    let is_off = node.setting("NCCL_DMABUF_ENABLE") == Some("0");
    if !is_off && !exports.is_empty() && exports.iter().all(|possible| *possible == Some(true)) {
        ways.push("DMA-BUF");
    }
    let are_exports_known = is_off || exports.contains(&Some(false));
    match (ways.is_empty(), node.knows_modules(), are_exports_known) {
        (false, ..) | (true, true, true) => Ok(ways),
        (true, false, _) => Err("the kernel's modules are not known"),
        (true, true, false) => Err("no peer memory module, and whether DMA-BUF works is not known"),
    }
}

/// Why a check of the way between GPUs and HCAs has nothing to look at.
fn lacks_devices(node: &Node) -> Option<Outcome> {
    if !node.has_gpus() {
        return Some(no_gpu());
    }
    (!node.has_hcas()).then(no_hca)
}

fn path(node: &Node) -> Outcome {
    if let Some(lacking) = lacks_devices(node) {
        return lacking;
    }
    match ways(node) {
        Err(why) => Outcome::skip(why),
        Ok(ways) if ways.is_empty() => {
            let mut why: Vec<&str> = node.inventory.gpu_details.iter().map(|gpu| gpu.dmabuf.why.as_str()).collect();
            why.dedup();
            let why: Vec<&str> = why.into_iter().filter(|why| !why.is_empty()).collect();
            let why = if why.is_empty() { String::new() } else { format!(" ({})", why.join("; ")) };
            Outcome::fail(format!("no peer memory module is loaded, and no DMA-BUF{why}"))
        }
        Ok(ways) => Outcome::pass(ways.join(", ")),
    }
}

fn path_alike(facts: &Facts) -> Outcomes {
    let of = |node: &Node| {
        let found = if lacks_devices(node).is_some() { return None } else { ways(node).ok()? };
        Some(if found.is_empty() { "neither".to_owned() } else { found.join(", ") })
    };
    super::cluster::alike(facts, of, Fault::warn)
}

fn legacy_module(node: &Node) -> Outcome {
    if !node.has_gpus() {
        return no_gpu();
    }
    if !node.knows_modules() {
        return Outcome::skip("the kernel's modules are not known");
    }
    match (node.has_module("nv_peer_mem"), node.has_module("nvidia_peermem")) {
        (true, true) => Outcome::fail("nv_peer_mem is loaded beside nvidia_peermem"),
        (true, false) => Outcome::warn("nv_peer_mem is loaded"),
        (false, _) => Outcome::pass("nv_peer_mem is not loaded"),
    }
}

fn distance(node: &Node) -> Outcome {
    if let Some(lacking) = lacks_devices(node) {
        return lacking;
    }
    let machine = &node.machine;
    let near: Vec<_> = (0..machine.gpus.len()).map(|gpu| nearest(machine, gpu)).collect();
    if near.iter().all(Option::is_none) {
        let are_down = machine.hcas.iter().all(gdrtune_profiles::topology::Hca::is_down);
        return Outcome::skip(if are_down { "no HCA is up" } else { "no distance is known" });
    }
    let level = node.setting(GDR_LEVEL).map(str::trim);
    let mut far = Vec::new();
    for (gpu, near) in near.iter().enumerate() {
        let Some(near) = near else { continue };
        let Some(is_reached) = gdr_reaches(level.unwrap_or(USUAL_GDR_LEVEL), near.distance) else {
            return Outcome::skip(format!("{GDR_LEVEL}={} is no level that is known here", level.unwrap_or_default()));
        };
        let is_at_cpu = near.distance != PcieDistance::Sys && level.is_none() && goes_through_cpu(node, gpu);
        if !is_reached && !is_at_cpu {
            far.push((gpu, near.distance));
        }
    }
    let said = |(gpu, distance): &(usize, PcieDistance)| {
        (format!("GPU{gpu}"), format!("the nearest HCA is {}", distance.nccl_name()))
    };
    let evidence = by_device(far.iter().map(said));
    let Some(farthest) = far.iter().map(|(_, distance)| *distance).max() else {
        let unknown = gpu_names(near.iter().enumerate().filter(|(_, near)| near.is_none()).map(|(gpu, _)| gpu));
        if !unknown.is_empty() {
            return Outcome::skip(format!("{unknown}: no distance to an HCA that is up is known"));
        }
        let word = |(gpu, near): (usize, &Option<crate::topology::Nearest>)| {
            near.as_ref().map(|near| (format!("GPU{gpu}"), near.distance.nccl_name().to_owned()))
        };
        return Outcome::pass(by_device(near.iter().enumerate().filter_map(word)));
    };
    if node.setting("NCCL_TOPO_FILE").is_some() {
        return Outcome::skip(format!("{evidence}; NCCL takes the distances of NCCL_TOPO_FILE instead"));
    }
    let allowed = match level {
        Some(level) => format!("{GDR_LEVEL}={level} allows less"),
        None => format!("NCCL's default allows {USUAL_GDR_LEVEL}"),
    };
    Fault::warn(format!("{evidence}; {allowed}")).fixed_by(reach(node, farthest)).into()
}

/// The first NCCL that goes through the CPU of a chip-to-chip link unasked (NCCL docs, `NCCL_NET_GDR_C2C`).
const GOES_THROUGH_CPU: Version = Version::new(2, 27);

/// Whether NCCL reaches the HCAs at a GPU's CPU where no level is set: over a chip-to-chip link, which only the model tells of.
fn goes_through_cpu(node: &Node, gpu: usize) -> bool {
    const LINKED: [&str; 3] = ["GH200", "GB200", "GB300"];
    let is_linked = node.gpu_models().any(|(at, model)| at == gpu && LINKED.iter().any(|known| model.contains(known)));
    let mut versions = node.nccl_libraries().filter_map(|library| library.version.parse::<Version>().ok());
    is_linked && node.setting("NCCL_NET_GDR_C2C") != Some("0") && versions.all(|version| version >= GOES_THROUGH_CPU)
}

/// How GPUDirect RDMA gets to an HCA that is so far.
fn reach(node: &Node, distance: PcieDistance) -> String {
    let level = if distance == PcieDistance::Sys { "SYS" } else { "PHB" };
    let raise = format!("{GDR_LEVEL}={level}, where `gdrtune gdr -w HOSTS` measures a gain with it");
    // Hardware has a port above every device.
    if node.inventory.bridges.is_empty() || is_flat(&node.machine) {
        format!(
            "as in a virtual machine: have jobs set NCCL_TOPO_FILE to the provider's topology file; without one {raise}"
        )
    } else {
        format!("{raise}; or put the HCA into a slot at the GPU's switch")
    }
}

fn topology(node: &Node) -> Outcome {
    if let Some(lacking) = lacks_devices(node) {
        return lacking;
    }
    let machine = &node.machine;
    let has_file = node.setting("NCCL_TOPO_FILE").is_some();
    let unknown = gpu_names(
        machine.to_hcas.iter().enumerate().filter(|(_, row)| row.iter().all(Option::is_none)).map(|(gpu, _)| gpu),
    );
    let evidence = if machine.to_hcas.is_empty() {
        return Outcome::skip("no PCI addresses of GPUs are known");
    } else if !unknown.is_empty() {
        format!("{unknown}: how far the HCAs are is not known")
    } else if is_flat(machine) {
        "all devices are at one host bridge, without NUMA nodes".to_owned()
    } else {
        return Outcome::pass("distances are known");
    };
    if has_file {
        return Outcome::pass(format!("{evidence}; NCCL_TOPO_FILE tells it"));
    }
    Outcome::warn(evidence)
}

fn acs(node: &Node) -> Outcome {
    if let Some(lacking) = lacks_devices(node) {
        return lacking;
    }
    // What is at a root port goes through the root anyway.
    let switches = || node.inventory.bridges.iter().filter(|bridge| bridge.kind != Some(BridgeKind::RootPort));
    let redirecting: Vec<&str> =
        switches().filter(|bridge| bridge.acs_redirects == Some(true)).map(|bridge| bridge.address.as_str()).collect();
    if !redirecting.is_empty() {
        let shown: Vec<&str> = redirecting.iter().take(SHOWN).copied().collect();
        let more = redirecting.len() - shown.len();
        let more = if more == 0 { String::new() } else { format!(" and {more} more") };
        let all: Vec<String> = redirecting.iter().map(|address| word(address)).collect();
        let off = format!("for b in {}; do sudo setpci -s \"$b\" ECAP_ACS+0x6.w=0000; done", all.join(" "));
        return Fault::fail(format!("ACS redirects at {}{more}", shown.join(", ")))
            .fixed_by(format!("switch ACS off in the BIOS, or after each boot: `{off}`"))
            .into();
    }
    if node.inventory.bridges.is_empty() {
        return Outcome::skip("no bridge shows above GPUs and HCAs");
    }
    if switches().any(|bridge| bridge.acs_redirects.is_none()) {
        return Outcome::skip("only root may read it: `sudo lspci -vvv | grep ACSCtl`");
    }
    Outcome::pass(if switches().next().is_none() { "no switch" } else { "off at every switch port" })
}

/// Devices that a finding names.
const SHOWN: usize = 4;

fn iommu(node: &Node) -> Outcome {
    if let Some(lacking) = lacks_devices(node) {
        return lacking;
    }
    let iommu = &node.inventory.system.iommu;
    let translating: Vec<&str> = iommu.types.iter().map(String::as_str).filter(|kind| *kind != "identity").collect();
    match iommu.groups {
        _ if !translating.is_empty() => Outcome::warn(format!("it translates: {}", translating.join(", "))),
        _ if !iommu.types.is_empty() => Outcome::pass("identity"),
        Some(0) => Outcome::pass("off"),
        Some(_) => Outcome::skip("it is on, and the types of its groups cannot be read"),
        None => Outcome::skip("its groups cannot be read"),
    }
}

fn relaxed_ordering(node: &Node) -> Outcome {
    if !node.has_hcas() {
        return no_hca();
    }
    if node.setting("NCCL_IB_PCI_RELAXED_ORDERING") == Some("0") {
        return Fault::warn("NCCL_IB_PCI_RELAXED_ORDERING=0").fixed_by("unset NCCL_IB_PCI_RELAXED_ORDERING").into();
    }
    let said = node.inventory.hca_details.iter().filter_map(|hca| Some((&hca.hca, hca.pcie.relaxed_ordering?)));
    let (on, off): (Vec<_>, Vec<_>) = said.partition(|(_, relaxed)| *relaxed);
    let names = |hcas: Vec<(&String, bool)>| {
        gdrtune_fleet::hosts::fold(&hcas.into_iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>())
    };
    match (on.is_empty(), off.is_empty()) {
        (_, false) => Outcome::warn(format!("{}: off", names(off))),
        (false, true) => Outcome::pass(format!("{}: on", names(on))),
        (true, true) => Outcome::skip("only root may read the HCAs' setting: `sudo lspci -vvv | grep RlxdOrd`"),
    }
}

fn gdrcopy(node: &Node) -> Outcome {
    if node.setting("NCCL_GDRCOPY_ENABLE") != Some("1") {
        return Outcome::skip("NCCL_GDRCOPY_ENABLE is not 1");
    }
    if node.has_module("gdrdrv") {
        Outcome::pass("gdrdrv is loaded")
    } else if node.knows_modules() {
        Outcome::warn("NCCL_GDRCOPY_ENABLE=1, and gdrdrv is not loaded")
    } else {
        Outcome::skip("the kernel's modules are not known")
    }
}

fn storage(node: &Node) -> Outcome {
    if !node.has_gpus() {
        return no_gpu();
    }
    let system = &node.inventory.system;
    let storage = &system.storage;
    let has_library = system.libraries.iter().any(|library| library.kind == gdrtune_wire::LibraryKind::Cufile);
    let is_loaded = !storage.nvidia_fs.is_empty() || node.has_module("nvidia_fs");
    if is_loaded {
        let version = if storage.nvidia_fs.is_empty() { String::new() } else { format!(" {}", storage.nvidia_fs) };
        return if storage.cufile_json.is_empty() && !has_library {
            Fault::warn(format!("nvidia-fs{version} is loaded, and neither libcufile nor cufile.json is there"))
                .fixed_by("install the package gds-tools or libcufile of CUDA")
                .into()
        } else {
            Outcome::pass(format!("nvidia-fs{version}"))
        };
    }
    if !has_library && storage.cufile_json.is_empty() {
        let why =
            if node.is_recorded { "this recorded tree has no libraries" } else { "GPUDirect Storage is not installed" };
        return Outcome::skip(why);
    }
    if !node.knows_modules() {
        return Outcome::skip("the kernel's modules are not known");
    }
    let way = match storage.compatible {
        Some(false) => ", and cufile.json forbids the way through the CPU",
        Some(true) | None => ": cuFile goes through the CPU",
    };
    let evidence = format!("nvidia-fs is not loaded{way}");
    if storage.compatible == Some(false) { Outcome::fail(evidence) } else { Outcome::warn(evidence) }
}
