//! The part of YAML that we write: documents of block mappings and block sequences with scalars on one line, and literal blocks.
//!
//! Source: YAML 1.2.2. The reader takes nothing whose meaning depends on a schema or on the reader's version: scalars are
//! double-quoted, or plain words that no schema takes for a number, a truth value or nothing.

/// A value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Yaml {
    /// A mapping, in the order of the text.
    Map(Vec<(String, Yaml)>),
    /// A sequence.
    List(Vec<Yaml>),
    /// A text.
    Text(String),
    /// `true` or `false`.
    Flag(bool),
}

impl Yaml {
    /// The value under a key of a mapping.
    pub fn get(&self, key: &str) -> Option<&Self> {
        let Self::Map(entries) = self else { return None };
        entries.iter().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    /// The value that a path of keys and indices leads to.
    pub fn at(&self, path: &str) -> Option<&Self> {
        path.split('/').try_fold(self, |value, step| match value {
            Self::List(items) => items.get(step.parse::<usize>().ok()?),
            other => other.get(step),
        })
    }

    /// The text, where it is one.
    pub fn text(&self) -> Option<&str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }
}

/// A text that is not of this part.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {cause}")]
pub struct YamlError {
    /// The line, counted from 1.
    pub line: usize,
    /// What is wrong.
    pub cause: &'static str,
}

/// `text` as a double-quoted scalar.
pub fn quote(text: &str) -> String {
    let mut scalar = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => scalar.extend(['\\', c]),
            // What YAML calls not printable, and what some readers take for line breaks.
            c if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}') => {
                scalar.extend(format!("\\u{:04X}", u32::from(c)).chars());
            }
            c => scalar.push(c),
        }
    }
    scalar.push('"');
    scalar
}

/// Reads every document of a text.
///
/// # Errors
/// [`YamlError`] names the first line that is not of the part of YAML that is read here.
pub fn parse(text: &str) -> Result<Vec<Yaml>, YamlError> {
    let mut documents = Vec::new();
    let mut lines = Vec::new();
    for (idx, line) in text.lines().enumerate() {
        if line == "---" {
            documents.extend(document(&lines)?);
            lines.clear();
        } else {
            lines.push((idx + 1, line));
        }
    }
    documents.extend(document(&lines)?);
    Ok(documents)
}

fn document(lines: &[(usize, &str)]) -> Result<Option<Yaml>, YamlError> {
    let mut reader = Reader { lines, at: 0 };
    let Some((indent, _, _)) = reader.peek() else { return Ok(None) };
    let value = reader.block(indent)?;
    match reader.peek() {
        None => Ok(Some(value)),
        Some((_, line, _)) => Err(YamlError { line, cause: "the indentation fits no block" }),
    }
}

struct Reader<'a> {
    lines: &'a [(usize, &'a str)],
    at: usize,
}

impl<'a> Reader<'a> {
    /// Indentation, number and text of the next line that is neither blank nor a comment.
    fn peek(&mut self) -> Option<(usize, usize, &'a str)> {
        while let Some((number, line)) = self.lines.get(self.at) {
            let text = line.trim_start_matches(' ');
            if !text.is_empty() && !text.starts_with('#') {
                return Some((line.len() - text.len(), *number, text));
            }
            self.at += 1;
        }
        None
    }

    fn block(&mut self, indent: usize) -> Result<Yaml, YamlError> {
        match self.peek() {
            Some((_, _, text)) if text.starts_with("- ") => self.list(indent),
            _ => self.map(indent),
        }
    }

    fn list(&mut self, indent: usize) -> Result<Yaml, YamlError> {
        let mut items = Vec::new();
        while let Some((here, line, text)) = self.peek() {
            if here != indent {
                break;
            }
            let rest = text.strip_prefix("- ").ok_or(YamlError { line, cause: "an item begins with `- `" })?;
            // The item's mapping goes on where its first key stands.
            items.push(if rest.contains(": ") || rest.ends_with(':') {
                self.entries(indent + 2, Some(rest))?
            } else {
                self.at += 1;
                scalar(rest, line)?
            });
        }
        Ok(Yaml::List(items))
    }

    fn map(&mut self, indent: usize) -> Result<Yaml, YamlError> {
        self.entries(indent, None)
    }

    /// The entries of a mapping; `first` is the text of the first one where an item's mark stands before it.
    fn entries(&mut self, indent: usize, mut first: Option<&'a str>) -> Result<Yaml, YamlError> {
        let mut entries: Vec<(String, Yaml)> = Vec::new();
        while let Some((here, line, text)) = self.peek() {
            let text = match first.take() {
                Some(first) => first,
                None if here == indent && !text.starts_with("- ") => text,
                None => break,
            };
            let error = |cause| YamlError { line, cause };
            let (key, rest) = text.split_once(':').ok_or(error("a key ends with `:`"))?;
            let Yaml::Text(key) = scalar(key, line)? else { return Err(error("a key is a text")) };
            if entries.iter().any(|(name, _)| *name == key) {
                return Err(error("a key is there twice"));
            }
            self.at += 1;
            let value = match rest {
                "" => match self.peek() {
                    Some((deeper, _, _)) if indent < deeper => self.block(deeper)?,
                    _ => return Err(error("a key has no value")),
                },
                " |" => Yaml::Text(self.literal(indent)?),
                " {}" => Yaml::Map(Vec::new()),
                rest => {
                    let rest = rest.strip_prefix(' ').ok_or(error("a blank follows `:`"))?;
                    scalar(rest, line)?
                }
            };
            entries.push((key, value));
        }
        Ok(Yaml::Map(entries))
    }

    /// The lines of a literal block, which are deeper than its key.
    fn literal(&mut self, indent: usize) -> Result<String, YamlError> {
        let mut text = String::new();
        let mut depth = None;
        while let Some((number, line)) = self.lines.get(self.at) {
            let bare = line.trim_start_matches(' ');
            if !bare.is_empty() && line.len() - bare.len() <= indent {
                break;
            }
            if !bare.is_empty() {
                let depth = *depth.get_or_insert(line.len() - bare.len());
                let cause = "a line of a literal block is less indented than its first";
                text.push_str(line.get(depth..).ok_or(YamlError { line: *number, cause })?);
            }
            text.push('\n');
            self.at += 1;
        }
        // Of the line breaks at the end, one is kept.
        text.truncate(text.trim_end_matches('\n').len());
        text.push('\n');
        Ok(text)
    }
}

fn scalar(text: &str, line: usize) -> Result<Yaml, YamlError> {
    let error = |cause| YamlError { line, cause };
    if let Some(rest) = text.strip_prefix('"') {
        let inner = rest.strip_suffix('"').ok_or(error("a quoted text ends within the line"))?;
        return quoted(inner).map(Yaml::Text).ok_or(error("a quoted text has an escape that is not read here"));
    }
    match text {
        "true" => return Ok(Yaml::Flag(true)),
        "false" => return Ok(Yaml::Flag(false)),
        _ => {}
    }
    let is_word = |text: &str| text.bytes().all(|b| b.is_ascii_alphanumeric() || b"_./-".contains(&b));
    let is_read_differently = text.parse::<f64>().is_ok()
        || ["null", "yes", "no", "on", "off", "y", "n", "~"].contains(&text.to_ascii_lowercase().as_str());
    if !is_word(text) || text.starts_with(['-', '.']) || text.is_empty() || is_read_differently {
        return Err(error("a text that is no plain word must be quoted"));
    }
    Ok(Yaml::Text(text.to_owned()))
}

fn quoted(inner: &str) -> Option<String> {
    let mut text = String::new();
    let mut chars = inner.chars();
    while let Some(c) = chars.next() {
        match c {
            '"' => return None,
            '\\' => match chars.next()? {
                c @ ('"' | '\\') => text.push(c),
                'u' => {
                    let digits: String = chars.by_ref().take(4).collect();
                    text.push(char::from_u32(u32::from_str_radix(&digits, 16).ok()?)?);
                }
                _ => return None,
            },
            c => text.push(c),
        }
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn blocks_are_read_by_their_indentation() {
        let text = "# c\nkind: ConfigMap\nmetadata:\n  name: x-y\ndata:\n  A: \"1\"\n  f.csv: |\n    # c\n    a,b\n\n    c\n---\n\
                    spec:\n  list:\n    - name: \"main\"\n      env:\n        - name: B\n          value: /p\n      only: true\n    - name: z\n  none: {}\n";
        let documents = parse(text).unwrap();
        assert_eq!(documents.len(), 2);
        let at = |document: usize, path: &str| documents[document].at(path).cloned();
        let text = |text: &str| Some(Yaml::Text(text.to_owned()));
        assert_eq!(at(0, "metadata/name"), text("x-y"));
        assert_eq!(at(0, "data/A"), text("1"));
        assert_eq!(at(0, "data/f.csv"), text("# c\na,b\n\nc\n"));
        assert_eq!(at(1, "spec/list/0/env/0/value"), text("/p"));
        assert_eq!(at(1, "spec/list/0/only"), Some(Yaml::Flag(true)));
        assert_eq!(at(1, "spec/list/1/name"), text("z"));
        assert_eq!(at(1, "spec/none"), Some(Yaml::Map(vec![])));
        assert_eq!(at(1, "spec/list/2"), None);
    }

    #[test]
    fn what_readers_read_differently_is_refused_with_its_line() {
        for (text, message) in [
            ("a: 1", "line 1: a text that is no plain word must be quoted"),
            ("\na: yes", "line 2: a text that is no plain word must be quoted"),
            ("a: =x", "line 1: a text that is no plain word must be quoted"),
            ("a: x # c", "line 1: a text that is no plain word must be quoted"),
            ("a: \"x", "line 1: a quoted text ends within the line"),
            ("a: \"\\x41\"", "line 1: a quoted text has an escape that is not read here"),
            ("a:\nb: x", "line 1: a key has no value"),
            ("a: x\na: y", "line 2: a key is there twice"),
            ("a: x\n  b: y", "line 2: the indentation fits no block"),
            ("a", "line 1: a key ends with `:`"),
        ] {
            assert_eq!(parse(text).unwrap_err().to_string(), message, "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_quoted_is_read_back(value in "\\PC{0,20}|(?s).{0,20}") {
            let documents = parse(&format!("data:\n  A: {}\n  B: x\n", quote(&value))).unwrap();
            prop_assert_eq!(documents[0].at("data/A").and_then(Yaml::text), Some(value.as_str()));
            prop_assert_eq!(documents[0].at("data/B").and_then(Yaml::text), Some("x"));
        }

        #[test]
        fn any_text_is_read_or_refused(text in "(?s).{0,60}|(a:|- |  |\n|\"|[x1|]){0,16}") {
            drop(parse(&text));
        }
    }
}
