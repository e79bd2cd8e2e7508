//! Prints the time of one decision in nanoseconds: `cargo bench -p gdrtune-nccl-tuner`.
#![expect(unsafe_code, reason = "a C interface")]
#![expect(clippy::print_stdout, reason = "its result")]

use std::{ffi::c_void, hint::black_box, ptr, time::Instant};

use gdrtune_nccl_tuner::{gdrtune_tuner_clear, gdrtune_tuner_set, ncclTunerPlugin_v4};

const CALLS: u32 = 1_000_000;
const ROUNDS: usize = 7;

/// The median over the rounds of the time of an all-reduce of `bytes`, in nanoseconds.
fn decision_ns(context: *mut c_void, bytes: usize) -> f64 {
    let mut costs = [5.0_f32; 21];
    let mut channels = 0;
    let mut rounds: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            for _ in 0..CALLS {
                let (table, channels) = (costs.as_mut_ptr().cast(), &raw mut channels);
                // SAFETY: The arguments are NCCL's, and the table has 7 x 3 cells.
                let result = unsafe {
                    (ncclTunerPlugin_v4.get_coll_info)(context, 4, black_box(bytes), 1, table, 7, 3, 0, channels)
                };
                assert_eq!(result, 0);
            }
            start.elapsed().as_secs_f64() * 1e9 / f64::from(CALLS)
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    rounds[ROUNDS / 2]
}

/// A communicator of 4 nodes and 32 ranks with `n_rules` rules of one size each, all of them for all-reduce.
fn start(n_rules: usize) -> *mut c_void {
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    let line = |idx| format!("allreduce,{idx},{idx},ring,simple,4,4,32,-1,-1\n");
    let rules = (0..n_rules).map(line).collect::<Vec<_>>().concat();
    std::fs::write(file.path(), rules).expect("the rule file");
    // SAFETY: There is one thread.
    unsafe { std::env::set_var("GDRTUNE_RULES", file.path()) };
    let mut context = ptr::null_mut();
    // SAFETY: The arguments are NCCL's.
    assert_eq!(unsafe { (ncclTunerPlugin_v4.init)(32, 4, None, &raw mut context) }, 0);
    context
}

fn main() {
    for n_rules in [0, 1, 10, 100, 1000] {
        let context = start(n_rules);
        let last = decision_ns(context, n_rules.saturating_sub(1));
        let none = decision_ns(context, n_rules + 1);
        println!("rules {n_rules:>4}: last one matches {last:>7.1} ns, none matches {none:>7.1} ns");
    }
    let context = start(0);
    gdrtune_tuner_clear();
    println!("live, nothing set: {:.1} ns (recorded)", decision_ns(context, 1024));
    assert_eq!(gdrtune_tuner_set(-1, 1, 2, 4), 0);
    println!("live, choice set:  {:.1} ns (recorded)", decision_ns(context, 1024));
}
