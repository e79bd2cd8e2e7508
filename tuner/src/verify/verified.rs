//! What a verification leaves, and its headline.

use std::collections::BTreeSet;

use gdrtune_profiles::vocab::{Environment, Point};

use crate::verdict::{
    self, AblationVerdict, Loss, Noise, PointVerdict, ShippedRule, StepTime, Verdict, perhaps_losing,
};

/// Gains that are named one by one in the headline.
const MOST_GAINS: usize = 4;

/// What the verification leaves.
#[derive(Debug, Clone, PartialEq)]
pub struct Verified {
    /// The last verdict; `None` where there was nothing to verify.
    pub verdict: Option<Verdict>,
    /// Evidence of single settings, where several were compared.
    pub ablations: Vec<AblationVerdict>,
    /// What was tried and left out, in sentences.
    pub left_out: Vec<String>,
    /// What earlier A/Bs said of points that the last one did not measure, as what was left of the candidate does not change them.
    pub earlier: Vec<PointVerdict>,
    /// Why there is no verdict although there was a candidate.
    pub(super) unverified: Option<String>,
    /// Why nothing ships although the verdict says so: another shape of the run does not agree.
    pub(super) withdrawn: Option<String>,
    /// Points of the workload, whether the candidate changes them or not.
    pub(super) workload: usize,
    /// What ships is worth in a step of the job, where that is the objective.
    pub(super) step: Option<StepTime>,
}

impl Verified {
    /// Before anything was measured of a workload with so many points.
    pub(super) const fn nothing_yet(workload: usize) -> Self {
        Self {
            verdict: None,
            ablations: Vec::new(),
            left_out: Vec::new(),
            earlier: Vec::new(),
            unverified: None,
            withdrawn: None,
            workload,
            step: None,
        }
    }

    /// Of a run that was ended before it could verify anything.
    pub fn ended_early() -> Self {
        Self { unverified: Some("the run was ended early".to_owned()), ..Self::nothing_yet(0) }
    }

    /// Says of the settings that do not earn their place why they go.
    pub(super) fn leave_out_settings(&mut self) {
        let gone = self.ablations.iter().filter(|v| !v.keep).map(|v| format!("{}: {}", v.name, v.sentence));
        self.left_out.extend(gone);
    }

    /// Takes the verdict of another A/B for the last one.
    pub(super) fn judge(&mut self, verdict: Verdict) {
        self.put_aside();
        self.earlier.retain(|earlier| verdict.points.iter().all(|point| point.point != earlier.point));
        self.verdict = Some(verdict);
    }

    /// The last verdict is none on what comes; what it said of points is kept.
    pub(super) fn put_aside(&mut self) {
        self.earlier.extend(self.verdict.take().into_iter().flat_map(|verdict| verdict.points));
        self.earlier.sort_by_key(|earlier| earlier.point);
    }

    /// What was measured before is no verdict on what is left, and that cannot be measured.
    pub(super) fn give_up(&mut self, why: String) {
        self.put_aside();
        self.unverified = Some(why);
    }

    /// The verdict, where it counts.
    fn effective(&self) -> Option<&Verdict> {
        self.verdict.as_ref().filter(|_| self.withdrawn.is_none())
    }

    /// Whether nothing ships.
    pub fn keeps_defaults(&self) -> bool {
        self.effective().is_none_or(Verdict::keeps_defaults)
    }

    /// Whether nothing ships for want of knowing more, and not because the defaults are best.
    pub fn is_inconclusive(&self) -> bool {
        let is_noisy = self.verdict.as_ref().is_some_and(|verdict| 0 < noisy_points(verdict));
        self.keeps_defaults() && self.withdrawn.is_none() && (self.unverified.is_some() || is_noisy)
    }

    /// The environment that ships.
    pub fn environment(&self) -> Environment {
        self.effective().map(|verdict| verdict.shipped_environment.clone()).unwrap_or_default()
    }

    /// The rules that ship.
    pub fn rules(&self) -> &[ShippedRule] {
        self.effective().map_or(&[], |verdict| &verdict.shipped)
    }

    /// Where what ships may be slower than the defaults, by less than would keep it from shipping.
    pub fn losses(&self) -> Vec<Loss> {
        let Some(verdict) = self.effective() else { return Vec::new() };
        let is_changed = |point: Point| {
            let mut rules = verdict.shipped.iter();
            !verdict.shipped_environment.is_empty() || rules.any(|shipped| shipped.rule.covers(point))
        };
        perhaps_losing(&verdict.points).filter(|loss| is_changed(loss.point)).collect()
    }

    /// The outcome in one sentence.
    pub fn headline(&self) -> String {
        if let Some(why) = &self.unverified {
            return format!("nothing ships, because it could not be verified: {why}");
        }
        if let Some(why) = &self.withdrawn {
            return format!("nothing ships: {why}");
        }
        match &self.verdict {
            Some(verdict) if verdict.keeps_defaults() => match noisy_points(verdict) {
                0 => verdict.sentence.clone(),
                count => {
                    let noise = Noise::all(verdict.points.iter().filter_map(|point| point.noise));
                    let need = noise.map(|noise| format!(": {noise}")).unwrap_or_default();
                    format!(
                        "inconclusive, so the defaults stay: {count} of {} points are too noisy to say{need}; give a larger \
                         --budget, or run on a quieter machine",
                        verdict.points.len()
                    )
                }
            },
            Some(verdict) => {
                let step = self.step.map(|step| step_words(&step) + "; ").unwrap_or_default();
                format!("{step}{}: {}", verdict.sentence, gains(verdict, self.workload))
            }
            None => "the defaults are best: the search found nothing that beats them".to_owned(),
        }
    }
}

/// A variable reaches jobs of every shape. Where the pinned settings did not pass in all of them, they do not ship, nor do
/// the rules that were measured with them. A shape that could not be measured (`is_complete`) has not passed.
pub fn agree_on_environment(shapes: Vec<&mut Verified>, is_complete: bool) {
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

fn step_words(step: &StepTime) -> String {
    let (default_ms, tuned_ms, s) = (step.default_us / 1e3, step.tuned_us / 1e3, step.speedup);
    format!(
        "communication time per step {default_ms:.1} ms -> {tuned_ms:.1} ms ({:.2}x [{:.2}, {:.2}])",
        s.median, s.low, s.high
    )
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

#[cfg(test)]
mod tests {
    use gdrtune_profiles::profile::Speedup;

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
            earlier: Vec::new(),
            verdict: Some(verdict),
            ablations: Vec::new(),
            left_out: Vec::new(),
            unverified: None,
            withdrawn: None,
            workload: 1,
            step: None,
        }
    }

    #[test]
    fn a_noisy_verdict_says_what_it_would_take() {
        let point = |bytes: u64, rounds: f64, seconds: Option<f64>| verdict::PointVerdict {
            point: Point { collective: gdrtune_profiles::vocab::Collective::AllReduce, bytes },
            decision: verdict::Decision::TooNoisy,
            speedup: None,
            default_us: None,
            tuned_us: None,
            noise: Some(Noise { spread: rounds / 100.0, rounds, seconds }),
            sentence: String::new(),
        };
        let mut noisy = verified(None);
        let points = vec![point(1024, 10.0, Some(50.0)), point(4096, 40.0, Some(295.0))];
        noisy.verdict.as_mut().unwrap().points = points;
        let headline = noisy.headline();
        let want = "2 of 2 points are too noisy to say: spread 40 %, need about 300 s more; give a larger --budget";
        assert!(headline.contains(want) && noisy.is_inconclusive(), "{headline}");
        assert_eq!(noisy.losses(), []);
    }

    #[test]
    fn small_losses_are_said_of_what_ships() {
        let lost = |bytes: u64, median: f64, high: f64| verdict::PointVerdict {
            point: Point { collective: gdrtune_profiles::vocab::Collective::AllReduce, bytes },
            decision: verdict::Decision::Keep,
            speedup: Some(Speedup { median, low: 0.978, high, p_faster: 0.02, repeats: 21 }),
            default_us: None,
            tuned_us: None,
            noise: None,
            sentence: String::new(),
        };
        let points = || vec![lost(1024, 0.987, 0.996), lost(4096, 0.987, 1.001), lost(16384, 0.997, 0.999)];
        let said = |value: Option<&str>| {
            let mut verified = verified(value);
            verified.verdict.as_mut().unwrap().points = points();
            verified.losses().iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(said(Some("1048576")), ["allreduce 1K loses 1.3 % [0.4 %, 2.2 %]"]);
        assert_eq!(said(None), Vec::<String>::new(), "the defaults stay");
        assert!(!verified(None).is_inconclusive() && !verified(Some("1048576")).is_inconclusive());
        assert!(Verified::ended_early().is_inconclusive());
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
