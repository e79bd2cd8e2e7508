//! Where two profiles set the same, but measured that it does not do the same.

use std::fmt;

use crate::{
    profile::{ByteRange, Profile, Speedup, Stretch},
    vocab::Collective,
};

/// The same setting or choice in both, whose speed-ups have intervals that do not overlap.
#[derive(Debug, Clone, PartialEq)]
pub struct EvidenceChange {
    /// What is the same: `NAME=VALUE`, or collective, sizes, shape and choice.
    pub what: String,
    /// In the first profile.
    pub from: Speedup,
    /// In the second one.
    pub to: Speedup,
}

/// Everything of the kind, settings first. Profiles that were not verified have no intervals, so nothing is said of them.
pub fn evidence_changes(from: &Profile, to: &Profile) -> Vec<EvidenceChange> {
    if from.run.unverified || to.run.unverified {
        return Vec::new();
    }
    let mut changes = Vec::new();
    for setting in &from.env {
        let same = to.env.iter().find(|other| other.name == setting.name && other.value == setting.value);
        if let (Some(from), Some(to)) = (setting.speedup, same.and_then(|same| same.speedup)) {
            changes.extend(between(format!("{}={}", setting.name, setting.value), from, to));
        }
    }
    for shape in from.rule_shapes().into_iter().filter(|shape| to.rule_shapes().contains(shape)) {
        for &collective in Collective::ALL {
            rules(collective, shape, (from, to), &mut changes);
        }
    }
    changes
}

fn rules(
    collective: Collective,
    (nodes, ranks): (u32, u32),
    (from, to): (&Profile, &Profile),
    changes: &mut Vec<EvidenceChange>,
) {
    for Stretch { bytes, rule } in from.stretches(collective, (nodes, ranks)) {
        let Some((_, here)) = rule else { continue };
        for other in to.stretches(collective, (nodes, ranks)) {
            let there = other.rule.map(|(_, rule)| rule).filter(|there| there.choice() == here.choice());
            if let (Some(both), Some(there)) = (common(bytes, other.bytes), there) {
                let what = format!("{collective} {both} on {nodes} nodes, {ranks} ranks: {}", here.choice());
                changes.extend(between(what, here.speedup, there.speedup));
            }
        }
    }
}

fn between(what: String, from: Speedup, to: Speedup) -> Option<EvidenceChange> {
    let is_apart = from.high < to.low || to.high < from.low;
    is_apart.then_some(EvidenceChange { what, from, to })
}

/// The sizes that are in both.
fn common(a: ByteRange, b: ByteRange) -> Option<ByteRange> {
    let min = a.min.max(b.min);
    let max = [a.max, b.max].into_iter().flatten().min();
    max.is_none_or(|max| min <= max).then_some(ByteRange { min, max })
}

/// `! NCCL_X=1: 1.21x (1.17 to 1.25) -> 1.02x (1.00 to 1.04)`.
impl fmt::Display for EvidenceChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |s: &Speedup| format!("{:.2}x ({:.2} to {:.2})", s.median, s.low, s.high);
        write!(f, "! {}: {} -> {}", self.what, shown(&self.from), shown(&self.to))
    }
}
