//! Options of `gdrtune report`.

use std::path::PathBuf;

use clap::Args;

/// `gdrtune report`.
#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// Runs: ids, beginnings of ids, `last`, .jsonl files, or output folders. Of several, each option names a folder, with a file for each run
    #[arg(required = true, value_name = "RUN")]
    pub(crate) runs: Vec<String>,
    /// File for the report as HTML: style and plots are in it, it loads nothing and has no script
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// File for the report as Markdown, which goes to standard output where nothing is asked for
    #[arg(long, value_name = "FILE")]
    pub(crate) markdown: Option<PathBuf>,
    /// Folder for the plots as SVG files
    #[arg(long, value_name = "DIR")]
    pub(crate) svg: Option<PathBuf>,
    /// File for all trials as CSV, as of `runs export`
    #[arg(long, value_name = "FILE")]
    pub(crate) csv: Option<PathBuf>,
    /// File for all trials as JSON, as of `runs export`
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// File for the median times in the columns of nccl-tests: a table for each collective, of the default and of what was tuned
    #[arg(long, value_name = "FILE")]
    pub(crate) nccl_tests: Option<PathBuf>,
    /// What `gdrtune doctor --json` printed of the run's hosts, for the report's section on it
    #[arg(long, value_name = "FILE")]
    pub(crate) doctor: Option<PathBuf>,
    /// Replace files that are there already
    #[arg(long)]
    pub(crate) force: bool,
}
