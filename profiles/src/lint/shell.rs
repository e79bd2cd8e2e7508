//! Reads what a shell script sets, and for whom. It runs nothing: what would be expanded is no constant.
//!
//! [`lexer`] cuts the text into words; this module makes commands of them and follows `export`, conditions and launchers.

mod launch;
mod lexer;

use std::collections::BTreeSet;

use super::{
    Unrun,
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

/// A script followed to its end, and its here-documents.
fn follow(text: &str) -> (Reader, Vec<Document>) {
    let mut reader = Reader::default();
    let mut command: Vec<Word> = Vec::new();
    let mut lexer = Lexer::new(text);
    for token in lexer.by_ref() {
        match token {
            Token::Word(word) => command.push(word),
            // A line break after an operator ends nothing.
            Token::Operator("\n") if command.is_empty() => {}
            Token::Operator(operator) => {
                reader.command(&std::mem::take(&mut command));
                reader.operator(operator);
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
}

#[derive(Default)]
struct Reader {
    read: Read,
    /// Open conditions, the innermost last.
    open: Vec<Open>,
    unrun: Vec<Unrun>,
    branches: usize,
    /// Whether the next command is only run where the last one succeeded, or failed.
    is_conditional: bool,
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

    fn open(&mut self, what: Opened) {
        let branch = self.next_branch();
        self.open.push(Open { what, branch, never_since: None });
    }

    fn close(&mut self, what: Opened) {
        if self.open.last().is_some_and(|open| open.what == what) {
            self.open.pop();
        }
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

    fn operator(&mut self, operator: &str) {
        self.is_conditional = matches!(operator, "&&" | "||");
        match operator {
            "(" => self.open(Opened::Subshell),
            ")" => self.close(Opened::Subshell),
            ";;" => self.branch(),
            _ => {}
        }
    }

    fn command(&mut self, words: &[Word]) {
        let mut rest = words;
        while let Some((first, after)) = rest.split_first() {
            if matches!(first.plain(), "elif" | "else" | "fi" | "done") {
                self.end_of_false(first.line);
            }
            match first.plain() {
                "if" => self.open(Opened::Condition),
                "for" | "while" | "until" | "select" => self.open(Opened::Loop),
                "case" => self.open(Opened::Case),
                "{" => self.open(Opened::Group),
                "then" | "elif" | "else" => self.branch(),
                "fi" => self.close(Opened::Condition),
                "done" => self.close(Opened::Loop),
                "esac" => self.close(Opened::Case),
                "}" => self.close(Opened::Group),
                // Its name is not a command.
                "function" => {
                    rest = after.get(1..).unwrap_or_default();
                    continue;
                }
                "do" | "!" | "time" | "exec" | "sudo" | "env" | "command" => {}
                _ => break,
            }
            if matches!(first.plain(), "for" | "case" | "select") {
                return;
            }
            if let ("if" | "elif" | "while", [word], Some(open)) = (first.plain(), after, self.open.last_mut())
                && word.plain() == "false"
            {
                open.never_since = Some(word.line);
            }
            rest = after;
        }
        self.simple(rest);
    }

    /// A command with its assignments before it.
    fn simple(&mut self, words: &[Word]) {
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
        let Some((name, arguments)) = command.split_first() else { return };
        match name.base() {
            "export" => self.export(arguments),
            "declare" | "typeset" | "local" | "readonly" => self.declare(arguments),
            "setenv" => self.setenv(arguments),
            "set" => self.set(arguments),
            ":" => self.defaults(arguments),
            "exit" if self.open.is_empty() && !self.is_conditional => {
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
    }

    fn assign(&mut self, word: &Word, reach: Reach) {
        let Some((name, value)) = word.assignment() else { return };
        let block = self.block();
        let constant = Setting::exported(name, value, word.line);
        self.read.settings.push(Setting { is_constant: word.is_constant, reach, block, ..constant });
    }

    fn export(&mut self, arguments: &[Word]) {
        if arguments.first().is_some_and(|word| word.plain() == "-n") {
            return;
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

/// Names that are expanded somewhere: `$NAME` and `${NAME`.
fn used(text: &str) -> BTreeSet<&str> {
    let after = text.split('$').skip(1).map(|rest| rest.strip_prefix('{').unwrap_or(rest));
    after
        .map(|rest| &rest[..rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len())])
        .collect()
}
