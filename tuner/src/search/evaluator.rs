//! Scores environments: one race each, within the budget.
//!
//! Holds all state of a search (argmin's is thrown away), so that any end of the solver leaves a result. Must not choose
//! environments.

mod probes;
mod processes;
mod ranking;
mod running;

use std::collections::{BTreeMap, BTreeSet};

use gdrtune_profiles::vocab::{Environment, Point};

use super::{BestEver, DefaultTime, EnvironmentScore, PointResult, SearchError, SearchOutcome, SearchPlan, StoppedBy};
use super::{importance::importance, surrogate::Surrogate};
use probes::{clearly_slower, quick_probes};
use processes::Starts;

use crate::{
    bench::{Bench, Cancel, Item, Outcome, Setup},
    objective::WeightedPoint,
    observe::{Note, Observer, Phase},
    race::{Currency, Knowledge, Pick, Quarantine, Race},
    space::Space,
    stats,
};

/// The default arm's share of the trials before the search, within the repeats below.
const BASELINE_SHARE: f64 = 0.05;
/// Samples of the default arm per point: at most.
const BASELINE_REPEATS: u32 = 3;
/// The first environment's race may take this many times what a later one may: nothing is known yet.
const FIRST_TIMES: f64 = 2.0;
/// Passes over all single changes that a descent is expected to make, for sharing out the budget. The model needs one.
const EXPECTED_PASSES: usize = 2;
/// Share of its allotment that an environment gets before it may be given up as no better: its best choices are others than the
/// incumbent's, and it takes some samples to find that out.
const FAIR_SHARE: f64 = 0.3;
/// Share of the budget after which the solver gets no further environment.
const SEARCH_SHARE: f64 = 0.75;
/// Share after which no setting is tried to be left out any more; the rest is for the last look at the best.
const PRUNE_SHARE: f64 = 0.85;
/// Share from which on it is settled which picks are worth a rule: before, they may still change.
const DOUBT_SHARE: f64 = 0.85;
/// Starts of an environment that the final choice among several rests on at least.
const LEAST_STARTS: usize = 3;

/// Why no further environment is scored.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub(super) enum Stop {
    /// The search's share of the budget is used; the rest is for the last look.
    #[error("the share for new environments is used")]
    Share,
    /// The budget is out or the watcher wants the result.
    #[error("the search has ended")]
    Ended(StoppedBy),
    /// There will be no result.
    #[error("{0}")]
    Fatal(SearchError),
}

/// Why a script gave nothing (more).
enum Broken {
    Setup(String),
    Stop(Stop),
}

struct Explored {
    environment: Environment,
    race: Race,
    currency: Currency,
    score: f64,
    /// Standard error of the score's logarithm.
    deviation: f64,
    /// How much lower (log) the score may be with better choices.
    potential: f64,
    abandoned: bool,
    failed: Option<String>,
    /// Its race has nothing more to ask.
    settled: bool,
    starts: Starts,
    /// Times that its picks were measured to compare it with others.
    comparisons: u32,
    trials: u64,
}

/// State of a search.
pub(super) struct Evaluator<'a> {
    bench: &'a mut dyn Bench,
    space: &'a Space,
    plan: &'a SearchPlan,
    observer: &'a mut dyn Observer,
    cancel: &'a Cancel,
    started_s: f64,
    trials: u64,
    default_us: BTreeMap<Point, Vec<f64>>,
    /// Points whose default arm cannot be measured: nothing could be compared with it, so nothing is tried there.
    left_out: BTreeSet<Point>,
    /// Indices into `explored` by index vector.
    known: BTreeMap<Vec<usize>, usize>,
    explored: Vec<Explored>,
    quarantine: Quarantine,
    best_ever: BTreeMap<Point, BestEver>,
    /// Share of the budget after which no further environment is scored.
    share: f64,
    /// What the knobs do, as far as that was learned.
    effects: Option<Surrogate>,
    /// Standard deviation between starts of one environment.
    between: f64,
    /// Whether the next script must run in new processes.
    starts_anew: bool,
}

impl<'a> Evaluator<'a> {
    pub(super) fn new(
        bench: &'a mut dyn Bench,
        space: &'a Space,
        plan: &'a SearchPlan,
        observer: &'a mut dyn Observer,
        cancel: &'a Cancel,
    ) -> Self {
        Self {
            started_s: bench.now_s(),
            bench,
            space,
            plan,
            observer,
            cancel,
            trials: 0,
            default_us: BTreeMap::new(),
            left_out: BTreeSet::new(),
            known: BTreeMap::new(),
            explored: Vec::new(),
            quarantine: Quarantine::default(),
            best_ever: BTreeMap::new(),
            share: SEARCH_SHARE,
            effects: None,
            between: 0.0,
            starts_anew: false,
        }
    }

    /// Measures the default arm in processes of its own.
    pub(super) fn baseline(&mut self) -> Result<(), SearchError> {
        self.observer.note(Note::Phase(Phase::Baseline));
        let (failures, stopped) = match self.measure_default(self.default_repeats().max(1)) {
            Ok(failures) => (failures, None),
            Err(Broken::Stop(Stop::Fatal(error))) => return Err(error),
            Err(Broken::Setup(why)) => (BTreeMap::new(), Some(why)),
            Err(Broken::Stop(stop)) => (BTreeMap::new(), Some(stop.to_string())),
        };
        if self.default_us.is_empty() {
            let last = || failures.last_key_value().map(|(point, why)| format!("{point}: {why}"));
            return Err(SearchError::Baseline(stopped.or_else(last).unwrap_or_else(|| "no sample came".into())));
        }
        for (point, why) in failures.iter().filter(|(point, _)| !self.default_us.contains_key(*point)) {
            self.observer.note(Note::PointLeftOut { point: *point, why });
            self.left_out.insert(*point);
        }
        self.observer.note(Note::Phase(Phase::Search));
        Ok(())
    }

    /// Measures the default arm once more, in new processes: one lucky or unlucky start must not colour every result.
    pub(super) fn baseline_again(&mut self) -> Result<(), SearchError> {
        match self.default_repeats() {
            0 => Ok(()),
            repeats => match self.measure_default(repeats) {
                Err(Broken::Stop(Stop::Fatal(error))) => Err(error),
                _ => Ok(()),
            },
        }
    }

    /// Samples of the default arm per point that its share of the trials allows.
    fn default_repeats(&self) -> u32 {
        let affordable = BASELINE_SHARE * self.plan.budget_trials as f64 / self.plan.points.len() as f64;
        (affordable as u32).min(BASELINE_REPEATS)
    }

    /// Gives why points could not be measured, where a sample failed: the first reason of each.
    fn measure_default(&mut self, repeats: u32) -> Result<BTreeMap<Point, String>, Broken> {
        let points: Vec<Point> = self.points().map(|weighted| weighted.point).collect();
        // Rounds over all points, so that one bad moment does not hit all samples of a point.
        let round = points.iter().map(|point| Item { point: *point, choice: None, repeats: 1 });
        let items: Vec<Item> = (0..repeats).flat_map(|_| round.clone()).collect();
        self.run_default(items)
    }

    /// Runs items of the default arm; gives the first reason of each point where a sample failed.
    fn run_default(&mut self, items: Vec<Item>) -> Result<BTreeMap<Point, String>, Broken> {
        let mut failures = BTreeMap::new();
        for (item, outcome) in self.run(Setup::Site, items)? {
            match outcome {
                Outcome::Timed(timing) => self.default_us.entry(item.point).or_default().push(timing.time_us),
                other => drop(failures.entry(item.point).or_insert_with(|| describe(&other))),
            }
        }
        Ok(failures)
    }

    /// The points of the workload that can be compared with the default arm.
    fn points(&self) -> impl Iterator<Item = &WeightedPoint> {
        self.plan.points.iter().filter(|weighted| !self.left_out.contains(&weighted.point))
    }

    /// The score of an environment: measured once, remembered after. What the space forbids is like what cannot start.
    pub(super) fn evaluate(&mut self, vector: &[usize]) -> Result<f64, Stop> {
        let Some(vector) = self.space.canonical(vector) else { return Ok(f64::INFINITY) };
        if let Some(index) = self.known.get(&vector) {
            return Ok(self.explored[*index].score);
        }
        if !self.explored.is_empty() && self.share <= self.spent() {
            return Err(Stop::Share);
        }
        let index = self.explored.len();
        let environment = self.space.environment(&vector);
        let why = self.reason(&vector);
        self.observer.note(Note::EnvironmentStarted { index, environment: &environment, why: &why });
        let incumbent = self.incumbent();
        let warm: Option<Knowledge> = incumbent.map(|index| self.explored[index].race.knowledge());
        let mut config = self.plan.race.clone();
        config.seed = config.seed.wrapping_add(index as u64);
        if self.short_of_time() {
            config.currency = Currency::Seconds;
        }
        let currency = config.currency;
        let quarantine = self.quarantine.clone();
        let mut race = Race::new(&self.race_points(), &self.space.choices, config, warm.as_ref(), quarantine);
        race.leave_out(|point, choice| !self.bench.offers(&environment, point, choice));
        race.foresee(&self.plan.predictions);
        self.known.insert(vector, index);
        self.explored.push(Explored {
            environment,
            race,
            currency,
            score: f64::INFINITY,
            deviation: 0.0,
            potential: 0.0,
            abandoned: false,
            failed: None,
            settled: false,
            starts: Starts::default(),
            comparisons: 0,
            trials: 0,
        });
        let result = match incumbent {
            None => self.first_race(index),
            Some(incumbent) => self.challenge(index, incumbent),
        };
        self.conclude(index, result)
    }

    fn conclude(&mut self, index: usize, result: Result<(), Broken>) -> Result<f64, Stop> {
        let stop = match result {
            Ok(()) => None,
            Err(Broken::Stop(stop)) => Some(stop),
            Err(Broken::Setup(why)) => {
                let explored = &mut self.explored[index];
                self.observer.note(Note::EnvironmentFailed { environment: &explored.environment, why: &why });
                explored.failed = Some(why);
                explored.score = f64::INFINITY;
                return Ok(f64::INFINITY);
            }
        };
        if !self.explored[index].abandoned {
            self.rescore(index);
        }
        self.learn_effects();
        self.note_score(index);
        stop.map_or(Ok(self.explored[index].score), Err)
    }

    /// The race of the first environment: everything is unknown, so it takes a large share.
    fn first_race(&mut self, index: usize) -> Result<(), Broken> {
        let single = self.space.environments() == 1;
        let share = if single { 1.0 - 2.0 * BASELINE_SHARE } else { self.spent() + FIRST_TIMES * self.allotment() };
        while self.spent() < share || !self.explored[index].race.covers_all() {
            let Some(items) = self.explored[index].race.next() else { break };
            self.run_items(index, items)?;
        }
        Ok(())
    }

    /// Share of the budget for one environment.
    fn allotment(&self) -> f64 {
        let changes: usize = self.space.shape().iter().map(|values| values.saturating_sub(1)).sum();
        let passes = if self.plan.strategy.is_model(self.space) { 1 } else { EXPECTED_PASSES };
        let expected = self.space.environments().min(1 + passes * changes);
        SEARCH_SHARE / (expected as f64 - 1.0 + FIRST_TIMES)
    }

    /// The race of a later environment: some points with the incumbent's picks, then all, then what is close.
    fn challenge(&mut self, index: usize, incumbent: usize) -> Result<(), Broken> {
        let begun = self.spent();
        let share = begun + self.allotment();
        let fair = begun + FAIR_SHARE * self.allotment();
        let Some(mut items) = self.explored[index].race.next() else { return Ok(()) };
        let times: BTreeMap<Point, f64> =
            self.explored[incumbent].race.picks().iter().map(|pick| (pick.point, pick.expected_us)).collect();
        let hurried = self.explored[index].currency == Currency::Seconds;
        let rest = if hurried { items.split_off(quick_probes(&items, &times).min(items.len())) } else { Vec::new() };
        let mut samples = self.run_items(index, items)?;
        let mut slower = self.clearly_slower(incumbent, &samples, &times, hurried);
        if slower.is_none() && !rest.is_empty() {
            samples.extend(self.run_items(index, rest)?);
            slower = self.clearly_slower(incumbent, &samples, &times, hurried);
        }
        if let Some(factor) = slower {
            let projected = self.explored[incumbent].score * factor;
            self.rescore(index);
            let explored = &mut self.explored[index];
            (explored.abandoned, explored.score) = (true, projected);
            return Ok(());
        }
        let least = 2 * self.points().count() as u64;
        while self.explored[index].trials < least || self.spent() < share {
            let Some(items) = self.explored[index].race.next() else { break };
            self.run_items(index, items)?;
            let is_fair = least <= self.explored[index].trials && fair <= self.spent();
            if self.is_futile(index, incumbent, is_fair) {
                break;
            }
        }
        Ok(())
    }

    fn clearly_slower(
        &self,
        incumbent: usize,
        samples: &[(Item, Outcome)],
        times: &BTreeMap<Point, f64>,
        hurried: bool,
    ) -> Option<f64> {
        let race = &self.explored[incumbent].race;
        clearly_slower(samples, times, |point| race.noise(point), hurried)
    }

    /// Tries to leave out each setting of the best environment that may not be worth it, as the solver may have taken some
    /// up by luck.
    pub(super) fn prune(&mut self) -> Result<(), Stop> {
        self.share = PRUNE_SHARE;
        let mut tried = None;
        while let Some(index) = self.incumbent().filter(|index| tried != Some(*index)) {
            tried = Some(index);
            let full = self.explored[index].environment.clone();
            for (name, _) in full.iter() {
                let mut rest = full.clone();
                rest.0.remove(name);
                if let Some(vector) = self.space.indices(&rest).filter(|vector| self.may_be_as_good(vector, index)) {
                    self.evaluate(&vector)?;
                }
            }
        }
        Ok(())
    }

    /// Spends what is left on the environments that may ship: the best score, and the simplest that is as good.
    pub(super) fn refine(&mut self) -> Result<StoppedBy, SearchError> {
        loop {
            let (index, result) = if let Some(index) = self.contender() {
                (index, self.refine_slice(index))
            } else if let Some(index) = self.rival() {
                (index, self.compare_again(index))
            } else {
                return self.ended();
            };
            match result {
                Ok(()) | Err(Broken::Stop(Stop::Share)) => {}
                Err(Broken::Stop(Stop::Fatal(error))) => return Err(error),
                Err(Broken::Stop(Stop::Ended(by))) => return Ok(by),
                Err(Broken::Setup(why)) => self.explored[index].failed = Some(why),
            }
            self.rescore(index);
            self.note_score(index);
        }
    }

    /// One slice of samples, so that a lucky score is found out before all is spent.
    fn refine_slice(&mut self, index: usize) -> Result<(), Broken> {
        self.explored[index].race.adopt(&self.quarantine);
        // One lucky start must not decide between environments.
        self.starts_anew = self.explored[index].starts.count() < LEAST_STARTS && 1 < self.usable().count();
        let slice = self.trials + self.plan.points.len().max(self.plan.race.batch) as u64;
        while self.trials < slice {
            let asked = self.explored[index].race.next();
            let is_late = asked.is_none() || DOUBT_SHARE <= self.spent();
            let doubts = if is_late { self.doubts(index) } else { Vec::new() };
            let doubts = doubts.into_iter().map(|doubt| doubt.item);
            let (doubts, of_default): (Vec<Item>, Vec<Item>) = doubts.partition(|item| item.choice.is_some());
            if doubts.is_empty() && of_default.is_empty() && asked.is_none() {
                self.explored[index].settled = true;
                return Ok(());
            }
            if let Some(items) = asked {
                self.run_items(index, items)?;
            }
            if !doubts.is_empty() {
                self.run_items(index, doubts)?;
            }
            if !of_default.is_empty() {
                self.run_default(of_default)?;
            }
        }
        Ok(())
    }

    /// Measures the picks of an environment once more, in new processes: its choices are clear, and whether it is the better
    /// one is not.
    fn compare_again(&mut self, index: usize) -> Result<(), Broken> {
        self.explored[index].comparisons += 1;
        self.starts_anew = self.explored[index].starts.count() < LEAST_STARTS;
        let picks = self.explored[index].race.picks();
        let items = picks.iter().map(|pick| Item { point: pick.point, choice: pick.choice, repeats: 1 });
        self.run_items(index, items.collect()).map(drop)
    }

    /// Why the search is over although nobody stopped it.
    fn ended(&mut self) -> Result<StoppedBy, SearchError> {
        match self.check() {
            Err(Broken::Stop(Stop::Fatal(error))) => Err(error),
            Err(Broken::Stop(Stop::Ended(by))) => Ok(by),
            _ => Ok(StoppedBy::Converged),
        }
    }

    /// The result so far.
    pub(super) fn outcome(mut self, stopped_by: StoppedBy) -> SearchOutcome {
        for index in 0..self.explored.len() {
            self.explored[index].race.adopt(&self.quarantine);
            if self.explored[index].failed.is_none() && !self.explored[index].abandoned {
                self.rescore(index);
            }
        }
        let importance = importance(&self.space.dimensions, &self.hindsight(), self.plan.seed);
        if !importance.is_empty() {
            self.observer.note(Note::Importance(&importance));
        }
        let winner = self.incumbent();
        let points = winner.map(|index| self.results(index)).unwrap_or_default();
        let environment = winner.map(|index| self.explored[index].environment.clone()).unwrap_or_default();
        let fallback = if self.explored.is_empty() { Vec::new() } else { self.results(0) };
        let scores = self.explored.iter().map(|explored| EnvironmentScore {
            environment: explored.environment.clone(),
            score: explored.score,
            abandoned: explored.abandoned,
            failed: explored.failed.clone(),
            trials: explored.trials,
        });
        SearchOutcome {
            defaults: self.default_us.keys().filter_map(|point| Some((*point, self.default_time(*point)?))).collect(),
            environment,
            points,
            first_environment: self.space.environment(&[]),
            fallback,
            environments: scores.collect(),
            best_ever: self.best_ever,
            importance,
            bans: self.quarantine.bans(),
            trials: self.trials,
            seconds: self.bench.now_s() - self.started_s,
            stopped_by,
        }
    }

    fn race_points(&self) -> Vec<WeightedPoint> {
        let weigh = |weighted: &WeightedPoint| {
            let default_us = self.default_time(weighted.point).map_or(1.0, |time| time.median_us);
            let weight = self.plan.objective.race_weight(weighted.weight, default_us);
            WeightedPoint { point: weighted.point, weight }
        };
        self.points().map(weigh).collect()
    }

    fn default_time(&self, point: Point) -> Option<DefaultTime> {
        let times = self.default_us.get(&point)?;
        Some(DefaultTime { median_us: stats::median(times)?, samples: times.len() as u32 })
    }

    fn results(&mut self, index: usize) -> Vec<PointResult> {
        let weights: BTreeMap<Point, f64> = self.plan.points.iter().map(|w| (w.point, w.weight)).collect();
        let picks = self.explored[index].race.picks();
        let race = &self.explored[index].race;
        let result = |pick: Pick| PointResult {
            weight: weights.get(&pick.point).copied().unwrap_or_default(),
            default: self.default_time(pick.point),
            own_choice_us: race.own_choice_us(pick.point),
            pick,
        };
        picks.into_iter().map(result).collect()
    }

    /// What sets this environment apart, for people.
    fn reason(&self, vector: &[usize]) -> String {
        let Some(incumbent) = self.incumbent() else { return "the environment as it is".into() };
        let (next, best) = (self.space.environment(vector), &self.explored[incumbent].environment);
        let changes = self.space.dimensions.iter().filter(|d| next.get(&d.name) != best.get(&d.name));
        let text = |name: &str| format!("{name} {}", next.get(name).map_or("left alone".into(), |v| format!("= {v}")));
        let changes: Vec<String> = changes.map(|dimension| text(&dimension.name)).collect();
        format!("against the best so far: {}", changes.join(", "))
    }
}

fn describe(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Timed(_) | Outcome::Substituted { .. } => "something else ran".into(),
        Outcome::Wrong(why) => format!("wrong result: {why}"),
        Outcome::Hung(why) => format!("hung: {why}"),
        Outcome::Crashed(why) => format!("crashed: {why}"),
        Outcome::Unsupported(why) => why.clone(),
        Outcome::Skipped => "skipped by the user".into(),
    }
}
