//! Which processes use the GPUs and HCAs of the node.
//!
//! Two sources, merged by process id: the device files that processes have open (`/proc/PID/fd`: our own processes, or all
//! as root), and what `nvidia-smi` says. Opens no device, and names nobody twice. A process that holds no context but has
//! every GPU's file open counts for all of them: too many rather than too few.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsStr,
    fs,
    io::{self, ErrorKind},
    path::{Path, PathBuf},
};

use gdrtune_wire::{DeviceUser, UsedDevice};

use super::{
    field,
    nvidia_smi::{Answer, base_name},
};

/// Processes that have devices open and put no load of their own on them, so that a measurement beside them is sound.
const BYSTANDERS: [(&str, &str); 13] = [
    ("nvidia-persistenced", "keeps the driver loaded, does nothing on the GPU"),
    ("nvidia-cuda-mps-control", "starts MPS servers"),
    ("nvidia-cuda-mps-server", "holds the context of MPS clients; they have process ids of their own"),
    ("nv-hostengine", "DCGM: reads counters"),
    ("dcgm-exporter", "reads counters"),
    ("nv-fabricmanager", "sets up NVLink switches"),
    ("nvidia-imex", "shares memory handles between nodes; the jobs that use them show by themselves"),
    ("nvidia-smi", "reads counters"),
    ("nvtop", "reads counters"),
    ("Xorg", "a desktop that is drawn now and then"),
    ("Xwayland", "a desktop that is drawn now and then"),
    ("gnome-shell", "a desktop that is drawn now and then"),
    ("ibacm", "address cache of rdma-core: opens every HCA, sends next to nothing"),
];

/// Bytes of a process's name in `/proc/PID/status` (Linux `include/linux/sched.h`, `TASK_COMM_LEN` less its NUL).
const COMM_BYTES: usize = 15;

/// Longest chain of parents that is followed; a real one has about ten.
const MAX_PARENTS: usize = 256;

/// Longest text of another process that is passed on, in characters.
const SHOWN_CHARACTERS: usize = 64;

/// What was found.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) users: Vec<DeviceUser>,
    /// What could not be read.
    pub(super) unreadable: Vec<String>,
}

/// Who asks.
#[derive(Debug)]
pub(super) struct Asker {
    /// The agent's process id. It, its ancestors and its descendants are no users.
    pub(super) pid: u32,
    /// Its `CUDA_DEVICE_ORDER`.
    pub(super) device_order: Option<String>,
    /// What `nvidia-smi` told it, where there is one.
    pub(super) nvidia_smi: Option<Answer>,
}

/// Finds the users of the machine whose `/proc`, `/sys`, `/dev` and `/etc/passwd` are under `root`.
pub(super) fn find(root: &Path, asker: &Asker) -> Found {
    let processes = Processes { root };
    let gpus = Gpus::new(root, asker);
    let mut found = Found::default();
    let mut devices: BTreeMap<u32, BTreeSet<UsedDevice>> = BTreeMap::new();
    if has_devices(root) {
        let hidden = processes.scan(&gpus, &mut devices).unwrap_or_else(|error| {
            found.unreadable.push(format!("{}: {error}", root.join("proc").display()));
            0
        });
        if hidden > 0 {
            let is_told = asker.nvidia_smi.as_ref().is_some_and(|answer| answer.tells_apps);
            let gpu_users = if is_told { "" } else { "GPUs (nvidia-smi does not tell) and " };
            let line = format!("open files of {hidden} processes of others: those that use {gpu_users}HCAs go unseen");
            found.unreadable.push(line);
        }
    }
    let mut names: BTreeMap<u32, &str> = BTreeMap::new();
    if let Some(answer) = &asker.nvidia_smi {
        found.unreadable.extend(answer.problems.iter().cloned());
        for app in &answer.apps {
            devices.entry(app.pid).or_default().insert(gpus.by_uuid(&app.gpu_uuid));
            names.insert(app.pid, &app.name);
        }
    }
    let family = Family::of(&processes, asker.pid);
    let known = devices.into_iter().filter(|(pid, _)| !family.has(&processes, *pid));
    found.users = known.filter_map(|(pid, devices)| processes.user(pid, names.get(&pid).copied(), devices)).collect();
    found
}

/// Name of a user in the node's own list (`/etc/passwd` under `root`), or `uid N`; directory services are not asked.
pub(crate) fn user_name(root: &Path, uid: u32) -> String {
    let list = fs::read(root.join("etc/passwd")).unwrap_or_default();
    let list = String::from_utf8_lossy(&list);
    let named = list.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next().filter(|name| !name.is_empty())?;
        (fields.nth(1)?.parse() == Ok(uid)).then(|| printable(name))
    });
    named.unwrap_or_else(|| format!("uid {uid}"))
}

/// `text` as it may be shown on a terminal: printable, and short.
pub(crate) fn printable(text: &str) -> String {
    let shown = |c: char| if c == ' ' || c.is_ascii_graphic() || c.is_alphanumeric() { c } else { '?' };
    text.chars().take(SHOWN_CHARACTERS).map(shown).collect()
}

fn has_devices(root: &Path) -> bool {
    let is_device = |name: &OsStr| name == "infiniband" || name.to_string_lossy().starts_with("nvidia");
    fs::read_dir(root.join("dev")).is_ok_and(|mut entries| entries.any(|e| e.is_ok_and(|e| is_device(&e.file_name()))))
}

/// How GPUs are numbered.
struct Gpus {
    /// Number by UUID; empty where unknown.
    indices: BTreeMap<String, u32>,
    /// UUID by the number of the device file.
    minors: BTreeMap<u32, String>,
    /// Whether CUDA numbers them as the file names do, as far as we know.
    by_minor: bool,
}

impl Gpus {
    fn new(root: &Path, asker: &Asker) -> Self {
        let rows = asker.nvidia_smi.as_ref().map_or(&[][..], |answer| &answer.gpus);
        // CUDA puts the fastest first unless told otherwise; equal ones keep their order by PCI address.
        let is_ordered = asker.device_order.as_deref() == Some("PCI_BUS_ID")
            || rows.windows(2).all(|pair| pair[0].model == pair[1].model);
        let indices = rows.iter().filter(|_| is_ordered).map(|gpu| (gpu.uuid.clone(), gpu.index)).collect();
        Self { indices, minors: minors(root), by_minor: rows.is_empty() }
    }

    fn by_uuid(&self, uuid: &str) -> UsedDevice {
        self.indices.get(uuid).map_or_else(|| UsedDevice::SomeGpu(printable(uuid)), |index| UsedDevice::Gpu(*index))
    }

    fn by_minor(&self, minor: u32) -> UsedDevice {
        match self.minors.get(&minor) {
            _ if self.by_minor => UsedDevice::Gpu(minor),
            Some(uuid) if self.indices.contains_key(uuid) => self.by_uuid(uuid),
            _ => UsedDevice::SomeGpu(format!("/dev/nvidia{minor}")),
        }
    }
}

/// UUID by the number of the device file, from the driver's `gpus/*/information`.
fn minors(root: &Path) -> BTreeMap<u32, String> {
    let Ok(entries) = fs::read_dir(root.join("proc/driver/nvidia/gpus")) else { return BTreeMap::new() };
    let minor = |path: PathBuf| {
        let text = fs::read_to_string(path.join("information")).ok()?;
        Some((field(&text, "Device Minor:")?.parse().ok()?, field(&text, "GPU UUID:")?.to_owned()))
    };
    entries.filter_map(|entry| minor(entry.ok()?.path())).collect()
}

/// The process table under a root.
struct Processes<'r> {
    root: &'r Path,
}

/// What `/proc/PID/status` says.
struct Facts {
    name: String,
    parent: u32,
    uid: u32,
}

impl Processes<'_> {
    fn path(&self, pid: u32, name: &str) -> PathBuf {
        self.root.join(format!("proc/{pid}/{name}"))
    }

    /// Adds what each process has open. Returns how many processes did not show theirs. One that ends meanwhile counts as
    /// not there.
    fn scan(&self, gpus: &Gpus, devices: &mut BTreeMap<u32, BTreeSet<UsedDevice>>) -> io::Result<usize> {
        let mut hidden = 0;
        for entry in fs::read_dir(self.root.join("proc"))? {
            let Some(pid) = entry?.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
            match self.open_devices(pid, gpus) {
                Ok(used) if used.is_empty() => {}
                Ok(used) => devices.entry(pid).or_default().extend(used),
                // Kernel threads have no command line, and no files either.
                Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                    let command_line = fs::read(self.path(pid, "cmdline")).unwrap_or_default();
                    hidden += usize::from(!command_line.is_empty());
                }
                Err(_) => {}
            }
        }
        Ok(hidden)
    }

    fn open_devices(&self, pid: u32, gpus: &Gpus) -> io::Result<BTreeSet<UsedDevice>> {
        let mut used = BTreeSet::new();
        let mut has_uvm = false;
        for entry in fs::read_dir(self.path(pid, "fd"))? {
            // A descriptor that was closed meanwhile is none.
            let Ok(target) = entry.and_then(|entry| fs::read_link(entry.path())) else { continue };
            let inside = target.strip_prefix(self.root).or_else(|_| target.strip_prefix("/"));
            let Some(device) = inside.ok().and_then(|path| path.to_str()?.strip_prefix("dev/")) else { continue };
            has_uvm |= device == "nvidia-uvm";
            if let Some(minor) = device.strip_prefix("nvidia").and_then(number) {
                used.insert(gpus.by_minor(minor));
            } else if let Some(name) = device.strip_prefix("infiniband/").filter(|name| is_uverbs(name)) {
                used.insert(UsedDevice::Hca(self.hca(name)));
            }
        }
        if has_uvm && !used.iter().any(is_gpu) {
            used.insert(UsedDevice::SomeGpu("/dev/nvidia-uvm".to_owned()));
        }
        Ok(used)
    }

    /// Name of the adapter behind `uverbsN`.
    fn hca(&self, uverbs: &str) -> String {
        let path = self.root.join(format!("sys/class/infiniband_verbs/{uverbs}/ibdev"));
        let name = fs::read_to_string(path).map(|text| printable(text.trim())).unwrap_or_default();
        if name.is_empty() { uverbs.to_owned() } else { name }
    }

    fn facts(&self, pid: u32) -> io::Result<Option<Facts>> {
        // The kernel escapes line breaks in the name, so it cannot pose as another field.
        let text = fs::read(self.path(pid, "status"))?;
        let text = String::from_utf8_lossy(&text);
        let facts = || {
            let parent = field(&text, "PPid:")?.parse().ok()?;
            let uid = field(&text, "Uid:")?.split_whitespace().next()?.parse().ok()?;
            Some(Facts { name: field(&text, "Name:")?.to_owned(), parent, uid })
        };
        Ok(facts())
    }

    /// The user, unless it has ended or is a bystander. `shown` is its name where `nvidia-smi` told one: then it counts
    /// even if `/proc` does not show it.
    fn user(&self, pid: u32, shown: Option<&str>, devices: BTreeSet<UsedDevice>) -> Option<DeviceUser> {
        let facts = match self.facts(pid) {
            Err(error) if error.kind() != ErrorKind::PermissionDenied && shown.is_none() => return None,
            facts => facts.ok().flatten(),
        };
        let executable = fs::read_link(self.path(pid, "exe")).ok();
        let executable = executable.as_deref().and_then(|path| path.file_name()?.to_str());
        let name = executable.or(facts.as_ref().map(|facts| facts.name.as_str())).or(shown.map(base_name));
        if name.is_some_and(is_bystander) {
            return None;
        }
        let command = facts.as_ref().map(|facts| facts.name.as_str()).or(shown.map(base_name)).unwrap_or_default();
        Some(DeviceUser {
            pid,
            user: facts.as_ref().map(|facts| user_name(self.root, facts.uid)).unwrap_or_default(),
            command: printable(command),
            devices: devices.into_iter().collect(),
        })
    }
}

/// A process and its ancestors.
struct Family {
    own: u32,
    ancestors: BTreeSet<u32>,
}

impl Family {
    fn of(processes: &Processes<'_>, own: u32) -> Self {
        Self { own, ancestors: parents(processes, own).collect() }
    }

    /// Whether the process is the own one, an ancestor or a descendant.
    fn has(&self, processes: &Processes<'_>, pid: u32) -> bool {
        pid == self.own || self.ancestors.contains(&pid) || parents(processes, pid).any(|parent| parent == self.own)
    }
}

fn parents(processes: &Processes<'_>, pid: u32) -> impl Iterator<Item = u32> {
    let parent = |pid: u32| processes.facts(pid).ok().flatten().map(|facts| facts.parent).filter(|pid| *pid != 0);
    std::iter::successors(parent(pid), move |pid| parent(*pid)).take(MAX_PARENTS)
}

fn is_gpu(device: &UsedDevice) -> bool {
    matches!(device, UsedDevice::Gpu(_) | UsedDevice::SomeGpu(_))
}

fn is_uverbs(name: &str) -> bool {
    name.strip_prefix("uverbs").and_then(number).is_some()
}

/// A number as device files have it: digits alone.
fn number(text: &str) -> Option<u32> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

/// The kernel cuts names, so that one of them may be all there is to compare.
fn is_bystander(name: &str) -> bool {
    BYSTANDERS.iter().any(|(full, _)| *full == name || (name.len() == COMM_BYTES && full.starts_with(name)))
}

#[cfg(test)]
#[path = "device_users_tests.rs"]
mod tests;
