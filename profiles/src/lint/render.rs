//! Findings and rules as text, JSON, SARIF and GitHub's annotations.

use std::{
    collections::BTreeSet,
    fmt::{self, Write as _},
    str::FromStr,
};

use serde_json::{Value, json};

use super::{Finding, GROUPS, Rule, Severity, rules};
use crate::{
    diagnostic::printable,
    json::{document, escape},
    nearest::hint,
};

/// How findings are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// For people: `file:line: severity: message [rule]`, and the fix below.
    Text,
    /// One JSON object per line and finding.
    Json,
    /// SARIF 2.1.0, as code scanning reads it.
    Sarif,
    /// Workflow commands of GitHub Actions, which annotate lines.
    Github,
}

impl Format {
    /// Every format.
    pub const ALL: &[Self] = &[Self::Text, Self::Json, Self::Sarif, Self::Github];

    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Json => "json",
            Self::Sarif => "sarif",
            Self::Github => "github",
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let names = || Self::ALL.iter().map(|format| format.name());
        Self::ALL.iter().copied().find(|format| format.name() == text).ok_or_else(|| {
            let known: Vec<&str> = names().collect();
            format!("unknown format `{text}`: use one of {}{}", known.join(", "), hint(text, names()))
        })
    }
}

/// Writes findings. Each form ends with a line end where it is not empty.
pub fn render(findings: &[Finding], format: Format) -> String {
    match format {
        Format::Text => findings.iter().map(text).collect(),
        Format::Json => findings.iter().map(|finding| escape(format!("{}\n", json(finding)))).collect(),
        Format::Sarif => document(&sarif(findings)),
        Format::Github => findings.iter().map(github).collect(),
    }
}

fn text(finding: &Finding) -> String {
    let Finding { file, line, rule, message, fix } = finding;
    let (file, message, fix) = (printable(file), printable(message), printable(fix));
    format!("{file}:{line}: {}: {message} [{}]\n    fix: {fix}\n", rule.severity, rule.id)
}

fn json(finding: &Finding) -> Value {
    let Finding { file, line, rule, message, fix } = finding;
    json!({"file": file, "line": line, "rule": rule.id, "severity": rule.severity.name(), "message": message, "fix": fix})
}

/// docs.github.com, "Workflow commands for GitHub Actions": `%`, CR and LF are escaped, in properties `:` and `,` as well.
fn github(finding: &Finding) -> String {
    let data = |text: &str| text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A");
    let property = |text: &str| data(text).replace(':', "%3A").replace(',', "%2C");
    let Finding { file, line, rule, message, fix } = finding;
    let level = if rule.severity == Severity::Note { "notice" } else { rule.severity.name() };
    let text = data(&format!("{message}; fix: {fix}"));
    format!("::{level} file={},line={line},title={}::{text}\n", property(file), property(rule.id))
}

const SARIF_SCHEMA: &str = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json";

fn sarif(findings: &[Finding]) -> Value {
    let used: BTreeSet<&str> = findings.iter().map(|finding| finding.rule.id).collect();
    let listed: Vec<&Rule> = rules().filter(|rule| used.contains(rule.id)).collect();
    let rules: Vec<Value> = listed.iter().map(|rule| sarif_rule(rule)).collect();
    let results: Vec<Value> = findings
        .iter()
        .map(|finding| {
            let Finding { file, line, rule, message, fix } = finding;
            json!({
                "ruleId": rule.id,
                "ruleIndex": listed.iter().position(|listed| listed.id == rule.id),
                "level": rule.severity.name(),
                "message": {"text": format!("{message}; fix: {fix}")},
                "locations": [{"physicalLocation": {
                    "artifactLocation": {"uri": uri(file)},
                    "region": {"startLine": line},
                }}],
            })
        })
        .collect();
    let driver = json!({"name": "gdrtune", "semanticVersion": env!("CARGO_PKG_VERSION"), "rules": rules});
    json!({"$schema": SARIF_SCHEMA, "version": "2.1.0", "runs": [{"tool": {"driver": driver}, "results": results}]})
}

fn sarif_rule(rule: &Rule) -> Value {
    json!({
        "id": rule.id,
        "shortDescription": {"text": rule.finds},
        "fullDescription": {"text": rule.why},
        "help": {"text": format!("Source: {}", rule.source)},
        "defaultConfiguration": {"level": rule.severity.name()},
    })
}

/// A path as a URI reference (RFC 3986): what is not unreserved, and no `/`, is encoded.
fn uri(path: &str) -> String {
    let mut uri = String::new();
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            uri.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            write!(uri, "%{byte:02X}").ok();
        }
    }
    uri
}

/// The rules as plain text: one paragraph for each.
pub fn rules_text() -> String {
    let mut text = String::new();
    for group in GROUPS {
        let heading = format!("{}{}\n", if text.is_empty() { "" } else { "\n" }, group.title);
        text.push_str(&heading);
        for rule in group.rules {
            let Rule { id, severity, finds, why, source, .. } = rule;
            let paragraph = format!("  {id} ({severity}): {finds}\n      {why}\n      Source: {source}\n");
            text.push_str(&paragraph);
        }
    }
    text
}

/// The rules as Markdown tables, one for each group.
pub fn rules_markdown() -> String {
    let mut text = String::new();
    for group in GROUPS {
        let head = format!(
            "\n## {}\n\n| rule | severity | finds | why | source |\n|---|---|---|---|---|\n",
            capital(group.title)
        );
        text.push_str(&head);
        for rule in group.rules {
            let Rule { id, severity, finds, why, source, .. } = rule;
            let row = format!("| `{id}` | {severity} | {finds} | {why} | {source} |\n");
            text.push_str(&row);
        }
    }
    text
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or(String::new(), |first| first.to_uppercase().chain(chars).collect())
}
