//! Options of `gdrtune completions`.

use clap::{Args, ValueEnum};

/// `gdrtune completions`.
#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    pub(crate) shell: ShellArg,
}

/// Shells that are completed in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ShellArg {
    /// bash.
    Bash,
    /// zsh.
    Zsh,
    /// fish.
    Fish,
}
