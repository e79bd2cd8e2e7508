//! The options of what brings a profile to jobs: `gdrtune emit`, `gdrtune apply` and `gdrtune install`.

use std::{path::PathBuf, time::Duration};

use clap::Args;
use gdrtune_profiles::{emit::EmitOptions, lint::Kind, vocab::Engine};

use super::{
    HostArgs, longest_wait,
    parse::{parse_duration_s, parse_named},
};

/// `gdrtune emit`.
#[derive(Debug, Args)]
pub(crate) struct EmitArgs {
    /// The profile (profile.toml)
    #[arg(required_unless_present = "list")]
    pub(crate) profile: Option<PathBuf>,
    /// Formats, separated by commas, or all; --list tells which there are. More than one needs --out
    #[arg(long, short = 'f', value_name = "FORMAT,...", value_delimiter = ',', required_unless_present = "list")]
    pub(crate) format: Vec<String>,
    /// List the formats, the files that they are written to, and who reads them
    #[arg(long, conflicts_with_all = ["profile", "format"])]
    pub(crate) list: bool,
    /// Folder for the files, under the names of --list; without it, the text goes to standard output
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Replace files that are in --out already
    #[arg(long, requires = "out")]
    pub(crate) force: bool,
    /// How the texts are made.
    #[command(flatten)]
    pub(crate) text: EmitTextArgs,
    /// In appfile: program and arguments that the ranks run (default: env, which shows what they find set)
    #[arg(long, value_name = "COMMAND")]
    pub(crate) program: Option<String>,
    /// In k8s-patch: name of the container (default: main)
    #[arg(long, value_name = "NAME")]
    pub(crate) container: Option<String>,
}

/// How variables are emitted, in files and in managed blocks.
#[derive(Debug, Args)]
pub(crate) struct EmitTextArgs {
    /// In shell formats: respect values that are already set
    #[arg(long)]
    pub(crate) keep_set: bool,
    /// Emit the rules of a native, replay or sim profile live, for that engine; of a sim profile, the variables too
    #[arg(long, value_name = "ENGINE", value_parser = parse_named::<Engine>)]
    pub(crate) for_engine: Option<Engine>,
    /// Absolute path of nccl-tuner.csv on the nodes: sets `NCCL_TUNER_CONFIG_FILE` where there are rules
    #[arg(long, value_name = "PATH")]
    tuner_path: Option<String>,
    /// Also set `NCCL_ALGO` and `NCCL_PROTO` for each collective that has one choice at every size, for jobs without a tuner plugin
    #[arg(long)]
    choice_lists: bool,
}

impl EmitTextArgs {
    /// What the emitters take.
    pub(crate) fn options(&self) -> EmitOptions {
        EmitOptions {
            keep_set: self.keep_set,
            for_engine: self.for_engine,
            tuner_path: self.tuner_path.clone(),
            choice_lists: self.choice_lists,
            ..EmitOptions::plain()
        }
    }
}

/// `gdrtune apply`.
#[derive(Debug, Args)]
pub(crate) struct ApplyArgs {
    /// An sbatch script, shell file, nccl.conf, environment file or Dockerfile
    pub(crate) file: PathBuf,
    /// The profile (profile.toml)
    #[arg(long, short, required_unless_present = "remove", conflicts_with = "remove")]
    pub(crate) profile: Option<PathBuf>,
    /// Change nothing: end with code 6 if the block is missing, older than the profile, was edited by hand or is where nobody reads it, or
    /// another line's value counts in the place of its own
    #[arg(long, conflicts_with_all = ["remove", "yes"])]
    pub(crate) check: bool,
    /// Take the block away
    #[arg(long)]
    pub(crate) remove: bool,
    /// Change the file without asking; also a block that was edited by hand
    #[arg(long, short)]
    pub(crate) yes: bool,
    /// What the file is, where its name and text do not tell: shell, nccl-conf, env or dockerfile
    #[arg(long = "as", value_name = "KIND", value_parser = parse_named::<Kind>)]
    pub(crate) kind: Option<Kind>,
    /// How the block is made.
    #[command(flatten)]
    pub(crate) text: EmitTextArgs,
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
