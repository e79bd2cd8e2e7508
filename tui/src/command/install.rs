//! `gdrtune install`: puts a profile on hosts, proves that NCCL uses it there, and takes it away.

use std::{
    fmt::Write as _,
    io::{self, Write},
    path::{Component, Path, PathBuf},
};

use gdrtune_fleet::FleetConfig;
use gdrtune_profiles::install::{self, ENV_FILE, Manifest, Package, SHELL_FILE};
use gdrtune_session::{
    cluster::link::FleetLink,
    connect::{self, ConnectError},
    install::{
        HostOutcome,
        check::{self, CheckPlan, RankVerdict},
        on_hosts,
    },
    lock::{self, Company, LockPlan},
    open,
    run::new_run_id,
};
use gdrtune_wire::{InstallOutcome, Installation, ToAgent};

use super::printable;
use crate::{
    cli::InstallArgs,
    exit::{Exit, Failure},
    hosts::{self, Place, Surroundings},
    profile_file::ProfileFile,
};

/// What to do about hosts that others use: a check has nothing to measure beside them.
const WAIT_HINT: &str = "wait for it with --wait";

/// Ranks per host in a check where the user names no number: one shows all that a host's installation can get wrong.
const CHECK_RANKS: u32 = 1;

pub(crate) fn install(args: &InstallArgs) -> Result<Exit, Failure> {
    let place = place(args)?;
    let folder = folder(args, &place)?;
    super::announce(&place)?;
    match &args.profile {
        _ if args.uninstall => uninstall(args, &place, &folder),
        Some(profile) => put(args, &place, &folder, profile),
        None => check(args, &place, &folder),
    }
}

/// The hosts; on this machine alone, a check has one rank unless the user says otherwise.
fn place(args: &InstallArgs) -> Result<Place, Failure> {
    hosts::resolve(&args.hosts, CHECK_RANKS, Surroundings::ThisMachine)
}

/// The folder's path as the agents take it: absolute, and text.
fn folder(args: &InstallArgs, place: &Place) -> Result<String, Failure> {
    let named = args.to.display();
    let refuse = |why: &str| Failure::usage_text(format!("--to: `{}` {why}", named.to_string().escape_debug()));
    let climbs = |path: &Path| path.components().any(|component| component == Component::ParentDir);
    let path = if place.local {
        std::path::absolute(&args.to).map_err(|_empty| refuse("is no path"))?
    } else if args.to.is_absolute() {
        args.to.clone()
    } else {
        return Err(refuse("is relative: on hosts the folder needs an absolute path"));
    };
    let path = if place.local && climbs(&path) { resolved(&path) } else { path };
    if climbs(&path) {
        return Err(refuse("climbs by `..`: name the folder itself"));
    }
    let text = path.to_str().ok_or_else(|| refuse("is no UTF-8 text, and profiles cannot name it"))?;
    if text.contains(|c: char| c.is_control()) {
        return Err(refuse("has a line break or another control character, which no environment file can hold"));
    }
    let trimmed = text.trim_end_matches('/');
    if trimmed.is_empty() {
        return Err(refuse("is the root of the file system: name a folder of its own"));
    }
    Ok(trimmed.to_owned())
}

/// A path without `..`, as far as it exists.
fn resolved(path: &Path) -> PathBuf {
    let canonical = |base: &Path| Some(base.canonicalize().ok()?.join(path.strip_prefix(base).ok()?));
    path.ancestors().find_map(canonical).unwrap_or_else(|| path.to_owned())
}

fn put(args: &InstallArgs, place: &Place, folder: &str, profile: &Path) -> Result<Exit, Failure> {
    let path = args.path_in_image.as_deref().unwrap_or(folder);
    let Package { files, needs_plugin, manifest } = package(profile, path)?;
    super::warn_of_labels(manifest.labels.iter().map(String::as_str));
    let path = manifest.path.clone();
    let installation =
        Installation { folder: folder.to_owned(), files, with_plugin: needs_plugin, manifest, force: args.force };
    let request = ToAgent::Install(Box::new(installation));
    let outcomes = ask(args, place, &request)?;
    let exit = report(&outcomes, |outcome| match outcome {
        InstallOutcome::Installed { files } => Ok(format!("installed {} files", files.len())),
        other => Err(unexpected(other)),
    })?;
    if exit == Exit::Done {
        let shell = gdrtune_profiles::grammar::shell::quote(&install::file_path(&path, SHELL_FILE));
        writeln!(io::stdout(), "jobs take it with `. {shell}`, or from {}", install::file_path(&path, ENV_FILE))?;
    }
    Ok(exit)
}

/// Reads the profile and makes the files.
fn package(profile: &Path, path: &str) -> Result<Package, Failure> {
    let name = profile.display().to_string();
    let ProfileFile { text, profile, .. } = super::read_profile(profile)?;
    install::package(&profile, &text, path, env!("CARGO_PKG_VERSION")).map_err(|error| {
        let is_other_engine = matches!(error, install::PackageError::OtherEngine { .. });
        let failure = Failure::usage(anyhow::Error::from(error).context(format!("install {name}")));
        if is_other_engine {
            failure.with_hint("`gdrtune emit` shows its settings; tune with --engine nccl for rules that NCCL can use")
        } else {
            failure
        }
    })
}

fn uninstall(args: &InstallArgs, place: &Place, folder: &str) -> Result<Exit, Failure> {
    let request = ToAgent::Uninstall { folder: folder.to_owned(), force: args.force };
    let outcomes = ask(args, place, &request)?;
    if outcomes.iter().all(|outcome| outcome.outcome == Ok(InstallOutcome::NotInstalled)) {
        return Err(not_installed(folder));
    }
    report(&outcomes, |outcome| match outcome {
        InstallOutcome::Uninstalled { removed, kept } if kept.is_empty() => {
            Ok(format!("removed {} files", removed.len()))
        }
        InstallOutcome::Uninstalled { removed, kept } => {
            Err(format!("removed {} files, and kept: {}; --force removes them", removed.len(), kept.join("; ")))
        }
        InstallOutcome::NotInstalled => Ok("there was no installation".to_owned()),
        other => Err(unexpected(other)),
    })
}

fn not_installed(folder: &str) -> Failure {
    let text = format!(
        "there is no installation of gdrtune in {folder}: is that the folder of --to at install, on these hosts?"
    );
    Failure::new(Exit::NothingMatched, anyhow::Error::msg(text))
}

fn unexpected(outcome: &InstallOutcome) -> String {
    match outcome {
        InstallOutcome::Failed(why) => why.clone(),
        InstallOutcome::NotInstalled => "there is no installation".to_owned(),
        other => format!("the agent answered something else: {other:?}"),
    }
}

fn config(args: &InstallArgs, place: &Place) -> Result<FleetConfig, Failure> {
    let library = super::library_text(args.job.nccl.as_deref())?.or_else(|| place.nccl.clone());
    Ok(super::fleet_config(place, library.as_deref())?)
}

/// Asks every host.
///
/// # Errors
/// Where no host could be reached.
fn ask(args: &InstallArgs, place: &Place, request: &ToAgent) -> Result<Vec<HostOutcome>, Failure> {
    let runtime = super::runtime()?;
    let outcomes = on_hosts(runtime.handle(), config(args, place)?, &place.hosts, request)
        .map_err(|error| Failure::new(Exit::Preflight, error))?;
    if outcomes.iter().any(|outcome| outcome.reached) {
        return Ok(outcomes);
    }
    let reasons: Vec<String> = outcomes.into_iter().filter_map(|outcome| outcome.outcome.err()).collect();
    Err(Failure::new(Exit::Preflight, anyhow::Error::msg(format!("no host can be used: {}", reasons.join("; ")))))
}

/// One line per host. The exit code is that of an error where any failed.
fn report(
    outcomes: &[HostOutcome],
    describe: impl Fn(&InstallOutcome) -> Result<String, String>,
) -> Result<Exit, Failure> {
    let mut exit = Exit::Done;
    for HostOutcome { host, outcome, .. } in outcomes {
        match outcome.as_ref().map_err(Clone::clone).and_then(&describe) {
            Ok(text) => writeln!(io::stdout(), "{host}: {text}")?,
            Err(why) => {
                exit = Exit::Unexpected;
                super::say(&format!("{host}: {why}"));
            }
        }
    }
    Ok(exit)
}

fn check(args: &InstallArgs, place: &Place, folder: &str) -> Result<Exit, Failure> {
    let outcomes = ask(args, place, &ToAgent::InspectInstallation { folder: folder.to_owned() })?;
    if outcomes.iter().all(|outcome| outcome.outcome == Ok(InstallOutcome::NotInstalled)) {
        return Err(not_installed(folder));
    }
    let (manifest, findings) = findings(folder, &outcomes);
    let mut out = io::stdout().lock();
    for finding in &findings {
        writeln!(out, "FAIL {}", printable(finding))?;
    }
    let Some(manifest) = manifest.filter(|_| findings.is_empty()) else { return Ok(Exit::Findings) };
    writeln!(out, "OK   the files of run {} are whole on {}", printable(&manifest.run), hosts_text(outcomes.len()))?;
    for label in &manifest.labels {
        writeln!(out, "NOTE {}", printable(label))?;
    }
    let verdicts = run_check(args, place, folder, &manifest)?;
    let mut exit = Exit::Done;
    for verdict in &verdicts {
        let host = place.hosts.get(verdict.node).map_or("", |host| host.name.as_str());
        write!(out, "{}", lines(verdict, host, &manifest))?;
        if verdict.result.is_err() {
            exit = Exit::Findings;
        }
    }
    Ok(exit)
}

/// What is wrong with the files, and the manifest that all hosts have.
fn findings(folder: &str, outcomes: &[HostOutcome]) -> (Option<Manifest>, Vec<String>) {
    let mut first: Option<(&str, &Manifest)> = None;
    let mut all = Vec::new();
    for HostOutcome { host, outcome, .. } in outcomes {
        match outcome {
            Ok(InstallOutcome::Inspected { manifest, findings }) => {
                all.extend(findings.iter().map(|finding| format!("{host}: {finding}")));
                let (first_host, expected) = *first.get_or_insert((host, manifest));
                if (manifest.rules, &manifest.run) != (expected.rules, &expected.run) || !same_files(manifest, expected)
                {
                    all.push(format!("{host}: another installation than on {first_host}: install on all hosts again"));
                }
                if manifest.path != folder {
                    all.push(format!(
                        "{host}: the files name {}, where jobs are to find them: check that folder, inside the image",
                        manifest.path
                    ));
                }
            }
            Ok(other) => all.push(format!("{host}: {}", unexpected(other))),
            Err(why) => all.push(format!("{host}: {why}")),
        }
    }
    (first.map(|(_, manifest)| manifest.clone()), all)
}

/// Whether two hosts have the same files. The plugin is another one on another kind of machine.
fn same_files(one: &Manifest, other: &Manifest) -> bool {
    let hash = |manifest: &Manifest, name: &str| manifest.sha256(name).map(str::to_owned);
    let names = one.files.iter().map(|file| file.name.as_str()).filter(|name| *name != install::PLUGIN_FILE);
    one.files.len() == other.files.len() && names.into_iter().all(|name| hash(one, name) == hash(other, name))
}

fn run_check(
    args: &InstallArgs,
    place: &Place,
    folder: &str,
    manifest: &Manifest,
) -> Result<Vec<RankVerdict>, Failure> {
    let runtime = super::runtime()?;
    let connected = connect::connect(runtime.handle(), config(args, place)?, &place.hosts, &|| false)
        .map_err(|error| Failure::new(Exit::Preflight, error))?;
    let plan = CheckPlan {
        slots: place.slots.clone(),
        emulate_nodes: args.job.emulate_nodes,
        folder: folder.to_owned(),
        manifest: manifest.clone(),
        key: open::new_key(),
    };
    let mut link = FleetLink::new(&connected.fleet, &connected.events);
    let claim = LockPlan { run: &new_run_id(), hosts: &place.hosts, shared: false, wait: args.job.wait() };
    let verdicts = lock::lock(&mut link, &claim, Company { interrupted: &|| false, tell: &super::say })
        .map(|_waited| check::check(&mut link, &plan));
    runtime.block_on(connected.fleet.shutdown());
    verdicts.map_err(|refusal| match refusal.error {
        error @ ConnectError::Held { .. } => Failure::new(Exit::Preflight, error).with_hint(WAIT_HINT),
        other => super::unusable(other),
    })
}

/// A number of hosts in words.
fn hosts_text(count: usize) -> String {
    if count == 1 { "1 host".to_owned() } else { format!("{count} hosts") }
}

/// A rank's line, and the lines of NCCL's log that prove it.
fn lines(verdict: &RankVerdict, host: &str, manifest: &Manifest) -> String {
    let rank = verdict.rank;
    match &verdict.result {
        Err(why) => format!("FAIL rank {rank} on {host}: {}\n", printable(why)),
        Ok(evidence) if evidence.is_empty() => {
            format!("OK   rank {rank} on {host}: runs under the settings; the profile has no rules\n")
        }
        Ok(evidence) => {
            let mut text =
                format!("OK   rank {rank} on {host}: NCCL loaded the plugin, which read {} rules\n", manifest.rules);
            for line in evidence {
                // Writing to a string cannot fail.
                writeln!(text, "       {}", printable(line)).ok();
            }
            if evidence.iter().any(|line| line.contains(", 0 of them for ")) {
                text.push_str(
                    "NOTE no rule is for this shape: check with the hosts and --ranks-per-node of the jobs\n",
                );
            }
            text
        }
    }
}
