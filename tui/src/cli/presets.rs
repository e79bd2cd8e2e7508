//! Options about what counts, what is searched, and what is measured in the place of hosts. Those that take the name of a preset or a file list in their help what
//! there is, each with its own line about itself.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use gdrtune_profiles::{source::Preset, space::SpaceFile, workload::Workload};
use gdrtune_tuner::sim::Cluster;

use super::parse::parse_percent;

const WORKLOAD: &str = "What a job calls and how often, in the place of --collectives and --sizes: ";
const SPACE: &str = "What is searched: ";

const CLUSTER: &str = "Cluster for --engine sim: ";

const CLUSTER_FILE: &str = "\
A file describes nodes, links, what the engine may choose, and what is planted:

  name = \"two nodes\"
  nodes = 2
  ranks_per_node = 8
  [node]
  nvlink_gbs = 370            # bus bandwidth of a ring over a node's GPUs
  channel_gbs = 24            # of one channel
  [network]
  kind = \"verbs\"              # or sockets
  nics = [                    # of every node; slowest_gbs is that of the slowest node
    { name = \"mlx5_0\", rate_gbs = 48 },
    { name = \"mlx5_1\", rate_gbs = 48, slowest_gbs = 12 },
  ]
  connection_gbs = 24         # of one queue pair or socket
  [engine]
  algorithms = [\"ring\", \"tree\"]
  protocols = [\"ll\", \"ll128\", \"simple\"]
  channels = [1, 2, 4, 8, 16]
  ceiling = 16                # most that the engine takes by itself
  [search]                    # variables with the values to try
  NCCL_IB_HCA = [\"^=mlx5_0\", \"^=mlx5_1\"]
  [noise]                     # also: stalls, stall_factor, drift_per_hour
  sample = 0.05               # standard deviation of the log of the time
  [[effect]]                  # what the engine's own cost model does not know
  factor = 1.5
  calls = { protocol = \"ll\", min_bytes = \"1M\" }
  [[fault]]                   # also: crash, wrong, unsupported, no-start, lost-node
  kind = \"hang\"
  calls = { algorithm = \"tree\", min_channels = 16 }

[truth] has the collectives and sizes to tune for; in a file without it they are those of every tune.";

const WORKLOAD_FILE: &str = "\
A file has one entry for each size or range of sizes:

  [[call]]
  collective = \"allreduce\"
  bytes = \"25M\"       # as in --sizes; a range steps by `factor`
  per_step = 40       # calls in a step of the job; unknown: weight = 1";

const SPACE_FILE: &str = "\
What the engine, the network or the NCCL version here does not have is left out, and the run says so. A file that \
changes a preset:

  base = \"standard\"
  protocols = [\"ll\", \"simple\"]     # also: algorithms, channels
  add = [\"NCCL_BUFFSIZE=2097152\"]  # also: pin, exclude, budget_s
  [[knob]]
  name = \"NCCL_IB_SPLIT_DATA_ON_QPS\"
  values = [1]                       # beside leaving it alone
  when = \"NCCL_IB_QPS_PER_CONNECTION=2,4\"     # only there
  [[forbid]]                         # not both
  settings = [\"NCCL_NTHREADS=256\", \"NCCL_BUFFSIZE\"]";

/// What is measured in the place of hosts.
#[derive(Debug, Args)]
pub(crate) struct OfflineArgs {
    /// Recorded grid for --engine replay: CSV as `gdrtune bench --choices all --csv` writes it
    #[arg(long, value_name = "FILE")]
    pub(crate) grid: Option<PathBuf>,
    #[arg(long, value_name = "NAME|FILE", help = cluster_help(), long_help = cluster_long_help())]
    pub(crate) cluster: Option<String>,
}

/// What counts as better.
#[derive(Debug, Args)]
pub(crate) struct GoalArgs {
    #[arg(long, value_name = "NAME|FILE", conflicts_with_all = ["collectives", "sizes", "factor"], help = workload_help(), long_help = workload_long_help())]
    pub(crate) workload: Option<String>,
    /// How the times of all sizes become one score (default: time-per-step for a workload with calls per step, else geomean)
    #[arg(long, value_enum)]
    pub(crate) objective: Option<ObjectiveArg>,
    /// Percent that a choice must be faster for each channel that it has more than another; 0 prefers fewer channels at ties only
    ///
    /// Each channel takes a multiprocessor (SM) of every GPU from the model while the collective runs. Choices are compared as if
    /// each channel beyond the first made them slower by this much; the times that are shown and verified are the real ones. A
    /// model that computes while it communicates loses about 100 / (number of SMs) percent per channel: 0.75 on an H100.
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0, value_parser = parse_percent)]
    pub(crate) sm_cost: f64,
}

/// How the times of all sizes become one score.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ObjectiveArg {
    /// Geometric mean of the speed-ups, by weight: every size counts by its ratio, however short it takes.
    Geomean,
    /// Sum of the times of all calls in one step of the job.
    TimePerStep,
}

/// What is searched.
#[derive(Debug, Args)]
pub(crate) struct SpaceArgs {
    #[arg(long, value_name = "NAME|FILE", default_value = SpaceFile::STANDARD, help = space_help(), long_help = space_long_help())]
    pub(crate) space: String,
    /// Search more values of a variable, or a variable more, such as `NCCL_BUFFSIZE=2097152,16777216` (repeatable; a list of interfaces or HCAs is one value)
    #[arg(long, value_name = "NAME=VALUE[,VALUE...]")]
    pub(crate) add: Vec<String>,
    /// Fix a setting for every environment of the search (the default arm stays as the site has it), such as `NCCL_SOCKET_IFNAME==eth0` (repeatable)
    #[arg(long, value_name = "NAME=VALUE")]
    pub(crate) pin: Vec<String>,
    /// Leave something out of the search (repeatable): a variable, one value of it (NAME=VALUE), an algorithm or a protocol
    #[arg(long, value_name = "NAME")]
    pub(crate) exclude: Vec<String>,
}

/// Short help of `--workload`.
fn workload_help() -> String {
    format!("{WORKLOAD}{}, or a TOML file (--help shows one)", names(Workload::PRESETS))
}

/// Help of `--workload`.
fn workload_long_help() -> String {
    let presets = list(Workload::PRESETS, |name| Workload::preset(name).map(|workload| workload.about));
    format!("{WORKLOAD}a name, or a TOML file\n\n{presets}\n\n{WORKLOAD_FILE}")
}

/// Short help of `--space`.
fn space_help() -> String {
    format!("{SPACE}{}, or a TOML file (--help shows one)", names(SpaceFile::PRESETS))
}

/// Help of `--space`.
fn space_long_help() -> String {
    let presets = list(SpaceFile::PRESETS, |name| SpaceFile::preset(name).map(|space| space.about));
    format!("{SPACE}a name, or a TOML file\n\n{presets}\n\n{SPACE_FILE}")
}

/// Short help of `--cluster`.
fn cluster_help() -> String {
    format!("{CLUSTER}{}, or a TOML file (--help shows one)", names(Cluster::PRESETS))
}

/// Help of `--cluster`.
fn cluster_long_help() -> String {
    // Every start of gdrtune comes here, those of its workers too: to read all these files would take longer than the rest.
    let about = |text: &str| {
        let quoted = text.lines().find_map(|line| line.strip_prefix("name = "));
        quoted.map(|name| name.trim_matches('"').to_owned()).unwrap_or_default()
    };
    let presets = list(Cluster::PRESETS, |name| Cluster::preset_text(name).map(about));
    format!("{CLUSTER}a name, or a TOML file\n\n{presets}\n\n{CLUSTER_FILE}")
}

fn names(presets: &[Preset]) -> String {
    presets.iter().map(|preset| preset.name).collect::<Vec<_>>().join(", ")
}

fn list<E>(presets: &[Preset], about: impl Fn(&str) -> Result<String, E>) -> String {
    let line = |preset: &Preset| format!("  {:<18}{}", preset.name, about(preset.name).unwrap_or_default());
    presets.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::cli::Cli;

    #[test]
    fn help_lists_every_preset_with_what_it_is() {
        let mut command = Cli::command();
        let help = command.find_subcommand_mut("tune").unwrap().render_long_help().to_string();
        let about = |name: &str| {
            let line = help.lines().find(|line| line.trim_start().starts_with(&format!("{name} ")));
            line.unwrap_or_else(|| panic!("no {name} in\n{help}")).trim_start()[name.len()..].trim().to_owned()
        };
        for Preset { name, .. } in Workload::PRESETS {
            assert_eq!(about(name), Workload::preset(name).unwrap().about, "{name}");
        }
        for Preset { name, .. } in SpaceFile::PRESETS {
            assert_eq!(about(name), SpaceFile::preset(name).unwrap().about, "{name}");
        }
        for Preset { name, .. } in Cluster::PRESETS {
            assert_eq!(about(name), Cluster::preset(name).unwrap().name, "{name}");
        }
    }

    #[test]
    fn the_files_of_the_help_are_read() {
        let file = |help: &str| {
            let begin = help.find("\n\n").unwrap();
            help[begin..].lines().map(str::trim_start).collect::<Vec<_>>().join("\n")
        };
        let space = SpaceFile::parse(&file(SPACE_FILE), "help").unwrap_or_else(|error| panic!("{error}"));
        assert_eq!((space.selection.forbidden.len(), space.settings.adds.len()), (1, 1));
        let workload = Workload::parse(&file(WORKLOAD_FILE), "help").unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(workload.calls.len(), 1);
        let cluster = CLUSTER_FILE.rsplit_once("\n\n").unwrap().0;
        let cluster = Cluster::parse(&file(cluster), "help").unwrap_or_else(|error| panic!("{error}"));
        assert_eq!((cluster.search.len(), cluster.effect.len(), cluster.fault.len()), (1, 1, 1));
        assert!(cluster.truth.points().is_empty());
    }
}
