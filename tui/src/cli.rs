//! The command line. Only definitions and their direct checks: what a command does is in `command/`.

mod completions;
mod deploy;
mod doctor;
mod examples;
mod explain;
mod gdr;
mod given;
mod hosts;
mod lint;
#[cfg(test)]
mod manual_tests;
mod parse;
mod presets;
mod probe;
mod report;
mod runs;
#[cfg(test)]
mod tests;
mod topo;
mod verify;
mod workload;

use std::{path::PathBuf, time::Duration};

use clap::{Args, Parser, Subcommand, ValueEnum};
use gdrtune_profiles::vocab::{Collective, DataType, Engine};
use gdrtune_session::run::Shapes;
use gdrtune_tuner::search::Strategy;
use gdrtune_wire::WorkerCommand;

#[cfg(test)]
pub(crate) use self::examples::EXIT_CODES;
pub(crate) use self::parse::parse_duration_s;
use self::parse::{parse_choice, parse_named, parse_worker_command};
pub(crate) use self::{
    completions::{CompletionsArgs, ShellArg},
    deploy::{ApplyArgs, EmitArgs, InstallArgs},
    doctor::{DoctorArgs, DoctorCommand},
    explain::{DiffArgs, ExplainArgs},
    gdr::GdrArgs,
    hosts::HostArgs,
    lint::LintArgs,
    presets::{GoalArgs, ObjectiveArg, OfflineArgs, SpaceArgs},
    probe::{MemoryArg, ProbeArgs},
    report::ReportArgs,
    runs::{AttachArgs, ExportArgs, ExportFormat, ReplayArgs, ResumeArgs, RunArgs, RunsArgs, RunsCommand, TrendArgs},
    topo::{TopoArgs, TopoFormat},
    verify::VerifyArgs,
    workload::{EstimateArgs, EvidenceArgs, ImportArgs, PredictArgs, ShowWorkloadArgs, WorkloadArgs, WorkloadCommand},
};
use crate::{headless::Detail, ui::ThemeName};

/// What `--version` says. An executable of `--agent-dir` is known by the build id in it, so the form is fleet's, too.
const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (build ", env!("GDRTUNE_BUILD_ID"), ")");

/// Tunes the collectives of a GPU cluster: measures, searches, proves, and writes a profile.
///
/// Without arguments, on a terminal, it opens the start screen: recent runs, clusters, and a form for a new run.
#[derive(Debug, Parser)]
#[command(name = "gdrtune", version = VERSION, after_help = examples::after_help(), max_term_width = 100, arg_required_else_help = true)]
pub(crate) struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The sub-commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Tune four ranks on this machine in about half a minute; needs no hardware
    #[command(after_help = examples::DEMO)]
    Demo(DemoArgs),
    /// Tune a cluster and write a profile
    // By far the largest.
    #[command(after_help = examples::TUNE)]
    Tune(Box<TuneArgs>),
    /// Measure one setting and print a table like nccl-tests'
    #[command(after_help = examples::BENCH)]
    Bench(BenchArgs),
    /// Measure a profile against the defaults again, in fresh processes, at the sizes that it speaks of
    ///
    /// Ends with 102 where it is slower somewhere, so that a scheduled job can watch over a profile: `gdrtune verify PROFILE ...
    /// --quiet --if-older-than 7d`. It refuses (3) hosts that another gdrtune holds, unless --wait is given, and another GPU than the
    /// profile's; it warns of another NCCL, other HCAs, drivers or kernels. What it measures is kept: `gdrtune runs trend
    /// PROFILE` shows the course.
    // Its hosts have many options.
    #[command(after_help = examples::VERIFY)]
    Verify(Box<VerifyArgs>),
    /// Tell why a profile or a run decides as it does: the rule, what it replaced, the evidence, what else was tried
    ///
    /// For a call (COLLECTIVE SIZE), for a variable (--env NAME), or as a table over all sizes. It reads files only: no host and no
    /// GPU is needed. What the profile does not say is taken from its run's store, where that is here; what nobody
    /// recorded is said to be unknown.
    #[command(after_help = examples::EXPLAIN)]
    Explain(ExplainArgs),
    /// Show what differs between two profiles or runs: settings, rules by sizes, clusters, evidence that does not overlap
    ///
    /// Lines begin with + for what only B has, - for what only A has, ~ for another value or choice, ! for the same with intervals
    /// of its speed-up that do not overlap, and # for what they were measured on. The exit code is 0 unless --exit-code is given.
    #[command(after_help = examples::DIFF)]
    Diff(DiffArgs),
    /// Print a profile in another format, or write it in several
    #[command(after_help = examples::EMIT)]
    Emit(EmitArgs),
    /// Put a profile's settings into a job script, nccl.conf or Dockerfile, as a marked block that can be updated and checked
    ///
    /// It shows the difference and asks. Everything outside of the block stays as it is, byte for byte, and so do the file's mode and
    /// owner; a link is followed. The block goes after the #SBATCH lines or the opening comments of a script, after the opening
    /// comments of an nccl.conf (where the first line wins), after the last FROM of a Dockerfile, and to the end of an
    /// environment file. Where it is there already, it is updated in its place.
    #[command(after_help = examples::APPLY)]
    Apply(ApplyArgs),
    /// Put a profile where jobs take it from, prove that NCCL uses it, or take it away
    #[command(after_help = examples::INSTALL)]
    Install(InstallArgs),
    /// Show how GPUs and HCAs are wired: distances, links, ports, rails, and what differs between hosts; measures nothing
    #[command(after_help = examples::TOPO)]
    Topo(TopoArgs),
    /// Find what is wrong with hosts before measuring: drivers, GPUDirect RDMA, HCAs, links, limits, settings, and the way between them
    ///
    /// It changes nothing and needs no root. Each finding names hosts, devices, values and the fix. Ends with code 6 where a check fails.
    // Its hosts have many options.
    #[command(after_help = examples::DOCTOR)]
    Doctor(Box<DoctorArgs>),
    /// Tell what GPU Direct RDMA gains here, or by logs of NCCL, who uses it and why not the others
    ///
    /// Measures the same collectives with it and without, in fresh processes, and passes where bus bandwidth and latency reach
    /// what is asked for; NCCL's own log proves each arm. With --log it measures nothing and reads logs that are there.
    #[command(after_help = examples::GDR)]
    Gdr(Box<GdrArgs>),
    /// Measure what each HCA carries between hosts, by RDMA: bandwidth and latency of every pair and direction; names slow ones
    #[command(after_help = examples::PROBE)]
    Probe(ProbeArgs),
    /// Find the traps in job scripts, nccl.conf, tuner CSVs, environments, Dockerfiles and manifests
    ///
    /// It reads files only: no host, no GPU and no profile is needed, and nothing is changed. Ends with code 6 where it finds
    /// something.
    #[command(after_help = examples::LINT)]
    Lint(LintArgs),
    /// Make workload files of real jobs or of model sizes, show where the bytes are, predict what a profile does to a step
    #[command(after_help = examples::WORKLOAD)]
    Workload(WorkloadArgs),
    /// List the recorded runs, show or export one, or go on with one that was ended too early
    #[command(after_help = examples::RUNS)]
    Runs(RunsArgs),
    /// Write a run's report: one HTML file that needs nothing else, Markdown, plots, and tables for other programs
    #[command(after_help = examples::REPORT)]
    Report(ReportArgs),
    /// Watch a run of another process; it goes on undisturbed
    #[command(after_help = examples::ATTACH)]
    Attach(AttachArgs),
    /// Show a recorded run in the terminal UI as it went
    #[command(after_help = examples::REPLAY)]
    Replay(ReplayArgs),
    /// Print what completes gdrtune's commands and options in a shell
    ///
    /// bash: source <(gdrtune completions bash), in ~/.bashrc. zsh: gdrtune completions zsh > ~/.zfunc/_gdrtune, with that folder in fpath
    /// before compinit. fish: gdrtune completions fish > ~/.config/fish/completions/gdrtune.fish
    #[command(after_help = examples::COMPLETIONS)]
    Completions(CompletionsArgs),
    /// Print the manual page, of gdrtune or of one of its commands, for man(1): `gdrtune man | man -l -`
    #[command(after_help = examples::MAN)]
    Man(ManArgs),
    /// Supervise workers on this node (started by gdrtune itself)
    #[command(hide = true)]
    Agent,
    /// Kill the agent that started this where it is stuck (started by the agent)
    #[command(hide = true)]
    Watchdog {
        /// Longest time between two signs of life
        interval_ms: u64,
    },
    /// Run one rank (started by the agent)
    #[command(hide = true)]
    Worker(WorkerArgs),
}

/// `gdrtune man`.
#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// The command, such as tune or runs resume; without one, the page of gdrtune itself, with the keys of the terminal UI
    #[arg(value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
}

/// How a run is shown.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of the command line")]
pub(crate) struct ShowArgs {
    /// Plain progress on stderr instead of the terminal UI (the default where there is no terminal)
    #[arg(long, visible_alias = "plain")]
    pub(crate) headless: bool,
    /// Print every event as one JSON line on stdout; implies --headless
    #[arg(long)]
    pub(crate) json: bool,
    /// Say nothing but errors and the result; implies --headless
    #[arg(long, short, conflicts_with = "verbose")]
    quiet: bool,
    /// Print a line for every trial (otherwise one in two seconds at most); implies --headless
    #[arg(long, short)]
    verbose: bool,
    /// How the terminal UI looks.
    #[command(flatten)]
    pub(crate) look: LookArgs,
}

impl ShowArgs {
    /// Whether the terminal UI is not wanted.
    pub(crate) const fn is_headless(&self) -> bool {
        self.headless || self.json || self.quiet || self.verbose
    }

    /// How much plain lines say.
    pub(crate) const fn detail(&self) -> Detail {
        match (self.quiet, self.verbose) {
            (true, _) => Detail::Result,
            (false, true) => Detail::EveryTrial,
            (false, false) => Detail::Usual,
        }
    }
}

/// How the terminal UI looks.
#[derive(Debug, Args)]
pub(crate) struct LookArgs {
    /// Draw with ASCII characters only
    #[arg(long)]
    pub(crate) ascii: bool,
    /// Leave the mouse to the terminal, so that it can select text
    #[arg(long)]
    pub(crate) no_mouse: bool,
    /// Colours of the terminal UI (default: base, or mono where `NO_COLOR` is set)
    #[arg(long, value_enum)]
    pub(crate) theme: Option<ThemeName>,
}

/// `gdrtune demo`.
#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Folder for the profile and its files
    #[arg(long, value_name = "DIR", default_value = "gdrtune-demo")]
    pub(crate) out: PathBuf,
    /// Seed of every random decision
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// How the run is shown.
    #[command(flatten)]
    pub(crate) show: ShowArgs,
    /// The command line after the program; empty where it is no UTF-8 text.
    #[arg(skip)]
    pub(crate) words: Vec<String>,
}

/// What is measured.
#[derive(Debug, Args)]
pub(crate) struct MeasureArgs {
    /// What runs the collectives: native (host memory over TCP, needs no GPU) or nccl (NCCL on the GPUs); choices of one say nothing about the other. With tune also replay (times come from a recorded --grid) and sim (from a model of a --cluster): nothing runs
    #[arg(long, default_value = "native", value_parser = parse_named::<Engine>)]
    pub(crate) engine: Engine,
    /// Collectives, separated by commas: allreduce, allgather, reducescatter, broadcast, reduce, alltoall, sendrecv
    #[arg(long, value_name = "LIST", default_value = "allreduce", value_delimiter = ',', value_parser = parse_named::<Collective>)]
    pub(crate) collectives: Vec<Collective>,
    /// Sizes and their elements.
    #[command(flatten)]
    pub(crate) sizes: SizeArgs,
    /// How workers are started and watched.
    #[command(flatten)]
    pub(crate) trial: TrialArgs,
}

/// Sizes and their elements.
#[derive(Debug, Clone, Args)]
pub(crate) struct SizeArgs {
    /// Sizes: a range such as 1K-64M (stepping by --factor), a list, or both; as in nccl-tests: bytes, K, M and G are powers of 1024, and allgather, reducescatter and alltoall count the blocks of all ranks
    #[arg(long, value_name = "SIZES", default_value = "1K-64M")]
    pub(crate) sizes: String,
    /// Factor between the sizes of a range
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u64).range(2..=1024))]
    pub(crate) factor: u64,
    /// Element type: float32, float16, bfloat16 or int32
    #[arg(long, value_name = "TYPE", default_value = "float32", value_parser = parse_named::<DataType>)]
    pub(crate) data_type: DataType,
}

/// How workers are started and watched.
#[derive(Debug, Clone, Args)]
pub(crate) struct TrialArgs {
    /// Shortest deadline of one measurement, such as 20s or 2m; one that overruns is killed and counts as hung
    #[arg(long, value_name = "TIME", default_value = "20s", value_parser = parse_duration_s)]
    pub(crate) trial_timeout: f64,
    /// Measure although other processes use the GPUs or HCAs, or another gdrtune the hosts; results are noisier
    #[arg(long)]
    pub(crate) shared: bool,
    /// Wait for another gdrtune on the hosts to end, TIME at most (default: without end), instead of refusing
    #[arg(long, value_name = "TIME", num_args = 0..=1, value_parser = parse_duration_s)]
    #[expect(clippy::option_option, reason = "clap's form of an option whose value may be left out")]
    pub(crate) wait: Option<Option<f64>>,
    /// Command that starts each worker, such as 'apptainer exec --nv IMG {worker}'
    ///
    /// It is split into words as a shell would, but no shell runs it, so nothing is expanded. {worker} is a word of its own:
    /// the program and its arguments. Within words: `{rank}` and `{local_rank}`, `{dir}` (folder with the program and its files,
    /// to be mounted under the same path), `{env}` (file with the NCCL_*, GDRTUNE_* and CUDA_* variables of the rank, for
    /// what does not hand the environment on), {{ and }} for braces. It must hand standard input and output on
    /// unchanged: `docker run --rm -i --init --gpus all --network host --ipc host -v {dir}:{dir} --env-file {env} IMG {worker}`.
    #[arg(long = "worker-cmd", value_name = "COMMAND", value_parser = parse_worker_command)]
    pub(crate) worker_cmd: Option<WorkerCommand>,
}

impl TrialArgs {
    /// Shortest deadline of one measurement in milliseconds.
    pub(crate) fn min_lease_ms(&self) -> u64 {
        (self.trial_timeout * 1e3) as u64
    }

    /// Time to wait for other runs.
    pub(crate) fn wait(&self) -> Duration {
        longest_wait(self.wait)
    }

    /// Words of the command that starts workers; empty starts them directly.
    pub(crate) fn worker_command(&self) -> Vec<String> {
        self.worker_cmd.as_ref().map(|command| command.words().to_vec()).unwrap_or_default()
    }
}

/// What `--wait [TIME]` says as the longest wait.
#[expect(clippy::option_option, reason = "clap's form of an option whose value may be left out")]
fn longest_wait(given: Option<Option<f64>>) -> Duration {
    match given {
        None => Duration::ZERO,
        Some(None) => Duration::MAX,
        Some(Some(seconds)) => Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX),
    }
}

/// How NCCL is used, where that is the engine.
#[derive(Debug, Args)]
pub(crate) struct NcclArgs {
    /// NCCL's library on the hosts (default: searched for as a job's loader would)
    #[arg(long, value_name = "PATH")]
    pub(crate) nccl: Option<PathBuf>,
    /// Let every rank pose as a node of its own, so that several can share one GPU; results are labelled emulated
    #[arg(long)]
    pub(crate) emulate_nodes: bool,
    /// How collectives are called.
    #[command(flatten)]
    pub(crate) calls: CallArgs,
}

/// `gdrtune tune`.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of the command line")]
pub(crate) struct TuneArgs {
    /// Which hosts.
    #[command(flatten)]
    pub(crate) hosts: HostArgs,
    /// What is measured.
    #[command(flatten)]
    pub(crate) measure: MeasureArgs,
    /// How NCCL is used.
    #[command(flatten)]
    pub(crate) nccl: NcclArgs,
    /// Job shapes to tune one after the other, such as 2x8,4x8,32x1; each takes the first hosts, and keeps rules of its own
    ///
    /// NODES hosts with `RANKS_PER_NODE` ranks each; with --emulate-nodes, Nx1 is N ranks of this machine. The time (and
    /// --trials) is divided among the shapes. Of several shapes only rules are searched, no settings but pinned ones: a variable
    /// reaches jobs of every shape, so it may not ship on the evidence of one. Tune one shape to find settings, then --pin
    /// them for several; they ship if they pass in every shape.
    #[arg(long, value_name = "NODESxRANKS_PER_NODE,...", value_parser = parse_named::<Shapes>, conflicts_with = "ranks_per_node")]
    pub(crate) shapes: Option<Shapes>,
    /// Go on without hosts that cannot be used or are lost, while N are left
    ///
    /// Hosts that cannot be started, or are refused, are left out. Where one is lost in mid-run, the run begins anew on the
    /// others, with its whole --budget and --trials: times of different nodes are never mixed. The exit code is 101 then, with a
    /// profile for the hosts that are left.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), conflicts_with = "shapes")]
    pub(crate) min_nodes: Option<u32>,
    /// Do not measure pairs of nodes before the search, which names slow ones (with three hosts or more, in about a second)
    #[arg(long)]
    pub(crate) no_probe: bool,
    /// Leave HCAs out that were measured to be no use: slower than half of the others' median, or failed
    ///
    /// The file is JSON: `{"links": [{"node": "n1", "hca": "mlx5_0", "port": 1, "peer": "n2", "outcome": {"measured": {"gbs": 24.1}}}]}`,
    /// or as an outcome `{"failed": {"failure": "transfer", "why": "no answer"}}`. What is of other hosts is not used.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["grid", "cluster", "shapes"])]
    pub(crate) ceilings: Option<PathBuf>,
    /// What is measured in the place of hosts.
    #[command(flatten)]
    pub(crate) offline: OfflineArgs,
    /// What counts as better.
    #[command(flatten)]
    pub(crate) goal: GoalArgs,
    /// What is searched.
    #[command(flatten)]
    pub(crate) space: SpaceArgs,
    /// Time for the whole run, such as 90s, 5m or 1h (default: the space's, 5m for the standard one; of a replay or a simulation, whose time is the recorded or the simulated one: none); a verification that has begun is finished, even if that takes longer
    #[arg(long, value_name = "TIME", value_parser = parse_duration_s)]
    pub(crate) budget: Option<f64>,
    /// Measurements of the search at most, the default arm's included; the verification's are not counted (default: no limit; without --budget, of a replay: 5 for each recorded cell, of a simulation: 4000, which take about a second)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) trials: Option<u64>,
    /// How environments are searched: model (learns what each setting does), coordinate-descent, annealing, random, exhaustive,
    /// or auto (exhaustive over few environments, else model)
    #[arg(long, default_value_t = Strategy::Auto, value_parser = parse_named::<Strategy>)]
    pub(crate) strategy: Strategy,
    /// Seed of every random decision
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Folder for the profile and its files
    #[arg(long, value_name = "DIR", default_value = "gdrtune-out")]
    pub(crate) out: PathBuf,
    /// Replace the files of an earlier run in --out; and measure although hosts differ in what NCCL needs alike, which the
    /// profile then says
    #[arg(long)]
    pub(crate) force: bool,
    /// End with code 5 when no setting beat the defaults
    #[arg(long)]
    pub(crate) expect_gain: bool,
    /// Write no report.html and report.md into --out
    #[arg(long)]
    pub(crate) no_report: bool,
    /// How the run is shown.
    #[command(flatten)]
    pub(crate) show: ShowArgs,
    /// Long names of the options that the user wrote.
    #[arg(skip)]
    given: Vec<String>,
    /// The command line after the program; empty where it is no UTF-8 text.
    #[arg(skip)]
    pub(crate) words: Vec<String>,
}

/// How collectives are called; NCCL's only.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct CallArgs {
    /// Capture the calls into CUDA graphs, as jobs do that capture their steps: one graph for the timed calls of a sample
    #[arg(long)]
    pub(crate) graph: bool,
    /// Take buffers from NCCL's allocator and register them, so that NCCL may use them without copies
    #[arg(long)]
    pub(crate) register_buffers: bool,
}

/// Choices of a grid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ChoicesArg {
    /// All that the engine allows; those over 20 times as long as the best at two sizes are not run at larger ones.
    All,
}

/// `gdrtune bench`.
#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    /// Which hosts.
    #[command(flatten)]
    pub(crate) hosts: HostArgs,
    /// What is measured.
    #[command(flatten)]
    pub(crate) measure: MeasureArgs,
    /// How NCCL is used.
    #[command(flatten)]
    pub(crate) nccl: NcclArgs,
    /// What to run, such as ring/simple/2 (default: the engine's own choice)
    #[arg(long, value_name = "ALGORITHM/PROTOCOL[/CHANNELS]", value_parser = parse_choice)]
    pub(crate) choice: Option<gdrtune_profiles::vocab::Choice>,
    /// Measure although hosts differ in what NCCL needs alike; replace the file of --csv where it is there already
    #[arg(long)]
    pub(crate) force: bool,
    /// Go on without hosts that cannot be started, or are refused, while N are left; the exit code is 101 then
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) min_nodes: Option<u32>,
    /// Run every choice that the engine allows with 1, 2, 4, ... channels, and its own, shuffled; shows the best of each size
    #[arg(long, value_enum, value_name = "WHICH", conflicts_with_all = ["choice", "json"])]
    pub(crate) choices: Option<ChoicesArg>,
    /// Write every sample to a file, as CSV
    #[arg(long, value_name = "FILE")]
    pub(crate) csv: Option<PathBuf>,
    /// Seed of the order of --choices
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Set a variable in the workers (repeatable)
    #[arg(long = "env", value_name = "NAME=VALUE")]
    pub(crate) environment: Vec<String>,
    /// Samples per size; the median is shown
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) repeats: u32,
    /// Print JSON instead of a table
    #[arg(long)]
    pub(crate) json: bool,
}

/// `gdrtune worker`.
#[derive(Debug, Args)]
pub(crate) struct WorkerArgs {
    /// Take environment and rules from the emitted files in this folder alone
    #[arg(long, value_name = "DIR")]
    pub(crate) ab: Option<PathBuf>,
}
