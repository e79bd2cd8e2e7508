//! The verdict over GPU Direct RDMA on a cluster: the same collectives with and without it, in fresh processes, interleaved.
//!
//! NCCL's own log proves each arm, rank by rank: where it does not apply, or an arm did not run as it was asked to, there is the
//! reason and no verdict.

mod paths;

use gdrtune_profiles::vocab::{Environment, Point};
use gdrtune_tuner::{
    ab,
    bench::{Bench, BenchError, Cancel, Item, Script, Setup},
    gdr::{GdrPoint, Marks, Measured, Verdict, judge},
    observe::{Directive, Note, Observer},
};

pub use self::paths::{Paths, RankPath};
use self::paths::{Proof, prove};
use crate::recheck::in_pairs;

/// What is measured.
#[derive(Debug, Clone)]
pub struct GdrPlan {
    /// Large sizes, where bus bandwidth counts.
    pub bandwidth: Vec<Point>,
    /// Small sizes, where latency counts.
    pub latency: Vec<Point>,
    /// The largest distance of GPU and HCA in the arm with it, as NCCL's word.
    pub level: &'static str,
    /// Process pairs: one set of processes of each arm, next to each other.
    pub pairs: u32,
    /// What is asked for.
    pub marks: Marks,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq)]
pub enum GdrOutcome {
    /// It has no part in what runs here, for this reason. Nothing was compared.
    NotApplicable(String),
    /// An arm did not run as it was asked to.
    Unproven(Unproven),
    /// Both arms ran as they were asked to.
    Measured(Box<GdrResult>),
}

/// An arm that did not run as it was asked to.
#[derive(Debug, Clone, PartialEq)]
pub struct Unproven {
    /// What was not so, in a sentence.
    pub what: String,
    /// How its ranks are connected.
    pub ranks: Vec<RankPath>,
    /// Why, and what to do, by NCCL's log; nothing where that does not tell.
    pub reasons: Vec<(String, String)>,
}

/// A comparison.
#[derive(Debug, Clone, PartialEq)]
pub struct GdrResult {
    /// The verdict.
    pub verdict: Verdict,
    /// Complete pairs.
    pub pairs: u32,
    /// How the ranks of the arm with it are connected.
    pub with: Vec<RankPath>,
    /// And those of the arm without.
    pub without: Vec<RankPath>,
    /// What failed, for people.
    pub failures: Vec<String>,
    /// The arm that kept failing, and how.
    pub broken: Option<String>,
}

/// The variables of an arm. `READ` is what a rank sends: NCCL's default goes by the GPU's age. What decides is to be in the log, too.
/// Words are the same in NCCL 2.19 to 2.30 (`src/graph/paths.cc`); with `LOC`, no HCA is near enough, in none of them, whichever
/// links a CPU has.
pub fn arm(level: &str, reads: bool) -> Environment {
    let reads = if reads { "1" } else { "0" };
    let variables = [("NCCL_DEBUG_SUBSYS", "NET,GRAPH"), ("NCCL_NET_GDR_LEVEL", level), ("NCCL_NET_GDR_READ", reads)];
    Environment(variables.map(|(name, value)| (name.to_owned(), value.to_owned())).into())
}

/// The level without it.
const OFF: &str = "LOC";

/// Without, with: as the A/B takes them.
const NAMES: [&str; 2] = ["the arm without GPU Direct RDMA", "the arm with GPU Direct RDMA"];

/// Looks at both arms, runs the pairs and judges. `paths` has listened to the bench's notes from its first on.
///
/// # Errors
/// [`BenchError`] where nothing can be said at all; an arm that fails in mid-comparison is in the result.
pub fn measure(
    bench: &mut dyn Bench,
    plan: &GdrPlan,
    paths: &Paths,
    observer: &mut dyn Observer,
    cancel: &Cancel,
) -> Result<GdrOutcome, BenchError> {
    if bench.info().nodes < 2 {
        let why = "there is one node, and no NIC takes part within a node";
        return Ok(GdrOutcome::NotApplicable(why.to_owned()));
    }
    let arms = [Setup::Live(arm(OFF, false)), Setup::Live(arm(plan.level, true))];
    let mut ranks = [Vec::new(), Vec::new()];
    // The arm that must have it comes first: where it cannot, there is nothing to compare.
    for at in [1, 0] {
        let processes = look(bench, &arms[at], plan, observer, cancel)?;
        ranks[at] = processes.last().map(|&process| paths.ranks_of(process)).unwrap_or_default();
        if let Some(outcome) = refusal(at, &processes, paths) {
            return Ok(outcome);
        }
    }
    let points: Vec<Point> = plan.bandwidth.iter().chain(&plan.latency).copied().collect();
    let result = ab::interleave(bench, &in_pairs(arms.to_vec(), points.clone(), plan.pairs), observer, cancel)?;
    if result.directive == Directive::Abort {
        return Err(BenchError::Cancelled);
    }
    for at in [1, 0] {
        let processes: Vec<u32> = result.processes[at].iter().copied().collect();
        if let Some(outcome) = refusal(at, &processes, paths) {
            return Ok(outcome);
        }
    }
    let broken = result.broken.as_ref().map(|(arm, why)| format!("{}: {why}", NAMES[*arm]));
    let of_point = |(at, &point): (usize, &Point)| GdrPoint {
        point,
        off_us: result.times_us[0][at].clone(),
        on_us: result.times_us[1][at].clone(),
        off_cpu_us: result.cpu_us[0][at].clone(),
        on_cpu_us: result.cpu_us[1][at].clone(),
    };
    let mut bandwidth: Vec<GdrPoint> = points.iter().enumerate().map(of_point).collect();
    let latency = bandwidth.split_off(plan.bandwidth.len());
    let verdict = judge(&Measured { bandwidth, latency }, &plan.marks);
    let [without, with] = ranks;
    let (pairs, failures) = (result.rounds, result.failures);
    Ok(GdrOutcome::Measured(Box::new(GdrResult { verdict, pairs, with, without, failures, broken })))
}

/// One sample, in processes of its own: which they were.
fn look(
    bench: &mut dyn Bench,
    setup: &Setup,
    plan: &GdrPlan,
    observer: &mut dyn Observer,
    cancel: &Cancel,
) -> Result<Vec<u32>, BenchError> {
    let items = plan.latency.iter().take(1).map(|&point| Item { point, choice: None, repeats: 1 }).collect();
    let script = Script { setup: setup.clone(), fresh: true, items };
    observer.note(Note::Script(&script));
    let mut processes = Vec::new();
    bench.run(&script, cancel, &mut |sample| processes.push(sample.process))?;
    Ok(processes)
}

/// Why there is no verdict, if some process of an arm did not run as it was asked to.
fn refusal(arm: usize, processes: &[u32], paths: &Paths) -> Option<GdrOutcome> {
    let is_with = arm == 1;
    processes.iter().find_map(|&process| {
        let what = match prove(&paths.ranks_of(process)) {
            Proof::All if is_with => return None,
            Proof::None if !is_with => return None,
            Proof::NoConnection => {
                let why = "no connection goes over the network, so no NIC takes part";
                return Some(GdrOutcome::NotApplicable(why.to_owned()));
            }
            Proof::Sockets => {
                let why = paths.reasons_of(process).into_iter().next();
                let why = why.map_or_else(|| "nothing says why".to_owned(), |(what, fix)| format!("{what} ({fix})"));
                let text = format!("NCCL uses sockets, and they have no access to GPU memory: {why}");
                return Some(GdrOutcome::NotApplicable(text));
            }
            Proof::Unknown => {
                "NCCL's log is the only proof, and there is none: it stays with a site that sets NCCL_DEBUG itself, so unset it"
                    .to_owned()
            }
            Proof::All => format!("{} has it all the same: NCCL does not heed the variables", NAMES[arm]),
            Proof::None => format!("{} does not have it on any connection", NAMES[arm]),
            Proof::Part { direct, all } => {
                format!("{} has it on {direct} of {all} connections", NAMES[arm])
            }
        };
        let (ranks, reasons) = (paths.ranks_of(process), paths.reasons_of(process));
        Some(GdrOutcome::Unproven(Unproven { what, ranks, reasons }))
    })
}

#[cfg(test)]
mod tests;
