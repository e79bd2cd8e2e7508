//! Options of `gdrtune explain` and `gdrtune diff`.

use clap::Args;
use gdrtune_profiles::{size::parse_size, vocab::Collective};

use super::parse::parse_collective;

/// `gdrtune explain`.
#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// A profile (a file, or the output folder of a run), or a run: its id, the beginning of one, `last`, or a .jsonl file
    #[arg(value_name = "PROFILE|RUN")]
    pub(crate) subject: String,
    /// The collective: allreduce, allgather, reducescatter, broadcast, reduce, alltoall or sendrecv (default: all, as a table)
    #[arg(value_parser = parse_collective)]
    pub(crate) collective: Option<Collective>,
    /// The size, such as 64K, as nccl-tests counts it (default: all, as a table)
    #[arg(value_parser = parse_size, conflicts_with_all = ["env", "table"])]
    pub(crate) size: Option<u64>,
    /// Nodes of the job (default: those that the profile has rules for)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) nodes: Option<u32>,
    /// Ranks of the job over all nodes (default: those that the profile has rules for)
    #[arg(long, value_name = "M", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) ranks: Option<u32>,
    /// Tell why a variable is set, or is not
    #[arg(long, value_name = "NAME", conflicts_with_all = ["collective", "table"])]
    pub(crate) env: Option<String>,
    /// Print the decisions over all sizes alone, of the collective or of all
    #[arg(long)]
    pub(crate) table: bool,
    /// Print JSON, which has everything that was tried
    #[arg(long)]
    pub(crate) json: bool,
}

/// `gdrtune diff`.
#[derive(Debug, Args)]
pub(crate) struct DiffArgs {
    /// A profile (a file, or the output folder of a run), or a run: its id, the beginning of one, `last`, or a .jsonl file
    #[arg(value_name = "A")]
    pub(crate) from: String,
    /// Another one
    #[arg(value_name = "B")]
    pub(crate) to: String,
    /// End with code 6 where settings or rules differ; what they were measured on, and how well they did, does not count
    #[arg(long)]
    pub(crate) exit_code: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}
