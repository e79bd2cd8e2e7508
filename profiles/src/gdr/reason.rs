//! Why a connection over the network does without GPU Direct RDMA: rules over what a process, its host and all say.
//!
//! The order is NCCL's own (`ncclTopoCheckGdr` in `src/graph/paths.cc`): the network, the HCA, the GPU, reads, the distance. Of
//! what NCCL decides without a word, the rules say what is left over.

use std::collections::BTreeMap;

use super::{
    End, Evidence,
    collect::{LinkKey, RankLines},
};
use crate::{
    grammar::nccl_log::{Fact, PairVerdict},
    version::Version,
};

/// From here on NCCL does not log which GPU and HCA it lets (`src/graph/paths.cc`: only in builds with tracing).
const SILENT_SINCE: Version = Version::new(2, 29);

/// CUDA that can export GPU memory as a DMA-BUF (`dmaBufSupported` in NCCL's `src/init.cc`).
const DMA_BUF_CUDA: u32 = 11_070;

/// NCCL that can use DMA-BUF.
const DMA_BUF_NCCL: Version = Version::new(2, 13);

/// Most of a kind that are kept of one process.
const MOST_VARIABLES: usize = 256;
const MOST_PAIRS: usize = 4096;
const MOST_PLUGIN_LINES: usize = 4;

/// What every log needs to tell all reasons.
const ALL_SUBSYSTEMS: &str = "NCCL_DEBUG=INFO and NCCL_DEBUG_SUBSYS=INIT,GRAPH,NET,ENV";

/// What warnings and hints mean here: id, a part of their text, what the matter is, what to do.
const PROBLEMS: &[(&str, &str, &str, &str)] = &[
    (
        "acs",
        "ACS is enabled",
        "an access to GPU memory failed, which NCCL puts down to PCIe ACS: it sends traffic between devices through the root complex",
        "switch ACS off on the PCIe bridges (BIOS, or setpci), or run virtual machines with ATS; NCCL_NET_GDR_LEVEL=LOC avoids the error meanwhile",
    ),
    (
        "local-protection-error",
        "local protection error",
        "the HCA was not allowed to access memory that was registered with it: an IOMMU or PCIe ACS between GPU and HCA, most often",
        "boot with iommu=pt (or the IOMMU off), and switch ACS off on the PCIe bridges",
    ),
    (
        "registration",
        "ibv_reg_mr",
        "memory could not be registered with the HCA",
        "`Cannot allocate memory`: raise the locked memory limit (ulimit -l unlimited); `Bad address`: nvidia_peermem does not fit the driver: load it again",
    ),
    (
        "registration",
        "ibv_reg_dmabuf_mr",
        "GPU memory could not be registered with the HCA as a DMA-BUF",
        "use a kernel and an RDMA driver that know DMA-BUF, or load nvidia_peermem",
    ),
    (
        "unequal-nics",
        "Detected mixed local Net device counts",
        "nodes have different numbers of network devices, on which NCCL may hang",
        "use the same HCAs on all nodes: compare them with gdrtune topo, name them in NCCL_IB_HCA",
    ),
];

/// What lines say that decides, of one process, of a host, or of all. Of two that say the same, the first counts.
#[derive(Debug, Clone, Default)]
pub(super) struct Facts {
    pub(super) version: Option<Version>,
    pub(super) nvls: Option<bool>,
    pub(super) problems: BTreeMap<usize, Evidence>,
    driver: Option<(u32, Evidence)>,
    variables: BTreeMap<String, (String, Evidence)>,
    /// Networks that communicators use.
    networks: BTreeMap<String, Evidence>,
    hcas: Option<Evidence>,
    no_hca: Option<Evidence>,
    no_verbs: Option<Evidence>,
    /// By network and device: whether it can reach GPU memory.
    hca_gdr: BTreeMap<(String, u32), (bool, Evidence)>,
    /// By GPU and HCA, as they are written.
    pairs: BTreeMap<(String, String), Pair>,
    dma_buf: Option<Evidence>,
    /// Path types between GPUs and NICs that channels use.
    inter: BTreeMap<String, Evidence>,
    /// What a network plugin says of memory of GPUs.
    plugin: Vec<Evidence>,
}

#[derive(Debug, Clone)]
struct Pair {
    distance: u32,
    level: u32,
    is_enabled: bool,
    evidence: Evidence,
}

impl Facts {
    /// Takes a line's fact.
    pub(super) fn take(&mut self, fact: &Fact<'_>, evidence: &Evidence) {
        let keep = |slot: &mut Option<Evidence>| *slot = slot.take().or_else(|| Some(evidence.clone()));
        match *fact {
            Fact::Version(version) => self.version = self.version.or(Some(version)),
            Fact::CudaDriver(driver) => {
                self.driver.get_or_insert_with(|| (driver, evidence.clone()));
            }
            Fact::Variable { name, value } if self.variables.len() < MOST_VARIABLES => {
                self.variables.entry(name.to_owned()).or_insert_with(|| (value.to_owned(), evidence.clone()));
            }
            Fact::Network(name) if self.networks.len() < MOST_VARIABLES => {
                self.networks.entry(name.to_owned()).or_insert_with(|| evidence.clone());
            }
            Fact::Hcas("") | Fact::NoHca => keep(&mut self.no_hca),
            Fact::Hcas(_) => keep(&mut self.hcas),
            Fact::NoVerbs => keep(&mut self.no_verbs),
            Fact::HcaGdr { network, device, is_enabled, .. } if self.hca_gdr.len() < MOST_VARIABLES => {
                let value = || (is_enabled, evidence.clone());
                self.hca_gdr.entry((network.to_owned(), device)).or_insert_with(value);
            }
            Fact::Pair(PairVerdict { gpu, hca, distance, level, is_enabled }) if self.pairs.len() < MOST_PAIRS => {
                let pair = || Pair { distance, level, is_enabled, evidence: evidence.clone() };
                self.pairs.entry((gpu.to_owned(), hca.to_owned())).or_insert_with(pair);
            }
            Fact::DmaBuf => keep(&mut self.dma_buf),
            Fact::Pattern { inter } if self.inter.len() < MOST_VARIABLES => {
                self.inter.entry(inter.to_owned()).or_insert_with(|| evidence.clone());
            }
            Fact::Nvls(is_there) => self.nvls = self.nvls.or(Some(is_there)),
            Fact::Plugin(text) if self.plugin.len() < MOST_PLUGIN_LINES && is_about_gpu_memory(text) => {
                self.plugin.push(evidence.clone());
            }
            Fact::Warning(text) | Fact::Hint(text) => {
                if let Some(at) = PROBLEMS.iter().position(|(_, part, ..)| text.contains(part)) {
                    self.problems.entry(at).or_insert_with(|| evidence.clone());
                }
            }
            _ => {}
        }
    }

    /// Adds what another process of the host says, where this one does not.
    pub(super) fn add(&mut self, other: &Self) {
        fn missing<K: Ord + Clone, V: Clone>(to: &mut BTreeMap<K, V>, from: &BTreeMap<K, V>) {
            for (key, value) in from {
                to.entry(key.clone()).or_insert_with(|| value.clone());
            }
        }
        self.version = self.version.or(other.version);
        self.nvls = self.nvls.or(other.nvls);
        for (to, from) in [
            (&mut self.hcas, &other.hcas),
            (&mut self.no_hca, &other.no_hca),
            (&mut self.no_verbs, &other.no_verbs),
            (&mut self.dma_buf, &other.dma_buf),
        ] {
            *to = to.take().or_else(|| from.clone());
        }
        self.driver = self.driver.take().or_else(|| other.driver.clone());
        missing(&mut self.variables, &other.variables);
        missing(&mut self.networks, &other.networks);
        missing(&mut self.hca_gdr, &other.hca_gdr);
        missing(&mut self.pairs, &other.pairs);
        missing(&mut self.inter, &other.inter);
        if self.plugin.is_empty() {
            self.plugin.clone_from(&other.plugin);
        }
    }
}

/// Words that plugins use of it (aws-ofi-nccl, Google's gIB).
fn is_about_gpu_memory(text: &str) -> bool {
    ["GDR", "GPUDirect", "GPU Direct", "HMEM", "DMA-BUF", "dmabuf"].iter().any(|word| text.contains(word))
}

/// What [`Facts::problems`] has at `index`: id, what, fix.
pub(super) fn problem(index: usize) -> Option<(&'static str, &'static str, &'static str)> {
    PROBLEMS.get(index).map(|(id, _, what, fix)| (*id, *what, *fix))
}

/// A reason, before equal ones are joined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) id: &'static str,
    pub(super) what: String,
    pub(super) fix: String,
    pub(super) evidence: Vec<Evidence>,
}

impl Found {
    fn new(id: &'static str, what: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { id, what: what.into(), fix: fix.into(), evidence: Vec::new() }
    }

    fn shown_by<'e>(mut self, evidence: impl IntoIterator<Item = &'e Evidence>) -> Self {
        self.evidence.extend(evidence.into_iter().cloned());
        self
    }
}

/// Everything that is known about one kind of connections.
pub(super) struct Case<'a> {
    /// What its process says.
    pub(super) own: &'a Facts,
    /// What the processes of its host say.
    pub(super) host: &'a Facts,
    pub(super) version: Option<Version>,
    pub(super) rank: &'a RankLines,
    pub(super) key: &'a LinkKey,
    /// Whether the rank has connections of the other end with direct access on this device.
    pub(super) is_other_end_direct: bool,
}

impl<'a> Case<'a> {
    /// What the process says, or another one of its host.
    fn said<T>(&self, of: impl Fn(&'a Facts) -> Option<T>) -> Option<T> {
        of(self.own).or_else(|| of(self.host))
    }

    /// Why these do without it: at least one reason, if only that the log does not tell.
    pub(super) fn reasons(&self) -> Vec<Found> {
        let found = match self.key.network.as_str() {
            "Socket" => self.socket(),
            _ => self.hca().or_else(|| self.read_off()).or_else(|| self.distance()).or_else(|| self.level()),
        };
        vec![found.unwrap_or_else(|| self.left_over())]
    }

    fn variable(&self, name: &str) -> Option<(&'a str, &'a Evidence)> {
        self.said(|facts| facts.variables.get(name)).map(|(value, evidence)| (value.as_str(), evidence))
    }

    /// What is said of the HCA: whether it can reach GPU memory.
    fn hca_gdr(&self) -> Option<(bool, &'a Evidence)> {
        let LinkKey { network, device, .. } = self.key;
        let said = self.said(|facts| facts.hca_gdr.get(&(network.clone(), *device)));
        said.map(|(is_enabled, evidence)| (*is_enabled, evidence))
    }

    /// Sockets have no HCA that could reach anything.
    fn socket(&self) -> Option<Found> {
        let fix_unset = |name: &str| format!("unset {name} (environment, ~/.nccl.conf and /etc/nccl.conf)");
        if let Some((value, evidence)) = self.variable("NCCL_NET").filter(|(v, _)| v.eq_ignore_ascii_case("socket")) {
            let what = format!("NCCL_NET={value} asks for sockets");
            return Some(Found::new("socket-asked", what, fix_unset("NCCL_NET")).shown_by([evidence]));
        }
        if let Some((value, evidence)) = self.variable("NCCL_IB_DISABLE").filter(|(value, _)| *value != "0") {
            let what = format!("NCCL_IB_DISABLE={value} keeps NCCL from using HCAs");
            return Some(Found::new("ib-disabled", what, fix_unset("NCCL_IB_DISABLE")).shown_by([evidence]));
        }
        if let Some(evidence) = self.said(|facts| facts.no_verbs.as_ref()) {
            let what = "libibverbs cannot be loaded, so NCCL sees no HCA";
            let fix = "install rdma-core (libibverbs1), in the container too";
            return Some(Found::new("no-verbs", what, fix).shown_by([evidence]));
        }
        if let Some(no_hca) = self.said(|facts| facts.no_hca.as_ref()) {
            if let Some((value, evidence)) = self.variable("NCCL_IB_HCA") {
                let what = format!("NCCL finds no HCA with an active port among those of NCCL_IB_HCA={value}");
                let fix = "name HCAs that are there and active (gdrtune topo shows them), with `=`: NCCL_IB_HCA==mlx5_0,mlx5_1";
                return Some(Found::new("no-hca-chosen", what, fix).shown_by([no_hca, evidence]));
            }
            let what = "NCCL finds no HCA with an active port, so it uses sockets";
            let fix = "look for ports that are not ACTIVE with gdrtune topo; in a container, give it /dev/infiniband; a cloud's NIC may need its plugin";
            return Some(Found::new("no-hca", what, fix).shown_by([no_hca]));
        }
        let used = self.said(|facts| facts.networks.get("Socket"));
        self.said(|facts| facts.hcas.as_ref()).map(|hcas| {
            let what = "NCCL has HCAs, and uses sockets all the same: another network, a plugin or NCCL_NET decided so";
            let fix = format!("see why with {ALL_SUBSYSTEMS}; NCCL_NET=IB insists on the HCAs");
            Found::new("hca-unused", what, fix).shown_by([hcas].into_iter().chain(used))
        })
    }

    /// The HCA, or its plugin, cannot reach GPU memory.
    fn hca(&self) -> Option<Found> {
        let (is_enabled, evidence) = self.hca_gdr()?;
        if is_enabled {
            return None;
        }
        let network = &self.key.network;
        if network != "IB" {
            let what = format!("the network plugin ({network}) does not offer access to GPU memory");
            let fix = "see what the plugin says of GDR, HMEM or DMA-BUF; on AWS: an instance type with GPUDirect RDMA (p4d and later), FI_EFA_USE_DEVICE_RDMA=1 before libfabric 1.18";
            let said = self.said(|facts| Some(&facts.plugin).filter(|lines| !lines.is_empty()));
            let lines = [evidence].into_iter().chain(said.into_iter().flatten());
            return Some(Found::new("plugin-cannot", what, fix).shown_by(lines));
        }
        let (why, more) = self.no_dma_buf();
        let what = format!("the HCA cannot reach GPU memory: no peer memory module is loaded, and {why}");
        let fix = "sudo modprobe nvidia_peermem on every node; or DMA-BUF: open NVIDIA kernel modules, CUDA >= 11.7, Linux >= 5.12";
        Some(Found::new("no-peer-memory", what, fix).shown_by([evidence].into_iter().chain(more)))
    }

    /// Why DMA-BUF does not do it either.
    fn no_dma_buf(&self) -> (String, Option<&'a Evidence>) {
        if let Some((value, evidence)) = self.variable("NCCL_DMABUF_ENABLE").filter(|(value, _)| *value == "0") {
            return (format!("NCCL_DMABUF_ENABLE={value} switches DMA-BUF off"), Some(evidence));
        }
        if let Some(evidence) = self.said(|facts| facts.dma_buf.as_ref()) {
            let why = "the GPU can export DMA-BUFs, but the kernel or the HCA's driver cannot take them";
            return (why.to_owned(), Some(evidence));
        }
        if let Some(version) = self.version.filter(|version| *version < DMA_BUF_NCCL) {
            return (format!("NCCL {version} knows no DMA-BUF: 2.13 and later do"), None);
        }
        match self.said(|facts| facts.driver.as_ref()) {
            Some((driver, evidence)) if *driver < DMA_BUF_CUDA => {
                let (major, minor) = (driver / 1000, driver % 1000 / 10);
                (format!("the driver's CUDA {major}.{minor} has no DMA-BUF: 11.7 and later do"), Some(evidence))
            }
            _ => ("no line says that the GPU can export DMA-BUFs".to_owned(), None),
        }
    }

    /// `NCCL_NET_GDR_READ` concerns what a rank sends.
    fn read_off(&self) -> Option<Found> {
        if self.key.end != End::Sends {
            return None;
        }
        let (_, evidence) = self.variable("NCCL_NET_GDR_READ").filter(|(value, _)| *value == "0")?;
        let what =
            "NCCL_NET_GDR_READ=0 keeps the HCA from reading GPU memory, so what is sent goes through host memory";
        let fix = "unset NCCL_NET_GDR_READ, or set 1; measure it with gdrtune gdr";
        Some(Found::new("read-disabled", what, fix).shown_by([evidence]))
    }

    /// NCCL's own word about this GPU and this HCA.
    fn pair(&self) -> Option<&'a Pair> {
        let is_gpu = |gpu: &str| match self.version {
            Some(version) if !version.at_least(2, 24) => {
                self.rank.bus_id.is_some_and(|bus_id| u64::from_str_radix(gpu, 16) == Ok(bus_id))
            }
            _ => self.rank.rank.is_some_and(|rank| gpu.parse() == Ok(rank)),
        };
        // The upper byte is the node's number (`NCCL_TOPO_ID`); versions before 2.22 write the number in decimal.
        let radix = if self.version.is_some_and(|version| !version.at_least(2, 22)) { 10 } else { 16 };
        let is_hca = |hca: &str| {
            u64::from_str_radix(hca, radix).is_ok_and(|id| id & 0x00ff_ffff_ffff_ffff == u64::from(self.key.device))
        };
        let of = |facts: &'a Facts| facts.pairs.iter().find(|((gpu, hca), _)| is_gpu(gpu) && is_hca(hca));
        self.said(of).map(|(_, pair)| pair)
    }

    fn distance(&self) -> Option<Found> {
        let pair = self.pair().filter(|pair| !pair.is_enabled)?;
        let name = |number| path_name(self.version, number);
        let (far, level) = (name(pair.distance), name(pair.level));
        let set = self.variable("NCCL_NET_GDR_LEVEL");
        let by = set.map_or_else(|| "NCCL's default".to_owned(), |(value, _)| format!("NCCL_NET_GDR_LEVEL={value}"));
        let what = format!("GPU and HCA are {far} apart, further than {by} allows ({level})");
        let word = match far.as_str() {
            "PIX" | "PXB" | "PHB" => far.as_str(),
            _ => "SYS",
        };
        let fix = format!(
            "use an HCA that is nearer to the GPU (gdrtune topo); or NCCL_NET_GDR_LEVEL={word}, which may be slower: measure it with gdrtune gdr"
        );
        Some(Found::new("distance", what, fix).shown_by([&pair.evidence].into_iter().chain(set.map(|(_, line)| line))))
    }

    /// A level that the environment sets, where NCCL does not say what follows from it; and a distance that channels show.
    fn level(&self) -> Option<Found> {
        let set = self.variable("NCCL_NET_GDR_LEVEL");
        if let Some((value, evidence)) = set.filter(|(value, _)| *value == "LOC") {
            let what = format!("NCCL_NET_GDR_LEVEL={value} switches it off: no HCA is that near");
            let fix = "unset NCCL_NET_GDR_LEVEL, or allow the distance that gdrtune topo shows";
            return Some(Found::new("level", what, fix).shown_by([evidence]));
        }
        if !self.is_silent() {
            return None;
        }
        let far = ["SYS", "PHB", "PXN", "PXB"];
        let (name, evidence) = self.said(|facts| far.iter().find_map(|name| facts.inter.get_key_value(*name)))?;
        let (limit, line) = match set {
            Some((value, line)) => (value, Some(line)),
            None => ("P2C", None),
        };
        if path_order(name) <= path_order(limit) {
            return None;
        }
        let what = format!(
            "channels cross a distance of {name} between GPU and HCA, and {limit} is the furthest that {} allows",
            if line.is_some() { "NCCL_NET_GDR_LEVEL" } else { "NCCL" }
        );
        let fix = "use an HCA that is nearer to the GPU (gdrtune topo); or a larger NCCL_NET_GDR_LEVEL, which may be slower: measure it with gdrtune gdr";
        Some(Found::new("distance", what, fix).shown_by([evidence].into_iter().chain(line)))
    }

    /// Whether this version does not say which GPU and HCA it lets.
    fn is_silent(&self) -> bool {
        self.version.is_some_and(|version| SILENT_SINCE <= version)
    }

    /// NCCL does not say it: what it can still be, or what the log lacks.
    fn left_over(&self) -> Found {
        let LinkKey { network, device, .. } = self.key;
        let enabled = self.hca_gdr().map(|(_, evidence)| evidence);
        if self.key.end == End::Sends && self.is_other_end_direct {
            let what = "the HCA writes to GPU memory, but does not read it: NCCL's default for GPUs older than Ampere without NVLink";
            let fix = "try NCCL_NET_GDR_READ=1, and measure it with gdrtune gdr";
            return Found::new("read-default", what, fix).shown_by(enabled);
        }
        let Some(enabled) = enabled else {
            let what =
                format!("the log does not tell why: it has no line about what NET/{network} device {device} can do");
            return Found::new("not-logged", what, format!("log again with {ALL_SUBSYSTEMS}"));
        };
        if self.is_silent() {
            let what = "the HCA can, and since 2.29 NCCL does not say why it lets a GPU not: the GPU cannot, or it is too far from the HCA";
            let fix = "compare the distances of gdrtune topo with NCCL_NET_GDR_LEVEL (default P2C, or PXB with NCCL_NET_GDR_C2C=0)";
            return Found::new("gpu-or-distance", what, fix).shown_by([enabled]);
        }
        if self.said(|facts| (!facts.pairs.is_empty()).then_some(())).is_some() {
            let what = "NCCL says nothing against it for this GPU and this HCA: what it decided by is not in the log";
            return Found::new("not-logged", what, format!("log again with {ALL_SUBSYSTEMS}")).shown_by([enabled]);
        }
        let what = "the HCA can, and NCCL asks no further: the GPU does not support it";
        let fix = "GPUDirect RDMA needs a data centre or RTX professional GPU, whose driver says so (cudaDevAttrGPUDirectRDMASupported)";
        Found::new("gpu-cannot", what, fix).shown_by([enabled])
    }
}

/// Path types in NCCL's order, which numbers have meant since 2.27.5 (`topoPathTypeStr` in `src/graph/topo.cc`).
const PATHS: [&str; 12] = ["LOC", "NVL", "NVB", "C2C", "PIX", "PXB", "P2C", "PXN", "PHB", "SYS", "NET", "DIS"];

fn path_order(name: &str) -> Option<usize> {
    PATHS.iter().position(|known| *known == name)
}

/// The path type that a version's number means. `C2C` came with 2.26, and `P2C` with 2.27, behind `PXN` at first.
fn path_name(version: Option<Version>, number: u32) -> String {
    let Some(version) = version else { return format!("path type {number}") };
    let names: Vec<&str> = match version {
        v if v < Version::new(2, 26) => PATHS.iter().copied().filter(|name| !matches!(*name, "C2C" | "P2C")).collect(),
        v if v < Version::new(2, 27) => PATHS.iter().copied().filter(|name| *name != "P2C").collect(),
        v if v < (Version { major: 2, minor: 27, patch: 5 }) => {
            let mut names = PATHS.to_vec();
            names.swap(6, 7);
            names
        }
        _ => PATHS.to_vec(),
    };
    names.get(number as usize).map_or_else(|| format!("path type {number}"), |name| (*name).to_owned())
}
