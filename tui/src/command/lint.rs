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
/// Wrong use: a rule that is none. (A file that cannot be read is named, and the code is that of wrong use, too.)
pub(crate) fn lint(args: &LintArgs) -> Result<Exit, Failure> {
    if args.rules {
        io::stdout().write_all(lint::rules_text().as_bytes())?;
        return Ok(Exit::Done);
    }
    if let Some(id) = args.allow.iter().find(|id| lint::rule(id).is_none()) {
        let near = hint(id, lint::rules().map(|rule| rule.id));
        return Err(Failure::usage_text(format!("--allow: there is no rule `{id}`{near}")));
    }
    let (mut texts, mut unread): (Vec<(String, String)>, usize) = (Vec::new(), 0);
    for path in &args.files {
        match read(path) {
            Ok(text) => texts.push(text),
            // The others may have traps all the same.
            Err(error) => {
                say(&format!("{}: cannot be read: {error}", path.display()));
                unread += 1;
            }
        }
    }
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
        summarize(&inputs, unread, &shown, hidden.len());
    }
    Ok(match shown.is_empty() {
        // Whether it has traps is not known, which no other code says.
        _ if 0 < unread => Exit::Usage,
        true => Exit::Done,
        false => Exit::Findings,
    })
}

/// Name and text of a file. Bytes that are no UTF-8 are replaced: they are no setting's, and lines stay where they are.
fn read(path: &Path) -> io::Result<(String, String)> {
    let name = path.display().to_string();
    let mut bytes = Vec::new();
    if path == Path::new(STDIN) {
        io::stdin().read_to_end(&mut bytes)?;
    } else {
        bytes = fs::read(path)?;
    }
    let name = if name == STDIN { "stdin".to_owned() } else { name };
    Ok((name, String::from_utf8_lossy(&bytes).into_owned()))
}

/// Says on standard error how much was looked at and found.
fn summarize(inputs: &[Input<'_>], unread: usize, shown: &[Finding], hidden: usize) {
    let is_unknown = |input: &&Input<'_>| {
        input.kind.is_none() && Kind::of(input.name, input.text) == Kind::Other && !input.text.trim().is_empty()
    };
    let unknown: Vec<&Input<'_>> = inputs.iter().filter(is_unknown).collect();
    for input in &unknown {
        say(&format!("{}: no kind of file that is known here; --as KIND says what it is", input.name));
    }
    let count = |severity: Severity| {
        let number = shown.iter().filter(|finding| finding.rule.severity == severity).count();
        (number > 0).then(|| counted(number, severity.name()))
    };
    let counts: Vec<String> = Severity::ALL.iter().rev().filter_map(|severity| count(*severity)).collect();
    let found = if counts.is_empty() { "nothing found".to_owned() } else { counts.join(", ") };
    let more = if hidden > 0 { format!(" ({hidden} milder with --severity note)") } else { String::new() };
    let apart = [(unknown.len(), "of no known kind"), (unread, "that cannot be read")];
    let apart = apart.into_iter().filter(|(number, _)| 0 < *number);
    let apart: Vec<String> =
        apart.map(|(number, what)| format!("; not looked at: {} {what}", counted(number, "file"))).collect();
    let apart = apart.concat();
    say(&format!("{found} in {}{more}{apart}", counted(inputs.len() - unknown.len(), "file")));
}

fn counted(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}
