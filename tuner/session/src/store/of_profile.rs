//! The store of the run that a profile is of.

use std::path::{Path, PathBuf};

use super::{StoreError, read_run};
use crate::{event::Record, evidence::run_id};

/// Why a file tells nothing of a profile's run.
#[derive(Debug, thiserror::Error)]
pub enum OfProfileError {
    /// There is none.
    #[error("the store of run {run} is not here")]
    Absent {
        /// The profile's run.
        run: String,
    },
    /// It is of another run, or of none: a profile's run id may have been written by hand.
    #[error("{} is of the run {}, the profile of {run}", path.display(), found.as_deref().unwrap_or("none"))]
    OtherRun {
        /// The file.
        path: PathBuf,
        /// The run that it is of.
        found: Option<String>,
        /// The profile's run.
        run: String,
    },
    /// It cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The records of the run that a profile is of, from the file where they should be.
///
/// # Errors
/// [`OfProfileError`]: what follows from it is the caller's matter, as a profile says something without its run, too.
pub fn read_run_of(path: &Path, run: &str) -> Result<Vec<Record>, OfProfileError> {
    if !path.is_file() {
        return Err(OfProfileError::Absent { run: run.to_owned() });
    }
    let records = read_run(path)?.records;
    match run_id(&records) {
        Some(found) if found == run => Ok(records),
        found => {
            let found = found.map(str::to_owned);
            Err(OfProfileError::OtherRun { path: path.to_owned(), found, run: run.to_owned() })
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::store::path_of;

    #[test]
    fn a_profile_has_the_records_of_its_own_run_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = path_of(dir.path(), "mine");
        let read = || read_run_of(&path, "mine").map(|records| records.len()).map_err(|error| error.to_string());
        assert_eq!(read(), Err("the store of run mine is not here".to_owned()));
        let begun = |run: &str| {
            format!(
                r#"{{"seq":0,"t_ms":0,"event":{{"type":"run_started","schema_version":1,"run":"{run}","tool":"0","engine":"sim",
                     "hosts":"a","nodes":1,"ranks":2,"points":[],"seed":1,"budget_s":null}}}}"#
            )
            .replace('\n', "")
        };
        for (text, expected) in [
            (begun("mine"), Ok(1)),
            (begun("other"), Err("mine.jsonl is of the run other, the profile of mine")),
            (String::new(), Err("mine.jsonl is of the run none, the profile of mine")),
            ("{}".to_owned(), Err("mine.jsonl:1: not a record of a run: ")),
        ] {
            fs::write(&path, text + "\n").unwrap();
            match (read(), expected) {
                (Err(error), Err(end)) => assert!(error.contains(end), "{error}"),
                (read, expected) => assert_eq!(read, expected.map_err(str::to_owned)),
            }
        }
    }
}
