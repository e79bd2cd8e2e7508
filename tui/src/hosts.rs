//! From the command line's hosts to what fleet and session need: hosts in rank order, ranks on each, and the launcher.

use std::fs;

use gdrtune_fleet::hosts::{self, Host};

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
    /// Whether the one host is this machine, without ssh.
    pub(crate) local: bool,
    /// What to warn about.
    pub(crate) warnings: Vec<String>,
}

/// Reads `-w` or `--hostfile`; without either, this machine alone.
///
/// # Errors
/// Wrong use, naming file, line and column.
pub(crate) fn resolve(args: &HostArgs) -> Result<Place, Failure> {
    let list = match (&args.hosts, &args.hostfile) {
        (Some(text), _) => hosts::parse_list("-w", text).map_err(Failure::usage)?,
        (None, Some(path)) => {
            let name = path.display().to_string();
            let text = fs::read_to_string(path).map_err(|error| {
                Failure::usage(anyhow::Error::from(error).context(format!("read host file {name}")))
            })?;
            hosts::parse_file(&name, &text).map_err(Failure::usage)?
        }
        (None, None) => return Ok(this_machine(args.ranks_per_node.unwrap_or(LOCAL_RANKS))),
    };
    let slots = list.hosts.iter().map(|h| h.slots.or(args.ranks_per_node).unwrap_or(1)).collect();
    Ok(Place { hosts: list.hosts, slots, local: false, warnings: list.warnings })
}

/// This machine alone, without ssh.
pub(crate) fn this_machine(ranks: u32) -> Place {
    let host = Host::named("localhost");
    Place { hosts: vec![host], slots: vec![ranks], local: true, warnings: Vec::new() }
}
