//! Throws broken input at what reads input of others: no panic, and no more memory than the input is worth.
//!
//! ```text
//! cargo run --release -p gdrtune-fleet --example fuzz -- TARGET [SECONDS [SEED]]      TARGET: wire, hosts, hostfile, site, slurm
//! ```
//!
//! Inputs are valid ones, broken in a few places at random: bytes and pieces changed, doubled, cut, put elsewhere, numbers made
//! extreme. A seed gives the same inputs again. Ends with 1, and prints the input, where one makes a reader panic, break a
//! promise, take more memory than its limit, or more than a second of processor time.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a fuzzer that cannot go on ends; findings are its output"
)]

mod counting;
mod mutate;
mod targets;

use std::{
    panic::{self, AssertUnwindSafe},
    process::ExitCode,
    time::{Duration, Instant},
};

use mutate::Mutator;
use rustix::time::{ClockId, clock_gettime};
use targets::{Outcome, TARGETS};

#[global_allocator]
static ALLOCATOR: counting::Counting = counting::Counting;

/// Most processor time for one input. The largest ones have 64 KiB, and a host list of those expands to 65,536 names.
const SLOWEST: Duration = Duration::from_secs(1);

/// Processor time of this thread: whatever else runs on the machine is no fault of an input.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, usual: u64| args.get(at).map_or(usual, |text| text.parse().unwrap());
    let Some(target) = args.first().and_then(|name| TARGETS.iter().find(|target| target.name == name)) else {
        println!("which target? {}", TARGETS.map(|target| target.name).join(", "));
        return ExitCode::from(2);
    };
    let (limit, seed) = (Duration::from_secs(number(1, 600)), number(2, 1));
    let mut mutator = Mutator::new((target.seeds)(), target.dictionary, seed);
    let (begun, mut counts, mut most_bytes, mut slowest) = (Instant::now(), [0_u64; 2], 0, Duration::ZERO);
    while begun.elapsed() < limit {
        let input = mutator.next_input();
        counting::reset();
        let at = processor_time();
        let outcome = panic::catch_unwind(AssertUnwindSafe(|| (target.run)(&input)));
        let (bytes, took) = (counting::peak(), processor_time().saturating_sub(at));
        most_bytes = most_bytes.max(bytes);
        slowest = slowest.max(took);
        let problem = match outcome {
            Ok(Outcome::Broken(promise)) => Some(promise),
            Err(_) => Some("panic".to_owned()),
            Ok(_) if bytes > (target.memory)(input.len()) => Some(format!("{bytes} bytes of memory")),
            Ok(_) if took > SLOWEST => Some(format!("{} ms", took.as_millis())),
            Ok(outcome) => {
                counts[usize::from(matches!(outcome, Outcome::Read))] += 1;
                None
            }
        };
        if let Some(problem) = problem {
            println!("{} after {} inputs of seed {seed}: {problem}", target.name, counts.iter().sum::<u64>());
            println!("input of {} bytes: {}", input.len(), input.escape_ascii());
            return ExitCode::FAILURE;
        }
    }
    let [refused, read] = counts;
    println!(
        "{}: {} inputs in {} s, {read} of them read and {refused} refused; most memory {} KiB, slowest {} ms",
        target.name,
        read + refused,
        begun.elapsed().as_secs(),
        most_bytes >> 10,
        slowest.as_millis()
    );
    ExitCode::SUCCESS
}
