//! A command of the user's that starts a worker, such as `apptainer exec --nv IMG {worker}`.
//!
//! Pure text: split into words by a shell's quoting rules, but never given to a shell, so nothing in it is expanded but its
//! placeholders, and no value of theirs can become another word.

use std::{
    ffi::{OsStr, OsString},
    path::Path,
};

use gdrtune_profiles::nearest::nearest;

/// Names of the placeholders, in the order in which messages list them.
const NAMES: [&str; 5] = ["worker", "rank", "local_rank", "dir", "env"];

/// A command that starts a worker, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerCommand {
    texts: Vec<String>,
    words: Vec<Word>,
}

/// What a command is filled in with for one rank.
#[derive(Debug, Clone, Copy)]
pub struct Places<'a> {
    /// The rank: `{rank}`.
    pub rank: u32,
    /// Its number on its node: `{local_rank}`.
    pub local_rank: u32,
    /// The folder with everything that the worker reads: `{dir}`.
    pub folder: &'a Path,
    /// The file with the rank's variables: `{env}`.
    pub env_file: &'a Path,
    /// Program and arguments of the worker: `{worker}`.
    pub worker: &'a [OsString],
}

/// Why a command cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WorkerCommandError {
    /// The text cannot be split.
    #[error("a quote is never closed")]
    Quote,
    /// There is no program.
    #[error("the command is empty: write one such as 'apptainer exec --nv IMG {{worker}}'")]
    Empty,
    /// The first word sets a variable, as a shell would have it.
    #[error("`{0}` is no program, and no shell reads this: write `env {0} ...`")]
    Assignment(String),
    /// Nobody would start the worker.
    #[error("`{{worker}}` is missing: put it where the program to run goes")]
    NoWorker,
    /// Which one is the worker?
    #[error("`{{worker}}` is there twice")]
    TwoWorkers,
    /// Several words cannot go inside one.
    #[error("`{{worker}}` stands for several words, so it must be a word of its own and not a part of `{0}`")]
    PartialWorker(String),
    /// No such placeholder.
    #[error("unknown placeholder `{{{name}}}`{}", hint(name))]
    Unknown {
        /// What is between the braces.
        name: String,
    },
    /// A brace that is no placeholder's.
    #[error("`{0}` has a single brace: write {{{{ or }}}} for a brace itself")]
    Brace(String),
    /// Programs cannot be given NUL.
    #[error("a word has a NUL byte")]
    Nul,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Word {
    Worker,
    Text(Vec<Piece>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Literal(String),
    Rank,
    LocalRank,
    Folder,
    EnvFile,
}

impl WorkerCommand {
    /// Reads one line, as the user writes it: quotes and backslashes as in a shell, `#` before a word begins a comment.
    ///
    /// # Errors
    /// [`WorkerCommandError`] names the word, and the nearest placeholder.
    pub fn parse(text: &str) -> Result<Self, WorkerCommandError> {
        let words = shell_words::split(text).ok().ok_or(WorkerCommandError::Quote)?;
        Self::from_words(words)
    }

    /// Reads words that were split already.
    ///
    /// # Errors
    /// As [`WorkerCommand::parse`].
    pub fn from_words(texts: Vec<String>) -> Result<Self, WorkerCommandError> {
        match texts.first() {
            None => return Err(WorkerCommandError::Empty),
            Some(first) if first.is_empty() => return Err(WorkerCommandError::Empty),
            Some(first) if is_assignment(first) => return Err(WorkerCommandError::Assignment(first.clone())),
            Some(_) => {}
        }
        let words = texts.iter().map(|text| read_word(text)).collect::<Result<Vec<Word>, _>>()?;
        match words.iter().filter(|word| **word == Word::Worker).count() {
            0 => Err(WorkerCommandError::NoWorker),
            1 => Ok(Self { texts, words }),
            _ => Err(WorkerCommandError::TwoWorkers),
        }
    }

    /// The words as they were written, for [`WorkerCommand::from_words`] on the other side.
    pub fn words(&self) -> &[String] {
        &self.texts
    }

    /// Whether `{env}` is in it.
    pub fn uses_env_file(&self) -> bool {
        let has = |word: &Word| matches!(word, Word::Text(pieces) if pieces.contains(&Piece::EnvFile));
        self.words.iter().any(has)
    }

    /// Program and arguments for one rank.
    pub fn expand(&self, places: &Places<'_>) -> Vec<OsString> {
        let mut all = vec![];
        for word in &self.words {
            match word {
                Word::Worker => all.extend_from_slice(places.worker),
                Word::Text(pieces) => all.push(pieces.iter().map(|piece| piece.text(places)).collect()),
            }
        }
        all
    }
}

impl Piece {
    fn text(&self, places: &Places<'_>) -> OsString {
        match self {
            Self::Literal(text) => text.into(),
            Self::Rank => places.rank.to_string().into(),
            Self::LocalRank => places.local_rank.to_string().into(),
            Self::Folder => OsStr::to_owned(places.folder.as_os_str()),
            Self::EnvFile => OsStr::to_owned(places.env_file.as_os_str()),
        }
    }
}

fn read_word(text: &str) -> Result<Word, WorkerCommandError> {
    if text == "{worker}" {
        return Ok(Word::Worker);
    }
    let mut pieces = vec![];
    let mut literal = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(['{', '}', '\0']) {
        literal.push_str(&rest[..at]);
        rest = &rest[at..];
        if rest.starts_with('\0') {
            return Err(WorkerCommandError::Nul);
        }
        // `{{` and `}}` are braces.
        if let Some(brace) = ["{{", "}}"].into_iter().find(|pair| rest.starts_with(pair)) {
            literal.push_str(&brace[..1]);
            rest = &rest[2..];
            continue;
        }
        let name = rest.strip_prefix('{').and_then(|inner| inner.split_once('}'));
        let Some((name, after)) = name.filter(|(name, _)| !name.contains('{')) else {
            return Err(WorkerCommandError::Brace(text.to_owned()));
        };
        if !literal.is_empty() {
            pieces.push(Piece::Literal(std::mem::take(&mut literal)));
        }
        pieces.push(match name {
            "rank" => Piece::Rank,
            "local_rank" => Piece::LocalRank,
            "dir" => Piece::Folder,
            "env" => Piece::EnvFile,
            "worker" => return Err(WorkerCommandError::PartialWorker(text.to_owned())),
            _ => return Err(WorkerCommandError::Unknown { name: name.to_owned() }),
        });
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

fn hint(name: &str) -> String {
    match nearest(name, NAMES) {
        Some(near) => format!("; did you mean `{{{near}}}`?"),
        None => format!(": use one of {}", NAMES.map(|name| format!("{{{name}}}")).join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    fn expand(command: &WorkerCommand) -> Vec<String> {
        let worker = ["/d/gdrtune", "worker", "--ab", "/d/a b"].map(OsString::from);
        let (folder, env_file) = (Path::new("/d"), Path::new("/d/rank-5.env"));
        let places = Places { rank: 5, local_rank: 1, folder, env_file, worker: &worker };
        command.expand(&places).into_iter().map(|word| word.into_string().unwrap()).collect()
    }

    const WORKER: [&str; 4] = ["/d/gdrtune", "worker", "--ab", "/d/a b"];

    #[test]
    fn commands_are_filled_in_word_by_word() {
        for (text, before, after) in [
            ("{worker}", &[][..], &[][..]),
            ("apptainer exec --nv IMG {worker}", &["apptainer", "exec", "--nv", "IMG"], &[]),
            (
                "docker run --rm -i -v {dir}:{dir} --env-file {env} --name r{rank}-{local_rank} IMG {worker}",
                &["docker", "run", "--rm", "-i", "-v", "/d:/d", "--env-file", "/d/rank-5.env", "--name", "r5-1", "IMG"],
                &[],
            ),
            ("sh -c 'exec \"$@\"' '' {worker} \"a  b\" c\\ d", &["sh", "-c", "exec \"$@\"", ""], &["a  b", "c d"]),
            ("x --format={{.ID}} $HOME '*' '{'{ {worker}", &["x", "--format={.ID}", "$HOME", "*", "{"], &[]),
            (" \t/opt/a=b\n{worker} # {rank", &["/opt/a=b"], &[]),
        ] {
            let command = WorkerCommand::parse(text).unwrap();
            let expected = [before, &WORKER, after].concat();
            assert_eq!(expand(&command), expected, "{text}");
            assert_eq!(WorkerCommand::from_words(command.words().to_vec()), Ok(command), "{text}");
        }
    }

    #[test]
    fn what_cannot_be_used_is_named() {
        for (text, expected) in [
            ("", "the command is empty: write one such as 'apptainer exec --nv IMG {worker}'"),
            ("'' {worker}", "the command is empty: write one such as 'apptainer exec --nv IMG {worker}'"),
            ("a 'b {worker}", "a quote is never closed"),
            (
                "NCCL_DEBUG=INFO x {worker}",
                "`NCCL_DEBUG=INFO` is no program, and no shell reads this: write `env NCCL_DEBUG=INFO ...`",
            ),
            ("env", "`{worker}` is missing: put it where the program to run goes"),
            ("env {{worker}}", "`{worker}` is missing: put it where the program to run goes"),
            ("{worker} {worker}", "`{worker}` is there twice"),
            (
                "sh -c 'exec {worker}'",
                "`{worker}` stands for several words, so it must be a word of its own and not a part of `exec {worker}`",
            ),
            ("env {wroker}", "unknown placeholder `{wroker}`; did you mean `{worker}`?"),
            ("x {localrank} {worker}", "unknown placeholder `{localrank}`; did you mean `{local_rank}`?"),
            (
                "x {image} {worker}",
                "unknown placeholder `{image}`: use one of {worker}, {rank}, {local_rank}, {dir}, {env}",
            ),
            ("x {} {worker}", "unknown placeholder `{}`: use one of {worker}, {rank}, {local_rank}, {dir}, {env}"),
            ("x {rank {worker}", "`{rank` has a single brace: write {{ or }} for a brace itself"),
            ("x rank} {worker}", "`rank}` has a single brace: write {{ or }} for a brace itself"),
            ("x a\0b {worker}", "a word has a NUL byte"),
        ] {
            assert_eq!(WorkerCommand::parse(text).unwrap_err().to_string(), expected, "{text:?}");
        }
    }

    #[test]
    fn the_env_file_is_known_to_be_used() {
        for (text, uses) in [("x {worker}", false), ("x --env={env} {worker}", true), ("x {{env}} {worker}", false)] {
            assert_eq!(WorkerCommand::parse(text).unwrap().uses_env_file(), uses, "{text}");
        }
    }

    fn word() -> impl Strategy<Value = String> {
        vec(
            prop_oneof![any::<char>(), proptest::sample::select(vec![' ', '\'', '"', '\\', '{', '}', '#', '$', '\n'])],
            0..8,
        )
        .prop_map(|chars| chars.into_iter().filter(|c| *c != '\0').collect())
    }

    proptest! {
        /// Any words, quoted: each comes out as it was, and the worker's between them.
        #[test]
        fn no_word_is_split_or_joined(before in vec(word(), 0..4), after in vec(word(), 0..4)) {
            let doubled = |word: &String| word.replace('{', "{{").replace('}', "}}");
            let mut written = vec!["/program".to_owned()];
            written.extend(before.iter().map(doubled));
            written.push("{worker}".to_owned());
            written.extend(after.iter().map(doubled));
            let command = WorkerCommand::parse(&shell_words::join(&written)).unwrap();
            let mut expected = vec!["/program".to_owned()];
            expected.extend(before);
            expected.extend(WORKER.map(str::to_owned));
            expected.extend(after);
            prop_assert_eq!(expand(&command), expected);
        }

        #[test]
        fn no_text_makes_it_panic(text in any::<String>()) {
            let Ok(command) = WorkerCommand::parse(&text) else { return Ok(()) };
            prop_assert!(expand(&command).len() >= WORKER.len());
        }
    }
}
