//! How agents are started, from what the user says and what is around us.

use std::collections::HashSet;

use gdrtune_fleet::{
    LauncherKind,
    hosts::{self, Allocation, Host},
    launcher::SshOptions,
    site::{LauncherName, Site},
};

use crate::{cli::HostArgs, exit::Failure};

/// What to do without an allocation.
const ALLOCATE: &str = "run it within one: `salloc -N4 gdrtune tune ...`, or in a script of `sbatch -N4`; or reach the hosts \
                        without Slurm with --launcher ssh";

/// What was asked for. A command on the command line asks for itself.
///
/// # Errors
/// Wrong use: a command, and another launcher.
pub(super) fn wanted(args: &HostArgs, site: &Site) -> Result<LauncherName, Failure> {
    match (args.launcher, &args.launcher_cmd) {
        (None | Some(LauncherName::Auto | LauncherName::Exec), Some(_)) => Ok(LauncherName::Exec),
        (Some(other), Some(_)) => Err(Failure::usage_text(format!(
            "--launcher-cmd: the {other} launcher runs no command: use --launcher exec"
        ))),
        (Some(name), None) => Ok(name),
        (None, None) => Ok(match (site.launcher, &site.launcher_command) {
            (Some(name), _) => name,
            (None, Some(_)) => LauncherName::Exec,
            (None, None) => LauncherName::Auto,
        }),
    }
}

/// The launcher for these hosts; none are this machine alone.
///
/// # Errors
/// Wrong use: hosts that it does not reach.
pub(super) fn choose(
    wanted: LauncherName,
    args: &HostArgs,
    site: &Site,
    hosts: &[Host],
    allocation: Option<&Allocation>,
) -> Result<LauncherKind, Failure> {
    let name = match wanted {
        LauncherName::Auto if hosts.is_empty() => LauncherName::Local,
        LauncherName::Auto => match allocation {
            Some(allocation) if hosts.iter().any(|host| is_of(allocation, host)) => LauncherName::Slurm,
            _ => LauncherName::Ssh,
        },
        name => name,
    };
    match name {
        LauncherName::Auto | LauncherName::Local => Ok(LauncherKind::Local),
        LauncherName::Ssh => {
            some_hosts(hosts, name)?;
            Ok(ssh(args, site))
        }
        LauncherName::Slurm => {
            let Some(allocation) = allocation else {
                return Err(Failure::usage_text("--launcher slurm: this is no Slurm allocation").with_hint(ALLOCATE));
            };
            plain_hosts(hosts, name)?;
            within(allocation, hosts)?;
            Ok(LauncherKind::Slurm)
        }
        LauncherName::Exec => {
            let Some(command) = args.launcher_cmd.as_ref().or(site.launcher_command.as_ref()) else {
                let text = "--launcher exec needs a command: --launcher-cmd 'kubectl exec -i {host} -- {agent}'";
                return Err(Failure::usage_text(text));
            };
            some_hosts(hosts, name)?;
            plain_hosts(hosts, name)?;
            if hosts.len() > 1 && !command.names_host() {
                let text = format!("--launcher-cmd: without {{host}} it leads {} hosts to one place", hosts.len());
                return Err(Failure::usage_text(text));
            }
            Ok(LauncherKind::Exec(command.clone()))
        }
    }
}

/// Refuses to be one of several tasks of an srun: each would start agents on all nodes.
pub(super) fn refuse_many_tasks(variable: &dyn Fn(&str) -> Option<String>) -> Result<(), Failure> {
    let tasks = variable("SLURM_STEP_NUM_TASKS").and_then(|tasks| tasks.parse::<u32>().ok()).unwrap_or(1);
    if tasks < 2 || variable("SLURM_PROCID").is_none() {
        return Ok(());
    }
    let text = format!("this is one of {tasks} tasks of an srun, and each would start agents on all nodes");
    Err(Failure::usage_text(text).with_hint("run gdrtune once, without srun: it calls srun itself"))
}

fn ssh(args: &HostArgs, site: &Site) -> LauncherKind {
    let usual = SshOptions::new();
    LauncherKind::Ssh(SshOptions {
        ssh_config: args.ssh_config.clone().or_else(|| site.ssh_config.clone()),
        accept_new_host_keys: args.accept_new_host_keys,
        jump_window: args.fanout.map(usize::from).or(site.fanout).unwrap_or(usual.jump_window),
        ..usual
    })
}

fn is_of(allocation: &Allocation, host: &Host) -> bool {
    allocation.hosts.hosts.iter().any(|known| known.name == host.name)
}

fn some_hosts(hosts: &[Host], name: LauncherName) -> Result<(), Failure> {
    if hosts.is_empty() {
        let text = format!("--launcher {name}: no host is named: give hosts with -w, --hostfile or --site");
        return Err(Failure::usage_text(text));
    }
    Ok(())
}

/// Users and ports are ssh's.
fn plain_hosts(hosts: &[Host], name: LauncherName) -> Result<(), Failure> {
    match hosts.iter().find(|host| host.user.is_some() || host.port.is_some()) {
        None => Ok(()),
        Some(host) => {
            let text = format!("{}: a user or a port is for ssh alone, and agents are started by {name}", host.name);
            Err(Failure::usage_text(text).with_hint("leave it out, or use --launcher ssh"))
        }
    }
}

fn within(allocation: &Allocation, hosts: &[Host]) -> Result<(), Failure> {
    let names = |hosts: &[Host]| hosts.iter().map(|host| host.name.clone()).collect::<Vec<_>>();
    let known: HashSet<String> = names(&allocation.hosts.hosts).into_iter().collect();
    let strangers: Vec<String> = names(hosts).into_iter().filter(|name| !known.contains(name)).collect();
    if strangers.is_empty() {
        return Ok(());
    }
    let job = &allocation.job;
    let verb = if strangers.len() == 1 { "is" } else { "are" };
    let text = format!(
        "{} {verb} not among the nodes of Slurm job {job}: {}",
        hosts::fold(&strangers),
        hosts::fold(&names(&allocation.hosts.hosts))
    );
    Err(Failure::usage_text(text).with_hint("name nodes of the job only, or reach the others with --launcher ssh"))
}
