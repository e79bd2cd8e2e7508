//! The run store: one append-only JSONL file per run is the truth.
//!
//! Every [`Record`] is written with one `write` before anybody sees it, so a killed run loses nothing that was shown, and
//! a reader on another machine of a shared file system sees whole lines. A file may end in half a line (the writer was
//! killed, the disk was full); readers leave that line out and say so.

mod find;
mod follow;
mod of_profile;

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, BufRead, BufReader, Read, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use gdrtune_profiles::json::escape;

pub use self::{
    find::{LAST, find_run, list_runs},
    follow::{Follower, News},
    of_profile::{OfProfileError, read_run_of},
};
use crate::event::{Event, Owner, Record};

/// How often the lock of a run is tried for: who only looks whether a run is alive holds it for microseconds.
const LOCK_TRIES: u32 = 20;

/// Pause between two tries.
const LOCK_PAUSE: Duration = Duration::from_millis(5);

/// Ending of a run's file.
pub const EXTENSION: &str = "jsonl";

/// The file of the run of this name in a folder of runs.
pub fn path_of(dir: &Path, name: &str) -> PathBuf {
    dir.join(format!("{name}.{EXTENSION}"))
}

/// A run store that could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A file system call failed.
    #[error("{action} {}: {source}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A line is not a record.
    #[error("{}:{line}: not a record of a run: {source}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// Line number from 1.
        line: usize,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// Another process writes the run.
    #[error("run {run} is still running{}", by.as_ref().map(|by| format!(" as pid {} on {}", by.pid, by.host)).unwrap_or_default())]
    Running {
        /// Run id.
        run: String,
        /// Who runs it, where the store says so.
        by: Option<Owner>,
    },
    /// No run of that name, or several.
    #[error("{} `{run}` in {}{hint}; there are: {known}", if *several { "several runs begin with" } else { "no run" }, dir.display())]
    Unknown {
        /// Whether the name is the beginning of several.
        several: bool,
        /// What was asked for.
        run: String,
        /// Where it was looked for.
        dir: PathBuf,
        /// The nearest name, in words; empty where none is near.
        hint: String,
        /// Newest runs there.
        known: String,
    },
    /// A run that is being followed lost lines that it had.
    #[error("{} is shorter than it was: another file took its place", .0.display())]
    Cut(PathBuf),
}

impl StoreError {
    fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { action, path, source }
    }
}

/// Writes one run.
#[derive(Debug)]
pub struct RunWriter {
    file: File,
    path: PathBuf,
}

impl RunWriter {
    /// Creates `<dir>/<run>.jsonl`; both are readable by their owner only.
    ///
    /// # Errors
    /// [`StoreError::Io`], also where a run of that name exists.
    pub fn create(dir: &Path, run: &str) -> Result<Self, StoreError> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(StoreError::io("create", dir))?;
        let path = path_of(dir, run);
        let file = OpenOptions::new()
            .append(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)
            .map_err(StoreError::io("create", &path))?;
        // Whoever resumes or lists runs sees by the lock that this one is alive. A file system without locks stores as well.
        lock(&file, || thread::sleep(LOCK_PAUSE)).ok();
        Ok(Self { file, path })
    }

    /// Opens a run that was not finished, to go on with it: cuts off half a line at its end, and gives what is there.
    ///
    /// # Errors
    /// [`StoreError::Running`] where another process still writes it; otherwise a file that cannot be used, or is no run.
    pub fn reopen(path: &Path) -> Result<(Self, StoredRun), StoreError> {
        let mut file = OpenOptions::new().read(true).append(true).open(path).map_err(StoreError::io("open", path))?;
        let lock = lock(&file, || thread::sleep(LOCK_PAUSE));
        let mut text = Vec::new();
        file.read_to_end(&mut text).map_err(StoreError::io("read", path))?;
        match lock {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(running(path, &parse_run(path, text.as_slice())?)),
            Err(TryLockError::Error(source)) => return Err(StoreError::io("lock", path)(source)),
        }
        let run = parse_run(path, text.as_slice())?;
        let whole = text.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        if whole < text.len() {
            file.set_len(whole as u64).map_err(StoreError::io("cut off half a line of", path))?;
        }
        Ok((Self { file, path: path.to_owned() }, run))
    }

    /// A writer on an open file, for tests of what happens when it cannot be written.
    #[cfg(test)]
    pub(crate) fn on(file: File, path: &Path) -> Self {
        Self { file, path: path.to_owned() }
    }

    /// Where the run is written.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Appends one record as one line, with one system call.
    ///
    /// # Errors
    /// [`StoreError::Io`]; the file may then end in half a line, which readers leave out.
    pub fn append(&mut self, record: &Record) -> Result<(), StoreError> {
        let text = serde_json::to_string(record).map_err(io::Error::from);
        let line = escape(text.map_err(StoreError::io("encode a record for", &self.path))?) + "\n";
        self.file.write_all(line.as_bytes()).map_err(StoreError::io("write", &self.path))
    }
}

/// Takes the lock of a writer; `pause` is called between two tries.
fn lock(file: &File, mut pause: impl FnMut()) -> Result<(), TryLockError> {
    for _ in 1..LOCK_TRIES {
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => pause(),
            other => return other,
        }
    }
    file.try_lock()
}

fn running(path: &Path, run: &StoredRun) -> StoreError {
    let by = run.records.iter().rev().find_map(|record| owner(&record.event)).cloned();
    let run = path.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    StoreError::Running { run, by }
}

/// The process that an event names as the run's.
pub fn owner(event: &Event) -> Option<&Owner> {
    match event {
        Event::Resumed { by, .. } => Some(by),
        Event::Invoked(invocation) => Some(&invocation.by),
        _ => None,
    }
}

/// What the lock of a run tells of the process that writes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writer {
    /// It is alive.
    Alive,
    /// There is none.
    Gone,
    /// The file system has no locks.
    Unknown,
}

/// Looks at the lock of a run. Works on other machines too, where the file system shares its locks (NFS and Lustre do).
///
/// # Errors
/// [`StoreError::Io`] where the file cannot be opened.
pub fn writer(path: &Path) -> Result<Writer, StoreError> {
    let file = File::open(path).map_err(StoreError::io("open", path))?;
    Ok(match file.try_lock_shared() {
        Ok(()) => Writer::Gone,
        Err(TryLockError::WouldBlock) => Writer::Alive,
        Err(TryLockError::Error(_)) => Writer::Unknown,
    })
}

/// A run as it was read.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredRun {
    /// Its records, in order.
    pub records: Vec<Record>,
    /// Whether the file ends in half a line, which is left out.
    pub torn: bool,
}

/// Reads a whole run.
///
/// # Errors
/// [`StoreError`] with the line that is no record. Half a line at the end is no error.
pub fn read_run(path: &Path) -> Result<StoredRun, StoreError> {
    let file = File::open(path).map_err(StoreError::io("read", path))?;
    parse_run(path, BufReader::new(file))
}

/// Line by line: the text of a long run is as large as its records.
fn parse_run(path: &Path, mut text: impl BufRead) -> Result<StoredRun, StoreError> {
    let (mut records, mut torn) = (Vec::new(), false);
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        if text.read_until(b'\n', &mut line).map_err(StoreError::io("read", path))? == 0 {
            break;
        }
        match (line.strip_suffix(b"\n"), serde_json::from_slice(&line)) {
            (Some([]), _) => {}
            (Some(_), Ok(record)) => records.push(record),
            (Some(_), Err(source)) => return Err(StoreError::Line { path: path.to_owned(), line: number, source }),
            (None, _) => torn = true,
        }
    }
    Ok(StoredRun { records, torn })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Event, Invocation, Phase};

    fn record(seq: u64) -> Record {
        Record { seq, t_ms: seq * 10, event: Event::Phase { phase: Phase::Search } }
    }

    #[test]
    fn what_is_written_is_read_and_half_a_line_is_left_out() {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = RunWriter::create(dir.path(), "2026-11-29T14:02:11Z-7f3a").unwrap();
        writer.append(&record(0)).unwrap();
        writer.append(&record(1)).unwrap();
        let path = writer.path().to_owned();
        assert_eq!(read_run(&path).unwrap(), StoredRun { records: vec![record(0), record(1)], torn: false });

        writer.file.write_all(br#"{"seq":2,"t_ms"#).unwrap();
        assert_eq!(read_run(&path).unwrap(), StoredRun { records: vec![record(0), record(1)], torn: true });
        assert!(RunWriter::create(dir.path(), "2026-11-29T14:02:11Z-7f3a").is_err(), "a run is never overwritten");
    }

    #[test]
    fn a_run_is_taken_up_where_its_last_whole_line_ends_and_by_one_process_alone() {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = RunWriter::create(dir.path(), "r1").unwrap();
        let path = writer.path().to_owned();
        let by = Owner { pid: 4711, host: "head".into() };
        let event = Event::Invoked(Invocation { by, ..Invocation::default() });
        writer.append(&Record { seq: 0, t_ms: 0, event }).unwrap();
        let error = RunWriter::reopen(&path).unwrap_err();
        assert_eq!(error.to_string(), "run r1 is still running as pid 4711 on head");
        assert_eq!(super::writer(&path).unwrap(), Writer::Alive);

        writer.file.write_all(br#"{"seq":1,"t_m"#).unwrap();
        drop(writer);
        assert_eq!(super::writer(&path).unwrap(), Writer::Gone);
        let (mut writer, run) = RunWriter::reopen(&path).unwrap();
        assert!(run.torn && run.records.len() == 1);
        writer.append(&record(1)).unwrap();
        assert_eq!(read_run(&path).unwrap().records.last(), Some(&record(1)), "not behind half a line");
    }

    #[test]
    fn a_look_at_the_lock_does_not_keep_a_writer_from_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = RunWriter::create(dir.path(), "r").unwrap().path().to_owned();
        let file = || File::open(&path).unwrap();
        let mut looking = Some(file());
        looking.as_ref().unwrap().lock_shared().unwrap();
        lock(&file(), || looking = None).unwrap();
    }

    #[test]
    fn a_broken_line_is_named() {
        let error = parse_run(Path::new("x.jsonl"), &b"{}\n"[..]).unwrap_err();
        assert!(error.to_string().starts_with("x.jsonl:1: not a record of a run: missing field"), "{error}");
    }
}
