//! What a node has and who uses it, read from `/proc`, `/sys`, the kernel's address list and `nvidia-smi`.
//!
//! Needs no privileges, starts nothing but `nvidia-smi` and, where there is InfiniBand, `ibv_devinfo`; opens no device, and never fails as a whole: what cannot be read is
//! listed in [`Inventory::unreadable`] with its cause. Everything but addresses, environment and that program's answer comes
//! from files under a root folder, so that a recorded tree reads like a machine.

mod addresses;
mod bridges;
mod config_space;
mod dcb;
mod device_users;
mod gpu_details;
mod gpus;
mod hca_details;
mod hcas;
mod ibv_devinfo;
mod nccl_conf;
mod net_details;
mod nets;
mod nvidia_smi;
mod pcie;
mod program;
mod record;
mod system;

pub(crate) use device_users::{printable, user_name};
pub use record::{RecordError, Recorded, record};

use std::{
    cell::RefCell,
    fs::{self, File},
    io::{self, Read as _},
    net::IpAddr,
    path::{Path, PathBuf},
    str::FromStr,
};

use gdrtune_profiles::{
    grammar::smi_log::{self, SmiLog},
    vocab::Environment,
};
use gdrtune_wire::{Gpu, HcaPort, Interface, Inventory, PcieBridge, Topology};

use self::{record::Trace, system::LiveSystem};

/// Most bytes that are read of a file. The largest one here, `/proc/meminfo`, has about 1,500.
const FILE_BYTES: u64 = 1 << 20;

/// Most entries that are read of a folder. A large machine has some hundred PCI devices.
const MOST_NAMES: usize = 4096;

/// Variables of the site that matter for tuning begin with one of these.
const ENV_PREFIXES: [&str; 2] = ["NCCL_", "GDRTUNE_"];

/// Names the folder of the node's lock in place of `/tmp/gdrtune-lock`. It changes nothing that is measured.
pub(crate) const LOCK_VARIABLE: &str = "GDRTUNE_LOCK_DIR";

/// CUDA's order of the GPUs.
const DEVICE_ORDER: &str = "CUDA_DEVICE_ORDER";

/// These choose which GPUs workers get (CUDA programming guide, environment variables).
const ENV_NAMES: [&str; 2] = ["CUDA_VISIBLE_DEVICES", DEVICE_ORDER];

/// An interface that is up, with its addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Link {
    name: String,
    loopback: bool,
    /// With the bits that name the network.
    addresses: Vec<(IpAddr, u8)>,
}

/// What no file says.
#[derive(Debug)]
struct Live {
    links: io::Result<Vec<Link>>,
    variables: Vec<(String, String)>,
    pid: u32,
    home: Option<PathBuf>,
    nvidia_smi: Option<nvidia_smi::Answer>,
    /// What a recorded tree has of `nvidia-smi -q -x`.
    log: Option<SmiLog>,
    /// Whether this machine may be asked about its ports and network devices.
    asks: bool,
    shm: Option<(u64, u64)>,
}

/// The output of `nvidia-smi -q -x` in a recorded tree.
const RECORDED_LOG: &str = "nvidia-smi-q.xml";

/// Reads the inventory of the machine whose `/proc`, `/sys`, `/dev` and `/etc/passwd` are under `root`. Addresses, variables
/// and what `nvidia-smi` says are always those of this process.
///
/// Waits up to five seconds for `nvidia-smi`, where the `PATH` has one. Link-local IPv6 addresses are left out: without a scope nobody can connect to them.
pub fn read(root: &Path) -> Inventory {
    let variables = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.to_string_lossy().into_owned())));
    let nvidia_smi = nvidia_smi::ask(std::env::var_os("PATH").as_deref(), nvidia_smi::LIMIT);
    let links = addresses::read();
    let home = std::env::home_dir();
    let shm = system::file_system(&root.join("dev/shm"));
    let variables = variables.collect();
    assemble(root, Live { links, variables, pid: std::process::id(), home, nvidia_smi, log: None, asks: true, shm })
}

/// What a recorded tree tells: copies of a machine's `/proc`, `/sys`, `/etc` and so on below `root`, and the output of `nvidia-smi -q -x` in
/// `nvidia-smi-q.xml` there. Nothing of this process and this machine is in it.
pub fn read_recorded(root: &Path) -> Inventory {
    let mut reader = Reader::new(root);
    let log = reader.value(RECORDED_LOG);
    recorded(reader, log.as_deref()).0
}

/// The same by a reader, with this output of `nvidia-smi -q -x`; and what the reader has looked at, where it keeps that.
fn recorded(reader: Reader<'_>, log: Option<&str>) -> (Inventory, Trace) {
    let log = log.map(|text| smi_log::parse(text, RECORDED_LOG));
    let why = match &log {
        None => Some(format!("{RECORDED_LOG}: not in this recorded tree; it is what `nvidia-smi -q -x` prints")),
        Some(Err(diagnostic)) => Some(diagnostic.to_string()),
        Some(Ok(_)) => None,
    };
    let topology = "nvidia-smi topo -m: not asked, as this is a recorded tree".to_owned();
    let (mut inventory, trace) = assemble_by(
        reader,
        Live {
            links: Ok(Vec::new()),
            variables: Vec::new(),
            pid: 0,
            home: None,
            nvidia_smi: None,
            log: log.and_then(Result::ok),
            asks: false,
            shm: None,
        },
    );
    inventory.unreadable.extend([topology].into_iter().chain(why));
    (inventory, trace)
}

/// The host name, or nothing where it cannot be read.
pub fn hostname(root: &Path) -> String {
    Reader::new(root).text("proc/sys/kernel/hostname")
}

/// The Linux boot id, or nothing where it cannot be read.
pub fn boot_id(root: &Path) -> String {
    Reader::new(root).text("proc/sys/kernel/random/boot_id")
}

fn assemble(root: &Path, live: Live) -> Inventory {
    assemble_by(Reader::new(root), live).0
}

/// The same by a reader; and what it has looked at, where it keeps that.
fn assemble_by(mut reader: Reader<'_>, live: Live) -> (Inventory, Trace) {
    let links = live.links.unwrap_or_else(|error| {
        reader.unreadable.push(format!("interface addresses: {error}"));
        vec![]
    });
    let nccl_confs = reader.nccl_confs(&live.variables, live.home.as_deref());
    let live_system = LiveSystem { variables: live.variables.clone(), shm: live.shm };
    let site_env = site_env(live.variables);
    let named_files = reader.named_files(&site_env, &nccl_confs);
    let device_order = site_env.get(DEVICE_ORDER).map(str::to_owned);
    let gpus = reader.gpu_models(live.nvidia_smi.as_ref());
    let (topology, bridges) = reader.topology(&links, live.nvidia_smi.as_ref());
    let told = live.nvidia_smi.as_ref().and_then(|answer| answer.log.as_ref());
    let log = told.or(live.log.as_ref());
    let gpu_details = reader.gpu_details(&topology.gpus, live.nvidia_smi.as_ref(), log);
    let hca_ports = reader.hca_ports();
    let mtus = reader.port_mtus(live.asks, &hca_ports);
    let mut inventory = Inventory {
        hostname: reader.text("proc/sys/kernel/hostname"),
        boot_id: reader.text("proc/sys/kernel/random/boot_id"),
        kernel: reader.text("proc/sys/kernel/osrelease"),
        arch: std::env::consts::ARCH.to_owned(),
        cpus: reader.cpus(),
        memory_bytes: reader.memory_bytes(),
        interfaces: links.into_iter().map(|link| reader.interface(link)).collect(),
        cpu_model: reader.cpu_model(),
        driver: reader.driver(log),
        hca_details: reader.hca_details(&topology.hcas),
        port_details: reader.port_details(&hca_ports, &topology, &mtus),
        net_details: reader.net_details(&topology.nets, live.asks),
        hca_ports,
        gpu_details,
        bridges,
        gpus,
        nccl_confs,
        named_files,
        site_env,
        ..Inventory::default()
    };
    inventory.system = reader.system(&topology, &live_system, log, inventory.memory_bytes);
    for gpu in &mut inventory.gpu_details {
        gpu.dmabuf = gpu_details::dmabuf(gpu, inventory.system.nvidia_module.as_ref(), &inventory.kernel);
    }
    let asker = device_users::Asker { pid: live.pid, device_order, nvidia_smi: live.nvidia_smi };
    let found = device_users::find(reader.root, &asker);
    reader.unreadable.extend(found.unreadable);
    reader.note_hidden_bridges(&inventory.bridges);
    let trace = reader.trace.map(RefCell::into_inner).unwrap_or_default();
    (Inventory { topology, unreadable: reader.unreadable, device_users: found.users, ..inventory }, trace)
}

fn site_env(variables: Vec<(String, String)>) -> Environment {
    let matters = |name: &str| ENV_PREFIXES.iter().any(|prefix| name.starts_with(prefix)) || ENV_NAMES.contains(&name);
    variables.into_iter().filter(|(name, _)| matters(name) && name != LOCK_VARIABLE).collect()
}

/// Reads small files under a root and notes what could not be read.
struct Reader<'r> {
    root: &'r Path,
    unreadable: Vec<String>,
    /// Bridges of which only root sees all.
    hidden_bridges: u32,
    /// What is looked at, where that is recorded.
    trace: Option<RefCell<Trace>>,
}

impl<'r> Reader<'r> {
    fn new(root: &'r Path) -> Self {
        Self { root, unreadable: vec![], hidden_bridges: 0, trace: None }
    }

    /// One that keeps what it looks at.
    fn traced(root: &'r Path) -> Self {
        Self { trace: Some(RefCell::default()), ..Self::new(root) }
    }

    /// The trimmed text of a file, or nothing.
    fn text(&mut self, path: &str) -> String {
        self.noted(path, |text| Some(text.to_owned())).unwrap_or_default()
    }

    /// A value out of a file. `None` is noted, whether the file or the value in it is missing.
    fn noted<T>(&mut self, path: &str, parse: impl FnOnce(&str) -> Option<T>) -> Option<T> {
        let why = match self.try_text(path) {
            Ok(text) => match parse(&text) {
                Some(value) => return Some(value),
                None => "has an unexpected form".to_owned(),
            },
            Err(error) => error.to_string(),
        };
        self.unreadable.push(format!("{}: {why}", self.path(path).display()));
        None
    }

    /// The trimmed text of a file that need not be there, nor mean anything for its device: such ones fail the read in many ways. Noted is
    /// only what is kept from this user.
    fn value(&mut self, path: &str) -> Option<String> {
        match self.try_text(path) {
            Ok(text) => (!text.is_empty()).then_some(text),
            Err(error) => {
                if error.kind() == io::ErrorKind::PermissionDenied {
                    self.unreadable.push(format!("{}: {error}", self.path(path).display()));
                }
                None
            }
        }
    }

    /// As [`Self::value`], of a number.
    fn number<T: FromStr>(&mut self, path: &str) -> Option<T> {
        self.value(path)?.parse().ok()
    }

    /// The name that a link leads to; empty where there is none.
    fn linked_name(&self, path: &str) -> String {
        let target = fs::read_link(self.path(path)).ok();
        target.as_deref().and_then(|path| path.file_name()?.to_str()).unwrap_or_default().to_owned()
    }

    /// Where a path below the root is. Everything that is looked at goes through here.
    fn path(&self, path: &str) -> PathBuf {
        if let Some(trace) = &self.trace {
            trace.borrow_mut().asked(path);
        }
        self.root.join(path)
    }

    fn try_text(&self, path: &str) -> io::Result<String> {
        Ok(String::from_utf8_lossy(&self.try_bytes(path, FILE_BYTES)?).trim().to_owned())
    }

    /// A file's beginning, at most `most` bytes.
    fn try_bytes(&self, path: &str, most: u64) -> io::Result<Vec<u8>> {
        let read = || {
            let mut bytes = vec![];
            let path = self.within(path)?;
            // Whoever opens a pipe may wait for ever.
            if !fs::metadata(&path)?.is_file() {
                return Err(io::Error::new(io::ErrorKind::InvalidInput, "is no file"));
            }
            File::open(path)?.take(most).read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        let result = read();
        if let Some(trace) = &self.trace {
            trace.borrow_mut().read(self.root, path, &result);
        }
        result
    }

    /// The path, unless links in a recorded tree lead out of it: to files of this machine.
    fn within(&self, path: &str) -> io::Result<PathBuf> {
        let path = self.path(path);
        if self.root != Path::new("/") && !fs::canonicalize(&path)?.starts_with(fs::canonicalize(self.root)?) {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, "leads out of the recorded tree"));
        }
        Ok(path)
    }

    /// Names in a folder, sorted and not too many; none where there is no such folder.
    fn names(&self, path: &str) -> Vec<String> {
        if let Some(trace) = &self.trace {
            trace.borrow_mut().listed(path);
        }
        let entries = self.within(path).and_then(fs::read_dir).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let mut names: Vec<String> = names.take(MOST_NAMES).collect();
        names.sort_unstable();
        names
    }

    fn cpus(&mut self) -> u32 {
        self.noted("proc/self/status", |text| count_list(field(text, "Cpus_allowed_list:")?)).unwrap_or_default()
    }

    /// Model of the first CPU, as all are in a node; some architectures name none.
    fn cpu_model(&self) -> String {
        let text = self.try_text("proc/cpuinfo").unwrap_or_default();
        field(&text, "model name").map(|rest| rest.trim_start_matches(':').trim().to_owned()).unwrap_or_default()
    }

    /// Which devices there are and how far apart, and the bridges above them.
    fn topology(&mut self, links: &[Link], nvidia_smi: Option<&nvidia_smi::Answer>) -> (Topology, Vec<PcieBridge>) {
        let (numa_nodes, nets) = (self.numa_nodes(), self.nets(links));
        let (gpus, hcas) = (self.gpus(nvidia_smi), self.hcas());
        let to_hcas = |gpu: &pcie::Seat| hcas.iter().map(|(_, hca)| gpu.distance(hca, numa_nodes)).collect();
        let distances = gpus.iter().map(|(_, gpu)| to_hcas(gpu)).collect();
        let seats = gpus.iter().map(|(_, seat)| seat).chain(hcas.iter().map(|(_, seat)| seat));
        let bridges = self.bridges(seats);
        let gpus: Vec<Gpu> = gpus.into_iter().map(|(gpu, _)| gpu).collect();
        let told = nvidia_smi.map(|answer| answer.gpu_paths.as_slice()).unwrap_or_default();
        // Both number GPUs by PCI address, so they mean the same ones where they see as many.
        let gpu_paths = if told.len() == gpus.len() { told.to_vec() } else { Vec::new() };
        let hcas = hcas.into_iter().map(|(hca, _)| hca).collect();
        (Topology { numa_nodes, gpus, hcas, nets, distances, gpu_paths }, bridges)
    }

    /// MTUs of ports, as verbs say; only InfiniBand's need them.
    fn port_mtus(&mut self, asks: bool, ports: &[HcaPort]) -> Vec<ibv_devinfo::PortMtu> {
        if !asks || ports.iter().all(|port| port.link_layer != "InfiniBand") {
            return Vec::new();
        }
        match ibv_devinfo::ask(std::env::var_os("PATH").as_deref(), ibv_devinfo::LIMIT) {
            Some(Ok(mtus)) => mtus,
            Some(Err(why)) => {
                self.unreadable.push(why);
                Vec::new()
            }
            None => Vec::new(),
        }
    }

    fn memory_bytes(&mut self) -> u64 {
        let parse = |text: &str| {
            let kib: u64 = field(text, "MemTotal:")?.strip_suffix("kB")?.trim().parse().ok()?;
            kib.checked_mul(1024)
        };
        self.noted("proc/meminfo", parse).unwrap_or_default()
    }

    fn interface(&mut self, link: Link) -> Interface {
        let mtu = self.noted(&format!("sys/class/net/{}/mtu", link.name), |text| text.parse().ok()).unwrap_or_default();
        let speed_mbps = self.speed(&link.name);
        let mut addresses = link.addresses;
        // Stable, so each family keeps the kernel's order.
        addresses.sort_by_key(|(ip, _)| ip.is_ipv6());
        let (addresses, prefixes) = addresses.into_iter().unzip();
        Interface { name: link.name, addresses, prefixes, loopback: link.loopback, mtu, speed_mbps }
    }
}

/// The rest of the line that starts with `name`.
fn field<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}

/// How many numbers a kernel list such as `0-3,8` names (Linux `Documentation/admin-guide/kernel-parameters.rst`, cpu
/// lists). `None` where it is no such list.
fn count_list(list: &str) -> Option<u32> {
    list.split(',').try_fold(0_u32, |count, part| {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        let (from, to): (u32, u32) = (from.parse().ok()?, to.parse().ok()?);
        count.checked_add(to.checked_sub(from)?.checked_add(1)?)
    })
}

#[cfg(test)]
mod details_tests;

#[cfg(test)]
mod tests;

#[cfg(test)]
mod topology_tests;
