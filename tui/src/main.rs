//! gdrtune: tunes a GPU cluster's collectives from the terminal.

mod cli;
mod command;
mod exit;
mod headless;
mod hosts;
mod interrupt;
mod paths;
mod profile_file;
mod ui;

use std::{ffi::OsString, io, process::ExitCode};

use gdrtune_profiles::diagnostic::is_printable;

use crate::{
    cli::{Cli, Command},
    command::start::Start,
    exit::{Exit, Failure},
};

/// Hash of the sources that this executable was built from: both ends of a run compare it.
const BUILD_ID: &str = env!("GDRTUNE_BUILD_ID");

fn main() -> ExitCode {
    // A panic has said what it was; its own exit code, 101, would say that nodes were lost.
    std::panic::catch_unwind(run).unwrap_or_else(|_| Exit::Unexpected.into())
}

fn run() -> ExitCode {
    let mut words: Vec<OsString> = std::env::args_os().collect();
    if command::start::is_wanted(&words) {
        match command::start::start() {
            Ok(Start::Leave(exit)) => return exit.into(),
            Ok(Start::Go(chosen)) => words.extend(chosen.into_iter().map(OsString::from)),
            Err(failure) => return fail(&failure),
        }
    }
    let cli = match Cli::read(words) {
        Ok(cli) => cli,
        // clap's own code for wrong use is 2 as well; help and version are 0.
        Err(error) => error.exit(),
    };
    let result = match cli.command {
        Command::Agent => return command::node::agent(),
        Command::Watchdog { interval_ms } => return command::node::watchdog(interval_ms),
        Command::Worker(args) => return command::node::worker(args),
        Command::Demo(args) => command::tune::demo(&args, None),
        Command::Tune(args) => command::tune::tune(&args, None),
        Command::Bench(args) => command::bench::bench(&args),
        Command::Verify(args) => command::verify::verify(&args),
        Command::Explain(args) => command::explain::explain(&args),
        Command::Diff(args) => command::diff::diff(&args),
        Command::Emit(args) => command::emit::emit(&args),
        Command::Apply(args) => command::apply::apply(&args),
        Command::Install(args) => command::install::install(&args),
        Command::Topo(args) => command::topo::topo(&args),
        Command::Doctor(args) => command::doctor::doctor(&args),
        Command::Gdr(args) => command::gdr::gdr(&args),
        Command::Probe(args) => command::probe::probe(&args),
        Command::Lint(args) => command::lint::lint(&args),
        Command::Workload(args) => command::workload::workload(&args),
        Command::Report(args) => command::report::report(&args),
        Command::Runs(args) => command::runs::runs(args),
        Command::Attach(args) => command::runs::attach(&args),
        Command::Replay(args) => command::runs::replay(&args),
        Command::Completions(args) => command::completions::completions(&args),
        Command::Man(args) => command::man::man(&args),
    };
    match result {
        Ok(exit) => exit.into(),
        Err(failure) => fail(&failure),
    }
}

/// Says what failed; the exit code.
fn fail(failure: &Failure) -> ExitCode {
    report(failure);
    failure.exit.into()
}

/// The error and its causes; a cause that its effect already tells is not said twice.
fn cause_chain(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

/// Says what failed, why, and what to do, on stderr. A closed stderr changes nothing about the exit code.
fn report(failure: &Failure) {
    // Whoever reads our output has enough of it, as `head` does.
    if failure.error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe) {
        return;
    }
    let mut text = format!("gdrtune: {}\n", cause_chain(&failure.error));
    if let Some(hint) = &failure.hint {
        text.push_str("  hint: ");
        text.push_str(hint);
        text.push('\n');
    }
    // Names from files and hosts may hold what a terminal takes for commands.
    let safe: String = text
        .chars()
        .flat_map(|c| if is_printable(c) || c == '\n' { vec![c] } else { c.escape_debug().collect() })
        .collect();
    drop(command::tell(&safe));
}
