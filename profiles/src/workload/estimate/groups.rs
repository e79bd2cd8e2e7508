//! The formulas: what each group of ranks calls in a step.
//!
//! Symbols in them: P parameters of a rank, E bytes of an element, G bytes of an element of a gradient, m micro-batches of a
//! step, L layers of a stage, b sequences of a micro-batch, s tokens of a sequence, h hidden size.

use super::{ContextExchange, Group, Job, Sharding, Term, model::Facts, size};
use crate::{
    size::Size,
    vocab::Collective::{self, AllGather, AllReduce, AllToAll, ReduceScatter},
};

/// The first bucket of `PyTorch`'s DDP, small so that it starts early (`torch/csrc/distributed/c10d/reducer.hpp`,
/// `kDefaultFirstBucketBytes`).
const FIRST_BUCKET: f64 = (1 << 20) as f64;

const DDP: &str = "PyTorch DDP notes (gradient buckets); torch/csrc/distributed/c10d/reducer.hpp";
const MEGATRON_OPTIMIZER: &str = "Megatron-LM docs, distributed optimizer; ZeRO, arXiv 1910.02054, section 7.1";
const ZERO2: &str = "ZeRO, arXiv 1910.02054, section 7.1; each micro-batch: deepspeedai/DeepSpeed issue 2252";
const ZERO3: &str = "ZeRO, arXiv 1910.02054, section 7.2.2; PyTorch FSDP, arXiv 2304.11277, section 3.2";
const TENSOR: &str = "Megatron-LM, arXiv 1909.08053, section 3, figure 4";
const SEQUENCE: &str = "arXiv 2205.05198, section 4.2.2; megatron/core/tensor_parallel/layers.py";
const OUTER: &str = "megatron/core/tensor_parallel/layers.py (vocabulary-parallel embedding and output layer)";
const CONTEXT: &str = "Llama 3, arXiv 2407.21783, section 3.3.2; TransformerEngine, AttnFuncWithCPAndKVAllGather";
const EXPERT: &str = "GShard, arXiv 2006.16668, section 3; DeepSpeed-MoE, arXiv 2201.05596";

fn term(
    collective: Collective,
    bytes: f64,
    per_step: f64,
    what: &'static str,
    formula: String,
    source: &'static str,
) -> Term {
    Term { collective, bytes: size(bytes), per_step, what, formula, source }
}

/// Full buckets, and what is left for the last one, of `bytes`.
fn buckets(bytes: f64, bucket: f64) -> Vec<(f64, f64)> {
    let full = (bytes / bucket).floor();
    let rest = bytes - full * bucket;
    let both = [(bucket, full), (rest, 1.0)];
    both.into_iter().filter(|(bytes, count)| 1.0 <= *bytes && 0.0 < *count).collect()
}

/// Data-parallel ranks, which context-parallel ones join: they have the same parameters.
pub(super) fn data(job: &Job, facts: &Facts, left_out: &mut Vec<String>) -> Group {
    let ranks = job.dp * job.cp;
    let mut terms = Vec::new();
    if 1 < ranks {
        if job.sharding == Sharding::Zero3 {
            terms = shards(job, facts);
        } else {
            let stage = facts.layer_params / (job.tp * job.pp) as f64;
            let outer = if job.pp == 1 { facts.outer_params / job.tp as f64 } else { 0.0 };
            // Experts that are not spread are parameters like others.
            let experts = if 1 < job.ep { 0.0 } else { facts.expert_params / (job.tp * job.pp) as f64 };
            terms = replicas(job, facts, stage + outer + experts);
        }
        if 1 < job.pp {
            left_out.push("embedding and output layer, which the first and the last pipeline stage have".to_owned());
        }
    }
    Group { name: if 1 < job.cp { "dp-cp" } else { "dp" }, ranks, terms }
}

/// Ranks with the same experts, where these are spread.
pub(super) fn experts_data(job: &Job, facts: &Facts) -> Group {
    let ranks = job.dp * job.cp / job.ep;
    let params = facts.expert_params / (job.ep * job.tp * job.pp) as f64;
    let mut terms = Vec::new();
    if 1 < job.ep && 1 < ranks && 1.0 <= params {
        terms = if job.sharding == Sharding::Zero3 {
            let layer = params / (facts.layers / job.pp as f64);
            unit(facts, layer, facts.layers / job.pp as f64, true, "the experts of a layer")
        } else {
            replicas(job, facts, params)
        };
    }
    Group { name: "expert-dp", ranks, terms }
}

/// Gradients of `params` parameters that every rank has.
fn replicas(job: &Job, facts: &Facts, params: f64) -> Vec<Term> {
    let Facts { element, grad_element, micro_batches, .. } = *facts;
    let (bytes, bucket) = (params * grad_element, job.bucket as f64);
    let of = format!("P = {params:.3e}, G = {grad_element}, buckets of {}", Size(job.bucket));
    match job.sharding {
        Sharding::Zero0 => {
            let first = FIRST_BUCKET.min(bucket).min(bytes);
            let small = term(AllReduce, first, 1.0, "the first gradients", "the first bucket, 1 MiB".to_owned(), DDP);
            let others = buckets(bytes - first, bucket).into_iter().map(|(size, count)| {
                term(AllReduce, size, count, "gradients", format!("P x G in buckets, once a step: {of}"), DDP)
            });
            std::iter::once(small).chain(others).collect()
        }
        Sharding::Zero1 | Sharding::Zero2 | Sharding::Zero3 => {
            let is_first = job.sharding == Sharding::Zero1;
            let (times, words, source) = if is_first {
                (1.0, "once a step".to_owned(), MEGATRON_OPTIMIZER)
            } else {
                (micro_batches, format!("each of m = {micro_batches} micro-batches"), ZERO2)
            };
            let grads = buckets(bytes, bucket).into_iter().map(|(size, count)| {
                let formula = format!("P x G in buckets, {words}: {of}");
                term(ReduceScatter, size, count * times, "gradients", formula, source)
            });
            // The parameters of a bucket are gathered together.
            let params = buckets(params * element, bucket / grad_element * element).into_iter().map(|(size, count)| {
                let formula = format!("P x E in the same buckets, once a step: E = {element}");
                term(AllGather, size, count, "updated parameters", formula, source)
            });
            grads.chain(params).collect()
        }
    }
}

/// Parameters that are gathered where they are used: a layer is a unit; embedding and output layer are the root's, which is
/// not given up between the passes.
fn shards(job: &Job, facts: &Facts) -> Vec<Term> {
    let layers = facts.layers / job.pp as f64;
    let experts = if 1 < job.ep { 0.0 } else { facts.expert_params };
    let layer = (facts.layer_params + experts) / facts.layers / job.tp as f64;
    let mut terms = unit(facts, layer, layers, true, "the parameters of a layer");
    if job.pp == 1 {
        terms.extend(unit(facts, facts.outer_params / job.tp as f64, 1.0, false, "embedding and output layer"));
    }
    terms
}

fn unit(facts: &Facts, params: f64, count: f64, is_given_up: bool, what: &'static str) -> Vec<Term> {
    let Facts { element, grad_element, micro_batches, .. } = *facts;
    let gathers = if is_given_up { 2.0 } else { 1.0 };
    let of = format!("P = {params:.3e}, {count} of them, m = {micro_batches}");
    let passes = if is_given_up { "forward and again backward" } else { "forward" };
    let gather = format!("P x E, {passes}, each micro-batch: {of}, E = {element}");
    let scatter = format!("P x G, each micro-batch: {of}, G = {grad_element}");
    vec![
        term(AllGather, params * element, gathers * count * micro_batches, what, gather, ZERO3),
        term(ReduceScatter, params * grad_element, count * micro_batches, what, scatter, ZERO3),
    ]
}

/// Tensor-parallel ranks.
pub(super) fn tensor(job: &Job, facts: &Facts, left_out: &mut Vec<String>) -> Group {
    let Facts { layers, hidden, element, micro_batches, .. } = *facts;
    let mut terms = Vec::new();
    if 1 < job.tp {
        let tokens = job.micro_batch as f64 * job.sequence as f64 / job.cp as f64;
        let (bytes, layers) = (tokens * hidden * element, layers / job.pp as f64);
        let of = format!("b s/cp h E = {tokens} x {hidden} x {element}; L = {layers}, m = {micro_batches}");
        let each = layers * micro_batches;
        let again = if job.recompute { "; the forward pass runs twice" } else { "" };
        let passes = if job.recompute { 2.0 } else { 1.0 };
        let what = "activations";
        if job.sequence_parallel {
            let gather = format!("2 forward, 4 backward, a layer{again}: {of}");
            let scatter = format!("2 forward, 2 backward, a layer{again}: {of}");
            terms.push(term(AllGather, bytes, (2.0 * passes + 4.0) * each, what, gather, SEQUENCE));
            terms.push(term(ReduceScatter, bytes, (2.0 * passes + 2.0) * each, what, scatter, SEQUENCE));
        } else {
            let formula = format!("2 forward, 2 backward, a layer{again}: {of}");
            terms.push(term(AllReduce, bytes, (2.0 * passes + 2.0) * each, what, formula, TENSOR));
        }
        if job.pp == 1 && !job.sequence_parallel {
            let formula = format!("1 forward (embedding), 1 backward (output layer): {of}");
            terms.push(term(AllReduce, bytes, 2.0 * micro_batches, "embedding and output layer", formula, OUTER));
        } else {
            left_out.push("tensor-parallel calls of embedding and output layer: two a micro-batch at most".to_owned());
        }
    }
    Group { name: "tp", ranks: job.tp, terms }
}

/// Context-parallel ranks.
pub(super) fn context(job: &Job, facts: &Facts, left_out: &mut Vec<String>) -> Group {
    let mut terms = Vec::new();
    if 1 < job.cp {
        match job.context_exchange {
            ContextExchange::PointToPoint => left_out.push(
                "keys and values between context-parallel ranks: rings of sends and receives, no collective \
                 (--cp-comm all-gather counts all-gathers)"
                    .to_owned(),
            ),
            ContextExchange::AllGather => {
                let tokens = job.micro_batch as f64 * job.sequence as f64;
                let width = facts.kv_hidden / job.tp as f64;
                let bytes = tokens * width * facts.element;
                let each = facts.layers / job.pp as f64 * facts.micro_batches;
                let of = format!("b s k/tp E = {tokens} x {width} x {}", facts.element);
                let what = "keys and values";
                let gather = format!("keys and values, forward and again backward, a layer: {of}");
                let scatter = format!("their gradients, backward, a layer: {of}");
                terms.push(term(AllGather, bytes, 4.0 * each, what, gather, CONTEXT));
                terms.push(term(ReduceScatter, bytes, 2.0 * each, what, scatter, CONTEXT));
            }
        }
    }
    Group { name: "cp", ranks: job.cp, terms }
}

/// Expert-parallel ranks.
pub(super) fn expert(job: &Job, facts: &Facts) -> Group {
    let mut terms = Vec::new();
    if 1 < job.ep {
        let spread = if job.sequence_parallel { job.cp * job.tp } else { job.cp };
        let tokens = job.micro_batch as f64 * job.sequence as f64 / spread as f64;
        let bytes = tokens * facts.top_k * facts.hidden * facts.element;
        let each = facts.layers / job.pp as f64 * facts.micro_batches;
        let passes = if job.recompute { 6.0 } else { 4.0 };
        let formula = format!(
            "dispatch and combine, {} a layer: tokens x k h E = {tokens} x {} x {} x {}; every expert gets as many tokens",
            if job.recompute { "forward twice, and backward," } else { "forward and backward," },
            facts.top_k,
            facts.hidden,
            facts.element
        );
        terms.push(term(AllToAll, bytes, passes * each, "tokens to experts and back", formula, EXPERT));
    }
    Group { name: "ep", ranks: job.ep, terms }
}
