//! Lines that are typed: the filter, a pin, more budget.

use crate::ui::{
    filter::Filter,
    line_edit::{Edit, LineEdit},
    state::{Asks, Effect, Overlay, Prompt, State},
    tabs,
};

/// Asks for the filter of the present view; it filters as it is typed.
pub(super) fn ask_filter(state: &mut State) {
    let text = state.view.tabs.filter(state.view.tab).map_or("", Filter::text).to_owned();
    ask(state, Asks::Filter, text);
}

fn ask(state: &mut State, asks: Asks, text: String) {
    state.view.overlay = Some(Overlay::Prompt(Prompt { asks, line: LineEdit::new(text), error: None }));
}

/// Changes the line.
pub(super) fn edit(state: &mut State, edit: Edit) {
    let Some(Overlay::Prompt(prompt)) = &mut state.view.overlay else { return };
    prompt.line.apply(edit);
    match prompt.asks {
        Asks::Filter => {
            let filter = Filter::new(prompt.line.text());
            tabs::set_filter(state, filter);
        }
        Asks::Pin | Asks::Budget => {}
    }
}

/// Takes what was typed.
pub(super) fn enter(state: &mut State) -> Vec<Effect> {
    let Some(Overlay::Prompt(prompt)) = state.view.overlay.take() else { return vec![] };
    match prompt.asks {
        Asks::Filter => {}
        Asks::Pin | Asks::Budget => {}
    }
    vec![Effect::Redraw]
}

/// Goes on as before; a filter that was being typed is gone.
pub(super) fn cancel(state: &mut State) {
    if let Some(Overlay::Prompt(prompt)) = state.view.overlay.take()
        && prompt.asks == Asks::Filter
    {
        tabs::set_filter(state, Filter::default());
    }
}
