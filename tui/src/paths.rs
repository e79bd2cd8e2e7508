//! Where gdrtune keeps its own files: the XDG state folder, or `GDRTUNE_STATE_DIR`.

use std::{env, path::PathBuf};

use crate::exit::Failure;

/// The folder of the run stores.
///
/// # Errors
/// Wrong use where neither `GDRTUNE_STATE_DIR`, `XDG_STATE_HOME` nor `HOME` is set.
pub(crate) fn runs_dir() -> Result<PathBuf, Failure> {
    Ok(state_dir()?.join("runs"))
}

/// The folder of what `verify` measured.
///
/// # Errors
/// As of [`runs_dir`].
pub(crate) fn verifications_dir() -> Result<PathBuf, Failure> {
    Ok(state_dir()?.join("verified"))
}

fn state_dir() -> Result<PathBuf, Failure> {
    let set = |name: &str| env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let state = set("GDRTUNE_STATE_DIR")
        .or_else(|| set("XDG_STATE_HOME").map(|d| d.join("gdrtune")))
        .or_else(|| set("HOME").map(|d| d.join(".local/state/gdrtune")));
    state.ok_or_else(|| {
        Failure::usage_text("no place for the run store: none of GDRTUNE_STATE_DIR, XDG_STATE_HOME and HOME is set")
    })
}
