//! As much XML as NCCL's topology files have: elements with attributes, comments, a declaration. No entities, no text, no
//! name spaces.
//!
//! Source: NCCL `src/graph/xml.cc` (`xmlGetToken`, `xmlGetValue`), which reads values in double quotes only.

use crate::diagnostic::Diagnostic;

/// Most elements of a file. NCCL itself takes 1,024 (`src/graph/xml.h`, `MAX_NODES`).
const MOST_ELEMENTS: usize = 1 << 12;

/// An element. Parents come before their children.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Element<'t> {
    pub(super) name: &'t str,
    /// Where it begins, counted from 1.
    pub(super) line: usize,
    /// Position of its parent; `None` at the top.
    pub(super) parent: Option<usize>,
    attributes: Vec<(&'t str, &'t str)>,
}

impl<'t> Element<'t> {
    /// The value of an attribute.
    pub(super) fn get(&self, name: &str) -> Option<&'t str> {
        self.attributes.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
    }
}

/// Reads all elements. The second part is what is odd: ends that are missing or too many.
///
/// # Errors
/// A tag that does not end, or is none.
pub(super) fn parse<'t>(text: &'t str, file: &str) -> Result<(Vec<Element<'t>>, Vec<Diagnostic>), Diagnostic> {
    let mut reader = Reader { rest: text, line: 1, file };
    let (mut elements, mut open, mut odd): (Vec<Element<'t>>, Vec<usize>, Vec<Diagnostic>) = Default::default();
    while let Some(tag) = reader.next_tag()? {
        match tag {
            Tag::Start { name, line, attributes, is_empty } => {
                if elements.len() == MOST_ELEMENTS {
                    return Err(Diagnostic::error(file, line, format!("more than {MOST_ELEMENTS} elements")));
                }
                elements.push(Element { name, line, parent: open.last().copied(), attributes });
                if !is_empty {
                    open.push(elements.len() - 1);
                }
            }
            Tag::End { name, line } => match open.iter().rposition(|at| elements[*at].name == name) {
                None => {
                    let why = format!("</{}> closes what is not open", name.escape_debug());
                    odd.push(Diagnostic::warning(file, line, why));
                }
                Some(depth) => {
                    odd.extend(open.drain(depth..).skip(1).map(|at| unclosed(file, &elements[at])));
                }
            },
        }
    }
    odd.extend(open.into_iter().map(|at| unclosed(file, &elements[at])));
    Ok((elements, odd))
}

fn unclosed(file: &str, element: &Element<'_>) -> Diagnostic {
    let name = element.name.escape_debug();
    Diagnostic::warning(file, element.line, format!("<{name}> is not closed: was the file cut off?"))
}

enum Tag<'t> {
    Start { name: &'t str, line: usize, attributes: Vec<(&'t str, &'t str)>, is_empty: bool },
    End { name: &'t str, line: usize },
}

struct Reader<'t, 'f> {
    rest: &'t str,
    line: usize,
    file: &'f str,
}

impl<'t> Reader<'t, '_> {
    /// Goes on by `bytes`, which end at a character's end; returns what was passed.
    fn take(&mut self, bytes: usize) -> &'t str {
        let (taken, rest) = self.rest.split_at(bytes);
        self.line += taken.matches('\n').count();
        self.rest = rest;
        taken
    }

    fn error(&self, why: impl Into<String>) -> Diagnostic {
        Diagnostic::error(self.file, self.line, why)
    }

    /// Goes past `end`; returns what is before it.
    fn past(&mut self, end: &str, what: &str) -> Result<&'t str, Diagnostic> {
        let found =
            self.rest.find(end).ok_or_else(|| self.error(format!("{what} does not end: `{end}` is missing")))?;
        let before = self.take(found);
        self.take(end.len());
        Ok(before)
    }

    fn skip_blanks(&mut self) {
        let blanks = self.rest.len() - self.rest.trim_start().len();
        self.take(blanks);
    }

    /// The next tag, past text, comments and declarations.
    fn next_tag(&mut self) -> Result<Option<Tag<'t>>, Diagnostic> {
        loop {
            let Some(begin) = self.rest.find('<') else { return Ok(None) };
            self.take(begin + 1);
            if self.rest.starts_with("!--") {
                self.past("-->", "a comment")?;
            } else if self.rest.starts_with('?') {
                self.past("?>", "a declaration")?;
            } else if self.rest.starts_with('!') {
                self.past(">", "a declaration")?;
            } else if self.rest.starts_with('/') {
                let line = self.line;
                self.take(1);
                let name = self.past(">", "a tag")?.trim();
                return Ok(Some(Tag::End { name, line }));
            } else {
                return self.start_tag().map(Some);
            }
        }
    }

    fn name(&mut self, what: &str) -> Result<&'t str, Diagnostic> {
        let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | ':');
        let end = self.rest.find(|c| !is_name(c)).unwrap_or(self.rest.len());
        if end == 0 {
            let next = self.rest.chars().next().map_or("the end".to_owned(), |c| format!("`{}`", c.escape_debug()));
            return Err(self.error(format!("{what} is expected, and here is {next}")));
        }
        Ok(self.take(end))
    }

    fn start_tag(&mut self) -> Result<Tag<'t>, Diagnostic> {
        let line = self.line;
        let name = self.name("the name of an element")?;
        let mut attributes = Vec::new();
        loop {
            self.skip_blanks();
            let is_empty = self.rest.starts_with("/>");
            if is_empty || self.rest.starts_with('>') {
                self.take(if is_empty { 2 } else { 1 });
                return Ok(Tag::Start { name, line, attributes, is_empty });
            }
            let attribute = self.name("an attribute or `>`")?;
            self.skip_blanks();
            if !self.rest.starts_with('=') {
                return Err(self.error(format!("attribute {attribute} has no value: write {attribute}=\"...\"")));
            }
            self.take(1);
            self.skip_blanks();
            let quote = if self.rest.starts_with('\'') { "'" } else { "\"" };
            if !self.rest.starts_with(quote) {
                return Err(self.error(format!("the value of {attribute} is not in quotes: write {attribute}=\"...\"")));
            }
            self.take(1);
            attributes.push((attribute, self.past(quote, &format!("the value of {attribute}"))?));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_know_their_parents_and_lines() {
        let text =
            "<?xml version=\"1.0\"?>\n<!-- <no/> -->\n<a x=\"1\"\n   y = ' 2>'>\n<b/>text<c z=\"\"></c>\n</a>\n<d/>";
        let (elements, odd) = parse(text, "f").unwrap();
        let shown: Vec<_> = elements.iter().map(|e| (e.name, e.line, e.parent)).collect();
        assert_eq!(shown, [("a", 3, None), ("b", 5, Some(0)), ("c", 5, Some(0)), ("d", 7, None)]);
        assert_eq!((elements[0].get("y"), elements[2].get("z"), elements[1].get("z")), (Some(" 2>"), Some(""), None));
        assert_eq!(odd, []);
    }

    #[test]
    fn what_is_not_whole_is_said_with_its_line() {
        let (elements, odd) = parse("<a>\n<b>\n<c>\n</b></d>", "f").unwrap();
        assert_eq!(elements.len(), 3);
        let odd: Vec<String> = odd.iter().map(ToString::to_string).collect();
        assert_eq!(
            odd,
            [
                "f:3: warning: <c> is not closed: was the file cut off?",
                "f:4: warning: </d> closes what is not open",
                "f:1: warning: <a> is not closed: was the file cut off?",
            ]
        );
        for (text, message) in [
            ("<a>\n<b x>", "f:2: attribute x has no value: write x=\"...\""),
            ("<a x=1>", "f:1: the value of x is not in quotes: write x=\"...\""),
            ("<a x=\"1>", "f:1: the value of x does not end: `\"` is missing"),
            ("<a\n", "f:2: an attribute or `>` is expected, and here is the end"),
            ("<>", "f:1: the name of an element is expected, and here is `>`"),
            ("<!-- ", "f:1: a comment does not end: `-->` is missing"),
            ("</a", "f:1: a tag does not end: `>` is missing"),
        ] {
            assert_eq!(parse(text, "f").unwrap_err().to_string(), message);
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_taken_or_refused(text in "[<>/=\"'a-c !?\\-\\n\u{e9}]{0,60}|\\PC{0,60}") {
            drop(parse(&text, "f"));
        }
    }
}
