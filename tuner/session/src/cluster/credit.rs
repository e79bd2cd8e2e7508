//! Whose time a measured time is, and how many calls are behind it.

use gdrtune_profiles::vocab::Choice;
use gdrtune_tuner::bench::{Outcome, Timing};
use gdrtune_wire::MOST_GRAPH_CALLS;

/// Calls that are timed for an item.
pub(super) fn timed_calls(item: &gdrtune_wire::Item) -> u32 {
    if item.graph { item.iterations.min(MOST_GRAPH_CALLS) } else { item.iterations }
}

/// A time with the number of calls behind it.
pub(super) fn with_calls(outcome: Outcome, iterations: u32) -> Outcome {
    match outcome {
        Outcome::Timed(timing) => Outcome::Timed(Timing { iterations, ..timing }),
        other => other,
    }
}

/// A time counts for the choice that really ran: another one than the requested is a substitution.
pub(super) fn credit(outcome: Outcome, requested: Option<Choice>) -> Outcome {
    match (&outcome, requested) {
        (Outcome::Timed(timing), Some(requested)) => match timing.selected {
            Some(selected) if !fulfils(selected, requested) => Outcome::Substituted { selected, timing: *timing },
            _ => outcome,
        },
        _ => outcome,
    }
}

/// Whether `selected` is what `requested` asks for; 0 channels ask for any count.
fn fulfils(selected: Choice, requested: Choice) -> bool {
    selected.algorithm == requested.algorithm
        && selected.protocol == requested.protocol
        && (requested.channels == 0 || requested.channels == selected.channels)
}
