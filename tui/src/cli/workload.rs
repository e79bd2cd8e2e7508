//! The options of `gdrtune workload`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use gdrtune_profiles::{
    size::parse_size,
    vocab::DataType,
    workload::{
        estimate::{ContextExchange, Sharding, parse_params},
        import::Kind,
    },
};

use super::parse::{parse_data_type, parse_fraction, parse_named, parse_shape};

const IMPORT: &str = "Make a workload of what a job left behind: NCCL logs, Inspector dumps, PyTorch profiler traces, flight-recorder dumps";

const IMPORT_LONG: &str = "\
Make a workload of what a job left behind: NCCL logs, Inspector dumps, PyTorch profiler traces, flight-recorder dumps

NCCL log: NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,COLL NCCL_DEBUG_FILE=nccl.%h.%p.log, for some steps; one rank's is \
enough, and of several a call counts once for its communicator. Inspector: NCCL's plugin of 2.28 and later. Profiler \
trace: PyTorch 2.1 and later, with profiler.step(). Flight recorder: the JSON of \
torch._C._distributed_c10d._dump_nccl_trace_json().";

const ESTIMATE: &str = "Estimate what a training job will call, from the model's size and how it is spread";

const ESTIMATE_LONG: &str = "\
Estimate what a training job will call, from the model's size and how it is spread

Formulas are those of the Megatron-LM, ZeRO and FSDP papers, and each is shown with its source. It counts what a rank of a \
middle pipeline stage calls in one step; what is not said follows from published models, and is shown.";

/// `gdrtune workload`.
#[derive(Debug, Args)]
pub(crate) struct WorkloadArgs {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: WorkloadCommand,
}

/// The sub-commands of `gdrtune workload`.
#[derive(Debug, Subcommand)]
pub(crate) enum WorkloadCommand {
    // Not as comments, which would have marks around these names.
    #[command(about = IMPORT, long_about = IMPORT_LONG)]
    Import(ImportArgs),
    #[command(about = ESTIMATE, long_about = ESTIMATE_LONG)]
    Estimate(Box<EstimateArgs>),
    /// Show where a workload's bytes, calls and, with a profile or a run, times are
    Show(ShowWorkloadArgs),
    /// Tell what a profile does to the communication time of a step, by what its run measured
    ///
    /// Nothing is measured, and nothing is made up: times are of the run's store (found by the profile's run, or --run), or
    /// else of the profile and the choices.json beside it. Between measured sizes they are interpolated in the logarithms of size and
    /// time; sizes outside are named and left out.
    Predict(PredictArgs),
}

/// `gdrtune workload import`.
#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// Files of one job, of one rank or of several; - is standard input
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// What the files are, where they do not show it: nccl-log, inspector, torch-trace or flight-recorder
    #[arg(long, value_name = "KIND", value_parser = parse_named::<Kind>)]
    pub(crate) kind: Option<Kind>,
    /// Steps of the job that the files are of (default: by the profiler's marks, or by what repeats itself)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) steps: Option<u64>,
    /// Communicators, by number, name or beginning of the id, separated by commas (default: the one with the most bytes)
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) comm: Vec<String>,
    /// Most different sizes: if there are more, neighbours become one
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=4096))]
    pub(crate) points: u64,
    /// List the communicators and write nothing
    #[arg(long, conflicts_with = "output")]
    pub(crate) list: bool,
    /// File to write, whole or not at all (default: standard output)
    #[arg(long, short = 'o', value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Replace the file of -o where it is there already
    #[arg(long, requires = "output")]
    pub(crate) force: bool,
}

/// `gdrtune workload estimate`.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of the command line")]
pub(crate) struct EstimateArgs {
    /// Parameters of the model, such as 7B or 350M
    #[arg(long, value_name = "N", value_parser = parse_params)]
    pub(crate) params: f64,
    /// Data-parallel size
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) dp: u64,
    /// Tensor-parallel size
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) tp: u64,
    /// Pipeline stages
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) pp: u64,
    /// Context-parallel size
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) cp: u64,
    /// Expert-parallel size; it divides dp x cp
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) ep: u64,
    /// Tokens of a sequence
    #[arg(long, value_name = "N", default_value_t = 4096)]
    pub(crate) seq: u64,
    /// Sequences of a micro-batch
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) micro_batch: u64,
    /// Sequences of a step over all ranks (default: as few as fill the pipeline)
    #[arg(long, value_name = "N")]
    pub(crate) global_batch: Option<u64>,
    /// Layers (default: of a published model of this size)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) layers: Option<u64>,
    /// Hidden size (default likewise)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) hidden: Option<u64>,
    /// Width of keys and of values, with grouped queries less than the hidden size (default likewise)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) kv_hidden: Option<u64>,
    /// Vocabulary (default likewise)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) vocabulary: Option<u64>,
    /// Experts of a layer (default likewise, with --ep)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) experts: Option<u64>,
    /// Experts that a token goes to (default likewise, with --ep)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) top_k: Option<u64>,
    /// Type of parameters and activations: bf16, fp16 or fp32
    #[arg(long, value_name = "TYPE", default_value = "bf16", value_parser = parse_data_type)]
    pub(crate) dtype: DataType,
    /// Type in which gradients are reduced (default: fp32 with --zero 0 and 1, else that of the parameters)
    #[arg(long, value_name = "TYPE", value_parser = parse_data_type)]
    pub(crate) grad_dtype: Option<DataType>,
    /// What is spread over data-parallel ranks: 0 or ddp (nothing), 1 (optimizer states), 2 (gradients, too), 3 or fsdp (parameters, too)
    #[arg(long, value_name = "STAGE", default_value = "0", value_parser = parse_named::<Sharding>)]
    pub(crate) zero: Sharding,
    /// Bytes of a gradient bucket, with --zero 0 to 2
    #[arg(long, value_name = "SIZE", default_value = "25M", value_parser = parse_bucket)]
    pub(crate) bucket: u64,
    /// Spread activations between tensor-parallel regions over the sequence: all-gathers and reduce-scatters for all-reduces
    #[arg(long)]
    pub(crate) sequence_parallel: bool,
    /// Run layers again in the backward pass (full activation recomputation)
    #[arg(long)]
    pub(crate) recompute: bool,
    /// How keys and values get to context-parallel ranks: p2p (no collective) or all-gather
    #[arg(long, value_name = "HOW", default_value = "p2p", value_parser = parse_named::<ContextExchange>)]
    pub(crate) cp_comm: ContextExchange,
    /// Write the workload of this group alone, such as dp, tp or ep, to standard output or -o
    #[arg(long, value_name = "GROUP")]
    pub(crate) group: Option<String>,
    /// File for the workload of --group, whole or not at all
    #[arg(long, short = 'o', value_name = "FILE", requires = "group")]
    pub(crate) output: Option<PathBuf>,
    /// Folder for a workload file of each group
    #[arg(long, value_name = "DIR", conflicts_with = "group")]
    pub(crate) out: Option<PathBuf>,
    /// Replace files that are in --out, or of -o, already
    #[arg(long)]
    pub(crate) force: bool,
    /// Print JSON in the place of tables
    #[arg(long, conflicts_with = "group")]
    pub(crate) json: bool,
}

/// Whose times are shown.
#[derive(Debug, Args)]
pub(crate) struct EvidenceArgs {
    /// The run whose times count: a run id, the beginning of one, `last`, or a .jsonl file (default: that of the profile, where its
    /// store is here)
    #[arg(long, value_name = "RUN")]
    pub(crate) run: Option<String>,
    /// Job shape, where the profile or the run has several (default: the cluster's)
    #[arg(long, value_name = "NODESxRANKS_PER_NODE", value_parser = parse_shape)]
    pub(crate) shape: Option<(u32, u32)>,
}

/// `gdrtune workload show`.
#[derive(Debug, Args)]
pub(crate) struct ShowWorkloadArgs {
    /// A workload file, or the name of one that comes along: ddp-25mb-buckets, fsdp, tensor-parallel, moe-alltoall or nccl-tests
    #[arg(value_name = "NAME|FILE")]
    pub(crate) workload: String,
    /// Show times by this profile's evidence, too
    #[arg(long, value_name = "FILE")]
    pub(crate) profile: Option<PathBuf>,
    /// Whose times are shown.
    #[command(flatten)]
    pub(crate) evidence: EvidenceArgs,
    /// Print JSON in the place of a picture
    #[arg(long)]
    pub(crate) json: bool,
}

/// `gdrtune workload predict`.
#[derive(Debug, Args)]
pub(crate) struct PredictArgs {
    /// A workload file with calls per step, or the name of one that comes along
    #[arg(value_name = "NAME|FILE")]
    pub(crate) workload: String,
    /// The profile (profile.toml)
    #[arg(long, value_name = "FILE")]
    pub(crate) profile: PathBuf,
    /// Whose times count.
    #[command(flatten)]
    pub(crate) evidence: EvidenceArgs,
    /// Part of the communication that computation hides, from 0 to 1; assumed to be the same before and after
    #[arg(long, value_name = "PART", default_value = "0", value_parser = parse_fraction)]
    pub(crate) overlap: f64,
    /// Time of a whole step with the defaults, in milliseconds, as the job measured it
    #[arg(long, value_name = "MS", value_parser = parse_milliseconds)]
    pub(crate) step_ms: Option<f64>,
    /// Print JSON in the place of a table
    #[arg(long)]
    pub(crate) json: bool,
}

fn parse_bucket(text: &str) -> Result<u64, String> {
    parse_size(text).map_err(|error| error.to_string())
}

fn parse_milliseconds(text: &str) -> Result<f64, String> {
    let value = text.trim().parse::<f64>().ok().filter(|value| value.is_finite() && 0.0 < *value);
    value.ok_or_else(|| "expected milliseconds above 0".to_owned())
}
