//! The verification: default arm against candidate, through the emitted files, until what would ship is what was
//! measured.

use std::collections::BTreeSet;

use gdrtune_profiles::{
    matrix,
    size::Size,
    vocab::{Choice, Environment, Point},
};
use gdrtune_tuner::{
    bench::{Bench, Setup},
    observe::{Directive, Note, Observer, Phase},
    plan::{self, Candidate, CandidateRule},
    search::SearchOutcome,
    stats::{ArmSamples, Design},
    verdict::{self, AbPoint, Ablation, AblationVerdict, ShippedRule, Thresholds, Verdict},
};

use super::{Run, RunError, observer::RunObserver, write};
use crate::{
    ab::{self, AbPlan, AbResult},
    event::{self, Event, Level},
    recheck,
};

/// Rounds per arm at least: with fewer, chance alone separates two equal arms too often (2^-7 is under 1 %).
const MIN_ROUNDS: u32 = 7;
/// Rounds per arm at most; more would not change a verdict that is worth shipping.
const MAX_ROUNDS: u32 = 21;
/// Samples per point and process.
const REPEATS: u32 = 2;
/// Times that a reduced candidate is measured again before the rest is given up.
const MAX_ATTEMPTS: u32 = 4;
/// Share of the remaining time that one attempt may use, so that a reduced candidate can still be measured.
const ATTEMPT_SHARE: f64 = 0.6;

/// Gains that are named one by one in the headline.
const MOST_GAINS: usize = 4;

/// What the verification leaves.
pub(super) struct Verified {
    /// The last verdict; `None` where there was nothing to verify.
    pub(super) verdict: Option<Verdict>,
    /// Evidence of single settings, where several were compared.
    pub(super) ablations: Vec<AblationVerdict>,
    /// What was tried and left out, in sentences.
    pub(super) left_out: Vec<String>,
    /// Why there is no verdict although there was a candidate.
    unverified: Option<String>,
    /// Why nothing ships although the verdict says so: another shape of the run does not agree.
    withdrawn: Option<String>,
    /// Points of the workload, whether the candidate changes them or not.
    workload: usize,
}

impl Verified {
    /// The verdict, where it counts.
    fn effective(&self) -> Option<&Verdict> {
        self.verdict.as_ref().filter(|_| self.withdrawn.is_none())
    }

    pub(super) fn keeps_defaults(&self) -> bool {
        self.effective().is_none_or(Verdict::keeps_defaults)
    }

    /// The environment that ships.
    pub(super) fn environment(&self) -> Environment {
        self.effective().map(|verdict| verdict.shipped_environment.clone()).unwrap_or_default()
    }

    /// The rules that ship.
    pub(super) fn rules(&self) -> &[ShippedRule] {
        self.effective().map_or(&[], |verdict| &verdict.shipped)
    }

    /// The outcome in one sentence.
    pub(super) fn headline(&self) -> String {
        if let Some(why) = &self.unverified {
            return format!("nothing ships, because it could not be verified: {why}");
        }
        if let Some(why) = &self.withdrawn {
            return format!("nothing ships: {why}");
        }
        match &self.verdict {
            Some(verdict) if verdict.keeps_defaults() => match noisy_points(verdict) {
                0 => verdict.sentence.clone(),
                noisy => format!(
                    "inconclusive, so the defaults stay: {noisy} of {} points are too noisy to say; a larger --budget or a \
                     quieter machine would tell",
                    verdict.points.len()
                ),
            },
            Some(verdict) => format!("{}: {}", verdict.sentence, gains(verdict, self.workload)),
            None => "the defaults are best: the search found nothing that beats them".to_owned(),
        }
    }
}

/// A variable reaches jobs of every shape. Where the pinned settings did not pass in all of them, they do not ship, nor do
/// the rules that were measured with them. A shape that could not be measured (`is_complete`) has not passed.
pub(super) fn agree_on_environment(shapes: Vec<&mut Verified>, is_complete: bool) {
    let environments: BTreeSet<Environment> = shapes.iter().map(|verified| verified.environment()).collect();
    if environments.len() < 2 && is_complete {
        return;
    }
    for verified in shapes {
        let environment = verified.environment();
        if !environment.is_empty() {
            let why = format!(
                "{environment} did not pass in every shape, and what passed here was measured with it; tune this shape alone, or \
                 the shapes without it"
            );
            verified.withdrawn = Some(why);
        }
    }
}

/// Points of which the A/B cannot say anything, where those are more than half.
fn noisy_points(verdict: &Verdict) -> usize {
    let noisy = verdict.points.iter().filter(|p| p.decision == verdict::Decision::TooNoisy).count();
    if noisy * 2 > verdict.points.len() { noisy } else { 0 }
}

/// What was gained where something ships: the points one by one, or the largest of many.
fn gains(verdict: &Verdict, total: usize) -> String {
    let mut faster: Vec<(f64, Point)> = verdict
        .points
        .iter()
        .filter(|p| p.decision == verdict::Decision::Ship)
        .filter_map(|p| Some((p.speedup?.median, p.point)))
        .collect();
    if faster.is_empty() {
        return format!("no single point of {total} is clearly faster, all together are");
    }
    let count = faster.len();
    faster.sort_by(|a, b| b.0.total_cmp(&a.0));
    faster.truncate(MOST_GAINS);
    let shown: Vec<String> = faster.iter().map(|(median, point)| format!("{median:.2}x at {point}")).collect();
    let more = if count > MOST_GAINS { ", ..." } else { "" };
    format!("{count} of {total} points are faster: {}{more}", shown.join(", "))
}

/// Measures the search's candidate against the default arm, reduced until it holds.
pub(super) fn verify(
    run: &Run<'_>,
    bench: &mut dyn Bench,
    outcome: &SearchOutcome,
    observer: &mut RunObserver<'_>,
) -> Result<Verified, RunError> {
    observer.note(Note::Phase(Phase::Verify));
    let thresholds = Thresholds { design: Design::Rounds, ..Thresholds::standard(run.config.seed) };
    let mut verified = Verified {
        verdict: None,
        ablations: Vec::new(),
        left_out: Vec::new(),
        unverified: None,
        withdrawn: None,
        workload: outcome.defaults.len(),
    };
    let mut candidate = plan::candidate(outcome, thresholds.gain);
    verified.left_out.extend(drop_unwritable(&mut candidate, run));
    let mut may_fall_back = true;
    for attempt in 0..MAX_ATTEMPTS {
        if candidate.is_empty() {
            break;
        }
        let ablations = if attempt == 0 { verdict::ablations(&candidate.environment) } else { Vec::new() };
        let data = match measure(run, bench, outcome, &candidate, &ablations, observer)? {
            Measured::Data(data) => data,
            Measured::Broken { arm: 0, why } => {
                verified.unverified = Some(format!("the default arm fails: {why}"));
                break;
            }
            Measured::Broken { why, .. } if std::mem::take(&mut may_fall_back) => {
                verified.left_out.push(format!("the search's candidate: it fails in the A/B: {why}"));
                candidate = plan::fallback(outcome, thresholds.gain);
                verified.left_out.extend(drop_unwritable(&mut candidate, run));
                continue;
            }
            Measured::Broken { why, .. } => {
                verified.unverified = Some(format!("the candidate fails: {why}"));
                break;
            }
            Measured::Nothing => break,
        };
        let dropped = judge_settings(&data, &ablations, &thresholds, &mut verified);
        if !dropped.is_empty() {
            candidate.environment.0.retain(|name, _| !dropped.contains(name));
            continue;
        }
        let verdict = match &data.without_rules {
            Some(alone) => verdict::verdict_apart(&data.points, alone, &thresholds, &candidate),
            None => verdict::verdict(&data.points, &thresholds, &candidate),
        };
        record(run, &verdict);
        verified.left_out.extend(left_out(&verdict));
        let env_failed = !candidate.environment.is_empty() && verdict.shipped_environment.is_empty();
        let next = match &verdict.recheck {
            Some(reduced) => Some(reduced.clone()),
            // Rules were measured under the environment that does not ship; those of the first one may still hold.
            None if env_failed && std::mem::take(&mut may_fall_back) => {
                let mut fallback = plan::fallback(outcome, thresholds.gain);
                verified.left_out.extend(drop_unwritable(&mut fallback, run));
                Some(fallback)
            }
            None => None,
        };
        verified.verdict = Some(verdict);
        match next {
            // What would ship now was never measured as a whole: unless another attempt can, it must not.
            Some(next) if attempt + 1 < MAX_ATTEMPTS => candidate = next,
            Some(_) => {
                let text = "what was left after the last attempt was not measured as a whole";
                verified.unverified = Some(text.to_owned());
                verified.verdict = None;
                break;
            }
            None => break,
        }
    }
    Ok(verified)
}

/// Takes out rules for what no engine can run, which no profile may hold: a grid or a model may offer anything. Gives why.
fn drop_unwritable(candidate: &mut Candidate, run: &Run<'_>) -> Vec<String> {
    let mut dropped = Vec::new();
    candidate.rules.retain(|rule| {
        let Choice { algorithm, protocol, .. } = rule.choice;
        let checked = matrix::check(run.survey.info.engine, None, rule.collective, algorithm, protocol);
        dropped.extend(checked.as_ref().err().map(|why| format!("{}: {why}", rule_name(rule))));
        checked.is_ok()
    });
    dropped
}

/// A rule with the sizes that it was found at.
fn rule_name(rule: &CandidateRule) -> String {
    let sizes: Vec<String> = rule.sizes.iter().map(|&bytes| Size(bytes).to_string()).collect();
    format!("{} {} {}", rule.collective, sizes.join(", "), rule.choice)
}

/// One A/B as the verdict reads it.
struct AbData {
    points: Vec<AbPoint>,
    /// The candidate's environment without its rules, where it has both.
    without_rules: Option<Vec<(Point, ArmSamples)>>,
    ablated: Vec<Vec<(Point, ArmSamples)>>,
}

/// What came of an A/B.
enum Measured {
    /// Times of every arm.
    Data(AbData),
    /// An arm that fails again and again; 0 is the default arm.
    Broken { arm: usize, why: String },
    /// The user wants no more.
    Nothing,
}

/// Runs the arms: default, candidate, the candidate without each setting, and its environment without the rules.
fn measure(
    run: &Run<'_>,
    bench: &mut dyn Bench,
    outcome: &SearchOutcome,
    candidate: &Candidate,
    ablations: &[Ablation],
    observer: &mut RunObserver<'_>,
) -> Result<Measured, RunError> {
    let without_setting =
        |a: &Ablation| Candidate { environment: a.environment.clone(), rules: candidate.rules.clone() };
    let mut candidates = vec![candidate.clone()];
    candidates.extend(ablations.iter().map(without_setting));
    let has_both = !candidate.environment.is_empty() && !candidate.rules.is_empty();
    if has_both {
        candidates.push(Candidate { environment: candidate.environment.clone(), rules: Vec::new() });
    }
    let mut arms = vec![Setup::Site];
    observer.deployed.clear();
    for candidate in candidates {
        let setup = deployed(run, outcome, &candidate)?;
        observer.deployed.push((setup.clone(), candidate.environment));
        arms.push(setup);
    }
    let points: Vec<Point> = outcome.defaults.keys().copied().filter(|&point| candidate.changes(point)).collect();
    let now_s = bench.now_s();
    let left_s = run.config.budget_s.map_or(f64::INFINITY, |total| total - now_s);
    let plan = AbPlan {
        arms,
        points,
        repeats: REPEATS,
        min_rounds: MIN_ROUNDS,
        max_rounds: MAX_ROUNDS,
        until_s: now_s + ATTEMPT_SHARE * left_s,
    };
    let result = ab::interleave(bench, &plan, observer, run.controls.cancel())?;
    for failure in &result.failures {
        run.recorder.log(Level::Warn, "", format!("in the A/B: {failure}"));
    }
    if result.directive == Directive::Abort {
        return Err(RunError::Interrupted);
    }
    Ok(match result.broken {
        Some((arm, why)) => Measured::Broken { arm, why },
        None if result.rounds == 0 => Measured::Nothing,
        None => Measured::Data(arrange(&plan, &result, outcome, has_both)),
    })
}

/// The arms' samples as the verdict reads them.
fn arrange(plan: &AbPlan, result: &AbResult, outcome: &SearchOutcome, has_both: bool) -> AbData {
    let weight = |point: Point| outcome.points.iter().find(|p| p.pick.point == point).map_or(1.0, |p| p.weight);
    let arm = |arm: &Vec<ArmSamples>| plan.points.iter().copied().zip(arm.iter().cloned()).collect();
    let mut others: Vec<Vec<(Point, ArmSamples)>> = result.times_us[2..].iter().map(arm).collect();
    // The arm without rules comes last.
    let without_rules = if has_both { others.pop() } else { None };
    AbData { points: result.pairs(&plan.points, weight), without_rules, ablated: others }
}

/// The emitted files of a candidate, live for the engine that measures.
fn deployed(run: &Run<'_>, outcome: &SearchOutcome, candidate: &Candidate) -> Result<Setup, RunError> {
    let profile = write::candidate_profile(run, outcome, candidate);
    recheck::deployed(&profile, run.survey.info.engine).map_err(|error| RunError::Internal(error.to_string()))
}

/// Judges each setting of the environment; gives the names of those that go.
fn judge_settings(
    data: &AbData,
    ablations: &[Ablation],
    thresholds: &Thresholds,
    verified: &mut Verified,
) -> Vec<String> {
    let without: Vec<(Ablation, Vec<(Point, ArmSamples)>)> =
        ablations.iter().cloned().zip(data.ablated.iter().cloned()).collect();
    let verdicts = verdict::judge_ablations(&data.points, &without, thresholds);
    let dropped: Vec<&AblationVerdict> = verdicts.iter().filter(|v| !v.keep).collect();
    verified.left_out.extend(dropped.iter().map(|v| format!("{}: {}", v.name, v.sentence)));
    let names = dropped.iter().map(|v| v.name.clone()).collect();
    verified.ablations = verdicts;
    names
}

fn left_out(verdict: &Verdict) -> Vec<String> {
    let environment = verdict.environment.iter().filter(|e| !e.ships).map(|e| format!("environment: {}", e.sentence));
    let rules = verdict.rules.iter().filter(|r| r.fate != verdict::RuleFate::Ship);
    let rules = rules.map(|r| format!("{}: {}", rule_name(&r.rule), r.sentence));
    environment.chain(rules).collect()
}

fn record(run: &Run<'_>, verdict: &Verdict) {
    for point in &verdict.points {
        let (Some(speedup), Some(default_us), Some(tuned_us)) = (point.speedup, point.default_us, point.tuned_us)
        else {
            run.recorder.log(Level::Warn, "", format!("{}: {}", point.point, point.sentence));
            continue;
        };
        let decision = decision(point.decision);
        run.recorder.record(Event::Verdict { point: point.point, speedup, default_us, tuned_us, decision });
    }
    for line in left_out(verdict) {
        run.recorder.log(Level::Info, "", line);
    }
}

pub(super) const fn decision(decision: verdict::Decision) -> event::Decision {
    match decision {
        verdict::Decision::Ship => event::Decision::Ship,
        verdict::Decision::Keep => event::Decision::Keep,
        verdict::Decision::Regression => event::Decision::Regression,
        verdict::Decision::TooNoisy | verdict::Decision::NotMeasured => event::Decision::TooNoisy,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a shape leaves that ships `value` of one variable, or nothing.
    fn verified(value: Option<&str>) -> Verified {
        let environment = value.map(|value| Environment::new().with("NCCL_BUFFSIZE", value)).unwrap_or_default();
        let verdict = Verdict {
            points: Vec::new(),
            rules: Vec::new(),
            environment: None,
            shipped: Vec::new(),
            shipped_environment: environment,
            recheck: None,
            sentence: "a verdict".to_owned(),
        };
        Verified {
            verdict: Some(verdict),
            ablations: Vec::new(),
            left_out: Vec::new(),
            unverified: None,
            withdrawn: None,
            workload: 1,
        }
    }

    #[test]
    fn settings_ship_only_if_every_shape_agrees() {
        let (one, other) = (Some("1048576"), Some("8388608"));
        for (values, is_complete, ships) in [
            ([one, one], true, true),
            ([one, None], true, false),
            ([one, other], true, false),
            ([one, one], false, false),
        ] {
            let mut shapes = values.map(verified);
            agree_on_environment(shapes.iter_mut().collect(), is_complete);
            for shape in &shapes {
                assert_eq!(shape.environment().is_empty(), !ships, "{values:?} {is_complete}");
                assert_eq!(shape.keeps_defaults(), !ships);
            }
            let why = "nothing ships: NCCL_BUFFSIZE=1048576 did not pass in every shape";
            assert_eq!(shapes[0].headline().starts_with(why), !ships, "{}", shapes[0].headline());
        }
        let mut without = [verified(None), verified(None)];
        agree_on_environment(without.iter_mut().collect(), false);
        assert!(without.iter().all(|shape| shape.withdrawn.is_none()), "rules alone need no agreement");
    }
}
