//! What the user wants of a run, shared between whoever takes keys and signals and the session's thread.

use std::sync::{Arc, Condvar, Mutex, PoisonError};

use gdrtune_tuner::{bench::Cancel, observe::Directive};

use crate::event::Command;

#[derive(Debug, Default)]
struct State {
    paused: bool,
    directive: Directive,
    winding_up: bool,
    /// Commands that wait for the next question how to go on.
    wishes: Vec<Command>,
}

/// The wishes of a run's user. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Controls {
    state: Arc<(Mutex<State>, Condvar)>,
    cancel: Cancel,
}

impl Controls {
    /// Nothing wished for.
    pub fn new() -> Self {
        Self::default()
    }

    /// The token that ends or skips a running trial at once.
    pub fn cancel(&self) -> &Cancel {
        &self.cancel
    }

    /// Takes a command. An end is never taken back: a later, milder command does not weaken it.
    pub fn apply(&self, command: Command) {
        let (mutex, changed) = &*self.state;
        let mut state = mutex.lock().unwrap_or_else(PoisonError::into_inner);
        match command {
            Command::Pause => state.paused = true,
            Command::Resume => state.paused = false,
            Command::Skip => self.cancel.skip(),
            wish @ (Command::Drop { .. }
            | Command::Pin { .. }
            | Command::Unpin { .. }
            | Command::Extend { .. }
            | Command::Write) => state.wishes.push(wish),
            Command::Finish if state.directive == Directive::Continue => state.directive = Directive::Finish,
            Command::Finish => {}
            Command::WindUp if state.directive == Directive::Abort => {}
            Command::WindUp => (state.directive, state.winding_up) = (Directive::Finish, true),
            Command::Stop => state.directive = Directive::Abort,
            Command::Kill => {
                state.directive = Directive::Abort;
                self.cancel.cancel();
            }
        }
        changed.notify_all();
    }

    /// How to go on; blocks while the run is paused and nobody has ended it.
    pub fn directive(&self) -> Directive {
        let (mutex, changed) = &*self.state;
        let state = mutex.lock().unwrap_or_else(PoisonError::into_inner);
        let waiting = |s: &mut State| s.paused && s.directive == Directive::Continue;
        changed.wait_while(state, waiting).unwrap_or_else(PoisonError::into_inner).directive
    }

    /// Takes what was wished for since the last call, in order; blocks while the run is paused, nobody has ended it and nothing
    /// is wished for.
    pub(crate) fn take_wishes(&self) -> Vec<Command> {
        let (mutex, changed) = &*self.state;
        let state = mutex.lock().unwrap_or_else(PoisonError::into_inner);
        let waiting = |s: &mut State| s.paused && s.directive == Directive::Continue && s.wishes.is_empty();
        let mut state = changed.wait_while(state, waiting).unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut state.wishes)
    }

    /// Whether the run is to end without a verification, with what the search has found.
    pub fn is_winding_up(&self) -> bool {
        let (mutex, _) = &*self.state;
        let state = mutex.lock().unwrap_or_else(PoisonError::into_inner);
        state.winding_up && state.directive != Directive::Abort
    }

    /// Whether the user has ended the run.
    pub fn is_aborted(&self) -> bool {
        let (mutex, _) = &*self.state;
        mutex.lock().unwrap_or_else(PoisonError::into_inner).directive == Directive::Abort
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_never_weakened_and_ends_a_pause() {
        let controls = Controls::new();
        assert_eq!(controls.directive(), Directive::Continue);
        controls.apply(Command::Pause);
        controls.apply(Command::Finish);
        assert_eq!(controls.directive(), Directive::Finish, "does not block");
        controls.apply(Command::WindUp);
        assert_eq!(controls.directive(), Directive::Finish);
        assert!(controls.is_winding_up());
        controls.apply(Command::Stop);
        controls.apply(Command::Finish);
        controls.apply(Command::WindUp);
        assert!(!controls.is_winding_up(), "nothing is written any more");
        assert!(controls.is_aborted());
        assert!(!controls.cancel().is_cancelled(), "the current trial may end");
        controls.apply(Command::Kill);
        assert!(controls.cancel().is_cancelled());
    }

    #[test]
    fn wishes_are_taken_in_order_and_once_even_in_a_pause() {
        let controls = Controls::new();
        assert_eq!(controls.take_wishes(), []);
        controls.apply(Command::Pause);
        let wishes = [Command::Unpin { knob: "algo".into() }, Command::Write];
        for wish in &wishes {
            controls.apply(wish.clone());
        }
        assert_eq!(controls.take_wishes(), wishes, "does not block");
        let waiter = std::thread::spawn({
            let controls = controls.clone();
            move || controls.take_wishes()
        });
        controls.apply(Command::Write);
        assert_eq!(waiter.join().unwrap(), [Command::Write]);
        controls.apply(Command::Stop);
        assert_eq!(controls.take_wishes(), [], "an end blocks nobody");
        controls.apply(Command::Skip);
        assert!(controls.cancel().take_skip() && !controls.cancel().take_skip() && !controls.cancel().is_cancelled());
    }

    #[test]
    fn a_pause_blocks_until_it_is_lifted() {
        let controls = Controls::new();
        controls.apply(Command::Pause);
        let waiter = std::thread::spawn({
            let controls = controls.clone();
            move || controls.directive()
        });
        controls.apply(Command::Resume);
        assert_eq!(waiter.join().unwrap(), Directive::Continue);
    }
}
