//! Who plays, and with which settings.

use std::error::Error;

use gdrtune_tuner::search::SearchError;
use rand::{SeedableRng, rngs::SmallRng};

use crate::{
    elimination::{Halving, RankRace, exhaustive},
    game::{Game, Play, Rule},
    local::{Annealing, CoordinateDescent, random},
    oracle::Oracle,
    ours,
    top_two::TopTwo,
};

type Failure = Box<dyn Error>;
type Player = dyn Fn(&mut Play<'_>, u64) -> Result<(), Failure>;

/// One contestant with one setting. Rivals come with several, and are judged by the best one of each budget.
pub(crate) struct Contestant {
    pub(crate) name: &'static str,
    pub(crate) variant: String,
    play: Box<Player>,
}

impl Contestant {
    fn new(
        name: &'static str,
        variant: impl Into<String>,
        play: impl Fn(&mut Play<'_>, &mut SmallRng) + 'static,
    ) -> Self {
        let seeded = move |table: &mut Play<'_>, seed| {
            play(table, &mut SmallRng::seed_from_u64(seed));
            Ok(())
        };
        Self { name, variant: variant.into(), play: Box::new(seeded) }
    }

    /// Plays once.
    pub(crate) fn play<'a>(&self, game: &'a Game, budget: u64, seed: u64) -> Result<Play<'a>, Failure> {
        let mut play = Play::new(game, budget, seed);
        (self.play)(&mut play, seed)?;
        Ok(play)
    }

    /// Whether it is our search, whose pick is its own and no rule's.
    pub(crate) fn is_ours(&self) -> bool {
        self.name == OURS
    }
}

const OURS: &str = "ours";

/// Everybody, the oracle with allotments up to `most` draws.
pub(crate) fn all(game: &Game, most: u64) -> Vec<Contestant> {
    let search = |play: &mut Play<'_>, seed| ours::search(play, seed).map_err(|error: SearchError| error.into());
    let mut all = vec![
        Contestant { name: OURS, variant: "library".into(), play: Box::new(search) },
        Contestant::new("exhaustive", "", exhaustive),
    ];
    for eta in [1.5, 2.0, 3.0, 4.0] {
        for rule in [Rule::Median, Rule::Mean] {
            for start in [0.5, 1.0] {
                let variant =
                    format!("eta {eta}, {} cells, kept {}", if start < 1.0 { "half the" } else { "all" }, rule.name());
                let halving = Halving { eta, rule, start };
                all.push(Contestant::new("successive halving", variant, move |p, r| halving.play(p, r)));
            }
        }
    }
    for (thompson, leader) in [(false, "lowest mean"), (true, "Thompson")] {
        for (least_sure, point) in [(false, "points in turn"), (true, "least sure point")] {
            let race = TopTwo { thompson, least_sure };
            let variant = format!("leader {leader}, {point}");
            all.push(Contestant::new("top-two race", variant, move |p, r| race.play(p, r)));
        }
    }
    for alpha in [0.01, 0.02, 0.05, 0.1, 0.2, 0.35] {
        let race = RankRace { alpha };
        all.push(Contestant::new("rank race", format!("level {alpha}"), move |p, r| race.play(p, r)));
    }
    for repeats in [1, 2, 3, 5] {
        let variant = format!("{repeats} draws each");
        let descent = CoordinateDescent { repeats };
        all.push(Contestant::new("coordinate descent (AutoCCL)", variant.clone(), move |p, r| descent.play(p, r)));
        all.push(Contestant::new("random", variant, move |p, r| random(p, r, repeats)));
    }
    for temperature in [3.0, 10.0, 30.0] {
        for repeats in [1, 3] {
            let annealing = Annealing { temperature, repeats };
            let play = move |play: &mut Play<'_>, seed| {
                annealing.play(play, &mut SmallRng::seed_from_u64(seed)).map_err(Failure::from)
            };
            let variant = format!("from {temperature} %, {repeats} draws each");
            all.push(Contestant { name: "simulated annealing (argmin)", variant, play: Box::new(play) });
        }
    }
    for (spare, name) in [(false, "oracle, every cell drawn"), (true, "oracle, close cells drawn")] {
        let oracle = Oracle::new(game, most, spare);
        all.push(Contestant::new(name, "", move |p, _| oracle.play(p)));
    }
    all
}
