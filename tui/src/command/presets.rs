//! Reads what options name: a preset, or a file.

use std::{fs, path::Path};

use gdrtune_profiles::{
    source::{Preset, TextError},
    space::SpaceFile,
    workload::Workload,
};
use gdrtune_session::offline::SimRequest;

use crate::exit::Failure;

/// The workload of `--workload`.
///
/// # Errors
/// Wrong use: neither a preset nor a file, or a file that is no workload.
pub(super) fn workload(given: &str) -> Result<Workload, Failure> {
    read("--workload", given, Workload::preset, Workload::parse)
}

/// The workload of an argument that is no option's.
///
/// # Errors
/// As of [`workload`].
pub(super) fn workload_argument(given: &str) -> Result<Workload, Failure> {
    read("workload", given, Workload::preset, Workload::parse)
}

/// The space of `--space`.
///
/// # Errors
/// Wrong use: neither a preset nor a file, or a file that is no space.
pub(super) fn space(given: &str) -> Result<SpaceFile, Failure> {
    read("--space", given, SpaceFile::preset, SpaceFile::parse)
}

/// The simulated cluster of `--cluster`.
///
/// # Errors
/// Wrong use: neither a preset nor a file, or a file that is no cluster.
pub(super) fn cluster(given: &str) -> Result<SimRequest, Failure> {
    read("--cluster", given, SimRequest::preset, SimRequest::parse)
}

/// The file that an option's value names, if it is no preset.
pub(super) fn file_of<'a>(given: &'a str, presets: &[Preset]) -> Option<&'a Path> {
    let is_preset = presets.iter().any(|preset| preset.name == given);
    (!is_preset).then(|| Path::new(given))
}

/// A preset goes before a file of the same name: `./NAME` is the file.
fn read<T>(
    option: &str,
    given: &str,
    preset: fn(&str) -> Result<T, TextError>,
    parse: fn(&str, &str) -> Result<T, TextError>,
) -> Result<T, Failure> {
    let unknown = match preset(given) {
        Err(unknown @ TextError::UnknownPreset { .. }) => unknown,
        result => return result.map_err(Failure::usage),
    };
    let path = Path::new(given);
    let is_path = given.contains('/') || path.extension().is_some_and(|end| end == "toml") || path.exists();
    if !is_path {
        return Err(Failure::usage(anyhow::Error::from(unknown).context(option.to_owned())));
    }
    let text = fs::read_to_string(given)
        .map_err(|error| Failure::usage(anyhow::Error::from(error).context(format!("{option}: read {given}"))))?;
    parse(&text, given).map_err(Failure::usage)
}
