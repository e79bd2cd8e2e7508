//! Findings for people: the worst first, in lines that fit 80 columns, but for commands that do not. What is well, and what was left out, is
//! counted, and only named where that is asked for.
//!
//! ```text
//! ✗ FAIL
//!   gdr-path  node[01-03]
//!       no peer memory module is loaded, and no DMA-BUF
//!       fix: `modprobe nvidia-peermem`
//!
//! - SKIP
//!   hca-mtu, hca-rate: no HCA
//!
//! ✓ PASS
//!   gpu-driver-loaded, gpu-driver-version
//!
//! 3 hosts, 5 findings: 1 FAIL, 0 WARN, 2 SKIP, 2 PASS
//! ```

use gdrtune_fleet::hosts::fold;
use gdrtune_session::doctor::{Facts, Finding, Node, Status};

use super::{super::printable, COLUMNS};
use crate::ui::{
    Charset, Glyphs,
    text::{count, wrap_commands},
};

/// How much is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Detail {
    /// What is not well.
    Faults,
    /// What was left out and what passed, too.
    Everything,
}

/// Everything, ending with a line break.
pub(super) fn text(facts: &Facts, findings: &[Finding], charset: Charset, detail: Detail) -> String {
    let glyphs = Glyphs::of(charset);
    let hosts = facts.nodes.len() + facts.unusable.len();
    let all: Vec<&str> = facts.nodes.iter().map(|node| node.host.as_str()).collect();
    let mut lines = Vec::new();
    if facts.unusable.is_empty() && !facts.nodes.is_empty() && facts.nodes.iter().all(Node::is_bare) {
        lines.push(bare(&facts.nodes).to_owned());
        lines.push(String::new());
    }
    for status in Status::WORST_FIRST {
        let of: Vec<&Finding> = findings.iter().filter(|finding| finding.status == status).collect();
        let is_fault = matches!(status, Status::Fail | Status::Warn);
        if of.is_empty() || (detail == Detail::Faults && !is_fault) {
            continue;
        }
        lines.push(format!("{} {}", symbol(status, &glyphs), status.name()));
        match status {
            Status::Fail | Status::Warn => of.iter().for_each(|finding| fault(finding, &mut lines)),
            Status::Skip => skipped(&of, &all, &mut lines),
            Status::Pass => {
                let ids: Vec<String> = of.iter().map(|finding| with_hosts(finding, &all)).collect();
                block(&ids.join(", "), 2, &mut lines);
            }
        }
        lines.push(String::new());
    }
    lines.push(format!("{}, {}", count(hosts as u64, "host"), counts(findings)));
    let has = |fault: bool| findings.iter().any(|finding| (finding.status >= Status::Warn) == fault);
    if detail == Detail::Faults && has(false) {
        lines.push("-v also names what was skipped, and why, and what passed".to_owned());
    }
    if has(true) {
        lines.push("gdrtune doctor explain ID says what a check looks at, and why".to_owned());
    }
    // Names of hosts, devices and files are others' words.
    lines.iter().map(|line| printable(line.trim_end()) + "\n").collect()
}

/// What is said first where there is little to say.
fn bare(nodes: &[Node]) -> &'static str {
    match nodes {
        [node] if !node.is_recorded && node.host == "localhost" => {
            "no GPU and no HCA here: little to check; name nodes with -w"
        }
        _ => "no GPU and no HCA on any of these hosts: little to check",
    }
}

const fn symbol(status: Status, glyphs: &Glyphs) -> &'static str {
    match status {
        Status::Fail => glyphs.failed,
        Status::Warn => glyphs.alert,
        Status::Skip => "-",
        Status::Pass => glyphs.ok,
    }
}

/// A text in lines behind an indent; commands in it are not broken.
fn block(text: &str, indent: usize, lines: &mut Vec<String>) {
    let wrapped = wrap_commands(text, COLUMNS - indent);
    lines.extend(wrapped.into_iter().map(|line| format!("{}{line}", " ".repeat(indent))));
}

fn fault(finding: &Finding, lines: &mut Vec<String>) {
    let hosts = fold(&finding.hosts);
    block(&format!("{} {hosts}", finding.id), 2, lines);
    block(&finding.evidence, 6, lines);
    if let Some(fix) = &finding.fix {
        block(&format!("fix: {fix}"), 6, lines);
    }
}

/// `hca-rate`, and its hosts where these are not all.
fn with_hosts(finding: &Finding, all: &[&str]) -> String {
    if finding.hosts.is_empty() || finding.hosts == all {
        finding.id.to_owned()
    } else {
        format!("{} ({})", finding.id, fold(&finding.hosts))
    }
}

/// Checks that were left out, by why.
fn skipped(of: &[&Finding], all: &[&str], lines: &mut Vec<String>) {
    let mut reasons: Vec<(&str, Vec<String>)> = Vec::new();
    for finding in of {
        let id = with_hosts(finding, all);
        match reasons.iter_mut().find(|(why, _)| *why == finding.evidence) {
            Some((_, ids)) => ids.push(id),
            None => reasons.push((&finding.evidence, vec![id])),
        }
    }
    for (why, ids) in &reasons {
        block(&format!("{}: {why}", ids.join(", ")), 2, lines);
    }
}

/// How many findings came to what, as the document for programs counts them: equal results of several hosts are one.
fn counts(findings: &[Finding]) -> String {
    let number = |status: Status| findings.iter().filter(|finding| finding.status == status).count();
    let words: Vec<String> =
        Status::WORST_FIRST.iter().map(|status| format!("{} {}", number(*status), status.name())).collect();
    format!("{}: {}", count(findings.len() as u64, "finding"), words.join(", "))
}
