//! Raw samples as a file in the columns of recorded grids.

use std::{
    fs::File,
    io::{LineWriter, Write as _},
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use gdrtune_profiles::vocab::{Choice, Point};
use gdrtune_tuner::{
    bench::{Cancel, Timing},
    replay::{CSV_HEADER, csv_row},
};

use crate::exit::Failure;

/// A file that grows by a line for each sample, so that a run that is ended leaves what it has.
#[derive(Debug)]
pub(super) struct Csv {
    path: PathBuf,
    file: LineWriter<File>,
    failed: Option<std::io::Error>,
    /// Ends the measuring where the file cannot be written.
    cancel: Cancel,
}

impl Csv {
    /// Makes the file, or empties it where it may be replaced.
    ///
    /// # Errors
    /// Wrong use: a path that cannot be written, or a file that is there already.
    pub(super) fn create(path: &Path, force: bool, cancel: &Cancel) -> Result<Self, Failure> {
        super::super::refuse_existing("--csv", Some(path), force)?;
        let make = || {
            let mut file = LineWriter::new(File::create(path)?);
            writeln!(file, "{CSV_HEADER}")?;
            Ok::<_, std::io::Error>(file)
        };
        let file = make().with_context(|| format!("write --csv {}", path.display())).map_err(Failure::usage)?;
        Ok(Self { path: path.to_owned(), file, failed: None, cancel: cancel.clone() })
    }

    /// Adds a sample; a failure is kept for [`Self::finish`].
    pub(super) fn add(&mut self, repeat: u32, point: Point, choice: Option<Choice>, timing: &Timing) {
        if self.failed.is_some() {
            return;
        }
        if let Err(error) = writeln!(self.file, "{}", csv_row(repeat, point, choice, timing)) {
            self.failed = Some(error);
            self.cancel.cancel();
        }
    }

    /// Whether all of it is written.
    ///
    /// # Errors
    /// What went wrong with the file, whatever it did to the measuring.
    pub(super) fn finish(mut self) -> Result<(), Failure> {
        let result = self.failed.take().map_or_else(|| self.file.flush(), Err);
        Ok(result.with_context(|| format!("write --csv {}", self.path.display()))?)
    }
}
