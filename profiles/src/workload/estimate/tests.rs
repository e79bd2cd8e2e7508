use proptest::{collection::vec, prelude::*, sample::select};

use super::*;

fn job(params: f64) -> Job {
    Job {
        params,
        dp: 1,
        tp: 1,
        pp: 1,
        cp: 1,
        ep: 1,
        sequence: 4096,
        micro_batch: 1,
        global_batch: None,
        layers: None,
        hidden: None,
        kv_hidden: None,
        vocabulary: None,
        experts: None,
        top_k: None,
        data_type: DataType::Bf16,
        grad_type: None,
        sharding: Sharding::Zero0,
        bucket: 25 << 20,
        sequence_parallel: false,
        recompute: false,
        context_exchange: ContextExchange::PointToPoint,
    }
}

fn calls(estimate: &Estimate, group: &str) -> String {
    let Some(group) = estimate.groups.iter().find(|other| other.name == group) else { return "none".to_owned() };
    let calls = group
        .terms
        .iter()
        .map(|term| format!("{} {:.1}M x{}", term.collective, term.bytes as f64 / f64::from(1 << 20), term.per_step));
    format!("{}: {}", group.ranks, calls.collect::<Vec<_>>().join(", "))
}

#[test]
fn published_jobs_have_the_volumes_of_their_papers() {
    // The presets' numbers, which were derived by hand: fsdp.toml and tensor-parallel.toml.
    let fsdp = Estimate::of(&Job { dp: 64, sharding: Sharding::Zero3, ..job(6.74e9) }).unwrap();
    let expected = "64: allgather 386.1M x64, reducescatter 386.1M x32, allgather 500.0M x1, reducescatter 500.0M x1";
    assert_eq!(calls(&fsdp, "dp"), expected);
    let tensor = Estimate::of(&Job { tp: 8, ..job(70e9) }).unwrap();
    assert_eq!(calls(&tensor, "tp"), "8: allreduce 64.0M x320, allreduce 64.0M x2");
    assert_eq!(tensor.groups[0].workload("tp").calls.len(), 1, "equal sizes are one point");
    // arXiv 2205.05198: sequence parallelism moves what tensor parallelism does, and 2 all-gathers more for the backward pass.
    let sequence = Estimate::of(&Job { tp: 8, sequence_parallel: true, ..job(70e9) }).unwrap();
    assert_eq!(calls(&sequence, "tp"), "8: allgather 64.0M x480, reducescatter 64.0M x320");
    // Mixtral 8x7B, the preset moe-alltoall.toml: top-2 of 4096 tokens.
    let experts = Estimate::of(&Job { dp: 8, ep: 8, ..job(46.7e9) }).unwrap();
    assert_eq!(calls(&experts, "ep"), "8: alltoall 64.0M x128");
    assert_eq!(calls(&experts, "expert-dp"), "none", "every expert is there once");
}

#[test]
fn gradients_of_every_stage_add_up() {
    let of = |sharding| Estimate::of(&Job { dp: 8, global_batch: Some(32), sharding, ..job(1.3e9) }).unwrap();
    let volume = |estimate: &Estimate, collective| -> f64 {
        let terms = estimate.groups[0].terms.iter().filter(|term| term.collective == collective);
        terms.map(|term| term.bytes as f64 * term.per_step).sum::<f64>() / 1.3e9
    };
    let near = |value: f64, expected: f64| assert!((value / expected - 1.0).abs() < 1e-3, "{value} {expected}");
    // Bytes of a parameter and step: 4 of float32 gradients, 2 of bfloat16 parameters, 4 micro-batches.
    near(volume(&of(Sharding::Zero0), Collective::AllReduce), 4.0);
    near(volume(&of(Sharding::Zero1), Collective::ReduceScatter), 4.0);
    near(volume(&of(Sharding::Zero1), Collective::AllGather), 2.0);
    near(volume(&of(Sharding::Zero2), Collective::ReduceScatter), 2.0 * 4.0);
    near(volume(&of(Sharding::Zero2), Collective::AllGather), 2.0);
    near(volume(&of(Sharding::Zero3), Collective::ReduceScatter), 2.0 * 4.0);
    let layers = 1.0 - 2.0 * 50257.0 * 2048.0 / 1.3e9;
    near(volume(&of(Sharding::Zero3), Collective::AllGather), (2.0 * layers + (1.0 - layers)) * 2.0 * 4.0);
}

#[test]
fn parallel_dimensions_divide_sizes_and_make_groups() {
    let spread = Job { dp: 4, tp: 2, pp: 4, cp: 2, global_batch: Some(64), ..job(70e9) };
    let estimate = Estimate::of(&spread).unwrap();
    // 16 micro-batches of 20 layers, half the sequence.
    assert_eq!(calls(&estimate, "tp"), "2: allreduce 32.0M x1280");
    assert_eq!(calls(&estimate, "cp"), "none");
    assert!(
        calls(&estimate, "dp-cp").starts_with("8: allreduce 1.0M x1, allreduce 25.0M x"),
        "{}",
        calls(&estimate, "dp-cp")
    );
    for text in ["pipeline stages", "context-parallel", "embedding and output layer", "a few bytes"] {
        assert!(estimate.left_out.iter().any(|left| left.contains(text)), "{text}: {:?}", estimate.left_out);
    }
    let gather = Job { context_exchange: ContextExchange::AllGather, ..spread };
    // 4096 tokens x 1024 / 2 x 2 bytes; 4 and 2 for each of 20 layers and 16 micro-batches.
    assert_eq!(calls(&Estimate::of(&gather).unwrap(), "cp"), "2: allgather 4.0M x1280, reducescatter 4.0M x640");
    let again = Estimate::of(&Job { tp: 8, recompute: true, ..job(70e9) }).unwrap();
    assert!(calls(&again, "tp").starts_with("8: allreduce 64.0M x480"));
    let spread = Estimate::of(&Job { dp: 16, ep: 8, sharding: Sharding::Zero3, ..job(46.7e9) }).unwrap();
    assert!(calls(&spread, "expert-dp").starts_with("2: allgather "), "{}", calls(&spread, "expert-dp"));
    assert!(Estimate::of(&job(7e9)).unwrap().groups.is_empty());
}

#[test]
fn what_is_assumed_is_said_and_what_cannot_be_is_refused() {
    let estimate = Estimate::of(&Job { dp: 8, ..job(7e9) }).unwrap();
    for text in
        ["--layers 32, as Llama 2 7B (arXiv 2307.09288", "--hidden 4096", "--global-batch 8: ", "--grad-dtype float32"]
    {
        assert!(estimate.assumed.iter().any(|line| line.starts_with(text)), "{text}: {:?}", estimate.assumed);
    }
    let said = Job { layers: Some(10), hidden: Some(1000), vocabulary: Some(1000), ..job(3e12) };
    assert!(Estimate::of(&said).is_ok());
    for (job, expected) in [
        (job(3e12), "--layers: no dense model of about 3T parameters"),
        (Job { dp: 0, ..job(7e9) }, "--dp: "),
        (Job { pp: 64, ..job(7e9) }, "--pp: 64 stages are more than 32 layers"),
        (Job { cp: 3, ..job(7e9) }, "--cp: a sequence of 4096"),
        (Job { dp: 4, ep: 8, ..job(46.7e9) }, "--ep: expert groups are made of the dp x cp = 4 ranks"),
        (Job { dp: 16, ep: 16, ..job(46.7e9) }, "--ep: 16 ranks are more than 8 experts"),
        (Job { dp: 8, ep: 8, ..job(7e9) }, "--layers: no mixture of experts of about 7B parameters"),
        (Job { dp: 3, global_batch: Some(4), ..job(7e9) }, "--global-batch: 4 sequences are no multiple"),
        (Job { dp: 3, bucket: 0, ..job(7e9) }, "--bucket: "),
        (
            Job { tp: 2, sequence: 1 << 60, ..job(7e9) },
            "tp: allreduce of activations: more than 2^53 bytes in one call: check the job's numbers",
        ),
        (
            Job { tp: 2, global_batch: Some(1 << 60), ..job(7e9) },
            "tp: allreduce of activations: more than 2^53 calls in one step: check the job's numbers",
        ),
        (
            Job { vocabulary: Some(1 << 40), ..job(7e9) },
            "--vocabulary: an embedding of 1099511627776 x 4096 has 4503.6T parameters, more than --params 7B",
        ),
        (
            Job { layers: Some(1000), ..job(7e9) },
            "--layers: the attention of 1000 layers of a hidden size of 4096 has 67.11B parameters, more than --params 7B",
        ),
    ] {
        let error = Estimate::of(&job).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}");
    }
    assert!(MODELS.is_sorted_by(|a, b| a.params <= b.params));
}

proptest! {
    #[test]
    fn any_job_is_estimated_or_refused(
        params in 1.0_f64..1e15,
        sizes in vec(prop_oneof![Just(0_u64), Just(1), Just(2), 1_u64..64, any::<u64>()], 12),
        stage in select(vec![Sharding::Zero0, Sharding::Zero1, Sharding::Zero2, Sharding::Zero3]),
        flags: (bool, bool, bool),
    ) {
        let given = |at: usize| Some(sizes[at]).filter(|size| size % 3 != 0);
        let job = Job {
            dp: sizes[0], tp: sizes[1], pp: sizes[2], cp: sizes[3], ep: sizes[4],
            sequence: sizes[5], micro_batch: sizes[6], global_batch: given(7), layers: given(8), hidden: given(9),
            experts: given(10), bucket: sizes[11].max(1 << 20), sharding: stage,
            sequence_parallel: flags.0, recompute: flags.1,
            context_exchange: if flags.2 { ContextExchange::AllGather } else { ContextExchange::PointToPoint },
            ..job(params)
        };
        if let Ok(estimate) = Estimate::of(&job) {
            for group in &estimate.groups {
                prop_assert!(1 < group.ranks && group.terms.iter().all(|term| 0.0 < term.per_step && term.bytes < 1 << 54));
            }
        }
    }
}

#[test]
fn numbers_of_parameters_are_read_and_shown() {
    for (text, value) in [("7B", 7e9), ("1.3b", 1.3e9), ("350M", 350e6), ("1.2e9", 1.2e9), ("1T", 1e12), (" 8B ", 8e9)]
    {
        assert_eq!(parse_params(text), Ok(value), "{text}");
    }
    for text in ["", "B", "-7B", "x", "nan", "7 B!", "1e99", "7é"] {
        assert!(parse_params(text).is_err(), "{text}");
    }
    assert_eq!([7e9, 1.34e9, 350e6, 12.0].map(|n| Params(n).to_string()), ["7B", "1.34B", "350M", "12"]);
    for (text, sharding) in [("0", Sharding::Zero0), ("fsdp", Sharding::Zero3), ("ddp", Sharding::Zero0)] {
        assert_eq!(text.parse(), Ok(sharding));
    }
    assert!("fdsp".parse::<Sharding>().unwrap_err().ends_with("did you mean `fsdp`?"));
}
