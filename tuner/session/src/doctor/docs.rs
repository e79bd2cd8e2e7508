//! The table of checks as documentation.

use std::fmt::Write as _;

use super::{Check, GROUPS, Group, checks};

/// The column in which titles begin.
fn column() -> usize {
    checks().map(|check| check.id.len()).max().unwrap_or_default() + 2
}

/// A line for each check, under the headings of the groups.
pub fn list() -> String {
    let width = column();
    let mut text = String::new();
    for Group { title, checks, .. } in GROUPS {
        // Writing to a string cannot fail. The same holds below.
        writeln!(text, "{title}").ok();
        for check in *checks {
            writeln!(text, "  {:width$}{}", check.id, check.title).ok();
        }
    }
    text
}

/// All that is to be said of one check, as pairs of a heading and a text.
pub fn explain(check: &Check) -> [(&'static str, &'static str); 5] {
    [
        ("well when", check.title),
        ("looks at", check.about),
        ("fix", check.fix),
        ("source", check.source),
        ("scope", check.scope.name()),
    ]
}

/// The table for docs/doctor.md.
pub fn markdown() -> String {
    let mut text = String::new();
    for Group { title, checks, .. } in GROUPS {
        let mut heading = (*title).to_owned();
        if let Some(first) = heading.get_mut(..1) {
            first.make_ascii_uppercase();
        }
        writeln!(text, "\n## {heading}\n").ok();
        writeln!(text, "| id | well when | looks at, and why | fix | scope | source |\n|---|---|---|---|---|---|").ok();
        for Check { id, title, about, fix, source, scope, .. } in *checks {
            writeln!(text, "| `{id}` | {title} | {about} | {fix} | {} | {source} |", scope.name()).ok();
        }
    }
    text
}
