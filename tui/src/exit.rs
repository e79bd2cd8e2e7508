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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::EXIT_CODES;

    const ALL: [Exit; 11] = [
        Exit::Done,
        Exit::Unexpected,
        Exit::Usage,
        Exit::Preflight,
        Exit::NothingMatched,
        Exit::NoGain,
        Exit::Findings,
        Exit::TrialsFailed,
        Exit::NodesLost,
        Exit::Regression,
        Exit::Interrupted,
    ];

    #[test]
    fn help_readme_and_manual_tell_every_code() {
        // A code that is new has no arm here.
        let place = |exit: Exit| match exit {
            Exit::Done => 0,
            Exit::Unexpected => 1,
            Exit::Usage => 2,
            Exit::Preflight => 3,
            Exit::NothingMatched => 4,
            Exit::NoGain => 5,
            Exit::Findings => 6,
            Exit::TrialsFailed => 7,
            Exit::NodesLost => 8,
            Exit::Regression => 9,
            Exit::Interrupted => 10,
        };
        assert!(ALL.iter().enumerate().all(|(at, exit)| place(*exit) == at));
        let codes: Vec<u8> = ALL.iter().map(|exit| *exit as u8).collect();
        let first_number = |text: &str| text.trim_start().split(' ').next().and_then(|word| word.parse::<u8>().ok());

        let of_help: Vec<u8> = EXIT_CODES.lines().filter_map(first_number).collect();
        assert_eq!(of_help, codes);
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let manual = std::fs::read_to_string(root.join("docs/exit-codes.md")).unwrap();
        let of_manual = manual.lines().filter_map(|line| first_number(line.strip_prefix("| ")?));
        assert_eq!(of_manual.collect::<Vec<_>>(), codes);
        let readme = std::fs::read_to_string(root.join("README.md")).unwrap();
        let (_, after) = readme.split_once("## Exit codes\n").unwrap();
        let list = after.split("\n## ").next().unwrap().replace('\n', " ");
        assert_eq!(list.split('·').filter_map(first_number).collect::<Vec<_>>(), codes);
    }
}
