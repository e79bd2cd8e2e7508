//! Cuts a script into words, operators and comments, as POSIX.1-2017, Shell Command Language, 2.3 "Token Recognition", says.
//! Here-documents are skipped.

use crate::grammar::is_variable_name;

/// A word of a command.
#[derive(Debug, Clone)]
pub(in crate::lint) struct Word {
    /// The text without quotes.
    pub(in crate::lint) text: String,
    /// The text as it is written.
    pub(in crate::lint) raw: String,
    /// Whether nothing in it is expanded.
    pub(in crate::lint) is_constant: bool,
    /// Whether it is a part of a redirection: where to, or the number of what is redirected.
    pub(in crate::lint) is_redirection: bool,
    /// The line that it begins in, counted from 1.
    pub(in crate::lint) line: usize,
}

impl Word {
    /// The text, where the shell may take it for a keyword; else nothing.
    pub(super) fn plain(&self) -> &str {
        if self.text == self.raw { &self.text } else { "" }
    }

    /// The name of a program without its folder.
    pub(super) fn base(&self) -> &str {
        self.text.rsplit('/').next().unwrap_or_default()
    }

    /// Name and value of `NAME=VALUE` or `NAME+=VALUE`, whose name must not be quoted.
    pub(super) fn assignment(&self) -> Option<(&str, &str)> {
        let (name, value) = self.text.split_once('=')?;
        let name = name.strip_suffix('+').unwrap_or(name);
        (is_variable_name(name) && self.raw.starts_with(name)).then_some((name, value))
    }
}

/// A part of a script.
#[derive(Debug, Clone)]
pub(super) enum Token<'a> {
    Word(Word),
    Operator(&'a str),
    Comment { line: usize, text: &'a str },
}

/// The words of one command.
pub(in crate::lint) fn words(text: &str) -> Vec<Word> {
    let words = Lexer::new(text).filter_map(|token| match token {
        Token::Word(word) => Some(word),
        _ => None,
    });
    words.collect()
}

pub(super) struct Lexer<'a> {
    text: &'a str,
    at: usize,
    line: usize,
    /// Here-documents that begin after this line: their ends, whether tabs before the end are dropped, and the line that asks for it.
    documents: Vec<(String, bool, usize)>,
    /// Whether the next word ends a here-document, and whether tabs are dropped there.
    document_next: Option<bool>,
    /// Whether the next word is where something is redirected to.
    target_next: bool,
    skipped: Vec<Document>,
}

/// A here-document that ends.
#[derive(Debug, Clone, Copy)]
pub(super) struct Document {
    /// The line of the command that it is for.
    pub(super) command: usize,
    /// First and last line, without the word that ends it.
    pub(super) lines: (usize, usize),
}

/// Longest first.
const OPERATORS: &[&str] = &[
    "<<<", "<<-", ";;&", "&>>", "<<", "&&", "||", ";;", ";&", ">>", "<&", ">&", "&>", "<>", ">|", ";", "&", "|", "(",
    ")", "<", ">",
];

impl<'a> Lexer<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self {
            text,
            at: 0,
            line: 1,
            documents: Vec::new(),
            document_next: None,
            target_next: false,
            skipped: Vec::new(),
        }
    }

    /// The here-documents so far that end.
    pub(super) fn skipped(&self) -> &[Document] {
        &self.skipped
    }

    /// The line of what comes next, counted from 1.
    pub(super) fn line(&self) -> usize {
        self.line
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn advance(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += c.len_utf8();
        self.line += usize::from(c == '\n');
        Some(c)
    }

    /// The text up to the end of the line.
    fn take_line(&mut self) -> &'a str {
        let line = self.rest().split('\n').next().unwrap_or_default();
        self.at += line.len();
        line
    }

    fn skip_documents(&mut self) {
        for (end, drops_tabs, command) in std::mem::take(&mut self.documents) {
            let first = self.line;
            while !self.rest().is_empty() {
                let number = self.line;
                let line = self.take_line();
                self.advance();
                let line = line.strip_suffix('\r').unwrap_or(line);
                if (if drops_tabs { line.trim_start_matches('\t') } else { line }) == end {
                    self.skipped.push(Document { command, lines: (first, number - 1) });
                    break;
                }
            }
        }
    }

    fn word(&mut self) -> Word {
        let (start, line) = (self.at, self.line);
        let (mut text, mut is_constant) = (String::new(), true);
        while let Some(c) = self.peek() {
            match c {
                '\'' => {
                    self.advance();
                    self.until('\'', &mut text);
                }
                '"' => {
                    self.advance();
                    self.double_quoted(&mut text, &mut is_constant);
                }
                '\\' => {
                    self.advance();
                    match self.advance() {
                        Some('\n') | None => {}
                        Some(c) => text.push(c),
                    }
                }
                '$' | '`' => {
                    is_constant = false;
                    self.expansion(&mut text);
                }
                ' ' | '\t' | '\n' | '\r' | ';' | '&' | '|' | '(' | ')' | '<' | '>' => break,
                _ => text.extend(self.advance()),
            }
        }
        // A tilde is expanded at the beginning of an unquoted value only; it is kept, as nobody's value depends on it here.
        let raw = self.text[start..self.at].to_owned();
        // `2>` and `{log}>`; POSIX.1-2017, Shell Command Language, 2.7, and bash(1), "REDIRECTION".
        let is_number = raw.bytes().all(|b| b.is_ascii_digit()) || raw.starts_with('{') && raw.ends_with('}');
        let is_redirection = std::mem::take(&mut self.target_next) || is_number && self.rest().starts_with(['<', '>']);
        Word { text, raw, is_constant, is_redirection, line }
    }

    fn until(&mut self, end: char, text: &mut String) {
        while let Some(c) = self.advance() {
            if c == end {
                return;
            }
            text.push(c);
        }
    }

    fn double_quoted(&mut self, text: &mut String, is_constant: &mut bool) {
        while let Some(c) = self.peek() {
            match c {
                '"' => {
                    self.advance();
                    return;
                }
                '\\' => {
                    self.advance();
                    match self.advance() {
                        Some('\n') | None => {}
                        Some(c) => {
                            if !matches!(c, '$' | '`' | '"' | '\\') {
                                text.push('\\');
                            }
                            text.push(c);
                        }
                    }
                }
                '$' | '`' => {
                    *is_constant = false;
                    self.expansion(text);
                }
                _ => text.extend(self.advance()),
            }
        }
    }

    /// Takes `$NAME`, `${...}`, `$(...)` or a backquoted command as it is written.
    fn expansion(&mut self, text: &mut String) {
        let start = self.at;
        if self.advance() == Some('`') {
            while let Some(c) = self.advance() {
                match c {
                    '\\' => drop(self.advance()),
                    '`' => break,
                    _ => {}
                }
            }
        } else {
            match self.peek() {
                Some('(') => self.balanced('(', ')'),
                Some('{') => self.balanced('{', '}'),
                _ => {}
            }
        }
        text.push_str(&self.text[start..self.at]);
    }

    /// Skips to the bracket that closes the next one; quoted ones do not count.
    fn balanced(&mut self, open: char, close: char) {
        let mut depth = 0_usize;
        while let Some(c) = self.advance() {
            match c {
                '\\' => drop(self.advance()),
                '\'' => self.until('\'', &mut String::new()),
                c if c == open => depth += 1,
                c if c == close => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return;
            }
        }
    }

    /// Skips `((...))`, whose `<<` begins no here-document.
    fn skip_arithmetic(&mut self) -> bool {
        if !self.rest().starts_with("((") {
            return false;
        }
        let begin = (self.at, self.line);
        self.balanced('(', ')');
        let is_arithmetic = self.text[begin.0..self.at].ends_with("))");
        if !is_arithmetic {
            // A subshell in a subshell.
            (self.at, self.line) = begin;
        }
        is_arithmetic
    }

    /// Takes an operator that redirects along with nothing: its word follows as a word of the command, but for a here-document.
    fn operator(&mut self) -> Option<&'a str> {
        let rest = self.rest();
        let found = OPERATORS.iter().find(|operator| rest.starts_with(**operator))?;
        let operator = &rest[..found.len()];
        self.at += operator.len();
        Some(operator)
    }
}

impl<'a> Iterator for Lexer<'a> {
    type Item = Token<'a>;

    fn next(&mut self) -> Option<Token<'a>> {
        loop {
            match self.peek()? {
                ' ' | '\t' | '\r' => drop(self.advance()),
                '\\' if self.rest().starts_with("\\\n") => {
                    self.advance();
                    self.advance();
                }
                '\n' => {
                    self.advance();
                    self.document_next = None;
                    self.target_next = false;
                    self.skip_documents();
                    return Some(Token::Operator("\n"));
                }
                '#' => {
                    let line = self.line;
                    return Some(Token::Comment { line, text: self.take_line() });
                }
                _ => {}
            }
            if self
                .peek()
                .is_none_or(|c| matches!(c, ' ' | '\t' | '\r' | '\n' | '#') || self.rest().starts_with("\\\n"))
            {
                continue;
            }
            if self.skip_arithmetic() {
                continue;
            }
            if let Some(operator) = self.operator() {
                match operator {
                    "<<" | "<<-" => self.document_next = Some(operator == "<<-"),
                    "<" | ">" | ">>" | "<&" | ">&" | "&>" | "&>>" | "<>" | ">|" | "<<<" => self.target_next = true,
                    _ => {
                        self.target_next = false;
                        return Some(Token::Operator(operator));
                    }
                }
                continue;
            }
            let word = self.word();
            if let Some(drops_tabs) = self.document_next.take() {
                self.documents.push((word.text, drops_tabs, word.line));
                continue;
            }
            return Some(Token::Word(word));
        }
    }
}
