//! The search on what four hosts with a 4 Gbit/s and a 500 Mbit/s rail answered (native engine, medians of a real run):
//! three sizes far apart, choices that differ by up to ten times, and an environment that is three times faster.

mod devices;

use std::collections::BTreeSet;

use gdrtune_profiles::{
    space::SpaceFile,
    vocab::{Algorithm, Choice, Collective, Engine, Environment, Point, Protocol},
};
use gdrtune_tuner::{
    bench::{Bench, BenchError, BenchInfo, Cancel, Item, Outcome, Sample, Script, Setup, Timing},
    objective::{Objective, WeightedPoint},
    observe::Silent,
    race::{Currency, Predictions, Quarantine, Race, RaceConfig},
    search::{SearchPlan, Strategy, run_search},
    space::{Facts, Space},
};
use rand::{Rng, SeedableRng, rngs::SmallRng};

const SIZES: [u64; 3] = [64 << 10, 1 << 20, 16 << 20];

/// Time in microseconds over both rails with two channels, by size.
fn both_rails_us(choice: Choice, size: usize) -> f64 {
    let by_size = match (choice.algorithm, choice.protocol) {
        (Algorithm::Ring, Protocol::Ll) => [418.0, 12_966.0, 232_870.0],
        (Algorithm::Ring, Protocol::Ll128) => [623.0, 13_204.0, 210_868.0],
        (Algorithm::Ring, _) => [414.0, 12_690.0, 213_157.0],
        (_, Protocol::Ll) => [869.0, 40_931.0, 808_470.0],
        (_, Protocol::Ll128) => [745.0, 26_806.0, 483_245.0],
        (_, _) => [1_297.0, 34_859.0, 501_629.0],
    };
    let channels = f64::from(choice.channels.max(2));
    by_size[size] * (1.0 + 0.03 * (channels - 2.0)) + 100.0 * (channels - 2.0)
}

struct TwoRails {
    random: SmallRng,
    now_s: f64,
    /// Width of the noise (relative).
    noise: f64,
}

impl TwoRails {
    fn new(seed: u64, noise: f64) -> Self {
        Self { random: SmallRng::seed_from_u64(seed), now_s: 2.0, noise }
    }

    fn time_us(&mut self, environment: &Environment, item: &Item) -> f64 {
        let own = Choice { algorithm: Algorithm::Ring, protocol: Protocol::Simple, channels: 2 };
        let size = SIZES.iter().position(|&bytes| bytes == item.point.bytes).unwrap_or_default();
        let rail = match environment.get("NCCL_SOCKET_IFNAME") {
            Some("=railA") => [0.6, 0.37, 0.33][size],
            Some("=railB") => [2.0, 2.2, 2.2][size],
            _ => 1.0,
        };
        let chunk = if environment.get("GDRTUNE_NATIVE_CHUNKSIZE").is_some() { 1.01 } else { 1.0 };
        let noise = 1.0 + self.noise * (self.random.random::<f64>() - 0.5);
        both_rails_us(item.choice.unwrap_or(own), size) * rail * chunk * noise
    }
}

impl Bench for TwoRails {
    fn info(&self) -> BenchInfo {
        BenchInfo { engine: Engine::Native, nodes: 4, ranks: 4 }
    }

    fn now_s(&self) -> f64 {
        self.now_s
    }

    fn run(&mut self, script: &Script, _: &Cancel, sink: &mut dyn FnMut(Sample)) -> Result<(), BenchError> {
        let environment = match &script.setup {
            Setup::Live(environment) => environment.clone(),
            Setup::Site | Setup::Deployed(_) => Environment::new(),
        };
        for (index, item) in script.items.iter().enumerate() {
            for _ in 0..item.repeats {
                let time_us = self.time_us(&environment, item);
                // Check, warm-up and two timed calls.
                self.now_s += 4.0 * time_us / 1e6;
                let two_rails = environment.get("NCCL_SOCKET_IFNAME").is_none();
                let selected =
                    item.choice.map(|c| Choice { channels: c.channels.max(if two_rails { 2 } else { 1 }), ..c });
                let timing = Timing {
                    time_us,
                    slowest_us: time_us,
                    median_us: time_us,
                    max_us: time_us,
                    cpu_us: 0.0,
                    iterations: 1,
                    selected,
                };
                let outcome = match (selected, item.choice) {
                    (Some(selected), Some(asked)) if selected != asked => Outcome::Substituted { selected, timing },
                    _ => Outcome::Timed(timing),
                };
                sink(Sample { item: index, process: 0, outcome });
            }
        }
        Ok(())
    }
}

fn points() -> [Point; 3] {
    SIZES.map(|bytes| Point { collective: Collective::AllReduce, bytes })
}

fn space() -> Space {
    Space::build(&Facts {
        engine: Engine::Native,
        nodes: 4,
        ranks: 4,
        bindings: devices::interfaces(&["railA", "railB"]),
        collectives: vec![Collective::AllReduce],
        max_channels: 8,
        selection: SpaceFile::preset(SpaceFile::STANDARD).expect("a preset").selection,
        adds: Vec::new(),
        pins: [].into(),
        forced: std::collections::BTreeSet::new(),
        nccl: gdrtune_tuner::space::NcclFacts::default(),
        excludes: [].into(),
    })
    .expect("a space")
    .space
}

#[test]
fn the_fast_rail_and_ring_are_found_within_a_minute_of_measuring() {
    for seed in 1..=10 {
        let space = space();
        let plan = SearchPlan {
            points: WeightedPoint::equal(points()),
            objective: Objective::GeometricMean,
            budget_trials: u64::MAX,
            budget_s: 45.0,
            strategy: Strategy::Auto,
            seed,
            least_gain: 0.02,
            race: RaceConfig::standard(seed),
            predictions: Predictions::new(),
        };
        let mut bench = TwoRails::new(seed, 0.03);
        let outcome = run_search(&mut bench, &space, &plan, &mut Silent, &Cancel::new()).unwrap();
        let tried: Vec<String> =
            outcome.environments.iter().map(|e| format!("{}: {:.3}", e.environment, e.score)).collect();
        assert_eq!(outcome.environment.get("NCCL_SOCKET_IFNAME"), Some("=railA"), "seed {seed}: {tried:?}");
        // A third of the 27 at most.
        assert!(outcome.environments.len() <= 9, "seed {seed}: {tried:?}");
        for result in &outcome.points {
            let choice = result.pick.choice.unwrap();
            assert_eq!(choice.algorithm, Algorithm::Ring, "seed {seed}, {}: {choice}; {tried:?}", result.pick.point);
        }
    }
}

/// Races over the fast rail for 12 seconds; gives the log regret of the picks and the samples per size.
fn race_seconds(seed: u64, currency: Currency) -> (f64, [usize; 3]) {
    let config = RaceConfig { currency, ..RaceConfig::standard(seed) };
    let choices = space().choices;
    let mut race = Race::new(&WeightedPoint::equal(points()), &choices, config, None, Quarantine::default());
    let mut bench = TwoRails::new(seed, 0.3);
    let mut samples = [0; 3];
    let mut measured = BTreeSet::new();
    let environment = Environment::new().with("NCCL_SOCKET_IFNAME", "=railA");
    while bench.now_s < 14.0 {
        let Some(items) = race.next() else { break };
        let script = Script { setup: Setup::Live(environment.clone()), fresh: false, items };
        let mut told = Vec::new();
        bench.run(&script, &Cancel::new(), &mut |sample| told.push(sample)).expect("a bench that never fails");
        for sample in told {
            let item = &script.items[sample.item];
            samples[SIZES.iter().position(|&bytes| bytes == item.point.bytes).unwrap_or_default()] += 1;
            measured.insert((item.point, item.choice));
            race.tell(&sample);
        }
    }
    let picks = race.picks();
    assert!(picks.iter().all(|pick| measured.contains(&(pick.point, pick.choice))), "{picks:?}");
    let regret = |size: usize| {
        let time_us = |choice: &Choice| both_rails_us(*choice, size);
        let best = choices[&Collective::AllReduce].iter().map(time_us).fold(f64::INFINITY, f64::min);
        let pick = picks.iter().find(|pick| pick.point.bytes == SIZES[size]).and_then(|pick| pick.choice);
        pick.map_or(1.0, |choice| (time_us(&choice) / best).ln())
    };
    ((0..3).map(regret).sum::<f64>() / 3.0, samples)
}

#[test]
fn where_seconds_count_quick_points_get_more_samples_and_the_picks_are_better() {
    let (mut regrets, mut quick) = ([0.0; 2], [0; 2]);
    for seed in 0..60 {
        for (index, currency) in [Currency::Trials, Currency::Seconds].into_iter().enumerate() {
            let (regret, samples) = race_seconds(seed, currency);
            regrets[index] += regret / 60.0;
            quick[index] += samples[0] + samples[1];
        }
    }
    assert!(regrets[1] < regrets[0] && regrets[1] < 0.01, "{regrets:?}");
    assert!(3 * quick[0] < 2 * quick[1], "{quick:?}");
}
