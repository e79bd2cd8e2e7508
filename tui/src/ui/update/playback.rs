//! Steering a replay.

use crate::ui::state::{Direction, Effect, Play, Playback, State};

/// How far a replay goes at once, as a part of the run.
const SEEK_SHARE: f64 = 0.05;

pub(super) fn pause_playback(state: &mut State) -> Vec<Effect> {
    if state.run.summary.is_over() {
        state.notice("this is the end: b goes back, 0 to the beginning");
        return vec![Effect::Redraw];
    }
    state.control.paused = !state.control.paused;
    let play = if state.control.paused { Play::Pause } else { Play::Resume };
    vec![Effect::Play(play), Effect::Redraw]
}

/// Goes to the moment that `target` makes of this one, a step, and the length of the run.
pub(super) fn seek(state: &mut State, target: impl Fn(u64, u64, u64) -> u64) -> Vec<Effect> {
    let Some(Playback { total_ms, speed, .. }) = state.control.playback else { return vec![] };
    let step_ms = (total_ms as f64 * SEEK_SHARE) as u64;
    // Shown at once, so that a key that is held down goes on from where it is.
    state.view.elapsed_ms = target(state.view.elapsed_ms, step_ms.max(1), total_ms);
    // At the highest speed it would be at the end again before anybody sees the place.
    let pause = speed.factor().is_none().then_some(Effect::Play(Play::Pause));
    state.control.paused |= pause.is_some();
    pause.into_iter().chain([Effect::Play(Play::Seek(state.view.elapsed_ms)), Effect::Redraw]).collect()
}

pub(super) fn change_speed(state: &mut State, direction: Direction) -> Vec<Effect> {
    let Some(playback) = &mut state.control.playback else { return vec![] };
    playback.speed = playback.speed.next(direction);
    vec![Effect::Play(Play::Speed(playback.speed)), Effect::Redraw]
}

pub(super) fn step(state: &mut State, direction: Direction) -> Vec<Effect> {
    state.control.paused = true;
    vec![Effect::Play(Play::Step(direction)), Effect::Redraw]
}
