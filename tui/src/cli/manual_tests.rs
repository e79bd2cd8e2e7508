//! That gdrtune takes every command line of its help and of the manual.

#[path = "../../tests/common/markdown.rs"]
mod markdown;

use std::{collections::BTreeSet, ffi::OsString, path::Path};

use clap::CommandFactory as _;

use super::Cli;

/// Whether these are words that gdrtune takes; help and version are answers, not errors.
fn read(words: &[String]) -> Result<(), clap::Error> {
    let line = std::iter::once("gdrtune").chain(words.iter().map(String::as_str)).map(OsString::from);
    match Cli::read(line) {
        Err(error) if error.use_stderr() => Err(error),
        _ => Ok(()),
    }
}

#[test]
fn every_command_has_examples_that_it_takes() {
    fn look(command: &clap::Command, name: &str) {
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let (_, examples) = help.split_once("Examples:\n").unwrap_or_else(|| panic!("{name} has no examples"));
        let examples = examples.split("\n\n").next().unwrap_or_default();
        let typed: Vec<&str> = examples.lines().filter(|line| line.starts_with("    ")).collect();
        let lines = command_lines(&typed.join("\n"));
        assert!(!lines.is_empty(), "{name}: {examples}");
        for words in &lines {
            read(words).unwrap_or_else(|error| panic!("{name}: {words:?}: {error}"));
        }
        let of_command =
            lines.iter().any(|words| format!("gdrtune {} ", words.join(" ")).starts_with(&format!("{name} ")));
        assert!(of_command, "{name}: none of {lines:?}");
        // The help is 100 columns wide at most; what is wrapped is no table, and cannot be copied.
        assert!(help.lines().all(|line| line.chars().count() <= 100), "{name}: {help}");
        for command in
            command.get_subcommands().filter(|command| !command.is_hide_set() && command.get_name() != "help")
        {
            look(command, &format!("{name} {}", command.get_name()));
        }
    }
    look(&Cli::command(), "gdrtune");
}

#[test]
fn gdrtune_takes_every_command_line_of_the_manual() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let chapters = std::fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let files =
        chapters.filter(|path| path.extension().is_some_and(|kind| kind == "md")).chain([root.join("README.md")]);
    let mut shown = BTreeSet::new();
    for block in files.flat_map(|path| markdown::blocks(&path)).filter(markdown::Block::is_shell) {
        for words in of_block(&block) {
            // What is wrong on purpose is run, and its code known.
            if !matches!(block.mark, Some(markdown::Mark::Run { exit: 2 })) {
                read(&words).unwrap_or_else(|error| panic!("{}: {words:?}: {error}", block.place));
            }
            shown.extend(words.into_iter().next());
        }
    }
    for command in Cli::command().get_subcommands().filter(|command| !command.is_hide_set()) {
        assert!(shown.contains(command.get_name()), "no block of the manual shows {}", command.get_name());
    }
}

#[test]
fn command_lines_of_shell() {
    let lines = |shell| command_lines(shell).iter().map(|words| words.join("|")).collect::<Vec<_>>();
    for (shell, expected) in [
        ("gdrtune tune -w 'a[1-2]' ... --out t   # it's so", &["tune|-w|a[1-2]|--out|t"][..]),
        ("x | gdrtune topo --from - > f 2>&1 && gdrtune runs", &["topo|--from|-", "runs"]),
        ("cargo run --release -- demo", &["demo"]),
        ("salloc -N4 gdrtune tune \\\n  --out \"t-$X\"", &["tune|--out|t-$X"]),
        ("gdrtune bench --worker-cmd 'a\n  {worker}'", &["bench|--worker-cmd|a\n  {worker}"]),
        ("cat > f <<'E'\nit's gdrtune x\nE\ngdrtune runs", &["runs"]),
        ("grep gdrtune x; cd gdrtune", &[]),
        ("exec ./bin/gdrtune tune \"$@\"", &["tune"]),
    ] {
        assert_eq!(lines(shell), expected, "{shell}");
    }
}

/// The command lines of gdrtune in a block of the manual.
fn of_block(block: &markdown::Block) -> Vec<Vec<String>> {
    if block.language == "console" {
        return markdown::console(&block.text).iter().flat_map(|(command, _)| command_lines(command)).collect();
    }
    command_lines(&block.text)
}

/// The command lines of gdrtune in a piece of shell, without the program's own name. Dots that stand for more are left out.
fn command_lines(shell: &str) -> Vec<Vec<String>> {
    let is_program = |word: &String| word == "gdrtune" || word.ends_with("/gdrtune");
    let of_gdrtune = |words: Vec<String>| {
        let at = words.iter().position(|word| !word.contains('=') && word != "exec")?;
        let before = match words[at].as_str() {
            "cargo" => words.iter().position(|word| word == "--")?,
            "salloc" | "srun" => words.iter().position(is_program)?,
            _ if is_program(&words[at]) => at,
            _ => return None,
        };
        let arguments = words.into_iter().skip(before + 1).filter(|word| word != "..." && word != "$@");
        Some(arguments.collect::<Vec<_>>())
    };
    shell_commands(shell).into_iter().filter_map(of_gdrtune).filter(|words| !words.is_empty()).collect()
}

/// The simple commands of a piece of shell as words: quotes are taken away, comments, redirections and here-documents left out,
/// and nothing is expanded.
fn shell_commands(shell: &str) -> Vec<Vec<String>> {
    let mut reader = Reader::default();
    let mut lines = shell.lines();
    let mut open: Option<String> = None;
    while let Some(line) = lines.next() {
        let text = open.take().map_or_else(|| line.to_owned(), |before| format!("{before}\n{line}"));
        if !reader.read(&text) {
            open = Some(text);
            continue;
        }
        if let Some(end) = reader.here_document.take() {
            lines.by_ref().find(|line| line.trim() == end);
        }
    }
    reader.commands
}

#[derive(Default)]
struct Reader {
    commands: Vec<Vec<String>>,
    here_document: Option<String>,
}

impl Reader {
    /// Reads a line; `false` where it goes on in the next one.
    fn read(&mut self, line: &str) -> bool {
        let mut words: Vec<String> = Vec::new();
        let mut commands = Vec::new();
        let mut word: Option<String> = None;
        let mut redirection = String::new();
        let mut chars = line.chars().peekable();
        while let Some(c) = chars.next() {
            match c {
                '\\' => match chars.next() {
                    None => return false,
                    Some('\n') => {}
                    Some(other) => word.get_or_insert_default().push(other),
                },
                '\'' | '"' => {
                    let text = word.get_or_insert_default();
                    loop {
                        match chars.next() {
                            None => return false,
                            Some(end) if end == c => break,
                            Some('\\') if c == '"' => text.extend(chars.next()),
                            Some(other) => text.push(other),
                        }
                    }
                }
                '#' if word.is_none() => while chars.next_if(|c| *c != '\n').is_some() {},
                '>' | '<' => {
                    // The number before it is a descriptor.
                    if let Some(before) = word.take().filter(|word| !word.chars().all(|c| c.is_ascii_digit())) {
                        words.push(before);
                    }
                    redirection.push(c);
                    while let Some(more) = chars.next_if(|c| "<>&".contains(*c)) {
                        redirection.push(more);
                    }
                }
                c if c.is_whitespace() || "|;&".contains(c) => {
                    if let Some(end) = word.take() {
                        match std::mem::take(&mut redirection).as_str() {
                            "" => words.push(end),
                            "<<" => self.here_document = Some(end),
                            _ => {}
                        }
                    }
                    if c == '\n' || "|;&".contains(c) {
                        commands.push(std::mem::take(&mut words));
                    }
                }
                other => word.get_or_insert_default().push(other),
            }
        }
        match (word, redirection.as_str()) {
            (Some(end), "") => words.push(end),
            (Some(end), "<<") => self.here_document = Some(end),
            _ => {}
        }
        commands.push(words);
        self.commands.extend(commands.into_iter().filter(|words| !words.is_empty()));
        true
    }
}
