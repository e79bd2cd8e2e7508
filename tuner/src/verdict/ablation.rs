//! Does each process-level setting earn its place? Leave one out at a time and compare.

use gdrtune_profiles::{
    profile::Speedup,
    vocab::{Environment, Point},
};

use super::{AbPoint, Thresholds, show};
use crate::stats::{ArmSamples, Arms, compare};

/// An environment with one setting left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ablation {
    /// The variable that is left out.
    pub name: String,
    /// What remains.
    pub environment: Environment,
}

/// One setting's verdict.
#[derive(Debug, Clone, PartialEq)]
pub struct AblationVerdict {
    /// The variable.
    pub name: String,
    /// Whether it stays.
    pub keep: bool,
    /// Time without it over time with it, over all points.
    pub speedup: Option<Speedup>,
    /// The decision in a sentence.
    pub sentence: String,
}

/// Every environment that lacks one setting. None for a single setting: leaving it out is the default arm.
pub fn ablations(environment: &Environment) -> Vec<Ablation> {
    if environment.0.len() < 2 {
        return Vec::new();
    }
    let without = |name: &str| {
        let mut rest = environment.clone();
        rest.0.remove(name);
        Ablation { name: name.to_owned(), environment: rest }
    };
    environment.iter().map(|(name, _)| without(name)).collect()
}

/// Decides over each ablated setting: it stays if the points are clearly faster with it than without.
///
/// `data` holds the full candidate as its candidate arm; `without` gives, for each ablation, the times of the candidate
/// without that setting, by point. A setting whose ablation was not measured stays. Settings are judged one by one: when
/// several go, verify what remains.
pub fn judge_ablations(
    data: &[AbPoint],
    without: &[(Ablation, Vec<(Point, ArmSamples)>)],
    thresholds: &Thresholds,
) -> Vec<AblationVerdict> {
    without.iter().map(|(ablation, times)| judge(data, ablation, times, thresholds)).collect()
}

fn judge(
    data: &[AbPoint],
    ablation: &Ablation,
    times: &[(Point, ArmSamples)],
    thresholds: &Thresholds,
) -> AblationVerdict {
    let pair = |full: &'_ AbPoint| times.iter().find(|(point, _)| *point == full.point).map(|(_, arm)| arm);
    let arms: Vec<Arms<'_>> = data
        .iter()
        .filter_map(|full| Some(Arms { weight: full.weight, default: pair(full)?, candidate: &full.candidate }))
        .collect();
    let speedup = compare(&arms, thresholds.objective, thresholds.design, thresholds.seed);
    let (keep, sentence) = match &speedup {
        None => (true, "stays: leaving it out was not measured".to_owned()),
        Some(speedup) if thresholds.is_faster(speedup) => (true, format!("stays: with it {}", show(speedup))),
        Some(speedup) => (false, format!("left out: with it only {}", show(speedup))),
    };
    AblationVerdict { name: ablation.name.clone(), keep, speedup, sentence }
}
