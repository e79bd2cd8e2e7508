//! The interleaved A/B: every arm in fresh processes, in turn, round after round.
//!
//! The arms are whatever the caller compares: the default arm against the emitted files, or a candidate against itself
//! with one setting left out. One process is one replication, however many samples it gives. A start of processes takes a second
//! or more and a sample of a quick point milliseconds, so after the first round a process takes more samples of those.

use std::collections::BTreeSet;

use gdrtune_profiles::vocab::Point;

use crate::{
    bench::{Bench, BenchError, Cancel, Item, Outcome, Sample, Script, Setup},
    observe::{Directive, Note, Observer, Wish},
    stats::{self, ArmSamples},
    verdict::AbPoint,
};

/// What is compared, and how often.
#[derive(Debug, Clone, PartialEq)]
pub struct AbPlan {
    /// The arms.
    pub arms: Vec<Setup>,
    /// Points to measure in each.
    pub points: Vec<Point>,
    /// Samples per point and process, before more are taken of quick points.
    pub repeats: u32,
    /// Rounds that are measured even if the time is over: fewer say nothing.
    pub min_rounds: u32,
    /// Rounds at most, where that is precise enough.
    pub max_rounds: u32,
    /// Where the rounds so far leave a difference of `resolve` open at some point and time is left, go on up to this many. That
    /// looks at how far the rounds scatter alone and not at which arm is ahead, so that it favours none (Wittes and Brittain,
    /// Statistics in Medicine 9, 1990: internal pilot studies).
    pub most_rounds: u32,
    /// The relative difference of the first two arms that should not stay open.
    pub resolve: f64,
    /// Time on the bench's clock after which no further round begins, in seconds.
    pub until_s: f64,
}

/// What an A/B measured.
#[derive(Debug, Clone, PartialEq)]
pub struct AbResult {
    /// Times per operation in microseconds, by arm and point. The processes of one round have that round's number, so
    /// that arms which ran next to each other can be paired; a process that failed at a point has no samples there.
    pub times_us: Vec<Vec<ArmSamples>>,
    /// CPU time per operation in microseconds, likewise; 0 where the bench does not tell.
    pub cpu_us: Vec<Vec<ArmSamples>>,
    /// The sets of processes of each arm, by their running numbers.
    pub processes: Vec<BTreeSet<u32>>,
    /// Complete rounds.
    pub rounds: u32,
    /// Seconds of the bench's clock that the last round took; 0 where it does not tell.
    pub round_s: f64,
    /// What failed, for people.
    pub failures: Vec<String>,
    /// The arm that failed in [`MAX_BAD_ROUNDS`] rounds, and how: it cannot be compared, and the A/B ended early.
    pub broken: Option<(usize, String)>,
    /// Seconds that the watcher added to the time.
    pub extended_s: f64,
    /// How the watcher wants it to go on: an abort leaves the rounds incomplete.
    pub directive: Directive,
}

impl AbResult {
    /// The first two arms, default and candidate, as the verdict reads them.
    pub fn pairs(&self, points: &[Point], weight: impl Fn(Point) -> f64) -> Vec<AbPoint> {
        self.between((0, 1), points, weight)
    }

    /// Two arms by their places, the first one in the default arm's place.
    pub fn between(
        &self,
        (default, candidate): (usize, usize),
        points: &[Point],
        weight: impl Fn(Point) -> f64,
    ) -> Vec<AbPoint> {
        let pair = |(index, &point): (usize, &Point)| AbPoint {
            point,
            weight: weight(point),
            default: self.times_us[default][index].clone(),
            candidate: self.times_us[candidate][index].clone(),
        };
        points.iter().enumerate().map(pair).collect()
    }

    /// Whether a relative difference of `least` between the first two arms would show at every point, by how far the rounds scatter:
    /// it says nothing of which arm is ahead.
    pub fn resolves(&self, least: f64) -> bool {
        let [default, candidate, ..] = self.times_us.as_slice() else { return true };
        let is_resolved = |(default, candidate): (&ArmSamples, &ArmSamples)| {
            stats::round_error(default, candidate).is_none_or(|error| stats::ONE_SIDED_95 * error <= least.ln_1p())
        };
        default.iter().zip(candidate).all(is_resolved)
    }
}

/// Samples per point and process at most. With samples 4 % and processes 1 % apart, two of a process leave a ratio 4.1 % off, eight
/// 2.2 %, and sixteen 1.8 %.
const MOST_REPEATS: u32 = 8;
/// What the further samples of all points may take together, as a part of what a process takes without them.
const FURTHER_SHARE: f64 = 0.5;
/// Calls of a sample that are not timed: warm-up and check, as in the session's pace.
const UNTIMED: f64 = 3.0;

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
    interleave_until(bench, plan, observer, cancel, &|_| false)
}

/// As [`interleave`], and after the least rounds it ends where `is_settled` says of the rounds so far that more would not change what
/// follows from them. Whether that favours an arm is the caller's matter.
///
/// # Errors
/// As [`interleave`].
pub fn interleave_until(
    bench: &mut dyn Bench,
    plan: &AbPlan,
    observer: &mut dyn Observer,
    cancel: &Cancel,
    is_settled: &dyn Fn(&AbResult) -> bool,
) -> Result<AbResult, BenchError> {
    let mut result = AbResult {
        times_us: vec![vec![ArmSamples::new(); plan.points.len()]; plan.arms.len()],
        cpu_us: vec![vec![ArmSamples::new(); plan.points.len()]; plan.arms.len()],
        processes: vec![BTreeSet::new(); plan.arms.len()],
        rounds: 0,
        round_s: 0.0,
        failures: Vec::new(),
        broken: None,
        extended_s: 0.0,
        directive: Directive::Continue,
    };
    let mut bad_rounds = vec![0; plan.arms.len()];
    let mut repeats = vec![plan.repeats; plan.points.len()];
    let mut sample_s = vec![0.0_f64; plan.points.len()];
    let until_s = |result: &AbResult| plan.until_s + result.extended_s;
    for round in 0..plan.most_rounds.max(plan.max_rounds) {
        let started_s = bench.now_s();
        if round >= plan.min_rounds && (started_s >= until_s(&result) || is_settled(&result))
            || round >= plan.max_rounds && is_enough(plan, &result)
        {
            break;
        }
        for turn in 0..plan.arms.len() {
            result.extended_s += extension(observer);
            result.directive = observer.directive();
            if result.directive == Directive::Abort {
                return Ok(result);
            }
            let arm = arm_of_turn(round, turn, plan.arms.len());
            let failures_before = result.failures.len();
            let items = Items { plan, arm, round, repeats: &repeats, sample_s: &mut sample_s };
            let Taken { times, cpu, processes } = run_arm(bench, items, observer, cancel, &mut result.failures)?;
            result.processes[arm].extend(processes);
            if let Some(failure) = result.failures.get(failures_before) {
                bad_rounds[arm] += 1;
                if bad_rounds[arm] >= MAX_BAD_ROUNDS {
                    result.broken = Some((arm, failure.clone()));
                    return Ok(result);
                }
            }
            for (of, taken) in [(&mut result.times_us[arm], times), (&mut result.cpu_us[arm], cpu)] {
                for (point, samples) in taken.into_iter().enumerate().filter(|(_, samples)| !samples.is_empty()) {
                    of[point].insert(round, samples);
                }
            }
        }
        result.rounds += 1;
        result.round_s = bench.now_s() - started_s;
        if round == 0 {
            let (arms, least, round_s) = (plan.arms.len(), plan.min_rounds, result.round_s);
            observer.note(Note::Rounds { arms, least, round_s });
            repeats = adapted(plan, round_s / arms as f64, &sample_s);
        }
    }
    Ok(result)
}

/// Seconds that the watcher adds. What else it may want is about a search.
fn extension(observer: &mut dyn Observer) -> f64 {
    let mut extended_s = 0.0;
    loop {
        let wishes = observer.wishes();
        if wishes.is_empty() {
            return extended_s;
        }
        extended_s +=
            wishes.iter().map(|wish| if let Wish::Extend { seconds, .. } = wish { *seconds } else { 0.0 }).sum::<f64>();
    }
}

/// Samples per point and process where a process took so long with the plan's, and a sample of each point so long.
fn adapted(plan: &AbPlan, process_s: f64, sample_s: &[f64]) -> Vec<u32> {
    let allowed_s = FURTHER_SHARE * process_s / sample_s.len().max(1) as f64;
    let further = |sample_s: &f64| if *sample_s > 0.0 { (allowed_s / sample_s).max(0.0) as u32 } else { 0 };
    let most = MOST_REPEATS.max(plan.repeats);
    sample_s.iter().map(|sample_s| plan.repeats.saturating_add(further(sample_s)).min(most)).collect()
}

/// Whether no further round is worth it: nobody bounds the time, or a difference that matters would show at every point.
fn is_enough(plan: &AbPlan, result: &AbResult) -> bool {
    plan.until_s.is_infinite() || result.resolves(plan.resolve)
}

/// Forwards in even rounds, backwards in odd ones: A B, B A, A B, ...
fn arm_of_turn(round: u32, turn: usize, arms: usize) -> usize {
    if round.is_multiple_of(2) { turn } else { arms - 1 - turn }
}

/// What one process of one arm measures.
struct Items<'a> {
    plan: &'a AbPlan,
    arm: usize,
    round: u32,
    /// Samples of each point.
    repeats: &'a [u32],
    /// Takes the time of one sample of each point.
    sample_s: &'a mut [f64],
}

/// What one process of one arm gave, by point.
struct Taken {
    times: Vec<Vec<f64>>,
    cpu: Vec<Vec<f64>>,
    /// More than one where it had to be replaced.
    processes: BTreeSet<u32>,
}

/// One process of one arm: its samples per point.
fn run_arm(
    bench: &mut dyn Bench,
    items: Items<'_>,
    observer: &mut dyn Observer,
    cancel: &Cancel,
    failures: &mut Vec<String>,
) -> Result<Taken, BenchError> {
    let Items { plan, arm, round, repeats, sample_s } = items;
    // The points' order turns with the rounds too: what runs first in a process is not always the same point.
    let order: Vec<usize> = (0..plan.points.len()).map(|i| (i + round as usize * 7) % plan.points.len()).collect();
    let items = order.iter().map(|&p| Item { point: plan.points[p], choice: None, repeats: repeats[p] }).collect();
    let script = Script { setup: plan.arms[arm].clone(), fresh: true, items };
    observer.note(Note::Script(&script));
    let of_points = || vec![Vec::new(); plan.points.len()];
    let mut taken = Taken { times: of_points(), cpu: of_points(), processes: BTreeSet::new() };
    let mut sink = |sample: Sample| {
        taken.processes.insert(sample.process);
        observer.note(Note::Sample { script: &script, sample: &sample });
        let point = order[sample.item];
        match sample.outcome {
            Outcome::Timed(timing) => {
                taken.times[point].push(timing.time_us);
                taken.cpu[point].push(timing.cpu_us);
                // Nobody says how many calls there were: then it is not known how long it took.
                let calls = if timing.iterations == 0 { 0.0 } else { f64::from(timing.iterations) + UNTIMED };
                sample_s[point] = sample_s[point].max(calls * timing.time_us / 1e6);
            }
            Outcome::Wrong(why) | Outcome::Hung(why) | Outcome::Crashed(why) | Outcome::Unsupported(why) => {
                failures.push(format!("{}: {why}", plan.points[point]));
            }
            // The round has no samples there; the next one does.
            Outcome::Skipped => {}
            Outcome::Substituted { selected, .. } => {
                failures.push(format!("{}: ran {selected} instead", plan.points[point]));
            }
        }
    };
    match bench.run(&script, cancel, &mut sink) {
        Err(BenchError::Setup { why, .. }) => failures.push(format!("did not start: {why}")),
        other => other?,
    }
    Ok(taken)
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
    #[derive(Default)]
    struct TwoArms {
        log: Vec<Setup>,
        /// Calls of each sample.
        iterations: u32,
        /// How far the rounds are apart, as a factor from one to the next.
        scatter: f64,
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
                    let round = (self.log.len() - 1) / 2;
                    let is_candidate = script.setup != Setup::Site;
                    let luck = if is_candidate && round.is_multiple_of(2) { 1.0 + self.scatter } else { 1.0 };
                    let time_us = factor * luck * (asked.point.bytes as f64 + f64::from(repeat));
                    let t = Timing { iterations: self.iterations, ..Timing::even(time_us) };
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
            most_rounds: 9,
            resolve: 0.02,
            until_s: 100.0,
        };
        let mut bench = BadCandidate(TwoArms::default());
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
            most_rounds: 9,
            resolve: 0.02,
            until_s: 5.0,
        };
        let mut bench = TwoArms::default();
        let result = interleave(&mut bench, &plan, &mut Silent, &Cancel::new()).unwrap();
        assert_eq!(result.rounds, 3, "the clock passes 5 s after the third round");
        let site = || Setup::Site;
        let other = || candidate.clone();
        assert_eq!(bench.log, [site(), other(), other(), site(), site(), other()]);
        let first = result.times_us[0][0].clone();
        assert_eq!(first, (0..3).map(|round| (round, vec![100.0, 101.0, 102.0])).collect());
        assert_eq!(result.times_us[1][1][&2], [400.0, 402.0, 404.0]);
    }

    #[test]
    fn quick_points_get_more_samples_for_at_most_half_the_time() {
        let point = |bytes| Point { collective: Collective::AllReduce, bytes };
        // 13 calls of 100 us, of 5 ms and of 50 ms; a process takes a second.
        let plan = AbPlan {
            arms: vec![Setup::Site, Setup::Live(Environment::new())],
            points: vec![point(100), point(5_000), point(50_000)],
            repeats: 2,
            min_rounds: 3,
            max_rounds: 3,
            most_rounds: 3,
            resolve: 0.02,
            until_s: f64::INFINITY,
        };
        for (iterations, want) in [(10, [8, 3, 2]), (0, [2, 2, 2])] {
            let mut bench = TwoArms { iterations, ..TwoArms::default() };
            let result = interleave(&mut bench, &plan, &mut Silent, &Cancel::new()).unwrap();
            let taken = |round: u32| [0, 1, 2].map(|point| result.times_us[0][point][&round].len());
            assert_eq!((taken(0), taken(1), taken(2)), ([2; 3], want, want), "{iterations} calls");
            assert!((result.round_s - 2.0).abs() < 1e-9);
        }
    }

    #[test]
    fn what_stays_open_goes_on_while_there_is_time() {
        let plan = AbPlan {
            arms: vec![Setup::Site, Setup::Live(Environment::new())],
            points: vec![Point { collective: Collective::AllReduce, bytes: 1_000 }],
            repeats: 1,
            min_rounds: 4,
            max_rounds: 6,
            most_rounds: 20,
            resolve: 0.02,
            until_s: 1_000.0,
        };
        for (scatter, until_s, want) in [
            (0.0, 1_000.0, 6),
            (0.2, 1_000.0, 20),
            // A budget is kept, and nobody who set none is kept waiting.
            (0.2, 22.0, 11),
            (0.2, f64::INFINITY, 6),
        ] {
            let mut bench = TwoArms { scatter, ..TwoArms::default() };
            let plan = AbPlan { until_s, ..plan.clone() };
            let result = interleave(&mut bench, &plan, &mut Silent, &Cancel::new()).unwrap();
            assert_eq!(result.rounds, want, "{scatter} {until_s}");
        }
    }
}
