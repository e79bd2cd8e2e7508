//! The options of `gdrtune gdr`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use gdrtune_profiles::vocab::{Collective, DataType};

use super::{
    HostArgs, NcclArgs, TrialArgs,
    parse::{parse_named, parse_percent},
};

/// `gdrtune gdr`.
#[derive(Debug, Args)]
pub(crate) struct GdrArgs {
    /// Read logs of NCCL (- is standard input) instead of measuring: which ranks and channels use it, and why not the others
    ///
    /// Logs of any job that ran with `NCCL_DEBUG=INFO`, of NCCL 2.19 to 2.30, all ranks in one file or each in its own, with
    /// the labels that srun and mpirun put before lines. `NCCL_DEBUG_SUBSYS=INIT,GRAPH,NET,ENV` has it tell all reasons.
    #[arg(long, value_name = "FILE", num_args = 1..,
          conflicts_with_all = ["HostArgs", "NcclArgs", "CallArgs", "TrialArgs", "GdrMeasureArgs"])]
    pub(crate) log: Vec<PathBuf>,
    /// Which hosts.
    #[command(flatten)]
    pub(crate) hosts: HostArgs,
    /// What is compared.
    #[command(flatten)]
    pub(crate) measure: GdrMeasureArgs,
    /// How NCCL is used.
    #[command(flatten)]
    pub(crate) nccl: NcclArgs,
    /// How workers are started and watched.
    #[command(flatten)]
    pub(crate) trial: TrialArgs,
    /// Print JSON instead of text
    #[arg(long)]
    pub(crate) json: bool,
}

/// What `gdrtune gdr` compares, and what it asks for.
#[derive(Debug, Args)]
pub(crate) struct GdrMeasureArgs {
    /// Collectives, separated by commas
    #[arg(long, value_name = "LIST", default_value = "allreduce", value_delimiter = ',', value_parser = parse_named::<Collective>)]
    pub(crate) collectives: Vec<Collective>,
    /// Sizes at which bus bandwidth counts, as a list or a range (stepping by 4)
    #[arg(long, value_name = "SIZES", default_value = "16M,64M")]
    pub(crate) bandwidth_sizes: String,
    /// Sizes at which latency counts, likewise
    #[arg(long, value_name = "SIZES", default_value = "1K,16K")]
    pub(crate) latency_sizes: String,
    /// Element type: float32, float16, bfloat16 or int32
    #[arg(long, value_name = "TYPE", default_value = "float32", value_parser = parse_named::<DataType>)]
    pub(crate) data_type: DataType,
    /// Largest distance of GPU and HCA in the arm with it; the other arm has LOC, which allows none
    #[arg(long, value_enum, default_value_t = LevelArg::Sys)]
    pub(crate) level: LevelArg,
    /// Gain of bus bandwidth that passes
    #[arg(long, value_name = "PERCENT", default_value = "30%", value_parser = parse_percent)]
    pub(crate) min_gain: f64,
    /// Part of the latency that must go away to pass
    #[arg(long, value_name = "PERCENT", default_value = "50%", value_parser = parse_percent)]
    pub(crate) min_latency_cut: f64,
    /// Pairs of fresh process sets, one of each arm; with fewer than 5 nothing can be sure
    #[arg(long, value_name = "N", default_value_t = 9, value_parser = clap::value_parser!(u32).range(2..=1000))]
    pub(crate) pairs: u32,
    /// End with code 5 where it does not pass
    #[arg(long)]
    pub(crate) expect_gain: bool,
    /// Measure although hosts differ in what NCCL needs alike
    #[arg(long)]
    pub(crate) force: bool,
    /// Seed of the bootstrap
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
}

/// A distance, as NCCL's variable names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LevelArg {
    /// One PCIe switch between them
    Pix,
    /// Several PCIe switches
    Pxb,
    /// The CPU
    Phb,
    /// Anything
    Sys,
}

impl LevelArg {
    /// The variable's value.
    pub(crate) const fn nccl_name(self) -> &'static str {
        match self {
            Self::Pix => "PIX",
            Self::Pxb => "PXB",
            Self::Phb => "PHB",
            Self::Sys => "SYS",
        }
    }
}
