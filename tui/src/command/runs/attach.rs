//! `gdrtune attach`: a run of another process, watched from its store.

use std::{
    io::{self, Write},
    thread,
};

use gdrtune_session::{
    event::{Event, Record, RunEnd},
    store::Follower,
};
use rustix::system::uname;
use tokio::sync::mpsc;

use crate::{
    cli::AttachArgs,
    exit::{Exit, Failure},
    headless::{Detail, PlainLines, Progress as _},
    ui::{
        self, Source, Steering,
        attach::{LOOK_EVERY, Pulse, follow},
    },
};

pub(crate) fn attach(args: &AttachArgs) -> Result<Exit, Failure> {
    let follower = Follower::new(&super::find(&args.run)?);
    let pulse = Pulse::new(uname().nodename().to_string_lossy().into_owned());
    if args.plain || !super::has_terminal() {
        return print(follower, pulse, io::stdout());
    }
    let (sender, feed) = mpsc::unbounded_channel();
    // Ends with the UI, or with this process.
    thread::Builder::new().name("store".to_owned()).spawn(move || follow(follower, pulse, &sender))?;
    let options = super::super::ui_options(Source::Attached, &args.look);
    super::super::runtime()?.block_on(ui::run(feed, Steering::Nobody, options))?;
    Ok(Exit::Done)
}

/// Prints lines until the run ends, or its process does. The exit code is what the run's was.
fn print(mut follower: Follower, mut pulse: Pulse, out: impl Write + Send) -> Result<Exit, Failure> {
    let mut lines = PlainLines::new(out, Detail::Usual);
    let mut is_first = true;
    loop {
        let news = follower.news().map_err(anyhow::Error::from)?;
        let gone = pulse.look(&news);
        // What was before, in short.
        let n_old = if is_first && !pulse.is_over() { news.records.len() } else { 0 };
        is_first = false;
        for (index, record) in news.records.iter().enumerate() {
            if index < n_old && !is_headline(record) { lines.catch_up(record) } else { lines.show(record)? }
        }
        if let Some(Event::Finished { end, .. }) = news.records.last().map(|record| &record.event) {
            return Ok(exit_of(*end, lines.failed()));
        }
        if let Some(gone) = gone {
            return Err(Failure::new(Exit::Unexpected, anyhow::Error::msg(gone)));
        }
        thread::sleep(LOOK_EVERY);
    }
}

/// Whether a record says what the later ones are about.
fn is_headline(record: &Record) -> bool {
    matches!(
        record.event,
        Event::RunStarted { .. }
            | Event::Resumed { .. }
            | Event::Emulated { .. }
            | Event::Shape { .. }
            | Event::Phase { .. }
            | Event::Verdict { .. }
    )
}

/// The exit code of a run that ended so.
const fn exit_of(end: RunEnd, failed: u64) -> Exit {
    match end {
        RunEnd::Tuned | RunEnd::DefaultsBest | RunEnd::Inconclusive if 0 < failed => Exit::TrialsFailed,
        RunEnd::Tuned | RunEnd::DefaultsBest | RunEnd::Inconclusive => Exit::Done,
        RunEnd::Interrupted => Exit::Interrupted,
        RunEnd::NodesLost => Exit::NodesLost,
        RunEnd::Failed => Exit::Unexpected,
    }
}
