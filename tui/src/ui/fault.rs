//! A panic on purpose, for the test of what happens then. Built only with the cargo feature `test-faults`.

use super::state::State;

/// From this trial on every draw panics.
const VARIABLE: &str = "GDRTUNE_UI_PANICS_AT_TRIAL";

/// Panics where the environment asks for it.
pub(super) fn panic_if_asked(state: &State) {
    let at: Option<u64> = std::env::var(VARIABLE).ok().and_then(|text| text.parse().ok());
    assert!(at.is_none_or(|at| state.run.summary.n_trials < at), "a panic on purpose");
}
