//! The tree as a list of rows: groups, their nodes, and what a node has.

use std::collections::{BTreeMap, BTreeSet};

use gdrtune_session::event::NodeFacts;

use crate::ui::{
    filter::Filter,
    run::{
        Node, NodeGroups,
        node_groups::{Group, Standing},
    },
};

/// A row, by what it shows. It stays the same while others come and go above it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Row {
    /// Several nodes that are alike, by the number of their group.
    Group(u32),
    /// A node.
    Node(u32),
    /// Something of a node.
    Part(u32, Part),
}

impl Row {
    /// Whether it can be expanded.
    pub(crate) const fn has_more(self) -> bool {
        matches!(self, Self::Group(_) | Self::Node(_))
    }
}

/// What is told of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Part {
    /// Why it is slow, failed or lost.
    Why,
    /// Something that most nodes have otherwise, by the number of the trait.
    Difference(u8),
    /// What its agent said when it was ready, or that nobody told more.
    Detail,
    /// Kernel, driver, CPUs.
    System,
    /// A GPU by its number.
    Gpu(u16),
    /// An RDMA adapter's port, by their places.
    Port(u16, u16),
    /// A network device by its place.
    Net(u16),
    /// What could not be read, by its place.
    Unreadable(u16),
}

/// The visible rows, each with how deep it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Rows(Vec<(Row, u8)>);

impl Rows {
    /// The rows of the nodes that pass the filter, with what is expanded.
    ///
    /// Its steps are those of groups, of nodes that are not folded, and of what is expanded; with a filter, of all nodes.
    pub(super) fn of(
        groups: &NodeGroups,
        nodes: &BTreeMap<u32, Node>,
        expanded: &BTreeSet<Row>,
        filter: &Filter,
    ) -> Self {
        let mut rows = Self::default();
        for (standing, number, group) in groups.groups() {
            let is_shown = shown(groups, nodes, (standing, group), filter);
            let members = || group.nodes.iter().copied().filter(|index| is_shown(*index));
            let mut first = members();
            let (Some(only), second) = (first.next(), first.next()) else { continue };
            if second.is_none() {
                rows.push_node(groups, group, only, 0, expanded);
                continue;
            }
            rows.0.push((Row::Group(number), 0));
            if expanded.contains(&Row::Group(number)) {
                members().for_each(|index| rows.push_node(groups, group, index, 1, expanded));
            }
        }
        rows
    }

    /// The rows of one node.
    pub(super) fn of_node(groups: &NodeGroups, index: u32, expanded: &BTreeSet<Row>) -> Self {
        let mut rows = Self::default();
        if let Some(group) = groups.group_of(index) {
            rows.push_node(groups, group, index, 0, expanded);
        }
        rows
    }

    /// How many there are.
    pub(crate) const fn len(&self) -> usize {
        self.0.len()
    }

    /// A row and how deep it is.
    pub(crate) fn get(&self, position: usize) -> Option<(Row, u8)> {
        self.0.get(position).copied()
    }

    /// All of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Row, u8)> {
        self.0.iter().copied()
    }

    /// Where a row is, or what it is folded into now.
    pub(super) fn position(&self, row: Row, groups: &NodeGroups) -> Option<usize> {
        let at = |wanted: Row| self.0.iter().position(|(row, _)| *row == wanted);
        match row {
            // One that has shrunk to a single node.
            Row::Group(number) => at(row).or_else(|| at(Row::Node(groups.group(number)?.nodes.first().copied()?))),
            Row::Node(index) | Row::Part(index, _) => {
                let folded = || at(Row::Group(groups.number_of(index)?));
                at(row).or_else(|| at(Row::Node(index))).or_else(folded)
            }
        }
    }

    fn push_node(&mut self, groups: &NodeGroups, group: &Group, index: u32, depth: u8, expanded: &BTreeSet<Row>) {
        self.0.push((Row::Node(index), depth));
        if !expanded.contains(&Row::Node(index)) {
            return;
        }
        let mut push = |part| self.0.push((Row::Part(index, part), depth + 1));
        if !group.why().is_empty() {
            push(Part::Why);
        }
        groups.differences(group).for_each(|difference| push(Part::Difference(difference.number)));
        match groups.facts(index) {
            Some(facts) => push_facts(facts, push),
            None => push(Part::Detail),
        }
    }
}

fn push_facts(facts: &NodeFacts, mut push: impl FnMut(Part)) {
    push(Part::System);
    (0..).zip(&facts.gpus).for_each(|(number, _)| push(Part::Gpu(number)));
    for (number, hca) in (0..).zip(&facts.hcas) {
        (0..).zip(&hca.ports).for_each(|(port, _)| push(Part::Port(number, port)));
    }
    (0..).zip(&facts.nets).for_each(|(number, _)| push(Part::Net(number)));
    (0..).zip(&facts.unreadable).for_each(|(number, _)| push(Part::Unreadable(number)));
}

/// Whether a node of a group passes the filter: by its name, its state, or what it has.
fn shown<'a>(
    groups: &'a NodeGroups,
    nodes: &'a BTreeMap<u32, Node>,
    (standing, group): (Standing, &'a Group),
    filter: &'a Filter,
) -> impl Fn(u32) -> bool + 'a {
    // All that the nodes of a group share is joined once.
    let common =
        (!filter.is_empty()).then(|| format!("{} {} {}", standing.word(), group.why(), groups.values(group).join(" ")));
    move |index| {
        let Some(common) = &common else { return true };
        filter.matches(&format!("{} {common}", nodes.get(&index).map_or("", |node| &node.host)))
    }
}
