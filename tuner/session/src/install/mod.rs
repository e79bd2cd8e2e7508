//! Installations on the hosts: puts them there, looks at them, takes them away, and proves that NCCL uses them.
//!
//! What happens to a folder is decided on its host (`gdrtune-node`, `agent/install`); here is who is asked, and what came
//! back. A host that fails does not keep the others from going on.

pub mod check;
mod evidence;

use std::{
    sync::mpsc::{self, Receiver, RecvTimeoutError},
    time::{Duration, Instant},
};

use gdrtune_fleet::{Fleet, FleetConfig, FleetError, FleetEvent, hosts::Host};
use gdrtune_wire::{FromAgent, InstallOutcome, ToAgent};
use tokio::runtime::Handle;

/// Time for a host to answer. Its folder may lie on a file server; files of a megabyte take longer only where that hangs.
const ANSWER_DEADLINE: Duration = Duration::from_mins(1);

/// What came of a request on one host; the error says why it is not known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostOutcome {
    /// The host.
    pub host: String,
    /// What its agent said.
    pub outcome: Result<InstallOutcome, String>,
    /// Whether there was an agent at all.
    pub reached: bool,
}

/// Asks every host the same, and waits for all answers. Blocks; not for a tokio thread.
///
/// # Errors
/// [`FleetError`] where no agent could be started at all for a reason that lies here.
pub fn on_hosts(
    runtime: &Handle,
    config: FleetConfig,
    hosts: &[Host],
    request: &ToAgent,
) -> Result<Vec<HostOutcome>, FleetError> {
    let (sender, events) = mpsc::channel();
    let fleet = runtime.block_on(Fleet::connect(config, hosts.to_vec(), sender))?;
    let mut answers = Answers::new(hosts);
    for (node, error) in fleet.failures() {
        answers.set(*node, false, Err(error.to_string()));
    }
    for node in 0..hosts.len() {
        if answers.is_open(node)
            && let Err(error) = fleet.send(node, request)
        {
            answers.set(node, true, Err(error.to_string()));
        }
    }
    answers.wait(&events, Instant::now() + ANSWER_DEADLINE);
    runtime.block_on(fleet.shutdown());
    Ok(answers.into_outcomes())
}

/// What is known of each host.
struct Answers<'a> {
    hosts: &'a [Host],
    outcomes: Vec<Option<HostOutcome>>,
}

impl<'a> Answers<'a> {
    fn new(hosts: &'a [Host]) -> Self {
        Self { hosts, outcomes: vec![None; hosts.len()] }
    }

    fn is_open(&self, node: usize) -> bool {
        matches!(self.outcomes.get(node), Some(None))
    }

    /// The first word about a host is the one that counts.
    fn set(&mut self, node: usize, reached: bool, outcome: Result<InstallOutcome, String>) {
        if let (Some(slot @ None), Some(host)) = (self.outcomes.get_mut(node), self.hosts.get(node)) {
            *slot = Some(HostOutcome { host: host.name.clone(), outcome, reached });
        }
    }

    fn wait(&mut self, events: &Receiver<FleetEvent>, deadline: Instant) {
        while (0..self.hosts.len()).any(|node| self.is_open(node)) {
            match events.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(event) => self.file(event),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn file(&mut self, event: FleetEvent) {
        match event {
            FleetEvent::Message { node, message: FromAgent::Installation(outcome) } => {
                self.set(node, true, Ok(outcome));
            }
            FleetEvent::Message { node, message: FromAgent::Refused { why } } | FleetEvent::Lost { node, why } => {
                self.set(node, true, Err(why));
            }
            FleetEvent::Failed { node, error } => self.set(node, false, Err(error.to_string())),
            FleetEvent::Message { .. }
            | FleetEvent::Connecting { .. }
            | FleetEvent::Ready { .. }
            | FleetEvent::Log { .. } => {}
        }
    }

    fn into_outcomes(mut self) -> Vec<HostOutcome> {
        let silent =
            format!("no answer within {} s: its folder may lie on a file server that hangs", ANSWER_DEADLINE.as_secs());
        for node in 0..self.hosts.len() {
            self.set(node, true, Err(silent.clone()));
        }
        self.outcomes.into_iter().flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_host_has_one_outcome() {
        let hosts = ["a", "b", "c", "d"].map(Host::named);
        let mut answers = Answers::new(&hosts);
        answers.set(0, false, Err("refused".to_owned()));
        let (sender, events) = mpsc::channel();
        let installation = |node, outcome| FleetEvent::Message { node, message: FromAgent::Installation(outcome) };
        let lost = |node| FleetEvent::Lost { node, why: "gone".to_owned() };
        for event in [lost(0), installation(1, InstallOutcome::NotInstalled), lost(1), lost(2), lost(9)] {
            sender.send(event).unwrap();
        }
        answers.wait(&events, Instant::now());
        let said: Vec<String> = answers
            .into_outcomes()
            .into_iter()
            .map(|HostOutcome { host, outcome, reached }| format!("{host} {reached} {outcome:?}"))
            .collect();
        assert_eq!(said[..3], ["a false Err(\"refused\")", "b true Ok(NotInstalled)", "c true Err(\"gone\")"]);
        assert!(said[3].starts_with("d true Err(\"no answer within 60 s"), "{said:?}");
    }
}
