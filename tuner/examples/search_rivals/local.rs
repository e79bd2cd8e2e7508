//! Rivals that know nothing of the whole: random cells, coordinate descent, argmin's simulated annealing.

use std::cell::RefCell;

use argmin::{
    core::{CostFunction, Error, Executor, State},
    solver::simulatedannealing::{Anneal, SimulatedAnnealing},
};
use gdrtune_profiles::vocab::{Algorithm, Choice, Protocol};
use gdrtune_tuner::search::solver::{self, SolverState, Vector};
use rand::{Rng, SeedableRng, rngs::SmallRng};

use crate::game::Play;

/// Random cells of all points, each drawn `repeats` times.
pub(crate) fn random(play: &mut Play<'_>, random: &mut SmallRng, repeats: u64) {
    while 0 < play.left {
        let cell = random.random_range(0..play.game.cells.len());
        play.draw_times(cell, repeats);
    }
}

/// The choices of one point as a categorical vector: (algorithm, protocol, channels).
struct Axes {
    algorithms: Vec<Algorithm>,
    protocols: Vec<Protocol>,
    channels: Vec<u16>,
    cells: Vec<(Choice, usize)>,
}

impl Axes {
    fn new(play: &Play<'_>, point: usize) -> Self {
        fn distinct<T: Ord>(values: impl Iterator<Item = T>) -> Vec<T> {
            let mut values: Vec<T> = values.collect();
            values.sort_unstable();
            values.dedup();
            values
        }
        let cells: Vec<(Choice, usize)> =
            play.game.points[point].iter().map(|cell| (play.game.cells[*cell].choice, *cell)).collect();
        Self {
            algorithms: distinct(cells.iter().map(|(choice, _)| choice.algorithm)),
            protocols: distinct(cells.iter().map(|(choice, _)| choice.protocol)),
            channels: distinct(cells.iter().map(|(choice, _)| choice.channels)),
            cells,
        }
    }

    fn shape(&self) -> Vec<usize> {
        vec![self.algorithms.len(), self.protocols.len(), self.channels.len()]
    }

    /// `None` where the grid has no such cell.
    fn cell(&self, vector: &[usize]) -> Option<usize> {
        let choice = Choice {
            algorithm: *self.algorithms.get(vector[0])?,
            protocol: *self.protocols.get(vector[1])?,
            channels: *self.channels.get(vector[2])?,
        };
        self.cells.iter().find(|(other, _)| *other == choice).map(|(_, cell)| *cell)
    }

    fn random(&self, random: &mut SmallRng) -> Vector {
        self.shape().iter().map(|values| random.random_range(0..*values)).collect()
    }
}

/// Every point gets the same share of the draws, as where nothing is known of spaces.
fn share(play: &Play<'_>, point: usize) -> u64 {
    play.left / (play.game.points.len() - point) as u64
}

/// Coordinate descent at each point in the manner of `AutoCCL`: along one axis the other algorithms and protocols, or the next
/// channel counts up and down; once no axis helps, again from a random choice.
pub(crate) struct CoordinateDescent {
    /// Draws of each choice that is looked at.
    pub(crate) repeats: u64,
}

impl CoordinateDescent {
    pub(crate) fn play(&self, play: &mut Play<'_>, random: &mut SmallRng) {
        for point in 0..play.game.points.len() {
            let axes = Axes::new(play, point);
            let floor = play.left - share(play, point);
            while floor < play.left {
                self.descend(play, &axes, random, floor);
            }
        }
    }

    /// `AutoCCL`'s score: the mean of the best three quarters of the samples.
    fn score(samples: &[f64]) -> f64 {
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        sorted.truncate((samples.len() * 3).div_ceil(4));
        sorted.iter().sum::<f64>() / sorted.len() as f64
    }

    fn look(&self, play: &mut Play<'_>, axes: &Axes, vector: &[usize], floor: u64) -> f64 {
        let Some(cell) = axes.cell(vector) else { return f64::INFINITY };
        play.draw_times(cell, self.repeats.min(play.left - floor));
        if play.samples[cell].is_empty() { f64::INFINITY } else { Self::score(&play.samples[cell]) }
    }

    fn descend(&self, play: &mut Play<'_>, axes: &Axes, random: &mut SmallRng, floor: u64) {
        let shape = axes.shape();
        let mut at = axes.random(random);
        let mut score = self.look(play, axes, &at, floor);
        let (mut dimension, mut stale) = (0, 0);
        while stale < shape.len() && floor < play.left {
            let mut best = (score, at.clone());
            let near = |value: &usize| *value != at[dimension] && (dimension < 2 || value.abs_diff(at[dimension]) == 1);
            for value in (0..shape[dimension]).filter(near) {
                let mut other = at.clone();
                other[dimension] = value;
                let seen = self.look(play, axes, &other, floor);
                if seen < best.0 {
                    best = (seen, other);
                }
            }
            stale = if best.1 == at { stale + 1 } else { 0 };
            (score, at) = best;
            // A gain along the channels goes on along the channels.
            if stale > 0 || dimension < 2 {
                dimension = (dimension + 1) % shape.len();
            }
        }
    }
}

/// argmin's simulated annealing at each point. The cost is percent of log time.
pub(crate) struct Annealing {
    /// First temperature, in percent.
    pub(crate) temperature: f64,
    /// Draws of each choice that is looked at; the cost is their mean.
    pub(crate) repeats: u64,
}

struct Landscape<'a, 'b> {
    play: RefCell<&'a mut Play<'b>>,
    axes: Axes,
    repeats: u64,
    random: RefCell<SmallRng>,
}

impl CostFunction for Landscape<'_, '_> {
    type Param = Vector;
    type Output = f64;

    fn cost(&self, vector: &Vector) -> Result<f64, Error> {
        let Some(cell) = self.axes.cell(vector) else { return Ok(f64::INFINITY) };
        let mut play = self.play.try_borrow_mut()?;
        let draws = (0..self.repeats).map(|_| play.draw(cell).map(|time| 100.0 * time.ln()));
        let costs: Vec<f64> = draws.collect::<Option<_>>().ok_or_else(|| Error::msg("the budget is out"))?;
        Ok(costs.iter().sum::<f64>() / costs.len() as f64)
    }
}

impl Anneal for Landscape<'_, '_> {
    type Param = Vector;
    type Output = Vector;
    type Float = f64;

    fn anneal(&self, vector: &Vector, temperature: f64) -> Result<Vector, Error> {
        Ok(solver::neighbour(&mut *self.random.try_borrow_mut()?, &self.axes.shape(), vector, temperature))
    }
}

impl Annealing {
    pub(crate) fn play(&self, play: &mut Play<'_>, random: &mut SmallRng) -> Result<(), Error> {
        for point in 0..play.game.points.len() {
            let looks = (share(play, point) / self.repeats).max(1);
            let axes = Axes::new(play, point);
            let start = axes.random(random);
            let seeds = [SmallRng::seed_from_u64(random.random()), SmallRng::seed_from_u64(random.random())];
            let [moves, accepts] = seeds;
            let landscape =
                Landscape { play: RefCell::new(&mut *play), axes, repeats: self.repeats, random: RefCell::new(moves) };
            let annealing = SimulatedAnnealing::new_with_rng(self.temperature, accepts)?;
            let executor = Executor::new(landscape, annealing);
            let result =
                executor.configure(|state: SolverState| state.param(start).max_iters(looks - 1)).ctrlc(false).run()?;
            let best = result.state.get_best_param().cloned();
            let axes = result.problem.problem.map(|landscape| landscape.axes);
            play.own[point] = best.zip(axes).and_then(|(vector, axes)| axes.cell(&vector));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_score_of_coordinate_descent_leaves_out_the_slowest_quarter() {
        let score = CoordinateDescent::score;
        for (samples, want) in [(&[5.0][..], 5.0), (&[9.0, 3.0], 6.0), (&[1.0, 2.0, 3.0, 90.0], 2.0)] {
            assert!((score(samples) - want).abs() < 1e-12, "{samples:?}");
        }
    }
}
