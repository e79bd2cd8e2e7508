//! A bench over a recorded grid: each sample is one recorded repeat, drawn uniformly with replacement.
//!
//! The clock is simulated: a sample takes its time multiplied by its iterations, new processes take a fixed time. The
//! bench never says how many repeats a cell has. Must not do IO; the grid's text comes from the caller.

mod grid;

pub use grid::{CSV_HEADER, Cells, ENVIRONMENT_COLUMNS, Grid, GridError, Record, csv_row};

use std::collections::{BTreeMap, BTreeSet};

use gdrtune_profiles::vocab::{Choice, Engine, Environment, Point};
use rand::{Rng, SeedableRng, rngs::SmallRng};

use crate::{
    bench::{Bench, BenchError, BenchInfo, Cancel, Outcome, Sample, Script, Setup, Timing},
    deployment::{Deployment, ReadDeployment},
    space::{Dimension, Space},
};

/// How a grid is replayed.
#[derive(Debug, Clone)]
pub struct ReplayConfig {
    /// Seed of the draws.
    pub seed: u64,
    /// Nodes that the grid stands for.
    pub nodes: u32,
    /// Ranks that the grid stands for.
    pub ranks: u32,
    /// Simulated seconds to start new processes (1 to 2 s were measured for NCCL).
    pub start_s: f64,
    /// How emitted files are read; without it, deployed setups cannot be started.
    pub read_deployment: Option<ReadDeployment>,
}

/// Replays a [`Grid`].
#[derive(Debug, Clone)]
pub struct Replay {
    grid: Grid,
    site: Environment,
    config: ReplayConfig,
    random: SmallRng,
    clock_s: f64,
    running: Option<Setup>,
    processes: u32,
}

impl Replay {
    /// A bench over `grid` whose site environment is `site`: the recorded environment that the default arm ran with
    /// (the empty one where the grid has no environment columns).
    pub fn new(grid: Grid, site: Environment, config: ReplayConfig) -> Self {
        let random = SmallRng::seed_from_u64(config.seed);
        Self { grid, site, config, random, clock_s: 0.0, running: None, processes: 0 }
    }

    /// What can be searched on this grid: its choices, and the recorded values of its environment columns, the site's
    /// own value first.
    pub fn space(&self) -> Space {
        let mut values: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for (name, value) in self.grid.environments.keys().flat_map(Environment::iter) {
            values.entry(name).or_default().insert(value);
        }
        let dimension = |(name, values): (&str, BTreeSet<&str>)| {
            let others = values.into_iter().filter(|value| self.site.get(name) != Some(value));
            let values = std::iter::once(None).chain(others.map(|value| Some(value.to_owned()))).collect();
            Dimension { name: name.to_owned(), values }
        };
        let dimensions = values.into_iter().map(dimension).collect();
        Space { dimensions, choices: self.grid.choices(), ..Space::default() }
    }

    /// The grid.
    pub fn grid(&self) -> &Grid {
        &self.grid
    }

    fn start(&mut self, script: &Script) {
        if script.fresh || self.running.as_ref() != Some(&script.setup) {
            self.running = Some(script.setup.clone());
            self.processes += 1;
            self.clock_s += self.config.start_s;
        }
    }

    fn cells(&self, overlay: &Environment) -> Result<&Cells, BenchError> {
        let mut whole = self.site.clone();
        whole.0.extend(overlay.0.clone());
        self.grid.environments.get(&whole).ok_or_else(|| BenchError::Setup {
            setup: overlay.to_string(),
            why: format!("the grid has no rows for the environment {whole}"),
        })
    }
}

impl Bench for Replay {
    fn info(&self) -> BenchInfo {
        BenchInfo { engine: Engine::Replay, nodes: self.config.nodes, ranks: self.config.ranks }
    }

    fn now_s(&self) -> f64 {
        self.clock_s
    }

    fn offers(&self, environment: &Environment, point: Point, choice: Option<Choice>) -> bool {
        // An environment that is not there at all is a matter of its start.
        self.cells(environment).map_or(true, |cells| cells.contains_key(&(point, choice)))
    }

    fn run(&mut self, script: &Script, cancel: &Cancel, sink: &mut dyn FnMut(Sample)) -> Result<(), BenchError> {
        let deployment = Deployment::of(script, self.config.read_deployment, &self.info())?;
        self.cells(&deployment.environment)?;
        self.start(script);
        for (index, item) in script.items.iter().enumerate() {
            let choice = item.choice.or_else(|| deployment.choices.get(&item.point).copied());
            for _ in 0..item.repeats {
                if cancel.is_cancelled() {
                    return Err(BenchError::Cancelled);
                }
                if cancel.take_skip() {
                    // As on a cluster, workers in the middle of it can only be killed.
                    self.running = None;
                    sink(Sample { item: index, process: self.processes, outcome: Outcome::Skipped });
                    break;
                }
                if self.running.is_none() {
                    self.start(script);
                }
                let draw: f64 = self.random.random();
                let records = self.cells(&deployment.environment)?.get(&(item.point, choice));
                let record = records.and_then(|r| r.get((draw * r.len() as f64) as usize).copied());
                let process = self.processes;
                let Some(record) = record else {
                    let why = format!("the grid has no row for {} {}", item.point, show(choice));
                    sink(Sample { item: index, process, outcome: Outcome::Unsupported(why) });
                    break;
                };
                self.clock_s += record.mean_us * record.iterations / 1e6;
                sink(Sample { item: index, process, outcome: Outcome::Timed(timing(record, choice)) });
            }
        }
        Ok(())
    }
}

fn show(choice: Option<Choice>) -> String {
    choice.map_or_else(|| "default".to_owned(), |choice| choice.to_string())
}

fn timing(record: Record, selected: Option<Choice>) -> Timing {
    Timing {
        time_us: record.mean_us,
        slowest_us: record.mean_us,
        median_us: record.median_us,
        max_us: record.max_us,
        cpu_us: 0.0,
        iterations: record.iterations as u32,
        selected,
    }
}
