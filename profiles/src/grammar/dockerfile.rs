//! The `ENV` instructions of a Dockerfile.
//!
//! Sources: moby/buildkit `frontend/dockerfile/parser/line_parsers.go` (`parseNameVal`: words end at blanks outside of quotes)
//! and `frontend/dockerfile/shell/lex.go` (single quotes keep everything; within double quotes a backslash is one unless `"`,
//! `$` or another backslash follows; `$` expands). The reader takes constants only, and only `ENV`: what we write is put into
//! other people's files.

use super::is_variable_name;
use crate::vocab::Environment;

/// A line that sets no constant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {cause}")]
pub struct DockerfileError {
    /// The line, counted from 1.
    pub line: usize,
    /// What is wrong with it.
    pub cause: DockerfileCause,
}

/// What is wrong with a line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DockerfileCause {
    /// Another instruction.
    #[error("only `ENV NAME=value` is read here")]
    OtherInstruction,
    /// A word that sets nothing.
    #[error("`{0}` is no NAME=value")]
    NoAssignment(String),
    /// Something that docker would expand.
    #[error("a `$` in the value of {0} is expanded: write \\$")]
    Expansion(String),
    /// The line ends within a quotation.
    #[error("the line ends within a quotation")]
    Unterminated,
    /// Set twice.
    #[error("{0} is set twice")]
    Repeated(String),
}

/// `value` as one word of an `ENV` instruction.
pub fn quote(value: &str) -> String {
    let mut word = String::from("\"");
    for c in value.chars() {
        if matches!(c, '"' | '$' | '\\') {
            word.push('\\');
        }
        word.push(c);
    }
    word.push('"');
    word
}

/// Reads the `ENV` instructions of a text that has no others.
///
/// # Errors
/// [`DockerfileError`] names the first line that is anything but a comment or an `ENV` of constants.
pub fn parse(text: &str) -> Result<Environment, DockerfileError> {
    let mut environment = Environment::new();
    for (idx, line) in text.lines().enumerate() {
        let error = |cause| DockerfileError { line: idx + 1, cause };
        let line = line.trim_start();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (keyword, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        if !keyword.eq_ignore_ascii_case("ENV") || rest.trim().is_empty() {
            return Err(error(DockerfileCause::OtherInstruction));
        }
        let mut chars = rest.chars().peekable();
        while chars.peek().is_some() {
            while chars.next_if(|c| c.is_whitespace()).is_some() {}
            if chars.peek().is_none() {
                break;
            }
            let (name, value) = assignment(&mut chars).map_err(error)?;
            if environment.get(&name).is_some() {
                return Err(error(DockerfileCause::Repeated(name)));
            }
            environment = environment.with(name, value);
        }
    }
    Ok(environment)
}

/// One `NAME=value`, up to the blank after it.
fn assignment(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Result<(String, String), DockerfileCause> {
    let mut name = String::new();
    while let Some(c) = chars.next_if(|c| *c != '=' && !c.is_whitespace()) {
        name.push(c);
    }
    if chars.next() != Some('=') || !is_variable_name(&name) {
        return Err(DockerfileCause::NoAssignment(name.escape_debug().to_string()));
    }
    let mut value = String::new();
    while let Some(c) = chars.next_if(|c| !c.is_whitespace()) {
        match c {
            '\'' => loop {
                match chars.next() {
                    Some('\'') => break,
                    Some(c) => value.push(c),
                    None => return Err(DockerfileCause::Unterminated),
                }
            },
            '"' => loop {
                match chars.next() {
                    Some('"') => break,
                    Some('$') => return Err(DockerfileCause::Expansion(name)),
                    Some('\\') => match chars.next() {
                        Some(c @ ('"' | '$' | '\\')) => value.push(c),
                        Some(c) => value.extend(['\\', c]),
                        None => return Err(DockerfileCause::Unterminated),
                    },
                    Some(c) => value.push(c),
                    None => return Err(DockerfileCause::Unterminated),
                }
            },
            '$' => return Err(DockerfileCause::Expansion(name)),
            '\\' => value.push(chars.next().ok_or(DockerfileCause::Unterminated)?),
            c => value.push(c),
        }
    }
    Ok((name, value))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn words_are_read_as_docker_reads_them() {
        for (text, expected) in [
            ("ENV A=1 B='x y'  C=\"p q\"", "A=1 B=x y C=p q"),
            ("# c\n\nenv A==eth0\r\n", "A==eth0"),
            (r#"ENV A="a\"b\$c\\d\ne""#, r#"A=a"b$c\d\ne"#),
            (r"ENV A='a\b' B=a\ b", r"A=a\b B=a b"),
            ("ENV A=a'b'\"c\"", "A=abc"),
        ] {
            assert_eq!(parse(text).unwrap().to_string(), expected, "{text}");
        }
    }

    #[test]
    fn what_sets_no_constant_is_refused_with_its_line() {
        for (text, message) in [
            ("\nRUN x", "line 2: only `ENV NAME=value` is read here"),
            ("ENV", "line 1: only `ENV NAME=value` is read here"),
            ("ENV A b", "line 1: `A` is no NAME=value"),
            ("ENV A=1 2B=1", "line 1: `2B` is no NAME=value"),
            ("ENV A=$HOME", "line 1: a `$` in the value of A is expanded: write \\$"),
            ("ENV A=\"${X}\"", "line 1: a `$` in the value of A is expanded: write \\$"),
            ("ENV A='x", "line 1: the line ends within a quotation"),
            ("ENV A=1 \\", "line 1: `\\\\` is no NAME=value"),
            ("ENV A=1\nENV A=2", "line 2: A is set twice"),
        ] {
            assert_eq!(parse(text).unwrap_err().to_string(), message, "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(value in "[^\n\r]{0,30}|[ '\"$`}{!~*#;&|<>()\\\\=]{0,12}") {
            let environment = parse(&format!("ENV A={}\nENV B=1\n", quote(&value))).unwrap();
            prop_assert_eq!((environment.get("A"), environment.get("B")), (Some(value.as_str()), Some("1")));
        }

        #[test]
        fn any_text_is_read_or_refused(text in "(?s).{0,60}|(ENV A=|['\"$ \\\\\na]){0,12}") {
            drop(parse(&text));
        }
    }
}
