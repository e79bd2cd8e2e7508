//! The search: baseline, then environments by an argmin solver, each with an inner race, then the best one again.
//!
//! The final answer is one environment and a choice per point under it, because one process-level environment ships
//! with the whole profile; the first environment's choices are kept as the fallback. Verification is not here.
//! Must not start anything itself: all measuring goes through the [`Bench`].

mod evaluator;
mod importance;
mod model;
pub mod solver;
mod surrogate;

use std::{cell::RefCell, collections::BTreeMap, fmt, str::FromStr};

use argmin::{
    core::{CostFunction, Error, Executor, Solver},
    solver::simulatedannealing::{Anneal, SimulatedAnnealing},
};
use gdrtune_profiles::{
    knob::{self, Kind},
    vocab::{Environment, Point},
};
use rand::{SeedableRng, rngs::SmallRng};

use crate::{
    bench::{Bench, Cancel},
    objective::{Objective, WeightedPoint},
    observe::Observer,
    race::{Ban, Pick, Predictions, RaceConfig},
    space::Space,
};
use evaluator::{Evaluator, Stop};
pub use importance::{Effect, KnobImportance};
use model::{ModelBased, Survey};
use solver::{CoordinateDescent, Exhaustive, Random, SolverState, Vector};
use surrogate::{Observation, Prior};

/// Spaces up to this many environments are tried in full by `auto`.
const FEW_ENVIRONMENTS: usize = 4;
/// Times that coordinate descent begins again from a random environment.
const RESTARTS: u32 = 2;
/// First temperature of annealing, in percent of cost.
const TEMPERATURE: f64 = 10.0;
/// What a changed setting costs a solver, in percent of cost.
const SETTING_PENALTY: f64 = 0.5;
/// Annealing ends after this many environments in a row that were no new best.
const ANNEALING_PATIENCE: u64 = 24;
/// Bound on solver steps; budgets end a search long before.
const MOST_STEPS: u64 = 10_000;

/// How environments are searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Strategy {
    /// Exhaustive over few environments, model otherwise.
    #[default]
    Auto,
    /// By a model of what the knobs do.
    Model,
    /// Coordinate descent with restarts.
    CoordinateDescent,
    /// Simulated annealing.
    Annealing,
    /// Random environments.
    Random,
    /// All environments.
    Exhaustive,
}

/// A strategy that does not exist.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown strategy `{0}`: use one of auto, model, coordinate-descent, annealing, random, exhaustive")]
pub struct UnknownStrategy(String);

impl Strategy {
    /// Every strategy.
    pub const ALL: [Self; 6] =
        [Self::Auto, Self::Model, Self::CoordinateDescent, Self::Annealing, Self::Random, Self::Exhaustive];

    /// Whether it searches this space by the model.
    fn is_model(self, space: &Space) -> bool {
        self == Self::Model || (self == Self::Auto && FEW_ENVIRONMENTS < space.environments())
    }

    /// Name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Model => "model",
            Self::CoordinateDescent => "coordinate-descent",
            Self::Annealing => "annealing",
            Self::Random => "random",
            Self::Exhaustive => "exhaustive",
        }
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Strategy {
    type Err = UnknownStrategy;

    fn from_str(text: &str) -> Result<Self, UnknownStrategy> {
        Self::ALL.into_iter().find(|s| s.name() == text).ok_or_else(|| UnknownStrategy(text.to_owned()))
    }
}

/// What to search for and how long.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchPlan {
    /// The workload.
    pub points: Vec<WeightedPoint>,
    /// How points become a score.
    pub objective: Objective,
    /// Most samples, those of the default arm included.
    pub budget_trials: u64,
    /// Most seconds of the bench's clock, from the start of the search.
    pub budget_s: f64,
    /// How environments are searched.
    pub strategy: Strategy,
    /// Seed of every random decision.
    pub seed: u64,
    /// Relative gain over the default below which a choice is not proposed.
    pub least_gain: f64,
    /// How the races run.
    pub race: RaceConfig,
    /// What the engine predicts of its choices in processes with the first environment; empty where it does not tell.
    pub predictions: Predictions,
}

/// A search without a result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SearchError {
    /// Cancelled, or the watcher said to abort.
    #[error("cancelled")]
    Cancelled,
    /// The workload is empty.
    #[error("search without a point: give at least one collective and size")]
    NoPoints,
    /// The default arm cannot be measured, so nothing can be compared with it.
    #[error("measure the default arm: {0}")]
    Baseline(String),
    /// The cluster is gone.
    #[error("{0}")]
    Lost(String),
    /// A solver failed for a reason of its own.
    #[error("run the {strategy} solver: {why}")]
    Solver {
        /// The strategy.
        strategy: Strategy,
        /// The solver's words.
        why: String,
    },
}

/// Why a search ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoppedBy {
    /// More samples could not matter.
    Converged,
    /// All trials were used.
    Trials,
    /// The time was over.
    Seconds,
    /// The watcher asked to finish.
    Request,
}

/// The default arm's time at a point.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DefaultTime {
    /// Median in microseconds.
    pub median_us: f64,
    /// Samples behind it.
    pub samples: u32,
}

/// What the search says about one point under one environment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PointResult {
    /// Weight of the point.
    pub weight: f64,
    /// The default arm's time; `None` where it could not be measured.
    pub default: Option<DefaultTime>,
    /// The best choice and its time.
    pub pick: Pick,
    /// Median time of the engine's own choice under the same environment, where measured.
    pub own_choice_us: Option<f64>,
}

/// An environment that was tried.
#[derive(Debug, Clone, PartialEq)]
pub struct EnvironmentScore {
    /// The environment.
    pub environment: Environment,
    /// Its score: 1 is the default arm, lower is better; infinite if it could not start.
    pub score: f64,
    /// Whether it was given up early: the score is then a projection.
    pub abandoned: bool,
    /// Why it could not start.
    pub failed: Option<String>,
    /// Samples spent on it.
    pub trials: u64,
}

/// The best ever seen for a point, in whatever environment.
#[derive(Debug, Clone, PartialEq)]
pub struct BestEver {
    /// The environment.
    pub environment: Environment,
    /// The pick there.
    pub pick: Pick,
}

/// What a search found.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchOutcome {
    /// The default arm.
    pub defaults: BTreeMap<Point, DefaultTime>,
    /// The environment that ships, if any does.
    pub environment: Environment,
    /// The points under it, in point order.
    pub points: Vec<PointResult>,
    /// The environment without any change, pins aside.
    pub first_environment: Environment,
    /// The points under that: what can ship if the environment does not pass verification.
    pub fallback: Vec<PointResult>,
    /// The fastest known for each point, over all environments.
    pub best_ever: BTreeMap<Point, BestEver>,
    /// Every environment that was tried, in order.
    pub environments: Vec<EnvironmentScore>,
    /// What each knob did, the largest effects first; of dimensions with several values among the tried environments.
    pub importance: Vec<KnobImportance>,
    /// Choices that are out everywhere.
    pub bans: Vec<Ban>,
    /// Samples used.
    pub trials: u64,
    /// Seconds of the bench's clock used.
    pub seconds: f64,
    /// Why the search ended.
    pub stopped_by: StoppedBy,
}

/// Searches `space` for what makes the plan's points fast on `bench`.
///
/// Deterministic for equal samples. The directive is asked for between scripts; `cancel` acts within them.
///
/// # Errors
/// [`SearchError`] when there is no result at all; running out of budget is none.
pub fn run_search(
    bench: &mut dyn Bench,
    space: &Space,
    plan: &SearchPlan,
    observer: &mut dyn Observer,
    cancel: &Cancel,
) -> Result<SearchOutcome, SearchError> {
    if plan.points.is_empty() {
        return Err(SearchError::NoPoints);
    }
    let mut evaluator = Evaluator::new(bench, space, plan, observer, cancel);
    evaluator.baseline()?;
    loop {
        evaluator = visit(evaluator, plan, space)?;
        if let Err(Stop::Fatal(error)) = evaluator.prune() {
            return Err(error);
        }
        evaluator.baseline_again()?;
        if let Some(stopped_by) = evaluator.refine()? {
            return Ok(evaluator.outcome(stopped_by));
        }
    }
}

/// Scores environments for as long as the solver asks for some and there is budget. One that was scored before costs nothing.
fn visit<'a>(mut evaluator: Evaluator<'a>, plan: &SearchPlan, space: &'a Space) -> Result<Evaluator<'a>, SearchError> {
    evaluator.open_share();
    let landscape = Landscape {
        evaluator: RefCell::new(evaluator),
        shape: space.shape(),
        random: RefCell::new(SmallRng::seed_from_u64(plan.seed ^ 0xA11E)),
        stop: RefCell::new(None),
    };
    let (landscape, failure) = solve(landscape, plan, space);
    match (landscape.stop.into_inner(), failure) {
        (Some(Stop::Fatal(error)), _) => return Err(error),
        (None, Some(why)) => return Err(SearchError::Solver { strategy: plan.strategy, why }),
        (Some(Stop::Share | Stop::Ended(_)) | None, _) => {}
    }
    let mut evaluator = landscape.evaluator.into_inner();
    evaluator.close_wishes();
    Ok(evaluator)
}

/// The environments as argmin sees them.
struct Landscape<'a> {
    evaluator: RefCell<Evaluator<'a>>,
    shape: Vec<usize>,
    random: RefCell<SmallRng>,
    /// Why the evaluator wants no further environment: argmin only gets an error.
    stop: RefCell<Option<Stop>>,
}

impl CostFunction for &Landscape<'_> {
    type Param = Vector;
    type Output = f64;

    /// Percent of log time against the default: annealing's temperatures need a fixed scale.
    fn cost(&self, vector: &Vector) -> Result<f64, Error> {
        let score = self.evaluator.try_borrow_mut()?.evaluate(vector);
        // Settings that gain nothing are not worth having: noise must not collect them.
        let settings = vector.iter().filter(|index| **index != 0).count() as f64;
        score.map(|score| 100.0 * score.ln() + SETTING_PENALTY * settings).map_err(|stop| {
            let text = stop.to_string();
            self.stop.replace(Some(stop));
            Error::msg(text)
        })
    }
}

impl Survey for &Landscape<'_> {
    fn observations(&self) -> Vec<Observation> {
        self.evaluator.try_borrow().map(|evaluator| evaluator.observations(true)).unwrap_or_default()
    }

    fn canonical(&self, vector: &[usize]) -> Option<Vector> {
        self.evaluator.try_borrow().ok()?.canonical(vector)
    }
}

impl Anneal for &Landscape<'_> {
    type Param = Vector;
    type Output = Vector;
    type Float = f64;

    fn anneal(&self, vector: &Vector, temperature: f64) -> Result<Vector, Error> {
        let mut random = self.random.try_borrow_mut()?;
        Ok(solver::neighbour(&mut random, &self.shape, vector, temperature))
    }
}

/// What is expected of each dimension of a space.
fn priors(space: &Space) -> Vec<Prior> {
    let binds = |name: &str| knob::knob(name).is_some_and(|knob| matches!(knob.kind, Kind::Interfaces | Kind::Hcas));
    let prior = |name: &str| if binds(name) { Prior::Binding } else { Prior::Usual };
    space.dimensions.iter().map(|dimension| prior(&dimension.name)).collect()
}

/// Runs the plan's strategy; gives the landscape back, and the solver's error if it had one.
fn solve<'a>(landscape: Landscape<'a>, plan: &SearchPlan, space: &Space) -> (Landscape<'a>, Option<String>) {
    let shape = space.shape();
    let environments = space.environments();
    let result = match plan.strategy {
        strategy if strategy.is_model(space) => execute(&landscape, ModelBased::new(shape, priors(space), plan.seed)),
        Strategy::Auto | Strategy::Model | Strategy::Exhaustive => execute(&landscape, Exhaustive::new(shape)),
        Strategy::CoordinateDescent => execute(&landscape, CoordinateDescent::new(shape, RESTARTS, plan.seed)),
        Strategy::Random => execute(&landscape, Random::new(shape, environments.saturating_mul(2), plan.seed)),
        Strategy::Annealing => SimulatedAnnealing::new_with_rng(TEMPERATURE, SmallRng::seed_from_u64(plan.seed))
            .map_err(|error| error.to_string())
            .and_then(|annealing| execute(&landscape, annealing.with_stall_best(ANNEALING_PATIENCE))),
    };
    (landscape, result.err())
}

fn execute<'a, 'b, S>(landscape: &'b Landscape<'a>, solver: S) -> Result<(), String>
where
    S: Solver<&'b Landscape<'a>, SolverState>,
{
    let start = vec![0; landscape.shape.len()];
    let executor = Executor::new(landscape, solver);
    let run = executor.configure(|state: SolverState| state.param(start).max_iters(MOST_STEPS)).ctrlc(false).run();
    run.map(drop).map_err(|error| error.to_string())
}
