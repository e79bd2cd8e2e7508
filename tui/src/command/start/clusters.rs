//! Clusters that a new run may take: the job around us, those of earlier runs, this machine, and those that are simulated.

use std::{
    collections::HashMap,
    env,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
};

use clap::{Args as _, CommandFactory as _, parser::ValueSource};
use gdrtune_fleet::{
    hosts::{Allocation, fold},
    launcher::quote,
    site::Site,
};
use gdrtune_profiles::vocab::Engine;
use gdrtune_session::{index::RunRow, run::began_at};
use gdrtune_tuner::sim::Cluster;

use super::super::runs::age_of;
use crate::{
    cli::{Cli, HostArgs},
    hosts::{self, LOCAL_RANKS},
    ui::{
        ago,
        start::{ClusterLine, FieldId},
    },
};

/// Newest runs that are looked through: what was not tuned for so long is typed.
const NEWEST_RUNS: usize = 300;

/// Options of hosts that are paths, and so are relative to the folder that a run was started in.
const PATHS: [&str; 4] = ["hostfile", "site", "ssh_config", "agent_dir"];

/// How the hosts of a run were named; what the form has for them.
type Fields = Vec<(FieldId, String)>;

/// Reads clusters, and remembers what it has read.
pub(super) struct Clusters {
    command: clap::Command,
    /// The hosts of a command line, by its words and its folder; none where it names none.
    read: HashMap<(Vec<String>, String), Option<Fields>>,
    /// Those that no run changes.
    simulated: Vec<ClusterLine>,
}

impl Clusters {
    pub(super) fn new() -> Self {
        Self { command: Cli::command(), read: HashMap::new(), simulated: simulated() }
    }

    /// The clusters: the job, those of `rows` (newest first), this machine, the simulated ones.
    pub(super) fn known(&mut self, rows: &[RunRow]) -> Vec<ClusterLine> {
        let job = Allocation::from_environment(|name| env::var(name).ok()).ok().flatten();
        let earlier = self.earlier(rows);
        let local = this_machine(job.is_some());
        job.iter().map(of_job).chain(earlier).chain([local]).chain(self.simulated.iter().cloned()).collect()
    }

    /// Each once, as it was last tuned.
    fn earlier(&mut self, rows: &[RunRow]) -> Vec<ClusterLine> {
        let mut lines: Vec<ClusterLine> = Vec::new();
        for row in rows.iter().take(NEWEST_RUNS) {
            let Some(fields) = self.fields(row) else { continue };
            if lines.iter().all(|line| line.fields != fields) {
                lines.push(line(row, fields));
            }
        }
        lines
    }

    fn fields(&mut self, row: &RunRow) -> Option<Fields> {
        let key = (row.args.clone(), row.dir.clone());
        if let Some(known) = self.read.get(&key) {
            return known.clone();
        }
        let fields = fields_of(&mut self.command, &row.args, Path::new(&row.dir));
        self.read.insert(key, fields.clone());
        fields
    }
}

/// What a command line says of its hosts, as the fields of the form; none where it names none.
fn fields_of(command: &mut clap::Command, args: &[String], dir: &Path) -> Option<Fields> {
    let words = ["gdrtune"].into_iter().chain(args.iter().map(String::as_str)).map(OsString::from);
    let matches = command.try_get_matches_from_mut(words).ok()?;
    let ("tune", tune) = matches.subcommand()? else { return None };
    let is_elsewhere = env::current_dir().is_ok_and(|here| here != dir);
    let mut fields = Vec::new();
    let mut more = Vec::new();
    for option in HostArgs::augment_args(clap::Command::new("hosts")).get_arguments() {
        let (id, Some(long)) = (option.get_id().as_str(), option.get_long()) else { continue };
        if tune.value_source(id) != Some(ValueSource::CommandLine) {
            continue;
        }
        let value = tune.get_raw(id).and_then(|mut values| values.next()).and_then(|value| value.to_str());
        let path = value.map(|value| dir.join(value)).filter(|_| is_elsewhere && PATHS.contains(&id));
        let value = path.as_deref().and_then(Path::to_str).or(value);
        match (id, value.filter(|_| option.get_action().takes_values())) {
            ("hosts", Some(value)) => fields.push((FieldId::Hosts, value.to_owned())),
            ("site", Some(value)) => fields.push((FieldId::Site, value.to_owned())),
            ("ranks_per_node", Some(value)) => fields.push((FieldId::RanksPerNode, value.to_owned())),
            (_, Some(value)) => more.push(format!("--{long} {}", quote(value))),
            (_, None) => more.push(format!("--{long}")),
        }
    }
    let names_hosts = ["hosts", "hostfile", "site"].iter().any(|id| tune.contains_id(id));
    if !names_hosts {
        return None;
    }
    if let Some(engine) = tune.get_one::<Engine>("engine").filter(|engine| **engine != Engine::Native) {
        fields.push((FieldId::Engine, engine.name().to_owned()));
    }
    if !more.is_empty() {
        fields.push((FieldId::More, more.join(" ")));
    }
    Some(fields)
}

/// An earlier run's cluster.
fn line(row: &RunRow, fields: Fields) -> ClusterLine {
    let site = fields.iter().find(|(id, _)| *id == FieldId::Site).map(|(_, path)| PathBuf::from(path));
    let when = began_at(&row.run).and_then(age_of).map(|age| format!(", tuned {}", ago(age))).unwrap_or_default();
    let (name, what) = match site {
        None => (row.hosts.clone(), String::new()),
        Some(path) => of_site(&path),
    };
    ClusterLine { name, about: format!("{what}{} ranks, {}{when}", row.ranks, row.engine), fields }
}

/// Name of a site file's cluster, and what there is to say of it.
fn of_site(path: &Path) -> (String, String) {
    let file = path.display().to_string();
    let site = fs::read_to_string(path).map_err(|error| error.to_string());
    match site.and_then(|text| Site::parse(&text, &file).map_err(|error| error.to_string())) {
        Ok(site) => (site.name, format!("site file {file}: ")),
        Err(_) => (file, "site file that cannot be read now: ".to_owned()),
    }
}

fn of_job(job: &Allocation) -> ClusterLine {
    let names: Vec<&str> = job.hosts.hosts.iter().map(|host| host.name.as_str()).collect();
    ClusterLine {
        name: format!("Slurm job {}", job.job),
        about: format!("the allocation around us: {} hosts, {}", names.len(), fold(&names)),
        fields: Vec::new(),
    }
}

fn this_machine(is_in_job: bool) -> ClusterLine {
    let n_gpus = hosts::gpus(Path::new("/dev"));
    let (about, engine) = match n_gpus {
        0 => (format!("{LOCAL_RANKS} ranks over the loopback, native engine: no GPU is here"), None),
        n => (format!("{n} GPUs, one rank each, with NCCL"), Some((FieldId::Engine, Engine::Nccl.name().to_owned()))),
    };
    // Within a job, its nodes would be meant.
    let launcher = is_in_job.then(|| (FieldId::More, "--launcher local".to_owned()));
    ClusterLine { name: "this machine".to_owned(), about, fields: engine.into_iter().chain(launcher).collect() }
}

fn simulated() -> Vec<ClusterLine> {
    let line = |name: &str| {
        let about = Cluster::preset(name).map(|cluster| cluster.name).unwrap_or_default();
        let fields = [(FieldId::Engine, Engine::Sim.name()), (FieldId::Cluster, name)];
        ClusterLine {
            name: name.to_owned(),
            about: format!("SIMULATED: {about}"),
            fields: fields.map(|(id, value)| (id, value.to_owned())).to_vec(),
        }
    };
    Cluster::PRESETS.iter().map(|preset| line(preset.name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hosts_of_an_earlier_run_fill_in_the_form() {
        let mut command = Cli::command();
        let mut fields = |words: &str, dir: &Path| {
            let args: Vec<String> = words.split(' ').map(str::to_owned).collect();
            let fields = fields_of(&mut command, &args, dir)?;
            Some(fields.into_iter().map(|(id, value)| format!("{} {value}", id.label())).collect::<Vec<_>>())
        };
        let here = env::current_dir().unwrap();
        for (words, expected) in [
            ("tune --sizes 1K", None),
            ("tune --engine sim --cluster null", None),
            ("bench -w a", None),
            ("tune -w a --no-such", None),
            ("tune -w node[1-4] --ranks-per-node 8", Some(vec!["hosts node[1-4]", "ranks per node 8"])),
            (
                "tune --site s.toml --engine nccl --fanout 4 --accept-new-host-keys -x n1",
                Some(vec![
                    "site file s.toml",
                    "engine nccl",
                    "more options --exclude-hosts 'n1' --accept-new-host-keys --fanout '4'",
                ]),
            ),
        ] {
            let expected = expected.map(|lines| lines.into_iter().map(str::to_owned).collect::<Vec<_>>());
            assert_eq!(fields(words, &here), expected, "{words}");
        }
        let elsewhere = fields("tune --site s.toml --hostfile h -w x", Path::new("/jobs"));
        assert_eq!(elsewhere, None, "hosts and a host file refuse each other");
        let elsewhere = fields("tune --site s.toml --hostfile h", Path::new("/jobs")).unwrap();
        assert_eq!(elsewhere, ["site file /jobs/s.toml", "more options --hostfile '/jobs/h'"]);
    }
}
