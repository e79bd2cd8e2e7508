//! Starts the agents of a run and collects what the nodes have.

use std::{
    collections::BTreeSet,
    sync::mpsc::{self, Receiver},
    time::Duration,
};

use gdrtune_fleet::{Fleet, FleetConfig, FleetEvent, hosts::Host};
use gdrtune_profiles::{size::Size, vocab::Environment};
use gdrtune_wire::{DeviceUser, Inventory, UsedDevice};
use tokio::runtime::Handle;

use crate::{
    event::{Event, KnownFacts, Level, NodeState},
    recorder::Recorder,
};

/// Longest wait for one event while agents start.
const POLL: Duration = Duration::from_millis(50);

/// Users of devices that a message names; the others are counted.
const SHOWN_USERS: usize = 5;

/// Agents that could not be started.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// Some hosts failed; each with its own reason.
    #[error("{failed} of {total} hosts cannot be used: {}", reasons.join("; "))]
    Hosts {
        /// How many failed.
        failed: usize,
        /// How many were asked for.
        total: usize,
        /// Reason and next step of each.
        reasons: Vec<String>,
    },
    /// The fleet as a whole could not be started.
    #[error("{0}")]
    Fleet(String),
    /// A host has too little memory for the sizes.
    #[error("{host}: {ranks} ranks with buffers of {} need about {} of memory, and it has {}; ask for smaller sizes", Size(*max_bytes), Size(*needed), Size(*memory))]
    Memory {
        /// The host.
        host: String,
        /// Ranks there.
        ranks: u32,
        /// Largest size.
        max_bytes: u64,
        /// What that takes.
        needed: u64,
        /// What there is.
        memory: u64,
    },
    /// Other processes use what the run would measure.
    #[error("GPUs or HCAs of the run are in use: {}{}", users.join("; "), and_more(*more))]
    InUse {
        /// Host, process, user, command and devices of the first ones.
        users: Vec<String>,
        /// How many there are beside them.
        more: usize,
    },
    /// Other runs hold hosts of this one.
    #[error("{}{}", holders.join("; "), and_more(*more))]
    Held {
        /// Host, process, user, run and time of the first ones.
        holders: Vec<String>,
        /// How many there are beside them.
        more: usize,
    },
    /// Hosts differ in what must be the same.
    #[error("the hosts differ in what NCCL needs alike: {}", differences.join("; and "))]
    Mixed {
        /// Each difference, with the hosts.
        differences: Vec<String>,
    },
    /// Whether other runs hold a host cannot be known.
    #[error("{host}: whether another gdrtune uses it cannot be seen: {why}")]
    NoLock {
        /// The host.
        host: String,
        /// What failed there.
        why: String,
    },
    /// The user ended the run.
    #[error("interrupted while agents were starting")]
    Interrupted,
}

impl ConnectError {
    /// What to do about it, where the message does not say.
    pub const fn hint(&self) -> Option<&'static str> {
        match self {
            Self::InUse { .. } => Some("wait for it, or measure beside it with --shared"),
            Self::Held { .. } => Some("wait for it with --wait, or measure beside it with --shared"),
            Self::Mixed { .. } => {
                Some("make them alike, leave hosts out with -x, or measure all the same with --force")
            }
            Self::NoLock { .. } => Some(
                "set GDRTUNE_LOCK_DIR there to a local folder for all users (chmod 1777), or go without by --shared",
            ),
            Self::Hosts { .. } | Self::Fleet(_) | Self::Memory { .. } | Self::Interrupted => None,
        }
    }
}

/// Why hosts cannot be used. A run may go on without them.
#[derive(Debug)]
pub struct Refusal {
    /// All of it, for a run that cannot.
    pub error: ConnectError,
    /// The hosts that it is about, by their places among those that were looked at, each with its own reason. Empty where
    /// it is about no host.
    pub hosts: Vec<(usize, String)>,
}

impl From<ConnectError> for Refusal {
    fn from(error: ConnectError) -> Self {
        Self { error, hosts: Vec::new() }
    }
}

/// A fleet whose agents all answer.
pub struct Connected {
    /// The fleet.
    pub fleet: Fleet,
    /// What its nodes say from here on.
    pub events: Receiver<FleetEvent>,
    /// What each node has, in rank order.
    pub inventories: Vec<Inventory>,
}

/// A fleet of which some agents may be missing.
pub(crate) struct Gathered {
    pub(crate) fleet: Fleet,
    pub(crate) events: Receiver<FleetEvent>,
    /// What each node has, in rank order; nothing of those that are missing.
    pub(crate) inventories: Vec<Option<Inventory>>,
    /// Which are missing.
    pub(crate) missing: Option<Refusal>,
}

/// Whoever hears of nodes that are being connected.
#[derive(Clone, Copy)]
pub struct Register<'a> {
    /// Takes the events; nobody does without one.
    pub recorder: Option<&'a Recorder>,
    /// Number of each host in them; without one, its place.
    pub numbers: &'a [u32],
}

/// Starts an agent on every host and waits until each answers or has failed. Blocks; not for a tokio thread.
///
/// # Errors
/// [`ConnectError`] where any host failed: a communicator needs all ranks.
pub fn connect(
    runtime: &Handle,
    config: FleetConfig,
    hosts: &[Host],
    interrupted: &dyn Fn() -> bool,
) -> Result<Connected, ConnectError> {
    let register = Register { recorder: None, numbers: &[] };
    let Gathered { fleet, events, inventories, missing } = gather(runtime, config, hosts, register, interrupted)?;
    match missing {
        None => Ok(Connected { fleet, events, inventories: inventories.into_iter().flatten().collect() }),
        Some(refusal) => {
            runtime.block_on(fleet.shutdown());
            Err(refusal.error)
        }
    }
}

/// The same, with whichever agents answer.
///
/// # Errors
/// [`ConnectError`] where no agent could be started for a reason that lies here, or the user wants no more.
pub(crate) fn gather(
    runtime: &Handle,
    config: FleetConfig,
    hosts: &[Host],
    register: Register<'_>,
    interrupted: &dyn Fn() -> bool,
) -> Result<Gathered, ConnectError> {
    let (sender, events) = mpsc::channel();
    let starting = runtime.spawn(Fleet::connect(config, hosts.to_vec(), sender));
    let mut nodes = Nodes {
        hosts,
        register,
        inventories: vec![None; hosts.len()],
        missing: Vec::new(),
        facts: KnownFacts::default(),
    };
    loop {
        if interrupted() {
            starting.abort();
            return Err(ConnectError::Interrupted);
        }
        match events.recv_timeout(POLL) {
            Ok(event) => nodes.file(event),
            Err(_) if starting.is_finished() => break,
            Err(_) => {}
        }
    }
    while let Ok(event) = events.try_recv() {
        nodes.file(event);
    }
    let fleet = match runtime.block_on(starting) {
        Ok(Ok(fleet)) => fleet,
        Ok(Err(error)) => return Err(ConnectError::Fleet(error.to_string())),
        Err(error) => return Err(ConnectError::Fleet(error.to_string())),
    };
    let missing = nodes.refusal();
    Ok(Gathered { fleet, events, inventories: nodes.inventories, missing })
}

/// Whether every host has room for its ranks' buffers. A rank keeps a send, a receive and a scratch buffer.
///
/// # Errors
/// [`ConnectError::Memory`] names the first host that has not.
pub fn check_memory(hosts: &[Host], slots: &[u32], inventories: &[Inventory], max_bytes: u64) -> Result<(), Refusal> {
    let nodes = hosts.iter().zip(slots).zip(inventories);
    let too_small = nodes.enumerate().filter_map(|(node, ((host, &ranks), inventory))| {
        let needed = max_bytes.saturating_mul(3 * u64::from(ranks));
        let memory = inventory.memory_bytes;
        let error = ConnectError::Memory { host: host.name.clone(), ranks, max_bytes, needed, memory };
        (memory > 0 && needed > memory).then_some((node, error))
    });
    let all: Vec<(usize, ConnectError)> = too_small.collect();
    let hosts = all.iter().map(|(node, error)| (*node, error.to_string())).collect();
    all.into_iter().next().map_or(Ok(()), |(_, error)| Err(Refusal { error, hosts }))
}

/// Whether GPUs and HCAs are free that the run would use. A process whose GPU is not known counts; so does one on any HCA.
///
/// # Errors
/// [`ConnectError::InUse`] names who uses them.
pub fn check_device_users(hosts: &[Host], slots: &[u32], inventories: &[Inventory]) -> Result<(), Refusal> {
    let mut users = Vec::new();
    let mut refused: Vec<(usize, String)> = Vec::new();
    for (node, ((host, &ranks), inventory)) in hosts.iter().zip(slots).zip(inventories).enumerate() {
        let gpus = gpus_of_run(&inventory.site_env, ranks);
        let is_wanted = |device: &&UsedDevice| match device {
            UsedDevice::Gpu(index) => gpus.as_ref().is_none_or(|gpus| gpus.contains(index)),
            UsedDevice::SomeGpu(_) | UsedDevice::Hca(_) => true,
        };
        for user in &inventory.device_users {
            let devices: Vec<String> = user.devices.iter().filter(is_wanted).map(ToString::to_string).collect();
            if !devices.is_empty() {
                let text = describe_user(&host.name, user, &devices);
                // One of its users explains why a host is out.
                if refused.last().is_none_or(|(last, _)| *last != node) {
                    refused.push((node, format!("in use: {text}")));
                }
                users.push(text);
            }
        }
    }
    if users.is_empty() {
        return Ok(());
    }
    let more = users.len().saturating_sub(SHOWN_USERS);
    users.truncate(SHOWN_USERS);
    Err(Refusal { error: ConnectError::InUse { users, more }, hosts: refused })
}

/// Numbers of the GPUs that `ranks` workers of a node take, by the rules of the worker: `GDRTUNE_GPU` is a list of CUDA
/// devices that local ranks share in turn, else each takes the one of its own number, and `CUDA_VISIBLE_DEVICES` says which
/// GPUs those are. `None` where it could be any.
pub(crate) fn gpus_of_run(site: &Environment, ranks: u32) -> Option<BTreeSet<u32>> {
    let set = |name: &str| site.get(name).filter(|value| !value.is_empty());
    let numbers = |list: &str| list.split(',').map(|part| part.trim().parse().ok()).collect::<Option<Vec<u32>>>();
    let devices = match set("GDRTUNE_GPU") {
        Some(list) => numbers(list)?.into_iter().take(ranks as usize).collect(),
        None => (0..ranks).collect::<Vec<u32>>(),
    };
    let Some(visible) = site.get("CUDA_VISIBLE_DEVICES") else { return Some(devices.into_iter().collect()) };
    let visible = numbers(visible)?;
    // Without a list of their own, ranks beyond the last device begin again at the first.
    let wraps = set("GDRTUNE_GPU").is_none();
    let gpu = |device: u32| {
        let index = if wraps { device as usize % visible.len().max(1) } else { device as usize };
        visible.get(index).copied()
    };
    devices.into_iter().map(gpu).collect()
}

/// `node01: pid 4711 (ann, python3) on GPU 0, GPU 1`.
fn describe_user(host: &str, user: &DeviceUser, devices: &[String]) -> String {
    format!("{host}: {}", describe_process(user, devices))
}

/// The same without the host.
pub(crate) fn describe_process(user: &DeviceUser, devices: &[String]) -> String {
    let known = [user.user.as_str(), user.command.as_str()].into_iter().filter(|text| !text.is_empty());
    let known = known.collect::<Vec<_>>().join(", ");
    let who = if known.is_empty() { "of an unknown user".to_owned() } else { format!("({known})") };
    let text = format!("pid {} {who} on {}", user.pid, devices.join(", "));
    // Names come from other people's processes.
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

fn and_more(more: usize) -> String {
    if more == 0 { String::new() } else { format!("; and {more} more") }
}

struct Nodes<'a> {
    hosts: &'a [Host],
    register: Register<'a>,
    inventories: Vec<Option<Inventory>>,
    missing: Vec<(usize, String)>,
    facts: KnownFacts,
}

impl Nodes<'_> {
    fn file(&mut self, event: FleetEvent) {
        match event {
            FleetEvent::Connecting { node } => self.say(node, NodeState::Connecting, String::new()),
            FleetEvent::Ready { node, inventory, .. } => {
                self.say(node, NodeState::Ready, describe(&inventory));
                self.tell_facts(node, &inventory);
                for line in &inventory.unreadable {
                    self.log(node, format!("not in the inventory: {line}"));
                }
                if let Some(slot) = self.inventories.get_mut(node) {
                    *slot = Some(*inventory);
                }
            }
            FleetEvent::Failed { node, error } => {
                self.missing.push((node, error.to_string()));
                self.say(node, NodeState::Failed, error.to_string());
            }
            FleetEvent::Lost { node, why } => {
                self.missing.push((node, why.clone()));
                self.say(node, NodeState::Lost, why);
            }
            FleetEvent::Log { node, line } => self.log(node, line),
            FleetEvent::Message { .. } => {}
        }
    }

    fn name(&self, node: usize) -> &str {
        self.hosts.get(node).map_or("", |h| h.name.as_str())
    }

    fn number(&self, node: usize) -> u32 {
        self.register.numbers.get(node).copied().unwrap_or(node as u32)
    }

    fn tell_facts(&mut self, node: usize, inventory: &Inventory) {
        let Some(recorder) = self.register.recorder else { return };
        let index = self.number(node);
        let facts = self.facts.of(index, inventory);
        recorder.record(Event::NodeFacts { index, host: self.name(node).to_owned(), facts });
    }

    fn log(&self, node: usize, line: String) {
        if let Some(recorder) = self.register.recorder {
            recorder.log(Level::Debug, self.name(node), line);
        }
    }

    fn say(&self, node: usize, state: NodeState, detail: String) {
        if let Some(recorder) = self.register.recorder {
            let index = self.number(node);
            recorder.record(Event::Node { index, host: self.name(node).to_owned(), state, detail });
        }
    }

    /// The nodes that are missing, in rank order.
    fn refusal(&mut self) -> Option<Refusal> {
        let mut hosts = std::mem::take(&mut self.missing);
        hosts.sort_by_key(|(node, _)| *node);
        let reasons: Vec<String> = hosts.iter().map(|(_, why)| why.clone()).collect();
        let error = ConnectError::Hosts { failed: reasons.len(), total: self.hosts.len(), reasons };
        (!hosts.is_empty()).then_some(Refusal { error, hosts })
    }
}

/// A node in one line.
fn describe(inventory: &Inventory) -> String {
    let interfaces: Vec<&str> = inventory.interfaces.iter().filter(|i| !i.loopback).map(|i| i.name.as_str()).collect();
    let network = if interfaces.is_empty() { "loopback only".to_owned() } else { interfaces.join(", ") };
    format!("{} CPUs, {} memory, {network}", inventory.cpus, Size(inventory.memory_bytes >> 30 << 30))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(name: &str) -> Host {
        Host::named(name)
    }

    fn user(pid: u32, devices: &[UsedDevice]) -> DeviceUser {
        DeviceUser { pid, user: "ann".to_owned(), command: "python3".to_owned(), devices: devices.to_vec() }
    }

    fn inventory(site: &[(&str, &str)], device_users: Vec<DeviceUser>) -> Inventory {
        let mut site_env = Environment::new();
        for (name, value) in site {
            site_env = site_env.with(*name, *value);
        }
        Inventory { site_env, device_users, ..Inventory::default() }
    }

    #[test]
    fn gpus_of_a_run() {
        let some = |gpus: &[u32]| Some(gpus.iter().copied().collect::<BTreeSet<_>>());
        for (site, ranks, expected) in [
            (&[][..], 2, some(&[0, 1])),
            (&[("GDRTUNE_GPU", "3")], 2, some(&[3])),
            (&[("GDRTUNE_GPU", "3, 5,7")], 2, some(&[3, 5])),
            (&[("GDRTUNE_GPU", "")], 1, some(&[0])),
            (&[("GDRTUNE_GPU", "all")], 1, None),
            (&[("CUDA_VISIBLE_DEVICES", "4,6")], 1, some(&[4])),
            (&[("CUDA_VISIBLE_DEVICES", "4,6")], 4, some(&[4, 6])),
            (&[("CUDA_VISIBLE_DEVICES", "GPU-8f1c")], 1, None),
            (&[("CUDA_VISIBLE_DEVICES", "")], 1, None),
            (&[("CUDA_VISIBLE_DEVICES", "4,6"), ("GDRTUNE_GPU", "1")], 1, some(&[6])),
            (&[("CUDA_VISIBLE_DEVICES", "4,6"), ("GDRTUNE_GPU", "2")], 1, None),
        ] {
            assert_eq!(gpus_of_run(&inventory(site, vec![]).site_env, ranks), expected, "{site:?} {ranks}");
        }
    }

    #[test]
    fn what_the_run_does_not_use_may_be_in_use() {
        let hosts = [host("n1")];
        for (site, device, is_refused) in [
            (&[][..], UsedDevice::Gpu(1), true),
            (&[], UsedDevice::Gpu(2), false),
            (&[], UsedDevice::SomeGpu("/dev/nvidia-uvm".to_owned()), true),
            (&[], UsedDevice::Hca("mlx5_0".to_owned()), true),
            (&[("GDRTUNE_GPU", "2")], UsedDevice::Gpu(1), false),
            (&[("GDRTUNE_GPU", "what?")], UsedDevice::Gpu(7), true),
        ] {
            let inventories = [inventory(site, vec![user(7, std::slice::from_ref(&device))])];
            let result = check_device_users(&hosts, &[2], &inventories);
            assert_eq!(result.is_err(), is_refused, "{site:?} {device}");
        }
    }

    #[test]
    fn the_refusal_names_who_is_there() {
        let hosts = [host("n1"), host("n2")];
        let mut hostile = user(9, &[UsedDevice::Gpu(0), UsedDevice::Hca("mlx5_0".to_owned()), UsedDevice::Gpu(4)]);
        hostile.command = "x\u{1b}[2J\n".to_owned();
        let unknown = DeviceUser { user: String::new(), command: String::new(), ..user(10, &[UsedDevice::Gpu(0)]) };
        let inventories =
            [inventory(&[], vec![hostile, unknown]), inventory(&[], vec![user(11, &[UsedDevice::Gpu(1)])])];
        let Refusal { error, hosts: refused } = check_device_users(&hosts, &[1, 2], &inventories).unwrap_err();
        assert_eq!(refused.iter().map(|(node, _)| *node).collect::<Vec<_>>(), [0, 1], "each once");
        assert_eq!(
            error.to_string(),
            "GPUs or HCAs of the run are in use: n1: pid 9 (ann, x?[2J?) on GPU 0, HCA mlx5_0; \
             n1: pid 10 of an unknown user on GPU 0; n2: pid 11 (ann, python3) on GPU 1"
        );

        let crowd = (1..=7).map(|pid| user(pid, &[UsedDevice::Gpu(0)])).collect();
        let error = check_device_users(&hosts[..1], &[1], &[inventory(&[], crowd)]).unwrap_err().error.to_string();
        assert!(error.contains("pid 5 (ann, python3) on GPU 0; and 2 more") && !error.contains("pid 6"), "{error}");
    }
}
