//! Workloads of a training job that does not run yet: which collectives of which sizes a step has, from the model's size and how it
//! is spread.
//!
//! It counts what one rank of a middle pipeline stage calls. Every term names its formula and where that is from. Small calls
//! (gradient norms, losses, barriers) and point-to-point transfers are left out, and [`Estimate::left_out`] says so.

mod groups;
mod model;
#[cfg(test)]
mod tests;

use std::{fmt, str::FromStr};

pub use self::model::{KnownModel, MODELS};
use super::{Counting, Workload, whole_elements};
use crate::{
    nearest::hint,
    vocab::{Collective, DataType, Point},
};

/// How parameters, gradients and optimizer states are spread over data-parallel ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sharding {
    /// Every rank has all: gradients are all-reduced.
    Zero0,
    /// Optimizer states are spread.
    Zero1,
    /// Gradients too.
    Zero2,
    /// Parameters too: `ZeRO` stage 3, or FSDP.
    Zero3,
}

impl FromStr for Sharding {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "0" | "ddp" => Ok(Self::Zero0),
            "1" => Ok(Self::Zero1),
            "2" => Ok(Self::Zero2),
            "3" | "fsdp" => Ok(Self::Zero3),
            _ => {
                let near = hint(text, ["ddp", "fsdp"]);
                Err(format!("unknown stage `{text}`: use one of 0, 1, 2, 3, ddp (0) or fsdp (3){near}"))
            }
        }
    }
}

/// How attention over a sequence that is spread gets at the keys and values of others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContextExchange {
    /// Rings of sends and receives, which are no collective.
    PointToPoint,
    /// All-gathers.
    AllGather,
}

impl FromStr for ContextExchange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "p2p" => Ok(Self::PointToPoint),
            "all-gather" => Ok(Self::AllGather),
            _ => Err(format!("unknown exchange `{text}`: use p2p or all-gather{}", hint(text, ["p2p", "all-gather"]))),
        }
    }
}

/// What is trained, and how it is spread. What is `None` follows from the rest, and [`Estimate::assumed`] says how.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// Parameters of the model.
    pub params: f64,
    /// Data-parallel size.
    pub dp: u64,
    /// Tensor-parallel size.
    pub tp: u64,
    /// Pipeline stages.
    pub pp: u64,
    /// Context-parallel size.
    pub cp: u64,
    /// Expert-parallel size.
    pub ep: u64,
    /// Tokens of a sequence.
    pub sequence: u64,
    /// Sequences of a micro-batch.
    pub micro_batch: u64,
    /// Sequences of a step, over all ranks.
    pub global_batch: Option<u64>,
    /// Layers.
    pub layers: Option<u64>,
    /// Hidden size.
    pub hidden: Option<u64>,
    /// Width of keys, and of values: key-value heads times their size.
    pub kv_hidden: Option<u64>,
    /// Vocabulary.
    pub vocabulary: Option<u64>,
    /// Experts of a layer.
    pub experts: Option<u64>,
    /// Experts that a token goes to.
    pub top_k: Option<u64>,
    /// Type of parameters and activations.
    pub data_type: DataType,
    /// Type in which gradients are reduced.
    pub grad_type: Option<DataType>,
    /// What is spread over data-parallel ranks.
    pub sharding: Sharding,
    /// Bytes of a gradient bucket.
    pub bucket: u64,
    /// Whether activations between tensor-parallel regions are spread over the sequence.
    pub sequence_parallel: bool,
    /// Whether layers run again in the backward pass.
    pub recompute: bool,
    /// How keys and values are exchanged with `cp` above 1.
    pub context_exchange: ContextExchange,
}

/// A job that cannot be, or of which too little is known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{option}: {cause}")]
pub struct JobError {
    /// The option that is at fault, or the group whose calls are.
    pub option: &'static str,
    /// What is wrong, and what to do.
    pub cause: String,
}

/// Calls of one kind in a step.
#[derive(Debug, Clone, PartialEq)]
pub struct Term {
    /// The collective.
    pub collective: Collective,
    /// Bytes, by nccl-tests' size column.
    pub bytes: u64,
    /// Calls of a rank in a step.
    pub per_step: f64,
    /// What it is for.
    pub what: &'static str,
    /// How its size and number follow from the job, in symbols and numbers.
    pub formula: String,
    /// Where that is from.
    pub source: &'static str,
}

/// A group of ranks that call collectives together.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// Its name: `dp`, `tp`, ...
    pub name: &'static str,
    /// Its ranks.
    pub ranks: u64,
    /// What it calls in a step.
    pub terms: Vec<Term>,
}

/// What a step calls.
#[derive(Debug, Clone, PartialEq)]
pub struct Estimate {
    /// Groups with calls, that with the most bytes first.
    pub groups: Vec<Group>,
    /// What was not said, and what was taken for it, in sentences.
    pub assumed: Vec<String>,
    /// What is not counted, in sentences.
    pub left_out: Vec<String>,
}

impl Group {
    /// Bytes of a step, by the size column.
    pub fn bytes(&self) -> f64 {
        self.terms.iter().map(|term| term.bytes as f64 * term.per_step).sum()
    }

    /// What it calls, as a workload of this name.
    pub fn workload(&self, name: &str) -> Workload {
        let mut calls = std::collections::BTreeMap::new();
        for Term { collective, bytes, per_step, .. } in &self.terms {
            *calls.entry(Point { collective: *collective, bytes: *bytes }).or_default() += per_step;
        }
        let about = format!("{} group, {} ranks, estimated", self.name, self.ranks);
        Workload {
            name: name.to_owned(),
            about,
            counting: Counting::CallsPerStep,
            ranks: Some(self.ranks),
            calls: calls.into_iter().collect(),
        }
    }
}

impl Estimate {
    /// What a step of `job` calls.
    ///
    /// # Errors
    /// [`JobError`] names the option.
    pub fn of(job: &Job) -> Result<Self, JobError> {
        let (facts, assumed) = model::facts(job)?;
        let mut left_out = vec!["calls of a few bytes: gradient norms, losses, counters".to_owned()];
        let mut groups = vec![
            groups::data(job, &facts, &mut left_out),
            groups::experts_data(job, &facts),
            groups::tensor(job, &facts, &mut left_out),
            groups::context(job, &facts, &mut left_out),
            groups::expert(job, &facts),
        ];
        if 1 < job.pp {
            left_out.push("activations between pipeline stages: sends and receives, no collective".to_owned());
        }
        check_terms(&groups)?;
        groups.retain(|group| !group.terms.is_empty());
        groups.sort_by(|a, b| b.bytes().total_cmp(&a.bytes()));
        Ok(Self { groups, assumed, left_out })
    }
}

/// A number of parameters below this one is one of billions whose unit was left out.
const FEWEST: f64 = 1e4;

/// A count with its unit as people write it: `7B`, `1.3B`, `350M`, `1.2e9`.
///
/// # Errors
/// What it should be.
pub fn parse_params(text: &str) -> Result<f64, String> {
    let trimmed = text.trim();
    let (number, factor) = match trimmed.chars().last().map(|unit| unit.to_ascii_uppercase()) {
        Some('K') => (&trimmed[..trimmed.len() - 1], 1e3),
        Some('M') => (&trimmed[..trimmed.len() - 1], 1e6),
        Some('B' | 'G') => (&trimmed[..trimmed.len() - 1], 1e9),
        Some('T') => (&trimmed[..trimmed.len() - 1], 1e12),
        _ => (trimmed, 1.0),
    };
    if number == trimmed && number.parse::<f64>().is_ok_and(|value| (1e-3..FEWEST).contains(&value)) {
        return Err(format!("a model of {number} parameters is none: did you mean {number}B?"));
    }
    let value = number.parse::<f64>().ok().map(|value| value * factor).filter(|value| (1.0..=1e15).contains(value));
    value.ok_or_else(|| format!("`{text}` is no number of parameters: write such as 7B, 350M or 1.3e9"))
}

/// Shows a number of parameters: `7B`, `350M`.
pub struct Params(pub f64);

impl fmt::Display for Params {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (value, unit) = match self.0 {
            value if 1e12 <= value => (value / 1e12, "T"),
            value if 1e9 <= value => (value / 1e9, "B"),
            value if 1e6 <= value => (value / 1e6, "M"),
            value if 1e3 <= value => (value / 1e3, "K"),
            value => (value, ""),
        };
        write!(f, "{}{unit}", (value * 100.0).round() / 100.0)
    }
}

/// Bytes of a call, and calls of a step, at most: up to here the formulas' numbers are exact. A thousand times what anybody has.
const MOST: f64 = (1u64 << 53) as f64;

/// Refuses what is too large to be meant, or to be counted.
fn check_terms(groups: &[Group]) -> Result<(), JobError> {
    for group in groups {
        for Term { collective, bytes, per_step, what, .. } in &group.terms {
            let too_many = match (*bytes as f64, *per_step) {
                (bytes, _) if MOST < bytes => "bytes in one call",
                (_, calls) if MOST < calls => "calls in one step",
                _ => continue,
            };
            let cause = format!("{collective} of {what}: more than 2^53 {too_many}: check the job's numbers");
            return Err(JobError { option: group.name, cause });
        }
    }
    Ok(())
}

/// Whole elements of a number of bytes that a formula gives.
fn size(bytes: f64) -> u64 {
    whole_elements(bytes.round() as u64)
}
