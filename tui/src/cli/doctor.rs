//! The options of `gdrtune doctor`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{HostArgs, parse::parse_duration_s};

/// `gdrtune doctor`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of the command line")]
pub(crate) struct DoctorArgs {
    /// What to do instead of checking.
    #[command(subcommand)]
    pub(crate) command: Option<DoctorCommand>,
    /// Check recorded machines instead of hosts: folders with copies of a machine's /sys and /proc; what only a running machine
    /// tells is left out
    #[arg(long, value_name = "FOLDER", num_args = 1.., conflicts_with = "HostArgs")]
    pub(crate) from: Vec<PathBuf>,
    /// Checks to do, by ids or groups such as gdr, separated by commas (default: all)
    #[arg(long, value_name = "ID,...", value_delimiter = ',')]
    pub(crate) only: Vec<String>,
    /// Checks to leave out, by ids or groups, separated by commas
    #[arg(long, value_name = "ID,...", value_delimiter = ',')]
    pub(crate) skip: Vec<String>,
    /// Print one JSON document with everything instead of text
    #[arg(long)]
    pub(crate) json: bool,
    /// Print the checks, with what holds where each passes, and check nothing
    #[arg(long)]
    pub(crate) list: bool,
    /// Also name what was skipped, and why, and what passed
    #[arg(long, short, conflicts_with = "json")]
    pub(crate) verbose: bool,
    /// End with code 6 on WARN as well
    #[arg(long)]
    pub(crate) strict: bool,
    /// Print ASCII characters only
    #[arg(long)]
    pub(crate) ascii: bool,
    /// Time that each test between nodes may take, and ssh to connect to a host (10s at most)
    #[arg(long, value_name = "TIME", default_value = "3s", value_parser = parse_duration_s)]
    pub(crate) timeout: f64,
    /// Time that a host may take until its agent has answered, an upload included; one that takes longer is a finding
    #[arg(long, value_name = "TIME", default_value = "20s", value_parser = parse_duration_s)]
    pub(crate) connect_timeout: f64,
    /// Which hosts.
    #[command(flatten)]
    pub(crate) hosts: HostArgs,
}

/// What `gdrtune doctor` does instead of checking.
#[derive(Debug, Subcommand)]
pub(crate) enum DoctorCommand {
    /// Say what checks look at, why, how to mend what they find, and where that is known from
    Explain {
        /// Ids of checks
        #[arg(value_name = "ID", required = true)]
        ids: Vec<String>,
    },
}
