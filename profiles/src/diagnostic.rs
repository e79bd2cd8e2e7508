//! What is wrong at which line of a file, and how badly. It judges nothing itself.

use std::fmt;

use crate::nearest::hint;

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// It works, but probably not as meant.
    Warning,
    /// What it is about must not be used.
    Error,
}

/// A finding about one line of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// How bad it is.
    pub severity: Severity,
    /// The file, as the user named it.
    pub file: String,
    /// The line, counted from 1.
    pub line: usize,
    /// Cause and next step, in lower case.
    pub message: String,
}

impl Diagnostic {
    /// An error at `line` of `file`.
    pub fn error(file: &str, line: usize, message: impl Into<String>) -> Self {
        Self { severity: Severity::Error, file: file.to_owned(), line, message: message.into() }
    }

    /// A warning at `line` of `file`.
    pub fn warning(file: &str, line: usize, message: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, file: file.to_owned(), line, message: message.into() }
    }

    /// Whether what it is about must not be used.
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
}

impl fmt::Display for Diagnostic {
    /// `file:line: message`, as compilers write it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { severity, file, line, message } = self;
        match severity {
            Severity::Warning => write!(f, "{file}:{line}: warning: {message}"),
            Severity::Error => write!(f, "{file}:{line}: {message}"),
        }
    }
}

/// A text with control characters escaped: names, logs and texts of files may hold what a terminal takes for commands.
pub fn printable(text: &str) -> String {
    text.chars().flat_map(|c| if is_printable(c) { vec![c] } else { c.escape_debug().collect() }).collect()
}

/// Whether a character is shown as itself and changes nothing of what is around it: no control character, and none of those that turn
/// the direction of text or cannot be seen (Unicode's bidirectional controls and zero-width characters), by which a name can pass for another.
pub fn is_printable(c: char) -> bool {
    let turns = matches!(c, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}');
    !c.is_control() && !turns
}

/// A name that a reader of a text does not know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownWord {
    /// Field or name.
    pub what: &'static str,
    /// The name that was found.
    pub name: String,
    /// The accepted names, and the nearest of them if one is near, as the tail of a message.
    pub accepted: String,
}

impl UnknownWord {
    /// Takes apart serde's message, which quotes the unknown name and then the known ones in backquotes; `None` if it says
    /// something else.
    pub fn of_message(message: &str) -> Option<Self> {
        let what = match message {
            m if m.starts_with("unknown field `") => "field",
            m if m.starts_with("unknown variant `") => "name",
            _ => return None,
        };
        let mut quoted = message.split('`').skip(1).step_by(2);
        let name = quoted.next().unwrap_or_default().to_owned();
        let known: Vec<&str> = quoted.collect();
        let accepted = format!("{}{}", known.join(", "), hint(&name, known.iter().copied()));
        Some(Self { what, name, accepted })
    }
}

impl fmt::Display for UnknownWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown {} `{}`: use one of {}", self.what, self.name, self.accepted)
    }
}

/// A place in a text file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The file, as the user named it.
    pub file: String,
    /// The line, counted from 1.
    pub line: usize,
    /// The column in characters, counted from 1.
    pub column: usize,
}

impl Place {
    /// The place of byte `offset` in `text`; an offset past the end, or within a character, is moved back.
    pub fn of_offset(file: &str, text: &str, offset: usize) -> Self {
        let mut end = offset.min(text.len());
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let before = &text[..end];
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        Self {
            file: file.to_owned(),
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_read_like_a_compilers() {
        assert_eq!(Diagnostic::error("a.toml", 3, "no").to_string(), "a.toml:3: no");
        assert_eq!(Diagnostic::warning("a.toml", 3, "hm").to_string(), "a.toml:3: warning: hm");
    }

    #[test]
    fn offsets_become_lines_and_columns() {
        for (offset, line, column) in [(0, 1, 1), (1, 1, 2), (2, 2, 1), (4, 2, 2), (3, 2, 1), (99, 2, 3)] {
            let place = Place::of_offset("f", "a\nüb", offset);
            assert_eq!((place.line, place.column), (line, column), "{offset}");
        }
        assert_eq!(Place::of_offset("f", "a\nb", 2).to_string(), "f:2:1");
    }

    #[test]
    fn what_changes_how_a_text_is_shown_is_escaped() {
        assert_eq!(printable("a\u{1b}[1m\u{9b}b"), "a\\u{1b}[1m\\u{9b}b");
        assert_eq!(printable("gpj\u{202e}exe \u{200b}"), "gpj\\u{202e}exe \\u{200b}");
        assert_eq!(printable("ノード é"), "ノード é");
    }
}
