//! Hands a run that has stopped here over to a process in the background, which goes on with it from its store.

use std::{
    fs::{self, File},
    io::{self, Write as _},
    os::unix::process::CommandExt as _,
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use gdrtune_session::{
    event::Record,
    store::{self, Follower},
};

use crate::exit::{Exit, Failure};

/// How long the process in the background may take to open the store. It has to read all of it.
const PATIENCE: Duration = Duration::from_secs(30);

/// Pause between two looks at the store.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Starts `gdrtune runs resume` on a store in a process group of its own, whose words go into a file beside the store,
/// waits until it has the run, and says how to watch and to end it.
///
/// # Errors
/// It could not be started, or ended before it had the run: its last words are in the error.
pub(super) fn hand_over(path: &Path) -> Result<Exit, Failure> {
    let run = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let hint = format!("gdrtune runs resume {run} goes on from here");
    let log = path.with_extension("log");
    let mut child = start(path, &log).map_err(|error| Failure::new(Exit::Unexpected, error).with_hint(&hint))?;
    let deadline = Instant::now() + PATIENCE;
    let mut follower = Follower::new(path);
    let resumed = loop {
        if let Some(status) = child.try_wait()? {
            // A run that had little left may be over already.
            break status.success();
        }
        // The first thing that it writes is who goes on.
        let is_of_child = |record: &Record| store::owner(&record.event).is_some_and(|by| by.pid == child.id());
        if follower.news().is_ok_and(|news| news.records.iter().any(is_of_child)) {
            break true;
        }
        if deadline <= Instant::now() {
            break false;
        }
        thread::sleep(LOOK_EVERY);
    };
    if !resumed {
        drop(child.kill());
        let said = fs::read_to_string(&log).unwrap_or_default();
        let text = format!("the background did not take the run: {}", said.lines().last().unwrap_or("it said nothing"));
        return Err(Failure::new(Exit::Unexpected, anyhow::anyhow!(text)).with_hint(&hint));
    }
    let pid = child.id();
    let words = format!(
        "run {run} goes on in the background\n  gdrtune attach {run} watches it\n  kill -INT {pid} stops it\n  \
         its words are in {}\n",
        log.display()
    );
    drop(io::stderr().write_all(words.as_bytes()));
    Ok(Exit::Done)
}

fn start(store: &Path, log: &Path) -> anyhow::Result<Child> {
    let file = File::create(log).with_context(|| format!("create {}", log.display()))?;
    let program = std::env::current_exe().context("find this executable")?;
    let errors = file.try_clone().context("share the file of its words")?;
    // A group of its own: neither the terminal's Ctrl-C nor its end reaches it.
    let child = Command::new(program)
        .args(["runs", "resume"])
        .arg(store)
        .arg("--headless")
        .stdin(Stdio::null())
        .stdout(file)
        .stderr(errors)
        .process_group(0)
        .spawn();
    child.context("start gdrtune in the background")
}
