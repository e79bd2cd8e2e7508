//! `gdrtune workload import`.

use std::{
    fmt::Write as _,
    fs::File,
    io::{self, BufReader, Write as _},
    path::Path,
};

use gdrtune_profiles::{
    diagnostic::printable,
    workload::import::{Communicator, Found, Import, ImportError, Imported, Selection, SourceSummary, Steps},
};

use super::{COLUMNS, iec, name_of, put};
use crate::{
    cli::ImportArgs,
    exit::{Exit, Failure},
    ui::text,
};

/// What standard input is called, as an argument.
const STDIN: &str = "-";

/// Communicators that are listed; a job of thousands of pipeline stages has as many.
const LISTED: usize = 24;

/// Bytes that are read at once: traces have gigabytes.
const BUFFER: usize = 1 << 20;

pub(super) fn import(args: &ImportArgs) -> Result<Exit, Failure> {
    super::super::refuse_existing("-o", args.output.as_deref(), args.force)?;
    let mut import = Import::new();
    for path in &args.files {
        let (name, summary) = read(&mut import, args, path)?;
        let calls = text::count(summary.calls, "call");
        super::super::say(&format!("{name}: {}, {calls} of collectives", summary.kind));
    }
    let found = import.finish();
    let selection = Selection {
        communicators: args.comm.clone(),
        steps: args.steps,
        points: args.points as usize,
        name: name_of(args.output.as_deref(), "imported"),
    };
    let imported = found.workload(&selection).map_err(Failure::usage)?;
    let chosen = if args.list { &[][..] } else { &imported.chosen };
    let table = table(&found, chosen);
    if args.list {
        io::stdout().write_all(table.as_bytes())?;
        return Ok(Exit::Done);
    }
    io::stderr().write_all(table.as_bytes())?;
    for note in &imported.notes {
        super::super::say(note);
    }
    for left in &imported.left_out {
        super::super::say(&format!("left out: {left}"));
    }
    put(&imported.workload, &comments(args, &found, &imported), args.output.as_deref())?;
    Ok(Exit::Done)
}

fn read(import: &mut Import, args: &ImportArgs, path: &Path) -> Result<(String, SourceSummary), Failure> {
    let name = path.display().to_string();
    let summary = if name == STDIN {
        import.read("stdin", args.kind, BufReader::with_capacity(BUFFER, io::stdin().lock()))
    } else {
        let io = |source| Failure::usage(ImportError::Io { file: name.clone(), source });
        let file = File::open(path).map_err(io)?;
        import.read(&name, args.kind, BufReader::with_capacity(BUFFER, file))
    };
    Ok((name, summary.map_err(Failure::usage)?))
}

/// The communicators, those that are written with a mark.
fn table(found: &Found, chosen: &[usize]) -> String {
    let mut text =
        format!("   {:>4} {:>6} {:>6} {:>8} {:>10}  {}\n", "comm", "ranks", "alike", "calls", "bytes", "steps, names");
    let numbered = || (1..).zip(&found.communicators);
    for (number, communicator) in numbered().filter(|(number, _)| *number <= LISTED || chosen.contains(number)) {
        let mark = if chosen.contains(&number) { '*' } else { ' ' };
        let Communicator { ranks, alike, names, .. } = communicator;
        let names = names.iter().take(2).map(String::as_str).collect::<Vec<_>>().join(", ");
        let words = [steps(&communicator.steps), printable(&names)].join("  ");
        let line = format!(
            " {mark} {number:>4} {ranks:>6} {alike:>6} {:>8} {:>10}  {words}",
            communicator.call_count(),
            iec(communicator.bytes())
        );
        text += &text::fit(line.trim_end(), COLUMNS, "...");
        text.push('\n');
    }
    let more = found.communicators.len().saturating_sub(LISTED);
    if 0 < more {
        // Writing to a string cannot fail.
        writeln!(text, "   and {more} more with fewer bytes").ok();
    }
    text
}

fn steps(steps: &Steps) -> String {
    match steps {
        Steps::Marked(steps) => format!("{steps} marked"),
        Steps::Repeats { steps, .. } => format!("{steps} repeats"),
        Steps::Unknown => "?".to_owned(),
    }
}

/// Where the numbers are from, for the file.
fn comments(args: &ImportArgs, found: &Found, imported: &Imported) -> Vec<String> {
    let files: Vec<String> = args.files.iter().map(|path| path.display().to_string()).collect();
    let more = if files.len() > 3 { format!(" and {} more", files.len() - 3) } else { String::new() };
    let files = files.into_iter().take(3).collect::<Vec<_>>().join(", ");
    let of: Vec<String> = imported
        .chosen
        .iter()
        .filter_map(|number| found.communicators.get(number.checked_sub(1)?))
        .map(|communicator| communicator.names.first().cloned().unwrap_or_else(|| "without a name".to_owned()))
        .collect();
    let head = format!(
        "Imported by gdrtune from {files}{more}. Communicator {}, {} ranks. Sizes are those of nccl-tests.",
        of.join(", "),
        imported.ranks
    );
    let left = imported.left_out.iter().map(|left| format!("Left out: {left}."));
    let notes = imported.notes.iter().map(|note| format!("Note: {note}."));
    std::iter::once(head).chain(notes).chain(left).flat_map(|line| text::wrap(&line, COLUMNS * 3 / 2)).collect()
}
