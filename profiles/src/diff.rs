//! What differs between two profiles: settings by variable, rules by the sizes at which another choice is taken.
//!
//! Only what a job would notice is compared: values and choices; what was measured of them is [`evidence_changes`]. Rules are compared by what they do, so that
//! two ways of cutting the same ranges do not differ.

mod evidence;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use crate::{
    profile::{self, ByteRange, Profile, Rule},
    vocab::{Choice, Collective},
};

pub use evidence::{EvidenceChange, evidence_changes};

/// What became of something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change<T> {
    /// It is only in the second profile.
    Added(T),
    /// It is only in the first profile.
    Removed(T),
    /// It is another one in the second profile.
    Changed {
        /// In the first profile.
        from: T,
        /// In the second one.
        to: T,
    },
}

impl<T: PartialEq> Change<T> {
    /// The change from one to the other; `None` where there is none.
    fn between(from: Option<T>, to: Option<T>) -> Option<Self> {
        match (from, to) {
            (None, None) => None,
            (None, Some(to)) => Some(Self::Added(to)),
            (Some(from), None) => Some(Self::Removed(from)),
            (Some(from), Some(to)) => (from != to).then_some(Self::Changed { from, to }),
        }
    }

    /// `+`, `-` or `~`, as in the output of comparing programs.
    pub const fn sign(&self) -> &'static str {
        match self {
            Self::Added(_) => "+",
            Self::Removed(_) => "-",
            Self::Changed { .. } => "~",
        }
    }
}

/// A setting that differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnvChange {
    /// Variable name.
    pub name: String,
    /// Its values.
    pub value: Change<String>,
}

/// Sizes at which another choice is taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleChange {
    /// The collective.
    pub collective: Collective,
    /// Number of nodes that it holds for.
    pub nodes: u32,
    /// Number of ranks that it holds for.
    pub ranks: u32,
    /// The sizes.
    pub bytes: ByteRange,
    /// The choices; none is the engine's own.
    pub choice: Change<Choice>,
}

/// Something else about what the two were measured on, for which one may not fit where the other does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Context {
    /// What.
    pub what: &'static str,
    /// In the first profile.
    pub from: String,
    /// In the second one.
    pub to: String,
}

/// Everything that differs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Diff {
    /// What they were measured on.
    pub context: Vec<Context>,
    /// Settings, by name.
    pub env: Vec<EnvChange>,
    /// Rules, by collective, nodes, ranks and size.
    pub rule: Vec<RuleChange>,
}

impl Diff {
    /// What changes for jobs that go from one profile to the other.
    pub fn between(from: &Profile, to: &Profile) -> Self {
        Self { context: contexts(from, to), env: env_changes(from, to), rule: rule_changes(&from.rule, &to.rule) }
    }

    /// What a profile changes for jobs that have none.
    pub fn from_defaults(to: &Profile) -> Self {
        let from = Profile { env: Vec::new(), rule: Vec::new(), ..to.clone() };
        Self::between(&from, to)
    }

    /// Whether jobs would not notice.
    pub fn is_empty(&self) -> bool {
        self.env.is_empty() && self.rule.is_empty()
    }
}

fn contexts(from: &Profile, to: &Profile) -> Vec<Context> {
    let facts = |profile: &Profile| {
        let Profile { cluster, run, .. } = profile;
        let yes_or_no = |is: bool| if is { "yes" } else { "no" }.to_owned();
        let or_none = |text: &Option<String>| text.clone().unwrap_or_else(|| "none".to_owned());
        [
            ("engine", run.engine.to_string()),
            ("nodes", cluster.nodes.to_string()),
            ("ranks", cluster.ranks.to_string()),
            ("GPU", or_none(&cluster.gpu)),
            ("NCCL", or_none(&cluster.nccl)),
            ("fingerprint", cluster.fingerprint.clone()),
            ("workload", run.workload.clone()),
            ("emulated nodes", yes_or_no(run.emulated)),
            ("verified", yes_or_no(!run.unverified)),
        ]
    };
    let both = facts(from).into_iter().zip(facts(to));
    both.filter(|(from, to)| from.1 != to.1).map(|((what, from), (_, to))| Context { what, from, to }).collect()
}

fn env_changes(from: &Profile, to: &Profile) -> Vec<EnvChange> {
    let (from, to) = (from.environment(), to.environment());
    let names: BTreeSet<&str> = from.iter().chain(to.iter()).map(|(name, _)| name).collect();
    let change = |name: &str| {
        let value = Change::between(from.get(name).map(str::to_owned), to.get(name).map(str::to_owned))?;
        Some(EnvChange { name: name.to_owned(), value })
    };
    names.into_iter().filter_map(change).collect()
}

/// The calls that a rule may be for.
type Calls = (Collective, u32, u32);

fn rule_changes(from: &[Rule], to: &[Rule]) -> Vec<RuleChange> {
    let (from, to) = (by_calls(from), by_calls(to));
    let calls: BTreeSet<Calls> = from.keys().chain(to.keys()).copied().collect();
    let changes = |calls: Calls| {
        let steps = |all: &BTreeMap<Calls, Vec<&Rule>>| steps(all.get(&calls).map_or(&[], Vec::as_slice));
        let (collective, nodes, ranks) = calls;
        let changes = differences(&steps(&from), &steps(&to)).into_iter();
        changes.map(move |(bytes, choice)| RuleChange { collective, nodes, ranks, bytes, choice })
    };
    calls.into_iter().flat_map(changes).collect()
}

fn by_calls(rules: &[Rule]) -> BTreeMap<Calls, Vec<&Rule>> {
    let mut calls: BTreeMap<Calls, Vec<&Rule>> = BTreeMap::new();
    for rule in rules {
        calls.entry((rule.collective, rule.nodes, rule.ranks)).or_default().push(rule);
    }
    calls
}

/// What is chosen from each size on, until the next one. Of rules that overlap, the first wins.
fn steps(rules: &[&Rule]) -> BTreeMap<u64, Option<Choice>> {
    let ranges: Vec<ByteRange> = rules.iter().map(|rule| rule.bytes).collect();
    let choice = |first: Option<usize>| first.and_then(|index| rules.get(index)).map(|rule| rule.choice());
    profile::steps(&ranges).into_iter().map(|(min, first)| (min, choice(first))).collect()
}

/// The ranges where two step functions differ; neighbours that differ alike are one.
fn differences(
    from: &BTreeMap<u64, Option<Choice>>,
    to: &BTreeMap<u64, Option<Choice>>,
) -> Vec<(ByteRange, Change<Choice>)> {
    let bounds: BTreeSet<u64> = from.keys().chain(to.keys()).copied().collect();
    let (mut here, mut there) = (None, None);
    let mut changes: Vec<(ByteRange, Change<Choice>)> = Vec::new();
    for min in bounds {
        here = from.get(&min).copied().unwrap_or(here);
        there = to.get(&min).copied().unwrap_or(there);
        // Each range ends where the next one begins; the last has no end.
        let open = changes.last_mut().filter(|(bytes, _)| bytes.max.is_none());
        let change = Change::between(here, there);
        match open {
            Some((_, last)) if change.as_ref() == Some(last) => continue,
            Some((bytes, _)) => bytes.max = Some(min - 1),
            None => {}
        }
        changes.extend(change.map(|change| (ByteRange { min, max: None }, change)));
    }
    changes
}

/// `+ NAME=1`, `~ NAME=1 -> 2`.
impl fmt::Display for EnvChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}={}", self.value.sign(), self.name, self.value)
    }
}

/// `- allreduce 1K to 64K on 4 nodes, 32 ranks: tree/ll/2`.
impl fmt::Display for RuleChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { collective, nodes, ranks, bytes, choice } = self;
        let plural = |n: u32| if n == 1 { "" } else { "s" };
        let shape = format!("{nodes} node{}, {ranks} rank{}", plural(*nodes), plural(*ranks));
        write!(f, "{} {collective} {bytes} on {shape}: {choice}", choice.sign())
    }
}

/// The value, or both: `1 -> 2`.
impl<T: fmt::Display> fmt::Display for Change<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Added(value) | Self::Removed(value) => write!(f, "{value}"),
            Self::Changed { from, to } => write!(f, "{from} -> {to}"),
        }
    }
}

/// `nodes: 4 -> 8`.
impl fmt::Display for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} -> {}", self.what, self.from, self.to)
    }
}

/// One change a line; what they were measured on comes first, as comments.
impl fmt::Display for Diff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.context.iter().try_for_each(|context| writeln!(f, "# {context}"))?;
        self.env.iter().try_for_each(|change| writeln!(f, "{change}"))?;
        self.rule.iter().try_for_each(|change| writeln!(f, "{change}"))
    }
}

#[cfg(test)]
#[path = "diff/tests.rs"]
mod tests;
