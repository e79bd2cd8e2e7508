//! Rivals that measure everything and then drop what is behind: equal repeats, successive halving, a race by ranks.

use gdrtune_tuner::stats;
use rand::{rngs::SmallRng, seq::SliceRandom};

use crate::game::{Play, Rule};

/// Every cell as often as every other; what does not divide goes to random cells.
pub(crate) fn exhaustive(play: &mut Play<'_>, random: &mut SmallRng) {
    let mut order: Vec<usize> = (0..play.game.cells.len()).collect();
    while 0 < play.left {
        order.shuffle(random);
        for cell in &order {
            play.draw(*cell);
        }
    }
}

/// Successive halving at each point: of `eta` cells one stays, and every round gets the same number of draws
/// (Karnin, Koren and Somekh 2013). Points share the budget by their cells.
pub(crate) struct Halving {
    pub(crate) eta: f64,
    /// By what cells are kept.
    pub(crate) rule: Rule,
    /// Share of the cells that start, chosen at random.
    pub(crate) start: f64,
}

impl Halving {
    pub(crate) fn play(&self, play: &mut Play<'_>, random: &mut SmallRng) {
        let (budget, cells) = (play.left as f64, play.game.cells.len() as f64);
        let mut ended = 0.0;
        for point in 0..play.game.points.len() {
            let mut alive = play.game.points[point].clone();
            ended += budget * alive.len() as f64 / cells;
            alive.shuffle(random);
            alive.truncate(((alive.len() as f64 * self.start).ceil() as usize).max(1));
            // What a point does not divide goes on to the next one.
            let reserve = play.left.saturating_sub(budget as u64 - ended.round() as u64);
            self.halve(play, &mut alive, reserve);
            for cell in &play.game.points[point] {
                play.open[*cell] = alive.contains(cell);
            }
        }
    }

    fn halve(&self, play: &mut Play<'_>, alive: &mut Vec<usize>, draws: u64) {
        let rounds = (alive.len() as f64).log(self.eta).ceil().max(1.0) as u64;
        let mut left = draws;
        for round in 0..rounds {
            let share = left / (rounds - round) / alive.len() as u64;
            for cell in &*alive {
                let repeats = share.max(1).min(left);
                play.draw_times(*cell, repeats);
                left -= repeats;
            }
            alive.sort_by(play.by_estimate(self.rule));
            // The last round's cells are what the pick is made of.
            if round + 1 < rounds && left > 0 {
                alive.truncate(((alive.len() as f64 / self.eta).ceil() as usize).max(2));
            }
        }
    }
}

/// A race by rank statistics: in each round one draw for every cell that is left; out goes what ranks above the leader by a
/// one-sided Mann-Whitney test. Points with one cell left leave their draws to the others.
pub(crate) struct RankRace {
    /// Level of the test.
    pub(crate) alpha: f64,
}

impl RankRace {
    /// Below this many samples no cell goes: fewer cannot be significant at any usual level.
    const LEAST: usize = 3;

    pub(crate) fn play(&self, play: &mut Play<'_>, random: &mut SmallRng) {
        while 0 < play.left {
            let open = |cells: &&Vec<usize>| 1 < cells.iter().filter(|cell| play.open[**cell]).count();
            let mut order: Vec<usize> = play.game.points.iter().filter(open).flatten().copied().collect();
            order.retain(|cell| play.open[*cell]);
            if order.is_empty() {
                break;
            }
            order.shuffle(random);
            for cell in order {
                play.draw(cell);
            }
            for point in 0..play.game.points.len() {
                self.eliminate(play, point);
            }
        }
    }

    fn eliminate(&self, play: &mut Play<'_>, point: usize) {
        let game = play.game;
        let alive = || game.points[point].iter().copied();
        let open: Vec<usize> = alive().filter(|cell| play.open[*cell]).collect();
        let Some(leader) = open.iter().copied().min_by(play.by_estimate(Rule::Median)) else { return };
        for cell in open {
            let (best, other) = (&play.samples[leader], &play.samples[cell]);
            if cell != leader && Self::LEAST <= best.len().min(other.len()) {
                let p = stats::mann_whitney_p_below(best, other).unwrap_or(1.0);
                play.open[cell] = self.alpha <= p;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use gdrtune_tuner::replay::Grid;
    use rand::SeedableRng;

    use super::*;
    use crate::game::Game;

    /// One point with eight choices, the first one clearly the fastest, and one with two that are equal.
    fn game() -> Game {
        let mut rows = String::from("collective,bytes,algorithm,protocol,channels,mean_us\n");
        for channels in 1..=8 {
            for repeat in 0..3 {
                writeln!(rows, "allreduce,1024,ring,ll,{channels},{}", 100 * channels + repeat).unwrap();
            }
        }
        for channels in 1..=2 {
            for repeat in 0..3 {
                writeln!(rows, "allreduce,4096,ring,ll,{channels},{}", 100 + repeat).unwrap();
            }
        }
        Game::new(Grid::parse(&rows).unwrap())
    }

    fn counts(play: &Play<'_>) -> Vec<usize> {
        play.samples.iter().map(Vec::len).collect()
    }

    #[test]
    fn equal_repeats_differ_by_one_at_most() {
        let game = game();
        let mut play = Play::new(&game, 34, 1);
        exhaustive(&mut play, &mut SmallRng::seed_from_u64(1));
        assert!(counts(&play).iter().all(|count| (3..=4).contains(count)) && play.left == 0, "{:?}", counts(&play));
    }

    #[test]
    fn halving_spends_all_and_most_of_it_on_the_best() {
        let game = game();
        let mut play = Play::new(&game, 200, 1);
        let halving = Halving { eta: 2.0, rule: Rule::Median, start: 1.0 };
        halving.play(&mut play, &mut SmallRng::seed_from_u64(1));
        let counts = counts(&play);
        // 160 draws over three rounds: 6 of each, then of four cells, then of two.
        assert_eq!((counts[4..8].to_vec(), counts[0]), (vec![6; 4], counts[1]));
        assert!(40 < counts[0] && counts[2] == counts[3] && play.left < 4, "{counts:?}, {} left", play.left);
        assert_eq!(play.picks(Rule::Median).unwrap()[0], Some(0));
    }

    #[test]
    fn the_rank_race_drops_what_ranks_behind_and_leaves_its_draws_to_others() {
        let game = game();
        let mut play = Play::new(&game, 100, 1);
        RankRace { alpha: 0.01 }.play(&mut play, &mut SmallRng::seed_from_u64(1));
        assert_eq!(play.open[..8], [true, false, false, false, false, false, false, false]);
        assert!(play.open[8] && play.open[9], "equal ones stay");
        let counts = counts(&play);
        assert!(counts[1] < 12 && counts[0] < counts[8], "{counts:?}");
    }
}
