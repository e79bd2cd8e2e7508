//! Lines that are typed: the filter, a pin, more budget, a profile to compare with.

use gdrtune_profiles::profile::Profile;
use gdrtune_session::event::{Command, Phase};
use gdrtune_tuner::space::{PinError, check_pin};

use crate::{
    cli::parse_duration_s,
    ui::{
        filter::Filter,
        line_edit::{Edit, LineEdit},
        state::{Asks, Effect, Overlay, Prompt, State},
        tabs,
    },
};

/// Asks for the filter of the present view; it filters as it is typed.
pub(super) fn ask_filter(state: &mut State) {
    let text = state.view.tabs.filter(state.view.tab).map_or("", Filter::text).to_owned();
    ask(state, Asks::Filter, text);
}

/// Asks for a profile to compare with: the last one again, or another.
pub(super) fn ask_profile(state: &mut State) {
    let name = state.view.tabs.profile.other.as_ref().map_or("", |other| other.name.as_str()).to_owned();
    ask(state, Asks::Load, name);
}

/// Takes a profile that was read; where it could not be, the line stays and says why.
pub(super) fn loaded(state: &mut State, name: String, read: Result<Profile, String>) {
    match (read, &mut state.view.overlay) {
        (Ok(profile), overlay) => {
            overlay.take_if(|overlay| matches!(overlay, Overlay::Prompt(prompt) if prompt.asks == Asks::Load));
            tabs::profile::compare_with(state, name, profile);
        }
        (Err(error), Some(Overlay::Prompt(prompt))) if prompt.asks == Asks::Load => prompt.error = Some(error),
        (Err(error), _) => state.notice(error),
    }
}

/// Asks for a line that begins with a text.
pub(super) fn ask(state: &mut State, asks: Asks, text: String) {
    if matches!(asks, Asks::Pin | Asks::Budget) && state.run.summary.is_over() {
        state.notice("the run is over");
        return;
    }
    if asks == Asks::Pin && state.run.summary.phase.is_some_and(|phase| Phase::Verify <= phase) {
        state.notice("the search is over already: what it found is being verified as it is");
        return;
    }
    state.view.overlay = Some(Overlay::Prompt(Prompt { asks, line: LineEdit::new(text), error: None }));
}

/// Applies an edit to the line.
pub(super) fn edit(state: &mut State, edit: Edit) {
    change(state, |line| line.apply(edit));
}

/// Puts a text into the line.
pub(super) fn paste(state: &mut State, text: &str) {
    change(state, |line| line.insert(text));
}

/// Changes the line, and says what is wrong with it.
fn change(state: &mut State, change: impl FnOnce(&mut LineEdit)) {
    let Some(Overlay::Prompt(prompt)) = &mut state.view.overlay else { return };
    change(&mut prompt.line);
    let (asks, text) = (prompt.asks, prompt.line.text().to_owned());
    if asks == Asks::Filter {
        tabs::set_filter(state, Filter::new(&text));
        return;
    }
    // An empty line is not wrong yet, and nothing is read before it is typed.
    let is_checked = asks != Asks::Load && !text.trim().is_empty();
    let error = if is_checked { command(state, asks, &text).err() } else { None };
    if let Some(Overlay::Prompt(prompt)) = &mut state.view.overlay {
        prompt.error = error;
    }
}

/// Takes what was typed; a line that is wrong stays.
pub(super) fn enter(state: &mut State) -> Vec<Effect> {
    let Some(Overlay::Prompt(mut prompt)) = state.view.overlay.take() else { return vec![] };
    if prompt.asks == Asks::Filter || prompt.line.text().trim().is_empty() {
        return vec![Effect::Redraw];
    }
    if prompt.asks == Asks::Load {
        let name = prompt.line.text().trim().to_owned();
        state.view.overlay = Some(Overlay::Prompt(prompt));
        return vec![Effect::Load(name), Effect::Redraw];
    }
    match command(state, prompt.asks, prompt.line.text()) {
        Ok(command) => {
            state.notice("told the run: it answers before its next measurements");
            vec![Effect::Command(command), Effect::Redraw]
        }
        Err(error) => {
            prompt.error = Some(error);
            state.view.overlay = Some(Overlay::Prompt(prompt));
            vec![Effect::Redraw]
        }
    }
}

/// Goes on as before; a filter that was being typed is gone.
pub(super) fn cancel(state: &mut State) {
    if let Some(Overlay::Prompt(prompt)) = state.view.overlay.take()
        && prompt.asks == Asks::Filter
    {
        tabs::set_filter(state, Filter::default());
    }
}

/// What a line asks of the run, or what is wrong with it.
fn command(state: &State, asks: Asks, text: &str) -> Result<Command, String> {
    match asks {
        Asks::Filter | Asks::Load => Err("nothing is asked of the run".to_owned()),
        Asks::Pin => pin(state, text),
        Asks::Budget => budget(text),
    }
}

/// `KNOB=VALUE` pins, `KNOB=` leaves it unset, `KNOB` alone takes a pin away.
fn pin(state: &State, text: &str) -> Result<Command, String> {
    let search = &state.run.summary.search;
    let check = |knob: &str, value: Option<&str>| {
        check_pin(&search.space.dimensions, &search.space.choices, knob, value).map_err(|error| error.to_string())
    };
    match text.split_once('=') {
        Some((knob, value)) => {
            let (knob, value) = (knob.trim(), Some(value.trim()).filter(|value| !value.is_empty()));
            check(knob, value)?;
            Ok(Command::Pin { knob: knob.to_owned(), value: value.map(str::to_owned) })
        }
        None if search.pins.contains_key(text.trim()) => Ok(Command::Unpin { knob: text.trim().to_owned() }),
        None => {
            // What is wrong with the name comes first.
            let known = search.space.dimensions.get(text.trim()).and_then(|values| values.first());
            let value = known.and_then(Option::as_deref);
            match check_pin(&search.space.dimensions, &search.space.choices, text.trim(), value) {
                Ok(_) | Err(PinError::NeverUnset { .. }) => {
                    Err(format!("{} is not pinned: add = and a value", text.trim()))
                }
                Err(error) => Err(error.to_string()),
            }
        }
    }
}

/// `5m` or `90s` is time, `200 trials` or `200t` are trials. A number alone could be both.
fn budget(text: &str) -> Result<Command, String> {
    let text = text.trim();
    let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic()).trim_end();
    match text.get(number.len()..).unwrap_or_default().trim_start() {
        "" => Err("time or trials? Such as 5m, 90s or 200 trials".to_owned()),
        "t" | "trial" | "trials" => match number.parse() {
            Ok(0) | Err(_) => Err("expected a whole number of trials above 0".to_owned()),
            Ok(trials) => Ok(Command::Extend { seconds: None, trials: Some(trials) }),
        },
        _ => Ok(Command::Extend { seconds: Some(parse_duration_s(text)?), trials: None }),
    }
}
