//! Numbers the events of a run, puts each on disk, and only then shows it to whoever listens.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use crate::{
    event::{Event, Level, Record},
    store::{RunWriter, StoreError},
};

/// Takes a record after it is on disk. Must not block.
pub type Listener = Box<dyn FnMut(&Record) + Send>;

struct Inner {
    writer: RunWriter,
    listener: Listener,
    next_seq: u64,
    failed: Option<StoreError>,
    /// Set for good by a failed write: what follows half a line would make the whole file unreadable.
    is_broken: bool,
}

/// The one way from a run to the world. Clones share it.
#[derive(Clone)]
pub struct Recorder {
    started: Instant,
    inner: Arc<Mutex<Inner>>,
}

impl Recorder {
    /// A recorder that writes to `writer` and shows to `listener`.
    pub fn new(writer: RunWriter, listener: Listener) -> Self {
        let inner = Inner { writer, listener, next_seq: 0, failed: None, is_broken: false };
        Self { started: Instant::now(), inner: Arc::new(Mutex::new(inner)) }
    }

    /// Records an event. After a failed write nothing more is shown: see [`Recorder::failure`].
    pub fn record(&self, event: Event) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        if inner.is_broken {
            return;
        }
        let t_ms = self.started.elapsed().as_millis() as u64;
        let record = Record { seq: inner.next_seq, t_ms, event };
        match inner.writer.append(&record) {
            Ok(()) => {
                inner.next_seq += 1;
                (inner.listener)(&record);
            }
            Err(error) => {
                inner.failed = Some(error);
                inner.is_broken = true;
            }
        }
    }

    /// Records a line for the log.
    pub fn log(&self, level: Level, host: &str, text: impl Into<String>) {
        self.record(Event::Log { level, host: host.to_owned(), text: text.into() });
    }

    /// Takes the error that stopped the recording, if there is one. A run that cannot be recorded must end.
    pub fn failure(&self) -> Option<StoreError> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).failed.take()
    }

    /// Whether a write has failed.
    pub fn has_failed(&self) -> bool {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).is_broken
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::{event::Phase, store};

    #[test]
    fn nothing_is_shown_that_is_not_stored_and_nothing_follows_a_failed_write() {
        let dir = tempfile::tempdir().unwrap();
        let writer = RunWriter::create(dir.path(), "r").unwrap();
        let path = writer.path().to_owned();
        let shown = Arc::new(AtomicU64::new(0));
        let seen = Arc::clone(&shown);
        let listener = Box::new(move |_: &Record| {
            seen.fetch_add(1, Ordering::Relaxed);
        });
        let recorder = Recorder::new(writer, listener);
        recorder.record(Event::Phase { phase: Phase::Connect });
        // A file that takes no more, as on a full disk.
        recorder.inner.lock().unwrap().writer = RunWriter::on(std::fs::File::open(&path).unwrap(), &path);
        recorder.record(Event::Phase { phase: Phase::Search });
        assert!(recorder.failure().is_some());
        recorder.record(Event::Phase { phase: Phase::Done });
        assert!(recorder.has_failed(), "for good");
        assert_eq!(shown.load(Ordering::Relaxed), 1);
        assert_eq!(store::read_run(&path).unwrap().records.len(), 1);
    }
}
