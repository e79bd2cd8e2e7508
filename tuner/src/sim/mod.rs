//! A simulated cluster as a bench: an analytic model of times, with what is planted in it, noise and faults.
//!
//! **Time.** A sample takes its time multiplied by its iterations, warm-up counted; new processes take seconds, more
//! of them with more ranks; a hang takes a whole lease. The clock is simulated: nothing waits.
//! **Noise** is a function of the seed, the sample's number and the process's number, and of nothing else
//! ([`Simulated::position`] has both): a run that goes on at a position sees what it would have seen.
//! **Truth.** [`Simulated::truth_us`] is what judges a tuner; the tuner itself only has the [`Bench`].
//!
//! Must not do IO; the cluster file's text comes from the caller.

mod cluster;
mod library;
mod model;
mod noise;
mod path;
mod read;
pub mod value;

pub use cluster::{
    ALGORITHMS, Calls, Cluster, Distance, Effect, EngineModel, Fault, FaultKind, Gain, KNOBS, MOST_RANKS, Network,
    NetworkKind, Nic, Node, Noise, Own, Truth,
};

use std::sync::Arc;

use gdrtune_profiles::vocab::{Choice, Collective, Engine, Environment, Point};

use self::{
    model::World,
    noise::{Stream, normal, uniform},
};
use crate::{
    bench::{Bench, BenchError, BenchInfo, Cancel, Outcome, Sample, Script, Setup, Timing},
    deployment::{Deployment, ReadDeployment},
    space::{Dimension, Space},
};

/// Time that the timed calls of a sample should take in microseconds, and most of them: the session's pace.
const SAMPLE_US: f64 = 10_000.0;
const MOST_ITERATIONS: f64 = 200.0;
/// Calls of a sample that are not timed: warm-up and check.
const UNTIMED: f64 = 3.0;
/// What a sample takes beside its calls, in seconds: the rendezvous and the report of some nodes.
const OVERHEAD_S: f64 = 500e-6;
/// Shortest lease of an item, in seconds: what a hang costs.
const LEASE_S: f64 = 20.0;
/// Seconds to start processes: NCCL on one node took 1 to 2 s, and every rank adds to the bootstrap.
const START_S: f64 = 1.5;
const START_RANK_S: f64 = 0.002;

/// How a cluster is simulated.
#[derive(Debug, Clone, Copy)]
pub struct SimConfig {
    /// Seed of all noise.
    pub seed: u64,
    /// How emitted files are read; without it, deployed setups cannot be started.
    pub read_deployment: Option<ReadDeployment>,
}

/// Where a simulation stands: all that changes as it runs.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Position {
    /// Samples that were given, whatever came of them.
    pub samples: u64,
    /// Sets of processes that were started.
    pub processes: u32,
    /// What the running processes run with; `None` if none run.
    pub running: Option<Setup>,
    /// Simulated seconds.
    pub clock_s: f64,
}

/// A simulated cluster.
#[derive(Debug, Clone)]
pub struct Simulated {
    cluster: Arc<Cluster>,
    config: SimConfig,
    position: Position,
}

impl Simulated {
    /// The cluster at the start of a run.
    pub fn new(cluster: Cluster, config: SimConfig) -> Self {
        Self::at(cluster, config, Position::default())
    }

    /// The cluster in the middle of a run.
    pub fn at(cluster: Cluster, config: SimConfig, position: Position) -> Self {
        Self { cluster: Arc::new(cluster), config, position }
    }

    /// Where the simulation stands.
    pub fn position(&self) -> &Position {
        &self.position
    }

    /// The cluster.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// What can be searched: what the cluster file names, and the choices of its engine.
    pub fn space(&self) -> Space {
        let dimension = |(name, values): (&String, &toml::Spanned<Vec<String>>)| {
            let values = values.get_ref().iter().cloned().map(Some);
            Dimension { name: name.clone(), values: std::iter::once(None).chain(values).collect() }
        };
        let of = |&collective: &Collective| {
            let pairs = self.cluster.choices(collective);
            let choices = pairs.flat_map(|(algorithm, protocol)| {
                let counts = self.cluster.engine.channels.iter();
                counts.map(move |&channels| Choice { algorithm, protocol, channels })
            });
            (collective, choices.collect::<Vec<_>>())
        };
        Space {
            dimensions: self.cluster.search.iter().map(dimension).collect(),
            choices: Collective::ALL.iter().map(of).filter(|(_, choices)| !choices.is_empty()).collect(),
            ..Space::default()
        }
    }

    /// Time of a call in microseconds without noise, drift and faults; infinite where it cannot run. `None` leaves the
    /// choice to the engine.
    pub fn truth_us(&self, environment: &Environment, point: Point, choice: Option<Choice>) -> f64 {
        let Ok(world) = World::new(&self.cluster, environment) else { return f64::INFINITY };
        match choice {
            Some(choice) if !world.supports(point.collective, choice) => f64::INFINITY,
            _ => world.time_us(point, world.selected(point, choice)),
        }
    }

    fn start_processes(&mut self, setup: &Setup) {
        let ranks = f64::from(self.cluster.ranks());
        self.position.running = Some(setup.clone());
        self.position.processes += 1;
        self.position.clock_s += self.cluster.start_s.map_or(START_S + START_RANK_S * ranks, |start| start.0);
    }

    /// A node that is gone by now.
    fn check_nodes(&self) -> Result<(), BenchError> {
        let faults = self.cluster.fault.iter().filter(|fault| fault.kind == FaultKind::LostNode);
        let mut lost = faults.filter(|fault| fault.at_s.0 <= self.position.clock_s);
        lost.next().map_or(Ok(()), |fault| {
            Err(BenchError::Lost(format!("a node is gone since {:.0} s of simulated time", fault.at_s.0)))
        })
    }

    fn check_start(&self, environment: &Environment, setup: &Setup) -> Result<(), BenchError> {
        let mut faults = self.cluster.fault.iter().filter(|fault| fault.kind == FaultKind::NoStart);
        let is_set = |fault: &&Fault| {
            let mut wanted = fault.calls.environment.iter();
            wanted.all(|(name, value)| environment.get(name).unwrap_or_default() == value)
        };
        faults.find(is_set).map_or(Ok(()), |_| {
            let setup = show(setup);
            Err(BenchError::Setup { setup, why: "workers end before they are ready (simulated)".into() })
        })
    }

    /// The fault of a call, if it has one.
    fn fault(&self, environment: &Environment, point: Point, ran: Option<Choice>) -> Option<FaultKind> {
        let mut faults = self.cluster.fault.iter();
        let of_call = |fault: &&Fault| {
            !matches!(fault.kind, FaultKind::NoStart | FaultKind::LostNode)
                && fault.calls.contain(environment, point, ran)
        };
        faults.find(of_call).map(|fault| fault.kind)
    }

    /// One sample of a call that runs; the clock moves on.
    fn sample(&mut self, world: &World<'_>, point: Point, ran: Option<Choice>) -> Timing {
        let noise = &self.cluster.noise;
        let (seed, sample) = (self.config.seed, self.position.samples);
        let scatter = noise.sample.0 * normal(seed, Stream::Sample, sample)
            + noise.process.0 * normal(seed, Stream::Process, self.position.processes.into());
        let drift = 1.0 + noise.drift_per_hour.0 * self.position.clock_s / 3_600.0;
        let median_us = world.time_us(point, ran) * scatter.exp() * drift;
        let has_stalled = uniform(seed, Stream::Stall, sample, 0) < noise.stalls.0;
        let time_us = if has_stalled { median_us * noise.stall_factor.0.max(1.0) } else { median_us };
        let iterations = (SAMPLE_US / median_us).clamp(1.0, MOST_ITERATIONS).floor();
        self.position.clock_s += OVERHEAD_S + (iterations * time_us + UNTIMED * median_us) / 1e6;
        Timing {
            time_us,
            slowest_us: time_us,
            median_us,
            // A stall is one call of the batch.
            max_us: median_us + iterations * (time_us - median_us),
            cpu_us: 0.0,
            iterations: iterations as u32,
            selected: ran,
        }
    }

    /// One measurement: what came of it, and whether its processes are gone.
    fn measure(
        &mut self,
        world: &World<'_>,
        environment: &Environment,
        point: Point,
        request: Option<Choice>,
    ) -> Outcome {
        if let Some(choice) = request.filter(|choice| !world.supports(point.collective, *choice)) {
            return Outcome::Unsupported(format!("{choice} is no choice for {} here", point.collective));
        }
        let ran = world.selected(point, request);
        match self.fault(environment, point, ran) {
            Some(FaultKind::Unsupported) => Outcome::Unsupported("the engine refuses it (simulated)".into()),
            Some(FaultKind::Wrong) => {
                // It was timed, and its time does not count.
                self.sample(world, point, ran);
                Outcome::Wrong("elements differ from the expected sum (simulated)".into())
            }
            Some(FaultKind::Hang) => {
                self.position.clock_s += LEASE_S;
                Outcome::Hung(format!("no answer in {LEASE_S:.0} s (simulated)"))
            }
            Some(FaultKind::Crash) => Outcome::Crashed("a worker crashed (simulated)".into()),
            _ => {
                let timing = self.sample(world, point, ran);
                match (request, ran) {
                    (Some(asked), Some(selected)) if asked.channels > selected.channels => {
                        Outcome::Substituted { selected, timing }
                    }
                    _ => Outcome::Timed(timing),
                }
            }
        }
    }
}

impl Bench for Simulated {
    fn info(&self) -> BenchInfo {
        BenchInfo { engine: Engine::Sim, nodes: self.cluster.nodes.0, ranks: self.cluster.ranks() }
    }

    fn now_s(&self) -> f64 {
        self.position.clock_s
    }

    fn run(&mut self, script: &Script, cancel: &Cancel, sink: &mut dyn FnMut(Sample)) -> Result<(), BenchError> {
        let deployment = Deployment::of(script, self.config.read_deployment, &self.info())?;
        let environment = &deployment.environment;
        let cluster = Arc::clone(&self.cluster);
        let world =
            World::new(&cluster, environment).map_err(|why| BenchError::Setup { setup: show(&script.setup), why })?;
        self.check_nodes()?;
        self.check_start(environment, &script.setup)?;
        if script.fresh || self.position.running.as_ref() != Some(&script.setup) {
            self.start_processes(&script.setup);
        }
        for (index, item) in script.items.iter().enumerate() {
            let request = item.choice.or_else(|| deployment.choices.get(&item.point).copied());
            for _ in 0..item.repeats {
                if cancel.is_cancelled() {
                    return Err(BenchError::Cancelled);
                }
                self.check_nodes()?;
                if cancel.take_skip() {
                    // As on a cluster, workers in the middle of it can only be killed.
                    self.position.running = None;
                    self.position.samples += 1;
                    sink(Sample { item: index, process: self.position.processes, outcome: Outcome::Skipped });
                    break;
                }
                if self.position.running.is_none() {
                    self.start_processes(&script.setup);
                }
                let outcome = self.measure(&world, environment, item.point, request);
                self.position.samples += 1;
                let process = self.position.processes;
                if matches!(outcome, Outcome::Hung(_) | Outcome::Crashed(_)) {
                    self.position.running = None;
                }
                let is_timed = matches!(outcome, Outcome::Timed(_));
                sink(Sample { item: index, process, outcome });
                if !is_timed {
                    break;
                }
            }
        }
        Ok(())
    }
}

fn show(setup: &Setup) -> String {
    match setup {
        Setup::Site => "the site's environment".into(),
        Setup::Live(environment) => environment.to_string(),
        Setup::Deployed(_) => "the emitted files".into(),
    }
}
