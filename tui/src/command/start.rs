//! `gdrtune` without arguments: the start screen, and what it needs of files.
//!
//! Two threads read them, so that a slow file system never holds up a key: one for the run store, one for what is typed.

mod clusters;

use std::{
    ffi::OsString,
    path::Path,
    sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    thread,
    time::{Duration, Instant},
};

use gdrtune_session::{
    event::RunEnd,
    index::{self, RunRow, end_name},
    run::began_at,
    store::{self, Writer},
};
use tokio::sync::mpsc::{self, UnboundedSender};

use self::clusters::Clusters;
use super::{runs::age_of, tune};
use crate::{
    cause_chain,
    cli::{Cli, Command},
    exit::{Exit, Failure},
    paths,
    profile_file::{self, Openable},
    ui::{
        Source, UiOptions,
        start::{self, Input, ProfilePage, Request, RunLine, RunState, StartEnd, Stock},
    },
};

/// How long runs are read before the list is shown at first; twice as long each time after, since the list costs, too.
const READ_AT_FIRST: Duration = Duration::from_millis(200);

/// How long runs are read at one time at most: others who list the runs have to wait (the busy timeout of `SQLite` is 5 s).
const READ_AT_MOST: Duration = Duration::from_secs(2);

/// Pause between two looks at the run store.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// The looks at a store take this part of the time at most: it may be large, on a file system that others use.
const LOOK_SHARE: u32 = 20;

/// What the user wants.
pub(crate) enum Start {
    /// To leave.
    Leave(Exit),
    /// gdrtune with these words.
    Go(Vec<String>),
}

/// Whether `gdrtune` with these words, its own name first, is the start screen: nothing is said, and somebody looks.
pub(crate) fn is_wanted(words: &[OsString]) -> bool {
    words.len() <= 1 && super::runs::has_terminal()
}

/// Shows the start screen until the user has chosen.
///
/// # Errors
/// No place for the run store, or no terminal.
pub(crate) fn start() -> Result<Start, Failure> {
    let dir = paths::runs_dir()?;
    let (sender, feed) = mpsc::unbounded_channel();
    let (reload, reloads) = channel();
    let (wishes, asked) = channel();
    let answers = sender.clone();
    // Both end with the UI, or with this process.
    thread::Builder::new().name("store".to_owned()).spawn(move || watch_store(&dir, &reloads, &sender))?;
    thread::Builder::new().name("files".to_owned()).spawn(move || answer(&asked, &answers))?;
    let ask = |request| ask(request, &reload, &wishes);
    let options: UiOptions = UiOptions::from_environment(Source::Live, |name| std::env::var(name).ok());
    let runtime = super::runtime()?;
    let end = runtime.block_on(start::run(feed, ask, options))?;
    Ok(match end {
        StartEnd::Left => Start::Leave(Exit::Done),
        StartEnd::Ended => Start::Leave(Exit::Interrupted),
        StartEnd::Go(words) => {
            // In the scroll-back, for the next time.
            super::say(&start::shell_line(&words));
            Start::Go(words)
        }
    })
}

/// A thread that is gone has panicked, which ends the UI.
fn ask(request: Request, reload: &Sender<()>, wishes: &Sender<Request>) {
    match request {
        Request::Reload => drop(reload.send(())),
        Request::Open(_) | Request::Check(_) => drop(wishes.send(request)),
    }
}

/// Tells what is in the store, again and again, until nobody listens any more.
fn watch_store(dir: &Path, reloads: &Receiver<()>, sender: &UnboundedSender<Input>) {
    let mut clusters = Clusters::new();
    let first = Stock { clusters: clusters.known(&[]), dir: dir.display().to_string(), n_left: 1, ..Stock::default() };
    // A UI that was left is noticed by the loop.
    sender.send(Input::Stock(Box::new(first))).ok();
    let mut patience = READ_AT_FIRST;
    while !sender.is_closed() {
        let began = Instant::now();
        // Nothing is read any more once the user has chosen: it would disturb what is measured then.
        let stock = look(dir, &mut clusters, || began.elapsed() < patience && !sender.is_closed());
        let is_all = stock.n_left == 0;
        patience = if is_all { READ_AT_FIRST } else { READ_AT_MOST.min(patience * 2) };
        sender.send(Input::Stock(Box::new(stock))).ok();
        if is_all
            && reloads.recv_timeout(LOOK_EVERY.max(began.elapsed() * LOOK_SHARE)) == Err(RecvTimeoutError::Disconnected)
        {
            return;
        }
    }
}

fn look(dir: &Path, clusters: &mut Clusters, may_read: impl FnMut() -> bool) -> Stock {
    let name = dir.display().to_string();
    match index::refresh(dir, may_read) {
        Err(error) => Stock {
            clusters: clusters.known(&[]),
            dir: name,
            problem: Some(cause_chain(&error.into())),
            ..Stock::default()
        },
        Ok(listing) => Stock {
            runs: listing.rows.iter().map(|row| run_line(dir, row)).collect(),
            clusters: clusters.known(&listing.rows),
            dir: name,
            n_left: listing.n_left,
            n_unreadable: listing.unreadable.len(),
            problem: None,
        },
    }
}

fn run_line(dir: &Path, row: &RunRow) -> RunLine {
    let is = |end: RunEnd| row.end == end_name(end);
    let end = match row.end.clone() {
        end if end.is_empty() => match store::writer(&store::path_of(dir, &row.name)) {
            Ok(Writer::Alive) => RunState::Running,
            _ => RunState::Killed,
        },
        end if is(RunEnd::Interrupted) || is(RunEnd::NodesLost) => RunState::CutOff(end),
        end if is(RunEnd::Failed) => RunState::Failed(end),
        end if is(RunEnd::Inconclusive) => RunState::Undecided(end),
        end => RunState::Ended(end),
    };
    RunLine {
        name: row.name.clone(),
        age_s: began_at(&row.run).and_then(age_of),
        hosts: row.hosts.clone(),
        engine: row.engine.clone(),
        ranks: row.ranks,
        can_resume: !row.args.is_empty()
            && !matches!(end, RunState::Running | RunState::Undecided(_) | RunState::Ended(_)),
        end,
        gain: row.gain,
    }
}

/// Answers what is asked, until nobody asks any more. Of several command lines only the last one matters.
fn answer(asked: &Receiver<Request>, sender: &UnboundedSender<Input>) {
    while let Ok(first) = asked.recv() {
        let mut check = None;
        for request in [first].into_iter().chain(asked.try_iter()) {
            match request {
                Request::Check(words) => check = Some(words),
                Request::Open(path) => drop(sender.send(Input::Opened(open(Path::new(&path))))),
                Request::Reload => {}
            }
        }
        if let Some(words) = check {
            let result = self::check(&words);
            // A UI that was left does not need it.
            sender.send(Input::Checked { words, result }).ok();
        }
    }
}

/// The page of a profile, or of that in a folder.
fn open(path: &Path) -> Result<ProfilePage, String> {
    let file = profile_file::read(path, Openable::Files).map_err(|error| cause_chain(&error.into()))?;
    let odd: Vec<String> = file.odd.iter().map(ToString::to_string).collect();
    Ok(ProfilePage::new(file.path.display().to_string(), &file.profile, &odd))
}

/// What `gdrtune tune` would refuse of a command line; which hosts it would be, where the words do not name them.
fn check(words: &[String]) -> Result<Option<String>, String> {
    let all = ["gdrtune"].into_iter().chain(words.iter().map(String::as_str)).map(OsString::from);
    let cli = Cli::read(all).map_err(|error| error.to_string())?;
    match cli.command {
        Command::Tune(args) => tune::check(&args).map_err(|failure| {
            let hint = failure.hint.as_ref().map(|hint| format!("; {hint}")).unwrap_or_default();
            format!("{}{hint}", cause_chain(&failure.error))
        }),
        _ => Ok(None),
    }
}
