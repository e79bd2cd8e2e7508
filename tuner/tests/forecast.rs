//! The race where the engine predicts its choices: right, wrong and not at all.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::collections::{BTreeMap, BTreeSet};

use gdrtune_profiles::vocab::{Algorithm, Choice, Collective, Point, Protocol};
use gdrtune_tuner::{
    bench::{Item, Outcome, Sample, Timing},
    objective::WeightedPoint,
    race::{Pick, Predictions, Quarantine, Race, RaceConfig},
};
use rand::{Rng, SeedableRng, rngs::SmallRng};

type Family = (Algorithm, Protocol);

const BEST: Family = (Algorithm::Ring, Protocol::Simple);
/// Families and how many times slower than the best they are.
const FAMILIES: [(Family, f64); 6] = [
    (BEST, 1.0),
    ((Algorithm::Ring, Protocol::Ll128), 1.2),
    ((Algorithm::Tree, Protocol::Simple), 1.4),
    ((Algorithm::Ring, Protocol::Ll), 2.5),
    ((Algorithm::Tree, Protocol::Ll128), 30.0),
    ((Algorithm::Tree, Protocol::Ll), 40.0),
];
const CHANNELS: [u16; 4] = [1, 2, 4, 8];

fn points() -> Vec<Point> {
    (0..8).map(|step| Point { collective: Collective::AllReduce, bytes: 1024 << (2 * step) }).collect()
}

fn family(choice: Choice) -> Family {
    (choice.algorithm, choice.protocol)
}

/// Four channels are best, a halving or doubling costs a fifth.
fn time_us(point: Point, choice: Choice) -> f64 {
    let factor = FAMILIES.iter().find(|(known, _)| *known == family(choice)).unwrap().1;
    let steps = (f64::from(choice.channels) / 4.0).log2().abs();
    (20.0 + point.bytes as f64 / 10_000.0) * factor * 1.2_f64.powf(steps)
}

/// What is true at four channels, times `error` of the point and the family.
fn predictions(error: impl Fn(usize, Family) -> f64) -> Predictions {
    let choice = |(algorithm, protocol)| Choice { algorithm, protocol, channels: 4 };
    let of = |(index, point): (usize, Point)| {
        let time_us = |(family, _): (Family, f64)| (family, error(index, family) * time_us(point, choice(family)));
        (point, FAMILIES.into_iter().map(time_us).collect())
    };
    points().into_iter().enumerate().map(of).collect()
}

fn race(seed: u64) -> Race {
    let choices = FAMILIES
        .iter()
        .flat_map(|&((algorithm, protocol), _)| CHANNELS.map(|channels| Choice { algorithm, protocol, channels }));
    let choices = BTreeMap::from([(Collective::AllReduce, choices.collect())]);
    let points = WeightedPoint::equal(points());
    Race::new(&points, &choices, RaceConfig::standard(seed), None, Quarantine::default())
}

/// What was asked, in order, and the picks after at most so many samples.
fn run(mut race: Race, seed: u64, samples: usize) -> (Vec<Item>, Vec<Pick>) {
    let mut random = SmallRng::seed_from_u64(seed);
    let mut asked = Vec::new();
    while asked.len() < samples {
        let Some(items) = race.next() else { break };
        for (item, Item { point, choice, .. }) in items.iter().enumerate() {
            let noise: f64 = (0..4).map(|_| random.random_range(-0.05..0.05)).sum();
            let time_us = choice.map_or(1.0, |choice| time_us(*point, choice)) * noise.exp();
            let (slowest_us, median_us, max_us) = (time_us, time_us, time_us);
            let timing = Timing { time_us, slowest_us, median_us, max_us, cpu_us: 0.0, iterations: 1, selected: None };
            race.tell(&Sample { item, process: 0, outcome: Outcome::Timed(timing) });
        }
        asked.extend(items);
    }
    let picks = race.picks();
    (asked, picks)
}

fn foreseen(seed: u64, predictions: &Predictions) -> Race {
    let mut race = race(seed);
    race.foresee(predictions);
    race
}

fn hopeless(asked: &[Item]) -> usize {
    let slow = |choice: Choice| FAMILIES.iter().any(|&(known, factor)| known == family(choice) && 10.0 < factor);
    asked.iter().filter(|item| item.choice.is_some_and(slow)).count()
}

/// Mean log of how much slower the picks are than the best.
fn regret(picks: &[Pick]) -> f64 {
    let best = Choice { algorithm: BEST.0, protocol: BEST.1, channels: 4 };
    let of = |pick: &Pick| (time_us(pick.point, pick.choice.unwrap()) / time_us(pick.point, best)).ln();
    picks.iter().map(of).sum::<f64>() / picks.len() as f64
}

#[test]
fn a_race_begins_with_what_is_predicted_to_be_fast_and_leaves_the_hopeless_for_later() {
    // Off by up to two, as NCCL's are.
    let right = predictions(|index, family| [1.0, 0.6, 1.8][(index + family.1 as usize) % 3]);
    for seed in 0..20 {
        let (asked, _) = run(foreseen(seed, &right), seed, 1);
        let least = |predicted: &BTreeMap<Family, f64>| *predicted.iter().min_by(|a, b| a.1.total_cmp(b.1)).unwrap().0;
        // The opening is in two scripts: the smaller sizes first.
        let smaller = asked.iter().map(|item| item.point).collect::<BTreeSet<_>>().len();
        for item in &asked[..smaller] {
            assert_eq!(family(item.choice.unwrap()), least(&right[&item.point]), "seed {seed}: {asked:?}");
        }
        assert_eq!(hopeless(&asked), 0);
    }
    // Where samples are few nothing goes to the hopeless, and at the end no more than without predictions.
    for (samples, share) in [(100, 0), (1000, 1)] {
        let (mut slow, mut regrets) = ([0; 2], [0.0; 2]);
        for seed in 0..30 {
            for (index, race) in [race(seed), foreseen(seed, &right)].into_iter().enumerate() {
                let (asked, picks) = run(race, seed, samples);
                assert_eq!(picks.len(), points().len());
                slow[index] += hopeless(&asked);
                regrets[index] += regret(&picks) / 30.0;
            }
        }
        assert!(0 < slow[0] && slow[1] <= share * slow[0], "{samples}: {slow:?}");
        assert!(regrets[1] < 0.005 + regrets[0] && regrets[1] < 0.01, "{samples}: {regrets:?}");
    }
}

#[test]
fn a_wrong_prediction_delays_the_best_choice_and_does_not_hide_it() {
    for (error, at) in [(20.0, 0..8), (1000.0, 0..8), (20.0, 3..4), (1000.0, 3..4)] {
        let wrong = predictions(|index, family| if family == BEST && at.contains(&index) { error } else { 1.0 });
        for seed in 0..10 {
            let (asked, picks) = run(foreseen(seed, &wrong), seed, 3000);
            let opening = FAMILIES.len() * points().len() / 2;
            let is_best = |item: &Item| item.choice.is_some_and(|choice| family(choice) == BEST);
            assert!(!asked[..opening].iter().any(|item| is_best(item) && item.point == points()[3]), "{asked:?}");
            assert!(regret(&picks) < 0.01, "{error} at {at:?}, seed {seed}: {picks:?}");
        }
    }
}

#[test]
fn a_family_that_turns_out_good_at_one_size_waits_at_no_other() {
    let wrong = predictions(|_, family| if family == BEST { 20.0 } else { 1.0 });
    for seed in 0..10 {
        let (asked, _) = run(foreseen(seed, &wrong), seed, 3000);
        let is_best = |item: &Item| item.choice.is_some_and(|choice| family(choice) == BEST);
        let first = |point| asked.iter().position(|item| item.point == point && is_best(item)).unwrap();
        let first: Vec<usize> = points().into_iter().map(first).collect();
        let (earliest, last) = (first.iter().min().unwrap(), first.iter().max().unwrap());
        assert!(last - earliest < 40, "seed {seed}: {first:?}");
    }
}

#[test]
fn without_predictions_of_its_choices_a_race_is_what_it_was() {
    let elsewhere = (Algorithm::Nvls, Protocol::Simple);
    let other: Predictions = points().into_iter().map(|point| (point, [(elsewhere, 1.0)].into())).collect();
    for seed in 0..5 {
        let plain = run(race(seed), seed, 400).0;
        for predictions in [Predictions::new(), other.clone()] {
            assert_eq!(run(foreseen(seed, &predictions), seed, 400).0, plain);
        }
    }
}
