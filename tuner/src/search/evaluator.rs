//! Scores environments: one race each, within the budget.
//!
//! Holds all state of a search (argmin's is thrown away), so that any end of the solver leaves a result. Must not choose
//! environments.

mod baseline;
mod outcome;
mod probes;
mod processes;
mod ranking;
mod running;
mod wishes;

use std::collections::{BTreeMap, BTreeSet};

use gdrtune_profiles::vocab::{Choice, Environment, Point};

use super::{BestEver, DefaultTime, SearchError, SearchPlan, StoppedBy, surrogate::Surrogate};
use probes::{clearly_slower, quick_probes};
use processes::Starts;

use crate::{
    bench::{Bench, Cancel, Item, Outcome},
    objective::WeightedPoint,
    observe::{Note, Observer},
    race::{Currency, Knowledge, Quarantine, Race},
    space::{Pins, Space},
    stats,
};

/// The default arm's share of the trials before the search, within the repeats below.
const BASELINE_SHARE: f64 = 0.05;
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

/// Why an environment is given up.
const CLEARLY_WORSE: &str = "clearly worse";

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
    /// The user's pins do not allow the environment any more.
    Unwanted,
}

#[derive(Debug, Clone)]
struct Explored {
    vector: Vec<usize>,
    environment: Environment,
    /// Whether the user's pins allow it.
    is_wanted: bool,
    race: Race,
    currency: Currency,
    score: f64,
    /// Standard error of the score's logarithm.
    deviation: f64,
    /// How much lower (log) the score may be with better choices.
    potential: f64,
    /// Why it was given up before all its points were measured, if it was.
    given_up: Option<&'static str>,
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
    /// Most samples, and seconds of the bench's clock from the start: the plan's, and what the user added.
    budget_trials: u64,
    budget_s: f64,
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
    /// What the user holds at one value.
    pins: Pins,
    /// What the user gave up; without a point, at every one.
    dropped: Vec<(Option<Point>, Choice)>,
    /// Whether the user changed what is to be searched since the solver ended.
    is_reopened: bool,
    /// Whether the watcher wants the result, and only what is pinned is missing for it.
    is_hurried: bool,
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
            budget_trials: plan.budget_trials,
            budget_s: plan.budget_s,
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
            pins: Pins::default(),
            dropped: Vec::new(),
            is_reopened: false,
            is_hurried: false,
        }
    }

    /// The points of the workload that can be compared with the default arm.
    fn points(&self) -> impl Iterator<Item = &WeightedPoint> {
        self.plan.points.iter().filter(|weighted| !self.left_out.contains(&weighted.point))
    }

    /// The score of an environment: measured once, remembered after. What the space forbids is like what cannot start, and
    /// with pins, the vector stands for the one that has them.
    pub(super) fn evaluate(&mut self, vector: &[usize]) -> Result<f64, Stop> {
        let Some(vector) = self.canonical(vector) else { return Ok(f64::INFINITY) };
        if let Some(index) = self.known.get(&vector) {
            return Ok(self.explored[*index].score);
        }
        if !self.explored.is_empty() && !self.lacks_pinned() && self.share <= self.spent() {
            return Err(Stop::Share);
        }
        let index = self.explored.len();
        let environment = self.space.environment(&vector);
        let why = self.reason(&vector);
        self.observer.note(Note::EnvironmentStarted { index, environment: &environment, why: &why });
        let incumbent = self.incumbent();
        let warm: Option<Knowledge> = self.teacher().map(|index| self.explored[index].race.knowledge());
        let mut config = self.plan.race.clone();
        config.seed = config.seed.wrapping_add(index as u64);
        if self.short_of_time() {
            config.currency = Currency::Seconds;
        }
        let currency = config.currency;
        let quarantine = self.quarantine.clone();
        let mut race = Race::new(&self.race_points(), &self.space.choices, config, warm.as_ref(), quarantine);
        race.leave_out(|point, choice| !self.bench.offers(&environment, point, choice));
        self.prepare(&mut race);
        race.foresee(&self.plan.predictions);
        self.known.insert(vector.clone(), index);
        self.explored.push(Explored {
            vector,
            environment,
            is_wanted: true,
            race,
            currency,
            score: f64::INFINITY,
            deviation: 0.0,
            potential: 0.0,
            given_up: None,
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
            Err(Broken::Unwanted) => {
                self.leave(index);
                None
            }
        };
        if self.explored[index].given_up.is_none() {
            self.rescore(index);
        }
        self.learn_effects();
        self.note_score(index);
        stop.map_or(Ok(self.explored[index].score), Err)
    }

    /// The race of the first environment: everything is unknown, so it takes a large share. Where nothing can be chosen, only
    /// other environments can gain anything, and what is spent here is missing there.
    fn first_race(&mut self, index: usize) -> Result<(), Broken> {
        let share = match self.space.environments() {
            1 => 1.0 - 2.0 * BASELINE_SHARE,
            _ if self.explored[index].race.has_no_choice() => 0.0,
            _ => self.spent() + FIRST_TIMES * self.allotment(),
        };
        while (self.spent() < share && !self.is_hurried) || !self.explored[index].race.covers_all() {
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
            (explored.given_up, explored.score) = (Some(CLEARLY_WORSE), projected);
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
        let Explored { race, is_wanted, .. } = &self.explored[incumbent];
        // What the user pinned is not held against what else there was.
        is_wanted.then(|| clearly_slower(samples, times, |point| race.noise(point), hurried)).flatten()
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

    /// Spends what is left on the environments that may ship: the best score, and the simplest that is as good. `None` where the
    /// user wants others to be searched and there is something left for it.
    pub(super) fn refine(&mut self) -> Result<Option<StoppedBy>, SearchError> {
        loop {
            if self.is_reopened && (self.spent() < SEARCH_SHARE || self.lacks_pinned()) {
                return Ok(None);
            }
            let (index, result) = if let Some(index) = self.contender() {
                (index, self.refine_slice(index))
            } else if let Some(index) = self.rival() {
                (index, self.compare_again(index))
            } else {
                return self.ended().map(Some);
            };
            match result {
                Ok(()) | Err(Broken::Stop(Stop::Share) | Broken::Unwanted) => {}
                Err(Broken::Stop(Stop::Fatal(error))) => return Err(error),
                Err(Broken::Stop(Stop::Ended(by))) => return Ok(Some(by)),
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

    /// What sets this environment apart, for people.
    fn reason(&self, vector: &[usize]) -> String {
        let Some(incumbent) = self.teacher() else { return "the environment as it is".into() };
        let (next, best) = (self.space.environment(vector), &self.explored[incumbent].environment);
        let changes = self.space.dimensions.iter().filter(|d| next.get(&d.name) != best.get(&d.name));
        let text = |name: &str| format!("{name} {}", next.get(name).map_or("left alone".into(), |v| format!("= {v}")));
        let changes: Vec<String> = changes.map(|dimension| text(&dimension.name)).collect();
        format!("against the best so far: {}", changes.join(", "))
    }
}
