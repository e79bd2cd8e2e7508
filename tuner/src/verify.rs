//! The verification: default arm against candidate, through the emitted files, until what would ship is what was
//! measured.
//!
//! **Order.** Each process of an arm costs seconds, so the *main comparison* has the time first: the default arm and the candidate
//! (and its environment without the rules, where it has both), until there is a verdict. Only a candidate whose environment passes is
//! then compared with itself without each setting, in rounds of their own in which all these arms take turns, so that drift reaches
//! them alike; the default arm has no part in that question, nor in its rounds. What is left is measured against the
//! default arm anew.
//!
//! **Looking more than once** makes no false win likelier. The main comparison ends before its time only where the environment
//! loses: every point is resolved, and the interval of the gain lies below the least one that ships. So it can pass at one look alone, which
//! comes when rounds or time are over, whoever is ahead. The rounds of the settings come after a pass and share no sample
//! with it; they can only take settings away. The reduced candidate must pass in rounds of its own, and where those leave its gain open, what
//! passed before ships as it is. A setting may be kept early only with a P(faster) that
//! ten looks more do not wear out ([`AblationVerdict::is_settled`]), and dropped early where its gain is ruled out.
//!
//! **Time.** When the time is over, what runs still takes its least rounds: [`MIN_ROUNDS`] of two or three arms for each candidate, and six of
//! the candidate and its ablations once, for one that passed.
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
/// Share of the remaining time that one A/B may use: the main comparison first, and of the rest the one of settings, so that a
/// reduced candidate can still be measured.
const SHARE: f64 = 0.6;
/// The default arm's place in the main comparison.
const DEFAULT: usize = 0;
/// The candidate's place there.
const CANDIDATE: usize = 1;

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
        let mut verified = Verified::nothing_yet(outcome.defaults.len());
        let engine = bench.info().engine;
        let mut candidate = plan::candidate(outcome, thresholds.gain);
        verified.left_out.extend(drop_unwritable(&mut candidate, engine));
        let mut may_fall_back = true;
        let mut until_s = self.until_s;
        let mut whole: Option<Box<Verified>> = None;
        for attempt in 0..MAX_ATTEMPTS {
            if candidate.is_empty() {
                break;
            }
            let may_ablate = attempt == 0;
            let time = (&thresholds, &mut until_s);
            let next = match self.attempt(bench, &candidate, may_ablate, time, &mut verified, deployer)? {
                Attempt::Over => break,
                Attempt::Reduced(reduced) => Some(reduced),
                Attempt::WithoutSettings { passed, reduced } => {
                    whole = passed;
                    Some(reduced)
                }
                Attempt::EnvironmentFails { is_open: true } if whole.is_some() => {
                    whole.take().into_iter().for_each(|whole| take_back(*whole, &mut verified, deployer));
                    None
                }
                // Rules were measured under the environment that does not ship; those of the first one may still hold.
                Attempt::EnvironmentFails { .. } if std::mem::take(&mut may_fall_back) => {
                    Some(fallback(outcome, &thresholds, engine, &mut verified))
                }
                Attempt::EnvironmentFails { .. } => None,
                Attempt::Broken { arm: DEFAULT, why } => {
                    verified.give_up(format!("the default arm fails: {why}"));
                    None
                }
                Attempt::Broken { why, .. } if std::mem::take(&mut may_fall_back) => {
                    verified.left_out.push(format!("the search's candidate: it fails in the A/B: {why}"));
                    verified.put_aside();
                    candidate = fallback(outcome, &thresholds, engine, &mut verified);
                    continue;
                }
                Attempt::Broken { why, .. } => {
                    verified.give_up(format!("the candidate fails: {why}"));
                    None
                }
            };
            match next {
                // What would ship now was never measured as a whole: unless another attempt can, it must not.
                Some(next) if attempt + 1 < MAX_ATTEMPTS => candidate = next,
                Some(_) => {
                    verified.give_up("what was left after the last attempt was not measured again".to_owned());
                    break;
                }
                None => break,
            }
        }
        Ok(verified)
    }

    /// Measures a candidate and judges it, and then its settings one by one.
    fn attempt<D: Deployer>(
        &self,
        bench: &mut dyn Bench,
        candidate: &Candidate,
        may_ablate: bool,
        (thresholds, until_s): (&Thresholds, &mut f64),
        verified: &mut Verified,
        deployer: &mut D,
    ) -> Result<Attempt, VerifyError<D::Error>> {
        let data = match self.measure(bench, candidate, (thresholds, until_s), deployer)? {
            Measured::Data(data) => data,
            Measured::Broken { arm, why } => return Ok(Attempt::Broken { arm, why }),
            Measured::Nothing => return Ok(Attempt::Over),
        };
        let judging = Thresholds { round_s: data.round_s, ..*thresholds };
        let verdict = match &data.without_rules {
            Some(alone) => verdict::verdict_apart(&data.points, alone, &judging, candidate),
            None => verdict::verdict(&data.points, &judging, candidate),
        };
        deployer.judged(&verdict);
        verified.left_out.extend(verdict.left_out());
        if self.objective == Objective::TimePerStep {
            verified.step = verdict::step_time(&self.steps(), &data.points, &verdict, &judging);
        }
        let recheck = verdict.recheck.clone();
        let environment = verdict.environment.as_ref().map(|judged| (judged.ships, judged.is_open(thresholds)));
        verified.judge(verdict);
        let ablated = match environment {
            Some((false, is_open)) => return Ok(Attempt::EnvironmentFails { is_open }),
            Some((true, _)) if may_ablate => {
                let passed = recheck.as_ref().unwrap_or(candidate);
                self.ablate(bench, passed, (thresholds, until_s), verified, deployer)?
            }
            _ => Ablated::Keeps,
        };
        Ok(match ablated {
            Ablated::Keeps => recheck.map_or(Attempt::Over, Attempt::Reduced),
            Ablated::Broken(why) => Attempt::Broken { arm: CANDIDATE, why },
            Ablated::Reduced(reduced) => {
                // With rules that do not ship, it was not measured as a whole either.
                let passed = recheck.is_none().then(|| Box::new(verified.clone()));
                verified.leave_out_settings();
                Attempt::WithoutSettings { passed, reduced }
            }
        })
    }

    /// Calls per step and the default time of one call, for each point that could be measured.
    fn steps(&self) -> Vec<(Point, f64, f64)> {
        let step = |weighted: &WeightedPoint| {
            let default = self.outcome.defaults.get(&weighted.point)?;
            Some((weighted.point, weighted.weight, default.median_us))
        };
        self.weights.iter().filter_map(step).collect()
    }

    /// Runs the arms of the main comparison: default, candidate, and its environment without the rules.
    fn measure<D: Deployer>(
        &self,
        bench: &mut dyn Bench,
        candidate: &Candidate,
        (thresholds, until_s): (&Thresholds, &mut f64),
        deployer: &mut D,
    ) -> Result<Measured, VerifyError<D::Error>> {
        let mut candidates = vec![candidate.clone()];
        let has_both = !candidate.environment.is_empty() && !candidate.rules.is_empty();
        if has_both {
            candidates.push(Candidate { environment: candidate.environment.clone(), rules: Vec::new() });
        }
        let mut arms = vec![Setup::Site];
        arms.extend(deployer.deploy(&candidates).map_err(VerifyError::Deploy)?);
        let plan = AbPlan {
            arms,
            min_rounds: MIN_ROUNDS.max(verdict::least_rounds(candidate.rules.len(), thresholds)),
            most_rounds: MOST_ROUNDS,
            ..self.ab_plan(bench, candidate, (thresholds, *until_s))
        };
        let is_lost = |result: &AbResult| {
            if candidate.environment.is_empty() || !result.resolves(thresholds.gain) {
                return false;
            }
            let AbData { points, without_rules, .. } = self.arrange(&plan, result, has_both);
            verdict::cannot_ship(&points, without_rules.as_deref(), thresholds, candidate)
        };
        let result = self.interleave(bench, &plan, until_s, deployer, &is_lost)?;
        Ok(match result.broken {
            Some((arm, why)) => Measured::Broken { arm, why },
            None if result.rounds == 0 => Measured::Nothing,
            None => Measured::Data(self.arrange(&plan, &result, has_both)),
        })
    }

    /// Measures a candidate that passed in turn with what it is without each of its settings.
    fn ablate<D: Deployer>(
        &self,
        bench: &mut dyn Bench,
        passed: &Candidate,
        (thresholds, until_s): (&Thresholds, &mut f64),
        verified: &mut Verified,
        deployer: &mut D,
    ) -> Result<Ablated, VerifyError<D::Error>> {
        let mut ablations = verdict::ablations(&passed.environment);
        let mut verdicts: Vec<AblationVerdict> = Vec::new();
        while !ablations.is_empty() {
            let without = |a: &Ablation| Candidate { environment: a.environment.clone(), rules: passed.rules.clone() };
            let candidates: Vec<Candidate> =
                std::iter::once(passed.clone()).chain(ablations.iter().map(without)).collect();
            let plan = AbPlan {
                arms: deployer.deploy(&candidates).map_err(VerifyError::Deploy)?,
                min_rounds: verdict::least_rounds(1, thresholds),
                ..self.ab_plan(bench, passed, (thresholds, *until_s))
            };
            let judge = |result: &AbResult| -> Vec<AblationVerdict> {
                let one = |(index, ablation): (usize, &Ablation)| {
                    let data = result.between((index + 1, 0), &plan.points, |point| self.weight(point));
                    verdict::judge_ablation(ablation, &data, thresholds, result.rounds < plan.max_rounds)
                };
                ablations.iter().enumerate().map(one).collect()
            };
            let is_settled = |result: &AbResult| judge(result).iter().all(|verdict| verdict.is_settled(thresholds));
            let result = self.interleave(bench, &plan, until_s, deployer, &is_settled)?;
            match &result.broken {
                Some((0, why)) => return Ok(Ablated::Broken(why.clone())),
                // It cannot be left out; the others are compared without that arm.
                Some((arm, why)) => verdicts.push(AblationVerdict::needed(&ablations.remove(arm - 1).name, why)),
                None => {
                    verdicts.extend(judge(&result));
                    break;
                }
            }
        }
        let names = verdict::dropped(&mut verdicts);
        verified.ablations = verdicts;
        if names.is_empty() {
            return Ok(Ablated::Keeps);
        }
        let mut reduced = passed.clone();
        reduced.environment.0.retain(|name, _| !names.contains(name));
        Ok(Ablated::Reduced(reduced))
    }

    /// What the A/Bs of a candidate have in common: its points, and a share of the time that is left.
    fn ab_plan(&self, bench: &dyn Bench, candidate: &Candidate, (thresholds, until_s): (&Thresholds, f64)) -> AbPlan {
        let now_s = bench.now_s();
        AbPlan {
            arms: Vec::new(),
            points: self.outcome.defaults.keys().copied().filter(|&point| candidate.changes(point)).collect(),
            repeats: REPEATS,
            min_rounds: MIN_ROUNDS,
            max_rounds: MAX_ROUNDS,
            most_rounds: MAX_ROUNDS,
            resolve: thresholds.gain,
            until_s: now_s + SHARE * (until_s - now_s),
        }
    }

    /// Runs the arms, and tells what failed.
    fn interleave<D: Deployer>(
        &self,
        bench: &mut dyn Bench,
        plan: &AbPlan,
        until_s: &mut f64,
        deployer: &mut D,
        is_settled: &dyn Fn(&AbResult) -> bool,
    ) -> Result<AbResult, VerifyError<D::Error>> {
        let result =
            ab::interleave_until(bench, plan, deployer, self.cancel, is_settled).map_err(VerifyError::Bench)?;
        *until_s += result.extended_s;
        result.failures.iter().for_each(|failure| deployer.failed(failure));
        if result.directive == Directive::Abort {
            return Err(VerifyError::Aborted);
        }
        Ok(result)
    }

    fn weight(&self, point: Point) -> f64 {
        self.outcome.points.iter().find(|p| p.pick.point == point).map_or(1.0, |p| p.weight)
    }

    /// The arms' samples as the verdict reads them.
    fn arrange(&self, plan: &AbPlan, result: &AbResult, has_both: bool) -> AbData {
        let without_rules = result.times_us.last().filter(|_| has_both);
        let of_points = |arm: &Vec<ArmSamples>| plan.points.iter().copied().zip(arm.iter().cloned()).collect();
        AbData {
            points: result.pairs(&plan.points, |point| self.weight(point)),
            without_rules: without_rules.map(of_points),
            round_s: result.round_s,
        }
    }
}

/// Without the settings that showed nothing of their own, the rounds that there was time for leave the gain open: that does not speak
/// against the whole, which passed.
fn take_back(whole: Verified, verified: &mut Verified, deployer: &mut impl Deployer) {
    let names: Vec<&str> = whole.ablations.iter().filter(|v| !v.keep).map(|v| v.name.as_str()).collect();
    let note = format!(
        "all but {}: without, the gain is not sure with the rounds that there was time for, so what passed ships as a whole",
        names.join(", ")
    );
    whole.verdict.iter().for_each(|verdict| deployer.judged(verdict));
    *verified = whole;
    verified.left_out.push(note);
}

/// What is measured where the environment does not ship, or the search's candidate does not run.
fn fallback(outcome: &SearchOutcome, thresholds: &Thresholds, engine: Engine, verified: &mut Verified) -> Candidate {
    let mut fallback = plan::fallback(outcome, thresholds.gain);
    verified.left_out.extend(drop_unwritable(&mut fallback, engine));
    fallback
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

/// The main comparison as the verdict reads it.
struct AbData {
    points: Vec<AbPoint>,
    /// The candidate's environment without its rules, where it has both.
    without_rules: Option<Vec<(Point, ArmSamples)>>,
    /// Seconds that a round took; 0 where nobody knows.
    round_s: f64,
}

/// What came of a main comparison.
enum Measured {
    /// Times of every arm.
    Data(AbData),
    /// An arm that fails again and again.
    Broken { arm: usize, why: String },
    /// The user wants no more.
    Nothing,
}

/// What came of comparing a candidate with itself without each setting.
enum Ablated {
    /// Every setting stays.
    Keeps,
    /// What is left of it.
    Reduced(Candidate),
    /// The candidate itself fails now.
    Broken(String),
}

/// What follows from one candidate.
enum Attempt {
    /// Its verdict holds, and nothing more is measured.
    Over,
    /// This is left of it, and was not measured as a whole.
    Reduced(Candidate),
    /// It passed, unless that is absent, and this is left of it without the settings that show nothing of their own.
    WithoutSettings { passed: Option<Box<Verified>>, reduced: Candidate },
    /// Its environment does not ship; open is whether it might gain all the same.
    EnvironmentFails { is_open: bool },
    /// An arm that fails again and again.
    Broken { arm: usize, why: String },
}
