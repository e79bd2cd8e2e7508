//! A profile measured again: default arm against its emitted files, in fresh process pairs. Searches nothing.

use std::sync::Arc;

use gdrtune_profiles::{
    emit::{EmitError, EmitOptions, Format, emit},
    profile::Profile,
    vocab::{Engine, Point},
};
use gdrtune_tuner::{
    ab::{self, AbPlan},
    bench::{Bench, BenchError, Cancel, Setup},
    observe::{Directive, Observer},
    plan::Candidate,
    stats::Design,
    verdict::{self, PointVerdict, Thresholds},
};

/// Samples per point and process, as in a run's own verification; of quick points more.
const REPEATS: u32 = 2;

/// What is measured again.
#[derive(Debug, Clone)]
pub struct RecheckPlan<'a> {
    /// The profile.
    pub profile: &'a Profile,
    /// Where both arms are compared.
    pub points: Vec<Point>,
    /// Process pairs: one set of processes of each arm, next to each other.
    pub pairs: u32,
    /// Seed of the bootstrap.
    pub seed: u64,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Recheck {
    /// Every point.
    pub points: Vec<PointVerdict>,
    /// Complete pairs.
    pub pairs: u32,
    /// What failed, for people.
    pub failures: Vec<String>,
    /// The arm that kept failing, and how.
    pub broken: Option<String>,
}

impl Recheck {
    /// Whether some point is clearly slower with the profile than without.
    pub fn has_regression(&self) -> bool {
        self.points.iter().any(|point| point.decision == verdict::Decision::Regression)
    }
}

/// A recheck without a result.
#[derive(Debug, thiserror::Error)]
pub enum RecheckError {
    /// The profile cannot be emitted.
    #[error(transparent)]
    Emit(#[from] EmitError),
    /// The bench cannot go on.
    #[error(transparent)]
    Bench(#[from] BenchError),
}

/// Whether the profile has something for jobs of this shape: rules, or, in a profile of variables alone, the shape that
/// was measured.
pub fn has_shape(profile: &Profile, nodes: u32, ranks: u32) -> bool {
    let is_measured = (profile.cluster.nodes, profile.cluster.ranks) == (nodes, ranks);
    let shapes = profile.rule_shapes();
    shapes.contains(&(nodes, ranks)) || is_measured && (shapes.is_empty() || !profile.env.is_empty())
}

/// The points of `points` that the profile can change in jobs of this shape: all where it sets variables, else those
/// that a rule covers.
pub fn affected(profile: &Profile, nodes: u32, ranks: u32, points: &[Point]) -> Vec<Point> {
    let has_rule = |point: Point| profile.rule_of((nodes, ranks), point).is_some();
    points.iter().copied().filter(|point| !profile.env.is_empty() || has_rule(*point)).collect()
}

/// The files that a job would run with, live for `engine`: what the deployed arm of an A/B gets.
///
/// # Errors
/// [`EmitError`] where the profile holds what a format cannot carry.
pub fn deployed(profile: &Profile, engine: Engine) -> Result<Setup, EmitError> {
    let options = EmitOptions { for_engine: Some(engine), ..EmitOptions::plain() };
    let file = |format: Format| Ok((format.file_name().to_owned(), emit(profile, format, &options)?));
    let files: Vec<(String, String)> =
        [Format::Env, Format::TunerCsv].into_iter().map(file).collect::<Result<_, EmitError>>()?;
    Ok(Setup::Deployed(Arc::from(files)))
}

/// Runs the pairs and judges every point.
///
/// # Errors
/// [`RecheckError`] where nothing can be said at all; arms that fail are in [`Recheck`].
pub fn recheck(
    bench: &mut dyn Bench,
    plan: &RecheckPlan<'_>,
    observer: &mut dyn Observer,
    cancel: &Cancel,
) -> Result<Recheck, RecheckError> {
    let arms = vec![Setup::Site, deployed(plan.profile, bench.info().engine)?];
    let thresholds = Thresholds { design: Design::Rounds, ..Thresholds::standard(plan.seed) };
    let ab = in_pairs(arms, plan.points.clone(), plan.pairs);
    let result = ab::interleave(bench, &ab, observer, cancel)?;
    if result.directive == Directive::Abort {
        return Err(BenchError::Cancelled.into());
    }
    let data = result.pairs(&plan.points, |_| 1.0);
    let thresholds = Thresholds { round_s: result.round_s, ..thresholds };
    let points = verdict::verdict(&data, &thresholds, &Candidate::default()).points;
    let broken = result.broken.map(|(arm, why)| {
        let arm = if arm == 0 { "the default arm" } else { "the profile's arm" };
        format!("{arm}: {why}")
    });
    Ok(Recheck { points, pairs: result.rounds, failures: result.failures, broken })
}

/// So many pairs of process sets, one of each arm, however long they take.
pub(crate) fn in_pairs(arms: Vec<Setup>, points: Vec<Point>, pairs: u32) -> AbPlan {
    AbPlan {
        arms,
        points,
        repeats: REPEATS,
        min_rounds: pairs,
        max_rounds: pairs,
        most_rounds: pairs,
        // The number of pairs is given: nothing goes on to resolve more.
        resolve: 0.0,
        until_s: f64::INFINITY,
    }
}

#[cfg(test)]
mod tests {
    use gdrtune_profiles::{profile::Rule, vocab::Collective};
    use gdrtune_tuner::{
        bench::{BenchInfo, Outcome, Sample, Script, Timing},
        observe::Silent,
    };

    use super::*;

    const PROFILE: &str = include_str!("../../../profiles/tests/golden/nccl.toml");

    fn profile() -> Profile {
        Profile::parse(PROFILE, "golden").unwrap().0
    }

    fn point(bytes: u64) -> Point {
        Point { collective: Collective::AllReduce, bytes }
    }

    /// The deployed arm takes `factor` of the default's time.
    struct Fixed(f64);

    impl Bench for Fixed {
        fn info(&self) -> BenchInfo {
            BenchInfo { engine: Engine::Nccl, nodes: 4, ranks: 32 }
        }

        fn now_s(&self) -> f64 {
            0.0
        }

        fn run(&mut self, script: &Script, _: &Cancel, sink: &mut dyn FnMut(Sample)) -> Result<(), BenchError> {
            let factor = match &script.setup {
                Setup::Deployed(files) => {
                    assert!(files.iter().any(|(name, text)| name == "nccl-tuner.csv" && text.contains("allreduce,")));
                    self.0
                }
                _ => 1.0,
            };
            for (item, asked) in script.items.iter().enumerate() {
                for _ in 0..asked.repeats {
                    let us = 100.0 * factor;
                    let (time_us, slowest_us, median_us, max_us) = (us, us, us, us);
                    let t =
                        Timing { time_us, slowest_us, median_us, max_us, cpu_us: 0.0, iterations: 1, selected: None };
                    sink(Sample { item, process: 0, outcome: Outcome::Timed(t) });
                }
            }
            Ok(())
        }
    }

    #[test]
    fn only_what_a_profile_can_change_is_measured() {
        let mut profile = profile();
        let points = [point(1024), point(1 << 40)];
        assert_eq!(affected(&profile, 4, 32, &points), points, "variables reach every call");
        profile.env.clear();
        profile.rule.retain(|rule| rule.bytes.max.is_some());
        assert_eq!(affected(&profile, 4, 32, &points), [point(1024)]);
        assert_eq!(affected(&profile, 2, 16, &points), [], "the rules are for 4 nodes with 32 ranks");
    }

    #[test]
    fn a_profile_is_for_the_shapes_of_its_rules() {
        let mut profile = profile();
        let other = Rule { nodes: 2, ranks: 16, ..profile.rule[0].clone() };
        profile.rule.push(other);
        assert_eq!(profile.rule_shapes(), [(4, 32), (2, 16)]);
        for (nodes, ranks, expected) in [(4, 32, true), (2, 16, true), (2, 32, false), (4, 16, false)] {
            assert_eq!(has_shape(&profile, nodes, ranks), expected, "{nodes} {ranks}");
        }
        // Of the largest shape nothing but the variables shipped.
        profile.rule.retain(|rule| rule.nodes == 2);
        assert!(has_shape(&profile, 4, 32) && has_shape(&profile, 2, 16));
        profile.env.clear();
        assert!(!has_shape(&profile, 4, 32) && has_shape(&profile, 2, 16));
        profile.rule.clear();
        assert!(has_shape(&profile, 4, 32) && !has_shape(&profile, 2, 16));
    }

    #[test]
    fn a_slower_profile_is_a_regression() {
        let profile = profile();
        for (factor, regression) in [(0.5, false), (1.0, false), (1.5, true)] {
            let plan = RecheckPlan { profile: &profile, points: vec![point(1024)], pairs: 7, seed: 1 };
            let result = recheck(&mut Fixed(factor), &plan, &mut Silent, &Cancel::new()).unwrap();
            assert_eq!((result.has_regression(), result.pairs), (regression, 7), "{factor}");
        }
    }
}
