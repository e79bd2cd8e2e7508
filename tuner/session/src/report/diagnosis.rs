//! What `gdrtune doctor --json` printed, for a report of a run on the same hosts.

use serde::Deserialize;

use crate::doctor::Status;

/// The document; what a report does not tell of is left out.
#[derive(Debug, Clone, Deserialize)]
pub struct Diagnosis {
    pub(super) findings: Vec<Found>,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct Found {
    pub(super) id: String,
    /// [`Status::name`].
    pub(super) status: String,
    pub(super) hosts: Vec<String>,
    pub(super) evidence: String,
    pub(super) fix: Option<String>,
}

impl Diagnosis {
    /// The findings of a status.
    pub(super) fn of(&self, status: Status) -> impl Iterator<Item = &Found> {
        self.findings.iter().filter(move |found| found.status == status.name())
    }

    /// What is wrong or may be, failures first.
    pub(super) fn troubles(&self) -> impl Iterator<Item = &Found> {
        [Status::Fail, Status::Warn].into_iter().flat_map(|status| self.of(status))
    }
}
