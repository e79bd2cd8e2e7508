//! From the command line's hosts to what fleet and session need: hosts in rank order, ranks on each, and the launcher.

use std::{fs, path::Path};

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

/// GPUs of NVIDIA's driver among the device files in `folder`; 0 where there is none.
pub(crate) fn gpus(folder: &Path) -> u32 {
    let is_gpu = |name: &str| name.strip_prefix("nvidia").is_some_and(|rest| rest.parse::<u8>().is_ok());
    let names = fs::read_dir(folder).into_iter().flatten().flatten();
    names.filter(|entry| entry.file_name().to_str().is_some_and(is_gpu)).count() as u32
}

/// Reads `-w` or `--hostfile`; without either, this machine alone, with `local_ranks` where the user does not say.
///
/// # Errors
/// Wrong use, naming file, line and column.
pub(crate) fn resolve(args: &HostArgs, local_ranks: u32) -> Result<Place, Failure> {
    let list = match (&args.hosts, &args.hostfile) {
        (Some(text), _) => hosts::parse_list("-w", text).map_err(Failure::usage)?,
        (None, Some(path)) => {
            let name = path.display().to_string();
            let text = fs::read_to_string(path).map_err(|error| {
                Failure::usage(anyhow::Error::from(error).context(format!("read host file {name}")))
            })?;
            hosts::parse_file(&name, &text).map_err(Failure::usage)?
        }
        (None, None) => return Ok(this_machine(args.ranks_per_node.unwrap_or(local_ranks))),
    };
    let slots = list.hosts.iter().map(|h| h.slots.or(args.ranks_per_node).unwrap_or(1)).collect();
    Ok(Place { hosts: list.hosts, slots, local: false, warnings: list.warnings })
}

/// This machine alone, without ssh.
pub(crate) fn this_machine(ranks: u32) -> Place {
    let host = Host::named("localhost");
    Place { hosts: vec![host], slots: vec![ranks], local: true, warnings: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_device_files_of_gpus_are_counted() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(gpus(folder.path()), 0);
        for name in ["nvidia0", "nvidia1", "nvidia10", "nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "null"] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        assert_eq!(gpus(folder.path()), 3);
        assert_eq!(gpus(&folder.path().join("missing")), 0);
    }
}
