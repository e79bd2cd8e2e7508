//! The interleaved A/B: every arm in fresh processes, in turn, round after round.
//!
//! The arms are whatever the caller compares: the default arm against the emitted files, or a candidate against itself
//! with one setting left out. One process is one replication, however many samples it gives.

use gdrtune_profiles::vocab::Point;

use crate::{
    bench::{Bench, BenchError, Cancel, Item, Outcome, Sample, Script, Setup},
    observe::{Directive, Note, Observer},
    stats::ArmSamples,
    verdict::AbPoint,
};

/// What is compared, and how often.
#[derive(Debug, Clone, PartialEq)]
pub struct AbPlan {
    /// The arms.
    pub arms: Vec<Setup>,
    /// Points to measure in each.
    pub points: Vec<Point>,
    /// Samples per point and process.
    pub repeats: u32,
    /// Rounds that are measured even if the time is over: fewer say nothing.
    pub min_rounds: u32,
    /// Rounds at most.
    pub max_rounds: u32,
    /// Time on the bench's clock after which no further round begins, in seconds.
    pub until_s: f64,
}

/// What an A/B measured.
#[derive(Debug, Clone, PartialEq)]
pub struct AbResult {
    /// Times per operation in microseconds, by arm and point. The processes of one round have that round's number, so
    /// that arms which ran next to each other can be paired; a process that failed at a point has no samples there.
    pub times_us: Vec<Vec<ArmSamples>>,
    /// Complete rounds.
    pub rounds: u32,
    /// What failed, for people.
    pub failures: Vec<String>,
    /// The arm that failed in [`MAX_BAD_ROUNDS`] rounds, and how: it cannot be compared, and the A/B ended early.
    pub broken: Option<(usize, String)>,
    /// How the watcher wants it to go on: an abort leaves the rounds incomplete.
    pub directive: Directive,
}

impl AbResult {
    /// The first two arms, default and candidate, as the verdict reads them.
    pub fn pairs(&self, points: &[Point], weight: impl Fn(Point) -> f64) -> Vec<AbPoint> {
        let pair = |(index, &point): (usize, &Point)| AbPoint {
            point,
            weight: weight(point),
            default: self.times_us[0][index].clone(),
            candidate: self.times_us[1][index].clone(),
        };
        points.iter().enumerate().map(pair).collect()
    }
}

/// Rounds with a failure after which an arm is given up: each failure costs a deadline.
const MAX_BAD_ROUNDS: u32 = 2;

/// Runs the arms in turn. The order turns round by round, so that drift and warm caches favour no arm.
///
/// # Errors
/// [`BenchError`] where the bench cannot go on. An arm that does not start is a failure of its round.
pub fn interleave(
    bench: &mut dyn Bench,
    plan: &AbPlan,
    observer: &mut dyn Observer,
    cancel: &Cancel,
) -> Result<AbResult, BenchError> {
    let mut result = AbResult {
        times_us: vec![vec![ArmSamples::new(); plan.points.len()]; plan.arms.len()],
        rounds: 0,
        failures: Vec::new(),
        broken: None,
        directive: Directive::Continue,
    };
    let mut bad_rounds = vec![0; plan.arms.len()];
    for round in 0..plan.max_rounds {
        if round >= plan.min_rounds && bench.now_s() >= plan.until_s {
            break;
        }
        for turn in 0..plan.arms.len() {
            result.directive = observer.directive();
            if result.directive == Directive::Abort {
                return Ok(result);
            }
            let arm = arm_of_turn(round, turn, plan.arms.len());
            let failures_before = result.failures.len();
            let times = run_arm(bench, plan, arm, round, observer, cancel, &mut result.failures)?;
            if let Some(failure) = result.failures.get(failures_before) {
                bad_rounds[arm] += 1;
                if bad_rounds[arm] >= MAX_BAD_ROUNDS {
                    result.broken = Some((arm, failure.clone()));
                    return Ok(result);
                }
            }
            for (point, samples) in times.into_iter().enumerate().filter(|(_, samples)| !samples.is_empty()) {
                result.times_us[arm][point].insert(round, samples);
            }
        }
        result.rounds += 1;
    }
    Ok(result)
}

/// Forwards in even rounds, backwards in odd ones: A B, B A, A B, ...
fn arm_of_turn(round: u32, turn: usize, arms: usize) -> usize {
    if round.is_multiple_of(2) { turn } else { arms - 1 - turn }
}

/// One process of one arm: its samples per point.
fn run_arm(
    bench: &mut dyn Bench,
    plan: &AbPlan,
    arm: usize,
    round: u32,
    observer: &mut dyn Observer,
    cancel: &Cancel,
    failures: &mut Vec<String>,
) -> Result<Vec<Vec<f64>>, BenchError> {
    // The points' order turns with the rounds too: what runs first in a process is not always the same point.
    let order: Vec<usize> = (0..plan.points.len()).map(|i| (i + round as usize * 7) % plan.points.len()).collect();
    let items = order.iter().map(|&p| Item { point: plan.points[p], choice: None, repeats: plan.repeats }).collect();
    let script = Script { setup: plan.arms[arm].clone(), fresh: true, items };
    observer.note(Note::Script(&script));
    let mut samples: Vec<Vec<f64>> = vec![Vec::new(); plan.points.len()];
    let mut sink = |sample: Sample| {
        observer.note(Note::Sample { script: &script, sample: &sample });
        let point = order[sample.item];
        match sample.outcome {
            Outcome::Timed(timing) => samples[point].push(timing.time_us),
            Outcome::Wrong(why) | Outcome::Hung(why) | Outcome::Crashed(why) | Outcome::Unsupported(why) => {
                failures.push(format!("{}: {why}", plan.points[point]));
            }
            Outcome::Substituted { selected, .. } => {
                failures.push(format!("{}: ran {selected} instead", plan.points[point]));
            }
        }
    };
    match bench.run(&script, cancel, &mut sink) {
        Err(BenchError::Setup { why, .. }) => failures.push(format!("did not start: {why}")),
        other => other?,
    }
    Ok(samples)
}

#[cfg(test)]
mod tests {
    use gdrtune_profiles::vocab::{Collective, Engine, Environment};

    use super::*;
    use crate::{
        bench::{BenchInfo, Timing},
        observe::Silent,
    };

    /// A bench whose second arm takes twice the time, and whose clock moves one second per script.
    struct TwoArms {
        log: Vec<Setup>,
    }

    impl Bench for TwoArms {
        fn info(&self) -> BenchInfo {
            BenchInfo { engine: Engine::Sim, nodes: 1, ranks: 2 }
        }

        fn now_s(&self) -> f64 {
            self.log.len() as f64
        }

        fn run(&mut self, script: &Script, _: &Cancel, sink: &mut dyn FnMut(Sample)) -> Result<(), BenchError> {
            self.log.push(script.setup.clone());
            assert!(script.fresh);
            let factor = if script.setup == Setup::Site { 1.0 } else { 2.0 };
            for (item, asked) in script.items.iter().enumerate() {
                for repeat in 0..asked.repeats {
                    let time_us = factor * (asked.point.bytes as f64 + f64::from(repeat));
                    let t = Timing {
                        time_us,
                        slowest_us: time_us,
                        median_us: time_us,
                        max_us: time_us,
                        cpu_us: 0.0,
                        iterations: 1,
                        selected: None,
                    };
                    sink(Sample { item, process: 0, outcome: Outcome::Timed(t) });
                }
            }
            Ok(())
        }
    }

    /// The same, but the candidate's processes do not start.
    struct BadCandidate(TwoArms);

    impl Bench for BadCandidate {
        fn info(&self) -> BenchInfo {
            self.0.info()
        }

        fn now_s(&self) -> f64 {
            self.0.now_s()
        }

        fn run(&mut self, script: &Script, cancel: &Cancel, sink: &mut dyn FnMut(Sample)) -> Result<(), BenchError> {
            if script.setup == Setup::Site {
                return self.0.run(script, cancel, sink);
            }
            self.0.log.push(script.setup.clone());
            Err(BenchError::Setup { setup: "files".into(), why: "no such interface".into() })
        }
    }

    #[test]
    fn an_arm_that_keeps_failing_is_given_up() {
        let plan = AbPlan {
            arms: vec![Setup::Site, Setup::Live(Environment::new())],
            points: vec![Point { collective: Collective::AllReduce, bytes: 100 }],
            repeats: 1,
            min_rounds: 7,
            max_rounds: 9,
            until_s: 100.0,
        };
        let mut bench = BadCandidate(TwoArms { log: Vec::new() });
        let result = interleave(&mut bench, &plan, &mut Silent, &Cancel::new()).unwrap();
        assert_eq!(result.broken, Some((1, "did not start: no such interface".to_owned())));
        assert_eq!(bench.0.log.len(), 3, "two failures, not seven");
    }

    #[test]
    fn arms_take_turns_and_each_process_is_one_replication() {
        let point = |bytes| Point { collective: Collective::AllReduce, bytes };
        let candidate = Setup::Live(Environment::new().with("A", "1"));
        let plan = AbPlan {
            arms: vec![Setup::Site, candidate.clone()],
            points: vec![point(100), point(200)],
            repeats: 3,
            min_rounds: 2,
            max_rounds: 9,
            until_s: 5.0,
        };
        let mut bench = TwoArms { log: Vec::new() };
        let result = interleave(&mut bench, &plan, &mut Silent, &Cancel::new()).unwrap();
        assert_eq!(result.rounds, 3, "the clock passes 5 s after the third round");
        let site = || Setup::Site;
        let other = || candidate.clone();
        assert_eq!(bench.log, [site(), other(), other(), site(), site(), other()]);
        let first = result.times_us[0][0].clone();
        assert_eq!(first, (0..3).map(|round| (round, vec![100.0, 101.0, 102.0])).collect());
        assert_eq!(result.times_us[1][1][&2], [400.0, 402.0, 404.0]);
    }
}
