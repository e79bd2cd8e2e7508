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
        let inner = Inner { writer, listener, next_seq: 0, failed: None };
        Self { started: Instant::now(), inner: Arc::new(Mutex::new(inner)) }
    }

    /// Records an event. After a failed write nothing more is shown: see [`Recorder::failure`].
    pub fn record(&self, event: Event) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        if inner.failed.is_some() {
            return;
        }
        let t_ms = self.started.elapsed().as_millis() as u64;
        let record = Record { seq: inner.next_seq, t_ms, event };
        match inner.writer.append(&record) {
            Ok(()) => {
                inner.next_seq += 1;
                (inner.listener)(&record);
            }
            Err(error) => inner.failed = Some(error),
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
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).failed.is_some()
    }
}
