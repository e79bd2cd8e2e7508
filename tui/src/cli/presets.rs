//! Help for options that take the name of a preset or a file: what there is, each with its own line about itself.

use gdrtune_profiles::{source::Preset, space::SpaceFile, workload::Workload};

const WORKLOAD: &str = "What a job calls and how often, in the place of --collectives and --sizes: ";
const SPACE: &str = "What is searched: ";

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

/// Short help of `--workload`.
pub(super) fn workload_help() -> String {
    format!("{WORKLOAD}{}, or a TOML file (--help shows one)", names(Workload::PRESETS))
}

/// Help of `--workload`.
pub(super) fn workload_long_help() -> String {
    let presets = list(Workload::PRESETS, |name| Workload::preset(name).map(|workload| workload.about));
    format!("{WORKLOAD}a name, or a TOML file\n\n{presets}\n\n{WORKLOAD_FILE}")
}

/// Short help of `--space`.
pub(super) fn space_help() -> String {
    format!("{SPACE}{}, or a TOML file (--help shows one)", names(SpaceFile::PRESETS))
}

/// Help of `--space`.
pub(super) fn space_long_help() -> String {
    let presets = list(SpaceFile::PRESETS, |name| SpaceFile::preset(name).map(|space| space.about));
    format!("{SPACE}a name, or a TOML file\n\n{presets}\n\n{SPACE_FILE}")
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
    use super::*;

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
    }
}
