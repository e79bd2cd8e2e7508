//! What the user wants otherwise while the search runs. Each wish is granted before a script, so that what follows depends on
//! its place among the questions alone.

use gdrtune_profiles::vocab::{Choice, Environment, Point};

use super::{Evaluator, Explored, SEARCH_SHARE};
use crate::{observe::Wish, race::Race};

/// Why an environment is left before its time.
pub(super) const UNWANTED: &str = "the user pinned another value";

impl Evaluator<'_> {
    /// Grants what the watcher wants, until there is nothing more; says whether it changed anything.
    pub(super) fn heed(&mut self) -> bool {
        let mut has_changed = false;
        loop {
            let wishes = self.observer.wishes();
            if wishes.is_empty() {
                return has_changed;
            }
            for wish in wishes {
                has_changed |= wish != Wish::Tell;
                self.grant(wish);
            }
        }
    }

    fn grant(&mut self, wish: Wish) {
        match wish {
            Wish::Drop { point, choice } => self.give_up(point, choice),
            Wish::Pin(pin) => self.change_pins(|evaluator| evaluator.pins.hold(pin)),
            Wish::Unpin(knob) => self.change_pins(|evaluator| evaluator.pins.release(&knob)),
            Wish::Extend { seconds, trials } => {
                self.budget_s += seconds;
                self.budget_trials = self.budget_trials.saturating_add(trials);
                self.is_reopened = true;
            }
            Wish::Tell => self.tell_so_far(),
        }
    }

    fn give_up(&mut self, point: Option<Point>, choice: Choice) {
        self.dropped.push((point, choice));
        for explored in &mut self.explored {
            explored.race.give_up(point, choice);
        }
        self.best_ever.retain(|at, best| best.pick.choice != Some(choice) || point.is_some_and(|point| point != *at));
        self.look_again();
    }

    fn change_pins(&mut self, change: impl FnOnce(&mut Self)) {
        change(self);
        self.is_reopened = true;
        for index in 0..self.explored.len() {
            let vector = &self.explored[index].vector;
            let is_wanted = self.canonical(vector).as_ref() == Some(vector);
            let explored = &mut self.explored[index];
            explored.race.restrict(|choice| self.pins.allow(choice));
            explored.is_wanted = is_wanted;
            // A race that the pins had ended may have more to ask.
            explored.settled = false;
            if is_wanted && explored.given_up == Some(UNWANTED) {
                explored.given_up = None;
            }
        }
        if self.lacks_pinned() {
            // What was given up for another environment is what there is now.
            for explored in self.explored.iter_mut().filter(|explored| explored.is_wanted) {
                explored.given_up = None;
            }
        }
        let pins = &self.pins;
        let explored = &self.explored;
        let is_wanted =
            |environment: &Environment| explored.iter().any(|e| e.is_wanted && e.environment == *environment);
        self.best_ever
            .retain(|_, best| is_wanted(&best.environment) && best.pick.choice.is_none_or(|choice| pins.allow(choice)));
        self.look_again();
    }

    /// Scores and picks by what may still ship.
    fn look_again(&mut self) {
        for index in 0..self.explored.len() {
            if self.explored[index].failed.is_none() && self.explored[index].given_up.is_none() {
                self.rescore(index);
                self.note_best(index);
            }
        }
    }

    /// Tells a race of what the user wanted before it began.
    pub(super) fn prepare(&self, race: &mut Race) {
        if !self.pins.is_empty() {
            race.restrict(|choice| self.pins.allow(choice));
        }
        for (point, choice) in &self.dropped {
            race.give_up(*point, *choice);
        }
    }

    /// Leaves the environment in play, which the pins do not allow any more. What was measured of it stays.
    pub(super) fn leave(&mut self, index: usize) {
        self.rescore(index);
        let explored = &mut self.explored[index];
        if !explored.race.covers_all() {
            explored.given_up = Some(UNWANTED);
        }
        if explored.score.is_infinite() {
            // Nothing was: it may be begun anew.
            self.known.remove(&explored.vector);
        }
    }

    /// The one vector that stands for this one among those that the pins allow; `None` where the space forbids it.
    pub(in crate::search) fn canonical(&self, vector: &[usize]) -> Option<Vec<usize>> {
        self.pins.canonical(self.space, vector)
    }

    /// Whether no environment that was measured has what the user pinned.
    pub(super) fn lacks_pinned(&self) -> bool {
        !self.pins.is_empty() && self.usable().next().is_none()
    }

    /// The same, and one can still be started.
    pub(super) fn awaits_pinned(&self) -> bool {
        self.lacks_pinned() && !self.explored.iter().any(|explored| explored.is_wanted && explored.failed.is_some())
    }

    /// The environment whose race knows most of what another one may ask: the incumbent, or where the user wants none of what
    /// there is, the best of that.
    pub(super) fn teacher(&self) -> Option<usize> {
        let known = |(_, e): &(usize, &Explored)| e.failed.is_none() && e.given_up.is_none() && e.score.is_finite();
        let best = || {
            let all = self.explored.iter().enumerate().filter(known);
            all.min_by(|a, b| a.1.score.total_cmp(&b.1.score)).map(|(index, _)| index)
        };
        self.incumbent().or_else(best)
    }

    /// Begins to visit environments, perhaps once more.
    pub(in crate::search) fn open_share(&mut self) {
        self.share = SEARCH_SHARE;
    }

    /// Notes that the solver has heard of all wishes so far.
    pub(in crate::search) fn close_wishes(&mut self) {
        self.is_reopened = false;
    }
}
