//! Runs scripts within the budget and tells race and watcher of each sample.

use super::{Broken, Evaluator, Explored, Stop};
use crate::{
    bench::{BenchError, Item, Outcome, Sample, Script, Setup},
    observe::{Best, Directive, Note},
    search::{BestEver, SearchError, StoppedBy},
};

impl Evaluator<'_> {
    /// Runs items in an explored environment, and tells its race.
    pub(super) fn run_items(&mut self, index: usize, items: Vec<Item>) -> Result<Vec<(Item, Outcome)>, Broken> {
        let before = self.trials;
        let setup = Setup::Live(self.explored[index].environment.clone());
        let result = self.run_told(setup, items, Some(index));
        self.explored[index].trials += self.trials - before;
        self.quarantine.adopt(self.explored[index].race.quarantine());
        self.note_drops(index);
        self.note_best(index);
        result
    }

    pub(super) fn run(&mut self, setup: Setup, items: Vec<Item>) -> Result<Vec<(Item, Outcome)>, Broken> {
        self.run_told(setup, items, None)
    }

    /// Runs one script within the budget and tells the race of this environment of each sample.
    fn run_told(
        &mut self,
        setup: Setup,
        mut items: Vec<Item>,
        told: Option<usize>,
    ) -> Result<Vec<(Item, Outcome)>, Broken> {
        if self.check()?
            && let Some(index) = told
        {
            let Explored { race, is_wanted, .. } = &self.explored[index];
            if !is_wanted {
                return Err(Broken::Unwanted);
            }
            // They were asked for before the user wanted otherwise.
            items.retain(|item| item.choice.is_none_or(|choice| race.may_ask(item.point, choice)));
            if items.is_empty() {
                return Ok(Vec::new());
            }
        }
        let left = self.budget_trials.saturating_sub(self.trials);
        items.truncate(usize::try_from(left).unwrap_or(usize::MAX));
        let script = Script { setup, fresh: std::mem::take(&mut self.starts_anew), items };
        self.observer.note(Note::Script(&script));
        let mut samples: Vec<Sample> = Vec::new();
        let observer = &mut *self.observer;
        let ran = self.bench.run(&script, self.cancel, &mut |sample| {
            observer.note(Note::Sample { script: &script, sample: &sample });
            samples.push(sample);
        });
        let mut results = Vec::with_capacity(samples.len());
        for sample in samples {
            let Some(item) = script.items.get(sample.item).cloned() else { continue };
            self.trials += u64::from(!matches!(sample.outcome, Outcome::Unsupported(_) | Outcome::Skipped));
            if let Some(index) = told {
                let explored = &mut self.explored[index];
                explored.race.learn(item.point, item.choice, &sample.outcome);
                if let (Outcome::Timed(timing), Some(choice)) = (&sample.outcome, item.choice) {
                    explored.starts.take(sample.process, item.point, choice, timing.time_us);
                }
            }
            results.push((item, sample.outcome));
        }
        match ran {
            Ok(()) => Ok(results),
            Err(BenchError::Cancelled) => Err(Broken::Stop(Stop::Fatal(SearchError::Cancelled))),
            Err(BenchError::Lost(why)) => Err(Broken::Stop(Stop::Fatal(SearchError::Lost(why)))),
            Err(BenchError::Setup { why, .. }) => Err(Broken::Setup(why)),
        }
    }

    /// Asks the watcher how to go on; says whether that changed what is to be searched.
    pub(super) fn check(&mut self) -> Result<bool, Broken> {
        if self.cancel.is_cancelled() {
            return Err(Broken::Stop(Stop::Fatal(SearchError::Cancelled)));
        }
        let has_changed = self.heed();
        let ended = match self.observer.directive() {
            Directive::Abort => return Err(Broken::Stop(Stop::Fatal(SearchError::Cancelled))),
            // What is pinned must be known for anything to ship: its points are measured once.
            Directive::Finish if self.awaits_pinned() => {
                self.is_hurried = true;
                None
            }
            Directive::Finish => Some(StoppedBy::Request),
            Directive::Continue if self.budget_trials <= self.trials => Some(StoppedBy::Trials),
            Directive::Continue if self.budget_s <= self.bench.now_s() - self.started_s => Some(StoppedBy::Seconds),
            Directive::Continue => None,
        };
        ended.map_or(Ok(has_changed), |by| Err(Broken::Stop(Stop::Ended(by))))
    }

    /// Share of the budget that is used, by trials or by time, whichever is further.
    pub(super) fn spent(&self) -> f64 {
        let (trials, seconds) = self.shares();
        trials.max(seconds)
    }

    /// Whether the time will be over before the trials are.
    pub(super) fn short_of_time(&self) -> bool {
        let (trials, seconds) = self.shares();
        trials < seconds
    }

    /// Used shares of trials and of time.
    fn shares(&self) -> (f64, f64) {
        let trials = self.trials as f64 / self.budget_trials.max(1) as f64;
        let seconds = (self.bench.now_s() - self.started_s) / self.budget_s.max(1e-9);
        (trials, seconds)
    }

    pub(super) fn note_score(&mut self, index: usize) {
        let explored = &self.explored[index];
        let (environment, score) = (&explored.environment, explored.score);
        let given_up = explored.given_up;
        self.observer.note(Note::EnvironmentScored { index, environment, score, given_up });
    }

    pub(super) fn note_drops(&mut self, index: usize) {
        let explored = &mut self.explored[index];
        for drop in explored.race.take_drops() {
            let (environment, point, choice) = (&explored.environment, drop.point, drop.choice);
            self.observer.note(Note::Dropped { environment, point, choice, why: &drop.why });
        }
    }

    pub(super) fn note_best(&mut self, index: usize) {
        if !self.explored[index].is_wanted {
            return;
        }
        let picks = self.explored[index].race.picks();
        let environment = &self.explored[index].environment;
        for pick in picks {
            let beaten = self.best_ever.get(&pick.point).is_none_or(|best| {
                let same_environment = best.environment == *environment;
                (same_environment && best.pick != pick)
                    || (!same_environment && pick.expected_us < best.pick.expected_us)
            });
            let Some(default) = self.default_time(pick.point).filter(|_| beaten) else { continue };
            self.best_ever.insert(pick.point, BestEver { environment: environment.clone(), pick });
            self.observer.note(Note::Best(Best {
                point: pick.point,
                environment,
                choice: pick.choice,
                time_us: pick.median_us,
                samples: pick.samples,
                default_us: default.median_us,
            }));
        }
    }
}
