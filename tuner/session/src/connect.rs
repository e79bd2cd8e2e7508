//! Starts the agents of a run and collects what the nodes have.

use std::{
    sync::mpsc::{self, Receiver},
    time::Duration,
};

use gdrtune_fleet::{Fleet, FleetConfig, FleetEvent, hosts::Host};
use gdrtune_profiles::size::Size;
use gdrtune_wire::Inventory;
use tokio::runtime::Handle;

use crate::{
    event::{Event, Level, NodeState},
    recorder::Recorder,
};

/// Longest wait for one event while agents start.
const POLL: Duration = Duration::from_millis(50);

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
    /// The user ended the run.
    #[error("interrupted while agents were starting")]
    Interrupted,
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

/// Starts an agent on every host and waits until each answers or has failed. Blocks; not for a tokio thread.
///
/// # Errors
/// [`ConnectError`] where any host failed: a communicator needs all ranks.
pub fn connect(
    runtime: &Handle,
    config: FleetConfig,
    hosts: &[Host],
    recorder: Option<&Recorder>,
    interrupted: &dyn Fn() -> bool,
) -> Result<Connected, ConnectError> {
    let (sender, events) = mpsc::channel();
    let starting = runtime.spawn(Fleet::connect(config, hosts.to_vec(), sender));
    let mut nodes = Nodes { hosts, recorder, inventories: vec![None; hosts.len()], reasons: Vec::new() };
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
        Ok(Err(error)) if nodes.reasons.is_empty() => return Err(ConnectError::Fleet(error.to_string())),
        Ok(Err(_)) => return Err(nodes.failure()),
        Err(error) => return Err(ConnectError::Fleet(error.to_string())),
    };
    let complete: Option<Vec<Inventory>> = nodes.inventories.iter().cloned().collect();
    match complete {
        Some(inventories) if nodes.reasons.is_empty() => Ok(Connected { fleet, events, inventories }),
        _ => {
            runtime.block_on(fleet.shutdown());
            Err(nodes.failure())
        }
    }
}

/// Whether every host has room for its ranks' buffers. A rank keeps a send, a receive and a scratch buffer.
///
/// # Errors
/// [`ConnectError::Memory`] names the first host that has not.
pub fn check_memory(
    hosts: &[Host],
    slots: &[u32],
    inventories: &[Inventory],
    max_bytes: u64,
) -> Result<(), ConnectError> {
    for ((host, &ranks), inventory) in hosts.iter().zip(slots).zip(inventories) {
        let needed = max_bytes.saturating_mul(3 * u64::from(ranks));
        let memory = inventory.memory_bytes;
        if memory > 0 && needed > memory {
            return Err(ConnectError::Memory { host: host.name.clone(), ranks, max_bytes, needed, memory });
        }
    }
    Ok(())
}

struct Nodes<'a> {
    hosts: &'a [Host],
    recorder: Option<&'a Recorder>,
    inventories: Vec<Option<Inventory>>,
    reasons: Vec<String>,
}

impl Nodes<'_> {
    fn file(&mut self, event: FleetEvent) {
        match event {
            FleetEvent::Connecting { node } => self.say(node, NodeState::Connecting, String::new()),
            FleetEvent::Ready { node, inventory, .. } => {
                self.say(node, NodeState::Ready, describe(&inventory));
                if let Some(slot) = self.inventories.get_mut(node) {
                    *slot = Some(*inventory);
                }
            }
            FleetEvent::Failed { node, error } => {
                self.reasons.push(error.to_string());
                self.say(node, NodeState::Failed, error.to_string());
            }
            FleetEvent::Lost { node, why } => {
                self.reasons.push(why.clone());
                self.say(node, NodeState::Lost, why);
            }
            FleetEvent::Log { node, line } => {
                if let Some(recorder) = self.recorder {
                    recorder.log(Level::Debug, self.name(node), line);
                }
            }
            FleetEvent::Message { .. } => {}
        }
    }

    fn name(&self, node: usize) -> &str {
        self.hosts.get(node).map_or("", |h| h.name.as_str())
    }

    fn say(&self, node: usize, state: NodeState, detail: String) {
        if let Some(recorder) = self.recorder {
            recorder.record(Event::Node { index: node as u32, host: self.name(node).to_owned(), state, detail });
        }
    }

    fn failure(self) -> ConnectError {
        let total = self.hosts.len();
        ConnectError::Hosts { failed: self.reasons.len(), total, reasons: self.reasons }
    }
}

/// A node in one line.
fn describe(inventory: &Inventory) -> String {
    let interfaces: Vec<&str> = inventory.interfaces.iter().filter(|i| !i.loopback).map(|i| i.name.as_str()).collect();
    let network = if interfaces.is_empty() { "loopback only".to_owned() } else { interfaces.join(", ") };
    format!("{} CPUs, {} memory, {network}", inventory.cpus, Size(inventory.memory_bytes >> 30 << 30))
}
