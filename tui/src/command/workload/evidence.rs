//! Where times are from: the store of a run, or a profile and the choices beside it.

use std::{fs, path::Path};

use gdrtune_profiles::profile::{PointChoice, Profile};
use gdrtune_session::{
    event::Record,
    evidence,
    store::{self, OfProfileError},
};
use gdrtune_tuner::predict::{Measured, measured_by_profile};

use crate::{cli::EvidenceArgs, command, exit::Failure, paths};

/// Name of the file beside a profile that has the search's pick for every point.
const CHOICES: &str = "choices.json";

/// Measured times of a job shape.
pub(super) struct Evidence {
    /// At every point that has one.
    pub(super) measured: Vec<Measured>,
    /// Nodes, and ranks over all of them.
    pub(super) shape: (u32, u32),
    /// Where they are from, for people.
    pub(super) origin: String,
}

/// The evidence of `profile`, which is the file `path`: its run's store, or what it says itself.
///
/// # Errors
/// Wrong use: a run that is not the profile's, or files that cannot be read.
pub(super) fn of_profile(args: &EvidenceArgs, path: &Path, profile: &Profile) -> Result<Evidence, Failure> {
    let shape = args.shape.unwrap_or((profile.cluster.nodes, profile.cluster.ranks));
    if let Some(records) = records_of(args.run.as_deref(), profile)? {
        check(args, evidence::measured_shapes(&records).into_iter().chain(shapes_of(profile)))?;
        let origin = format!("the store of run {}: medians of the default arm, speed-ups of the A/B", profile.run.id);
        return Ok(Evidence { measured: evidence::measured(&records, shape), shape, origin });
    }
    check(args, shapes_of(profile))?;
    let (picks, and) = match picks_beside(path)? {
        Some(picks) => (picks, format!(" and {}", path.with_file_name(CHOICES).display())),
        None => (Vec::new(), String::new()),
    };
    let origin = format!(
        "{}{and} alone, as the store of run {} is not here: sizes that no rule covers have none, and those of one rule have the \
         speed-up of all its sizes together",
        path.display(),
        profile.run.id
    );
    Ok(Evidence { measured: measured_by_profile(profile, &picks, shape), shape, origin })
}

/// The records of the profile's run, of which `named` must be; without it, `None` where its store is not here.
fn records_of(named: Option<&str>, profile: &Profile) -> Result<Option<Vec<Record>>, Failure> {
    let Some(named) = named else {
        return match command::records_of(profile) {
            Err(OfProfileError::Absent { .. }) => Ok(None),
            read => read.map(Some).map_err(Failure::usage),
        };
    };
    let stored = store::find_run(&paths::runs_dir()?, named).map_err(Failure::usage)?;
    let read = store::read_run_of(&stored, &profile.run.id);
    read.map(Some).map_err(|error| Failure::usage(anyhow::Error::from(error).context("--run")))
}

/// The evidence of a run without its profile.
///
/// # Errors
/// Wrong use: no such run.
pub(super) fn of_run(args: &EvidenceArgs, run: &str) -> Result<Evidence, Failure> {
    let stored = store::find_run(&paths::runs_dir()?, run).map_err(Failure::usage)?;
    let records = store::read_run(&stored).map_err(Failure::usage)?.records;
    check(args, evidence::measured_shapes(&records))?;
    let shape = args.shape.or_else(|| evidence::shapes(&records).first().copied()).unwrap_or_default();
    let origin =
        format!("the store of run {}: medians of the default arm", evidence::run_id(&records).unwrap_or_default());
    Ok(Evidence { measured: evidence::measured(&records, shape), shape, origin })
}

/// Checks that the shape that was asked for is one of `measured`.
fn check(args: &EvidenceArgs, measured: impl IntoIterator<Item = (u32, u32)>) -> Result<(), Failure> {
    let Some(wanted) = args.shape else { return Ok(()) };
    evidence::check_shape(wanted, &measured.into_iter().collect::<Vec<_>>())
        .map_err(|error| Failure::usage(anyhow::Error::from(error).context("--shape")))
}

/// The shapes that a profile has choices for, and its cluster's.
fn shapes_of(profile: &Profile) -> impl Iterator<Item = (u32, u32)> {
    let of_rules = profile.rule.iter().map(|rule| (rule.nodes, rule.ranks));
    std::iter::once((profile.cluster.nodes, profile.cluster.ranks)).chain(of_rules)
}

/// The search's picks from the file beside a profile; `None` where there is none.
///
/// # Errors
/// Wrong use: a file that holds none.
pub(in crate::command) fn picks_beside(profile: &Path) -> Result<Option<Vec<PointChoice>>, Failure> {
    let choices = profile.with_file_name(CHOICES);
    let Ok(text) = fs::read_to_string(&choices) else { return Ok(None) };
    serde_json::from_str(&text)
        .map(Some)
        .map_err(|error| Failure::usage(anyhow::Error::from(error).context(format!("read {}", choices.display()))))
}
