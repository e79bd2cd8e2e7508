//! Findings as one JSON document, for programs.

use gdrtune_session::doctor::{Facts, Finding, GROUPS, Status, check};
use serde_json::{Value, json};

/// The document. Its findings are in the order of the text: the worst first.
pub(super) fn document(facts: &Facts, findings: &[Finding]) -> Value {
    let counts = Status::WORST_FIRST.map(|status| {
        let count = findings.iter().filter(|finding| finding.status == status).count();
        (status.name().to_ascii_lowercase(), Value::from(count))
    });
    json!({
        "schema_version": 1,
        "hosts": facts.nodes.iter().map(|node| node.host.as_str()).collect::<Vec<_>>(),
        "unusable": facts.unusable.iter().map(|host| host.host.as_str()).collect::<Vec<_>>(),
        "counts": counts.into_iter().collect::<serde_json::Map<_, _>>(),
        "findings": findings.iter().map(finding).collect::<Vec<_>>(),
    })
}

fn finding(finding: &Finding) -> Value {
    let Finding { id, status, hosts, evidence, fix } = finding;
    let group = GROUPS.iter().find(|group| group.checks.iter().any(|check| check.id == *id));
    let check = check(id);
    json!({
        "id": id,
        "status": status.name(),
        "group": group.map(|group| group.name),
        "title": check.map(|check| check.title),
        "scope": check.map(|check| check.scope.name()),
        "hosts": hosts,
        "evidence": evidence,
        "fix": fix,
        "source": check.map(|check| check.source),
    })
}
