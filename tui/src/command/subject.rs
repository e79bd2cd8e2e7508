//! What `explain` and `diff` are asked about: a profile, or a run, with what is known of each beside it.

use std::{fs, path::Path};

use gdrtune_profiles::{
    diagnostic::printable,
    profile::{Baseline, Cluster, FORMAT, PointChoice, Profile, Run},
};
use gdrtune_session::{
    event::{Event, Record},
    evidence,
    store::{self, OfProfileError},
};

use super::workload;
use crate::{exit::Failure, paths};

/// A profile with its run, as far as they are there.
pub(super) struct Loaded {
    /// What the user named, for people.
    pub(super) name: String,
    /// The settings; of a run without any yet, none.
    pub(super) profile: Profile,
    /// The records of its run, where the store is here.
    pub(super) records: Option<Vec<Record>>,
    /// The search's picks from the file beside the profile; none where there is none.
    pub(super) picks: Vec<PointChoice>,
    /// What is odd, in sentences.
    pub(super) notes: Vec<String>,
}

/// Reads what the user named.
///
/// # Errors
/// Wrong use: it is neither a profile nor a run, or cannot be read.
pub(super) fn load(named: &str) -> Result<Loaded, Failure> {
    let path = Path::new(named);
    let is_store = path.extension().is_some_and(|extension| extension == store::EXTENSION);
    // `~/` is the user's home, which the reader of profiles knows.
    if named.starts_with("~/") || path.exists() && !is_store {
        return of_profile(path);
    }
    // What looks like a path is none of a run.
    if !path.exists() && (named.contains('/') || path.extension().is_some_and(|extension| extension == "toml")) {
        return of_profile(path);
    }
    of_run(&store::find_run(&paths::runs_dir()?, named).map_err(|error| {
        Failure::usage(error).with_hint("name a profile (a file or an output folder), or a run: gdrtune runs")
    })?)
}

fn of_profile(path: &Path) -> Result<Loaded, Failure> {
    let file = super::read_profile(path)?;
    let picks = workload::picks_beside(&file.path)?.unwrap_or_default();
    let mut loaded = Loaded {
        name: format!("profile {}", printable(&file.path.display().to_string())),
        profile: file.profile,
        records: None,
        picks,
        notes: Vec::new(),
    };
    match super::records_of(&loaded.profile) {
        Ok(records) => loaded.records = Some(records),
        Err(error @ OfProfileError::Absent { .. }) => {
            loaded.notes.push(format!("{error}: what it tried is not known"));
        }
        Err(OfProfileError::OtherRun { run, .. }) => {
            loaded.notes.push(format!("the store of the name {run} is another run's"));
        }
        Err(OfProfileError::Store(error)) => loaded.notes.push(format!("the run's store cannot be used: {error}")),
    }
    Ok(loaded)
}

fn of_run(path: &Path) -> Result<Loaded, Failure> {
    let records = store::read_run(path).map_err(Failure::usage)?.records;
    let Some(run) = evidence::run_id(&records).map(str::to_owned) else {
        return Err(Failure::usage_text(format!("{} holds no run", path.display())));
    };
    // What was told of other nodes is none of what the run came to.
    let mut of_nodes = records.iter().rev().take_while(|record| !matches!(record.event, Event::NodeSet { .. }));
    let told = of_nodes.find_map(|record| match &record.event {
        Event::Profile { profile, .. } => Some((**profile).clone()),
        _ => None,
    });
    let mut notes = Vec::new();
    let profile = if let Some(profile) = told.or_else(|| written(&records, &run)) {
        profile
    } else {
        notes.push("the run has not come to a profile".to_owned());
        empty(&records, run.clone())
    };
    Ok(Loaded { name: format!("run {}", printable(&run)), profile, records: Some(records), picks: Vec::new(), notes })
}

/// The profile that a run has written, where it is still there: older runs do not tell it otherwise.
fn written(records: &[Record], run: &str) -> Option<Profile> {
    let files = records.iter().rev().find_map(|record| match &record.event {
        Event::Written { files, so_far: false } => Some(files),
        _ => None,
    })?;
    let file = files.iter().find(|file| file.ends_with("profile.toml"))?;
    let read = Profile::parse_bytes(&fs::read(file).ok()?, file).ok()?;
    Some(read.0).filter(|profile| profile.run.id == run)
}

/// A profile without settings, of a run that told none.
fn empty(records: &[Record], run: String) -> Profile {
    let started = records.iter().find_map(|record| match &record.event {
        Event::RunStarted { engine, tool, workload, .. } => Some((*engine, tool.clone(), workload.clone())),
        _ => None,
    });
    let (engine, tool, workload) =
        started.unwrap_or((gdrtune_profiles::vocab::Engine::Native, String::new(), String::new()));
    let (nodes, ranks) = evidence::shapes(records).first().copied().unwrap_or_default();
    Profile {
        format: FORMAT,
        cluster: Cluster { nodes, ranks, gpu: None, nccl: None, fingerprint: String::new() },
        run: Run {
            id: run,
            tool,
            engine,
            emulated: records.iter().any(|record| matches!(record.event, Event::Emulated { .. })),
            unverified: false,
            baseline: Baseline::Site,
            workload,
            trials: 0,
            notes: Vec::new(),
        },
        env: Vec::new(),
        rule: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_neither_a_profile_nor_a_run_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("profile.toml");
        fs::write(&path, include_str!("../../../profiles/tests/golden/nccl.toml")).unwrap();
        for named in [path.to_str().unwrap(), folder.path().to_str().unwrap()] {
            let loaded = load(named).unwrap_or_else(|failure| panic!("{named}: {:?}", failure.error));
            assert_eq!((loaded.profile.rule.len(), loaded.records.is_none()), (2, true), "{named}");
            assert!(loaded.notes[0].contains("is not here"), "{:?}", loaded.notes);
        }
        for (named, text) in [("none/profile.toml", "No such file"), ("no-such-run-here", "no run `no-such-run-here`")]
        {
            let error = load(named).err().map(|failure| format!("{:#}", failure.error)).unwrap();
            assert!(error.contains(text), "{named}: {error}");
        }
    }
}
