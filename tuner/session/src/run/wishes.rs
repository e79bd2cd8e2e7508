//! From the user's commands to wishes of the search: what can be granted is recorded first, the rest is answered in the log.

use std::collections::VecDeque;

use gdrtune_profiles::vocab::{Choice, Point};
use gdrtune_tuner::{
    observe,
    space::{Pins, Space},
};

use crate::{
    control::Controls,
    event::{Command, Event, Extension, Level, Wish},
    recorder::Recorder,
    resume::Granted,
};

/// Why a wish comes too late.
const OVER: &str = "the search is over, and what it found is being verified";

/// What the user wants otherwise in a run.
pub(super) struct Wishes<'a> {
    recorder: &'a Recorder,
    controls: &'a Controls,
    /// What an earlier process of the run granted, and before which question.
    stored: VecDeque<Granted>,
    /// What holds for every search from its beginning.
    held: Vec<Wish>,
    /// What of that the present search was not told yet.
    due: Vec<observe::Wish>,
    /// What is searched; absent while nothing is.
    space: Option<Space>,
    pins: Pins,
    /// Part of further seconds that the search gets.
    search_share: f64,
    /// Budget of the whole run by now, if limited.
    pub(super) budget_s: Option<f64>,
    /// Samples of all searches by now, if limited.
    pub(super) max_trials: Option<u64>,
}

impl<'a> Wishes<'a> {
    /// The wishes of a run with such a budget. `standing` is what was granted on other nodes before, and holds; `stored` what
    /// an earlier process of the run granted on these.
    pub(super) fn new(
        recorder: &'a Recorder,
        controls: &'a Controls,
        (budget_s, max_trials): (Option<f64>, Option<u64>),
        (standing, stored): (Vec<Granted>, VecDeque<Granted>),
    ) -> Self {
        let mut wishes = Self {
            recorder,
            controls,
            stored,
            held: Vec::new(),
            due: Vec::new(),
            space: None,
            pins: Pins::default(),
            search_share: 1.0,
            budget_s,
            max_trials,
        };
        for granted in standing {
            match granted {
                Granted::Wish { wish, .. } => wishes.hold(wish),
                Granted::Extension(Extension { seconds, trials, .. }) => wishes.extend(seconds, trials),
            }
        }
        wishes
    }

    /// A search of this space begins; of further seconds, it gets this part.
    pub(super) fn begin_search(&mut self, space: &Space, share: f64) {
        (self.space, self.pins, self.search_share) = (Some(space.clone()), Pins::default(), share);
        self.due = self.held.clone().into_iter().filter_map(|wish| self.apply(&wish).ok()).collect();
    }

    /// What comes is no search.
    pub(super) fn end_search(&mut self) {
        (self.space, self.search_share) = (None, 1.0);
    }

    /// What is pinned, in words.
    pub(super) fn pinned(&self) -> Option<String> {
        let pin = |wish: &Wish| match wish {
            Wish::Pin { knob, value: Some(value) } => Some(format!("{knob} = {value}")),
            Wish::Pin { knob, value: None } => Some(format!("{knob} unset")),
            Wish::Drop { .. } | Wish::Unpin { .. } => None,
        };
        let pins: Vec<String> = self.held.iter().filter_map(pin).collect();
        (!pins.is_empty()).then(|| pins.join(" and "))
    }

    /// What is wanted before this question; blocks while the run is paused and nothing is.
    pub(super) fn take(&mut self, question: u64) -> Vec<observe::Wish> {
        let mut wishes = std::mem::take(&mut self.due);
        while let Some(granted) = self.stored.pop_front_if(|granted| granted.question() == question) {
            wishes.extend(self.grant_again(granted));
        }
        // What an earlier process did stays as it was: a new wish counts from where that one ended.
        while wishes.is_empty() && !self.recorder.is_retracing() && !self.recorder.has_failed() {
            let commands = self.controls.take_wishes();
            if commands.is_empty() {
                break;
            }
            wishes.extend(commands.into_iter().filter_map(|command| self.grant(command, question)));
        }
        wishes
    }

    fn grant_again(&mut self, granted: Granted) -> Option<observe::Wish> {
        match granted {
            Granted::Wish { question, wish } => {
                let applied = self.apply(&wish).ok();
                self.hold(wish.clone());
                self.recorder.record(Event::Wish { question, wish });
                applied
            }
            Granted::Extension(extension) => {
                self.extend(extension.seconds, extension.trials);
                self.recorder.record(Event::Extended(extension));
                Some(self.more(extension))
            }
        }
    }

    fn grant(&mut self, command: Command, question: u64) -> Option<observe::Wish> {
        let wish = match command {
            Command::Drop { point, choice } => Wish::Drop { point, choice },
            Command::Pin { knob, value } => Wish::Pin { knob, value },
            Command::Unpin { knob } => Wish::Unpin { knob },
            Command::Extend { seconds, trials } => return self.grant_extension(seconds, trials, question),
            Command::Write => return Some(observe::Wish::Tell),
            // These are no wishes of a search.
            _ => return None,
        };
        match self.apply(&wish) {
            Ok(applied) => {
                self.hold(wish.clone());
                self.recorder.record(Event::Wish { question, wish });
                Some(applied)
            }
            Err(why) => {
                self.recorder.log(Level::Warn, "", format!("not done: {why}"));
                None
            }
        }
    }

    /// Checks a wish against what is searched, and takes note of it.
    fn apply(&mut self, wish: &Wish) -> Result<observe::Wish, String> {
        let space = self.space.as_ref().ok_or(OVER)?;
        match wish {
            Wish::Drop { point, choice } => {
                let (point, choice) = (*point, *choice);
                if !has_choice(space, point, choice) {
                    return Err(format!("{choice} is not searched here, so it cannot be dropped"));
                }
                Ok(observe::Wish::Drop { point, choice })
            }
            Wish::Pin { knob, value } => {
                let held = self.pins.with(space, knob, value.as_deref());
                let (pins, pin) = held.map_err(|error| error.to_string())?;
                self.pins = pins;
                Ok(observe::Wish::Pin(pin))
            }
            Wish::Unpin { knob } => {
                self.pins = self.pins.without(knob).ok_or_else(|| format!("{knob} is not pinned"))?;
                Ok(observe::Wish::Unpin(knob.clone()))
            }
        }
    }

    /// Keeps a wish for the searches to come.
    fn hold(&mut self, wish: Wish) {
        if let Wish::Pin { knob, .. } | Wish::Unpin { knob } = &wish {
            self.held.retain(|held| !matches!(held, Wish::Pin { knob: other, .. } if other == knob));
        }
        if !matches!(wish, Wish::Unpin { .. }) {
            self.held.push(wish);
        }
    }

    fn grant_extension(&mut self, seconds: Option<f64>, trials: Option<u64>, question: u64) -> Option<observe::Wish> {
        let refuse = |what: &str| self.recorder.log(Level::Warn, "", format!("not done: {what}"));
        let seconds = seconds.filter(|seconds| 0.0 < *seconds && seconds.is_finite());
        let trials = trials.filter(|trials| 0 < *trials);
        if seconds.is_some() && self.budget_s.is_none() {
            refuse("the run has no limit of time that could be extended");
        }
        if trials.is_some() && self.max_trials.is_none() {
            refuse("the run has no limit of trials that could be extended");
        } else if trials.is_some() && self.space.is_none() {
            refuse(&format!("more trials would change nothing: {OVER}"));
        }
        let seconds = seconds.filter(|_| self.budget_s.is_some());
        let trials = trials.filter(|_| self.max_trials.is_some() && self.space.is_some());
        if seconds.is_none() && trials.is_none() {
            return None;
        }
        self.extend(seconds, trials);
        let (budget_s, max_trials) = (self.budget_s, self.max_trials);
        let extension = Extension { question, seconds, trials, budget_s, max_trials };
        self.recorder.record(Event::Extended(extension));
        Some(self.more(extension))
    }

    fn extend(&mut self, seconds: Option<f64>, trials: Option<u64>) {
        self.budget_s = self.budget_s.map(|budget_s| budget_s + seconds.unwrap_or(0.0));
        self.max_trials = self.max_trials.map(|all| all.saturating_add(trials.unwrap_or(0)));
    }

    /// An extension as who measures now takes it.
    fn more(&self, extension: Extension) -> observe::Wish {
        let seconds = self.search_share * extension.seconds.unwrap_or(0.0);
        observe::Wish::Extend { seconds, trials: extension.trials.unwrap_or(0) }
    }
}

/// Whether a choice is among those that are searched at a point, or at any.
fn has_choice(space: &Space, point: Option<Point>, choice: Choice) -> bool {
    let of_point = |collective| point.is_none_or(|point| point.collective == collective);
    space.choices.iter().any(|(collective, choices)| of_point(*collective) && choices.contains(&choice))
}
