//! The environment and the rules of one candidate, each by its own gain.

use gdrtune_profiles::vocab::{Environment, Point};

use super::{AbPoint, PointVerdict, RuleFate, Thresholds, Verdict, arms, judge_point, summary, verdict};
use crate::{
    plan::Candidate,
    stats::{ArmSamples, Arms, compare},
};

/// Decides over a candidate with an environment *and* rules, given a third arm: the environment without the rules.
///
/// The environment is judged by that arm against the default, and each rule by what it adds to that arm, so that neither is
/// credited with the other's gain. The points are those of the whole candidate against the default.
pub fn verdict_apart(
    data: &[AbPoint],
    without_rules: &[(Point, ArmSamples)],
    thresholds: &Thresholds,
    candidate: &Candidate,
) -> Verdict {
    let environment_data = environment_data(data, without_rules, candidate);
    let rule_data = with_alone(data, without_rules, |full, alone| AbPoint { default: alone, ..full.clone() });
    let environment_only = Candidate { environment: candidate.environment.clone(), rules: Vec::new() };
    let rules_only = Candidate { environment: Environment::new(), rules: candidate.rules.clone() };
    let by_environment = verdict(&environment_data, thresholds, &environment_only);
    let by_rules = verdict(&rule_data, thresholds, &rules_only);
    let points: Vec<PointVerdict> = data.iter().map(|point| judge_point(point, thresholds)).collect();
    if by_environment.shipped_environment.is_empty() {
        return Verdict { points, sentence: summary(&[], &Environment::new(), candidate), ..by_environment };
    }
    let reduced = by_rules.rules.iter().any(|rule| rule.fate != RuleFate::Ship);
    let recheck = reduced.then(|| Candidate {
        environment: candidate.environment.clone(),
        rules: by_rules.shipped.iter().map(|shipped| shipped.rule.clone()).collect(),
    });
    let sentence = summary(&by_rules.shipped, &by_environment.shipped_environment, candidate);
    Verdict {
        points,
        rules: by_rules.rules,
        environment: by_environment.environment,
        shipped: by_rules.shipped,
        shipped_environment: by_environment.shipped_environment,
        recheck,
        sentence,
    }
}

/// Whether the interval of the environment's gain over all points lies below the least one that ships: then neither it nor the
/// rules that were measured with it do. `without_rules` as in [`verdict_apart`]; absent is a candidate without rules.
pub fn cannot_ship(
    data: &[AbPoint],
    without_rules: Option<&[(Point, ArmSamples)]>,
    thresholds: &Thresholds,
    candidate: &Candidate,
) -> bool {
    let apart = without_rules.map(|alone| environment_data(data, alone, candidate));
    let all: Vec<Arms<'_>> = apart.as_deref().unwrap_or(data).iter().map(arms).collect();
    let speedup = compare(&all, thresholds.objective, thresholds.design, thresholds.seed);
    speedup.is_some_and(|speedup| speedup.high < 1.0 + thresholds.gain)
}

/// The points with the environment alone in one arm's place.
fn with_alone(
    data: &[AbPoint],
    without_rules: &[(Point, ArmSamples)],
    place: fn(&AbPoint, ArmSamples) -> AbPoint,
) -> Vec<AbPoint> {
    let of = |point: Point| without_rules.iter().find(|(p, _)| *p == point).map(|(_, arm)| arm.clone());
    data.iter().filter_map(|full| Some(place(full, of(full.point)?))).collect()
}

/// The default arm against the environment alone.
fn environment_data(data: &[AbPoint], without_rules: &[(Point, ArmSamples)], candidate: &Candidate) -> Vec<AbPoint> {
    let mut alone = with_alone(data, without_rules, |full, alone| AbPoint { candidate: alone, ..full.clone() });
    // Where no rule applies, both arms ran the environment alone.
    for point in alone.iter_mut().filter(|point| candidate.rule_of(point.point).is_none()) {
        let both = data.iter().filter(|full| full.point == point.point).flat_map(|full| &full.candidate);
        both.for_each(|(process, times)| point.candidate.entry(*process).or_default().extend(times));
    }
    alone
}
