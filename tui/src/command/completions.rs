//! `gdrtune completions`: what completes the command line in a shell, made from the command line's definition.

use std::io::{self, Write as _};

use clap::{Command, CommandFactory as _};
use clap_complete::Shell;

use crate::{
    cli::{Cli, CompletionsArgs, ShellArg},
    exit::{Exit, Failure},
};

/// Prints it.
///
/// # Errors
/// Standard output cannot be written.
pub(crate) fn completions(args: &CompletionsArgs) -> Result<Exit, Failure> {
    let shell = match args.shell {
        ShellArg::Bash => Shell::Bash,
        ShellArg::Zsh => Shell::Zsh,
        ShellArg::Fish => Shell::Fish,
    };
    // Into memory first: the generator panics where it cannot write.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut visible(), "gdrtune", &mut script);
    io::stdout().lock().write_all(&script)?;
    Ok(Exit::Done)
}

/// The command line without what gdrtune starts by itself, which nobody types.
fn visible() -> Command {
    let whole = Cli::command();
    let shown = whole.get_subcommands().filter(|command| !command.is_hide_set()).cloned();
    Command::new("gdrtune").args(whole.get_arguments().cloned()).subcommands(shown)
}
