//! What `gdrtune doctor --json` printed, for a report of a run on the same hosts.

use serde::Deserialize;

/// The document; what a report does not tell of is left out.
#[derive(Debug, Clone, Deserialize)]
pub struct Diagnosis {
    pub(super) counts: Counts,
    pub(super) findings: Vec<Found>,
}

/// Findings by their status.
#[derive(Debug, Clone, Copy, Deserialize)]
pub(super) struct Counts {
    pub(super) fail: u64,
    pub(super) warn: u64,
    pub(super) pass: u64,
    pub(super) skip: u64,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct Found {
    pub(super) id: String,
    /// As [`Status`](crate::doctor::Status) is printed.
    pub(super) status: String,
    pub(super) hosts: Vec<String>,
    pub(super) evidence: String,
    pub(super) fix: Option<String>,
}

impl Diagnosis {
    /// What is wrong or may be, failures first.
    pub(super) fn troubles(&self) -> impl Iterator<Item = &Found> {
        ["FAIL", "WARN"].into_iter().flat_map(|status| self.findings.iter().filter(move |found| found.status == status))
    }
}
