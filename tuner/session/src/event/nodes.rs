//! Hosts that a run goes on without.

use serde::{Deserialize, Serialize};

/// A host that is left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    /// Position in rank order among all hosts of the run, from 0.
    pub index: u32,
    /// Its name.
    pub host: String,
    /// Why.
    pub why: String,
}

/// The hosts that are left out, each with its reason: `without vh3 (nothing heard from it for 12 s)`.
pub fn without(left_out: &[LeftOut]) -> String {
    let one = |out: &LeftOut| format!("{} ({})", out.host, out.why);
    format!("without {}", left_out.iter().map(one).collect::<Vec<_>>().join(", "))
}
