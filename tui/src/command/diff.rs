//! `gdrtune diff`: what differs between two profiles or runs.

use std::{
    fmt::Write as _,
    io::{self, Write as _},
};

use gdrtune_profiles::{
    diagnostic::printable,
    diff::{Change, Context, Diff, EvidenceChange, evidence_changes},
    emit,
};
use gdrtune_session::hardware::{Difference, Hardware};
use serde::Serialize;
use serde_json::{Value, json};

use super::{
    page::COLUMNS,
    subject::{self, Loaded},
};
use crate::{
    cli::DiffArgs,
    exit::{Exit, Failure},
    ui::text,
};

/// Prints what differs. Nothing on standard output is: nothing.
///
/// # Errors
/// Wrong use: one of them is neither a profile nor a run.
pub(crate) fn diff(args: &DiffArgs) -> Result<Exit, Failure> {
    let (from, to) = (subject::load(&args.from)?, subject::load(&args.to)?);
    let differences = Differences::between(&from, &to);
    let text = if args.json { differences.document(&from, &to) } else { differences.text(&from, &to) };
    io::stdout().lock().write_all(text.as_bytes())?;
    if differences.diff.is_empty() && !args.json {
        super::say("the same settings and rules");
    }
    Ok(if args.exit_code && !differences.diff.is_empty() { Exit::Findings } else { Exit::Done })
}

/// Everything that differs.
struct Differences {
    diff: Diff,
    hardware: Vec<Difference>,
    evidence: Vec<EvidenceChange>,
}

impl Differences {
    fn between(from: &Loaded, to: &Loaded) -> Self {
        let hardware = |loaded: &Loaded| loaded.records.as_deref().and_then(Hardware::of_records);
        let both = hardware(from).zip(hardware(to));
        Self {
            diff: Diff::between(&from.profile, &to.profile),
            hardware: both.map(|(from, to)| from.differences(&to)).unwrap_or_default(),
            evidence: evidence_changes(&from.profile, &to.profile),
        }
    }

    fn text(&self, from: &Loaded, to: &Loaded) -> String {
        let hardware = self.hardware.iter().map(|Difference { what, from, to }| format!("# {what}: {from} -> {to}"));
        let hardware = hardware.flat_map(|line| comment_lines(&line));
        // What they were measured on comes first.
        let (context, changes): (Vec<String>, Vec<String>) =
            self.diff.to_string().lines().map(str::to_owned).partition(|line| line.starts_with('#'));
        let context = context.iter().flat_map(|line| comment_lines(line));
        let evidence = self.evidence.iter().map(ToString::to_string);
        let lines: Vec<String> = context.chain(hardware).chain(changes).chain(evidence).collect();
        if lines.is_empty() {
            return String::new();
        }
        let heads = [("---", from), ("+++", to)].map(|(sign, loaded)| format!("{sign} {}", loaded.name));
        let labels = label_lines(&emit::labels(&from.profile), &emit::labels(&to.profile));
        heads.iter().chain(&labels).chain(&lines).fold(String::new(), |mut text, line| {
            // Writing to a string cannot fail.
            writeln!(text, "{}", printable(line)).ok();
            text
        })
    }

    fn document(&self, from: &Loaded, to: &Loaded) -> String {
        let side = |loaded: &Loaded| {
            json!({
                "name": loaded.name,
                "run": loaded.profile.run.id,
                "engine": loaded.profile.run.engine,
                "labels": emit::labels(&loaded.profile),
                "notes": loaded.notes,
            })
        };
        let context = self.diff.context.iter().map(|Context { what, from, to }| (*what, from, to));
        let hardware = self.hardware.iter().map(|Difference { what, from, to }| (*what, from, to));
        let context = context.chain(hardware).map(|(what, from, to)| json!({"what": what, "from": from, "to": to}));
        let settings = self.diff.env.iter().map(|change| {
            let (from, to) = ends(&change.value);
            json!({"name": change.name, "from": from, "to": to})
        });
        let rules = self.diff.rule.iter().map(|change| {
            let (from, to) = ends(&change.choice);
            json!({
                "collective": change.collective,
                "nodes": change.nodes,
                "ranks": change.ranks,
                "bytes": change.bytes,
                "from": from,
                "to": to,
            })
        });
        let evidence =
            self.evidence.iter().map(|EvidenceChange { what, from, to }| json!({"what": what, "from": from, "to": to}));
        let document = json!({
            "schema_version": 1,
            "from": side(from),
            "to": side(to),
            "same": self.diff.is_empty(),
            "measured_on": context.collect::<Vec<_>>(),
            "settings": settings.collect::<Vec<_>>(),
            "rules": rules.collect::<Vec<_>>(),
            "evidence": evidence.collect::<Vec<_>>(),
        });
        gdrtune_profiles::json::document(&document)
    }
}

/// What the numbers of the sides are worth.
fn label_lines(from: &[&str], to: &[&str]) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for label in from {
        lines.extend(comment_lines(&format!("# {} {label}", if to.contains(label) { "both:" } else { "---:" })));
    }
    for label in to.iter().filter(|label| !from.contains(label)) {
        lines.extend(comment_lines(&format!("# +++: {label}")));
    }
    lines
}

/// A line on what was measured, or how, broken into such that fit, the further ones indented; of a fingerprint as much as tells
/// it from others. `--json` has all of it.
fn comment_lines(line: &str) -> Vec<String> {
    /// Characters of a fingerprint, its `sha256:` too.
    const OF_FINGERPRINT: usize = 7 + 12;
    let word = |word: &str| match word.get(..OF_FINGERPRINT) {
        Some(first) if word.starts_with("sha256:") => format!("{first}..."),
        _ => word.to_owned(),
    };
    let words: Vec<String> = line.trim_start_matches('#').split_whitespace().map(word).collect();
    let wrapped = text::wrap(&words.join(" "), COLUMNS - 4).into_iter().enumerate();
    wrapped.map(|(number, line)| format!("{}{line}", if number == 0 { "# " } else { "#   " })).collect()
}

/// Both sides; `null` is what is not there.
fn ends<T: Serialize>(change: &Change<T>) -> (Value, Value) {
    let value = |side: &T| json!(side);
    match change {
        Change::Added(to) => (Value::Null, value(to)),
        Change::Removed(from) => (value(from), Value::Null),
        Change::Changed { from, to } => (value(from), value(to)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_name_their_side_and_lines_on_the_cluster_fit() {
        assert_eq!(
            label_lines(&["SIMULATED", "A"], &["SIMULATED", "B"]),
            ["# both: SIMULATED", "# ---: A", "# +++: B"]
        );
        let line = format!("# fingerprint: sha256:{} -> sha256:{}", "a".repeat(64), "b".repeat(64));
        assert_eq!(comment_lines(&line), ["# fingerprint: sha256:aaaaaaaaaaaa... -> sha256:bbbbbbbbbbbb..."]);
        let lines = comment_lines(&format!("# {}", "word ".repeat(40)));
        assert!(lines.len() > 1 && lines[1..].iter().all(|line| line.starts_with("#   ")), "{lines:?}");
        assert!(lines.iter().all(|line| line.len() <= COLUMNS), "{lines:?}");
    }
}
