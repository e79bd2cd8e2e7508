//! What is known of models by their size, and what of a job follows from that.

use super::{ContextExchange, Job, JobError, Params, Sharding};
use crate::vocab::DataType;

/// A model whose sizes are published.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct KnownModel {
    /// Its name.
    pub name: &'static str,
    /// Parameters.
    pub params: f64,
    /// Layers.
    pub layers: u64,
    /// Hidden size.
    pub hidden: u64,
    /// Attention heads, those of queries.
    pub heads: u64,
    /// Width of keys, and of values.
    pub kv_hidden: u64,
    /// Vocabulary.
    pub vocabulary: u64,
    /// Experts of a layer and those that a token goes to, where it is a mixture of experts.
    pub experts: Option<(u64, u64)>,
    /// Where that is from.
    pub source: &'static str,
}

/// Published models, smallest first.
pub const MODELS: &[KnownModel] = &[
    dense("GPT-3 Small", 125e6, (12, 768, 12, 768, 50257), GPT3),
    dense("GPT-3 Medium", 350e6, (24, 1024, 16, 1024, 50257), GPT3),
    dense("GPT-3 Large", 760e6, (24, 1536, 16, 1536, 50257), GPT3),
    dense("GPT-3 XL", 1.3e9, (24, 2048, 24, 2048, 50257), GPT3),
    dense("GPT-3 2.7B", 2.7e9, (32, 2560, 32, 2560, 50257), GPT3),
    dense("Llama 2 7B", 6.74e9, (32, 4096, 32, 4096, 32000), LLAMA2),
    dense("Llama 3 8B", 8.03e9, (32, 4096, 32, 1024, 128_256), LLAMA3),
    dense("Llama 2 13B", 13.02e9, (40, 5120, 40, 5120, 32000), LLAMA2),
    KnownModel {
        name: "Mixtral 8x7B",
        params: 46.7e9,
        layers: 32,
        hidden: 4096,
        heads: 32,
        kv_hidden: 1024,
        vocabulary: 32000,
        experts: Some((8, 2)),
        source: "arXiv 2401.04088, table 1",
    },
    dense("Llama 3 70B", 70.6e9, (80, 8192, 64, 1024, 128_256), LLAMA3),
    dense("GPT-3 175B", 175e9, (96, 12288, 96, 12288, 50257), GPT3),
    dense("Llama 3 405B", 405.9e9, (126, 16384, 128, 1024, 128_256), LLAMA3),
];

const GPT3: &str = "arXiv 2005.14165, table 2.1";
const LLAMA2: &str = "arXiv 2307.09288, and its config.json";
const LLAMA3: &str = "arXiv 2407.21783, table 3, and its config.json";

const fn dense(name: &'static str, params: f64, sizes: (u64, u64, u64, u64, u64), source: &'static str) -> KnownModel {
    let (layers, hidden, heads, kv_hidden, vocabulary) = sizes;
    KnownModel { name, params, layers, hidden, heads, kv_hidden, vocabulary, experts: None, source }
}

/// How far a number of parameters may be from a known model's to be taken for it.
const LIKE: f64 = 1.35;

/// Ranks of a group, and sequences of a micro-batch, at most: ten times what anybody has, and products stay numbers.
const MOST: u64 = 1 << 20;

/// What the formulas need.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Facts {
    pub(super) layers: f64,
    pub(super) hidden: f64,
    pub(super) kv_hidden: f64,
    /// Parameters of embedding and output layer.
    pub(super) outer_params: f64,
    /// Parameters of all experts of all layers.
    pub(super) expert_params: f64,
    /// All others.
    pub(super) layer_params: f64,
    pub(super) top_k: f64,
    /// Micro-batches of a step that a rank works on.
    pub(super) micro_batches: f64,
    /// Bytes of an element.
    pub(super) element: f64,
    pub(super) grad_element: f64,
}

/// The facts of a job, and what was assumed for them.
pub(super) fn facts(job: &Job) -> Result<(Facts, Vec<String>), JobError> {
    let mut assumed = Vec::new();
    let is_mixture = 1 < job.ep || job.experts.is_some();
    let known = like(job.params, is_mixture);
    let mut from_known = |option: &'static str, given: Option<u64>, of: &dyn Fn(&KnownModel) -> Option<u64>| {
        if let Some(given) = given {
            return Ok(given as f64);
        }
        let Some((model, value)) = known.and_then(|model| Some((model, of(model)?))) else {
            let kind = if is_mixture { "mixture of experts" } else { "dense model" };
            let cause = format!("no {kind} of about {} parameters is known here: say it", Params(job.params));
            return Err(JobError { option, cause });
        };
        assumed.push(format!("{option} {value}, as {} ({})", model.name, model.source));
        Ok(value as f64)
    };
    let layers = from_known("--layers", job.layers, &|model| Some(model.layers))?;
    let hidden = from_known("--hidden", job.hidden, &|model| Some(model.hidden))?;
    let vocabulary = from_known("--vocabulary", job.vocabulary, &|model| Some(model.vocabulary))?;
    let needs_kv = 1 < job.cp && job.context_exchange == ContextExchange::AllGather;
    let kv_hidden = if needs_kv {
        from_known("--kv-hidden", job.kv_hidden, &|model| Some(model.kv_hidden))?
    } else {
        job.kv_hidden.or(known.map(|model| model.kv_hidden)).map_or(hidden, |width| width as f64)
    };
    let (experts, top_k) = if is_mixture {
        let experts = from_known("--experts", job.experts, &|model| Some(model.experts?.0))?;
        (experts, from_known("--top-k", job.top_k, &|model| Some(model.experts?.1))?)
    } else {
        (0.0, 0.0)
    };
    check(job, layers, experts)?;
    check_heads(job, hidden, known)?;
    check_params(job.params, [layers, hidden, kv_hidden, vocabulary])?;
    let micro_batches = micro_batches(job, &mut assumed)?;
    // GPT-3 ties embedding and output layer, later models do not.
    let outer_params = (2.0 * vocabulary * hidden).min(job.params / 2.0);
    let attention = attention_params(layers, hidden, kv_hidden);
    let inner = job.params - outer_params;
    let expert_params = if is_mixture { (inner - attention).max(0.0) } else { 0.0 };
    let grad_type = job.grad_type.unwrap_or_else(|| {
        // Megatron-LM accumulates and reduces gradients in float32 where parameters are bfloat16 (megatron/training/arguments.py); FSDP
        // reduces in the type of the parameters unless MixedPrecision.reduce_dtype says otherwise.
        let (data_type, whose) = match job.sharding {
            Sharding::Zero0 | Sharding::Zero1 => (DataType::F32, "as Megatron-LM does with bfloat16"),
            Sharding::Zero2 | Sharding::Zero3 => (job.data_type, "as the parameters, the default of FSDP"),
        };
        assumed.push(format!("--grad-dtype {data_type}, {whose}"));
        data_type
    });
    let facts = Facts {
        layers,
        hidden,
        kv_hidden,
        outer_params,
        expert_params,
        layer_params: inner - expert_params,
        top_k,
        micro_batches,
        element: job.data_type.bytes() as f64,
        grad_element: grad_type.bytes() as f64,
    };
    Ok((facts, assumed))
}

/// The known model whose size is nearest, if it is near.
fn like(params: f64, is_mixture: bool) -> Option<&'static KnownModel> {
    let distance = |model: &&KnownModel| (model.params / params).ln().abs();
    let alike = MODELS.iter().filter(|model| model.experts.is_some() == is_mixture);
    alike.min_by(|a, b| distance(a).total_cmp(&distance(b))).filter(|model| distance(model) <= LIKE.ln())
}

fn check(job: &Job, layers: f64, experts: f64) -> Result<(), JobError> {
    let wrong = |option, cause: String| Err(JobError { option, cause });
    let sizes = [("--dp", job.dp), ("--tp", job.tp), ("--pp", job.pp), ("--cp", job.cp), ("--ep", job.ep)];
    if let Some((option, _)) = sizes.iter().find(|(_, size)| !(1..=MOST).contains(size)) {
        return wrong(option, format!("a group has 1 to {MOST} ranks"));
    }
    if !(1..=MOST).contains(&job.micro_batch) {
        return wrong("--micro-batch", format!("a micro-batch has 1 to {MOST} sequences"));
    }
    if layers < job.pp as f64 {
        return wrong("--pp", format!("{} stages are more than {layers} layers", job.pp));
    }
    if job.sequence == 0 || !job.sequence.is_multiple_of(job.cp) {
        return wrong("--cp", format!("a sequence of {} cannot be spread over {} ranks alike", job.sequence, job.cp));
    }
    if 1 < job.ep && !(job.dp * job.cp).is_multiple_of(job.ep) {
        return wrong(
            "--ep",
            format!(
                "expert groups are made of the dp x cp = {} ranks: {} does not divide them",
                job.dp * job.cp,
                job.ep
            ),
        );
    }
    if 1 < job.ep && experts < job.ep as f64 {
        return wrong("--ep", format!("{} ranks are more than {experts} experts", job.ep));
    }
    if job.bucket == 0 {
        return wrong("--bucket", "a bucket holds at least an element".to_owned());
    }
    Ok(())
}

/// Tensor parallelism gives every rank whole attention heads (arXiv 1909.08053, section 3). Their number is known of published models
/// alone, and those of another hidden size have another one, which divides that size.
fn check_heads(job: &Job, hidden: f64, known: Option<&KnownModel>) -> Result<(), JobError> {
    let known = known.filter(|model| job.hidden.is_none_or(|hidden| hidden == model.hidden));
    let (parts, what) = match known {
        Some(model) => (model.heads, format!("the {} attention heads of {}", model.heads, model.name)),
        None => (hidden as u64, format!("a hidden size of {hidden}")),
    };
    if parts.is_multiple_of(job.tp) {
        return Ok(());
    }
    Err(JobError { option: "--tp", cause: format!("{what} cannot be spread over {} ranks alike", job.tp) })
}

/// Whether a model of so many parameters can have such sizes.
fn check_params(params: f64, [layers, hidden, kv_hidden, vocabulary]: [f64; 4]) -> Result<(), JobError> {
    let embedding = vocabulary * hidden;
    let attention = attention_params(layers, hidden, kv_hidden);
    for (option, what, least) in [
        ("--vocabulary", format!("an embedding of {vocabulary} x {hidden}"), embedding),
        ("--layers", format!("the attention of {layers} layers of a hidden size of {hidden}"), attention),
    ] {
        if params < least {
            let cause = format!("{what} has {} parameters, more than --params {}", Params(least), Params(params));
            return Err(JobError { option, cause });
        }
    }
    Ok(())
}

/// Query and output of hidden x hidden, key and value of hidden x `kv_hidden` (arXiv 2307.09288, section 2.2).
fn attention_params(layers: f64, hidden: f64, kv_hidden: f64) -> f64 {
    layers * 2.0 * hidden * (hidden + kv_hidden)
}

fn micro_batches(job: &Job, assumed: &mut Vec<String>) -> Result<f64, JobError> {
    let at_once = job.micro_batch * job.dp;
    let Some(global) = job.global_batch else {
        assumed.push(format!(
            "--global-batch {}: {} of --micro-batch {} for each of {} data-parallel ranks, as few as fill the pipeline",
            at_once * job.pp,
            job.pp,
            job.micro_batch,
            job.dp
        ));
        return Ok(job.pp as f64);
    };
    if at_once == 0 || global == 0 || !global.is_multiple_of(at_once) {
        let cause =
            format!("{global} sequences are no multiple of --micro-batch {} x --dp {}", job.micro_batch, job.dp);
        return Err(JobError { option: "--global-batch", cause });
    }
    Ok((global / at_once) as f64)
}
