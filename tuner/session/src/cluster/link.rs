//! What the bench needs of a fleet: send to a node, wait for the next message. A test puts its own nodes behind it.

use std::{
    sync::mpsc::{Receiver, RecvTimeoutError},
    time::Duration,
};

use gdrtune_fleet::{Fleet, FleetEvent};
use gdrtune_wire::{FromAgent, ToAgent};

/// What comes from the nodes while a run is going.
#[derive(Debug)]
pub enum LinkEvent {
    /// An agent said something.
    Message {
        /// Position in rank order.
        node: usize,
        /// What it said.
        message: FromAgent,
    },
    /// An agent is gone, for good.
    Lost {
        /// Position in rank order.
        node: usize,
        /// Why.
        why: String,
    },
    /// A line for the log.
    Log {
        /// Position in rank order.
        node: usize,
        /// The line.
        line: String,
    },
}

/// The nodes of a run. Not one call of it blocks longer than its timeout.
pub trait Link {
    /// Sends to one node; a lost node's messages are dropped (its loss comes as an event).
    fn send(&self, node: usize, message: ToAgent);

    /// The next event, or `None` after `timeout`.
    fn receive(&mut self, timeout: Duration) -> Option<LinkEvent>;
}

/// Nodes of a connected fleet as a [`Link`].
pub struct FleetLink<'a> {
    fleet: &'a Fleet,
    events: &'a Receiver<FleetEvent>,
    /// The fleet's number of each node.
    nodes: Vec<usize>,
}

impl<'a> FleetLink<'a> {
    /// All nodes of the fleet. The events must be those of this fleet.
    pub fn new(fleet: &'a Fleet, events: &'a Receiver<FleetEvent>) -> Self {
        let nodes = (0..fleet.hosts().len()).collect();
        Self::of(fleet, events, nodes)
    }

    /// Those of the fleet's nodes, in rising order. What others say is not heard.
    pub(crate) fn of(fleet: &'a Fleet, events: &'a Receiver<FleetEvent>, nodes: Vec<usize>) -> Self {
        Self { fleet, events, nodes }
    }

    fn place(&self, node: usize) -> Option<usize> {
        self.nodes.binary_search(&node).ok()
    }
}

impl Link for FleetLink<'_> {
    fn send(&self, node: usize, message: ToAgent) {
        if let Some(&node) = self.nodes.get(node) {
            // One that is gone says so by `Lost`; there is nothing more to do about it here.
            self.fleet.send(node, &message).ok();
        }
    }

    fn receive(&mut self, timeout: Duration) -> Option<LinkEvent> {
        match self.events.recv_timeout(timeout) {
            Ok(FleetEvent::Message { node, message }) => {
                self.place(node).map(|node| LinkEvent::Message { node, message })
            }
            Ok(FleetEvent::Lost { node, why }) => self.place(node).map(|node| LinkEvent::Lost { node, why }),
            Ok(FleetEvent::Log { node, line }) => self.place(node).map(|node| LinkEvent::Log { node, line }),
            Ok(FleetEvent::Connecting { .. } | FleetEvent::Ready { .. } | FleetEvent::Failed { .. })
            | Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => {
                Some(LinkEvent::Lost { node: 0, why: "the fleet has stopped".to_owned() })
            }
        }
    }
}
