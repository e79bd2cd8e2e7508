//! Reads a profile's text: value and diagnostics, or an error with its place.

use std::ops::Range;

use toml::de::{DeTable, DeValue};

use super::{FORMAT, Problem, Profile, Step};
use crate::{
    diagnostic::{Diagnostic, Place},
    source::{Source, TextError},
};

/// A text that is no profile that this gdrtune can use.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProfileError {
    /// The bytes are no text.
    #[error("{place}: not UTF-8 text: this is no profile, or it is damaged")]
    NotText {
        /// Where the text ends.
        place: Place,
    },
    /// The text is no TOML, or a field or name in it is not what it must be.
    #[error(transparent)]
    Text(#[from] TextError),
    /// Another format.
    #[error("{place}: format {found} is newer than this gdrtune reads ({FORMAT}): update gdrtune")]
    NewerFormat {
        /// Where.
        place: Place,
        /// The file's format.
        found: u64,
    },
    /// The file can be read, but says what cannot be.
    #[error("{}", shown(.diagnostics))]
    Invalid {
        /// Every finding, warnings included.
        diagnostics: Vec<Diagnostic>,
    },
}

/// The first error, and how many more there are.
fn shown(diagnostics: &[Diagnostic]) -> String {
    let mut errors = diagnostics.iter().filter(|diagnostic| diagnostic.is_error());
    let first = errors.next().map(ToString::to_string).unwrap_or_default();
    match errors.count() {
        0 => first,
        more => format!("{first} (and {more} more)"),
    }
}

impl Profile {
    /// Reads a profile. The diagnostics are warnings: what is an error is [`ProfileError::Invalid`].
    ///
    /// `file` names the text in messages.
    ///
    /// # Errors
    /// [`ProfileError`] says file, line, column, cause and the nearest valid name.
    pub fn parse(text: &str, file: &str) -> Result<(Self, Vec<Diagnostic>), ProfileError> {
        let source = Source { text, file };
        let document = source.table()?;
        check_format(document.get_ref(), text, file)?;
        let profile: Self = source.fields(document.clone())?;
        let diagnostics: Vec<Diagnostic> =
            profile.problems().into_iter().map(|problem| locate(problem, document.get_ref(), text, file)).collect();
        if diagnostics.iter().any(Diagnostic::is_error) {
            return Err(ProfileError::Invalid { diagnostics });
        }
        Ok((profile, diagnostics))
    }

    /// [`Self::parse`] for the bytes of a file.
    ///
    /// # Errors
    /// As [`Self::parse`], and for bytes that are no text.
    pub fn parse_bytes(bytes: &[u8], file: &str) -> Result<(Self, Vec<Diagnostic>), ProfileError> {
        match std::str::from_utf8(bytes) {
            Ok(text) => Self::parse(text, file),
            Err(error) => {
                let readable = String::from_utf8_lossy(&bytes[..error.valid_up_to()]);
                Err(ProfileError::NotText { place: Place::of_offset(file, &readable, readable.len()) })
            }
        }
    }
}

/// Looks at the format first: a newer file's fields may be unknown, and that is not what is wrong with it.
fn check_format(document: &DeTable<'_>, text: &str, file: &str) -> Result<(), ProfileError> {
    let Some(format) = document.get("format") else {
        let cause = format!("missing field `format`: a profile starts with format = {FORMAT}");
        return Err(TextError::Malformed { place: Place::of_offset(file, text, 0), cause }.into());
    };
    let place = Place::of_offset(file, text, format.span().start);
    let DeValue::Integer(number) = format.get_ref() else {
        let cause = format!("format is not a whole number: write format = {FORMAT}");
        return Err(TextError::Malformed { place, cause }.into());
    };
    match u64::from_str_radix(number.as_str(), number.radix()) {
        Ok(found) if found == u64::from(FORMAT) => Ok(()),
        Ok(found) if u64::from(FORMAT) < found => Err(ProfileError::NewerFormat { place, found }),
        _ => {
            let cause = format!("format {} never existed: this gdrtune reads format {FORMAT}", number.as_str());
            Err(TextError::Malformed { place, cause }.into())
        }
    }
}

fn locate(problem: Problem, document: &DeTable<'_>, text: &str, file: &str) -> Diagnostic {
    let span = span_of(document, &problem.path);
    let line = Place::of_offset(file, text, span.start).line;
    Diagnostic { severity: problem.severity, file: file.to_owned(), line, message: problem.message }
}

/// Where the value at `path` stands, or the innermost part of its path that exists.
pub fn span_of(document: &DeTable<'_>, path: &[Step]) -> Range<usize> {
    let mut span = 0..0;
    let mut value: Option<&DeValue<'_>> = None;
    for step in path {
        let child = match (step, value) {
            (Step::Field(name), None) => document.get(*name),
            (Step::Field(name), Some(DeValue::Table(table))) => table.get(*name),
            (Step::Item(idx), Some(DeValue::Array(items))) => items.get(*idx),
            _ => None,
        };
        let Some(child) = child else { break };
        span = child.span();
        value = Some(child.get_ref());
    }
    span
}

#[cfg(test)]
#[path = "read_tests.rs"]
mod tests;
