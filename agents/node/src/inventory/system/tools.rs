//! Programs that matter, and what `GPUDirect` Storage needs.

use std::ffi::OsStr;

use gdrtune_wire::{Module, Storage, Tool};

use super::LiveSystem;
use crate::inventory::{Reader, program};

/// Programs of drivers and of benchmarks.
const TOOLS: [&str; 13] = [
    "nvidia-smi",
    "nvidia-persistenced",
    "nv-fabricmanager",
    "dcgmi",
    "gdscheck",
    "ibv_devinfo",
    "ibstat",
    "rdma",
    "mlxconfig",
    "mlnx_qos",
    "ib_write_bw",
    "fi_info",
    "all_reduce_perf",
];

/// Where cuFile looks for its settings where `CUFILE_ENV_PATH_JSON` names none (NVIDIA, "`GPUDirect` Storage Configuration").
const CUFILE: &str = "/etc/cufile.json";

impl Reader<'_> {
    pub(super) fn storage(&mut self, live: &LiveSystem, modules: &[Module]) -> Storage {
        let told = self.value("proc/driver/nvidia-fs/version");
        let version = told.as_deref().map(|text| text.trim_start_matches("version:").trim());
        let nvidia_fs = version.or_else(|| super::version(modules, "nvidia_fs")).unwrap_or_default().to_owned();
        let path = live.variable("CUFILE_ENV_PATH_JSON").filter(|path| path.starts_with('/')).unwrap_or(CUFILE);
        let Some(text) = self.value(path.trim_start_matches('/')) else {
            return Storage { nvidia_fs, ..Storage::default() };
        };
        Storage { nvidia_fs, cufile_json: path.to_owned(), compatible: compatible(&text) }
    }
}

/// Those in absolute folders of the path, which is always this machine's.
pub(super) fn tools(search_path: Option<&OsStr>) -> Vec<Tool> {
    let Some(search_path) = search_path else { return Vec::new() };
    let found = |name: &&str| {
        let path = program::find(name, search_path)?;
        Some(Tool { name: (*name).to_owned(), path: path.display().to_string() })
    };
    TOOLS.iter().filter_map(found).collect()
}

/// `"allow_compat_mode": true,` in a file that is JSON with comments of `//`.
fn compatible(text: &str) -> Option<bool> {
    let line = text.lines().map(str::trim).find(|line| line.starts_with("\"allow_compat_mode\""))?;
    let (_, value) = line.split_once(':')?;
    value.trim().trim_end_matches(',').parse().ok()
}
