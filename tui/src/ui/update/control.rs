//! What the user asks of the run.

use gdrtune_session::event::{Command, Phase};

use crate::ui::state::{Effect, Overlay, Question, State, Stop};

pub(super) fn quit(state: &mut State) -> Vec<Effect> {
    if state.may_leave() {
        return vec![Effect::Quit];
    }
    if state.control.stop != Stop::No {
        return interrupt(state);
    }
    state.view.overlay = Some(Overlay::Question(Question::Leave));
    vec![Effect::Redraw]
}

/// The ladder: stop after the current script, kill the trial, leave at once.
pub(super) fn interrupt(state: &mut State) -> Vec<Effect> {
    if state.may_leave() {
        return vec![Effect::Quit];
    }
    state.view.overlay = None;
    let (stop, command) = match state.control.stop {
        Stop::No => (Stop::Stopping, Command::Stop),
        Stop::Stopping => (Stop::Killing, Command::Kill),
        Stop::Killing => return vec![Effect::Quit],
    };
    state.control.stop = stop;
    vec![Effect::Command(command), Effect::Redraw]
}

pub(super) fn answer(state: &mut State) -> Vec<Effect> {
    match state.view.overlay.take() {
        Some(Overlay::Question(Question::Leave)) => interrupt(state),
        Some(Overlay::Question(Question::Finish)) => {
            state.control.finishing = true;
            // A search that is told to finish while it is paused must not stay paused.
            let paused = std::mem::take(&mut state.control.paused);
            let resume = paused.then_some(Effect::Command(Command::Resume));
            resume.into_iter().chain([Effect::Command(Command::Finish), Effect::Redraw]).collect()
        }
        Some(Overlay::Help { .. } | Overlay::Prompt(_)) | None => vec![Effect::Redraw],
    }
}

/// Stops the run here, so that the background can go on with it from its store.
pub(super) fn detach(state: &mut State) -> Vec<Effect> {
    state.control.is_detaching = true;
    interrupt(state)
}

/// Tells the run something that it answers with events; where it is over, says so.
pub(super) fn tell(state: &mut State, command: Command, notice: &'static str) -> Vec<Effect> {
    if state.run.summary.is_over() {
        state.notice("the run is over");
        return vec![Effect::Redraw];
    }
    state.notice(notice);
    vec![Effect::Command(command), Effect::Redraw]
}

pub(super) fn finish(state: &mut State) -> Vec<Effect> {
    let searching = state.run.summary.phase.is_none_or(|phase| phase < Phase::Verify);
    if state.run.summary.is_over() || !searching {
        state.notice("the search is over already");
    } else if state.control.finishing || state.control.stop != Stop::No {
        state.notice("the search is ending already");
    } else {
        state.view.overlay = Some(Overlay::Question(Question::Finish));
    }
    vec![Effect::Redraw]
}

pub(super) fn pause_search(state: &mut State) -> Vec<Effect> {
    if state.run.summary.is_over() {
        state.notice("the run is over: nothing to pause");
        return vec![Effect::Redraw];
    }
    state.control.paused = !state.control.paused;
    let command = if state.control.paused { Command::Pause } else { Command::Resume };
    vec![Effect::Command(command), Effect::Redraw]
}
