//! What is known of a node as a whole: kernel, limits, libraries.

use serde::{Deserialize, Serialize};

/// A node as a whole. An empty text or an absent value is what nobody told.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct System {
    /// Kernel modules that matter for GPUs and RDMA, by name: those that are loaded, and those that only are installed.
    pub modules: Vec<Module>,
    /// NVIDIA's kernel module.
    pub nvidia_module: Option<NvidiaModule>,
    /// The CUDA version that the driver supports, such as `12.4`.
    pub cuda: String,
    /// NVSwitches and who manages them.
    pub fabric: Fabric,
    /// NVIDIA's package of RDMA drivers.
    pub ofed: Option<Ofed>,
    /// Kernel parameters that matter (IOMMU, PCI, CPU states, huge pages), as they stand in the kernel's command line.
    pub kernel_parameters: Vec<String>,
    /// The IOMMU.
    pub iommu: Iommu,
    /// Limit of locked memory of the agent, and so of the workers that it starts.
    pub memlock: Option<Memlock>,
    /// Memory beyond the usual pages.
    pub memory: MemorySettings,
    /// The CPUs.
    pub cpu: CpuDetails,
    /// What holds the agent in.
    pub container: Container,
    /// Libraries that matter: NCCL, its plugins, CUDA's driver library, verbs.
    pub libraries: Vec<Library>,
    /// `LD_LIBRARY_PATH` of the agent; empty where it is not set.
    pub library_path: String,
    /// Programs that matter and are on the agent's path: names with paths.
    pub tools: Vec<Tool>,
    /// What `GPUDirect` Storage needs.
    pub storage: Storage,
}

impl System {
    /// A kernel module that is loaded, by its name with underscores.
    pub fn loaded(&self, name: &str) -> Option<&Module> {
        self.modules.iter().find(|module| module.loaded && module.name == name)
    }
}

/// A kernel module.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Module {
    /// Its name, with underscores.
    pub name: String,
    /// Whether it is loaded, or part of the kernel; else it is installed for this kernel.
    pub loaded: bool,
    /// Its version; many have none.
    pub version: String,
}

/// NVIDIA's kernel module.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NvidiaModule {
    /// Its version.
    pub version: String,
    /// Whether it is the open one.
    pub open: bool,
}

/// NVSwitches of the node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fabric {
    /// NVSwitches that the driver shows. A machine with NVSwitches of the fourth generation or in a virtual machine shows none here.
    pub nvswitches: u32,
    /// Whether a fabric manager runs; `None` where the agent cannot see other processes.
    pub manager_runs: Option<bool>,
}

/// NVIDIA's package of RDMA drivers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ofed {
    /// Its version, such as `23.10-0.5.5`.
    pub version: String,
    /// Where that stands.
    pub source: String,
}

/// The IOMMU.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Iommu {
    /// Groups of devices: none where it is off; absent where it cannot be read.
    pub groups: Option<u32>,
    /// Types of the groups that GPUs and RDMA adapters are in, each once: `identity` passes addresses through, `DMA` and `DMA-FQ`
    /// translate them.
    pub types: Vec<String>,
}

/// A limit of locked memory in bytes; `None` is unlimited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memlock {
    /// What holds.
    pub soft: Option<u64>,
    /// What a process may set it to.
    pub hard: Option<u64>,
}

/// Settings of memory.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemorySettings {
    /// Pools of huge pages by size.
    pub huge_pages: Vec<HugePages>,
    /// Transparent huge pages: `always`, `madvise`, `never`.
    pub transparent_huge_pages: String,
    /// Whether the kernel moves pages between NUMA nodes by itself.
    pub numa_balancing: Option<bool>,
    /// Size of `/dev/shm` in bytes.
    pub shm_bytes: Option<u64>,
    /// What is free of it, in bytes.
    pub shm_free_bytes: Option<u64>,
}

/// A pool of huge pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct HugePages {
    /// Bytes of each.
    pub bytes: u64,
    /// How many there are.
    pub total: u64,
    /// How many are free.
    pub free: u64,
}

/// The CPUs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuDetails {
    /// Such as `GenuineIntel` or `AuthenticAMD`; on ARM the implementer, such as `0x41`.
    pub vendor: String,
    /// Sockets that are in use.
    pub sockets: Option<u32>,
    /// Whether cores run several threads.
    pub smt: Option<bool>,
    /// Who chooses frequencies, such as `intel_pstate`.
    pub driver: String,
    /// Governors in use, each once, such as `performance`.
    pub governors: Vec<String>,
    /// Lowest frequency that the governor may choose for the first CPU, in kHz.
    pub least_khz: Option<u32>,
    /// Highest frequency that the governor may choose for the first CPU, in kHz.
    pub most_khz: Option<u32>,
    /// Highest frequency of the hardware for the first CPU, in kHz.
    pub hardware_most_khz: Option<u32>,
}

/// What holds the agent in.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Container {
    /// Such as `docker`, `podman`, `kubernetes`, `apptainer`; empty where none shows.
    pub kind: String,
    /// Limit of its control group in bytes, the narrowest from the root down; absent where there is none.
    pub memory_bytes: Option<u64>,
    /// CPU time that its control group may take, in thousandths of a CPU; absent where there is no limit.
    pub cpu_milli: Option<u64>,
    /// Names in `/dev/infiniband`.
    pub rdma_devices: Vec<String>,
    /// Whether the agent has `CAP_IPC_LOCK`, which lifts the limit of locked memory.
    pub ipc_lock: Option<bool>,
}

/// A library.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Library {
    /// What it is.
    pub kind: LibraryKind,
    /// Its path, links followed.
    pub path: String,
    /// Its version, such as `2.28.9`; empty where neither name nor contents tell.
    pub version: String,
    /// The CUDA version that it was built with, such as `12.4`; NCCL's only.
    pub cuda: String,
    /// How it was found.
    pub found: LibrarySource,
}

/// What a library is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LibraryKind {
    /// `libnccl.so`.
    #[default]
    Nccl,
    /// A network plugin of NCCL's, `libnccl-net*.so`.
    NcclNet,
    /// A tuner plugin of NCCL's, `libnccl-tuner*.so`.
    NcclTuner,
    /// `libcuda.so`, of the driver.
    Cuda,
    /// `libibverbs.so`.
    Verbs,
    /// `libcufile.so`.
    Cufile,
}

/// How a library was found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LibrarySource {
    /// In a folder of `LD_LIBRARY_PATH`, which the loader asks first.
    LibraryPath,
    /// In the loader's cache.
    #[default]
    LoaderCache,
    /// In one of the usual folders.
    UsualFolder,
    /// In a Python environment.
    Python,
}

/// A program.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// Where it is.
    pub path: String,
}

/// What `GPUDirect` Storage needs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Storage {
    /// Version of `nvidia-fs` where its driver is loaded.
    pub nvidia_fs: String,
    /// The settings file of cuFile that holds; empty where there is none.
    pub cufile_json: String,
    /// Whether that file lets cuFile go through the CPU where it cannot go around it.
    pub compatible: Option<bool>,
}
