//! Reads what a shell script sets, and for whom. It runs nothing: what would be expanded is no constant.
//!
//! [`lexer`] cuts the text into words; this module makes commands of them and follows `export`, conditions and launchers.

mod launch;
mod lexer;

use std::collections::BTreeSet;

use super::{
    Taken, Unrun, Which,
    file::{Noticed, Reach, Read, Setting},
};
use crate::grammar::is_variable_name;
use lexer::{Document, Lexer, Token};
pub(super) use lexer::{Word, words};

pub(super) fn read(text: &str) -> Read {
    follow(text).0.finish(text)
}

/// The lines that the shell never runs, by why.
pub(super) fn unrun(text: &str) -> Vec<Unrun> {
    let (reader, documents) = follow(text);
    let of_document = |Document { command, lines }: Document| {
        let why = format!("it is in the here-document of line {command}, which this script does not run");
        Unrun { lines, why }
    };
    reader.unrun.into_iter().chain(documents.into_iter().map(of_document)).collect()
}

/// The line of the last launcher, where it is above these lines and nothing below them starts a program.
pub(super) fn last_launch_above(text: &str, (first, last): (usize, usize)) -> Option<usize> {
    let (reader, _) = follow(text);
    let launch = reader.programs.iter().filter(|program| program.is_launcher).map(|program| program.line).max()?;
    // What is below a launcher in a loop is above it in the next round.
    let is_repeated = reader.loops.iter().any(|(from, to)| (*from..=*to).contains(&first));
    let is_last = launch < first && !reader.programs.iter().any(|program| last < program.line);
    (is_last && !is_repeated).then_some(launch)
}

/// A script followed to its end, and its here-documents.
fn follow(text: &str) -> (Reader, Vec<Document>) {
    let mut reader = Reader::default();
    let mut command: Vec<Word> = Vec::new();
    let mut lexer = Lexer::new(text);
    while let Some(token) = lexer.next() {
        match token {
            Token::Word(word) => command.push(word),
            // A line break after an operator ends nothing.
            Token::Operator("\n") if command.is_empty() => {}
            Token::Operator(operator) => {
                reader.is_aside |= matches!(operator, "|" | "&");
                reader.command(&std::mem::take(&mut command));
                reader.operator(operator, lexer.line());
            }
            Token::Comment { line, text } => {
                if let Some(options) = text.strip_prefix("#SBATCH") {
                    reader.sbatch(line, options);
                }
            }
        }
    }
    reader.command(&command);
    (reader, lexer.skipped().to_vec())
}

/// A place where only one branch, or nothing, is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Opened {
    Condition,
    Loop,
    Case,
    Group,
    Subshell,
}

/// What is open.
#[derive(Debug, Clone, Copy)]
struct Open {
    what: Opened,
    /// The number of the branch.
    branch: usize,
    /// The line of the `false` whose branch this is.
    never_since: Option<usize>,
    /// The line that it begins in.
    line: usize,
}

/// A command that starts something, unless it is one of those that nobody sets variables of jobs for.
#[derive(Debug, Clone, Copy)]
struct Program {
    line: usize,
    is_launcher: bool,
}

/// Commands that run nothing of NCCL's.
const QUIET: &[&str] = &[
    "[", "[[", "cat", "cd", "date", "echo", "exit", "false", "kill", "ls", "mkdir", "mv", "popd", "printf", "pushd",
    "return", "rm", "shift", "sleep", "tail", "test", "trap", "true", "unset", "wait",
];

#[derive(Default)]
struct Reader {
    read: Read,
    /// Open conditions, the innermost last.
    open: Vec<Open>,
    unrun: Vec<Unrun>,
    programs: Vec<Program>,
    /// First and last lines of loops.
    loops: Vec<(usize, usize)>,
    branches: usize,
    /// Whether the next command is only run where the last one succeeded, or failed.
    is_conditional: bool,
    /// Whether the next command is a part of a pipeline, or in the background: it ends no script.
    is_aside: bool,
    is_all_exported: bool,
    exported: BTreeSet<String>,
    launches: launch::Launches,
}

impl Reader {
    fn block(&mut self) -> usize {
        if self.is_conditional {
            return self.next_branch();
        }
        self.open.last().map_or(0, |open| open.branch)
    }

    fn next_branch(&mut self) -> usize {
        self.branches += 1;
        self.branches
    }

    fn open(&mut self, what: Opened, line: usize) {
        let branch = self.next_branch();
        self.open.push(Open { what, branch, never_since: None, line });
    }

    fn close(&mut self, what: Opened, line: usize) {
        let Some(open) = self.open.pop_if(|open| open.what == what) else { return };
        match what {
            Opened::Loop => self.loops.push((open.line, line)),
            // It has variables of its own, which end with it.
            Opened::Subshell => {
                let last = self.programs.iter().map(|program| program.line).max().unwrap_or(0).max(open.line);
                let why = format!("it is in a subshell, which ends in line {line} and starts no program before");
                if last < line {
                    self.unrun.push(Unrun { lines: (last + 1, line), why });
                }
            }
            Opened::Condition | Opened::Case | Opened::Group => {}
        }
    }

    /// Whether the command that is read now ends the script where it does so.
    fn ends_script(&self) -> bool {
        self.open.is_empty() && !self.is_conditional && !self.is_aside
    }

    /// The next branch of the innermost condition begins.
    fn branch(&mut self) {
        let branch = self.next_branch();
        if let Some(last) = self.open.last_mut() {
            last.branch = branch;
        }
    }

    /// The branch after a `false` ends.
    fn end_of_false(&mut self, line: usize) {
        if let Some(since) = self.open.last_mut().and_then(|open| open.never_since.take()) {
            let why = format!("it is in a branch that never runs, after the `false` of line {since}");
            self.unrun.push(Unrun { lines: (since, line), why });
        }
    }

    fn operator(&mut self, operator: &str, line: usize) {
        self.is_conditional = matches!(operator, "&&" | "||");
        self.is_aside = operator == "|";
        match operator {
            "(" => self.open(Opened::Subshell, line),
            ")" => self.close(Opened::Subshell, line),
            ";;" => self.branch(),
            _ => {}
        }
    }

    fn command(&mut self, words: &[Word]) {
        let mut rest = Some(words);
        while let Some(words) = rest {
            rest = self.part(words);
        }
    }

    /// A command up to one that it runs in its own place, which is left.
    fn part<'w>(&mut self, words: &'w [Word]) -> Option<&'w [Word]> {
        let mut rest = words;
        while let Some((first, after)) = rest.split_first() {
            if matches!(first.plain(), "elif" | "else" | "fi" | "done") {
                self.end_of_false(first.line);
            }
            match first.plain() {
                "if" => self.open(Opened::Condition, first.line),
                "for" | "while" | "until" | "select" => self.open(Opened::Loop, first.line),
                "case" => self.open(Opened::Case, first.line),
                "{" => self.open(Opened::Group, first.line),
                "then" | "elif" | "else" => self.branch(),
                "fi" => self.close(Opened::Condition, first.line),
                "done" => self.close(Opened::Loop, first.line),
                "esac" => self.close(Opened::Case, first.line),
                "}" => self.close(Opened::Group, first.line),
                // Its name is not a command.
                "function" => {
                    rest = after.get(1..).unwrap_or_default();
                    continue;
                }
                "env" => {
                    rest = launch::env(&mut self.read, after);
                    continue;
                }
                "exec" => self.exec(first, after),
                "do" | "!" | "time" | "sudo" | "command" => {}
                _ => break,
            }
            if matches!(first.plain(), "for" | "case" | "select") {
                return None;
            }
            if let ("if" | "elif" | "while", [word], Some(open)) = (first.plain(), after, self.open.last_mut())
                && word.plain() == "false"
            {
                open.never_since = Some(word.line);
            }
            rest = after;
        }
        self.simple(rest)
    }

    /// A command with its assignments before it; what it runs in its own place is left.
    fn simple<'w>(&mut self, words: &'w [Word]) -> Option<&'w [Word]> {
        let count = words.iter().take_while(|word| word.assignment().is_some()).count();
        let (assignments, command) = words.split_at(count);
        let reach = match (command.is_empty(), self.is_all_exported) {
            (false, _) => Reach::Command(words[0].line),
            (true, true) => Reach::Exported,
            (true, false) => Reach::Assigned,
        };
        for word in assignments {
            self.assign(word, reach);
        }
        if let Some(wrapped) = launch::wrapped(command) {
            return Some(wrapped);
        }
        let (name, arguments) = command.split_first()?;
        if !QUIET.contains(&name.base()) && !is_declaration(name.base()) {
            self.programs.push(Program { line: name.line, is_launcher: launch::is_launcher(name.base()) });
        }
        match name.base() {
            "export" => self.export(arguments),
            "declare" | "typeset" | "local" | "readonly" => self.declare(arguments),
            "setenv" => self.setenv(arguments),
            "set" => self.set(arguments),
            ":" => self.defaults(arguments),
            "unset" => self.unset(arguments),
            "exec" => self.exec(name, arguments),
            "exit" if self.ends_script() => {
                let why = format!("it is below the `exit` of line {}, which ends the script", name.line);
                self.unrun.push(Unrun { lines: (name.line, usize::MAX), why });
            }
            program => {
                let block = self.block();
                // Options without a program are the members of an array.
                let options = if program.starts_with('-') { command } else { arguments };
                launch::read(&mut self.read, &mut self.launches, program, options, block);
            }
        }
        None
    }

    fn assign(&mut self, word: &Word, reach: Reach) {
        let Some((name, value)) = word.assignment() else { return };
        let block = self.block();
        let constant = Setting::exported(name, value, word.line);
        self.read.settings.push(Setting { is_constant: word.is_constant, reach, block, ..constant });
    }

    /// `exec` with a program, which takes the place of the shell; without, it redirects.
    fn exec(&mut self, exec: &Word, arguments: &[Word]) {
        let mut words = arguments.iter().filter(|word| !word.is_redirection && !word.text.starts_with('-'));
        if words.next().is_some() && self.ends_script() {
            let why = format!("it is below the `exec` of line {}, which ends the script", exec.line);
            self.unrun.push(Unrun { lines: (exec.line, usize::MAX), why });
        }
    }

    /// `unset NAME` and `unset ${!PREFIX*}`.
    fn unset(&mut self, arguments: &[Word]) {
        let is_of_others = |word: &Word| word.text.starts_with('-') && word.text.contains(['f', 'n']);
        if !arguments.iter().any(is_of_others) {
            self.take(arguments);
        }
    }

    /// What every program started after it does without.
    fn take(&mut self, words: &[Word]) {
        for word in words {
            let prefix =
                word.text.strip_prefix("${!").and_then(|rest| rest.strip_suffix("*}").or(rest.strip_suffix("@}")));
            let which = match prefix {
                Some(prefix) => Which::Prefix(prefix.to_owned()),
                None if is_variable_name(&word.text) => Which::Name(word.text.clone()),
                None => continue,
            };
            self.read.taken.push(Taken { line: word.line, is_for_command: false, which });
        }
    }

    fn export(&mut self, arguments: &[Word]) {
        if arguments.first().is_some_and(|word| word.plain() == "-n") {
            return self.take(arguments);
        }
        if let [name, equals, ..] = arguments
            && (equals.text.starts_with('=') || name.text.ends_with('=') && !name.text.starts_with('-'))
        {
            let about = name.text.trim_end_matches('=').escape_debug().to_string();
            if is_variable_name(&about) && !equals.text.contains("NCCL_") {
                self.read.remark(name.line, Noticed::BlankAtEquals, about);
            }
        }
        for word in arguments {
            match word.assignment() {
                Some((name, _)) => {
                    self.exported.insert(name.to_owned());
                    self.assign(word, Reach::Exported);
                }
                None => {
                    self.exported.insert(word.text.clone());
                }
            }
        }
    }

    fn declare(&mut self, arguments: &[Word]) {
        let options = arguments.iter().take_while(|word| word.text.starts_with('-'));
        let is_exported = options.clone().any(|word| word.text.contains('x'));
        let rest = &arguments[options.count()..];
        if is_exported {
            return self.export(rest);
        }
        for word in rest {
            self.assign(word, if self.is_all_exported { Reach::Exported } else { Reach::Assigned });
        }
    }

    /// `setenv NAME VALUE` of csh and of environment modules.
    fn setenv(&mut self, arguments: &[Word]) {
        if let [name, value] = arguments {
            let block = self.block();
            let constant = Setting::exported(&name.text, &value.text, name.line);
            self.read.settings.push(Setting { is_constant: value.is_constant, block, ..constant });
        }
    }

    fn set(&mut self, arguments: &[Word]) {
        let texts: Vec<&str> = arguments.iter().map(|word| word.text.as_str()).collect();
        let is_all = |text: &str, sign| text.starts_with(sign) && !text.starts_with("--") && text.contains('a');
        match texts.as_slice() {
            ["-o", "allexport", ..] => self.is_all_exported = true,
            ["+o", "allexport", ..] => self.is_all_exported = false,
            [first, ..] if is_all(first, '-') => self.is_all_exported = true,
            [first, ..] if is_all(first, '+') => self.is_all_exported = false,
            _ => {}
        }
    }

    /// `: "${NAME:=value}"`
    fn defaults(&mut self, arguments: &[Word]) {
        for word in arguments {
            let raw = word.raw.trim_matches('"');
            let inner = raw.strip_prefix("${").and_then(|rest| rest.strip_suffix('}'));
            let Some((name, value)) = inner.and_then(|inner| inner.split_once('=')) else { continue };
            let name = name.trim_end_matches(':');
            if is_variable_name(name) {
                let block = self.block();
                let constant = Setting::exported(name, value, word.line);
                let is_constant = !value.contains(['$', '`', '"', '\'', '\\']);
                self.read.settings.push(Setting { is_constant, reach: Reach::Kept, block, ..constant });
            }
        }
    }

    fn sbatch(&mut self, line: usize, options: &str) {
        let mut found = words(options);
        for word in &mut found {
            word.line = line;
        }
        launch::read(&mut self.read, &mut self.launches, "sbatch", &found, 0);
    }

    /// What only the whole script tells: variables that are never exported.
    fn finish(mut self, text: &str) -> Read {
        let used = used(text);
        let mut remarks = Vec::new();
        for setting in &mut self.read.settings {
            if !matches!(setting.reach, Reach::Assigned | Reach::Kept) {
                continue;
            }
            let is_exported = self.exported.contains(&setting.name) || self.is_all_exported;
            let is_passed = self.launches.names(&setting.name);
            if is_exported {
                if setting.reach == Reach::Assigned {
                    setting.reach = Reach::Exported;
                }
            } else if !is_passed && (setting.reach == Reach::Kept || !used.contains(setting.name.as_str())) {
                remarks.push((setting.line, setting.name.clone()));
            }
        }
        for (line, name) in remarks {
            self.read.remark(line, Noticed::NotExported, name);
        }
        self.launches.judge(&mut self.read);
        let ours = |name: &str| super::names::is_read(name);
        self.read.remarks.retain(|remark| match remark.what {
            Noticed::NotExported | Noticed::BlankAtEquals => ours(&remark.about),
            _ => true,
        });
        self.read
    }
}

fn is_declaration(command: &str) -> bool {
    matches!(command, "export" | "declare" | "typeset" | "local" | "readonly" | "setenv" | "set" | ":")
}

/// Names that are expanded somewhere: `$NAME` and `${NAME`.
fn used(text: &str) -> BTreeSet<&str> {
    let after = text.split('$').skip(1).map(|rest| rest.strip_prefix('{').unwrap_or(rest));
    after
        .map(|rest| &rest[..rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len())])
        .collect()
}
