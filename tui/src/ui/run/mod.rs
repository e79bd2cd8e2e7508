//! What the records of a run add up to: aggregates that each record changes in small, bounded steps.
//!
//! [`Summary`] stays small (of a trial it keeps a time or two), so that freezing the display may clone it; trials and log
//! lines only ever grow at one end, so a frozen display remembers how many there were.

use std::{collections::BTreeMap, fmt, sync::Arc};

use gdrtune_profiles::{
    profile::Speedup,
    vocab::{Choice, Collective, Engine, Environment, Point},
};
use gdrtune_session::event::{Arm, Decision, NodeState, Phase, RunEnd};

use super::text;

mod arrivals;
mod draft;
mod log;
pub(crate) mod node_groups;
mod points;
mod search;
mod trials;

pub(crate) use self::{
    arrivals::{Arrival, ArrivalKind, Arrivals},
    draft::{Draft, Ships},
    log::{Log, LogLine},
    node_groups::NodeGroups,
    points::{BestKnown, Current, PointSeries, PointVerdict},
    search::{Cell, EnvironmentRow, SearchSeen, Space},
    trials::{Measured, Outcome, TrialRow},
};

/// Everything that the records said.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Run {
    /// Aggregates.
    pub(crate) summary: Summary,
    /// Every trial, oldest first.
    pub(crate) trials: Vec<TrialRow>,
    /// Overlays by number, as text; trials name them by number.
    pub(crate) environments: Vec<String>,
    /// The numbers of `environments`.
    pub(crate) environment_numbers: BTreeMap<Environment, u32>,
    /// The log.
    pub(crate) log: Log,
    /// The score that the log told last.
    pub(crate) last_score: Option<String>,
}

impl Run {
    /// The number of an overlay, a new one if it was not seen before.
    pub(crate) fn environment_number(&mut self, environment: &Environment) -> u32 {
        if let Some(number) = self.environment_numbers.get(environment) {
            return *number;
        }
        let number = self.environments.len() as u32;
        self.environments.push(environment.to_string());
        self.environment_numbers.insert(environment.clone(), number);
        number
    }
}

/// Aggregates of a run.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Summary {
    /// Set by the first record.
    pub(crate) label: Option<Label>,
    pub(crate) phase: Option<Phase>,
    /// Phase and environment before the end: where a run goes on that was ended too early.
    pub(crate) before_end: Option<(Option<Phase>, Option<EnvironmentInPlay>)>,
    /// By rank order.
    pub(crate) nodes: BTreeMap<u32, Node>,
    /// What they have, and which are alike.
    pub(crate) node_groups: NodeGroups,
    pub(crate) points: BTreeMap<Point, PointSeries>,
    /// In the order of the run.
    pub(crate) collectives: Vec<Collective>,
    /// Trials that arrived.
    pub(crate) n_trials: u64,
    /// Those of them that failed.
    pub(crate) n_failed: u64,
    /// Choices that were dropped from a race.
    pub(crate) n_dropped: u64,
    /// Environments of the space, when known.
    pub(crate) n_environments: Option<u64>,
    /// The environment that the search is in.
    pub(crate) environment: Option<EnvironmentInPlay>,
    /// The last trial.
    pub(crate) trying: Option<Trying>,
    /// What the search did, environment by environment.
    pub(crate) search: SearchSeen,
    /// The last trials, for the sparkline.
    pub(crate) arrivals: Arrivals,
    /// Columns of the widest choice so far, so that the trials table does not jump.
    pub(crate) choice_columns: usize,
    /// What would ship, as it was told last.
    pub(crate) draft: Option<Arc<Draft>>,
    /// Files that were written.
    pub(crate) written: Vec<String>,
    /// Set by the last record.
    pub(crate) ended: Option<Ended>,
}

/// Who measures what.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Label {
    pub(crate) run: String,
    pub(crate) engine: Engine,
    pub(crate) emulated: bool,
    pub(crate) hosts: String,
    pub(crate) n_nodes: u32,
    pub(crate) n_ranks: u32,
    pub(crate) budget_ms: Option<u64>,
    pub(crate) max_trials: Option<u64>,
    /// The present one of several job shapes.
    pub(crate) shape: Option<ShapeInPlay>,
}

/// The job shape that is being tuned, one of several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ShapeInPlay {
    /// From 0.
    pub(crate) index: u32,
    pub(crate) of: u32,
    pub(crate) n_nodes: u32,
    pub(crate) n_ranks: u32,
}

/// One node.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Node {
    pub(crate) host: String,
    pub(crate) state: NodeState,
    pub(crate) detail: String,
}

/// An environment and why it is tried.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct EnvironmentInPlay {
    pub(crate) index: u64,
    pub(crate) settings: String,
    pub(crate) why: String,
}

/// The last trial, for the header.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Trying {
    pub(crate) arm: Arm,
    pub(crate) point: Point,
    pub(crate) choice: Option<Choice>,
}

/// How the run ended.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Ended {
    /// Absent: the records stopped without a last one.
    pub(crate) end: Option<RunEnd>,
    pub(crate) summary: String,
}

/// The best against the default, over all points: a geometric mean, as the search's objective.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Gain {
    /// The search's own estimate: medians of few samples, picked for being small, so it flatters.
    Estimate(f64),
    /// What the A/B says of what ships.
    Verified {
        /// Points that do not ship count as 1.
        median: f64,
        /// All points at the lower end of their intervals.
        low: f64,
        /// All points at the upper end of their intervals.
        high: f64,
    },
}

/// `best 1.42x by the search's estimate`, `verified 1.38x [1.30-1.45]`.
impl fmt::Display for Gain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Estimate(ratio) => write!(f, "best {} by the search's estimate", text::ratio(*ratio)),
            Self::Verified { median, low, high } => {
                write!(f, "verified {} [{low:.2}-{high:.2}]", text::ratio(*median))
            }
        }
    }
}

/// How many points got which verdict.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Verdicts {
    pub(crate) ship: u64,
    pub(crate) keep: u64,
    pub(crate) regression: u64,
    pub(crate) too_noisy: u64,
}

impl Verdicts {
    /// Points with a verdict.
    pub(crate) const fn total(self) -> u64 {
        self.ship + self.keep + self.regression + self.too_noisy
    }
}

impl Summary {
    /// Ranks over all nodes; 1 before the run said so.
    pub(crate) fn n_ranks(&self) -> u32 {
        self.label.as_ref().map_or(1, |l| l.shape.map_or(l.n_ranks, |shape| shape.n_ranks))
    }

    /// Forgets what is known of the points and of the search: what comes is about another shape.
    pub(crate) fn start_shape(&mut self, shape: ShapeInPlay) {
        if let Some(label) = &mut self.label {
            label.shape = Some(shape);
        }
        self.forget_points();
    }

    fn forget_points(&mut self) {
        for series in self.points.values_mut() {
            *series = PointSeries::default();
        }
        (self.n_environments, self.environment, self.trying) = (None, None, None);
        self.search = SearchSeen::default();
    }

    /// Forgets what was measured on other nodes. The time begins anew.
    pub(crate) fn change_nodes(&mut self, t_ms: u64, hosts: String, (n_nodes, n_ranks): (u32, u32)) {
        if let Some(label) = &mut self.label {
            (label.hosts, label.n_nodes, label.n_ranks) = (hosts, n_nodes, n_ranks);
            if 0 < self.n_trials {
                label.budget_ms = label.budget_ms.map(|budget| budget.saturating_add(t_ms));
            }
        }
        self.draft = None;
        self.forget_points();
    }

    /// Whether no more records will come.
    pub(crate) const fn is_over(&self) -> bool {
        self.ended.is_some()
    }

    /// The points of one collective by size.
    pub(crate) fn points_of(&self, collective: Collective) -> impl Iterator<Item = (Point, &PointSeries)> {
        let ends = [0, u64::MAX].map(|bytes| Point { collective, bytes });
        self.points.range(ends[0]..=ends[1]).map(|(point, series)| (*point, series))
    }

    /// Counts the verdicts.
    pub(crate) fn verdicts(&self) -> Verdicts {
        let mut verdicts = Verdicts::default();
        for verdict in self.points.values().filter_map(|p| p.verdict) {
            match verdict.decision {
                Decision::Ship => verdicts.ship += 1,
                Decision::Keep => verdicts.keep += 1,
                Decision::Regression => verdicts.regression += 1,
                Decision::TooNoisy => verdicts.too_noisy += 1,
            }
        }
        verdicts
    }

    /// The user gave a choice up, at one point or at all: what it gained is none of the run's any more.
    pub(crate) fn give_up(&mut self, point: Option<Point>, choice: Choice) {
        for (_, series) in self.points.iter_mut().filter(|(at, _)| point.is_none_or(|point| point == **at)) {
            series.best.take_if(|best| best.choice == Some(choice));
        }
    }

    /// What the A/B found faster at a point does not ship where its rule failed as a whole: the default stays there.
    pub(crate) fn withhold(&mut self, ships: impl Fn(Point) -> bool) {
        for (point, series) in &mut self.points {
            if let Some(verdict) = &mut series.verdict
                && verdict.decision == Decision::Ship
                && !ships(*point)
            {
                verdict.decision = Decision::Keep;
            }
        }
    }

    /// The best against the default, if anything is known.
    pub(crate) fn gain(&self) -> Option<Gain> {
        let verified = self.is_over() || self.phase.is_some_and(|p| Phase::Verify < p);
        if verified && 0 < self.verdicts().total() {
            return self.verified_gain();
        }
        geometric_mean(self.points.values().filter_map(PointSeries::estimated_gain)).map(Gain::Estimate)
    }

    fn verified_gain(&self) -> Option<Gain> {
        let of = |pick: fn(Speedup) -> f64| {
            geometric_mean(self.points.values().filter_map(|p| p.verdict).map(|v| match v.decision {
                Decision::Ship => pick(v.speedup),
                Decision::Keep | Decision::Regression | Decision::TooNoisy => 1.0,
            }))
        };
        Some(Gain::Verified { median: of(|s| s.median)?, low: of(|s| s.low)?, high: of(|s| s.high)? })
    }
}

/// `None` of nothing.
fn geometric_mean(ratios: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, n) = ratios.filter(|r| 0.0 < *r).fold((0.0, 0_u32), |(sum, n), r| (sum + r.ln(), n + 1));
    (0 < n).then(|| (sum / f64::from(n)).exp())
}
