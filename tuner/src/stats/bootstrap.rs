//! How much faster, and how sure: the bootstrap over processes.
//!
//! The unit of replication is the process (one start of all workers), never the iteration: samples of one process share
//! its placement, its connections and its luck. A resample draws whole processes with replacement.
//!
//! The plain bootstrap is too sure of itself with few processes: three against three that do not overlap would give
//! P(faster) = 1, although chance alone does that once in twenty. So P is clamped to what complete separation of that
//! many processes can show at all: 1 - 1 / C(n + m, n) for independent processes (2+2: 0.83, 3+3: 0.95, 4+4: 0.986),
//! 1 - 2^-n for rounds (4: 0.94, 5: 0.97). With the usual threshold of 0.95, fewer than 3 + 3 processes never pass.
//! Nor is P surer than the signed-rank test over the rounds allows, which is exact for any number of them.

use std::collections::{BTreeMap, BTreeSet};

use gdrtune_profiles::profile::Speedup;
use rand::{Rng, SeedableRng, rngs::SmallRng};

use super::signed_rank;
use crate::objective::{Objective, Part};

/// Resamples per comparison: enough that P(faster) is stable to half a percent.
const RESAMPLES: usize = 2_000;

/// Times in microseconds of one arm at one point, by process.
pub type ArmSamples = BTreeMap<u32, Vec<f64>>;

/// Both arms at one point.
#[derive(Debug, Clone, Copy)]
pub struct Arms<'a> {
    /// Weight of the point in the comparison.
    pub weight: f64,
    /// The default arm.
    pub default: &'a ArmSamples,
    /// What is compared with it.
    pub candidate: &'a ArmSamples,
}

/// How the processes of the two arms belong together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Design {
    /// They do not: each arm's processes are drawn on their own.
    Independent,
    /// The n-th process of one arm ran next to the n-th of the other: rounds are drawn, so that drift cancels.
    Rounds,
}

/// Default time over candidate time with its 90 % interval, jointly over the points as `objective` says: the weighted
/// geometric mean of the ratios, or the ratio of the times of a step.
///
/// One resample draws the same processes for every point, because a process measures them all. Points that miss an arm
/// are left out; `None` if none is left.
pub fn compare(points: &[Arms<'_>], objective: Objective, design: Design, seed: u64) -> Option<Speedup> {
    let points: Vec<&Arms<'_>> =
        points.iter().filter(|arms| has_samples(arms.default) && has_samples(arms.candidate)).collect();
    let defaults = processes(points.iter().map(|arms| arms.default));
    let candidates = processes(points.iter().map(|arms| arms.candidate));
    let ratio = |default: &[u32], candidate: &[u32]| -> Option<f64> {
        let part = |arms: &&Arms<'_>| {
            let (time_us, default_us) =
                (pooled_median(arms.default, default)?, pooled_median(arms.candidate, candidate)?);
            // A speed-up is the score of the default arm where the candidate is what it is compared with.
            Some(Part { weight: arms.weight, time_us, default_us })
        };
        objective.score(&points.iter().filter_map(part).collect::<Vec<_>>())
    };
    let observed = ratio(&defaults, &candidates)?;
    let mut random = SmallRng::seed_from_u64(seed);
    let (mut default_draw, mut candidate_draw) = (defaults.clone(), candidates.clone());
    let mut ratios = Vec::with_capacity(RESAMPLES);
    for _ in 0..RESAMPLES {
        match design {
            Design::Independent => {
                default_draw.fill_with(|| defaults[random.random_range(0..defaults.len())]);
                candidate_draw.fill_with(|| candidates[random.random_range(0..candidates.len())]);
            }
            Design::Rounds => {
                let rounds = defaults.len().min(candidates.len());
                default_draw.truncate(rounds);
                candidate_draw.truncate(rounds);
                for (default, candidate) in default_draw.iter_mut().zip(&mut candidate_draw) {
                    let round = random.random_range(0..rounds);
                    (*default, *candidate) = (defaults[round], candidates[round]);
                }
            }
        }
        ratios.extend(ratio(&default_draw, &candidate_draw));
    }
    ratios.sort_unstable_by(f64::total_cmp);
    let rounds: Vec<f64> = match design {
        Design::Independent => Vec::new(),
        Design::Rounds => {
            let pairs = defaults.iter().zip(&candidates);
            pairs.filter_map(|(default, candidate)| ratio(&[*default], &[*candidate]).map(f64::ln)).collect()
        }
    };
    let doubt = least_doubt(design, defaults.len(), candidates.len());
    let faster = ratios.iter().map(|r| if *r > 1.0 { 1.0 } else { f64::from(u8::from(*r >= 1.0)) / 2.0 }).sum::<f64>();
    Some(Speedup {
        median: observed,
        low: crate::stats::quantile_of_sorted(&ratios, 0.05)?,
        high: crate::stats::quantile_of_sorted(&ratios, 0.95)?,
        p_faster: no_surer_than((faster / ratios.len() as f64).clamp(doubt, 1.0 - doubt), &rounds),
        repeats: defaults.len().min(candidates.len()) as u32,
    })
}

/// P(faster), drawn towards one half as far as the rounds' log ratios ask for; none ask for nothing.
fn no_surer_than(p_faster: f64, rounds: &[f64]) -> f64 {
    if rounds.is_empty() {
        return p_faster;
    }
    let slower: Vec<f64> = rounds.iter().map(|log| -log).collect();
    let most = (1.0 - signed_rank(rounds)).max(0.5);
    let least = signed_rank(&slower).min(0.5);
    p_faster.max(least).min(most)
}

fn has_samples(arm: &ArmSamples) -> bool {
    arm.values().any(|samples| !samples.is_empty())
}

fn processes<'a>(arms: impl Iterator<Item = &'a ArmSamples>) -> Vec<u32> {
    let found: BTreeSet<u32> = arms.flat_map(|arm| arm.keys().copied()).collect();
    found.into_iter().collect()
}

fn pooled_median(arm: &ArmSamples, drawn: &[u32]) -> Option<f64> {
    let mut pooled: Vec<f64> = drawn.iter().filter_map(|process| arm.get(process)).flatten().copied().collect();
    pooled.sort_unstable_by(f64::total_cmp);
    crate::stats::quantile_of_sorted(&pooled, 0.5)
}

/// The chance that equal arms separate completely, in one given direction; at most one half.
fn least_doubt(design: Design, defaults: usize, candidates: usize) -> f64 {
    match design {
        Design::Rounds => 0.5f64.powi(defaults.min(candidates).min(1_000) as i32).min(0.5),
        Design::Independent => {
            let few = defaults.min(candidates);
            let total = (defaults + candidates) as f64;
            let orders: f64 = (0..few).map(|i| (total - i as f64) / (i as f64 + 1.0)).product();
            (1.0 / orders).min(0.5)
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const GEOMEAN: Objective = Objective::GeometricMean;

    fn arm(processes: &[&[f64]]) -> ArmSamples {
        processes.iter().enumerate().map(|(i, samples)| (i as u32, samples.to_vec())).collect()
    }

    fn of(default: &ArmSamples, candidate: &ArmSamples, design: Design) -> Speedup {
        compare(&[Arms { weight: 1.0, default, candidate }], GEOMEAN, design, 7).unwrap()
    }

    #[test]
    fn three_processes_do_not_feign_certainty() {
        let slow = arm(&[&[100.0], &[101.0], &[102.0]]);
        let fast = arm(&[&[50.0], &[50.5], &[51.0]]);
        let speedup = of(&slow, &fast, Design::Independent);
        assert!((speedup.p_faster - 0.95).abs() < 1e-12 && speedup.median > 1.9 && speedup.repeats == 3, "{speedup:?}");
        assert!((of(&slow, &fast, Design::Rounds).p_faster - 0.875).abs() < 1e-12);
        assert!((of(&fast, &slow, Design::Independent).p_faster - 0.05).abs() < 1e-12);
        let two = arm(&[&[100.0], &[101.0]]);
        assert!(of(&two, &fast, Design::Independent).p_faster <= 0.9 + 1e-12);
    }

    #[test]
    fn many_samples_of_one_process_are_one_process() {
        let slow = arm(&[&[100.0; 50]]);
        let fast = arm(&[&[50.0; 50]]);
        assert!((of(&slow, &fast, Design::Independent).p_faster - 0.5).abs() < 1e-12);
    }

    #[test]
    fn rounds_cancel_drift() {
        let default: ArmSamples = (0..8).map(|i| (i, vec![100.0 + 20.0 * f64::from(i)])).collect();
        let candidate: ArmSamples = default.iter().map(|(i, v)| (*i, vec![v[0] * 0.95])).collect();
        let independent = of(&default, &candidate, Design::Independent);
        let rounds = of(&default, &candidate, Design::Rounds);
        assert!(independent.p_faster < 0.9, "{independent:?}");
        assert!(rounds.p_faster > 0.99 && rounds.low > 1.04, "{rounds:?}");
    }

    #[test]
    fn a_joint_comparison_is_what_the_objective_says() {
        let (one, two, four) = (arm(&[&[1.0]]), arm(&[&[2.0]]), arm(&[&[4.0]]));
        let arms = [
            Arms { weight: 1.0, default: &four, candidate: &one },
            Arms { weight: 1.0, default: &one, candidate: &one },
            Arms { weight: 2.0, default: &two, candidate: &two },
        ];
        let joint = |objective| compare(&arms, objective, Design::Independent, 1).unwrap().median;
        assert!((joint(GEOMEAN) - 2.0f64.sqrt()).abs() < 1e-12);
        // 4 + 1 + 2 * 2 in a step against 1 + 1 + 2 * 2.
        assert!((joint(Objective::TimePerStep) - 1.5).abs() < 1e-12);
        assert_eq!(compare(&[], GEOMEAN, Design::Independent, 1), None);
    }

    proptest! {
        #[test]
        fn equal_arms_are_a_coin_flip_and_seeds_repeat(values in proptest::collection::vec(10.0f64..11.0, 3..9), seed: u64) {
            let arm: ArmSamples = values.iter().enumerate().map(|(i, v)| (i as u32, vec![*v])).collect();
            let arms = [Arms { weight: 1.0, default: &arm, candidate: &arm }];
            let first = compare(&arms, GEOMEAN, Design::Independent, seed).unwrap();
            prop_assert!((first.p_faster - 0.5).abs() < 0.1, "{:?}", first);
            prop_assert!(first.low <= 1.0 && 1.0 <= first.high);
            prop_assert_eq!(compare(&arms, GEOMEAN, Design::Independent, seed), Some(first));
        }
    }
}
