//! What a check is, and what one comes to.

use super::{Facts, Node};

/// What a check came to, the worst last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Status {
    /// As it should be.
    Pass,
    /// The facts that it needs are not there.
    Skip,
    /// It runs, but probably not well, or not for long.
    Warn,
    /// It fails, hangs, corrupts, or is far slower than it could be.
    Fail,
}

impl Status {
    /// Every status, the worst first.
    pub const WORST_FIRST: [Self; 4] = [Self::Fail, Self::Warn, Self::Skip, Self::Pass];

    /// Its word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pass => "PASS",
            Self::Skip => "SKIP",
            Self::Warn => "WARN",
            Self::Fail => "FAIL",
        }
    }
}

/// What a check looks at together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// A node by itself.
    Node,
    /// Two nodes, and the way between them.
    Pair,
    /// All nodes.
    Cluster,
}

impl Scope {
    /// Its word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Node => "node",
            Self::Pair => "pair",
            Self::Cluster => "cluster",
        }
    }
}

/// A row of the table.
#[derive(Debug)]
pub struct Check {
    /// Its name, for ever.
    pub id: &'static str,
    /// What holds where it passes, in lower case.
    pub title: &'static str,
    /// What it looks at, and what happens otherwise; sentences.
    pub about: &'static str,
    /// What to do where it does not pass: a command or a setting, commands between backquotes, which are never broken into lines. A
    /// finding may have a closer one.
    pub fix: &'static str,
    /// Where that is known from.
    pub source: &'static str,
    /// What it looks at together.
    pub scope: Scope,
    pub(super) run: Run,
}

/// Outcomes, and the hosts that each is about.
pub(super) type Outcomes = Vec<(Vec<String>, Outcome)>;

/// How a check looks.
#[derive(Debug, Clone, Copy)]
pub(super) enum Run {
    /// At one node.
    Node(fn(&Node) -> Outcome),
    /// At all that is known.
    All(fn(&Facts) -> Outcomes),
}

/// What a look came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    /// All is well, as this shows.
    Pass(String),
    /// Nothing can be said, for this reason.
    Skip(String),
    /// Something is not; at least one.
    Faults(Vec<Fault>),
}

/// Something that is not well.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) status: Status,
    pub(super) evidence: String,
    /// In the place of the check's.
    pub(super) fix: Option<String>,
}

impl Fault {
    pub(super) fn warn(evidence: impl Into<String>) -> Self {
        Self { status: Status::Warn, evidence: evidence.into(), fix: None }
    }

    pub(super) fn fail(evidence: impl Into<String>) -> Self {
        Self { status: Status::Fail, ..Self::warn(evidence) }
    }

    pub(super) fn fixed_by(self, fix: impl Into<String>) -> Self {
        Self { fix: Some(fix.into()), ..self }
    }
}

impl From<Fault> for Outcome {
    fn from(fault: Fault) -> Self {
        Self::Faults(vec![fault])
    }
}

impl Outcome {
    pub(super) fn pass(evidence: impl Into<String>) -> Self {
        Self::Pass(evidence.into())
    }

    pub(super) fn skip(why: impl Into<String>) -> Self {
        Self::Skip(why.into())
    }

    pub(super) fn warn(evidence: impl Into<String>) -> Self {
        Fault::warn(evidence).into()
    }

    pub(super) fn fail(evidence: impl Into<String>) -> Self {
        Fault::fail(evidence).into()
    }

    /// These faults; without any, all is well, as `evidence` shows.
    pub(super) fn unless(faults: Vec<Fault>, evidence: impl Into<String>) -> Self {
        if faults.is_empty() { Self::pass(evidence) } else { Self::Faults(faults) }
    }
}

impl Check {
    /// What a check of single nodes is made from: id, title, about, fix, source.
    pub(super) const fn node(texts: [&'static str; 5], look: fn(&Node) -> Outcome) -> Self {
        Self::new(texts, Scope::Node, Run::Node(look))
    }

    pub(super) const fn all(scope: Scope, texts: [&'static str; 5], look: fn(&Facts) -> Outcomes) -> Self {
        Self::new(texts, scope, Run::All(look))
    }

    const fn new([id, title, about, fix, source]: [&'static str; 5], scope: Scope, run: Run) -> Self {
        Self { id, title, about, fix, source, scope, run }
    }
}
