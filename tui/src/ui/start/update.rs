//! The one place where the state of the start screen changes: [`update`] takes an input and says what the event loop shall do.

use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use ratatui::layout::{Position, Rect};

use super::{
    draw,
    form::{Focus, Form, Line, Outcome},
    keys::{self, Action},
    layout,
    state::{Effect, Input, Page, Panel, Prompt, Request, Shown, State, Stock, of_run},
};
use crate::ui::{Colour, ThemeName, line_edit::Edit};

/// Lines per turn of the mouse wheel.
const WHEEL_LINES: usize = 3;

/// Applies one input.
pub(crate) fn update(state: &mut State, input: Input) -> Vec<Effect> {
    let mut effects = match input {
        Input::Key(event) if event.kind == KeyEventKind::Release => return vec![],
        Input::Key(event) => take_key(state, event),
        Input::Paste(text) => paste(state, &text),
        Input::Mouse(event) => take_mouse(state, event),
        Input::Resize(columns, rows) => {
            state.size = (columns, rows);
            if let Some(shown) = &mut state.profile {
                shown.fit(columns);
            }
            vec![Effect::Redraw]
        }
        Input::Stock(stock) => take_stock(state, *stock),
        Input::Opened(result) => opened(state, result),
        Input::Checked { words, result } => {
            let outcome = state.form.take_check(&words, result);
            follow(outcome)
        }
    };
    if settle(state) {
        effects.push(Effect::Redraw);
    }
    effects
}

/// Keeps what has the cursor within what is shown. Whether anything moved.
fn settle(state: &mut State) -> bool {
    let tops = |state: &State| (state.runs.top, state.clusters.top, state.form.top);
    let before = tops(state);
    let lists = state.lists_layout();
    state.runs.settle(usize::from(lists.run_rows().height));
    state.clusters.settle(usize::from(lists.cluster_rows().height));
    state.form.scroll_to_focus(usize::from(layout::Form::of(state.size).fields.height));
    before != tops(state)
}

fn take_stock(state: &mut State, mut stock: Stock) -> Vec<Effect> {
    state.runs.replace(std::mem::take(&mut stock.runs), |old, new| old.name == new.name);
    state.clusters.replace(std::mem::take(&mut stock.clusters), |old, new| old.fields == new.fields);
    state.stock = Some(stock);
    vec![Effect::Redraw]
}

fn opened(state: &mut State, result: Result<super::profile::ProfilePage, String>) -> Vec<Effect> {
    // Who has left the question does not want the answer any more.
    if state.page != Page::Prompt || !state.prompt.is_reading {
        return vec![];
    }
    state.prompt.is_reading = false;
    match result {
        Ok(page) => {
            state.profile = Some(Shown::new(page, state.size.0));
            state.page = Page::Profile;
        }
        Err(problem) => state.prompt.problem = Some(problem),
    }
    vec![Effect::Redraw]
}

fn take_key(state: &mut State, event: KeyEvent) -> Vec<Effect> {
    let had_notice = state.notice.take().is_some();
    if let Some(action) = keys::action_for(state.contexts(), event) {
        return take_action(state, action);
    }
    match typed(event) {
        Some(c) if state.contexts().contains(&keys::Context::Text) => edit(state, Edit::Insert(c)),
        _ if had_notice => vec![Effect::Redraw],
        _ => vec![],
    }
}

/// The character that a key writes.
fn typed(event: KeyEvent) -> Option<char> {
    let is_plain = (event.modifiers - KeyModifiers::SHIFT).is_empty();
    match event.code {
        KeyCode::Char(c) if is_plain => Some(c),
        _ => None,
    }
}

fn take_action(state: &mut State, action: Action) -> Vec<Effect> {
    match action {
        Action::Quit | Action::Interrupt => vec![Effect::Leave],
        Action::Suspend => vec![Effect::Suspend],
        Action::Repaint => vec![Effect::Repaint],
        Action::Reload => vec![Effect::Ask(Request::Reload), Effect::Redraw],
        Action::Demo => vec![Effect::Go(vec!["demo".to_owned()])],
        Action::Open => open(state),
        Action::Resume => resume(state),
        Action::NewRun => show_form(state),
        Action::Confirm => confirm(state),
        Action::Left => edit(state, Edit::Left),
        Action::Right => edit(state, Edit::Right),
        Action::Home => edit(state, Edit::Home),
        Action::End => edit(state, Edit::End),
        Action::Backspace => edit(state, Edit::DeleteBack),
        Action::Delete => edit(state, Edit::DeleteForward),
        Action::KillLine => edit(state, Edit::DeleteToStart),
        Action::KillWord => edit(state, Edit::DeleteWord),
        Action::NextValue => follow(state.form.turn(true)),
        Action::PreviousValue => follow(state.form.turn(false)),
        Action::Reset => {
            state.form = Form::new(&[]);
            show_form(state)
        }
        Action::Up | Action::Down | Action::PageUp | Action::PageDown | Action::Top | Action::Bottom => {
            move_by(state, action);
            vec![Effect::Redraw]
        }
        other => {
            match other {
                Action::Help => state.help = Some(0),
                Action::CloseHelp => state.help = None,
                Action::Back => state.page = Page::Lists,
                Action::OpenProfile => {
                    state.prompt = Prompt { input: state.prompt.input.clone(), ..Prompt::default() };
                    state.page = Page::Prompt;
                }
                Action::NextField => state.form.move_focus(true),
                Action::PreviousField => state.form.move_focus(false),
                Action::Theme => next_theme(state),
                // The others were taken above; there are two lists, so both ways lead to the other one.
                _ => state.focus = if state.focus == Panel::Runs { Panel::Clusters } else { Panel::Runs },
            }
            vec![Effect::Redraw]
        }
    }
}

fn next_theme(state: &mut State) {
    match state.colour {
        Colour::Allowed => state.theme = state.theme.next(),
        Colour::Refused => {
            state.theme = ThemeName::Mono;
            state.notice = Some("colours are off (NO_COLOR, or TERM=dumb)".to_owned());
        }
    }
}

/// Does what Enter does in the lists.
fn open(state: &mut State) -> Vec<Effect> {
    match state.focus {
        Panel::Runs => state.command().map(Effect::Go).into_iter().collect(),
        Panel::Clusters => match state.clusters.selected() {
            None => vec![],
            Some(cluster) => {
                state.form = Form::new(&cluster.fields);
                show_form(state)
            }
        },
    }
}

fn resume(state: &mut State) -> Vec<Effect> {
    let Some(run) = state.runs.selected() else { return vec![] };
    if run.can_resume {
        return vec![Effect::Go(of_run(&["runs", "resume"], &run.name))];
    }
    state.notice = Some("nothing to go on with: this run goes on, or was not ended too early".to_owned());
    vec![Effect::Redraw]
}

fn show_form(state: &mut State) -> Vec<Effect> {
    state.page = Page::Form;
    state.form.is_starting = false;
    let outcome = state.form.check();
    follow(outcome)
}

/// Does what Enter does where text is typed.
fn confirm(state: &mut State) -> Vec<Effect> {
    match (state.page, state.form.focus) {
        (Page::Form, Focus::Start) => follow(state.form.start()),
        (Page::Form, Focus::Field(_)) => {
            state.form.move_focus(true);
            vec![Effect::Redraw]
        }
        _ => {
            let path = state.prompt.input.text().trim().to_owned();
            if path.is_empty() {
                state.prompt.problem = Some("write the path of a profile.toml, or of its folder".to_owned());
                return vec![Effect::Redraw];
            }
            (state.prompt.problem, state.prompt.is_reading) = (None, true);
            vec![Effect::Ask(Request::Open(path)), Effect::Redraw]
        }
    }
}

fn edit(state: &mut State, edit: Edit) -> Vec<Effect> {
    if state.page == Page::Form {
        return follow(state.form.edit(edit));
    }
    state.prompt.input.apply(edit);
    (state.prompt.problem, state.prompt.is_reading) = (None, false);
    vec![Effect::Redraw]
}

/// Takes what was pasted where text is typed. Elsewhere its characters would be commands that nobody gave.
fn paste(state: &mut State, text: &str) -> Vec<Effect> {
    if !state.contexts().contains(&keys::Context::Text) {
        state.notice = Some("pasted text is taken where text is typed only".to_owned());
    } else if state.page == Page::Form {
        return follow(state.form.paste(text));
    } else {
        state.prompt.input.insert(text);
        (state.prompt.problem, state.prompt.is_reading) = (None, false);
    }
    vec![Effect::Redraw]
}

fn follow(outcome: Outcome) -> Vec<Effect> {
    match outcome {
        Outcome::Shown => vec![Effect::Redraw],
        Outcome::Check(words) => vec![Effect::Ask(Request::Check(words)), Effect::Redraw],
        Outcome::Go(words) => vec![Effect::Go(words)],
    }
}

/// Moves the cursor of a list, or scrolls what has none.
fn move_by(state: &mut State, action: Action) {
    let lists = state.lists_layout();
    let contexts = state.page_contexts();
    let help_limit = draw::help_scroll_limit(state.size, contexts);
    let help_rows = draw::help_rows(state.size, contexts);
    let (place, last, rows) = match (&mut state.help, state.page, state.focus) {
        (Some(scroll), ..) => (scroll, help_limit, help_rows),
        (None, Page::Profile, _) => {
            let Some(shown) = &mut state.profile else { return };
            let rows = usize::from(layout::Profile::of(state.size).rows().height);
            (&mut shown.top, shown.lines.len().saturating_sub(rows), rows)
        }
        (None, _, Panel::Runs) => {
            (&mut state.runs.cursor, state.runs.rows.len().saturating_sub(1), lists.run_rows().height.into())
        }
        (None, _, Panel::Clusters) => (
            &mut state.clusters.cursor,
            state.clusters.rows.len().saturating_sub(1),
            lists.cluster_rows().height.into(),
        ),
    };
    let page = rows.saturating_sub(1).max(1);
    *place = match action {
        Action::Up => place.saturating_sub(1),
        Action::Down => *place + 1,
        Action::PageUp => place.saturating_sub(page),
        Action::PageDown => *place + page,
        Action::Top => 0,
        _ => last,
    }
    .min(last);
}

fn take_mouse(state: &mut State, event: MouseEvent) -> Vec<Effect> {
    if layout::is_too_small(state.size) {
        return vec![];
    }
    let at = Position::new(event.column, event.row);
    match event.kind {
        MouseEventKind::ScrollUp => wheel(state, at, Action::Up),
        MouseEventKind::ScrollDown => wheel(state, at, Action::Down),
        MouseEventKind::Down(MouseButton::Left) if state.help.is_none() => click(state, at),
        _ => vec![],
    }
}

fn wheel(state: &mut State, at: Position, action: Action) -> Vec<Effect> {
    if state.help.is_none() {
        match state.page {
            Page::Prompt => return vec![],
            Page::Form => {
                state.form.move_focus(action == Action::Down);
                return vec![Effect::Redraw];
            }
            Page::Lists => focus_at(state, at),
            Page::Profile => {}
        }
    }
    for _ in 0..WHEEL_LINES {
        move_by(state, action);
    }
    vec![Effect::Redraw]
}

/// The list under the mouse gets the focus.
fn focus_at(state: &mut State, at: Position) {
    let lists = state.lists_layout();
    for (panel, place) in [(Panel::Runs, lists.runs), (Panel::Clusters, lists.clusters)] {
        if place.contains(at) {
            state.focus = panel;
        }
    }
}

fn click(state: &mut State, at: Position) -> Vec<Effect> {
    match state.page {
        Page::Lists => {
            focus_at(state, at);
            let lists = state.lists_layout();
            if let Some(row) = row_at(lists.run_rows(), at, state.runs.top) {
                state.runs.cursor = row;
            }
            if let Some(row) = row_at(lists.cluster_rows(), at, state.clusters.top) {
                state.clusters.cursor = row;
            }
        }
        Page::Form => {
            let row = row_at(layout::Form::of(state.size).fields, at, state.form.top);
            match row.and_then(|row| state.form.lines().get(row).copied()) {
                Some(Line::Field(id) | Line::Problem(id)) => state.form.focus = Focus::Field(id),
                Some(Line::Start) if state.form.focus == Focus::Start => return follow(state.form.start()),
                Some(Line::Start) => state.form.focus = Focus::Start,
                None => {}
            }
        }
        Page::Prompt | Page::Profile => {}
    }
    vec![Effect::Redraw]
}

/// The line under the mouse.
fn row_at(place: Rect, at: Position, top: usize) -> Option<usize> {
    place.contains(at).then(|| top + usize::from(at.y - place.y))
}
