//! Runs by their names.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use gdrtune_profiles::nearest;

use super::{EXTENSION, StoreError};

/// Name of the newest run, whatever its id.
pub const LAST: &str = "last";

/// The runs in a folder, newest first (run ids begin with their start time).
///
/// # Errors
/// [`StoreError::Io`]; a folder that does not exist has no runs.
pub fn list_runs(dir: &Path) -> Result<Vec<PathBuf>, StoreError> {
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(StoreError::io("read", dir))?,
    };
    let mut runs = Vec::new();
    for entry in entries {
        let path = entry.map_err(StoreError::io("read", dir))?.path();
        if path.extension().is_some_and(|e| e == EXTENSION) {
            runs.push(path);
        }
    }
    runs.sort();
    runs.reverse();
    Ok(runs)
}

/// The file of a run: a path, a run id, the unique beginning of one, or [`LAST`].
///
/// # Errors
/// [`StoreError::Unknown`] names the nearest run and the newest ones.
pub fn find_run(dir: &Path, run: &str) -> Result<PathBuf, StoreError> {
    let direct = Path::new(run);
    if direct.is_file() {
        return Ok(direct.to_owned());
    }
    let runs = list_runs(dir)?;
    let name = |path: &PathBuf| path.file_stem().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default();
    let matching: Vec<&PathBuf> = match run {
        LAST => runs.iter().take(1).collect(),
        _ => runs.iter().filter(|p| !run.is_empty() && name(p).starts_with(run)).collect(),
    };
    if let [only] = matching.as_slice() {
        return Ok((*only).clone());
    }
    let several = !matching.is_empty();
    let names: Vec<String> = runs.iter().map(name).collect();
    let hint = if several { String::new() } else { hint(run, &names) };
    let known =
        if names.is_empty() { "none".to_owned() } else { names.into_iter().take(5).collect::<Vec<_>>().join(", ") };
    Err(StoreError::Unknown { several, run: run.to_owned(), dir: dir.to_owned(), hint, known })
}

/// The name that is nearest to what was written, or whose beginning is.
fn hint(run: &str, names: &[String]) -> String {
    let n_chars = run.chars().count();
    let beginnings: Vec<String> = match n_chars {
        // Of anything shorter than a date some beginning is near.
        0..10 => Vec::new(),
        _ => names.iter().map(|name| name.chars().take(n_chars).collect()).collect(),
    };
    let all = names.iter().chain(&beginnings).map(String::as_str).chain([LAST]);
    nearest::hint(run, all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::RunWriter;

    #[test]
    fn runs_are_found_by_the_beginning_of_their_name() {
        let dir = tempfile::tempdir().unwrap();
        for run in ["2026-01-01T00:00:00Z-aaaa", "2026-01-02T00:00:00Z-bbbb"] {
            RunWriter::create(dir.path(), run).unwrap();
        }
        for name in ["2026-01-02", "2026-01-02T00:00:00Z-bbbb", LAST] {
            assert!(find_run(dir.path(), name).unwrap().ends_with("2026-01-02T00:00:00Z-bbbb.jsonl"), "{name}");
        }
        let known = "there are: 2026-01-02T00:00:00Z-bbbb, 2026-01-01T00:00:00Z-aaaa";
        let error = |name: &str| find_run(dir.path(), name).unwrap_err().to_string();
        assert!(error("2026").starts_with("several runs begin with `2026`") && error("2026").ends_with(known));
        for (name, near) in [
            ("2026-01-01T00:00:00Z-aaab", "; did you mean `2026-01-01T00:00:00Z-aaaa`?"),
            ("2026-02-02", "; did you mean `2026-01-02`?"),
            ("lats", "; did you mean `last`?"),
            ("x", &format!("{}; {known}", dir.path().display())),
        ] {
            let error = error(name);
            assert!(error.starts_with(&format!("no run `{name}` in ")) && error.contains(near), "{error}");
        }
        let none = dir.path().join("none");
        assert!(list_runs(&none).unwrap().is_empty());
        assert!(find_run(&none, LAST).unwrap_err().to_string().ends_with("there are: none"));
    }
}
