//! The part of the POSIX shell language that we write: exported assignments with quoted values.
//!
//! The reader takes nothing that would expand (`$`, backquotes, globs, tilde): what it reads is a constant. Rules:
//! POSIX.1-2017, Shell Command Language, 2.2 "Quoting" and 2.6.2 "Parameter Expansion".

use super::is_variable_name;

/// One exported variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assignment {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
    /// Whether a value that is already set (and not empty) is kept.
    pub keeps_set: bool,
}

/// A text that is more than constant assignments.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {cause}")]
pub struct ShellError {
    /// The line, counted from 1.
    pub line: usize,
    /// What is wrong.
    pub cause: ShellCause,
}

/// Why a text is not read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ShellCause {
    /// Another command.
    #[error("only `export NAME='value'` and its forms that keep a value are read here")]
    OtherCommand,
    /// A character that the shell would act on.
    #[error("`{0}` is not constant: quote it with single quotes")]
    Special(char),
    /// The text ends within a quotation.
    #[error("the text ends within a quotation")]
    Unterminated,
    /// A default was set for a variable that is not exported after it.
    #[error("{0} is not exported")]
    NotExported(String),
}

/// `value` as one word: single quotes, which keep every character but themselves.
pub fn quote(value: &str) -> String {
    format!("'{}'", value.replace('\'', r"'\''"))
}

/// A line that exports the value.
pub(crate) fn export_line(name: &str, value: &str) -> String {
    format!("export {name}={}", quote(value))
}

/// A line that exports the value unless the variable has one already (an empty one counts as none).
///
/// Shells disagree about quotes and backslashes within `"${NAME:=...}"` (bash pairs single quotes there, dash does not),
/// so a value that has any character of meaning is assigned as a quoted word.
pub(crate) fn keep_set_line(name: &str, value: &str) -> String {
    if value.chars().all(is_plain) {
        return format!(": \"${{{name}:={value}}}\"; export {name}");
    }
    format!("[ -n \"${{{name}:-}}\" ] || {name}={}; export {name}", quote(value))
}

/// Whether a character means itself wherever a value can stand.
fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || "_./:=,^@%+-".contains(c)
}

/// Reads a text of assignments, comments and blank lines.
///
/// # Errors
/// [`ShellError`] names the first line that is anything else.
pub fn parse(text: &str) -> Result<Vec<Assignment>, ShellError> {
    let mut reader = Reader { rest: text, line: 1 };
    let mut assignments = Vec::new();
    while reader.skip_to_command() {
        assignments.push(reader.assignment()?);
    }
    Ok(assignments)
}

struct Reader<'a> {
    rest: &'a str,
    line: usize,
}

impl Reader<'_> {
    fn error(&self, cause: ShellCause) -> ShellError {
        ShellError { line: self.line, cause }
    }

    fn next(&mut self) -> Result<char, ShellError> {
        let c = self.rest.chars().next().ok_or_else(|| self.error(ShellCause::Unterminated))?;
        self.rest = &self.rest[c.len_utf8()..];
        self.line += usize::from(c == '\n');
        Ok(c)
    }

    fn take(&mut self, expected: &str) -> Result<(), ShellError> {
        self.rest = self.rest.strip_prefix(expected).ok_or_else(|| self.error(ShellCause::OtherCommand))?;
        Ok(())
    }

    /// Skips blanks, line ends and comments; false at the end of the text.
    fn skip_to_command(&mut self) -> bool {
        while let Some(c) = self.rest.chars().next() {
            match c {
                '#' => {
                    let end = self.rest.find('\n').unwrap_or(self.rest.len());
                    self.rest = &self.rest[end..];
                }
                ' ' | '\t' | '\n' => {
                    self.line += usize::from(c == '\n');
                    self.rest = &self.rest[1..];
                }
                _ => return true,
            }
        }
        false
    }

    fn assignment(&mut self) -> Result<Assignment, ShellError> {
        match self.rest.chars().next() {
            Some(':') => self.default_assignment(),
            Some('[') => self.guarded_assignment(),
            _ => {
                self.take("export ")?;
                let name = self.name()?;
                self.take("=")?;
                let value = self.word('\n')?;
                Ok(Assignment { name, value, keeps_set: false })
            }
        }
    }

    /// `: "${NAME:=value}"; export NAME`
    fn default_assignment(&mut self) -> Result<Assignment, ShellError> {
        self.take(": \"${")?;
        let name = self.name()?;
        self.take(":=")?;
        let end = self.rest.find('}').ok_or_else(|| self.error(ShellCause::Unterminated))?;
        let (value, rest) = self.rest.split_at(end);
        if let Some(special) = value.chars().find(|c| !is_plain(*c)) {
            return Err(self.error(ShellCause::Special(special)));
        }
        self.rest = rest;
        self.take("}\"")?;
        self.exported(&name)?;
        Ok(Assignment { name, value: value.to_owned(), keeps_set: true })
    }

    /// `[ -n "${NAME:-}" ] || NAME='value'; export NAME`
    fn guarded_assignment(&mut self) -> Result<Assignment, ShellError> {
        self.take("[ -n \"${")?;
        let name = self.name()?;
        self.take(":-}\" ] || ")?;
        if self.name()? != name {
            return Err(self.error(ShellCause::OtherCommand));
        }
        self.take("=")?;
        let value = self.word(';')?;
        self.exported(&name)?;
        Ok(Assignment { name, value, keeps_set: true })
    }

    /// `; export NAME` and the end of the line.
    fn exported(&mut self, name: &str) -> Result<(), ShellError> {
        let not_exported = self.error(ShellCause::NotExported(name.to_owned()));
        let Ok(()) = self.take("; export ") else { return Err(not_exported) };
        if self.name()? != name {
            return Err(not_exported);
        }
        self.end_of_command()
    }

    fn name(&mut self) -> Result<String, ShellError> {
        let end = self.rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(self.rest.len());
        let (name, rest) = self.rest.split_at(end);
        if !is_variable_name(name) {
            return Err(self.error(ShellCause::OtherCommand));
        }
        self.rest = rest;
        Ok(name.to_owned())
    }

    fn end_of_command(&mut self) -> Result<(), ShellError> {
        match self.rest.chars().next() {
            None | Some('\n') => Ok(()),
            Some(_) => Err(self.error(ShellCause::OtherCommand)),
        }
    }

    /// A word of quoted and bare parts, up to `end` or the end of the text.
    fn word(&mut self, end: char) -> Result<String, ShellError> {
        let mut value = String::new();
        while !self.rest.is_empty() && !self.rest.starts_with(end) {
            match self.next()? {
                '\'' => self.single_quoted(&mut value)?,
                '"' => self.double_quoted(&mut value)?,
                '\\' => match self.next()? {
                    '\n' => {}
                    c => value.push(c),
                },
                c if is_plain(c) => value.push(c),
                c => return Err(self.error(ShellCause::Special(c))),
            }
        }
        Ok(value)
    }

    /// What stands between single quotes, up to and with the second one.
    fn single_quoted(&mut self, value: &mut String) -> Result<(), ShellError> {
        loop {
            match self.next()? {
                '\'' => return Ok(()),
                c => value.push(c),
            }
        }
    }

    /// What stands between double quotes, up to and with the second one.
    fn double_quoted(&mut self, value: &mut String) -> Result<(), ShellError> {
        loop {
            match self.next()? {
                '"' => return Ok(()),
                c @ ('$' | '`') => return Err(self.error(ShellCause::Special(c))),
                '\\' => match self.next()? {
                    '\n' => {}
                    c @ ('$' | '`' | '"' | '\\') => value.push(c),
                    c => value.extend(['\\', c]),
                },
                c => value.push(c),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Result<Vec<(String, String, bool)>, String> {
        let assignments = parse(text).map_err(|error| error.to_string())?;
        Ok(assignments.into_iter().map(|a| (a.name, a.value, a.keeps_set)).collect())
    }

    #[test]
    fn quotations_are_read_as_the_shell_reads_them() {
        for (text, value) in [
            ("export A='x y'", "x y"),
            (r"export A='it'\''s'", "it's"),
            (r#"export A="a\"b\$c\`d\\e\f""#, r#"a"b$c`d\e\f"#),
            ("export A=plain,=^mlx5_0:1", "plain,=^mlx5_0:1"),
            ("export A=a\\\nb", "ab"),
            ("export A='a\nb'", "a\nb"),
            ("export A=", ""),
            (r#"export A='a'"b"c"#, "abc"),
        ] {
            assert_eq!(read(text), Ok(vec![("A".into(), value.into(), false)]), "{text}");
        }
        let text = "# c\n\n: \"${A:==eth0}\"; export A\n[ -n \"${B:-}\" ] || B='a}b'; export B\n  export C='2'\n";
        let expected = [("A", "=eth0", true), ("B", "a}b", true), ("C", "2", false)];
        assert_eq!(read(text).unwrap(), expected.map(|(name, value, keeps)| (name.into(), value.into(), keeps)));
    }

    #[test]
    fn everything_else_is_refused_with_its_line() {
        for (text, message) in [
            ("\nexport A=$HOME", "line 2: `$` is not constant: quote it with single quotes"),
            ("export A=`id`", "line 1: ``` is not constant: quote it with single quotes"),
            ("export A=\"$(id)\"", "line 1: `$` is not constant: quote it with single quotes"),
            ("export A=~", "line 1: `~` is not constant: quote it with single quotes"),
            ("export A='1'; rm x", "line 1: `;` is not constant: quote it with single quotes"),
            ("export A='1' B=2", "line 1: ` ` is not constant: quote it with single quotes"),
            ("export A='1", "line 1: the text ends within a quotation"),
            ("rm x", "line 1: only `export NAME='value'` and its forms that keep a value are read here"),
            ("export 1A=2", "line 1: only `export NAME='value'` and its forms that keep a value are read here"),
            (": \"${A:=1}\"; export B", "line 1: A is not exported"),
            (": \"${A:=1}\"", "line 1: A is not exported"),
            (": \"${A:=it's}\"; export A", "line 1: `'` is not constant: quote it with single quotes"),
            (": \"${A:=1", "line 1: the text ends within a quotation"),
            (
                "[ -n \"${A:-}\" ] || B='1'; export A",
                "line 1: only `export NAME='value'` and its forms that keep a value are read here",
            ),
            (
                ": \"${A:=1}\"; export A; rm x",
                "line 1: only `export NAME='value'` and its forms that keep a value are read here",
            ),
            (": \"${A:=$(id)}\"; export A", "line 1: `$` is not constant: quote it with single quotes"),
        ] {
            assert_eq!(read(text), Err(message.to_owned()), "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(value in "(?s).{0,30}|[ '\"$`}{!~*#;&|<>()\\\\\n]{0,12}") {
            let text = format!("{}\n{}\n", export_line("A", &value), keep_set_line("B", &value));
            prop_assert_eq!(read(&text), Ok(vec![("A".into(), value.clone(), false), ("B".into(), value, true)]));
        }

        #[test]
        fn any_text_is_read_or_refused(text in "(?s).{0,60}|(export [AB]=|: \"\\$\\{A:=|['\"}; \\\\\na$]){0,12}") {
            drop(parse(&text));
        }
    }
}
