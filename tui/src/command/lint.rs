//! `gdrtune lint`: the traps in files that jobs have already.

use std::{
    fs,
    io::{self, Read as _, Write as _},
    path::Path,
};

use gdrtune_profiles::{
    lint::{self, Finding, Format, Input, Kind, Options, Severity},
    nearest::hint,
};

use super::say;
use crate::{
    cli::LintArgs,
    exit::{Exit, Failure},
};

/// What standard input is called, as an argument.
const STDIN: &str = "-";

/// Prints the findings of the severity asked for.
///
/// # Errors
/// Wrong use: a file that cannot be read, or a rule that is none.
pub(crate) fn lint(args: &LintArgs) -> Result<Exit, Failure> {
    if args.rules {
        io::stdout().write_all(lint::rules_text().as_bytes())?;
        return Ok(Exit::Done);
    }
    if let Some(id) = args.allow.iter().find(|id| lint::rule(id).is_none()) {
        let near = hint(id, lint::rules().map(|rule| rule.id));
        return Err(Failure::usage_text(format!("--allow: there is no rule `{id}`{near}")));
    }
    let texts: Vec<(String, String)> = args.files.iter().map(|path| read(path)).collect::<Result<_, _>>()?;
    let inputs: Vec<Input<'_>> = texts.iter().map(|(name, text)| Input { name, text, kind: args.kind }).collect();
    let exists = |path: &str| Path::new(path).exists();
    let options = Options {
        version: args.nccl_version,
        exists: if args.check_paths { Some(&exists) } else { None },
        allow: &args.allow,
    };
    let all = lint::lint(&inputs, &options);
    let (shown, hidden): (Vec<Finding>, Vec<Finding>) =
        all.into_iter().partition(|finding| args.severity <= finding.rule.severity);
    io::stdout().write_all(lint::render(&shown, args.format).as_bytes())?;
    if args.format == Format::Text {
        summarize(&inputs, &shown, hidden.len());
    }
    Ok(if shown.is_empty() { Exit::Done } else { Exit::Findings })
}

/// Name and text of a file. Bytes that are no UTF-8 are replaced: they are no setting's, and lines stay where they are.
fn read(path: &Path) -> Result<(String, String), Failure> {
    let name = path.display().to_string();
    let mut bytes = Vec::new();
    let read = if path == Path::new(STDIN) {
        io::stdin().read_to_end(&mut bytes).map(drop)
    } else {
        fs::read(path).map(|read| bytes = read)
    };
    read.map_err(|error| Failure::usage(anyhow::Error::from(error).context(format!("read {name}"))))?;
    let name = if name == STDIN { "stdin".to_owned() } else { name };
    Ok((name, String::from_utf8_lossy(&bytes).into_owned()))
}

/// Says on standard error how much was looked at and found.
fn summarize(inputs: &[Input<'_>], shown: &[Finding], hidden: usize) {
    for input in inputs.iter().filter(|input| input.kind.is_none()) {
        if Kind::of(input.name, input.text) == Kind::Other && !input.text.trim().is_empty() {
            say(&format!("{}: no kind of file that is known here; --as KIND says what it is", input.name));
        }
    }
    let count = |severity: Severity| {
        let number = shown.iter().filter(|finding| finding.rule.severity == severity).count();
        (number > 0).then(|| counted(number, severity.name()))
    };
    let counts: Vec<String> = Severity::ALL.iter().rev().filter_map(|severity| count(*severity)).collect();
    let found = if counts.is_empty() { "nothing found".to_owned() } else { counts.join(", ") };
    let more = if hidden > 0 { format!(" ({hidden} milder with --severity note)") } else { String::new() };
    say(&format!("{found} in {}{more}", counted(inputs.len(), "file")));
}

fn counted(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}
