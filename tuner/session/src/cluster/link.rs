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

/// A connected fleet as a [`Link`].
pub struct FleetLink<'a> {
    fleet: &'a Fleet,
    events: &'a Receiver<FleetEvent>,
}

impl<'a> FleetLink<'a> {
    /// The events must be those of this fleet.
    pub fn new(fleet: &'a Fleet, events: &'a Receiver<FleetEvent>) -> Self {
        Self { fleet, events }
    }
}

impl Link for FleetLink<'_> {
    fn send(&self, node: usize, message: ToAgent) {
        // A node that is gone says so by `Lost`; there is nothing more to do about it here.
        self.fleet.send(node, &message).ok();
    }

    fn receive(&mut self, timeout: Duration) -> Option<LinkEvent> {
        match self.events.recv_timeout(timeout) {
            Ok(FleetEvent::Message { node, message }) => Some(LinkEvent::Message { node, message }),
            Ok(FleetEvent::Lost { node, why }) => Some(LinkEvent::Lost { node, why }),
            Ok(FleetEvent::Log { node, line }) => Some(LinkEvent::Log { node, line }),
            Ok(FleetEvent::Connecting { .. } | FleetEvent::Ready { .. } | FleetEvent::Failed { .. })
            | Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => {
                Some(LinkEvent::Lost { node: 0, why: "the fleet has stopped".to_owned() })
            }
        }
    }
}
