//! `gdrtune replay`: a stored run in the terminal UI, as it went.

use std::{
    fs,
    io::{self, Write as _},
    path::Path,
};

use gdrtune_session::{
    event::{Event, Record},
    run::began_at,
    store,
};
use tokio::sync::mpsc;

use crate::{
    cli::ReplayArgs,
    exit::{Exit, Failure},
    headless::{Detail, PlainLines, Progress as _},
    ui::{self, Playback, Source, Steering, UiOptions},
};

pub(crate) fn replay(args: &ReplayArgs) -> Result<Exit, Failure> {
    let path = super::find(&args.run)?;
    let run = store::read_run(&path).map_err(Failure::usage)?;
    if run.torn {
        writeln!(io::stderr(), "{} ends in half a line (the run was killed); it is left out", path.display())?;
    }
    if run.records.is_empty() {
        return Err(Failure::usage_text(format!("{} holds no record yet", path.display())));
    }
    if !super::has_terminal() {
        let mut lines = PlainLines::new(io::stdout(), Detail::Usual);
        run.records.iter().try_for_each(|record| lines.show(record))?;
        return Ok(Exit::Done);
    }
    let playback = Playback {
        age_s: age_s(&path, &run.records),
        total_ms: run.records.last().map_or(0, |record| record.t_ms),
        speed: args.speed,
    };
    let runtime = super::super::runtime()?;
    let (sender, feed) = mpsc::unbounded_channel();
    let (commands, command_receiver) = mpsc::unbounded_channel();
    runtime.spawn(ui::replay::play(run.records, sender, command_receiver, args.speed));
    let options = super::super::ui_options(Source::Replay, &args.look);
    let options = UiOptions { playback: Some(playback), ..options };
    runtime.block_on(ui::run(feed, Steering::Player(commands), options))?;
    Ok(Exit::Done)
}

/// Seconds since the run began by its id, or since its file was written.
fn age_s(path: &Path, records: &[Record]) -> Option<u64> {
    let began = records.first().and_then(|record| match &record.event {
        Event::RunStarted { run, .. } => began_at(run),
        _ => None,
    });
    let began = began.or_else(|| fs::metadata(path).and_then(|metadata| metadata.modified()).ok())?;
    super::age_of(began)
}
