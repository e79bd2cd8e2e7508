//! Solvers over categorical vectors, for argmin.
//!
//! A vector holds one index per dimension. A cost may be infinite (an environment that cannot start); an error from
//! the problem ends the solver, which is how the search says that it has enough. Must not know what a vector stands for.

use argmin::core::{CostFunction, Error, IterState, KV, Problem, Solver, TerminationReason, TerminationStatus};
use rand::{Rng, SeedableRng, rngs::SmallRng};

/// One index per dimension.
pub type Vector = Vec<usize>;
/// The state that all our solvers share.
pub type SolverState = IterState<Vector, (), (), (), (), f64>;

pub(super) type Step = Result<(SolverState, Option<KV>), Error>;

pub(super) fn first<O: CostFunction<Param = Vector, Output = f64>>(
    problem: &mut Problem<O>,
    mut state: SolverState,
) -> Step {
    let start = state.take_param().ok_or_else(|| Error::msg("no first environment"))?;
    let cost = problem.cost(&start)?;
    Ok((state.param(start).cost(cost), None))
}

pub(super) fn random_vector(random: &mut SmallRng, shape: &[usize]) -> Vector {
    shape.iter().map(|values| random.random_range(0..(*values).max(1))).collect()
}

pub(super) fn done() -> TerminationStatus {
    TerminationStatus::Terminated(TerminationReason::SolverConverged)
}

/// Goes along one dimension after the other, tries its other values and keeps the best; from random vectors again
/// once no dimension helps.
#[derive(Debug)]
pub struct CoordinateDescent {
    shape: Vec<usize>,
    dimension: usize,
    /// Dimensions tried in a row without a gain.
    stale: usize,
    restarts: u32,
    random: SmallRng,
}

impl CoordinateDescent {
    /// A descent over dimensions with `shape[i]` values each, that begins again `restarts` times.
    pub fn new(shape: Vec<usize>, restarts: u32, seed: u64) -> Self {
        Self { shape, dimension: 0, stale: 0, restarts, random: SmallRng::seed_from_u64(seed) }
    }
}

impl<O: CostFunction<Param = Vector, Output = f64>> Solver<O, SolverState> for CoordinateDescent {
    fn name(&self) -> &'static str {
        "coordinate descent"
    }

    fn init(&mut self, problem: &mut Problem<O>, state: SolverState) -> Step {
        first(problem, state)
    }

    fn next_iter(&mut self, problem: &mut Problem<O>, mut state: SolverState) -> Step {
        let current = state.take_param().ok_or_else(|| Error::msg("no current environment"))?;
        if self.shape.len() <= self.stale {
            self.restarts = self.restarts.saturating_sub(1);
            (self.stale, self.dimension) = (0, 0);
            let restart = random_vector(&mut self.random, &self.shape);
            let cost = problem.cost(&restart)?;
            return Ok((state.param(restart).cost(cost), None));
        }
        let mut best = (state.get_cost(), current.clone());
        for value in (0..self.shape[self.dimension]).filter(|value| current.get(self.dimension) != Some(value)) {
            let mut other = current.clone();
            other[self.dimension] = value;
            let cost = problem.cost(&other)?;
            if cost < best.0 {
                best = (cost, other);
            }
        }
        self.stale = if best.1 == current { self.stale + 1 } else { 0 };
        self.dimension = (self.dimension + 1) % self.shape.len();
        Ok((state.param(best.1).cost(best.0), None))
    }

    fn terminate(&mut self, _state: &SolverState) -> TerminationStatus {
        if self.shape.len() <= self.stale && self.restarts == 0 { done() } else { TerminationStatus::NotTerminated }
    }
}

/// Tries random vectors.
#[derive(Debug)]
pub struct Random {
    shape: Vec<usize>,
    left: usize,
    generator: SmallRng,
}

impl Random {
    /// A walk of `tries` random vectors.
    pub fn new(shape: Vec<usize>, tries: usize, seed: u64) -> Self {
        Self { shape, left: tries, generator: SmallRng::seed_from_u64(seed) }
    }
}

impl<O: CostFunction<Param = Vector, Output = f64>> Solver<O, SolverState> for Random {
    fn name(&self) -> &'static str {
        "random"
    }

    fn init(&mut self, problem: &mut Problem<O>, state: SolverState) -> Step {
        first(problem, state)
    }

    fn next_iter(&mut self, problem: &mut Problem<O>, state: SolverState) -> Step {
        self.left = self.left.saturating_sub(1);
        let vector = random_vector(&mut self.generator, &self.shape);
        let cost = problem.cost(&vector)?;
        Ok((state.param(vector).cost(cost), None))
    }

    fn terminate(&mut self, _state: &SolverState) -> TerminationStatus {
        if self.left == 0 { done() } else { TerminationStatus::NotTerminated }
    }
}

/// Tries every vector, the first dimension changing fastest: it matters most.
#[derive(Debug)]
pub struct Exhaustive {
    shape: Vec<usize>,
    /// The next vector; `None` when all were tried.
    next: Option<Vector>,
}

impl Exhaustive {
    /// A walk over all vectors of `shape`.
    pub fn new(shape: Vec<usize>) -> Self {
        let next = Some(vec![0; shape.len()]);
        Self { shape, next }
    }

    fn advance(&mut self) {
        let Some(vector) = &mut self.next else { return };
        for (index, values) in vector.iter_mut().zip(&self.shape) {
            *index += 1;
            if *index < *values {
                return;
            }
            *index = 0;
        }
        self.next = None;
    }
}

impl<O: CostFunction<Param = Vector, Output = f64>> Solver<O, SolverState> for Exhaustive {
    fn name(&self) -> &'static str {
        "exhaustive"
    }

    fn init(&mut self, problem: &mut Problem<O>, state: SolverState) -> Step {
        first(problem, state)
    }

    fn next_iter(&mut self, problem: &mut Problem<O>, state: SolverState) -> Step {
        let vector = self.next.clone().ok_or_else(|| Error::msg("every environment was tried"))?;
        let cost = problem.cost(&vector)?;
        self.advance();
        Ok((state.param(vector).cost(cost), None))
    }

    fn terminate(&mut self, _state: &SolverState) -> TerminationStatus {
        if self.next.is_none() { done() } else { TerminationStatus::NotTerminated }
    }
}

/// A neighbour for simulated annealing: another value in one dimension, and while it is hot in a second one.
pub fn neighbour(random: &mut SmallRng, shape: &[usize], vector: &[usize], temperature: f64) -> Vector {
    /// Above this temperature (percent of cost) two dimensions move.
    const HOT: f64 = 5.0;
    let movable: Vec<usize> = (0..shape.len()).filter(|dimension| 1 < shape[*dimension]).collect();
    let mut moved = vector.to_vec();
    let steps = if HOT < temperature { 2 } else { 1 };
    for _ in 0..steps.min(movable.len()) {
        let dimension = movable[random.random_range(0..movable.len())];
        let step = random.random_range(1..shape[dimension]);
        moved[dimension] = (moved[dimension] + step) % shape[dimension];
    }
    moved
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use argmin::core::{Executor, State};

    use super::*;

    /// Distance to a target, with one value that cannot start; counts distinct evaluations.
    struct Hill(RefCell<Vec<Vector>>);

    impl CostFunction for Hill {
        type Param = Vector;
        type Output = f64;

        fn cost(&self, vector: &Vector) -> Result<f64, Error> {
            self.0.borrow_mut().push(vector.clone());
            if vector[1] == 2 {
                return Ok(f64::INFINITY);
            }
            Ok([2, 1, 3].iter().zip(vector).map(|(target, at)| (f64::from(*target) - *at as f64).abs()).sum())
        }
    }

    fn solve<S: Solver<Hill, SolverState>>(solver: S) -> (Vector, Vec<Vector>) {
        let executor = Executor::new(Hill(RefCell::new(Vec::new())), solver);
        let mut result = executor.configure(|state| state.param(vec![0; 3]).max_iters(500)).ctrlc(false).run().unwrap();
        let visited = result.problem.take_problem().unwrap().0.into_inner();
        (result.state.best_param.unwrap(), visited)
    }

    #[test]
    fn every_solver_finds_the_valley() {
        let shape = vec![3, 3, 4];
        let (best, visited) = solve(Exhaustive::new(shape.clone()));
        assert_eq!(best, [2, 1, 3]);
        // The first one twice: as the start and in its turn.
        assert_eq!(visited.len(), 37);
        let (best, visited) = solve(CoordinateDescent::new(shape.clone(), 0, 1));
        assert_eq!(best, [2, 1, 3]);
        assert!(visited.len() <= 1 + 2 * 7, "{visited:?}");
        assert_eq!(
            solve(CoordinateDescent::new(shape.clone(), 2, 1)),
            solve(CoordinateDescent::new(shape.clone(), 2, 1))
        );
        assert_eq!(solve(Random::new(shape, 200, 3)).0, [2, 1, 3]);
    }

    #[test]
    fn spaces_without_dimensions_end_at_once() {
        struct Flat;
        impl CostFunction for Flat {
            type Param = Vector;
            type Output = f64;
            fn cost(&self, _vector: &Vector) -> Result<f64, Error> {
                Ok(1.0)
            }
        }
        let solver = CoordinateDescent::new(Vec::new(), 0, 0);
        let result =
            Executor::new(Flat, solver).configure(|s| s.param(vec![]).max_iters(9)).ctrlc(false).run().unwrap();
        assert_eq!(result.state.get_iter(), 0);
        let result = Executor::new(Flat, Exhaustive::new(vec![]));
        assert!(result.configure(|s| s.param(vec![]).max_iters(9)).ctrlc(false).run().is_ok());
    }

    #[test]
    fn a_neighbour_differs_and_stays_inside() {
        let mut random = SmallRng::seed_from_u64(5);
        for _ in 0..200 {
            let near = neighbour(&mut random, &[3, 1, 4], &[2, 0, 3], 0.5);
            let changed = near.iter().zip([2, 0, 3]).filter(|(a, b)| **a != *b).count();
            assert!(changed == 1 && near[0] < 3 && near[1] == 0 && near[2] < 4, "{near:?}");
        }
        assert_eq!(neighbour(&mut random, &[1], &[0], 9.0), [0]);
    }
}
