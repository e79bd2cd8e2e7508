//! Kernel modules, drivers' packages and parameters.

use std::fs;

use gdrtune_wire::{Container, Fabric, Module, NvidiaModule, Ofed};

use crate::inventory::{Reader, field};

/// Modules that matter: NVIDIA's, those that let adapters reach GPUs, and those of adapters. With underscores, as the kernel has them.
const MODULES: [&str; 31] = [
    "bnxt_re",
    "cxgb4",
    "efa",
    "erdma",
    "gdrdrv",
    "hfi1",
    "hns_roce_hw_v2",
    "ib_core",
    "ib_ipoib",
    "ib_umad",
    "ib_uverbs",
    "iw_cxgb4",
    "ionic_rdma",
    "irdma",
    "mana_ib",
    "mlx4_ib",
    "mlx5_core",
    "mlx5_ib",
    "nouveau",
    "nv_peer_mem",
    "nvidia",
    "nvidia_fs",
    "nvidia_peermem",
    "nvidia_uvm",
    "qedr",
    "rdma_cm",
    "rdma_rxe",
    "rdma_ucm",
    "siw",
    "usnic_verbs",
    "vmw_pvrdma",
];

/// Largest list of installed modules that is read. A distribution's has about a megabyte.
const INSTALLED_BYTES: u64 = 8 << 20;

/// Parts of kernel parameters' names that matter.
const PARAMETERS: [&str; 10] =
    ["iommu", "pci", "cstate", "idle", "hugepage", "numa_balancing", "nosmt", "isolcpus", "nohz_full", "intel_pstate"];

/// The kernel's command line.
const COMMAND_LINE: &str = "proc/cmdline";

/// The name of the process that who sees all processes sees.
const FIRST_PROCESS: &str = "proc/1/comm";

/// The fabric manager's name as far as the kernel keeps it.
const FABRIC_MANAGER: &str = "nv-fabricmanage";

/// Most processes that are looked at.
const MOST_PROCESSES: usize = 1 << 16;

impl Reader<'_> {
    /// Modules that matter: loaded ones, and those that are installed for this kernel.
    pub(super) fn modules(&mut self, kernel: &str) -> Vec<Module> {
        let installed = self.installed(kernel);
        let module = |name: &str, reader: &mut Self| {
            let folder = format!("sys/module/{name}");
            let loaded = reader.path(&folder).is_dir();
            let version = reader.value(&format!("{folder}/version")).unwrap_or_default();
            (loaded || installed.iter().any(|known| known == name)).then(|| Module {
                name: name.to_owned(),
                loaded,
                version,
            })
        };
        MODULES.iter().filter_map(|name| module(name, self)).collect()
    }

    /// Names from `modules.dep`, whose lines begin with a path such as `updates/dkms/nvidia-peermem.ko.zst:`.
    fn installed(&self, kernel: &str) -> Vec<String> {
        let path = format!("lib/modules/{kernel}/modules.dep");
        if kernel.is_empty() || kernel.contains('/') {
            return Vec::new();
        }
        let bytes = self.try_bytes(&path, INSTALLED_BYTES).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        let name = |line: &str| {
            let file = line.split(':').next()?.rsplit('/').next()?;
            Some(file.split(".ko").next()?.replace('-', "_"))
        };
        text.lines().filter_map(name).collect()
    }

    /// `NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.54.15  Release Build ...`, or of the proprietary one
    /// `NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue ...`.
    pub(super) fn nvidia_module(&mut self) -> Option<NvidiaModule> {
        let text = self.value("proc/driver/nvidia/version")?;
        let line = field(&text, "NVRM version:")?;
        let open = line.contains("Open Kernel Module");
        let is_version = |word: &&str| word.contains('.') && word.starts_with(|c: char| c.is_ascii_digit());
        let version = line.split_whitespace().find(is_version)?.to_owned();
        Some(NvidiaModule { version, open })
    }

    /// Who is in a container cannot see the node's fabric manager; one that is seen is there all the same.
    pub(super) fn fabric(&mut self, container: &Container) -> Fabric {
        let nvswitches = self.names("proc/driver/nvidia-nvswitch/devices").len() as u32;
        if nvswitches == 0 {
            return Fabric::default();
        }
        let processes = fs::read_dir(self.path("proc")).into_iter().flatten().flatten().take(MOST_PROCESSES);
        let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        let mut runs = false;
        for pid in pids {
            if self.try_text(&format!("proc/{pid}/comm")).is_ok_and(|name| name == FABRIC_MANAGER) {
                runs = true;
                break;
            }
        }
        let sees_all = container.kind.is_empty() && self.try_text(FIRST_PROCESS).is_ok();
        Fabric { nvswitches, manager_runs: (runs || sees_all).then_some(runs) }
    }

    /// NVIDIA's package of RDMA drivers: what its driver says, else what its script would print.
    pub(super) fn ofed(&mut self) -> Option<Ofed> {
        const MODULE: &str = "sys/module/mlx5_core/version";
        const SCRIPT: &str = "usr/bin/ofed_info";
        const NAMES: [&str; 3] = ["MLNX_OFED_LINUX-", "OFED-internal-", "DOCA-OFED-"];
        // The kernel's own driver has either no version or one such as `5.0-0`.
        let of_package = |text: &str| text.split_once('-').is_some_and(|(_, patch)| patch.split('.').count() >= 3);
        if let Some(version) = self.value(MODULE).filter(|text| of_package(text)) {
            return Some(Ofed { version, source: format!("/{MODULE}") });
        }
        let text = self.value(SCRIPT)?;
        let rest = NAMES.iter().find_map(|name| text.split_once(name).map(|(_, rest)| rest))?;
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '.' && c != '-').unwrap_or(rest.len());
        let version = rest[..end].trim_end_matches(['.', '-']).to_owned();
        (!version.is_empty()).then(|| Ofed { version, source: format!("/{SCRIPT}") })
    }

    /// Parameters in the order of the command line. The others may be secret.
    pub(super) fn kernel_parameters(&mut self) -> Vec<String> {
        let text = self.value(COMMAND_LINE).unwrap_or_default();
        parameters(&text).map(str::to_owned).collect()
    }
}

/// Those of a command line that matter.
fn parameters(text: &str) -> impl Iterator<Item = &str> {
    text.split_whitespace().filter(|word| {
        let name = word.split('=').next().unwrap_or_default();
        PARAMETERS.iter().any(|part| name.contains(part))
    })
}

/// What a record keeps of a file of these: what is looked for in it.
pub(super) fn kept(path: &str, text: &str) -> Option<String> {
    match path {
        COMMAND_LINE => Some(parameters(text).collect::<Vec<_>>().join(" ")),
        _ if path.starts_with("proc/") && path.ends_with("/comm") && path != FIRST_PROCESS => {
            Some(text.trim()).map(|name| if name == FABRIC_MANAGER { name.to_owned() } else { String::new() })
        }
        _ => None,
    }
}
