//! `gdrtune runs` and `gdrtune replay`: what the run stores hold.

use std::{
    io::{self, IsTerminal, Write},
    time::Duration,
};

use gdrtune_session::{event::Record, index, store};
use tokio::sync::mpsc;

use crate::{
    cli::ReplayArgs,
    exit::{Exit, Failure},
    headless::{PlainLines, Progress},
    paths,
    ui::{self, UiOptions},
};

pub(crate) fn runs() -> Result<Exit, Failure> {
    let dir = paths::runs_dir()?;
    let (rows, unreadable) = index::rebuild(&dir).map_err(anyhow::Error::from)?;
    let mut out = io::stdout().lock();
    if rows.is_empty() {
        writeln!(io::stderr(), "no runs in {}", dir.display())?;
    } else {
        writeln!(out, "{:<26} {:<8} {:>6} {:>8} {:>6}  {:<14} hosts", "run", "engine", "ranks", "trials", "ship", "end")?;
    }
    for row in rows {
        let end = if row.end.is_empty() { "killed" } else { &row.end };
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

pub(crate) fn replay(args: ReplayArgs) -> Result<Exit, Failure> {
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
    let runtime = super::runtime()?;
    let (sender, receiver) = mpsc::unbounded_channel();
    runtime.spawn(play(run.records, args.speed, sender));
    runtime.block_on(ui::run(receiver, |_| {}, UiOptions { ascii: args.ascii, replay: true }))?;
    Ok(Exit::Done)
}

/// Sends the records at `speed` times their own pace; gaps are never longer than a second.
async fn play(records: Vec<Record>, speed: f64, sender: mpsc::UnboundedSender<Record>) {
    let mut at_ms = 0;
    for record in records {
        let gap_ms = record.t_ms.saturating_sub(at_ms);
        at_ms = record.t_ms;
        if speed > 0.0 && gap_ms > 0 {
            let wait = Duration::from_secs_f64(gap_ms as f64 / 1e3 / speed);
            tokio::time::sleep(wait.min(Duration::from_secs(1))).await;
        }
        if sender.send(record).is_err() {
            return;
        }
    }
    // The UI stays until the user leaves: the channel closes when this returns, which is the end of the records.
}
