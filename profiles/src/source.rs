//! What our TOML files have in common: reading with places, and errors that name the nearest valid name.
//!
//! Must not know what any file is about.

use std::fmt::Display;

use serde::de::DeserializeOwned;
use toml::{Spanned, de::DeTable};

use crate::{
    diagnostic::{Place, UnknownWord},
    nearest::hint,
};

/// A text that is not the file that it should be, or a name that is none of the presets.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TextError {
    /// The text is no TOML, a field is missing or has another type, or a value cannot be.
    #[error("{place}: {cause}")]
    Malformed {
        /// Where.
        place: Place,
        /// What is wrong.
        cause: String,
    },
    /// A field or a value's name that is not known.
    #[error("{place}: unknown {what} `{name}`: use one of {accepted}")]
    UnknownName {
        /// Where.
        place: Place,
        /// Field or name.
        what: &'static str,
        /// The name that was found.
        name: String,
        /// The accepted names, and the nearest of them if one is near, as the tail of the message.
        accepted: String,
    },
    /// No preset has this name.
    #[error("unknown {what} `{name}`: use one of {accepted}")]
    UnknownPreset {
        /// What was to be named.
        what: &'static str,
        /// The name that was found.
        name: String,
        /// The presets, and the nearest of them if one is near, as the tail of the message.
        accepted: String,
    },
}

impl TextError {
    /// `name` is none of `presets`, which are of what `what` says.
    pub fn unknown_preset(what: &'static str, name: &str, presets: &[Preset]) -> Self {
        let accepted = format!("{}, or a TOML file{}", names(presets), preset_hint(name, presets));
        Self::UnknownPreset { what, name: name.to_owned(), accepted }
    }
}

/// The names, separated by commas.
pub(crate) fn names(presets: &[Preset]) -> String {
    presets.iter().map(|preset| preset.name).collect::<Vec<_>>().join(", ")
}

/// The tail of a message: the nearest preset, or nothing.
pub(crate) fn preset_hint(name: &str, presets: &[Preset]) -> String {
    hint(name, presets.iter().map(|preset| preset.name))
}

/// A file that is shipped with gdrtune.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Preset {
    /// Its name on the command line.
    pub name: &'static str,
    /// Its text.
    pub text: &'static str,
}

/// A text and the name that messages give it.
#[derive(Debug, Clone, Copy)]
pub struct Source<'a> {
    /// The text.
    pub text: &'a str,
    /// The name.
    pub file: &'a str,
}

impl<'a> Source<'a> {
    /// The text as a table, types not looked at.
    ///
    /// # Errors
    /// [`TextError::Malformed`]: it is no TOML.
    pub fn table(self) -> Result<Spanned<DeTable<'a>>, TextError> {
        DeTable::parse(self.text).map_err(|error| self.describe(&error))
    }

    /// The fields of a table of this text.
    ///
    /// # Errors
    /// [`TextError`]: a field or a value is not as it should be.
    pub fn fields<T: DeserializeOwned>(self, table: Spanned<DeTable<'a>>) -> Result<T, TextError> {
        T::deserialize(toml::de::Deserializer::from(table)).map_err(|error| self.describe(&error))
    }

    /// An error about a value of this text.
    pub fn wrong<T>(self, value: &Spanned<T>, cause: impl Display) -> TextError {
        self.wrong_at(value.span().start, cause)
    }

    /// An error about what begins at byte `offset` of this text.
    pub fn wrong_at(self, offset: usize, cause: impl Display) -> TextError {
        TextError::Malformed { place: self.place(offset), cause: cause.to_string() }
    }

    /// The name that a file has by itself: its own without folders and ending, with `-` for what no name holds.
    pub(crate) fn stem(self) -> String {
        let name = self.file.rsplit(['/', '\\']).next().unwrap_or_default();
        let stem = name.strip_suffix(".toml").unwrap_or(name);
        let plain: String = stem.chars().map(|c| if is_plain(c) { c } else { '-' }).take(LONGEST_NAME).collect();
        if plain.is_empty() { "unnamed".to_owned() } else { plain }
    }

    fn place(self, offset: usize) -> Place {
        Place::of_offset(self.file, self.text, offset)
    }

    /// Makes our error of serde's.
    fn describe(self, error: &toml::de::Error) -> TextError {
        let place = self.place(error.span().unwrap_or_default().start);
        let message = error.message();
        match UnknownWord::of_message(message) {
            Some(UnknownWord { what, name, accepted }) => TextError::UnknownName { place, what, name, accepted },
            None => TextError::Malformed { place, cause: one_line(message) },
        }
    }
}

/// Names of workloads and spaces go into comments of emitted files, and are shown in one line.
const LONGEST_NAME: usize = 64;

fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')
}

fn one_line(message: &str) -> String {
    let lines: Vec<&str> = message.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    lines.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_a_name_of_its_own() {
        for (file, name) in [("a/my job.toml", "my-job"), ("ddp.toml", "ddp"), ("x", "x"), ("", "unnamed"), ("\n", "-")]
        {
            assert_eq!(Source { text: "", file }.stem(), name, "{file:?}");
        }
    }

    #[test]
    fn unknown_presets_are_answered_with_the_nearest() {
        let presets = [Preset { name: "quick", text: "" }, Preset { name: "standard", text: "" }];
        let error = TextError::unknown_preset("space", "standart", &presets).to_string();
        assert_eq!(
            error,
            "unknown space `standart`: use one of quick, standard, or a TOML file; did you mean `standard`?"
        );
    }
}
