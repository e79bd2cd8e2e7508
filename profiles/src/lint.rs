//! Finds the traps in what jobs already have: scripts, `nccl.conf`, tuner CSVs, environment files and dumps, Dockerfiles,
//! Kubernetes manifests.
//!
//! A reader for each kind of file ([`Kind`]) makes a list of settings and keeps what its grammar alone knows; the rules, a
//! table ([`rules`]), look at nothing else. It does no IO: what a rule must know of the machine is in [`Options`]. It
//! never says that a value is slow, only that it does not do what it seems to, or that it is known to break jobs.

mod dockerfile;
mod env;
mod file;
mod kind;
mod kubernetes;
mod names;
mod nccl_conf;
mod render;
mod rules;
mod shell;
mod tuner_csv;

use std::{collections::BTreeSet, fmt, str::FromStr};

use crate::version::Version;
use file::LintFile;
pub use kind::Kind;
pub use render::{Format, render, rules_markdown, rules_text};
pub use rules::{GROUPS, Group, Rule, rule, rules};

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Worth to know.
    Note,
    /// It runs, but probably not as meant, or not well.
    Warning,
    /// It fails, corrupts, or has no effect.
    Error,
}

impl Severity {
    /// Every severity, mildest first.
    pub const ALL: &[Self] = &[Self::Note, Self::Warning, Self::Error];

    /// The name; SARIF's levels have the same ones.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Severity {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().copied().find(|severity| severity.name() == text);
        found.ok_or_else(|| format!("unknown severity `{text}`: use note, warning or error"))
    }
}

/// A file to look at.
#[derive(Debug, Clone, Copy)]
pub struct Input<'a> {
    /// Its name, as findings name it.
    pub name: &'a str,
    /// Its text.
    pub text: &'a str,
    /// What it is; by its name and text where absent.
    pub kind: Option<Kind>,
}

/// What the rules may know besides the files.
#[derive(Clone, Copy)]
pub struct Options<'a> {
    /// The NCCL that the jobs have. Without it, rules that depend on the version are silent.
    pub version: Option<Version>,
    /// Tells whether a path is there; without it, nobody is asked.
    pub exists: Option<&'a dyn Fn(&str) -> bool>,
    /// Ids of rules that are not wanted.
    pub allow: &'a [String],
}

/// Something that a rule has found.
#[derive(Debug, Clone)]
pub struct Finding {
    /// The file, as [`Input::name`] has it.
    pub file: String,
    /// The line, counted from 1.
    pub line: usize,
    /// The rule.
    pub rule: &'static Rule,
    /// What is wrong, in lower case.
    pub message: String,
    /// What to do about it.
    pub fix: String,
}

/// Looks at files, also at what differs between them. The findings come by file, in the order given, then by line.
pub fn lint(inputs: &[Input<'_>], options: &Options<'_>) -> Vec<Finding> {
    let files: Vec<LintFile<'_>> = inputs.iter().map(|input| LintFile::read(*input)).collect();
    let mut found: Vec<(usize, Finding)> = Vec::new();
    for rule in rules().filter(|rule| !options.allow.iter().any(|id| id == rule.id)) {
        for (file_idx, hit) in rule.hits(&files, options) {
            let file = &files[file_idx];
            if file.allows(hit.line, rule.id) {
                continue;
            }
            let (name, line) = (file.name.to_owned(), hit.line);
            found.push((file_idx, Finding { file: name, line, rule, message: hit.message, fix: hit.fix }));
        }
    }
    drop_repeated(&mut found);
    found.sort_by_key(|(file_idx, finding)| (*file_idx, finding.line));
    found.into_iter().map(|(_, finding)| finding).collect()
}

/// A variable that a file sets, as the rules see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assigned {
    /// Its name.
    pub name: String,
    /// The line, counted from 1.
    pub line: usize,
    /// Whether one command alone gets it.
    pub is_for_command: bool,
    /// Whether a value that is set already is kept.
    pub keeps_set: bool,
}

/// Variables that a script takes out of the environment again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Taken {
    /// The line, counted from 1.
    pub line: usize,
    /// Whether one command alone does without them.
    pub is_for_command: bool,
    /// Which.
    pub which: Which,
}

/// Names of variables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Which {
    /// This one.
    Name(String),
    /// All that begin so.
    Prefix(String),
    /// All but these.
    AllBut(BTreeSet<String>),
}

impl Which {
    /// Whether `name` is among them.
    pub fn has(&self, name: &str) -> bool {
        match self {
            Self::Name(only) => only == name,
            Self::Prefix(prefix) => name.starts_with(prefix.as_str()),
            Self::AllBut(others) => !others.contains(name),
        }
    }
}

/// What a file does to the environment of jobs, in the order of its lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assignments {
    /// What it sets.
    pub set: Vec<Assigned>,
    /// What it takes away.
    pub taken: Vec<Taken>,
}

/// What a file sets and takes away, of all variables.
pub fn assignments(input: Input<'_>) -> Assignments {
    let of = |setting: &file::Setting| Assigned {
        name: setting.name.clone(),
        line: setting.line,
        is_for_command: !setting.is_for_all(),
        keeps_set: setting.reach == file::Reach::Kept,
    };
    let (_, read) = file::Read::of(input);
    Assignments { set: read.settings.iter().map(of).collect(), taken: read.taken }
}

/// Lines of a script that its shell never runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unrun {
    /// First and last, counted from 1.
    pub lines: (usize, usize),
    /// Why, as the end of a sentence about what is there.
    pub why: String,
}

/// Here-documents, what is below an `exit` or the `exec` of a program that is always run, branches after `false`, and ends of subshells
/// that start no program any more. Conditions that depend on anything are taken to hold.
pub fn unrun(script: &str) -> Vec<Unrun> {
    shell::unrun(script)
}

/// The line of the last launcher of a script (`srun`, `mpirun`, `torchrun`), where that is above these lines and nothing below them starts
/// a program.
pub fn last_launch_above(script: &str, lines: (usize, usize)) -> Option<usize> {
    shell::last_launch_above(script, lines)
}

/// A rule that only says that a variable is there has nothing to add where another says what is wrong with it.
fn drop_repeated(found: &mut Vec<(usize, Finding)>) {
    let is_specific = |finding: &Finding| !finding.rule.is_general && Severity::Warning <= finding.rule.severity;
    let mut specific: Vec<(usize, usize)> =
        found.iter().filter(|(_, finding)| is_specific(finding)).map(|(idx, finding)| (*idx, finding.line)).collect();
    specific.sort_unstable();
    found.retain(|(idx, finding)| !finding.rule.is_general || specific.binary_search(&(*idx, finding.line)).is_err());
}
