//! Exit codes, and how an error becomes one. The list is part of the command line's contract.

use std::process::ExitCode;

/// How the program ends. The numbers are documented in README.md and `gdrtune --help`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Everything went as asked.
    Done = 0,
    /// An error that is none of the others.
    Unexpected = 1,
    /// Wrong use or configuration.
    Usage = 2,
    /// Preflight refused: hosts that cannot be used as they are.
    Preflight = 3,
    /// Nothing is there of what was named.
    NothingMatched = 4,
    /// No setting beat the defaults, with `--expect-gain`.
    NoGain = 5,
    /// A check has found something.
    Findings = 6,
    /// Some trials failed.
    TrialsFailed = 100,
    /// Nodes were lost, or left out: there is no result, or, with `--min-nodes`, one for fewer nodes than were asked for.
    NodesLost = 101,
    /// Verification found a regression.
    Regression = 102,
    /// The user ended it.
    Interrupted = 130,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// An error that knows its exit code and, where there is one, the next step.
#[derive(Debug)]
pub(crate) struct Failure {
    /// How the program ends.
    pub(crate) exit: Exit,
    /// What went wrong.
    pub(crate) error: anyhow::Error,
    /// What to do about it.
    pub(crate) hint: Option<String>,
}

impl Failure {
    /// Wrong use or configuration.
    pub(crate) fn usage(error: impl Into<anyhow::Error>) -> Self {
        Self { exit: Exit::Usage, error: error.into(), hint: None }
    }

    /// Wrong use or configuration, said in words.
    pub(crate) fn usage_text(text: impl Into<String>) -> Self {
        Self::usage(anyhow::Error::msg(text.into()))
    }

    /// An error with its own exit code.
    pub(crate) fn new(exit: Exit, error: impl Into<anyhow::Error>) -> Self {
        Self { exit, error: error.into(), hint: None }
    }

    /// The same with the next step.
    #[must_use]
    pub(crate) fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self { exit: Exit::Unexpected, error, hint: None }
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::from(anyhow::Error::from(error))
    }
}
