//! The options of `gdrtune lint`.

use std::path::PathBuf;

use clap::Args;
use gdrtune_profiles::{
    lint::{Format, Kind, Severity},
    version::Version,
};

use super::parse::parse_named;

/// `gdrtune lint`.
#[derive(Debug, Args)]
pub(crate) struct LintArgs {
    /// Job scripts, nccl.conf, tuner CSVs, environment files, output of env (several ranks' are compared), Dockerfiles, Kubernetes manifests; - is standard input
    #[arg(value_name = "FILE", required_unless_present = "rules")]
    pub(crate) files: Vec<PathBuf>,
    /// Print the rules, with what they find, why it matters and where that is known from
    #[arg(long, conflicts_with = "files")]
    pub(crate) rules: bool,
    /// Format: text, json (an object per line and finding), sarif (2.1.0) or github (annotations of a workflow)
    #[arg(long, short = 'f', value_name = "FORMAT", default_value_t = Format::Text, value_parser = parse_named::<Format>)]
    pub(crate) format: Format,
    /// Least severity that is shown, and ends with code 6: note, warning or error
    #[arg(long, value_name = "SEVERITY", default_value_t = Severity::Warning, value_parser = parse_named::<Severity>)]
    pub(crate) severity: Severity,
    /// What the files are, where names and texts do not tell: shell, nccl-conf, env, tuner-csv, dockerfile or kubernetes
    #[arg(long = "as", value_name = "KIND", value_parser = parse_named::<Kind>)]
    pub(crate) kind: Option<Kind>,
    /// NCCL of the jobs, such as 2.27.5; without it, rules that depend on the version are silent
    #[arg(long, value_name = "VERSION", value_parser = parse_named::<Version>)]
    pub(crate) nccl_version: Option<Version>,
    /// Also name files of variables (topology, rules) that are not on this machine
    #[arg(long)]
    pub(crate) check_paths: bool,
    /// Rules to leave out, separated by commas; a comment `gdrtune-lint: allow RULE` does so for its line and the next
    #[arg(long, value_name = "RULE,...", value_delimiter = ',')]
    pub(crate) allow: Vec<String>,
}
