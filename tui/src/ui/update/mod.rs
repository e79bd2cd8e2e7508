//! The one place where the state changes: [`update`] takes an input and says what the event loop shall do.

use std::sync::Arc;

use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use gdrtune_session::event::{Command, Event, Record};

use super::{
    filter::Filter,
    keys::{self, Action, Context},
    layout::Layout,
    line_edit::Edit,
    state::{Asks, Colour, Direction, Effect, Frozen, Input, Jump, Overlay, Source, State},
    tabs::{self, Motion, Sorting, Tab},
    theme::ThemeName,
};

mod control;
mod mouse;
mod playback;
mod prompt;

/// Bytes that are copied at most: terminals drop longer sequences (hterm those above 100 KiB).
const MAX_COPIED: usize = 100_000;

/// Applies one input.
pub(crate) fn update(state: &mut State, input: Input) -> Vec<Effect> {
    let effects = take(state, input);
    if state.view.tab == Tab::Profile {
        tabs::profile::refresh(state);
    }
    effects
}

fn take(state: &mut State, input: Input) -> Vec<Effect> {
    match input {
        Input::Record(record) => take_record(state, Arc::unwrap_or_clone(record)),
        Input::RecordsClosed => close(state, "the run ended without its last record".to_owned()),
        Input::Severed(why) => close(state, why),
        Input::Jumped(jump) => jumped(state, *jump),
        Input::Key(event) if event.kind == KeyEventKind::Release => vec![],
        Input::Key(event) => take_key(state, event),
        Input::Mouse(event) => mouse::take(state, event),
        Input::Resize(columns, rows) => {
            state.view.size = (columns, rows);
            vec![Effect::Redraw]
        }
        Input::Tick(elapsed_ms) => advance(state, elapsed_ms),
        Input::Done(what) => {
            state.notice(what);
            vec![Effect::Redraw]
        }
        Input::Loaded { name, read } => {
            prompt::loaded(state, name, read.map(|profile| *profile));
            vec![Effect::Redraw]
        }
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
    let (n_trials, n_collectives) = (state.run.trials.len(), state.run.summary.collectives.len());
    let tabs = &mut state.view.tabs;
    tabs.trials.rebuild(&state.run, n_trials);
    tabs.log.bottom = tabs.log.bottom.filter(|bottom| state.run.log.get(*bottom).is_some());
    tabs.overview.collective = tabs.overview.collective.min(n_collectives.saturating_sub(1));
    tabs.overview.size_cursor = None;
    vec![Effect::Redraw]
}

fn take_record(state: &mut State, record: Record) -> Vec<Effect> {
    let effects = advance(state, record.t_ms);
    let is_trial = matches!(record.event, Event::Trial(_));
    state.run.ingest(record);
    if is_trial && state.view.frozen.is_none() {
        state.view.tabs.trials.take_newest(&state.run);
    }
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
    if state.view.frozen.take().is_some() {
        state.view.tabs.trials.rebuild(&state.run, state.run.trials.len());
    }
    if matches!(state.view.overlay, Some(Overlay::Question(_))) {
        state.view.overlay = None;
    }
    // The player of a replay goes on as it is told, also back from the end.
    state.control.paused &= state.control.source == Source::Replay;
}

fn take_key(state: &mut State, event: KeyEvent) -> Vec<Effect> {
    let had_notice = state.view.notice.take().is_some();
    let contexts = state.contexts();
    let Some(action) = keys::action_for(&contexts, event).or_else(|| typed(&contexts, event)) else {
        return if had_notice { vec![Effect::Redraw] } else { vec![] };
    };
    match action {
        Action::Quit => control::quit(state),
        Action::Interrupt => control::interrupt(state),
        Action::Suspend => vec![Effect::Suspend],
        Action::Repaint => vec![Effect::Repaint],
        Action::PauseSearch => control::pause_search(state),
        Action::Yes => control::answer(state),
        Action::Finish => control::finish(state),
        Action::DropChoice => control::drop_choice(state),
        Action::Detach => control::detach(state),
        Action::Skip => control::tell(state, Command::Skip, "giving up the measurement that runs now"),
        Action::WriteNow => control::tell(state, Command::Write, "writing what there is so far, not verified"),
        Action::PausePlayback => playback::pause_playback(state),
        Action::SeekForward => playback::seek(state, |now, step, end| now.saturating_add(step).min(end)),
        Action::SeekBack => playback::seek(state, |now, step, _| now.saturating_sub(step)),
        Action::SeekStart => playback::seek(state, |_, _, _| 0),
        Action::SeekEnd => playback::seek(state, |_, _, end| end),
        Action::Faster => playback::change_speed(state, Direction::Forward),
        Action::Slower => playback::change_speed(state, Direction::Back),
        Action::StepForward => playback::step(state, Direction::Forward),
        Action::StepBack => playback::step(state, Direction::Back),
        Action::Copy => copy(state),
        Action::Export => export(state),
        Action::Enter => prompt::enter(state),
        other => {
            change_view(state, other);
            vec![Effect::Redraw]
        }
    }
}

/// What a character means where a line is being typed.
fn typed(contexts: &[Context], event: KeyEvent) -> Option<Action> {
    let is_plain = (event.modifiers - KeyModifiers::SHIFT).is_empty();
    match event.code {
        KeyCode::Char(c) if is_plain && contexts.contains(&Context::Prompt) => Some(Action::Type(Edit::Insert(c))),
        _ => None,
    }
}

/// Actions that only change what is looked at.
fn change_view(state: &mut State, action: Action) {
    match action {
        Action::Help => state.view.overlay = Some(Overlay::Help { scroll: 0 }),
        Action::CloseHelp | Action::No => state.view.overlay = None,
        Action::PauseDisplay => freeze(state),
        Action::Show(tab) => state.view.tab = tab,
        Action::NextTab => state.view.tab = state.view.tab.turned(1),
        Action::PreviousTab => state.view.tab = state.view.tab.turned(Tab::ALL.len() - 1),
        Action::NextCollective => tabs::overview::turn_collective(state, 1),
        Action::PreviousCollective => {
            let n = state.shown().collectives.len();
            tabs::overview::turn_collective(state, n.saturating_sub(1));
        }
        Action::Theme => next_theme(state),
        Action::Up => scroll(state, Motion::Up(1)),
        Action::Down => scroll(state, Motion::Down(1)),
        Action::PageUp => scroll(state, Motion::Up(page(state))),
        Action::PageDown => scroll(state, Motion::Down(page(state))),
        Action::Top => scroll(state, Motion::Top),
        Action::Bottom => scroll(state, Motion::Bottom),
        Action::Filter => prompt::ask_filter(state),
        Action::Pin => prompt::ask(state, Asks::Pin, String::new()),
        Action::AddBudget => prompt::ask(state, Asks::Budget, String::new()),
        Action::Back => back(state),
        Action::Sort => tabs::sort(state, Sorting::Next),
        Action::ReverseSort => tabs::sort(state, Sorting::Reversed),
        Action::Mark => tabs::mark(state),
        Action::NextMark => tabs::next_mark(state),
        Action::Toggle => tabs::cluster::toggle(state),
        Action::Expand => tabs::cluster::expand(state),
        Action::Collapse => tabs::cluster::collapse(state),
        Action::OpenDetail => tabs::trials::open_detail(state),
        Action::NextLevel => tabs::log::next_level(state),
        Action::NextSection => tabs::profile::turn_section(state, true),
        Action::PreviousSection => tabs::profile::turn_section(state, false),
        Action::Load => prompt::ask_profile(state),
        Action::Left => tabs::search::move_sideways(state, Motion::Up(1)),
        Action::Right => tabs::search::move_sideways(state, Motion::Down(1)),
        Action::NextPoint => tabs::search::turn_point(state, 1),
        Action::PreviousPoint => tabs::search::turn_point(state, -1),
        Action::NextEnvironment => tabs::search::turn_environment(state, 1),
        Action::PreviousEnvironment => tabs::search::turn_environment(state, -1),
        Action::Follow => tabs::search::follow(state),
        Action::TurnPart => tabs::search::turn_part(state),
        Action::Type(edit) => prompt::edit(state, edit),
        Action::Cancel => prompt::cancel(state),
        // Taken by `take_key`.
        Action::Quit
        | Action::Interrupt
        | Action::Suspend
        | Action::Repaint
        | Action::PauseSearch
        | Action::DropChoice
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
        | Action::Copy
        | Action::Export
        | Action::Enter
        | Action::Detach
        | Action::Skip
        | Action::WriteNow
        | Action::Finish => {}
    }
}

fn freeze(state: &mut State) {
    if state.run.summary.is_over() {
        state.notice("the run is over: nothing moves");
        return;
    }
    state.view.frozen = match state.view.frozen.take() {
        Some(_) => {
            // What came meanwhile is not in the table yet.
            state.view.tabs.trials.rebuild(&state.run, state.run.trials.len());
            None
        }
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
        state.notice("colours are switched off (NO_COLOR or --color never)");
        return;
    }
    state.view.theme = next;
    state.notice(match next {
        ThemeName::Base => "theme: base",
        ThemeName::Colorblind => "theme: colorblind (blue and orange)",
        ThemeName::Mono => "theme: mono",
    });
}

/// Closes the detail, or else takes the filter away.
fn back(state: &mut State) {
    if state.view.tab == Tab::Trials && state.view.tabs.trials.has_detail {
        tabs::trials::close_detail(state);
    } else {
        tabs::set_filter(state, Filter::default());
    }
}

fn copy(state: &mut State) -> Vec<Effect> {
    match tabs::copied(state) {
        None => state.notice("there is nothing to copy yet"),
        Some(text) if MAX_COPIED < text.len() => {
            state
                .notice(format!("{} KB are too much for the terminal's clipboard: e writes a file", text.len() / 1000));
        }
        Some(text) => {
            state.notice("copied");
            return vec![Effect::Copy(text), Effect::Redraw];
        }
    }
    vec![Effect::Redraw]
}

fn export(state: &mut State) -> Vec<Effect> {
    match tabs::exported(state) {
        None => state.notice("there is nothing to export yet"),
        Some(export) => return vec![Effect::Export(export), Effect::Redraw],
    }
    vec![Effect::Redraw]
}

/// Rows of a page of the present view.
fn page(state: &State) -> usize {
    Layout::of(state).map_or(1, |layout| layout.rows(state).saturating_sub(1).max(1))
}

fn scroll(state: &mut State, motion: Motion) {
    if matches!(state.view.overlay, Some(Overlay::Help { .. })) {
        scroll_help(state, motion);
        return;
    }
    tabs::move_cursor(state, motion);
}

fn scroll_help(state: &mut State, motion: Motion) {
    let limit = super::draw::help_scroll_limit(state);
    if let Some(Overlay::Help { scroll }) = &mut state.view.overlay {
        *scroll = match motion {
            Motion::Up(lines) => scroll.saturating_sub(lines as u16),
            Motion::Down(lines) => scroll.saturating_add(lines as u16).min(limit),
            Motion::Top | Motion::Bottom => *scroll,
        };
    }
}
