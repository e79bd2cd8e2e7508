//! From the command line's hosts to what fleet and session need: hosts in rank order, ranks on each, and the launcher.
//! What the command line does not say comes from the site file, then from the Slurm allocation around us.

mod launcher;

use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use gdrtune_fleet::{
    DEFAULT_FANOUT, LauncherKind,
    hosts::{self, Allocation, Host, HostList},
    site::{LauncherName, Site},
};

use crate::{cli::HostArgs, exit::Failure};

/// Ranks on this machine when no hosts are given.
pub(crate) const LOCAL_RANKS: u32 = 4;

/// Where a run takes place.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    /// Hosts in rank order.
    pub(crate) hosts: Vec<Host>,
    /// Ranks on each host.
    pub(crate) slots: Vec<u32>,
    /// Whether the one host is this machine.
    pub(crate) local: bool,
    /// How agents are started.
    pub(crate) launcher: LauncherKind,
    /// Launches at one time.
    pub(crate) fanout: usize,
    /// Variables that agents find.
    pub(crate) environment: Vec<(String, String)>,
    /// Folder on the hosts for the executable.
    pub(crate) remote_folder: Option<String>,
    /// Folder here with builds for other hosts.
    pub(crate) agent_folder: Option<PathBuf>,
    /// NCCL on the hosts, as the site file says.
    pub(crate) nccl: Option<String>,
    /// Hosts that the command line does not name, in a few words.
    pub(crate) about: Option<String>,
    /// What to warn about.
    pub(crate) warnings: Vec<String>,
}

/// Whether a command takes the allocation around it for its hosts, where nobody names any.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Surroundings {
    /// Within a job, its nodes are what is meant.
    Job,
    /// This machine is meant.
    ThisMachine,
}

/// Where the hosts are from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origin {
    CommandLine,
    Site,
    Allocation,
    Nowhere,
}

/// GPUs of NVIDIA's driver among the device files in `folder`; 0 where there is none.
pub(crate) fn gpus(folder: &Path) -> u32 {
    let is_gpu = |name: &str| name.strip_prefix("nvidia").is_some_and(|rest| rest.parse::<u8>().is_ok());
    let names = fs::read_dir(folder).into_iter().flatten().flatten();
    names.filter(|entry| entry.file_name().to_str().is_some_and(is_gpu)).count() as u32
}

/// Reads what says where: the command line, the site file, the environment. `local_ranks` counts on this machine alone, where
/// the user does not say.
///
/// # Errors
/// Wrong use, naming file, line and column.
pub(crate) fn resolve(args: &HostArgs, local_ranks: u32, surroundings: Surroundings) -> Result<Place, Failure> {
    resolve_in(args, local_ranks, surroundings, &|name| std::env::var(name).ok())
}

fn resolve_in(
    args: &HostArgs,
    local_ranks: u32,
    surroundings: Surroundings,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<Place, Failure> {
    let site = args.site.as_deref().map(read_site).transpose()?.unwrap_or_default();
    let allocation = Allocation::from_environment(variable).map_err(Failure::usage)?;
    let wanted = launcher::wanted(args, &site)?;
    let is_job_meant = match wanted {
        LauncherName::Slurm => true,
        LauncherName::Local => false,
        LauncherName::Auto | LauncherName::Ssh | LauncherName::Exec => surroundings == Surroundings::Job,
    };
    let (origin, mut list) = named(args, &site, allocation.as_ref().filter(|_| is_job_meant))?;
    if let (Origin::Site | Origin::Allocation, false) = (origin, site.excluded.hosts.is_empty()) {
        let before = list.warnings.len();
        list.exclude(&site.excluded);
        if origin == Origin::Allocation {
            // The file is about the whole cluster, of which the job has a part.
            list.warnings.truncate(before);
        }
    }
    if let Some(text) = &args.exclude_hosts {
        list.exclude(&hosts::parse_list("-x", text).map_err(Failure::usage)?);
    }
    if list.hosts.is_empty() && origin != Origin::Nowhere {
        return Err(Failure::usage_text("every host is excluded: leave fewer out with -x"));
    }
    let launcher = launcher::choose(wanted, args, &site, &list.hosts, allocation.as_ref())?;
    if matches!(launcher, LauncherKind::Slurm) {
        launcher::refuse_many_tasks(variable)?;
    }
    let local = list.hosts.is_empty();
    if local {
        list.hosts.push(Host::named("localhost"));
    }
    let fanout = args.fanout.map(usize::from).or(site.fanout);
    Ok(Place {
        slots: slots(args, &site, &list.hosts, allocation.as_ref(), if local { local_ranks } else { 1 }),
        about: about(origin, &site, &list.hosts, allocation.as_ref()),
        local,
        launcher,
        fanout: fanout.unwrap_or(DEFAULT_FANOUT),
        environment: site.environment,
        remote_folder: args.remote_dir.clone().or(site.remote_folder),
        agent_folder: agent_folder(args.agent_dir.clone().or(site.agent_folder))?,
        nccl: site.nccl,
        warnings: list.warnings,
        hosts: list.hosts,
    })
}

/// This machine alone, without ssh.
pub(crate) fn this_machine(ranks: u32) -> Place {
    Place {
        hosts: vec![Host::named("localhost")],
        slots: vec![ranks],
        local: true,
        launcher: LauncherKind::Local,
        fanout: DEFAULT_FANOUT,
        environment: Vec::new(),
        remote_folder: None,
        agent_folder: None,
        nccl: None,
        about: None,
        warnings: Vec::new(),
    }
}

/// A folder that is not there would only show on the first host that needs it.
fn agent_folder(path: Option<PathBuf>) -> Result<Option<PathBuf>, Failure> {
    match path {
        Some(path) if !path.is_dir() => {
            let text = format!("--agent-dir: {} is no folder", path.display());
            Err(Failure::usage_text(text).with_hint("name the folder that dist.sh has made, or one with its files"))
        }
        path => Ok(path),
    }
}

fn read_site(path: &Path) -> Result<Site, Failure> {
    let name = path.display().to_string();
    let text = fs::read_to_string(path).with_context(|| format!("read site file {name}")).map_err(Failure::usage)?;
    Site::parse(&text, &name).map_err(Failure::usage)
}

/// The hosts of whoever names some first.
fn named(args: &HostArgs, site: &Site, allocation: Option<&Allocation>) -> Result<(Origin, HostList), Failure> {
    if let Some(text) = &args.hosts {
        return Ok((Origin::CommandLine, hosts::parse_list("-w", text).map_err(Failure::usage)?));
    }
    if let Some(path) = &args.hostfile {
        let name = path.display().to_string();
        let text =
            fs::read_to_string(path).with_context(|| format!("read host file {name}")).map_err(Failure::usage)?;
        return Ok((Origin::CommandLine, hosts::parse_file(&name, &text).map_err(Failure::usage)?));
    }
    if !site.hosts.hosts.is_empty() {
        return Ok((Origin::Site, site.hosts.clone()));
    }
    let of_job = |host: &Host| Host::named(&host.name);
    Ok(match allocation {
        // Slurm's numbers come after those that a user gives, so they do not stand beside the names.
        Some(allocation) => {
            let hosts = allocation.hosts.hosts.iter().map(of_job).collect();
            (Origin::Allocation, HostList { hosts, warnings: Vec::new() })
        }
        None => (Origin::Nowhere, HostList::default()),
    })
}

/// Ranks on each host: what stands beside its name, the command line's and the site's number, Slurm's tasks.
fn slots(args: &HostArgs, site: &Site, hosts: &[Host], allocation: Option<&Allocation>, usual: u32) -> Vec<u32> {
    let nodes = allocation.iter().flat_map(|job| &job.hosts.hosts);
    let tasks: HashMap<&str, u32> = nodes.filter_map(|node| Some((node.name.as_str(), node.slots?))).collect();
    let everywhere = args.ranks_per_node.or(site.ranks_per_node);
    let of = |host: &Host| host.slots.or(everywhere).or(tasks.get(host.name.as_str()).copied()).unwrap_or(usual);
    hosts.iter().map(of).collect()
}

/// Which hosts these are, where the command line does not name them.
fn about(origin: Origin, site: &Site, hosts: &[Host], allocation: Option<&Allocation>) -> Option<String> {
    let from = match origin {
        Origin::Site => format!("site {}", site.name),
        Origin::Allocation => format!("Slurm job {}", allocation?.job),
        Origin::CommandLine | Origin::Nowhere => return None,
    };
    let names: Vec<&str> = hosts.iter().map(|host| host.name.as_str()).collect();
    let count = if names.len() == 1 { "1 host".to_owned() } else { format!("{} hosts", names.len()) };
    Some(format!("{count} of {from}: {}", hosts::fold(&names)))
}

#[cfg(test)]
mod tests;
