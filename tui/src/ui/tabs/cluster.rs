//! The cluster view: a tree of nodes and what they have, those that need a look first.
//!
//! The cursor stays with what it is on while groups come, go and change their order.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

use gdrtune_fleet::hosts::fold;

use super::{Motion, list::visible_top};
use crate::ui::{
    filter::Filter,
    layout::Layout,
    run::{Node, NodeGroups, Summary},
    state::State,
    text::one_line,
};

mod rows;
mod words;

pub(crate) use self::{
    rows::{Row, Rows},
    words::{Health, Words},
};

/// What is looked at.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Cluster {
    /// The row under the cursor; absent is the first one.
    cursor: Option<Row>,
    /// Where that was when it was last moved, for when the row is gone.
    cursor_line: usize,
    /// The first row on the screen.
    top: usize,
    expanded: BTreeSet<Row>,
    /// Marked nodes.
    marks: BTreeSet<u32>,
    /// Their hosts, folded.
    marked_hosts: String,
    pub(crate) filter: Filter,
}

impl Cluster {
    /// Whether what is below a row can be seen.
    pub(crate) fn is_expanded(&self, row: Row) -> bool {
        self.expanded.contains(&row)
    }

    /// Whether all nodes of a row are marked.
    pub(crate) fn is_marked(&self, row: Row, groups: &NodeGroups) -> bool {
        match row {
            Row::Group(number) => groups.group(number).is_some_and(|group| group.nodes.is_subset(&self.marks)),
            Row::Node(index) => self.marks.contains(&index),
            Row::Part(..) => false,
        }
    }

    /// How many nodes are marked, and their hosts, folded.
    pub(crate) fn marked(&self) -> Option<(usize, &str)> {
        (!self.marks.is_empty()).then_some((self.marks.len(), &self.marked_hosts))
    }

    fn rows(&self, summary: &Summary) -> Rows {
        Rows::of(&summary.node_groups, &summary.nodes, &self.expanded, &self.filter)
    }

    fn cursor_row(&self, rows: &Rows, groups: &NodeGroups) -> usize {
        let found = self.cursor.map_or(Some(0), |row| rows.position(row, groups));
        found.unwrap_or(self.cursor_line).min(rows.len().saturating_sub(1))
    }

    fn set_cursor(&mut self, rows: &Rows, position: usize, n_visible: usize) {
        self.cursor = rows.get(position).map(|(row, _)| row);
        self.cursor_line = position;
        self.top = visible_top(self.top, position, rows.len(), n_visible);
    }

    fn set_marks(&mut self, marks: BTreeSet<u32>, nodes: &BTreeMap<u32, Node>) {
        let hosts: Vec<&str> =
            marks.iter().filter_map(|index| nodes.get(index)).map(|node| node.host.as_str()).collect();
        (self.marked_hosts, self.marks) = (one_line(&fold(&hosts)), marks);
    }
}

/// The rows that are shown.
pub(crate) fn rows(state: &State) -> Rows {
    state.view.tabs.cluster.rows(state.shown())
}

/// Where the cursor is among the rows, and the first of those on a screen of `n_visible` lines.
pub(crate) fn cursor_and_top(state: &State, rows: &Rows, n_visible: usize) -> (usize, usize) {
    let view = &state.view.tabs.cluster;
    let cursor = view.cursor_row(rows, &state.shown().node_groups);
    (cursor, visible_top(view.top, cursor, rows.len(), n_visible))
}

/// Changes what is looked at. The shown run lies in another part of the state, so the view is taken out for as long.
fn change(state: &mut State, change: impl FnOnce(&mut Cluster, &Summary, &Rows, usize)) {
    let n_visible = n_visible(state);
    let mut view = std::mem::take(&mut state.view.tabs.cluster);
    let summary = state.shown();
    let rows = view.rows(summary);
    let cursor = view.cursor_row(&rows, &summary.node_groups);
    change(&mut view, summary, &rows, cursor);
    let rows = view.rows(summary);
    let cursor = view.cursor_row(&rows, &summary.node_groups);
    view.set_cursor(&rows, cursor, n_visible);
    state.view.tabs.cluster = view;
}

fn n_visible(state: &State) -> usize {
    Layout::of(state).map_or(0, |layout| layout.rows(state))
}

/// Puts the cursor on another row; `None` leaves it.
fn go_to(state: &mut State, target: impl FnOnce(&Cluster, &Rows, usize) -> Option<usize>) {
    let n_visible = n_visible(state);
    change(state, |view, _, rows, cursor| {
        if let Some(position) = target(view, rows, cursor) {
            view.set_cursor(rows, position, n_visible);
        }
    });
}

pub(super) fn move_cursor(state: &mut State, motion: Motion) {
    go_to(state, |_, rows, cursor| Some(motion.from(cursor, rows.len())));
}

pub(super) fn click(state: &mut State, line: usize) {
    let n_visible = n_visible(state);
    go_to(state, |view, rows, cursor| {
        let position = visible_top(view.top, cursor, rows.len(), n_visible) + line;
        (position < rows.len()).then_some(position)
    });
}

pub(super) fn set_filter(state: &mut State, filter: Filter) {
    change(state, |view, _, _, _| view.filter = filter);
}

/// Shows what is below the row under the cursor, or no more.
pub(crate) fn toggle(state: &mut State) {
    change(state, |view, _, rows, cursor| {
        if let Some(row) = rows.get(cursor).map(|(row, _)| row).filter(|row| row.has_more())
            && !view.expanded.remove(&row)
        {
            view.expanded.insert(row);
        }
    });
}

/// Shows what is below the row under the cursor; goes there where it is shown.
pub(crate) fn expand(state: &mut State) {
    let n_visible = n_visible(state);
    change(state, |view, _, rows, cursor| {
        let Some((row, depth)) = rows.get(cursor).filter(|(row, _)| row.has_more()) else { return };
        if !view.expanded.insert(row) && rows.get(cursor + 1).is_some_and(|(_, below)| depth < below) {
            view.set_cursor(rows, cursor + 1, n_visible);
        }
    });
}

/// Folds the row under the cursor; goes from one that is folded to the one that it is below of.
pub(crate) fn collapse(state: &mut State) {
    let n_visible = n_visible(state);
    change(state, |view, _, rows, cursor| {
        let Some((row, depth)) = rows.get(cursor) else { return };
        if view.expanded.remove(&row) {
            return;
        }
        let is_above = |position: &usize| rows.get(*position).is_some_and(|(_, other)| other < depth);
        if let Some(above) = (0..cursor).rev().find(is_above) {
            view.set_cursor(rows, above, n_visible);
        }
    });
}

/// Marks the nodes of the row under the cursor, or takes the marks away where all have one.
pub(super) fn mark(state: &mut State) {
    change(state, |view, summary, rows, cursor| {
        let nodes = match rows.get(cursor) {
            Some((Row::Group(number), _)) => match summary.node_groups.group(number) {
                Some(group) => group.nodes.clone(),
                None => return,
            },
            Some((Row::Node(index) | Row::Part(index, _), _)) => BTreeSet::from([index]),
            None => return,
        };
        let marks = if nodes.is_subset(&view.marks) { &view.marks - &nodes } else { &view.marks | &nodes };
        view.set_marks(marks, &summary.nodes);
    });
}

pub(super) fn next_mark(state: &mut State) {
    if state.view.tabs.cluster.marks.is_empty() {
        state.notice("nothing is marked: m marks");
        return;
    }
    let n_visible = n_visible(state);
    change(state, |view, summary, rows, cursor| {
        let is_marked =
            |position: &usize| rows.get(*position).is_some_and(|(row, _)| view.is_marked(row, &summary.node_groups));
        if let Some(next) = (cursor + 1..rows.len()).chain(0..cursor).find(is_marked) {
            view.set_cursor(rows, next, n_visible);
        }
    });
}

/// The row under the cursor, in words.
pub(super) fn copied(state: &State) -> Option<String> {
    let rows = rows(state);
    let (row, _) = rows.get(cursor_and_top(state, &rows, 0).0)?;
    Some(one_line(&Words::of(state.shown(), row)?.to_string()))
}

/// All nodes with all that they have, or the marked ones.
pub(super) fn exported(state: &State) -> Option<String> {
    let summary = state.shown();
    let marks = &state.view.tabs.cluster.marks;
    let nodes: Vec<u32> =
        summary.nodes.keys().copied().filter(|index| marks.is_empty() || marks.contains(index)).collect();
    let expanded: BTreeSet<Row> = nodes.iter().map(|index| Row::Node(*index)).collect();
    let mut text = String::new();
    for index in &nodes {
        for (row, depth) in Rows::of_node(&summary.node_groups, *index, &expanded).iter() {
            let Some(words) = Words::of(summary, row) else { continue };
            let indent = "  ".repeat(usize::from(depth));
            // Writing to a String cannot fail.
            writeln!(text, "{indent}{}", one_line(&words.to_string())).unwrap_or_default();
        }
    }
    (!nodes.is_empty()).then_some(text)
}
