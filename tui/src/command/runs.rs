//! `gdrtune runs`, `gdrtune attach` and `gdrtune replay`: what the run stores hold.

mod attach;
mod export;
mod replay;
mod resume;
mod show;
mod trend;

use std::{
    io::{self, IsTerminal as _, Write},
    path::{Path, PathBuf},
    time::SystemTime,
};

use gdrtune_profiles::diagnostic::printable;
use gdrtune_session::{index, store};

pub(crate) use self::{attach::attach, replay::replay};
use crate::{
    cli::{RunArgs, RunsArgs, RunsCommand},
    exit::{Exit, Failure},
    paths,
    ui::text::fit,
};

pub(crate) fn runs(args: RunsArgs) -> Result<Exit, Failure> {
    match args.command {
        None | Some(RunsCommand::List) => list(),
        Some(RunsCommand::Show(args)) => show::show(&args),
        Some(RunsCommand::Resume(args)) => resume::resume(args),
        Some(RunsCommand::Export(args)) => export::export(&args),
        Some(RunsCommand::Trend(args)) => trend::trend(&args),
    }
}

/// The store of a run.
///
/// # Errors
/// Wrong use: no run of that name, or several.
fn find(args: &RunArgs) -> Result<PathBuf, Failure> {
    store::find_run(&paths::runs_dir()?, &args.run).map_err(Failure::usage)
}

/// Whether the terminal UI can be shown.
pub(super) fn has_terminal() -> bool {
    io::stdout().is_terminal() && io::stdin().is_terminal()
}

/// Seconds since something was, for people; none of what is yet to come.
#[expect(clippy::disallowed_methods, reason = "how long ago a run was, for people")]
pub(super) fn age_of(began: SystemTime) -> Option<u64> {
    Some(SystemTime::now().duration_since(began).ok()?.as_secs())
}

fn list() -> Result<Exit, Failure> {
    let dir = paths::runs_dir()?;
    let index::Listing { rows, unreadable, .. } = index::refresh(&dir, || true).map_err(anyhow::Error::from)?;
    let columns = super::columns();
    let mut out = io::stdout().lock();
    if rows.is_empty() {
        writeln!(io::stderr(), "no runs in {}", dir.display())?;
    } else {
        writeln!(
            out,
            "{:<25} {:<6} {:>5} {:>6} {:>4}  {:<13} hosts",
            "run", "engine", "ranks", "trials", "ship", "end"
        )?;
    }
    for row in rows {
        let end = if row.end.is_empty() { unfinished(&store::path_of(&dir, &row.name)) } else { &row.end };
        let line = format!(
            "{:<25} {:<6} {:>5} {:>6} {:>4}  {end:<13} {}",
            row.run, row.engine, row.ranks, row.trials, row.shipped, row.hosts
        );
        let line = printable(&line);
        // Hosts are last, and may be many.
        writeln!(out, "{}", columns.map_or_else(|| line.clone(), |columns| fit(&line, columns, "...")))?;
    }
    for problem in unreadable {
        super::say(&format!("left out: {problem}"));
    }
    Ok(Exit::Done)
}

/// What a run without an end is. One that cannot be looked at is not running here.
pub(super) fn unfinished(path: &Path) -> &'static str {
    if store::writer(path).is_ok_and(|writer| writer == store::Writer::Alive) { "running" } else { "killed" }
}
