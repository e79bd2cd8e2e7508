//! Reads the command line, and remembers what the user wrote: a run keeps its words, and clap fills in the defaults of options
//! that were not written.

use std::ffi::OsString;

use clap::{CommandFactory as _, FromArgMatches as _, parser::ValueSource};

use super::{Cli, Command, TuneArgs};

impl Cli {
    /// Reads the command line.
    ///
    /// # Errors
    /// clap's, for wrong use, and for help and version.
    pub(crate) fn read(arguments: impl IntoIterator<Item = OsString>) -> Result<Self, clap::Error> {
        let arguments: Vec<OsString> = arguments.into_iter().collect();
        let words = arguments.iter().skip(1).map(|word| word.to_str().map(str::to_owned));
        let words: Vec<String> = words.collect::<Option<_>>().unwrap_or_default();
        let mut command = Self::command();
        let matches = command.try_get_matches_from_mut(arguments)?;
        let mut cli = Self::from_arg_matches(&matches).map_err(|error| error.format(&mut command))?;
        if let (Command::Tune(args), Some((name, matches))) = (&mut cli.command, matches.subcommand()) {
            let options = command.find_subcommand(name).into_iter().flat_map(clap::Command::get_arguments);
            let is_given = |id: &str| matches.value_source(id) == Some(ValueSource::CommandLine);
            let given = options.filter(|option| is_given(option.get_id().as_str())).filter_map(clap::Arg::get_long);
            args.given = given.map(str::to_owned).collect();
        }
        match &mut cli.command {
            Command::Tune(args) => args.words = words,
            Command::Demo(args) => args.words = words,
            _ => {}
        }
        Ok(cli)
    }
}

impl TuneArgs {
    /// Whether the user wrote this option (by its long name).
    pub(crate) fn gives(&self, option: &str) -> bool {
        self.given.iter().any(|given| given == option)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_user_wrote_is_known_from_the_defaults() {
        let words = ["gdrtune", "tune", "--fanout", "32", "-w", "a", "--trials=9"].map(OsString::from);
        let Command::Tune(args) = Cli::read(words).unwrap().command else { panic!("tune") };
        assert_eq!(args.words, ["tune", "--fanout", "32", "-w", "a", "--trials=9"]);
        assert!(args.gives("fanout") && args.gives("hosts") && args.gives("trials"));
        assert!(!args.gives("sizes") && !args.gives("factor"));
    }
}
