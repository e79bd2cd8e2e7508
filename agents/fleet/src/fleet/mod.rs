//! All agents of a run: starts them, keeps them under watch, carries messages, and ends them.
//!
//! One task per node owns the node's agent; dropping the [`Fleet`] ends all tasks, and with them the agents. Sending is
//! synchronous and never waits, so that a plain thread can drive the run.

mod handshake;
mod link;
mod node;

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError, mpsc::Sender},
    time::Duration,
};

use futures_util::future::join_all;
use gdrtune_wire::{FromAgent, Hello, Inventory, PROTOCOL, ToAgent, codec};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::{
    sync::{Semaphore, mpsc, oneshot},
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;

use crate::{
    error::{FleetError, LaunchError, LaunchErrorKind, SendError},
    hosts::Host,
    launcher::{
        AgentSpec, ExecLauncher, Launcher, LauncherCommand, LocalLauncher, SlurmLauncher, SshLauncher, SshOptions,
    },
};
use node::{Launching, NodeTask, State};

/// Agents that are being started at one time. An sshd takes 10 to 100 unauthenticated connections (`MaxStartups`), but
/// each host has its own; pdsh and all-smi use the same window.
pub const DEFAULT_FANOUT: usize = 32;
/// Time for one agent from the first packet to its inventory, an upload included.
pub const DEFAULT_CONNECT_DEADLINE: Duration = Duration::from_mins(1);
/// Time for agents to end by themselves after they were told to.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(5);
/// Time beyond the grace for killing and cleaning up on this machine.
const CLEANUP_LIMIT: Duration = Duration::from_secs(5);
/// Descriptors that one node needs at most, and those that the rest of the process needs.
const DESCRIPTORS_PER_NODE: u64 = 8;
const OTHER_DESCRIPTORS: u64 = 256;

/// How agents are started.
#[derive(Debug, Clone)]
pub enum LauncherKind {
    /// As children of this process, whatever the hosts are called.
    Local,
    /// Over ssh.
    Ssh(SshOptions),
    /// As steps of the Slurm job that this process is in.
    Slurm,
    /// By a command of the user's.
    Exec(LauncherCommand),
    /// In another way.
    Other(Arc<dyn Launcher>),
}

/// What a fleet is made from.
#[derive(Debug, Clone)]
pub struct FleetConfig {
    /// Hash of the sources that this program was built from; agents must have the same.
    pub build_id: String,
    /// Our own executable; run as `EXECUTABLE agent`.
    pub executable: PathBuf,
    /// Folder on this machine with builds of the same sources for other machines, or for older systems than ours.
    pub agent_folder: Option<PathBuf>,
    /// How agents are started.
    pub launcher: LauncherKind,
    /// Agents that are being started at one time; at least one.
    pub fanout: usize,
    /// Time for one agent from the first packet to its inventory.
    pub connect_deadline: Duration,
    /// Variables over the environment that agents find. Visible in process lists: no secrets.
    pub agent_env: Vec<(String, String)>,
    /// Folder on the hosts below which our executable is kept, an absolute path; without one, the user's cache folder.
    pub remote_folder: Option<String>,
}

impl FleetConfig {
    /// A configuration with the default window and deadline, and no variables.
    pub fn new(build_id: impl Into<String>, executable: impl Into<PathBuf>, launcher: LauncherKind) -> Self {
        Self {
            build_id: build_id.into(),
            executable: executable.into(),
            agent_folder: None,
            launcher,
            fanout: DEFAULT_FANOUT,
            connect_deadline: DEFAULT_CONNECT_DEADLINE,
            agent_env: Vec::new(),
            remote_folder: None,
        }
    }
}

/// What happens to the nodes. Nodes are numbered in rank order from 0.
///
/// Of each node: `Connecting`, then `Ready` or `Failed`; after `Ready` any number of `Message`, then perhaps one `Lost`,
/// after which nothing comes. `Log` may come at any time until then.
#[derive(Debug, Clone, PartialEq)]
pub enum FleetEvent {
    /// The node's turn in the window has come.
    Connecting {
        /// The node.
        node: usize,
    },
    /// Its agent is of our build and has answered.
    Ready {
        /// The node.
        node: usize,
        /// Who it is.
        hello: Hello,
        /// What it has.
        inventory: Box<Inventory>,
    },
    /// Its agent could not be started.
    Failed {
        /// The node.
        node: usize,
        /// Why, and what to do.
        error: LaunchError,
    },
    /// Its agent says something. Answers to heartbeats and log lines are not among these.
    Message {
        /// The node.
        node: usize,
        /// What it says.
        message: FromAgent,
    },
    /// Its agent is gone, without being told to.
    Lost {
        /// The node.
        node: usize,
        /// How that was noticed, for people.
        why: String,
    },
    /// A line for the log, from the agent or from the way to it.
    Log {
        /// The node.
        node: usize,
        /// The line.
        line: String,
    },
}

struct Node {
    host: Host,
    frames: mpsc::UnboundedSender<Arc<[u8]>>,
    state: Arc<Mutex<State>>,
}

/// Running agents.
pub struct Fleet {
    nodes: Vec<Node>,
    failures: Vec<(usize, LaunchError)>,
    tasks: JoinSet<()>,
    stop: CancellationToken,
}

impl std::fmt::Debug for Fleet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Fleet({} nodes, {} failed)", self.nodes.len(), self.failures.len())
    }
}

impl Fleet {
    /// Starts all agents; returns when every node is ready or has failed. [`Fleet::failures`] tells which have.
    ///
    /// # Errors
    /// [`FleetError`] where no agent could be started at all. Dropping the future ends what was started.
    pub async fn connect(
        config: FleetConfig,
        hosts: Vec<Host>,
        events: Sender<FleetEvent>,
    ) -> Result<Self, FleetError> {
        if hosts.is_empty() {
            return Err(FleetError::NoHosts);
        }
        check_env(&config.agent_env)?;
        let launcher: Arc<dyn Launcher> = match config.launcher {
            LauncherKind::Local => Arc::new(LocalLauncher),
            LauncherKind::Ssh(options) => Arc::new(SshLauncher::new(options)?),
            LauncherKind::Slurm => Arc::new(SlurmLauncher::new()),
            LauncherKind::Exec(command) => Arc::new(ExecLauncher::new(command)),
            LauncherKind::Other(launcher) => launcher,
        };
        raise_descriptor_limit(hosts.len());
        let launching = Arc::new(Launching {
            launcher,
            spec: AgentSpec {
                build_id: config.build_id.clone(),
                executable: config.executable,
                agent_folder: config.agent_folder,
                env: config.agent_env,
                remote_folder: config.remote_folder,
            },
            hello: own_hello(config.build_id),
            window: Semaphore::new(config.fanout.max(1)),
            deadline: config.connect_deadline,
        });
        let mut fleet =
            Self { nodes: Vec::new(), failures: Vec::new(), tasks: JoinSet::new(), stop: CancellationToken::new() };
        let mut outcomes = Vec::with_capacity(hosts.len());
        for (node, host) in hosts.into_iter().enumerate() {
            outcomes.push(fleet.start_node(node, host, &launching, events.clone()));
        }
        drop(launching);
        for (node, outcome) in join_all(outcomes).await.into_iter().enumerate() {
            let host = &fleet.nodes[node].host.name;
            let crashed = |_closed| {
                let hint = "report this: it is a fault in gdrtune";
                Err(LaunchError::new(host, LaunchErrorKind::Local, "its task ended in mid-launch", hint))
            };
            if let Err(error) = outcome.unwrap_or_else(crashed) {
                fleet.failures.push((node, error));
            }
        }
        Ok(fleet)
    }

    fn start_node(
        &mut self,
        node: usize,
        host: Host,
        launching: &Arc<Launching>,
        events: Sender<FleetEvent>,
    ) -> oneshot::Receiver<Result<(), LaunchError>> {
        let (frames, queue) = mpsc::unbounded_channel();
        let (report, outcome) = oneshot::channel();
        let state = Arc::new(Mutex::new(State::Connecting));
        let task =
            NodeTask { node, host: host.clone(), events, state: Arc::clone(&state), stop: self.stop.clone(), queue };
        self.tasks.spawn(task.run(Arc::clone(launching), report));
        self.nodes.push(Node { host, frames, state });
        outcome
    }

    /// The hosts in rank order.
    pub fn hosts(&self) -> impl ExactSizeIterator<Item = &Host> {
        self.nodes.iter().map(|node| &node.host)
    }

    /// Nodes whose agents could not be started, in rank order.
    pub fn failures(&self) -> &[(usize, LaunchError)] {
        &self.failures
    }

    /// Queues a message for a node. Never waits.
    ///
    /// # Errors
    /// [`SendError`] where the node is not ready or not there any more, or the message is too large for a frame.
    pub fn send(&self, node: usize, message: &ToAgent) -> Result<(), SendError> {
        let Some(target) = self.nodes.get(node) else {
            return Err(SendError::NoSuchNode { node, nodes: self.nodes.len() });
        };
        let frame = codec::encode(message).map_err(|error| SendError::Encode { node, cause: error.to_string() })?;
        target.queue(node, Arc::from(frame))
    }

    /// Queues a message for every node that is there. Never waits.
    ///
    /// # Errors
    /// [`SendError::Encode`] where the message is too large for a frame.
    pub fn broadcast(&self, message: &ToAgent) -> Result<(), SendError> {
        let encode = codec::encode(message);
        let frame: Arc<[u8]> = encode.map_err(|error| SendError::Encode { node: 0, cause: error.to_string() })?.into();
        for (number, node) in self.nodes.iter().enumerate() {
            // A node that is gone has been reported as lost.
            node.queue(number, Arc::clone(&frame)).ok();
        }
        Ok(())
    }

    /// Tells all agents to end, gives them a short time, and ends those that did not. Nothing is left on this machine.
    pub async fn shutdown(mut self) {
        // A constant message fits a frame.
        self.broadcast(&ToAgent::Shutdown).ok();
        self.stop.cancel();
        let all = async { while self.tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(SHUTDOWN_GRACE + CLEANUP_LIMIT, all).await.is_err() {
            self.tasks.shutdown().await;
        }
    }
}

impl Node {
    fn queue(&self, node: usize, frame: Arc<[u8]>) -> Result<(), SendError> {
        let why = match &*self.state.lock().unwrap_or_else(PoisonError::into_inner) {
            State::Ready if self.frames.send(frame).is_ok() => return Ok(()),
            State::Ready => "its task has ended".to_owned(),
            State::Connecting => "it is not connected yet".to_owned(),
            State::Gone(why) => why.clone(),
        };
        Err(SendError::Lost { node, host: self.host.name.clone(), why })
    }
}

fn check_env(env: &[(String, String)]) -> Result<(), FleetError> {
    let problem = |(name, value): &(String, String)| Some((name.clone(), variable_problem(name, value)?));
    match env.iter().find_map(problem) {
        Some((name, problem)) => Err(FleetError::AgentEnv { name, problem }),
        None => Ok(()),
    }
}

/// What keeps a variable from reaching an agent, if anything does: variables travel in a command line.
pub(crate) fn variable_problem(name: &str, value: &str) -> Option<&'static str> {
    let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    if name.is_empty() || name.starts_with(|first: char| first.is_ascii_digit()) || !name.bytes().all(word) {
        return Some("a variable's name has letters, digits and '_' only");
    }
    value.contains(char::is_control).then_some("its value has control characters")
}

fn own_hello(build_id: String) -> Hello {
    Hello {
        protocol: PROTOCOL,
        build_id,
        hostname: rustix::system::uname().nodename().to_string_lossy().into_owned(),
        // Empty where it cannot be read, by the message's definition.
        boot_id: std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned(),
        pid: std::process::id(),
    }
}

/// Raises the soft limit on open files where many nodes need it. A limit that cannot be raised shows up as an error of
/// the node that hits it.
fn raise_descriptor_limit(nodes: usize) {
    let limit = getrlimit(Resource::Nofile);
    let needed = nodes as u64 * DESCRIPTORS_PER_NODE + OTHER_DESCRIPTORS;
    if limit.current.is_some_and(|current| current < needed) {
        let current = Some(limit.maximum.map_or(needed, |maximum| maximum.min(needed)));
        setrlimit(Resource::Nofile, Rlimit { current, maximum: limit.maximum }).ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_must_fit_a_command_line() {
        for (name, value, good) in [
            ("NCCL_DEBUG", "INFO", true),
            ("_X1", "a 'b' !c $d", true),
            ("", "x", false),
            ("1X", "x", false),
            ("A B", "x", false),
            ("A=B", "x", false),
            ("A", "x\ny", false),
            ("A", "x\0", false),
        ] {
            assert_eq!(check_env(&[(name.to_owned(), value.to_owned())]).is_ok(), good, "{name:?}={value:?}");
        }
    }
}
