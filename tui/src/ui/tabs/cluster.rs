//! The cluster view.

use super::Motion;
use crate::ui::state::State;

/// What is looked at.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Cluster {
    pub(crate) filter: crate::ui::filter::Filter,
}

pub(super) fn move_cursor(_state: &mut State, _motion: Motion) {}

pub(super) fn copied(_state: &State) -> Option<String> {
    None
}

pub(super) fn click(_state: &mut State, _row: usize) {}

pub(super) fn exported(_state: &State) -> Option<String> {
    None
}

pub(super) fn mark(_state: &mut State) {}

pub(super) fn next_mark(_state: &mut State) {}

pub(super) fn set_filter(state: &mut State, filter: crate::ui::filter::Filter) {
    state.view.tabs.cluster.filter = filter;
}
