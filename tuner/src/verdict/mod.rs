//! What ships: the decision over an interleaved A/B of the default arm against a candidate.
//!
//! * A **rule** ships if its measured sizes are jointly faster (P and gain) and none of them loses. A losing
//!   size is taken out and the rest is judged again (split); if the whole does not pass, the sizes that pass
//!   alone remain. Sizes at its ends that are no sure gain by themselves are left out where others in it are.
//! * Where several rules are tried, each must show more: see [`for_many`].
//! * A size **loses** if it is clearly slower, or slower by less but surely, as one of so many (see [`losing`]).
//! * An **environment** ships if all points of the workload are jointly faster and none loses, because it applies to every
//!   call. A loss that may be chance among so many points is said where it ships. Its rules were measured under it: if it does not ship, neither do they, and the caller verifies
//!   the fallback candidate.
//! * When a rule is dropped or split under an environment that ships, the points concerned now run what was not measured:
//!   [`Verdict::recheck`] asks for another A/B of the reduced candidate. So it does where most rules fail and few pass: of many that
//!   do nothing, those are the lucky ones.
//!
//! "The defaults are best" is a verdict like any other. Few processes cannot pass: see [`crate::stats::compare`].
//! Must not measure.

mod ablation;
mod apart;
mod loss;
mod noise;
mod step;

pub use ablation::{Ablation, AblationVerdict, ablations, dropped, judge_ablation};
pub use apart::{cannot_ship, verdict_apart};
pub use loss::{Loss, perhaps_losing};
pub use noise::Noise;
pub use step::{StepTime, step_time};

use loss::losing;

use gdrtune_profiles::{
    profile::Speedup,
    size::Size,
    vocab::{Choice, Environment, Point},
};

use crate::{
    objective::Objective,
    plan::{Candidate, CandidateRule, merge},
    stats::{ArmSamples, Arms, Design, compare, median, weighted_geometric_mean},
};

/// Both arms at one point.
#[derive(Debug, Clone, PartialEq)]
pub struct AbPoint {
    /// The point.
    pub point: Point,
    /// Weight in the workload.
    pub weight: f64,
    /// Times of the default arm, in microseconds by process.
    pub default: ArmSamples,
    /// Times of the candidate.
    pub candidate: ArmSamples,
}

/// What must be shown.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Thresholds {
    /// Least P(faster).
    pub p_faster: f64,
    /// Least relative gain of the medians.
    pub gain: f64,
    /// How several points count together.
    pub objective: Objective,
    /// How the processes of the arms belong together.
    pub design: Design,
    /// Seconds that another round of the arms takes; 0 where nobody knows.
    pub round_s: f64,
    /// Seed of the bootstrap.
    pub seed: u64,
}

impl Thresholds {
    /// P(faster) of 0.95 and a gain of 2 %, points by their geometric mean, arms on their own.
    pub fn standard(seed: u64) -> Self {
        Self {
            p_faster: 0.95,
            gain: 0.02,
            objective: Objective::GeometricMean,
            design: Design::Independent,
            round_s: 0.0,
            seed,
        }
    }

    fn is_faster(&self, speedup: &Speedup) -> bool {
        self.p_faster <= speedup.p_faster && 1.0 + self.gain <= speedup.median
    }

    fn is_slower(&self, speedup: &Speedup) -> bool {
        speedup.p_faster <= 1.0 - self.p_faster && speedup.median <= 1.0 / (1.0 + self.gain)
    }
}

/// What the A/B says about one point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Clearly faster.
    Ship,
    /// No difference that matters: the default stays.
    Keep,
    /// Clearly slower.
    Regression,
    /// The interval spans both a gain and a loss that would matter.
    TooNoisy,
    /// An arm has no sample.
    NotMeasured,
}

/// One point's verdict.
#[derive(Debug, Clone, PartialEq)]
pub struct PointVerdict {
    /// The point.
    pub point: Point,
    /// The decision.
    pub decision: Decision,
    /// Default time over candidate time; `None` where an arm has no sample.
    pub speedup: Option<Speedup>,
    /// Median of the default arm in microseconds.
    pub default_us: Option<f64>,
    /// Median of the candidate in microseconds.
    pub tuned_us: Option<f64>,
    /// What it would take to say more, where it is too noisy.
    pub noise: Option<Noise>,
    /// The decision in a sentence.
    pub sentence: String,
}

/// A rule with its evidence.
#[derive(Debug, Clone, PartialEq)]
pub struct ShippedRule {
    /// The rule.
    pub rule: CandidateRule,
    /// Geometric mean over its sizes of the default arm's median, in microseconds.
    pub default_us: f64,
    /// The same of the candidate.
    pub tuned_us: f64,
    /// Joint over its sizes.
    pub speedup: Speedup,
}

/// What becomes of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RuleFate {
    /// As it is.
    Ship,
    /// Parts of it.
    Split,
    /// Not at all.
    Drop,
}

/// One rule's verdict.
#[derive(Debug, Clone, PartialEq)]
pub struct RuleVerdict {
    /// The rule that was tried.
    pub rule: CandidateRule,
    /// What becomes of it.
    pub fate: RuleFate,
    /// The decision in a sentence.
    pub sentence: String,
}

/// The environment's verdict.
#[derive(Debug, Clone, PartialEq)]
pub struct EnvironmentVerdict {
    /// Whether it ships.
    pub ships: bool,
    /// Joint over all points.
    pub speedup: Option<Speedup>,
    /// The decision in a sentence.
    pub sentence: String,
}

impl EnvironmentVerdict {
    /// Whether it does not ship for want of rounds alone: a gain that would is still possible.
    pub fn is_open(&self, thresholds: &Thresholds) -> bool {
        let is_open = |s: &Speedup| !thresholds.is_faster(s) && 1.0 + thresholds.gain <= s.high;
        !self.ships && self.speedup.as_ref().is_some_and(is_open)
    }
}

/// The decision over a candidate.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    /// Every point.
    pub points: Vec<PointVerdict>,
    /// Every rule of the candidate.
    pub rules: Vec<RuleVerdict>,
    /// The environment; `None` if the candidate has none.
    pub environment: Option<EnvironmentVerdict>,
    /// The rules that ship.
    pub shipped: Vec<ShippedRule>,
    /// The environment that ships; empty if none does.
    pub shipped_environment: Environment,
    /// Set when what ships was not measured as a whole, or may have been picked by luck: run the A/B again with this.
    pub recheck: Option<Candidate>,
    /// The whole in a sentence.
    pub sentence: String,
}

impl Verdict {
    /// Whether nothing ships.
    pub fn keeps_defaults(&self) -> bool {
        self.shipped.is_empty() && self.shipped_environment.is_empty()
    }

    /// What was tried and does not ship, in sentences.
    pub fn left_out(&self) -> Vec<String> {
        let environment = self.environment.iter().filter(|e| !e.ships).map(|e| format!("environment: {}", e.sentence));
        let left = self.rules.iter().filter(|r| r.fate != RuleFate::Ship);
        let rules = left.map(|r| format!("{}: {}", r.rule.name(), r.sentence));
        environment.chain(rules).collect()
    }

    /// Whether some point of the candidate is clearly slower.
    pub fn has_regression(&self) -> bool {
        self.points.iter().any(|point| point.decision == Decision::Regression)
    }
}

/// Decides over `candidate`, which ran as the candidate arm of `data`.
pub fn verdict(data: &[AbPoint], thresholds: &Thresholds, candidate: &Candidate) -> Verdict {
    let points: Vec<PointVerdict> = data.iter().map(|point| judge_point(point, thresholds)).collect();
    let losing = losing(&points, thresholds);
    let environment =
        (!candidate.environment.is_empty()).then(|| judge_environment(data, &points, &losing, thresholds));
    let wholes: Vec<Option<ShippedRule>> =
        candidate.rules.iter().map(|rule| evidence(rule, data, thresholds)).collect();
    let of_rules = for_many(&wholes, thresholds);
    let (mut rules, mut shipped) = (Vec::new(), Vec::new());
    for (rule, whole) in candidate.rules.iter().zip(wholes) {
        if environment.as_ref().is_some_and(|environment| !environment.ships) {
            let sentence = "measured under an environment that does not ship".into();
            rules.push(RuleVerdict { rule: rule.clone(), fate: RuleFate::Drop, sentence });
            continue;
        }
        let (verdict, parts) = judge_rule(rule, whole, data, &points, &losing, &of_rules);
        rules.push(verdict);
        shipped.extend(parts);
    }
    let ships = environment.as_ref().is_some_and(|environment| environment.ships);
    let shipped_environment = if ships { candidate.environment.clone() } else { Environment::new() };
    let unshipped = rules.iter().filter(|rule| rule.fate != RuleFate::Ship).count();
    let is_lucky = candidate.environment.is_empty() && !shipped.is_empty() && rules.len() < 2 * unshipped;
    let recheck = (ships && unshipped > 0 || is_lucky).then(|| Candidate {
        environment: shipped_environment.clone(),
        rules: shipped.iter().map(|shipped| shipped.rule.clone()).collect(),
    });
    let sentence = summary(&shipped, &shipped_environment, candidate);
    Verdict { points, rules, environment, shipped, shipped_environment, recheck, sentence }
}

fn arms(point: &AbPoint) -> Arms<'_> {
    Arms { weight: point.weight, default: &point.default, candidate: &point.candidate }
}

fn arm_median(arm: &ArmSamples) -> Option<f64> {
    let all: Vec<f64> = arm.values().flatten().copied().collect();
    median(&all)
}

fn judge_point(data: &AbPoint, thresholds: &Thresholds) -> PointVerdict {
    let even = Arms { weight: 1.0, ..arms(data) };
    let speedup = compare(&[even], thresholds.objective, thresholds.design, thresholds.seed);
    let (decision, mut sentence) = match &speedup {
        None => (Decision::NotMeasured, "an arm has no sample".to_owned()),
        Some(speedup) => decide(speedup, thresholds),
    };
    let is_noisy = decision == Decision::TooNoisy;
    let noise = speedup.as_ref().filter(|_| is_noisy).map(|speedup| Noise::of(data, speedup, thresholds));
    if let Some(noise) = noise {
        sentence = format!("too noisy to say: {noise}; {sentence}");
    }
    let (default_us, tuned_us) = (arm_median(&data.default), arm_median(&data.candidate));
    PointVerdict { point: data.point, decision, speedup, default_us, tuned_us, noise, sentence }
}

fn decide(speedup: &Speedup, thresholds: &Thresholds) -> (Decision, String) {
    let shown = show(speedup);
    if thresholds.is_faster(speedup) {
        return (Decision::Ship, format!("faster: {shown}"));
    }
    if thresholds.is_slower(speedup) {
        return (Decision::Regression, format!("slower: {shown}"));
    }
    let (gains, loses) = (1.0 + thresholds.gain < speedup.high, speedup.low < 1.0 / (1.0 + thresholds.gain));
    if gains && loses {
        return (Decision::TooNoisy, shown);
    }
    (Decision::Keep, format!("no difference that matters: {shown}"))
}

fn show(speedup: &Speedup) -> String {
    format!(
        "{:.2}x (90 % interval {:.2} to {:.2}, P(faster) {:.2}, {} processes per arm)",
        speedup.median, speedup.low, speedup.high, speedup.p_faster, speedup.repeats
    )
}

fn judge_environment(
    data: &[AbPoint],
    points: &[PointVerdict],
    losing: &[Loss],
    thresholds: &Thresholds,
) -> EnvironmentVerdict {
    let all: Vec<Arms<'_>> = data.iter().map(arms).collect();
    let speedup = compare(&all, thresholds.objective, thresholds.design, thresholds.seed);
    let (ships, sentence) = match &speedup {
        None => (false, "no point has both arms".to_owned()),
        Some(speedup) if !thresholds.is_faster(speedup) => {
            (false, format!("not clearly faster over all points: {}", show(speedup)))
        }
        Some(_) if !losing.is_empty() => {
            let slower: Vec<String> = losing.iter().map(ToString::to_string).collect();
            (false, format!("surely slower: {}", slower.join(", ")))
        }
        Some(speedup) => {
            let lost: Vec<String> = perhaps_losing(points).map(|loss| format!("; {loss}")).collect();
            (true, format!("faster over all points, surely slower at none: {}{}", show(speedup), lost.concat()))
        }
    };
    EnvironmentVerdict { ships, speedup, sentence }
}

/// Rounds with which a rule of so many can still ship if one of them, and that a close one, speaks against it: with fewer, what
/// [`for_many`] asks is more than the signed-rank test ever gives (see [`crate::stats::compare`]).
pub fn least_rounds(rules: usize, thresholds: &Thresholds) -> u32 {
    let level = (1.0 - thresholds.p_faster) / rules.max(1) as f64;
    // The chance of that among n equal rounds is 2 of 2^n.
    (2.0 / level).log2().ceil().max(1.0) as u32
}

/// What a rule must show where several are tried: of many equal arms some look faster by chance. Benjamini and Hochberg's
/// procedure (J. R. Stat. Soc. B 57, 1995) keeps the expected share of such rules among those that ship at what a single one
/// is allowed.
fn for_many(wholes: &[Option<ShippedRule>], thresholds: &Thresholds) -> Thresholds {
    let level = 1.0 - thresholds.p_faster;
    let doubt = |whole: &Option<ShippedRule>| whole.as_ref().map_or(1.0, |whole| 1.0 - whole.speedup.p_faster);
    let mut doubts: Vec<f64> = wholes.iter().map(doubt).collect();
    doubts.sort_by(f64::total_cmp);
    let share = |passed: usize| level * passed as f64 / wholes.len().max(1) as f64;
    let passed = (1..=doubts.len()).rev().find(|&passed| doubts[passed - 1] <= share(passed));
    Thresholds { p_faster: 1.0 - share(passed.unwrap_or(1)), ..*thresholds }
}

/// Judges a rule by all its sizes (`whole`, where they have times) and by each; gives its verdict and the parts that ship.
fn judge_rule(
    rule: &CandidateRule,
    whole: Option<ShippedRule>,
    data: &[AbPoint],
    points: &[PointVerdict],
    losing: &[Loss],
    thresholds: &Thresholds,
) -> (RuleVerdict, Vec<ShippedRule>) {
    let decided = |point: Point, decision: Decision| points.iter().any(|p| p.point == point && p.decision == decision);
    let slower: Vec<Point> = rule.points().filter(|point| losing.iter().any(|loss| loss.point == *point)).collect();
    let missing = rule.points().any(|point| !points.iter().any(|p| p.point == point && p.speedup.is_some()));
    let finish = |fate, sentence, parts| (RuleVerdict { rule: rule.clone(), fate, sentence }, parts);
    let whole = whole.filter(|_| slower.is_empty() && !missing);
    if let Some(whole) = whole.as_ref().filter(|whole| thresholds.is_faster(&whole.speedup)) {
        if let Some(trimmed) = trimmed(rule, data, thresholds, &decided) {
            return finish(RuleFate::Split, trimmed.sentence, vec![trimmed.rule]);
        }
        return finish(RuleFate::Ship, format!("ships: {}", show(&whole.speedup)), vec![whole.clone()]);
    }
    let parts = if slower.is_empty() { Vec::new() } else { parts(rule, data, thresholds, &|p| !slower.contains(&p)) };
    let parts = if parts.is_empty() { parts_alone(rule, data, thresholds, &decided) } else { parts };
    let sizes: Vec<String> = slower.iter().map(|point| Size(point.bytes).to_string()).collect();
    let cause = match whole.map(|whole| whole.speedup) {
        _ if !slower.is_empty() => format!("slower at {}", sizes.join(", ")),
        Some(speedup) if 1.0 + thresholds.gain <= speedup.median => {
            let (p, least) = (speedup.p_faster, thresholds.p_faster);
            format!(
                "{:.2}x as a whole, but P(faster) is {p:.4} where one of so many rules needs {least:.4}",
                speedup.median
            )
        }
        _ => "not clearly faster as a whole".to_owned(),
    };
    if parts.is_empty() {
        return finish(RuleFate::Drop, format!("dropped: {cause}"), parts);
    }
    let kept: Vec<String> =
        parts.iter().flat_map(|part| part.rule.sizes.iter().map(|bytes| Size(*bytes).to_string())).collect();
    finish(RuleFate::Split, format!("split: {cause}; kept for {}", kept.join(", ")), parts)
}

/// What is left of a rule without end sizes that are not sure gains by themselves: the sizes in between vouch for those
/// inside, nothing does for the ends.
struct Trimmed {
    rule: ShippedRule,
    sentence: String,
}

fn trimmed(
    rule: &CandidateRule,
    data: &[AbPoint],
    thresholds: &Thresholds,
    decided: &dyn Fn(Point, Decision) -> bool,
) -> Option<Trimmed> {
    let sure: Vec<u64> =
        rule.points().filter(|point| decided(*point, Decision::Ship)).map(|point| point.bytes).collect();
    let (first, last) = (*sure.first()?, *sure.last()?);
    let (kept, cut): (Vec<u64>, Vec<u64>) = rule.sizes.iter().partition(|bytes| (first..=last).contains(*bytes));
    if cut.is_empty() {
        return None;
    }
    let shown = |sizes: &[u64]| sizes.iter().map(|bytes| Size(*bytes).to_string()).collect::<Vec<_>>().join(", ");
    let part = parts(rule, data, thresholds, &|point| kept.contains(&point.bytes)).pop()?;
    let sentence = format!("split: no sure gain at {}; kept for {}", shown(&cut), shown(&kept));
    Some(Trimmed { rule: part, sentence })
}

fn parts_alone(
    rule: &CandidateRule,
    data: &[AbPoint],
    thresholds: &Thresholds,
    decided: &dyn Fn(Point, Decision) -> bool,
) -> Vec<ShippedRule> {
    parts(rule, data, thresholds, &|point| decided(point, Decision::Ship))
}

/// The runs of sizes that `keep` leaves, of which each is faster on its own.
fn parts(
    rule: &CandidateRule,
    data: &[AbPoint],
    thresholds: &Thresholds,
    keep: &dyn Fn(Point) -> bool,
) -> Vec<ShippedRule> {
    let measured: Vec<Point> = data.iter().map(|point| point.point).collect();
    let kept: Vec<(Point, Choice)> = rule.points().filter(|p| keep(*p)).map(|point| (point, rule.choice)).collect();
    let runs = merge(&measured, &kept).into_iter();
    runs.filter_map(|run| evidence(&run, data, thresholds)).filter(|run| thresholds.is_faster(&run.speedup)).collect()
}

fn evidence(rule: &CandidateRule, data: &[AbPoint], thresholds: &Thresholds) -> Option<ShippedRule> {
    let within: Vec<&AbPoint> = data.iter().filter(|point| rule.covers(point.point)).collect();
    let arms: Vec<Arms<'_>> = within.iter().map(|point| arms(point)).collect();
    let mean = |arm: fn(&AbPoint) -> &ArmSamples| {
        weighted_geometric_mean(within.iter().filter_map(|point| Some((1.0, arm_median(arm(point))?))))
    };
    Some(ShippedRule {
        rule: rule.clone(),
        default_us: mean(|point| &point.default)?,
        tuned_us: mean(|point| &point.candidate)?,
        speedup: compare(&arms, thresholds.objective, thresholds.design, thresholds.seed)?,
    })
}

fn summary(shipped: &[ShippedRule], environment: &Environment, candidate: &Candidate) -> String {
    if candidate.is_empty() {
        return "the defaults are best: the search found nothing to try".into();
    }
    if shipped.is_empty() && environment.is_empty() {
        return "the defaults are best: nothing that was tried is clearly faster".into();
    }
    let count = |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    format!(
        "{} of {} and {} ship",
        count(shipped.len(), "rule"),
        candidate.rules.len(),
        count(environment.0.len(), "process-level setting")
    )
}

#[cfg(test)]
mod tests;
