//! What holds the agent in: a container, and limits of its control group.

use gdrtune_wire::Container;

use super::LiveSystem;
use crate::inventory::{Reader, field};

/// `CAP_IPC_LOCK` (Linux `include/uapi/linux/capability.h`).
const IPC_LOCK: u32 = 14;

/// Variables, files and words that tell of a container, best first.
const VARIABLES: [(&str, &str); 4] = [
    ("KUBERNETES_SERVICE_HOST", "kubernetes"),
    ("APPTAINER_NAME", "apptainer"),
    ("SINGULARITY_NAME", "singularity"),
    ("ENROOT_VERSION", "enroot"),
];
const FILES: [(&str, &str); 2] = [(".dockerenv", "docker"), ("run/.containerenv", "podman")];
const GROUPS: [(&str, &str); 4] =
    [("kubepods", "kubernetes"), ("docker", "docker"), ("libpod", "podman"), ("lxc", "lxc")];

impl Reader<'_> {
    pub(super) fn container(&mut self, live: &LiveSystem, memory_bytes: u64) -> Container {
        let groups = self.value("proc/self/cgroup").unwrap_or_default();
        let memory = self.memory_limit(&groups).filter(|limit| memory_bytes == 0 || *limit < memory_bytes);
        Container {
            kind: self.container_kind(live, &groups),
            memory_bytes: memory,
            cpu_milli: self.cpu_limit(&groups),
            rdma_devices: self.names("dev/infiniband"),
            ipc_lock: self.capability(IPC_LOCK),
        }
    }

    fn container_kind(&mut self, live: &LiveSystem, groups: &str) -> String {
        let by_variable = VARIABLES.iter().find(|(name, _)| live.variable(name).is_some());
        let by_file = || FILES.iter().find(|(path, _)| self.path(path).exists());
        let by_group = || GROUPS.iter().find(|(word, _)| groups.contains(word));
        by_variable.or_else(by_file).or_else(by_group).map(|(_, kind)| (*kind).to_owned()).unwrap_or_default()
    }

    /// A bit of `CapEff`, in hexadecimal.
    fn capability(&mut self, bit: u32) -> Option<bool> {
        let text = self.try_text("proc/self/status").ok()?;
        let effective = u64::from_str_radix(field(&text, "CapEff:")?, 16).ok()?;
        Some(effective >> bit & 1 == 1)
    }

    fn memory_limit(&mut self, groups: &str) -> Option<u64> {
        let unified = group(groups, "").map(|path| ancestors("sys/fs/cgroup", &path)).unwrap_or_default();
        let own = group(groups, "memory").map(|path| ancestors("sys/fs/cgroup/memory", &path)).unwrap_or_default();
        let new = unified.iter().filter_map(|folder| self.number(&format!("{folder}/memory.max")));
        let new: Option<u64> = new.min();
        let old = own.iter().filter_map(|folder| self.number(&format!("{folder}/memory.limit_in_bytes")));
        new.into_iter().chain(old.min()).min()
    }

    /// In thousandths of a CPU.
    fn cpu_limit(&mut self, groups: &str) -> Option<u64> {
        let milli = |quota: u64, period: u64| quota.checked_mul(1000)?.checked_div(period);
        let unified = group(groups, "").map(|path| ancestors("sys/fs/cgroup", &path)).unwrap_or_default();
        // `max 100000` or `150000 100000`.
        let new = unified.iter().filter_map(|folder| {
            let text = self.value(&format!("{folder}/cpu.max"))?;
            let (quota, period) = text.split_once(' ')?;
            milli(quota.parse().ok()?, period.parse().ok()?)
        });
        let new: Option<u64> = new.min();
        let mut old = None;
        for controller in ["cpu", "cpu,cpuacct"] {
            let Some(path) = group(groups, controller) else { continue };
            for folder in ancestors(&format!("sys/fs/cgroup/{controller}"), &path) {
                // -1 is no limit.
                let quota: Option<u64> = self.number(&format!("{folder}/cpu.cfs_quota_us"));
                let period: Option<u64> = self.number(&format!("{folder}/cpu.cfs_period_us"));
                let limit = quota.zip(period).and_then(|(quota, period)| milli(quota, period));
                old = old.into_iter().chain(limit).min();
            }
        }
        new.into_iter().chain(old).min()
    }
}

/// The folders of a group and of those above it.
fn ancestors(mount: &str, path: &str) -> Vec<String> {
    let mut folders = vec![mount.to_owned()];
    let mut folder = mount.to_owned();
    for part in path.split('/').filter(|part| !part.is_empty() && *part != "..") {
        folder = format!("{folder}/{part}");
        folders.push(folder.clone());
    }
    folders
}

/// The path of this process's group for a controller, of the unified hierarchy for an empty name: lines `4:memory:/path` and
/// `0::/path` (Linux `Documentation/admin-guide/cgroup-v2.rst`).
fn group(groups: &str, controller: &str) -> Option<String> {
    groups.lines().find_map(|line| {
        let (_, rest) = line.split_once(':')?;
        let (name, path) = rest.split_once(':')?;
        (name == controller).then(|| path.to_owned())
    })
}
