//! The one place where the state changes: [`update`] takes an input and says what the event loop shall do.

use crossterm::event::{KeyEvent, KeyEventKind, MouseButton, MouseEvent, MouseEventKind};
use gdrtune_session::event::{Command, Phase, Record};
use ratatui::layout::Position;

use super::{
    keys::{self, Action},
    layout::Layout,
    state::{
        Colour, Direction, Effect, Frozen, Input, Jump, Overlay, Panel, Play, Playback, Question, Source, State, Stop,
    },
    theme::ThemeName,
};

/// Lines per turn of the mouse wheel.
const WHEEL_LINES: usize = 3;

/// How far a replay goes at once, as a part of the run.
const SEEK_SHARE: f64 = 0.05;

/// Applies one input.
pub(crate) fn update(state: &mut State, input: Input) -> Vec<Effect> {
    match input {
        Input::Record(record) => take_record(state, *record),
        Input::RecordsClosed => close(state, "the run ended without its last record".to_owned()),
        Input::Severed(why) => close(state, why),
        Input::Jumped(jump) => jumped(state, *jump),
        Input::Key(event) if event.kind == KeyEventKind::Release => vec![],
        Input::Key(event) => take_key(state, event),
        Input::Mouse(event) => take_mouse(state, event),
        Input::Resize(columns, rows) => {
            state.view.size = (columns, rows);
            keep_focus_visible(state);
            vec![Effect::Redraw]
        }
        Input::Tick(elapsed_ms) => advance(state, elapsed_ms),
    }
}

/// Nothing comes any more.
fn close(state: &mut State, why: String) -> Vec<Effect> {
    state.run.close(state.view.elapsed_ms, why);
    settle(state);
    vec![Effect::Redraw]
}

/// Shows the run as it was at another moment; what is looked at stays where that is possible.
fn jumped(state: &mut State, jump: Jump) -> Vec<Effect> {
    state.run = jump.run;
    state.view.elapsed_ms = jump.t_ms;
    state.view.frozen = None;
    let (n_trials, log) = (state.run.trials.len(), &state.run.log);
    state.view.trials_top = state.view.trials_top.filter(|top| *top < n_trials);
    state.view.log_bottom = state.view.log_bottom.filter(|bottom| log.get(*bottom).is_some());
    state.view.nodes_top = state.view.nodes_top.min(state.run.summary.nodes.len().saturating_sub(1));
    state.view.collective = state.view.collective.min(state.run.summary.collectives.len().saturating_sub(1));
    state.view.size_cursor = None;
    keep_focus_visible(state);
    vec![Effect::Redraw]
}

fn take_record(state: &mut State, record: Record) -> Vec<Effect> {
    let effects = advance(state, record.t_ms);
    state.run.ingest(record);
    if state.run.summary.is_over() {
        settle(state);
        return vec![Effect::Redraw];
    }
    match &mut state.view.frozen {
        // The count of the footer moves with the clock, not with each record.
        Some(frozen) => {
            frozen.n_records_since += 1;
            effects
        }
        None => vec![Effect::Redraw],
    }
}

/// Moves the clock, never back: records that were sent a moment ago carry slightly older times.
fn advance(state: &mut State, elapsed_ms: u64) -> Vec<Effect> {
    let seconds_before = state.view.elapsed_ms / 1000;
    state.view.elapsed_ms = state.view.elapsed_ms.max(elapsed_ms);
    if seconds_before < state.view.elapsed_ms / 1000 { vec![Effect::Redraw] } else { vec![] }
}

/// The run is over: what was asked of it is moot, and its end is shown even on a frozen display.
fn settle(state: &mut State) {
    state.view.frozen = None;
    if matches!(state.view.overlay, Some(Overlay::Question(_))) {
        state.view.overlay = None;
    }
    // The player of a replay goes on as it is told, also back from the end.
    state.control.paused &= state.control.source == Source::Replay;
    keep_focus_visible(state);
}

fn take_key(state: &mut State, event: KeyEvent) -> Vec<Effect> {
    let had_notice = state.view.notice.take().is_some();
    let Some(action) = keys::action_for(state.contexts(), event) else {
        return if had_notice { vec![Effect::Redraw] } else { vec![] };
    };
    match action {
        Action::Quit => quit(state),
        Action::Interrupt => interrupt(state),
        Action::Suspend => vec![Effect::Suspend],
        Action::Repaint => vec![Effect::Repaint],
        Action::PauseSearch => pause_search(state),
        Action::Yes => answer(state),
        Action::Finish => finish(state),
        Action::PausePlayback => pause_playback(state),
        Action::SeekForward => seek(state, |now, step, end| now.saturating_add(step).min(end)),
        Action::SeekBack => seek(state, |now, step, _| now.saturating_sub(step)),
        Action::SeekStart => seek(state, |_, _, _| 0),
        Action::SeekEnd => seek(state, |_, _, end| end),
        Action::Faster => change_speed(state, Direction::Forward),
        Action::Slower => change_speed(state, Direction::Back),
        Action::StepForward => step(state, Direction::Forward),
        Action::StepBack => step(state, Direction::Back),
        other => {
            change_view(state, other);
            vec![Effect::Redraw]
        }
    }
}

/// Actions that only change what is looked at.
fn change_view(state: &mut State, action: Action) {
    match action {
        Action::Help => state.view.overlay = Some(Overlay::Help { scroll: 0 }),
        Action::CloseHelp | Action::No => state.view.overlay = None,
        Action::PauseDisplay => freeze(state),
        Action::NextPanel => move_focus(state, 1),
        Action::PreviousPanel => move_focus(state, Panel::ALL.len() - 1),
        Action::NextCollective => move_collective(state, 1),
        Action::PreviousCollective => move_collective(state, state.run.summary.collectives.len().saturating_sub(1)),
        Action::Theme => next_theme(state),
        Action::Up => scroll(state, Motion::Up(1)),
        Action::Down => scroll(state, Motion::Down(1)),
        Action::PageUp => scroll(state, Motion::Up(page(state))),
        Action::PageDown => scroll(state, Motion::Down(page(state))),
        Action::Top => scroll(state, Motion::Top),
        Action::Bottom => scroll(state, Motion::Bottom),
        // Taken by `take_key`.
        Action::Quit
        | Action::Interrupt
        | Action::Suspend
        | Action::Repaint
        | Action::PauseSearch
        | Action::PausePlayback
        | Action::SeekForward
        | Action::SeekBack
        | Action::SeekStart
        | Action::SeekEnd
        | Action::Faster
        | Action::Slower
        | Action::StepForward
        | Action::StepBack
        | Action::Yes
        | Action::Finish => {}
    }
}

fn pause_playback(state: &mut State) -> Vec<Effect> {
    if state.run.summary.is_over() {
        state.view.notice = Some("this is the end: b goes back, 0 to the beginning");
        return vec![Effect::Redraw];
    }
    state.control.paused = !state.control.paused;
    let play = if state.control.paused { Play::Pause } else { Play::Resume };
    vec![Effect::Play(play), Effect::Redraw]
}

/// Goes to the moment that `target` makes of this one, a step, and the length of the run.
fn seek(state: &mut State, target: impl Fn(u64, u64, u64) -> u64) -> Vec<Effect> {
    let Some(Playback { total_ms, speed, .. }) = state.control.playback else { return vec![] };
    let step_ms = (total_ms as f64 * SEEK_SHARE) as u64;
    // Shown at once, so that a key that is held down goes on from where it is.
    state.view.elapsed_ms = target(state.view.elapsed_ms, step_ms.max(1), total_ms);
    // At the highest speed it would be at the end again before anybody sees the place.
    let pause = speed.factor().is_none().then_some(Effect::Play(Play::Pause));
    state.control.paused |= pause.is_some();
    pause.into_iter().chain([Effect::Play(Play::Seek(state.view.elapsed_ms)), Effect::Redraw]).collect()
}

fn change_speed(state: &mut State, direction: Direction) -> Vec<Effect> {
    let Some(playback) = &mut state.control.playback else { return vec![] };
    playback.speed = playback.speed.next(direction);
    vec![Effect::Play(Play::Speed(playback.speed)), Effect::Redraw]
}

fn step(state: &mut State, direction: Direction) -> Vec<Effect> {
    state.control.paused = true;
    vec![Effect::Play(Play::Step(direction)), Effect::Redraw]
}

fn quit(state: &mut State) -> Vec<Effect> {
    if state.may_leave() {
        return vec![Effect::Quit];
    }
    if state.control.stop != Stop::No {
        return interrupt(state);
    }
    state.view.overlay = Some(Overlay::Question(Question::Stop));
    vec![Effect::Redraw]
}

/// The ladder: stop after the current script, kill the trial, leave at once.
fn interrupt(state: &mut State) -> Vec<Effect> {
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

fn answer(state: &mut State) -> Vec<Effect> {
    match state.view.overlay.take() {
        Some(Overlay::Question(Question::Stop)) => interrupt(state),
        Some(Overlay::Question(Question::Finish)) => {
            state.control.finishing = true;
            // A search that is told to finish while it is paused must not stay paused.
            let paused = std::mem::take(&mut state.control.paused);
            let resume = paused.then_some(Effect::Command(Command::Resume));
            resume.into_iter().chain([Effect::Command(Command::Finish), Effect::Redraw]).collect()
        }
        Some(Overlay::Help { .. }) | None => vec![Effect::Redraw],
    }
}

fn finish(state: &mut State) -> Vec<Effect> {
    let searching = state.run.summary.phase.is_none_or(|phase| phase < Phase::Verify);
    if state.run.summary.is_over() || !searching {
        state.view.notice = Some("the search is over already");
    } else if state.control.finishing || state.control.stop != Stop::No {
        state.view.notice = Some("the search is ending already");
    } else {
        state.view.overlay = Some(Overlay::Question(Question::Finish));
    }
    vec![Effect::Redraw]
}

fn pause_search(state: &mut State) -> Vec<Effect> {
    if state.run.summary.is_over() {
        state.view.notice = Some("the run is over: nothing to pause");
        return vec![Effect::Redraw];
    }
    state.control.paused = !state.control.paused;
    let command = if state.control.paused { Command::Pause } else { Command::Resume };
    vec![Effect::Command(command), Effect::Redraw]
}

fn freeze(state: &mut State) {
    if state.run.summary.is_over() {
        state.view.notice = Some("the run is over: nothing moves");
        return;
    }
    state.view.frozen = match state.view.frozen.take() {
        Some(_) => None,
        None => Some(Box::new(Frozen {
            summary: state.run.summary.clone(),
            n_trials: state.run.trials.len(),
            log_end: state.run.log.end(),
            elapsed_ms: state.view.elapsed_ms,
            n_records_since: 0,
        })),
    };
}

fn next_theme(state: &mut State) {
    let next = state.view.theme.next();
    if state.view.colour == Colour::Refused && next != ThemeName::Mono {
        state.view.notice = Some("colours are switched off (NO_COLOR or --color never)");
        return;
    }
    state.view.theme = next;
    state.view.notice = Some(match next {
        ThemeName::Base => "theme: base",
        ThemeName::Colorblind => "theme: colorblind (blue and orange)",
        ThemeName::Mono => "theme: mono",
    });
}

/// Moves the focus by `steps` in Tab order, over the panels that can be seen.
fn move_focus(state: &mut State, steps: usize) {
    let all = Panel::ALL;
    let Some(mut position) = all.iter().position(|p| *p == state.view.focus) else { return };
    for _ in 0..all.len() {
        position = (position + steps) % all.len();
        let Some(panel) = all.get(position) else { return };
        state.view.focus = *panel;
        // Some panels are only shown while they have the focus.
        if Layout::of(state).is_some_and(|l| l.place(*panel).is_some()) {
            return;
        }
    }
}

fn keep_focus_visible(state: &mut State) {
    let Some(layout) = Layout::of(state) else { return };
    if layout.place(state.view.focus).is_none() {
        move_focus(state, 1);
    }
}

fn move_collective(state: &mut State, steps: usize) {
    let n = state.shown().collectives.len();
    if n < 2 {
        state.view.notice = Some("there is one collective only");
        return;
    }
    state.view.collective = (state.view.collective + steps) % n;
    state.view.size_cursor = None;
}

fn page(state: &State) -> usize {
    Layout::of(state).map_or(1, |layout| layout.rows(state.view.focus).saturating_sub(1).max(1))
}

/// A movement of the focused panel.
#[derive(Debug, Clone, Copy)]
enum Motion {
    Up(usize),
    Down(usize),
    Top,
    Bottom,
}

fn scroll(state: &mut State, motion: Motion) {
    let source = state.control.source;
    if let Some(Overlay::Help { scroll }) = &mut state.view.overlay {
        *scroll = match motion {
            Motion::Up(lines) => scroll.saturating_sub(lines as u16),
            Motion::Down(lines) => {
                scroll.saturating_add(lines as u16).min(super::draw::help_scroll_limit(state.view.size, source))
            }
            Motion::Top | Motion::Bottom => *scroll,
        };
        return;
    }
    let rows = Layout::of(state).map_or(0, |layout| layout.rows(state.view.focus));
    match state.view.focus {
        Panel::Busbw | Panel::Latency => move_size_cursor(state, motion),
        Panel::Trials => scroll_trials(state, motion, rows),
        Panel::Nodes => scroll_nodes(state, motion, rows),
        Panel::Log => scroll_log(state, motion, rows),
    }
}

fn move_size_cursor(state: &mut State, motion: Motion) {
    let Some(collective) = state.collective() else { return };
    let summary = state.shown();
    let Some(last) = summary.points_of(collective).count().checked_sub(1) else { return };
    let trying = summary.trying.map(|t| t.point);
    let here = state.view.size_cursor.or_else(|| summary.points_of(collective).position(|(p, _)| Some(p) == trying));
    state.view.size_cursor = Some(match (motion, here) {
        (Motion::Top, _) => 0,
        (Motion::Bottom, _) => last,
        (_, None) => last / 2,
        (Motion::Up(steps), Some(index)) => index.saturating_sub(steps),
        (Motion::Down(steps), Some(index)) => (index + steps).min(last),
    });
}

/// The newest trial is on top, so down goes to older ones, to smaller indices.
fn scroll_trials(state: &mut State, motion: Motion, rows: usize) {
    let Some(newest) = state.n_shown_trials().checked_sub(1) else { return };
    let lowest_top = rows.saturating_sub(1).min(newest);
    let top = state.view.trials_top.unwrap_or(newest).min(newest);
    let top = match motion {
        Motion::Up(lines) => (top + lines).min(newest),
        Motion::Down(lines) => top.saturating_sub(lines).max(lowest_top),
        Motion::Top => newest,
        Motion::Bottom => lowest_top,
    };
    state.view.trials_top = (top < newest).then_some(top);
}

fn scroll_nodes(state: &mut State, motion: Motion, rows: usize) {
    let last_top = state.shown().nodes.len().saturating_sub(rows);
    let top = state.view.nodes_top;
    state.view.nodes_top = match motion {
        Motion::Up(lines) => top.saturating_sub(lines),
        Motion::Down(lines) => top.saturating_add(lines),
        Motion::Top => 0,
        Motion::Bottom => last_top,
    }
    .min(last_top);
}

/// The newest line is at the bottom.
fn scroll_log(state: &mut State, motion: Motion, rows: usize) {
    let (start, end) = (state.run.log.start(), state.shown_log_end());
    let Some(newest) = end.checked_sub(1) else { return };
    let highest_bottom = (start + rows.saturating_sub(1)).min(newest);
    let bottom = state.view.log_bottom.unwrap_or(newest).clamp(highest_bottom, newest);
    let bottom = match motion {
        Motion::Up(lines) => bottom.saturating_sub(lines).max(highest_bottom),
        Motion::Down(lines) => (bottom + lines).min(newest),
        Motion::Top => highest_bottom,
        Motion::Bottom => newest,
    };
    state.view.log_bottom = (bottom < newest).then_some(bottom);
}

fn take_mouse(state: &mut State, event: MouseEvent) -> Vec<Effect> {
    let motion = match event.kind {
        MouseEventKind::ScrollUp => Some(Motion::Up(WHEEL_LINES)),
        MouseEventKind::ScrollDown => Some(Motion::Down(WHEEL_LINES)),
        MouseEventKind::Down(MouseButton::Left) => None,
        _ => return vec![],
    };
    if matches!(state.view.overlay, Some(Overlay::Question(_))) {
        return vec![];
    }
    let position = Position::new(event.column, event.row);
    let layout = Layout::of(state);
    let panel = layout.and_then(|l| Panel::ALL.into_iter().find(|p| l.place(*p).is_some_and(|r| r.contains(position))));
    if state.view.overlay.is_none() {
        let Some(panel) = panel else { return vec![] };
        state.view.focus = panel;
    }
    if let Some(motion) = motion {
        scroll(state, motion);
    }
    vec![Effect::Redraw]
}
