//! A command of the user's that starts a worker, such as `apptainer exec --nv IMG {worker}`.

use std::{
    ffi::{OsStr, OsString},
    path::Path,
};

use crate::template::{Syntax, Template, TemplateError};

static SYNTAX: Syntax = Syntax {
    program: "worker",
    line: None,
    others: &["rank", "local_rank", "dir", "env"],
    example: "apptainer exec --nv IMG {worker}",
};

/// A command that starts a worker, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerCommand(Template);

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

impl WorkerCommand {
    /// Reads one line, as the user writes it.
    ///
    /// # Errors
    /// As [`Template::parse`].
    pub fn parse(text: &str) -> Result<Self, TemplateError> {
        Template::parse(text, &SYNTAX).map(Self)
    }

    /// Reads words that were split already.
    ///
    /// # Errors
    /// As [`Template::parse`].
    pub fn from_words(texts: Vec<String>) -> Result<Self, TemplateError> {
        Template::from_words(texts, &SYNTAX).map(Self)
    }

    /// The words as they were written, for [`WorkerCommand::from_words`] on the other side.
    pub fn words(&self) -> &[String] {
        self.0.words()
    }

    /// Whether `{env}` is in it.
    pub fn uses_env_file(&self) -> bool {
        self.0.uses("env")
    }

    /// Program and arguments for one rank.
    pub fn expand(&self, places: &Places<'_>) -> Vec<OsString> {
        self.0.expand(places.worker, |name| match name {
            "rank" => places.rank.to_string().into(),
            "local_rank" => places.local_rank.to_string().into(),
            "dir" => OsStr::to_owned(places.folder.as_os_str()),
            // The syntax has no other.
            _ => OsStr::to_owned(places.env_file.as_os_str()),
        })
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
