//! Workloads from what jobs leave behind: NCCL's logs, dumps of its Inspector plugin, traces of `PyTorch`'s profiler, dumps of its
//! flight recorder.
//!
//! [`Import::read`] takes one source after the other, [`Import::finish`] tells which communicators there were, and
//! [`Found::workload`] makes a workload of some of them. Sources are read as they come and never held whole. It opens
//! nothing: whoever calls it hands over a reader and the name for messages.

mod communicator;
mod flight_recorder;
mod inspector;
mod json;
mod kind;
mod kineto;
mod lines;
mod names;
mod nccl_log;
mod pairs;
mod period;
mod select;
mod tally;
#[cfg(test)]
mod tests;

use std::io::{self, BufRead, Read as _};

use self::tally::Tally;
pub use self::{
    communicator::{Communicator, Steps},
    kind::Kind,
    select::{Found, Imported, NotSelected, Selection},
};
use crate::diagnostic::Place;

/// What kept a source from being read.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// It could not be read at all.
    #[error("read {file}: {source}")]
    Io {
        /// The source.
        file: String,
        /// What the system said.
        source: io::Error,
    },
    /// It is no text of its kind.
    #[error("{place}: {cause}")]
    Malformed {
        /// Where.
        place: Place,
        /// What is wrong.
        cause: String,
    },
    /// It is of a kind that is not read, or of none that is known.
    #[error("{file}: {cause}")]
    NotRead {
        /// The source.
        file: String,
        /// Why, and what to do.
        cause: String,
    },
}

/// Collects calls from sources.
#[derive(Debug, Default)]
pub struct Import {
    tally: Tally,
}

/// What one source had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SourceSummary {
    /// What it is.
    pub kind: Kind,
    /// Calls of collectives that count, those of all ranks.
    pub calls: u64,
}

impl Import {
    /// Nothing so far.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads the source `file`; what it is shows by its beginning, unless `kind` says so.
    ///
    /// # Errors
    /// [`ImportError`] names file, line and cause. What was read before it is kept.
    pub fn read(
        &mut self,
        file: &str,
        kind: Option<Kind>,
        mut reader: impl BufRead,
    ) -> Result<SourceSummary, ImportError> {
        let beginning =
            kind::beginning(&mut reader).map_err(|source| ImportError::Io { file: file.to_owned(), source })?;
        let not_read = |cause: String| ImportError::NotRead { file: file.to_owned(), cause };
        let kind = kind::decide(&beginning, kind, file).map_err(not_read)?;
        let before = self.tally.calls();
        self.tally.begin_source();
        let reader = io::Cursor::new(beginning).chain(reader);
        match kind {
            Kind::NcclLog => nccl_log::read(&mut self.tally, file, reader)?,
            Kind::Inspector => inspector::read(&mut self.tally, file, reader)?,
            Kind::Kineto => kineto::read(&mut self.tally, file, reader)?,
            Kind::FlightRecorder => flight_recorder::read(&mut self.tally, file, reader)?,
        }
        Ok(SourceSummary { kind, calls: self.tally.calls() - before })
    }

    /// The communicators of everything that was read.
    pub fn finish(self) -> Found {
        Found::of(self.tally)
    }
}
