//! The profile view.

use super::Motion;
use crate::ui::state::State;

/// What is looked at.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Profile {}

pub(super) fn move_cursor(_state: &mut State, _motion: Motion) {}

pub(super) fn copied(_state: &State) -> Option<String> {
    None
}

pub(super) fn exported(_state: &State) -> Option<super::Export> {
    None
}
