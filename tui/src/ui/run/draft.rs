//! What would ship.

use gdrtune_profiles::{
    profile::{Profile, Rule},
    vocab::Point,
};

use super::Run;

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
