//! The solver that learns what the knobs do: Bayesian optimisation with [`Surrogate`], for argmin.
//!
//! A start of an environment is the main cost, so each is the one that promises most, and none is made once the best
//! promise is too small to be worth it.

use argmin::core::{CostFunction, Error, Problem, Solver, TerminationStatus};
use rand::{Rng, SeedableRng, rngs::SmallRng};

use super::{
    solver::{SolverState, Step, Vector, done, first, random_vector},
    surrogate::{Estimate, Observation, Prior, Surrogate},
};
use crate::race::expected_fall;

/// Expected gain (percent of log time) below which no environment with a value that was never tried is started: among many knobs that do
/// nothing one may work round a fault, and nothing but a start tells.
const LEAST_PROMISE: f64 = 0.3;
/// The same for values that were all tried, in other environments: half of what a verdict asks of a setting.
const LEAST_PROMISE_TOGETHER: f64 = 1.0;
/// Spaces up to this many vectors are looked at in full; of larger ones, what is near the best and random ones.
const FEW_VECTORS: usize = 2_048;
/// Random vectors that are looked at then.
const RANDOM_VECTORS: usize = 256;

/// A problem that knows more of the vectors that were tried than a number each: what they cost as it looks now, and how
/// sure that is.
pub(super) trait Survey {
    fn observations(&self) -> Vec<Observation>;

    /// The vector that stands for this one and all that mean the same; `None` if it must not be tried.
    fn canonical(&self, vector: &[usize]) -> Option<Vector>;
}

/// Tries the vector of which the model expects most.
#[derive(Debug)]
pub(super) struct ModelBased {
    shape: Vec<usize>,
    priors: Vec<Prior>,
    seen: Vec<Observation>,
    random: SmallRng,
    /// What to try next; `None` when nothing promises enough.
    next: Option<Vector>,
}

impl ModelBased {
    /// A solver over dimensions with `shape[i]` values each, of which `priors[i]` is expected.
    pub(super) fn new(shape: Vec<usize>, priors: Vec<Prior>, seed: u64) -> Self {
        Self { shape, priors, seen: Vec::new(), random: SmallRng::seed_from_u64(seed), next: None }
    }

    fn learn<O: Survey>(&mut self, problem: &Problem<O>) {
        let Some(survey) = &problem.problem else { return };
        self.seen = survey.observations();
        self.next = self.most_promising(survey);
    }

    fn most_promising(&mut self, survey: &impl Survey) -> Option<Vector> {
        let Some(model) = Surrogate::fit(&self.seen, &self.priors) else { return self.any_untried(survey) };
        // With pins, what stands for another vector is no choice any more.
        let is_open = |o: &&Observation| survey.canonical(&o.vector).as_ref() == Some(&o.vector);
        let open = self.seen.iter().filter(is_open);
        let best = open.map(|o| model.predict(&o.vector).mean).fold(f64::INFINITY, f64::min);
        let promise = |vector: Vector| {
            let Estimate { mean, deviation } = model.predict(&vector);
            (expected_fall(mean - best, deviation), vector)
        };
        let candidates = self.candidates(&model);
        let untried = self.untried(&candidates, survey);
        if best.is_infinite() {
            return untried.into_iter().min_by(|a, b| model.predict(a).mean.total_cmp(&model.predict(b).mean));
        }
        let promises = untried.into_iter().map(promise);
        let worth = promises.filter(|(promise, vector)| self.least_promise(vector) <= *promise);
        let most = worth.reduce(|most, other| if most.0 < other.0 { other } else { most });
        most.map(|(_, vector)| vector)
    }

    /// What a vector must promise to be tried.
    fn least_promise(&self, vector: &Vector) -> f64 {
        let was_tried = |(dimension, value): (usize, &usize)| self.seen.iter().any(|o| o.vector[dimension] == *value);
        if vector.iter().enumerate().all(was_tried) { LEAST_PROMISE_TOGETHER } else { LEAST_PROMISE }
    }

    /// While nothing has started: anything else.
    fn any_untried(&mut self, survey: &impl Survey) -> Option<Vector> {
        let near = self.near(&vec![0; self.shape.len()]);
        let candidates = self.untried(&near, survey);
        (!candidates.is_empty()).then(|| candidates[self.random.random_range(0..candidates.len())].clone())
    }

    /// What of these may be tried and was not, in their order.
    fn untried(&self, vectors: &[Vector], survey: &impl Survey) -> Vec<Vector> {
        let canonical = vectors.iter().filter_map(|vector| survey.canonical(vector));
        canonical.filter(|vector| self.seen.iter().all(|seen| seen.vector != *vector)).collect()
    }

    /// What may be tried next. Of equal promise, what changes least and in the first dimension comes first.
    fn candidates(&mut self, model: &Surrogate) -> Vec<Vector> {
        let best = self.seen.iter().min_by(|a, b| a.cost.total_cmp(&b.cost)).map(|o| o.vector.clone());
        let mut candidates = best.map(|best| self.near(&best)).unwrap_or_default();
        let vectors = self.shape.iter().fold(1, |product: usize, values| product.saturating_mul(*values));
        if vectors <= FEW_VECTORS {
            candidates.extend(all(&self.shape));
        } else {
            candidates.extend(self.near(&self.best_of_each(model)));
            candidates.extend((0..RANDOM_VECTORS).map(|_| random_vector(&mut self.random, &self.shape)));
        }
        candidates
    }

    /// The value of each dimension with the lowest expected effect.
    fn best_of_each(&self, model: &Surrogate) -> Vector {
        let lowest = |(dimension, values): (usize, &usize)| {
            let effect = |value: usize| model.contrast(dimension, 0, value).mean;
            (0..*values).min_by(|a, b| effect(*a).total_cmp(&effect(*b))).unwrap_or(0)
        };
        self.shape.iter().enumerate().map(lowest).collect()
    }

    /// A vector, and what differs from it in one dimension.
    fn near(&self, vector: &Vector) -> Vec<Vector> {
        let changed = |(dimension, value): (usize, usize)| {
            let mut other = vector.clone();
            other[dimension] = value;
            other
        };
        let values = self.shape.iter().enumerate();
        values.flat_map(|(dimension, values)| (0..*values).map(move |value| (dimension, value))).map(changed).collect()
    }
}

/// Every vector of a shape.
fn all(shape: &[usize]) -> impl Iterator<Item = Vector> {
    let vectors: usize = shape.iter().product();
    (0..vectors).map(|mut number| {
        let digit = |values: &usize| {
            let digit = number % values;
            number /= values;
            digit
        };
        shape.iter().map(digit).collect()
    })
}

impl<O: CostFunction<Param = Vector, Output = f64> + Survey> Solver<O, SolverState> for ModelBased {
    fn name(&self) -> &'static str {
        "model"
    }

    fn init(&mut self, problem: &mut Problem<O>, state: SolverState) -> Step {
        let step = first(problem, state)?;
        self.learn(problem);
        Ok(step)
    }

    fn next_iter(&mut self, problem: &mut Problem<O>, state: SolverState) -> Step {
        let vector = self.next.take().ok_or_else(|| Error::msg("nothing left to try"))?;
        let cost = problem.cost(&vector)?;
        self.learn(problem);
        Ok((state.param(vector).cost(cost), None))
    }

    fn terminate(&mut self, _state: &SolverState) -> TerminationStatus {
        if self.next.is_none() { done() } else { TerminationStatus::NotTerminated }
    }
}
