//! Options of `gdrtune verify`.

use std::path::PathBuf;

use clap::Args;
use gdrtune_profiles::vocab::{Collective, DataType};

use super::{
    HostArgs, NcclArgs, TrialArgs,
    parse::{parse_duration_s, parse_named},
};

/// `gdrtune verify`.
#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    /// The profile (profile.toml)
    pub(crate) profile: PathBuf,
    /// Which hosts.
    #[command(flatten)]
    pub(crate) hosts: HostArgs,
    /// Collectives, separated by commas (default: those that the profile speaks of)
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = parse_named::<Collective>)]
    pub(crate) collectives: Vec<Collective>,
    /// Sizes, as of tune (default: those that the profile speaks of: what its run compared; where the run is not here, the ranges of
    /// its rules with their ends, and with variables 1K-64M)
    #[arg(long, value_name = "SIZES")]
    pub(crate) sizes: Option<String>,
    /// Factor between the sizes of a range
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u64).range(2..=1024))]
    pub(crate) factor: u64,
    /// Element type: float32, float16, bfloat16 or int32
    #[arg(long, value_name = "TYPE", default_value = "float32", value_parser = parse_named::<DataType>)]
    pub(crate) data_type: DataType,
    /// How NCCL is used.
    #[command(flatten)]
    pub(crate) nccl: NcclArgs,
    /// Measure although hosts differ in what NCCL needs alike, or have other GPUs than the profile's
    #[arg(long)]
    pub(crate) force: bool,
    /// Pairs of fresh process sets, one of each arm; with fewer than 5 no gain can be sure
    #[arg(long, value_name = "N", default_value_t = 9, value_parser = clap::value_parser!(u32).range(2..=1000))]
    pub(crate) pairs: u32,
    /// How workers are started and watched.
    #[command(flatten)]
    pub(crate) trial: TrialArgs,
    /// Seed of the bootstrap
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Measure nothing where the last verification of the same settings, shape, sizes and elements is no older than TIME, such as
    /// 7d or 12h; what it found is told again, with its exit code
    #[arg(long, value_name = "TIME", value_parser = parse_duration_s)]
    pub(crate) if_older_than: Option<f64>,
    /// Say nothing but warnings, and the result in one line
    #[arg(long, short)]
    pub(crate) quiet: bool,
    /// Print JSON instead of a table
    #[arg(long)]
    pub(crate) json: bool,
}
