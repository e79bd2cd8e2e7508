//! The verification: default arm against candidate, through the emitted files, until what would ship is what was
//! measured.
//!
//! Must not emit files or tell anybody: the [`Deployer`] does.

mod verified;

pub use verified::{Verified, agree_on_environment};

use gdrtune_profiles::{
    matrix,
    vocab::{Choice, Engine, Point},
};

use crate::{
    ab::{self, AbPlan, AbResult},
    bench::{Bench, BenchError, Cancel, Setup},
    objective::{Objective, WeightedPoint},
    observe::{Directive, Note, Observer, Phase},
    plan::{self, Candidate},
    search::SearchOutcome,
    stats::{ArmSamples, Design},
    verdict::{self, AbPoint, Ablation, AblationVerdict, Thresholds, Verdict},
};

/// Rounds per arm at least, and more for many rules ([`verdict::least_rounds`]): with fewer, chance alone separates two equal arms
/// too often (2^-7 is under 1 %).
const MIN_ROUNDS: u32 = 7;
/// Rounds per arm at most, where those resolve the least gain.
const MAX_ROUNDS: u32 = 21;
/// Rounds per arm at most, where they do not and there is time. Half as wide an interval takes four times as many: a quieter machine
/// is the better answer by then.
const MOST_ROUNDS: u32 = 42;
/// Samples per point and process; of quick points more.
const REPEATS: u32 = 2;
/// Times that a reduced candidate is measured again before the rest is given up.
const MAX_ATTEMPTS: u32 = 4;
/// Share of the remaining time that one attempt may use, so that a reduced candidate can still be measured.
const ATTEMPT_SHARE: f64 = 0.6;

/// Who emits the files of the candidates, watches the measurements, and is told what came of them.
pub trait Deployer: Observer {
    /// Why files cannot be emitted.
    type Error;

    /// The emitted files of each candidate of an A/B, live for the engine that measures.
    ///
    /// # Errors
    /// The caller's own, where a candidate cannot be emitted.
    fn deploy(&mut self, candidates: &[Candidate]) -> Result<Vec<Setup>, Self::Error>;

    /// A measurement of the A/B failed.
    fn failed(&mut self, failure: &str);

    /// An A/B has a verdict.
    fn judged(&mut self, verdict: &Verdict);
}

/// A verification without a result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VerifyError<E> {
    /// The watcher said to abort.
    #[error("aborted")]
    Aborted,
    /// The bench cannot go on.
    #[error("{0}")]
    Bench(BenchError),
    /// A candidate cannot be emitted.
    #[error("{0}")]
    Deploy(E),
}

/// A verification.
pub struct Verification<'a> {
    /// What was searched, and found.
    pub outcome: &'a SearchOutcome,
    /// How much each point counts.
    pub weights: &'a [WeightedPoint],
    /// What counts as better.
    pub objective: Objective,
    /// Seed of the bootstrap.
    pub seed: u64,
    /// When the run's time is over, in seconds of the bench's clock; infinite if never.
    pub until_s: f64,
    /// Ends a script at once.
    pub cancel: &'a Cancel,
}

impl Verification<'_> {
    /// Measures the search's candidate against the default arm, reduced until it holds.
    ///
    /// # Errors
    /// [`VerifyError`] where nothing can be said at all; arms that fail are in [`Verified`].
    pub fn run<D: Deployer>(&self, bench: &mut dyn Bench, deployer: &mut D) -> Result<Verified, VerifyError<D::Error>> {
        let outcome = self.outcome;
        deployer.note(Note::Phase(Phase::Verify));
        let thresholds =
            Thresholds { objective: self.objective, design: Design::Rounds, ..Thresholds::standard(self.seed) };
        let mut verified = Verified {
            verdict: None,
            ablations: Vec::new(),
            left_out: Vec::new(),
            unverified: None,
            withdrawn: None,
            workload: outcome.defaults.len(),
            step: None,
        };
        let engine = bench.info().engine;
        let mut candidate = plan::candidate(outcome, thresholds.gain);
        verified.left_out.extend(drop_unwritable(&mut candidate, engine));
        let mut may_fall_back = true;
        let mut until_s = self.until_s;
        for attempt in 0..MAX_ATTEMPTS {
            if candidate.is_empty() {
                break;
            }
            let ablations = if attempt == 0 { verdict::ablations(&candidate.environment) } else { Vec::new() };
            let data = match self.measure(bench, &candidate, &ablations, (&thresholds, &mut until_s), deployer)? {
                Measured::Data(data) => data,
                Measured::Broken { arm: 0, why } => {
                    verified.unverified = Some(format!("the default arm fails: {why}"));
                    break;
                }
                Measured::Broken { why, .. } if std::mem::take(&mut may_fall_back) => {
                    verified.left_out.push(format!("the search's candidate: it fails in the A/B: {why}"));
                    candidate = plan::fallback(outcome, thresholds.gain);
                    verified.left_out.extend(drop_unwritable(&mut candidate, engine));
                    continue;
                }
                Measured::Broken { why, .. } => {
                    verified.unverified = Some(format!("the candidate fails: {why}"));
                    break;
                }
                Measured::Nothing => break,
            };
            let thresholds = Thresholds { round_s: data.round_s, ..thresholds };
            let dropped = judge_settings(&data, &ablations, &thresholds, &mut verified);
            if !dropped.is_empty() {
                candidate.environment.0.retain(|name, _| !dropped.contains(name));
                continue;
            }
            let verdict = match &data.without_rules {
                Some(alone) => verdict::verdict_apart(&data.points, alone, &thresholds, &candidate),
                None => verdict::verdict(&data.points, &thresholds, &candidate),
            };
            deployer.judged(&verdict);
            verified.left_out.extend(verdict.left_out());
            if self.objective == Objective::TimePerStep {
                verified.step = verdict::step_time(&self.steps(), &data.points, &verdict, &thresholds);
            }
            let env_failed = !candidate.environment.is_empty() && verdict.shipped_environment.is_empty();
            let next = match &verdict.recheck {
                Some(reduced) => Some(reduced.clone()),
                // Rules were measured under the environment that does not ship; those of the first one may still hold.
                None if env_failed && std::mem::take(&mut may_fall_back) => {
                    let mut fallback = plan::fallback(outcome, thresholds.gain);
                    verified.left_out.extend(drop_unwritable(&mut fallback, engine));
                    Some(fallback)
                }
                None => None,
            };
            verified.verdict = Some(verdict);
            match next {
                // What would ship now was never measured as a whole: unless another attempt can, it must not.
                Some(next) if attempt + 1 < MAX_ATTEMPTS => candidate = next,
                Some(_) => {
                    let text = "what was left after the last attempt was not measured again";
                    verified.unverified = Some(text.to_owned());
                    verified.verdict = None;
                    break;
                }
                None => break,
            }
        }
        Ok(verified)
    }

    /// Calls per step and the default time of one call, for each point that could be measured.
    fn steps(&self) -> Vec<(Point, f64, f64)> {
        let step = |weighted: &WeightedPoint| {
            let default = self.outcome.defaults.get(&weighted.point)?;
            Some((weighted.point, weighted.weight, default.median_us))
        };
        self.weights.iter().filter_map(step).collect()
    }

    /// Runs the arms: default, candidate, the candidate without each setting, and its environment without the rules.
    fn measure<D: Deployer>(
        &self,
        bench: &mut dyn Bench,
        candidate: &Candidate,
        ablations: &[Ablation],
        (thresholds, until_s): (&Thresholds, &mut f64),
        deployer: &mut D,
    ) -> Result<Measured, VerifyError<D::Error>> {
        let without_setting =
            |a: &Ablation| Candidate { environment: a.environment.clone(), rules: candidate.rules.clone() };
        let mut candidates = vec![candidate.clone()];
        candidates.extend(ablations.iter().map(without_setting));
        let has_both = !candidate.environment.is_empty() && !candidate.rules.is_empty();
        if has_both {
            candidates.push(Candidate { environment: candidate.environment.clone(), rules: Vec::new() });
        }
        let mut arms = vec![Setup::Site];
        arms.extend(deployer.deploy(&candidates).map_err(VerifyError::Deploy)?);
        let points = self.outcome.defaults.keys().copied().filter(|&point| candidate.changes(point)).collect();
        let now_s = bench.now_s();
        let plan = AbPlan {
            arms,
            points,
            repeats: REPEATS,
            min_rounds: MIN_ROUNDS.max(verdict::least_rounds(candidate.rules.len(), thresholds)),
            max_rounds: MAX_ROUNDS,
            most_rounds: MOST_ROUNDS,
            resolve: thresholds.gain,
            until_s: now_s + ATTEMPT_SHARE * (*until_s - now_s),
        };
        let result = ab::interleave(bench, &plan, deployer, self.cancel).map_err(VerifyError::Bench)?;
        *until_s += result.extended_s;
        result.failures.iter().for_each(|failure| deployer.failed(failure));
        if result.directive == Directive::Abort {
            return Err(VerifyError::Aborted);
        }
        Ok(match result.broken {
            Some((arm, why)) => Measured::Broken { arm, why },
            None if result.rounds == 0 => Measured::Nothing,
            None => Measured::Data(arrange(&plan, &result, self.outcome, has_both)),
        })
    }
}

/// Takes out rules for what no engine can run, which no profile may hold: a grid or a model may offer anything. Gives why.
fn drop_unwritable(candidate: &mut Candidate, engine: Engine) -> Vec<String> {
    let mut dropped = Vec::new();
    candidate.rules.retain(|rule| {
        let Choice { algorithm, protocol, .. } = rule.choice;
        let checked = matrix::check(engine, None, rule.collective, algorithm, protocol);
        dropped.extend(checked.as_ref().err().map(|why| format!("{}: {why}", rule.name())));
        checked.is_ok()
    });
    dropped
}

/// One A/B as the verdict reads it.
struct AbData {
    points: Vec<AbPoint>,
    /// The candidate's environment without its rules, where it has both.
    without_rules: Option<Vec<(Point, ArmSamples)>>,
    ablated: Vec<Vec<(Point, ArmSamples)>>,
    /// Seconds that a round took; 0 where nobody knows.
    round_s: f64,
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

/// The arms' samples as the verdict reads them.
fn arrange(plan: &AbPlan, result: &AbResult, outcome: &SearchOutcome, has_both: bool) -> AbData {
    let weight = |point: Point| outcome.points.iter().find(|p| p.pick.point == point).map_or(1.0, |p| p.weight);
    let arm = |arm: &Vec<ArmSamples>| plan.points.iter().copied().zip(arm.iter().cloned()).collect();
    let mut others: Vec<Vec<(Point, ArmSamples)>> = result.times_us[2..].iter().map(arm).collect();
    // The arm without rules comes last.
    let without_rules = if has_both { others.pop() } else { None };
    AbData { points: result.pairs(&plan.points, weight), without_rules, ablated: others, round_s: result.round_s }
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
