//! NCCL's log file of this rank, read as it grows.
//!
//! NCCL opens the file anew and writes each line at once (`src/debug.cc`); what it has written is complete when a call
//! returns. Nothing here is an error: a file that cannot be read says nothing, and the plugin's word counts.
#![expect(unsafe_code, reason = "the environment is changed")]

use std::{
    fs::{File, OpenOptions},
    os::unix::fs::FileExt as _,
    path::Path,
};

use gdrtune_profiles::grammar::nccl_log::Ran;
use rustix::fs::{FallocateFlags, fallocate};

use super::{
    config::LOG_REQUEST_VARIABLES,
    log::{self, Facts},
};
use crate::engine::EngineError;

/// How much of the end of the file holds the last call: some lines of at most 1024 bytes (NCCL `src/debug.cc`).
const TAIL_BYTES: u64 = 16 << 10;

/// Most that is read of what came before the first call: a line for each channel and peer.
const MOST_BYTES: u64 = 16 << 20;

/// What was read is given back to the file system in steps of this size.
const FREE_STEP_BYTES: u64 = 1 << 20;

/// The log of this process's NCCL.
pub(super) struct LogFile {
    file: File,
    /// Bytes that were read, or passed over.
    read: u64,
    /// Bytes that were given back.
    freed: u64,
    lines: Vec<u8>,
    /// What was read in it, calls aside.
    pub(super) facts: Facts,
}

impl LogFile {
    /// Opens the file that NCCL was told to log to. Where it cannot be written to, NCCL would log to standard output: it is
    /// told not to log at all. Call it before NCCL is loaded.
    pub(super) fn open(path: &Path) -> Option<Self> {
        let Ok(file) = OpenOptions::new().read(true).write(true).open(path) else {
            for name in LOG_REQUEST_VARIABLES {
                // SAFETY: the other threads of a worker at this stage only read frames, in Rust, and no library that
                // could read the environment behind Rust's back has been loaded.
                unsafe { std::env::remove_var(name) };
            }
            return None;
        };
        Some(Self { file, read: 0, freed: 0, lines: vec![], facts: Facts::default() })
    }

    /// Reads everything that is new, for its facts.
    pub(super) fn catch_up(&mut self) {
        self.fill(MOST_BYTES);
        self.facts.take(&self.lines);
    }

    /// The last new call that is the one looked for. Passes over everything else.
    pub(super) fn last_run(&mut self, is_wanted: impl Fn(&Ran) -> bool) -> Option<Ran> {
        self.fill(TAIL_BYTES);
        log::last_run(&self.lines, is_wanted)
    }

    /// Reads at most this much of the end of what is new, up to the last line that is complete.
    fn fill(&mut self, most: u64) {
        self.lines.clear();
        let Ok(end) = self.file.metadata().map(|metadata| metadata.len()) else { return };
        let start = self.read.max(end.saturating_sub(most));
        self.lines.resize(end.saturating_sub(start) as usize, 0);
        if self.file.read_exact_at(&mut self.lines, start).is_err() {
            self.lines.clear();
        }
        let complete = self.lines.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        self.lines.truncate(complete);
        self.read = start + complete as u64;
        self.free();
    }

    /// Gives back what was read. The file keeps its length, as NCCL goes on writing where it was; where the file system
    /// cannot do this, the file grows by some 120 bytes for each call until its group ends.
    fn free(&mut self) {
        let unread_from = self.read;
        if unread_from - self.freed < FREE_STEP_BYTES {
            return;
        }
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        fallocate(&self.file, flags, self.freed, unread_from - self.freed).ok();
        self.freed = unread_from;
    }
}

/// The error with NCCL's last warnings, where there is a log that has them and they say something new.
pub(super) fn explained(error: EngineError, log: Option<&mut LogFile>) -> EngineError {
    let Some(log) = log else { return error };
    let EngineError::Library { what, mut why } = error else { return error };
    log.catch_up();
    let news: Vec<&str> = log.facts.warnings.iter().map(String::as_str).filter(|text| !why.contains(text)).collect();
    if !news.is_empty() {
        why = format!("{why}; NCCL's log warns: {}", news.join("; "));
    }
    EngineError::Library { what, why }
}

#[cfg(test)]
mod tests {
    use std::{io::Write as _, os::unix::fs::MetadataExt as _};

    use super::*;

    const LINE: &str = "h:1:1 [0] NCCL INFO Reduce: 64 Bytes -> Algo TREE proto LL channel{Lo..Hi}={0..1}\n";

    #[test]
    fn increments_are_read_once_and_half_a_line_waits_for_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let mut nccl = File::create(&path).unwrap();
        let mut log = LogFile::open(&path).unwrap();
        let channels = |log: &mut LogFile| log.last_run(|_| true).and_then(|ran| ran.channels);
        assert_eq!(channels(&mut log), None);
        let (start, end) = LINE.split_at(40);
        nccl.write_all(start.as_bytes()).unwrap();
        assert_eq!(channels(&mut log), None);
        nccl.write_all(end.as_bytes()).unwrap();
        assert_eq!((channels(&mut log), channels(&mut log)), (Some(2), None));
        nccl.write_all(b"h:1:1 [0] NCCL INFO 6 coll channels, 0 nvls channels\n").unwrap();
        log.catch_up();
        assert_eq!(log.facts.channels, Some(6));
    }

    #[test]
    fn only_the_end_of_a_long_log_is_read_and_its_room_is_given_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let mut nccl = File::create(&path).unwrap();
        let mut log = LogFile::open(&path).unwrap();
        for _ in 0..3 {
            nccl.write_all(LINE.repeat(30_000).as_bytes()).unwrap();
            nccl.write_all(LINE.replace("0..1", "0..6").as_bytes()).unwrap();
            assert_eq!(log.last_run(|_| true).and_then(|ran| ran.channels), Some(7));
            assert!(log.lines.len() as u64 <= TAIL_BYTES);
        }
        let metadata = std::fs::metadata(&path).unwrap();
        assert_eq!(metadata.len(), (LINE.len() * 90_003) as u64);
        // Where holes can be made at all, little more than the end is left.
        let has_holes = fallocate(&nccl, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, 0, 1).is_ok();
        assert!(!has_holes || metadata.blocks() * 512 < 2 * FREE_STEP_BYTES, "{} blocks", metadata.blocks());
    }

    #[test]
    fn warnings_explain_a_failure_unless_it_says_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let warning = "\nh:1:1 [0] a.cc:1 NCCL WARN no route\n\nh:1:1 [0] b.cc:2 NCCL WARN gave up\n";
        std::fs::write(&path, warning).unwrap();
        let error = |why: &str| EngineError::Library { what: "join".to_owned(), why: why.to_owned() };
        for (why, expected) in [
            ("failed", "cannot join: failed; NCCL's log warns: no route; gave up"),
            ("failed: gave up", "cannot join: failed: gave up; NCCL's log warns: no route"),
        ] {
            assert_eq!(explained(error(why), LogFile::open(&path).as_mut()).to_string(), expected);
        }
        assert_eq!(explained(error("failed"), None).to_string(), "cannot join: failed");
        std::fs::write(&path, "").unwrap();
        assert_eq!(explained(error("failed"), LogFile::open(&path).as_mut()).to_string(), "cannot join: failed");
    }
}
