//! Whose time a measured time is.

use gdrtune_profiles::vocab::Choice;
use gdrtune_tuner::bench::Outcome;

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
