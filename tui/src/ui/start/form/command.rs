//! The command line that a form is: its words, how a shell takes them, and what its definitions say.

use std::{collections::HashMap, ffi::OsString};

use clap::{
    CommandFactory as _,
    error::{ContextKind, ContextValue, ErrorKind},
};
use gdrtune_fleet::launcher::quote;

use super::FieldId;
use crate::cli::Cli;

/// The words of a text as a shell would split it.
pub(super) fn split(text: &str) -> Result<Vec<String>, String> {
    shell_words::split(text).map_err(|_unclosed| "a quotation is not closed".to_owned())
}

/// A command line that is not taken.
pub(super) struct Refusal {
    /// Long name of the option that it is about.
    pub(super) option: Option<String>,
    pub(super) text: String,
}

pub(super) fn tune_words(options: &[String]) -> Vec<String> {
    ["tune".to_owned()].into_iter().chain(options.iter().cloned()).collect()
}

/// What the command line's own reader says against these words after the program.
pub(super) fn refusal(words: &[String]) -> Option<Refusal> {
    let all = ["gdrtune"].into_iter().chain(words.iter().map(String::as_str)).map(OsString::from);
    let error = Cli::read(all).err()?;
    let option = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(argument)) => option_in(argument),
        _ => None,
    };
    let text = match (error.kind(), std::error::Error::source(&error)) {
        (ErrorKind::DisplayHelp | ErrorKind::DisplayVersion, _) => "--help and --version start no run".to_owned(),
        (_, Some(cause)) => cause.to_string(),
        _ => {
            let text = error.to_string();
            let paragraph = text.split("\n\n").next().unwrap_or_default().trim_start_matches("error: ");
            paragraph.split_whitespace().collect::<Vec<_>>().join(" ")
        }
    };
    Some(Refusal { option, text })
}

/// The first long option in a text, without its dashes.
pub(super) fn option_in(text: &str) -> Option<String> {
    let (_, rest) = text.split_once("--")?;
    let name: String = rest.chars().take_while(|c| c.is_ascii_lowercase() || *c == '-').collect();
    (!name.is_empty()).then_some(name)
}

/// A command line as a shell takes it.
pub(crate) fn shell_line(words: &[String]) -> String {
    let words = words.iter().map(|word| shell_word(word));
    ["gdrtune".to_owned()].into_iter().chain(words).collect::<Vec<_>>().join(" ")
}

/// A word as a shell takes it, without quotes where it needs none.
pub(crate) fn shell_word(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./:,@+%".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) { word.to_owned() } else { quote(word) }
}

/// What the command line's definitions say of its options.
pub(super) struct Options(HashMap<String, (String, String)>);

impl Options {
    pub(super) fn read() -> Self {
        let command = Cli::command();
        let tune = command.find_subcommand("tune").into_iter().flat_map(clap::Command::get_arguments);
        Self(
            tune.filter_map(|option| {
                let defaults: Vec<_> =
                    option.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
                let help = option.get_help().map(ToString::to_string).unwrap_or_default();
                Some((option.get_long()?.to_owned(), (defaults.join(","), help)))
            })
            .collect(),
        )
    }

    /// Default and help.
    pub(super) fn of(&self, id: FieldId) -> (String, String) {
        let more = "Any other option of gdrtune tune, as on a command line, such as --objective geomean --seed 2";
        match id.option() {
            Some(option) => self.0.get(option).cloned().unwrap_or_default(),
            None => (String::new(), more.to_owned()),
        }
    }
}
