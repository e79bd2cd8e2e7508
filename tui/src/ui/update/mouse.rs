//! What the mouse does: the wheel scrolls, a click chooses a view or a row.

use crossterm::event::{MouseButton, MouseEvent, MouseEventKind};
use ratatui::layout::Position;

use super::scroll;
use crate::ui::{
    draw,
    layout::Layout,
    state::{Effect, Overlay, State},
    tabs::{self, Motion},
};

/// Lines per turn of the mouse wheel.
const WHEEL_LINES: usize = 3;

pub(super) fn take(state: &mut State, event: MouseEvent) -> Vec<Effect> {
    match event.kind {
        MouseEventKind::ScrollUp => turn(state, Motion::Up(WHEEL_LINES)),
        MouseEventKind::ScrollDown => turn(state, Motion::Down(WHEEL_LINES)),
        MouseEventKind::Down(MouseButton::Left) => click(state, Position::new(event.column, event.row)),
        _ => vec![],
    }
}

fn turn(state: &mut State, motion: Motion) -> Vec<Effect> {
    if matches!(state.view.overlay, Some(Overlay::Question(_) | Overlay::Prompt(_))) {
        return vec![];
    }
    scroll(state, motion);
    vec![Effect::Redraw]
}

fn click(state: &mut State, position: Position) -> Vec<Effect> {
    let (None, Some(layout)) = (&state.view.overlay, Layout::of(state)) else { return vec![] };
    if layout.tabs.contains(position) {
        let Some(tab) = draw::tab_at(layout.tabs, state.view.tab, position.x) else { return vec![] };
        state.view.tab = tab;
    } else if layout.body.contains(position) {
        // The title is row 0.
        let Some(row) = (position.y - layout.body.y).checked_sub(1) else { return vec![] };
        tabs::click(state, usize::from(row), usize::from(position.x - layout.body.x));
    } else {
        return vec![];
    }
    vec![Effect::Redraw]
}
