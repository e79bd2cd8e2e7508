//! The search view.

use super::Motion;
use crate::ui::state::State;

/// What is looked at.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Search {}

pub(super) fn move_cursor(_state: &mut State, _motion: Motion) {}

pub(super) fn copied(_state: &State) -> Option<String> {
    None
}

pub(super) fn click(_state: &mut State, _row: usize) {}

pub(super) fn exported(_state: &State) -> Option<String> {
    None
}
