//! What the records of a run add up to: aggregates that each record changes in small, bounded steps.
//!
//! [`Summary`] stays small (it grows with points and nodes, not with trials), so that freezing the display may clone
//! it; trials and log lines only ever grow at one end, so a frozen display remembers how many there were.

use std::collections::{BTreeMap, VecDeque};

use gdrtune_profiles::{
    profile::Speedup,
    vocab::{Choice, Collective, Engine, Environment, Point},
};
use gdrtune_session::event::{Arm, Decision, Failure, Level, NodeState, Phase, RunEnd};

use self::node_groups::NodeGroups;

pub(crate) mod node_groups;

/// Log lines that are kept. Older ones are in the run store.
const MAX_LOG_LINES: usize = 10_000;

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
    /// Columns of the widest choice so far, so that the trials table does not jump.
    pub(crate) choice_columns: usize,
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

/// What is known of one point.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct PointSeries {
    /// Times of the default arm in microseconds, sorted.
    default_samples_us: Vec<f64>,
    /// The default's median as the search or the A/B told it.
    told_default_us: Option<f64>,
    pub(crate) best: Option<BestKnown>,
    /// The latest trial in the environment that the search is in.
    pub(crate) current: Option<Current>,
    pub(crate) verdict: Option<PointVerdict>,
}

impl PointSeries {
    /// Takes a sample of the default arm.
    pub(crate) fn add_default_sample(&mut self, time_us: f64) {
        let position = self.default_samples_us.partition_point(|v| *v < time_us);
        self.default_samples_us.insert(position, time_us);
    }

    /// Takes the median that the search or the A/B uses.
    pub(crate) fn tell_default(&mut self, default_us: f64) {
        self.told_default_us = Some(default_us);
    }

    /// Median time of the default arm in microseconds.
    pub(crate) fn default_us(&self) -> Option<f64> {
        let samples = &self.default_samples_us;
        let middle = samples.len() / 2;
        let upper = samples.get(middle).copied();
        let median = match (samples.len() % 2, middle.checked_sub(1).and_then(|i| samples.get(i)), upper) {
            (0, Some(lower), Some(upper)) => Some(f64::midpoint(*lower, upper)),
            _ => upper,
        };
        self.told_default_us.or(median)
    }

    /// Time of what is best, in microseconds: what the A/B measured of it, else the search's estimate.
    pub(crate) fn best_us(&self) -> Option<f64> {
        match self.verdict {
            Some(PointVerdict { decision: Decision::Ship, tuned_us, .. }) => Some(tuned_us),
            Some(_) => self.default_us(),
            None => self.best.as_ref().map(|b| b.time_us),
        }
    }

    /// Default time over best time, by the search's estimate; the default stays where it is best.
    pub(crate) fn estimated_gain(&self) -> Option<f64> {
        let default_us = self.default_us()?;
        let best_us = self.best.as_ref().map_or(default_us, |b| b.time_us);
        (default_us > 0.0 && best_us > 0.0).then(|| (default_us / best_us).max(1.0))
    }
}

/// The best setting of a point.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct BestKnown {
    pub(crate) choice: Option<Choice>,
    pub(crate) environment: u32,
    pub(crate) time_us: f64,
    pub(crate) samples: u32,
}

/// The latest trial of a point.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Current {
    pub(crate) time_us: f64,
}

/// What the A/B said of a point.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct PointVerdict {
    pub(crate) speedup: Speedup,
    /// Median of the candidate in microseconds.
    pub(crate) tuned_us: f64,
    pub(crate) decision: Decision,
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

/// One row of the trials table.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TrialRow {
    pub(crate) trial: u64,
    pub(crate) arm: Arm,
    pub(crate) environment: u32,
    pub(crate) point: Point,
    pub(crate) requested: Option<Choice>,
    pub(crate) selected: Option<Choice>,
    pub(crate) outcome: Outcome,
}

/// The result of a row.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Outcome {
    /// Timed; the gain is against the default as it was known then.
    Timed { time_us: f64, busbw_gbs: f64, gain: Option<f64> },
    /// Did not count.
    Failed { kind: Failure, detail: Box<str> },
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
    }

    /// Forgets what was measured on other nodes. The time begins anew.
    pub(crate) fn change_nodes(&mut self, t_ms: u64, hosts: String, (n_nodes, n_ranks): (u32, u32)) {
        if let Some(label) = &mut self.label {
            (label.hosts, label.n_nodes, label.n_ranks) = (hosts, n_nodes, n_ranks);
            if 0 < self.n_trials {
                label.budget_ms = label.budget_ms.map(|budget| budget + t_ms);
            }
        }
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

/// One line of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LogLine {
    pub(crate) t_ms: u64,
    pub(crate) level: Level,
    /// Empty for gdrtune itself.
    pub(crate) host: String,
    pub(crate) text: String,
}

/// The last lines, numbered from the first one of the run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Log {
    lines: VecDeque<LogLine>,
    n_forgotten: usize,
}

impl Log {
    /// Adds a line and forgets the oldest one if there are too many.
    pub(crate) fn push(&mut self, line: LogLine) {
        if self.lines.len() == MAX_LOG_LINES {
            self.lines.pop_front();
            self.n_forgotten += 1;
        }
        self.lines.push_back(line);
    }

    /// The number after that of the last line.
    pub(crate) fn end(&self) -> usize {
        self.n_forgotten + self.lines.len()
    }

    /// The number of the oldest line that is kept.
    pub(crate) const fn start(&self) -> usize {
        self.n_forgotten
    }

    /// A line by its number.
    pub(crate) fn get(&self, number: usize) -> Option<&LogLine> {
        self.lines.get(number.checked_sub(self.n_forgotten)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_the_median_until_the_search_tells_it() {
        let mut series = PointSeries::default();
        assert_eq!(series.default_us(), None);
        for (sample, median) in [(30.0, 30.0), (10.0, 20.0), (11.0, 11.0)] {
            series.add_default_sample(sample);
            assert_eq!(series.default_us(), Some(median));
        }
        series.tell_default(12.0);
        assert_eq!(series.default_us(), Some(12.0));
    }

    #[test]
    fn a_best_that_is_slower_than_the_default_gains_nothing() {
        let mut series = PointSeries::default();
        assert_eq!(series.estimated_gain(), None);
        series.tell_default(10.0);
        for (time_us, gain) in [(5.0, 2.0), (20.0, 1.0)] {
            series.best = Some(BestKnown { choice: None, environment: 0, time_us, samples: 3 });
            assert_eq!(series.estimated_gain(), Some(gain));
        }
    }

    #[test]
    fn the_log_forgets_its_oldest_lines_and_keeps_its_numbers() {
        let mut log = Log::default();
        for t_ms in 0..=MAX_LOG_LINES as u64 {
            log.push(LogLine { t_ms, level: Level::Info, host: String::new(), text: String::new() });
        }
        assert_eq!((log.start(), log.end()), (1, MAX_LOG_LINES + 1));
        assert_eq!((log.get(0), log.get(1).map(|l| l.t_ms)), (None, Some(1)));
    }
}
