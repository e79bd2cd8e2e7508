//! Options of the commands about recorded runs.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::{LookArgs, ShowArgs, examples, parse::parse_speed};
use crate::ui::Speed;

/// `gdrtune runs`.
#[derive(Debug, Args)]
pub(crate) struct RunsArgs {
    /// What to do with them (default: list).
    #[command(subcommand)]
    pub(crate) command: Option<RunsCommand>,
}

/// The sub-commands of `gdrtune runs`.
#[derive(Debug, Subcommand)]
pub(crate) enum RunsCommand {
    /// List the recorded runs
    #[command(after_help = examples::RUNS_LIST)]
    List,
    /// Show how a run was asked for, how far it came, and what came of it
    #[command(after_help = examples::RUNS_SHOW)]
    Show(RunArgs),
    /// Go on with a run that was killed, interrupted or lost its nodes; nothing that is in its store is measured again
    #[command(after_help = examples::RUNS_RESUME)]
    Resume(ResumeArgs),
    /// Print all trials of a run as a table
    #[command(after_help = examples::RUNS_EXPORT)]
    Export(ExportArgs),
    /// Show the course of what a profile gains, over its verifications
    ///
    /// Each row is a rule, or the sizes that no rule covers where the profile sets variables; its speed-up is the geometric mean over
    /// sizes that are the same throughout, with everything that the profile sets. Drift is named where, of 5 or more
    /// verifications, Mann and Kendall's test finds a direction (p <= 0.05) and the median slope makes more than 2 % of it; or where
    /// the intervals of the first and the last, of 5 pairs or more each, do not overlap and are more than 2 % apart. Ends with 4 where nothing was kept.
    #[command(after_help = examples::RUNS_TREND)]
    Trend(TrendArgs),
}

/// One run.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// Run id, the beginning of one, `last`, or a .jsonl file
    pub(crate) run: String,
}

/// `gdrtune runs export`.
#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// Which run.
    #[command(flatten)]
    pub(crate) run: RunArgs,
    /// Format; all have the same columns, which docs/runs.md explains
    #[arg(long, value_enum, default_value_t = ExportFormat::Csv)]
    pub(crate) format: ExportFormat,
    /// File to write, whole or not at all (default: standard output)
    #[arg(long, short = 'o', value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Replace the file of -o where it is there already
    #[arg(long, requires = "output")]
    pub(crate) force: bool,
}

/// Formats of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportFormat {
    /// A header and a line for each trial.
    Csv,
    /// One object with all trials.
    Json,
    /// One object for each trial.
    Jsonl,
}

/// `gdrtune runs trend`.
#[derive(Debug, Args)]
pub(crate) struct TrendArgs {
    /// The profile (a file, or the output folder of a run); what it sets is what its verifications are found by
    pub(crate) profile: PathBuf,
    /// Draw with ASCII characters only
    #[arg(long)]
    pub(crate) ascii: bool,
    /// Print JSON, with every step
    #[arg(long)]
    pub(crate) json: bool,
}

/// `gdrtune runs resume`.
#[derive(Debug, Args)]
pub(crate) struct ResumeArgs {
    /// Which run.
    #[command(flatten)]
    pub(crate) run: RunArgs,
    /// Go on without hosts that cannot be used any more, while N are left: the run begins anew on these (default: as the run
    /// was asked for)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) min_nodes: Option<u32>,
    /// How the run is shown.
    #[command(flatten)]
    pub(crate) show: ShowArgs,
}

/// `gdrtune attach`.
#[derive(Debug, Args)]
pub(crate) struct AttachArgs {
    /// Which run.
    #[command(flatten)]
    pub(crate) run: RunArgs,
    /// Print plain progress lines until the run ends, and end with its exit code (the default where there is no terminal)
    #[arg(long)]
    pub(crate) plain: bool,
    /// How the terminal UI looks.
    #[command(flatten)]
    pub(crate) look: LookArgs,
}

/// `gdrtune replay`.
#[derive(Debug, Args)]
pub(crate) struct ReplayArgs {
    /// Which run.
    #[command(flatten)]
    pub(crate) run: RunArgs,
    /// How many times faster than it was, such as 10 or 0.5, or max; keys change it
    #[arg(long, value_name = "X", default_value = "10", value_parser = parse_speed)]
    pub(crate) speed: Speed,
    /// How the terminal UI looks.
    #[command(flatten)]
    pub(crate) look: LookArgs,
}
