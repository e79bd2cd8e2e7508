//! Commands of the user's with placeholders, such as `apptainer exec --nv IMG {worker}`.
//!
//! Pure text: split into words by a shell's quoting rules, but never given to a shell, so nothing in it is expanded but its
//! placeholders, and no value of theirs can become another word.

use std::ffi::OsString;

use gdrtune_profiles::nearest::nearest;

/// The placeholders of a kind of command, without their braces.
#[derive(Debug, PartialEq, Eq)]
pub struct Syntax {
    /// Stands for the program to run and its arguments: several words, so it must be a word of its own.
    pub program: &'static str,
    /// Stands for the same as one text, quoted for a shell on the way. One of the two is in every command, once.
    pub line: Option<&'static str>,
    /// The others, in the order in which messages list them.
    pub others: &'static [&'static str],
    /// A command, for messages.
    pub example: &'static str,
}

impl Syntax {
    fn names(&self) -> impl Iterator<Item = &'static str> {
        [self.program].into_iter().chain(self.line).chain(self.others.iter().copied())
    }

    fn find(&self, name: &str) -> Option<&'static str> {
        self.names().find(|known| *known == name)
    }

    /// The tail of a message about an unknown name.
    fn hint(&self, name: &str) -> String {
        if let Some(near) = nearest(name, self.names()) {
            return format!("; did you mean `{{{near}}}`?");
        }
        let names: Vec<String> = self.names().map(|name| format!("{{{name}}}")).collect();
        format!(": use one of {}", names.join(", "))
    }
}

/// Why a command cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// The text cannot be split.
    #[error("a quote is never closed")]
    Quote,
    /// There is no program.
    #[error("the command is empty: write one such as '{0}'")]
    Empty(&'static str),
    /// The first word sets a variable, as a shell would have it.
    #[error("`{0}` is no program, and no shell reads this: write `env {0} ...`")]
    Assignment(String),
    /// Nobody would start the program.
    #[error("`{{{0}}}` is missing: put it where the program to run goes")]
    NoProgram(&'static str),
    /// Which one is the program?
    #[error("`{{{0}}}` is there twice")]
    TwoPrograms(&'static str),
    /// Several words cannot go inside one.
    #[error("`{{{program}}}` stands for several words, so it must be a word of its own and not a part of `{word}`")]
    PartOfWord {
        /// The placeholder.
        program: &'static str,
        /// The word that it is in.
        word: String,
    },
    /// No such placeholder.
    #[error("unknown placeholder `{{{name}}}`{hint}")]
    Unknown {
        /// What is between the braces.
        name: String,
        /// The nearest name, or all of them, as the tail of the message.
        hint: String,
    },
    /// A brace that is no placeholder's.
    #[error("`{0}` has a single brace: write {{{{ or }}}} for a brace itself")]
    Brace(String),
    /// Programs cannot be given NUL.
    #[error("a word has a NUL byte")]
    Nul,
}

/// A command with placeholders, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    texts: Vec<String>,
    words: Vec<Word>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Word {
    Program,
    Text(Vec<Piece>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Literal(String),
    Value(&'static str),
}

impl Template {
    /// Reads one line, as the user writes it: quotes and backslashes as in a shell, `#` before a word begins a comment.
    ///
    /// # Errors
    /// [`TemplateError`] names the word, and the nearest placeholder.
    pub fn parse(text: &str, syntax: &'static Syntax) -> Result<Self, TemplateError> {
        let words = shell_words::split(text).ok().ok_or(TemplateError::Quote)?;
        Self::from_words(words, syntax)
    }

    /// Reads words that were split already.
    ///
    /// # Errors
    /// As [`Template::parse`].
    pub fn from_words(texts: Vec<String>, syntax: &'static Syntax) -> Result<Self, TemplateError> {
        match texts.first() {
            None => return Err(TemplateError::Empty(syntax.example)),
            Some(first) if first.is_empty() => return Err(TemplateError::Empty(syntax.example)),
            Some(first) if is_assignment(first) => return Err(TemplateError::Assignment(first.clone())),
            Some(_) => {}
        }
        let words = texts.iter().map(|text| read_word(text, syntax)).collect::<Result<Vec<Word>, _>>()?;
        let template = Self { texts, words };
        let lines = syntax.line.map_or(0, |line| template.count(line));
        match template.words.iter().filter(|word| **word == Word::Program).count() + lines {
            0 => Err(TemplateError::NoProgram(syntax.program)),
            1 => Ok(template),
            _ => Err(TemplateError::TwoPrograms(syntax.program)),
        }
    }

    /// The words as they were written, for [`Template::from_words`] on the other side.
    pub fn words(&self) -> &[String] {
        &self.texts
    }

    /// Whether a placeholder is in it, other than the program.
    pub fn uses(&self, name: &str) -> bool {
        self.count(name) > 0
    }

    fn count(&self, name: &str) -> usize {
        let pieces = self.words.iter().filter_map(|word| match word {
            Word::Text(pieces) => Some(pieces),
            Word::Program => None,
        });
        pieces.flatten().filter(|piece| matches!(piece, Piece::Value(value) if *value == name)).count()
    }

    /// Program and arguments: `program` in its place, and what `value` gives for each of the other placeholders.
    pub fn expand(&self, program: &[OsString], value: impl Fn(&str) -> OsString) -> Vec<OsString> {
        let mut all = vec![];
        for word in &self.words {
            match word {
                Word::Program => all.extend_from_slice(program),
                Word::Text(pieces) => all.push(pieces.iter().map(|piece| piece.text(&value)).collect()),
            }
        }
        all
    }
}

impl Piece {
    fn text(&self, value: &impl Fn(&str) -> OsString) -> OsString {
        match self {
            Self::Literal(text) => text.into(),
            Self::Value(name) => value(name),
        }
    }
}

fn read_word(text: &str, syntax: &'static Syntax) -> Result<Word, TemplateError> {
    let mut pieces = vec![];
    let mut literal = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(['{', '}', '\0']) {
        literal.push_str(&rest[..at]);
        rest = &rest[at..];
        if rest.starts_with('\0') {
            return Err(TemplateError::Nul);
        }
        // `{{` and `}}` are braces.
        if let Some(brace) = ["{{", "}}"].into_iter().find(|pair| rest.starts_with(pair)) {
            literal.push_str(&brace[..1]);
            rest = &rest[2..];
            continue;
        }
        let name = rest.strip_prefix('{').and_then(|inner| inner.split_once('}'));
        let Some((name, after)) = name.filter(|(name, _)| !name.contains('{')) else {
            return Err(TemplateError::Brace(text.to_owned()));
        };
        let Some(known) = syntax.find(name) else {
            return Err(TemplateError::Unknown { name: name.to_owned(), hint: syntax.hint(name) });
        };
        if known == syntax.program {
            let is_alone = pieces.is_empty() && literal.is_empty() && after.is_empty();
            return if is_alone {
                Ok(Word::Program)
            } else {
                Err(TemplateError::PartOfWord { program: known, word: text.to_owned() })
            };
        }
        if !literal.is_empty() {
            pieces.push(Piece::Literal(std::mem::take(&mut literal)));
        }
        pieces.push(Piece::Value(known));
        rest = after;
    }
    literal.push_str(rest);
    if !literal.is_empty() || pieces.is_empty() {
        pieces.push(Piece::Literal(literal));
    }
    Ok(Word::Text(pieces))
}

/// `NAME=...` with a name of a variable.
fn is_assignment(word: &str) -> bool {
    let name = word.split_once('=').map_or("", |(name, _)| name);
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    static SYNTAX: Syntax =
        Syntax { program: "agent", line: Some("agent_line"), others: &["host"], example: "on {host} {agent}" };

    #[test]
    fn the_program_goes_in_as_words_or_as_one_text() {
        let program = ["sh", "-c", "a b"].map(OsString::from);
        let value = |name: &str| OsString::from(if name == "host" { "n1" } else { "sh -c 'a b'" });
        for (text, expected) in [
            ("on {host} -- {agent}", &["on", "n1", "--", "sh", "-c", "a b"][..]),
            ("cloud --node={host} --run={agent_line}", &["cloud", "--node=n1", "--run=sh -c 'a b'"]),
        ] {
            let template = Template::parse(text, &SYNTAX).unwrap();
            assert!(template.uses("host"));
            assert_eq!(template.expand(&program, value), expected, "{text}");
        }
    }

    #[test]
    fn the_program_is_there_once_in_one_of_its_forms() {
        for (text, expected) in [
            ("", "the command is empty: write one such as 'on {host} {agent}'"),
            ("on {host}", "`{agent}` is missing: put it where the program to run goes"),
            ("on {agent} {agent_line}", "`{agent}` is there twice"),
            ("on {agent_line}{agent_line}", "`{agent}` is there twice"),
            ("on {hots} {agent}", "unknown placeholder `{hots}`; did you mean `{host}`?"),
            ("on {} {agent}", "unknown placeholder `{}`: use one of {agent}, {agent_line}, {host}"),
        ] {
            assert_eq!(Template::parse(text, &SYNTAX).unwrap_err().to_string(), expected, "{text:?}");
        }
    }
}
