//! The fleet: one task per node, one channel of events for all.

use std::{
    path::PathBuf,
    sync::{Arc, mpsc::Sender},
    time::Duration,
};

use gdrtune_wire::{FromAgent, Hello, Inventory, ToAgent};
use tokio::{
    sync::{Semaphore, mpsc, oneshot},
    task::JoinHandle,
};

use crate::{
    connection::{self, Connection},
    error::{FleetError, LaunchError, LaunchErrorKind},
    hosts::Host,
    launch::{self, LauncherKind},
};

/// Time that an agent gets to end by itself, workers included, before it is killed.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(6);

/// How a fleet is started.
#[derive(Debug, Clone)]
pub struct FleetConfig {
    /// Hash of the sources; agents must have the same.
    pub build_id: String,
    /// The executable that runs as agent: this very one.
    pub executable: PathBuf,
    /// How hosts are reached.
    pub launcher: LauncherKind,
    /// Hosts that are being connected at the same time.
    pub fanout: usize,
    /// Time per host from the first packet to its inventory.
    pub connect_deadline: Duration,
}

impl FleetConfig {
    /// The usual way: 32 hosts at a time, a minute for each.
    ///
    /// 32 stays under what one jump host or a default `MaxStartups` (10:30:100) survives with retries.
    pub fn new(build_id: String, executable: PathBuf, launcher: LauncherKind) -> Self {
        Self { build_id, executable, launcher, fanout: 32, connect_deadline: Duration::from_secs(60) }
    }
}

/// What happens on the nodes. `node` is the position in rank order.
#[derive(Debug)]
pub enum FleetEvent {
    /// Its agent is being started.
    Connecting {
        /// The node.
        node: usize,
    },
    /// Its agent answers.
    Ready {
        /// The node.
        node: usize,
        /// Who answers.
        hello: Hello,
        /// What the node has.
        inventory: Box<Inventory>,
    },
    /// Its agent could not be started.
    Failed {
        /// The node.
        node: usize,
        /// Why, and what to do.
        error: LaunchError,
    },
    /// Its agent said something.
    Message {
        /// The node.
        node: usize,
        /// What.
        message: FromAgent,
    },
    /// Its agent was there and is gone. Said once.
    Lost {
        /// The node.
        node: usize,
        /// Why.
        why: String,
    },
    /// A line for the log.
    Log {
        /// The node.
        node: usize,
        /// Whether somebody should look at it.
        warning: bool,
        /// The line.
        line: String,
    },
}

/// The node is gone; its loss comes, or came, as an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the node is gone")]
pub struct NodeLost;

/// Agents on all hosts. Dropping it ends them, without waiting.
#[derive(Debug)]
pub struct Fleet {
    nodes: Vec<Node>,
}

/// One node's task; aborted with the fleet, which kills or disconnects its agent.
#[derive(Debug)]
struct Node {
    outgoing: mpsc::UnboundedSender<ToAgent>,
    task: JoinHandle<()>,
}

impl Drop for Node {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Fleet {
    /// Starts an agent on every host, and returns when each is ready or has failed, which the events tell.
    ///
    /// # Errors
    /// [`FleetError`] only where no host could even be tried.
    pub async fn connect(
        config: FleetConfig,
        hosts: Vec<Host>,
        events: Sender<FleetEvent>,
    ) -> Result<Self, FleetError> {
        if hosts.is_empty() {
            return Err(FleetError::NoHosts);
        }
        let launcher = launch::launcher(&config.launcher, config.executable.clone())?;
        let window = Arc::new(Semaphore::new(config.fanout.max(1)));
        let mut nodes = Vec::with_capacity(hosts.len());
        let mut settled = Vec::with_capacity(hosts.len());
        for (index, host) in hosts.into_iter().enumerate() {
            let (outgoing, requests) = mpsc::unbounded_channel();
            let (settle, is_settled) = oneshot::channel();
            let node = NodeTask {
                index,
                host,
                launcher: Arc::clone(&launcher),
                window: Arc::clone(&window),
                build_id: config.build_id.clone(),
                deadline: config.connect_deadline,
                events: events.clone(),
            };
            nodes.push(Node { outgoing, task: tokio::spawn(node.run(requests, settle)) });
            settled.push(is_settled);
        }
        let fleet = Self { nodes };
        for is_settled in settled {
            // An error means that the task died before it settled, which is as settled as it gets.
            is_settled.await.ok();
        }
        Ok(fleet)
    }

    /// Number of nodes, failed ones included.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there are no nodes.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Sends to one node. Never blocks; may be called from any thread.
    ///
    /// # Errors
    /// [`NodeLost`] where the node is gone or there is no such node.
    pub fn send(&self, node: usize, message: ToAgent) -> Result<(), NodeLost> {
        let node = self.nodes.get(node).ok_or(NodeLost)?;
        node.outgoing.send(message).ok().ok_or(NodeLost)
    }

    /// Ends all agents in order, and the hard way after a grace. Nothing of them is left when this returns.
    pub async fn shutdown(mut self) {
        for node in &self.nodes {
            // A node that is gone needs no goodbye.
            node.outgoing.send(ToAgent::Shutdown).ok();
        }
        let deadline = tokio::time::Instant::now() + SHUTDOWN_GRACE + Duration::from_secs(2);
        for node in &mut self.nodes {
            // What outlasts the deadline is aborted by the drop of its node.
            tokio::time::timeout_at(deadline, &mut node.task).await.ok();
        }
    }
}

/// All that one node's task needs.
struct NodeTask {
    index: usize,
    host: Host,
    launcher: Arc<dyn launch::Launcher>,
    window: Arc<Semaphore>,
    build_id: String,
    deadline: Duration,
    events: Sender<FleetEvent>,
}

impl NodeTask {
    async fn run(self, requests: mpsc::UnboundedReceiver<ToAgent>, settle: oneshot::Sender<()>) {
        let connection = {
            // Only connecting is windowed; agents stay.
            let _permit = self.window.acquire().await;
            self.say(FleetEvent::Connecting { node: self.index });
            self.start().await
        };
        let mut connection = match connection {
            Ok((connection, hello, inventory)) => {
                self.say(FleetEvent::Ready { node: self.index, hello, inventory: Box::new(inventory) });
                connection
            }
            Err(error) => {
                self.say(FleetEvent::Failed { node: self.index, error });
                drop(requests);
                settle.send(()).ok();
                return;
            }
        };
        settle.send(()).ok();
        if let Some(why) = connection.serve(requests, &self.events).await {
            self.say(FleetEvent::Lost { node: self.index, why: format!("{}: {why}", self.host.name) });
        }
        connection.end(SHUTDOWN_GRACE).await;
    }

    async fn start(&self) -> Result<(Connection, Hello, Inventory), LaunchError> {
        let starting = async {
            let launched = self.launcher.launch(&self.host).await?;
            connection::handshake(self.index, &self.host, launched, &self.build_id).await
        };
        match tokio::time::timeout(self.deadline, starting).await {
            Ok(result) => result,
            Err(_) => {
                let detail = format!("{} s", self.deadline.as_secs());
                Err(LaunchError::new(&self.host.name, LaunchErrorKind::Deadline, detail))
            }
        }
    }

    fn say(&self, event: FleetEvent) {
        // Nobody listens any more once the run is over.
        self.events.send(event).ok();
    }
}
