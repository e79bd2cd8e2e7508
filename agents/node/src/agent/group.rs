//! A node's share of a group: its workers live and die together.
//!
//! Decides who is ended and why. Sends nothing itself.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use gdrtune_wire::{EndCause, ToWorker};

use super::{nccl_log::NcclLogs, outbox::OutboxError, worker::Worker};

/// Time that orphans of a worker may take to die before its end is reported all the same.
const ORPHAN_LIMIT: Duration = Duration::from_secs(5);

/// The workers of one group on this node.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) workers: Vec<Worker>,
    grace: Duration,
    reaped_at: Option<Instant>,
    /// What its workers log, removed with the group.
    _logs: Option<NcclLogs>,
}

impl Group {
    /// A group of these workers; each gets `grace` between the request to end and the kill.
    pub(super) fn new(workers: Vec<Worker>, grace: Duration, logs: Option<NcclLogs>) -> Self {
        Self { workers, grace, reaped_at: None, _logs: logs }
    }

    /// Sends a message to every running worker. One that has not read earlier ones is ended.
    pub(super) fn send(&mut self, now: Instant, frame: &[u8], message: &ToWorker) {
        let script = match message {
            ToWorker::Run(script) => Some(Arc::new(script.clone())),
            _ => None,
        };
        for worker in &mut self.workers {
            if worker.send(now, frame.to_vec(), message, script.as_ref()) == Err(OutboxError::Full) {
                worker.end(now, self.grace, EndCause::Deadline { during: "reading its messages".to_owned() });
            }
        }
    }

    /// Ends every worker. One that died by itself just before is reported as it died.
    pub(super) fn end_all(&mut self, now: Instant, cause: &EndCause) {
        self.reap(now);
        for worker in &mut self.workers {
            worker.end(now, self.grace, cause.clone());
        }
    }

    /// Reaps workers that have ended. Returns whether there were any.
    pub(super) fn reap(&mut self, now: Instant) -> bool {
        let mut any = false;
        for worker in &mut self.workers {
            any |= worker.reap_if_ended(now);
        }
        if any {
            self.reaped_at = Some(now);
        }
        any
    }

    /// Acts on what time has brought. Returns what people should know.
    pub(super) fn tick(&mut self, now: Instant) -> Vec<String> {
        self.end_the_late(now);
        if self.workers.iter().any(Worker::broke_its_group) {
            for worker in &mut self.workers {
                worker.end(now, self.grace, EndCause::PeerEnded);
            }
        }
        self.workers.iter_mut().filter_map(|worker| worker.escalate(now)).collect()
    }

    /// Ends the hindmost of the workers whose deadline is over, and those that are no further: when one rank hangs, its
    /// peers hang with it at about the same time, and only those ahead of it are innocent.
    fn end_the_late(&mut self, now: Instant) {
        let overdue = |worker: &&Worker| worker.progress.deadline().is_some_and(|deadline| deadline <= now);
        let late = self.workers.iter().filter(|worker| worker.is_running()).filter(overdue);
        let Some(reached) = late.map(|worker| worker.progress.milestones()).min() else { return };
        for worker in self.workers.iter_mut().filter(|worker| worker.progress.milestones() <= reached) {
            if worker.progress.deadline().is_some() {
                let during = worker.progress.during();
                worker.end(now, self.grace, EndCause::Deadline { during });
            }
        }
    }

    /// When to look at the group again, if nothing is heard before.
    pub(super) fn wakeup(&self, now: Instant) -> Option<Instant> {
        self.workers.iter().filter_map(|worker| worker.wakeup(now)).min()
    }

    /// Takes out the workers whose end can be reported: reaped, all read, and no orphan left that may be theirs.
    pub(super) fn take_ended(&mut self, now: Instant, orphans_left: bool) -> Vec<(u32, EndCause)> {
        let patient = self.reaped_at.is_none_or(|at| now < at + ORPHAN_LIMIT);
        if orphans_left && patient {
            return vec![];
        }
        let mut ended = vec![];
        self.workers.retain(|worker| {
            let obituary = worker.obituary(now);
            let keep = obituary.is_none();
            ended.extend(obituary.map(|cause| (worker.rank, cause)));
            keep
        });
        ended
    }
}
