//! `gdrtune runs` and `gdrtune replay`: what the run stores hold.

mod export;
mod resume;
mod show;

use std::{
    io::{self, IsTerminal, Write},
    path::Path,
};

use gdrtune_session::{index, store};
use tokio::sync::mpsc;

use crate::{
    cli::{ReplayArgs, RunsArgs, RunsCommand},
    exit::{Exit, Failure},
    headless::{PlainLines, Progress},
    paths,
    ui::{self, Source, UiOptions, replay},
};

pub(crate) fn runs(args: RunsArgs) -> Result<Exit, Failure> {
    match args.command {
        None | Some(RunsCommand::List) => list(),
        Some(RunsCommand::Show(args)) => show::show(&args),
        Some(RunsCommand::Resume(args)) => resume::resume(args),
        Some(RunsCommand::Export(args)) => export::export(&args),
    }
}

fn list() -> Result<Exit, Failure> {
    let dir = paths::runs_dir()?;
    let (rows, unreadable) = index::rebuild(&dir).map_err(anyhow::Error::from)?;
    let mut out = io::stdout().lock();
    if rows.is_empty() {
        writeln!(io::stderr(), "no runs in {}", dir.display())?;
    } else {
        writeln!(
            out,
            "{:<26} {:<8} {:>6} {:>8} {:>6}  {:<14} hosts",
            "run", "engine", "ranks", "trials", "ship", "end"
        )?;
    }
    for row in rows {
        let end = if row.end.is_empty() {
            unfinished(&dir.join(&row.run).with_extension(store::EXTENSION))
        } else {
            &row.end
        };
        writeln!(
            out,
            "{:<26} {:<8} {:>6} {:>8} {:>6}  {end:<14} {}",
            row.run, row.engine, row.ranks, row.trials, row.shipped, row.hosts
        )?;
    }
    for problem in unreadable {
        writeln!(io::stderr(), "left out: {problem}")?;
    }
    Ok(Exit::Done)
}

/// What a run without an end is. One that cannot be looked at is not running here.
fn unfinished(path: &Path) -> &'static str {
    if store::writer(path).is_ok_and(|writer| writer == store::Writer::Alive) { "running" } else { "killed" }
}

pub(crate) fn replay(args: &ReplayArgs) -> Result<Exit, Failure> {
    if !(args.speed.is_finite() && args.speed >= 0.0) {
        return Err(Failure::usage_text("--speed must be 0 or more"));
    }
    let path = store::find_run(&paths::runs_dir()?, &args.run).map_err(Failure::usage)?;
    let run = store::read_run(&path).map_err(Failure::usage)?;
    if run.torn {
        writeln!(io::stderr(), "{} ends in half a line (the run was killed); it is left out", path.display())?;
    }
    if !io::stdout().is_terminal() {
        let mut lines = PlainLines::new(io::stdout());
        run.records.iter().try_for_each(|record| lines.show(record))?;
        return Ok(Exit::Done);
    }
    // At once: a speed at which every record is due immediately.
    let speed = if args.speed > 0.0 { args.speed } else { 1e9 };
    let runtime = super::runtime()?;
    let (sender, receiver) = mpsc::unbounded_channel();
    let (commands, command_receiver) = mpsc::unbounded_channel();
    runtime.spawn(replay::feed(run.records, sender, command_receiver, speed));
    let options = super::ui_options(Source::Replay, &args.look);
    // A player that has come to its end takes no commands any more.
    let forward = |command| {
        commands.send(command).ok();
    };
    runtime.block_on(ui::run(receiver, forward, UiOptions { speed, ..options }))?;
    Ok(Exit::Done)
}
