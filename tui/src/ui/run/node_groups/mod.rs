//! What the nodes of a run have, and which are alike: aggregates that each record changes in small steps.
//!
//! Nodes with the same state and the same traits are one *group*. What most nodes have is *usual*; a group that has something
//! else is odd. Facts are kept once for all nodes that share them, so that freezing the display stays cheap.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use gdrtune_session::event::{FactsOf, LeftOut, NodeFacts, NodeState};

use super::{Node, Summary};
use traits::TRAITS;

#[cfg(test)]
pub(crate) mod tests;
mod traits;

pub(crate) use self::traits::{model, rate, speed};

/// Where a node stands, the worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Standing {
    /// Could not be used.
    Failed,
    /// Was there and is gone.
    Lost,
    /// Slower than the others.
    Slow,
    /// Has something else than most.
    Odd,
    /// On its way.
    Connecting,
    /// As it should be.
    Ready,
    /// Ended as planned.
    Closed,
}

impl Standing {
    /// One word for it.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Lost => "lost",
            Self::Slow => "slow",
            Self::Odd => "differs",
            Self::Connecting => "connecting",
            Self::Ready => "ready",
            Self::Closed => "closed",
        }
    }
}

/// Something that a group has and most nodes have not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Difference<'g> {
    /// Place in [`TRAITS`].
    pub(crate) number: u8,
    pub(crate) own: &'g str,
    pub(crate) usual: &'g str,
}

impl Difference<'_> {
    /// What it is about.
    pub(crate) fn name(&self) -> &'static str {
        TRAITS.get(usize::from(self.number)).map_or("", |compared| compared.name)
    }
}

/// The nodes.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct NodeGroups {
    /// Facts by node; equal nodes share them.
    facts: BTreeMap<u32, Known>,
    /// Why a node is slow.
    slow: BTreeMap<u32, String>,
    /// What is compared, once for all nodes that have the same, by number.
    classes: Vec<Arc<Class>>,
    class_numbers: BTreeMap<Vec<String>, u32>,
    /// Nodes by the value of each trait.
    counts: [BTreeMap<String, u32>; TRAITS.len()],
    /// What more nodes have than anything else.
    usual: [Option<String>; TRAITS.len()],
    /// By number; none is empty.
    groups: BTreeMap<u32, Group>,
    group_numbers: BTreeMap<Arc<GroupKey>, u32>,
    group_of: BTreeMap<u32, u32>,
}

/// Facts and what follows of them.
#[derive(Debug, Clone, PartialEq)]
struct Known {
    facts: Arc<NodeFacts>,
    class: u32,
}

/// What nodes of the same traits have.
#[derive(Debug, PartialEq)]
struct Class {
    /// In the order of [`TRAITS`].
    values: Vec<String>,
    summary: String,
}

/// What the nodes of a group have in common.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct GroupKey {
    state: NodeState,
    /// Why they are slow, failed or lost; empty where they are neither.
    why: String,
    class: Option<u32>,
    /// What their agents said when they were ready, where there are no facts.
    detail: String,
}

/// Nodes that are alike.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Group {
    key: Arc<GroupKey>,
    /// At least one.
    pub(crate) nodes: BTreeSet<u32>,
}

impl Summary {
    /// A node is in another state.
    pub(crate) fn tell_node(&mut self, index: u32, node: Node) {
        self.node_groups.tell_state(index, &node);
        self.nodes.insert(index, node);
    }

    /// A node tells what it has.
    pub(crate) fn tell_facts(&mut self, index: u32, facts: FactsOf) {
        self.node_groups.tell_facts(index, facts, self.nodes.get(&index));
    }

    /// A node is slower than the others.
    pub(crate) fn tell_slow(&mut self, index: u32, why: String) {
        self.node_groups.tell_slow(index, why, self.nodes.get(&index));
    }

    /// The run goes on without nodes. Of those that are lost it is known already.
    pub(crate) fn leave_out(&mut self, left_out: Vec<LeftOut>) {
        for LeftOut { index, host, why } in left_out {
            if self.nodes.get(&index).is_some_and(|node| node.state == NodeState::Ready) {
                self.tell_node(index, Node { host, state: NodeState::Failed, detail: why });
            }
        }
    }
}

impl NodeGroups {
    /// A node's state changed.
    fn tell_state(&mut self, index: u32, node: &Node) {
        let is_gone = matches!(node.state, NodeState::Failed | NodeState::Lost);
        let said = match self.slow.get(&index) {
            _ if is_gone => node.detail.as_str(),
            Some(why) => why,
            None => "",
        };
        let why = without_host(said, &node.host).to_owned();
        let class = self.facts.get(&index).map(|known| known.class);
        let is_all = class.is_none() && !is_gone;
        let detail = if is_all { node.detail.clone() } else { String::new() };
        self.regroup(index, GroupKey { state: node.state, why, class, detail });
    }

    /// A node tells what it has.
    fn tell_facts(&mut self, index: u32, facts: FactsOf, node: Option<&Node>) {
        let known = match facts {
            FactsOf::Own(facts) => {
                let class = self.class_of(&facts);
                Some(Known { facts: Arc::new(*facts), class })
            }
            FactsOf::Like(other) => self.facts.get(&other).cloned(),
        };
        let class = known.as_ref().map(|known| known.class);
        let before = match known {
            Some(known) => self.facts.insert(index, known),
            None => self.facts.remove(&index),
        };
        let before = before.map(|known| known.class);
        if before != class {
            self.count(before, class);
        }
        if let Some(node) = node {
            self.tell_state(index, node);
        }
    }

    /// A node is slower than the others.
    fn tell_slow(&mut self, index: u32, why: String, node: Option<&Node>) {
        self.slow.insert(index, why);
        if let Some(node) = node {
            self.tell_state(index, node);
        }
    }

    fn class_of(&mut self, facts: &NodeFacts) -> u32 {
        let values = traits::values(facts);
        if let Some(number) = self.class_numbers.get(&values) {
            return *number;
        }
        let number = self.classes.len() as u32;
        self.class_numbers.insert(values.clone(), number);
        self.classes.push(Arc::new(Class { values, summary: traits::summary(facts) }));
        number
    }

    /// Takes a node from one class to another, and finds out what is usual now.
    fn count(&mut self, before: Option<u32>, now: Option<u32>) {
        let class = |number: Option<u32>| self.classes.get(number? as usize).map(Arc::clone);
        let (before, now) = (class(before), class(now));
        for (number, (counts, usual)) in self.counts.iter_mut().zip(&mut self.usual).enumerate() {
            let value = |class: &Option<Arc<Class>>| class.as_ref()?.values.get(number).cloned();
            let (before, now) = (value(&before), value(&now));
            if before == now {
                // Its count is the same.
                continue;
            }
            if let Some(before) = before
                && let Some(count) = counts.get_mut(&before)
            {
                *count -= 1;
                if *count == 0 {
                    counts.remove(&before);
                }
            }
            if let Some(now) = now {
                *counts.entry(now).or_default() += 1;
            }
            let most = counts.values().max().copied();
            let mut usual_ones = counts.iter().filter(|(_, count)| Some(**count) == most);
            // Of two halves, neither is odd.
            *usual = match (usual_ones.next(), usual_ones.next()) {
                (Some((value, _)), None) => Some(value.clone()),
                _ => None,
            };
        }
    }

    fn regroup(&mut self, index: u32, key: GroupKey) {
        let key = Arc::new(key);
        let next = self.group_numbers.len() as u32;
        let number = *self.group_numbers.entry(Arc::clone(&key)).or_insert(next);
        let before = self.group_of.insert(index, number);
        if before == Some(number) {
            return;
        }
        if let Some(before) = before
            && let Some(group) = self.groups.get_mut(&before)
        {
            group.nodes.remove(&index);
            if group.nodes.is_empty() {
                self.groups.remove(&before);
            }
        }
        self.groups.entry(number).or_insert_with(|| Group { key, nodes: BTreeSet::new() }).nodes.insert(index);
    }

    /// A group by its number.
    pub(crate) fn group(&self, number: u32) -> Option<&Group> {
        self.groups.get(&number)
    }

    /// The number of the group of a node.
    pub(crate) fn number_of(&self, index: u32) -> Option<u32> {
        self.group_of.get(&index).copied()
    }

    /// The group of a node.
    pub(crate) fn group_of(&self, index: u32) -> Option<&Group> {
        self.groups.get(self.group_of.get(&index)?)
    }

    /// The groups and where their nodes stand: the worst first, then in rank order.
    pub(crate) fn groups(&self) -> Vec<(Standing, u32, &Group)> {
        let standing = |(number, group): (&u32, &'_ Group)| (self.standing(group), *number);
        let mut groups: Vec<(Standing, u32, &Group)> = self
            .groups
            .iter()
            .map(|(number, group)| {
                let (standing, number) = standing((number, group));
                (standing, number, group)
            })
            .collect();
        groups.sort_by_key(|(standing, _, group)| (*standing, group.nodes.first().copied()));
        groups
    }

    /// Where the nodes of a group stand.
    pub(crate) fn standing(&self, group: &Group) -> Standing {
        match group.key.state {
            NodeState::Failed => Standing::Failed,
            NodeState::Lost => Standing::Lost,
            _ if !group.key.why.is_empty() => Standing::Slow,
            _ if self.differences(group).next().is_some() => Standing::Odd,
            NodeState::Connecting => Standing::Connecting,
            NodeState::Ready => Standing::Ready,
            NodeState::Closed => Standing::Closed,
        }
    }

    /// What the nodes of a group have that most have not.
    pub(crate) fn differences<'g>(&'g self, group: &Group) -> impl Iterator<Item = Difference<'g>> + use<'g> {
        let class = group.key.class.and_then(|number| self.classes.get(number as usize));
        let values = class.map_or(&[][..], |class| &class.values);
        (0_u8..).zip(values.iter().zip(&self.usual)).filter_map(|(number, (own, usual))| {
            let usual = usual.as_deref()?;
            (own != usual).then_some(Difference { number, own, usual })
        })
    }

    /// `8 GPUs H200, 8 HCAs 400 Gb/s`; nothing where nobody told.
    pub(crate) fn summary(&self, group: &Group) -> &str {
        group.key.class.and_then(|number| self.classes.get(number as usize)).map_or("", |class| &class.summary)
    }

    /// All that nodes of a group are compared by, for the filter.
    pub(crate) fn values(&self, group: &Group) -> &[String] {
        group.key.class.and_then(|number| self.classes.get(number as usize)).map_or(&[], |class| &class.values)
    }

    /// What a node has, where it told.
    pub(crate) fn facts(&self, index: u32) -> Option<&NodeFacts> {
        self.facts.get(&index).map(|known| &*known.facts)
    }

    /// Nodes by where they stand.
    pub(crate) fn tally(&self) -> BTreeMap<Standing, usize> {
        let mut tally = BTreeMap::new();
        for group in self.groups.values() {
            *tally.entry(self.standing(group)).or_default() += group.nodes.len();
        }
        tally
    }
}

/// Reasons often begin with the host, whose name stands beside them.
fn without_host<'t>(said: &'t str, host: &str) -> &'t str {
    let rest = said.strip_prefix(host);
    rest.and_then(|rest| [": ", " is slow: ", " is "].into_iter().find_map(|glue| rest.strip_prefix(glue)))
        .unwrap_or(said)
}

impl Group {
    /// Why its nodes are slow, failed or lost; empty where they are neither.
    pub(crate) fn why(&self) -> &str {
        &self.key.why
    }
}
