//! From hosts to a bench that measures on them: agents started, what they have checked, workers ended afterwards.
//!
//! Whoever measures on a cluster comes through here, so that nothing is left running whatever becomes of the work.

use std::{path::PathBuf, time::Duration};

use gdrtune_fleet::{Fleet, FleetConfig, LauncherKind, hosts::Host};
use gdrtune_profiles::vocab::{DataType, Engine};
use gdrtune_wire::{Inventory, SessionKey, ToAgent};
use tokio::runtime::Handle;

use crate::{
    cluster::{
        CallMode, ClusterBench, ClusterConfig, ClusterNote,
        link::{FleetLink, Link},
        pace::PaceConfig,
        shape,
    },
    connect::{self, ConnectError, Gathered, Refusal, Register},
    homogeneity,
    lock::{self, Company, LockPlan},
    members::Members,
};

/// What tells workers where NCCL is (`gdrtune_node::engine::nccl`).
const NCCL_PATH_VARIABLE: &str = "GDRTUNE_NCCL_LIB";

/// A cluster to measure on.
#[derive(Debug, Clone)]
pub struct ClusterRequest {
    /// Hash of the sources.
    pub build_id: String,
    /// The executable that runs on the hosts.
    pub executable: PathBuf,
    /// Hosts in rank order.
    pub hosts: Vec<Host>,
    /// Ranks on each host.
    pub slots: Vec<u32>,
    /// How hosts are reached.
    pub launcher: LauncherKind,
    /// Hosts that are being connected at the same time.
    pub fanout: usize,
    /// Variables of the site, over the environment that agents find.
    pub environment: Vec<(String, String)>,
    /// Folder on the hosts below which the executable is kept; without one, the user's cache folder.
    pub remote_folder: Option<String>,
    /// Folder here with builds of the same sources for hosts of another kind; `gdrtune-aarch64`.
    pub agent_folder: Option<PathBuf>,
    /// What measures.
    pub engine: Engine,
    /// Path of NCCL on the hosts; without it, workers search as a job's loader would.
    pub nccl_library: Option<String>,
    /// Which hosts will do.
    pub admission: Admission,
    /// Whether every rank poses as a node of its own.
    pub emulate_nodes: bool,
    /// Whether GPUs, HCAs and hosts may be in use by others.
    pub shared: bool,
    /// Time to wait for other runs on the hosts to end; zero refuses.
    pub wait: Duration,
    /// Words of the command that starts workers; empty starts them directly.
    pub worker_command: Vec<String>,
    /// Element type.
    pub data_type: DataType,
    /// How the collectives are called.
    pub calls: CallMode,
}

impl ClusterRequest {
    /// Nodes and ranks as the engine will see them.
    pub fn shape(&self) -> (u32, u32) {
        shape(&self.slots, self.emulate_nodes)
    }

    /// The same with these of its hosts alone; `places` rise.
    pub(crate) fn of_hosts(&self, places: &[usize]) -> Self {
        let hosts = places.iter().filter_map(|&place| self.hosts.get(place)).cloned().collect();
        let slots = places.iter().filter_map(|&place| self.slots.get(place)).copied().collect();
        Self { hosts, slots, ..self.clone() }
    }
}

/// Which hosts will do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Admission {
    /// Go on without hosts that cannot be used, or are lost, while so many are left; without it, all are needed.
    pub min_nodes: Option<u32>,
    /// Whether hosts may differ in what NCCL needs alike.
    pub allow_mixed: bool,
    /// Whether pairs of nodes are measured before a run, to name slow ones.
    pub probe_pairs: bool,
}

/// The hosts that are measured on.
#[derive(Debug, Clone)]
pub struct Present {
    /// The request, with these hosts alone.
    pub request: ClusterRequest,
    /// What each has, in rank order.
    pub inventories: Vec<Inventory>,
    /// Those that are left out, by their places in the request as it was, and why.
    pub left_out: Vec<(usize, String)>,
    /// Differences between them that were accepted, in sentences.
    pub accepted: Vec<String>,
}

/// How it is measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Measuring {
    /// Largest size in bytes.
    pub max_bytes: u64,
    /// Length of samples.
    pub pace: PaceConfig,
}

/// Whoever watches a cluster.
pub struct Watcher<'a> {
    /// Hears of nodes while they are being connected.
    pub register: Register<'a>,
    /// Whether the user wants no more, asked while nodes are being connected.
    pub interrupted: &'a dyn Fn() -> bool,
    /// Hears what the user should know before measuring begins, such as whom it waits for.
    pub tell: &'a dyn Fn(&str),
    /// Hears what happens to the workers.
    pub notes: Box<dyn FnMut(ClusterNote) + 'a>,
}

/// Connects, takes the hosts for `run` alone, lets `work` measure, and ends every worker and agent. Blocks; not for a tokio
/// thread.
///
/// # Errors
/// [`ConnectError`] where too many hosts cannot be used; `work` did not run then.
pub fn with_cluster<T>(
    runtime: &Handle,
    request: &ClusterRequest,
    run: &str,
    measuring: Measuring,
    watcher: Watcher<'_>,
    work: impl FnOnce(&mut ClusterBench<'_>, &Present) -> T,
) -> Result<T, ConnectError> {
    let Watcher { register, interrupted, tell, notes } = watcher;
    let max_bytes = measuring.max_bytes;
    let company = Company { interrupted, tell };
    with_nodes(runtime, request, (run, max_bytes), (register, company), |link, present| {
        let mut bench = ClusterBench::new(Box::new(link), cluster_config(&present.request, measuring), notes);
        let result = work(&mut bench, present);
        bench.close();
        result
    })
}

/// Connects, takes the hosts for a run of this id alone, lets `work` talk to their agents, and ends them. Workers have room
/// for buffers of this many bytes. Blocks; not for a tokio thread.
///
/// # Errors
/// [`ConnectError`] where too many hosts cannot be used; `work` did not run then.
pub fn with_nodes<T>(
    runtime: &Handle,
    request: &ClusterRequest,
    (run, max_bytes): (&str, u64),
    (register, company): (Register<'_>, Company<'_>),
    work: impl FnOnce(FleetLink<'_>, &Present) -> T,
) -> Result<T, ConnectError> {
    let config = FleetConfig {
        fanout: request.fanout,
        agent_env: agent_environment(&request.environment, request.nccl_library.as_deref()),
        remote_folder: request.remote_folder.clone(),
        agent_folder: request.agent_folder.clone(),
        ..FleetConfig::new(request.build_id.clone(), request.executable.clone(), request.launcher.clone())
    };
    let mut gathered = connect::gather(runtime, config, &request.hosts, register, company.interrupted)?;
    let admitted = admit(request, run, max_bytes, &mut gathered, company);
    let Gathered { fleet, events, .. } = gathered;
    let (nodes, present) = match admitted {
        Ok(admitted) => admitted,
        Err(error) => {
            runtime.block_on(fleet.shutdown());
            return Err(error);
        }
    };
    let result = work(FleetLink::of(&fleet, &events, nodes), &present);
    runtime.block_on(fleet.shutdown());
    Ok(result)
}

/// Takes the hosts and looks at what they have. Returns which they are.
fn admit(
    request: &ClusterRequest,
    run: &str,
    max_bytes: u64,
    gathered: &mut Gathered,
    company: Company<'_>,
) -> Result<(Vec<usize>, Present), ConnectError> {
    let Gathered { fleet, events, inventories, missing } = gathered;
    let mut members = Members::new(request.hosts.len(), request.admission.min_nodes);
    let leave = |members: &mut Members, refusal: Refusal, fleet: &Fleet| {
        for (place, why) in members.without(refusal)? {
            // Nothing is to stay there, the lock least of all; one that is gone has nothing.
            fleet.send(place, &ToAgent::Shutdown).ok();
            let host = request.hosts.get(place).map_or("", |host| host.name.as_str());
            (company.tell)(&format!("{host} is left out: {why}"));
        }
        Ok(())
    };
    if let Some(refusal) = missing.take() {
        leave(&mut members, refusal, fleet)?;
    }
    loop {
        let present = request.of_hosts(members.places());
        let mut link = FleetLink::of(fleet, events, members.places().to_vec());
        let plan = LockPlan { run, hosts: &present.hosts, shared: request.shared, wait: request.wait };
        let known = members.places().iter().filter_map(|&place| inventories.get(place)?.clone()).collect();
        match claim(&mut link, &plan, company, known) {
            Err(refusal) => leave(&mut members, refusal, fleet)?,
            Ok(read) => {
                for (&place, inventory) in members.places().iter().zip(read) {
                    inventories[place] = Some(inventory);
                }
                break;
            }
        }
    }
    loop {
        let present = request.of_hosts(members.places());
        let inventories: Vec<Inventory> =
            members.places().iter().filter_map(|&place| inventories.get(place)?.clone()).collect();
        if let Err(refusal) = preflight(&present, &inventories, max_bytes) {
            leave(&mut members, refusal, fleet)?;
            continue;
        }
        let accepted = compare(&present, &inventories, company)?;
        let (places, left_out) = members.into_parts();
        return Ok((places, Present { request: present, inventories, left_out, accepted }));
    }
}

/// Takes the hosts. Who had to end first has changed what the hosts have: it is read again then.
fn claim(
    link: &mut dyn Link,
    plan: &LockPlan<'_>,
    company: Company<'_>,
    inventories: Vec<Inventory>,
) -> Result<Vec<Inventory>, Refusal> {
    if lock::lock(link, plan, company)? { lock::inventories(link, plan.hosts, company) } else { Ok(inventories) }
}

/// Whether the hosts can be used as they are.
fn preflight(request: &ClusterRequest, inventories: &[Inventory], max_bytes: u64) -> Result<(), Refusal> {
    connect::check_memory(&request.hosts, &request.slots, inventories, max_bytes)?;
    if request.engine != Engine::Nccl || request.shared {
        return Ok(());
    }
    connect::check_device_users(&request.hosts, &request.slots, inventories)
}

/// Says in what the hosts differ. Returns what is accepted although NCCL may break on it.
///
/// # Errors
/// [`ConnectError::Mixed`] where that is not accepted.
fn compare(
    request: &ClusterRequest,
    inventories: &[Inventory],
    company: Company<'_>,
) -> Result<Vec<String>, ConnectError> {
    let ClusterRequest { engine, emulate_nodes, ref hosts, ref slots, .. } = *request;
    let found = homogeneity::compare(&homogeneity::Nodes { engine, emulate_nodes, hosts, slots, inventories });
    let (grave, odd): (Vec<_>, Vec<_>) = found.into_iter().partition(|difference| difference.is_grave);
    for difference in odd {
        (company.tell)(&difference.to_string());
    }
    let grave: Vec<String> = grave.iter().map(ToString::to_string).collect();
    if !grave.is_empty() && !request.admission.allow_mixed {
        return Err(ConnectError::Mixed { differences: grave });
    }
    let accepted: Vec<String> = grave.into_iter().map(|text| format!("accepted with --force: {text}")).collect();
    for text in &accepted {
        (company.tell)(text);
    }
    Ok(accepted)
}

/// What is set for agents, which every arm must see alike: the site's variables, and where NCCL is.
pub fn agent_environment(site: &[(String, String)], library: Option<&str>) -> Vec<(String, String)> {
    let library = library.map(|path| (NCCL_PATH_VARIABLE.to_owned(), path.to_owned()));
    site.iter().cloned().chain(library).collect()
}

/// A new random key for a run's data sockets.
pub fn new_key() -> SessionKey {
    SessionKey(rand::random())
}

fn cluster_config(request: &ClusterRequest, measuring: Measuring) -> ClusterConfig {
    ClusterConfig {
        engine: request.engine,
        hosts: request.hosts.iter().map(|h| h.name.clone()).collect(),
        emulate_nodes: request.emulate_nodes,
        slots: request.slots.clone(),
        data_type: request.data_type,
        max_bytes: measuring.max_bytes,
        worker_command: request.worker_command.clone(),
        pace: measuring.pace,
        calls: request.calls,
        key: new_key(),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The native engine on these hosts, one rank each.
    pub(crate) fn request(hosts: &[&str]) -> ClusterRequest {
        ClusterRequest {
            build_id: String::new(),
            executable: "gdrtune".into(),
            hosts: hosts.iter().map(|name| Host::named(*name)).collect(),
            slots: vec![1; hosts.len()],
            launcher: LauncherKind::Local,
            fanout: 1,
            environment: Vec::new(),
            remote_folder: None,
            agent_folder: None,
            engine: Engine::Native,
            nccl_library: None,
            admission: Admission::default(),
            emulate_nodes: false,
            shared: false,
            wait: Duration::ZERO,
            worker_command: Vec::new(),
            data_type: DataType::F32,
            calls: CallMode::default(),
        }
    }

    #[test]
    fn a_part_of_a_request_keeps_the_ranks_of_its_hosts() {
        let request = ClusterRequest { slots: vec![1, 2, 3], ..request(&["a", "b", "c"]) };
        let part = request.of_hosts(&[0, 2]);
        assert_eq!((part.hosts[1].name.as_str(), part.slots), ("c", vec![1, 3]));
    }
}
