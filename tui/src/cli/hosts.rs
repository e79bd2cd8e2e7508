//! Options about hosts.

use std::path::PathBuf;

use clap::Args;
use gdrtune_fleet::{launcher::LauncherCommand, site::LauncherName};

use super::parse::{parse_launcher_command, parse_named, parse_remote_folder};

/// Which hosts, and how they are reached.
#[derive(Debug, Args)]
pub(crate) struct HostArgs {
    /// Hosts in rank order, such as 'node[01-16],gpu7'; without hosts: those of --site, or of the Slurm allocation that gdrtune
    /// runs in, or this machine alone
    #[arg(short = 'w', long = "hosts", value_name = "HOSTS", conflicts_with = "hostfile")]
    pub(crate) hosts: Option<String>,
    /// Hosts to leave out, written as for -w
    #[arg(short = 'x', long, value_name = "HOSTS")]
    pub(crate) exclude_hosts: Option<String>,
    /// File with one host or host list per line: [user@]host [slots=N] [port=N] [# comment]; files of Open MPI will do
    #[arg(long, value_name = "FILE")]
    pub(crate) hostfile: Option<PathBuf>,
    /// Site file: what is always the same about a cluster
    ///
    /// TOML, every line optional: name, hosts, exclude, `ranks_per_node`, launcher, `launcher_cmd`, `ssh_config`, fanout,
    /// `remote_dir`, `agent_dir`, nccl, and a table [environment] of variables that all workers find set. Options of the command line come
    /// first.
    #[arg(long, value_name = "FILE")]
    pub(crate) site: Option<PathBuf>,
    /// Ranks per host, where the host file does not say (default: 1 with hosts, in a Slurm job the tasks that it was submitted with; on this machine alone 4, or one for each GPU with NCCL)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) ranks_per_node: Option<u32>,
    /// How agents are started: auto, local, ssh, slurm (srun, within an allocation) or exec (--launcher-cmd); auto is slurm for hosts of the allocation that gdrtune runs in, else ssh
    #[arg(long, value_name = "KIND", value_parser = parse_named::<LauncherName>)]
    pub(crate) launcher: Option<LauncherName>,
    /// Command that starts a program on a host, such as 'kubectl exec -i {host} -- {agent}'
    ///
    /// It is split into words as a shell would, but no shell runs it. {agent} is a word of its own: a program and its
    /// arguments. `{agent_line}` is the same quoted as one text, for commands that hand it to a shell: `tsh ssh {host}
    /// {agent_line}`. It must hand input and output on unchanged: kubectl and docker need -i and no -t.
    #[arg(long, value_name = "COMMAND", value_parser = parse_launcher_command)]
    pub(crate) launcher_cmd: Option<LauncherCommand>,
    /// ssh configuration to use instead of ~/.ssh/config (as ssh -F)
    #[arg(long, value_name = "FILE")]
    pub(crate) ssh_config: Option<PathBuf>,
    /// Accept host keys that are not known yet (never ones that changed)
    #[arg(long)]
    pub(crate) accept_new_host_keys: bool,
    /// Hosts that are connected at the same time (default: 32, and 8 through the same jump host)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=512))]
    pub(crate) fanout: Option<u16>,
    /// Folder on the hosts where the executable is kept (default: the user's ~/.cache, or where that is full or noexec, a private one in $TMPDIR or /tmp)
    #[arg(long, value_name = "DIR", value_parser = parse_remote_folder)]
    pub(crate) remote_dir: Option<String>,
    /// Folder on this machine with builds of the same sources for hosts of another kind, or with an older C library: files
    /// named gdrtune-x86_64 and gdrtune-aarch64
    #[arg(long, value_name = "DIR")]
    pub(crate) agent_dir: Option<PathBuf>,
}
