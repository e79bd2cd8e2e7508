//! The table of rules, and how a rule looks at files.
//!
//! Ids are part of the command line's contract: they are never given to another rule.

mod choice;
mod grammar;
mod network;
mod together;
mod tuner;
mod variable;

use super::{
    Options, Severity,
    file::{LintFile, Noticed, Setting},
};

/// A trap, and how it is found.
#[derive(Debug)]
pub struct Rule {
    /// Its name, for ever.
    pub id: &'static str,
    /// How bad what it finds is.
    pub severity: Severity,
    /// What it finds, in lower case.
    pub finds: &'static str,
    /// What happens, or why it matters; sentences.
    pub why: &'static str,
    /// Where that is known from.
    pub source: &'static str,
    /// Whether it only says that a variable is there: it is silent on a line where another rule is not.
    pub(super) is_general: bool,
    check: Check,
}

/// Rules that belong together.
#[derive(Debug, Clone, Copy)]
pub struct Group {
    /// Heading, in lower case.
    pub title: &'static str,
    /// The rules.
    pub rules: &'static [Rule],
}

/// The table.
pub const GROUPS: &[Group] = &[
    Group { title: "variables and values", rules: variable::RULES },
    Group { title: "algorithms, protocols, channels", rules: choice::RULES },
    Group { title: "network and paths", rules: network::RULES },
    Group { title: "settings that do not go together", rules: together::RULES },
    Group { title: "what the file's own grammar does", rules: grammar::RULES },
    Group { title: "tuner CSV", rules: tuner::RULES },
];

/// Every rule, group by group.
pub fn rules() -> impl Iterator<Item = &'static Rule> {
    GROUPS.iter().flat_map(|group| group.rules)
}

/// The rule called `id`.
pub fn rule(id: &str) -> Option<&'static Rule> {
    rules().find(|rule| rule.id == id)
}

/// What a rule looks at.
#[derive(Debug, Clone, Copy)]
enum Check {
    /// Every setting by itself; `None` where nothing is wrong.
    Setting(fn(&Setting, &Options<'_>) -> Option<Wrong>),
    /// What a reader has noticed: message and fix, in which `{}` stands for what it is about.
    Noticed(Noticed, &'static str, &'static str),
    /// A file as a whole.
    File(fn(&LintFile<'_>, &Options<'_>, &mut Vec<Hit>)),
    /// All files together; the first part of a hit is the file's place.
    Files(fn(&[LintFile<'_>], &mut Vec<(usize, Hit)>)),
}

/// A place where a rule holds.
#[derive(Debug, Clone)]
pub(super) struct Hit {
    pub(super) line: usize,
    pub(super) message: String,
    pub(super) fix: String,
}

/// What is wrong, and what to do.
type Wrong = (String, String);

impl Hit {
    fn new(line: usize, (message, fix): Wrong) -> Self {
        Self { line, message, fix }
    }
}

impl Rule {
    const fn new(
        id: &'static str,
        severity: Severity,
        finds: &'static str,
        why: &'static str,
        source: &'static str,
        check: Check,
    ) -> Self {
        Self { id, severity, finds, why, source, is_general: false, check }
    }

    const fn error(
        id: &'static str,
        finds: &'static str,
        why: &'static str,
        source: &'static str,
        check: Check,
    ) -> Self {
        Self::new(id, Severity::Error, finds, why, source, check)
    }

    const fn warning(
        id: &'static str,
        finds: &'static str,
        why: &'static str,
        source: &'static str,
        check: Check,
    ) -> Self {
        Self::new(id, Severity::Warning, finds, why, source, check)
    }

    const fn note(
        id: &'static str,
        finds: &'static str,
        why: &'static str,
        source: &'static str,
        check: Check,
    ) -> Self {
        Self::new(id, Severity::Note, finds, why, source, check)
    }

    const fn general(mut self) -> Self {
        self.is_general = true;
        self
    }

    /// Where the rule holds: places of files, and of lines in them.
    pub(super) fn hits(&self, files: &[LintFile<'_>], options: &Options<'_>) -> Vec<(usize, Hit)> {
        let mut all = Vec::new();
        if let Check::Files(check) = self.check {
            check(files, &mut all);
        }
        for (file_idx, file) in files.iter().enumerate() {
            let mut hits = Vec::new();
            match self.check {
                Check::Setting(check) => {
                    let found = |setting: &Setting| Some(Hit::new(setting.line, check(setting, options)?));
                    hits.extend(file.settings.iter().filter_map(found));
                }
                Check::Noticed(what, message, fix) => {
                    let remarks = file.remarks.iter().filter(|remark| remark.what == what);
                    let told = |text: &str, about: &str| text.replace("{}", about);
                    hits.extend(
                        remarks.map(|remark| {
                            Hit::new(remark.line, (told(message, &remark.about), told(fix, &remark.about)))
                        }),
                    );
                }
                Check::File(check) => check(file, options, &mut hits),
                Check::Files(_) => {}
            }
            all.extend(hits.into_iter().map(|hit| (file_idx, hit)));
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn ids_are_unique_and_every_rule_says_what_why_and_whence() {
        let ids: BTreeSet<&str> = rules().map(|rule| rule.id).collect();
        assert_eq!(ids.len(), rules().count());
        assert!(40 <= ids.len(), "{}", ids.len());
        for rule in rules() {
            assert!(rule.id.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-'), "{}", rule.id);
            assert!(rule.why.ends_with('.') && !rule.finds.ends_with('.') && !rule.source.is_empty(), "{}", rule.id);
            for text in [rule.finds, rule.why, rule.source] {
                assert!(!text.contains(['\n', '|']), "{}: {text}", rule.id);
            }
        }
        assert!(rule("hca-prefix").is_some() && rule("nonsense").is_none());
    }
}
