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

/// The choices that were asked first, so many of them, and the picks then.
fn run(time_us: impl Fn(Choice) -> f64, samples: usize) -> (Vec<Choice>, Vec<Choice>) {
    let points: Vec<Point> =
        (0..6).map(|step| Point { collective: Collective::AllReduce, bytes: 1 << (18 + step) }).collect();
    let choices = [Protocol::Simple, Protocol::Ll].into_iter().flat_map(|p| CHANNELS.map(|count| choice(p, count)));
    let choices = BTreeMap::from([(Collective::AllReduce, choices.collect())]);
    let config = RaceConfig::standard(1);
    let mut race = Race::new(&WeightedPoint::equal(points), &choices, config, None, Quarantine::default());
    let mut asked = Vec::new();
    while asked.len() < samples {
        let items = race.next().unwrap();
        for (item, choice) in items.iter().enumerate().filter_map(|(item, asked)| Some((item, asked.choice?))) {
            let time_us = time_us(choice);
            let (slowest_us, median_us, max_us) = (time_us, time_us, time_us);
            let timing = Timing { time_us, slowest_us, median_us, max_us, cpu_us: 0.0, iterations: 1, selected: None };
            race.tell(&Sample { item, process: 0, outcome: Outcome::Timed(timing) });
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
