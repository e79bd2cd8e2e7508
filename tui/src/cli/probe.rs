//! The options of `gdrtune probe`.

use std::time::Duration;

use clap::{Args, ValueEnum};
use gdrtune_profiles::grammar::hca::HcaList;

use super::{HostArgs, longest_wait, parse_duration_s};

/// `gdrtune probe`.
#[derive(Debug, Args)]
pub(crate) struct ProbeArgs {
    /// Ports to measure, written as for `NCCL_IB_HCA`, such as `=mlx5_0,mlx5_1:1` (default: all that are active)
    #[arg(long, value_name = "LIST", value_parser = HcaList::parse)]
    pub(crate) hca: Option<HcaList>,
    /// What is written from, and to
    #[arg(long, value_enum, default_value_t = MemoryArg::Host)]
    pub(crate) memory: MemoryArg,
    /// Most partners of each host (default: all others)
    ///
    /// Pairs are measured in rounds, in each of which a host has one partner. All pairs of N hosts take N - 1 rounds, or N where that
    /// is odd; with a number, only so many.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) partners: Option<u32>,
    /// Time to measure one HCA in one direction, such as 400ms or 2s
    #[arg(long, value_name = "TIME", default_value = "400ms", value_parser = parse_duration_s)]
    time: f64,
    /// Measure although other processes use the HCAs, or another gdrtune the hosts
    #[arg(long)]
    pub(crate) shared: bool,
    /// Wait for another gdrtune on the hosts to end, TIME at most (default: without end), instead of refusing
    #[arg(long, value_name = "TIME", num_args = 0..=1, value_parser = parse_duration_s)]
    #[expect(clippy::option_option, reason = "clap's form of an option whose value may be left out")]
    wait: Option<Option<f64>>,
    /// Print one JSON document, which `gdrtune tune --ceilings FILE` reads
    #[arg(long)]
    pub(crate) json: bool,
    /// Which hosts.
    #[command(flatten)]
    pub(crate) hosts: HostArgs,
}

impl ProbeArgs {
    /// Time to measure one way.
    pub(crate) fn time(&self) -> Duration {
        Duration::try_from_secs_f64(self.time).unwrap_or(Duration::MAX)
    }

    /// Time to wait for other runs.
    pub(crate) fn wait(&self) -> Duration {
        longest_wait(self.wait)
    }
}

/// Memory of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum MemoryArg {
    /// Memory of the hosts
    Host,
    /// Memory of the GPU that is nearest to each HCA
    Gpu,
    /// Memory of every GPU, with each HCA
    AllGpus,
}
