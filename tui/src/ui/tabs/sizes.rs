//! The sizes: each point with its default, its best and how sure that is.

use std::{collections::BTreeSet, fmt::Write as _};

use gdrtune_profiles::{
    size::Size,
    vocab::{Choice, Point},
};
use gdrtune_session::event::Decision;

use super::{Motion, Sorting, list::visible_top};
use crate::ui::{
    filter::Filter,
    layout::Layout,
    run::{PointSeries, PointVerdict, Ships, Summary},
    state::State,
    text,
};

/// Fewer pairs of samples say nothing: three of each are 9.
const MIN_PAIRS: usize = 9;

/// What is looked at.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Sizes {
    /// The point under the cursor; absent is the first row.
    pub(crate) cursor: Option<Point>,
    /// The first row on the screen, as it was when it was last scrolled.
    pub(crate) top: usize,
    pub(crate) column: Column,
    pub(crate) is_reversed: bool,
    pub(crate) filter: Filter,
    pub(crate) marks: BTreeSet<Point>,
}

/// What the rows are sorted by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Column {
    /// Collective and size.
    #[default]
    Point,
    /// The largest gain first.
    Gain,
    /// The surest gain first.
    Certainty,
    /// The fewest samples first.
    Repeats,
}

impl Column {
    const fn next(self) -> Self {
        match self {
            Self::Point => Self::Gain,
            Self::Gain => Self::Certainty,
            Self::Certainty => Self::Repeats,
            Self::Repeats => Self::Point,
        }
    }
}

/// One row.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Row<'a> {
    pub(crate) point: Point,
    pub(crate) series: &'a PointSeries,
    /// The best choice, after the A/B the one that ships; absent is the engine's own.
    pub(crate) choice: Option<Choice>,
    /// Whether anything was found that is not the default.
    pub(crate) has_best: bool,
    pub(crate) certainty: Certainty,
    /// Samples of the default and of the best.
    pub(crate) n_samples: (usize, usize),
}

/// How sure it is that the best is faster than the default.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Certainty {
    /// Nothing to compare.
    Unknown,
    /// Of all pairs of a default's and a best's sample, the share in which the best is faster, and how many pairs there
    /// are. It flatters, since the best was picked for being fast.
    Pairs(f64, usize),
    /// What the A/B said.
    Verdict(PointVerdict),
}

impl Certainty {
    /// For sorting: the lower end of a verdict counts more than any estimate.
    fn rank(self) -> (u8, f64) {
        match self {
            Self::Unknown => (0, 0.0),
            Self::Pairs(share, _) => (1, share),
            Self::Verdict(verdict) => (2, verdict.speedup.low),
        }
    }
}

impl Row<'_> {
    /// What the filter looks at.
    fn text(&self) -> String {
        let choice = choice_text(self);
        format!("{} {choice} {}", self.point, certainty_text(self.certainty))
    }
}

/// What a choice is called.
pub(crate) fn choice_text(row: &Row<'_>) -> String {
    match (row.has_best, row.choice) {
        (false, _) => "default".to_owned(),
        (true, None) => "engine's own".to_owned(),
        (true, Some(choice)) => choice.to_string(),
    }
}

/// `97 % of 12 pairs`, `[1.30-1.41] ships`.
pub(crate) fn certainty_text(certainty: Certainty) -> String {
    match certainty {
        Certainty::Unknown => String::new(),
        Certainty::Pairs(_, n) if n < MIN_PAIRS => "too few samples".to_owned(),
        Certainty::Pairs(share, n) => format!("{:.0} % of {}", share * 100.0, text::count(n as u64, "pair")),
        Certainty::Verdict(verdict) => {
            let word = match verdict.decision {
                Decision::Ship => "ships",
                Decision::Keep => "no sure gain",
                Decision::Regression => "slower",
                Decision::TooNoisy => "too noisy",
            };
            format!("[{:.2}-{:.2}] {word}", verdict.speedup.low, verdict.speedup.high)
        }
    }
}

/// The share of pairs in which the second is smaller; ties count half. Both are sorted.
fn share_of_pairs(default_us: &[f64], best_us: &[f32]) -> Option<(f64, usize)> {
    let n_pairs = default_us.len() * best_us.len();
    let doubled: usize = default_us
        .iter()
        .map(|default| {
            let below = best_us.partition_point(|best| f64::from(*best) < *default);
            let not_above = best_us.partition_point(|best| f64::from(*best) <= *default);
            below + not_above
        })
        .sum();
    (0 < n_pairs).then(|| (doubled as f64 / (2 * n_pairs) as f64, n_pairs))
}

fn row_of<'a>(summary: &'a Summary, point: Point, series: &'a PointSeries) -> Row<'a> {
    let best = series.best.as_ref();
    let choice = best.and_then(|best| best.choice);
    let cell = best.and_then(|best| summary.search.cell(best.environment, point, best.choice?));
    let best_us = cell.map_or(&[][..], |cell| cell.samples_us());
    let certainty = match series.verdict {
        Some(verdict) => Certainty::Verdict(verdict),
        None => match share_of_pairs(series.default_samples_us(), best_us) {
            Some((share, n_pairs)) => Certainty::Pairs(share, n_pairs),
            None => Certainty::Unknown,
        },
    };
    // What the search liked best may have been left out by the A/B.
    let (has_best, choice) = match summary.ships_at(point) {
        None => (best.is_some(), choice),
        Some(Ships::Default) => (false, None),
        Some(Ships::SettingsOnly) => (true, None),
        Some(Ships::Choice(choice)) => (true, Some(choice)),
    };
    let n_best = best.map_or(0, |best| best.samples as usize);
    let n_samples = (series.default_samples_us().len(), n_best);
    Row { point, series, choice, has_best, certainty, n_samples }
}

/// The rows that are shown, in their order. As many as there are points.
pub(crate) fn rows(state: &State) -> Vec<Row<'_>> {
    let summary = state.shown();
    let view = &state.view.tabs.sizes;
    let points = summary.collectives.iter().flat_map(|collective| summary.points_of(*collective));
    let rows = points.map(|(point, series)| row_of(summary, point, series));
    let mut rows: Vec<Row<'_>> =
        rows.filter(|row| view.filter.is_empty() || view.filter.matches(&row.text())).collect();
    // The largest first; equal ones stay in the order of the points.
    let gain = |row: &Row<'_>| row.series.known_gain().unwrap_or(0.0);
    match view.column {
        Column::Point => {}
        Column::Gain => rows.sort_by(|a, b| gain(b).total_cmp(&gain(a))),
        Column::Certainty => rows.sort_by(|a, b| {
            let (a, b) = (a.certainty.rank(), b.certainty.rank());
            b.0.cmp(&a.0).then(b.1.total_cmp(&a.1))
        }),
        Column::Repeats => rows.sort_by_key(|row| row.n_samples.0 + row.n_samples.1),
    }
    if view.is_reversed {
        rows.reverse();
    }
    rows
}

/// Where the cursor is among the rows.
pub(crate) fn cursor_row(state: &State, rows: &[Row<'_>]) -> usize {
    let cursor = state.view.tabs.sizes.cursor;
    cursor.and_then(|point| rows.iter().position(|row| row.point == point)).unwrap_or(0)
}

fn set_cursor(state: &mut State, target: impl Fn(&[Row<'_>], usize) -> usize) {
    let n_visible = Layout::of(state).map_or(0, |layout| layout.rows(state));
    let rows = rows(state);
    let index = target(&rows, cursor_row(state, &rows));
    let Some(point) = rows.get(index).map(|row| row.point) else { return };
    let top = visible_top(state.view.tabs.sizes.top, index, rows.len(), n_visible);
    (state.view.tabs.sizes.cursor, state.view.tabs.sizes.top) = (Some(point), top);
}

pub(super) fn move_cursor(state: &mut State, motion: Motion) {
    set_cursor(state, |rows, row| motion.from(row, rows.len()));
}

pub(super) fn click(state: &mut State, line: usize) {
    let top = state.view.tabs.sizes.top;
    // The column heads are line 0.
    let Some(line) = line.checked_sub(1) else { return };
    set_cursor(state, |rows, row| if top + line < rows.len() { top + line } else { row });
}

pub(super) fn set_filter(state: &mut State, filter: Filter) {
    state.view.tabs.sizes.filter = filter;
    set_cursor(state, |_, row| row);
}

pub(super) fn sort(state: &mut State, sorting: Sorting) {
    let view = &mut state.view.tabs.sizes;
    match sorting {
        Sorting::Next => view.column = view.column.next(),
        Sorting::Reversed => view.is_reversed = !view.is_reversed,
    }
    set_cursor(state, |_, row| row);
}

pub(super) fn mark(state: &mut State) {
    let rows = rows(state);
    let Some(point) = rows.get(cursor_row(state, &rows)).map(|row| row.point) else { return };
    let marks = &mut state.view.tabs.sizes.marks;
    if !marks.remove(&point) {
        marks.insert(point);
    }
}

pub(super) fn next_mark(state: &mut State) {
    let marks = state.view.tabs.sizes.marks.clone();
    if marks.is_empty() {
        state.notice("nothing is marked: m marks");
        return;
    }
    set_cursor(state, |rows, row| {
        let marked = |index: &usize| rows.get(*index).is_some_and(|row| marks.contains(&row.point));
        (row + 1..rows.len()).chain(0..row).find(marked).unwrap_or(row)
    });
}

/// The collective and size under the cursor, with its times.
pub(super) fn copied(state: &State) -> Option<String> {
    let rows = rows(state);
    let row = rows.get(cursor_row(state, &rows))?;
    let times = [row.series.default_us(), row.series.best_us()].map(|us| us.map_or("?".to_owned(), text::microseconds));
    let gain = row.series.known_gain().map_or_else(String::new, |gain| format!(" {}", text::ratio(gain)));
    let [default, best] = times;
    Some(format!("{}: default {default} us, best {best} us{gain} {}", row.point, choice_text(row)))
}

/// All points as CSV, or the marked ones.
pub(super) fn exported(state: &State) -> Option<String> {
    let summary = state.shown();
    let marks = &state.view.tabs.sizes.marks;
    let mut csv =
        "collective,bytes,size,default_us,best_us,gain,choice,samples_default,samples_best,certainty\n".to_owned();
    let mut rows = rows(state);
    rows.retain(|row| marks.is_empty() || marks.contains(&row.point));
    for row in &rows {
        let number = |value: Option<f64>| value.map_or_else(String::new, |value| format!("{value:.4}"));
        let Point { collective, bytes } = row.point;
        // Writing to a String cannot fail.
        writeln!(
            csv,
            "{collective},{bytes},{},{},{},{},{},{},{},{}",
            Size(bytes),
            number(row.series.default_us()),
            number(row.series.best_us()),
            number(row.series.known_gain()),
            choice_text(row),
            row.n_samples.0,
            row.n_samples.1,
            certainty_text(row.certainty)
        )
        .unwrap_or_default();
    }
    (!summary.points.is_empty()).then_some(csv)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_counted_and_ties_halved() {
        for (default_us, best_us, expected) in [
            (&[2.0, 3.0][..], &[1.0_f32][..], Some(1.0)),
            (&[1.0, 3.0], &[2.0], Some(0.5)),
            (&[2.0], &[2.0], Some(0.5)),
            (&[1.0, 2.0], &[2.0, 3.0], Some(0.125)),
            (&[], &[1.0], None),
            (&[1.0], &[], None),
        ] {
            assert_eq!(
                share_of_pairs(default_us, best_us).map(|pairs| pairs.0),
                expected,
                "{default_us:?} {best_us:?}"
            );
        }
    }
}
