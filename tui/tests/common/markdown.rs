//! Code blocks of the manual's Markdown, and the marks that say what a test does with them.

use std::path::Path;

/// A fenced block.
#[derive(Debug)]
pub(crate) struct Block {
    /// File and line of the fence, for messages.
    pub(crate) place: String,
    /// The word behind the fence, such as `sh`.
    pub(crate) language: String,
    /// What the test does with it; [`None`] without a mark.
    pub(crate) mark: Option<Mark>,
    /// What stands in it.
    pub(crate) text: String,
}

/// What `<!-- book: ... -->` on the line above a block says.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    /// `run`, `run exit=6`: it is run, and its last command ends with this code.
    Run { exit: i32 },
    /// `file NAME`: it is written to this file.
    File(String),
    /// `parse, WHY`: nothing is run, for this reason; gdrtune's command lines must be ones that it takes.
    Parse(String),
}

impl Block {
    /// Whether it is something to type.
    pub(crate) fn is_shell(&self) -> bool {
        matches!(self.language.as_str(), "sh" | "console" | "bash")
    }
}

/// The blocks of a Markdown file.
pub(crate) fn blocks(path: &Path) -> Vec<Block> {
    let name = path.file_name().expect("a file").to_string_lossy();
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        let opening = lines[at].trim_start();
        let Some(language) = opening.strip_prefix("```") else {
            at += 1;
            continue;
        };
        let indent = lines[at].len() - opening.len();
        let end = (at + 1..lines.len()).find(|line| lines[*line].trim() == "```");
        let end = end.unwrap_or_else(|| panic!("{name}:{}: the block does not end", at + 1));
        let body = lines[at + 1..end].iter().map(|line| line.get(indent..).unwrap_or_default());
        let place = format!("{name}:{}", at + 1);
        let mark = at.checked_sub(1).and_then(|above| mark(lines[above], &place));
        let text = body.collect::<Vec<_>>().join("\n");
        found.push(Block { place, language: language.trim().to_owned(), mark, text });
        at = end + 1;
    }
    found
}

fn mark(line: &str, place: &str) -> Option<Mark> {
    let text = line.trim().strip_prefix("<!-- book: ")?.strip_suffix(" -->")?;
    Some(match text.split_once([' ', ',']).unwrap_or((text, "")) {
        ("run", "") => Mark::Run { exit: 0 },
        ("run", rest) => {
            let exit = rest.strip_prefix("exit=").and_then(|code| code.parse().ok());
            Mark::Run { exit: exit.unwrap_or_else(|| panic!("{place}: `{rest}` is no exit code")) }
        }
        ("file", name) if !name.is_empty() => Mark::File(name.to_owned()),
        ("parse", why) if !why.is_empty() => Mark::Parse(why.trim().to_owned()),
        _ => panic!("{place}: unknown mark `{text}`"),
    })
}

/// The steps of a console block: what is behind `$ `, over several lines where they end with a backslash, and the lines below it,
/// none where the output is not shown.
pub(crate) fn console(text: &str) -> Vec<(String, Vec<String>)> {
    let mut steps: Vec<(String, Vec<String>)> = Vec::new();
    let mut goes_on = false;
    for line in text.lines() {
        match (line.strip_prefix("$ "), steps.last_mut()) {
            (_, Some((command, _))) if goes_on => command.extend(["\n", line]),
            (Some(command), _) => steps.push((command.to_owned(), Vec::new())),
            (None, Some((_, output))) => output.push(line.trim_end().to_owned()),
            (None, None) => panic!("a console block begins with `$ `: {line}"),
        }
        goes_on = line.ends_with('\\');
    }
    steps
}
