//! What would ship.

use gdrtune_profiles::{
    profile::{Profile, Rule},
    vocab::{Choice, Point},
};

use super::{Run, ShapeInPlay, Summary};

/// What would ship, as the run told it last.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Draft {
    /// When it was told, in milliseconds of the run.
    pub(crate) t_ms: u64,
    pub(crate) profile: Profile,
    /// What was tried and left out, and why.
    pub(crate) left_out: Vec<String>,
}

impl Draft {
    /// Whether jobs would run as they do now.
    pub(crate) const fn is_empty(&self) -> bool {
        self.profile.env.is_empty() && self.profile.rule.is_empty()
    }

    /// What jobs of a shape would run at a point; of a run of one shape, whichever that is.
    fn at(&self, point: Point, shape: Option<ShapeInPlay>) -> Ships {
        let is_of_shape =
            |rule: &Rule| shape.is_none_or(|shape| (rule.nodes, rule.ranks) == (shape.n_nodes, shape.n_ranks));
        let holds = |rule: &Rule| {
            let reaches = rule.bytes.max.is_none_or(|max| point.bytes <= max);
            rule.collective == point.collective && rule.bytes.min <= point.bytes && reaches && is_of_shape(rule)
        };
        match self.profile.rule.iter().find(|rule| holds(rule)) {
            Some(rule) => Ships::Choice(rule.choice()),
            None if self.profile.env.is_empty() => Ships::Default,
            None => Ships::SettingsOnly,
        }
    }
}

/// What ships at a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ships {
    /// Nothing: jobs run as they do now.
    Default,
    /// The settings of every process; the engine chooses by itself.
    SettingsOnly,
    Choice(Choice),
}

impl Summary {
    /// What ships at a point; `None` before the A/B has decided.
    pub(crate) fn ships_at(&self, point: Point) -> Option<Ships> {
        let draft = self.draft.as_ref().filter(|draft| !draft.profile.run.unverified)?;
        self.points.get(&point)?.verdict?;
        Some(draft.at(point, self.label.as_ref().and_then(|label| label.shape)))
    }
}

impl Run {
    /// Samples of the search behind a rule of a draft; `None` where they are of another shape, or there are none.
    pub(crate) fn samples_behind(&self, profile: &Profile, rule: &Rule) -> Option<usize> {
        let overlay = *self.environment_numbers.get(&profile.environment())?;
        let at = |bytes| Point { collective: rule.collective, bytes };
        let points = self.summary.points.range(at(rule.bytes.min)..=at(rule.bytes.max.unwrap_or(u64::MAX)));
        let cells = points.filter_map(|(point, _)| self.summary.search.cell(overlay, *point, rule.choice()));
        Some(cells.map(|cell| cell.samples_us().len()).sum()).filter(|samples| 0 < *samples)
    }
}
