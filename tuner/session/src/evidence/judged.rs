//! What an A/B said of a point, as it is stored.

use gdrtune_profiles::{profile::Speedup, vocab::Point};

use crate::event::{Decision, Event};

/// What an A/B said of a point.
#[derive(Debug, Clone, PartialEq)]
pub struct Judged {
    /// Default time over candidate time.
    pub speedup: Speedup,
    /// Median of the default arm in microseconds.
    pub default_us: f64,
    /// Median of the candidate in microseconds.
    pub tuned_us: f64,
    /// What follows.
    pub decision: Decision,
    /// What it would take to say more.
    pub note: String,
}

impl Judged {
    /// What an event tells, and of which point. A reduced candidate is measured again: of several events of a point the last
    /// one counts.
    pub fn of(event: &Event) -> Option<(Point, Self)> {
        let Event::Verdict { point, speedup, default_us, tuned_us, decision, note } = event else { return None };
        let (speedup, default_us, tuned_us, decision) = (*speedup, *default_us, *tuned_us, *decision);
        Some((*point, Self { speedup, default_us, tuned_us, decision, note: note.clone() }))
    }

    /// The event that tells this of a point.
    pub fn at(self, point: Point) -> Event {
        let Self { speedup, default_us, tuned_us, decision, note } = self;
        Event::Verdict { point, speedup, default_us, tuned_us, decision, note }
    }
}
