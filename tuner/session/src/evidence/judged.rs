//! What an A/B said of a point, as it is stored.

use gdrtune_profiles::{profile::Speedup, vocab::Point};
use gdrtune_tuner::verdict::{self, PointVerdict};

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
    /// What a verdict comes to; `None` of a point that was not measured in both arms.
    pub fn by(verdict: &PointVerdict) -> Option<Self> {
        Some(Self {
            speedup: verdict.speedup?,
            default_us: verdict.default_us?,
            tuned_us: verdict.tuned_us?,
            decision: match verdict.decision {
                verdict::Decision::Ship => Decision::Ship,
                verdict::Decision::Keep => Decision::Keep,
                verdict::Decision::Regression => Decision::Regression,
                verdict::Decision::TooNoisy => Decision::TooNoisy,
                verdict::Decision::NotMeasured => return None,
            },
            note: verdict.noise.map(|noise| noise.to_string()).unwrap_or_default(),
        })
    }

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
