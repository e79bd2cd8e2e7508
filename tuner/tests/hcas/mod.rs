//! The search on clusters whose nodes have HCAs of different worth: which list is best shows by measuring only.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::collections::{BTreeMap, BTreeSet};

use gdrtune_profiles::{
    bindings::{
        Bindings, HCAS, Node,
        ceilings::{Ceiling, Ceilings, Memory, Outcome},
    },
    grammar::hca::HcaList,
    space::SpaceFile,
    topology::{Gpu, Hca, Machine, Port},
    version::Version,
    vocab::{Algorithm, Choice, Collective, Engine, Environment, PcieDistance, Point, Protocol},
};
use gdrtune_tuner::{
    bench::Cancel,
    objective::{Objective, WeightedPoint},
    observe::Silent,
    race::{Predictions, RaceConfig},
    search::{SearchOutcome, SearchPlan, Strategy, run_search},
    space::{Facts, NcclFacts, Space, Transport},
};

use super::common::{Answer, Fake, Model};

/// HCAs `mlx5_N` with these rates in Gbit/s; each of the first `gpus` is at the switch of a GPU, the others are across sockets.
fn machine(gpus: usize, rates: &[u32]) -> Machine {
    let hca = |(at, rate): (usize, &u32)| Hca {
        name: format!("mlx5_{at}"),
        ports: vec![Port {
            number: 1,
            state: "ACTIVE".into(),
            link_layer: "InfiniBand".into(),
            rate: format!("{rate} Gb/s"),
        }],
        ..Hca::default()
    };
    let distance = |gpu: usize, at: usize| Some(if gpu == at { PcieDistance::Pix } else { PcieDistance::Sys });
    Machine {
        gpus: vec![Gpu::default(); gpus],
        hcas: rates.iter().enumerate().map(hca).collect(),
        to_hcas: (0..gpus).map(|gpu| (0..rates.len()).map(|at| distance(gpu, at)).collect()).collect(),
        ..Machine::default()
    }
}

fn bindings(machine: &Machine, ceilings: &Ceilings) -> Bindings {
    Bindings::of(&[Node::whole("n1", machine), Node::whole("n2", machine)], ceilings)
}

fn space(bindings: Bindings, ranks: u32) -> Space {
    let pairs = [(Algorithm::Tree, Protocol::Ll), (Algorithm::Ring, Protocol::Simple)];
    let facts = Facts {
        engine: Engine::Nccl,
        nodes: 2,
        ranks,
        bindings,
        collectives: vec![Collective::AllReduce],
        max_channels: 8,
        selection: SpaceFile::preset(SpaceFile::STANDARD).unwrap().selection,
        adds: Vec::new(),
        pins: BTreeMap::new(),
        excludes: BTreeSet::new(),
        forced: BTreeSet::new(),
        nccl: NcclFacts {
            version: Some(Version::new(2, 28)),
            allowed: [(Collective::AllReduce, pairs.into())].into(),
            channels: Some(8),
            transport: Transport::Verbs,
        },
    };
    Space::build(&facts).unwrap().space
}

fn search(model: Model, space: &Space, seed: u64) -> SearchOutcome {
    let points = [1 << 16, 1 << 20, 1 << 26].map(|bytes| Point { collective: Collective::AllReduce, bytes });
    let plan = SearchPlan {
        points: WeightedPoint::equal(points),
        objective: Objective::GeometricMean,
        budget_trials: 3_000,
        budget_s: f64::INFINITY,
        strategy: Strategy::Auto,
        seed,
        least_gain: 0.02,
        race: RaceConfig::standard(seed),
        predictions: Predictions::new(),
    };
    run_search(&mut Fake::new(model, 0.03, seed), space, &plan, &mut Silent, &Cancel::new()).unwrap()
}

/// Microseconds of a point over rails that take even shares: `gbs` are their bandwidths, in order of their names.
fn even_shares(environment: &Environment, point: Point, choice: Option<Choice>, gbs: &[f64]) -> Answer {
    let list = environment.get(HCAS).map(|value| HcaList::parse(value).unwrap());
    let is_bound = |at: usize| list.as_ref().is_none_or(|list| list.matches(&format!("mlx5_{at}"), 1));
    let bound: Vec<f64> = gbs.iter().enumerate().filter(|(at, _)| is_bound(*at)).map(|(_, gbs)| *gbs).collect();
    let slowest = bound.iter().copied().fold(f64::INFINITY, f64::min);
    let rest = if choice.is_some_and(|choice| choice.algorithm == Algorithm::Tree) { 1.1 } else { 1.0 };
    Answer::Time(rest * (30.0 + point.bytes as f64 / (1e3 * slowest * bound.len() as f64)))
}

/// Four rails of 200 Gbit/s, and a storage port of 100.
fn with_storage(environment: &Environment, point: Point, choice: Option<Choice>) -> Answer {
    even_shares(environment, point, choice, &[24.0, 24.0, 24.0, 24.0, 11.0])
}

#[test]
fn a_storage_port_is_found_to_be_in_the_way() {
    let machine = machine(4, &[200, 200, 200, 200, 100]);
    let space = space(bindings(&machine, &Ceilings::default()), 8);
    for seed in 1..=10 {
        let outcome = search(with_storage, &space, seed);
        let found = outcome.environment.get(HCAS);
        assert_eq!(found, Some("=mlx5_0:1,mlx5_1:1,mlx5_2:1,mlx5_3:1"), "seed {seed}");
    }
}

/// Two rails that look alike, of which one is slower than half of the other.
fn first_slow(environment: &Environment, point: Point, choice: Option<Choice>) -> Answer {
    even_shares(environment, point, choice, &[6.0, 24.0])
}

fn second_slow(environment: &Environment, point: Point, choice: Option<Choice>) -> Answer {
    even_shares(environment, point, choice, &[24.0, 6.0])
}

#[test]
fn the_faster_of_two_rails_that_look_alike_wins_and_a_probe_says_so_before() {
    let machine = machine(2, &[200, 200]);
    let unknown = space(bindings(&machine, &Ceilings::default()), 4);
    for (model, best) in [(first_slow as Model, "=mlx5_1:1"), (second_slow, "=mlx5_0:1")] {
        for seed in 1..=10 {
            assert_eq!(search(model, &unknown, seed).environment.get(HCAS), Some(best), "seed {seed}");
        }
    }
    let way = |hca: &str, node: &str, peer: &str, gbs| {
        let [hca, node, peer] = [hca, node, peer].map(str::to_owned);
        Ceiling { node, hca, port: 1, peer, memory: Memory::Host, outcome: Outcome::Measured { gbs, us: None } }
    };
    let ways = |hca: &str, gbs: f64| [way(hca, "n1", "n2", gbs), way(hca, "n2", "n1", gbs)];
    let ceilings = Ceilings { links: [ways("mlx5_0", 6.0), ways("mlx5_1", 24.0)].concat() };
    let probed = space(bindings(&machine, &ceilings), 4);
    let values = |space: &Space| space.dimensions.iter().find(|d| d.name == HCAS).map(|d| d.values.len());
    assert_eq!((values(&unknown), values(&probed)), (Some(3), Some(2)), "what is useless is not searched");
    let outcome = search(first_slow, &probed, 1);
    assert_eq!(outcome.environment.get(HCAS), Some("=mlx5_1:1"));
}
