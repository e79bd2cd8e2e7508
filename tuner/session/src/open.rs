//! From hosts to a bench that measures on them: agents started, what they have checked, workers ended afterwards.
//!
//! Whoever measures on a cluster comes through here, so that nothing is left running whatever becomes of the work.

use std::{path::PathBuf, time::Duration};

use gdrtune_fleet::{FleetConfig, LauncherKind, hosts::Host};
use gdrtune_profiles::vocab::{DataType, Engine};
use gdrtune_wire::{Inventory, SessionKey};
use tokio::runtime::Handle;

use crate::{
    cluster::{
        CallMode, ClusterBench, ClusterConfig, ClusterNote,
        link::{FleetLink, Link},
        pace::PaceConfig,
        shape,
    },
    connect::{self, ConnectError, Connected},
    lock::{self, Company, LockPlan},
    recorder::Recorder,
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
    pub recorder: Option<&'a Recorder>,
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
/// [`ConnectError`] where a host cannot be used; `work` did not run then.
pub fn with_cluster<T>(
    runtime: &Handle,
    request: &ClusterRequest,
    run: &str,
    measuring: Measuring,
    watcher: Watcher<'_>,
    work: impl FnOnce(&mut ClusterBench<'_>, &[Inventory]) -> T,
) -> Result<T, ConnectError> {
    let fleet = FleetConfig {
        fanout: request.fanout,
        agent_env: agent_environment(&request.environment, request.nccl_library.as_deref()),
        remote_folder: request.remote_folder.clone(),
        agent_folder: request.agent_folder.clone(),
        ..FleetConfig::new(request.build_id.clone(), request.executable.clone(), request.launcher.clone())
    };
    let Watcher { recorder, interrupted, tell, notes } = watcher;
    let Connected { fleet, events, inventories } =
        connect::connect(runtime, fleet, &request.hosts, recorder, interrupted)?;
    let mut link = FleetLink::new(&fleet, &events);
    let plan = LockPlan { run, hosts: &request.hosts, shared: request.shared, wait: request.wait };
    let checked = claim(&mut link, &plan, Company { interrupted, tell }, inventories).and_then(|inventories| {
        preflight(request, &inventories, measuring.max_bytes)?;
        Ok(inventories)
    });
    let inventories = match checked {
        Ok(inventories) => inventories,
        Err(error) => {
            runtime.block_on(fleet.shutdown());
            return Err(error);
        }
    };
    let mut bench = ClusterBench::new(Box::new(link), cluster_config(request, measuring), notes);
    let result = work(&mut bench, &inventories);
    bench.close();
    drop(bench);
    runtime.block_on(fleet.shutdown());
    Ok(result)
}

/// Takes the hosts. Who had to end first has changed what the hosts have: it is read again then.
fn claim(
    link: &mut dyn Link,
    plan: &LockPlan<'_>,
    company: Company<'_>,
    inventories: Vec<Inventory>,
) -> Result<Vec<Inventory>, ConnectError> {
    if lock::lock(link, plan, company)? { lock::inventories(link, plan.hosts, company) } else { Ok(inventories) }
}

/// Whether the hosts can be used as they are.
fn preflight(request: &ClusterRequest, inventories: &[Inventory], max_bytes: u64) -> Result<(), ConnectError> {
    connect::check_memory(&request.hosts, &request.slots, inventories, max_bytes)?;
    if request.engine != Engine::Nccl || request.shared {
        return Ok(());
    }
    connect::check_device_users(&request.hosts, &request.slots, inventories)
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
