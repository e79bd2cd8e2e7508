//! Numbers the events of a run, puts each on disk, and only then shows it to whoever listens.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use crate::{
    event::{Event, Level, Record},
    resume::{Divergence, Earlier, Granted, Numbers, Retrace, Told, is_decision},
    store::{RunWriter, StoreError},
};

/// Takes a record after it is on disk. Must not block.
pub type Listener = Box<dyn FnMut(&Record) + Send>;

/// Why nothing is recorded any more.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The store cannot be written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A resumed run does something else than it did before. Nothing of that is in the store.
    #[error(transparent)]
    Diverged(#[from] Divergence),
}

struct Inner {
    writer: RunWriter,
    listener: Listener,
    next_seq: u64,
    /// What comes after what is in the store.
    numbers: Numbers,
    /// What is in the store already, of a resumed run.
    retrace: Retrace,
    /// What the user wanted in this process.
    granted: Vec<Granted>,
    failed: Option<RecordError>,
    /// Set when the run is ended before its time: what follows from that is no decision.
    is_cut_short: bool,
    /// Set for good by a failed write: what follows half a line would make the whole file unreadable.
    is_broken: bool,
}

/// The one way from a run to the world. Clones share it.
#[derive(Clone)]
pub struct Recorder {
    started: Instant,
    /// Milliseconds of the run before that.
    started_ms: u64,
    inner: Arc<Mutex<Inner>>,
}

impl Recorder {
    /// A recorder that writes to `writer` and shows to `listener`.
    pub fn new(writer: RunWriter, listener: Listener) -> Self {
        Self::at(writer, listener, (0, Numbers::default()), 0, Retrace::default())
    }

    /// A recorder that goes on with a run: `writer` is at the end of its file.
    pub fn resume(writer: RunWriter, listener: Listener, earlier: &Earlier) -> Self {
        let next = (earlier.next_seq, earlier.measured.next);
        Self::at(writer, listener, next, earlier.t_ms, earlier.retrace.clone())
    }

    fn at(
        writer: RunWriter,
        listener: Listener,
        (next_seq, numbers): (u64, Numbers),
        started_ms: u64,
        retrace: Retrace,
    ) -> Self {
        let (failed, is_cut_short, is_broken) = (None, false, false);
        let granted = Vec::new();
        let inner = Inner { writer, listener, next_seq, numbers, retrace, granted, failed, is_cut_short, is_broken };
        Self { started: Instant::now(), started_ms, inner: Arc::new(Mutex::new(inner)) }
    }

    /// Records an event; one that the store has already is left out. After a failed write nothing more is shown: see
    /// [`Recorder::failure`].
    pub fn record(&self, event: Event) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        if inner.is_broken || (inner.is_cut_short && is_decision(&event)) {
            return;
        }
        let event = match inner.retrace.hold(event) {
            Told::New(event) => event,
            Told::Before => return,
            Told::Differs(divergence) => {
                inner.failed = Some(divergence.into());
                inner.is_broken = true;
                return;
            }
        };
        let t_ms = self.started_ms + self.started.elapsed().as_millis() as u64;
        let record = Record { seq: inner.next_seq, t_ms, event };
        match inner.writer.append(&record) {
            Ok(()) => {
                inner.next_seq += 1;
                inner.numbers.count(&record.event);
                inner.granted.extend(Granted::of(&record.event));
                (inner.listener)(&record);
            }
            Err(error) => {
                inner.failed = Some(error.into());
                inner.is_broken = true;
            }
        }
    }

    /// Records a line for the log.
    pub fn log(&self, level: Level, host: &str, text: impl Into<String>) {
        self.record(Event::Log { level, host: host.to_owned(), text: text.into() });
    }

    /// Records no further decision: the user or a lost node ended the run, and what the search makes of that must not be in
    /// the way of a resume.
    pub fn cut_short(&self) {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).is_cut_short = true;
    }

    /// Records that the run goes on with other nodes. What follows is decided anew, whatever was decided before.
    pub fn change_nodes(&self, event: Event) {
        {
            let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
            (inner.retrace, inner.is_cut_short) = (Retrace::default(), false);
        }
        self.record(event);
    }

    /// Takes what the user wanted in this process and is in the store, since the last call.
    pub(crate) fn take_granted(&self) -> Vec<Granted> {
        std::mem::take(&mut self.inner.lock().unwrap_or_else(PoisonError::into_inner).granted)
    }

    /// The running numbers after what is in the store.
    pub fn numbers(&self) -> Numbers {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).numbers
    }

    /// Takes the error that stopped the recording, if there is one. A run that cannot be recorded must end.
    pub fn failure(&self) -> Option<RecordError> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).failed.take()
    }

    /// Whether the run still does what it did in an earlier process.
    pub fn is_retracing(&self) -> bool {
        !self.inner.lock().unwrap_or_else(PoisonError::into_inner).retrace.is_over()
    }

    /// Whether nothing can be recorded any more.
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
