//! A plain top-two race at each point: a leader, and the challenger that is cheapest to mistake for it.
//!
//! T3C of Shang et al. (2020) with normal beliefs over log times and one pooled noise; its greedy sister takes the lowest mean
//! as the leader. No cell knows of another one.

use rand::{Rng, rngs::SmallRng, seq::SliceRandom};

use crate::game::Play;

/// Noise of one sample before any cell was drawn twice, and its weight in samples: what our own race begins with.
const PRIOR_NOISE: f64 = 0.12;
const PRIOR_WEIGHT: f64 = 4.0;
/// Chance that the leader is drawn rather than the challenger.
const LEADER: f64 = 0.5;

pub(crate) struct TopTwo {
    /// The leader is drawn from the belief (Thompson) and not the lowest mean.
    pub(crate) thompson: bool,
    /// The next point is the one whose leader is least sure, and not the next in turn.
    pub(crate) least_sure: bool,
}

#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    count: f64,
    sum: f64,
    squares: f64,
}

impl Sums {
    fn take(&mut self, time_us: f64) {
        let log = time_us.ln();
        self.count += 1.0;
        self.sum += log;
        self.squares += log * log;
    }

    fn mean(self) -> f64 {
        self.sum / self.count
    }

    /// Sum of squared distances from the mean.
    fn scatter(self) -> f64 {
        (self.squares - self.sum * self.sum / self.count).max(0.0)
    }
}

/// A standard normal draw (Box and Muller).
fn normal(random: &mut SmallRng) -> f64 {
    let (u, v): (f64, f64) = (1.0 - random.random::<f64>(), random.random());
    (-2.0 * u.ln()).sqrt() * (2.0 * std::f64::consts::PI * v).cos()
}

/// What it takes to believe that `other` is the faster one: the transport cost, times the noise.
fn cost(leader: Sums, other: Sums) -> f64 {
    (other.mean() - leader.mean()).max(0.0).powi(2) / (2.0 * (1.0 / leader.count + 1.0 / other.count))
}

fn challenger(sums: &[Sums], cells: &[usize], leader: usize) -> Option<(usize, f64)> {
    let others = cells.iter().copied().filter(|cell| *cell != leader && 0.0 < sums[*cell].count);
    others.map(|cell| (cell, cost(sums[leader], sums[cell]))).min_by(|a, b| a.1.total_cmp(&b.1))
}

impl TopTwo {
    pub(crate) fn play(&self, play: &mut Play<'_>, random: &mut SmallRng) {
        let game = play.game;
        let mut sums = vec![Sums::default(); game.cells.len()];
        let mut order: Vec<usize> = (0..game.cells.len()).collect();
        order.shuffle(random);
        for cell in order {
            let Some(time) = play.draw(cell) else { return };
            sums[cell].take(time);
        }
        let (mut scatter, mut freedom) = (PRIOR_WEIGHT * PRIOR_NOISE * PRIOR_NOISE, PRIOR_WEIGHT);
        let mut turn = 0;
        while 0 < play.left {
            let point = if self.least_sure { least_sure(&sums, &game.points) } else { turn % game.points.len() };
            turn += 1;
            let deviation = (scatter / freedom).sqrt();
            let cell = self.choose(&sums, &game.points[point], deviation, random);
            let Some(time) = play.draw(cell) else { return };
            let before = sums[cell].scatter();
            sums[cell].take(time);
            scatter += sums[cell].scatter() - before;
            freedom += 1.0;
        }
    }

    fn choose(&self, sums: &[Sums], cells: &[usize], deviation: f64, random: &mut SmallRng) -> usize {
        let mut level = |cell: usize| {
            let spread = if self.thompson { normal(random) * deviation / sums[cell].count.sqrt() } else { 0.0 };
            (sums[cell].mean() + spread, cell)
        };
        let levels = cells.iter().map(|cell| level(*cell));
        let leader = levels.min_by(|a, b| a.0.total_cmp(&b.0)).map_or(cells[0], |(_, cell)| cell);
        match challenger(sums, cells, leader) {
            Some((other, _)) if LEADER <= random.random::<f64>() => other,
            _ => leader,
        }
    }
}

fn least_sure(sums: &[Sums], points: &[Vec<usize>]) -> usize {
    let sureness = |cells: &Vec<usize>| {
        let leader = cells.iter().copied().min_by(|a, b| sums[*a].mean().total_cmp(&sums[*b].mean()));
        leader.and_then(|leader| challenger(sums, cells, leader)).map_or(f64::INFINITY, |(_, cost)| cost)
    };
    let all = points.iter().map(sureness).enumerate();
    all.min_by(|a, b| a.1.total_cmp(&b.1)).map_or(0, |(point, _)| point)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transport_costs_follow_their_definition() {
        let sums = |times: &[f64]| {
            let mut sums = Sums::default();
            for log in times {
                sums.take(log.exp());
            }
            sums
        };
        let (leader, other) = (sums(&[1.0, 3.0]), sums(&[3.0]));
        assert!((leader.scatter() - 2.0).abs() < 1e-12);
        assert!((cost(leader, other) - 1.0 / 3.0).abs() < 1e-12);
        assert!(cost(other, leader) < 1e-12, "who is behind is no leader");
    }
}
