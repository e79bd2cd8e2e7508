//! The race where channels carry the bytes, as over `NVLink`: a family that is behind with few of them leads with all.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::collections::BTreeMap;

use gdrtune_profiles::vocab::{Algorithm, Choice, Collective, Point, Protocol};
use gdrtune_tuner::{
    bench::{Outcome, Sample, Timing},
    objective::WeightedPoint,
    race::{Quarantine, Race, RaceConfig},
};

const CHANNELS: [u16; 6] = [1, 2, 4, 8, 16, 24];

fn choice(protocol: Protocol, channels: u16) -> Choice {
    Choice { algorithm: Algorithm::Ring, protocol, channels }
}

/// Microseconds of an all-reduce of 1 MiB on two H200, about: LL waits least and carries least per channel.
fn carried(choice: Choice) -> f64 {
    let channels = f64::from(choice.channels);
    match choice.protocol {
        Protocol::Ll => 8.0 + 196.0 / channels,
        _ => 22.0 + 48.0 / channels,
    }
}

/// Channels only cost, as in the latency of small messages.
fn costly(choice: Choice) -> f64 {
    let base = if choice.protocol == Protocol::Ll { 10.0 } else { 14.0 };
    base + f64::from(choice.channels)
}

fn race(points: Vec<Point>, channels: &[u16]) -> Race {
    let families = [Protocol::Simple, Protocol::Ll].into_iter();
    let choices = families.flat_map(|protocol| channels.iter().map(move |count| choice(protocol, *count)));
    let choices = BTreeMap::from([(Collective::AllReduce, choices.collect())]);
    Race::new(&WeightedPoint::equal(points), &choices, RaceConfig::standard(1), None, Quarantine::default())
}

fn timing(time_us: f64) -> Timing {
    let (slowest_us, median_us, max_us) = (time_us, time_us, time_us);
    Timing { time_us, slowest_us, median_us, max_us, cpu_us: 0.0, iterations: 1, selected: None }
}

/// Races at one point until there is nothing left to ask, where the engine gives so many channels at least and at most.
fn run_between(channels: &[u16], least: u16, most: u16) -> (Vec<Option<Choice>>, Option<Choice>) {
    let mut race = race(vec![Point { collective: Collective::AllReduce, bytes: 1 << 20 }], channels);
    let mut asked = Vec::new();
    while let Some(items) = race.next() {
        for (item, choice) in items.iter().map(|item| item.choice).enumerate() {
            asked.push(choice);
            let selected = choice.map(|asked| Choice { channels: asked.channels.clamp(least, most), ..asked });
            let timing = timing(selected.map_or(50.0, carried));
            let outcome = match selected {
                Some(selected) if choice != Some(selected) => Outcome::Substituted { selected, timing },
                _ => Outcome::Timed(timing),
            };
            race.tell(&Sample { item, process: 0, outcome });
        }
    }
    let pick = race.picks().into_iter().next().unwrap();
    (asked, pick.choice)
}

/// The choices that were asked first, so many of them, and the picks then.
fn run(time_us: impl Fn(Choice) -> f64, samples: usize) -> (Vec<Choice>, Vec<Choice>) {
    let points: Vec<Point> =
        (0..6).map(|step| Point { collective: Collective::AllReduce, bytes: 1 << (18 + step) }).collect();
    let mut race = race(points, &CHANNELS);
    let mut asked = Vec::new();
    while asked.len() < samples {
        let items = race.next().unwrap();
        for (item, choice) in items.iter().enumerate().filter_map(|(item, asked)| Some((item, asked.choice?))) {
            race.tell(&Sample { item, process: 0, outcome: Outcome::Timed(timing(time_us(choice))) });
            asked.push(choice);
        }
    }
    let picks = race.picks().into_iter().map(|pick| pick.choice.unwrap()).collect();
    (asked, picks)
}

#[test]
fn a_family_that_is_behind_with_few_channels_is_found_where_they_carry_the_bytes() {
    // Two anchors, the leader's widest and the other's, at each of six points.
    let (_, picks) = run(carried, 4 * 6);
    assert_eq!(picks, [choice(Protocol::Ll, 24); 6]);
}

#[test]
fn where_channels_gain_nothing_the_others_widest_has_no_turn_of_its_own() {
    let opening = 3 * 6;
    let (asked, _) = run(costly, opening + 1);
    assert!(asked[opening..].iter().any(|asked| *asked != choice(Protocol::Simple, 24)), "{asked:?}");
}

#[test]
fn channels_that_the_engine_does_not_give_are_asked_for_once() {
    for (least, most, best) in
        [(4, 64, choice(Protocol::Ll, 24)), (1, 8, choice(Protocol::Simple, 8)), (4, 4, choice(Protocol::Simple, 4))]
    {
        let (asked, pick) = run_between(&CHANNELS, least, most);
        assert_eq!(pick, Some(best), "{least} to {most}");
        let given = asked.iter().flatten().filter(|asked| (least..=most).contains(&asked.channels)).count();
        // Two scripts at most have some: the low ones and the high ones.
        assert!(asked.len() - given <= 8, "{least} to {most}: {asked:?}");
        assert!(
            asked.iter().all(|once| once.is_none_or(|once| {
                let times = asked.iter().filter(|asked| **asked == Some(once)).count();
                (least..=most).contains(&once.channels) || times == 1
            })),
            "{least} to {most}: {asked:?}"
        );
    }
}

#[test]
fn where_every_choice_runs_as_something_else_the_own_choice_is_measured() {
    let (asked, pick) = run_between(&[1, 2], 3, 64);
    assert_eq!(pick, None);
    assert!(3 <= asked.iter().filter(|asked| asked.is_none()).count(), "{asked:?}");
}

#[test]
fn an_environment_with_fewer_rails_is_first_looked_at_with_fewer_channels_too() {
    let point = Point { collective: Collective::AllReduce, bytes: 1 << 20 };
    let mut many_rails = race(vec![point], &[1, 2, 4, 12]);
    for channels in [1, 2, 4, 12] {
        let (asked, selected) = (choice(Protocol::Ll, channels), choice(Protocol::Ll, 12));
        let timing = timing(carried(selected));
        let outcome =
            if asked == selected { Outcome::Timed(timing) } else { Outcome::Substituted { selected, timing } };
        many_rails.learn(point, Some(asked), &outcome);
    }
    let choices = [1, 2, 4, 12].map(|channels| choice(Protocol::Ll, channels));
    let choices = BTreeMap::from([(Collective::AllReduce, choices.to_vec())]);
    let (config, knowledge) = (RaceConfig::standard(1), many_rails.knowledge());
    let points = WeightedPoint::equal([point]);
    let mut one_rail = Race::new(&points, &choices, config, Some(&knowledge), Quarantine::default());
    let mut first: Vec<Option<Choice>> = one_rail.next().unwrap().into_iter().map(|item| item.choice).collect();
    first.sort();
    assert_eq!(first, [Some(choice(Protocol::Ll, 2)), Some(choice(Protocol::Ll, 12))]);
}
