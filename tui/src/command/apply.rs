//! `gdrtune apply`: a profile's settings as a marked block in a file of the user's.

use std::{
    fs,
    io::{self, BufRead as _, IsTerminal as _, Write as _},
    path::{Path, PathBuf},
};

use gdrtune_profiles::{
    block::{self, BlockCause, BlockError, Found, Place, State, unified},
    diagnostic::printable,
    emit,
    grammar::shell::quote,
    vocab::Engine,
};
use gdrtune_session::output;

use super::say;
use crate::{
    cli::ApplyArgs,
    exit::{Exit, Failure},
};

/// The file as it is.
struct Target {
    /// As the user named it.
    name: String,
    /// Where it is, behind links.
    path: PathBuf,
    bytes: Vec<u8>,
}

/// Puts the block in, updates it, takes it out, or checks it.
///
/// # Errors
/// Wrong use: a file that cannot be read, takes no block, or has marks that do not pair; nobody to ask.
pub(crate) fn apply(args: &ApplyArgs) -> Result<Exit, Failure> {
    let target = read(&args.file)?;
    let found = block::find(&target.bytes, &target.name).map_err(Failure::usage)?;
    let Some(profile) = args.profile.as_ref().filter(|_| !args.remove) else {
        let Some(found) = found else {
            say(&format!("{} has no block of gdrtune's", target.name));
            return Ok(Exit::NothingMatched);
        };
        tell_of_edits(&target, &found);
        return change(args, &target, &block::remove(&target.bytes, &found), "took the block out of");
    };
    let text = String::from_utf8_lossy(&target.bytes);
    let place = Place::of(&target.name, &text, args.kind)
        .map_err(|why| Failure::usage_text(format!("{} takes no block: {why}", target.name)))?;
    let path = profile;
    let profile = super::read_profile(path)?.profile;
    if profile.run.engine == Engine::Sim && args.text.for_engine != Some(Engine::Sim) {
        let text = format!("{}: a simulated profile: --for-engine sim writes it all the same", path.display());
        return Err(Failure::usage_text(text));
    }
    let emitted = emit::emit(&profile, place.format(), &args.text.options()).map_err(Failure::usage)?;
    block::check_place(&target.bytes, place, found.as_ref(), &target.name)
        .map_err(|error| misplaced(args, &target, error))?;
    let state = block::state(place, found.as_ref(), &emitted);
    let new = block::apply(&target.bytes, place, &emitted, &target.name).map_err(Failure::usage)?;
    if args.check {
        return check(&target, place, found.as_ref(), state, &new);
    }
    super::warn_of_labels(emit::labels(&profile));
    if emitted.lines().all(|line| line.is_empty() || line.starts_with('#')) {
        say(
            "the profile sets no variable for jobs, so the block is comments alone; gdrtune install brings rules to them",
        );
    }
    tell_of_conflicts(&target, place, &new)?;
    if state == State::Current {
        say(&format!("the block of {} is as the profile says", target.name));
        return Ok(Exit::Done);
    }
    if let Some(found) = &found {
        tell_of_edits(&target, found);
    }
    change(args, &target, &new, "wrote")
}

/// A block that does nothing in this file, with the next step.
fn misplaced(args: &ApplyArgs, target: &Target, error: BlockError) -> Failure {
    let file = quote(&target.path.display().to_string());
    let hint = match error.cause {
        BlockCause::CarriageReturn => format!("`sed -i 's/\\r$//' {file}`"),
        _ => format!("`gdrtune apply {file} --remove`; then gdrtune apply again puts it where it is read"),
    };
    Failure::new(if args.check { Exit::Findings } else { Exit::Usage }, error).with_hint(hint)
}

/// A file and what is in it. Links are followed: what a link in a folder of scripts leads to is the script.
fn read(file: &Path) -> Result<Target, Failure> {
    let name = file.display().to_string();
    let failure =
        |error: io::Error| Failure::usage(anyhow::Error::from(error).context(format!("read {}", file.display())));
    let path = fs::canonicalize(file).map_err(failure)?;
    if !path.is_file() {
        return Err(Failure::usage_text(format!("{name} is no file")));
    }
    let bytes = fs::read(&path).map_err(failure)?;
    Ok(Target { name, path, bytes })
}

/// What `--check` says of the block, and of lines whose values count in the place of its own.
fn check(target: &Target, place: Place, found: Option<&Found>, state: State, new: &[u8]) -> Result<Exit, Failure> {
    let text = String::from_utf8_lossy(&target.bytes);
    let mut conflicts = found.map(|found| block::conflicts(&text, place, found, &target.name)).unwrap_or_default();
    conflicts.retain(|conflict| conflict.beats_block);
    for conflict in &conflicts {
        say(&conflict.told.to_string());
    }
    let line = found.map_or(1, |found| found.lines.0);
    let why = match state {
        State::Current if conflicts.is_empty() => return Ok(Exit::Done),
        State::Current => return Ok(Exit::Findings),
        State::Missing => "there is no block of gdrtune's: run gdrtune apply",
        State::Stale => "the block is not what the profile says now: run gdrtune apply",
        State::Edited => {
            "the block was edited by hand: gdrtune apply takes the edit back; to keep it, put it into the profile before, or take the \
             two lines that mark the block out"
        }
    };
    say(&format!("{}:{line}: {why}", target.name));
    show(target, new)?;
    Ok(Exit::Findings)
}

fn tell_of_edits(target: &Target, found: &Found) {
    if !found.is_untouched {
        let place = format!("{}:{}", target.name, found.lines.0);
        say(&format!("{place}: warning: the block was edited by hand, and the edits are overwritten"));
    }
}

/// Names the lines that set what the block sets.
fn tell_of_conflicts(target: &Target, place: Place, new: &[u8]) -> Result<(), Failure> {
    let found = block::find(new, &target.name).map_err(Failure::usage)?;
    let text = String::from_utf8_lossy(new);
    let conflicts = found.map(|found| block::conflicts(&text, place, &found, &target.name)).unwrap_or_default();
    for conflict in conflicts {
        say(&conflict.told.to_string());
    }
    Ok(())
}

/// The difference, on standard output: `patch` takes it. A terminal gets no control characters of the file's.
fn show(target: &Target, new: &[u8]) -> Result<(), Failure> {
    let difference = unified(&target.name, &target.bytes, new);
    let mut stdout = io::stdout();
    if !stdout.is_terminal() {
        return Ok(stdout.write_all(&difference)?);
    }
    for line in String::from_utf8_lossy(&difference).lines() {
        // A tab is no harm, and scripts are full of them.
        let safe: Vec<String> = line.split('\t').map(printable).collect();
        writeln!(stdout, "{}", safe.join("\t"))?;
    }
    Ok(())
}

/// Shows the difference, asks, and writes.
fn change(args: &ApplyArgs, target: &Target, new: &[u8], done: &str) -> Result<Exit, Failure> {
    show(target, new)?;
    if !args.yes && !agrees(target)? {
        say(&format!("{} is as it was", target.name));
        return Ok(Exit::Done);
    }
    output::rewrite(&target.path, &target.bytes, new).map_err(anyhow::Error::from)?;
    say(&format!("{done} {}", target.path.display()));
    Ok(Exit::Done)
}

/// Asks whether to write.
fn agrees(target: &Target) -> Result<bool, Failure> {
    if !io::stdin().is_terminal() {
        let hint = "--yes writes without asking, and --check only says whether the block is as it should be";
        return Err(Failure::usage_text("nobody is here to ask").with_hint(hint));
    }
    write!(io::stderr(), "gdrtune: write this to {}? [y/N] ", printable(&target.path.display().to_string()))?;
    io::stderr().flush()?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(["y", "yes"].contains(&answer.trim().to_ascii_lowercase().as_str()))
}
