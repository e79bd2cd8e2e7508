//! Reads a run while another process writes it.

use std::{
    fs::File,
    io::{Read as _, Seek as _, SeekFrom},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use super::{StoreError, Writer, writer};
use crate::event::Record;

/// Reads the records that came since it was last asked. Knows no more of the run than how far it has read.
#[derive(Debug)]
pub struct Follower {
    path: PathBuf,
    /// Bytes of the lines that were read.
    read: u64,
    lines: usize,
}

/// Where a run is.
#[derive(Debug, PartialEq)]
pub struct News {
    /// Records that came, in order.
    pub records: Vec<Record>,
    /// What the lock said before the file was read: what is gone has written all of them.
    pub writer: Writer,
    /// Time since the file last grew, by the clocks of this machine and the file's; zero where they disagree.
    pub quiet: Duration,
}

impl Follower {
    /// Begins at the beginning.
    pub fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), read: 0, lines: 0 }
    }

    /// What came. Half a line at the end is left for the next time: it is being written, or is cut off by whoever goes on
    /// with the run.
    ///
    /// # Errors
    /// [`StoreError`]: the file is gone, was cut, or has a line that is no record.
    pub fn news(&mut self) -> Result<News, StoreError> {
        let writer = writer(&self.path)?;
        // Opened anew each time: that is when a network file system asks the server whether the file has grown (nfs(5),
        // close-to-open consistency).
        let mut file = File::open(&self.path).map_err(StoreError::io("open", &self.path))?;
        let metadata = file.metadata().map_err(StoreError::io("read", &self.path))?;
        if metadata.len() < self.read {
            return Err(StoreError::Cut(self.path.clone()));
        }
        let mut text = Vec::new();
        file.seek(SeekFrom::Start(self.read))
            .and_then(|_| file.read_to_end(&mut text))
            .map_err(StoreError::io("read", &self.path))?;
        let whole = text.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        let mut records = Vec::new();
        for line in text[..whole].split_inclusive(|&byte| byte == b'\n') {
            self.lines += 1;
            if line != b"\n" {
                let parsed = serde_json::from_slice(line);
                let line = self.lines;
                records.push(parsed.map_err(|source| StoreError::Line { path: self.path.clone(), line, source })?);
            }
        }
        self.read += whole as u64;
        let grown = metadata.modified().ok();
        #[expect(clippy::disallowed_methods, reason = "a file's age: how long a reader waits, never what a run does")]
        let now = SystemTime::now();
        let quiet = grown.and_then(|grown| now.duration_since(grown).ok()).unwrap_or(Duration::ZERO);
        Ok(News { records, writer, quiet })
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, io::Write as _};

    use super::*;
    use crate::{
        event::{Event, Phase},
        store::RunWriter,
    };

    fn record(seq: u64) -> Record {
        Record { seq, t_ms: seq * 10, event: Event::Phase { phase: Phase::Search } }
    }

    fn seqs(news: &News) -> Vec<u64> {
        news.records.iter().map(|record| record.seq).collect()
    }

    #[test]
    fn what_grows_is_read_once_and_half_a_line_is_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = RunWriter::create(dir.path(), "r").unwrap();
        let path = writer.path().to_owned();
        let mut follower = Follower::new(&path);
        writer.append(&record(0)).unwrap();
        let news = follower.news().unwrap();
        assert_eq!((seqs(&news), news.writer), (vec![0], Writer::Alive));

        let line = serde_json::to_vec(&record(1)).unwrap();
        let (head, tail) = line.split_at(7);
        for (bytes, expected) in [(head, vec![]), (tail, vec![]), (b"\n", vec![1]), (b"\n", vec![])] {
            writer.file.write_all(bytes).unwrap();
            assert_eq!(seqs(&follower.news().unwrap()), expected);
        }
        writer.file.write_all(br#"{"seq":2,"t_"#).unwrap();
        drop(writer);
        let news = follower.news().unwrap();
        assert_eq!((seqs(&news), news.writer), (vec![], Writer::Gone));

        // Whoever goes on cuts the half line off.
        let (mut writer, _) = RunWriter::reopen(&path).unwrap();
        writer.append(&record(2)).unwrap();
        let news = follower.news().unwrap();
        assert_eq!((seqs(&news), news.writer), (vec![2], Writer::Alive));

        writer.file.write_all(b"{}\n").unwrap();
        let error = follower.news().unwrap_err().to_string();
        assert!(error.contains("r.jsonl:5: not a record of a run"), "{error}");
        fs::write(&path, "").unwrap();
        assert!(matches!(follower.news(), Err(StoreError::Cut(_))));
    }
}
