//! Does each process-level setting earn its place? Leave one out at a time and compare.

use gdrtune_profiles::{profile::Speedup, vocab::Environment};

use super::{AbPoint, Thresholds, arms, show};
use crate::stats::{Arms, compare};

/// P(faster) from which on a setting stays although there could be more rounds. One look more at so high a bar adds 0.001 at most to
/// the chance that a useless setting stays, where a look at the bar of the last round would add up to all of that
/// (Haybittle, British Journal of Radiology 44, 1971; Peto et al., British Journal of Cancer 34, 1976).
const SURE: f64 = 0.999;

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

impl AblationVerdict {
    /// The verdict on a setting that cannot be left out, and why.
    pub fn needed(name: &str, why: &str) -> Self {
        Self { name: name.to_owned(), keep: true, speedup: None, sentence: format!("stays: without it {why}") }
    }

    /// Whether further rounds need not be waited for: the setting is surely worth its place, or surely not.
    pub fn is_settled(&self, thresholds: &Thresholds) -> bool {
        let least = 1.0 + thresholds.gain;
        self.speedup.is_some_and(|speedup| speedup.high < least || SURE <= speedup.p_faster && least <= speedup.median)
    }
}

/// Decides over an ablated setting: it stays if the points are clearly faster with it than without. Where the time was over before the
/// rounds were (`is_cut`), few rounds can show that of no small gain; as all together have passed, the typical value decides then.
///
/// `data` holds the times without the setting as its default arm, and those of the full candidate as its candidate arm. A setting
/// whose ablation was not measured stays. Settings are judged one by one: when several go, verify what remains.
pub fn judge_ablation(ablation: &Ablation, data: &[AbPoint], thresholds: &Thresholds, is_cut: bool) -> AblationVerdict {
    let arms: Vec<Arms<'_>> = data.iter().map(arms).collect();
    let speedup = compare(&arms, thresholds.objective, thresholds.design, thresholds.seed);
    let (keep, sentence) = match &speedup {
        None => (true, "stays: leaving it out was not measured".to_owned()),
        Some(speedup) if thresholds.is_faster(speedup) => (true, format!("stays: with it {}", show(speedup))),
        Some(speedup) if is_cut && 1.0 + thresholds.gain <= speedup.median => {
            (true, format!("stays, though the time was too short to make sure: with it {}", show(speedup)))
        }
        Some(speedup) => (false, format!("left out: with it only {}", show(speedup))),
    };
    AblationVerdict { name: ablation.name.clone(), keep, speedup, sentence }
}

/// The settings that go. All together were faster than none, so where none shows its worth alone, they stand in for each other or
/// the rounds were too few to tell them apart: the one that shows most stays, to be measured on its own.
pub fn dropped(verdicts: &mut [AblationVerdict]) -> Vec<String> {
    let shown = |verdict: &AblationVerdict| verdict.speedup.map_or(0.0, |speedup| speedup.median);
    if !verdicts.iter().any(|verdict| verdict.keep && verdict.speedup.is_some()) {
        let compared = verdicts.iter_mut().filter(|verdict| verdict.speedup.is_some());
        if let Some(best) = compared.max_by(|a, b| shown(a).total_cmp(&shown(b))) {
            best.keep = true;
            "stays: one of them must be what all together gain".clone_into(&mut best.sentence);
        }
    }
    verdicts.iter().filter(|verdict| !verdict.keep).map(|verdict| verdict.name.clone()).collect()
}
