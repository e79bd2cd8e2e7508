//! How far the running numbers of a run's events have come. They go on over all nodes that the run has had.

use crate::event::Event;

/// The next numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Numbers {
    /// Of trials.
    pub trials: u64,
    /// Of scripts.
    pub scripts: u64,
    /// Of sets of processes.
    pub processes: u32,
}

impl Numbers {
    /// Counts a stored event.
    pub(crate) fn count(&mut self, event: &Event) {
        match event {
            Event::Trial(trial) => {
                self.trials = trial.trial + 1;
                self.processes = self.processes.max(trial.process + 1);
            }
            Event::Script { script, .. } => self.scripts = script + 1,
            Event::WorkersStarted { process, .. } => self.processes = self.processes.max(process + 1),
            _ => {}
        }
    }
}
