//! The options of what brings a profile to jobs: `gdrtune emit` and `gdrtune install`.

use std::{path::PathBuf, time::Duration};

use clap::Args;
use gdrtune_profiles::vocab::Engine;

use super::{
    HostArgs, longest_wait,
    parse::{parse_duration_s, parse_named},
};

/// `gdrtune emit`.
#[derive(Debug, Args)]
pub(crate) struct EmitArgs {
    /// The profile (profile.toml)
    pub(crate) profile: PathBuf,
    /// Format: sh, env, nccl-conf, tuner-csv or json
    #[arg(long, short = 'f', value_name = "FORMAT")]
    pub(crate) format: String,
    /// In sh: respect values that are already set
    #[arg(long)]
    pub(crate) keep_set: bool,
    /// Emit the rules of a native, replay or sim profile live, for that engine
    #[arg(long, value_name = "ENGINE", value_parser = parse_named::<Engine>)]
    pub(crate) for_engine: Option<Engine>,
}

/// `gdrtune install`.
#[derive(Debug, Args)]
pub(crate) struct InstallArgs {
    /// The profile (profile.toml)
    #[arg(required_unless_present_any = ["check", "uninstall"], conflicts_with_all = ["check", "uninstall"])]
    pub(crate) profile: Option<PathBuf>,
    /// Folder for the files on every host; an absolute path, but on this machine alone
    #[arg(long, value_name = "DIR")]
    pub(crate) to: PathBuf,
    /// Start workers from the installation and prove by NCCL's log that each rank uses it
    #[arg(long, conflicts_with = "uninstall")]
    pub(crate) check: bool,
    /// Remove exactly what was installed
    #[arg(long)]
    pub(crate) uninstall: bool,
    /// Also replace or remove files that were changed, or that others put there
    #[arg(long, conflicts_with = "check")]
    pub(crate) force: bool,
    /// Path that the files name, where jobs find the folder under another one (default: DIR)
    #[arg(long, value_name = "PATH", conflicts_with_all = ["check", "uninstall"])]
    pub(crate) path_in_image: Option<String>,
    /// How the check starts workers.
    #[command(flatten)]
    pub(crate) job: CheckJobArgs,
    /// Which hosts.
    #[command(flatten)]
    pub(crate) hosts: HostArgs,
}

/// How `gdrtune install --check` starts workers.
#[derive(Debug, Args)]
pub(crate) struct CheckJobArgs {
    /// With --check: NCCL's library on the hosts (default: searched for as a job's loader would)
    // A conflict too, as clap does not ask for a required option that conflicts with what is given.
    #[arg(long, value_name = "PATH", requires = "check", conflicts_with_all = ["profile", "uninstall"])]
    pub(crate) nccl: Option<PathBuf>,
    /// With --check: let every rank pose as a node of its own, so that several can share one GPU
    #[arg(long, requires = "check", conflicts_with_all = ["profile", "uninstall"])]
    pub(crate) emulate_nodes: bool,
    /// With --check: wait for another gdrtune on the hosts to end, TIME at most (default: without end), instead of refusing
    #[arg(long, value_name = "TIME", num_args = 0..=1, value_parser = parse_duration_s,
          requires = "check", conflicts_with_all = ["profile", "uninstall"])]
    #[expect(clippy::option_option, reason = "clap's form of an option whose value may be left out")]
    wait: Option<Option<f64>>,
}

impl CheckJobArgs {
    /// Time to wait for other runs.
    pub(crate) fn wait(&self) -> Duration {
        longest_wait(self.wait)
    }
}
