//! `gdrtune workload`: workload files of real jobs and of model sizes, what is in them, and what a profile does to them.

mod estimate;
mod evidence;
mod import;
mod predict;
mod show;

use std::{
    io::{self, Write as _},
    path::Path,
};

use gdrtune_profiles::workload::Workload;
use gdrtune_session::output;

pub(super) use self::evidence::picks_beside;
use super::page::COLUMNS;
use crate::{
    cli::{WorkloadArgs, WorkloadCommand},
    exit::{Exit, Failure},
};

pub(crate) fn workload(args: &WorkloadArgs) -> Result<Exit, Failure> {
    match &args.command {
        WorkloadCommand::Import(args) => import::import(args),
        WorkloadCommand::Estimate(args) => estimate::estimate(args),
        WorkloadCommand::Show(args) => show::show(args),
        WorkloadCommand::Predict(args) => predict::predict(args),
    }
}

/// Writes a workload file with comments above it, or prints it where no path is given.
fn put(workload: &Workload, comments: &[String], path: Option<&Path>) -> Result<(), Failure> {
    let name = path.map_or("standard output".to_owned(), |path| path.display().to_string());
    let text = workload.to_toml(comments, &name).map_err(Failure::usage)?;
    match path {
        None => io::stdout().write_all(text.as_bytes())?,
        Some(path) => {
            output::write_whole(path, &text).map_err(Failure::usage)?;
            super::say(&format!("wrote {name}"));
        }
    }
    Ok(())
}

/// The name of a workload that is written to `path`.
fn name_of(path: Option<&Path>, otherwise: &str) -> String {
    let stem = path.and_then(Path::file_stem).map(|stem| stem.to_string_lossy().into_owned());
    stem.unwrap_or_else(|| otherwise.to_owned())
}

/// Bytes for people, by powers of 1024.
fn iec(bytes: f64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let (mut value, mut unit) = (bytes, 0);
    while 1023.5 <= value && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    match value {
        value if unit == 0 || 99.95 <= value => format!("{value:.0} {}", units[unit]),
        value => format!("{value:.1} {}", units[unit]),
    }
}

/// A number of calls: whole, or with what counts of a part.
fn calls(count: f64) -> String {
    if count.fract() == 0.0 { format!("{count:.0}") } else { crate::ui::text::trim(count) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        let bytes = [0.0, 1023.0, 1024.0, f64::from(25 << 20), f64::from(1001 << 20), 1e13, 1e19];
        let shown = bytes.map(iec);
        assert_eq!(shown, ["0 B", "1023 B", "1.0 KiB", "25.0 MiB", "1001 MiB", "9.1 TiB", "8882 PiB"]);
        assert_eq!([40.0, 0.5, 1.0 / 3.0].map(calls), ["40", "0.5", "0.333"]);
        assert_eq!(name_of(Some(Path::new("a/job.toml")), "x"), "job");
        assert_eq!(name_of(None, "x"), "x");
    }
}
