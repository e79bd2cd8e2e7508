//! What is wrong with a cluster before anything is measured: a table of checks over what was read of its nodes, and over the
//! answers of short tests between them.
//!
//! A check is a pure function over [`Facts`]. One that lacks its facts says so and never passes. [`look`] gathers the facts
//! of hosts; recorded trees have some of them. Ids are part of the command line's contract: they are never given to
//! another check.

mod check;
mod checks;
mod docs;
mod facts;
mod interfaces;
mod live;
mod look;
#[cfg(test)]
mod tests;

use std::collections::HashMap;

use self::check::{Fault, Outcome, Run};
pub use self::{
    check::{Check, Scope, Status},
    checks::{GROUPS, Group, check, checks},
    docs::{explain, list, markdown},
    facts::{Clock, Contact, Facts, Node, Unusable},
    look::{Look, look},
};

/// What a check has found, on nodes that are alike in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The check.
    pub id: &'static str,
    /// What it came to.
    pub status: Status,
    /// The hosts that it is about, in the order in which they were named; none where it is about no host.
    pub hosts: Vec<String>,
    /// What shows it: devices and values; of one that was left out, why.
    pub evidence: String,
    /// What to do, where something is not well.
    pub fix: Option<String>,
}

/// Looks with every check that is wanted. The worst findings come first, and of equally bad ones those of the earlier check.
pub fn examine(facts: &Facts, is_wanted: impl Fn(&Check) -> bool) -> Vec<Finding> {
    let mut found: Vec<Finding> =
        checks().filter(|check| is_wanted(check)).flat_map(|check| run(check, facts)).collect();
    found.sort_by_key(|finding| std::cmp::Reverse(finding.status));
    found
}

fn run(check: &'static Check, facts: &Facts) -> Vec<Finding> {
    let outcomes = match check.run {
        Run::All(look) => look(facts),
        Run::Node(_) if facts.nodes.is_empty() => {
            vec![(Vec::new(), Outcome::skip("no host could be looked at"))]
        }
        Run::Node(look) => facts.nodes.iter().map(|node| (vec![node.host.clone()], look(node))).collect(),
    };
    let mut found: Vec<Finding> = Vec::new();
    let mut places: HashMap<(Status, String, Option<String>), usize> = HashMap::new();
    for (hosts, outcome) in outcomes {
        for fault in results(outcome) {
            let is_fault = matches!(fault.status, Status::Warn | Status::Fail);
            let fix = is_fault.then(|| fault.fix.unwrap_or_else(|| check.fix.to_owned()));
            let key = (fault.status, fault.evidence.clone(), fix.clone());
            // Equal results of many nodes are one finding.
            if let Some(known) = places.get(&key).and_then(|place| found.get_mut(*place)) {
                known
                    .hosts
                    .extend(hosts.iter().filter(|host| !known.hosts.contains(host)).cloned().collect::<Vec<_>>());
                continue;
            }
            places.insert(key, found.len());
            let (status, evidence) = (fault.status, fault.evidence);
            found.push(Finding { id: check.id, status, hosts: hosts.clone(), evidence, fix });
        }
    }
    found
}

/// An outcome as what is reported of it.
fn results(outcome: Outcome) -> Vec<Fault> {
    let one = |status, evidence| vec![Fault { status, evidence, fix: None }];
    match outcome {
        Outcome::Pass(evidence) => one(Status::Pass, evidence),
        Outcome::Skip(why) => one(Status::Skip, why),
        Outcome::Faults(faults) => faults,
    }
}
