//! The overview: charts of one collective by size, under a cursor.

use super::Motion;
use crate::ui::{
    state::State,
    text::{self, one_line},
};

/// What is looked at.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Overview {
    /// Index of the collective in the charts.
    pub(crate) collective: usize,
    /// Index of the size under the charts' cursor; absent follows the last trial.
    pub(crate) size_cursor: Option<usize>,
}

/// Shows another collective.
pub(crate) fn turn_collective(state: &mut State, steps: usize) {
    let n = state.shown().collectives.len();
    if n < 2 {
        state.notice("there is one collective only");
        return;
    }
    let overview = &mut state.view.tabs.overview;
    overview.collective = (overview.collective + steps) % n;
    overview.size_cursor = None;
}

/// Moves the cursor from size to size.
pub(super) fn move_cursor(state: &mut State, motion: Motion) {
    let Some(collective) = state.collective() else { return };
    let summary = state.shown();
    let n_sizes = summary.points_of(collective).count();
    let Some(last) = n_sizes.checked_sub(1) else { return };
    let trying = summary.trying.map(|t| t.point);
    let cursor = state.view.tabs.overview.size_cursor;
    let here = cursor.or_else(|| summary.points_of(collective).position(|(p, _)| Some(p) == trying));
    state.view.tabs.overview.size_cursor = Some(match (motion, here) {
        (Motion::Up(_) | Motion::Down(_), None) => last / 2,
        (motion, here) => motion.from(here.unwrap_or(0), n_sizes),
    });
}

/// What is known of the run, in one line.
pub(super) fn copied(state: &State) -> Option<String> {
    let summary = state.shown();
    let label = summary.label.as_ref()?;
    let gain = summary.gain().map_or_else(|| "no gain known yet".to_owned(), |gain| gain.to_string());
    let ended = summary.ended.as_ref().map_or_else(String::new, |ended| format!(": {}", ended.summary));
    let trials = text::count(summary.n_trials, "trial");
    Some(one_line(&format!("run {} on {}: {trials}, {gain}{ended}", label.run, label.hosts)))
}
