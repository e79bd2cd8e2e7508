//! Environment files: the common ground of `docker --env-file` and systemd's `EnvironmentFile=`.
//!
//! Sources: docker/cli `pkg/kvfile/kvfile.go` (value raw after the first `=`, leading blanks of a line dropped) and
//! `systemd.exec(5)` (quotes removed, backslashes escape, blanks around a value dropped, `;` comments). What the two
//! would read differently is refused here, when reading as well as when writing.

use super::is_variable_name;
use crate::vocab::Environment;

/// A line that the two readers would not read alike.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {cause}")]
pub struct EnvFileError {
    /// The line, counted from 1.
    pub line: usize,
    /// What is wrong with it.
    pub cause: EnvFileCause,
}

/// What is wrong with a line of an environment file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EnvFileCause {
    /// No `=`.
    #[error("`{0}` has no `=`: docker would copy the variable from its own environment")]
    NoValue(String),
    /// A name that is none.
    #[error("`{0}` is not the name of a variable: write NAME=value without blanks, quotes or export")]
    BadName(String),
    /// A value that the two read differently.
    #[error("the value of {name} {cause}")]
    Ambiguous {
        /// The variable.
        name: String,
        /// How they differ.
        cause: &'static str,
    },
    /// Set twice.
    #[error("{0} is set twice")]
    Repeated(String),
}

/// Reads an environment file.
///
/// # Errors
/// [`EnvFileError`] names the first line that docker and systemd would not read alike.
pub fn parse(text: &str) -> Result<Environment, EnvFileError> {
    let mut environment = Environment::new();
    for (idx, line) in text.split('\n').enumerate() {
        let error = |cause| EnvFileError { line: idx + 1, cause };
        let line = line.strip_suffix('\r').unwrap_or(line).trim_start();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let Some((name, value)) = line.split_once('=') else {
            return Err(error(EnvFileCause::NoValue(line.escape_debug().to_string())));
        };
        if !is_variable_name(name) {
            return Err(error(EnvFileCause::BadName(name.escape_debug().to_string())));
        }
        if let Some(cause) = refuses(value) {
            return Err(error(EnvFileCause::Ambiguous { name: name.to_owned(), cause }));
        }
        if environment.get(name).is_some() {
            return Err(error(EnvFileCause::Repeated(name.to_owned())));
        }
        environment = environment.with(name, value);
    }
    Ok(environment)
}

/// Why an environment file cannot hold `value` so that both readers get it; fits after "the value".
pub(crate) fn refuses(value: &str) -> Option<&'static str> {
    if value.contains(['\n', '\r', '\0']) {
        return Some("has a line break or NUL byte, which an environment file cannot hold");
    }
    if value.contains(['"', '\'']) {
        return Some("has a quote: docker keeps it, systemd removes it");
    }
    if value.contains('\\') {
        return Some("has a backslash: docker keeps it, systemd takes it as an escape");
    }
    // systemd refuses control characters; a tab is a blank to it.
    if value.contains(|c: char| c.is_control()) {
        return Some("has a control character, which systemd refuses");
    }
    (value.trim() != value).then_some("begins or ends with a blank: docker keeps it, systemd drops it")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn values_are_raw_after_the_first_equals_sign() {
        let text = "# c\n\n  A==eth0,eth1\r\nB=a b # c\nC=\n";
        let environment = parse(text).unwrap();
        assert_eq!(environment.iter().collect::<Vec<_>>(), [("A", "=eth0,eth1"), ("B", "a b # c"), ("C", "")]);
    }

    #[test]
    fn what_the_readers_read_differently_is_refused_with_its_line() {
        for (text, message) in [
            ("\nA", "line 2: `A` has no `=`: docker would copy the variable from its own environment"),
            (
                "export A=1",
                "line 1: `export A` is not the name of a variable: write NAME=value without blanks, quotes or export",
            ),
            ("A='1'", "line 1: the value of A has a quote: docker keeps it, systemd removes it"),
            ("A=\\n", "line 1: the value of A has a backslash: docker keeps it, systemd takes it as an escape"),
            ("A=1 ", "line 1: the value of A begins or ends with a blank: docker keeps it, systemd drops it"),
            ("A=1\nA=2", "line 2: A is set twice"),
            (";A=1", "line 1: `;A` is not the name of a variable: write NAME=value without blanks, quotes or export"),
            ("A=a\tb", "line 1: the value of A has a control character, which systemd refuses"),
        ] {
            assert_eq!(parse(text).unwrap_err().to_string(), message);
        }
    }

    proptest! {
        #[test]
        fn what_is_not_refused_is_read_back(name in "[A-Z_][A-Z0-9_]{0,9}", value in "\\PC{0,20}|(?s).{0,20}") {
            if refuses(&value).is_none() {
                let environment = parse(&format!("# c\n{name}={value}\n")).unwrap();
                prop_assert_eq!(environment.get(&name), Some(value.as_str()));
            }
        }

        #[test]
        fn any_text_is_read_or_refused(text in "(?s).{0,100}") {
            drop(parse(&text));
        }
    }
}
