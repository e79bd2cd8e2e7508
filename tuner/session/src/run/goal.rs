//! What counts as better in a run: the workload's weights, how they become a score, and what channels cost the model.

use std::collections::BTreeMap;

use gdrtune_profiles::{
    vocab::Point,
    workload::{Counting, Workload, other_ranks},
};
use gdrtune_tuner::{
    objective::{Objective, WeightedPoint},
    race::{self, RaceConfig},
};

/// Calls per step that are not known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "time-per-step needs calls per step, and {0} has none: name a workload whose calls have per_step, or use geomean"
)]
pub struct NoCalls(String);

/// What counts as better.
#[derive(Debug, Clone, PartialEq)]
pub struct Goal {
    /// The workload's name; `default` where the user only named sizes.
    pub workload: String,
    /// Ranks of the communicator that the workload is of, where that is known.
    ranks: Option<u64>,
    /// Weights of points; 1 where a point has none.
    weights: BTreeMap<Point, f64>,
    /// How the times of all points become one number.
    pub objective: Objective,
    /// Percent that a choice must be faster for each channel more.
    pub sm_cost: f64,
}

impl Default for Goal {
    fn default() -> Self {
        Self {
            workload: "default".to_owned(),
            ranks: None,
            weights: BTreeMap::new(),
            objective: Objective::GeometricMean,
            sm_cost: 0.0,
        }
    }
}

impl Goal {
    /// The goal of a workload. Without `objective`, it is the time per step where calls per step are known, and the geometric
    /// mean of the speed-ups otherwise.
    ///
    /// # Errors
    /// [`NoCalls`] where a time per step is wanted of calls that nobody counted.
    pub fn new(workload: Option<&Workload>, objective: Option<Objective>, sm_cost: f64) -> Result<Self, NoCalls> {
        let counts_calls = workload.is_some_and(|workload| workload.counting == Counting::CallsPerStep);
        let usual = if counts_calls { Objective::TimePerStep } else { Objective::GeometricMean };
        let objective = objective.unwrap_or(usual);
        if objective == Objective::TimePerStep && !counts_calls {
            let what = workload.map_or("a list of sizes".to_owned(), |w| format!("the workload {}", w.name));
            return Err(NoCalls(what));
        }
        let plain = Self { objective, sm_cost, ..Self::default() };
        Ok(workload.map_or(plain.clone(), |workload| Self {
            workload: workload.name.clone(),
            ranks: workload.ranks,
            weights: workload.calls.iter().copied().collect(),
            ..plain
        }))
    }

    /// The weight of a point: its calls per step, where they are known.
    pub fn weight(&self, point: Point) -> f64 {
        self.weights.get(&point).copied().unwrap_or(1.0)
    }

    /// What to know where no shape has the ranks that the workload is of.
    pub(super) fn other_ranks(&self, measured: &[u32]) -> Option<String> {
        other_ranks(&self.workload, self.ranks, measured)
    }

    pub(super) fn weigh(&self, points: &[Point]) -> Vec<WeightedPoint> {
        points.iter().map(|&point| WeightedPoint { point, weight: self.weight(point) }).collect()
    }

    pub(super) fn race(&self, seed: u64) -> RaceConfig {
        RaceConfig { channel_cost: race::channel_cost(self.sm_cost), ..RaceConfig::standard(seed) }
    }

    /// Workload, objective and cost in words, as the profile has them.
    pub(super) fn words(&self) -> Vec<String> {
        let objective = (self.objective == Objective::TimePerStep).then(|| "time per step".to_owned());
        let cost = (0.0 < self.sm_cost).then(|| format!("SM cost {} % per channel", self.sm_cost));
        [Some(self.workload.clone()), objective, cost].into_iter().flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_objective_follows_what_is_known_of_the_calls() {
        let preset = |name: &str| Workload::preset(name).unwrap();
        let (counted, weighted) = (preset("ddp-25mb-buckets"), preset("nccl-tests"));
        let (step, mean) = (Objective::TimePerStep, Objective::GeometricMean);
        for (workload, asked, want) in [
            (Some(&counted), None, Ok(step)),
            (Some(&counted), Some(mean), Ok(mean)),
            (Some(&weighted), None, Ok(mean)),
            (Some(&weighted), Some(step), Err("the workload nccl-tests")),
            (None, None, Ok(mean)),
            (None, Some(step), Err("a list of sizes")),
        ] {
            let goal = Goal::new(workload, asked, 0.0).map(|goal| goal.objective);
            assert_eq!(goal, want.map_err(|what| NoCalls(what.to_owned())));
        }
        let goal = Goal::new(Some(&counted), None, 0.5).unwrap();
        assert_eq!(goal.words().join(", "), "ddp-25mb-buckets, time per step, SM cost 0.5 % per channel");
        assert_eq!(goal.weigh(&[counted.calls[1].0]), [WeightedPoint { point: counted.calls[1].0, weight: 40.0 }]);
        assert_eq!(Goal::default().words(), ["default"]);
    }
}
