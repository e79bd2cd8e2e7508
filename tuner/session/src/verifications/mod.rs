//! What `verify` has measured of a profile, kept so that its course can be told.
//!
//! A file for each verification, whole or not there, in a folder for the profile's settings: who verifies from several machines into
//! one state folder needs no lock, and a profile keeps its course when it is moved or its comments change.

mod course;
#[cfg(test)]
mod tests;

use std::{
    collections::BTreeSet,
    fs, io,
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
};

use gdrtune_profiles::{
    profile::{Profile, Speedup},
    vocab::{DataType, Engine, Point},
};
use serde::{Deserialize, Serialize};

pub use self::course::{Course, Drift, MIN_GAIN, MIN_PAIRS, Of, Step, courses};
use crate::{
    event::Decision,
    output::{self, OutputError},
    run::{new_run_id, sha256},
};

/// Version of the files.
pub const SCHEMA_VERSION: u32 = 1;

/// Digits of the name of a profile's folder: as many as tell any number of profiles apart.
const ID_DIGITS: usize = 16;

/// One verification. A stored format: fields are only ever added, with a default.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verification {
    /// [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// When it began, and a random suffix, as of a run.
    pub id: String,
    /// The run that the profile is from.
    pub run: String,
    /// What measured.
    pub engine: Engine,
    /// Hosts, folded.
    pub hosts: String,
    /// Nodes.
    pub nodes: u32,
    /// Ranks over all nodes.
    pub ranks: u32,
    /// Version of the library, where it tells.
    #[serde(default)]
    pub nccl: Option<String>,
    /// Pairs of process sets.
    pub pairs: u32,
    /// What was to be measured; unknown of those that older versions kept.
    #[serde(default)]
    pub asked: Option<Asked>,
    /// What was otherwise than where the profile was measured, in sentences.
    #[serde(default)]
    pub differences: Vec<String>,
    /// Trials that failed, in sentences.
    #[serde(default)]
    pub failures: Vec<String>,
    /// Points with a result.
    pub points: Vec<VerifiedPoint>,
}

/// What a verification was asked for: of something else it says nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    /// Points, with a result or not.
    pub points: BTreeSet<Point>,
    /// Type of the elements.
    pub data_type: DataType,
    /// Whether every rank posed as a node of its own.
    pub emulated: bool,
    /// Whether calls were captured into CUDA graphs.
    pub graph: bool,
    /// Whether buffers were registered.
    pub register_buffers: bool,
}

/// One point of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VerifiedPoint {
    /// The point.
    pub point: Point,
    /// Median of the default arm in microseconds.
    pub default_us: f64,
    /// Median of the profile's arm in microseconds.
    pub profile_us: f64,
    /// Default time over the profile's.
    pub speedup: Speedup,
    /// What follows.
    pub decision: Decision,
}

impl Verification {
    /// Whether some point is clearly slower with the profile.
    pub fn has_regression(&self) -> bool {
        self.points.iter().any(|point| point.decision == Decision::Regression)
    }

    /// Whether it answers for what is `asked` at this shape, with that many pairs or as many as make a verdict sure.
    pub fn answers(&self, asked: &Asked, shape: (u32, u32), pairs: u32) -> bool {
        (self.nodes, self.ranks) == shape && self.asked.as_ref() == Some(asked) && pairs.min(MIN_PAIRS) <= self.pairs
    }

    /// A new id.
    pub fn new_id() -> String {
        new_run_id()
    }
}

/// Verifications of a profile.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Verifications {
    /// In the order of time.
    pub all: Vec<Verification>,
    /// Files that cannot be read, and why.
    pub unreadable: Vec<String>,
}

/// What a profile sets, as a name: profiles that set the same have the same one, whatever their evidence and comments.
pub fn settings_id(profile: &Profile) -> String {
    let rules: Vec<_> = profile
        .rule
        .iter()
        .map(|rule| (rule.collective, rule.nodes, rule.ranks, rule.bytes.min, rule.bytes.max, rule.choice()))
        .collect();
    let text = format!("{:?} {:?} {rules:?}", profile.run.engine, profile.environment());
    sha256(text.as_bytes()).chars().take(ID_DIGITS).collect()
}

/// Keeps a verification of `profile` in `dir`, in a folder that its owner alone can enter.
///
/// # Errors
/// [`OutputError`]; nothing is left there.
pub fn keep(dir: &Path, profile: &Profile, verification: &Verification) -> Result<PathBuf, OutputError> {
    let folder = dir.join(settings_id(profile));
    let failed = |source: io::Error| OutputError::Io { action: "create", path: folder.clone(), source };
    fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder).map_err(failed)?;
    let path = folder.join(format!("{}.json", verification.id));
    let text = serde_json::to_string(verification).map_err(|error| failed(error.into()))?;
    output::write_whole(&path, &(text + "\n"))?;
    Ok(path)
}

/// Those that are kept of `profile`; none where nothing was.
///
/// # Errors
/// [`OutputError::Io`] where the folder cannot be read.
pub fn kept(dir: &Path, profile: &Profile) -> Result<Verifications, OutputError> {
    let folder = dir.join(settings_id(profile));
    let failed = |source: io::Error| OutputError::Io { action: "read", path: folder.clone(), source };
    let entries = match fs::read_dir(&folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Verifications::default()),
        entries => entries.map_err(failed)?,
    };
    let mut paths: Vec<PathBuf> =
        entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>().map_err(failed)?;
    // Ids begin with their time. What is hidden is being written.
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    paths.sort();
    let mut verifications = Verifications::default();
    for path in paths {
        let read = fs::read(&path).map_err(|error| error.to_string());
        match read.and_then(|text| serde_json::from_slice(&text).map_err(|error| error.to_string())) {
            Ok(verification) => verifications.all.push(verification),
            Err(why) => verifications.unreadable.push(format!("{}: {why}", path.display())),
        }
    }
    Ok(verifications)
}
