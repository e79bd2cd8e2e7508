use gdrtune_profiles::vocab::{Algorithm, Collective, Protocol};

use super::*;

const CHOICE: Choice = Choice { algorithm: Algorithm::Ring, protocol: Protocol::Simple, channels: 2 };

fn point(bytes: u64) -> Point {
    Point { collective: Collective::AllReduce, bytes }
}

/// Five processes around `time_us`, one percent apart.
fn arm(time_us: f64) -> ArmSamples {
    (0..5).map(|i| (i, vec![time_us * (1.0 + 0.01 * (f64::from(i) - 2.0))])).collect()
}

fn ab(bytes: u64, default_us: f64, tuned_us: f64) -> AbPoint {
    AbPoint { point: point(bytes), weight: 1.0, default: arm(default_us), candidate: arm(tuned_us) }
}

fn candidate(data: &[AbPoint], environment: Environment) -> Candidate {
    let points: Vec<Point> = data.iter().map(|point| point.point).collect();
    let winners: Vec<(Point, Choice)> = points.iter().map(|point| (*point, CHOICE)).collect();
    Candidate { environment, rules: merge(&points, &winners) }
}

fn environment() -> Environment {
    Environment::new().with("NCCL_SOCKET_IFNAME", "=ib0")
}

fn shipped_sizes(verdict: &Verdict) -> Vec<Vec<u64>> {
    verdict.shipped.iter().map(|shipped| shipped.rule.sizes.clone()).collect()
}

#[test]
fn a_rule_that_is_faster_everywhere_ships() {
    let data = [ab(1024, 100.0, 80.0), ab(4096, 100.0, 90.0)];
    let verdict = verdict(&data, &Thresholds::standard(1), &candidate(&data, Environment::new()));
    assert_eq!(shipped_sizes(&verdict), [[1024, 4096]]);
    assert_eq!((verdict.rules[0].fate, verdict.recheck.is_some()), (RuleFate::Ship, false));
    let rule = &verdict.shipped[0];
    assert!((rule.speedup.median - (1.25f64 / 0.9).sqrt()).abs() < 1e-9, "{rule:?}");
    assert!((rule.default_us - 100.0).abs() < 1e-9);
    assert_eq!(verdict.sentence, "1 rule of 1 and 0 process-level settings ship");
}

#[test]
fn a_slower_size_inside_splits_the_rule() {
    let data = [ab(1024, 100.0, 60.0), ab(4096, 100.0, 120.0), ab(16384, 100.0, 70.0)];
    let verdict = verdict(&data, &Thresholds::standard(1), &candidate(&data, Environment::new()));
    assert_eq!(shipped_sizes(&verdict), [[1024], [16384]]);
    assert_eq!(verdict.rules[0].fate, RuleFate::Split);
    assert!(verdict.rules[0].sentence.contains("slower at 4K; kept for 1K, 16K"), "{}", verdict.rules[0].sentence);
    assert!(verdict.has_regression());
    assert!(verdict.shipped.iter().all(|shipped| !shipped.rule.bytes.contains(4096)));
}

#[test]
fn end_sizes_that_are_no_sure_gain_are_left_out() {
    // The middle ones vouch for 64K, which lies between them; nothing vouches for the ends.
    let times = [(1024, 101.0), (4096, 60.0), (65536, 99.0), (262_144, 60.0), (1 << 20, 99.5)];
    let data = times.map(|(bytes, tuned_us)| ab(bytes, 100.0, tuned_us));
    let verdict = verdict(&data, &Thresholds::standard(1), &candidate(&data, Environment::new()));
    assert_eq!(shipped_sizes(&verdict), [[4096, 65536, 262_144]]);
    let sentence = &verdict.rules[0].sentence;
    assert!(sentence.contains("no sure gain at 1K, 1M; kept for 4K, 64K, 256K"), "{sentence}");
    let bytes = verdict.shipped[0].rule.bytes;
    assert!(bytes.contains(65536) && !bytes.contains(1024) && !bytes.contains(1 << 20), "{bytes:?}");
}

#[test]
fn one_of_many_rules_must_show_more_than_a_single_one() {
    // Five pairs that all agree show 1 - 2^-5 = 0.969 at most.
    let lucky = ab(1024, 100.0, 80.0);
    let equal = [4096, 16384, 65536].map(|bytes| ab(bytes, 100.0, 100.0));
    let rules = |data: &[AbPoint]| {
        let one = |point: &AbPoint| merge(&[point.point], &[(point.point, CHOICE)]);
        Candidate { environment: Environment::new(), rules: data.iter().flat_map(one).collect() }
    };
    let thresholds = Thresholds { design: Design::Rounds, ..Thresholds::standard(1) };
    let shipped = |data: &[AbPoint]| verdict(data, &thresholds, &rules(data)).shipped.len();
    assert_eq!(shipped(std::slice::from_ref(&lucky)), 1);
    assert_eq!(
        shipped(&[std::slice::from_ref(&lucky), &equal[..]].concat()),
        0,
        "chance makes one of four look so now and then"
    );
    let gains = [4096, 16384, 65536].map(|bytes| ab(bytes, 100.0, 80.0));
    assert_eq!(shipped(&[&[lucky], &gains[..]].concat()), 4, "four that agree vouch for each other");
}

#[test]
fn one_rule_that_gains_among_many_that_do_not_can_ship_after_the_least_rounds() {
    let thresholds = Thresholds { design: Design::Rounds, ..Thresholds::standard(1) };
    // Found between two H200: an all-gather 1.23 times faster in every one of seven rounds, among seven rules.
    let judged = |rules: u32, rounds: u32| {
        let sizes = (0..rules).map(|rule| 1024 << rule);
        let of = |gain: f64, bytes: u64| AbPoint {
            point: point(bytes),
            weight: 1.0,
            default: (0..rounds).map(|round| (round, vec![100.0 + f64::from(round)])).collect(),
            // One round is a little slower.
            candidate: (0..rounds)
                .map(|round| (round, vec![(100.0 + f64::from(round)) / if round == 1 { 0.99 } else { gain }]))
                .collect(),
        };
        let data: Vec<AbPoint> = sizes.map(|bytes| of(if bytes == 1024 { 1.23 } else { 1.0 }, bytes)).collect();
        let one = |point: &AbPoint| merge(&[point.point], &[(point.point, CHOICE)]);
        let candidate = Candidate { environment: Environment::new(), rules: data.iter().flat_map(one).collect() };
        verdict(&data, &thresholds, &candidate)
    };
    for rules in 1..30 {
        let least = least_rounds(rules as usize, &thresholds);
        assert_eq!(judged(rules, least).shipped.len(), 1, "{rules} rules, {least} rounds");
        assert!(least <= 11, "{least} rounds for {rules} rules");
    }
    let few = judged(7, 7);
    assert_eq!(few.shipped.len(), 0);
    let sentence = &few.rules[0].sentence;
    assert!(sentence.contains("1.22x as a whole, but P(faster) is 0.98"), "{sentence}");
}

#[test]
fn gains_that_are_too_small_keep_the_defaults() {
    let data = [ab(1024, 100.0, 99.0), ab(4096, 100.0, 100.0)];
    let verdict = verdict(&data, &Thresholds::standard(1), &candidate(&data, Environment::new()));
    assert!(verdict.keeps_defaults() && !verdict.has_regression(), "{verdict:?}");
    assert_eq!(verdict.rules[0].fate, RuleFate::Drop);
    assert!(verdict.sentence.starts_with("the defaults are best"), "{}", verdict.sentence);
}

#[test]
fn noise_is_named_instead_of_guessed() {
    let noisy =
        |center: f64| -> ArmSamples { (0..5).map(|i| (i, vec![center * (0.5 + 0.25 * f64::from(i))])).collect() };
    let data = [AbPoint { point: point(1024), weight: 1.0, default: noisy(100.0), candidate: noisy(97.0) }];
    let verdict = verdict(&data, &Thresholds::standard(1), &candidate(&data, Environment::new()));
    assert_eq!(verdict.points[0].decision, Decision::TooNoisy);
    assert!(verdict.keeps_defaults());
}

#[test]
fn two_processes_per_arm_never_pass() {
    let mut data = [ab(1024, 100.0, 50.0)];
    data[0].default.retain(|process, _| *process < 2);
    data[0].candidate.retain(|process, _| *process < 2);
    let all = candidate(&data, environment());
    assert!(verdict(&data, &Thresholds::standard(1), &all).keeps_defaults());
}

#[test]
fn an_environment_ships_only_if_no_point_is_slower() {
    let good = [ab(1024, 100.0, 50.0), ab(4096, 100.0, 60.0)];
    let whole = verdict(&good, &Thresholds::standard(1), &candidate(&good, environment()));
    assert_eq!(whole.shipped_environment, environment());
    assert_eq!((shipped_sizes(&whole), whole.recheck), (vec![vec![1024, 4096]], None));

    let mixed = [ab(1024, 100.0, 50.0), ab(4096, 100.0, 130.0)];
    let rejected = verdict(&mixed, &Thresholds::standard(1), &candidate(&mixed, environment()));
    assert!(rejected.keeps_defaults(), "{rejected:?}");
    assert!(rejected.environment.unwrap().sentence.contains("surely slower: allreduce 4K loses 23.1 %"));
    assert!(rejected.rules[0].sentence.contains("does not ship"));
}

#[test]
fn what_was_not_measured_as_a_whole_is_checked_again() {
    let data = [ab(1024, 100.0, 50.0), ab(4096, 100.0, 100.0)];
    let mut tried = candidate(&data[1..], environment());
    tried.rules.extend(merge(&[point(1024)], &[(point(1024), CHOICE)]));
    let verdict = verdict(&data, &Thresholds::standard(1), &tried);
    let recheck = verdict.recheck.unwrap();
    assert_eq!(recheck.environment, environment());
    assert_eq!(recheck.rules.iter().map(|rule| rule.sizes.clone()).collect::<Vec<_>>(), [[1024]]);
}

#[test]
fn nothing_to_try_is_a_verdict() {
    let verdict = verdict(&[], &Thresholds::standard(1), &Candidate::default());
    assert_eq!(verdict.sentence, "the defaults are best: the search found nothing to try");
    let unmeasured = AbPoint { candidate: ArmSamples::new(), ..ab(1024, 1.0, 1.0) };
    let tried = candidate(std::slice::from_ref(&unmeasured), environment());
    let verdict = super::verdict(&[unmeasured], &Thresholds::standard(1), &tried);
    assert!(verdict.keeps_defaults() && verdict.points[0].decision == Decision::NotMeasured);
}

#[test]
fn settings_that_do_not_earn_their_place_are_left_out() {
    let full = environment().with("GDRTUNE_NATIVE_NSOCKS", "4");
    let tried = ablations(&full);
    assert_eq!(tried.iter().map(|a| a.environment.0.len()).collect::<Vec<_>>(), [1, 1]);
    assert!(ablations(&environment()).is_empty());
    let judged = |times: [f64; 2]| -> Vec<AblationVerdict> {
        let one =
            |(a, time): (&Ablation, f64)| judge_ablation(a, &[ab(1024, time, 100.0)], &Thresholds::standard(1), false);
        tried.iter().zip(times).map(one).collect()
    };
    let mut verdicts = judged([100.5, 190.0]);
    let kept: Vec<(&str, bool)> = verdicts.iter().map(|v| (v.name.as_str(), v.keep)).collect();
    assert_eq!(kept, [("GDRTUNE_NATIVE_NSOCKS", false), ("NCCL_SOCKET_IFNAME", true)]);
    assert_eq!(dropped(&mut verdicts), ["GDRTUNE_NATIVE_NSOCKS"]);
    let mut stand_ins = judged([100.5, 101.5]);
    assert_eq!(dropped(&mut stand_ins), ["GDRTUNE_NATIVE_NSOCKS"], "either is enough, so that one must stay");
    let mut needed = judged([100.5, 101.5]);
    needed.push(AblationVerdict::needed("A", "did not start"));
    assert_eq!(dropped(&mut needed), ["GDRTUNE_NATIVE_NSOCKS"], "what is needed to start need not be what gains");
    assert_eq!(dropped(&mut []), Vec::<String>::new());
}

#[test]
fn a_setting_is_settled_where_its_gain_is_ruled_out_or_surer_than_one_look_asks() {
    let thresholds = Thresholds { design: Design::Rounds, ..Thresholds::standard(1) };
    let settled = |count: u32, factor: f64| {
        let first = |arm: ArmSamples| arm.into_iter().take(count as usize).collect::<ArmSamples>();
        let all = rounds(1024, factor, 0.01);
        let data = AbPoint { default: first(all.default), candidate: first(all.candidate), ..all };
        let ablation = Ablation { name: "A".into(), environment: Environment::new() };
        judge_ablation(&ablation, &[data], &thresholds, false).is_settled(&thresholds)
    };
    // Nine rounds that all agree give 1 - 2^-9 = 0.998 at most.
    for (count, factor, want) in [(6, 1.0, true), (9, 2.0, false), (10, 2.0, true), (6, 1.02, false)] {
        assert_eq!(settled(count, factor), want, "{count} rounds at {factor}x");
    }
}

#[test]
fn rules_are_not_credited_with_what_the_environment_gains() {
    // The environment alone halves the time at both sizes; the rule adds a fifth at one of them and nothing at the other.
    let data = [ab(1024, 100.0, 40.0), ab(1 << 20, 1000.0, 500.0)];
    let alone = [(point(1024), arm(50.0)), (point(1 << 20), arm(500.0))];
    let rule = |bytes| merge(&[point(1024), point(1 << 20)], &[(point(bytes), CHOICE)]).remove(0);
    let tried = Candidate { environment: environment(), rules: vec![rule(1024), rule(1 << 20)] };
    let thresholds = Thresholds::standard(1);
    let verdict = verdict_apart(&data, &alone, &thresholds, &tried);
    assert_eq!(shipped_sizes(&verdict), [[1024]]);
    assert!((verdict.shipped[0].speedup.median - 1.25).abs() < 1e-9, "{:?}", verdict.shipped[0].speedup);
    assert_eq!(verdict.shipped_environment, environment());
    let evidence = verdict.environment.as_ref().unwrap().speedup.unwrap();
    assert!((evidence.median - 2.0).abs() < 1e-9, "{evidence:?}");
    assert_eq!(verdict.recheck.as_ref().unwrap().rules.len(), 1, "the reduced candidate is measured again");
    let whole: Vec<f64> = verdict.points.iter().map(|p| p.speedup.unwrap().median).collect();
    assert!((whole[0] - 2.5).abs() < 1e-9 && (whole[1] - 2.0).abs() < 1e-9, "points are judged as a whole: {whole:?}");
}

#[test]
fn an_environment_that_gains_nothing_by_itself_takes_its_rules_along() {
    let data = [ab(1024, 100.0, 50.0)];
    let alone = [(point(1024), arm(100.0))];
    let verdict = verdict_apart(&data, &alone, &Thresholds::standard(1), &candidate(&data, environment()));
    assert!(verdict.keeps_defaults(), "the caller tries the rules in the first environment instead");
    assert_eq!(verdict.points[0].decision, Decision::Ship);
}

#[test]
fn the_time_per_step_counts_what_ships_and_what_does_not_change() {
    // 10 calls of 100 us that a rule makes 50 us, 1 call of 1,000 us that stays, 5 of 10 us that were not in the A/B.
    let data = [AbPoint { weight: 10.0, ..ab(1024, 100.0, 50.0) }, ab(1 << 20, 1_000.0, 1_000.0)];
    let thresholds = Thresholds { objective: Objective::TimePerStep, ..Thresholds::standard(1) };
    let workload = [(point(1024), 10.0, 999.0), (point(1 << 20), 1.0, 1_000.0), (point(4096), 5.0, 10.0)];
    let rules = Candidate { rules: candidate(&data[..1], Environment::new()).rules, ..Candidate::default() };
    let verdict = verdict(&data, &thresholds, &rules);
    let step = step_time(&workload, &data, &verdict, &thresholds).unwrap();
    assert!((step.default_us - 2_050.0).abs() < 1e-6 && (step.tuned_us - 1_550.0).abs() < 1e-6, "{step:?}");
    assert!((step.speedup.median - 2_050.0 / 1_550.0).abs() < 1e-9, "{step:?}");
    assert!(step.speedup.low <= step.speedup.median && step.speedup.median <= step.speedup.high, "{step:?}");
    let nothing = Verdict { shipped: Vec::new(), ..verdict };
    assert_eq!(step_time(&workload, &data, &nothing, &thresholds), None);
}

#[test]
fn an_environment_is_judged_by_the_objective() {
    // 30 % faster where a step spends little, 5 % slower (which is not clearly so) where it spends most.
    let spread: ArmSamples = (0..5).map(|i| (i, vec![1050.0 * (0.9 + 0.05 * f64::from(i))])).collect();
    let slow = AbPoint { point: point(1 << 20), weight: 1.0, default: arm(1000.0), candidate: spread };
    let data = [ab(1024, 13.0, 10.0), slow];
    let ships = |objective| {
        let thresholds = Thresholds { objective, ..Thresholds::standard(1) };
        let candidate = Candidate { environment: environment(), rules: Vec::new() };
        !verdict(&data, &thresholds, &candidate).shipped_environment.is_empty()
    };
    assert!(ships(Objective::GeometricMean) && !ships(Objective::TimePerStep));
}

/// Twenty rounds whose ratios scatter by `scatter`; the candidate is faster by `factor` (or slower, below 1).
fn rounds(bytes: u64, factor: f64, scatter: f64) -> AbPoint {
    let times = |factor: f64, phase: u32| -> ArmSamples {
        let luck = |i: u32| 1.0 + scatter * ((i * 7 + phase) % 20).cast_signed() as f64 / 20.0;
        (0..20).map(|i| (i, vec![100.0 * luck(i) / factor])).collect()
    };
    AbPoint { point: point(bytes), weight: 1.0, default: times(1.0, 0), candidate: times(factor, 11) }
}

#[test]
fn a_small_loss_that_is_sure_keeps_a_variable_from_shipping_and_one_that_may_be_chance_is_said() {
    let thresholds = Thresholds { design: Design::Rounds, ..Thresholds::standard(1) };
    let judged = |loss: AbPoint| {
        let data = [rounds(1 << 20, 2.0, 0.01), rounds(1 << 26, 2.0, 0.01), loss];
        let candidate = Candidate { environment: environment(), rules: Vec::new() };
        verdict(&data, &thresholds, &candidate)
    };
    let sure = judged(rounds(1024, 1.0 / 1.013, 0.004));
    assert!(sure.keeps_defaults() && !sure.has_regression(), "less than a regression: {sure:?}");
    let sentence = sure.environment.unwrap().sentence;
    assert!(sentence.starts_with("surely slower: allreduce 1K loses 1."), "{sentence}");

    let perhaps = judged(rounds(1024, 1.0 / 1.013, 0.1));
    let sentence = &perhaps.environment.as_ref().unwrap().sentence;
    assert_eq!(perhaps.shipped_environment, environment(), "{sentence}");
    assert!(sentence.contains("surely slower at none"), "{sentence}");
    for (loss, ships) in [(rounds(1024, 1.0 / 1.008, 0.0005), true), (rounds(1024, 1.01, 0.004), true)] {
        assert_eq!(judged(loss).keeps_defaults(), !ships, "too small to count, or none");
    }
}

#[test]
fn the_few_of_many_rules_that_pass_are_measured_again() {
    let thresholds = Thresholds { design: Design::Rounds, ..Thresholds::standard(1) };
    let rechecked = |gains: usize| {
        let sizes = [10, 12, 14, 16, 18].map(|power| 1u64 << power);
        let data: Vec<AbPoint> =
            sizes.iter().enumerate().map(|(i, b)| rounds(*b, if i < gains { 1.2 } else { 1.0 }, 0.01)).collect();
        let one = |point: &AbPoint| merge(&[point.point], &[(point.point, CHOICE)]);
        let candidate = Candidate { environment: Environment::new(), rules: data.iter().flat_map(one).collect() };
        let verdict = verdict(&data, &thresholds, &candidate);
        assert_eq!(verdict.shipped.len(), gains);
        verdict.recheck.map(|recheck| recheck.rules.len())
    };
    assert_eq!([0, 1, 2, 3, 5].map(rechecked), [None, Some(1), Some(2), None, None]);
}
