//! The profile file, format 1: settings, each with its evidence.

mod problem;
mod read;
mod rules;
mod steps;
mod write;

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{
    size::Size,
    vocab::{Algorithm, Choice, Collective, Engine, Environment, Point, Protocol},
};

pub use problem::{Problem, Step};
pub use read::{ProfileError, span_of};
pub use steps::Stretch;
pub(crate) use steps::steps;

/// The format that this build reads and writes.
pub const FORMAT: u32 = 1;

/// A tuned cluster's settings and why they are there.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// File format; [`FORMAT`].
    pub format: u32,
    /// What the settings hold for.
    pub cluster: Cluster,
    /// The run that measured them.
    pub run: Run,
    /// Process-level settings, in name order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<EnvSetting>,
    /// Choices per collective and range of sizes; the first match wins.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rule: Vec<Rule>,
}

/// The cluster that was measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cluster {
    /// Number of nodes.
    pub nodes: u32,
    /// Number of ranks over all nodes.
    pub ranks: u32,
    /// GPU model, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<String>,
    /// NCCL version, where NCCL was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nccl: Option<String>,
    /// `sha256:` of the inventory's stable facts.
    pub fingerprint: String,
}

/// The run that produced a profile.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// Run id: start time in UTC and a random suffix.
    pub id: String,
    /// Version of gdrtune.
    pub tool: String,
    /// What was measured.
    pub engine: Engine,
    /// Whether several ranks stood in for nodes on one machine or GPU.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub emulated: bool,
    /// Whether it was written before the run's A/B: the settings are what the search took for best so far, and their speed-ups its
    /// estimates.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unverified: bool,
    /// What the candidates were compared with.
    pub baseline: Baseline,
    /// Name of the workload whose points were weighted.
    pub workload: String,
    /// Number of trials of the search.
    pub trials: u64,
    /// What was odd about the nodes: hosts that were asked for and are left out, differences between hosts that were
    /// accepted. In sentences.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// The default arm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Baseline {
    /// Environment and nccl.conf as the user's jobs see them today.
    Site,
    /// Nothing set at all.
    Stock,
}

/// NVIDIA's two classes of variables (NCCL user guide, `env.rst`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// System configuration: may be kept.
    System,
    /// Debugging: kept only with evidence, and marked.
    Debugging,
}

/// One process-level setting.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EnvSetting {
    /// Variable name.
    pub name: String,
    /// Value, exactly as the process gets it.
    pub value: String,
    /// NVIDIA's class of the variable.
    pub class: Class,
    /// What the setting gained; absent where it was not measured alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speedup: Option<Speedup>,
    /// What the value is on the nodes, such as which HCAs are in a list and why; empty where nothing is to be said.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
}

/// The choice for one collective and range of sizes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// The collective.
    pub collective: Collective,
    /// Number of nodes that the rule holds for.
    pub nodes: u32,
    /// Number of ranks that the rule holds for.
    pub ranks: u32,
    /// Sizes that the rule holds for.
    pub bytes: ByteRange,
    /// The algorithm.
    pub algorithm: Algorithm,
    /// The protocol.
    pub protocol: Protocol,
    /// Channel count; absent leaves it to the engine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channels: Option<u16>,
    /// Median time without the rule in the A/B, in microseconds (geometric mean over the rule's sizes): the default arm's,
    /// or, where an environment ships too, that of the environment alone, so that the rule is not credited with its gain.
    pub default_us: f64,
    /// The same with the rule.
    pub tuned_us: f64,
    /// Time without over time with the rule, and how sure that is.
    pub speedup: Speedup,
}

impl Rule {
    /// The rule's choice, with 0 channels where it leaves them to the engine.
    pub fn choice(&self) -> Choice {
        Choice { algorithm: self.algorithm, protocol: self.protocol, channels: self.channels.unwrap_or(0) }
    }

    /// Whether the rule is for a call in jobs of this shape: nodes, and ranks over all of them. An earlier one may hide it.
    pub fn covers(&self, shape: (u32, u32), point: Point) -> bool {
        (self.nodes, self.ranks) == shape && self.collective == point.collective && self.bytes.contains(point.bytes)
    }
}

/// A range of sizes, both ends inclusive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ByteRange {
    /// Smallest size.
    pub min: u64,
    /// Largest size; absent is unbounded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<u64>,
}

impl ByteRange {
    /// Whether `bytes` lies in the range.
    pub fn contains(self, bytes: u64) -> bool {
        self.min <= bytes && self.max.is_none_or(|max| bytes <= max)
    }
}

impl fmt::Display for ByteRange {
    /// `1K to 64K`, `64K`, `16M and more`. An end next to a size of whole KiB is told by that: `above 64K to 16M`, `below 1M`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = |bytes: &u64| *bytes > 0 && bytes.is_multiple_of(1 << 10);
        let above = self.min.checked_sub(1).filter(whole).map(Size);
        let below = self.max.and_then(|max| max.checked_add(1)).filter(whole).map(Size);
        let min = Size(self.min);
        f.pad(&match (above, self.max, below) {
            (_, Some(max), _) if max == self.min => min.to_string(),
            (Some(above), None, _) => format!("above {above}"),
            (None, None, _) => format!("{min} and more"),
            (Some(above), Some(_), Some(below)) => format!("above {above}, below {below}"),
            (Some(above), Some(max), None) => format!("above {above} to {}", Size(max)),
            (None, Some(_), Some(below)) if self.min == 0 => format!("below {below}"),
            (None, Some(_), Some(below)) => format!("{min} to below {below}"),
            (None, Some(max), None) => format!("{min} to {}", Size(max)),
        })
    }
}

/// A ratio (default time over tuned time) with its 90 % interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Speedup {
    /// Ratio of medians.
    pub median: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
    /// Bootstrap probability that the ratio exceeds 1.
    pub p_faster: f64,
    /// Processes per arm.
    pub repeats: u32,
}

impl Profile {
    /// The process-level settings as an environment.
    pub fn environment(&self) -> Environment {
        self.env.iter().map(|s| (s.name.clone(), s.value.clone())).collect()
    }

    /// The rule that a call on `shape` (nodes, and ranks over all of them) meets: the first match wins.
    pub fn rule_of(&self, shape: (u32, u32), point: Point) -> Option<&Rule> {
        self.rule.iter().find(|rule| rule.covers(shape, point))
    }

    /// Job shapes that have rules, as (nodes, ranks), in the order of their first rules.
    pub fn rule_shapes(&self) -> Vec<(u32, u32)> {
        let mut shapes = Vec::new();
        for shape in self.rule.iter().map(|rule| (rule.nodes, rule.ranks)) {
            if !shapes.contains(&shape) {
                shapes.push(shape);
            }
        }
        shapes
    }
}

/// One line of `choices.json`: the search's pick for a point, before any gate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PointChoice {
    /// The collective.
    pub collective: Collective,
    /// Bytes of the point.
    pub bytes: u64,
    /// What the search would run.
    pub choice: Choice,
    /// Median of its samples, in microseconds.
    pub median_us: f64,
    /// How many samples that is.
    pub samples: u32,
    /// Nodes, where the run tuned several job shapes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<u32>,
    /// Ranks over all nodes, where the run tuned several job shapes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ranks: Option<u32>,
}

impl PointChoice {
    /// The point.
    pub fn point(&self) -> Point {
        Point { collective: self.collective, bytes: self.bytes }
    }
}
