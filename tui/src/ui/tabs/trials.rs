//! The trials: every measurement, sorted and filtered, with one of them in detail.
//!
//! What is shown of a hundred thousand of them is an index that each new trial is put into, so that neither a frame nor a
//! record looks at all of them.

use std::{cmp::Ordering, collections::BTreeSet, fmt::Write as _};

use gdrtune_session::event::Arm;

use super::{Motion, Sorting, list::visible_top};
use crate::ui::{
    filter::Filter,
    layout::Layout,
    run::{Outcome, Run, TrialRow},
    state::State,
    text::{self, one_line},
};

/// What is looked at.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Trials {
    /// Position of the trial under the cursor among all; absent follows the first row.
    pub(crate) cursor: Option<usize>,
    /// The first row on the screen.
    pub(crate) top: usize,
    pub(crate) column: Column,
    pub(crate) is_reversed: bool,
    pub(crate) filter: Filter,
    /// Positions of marked trials.
    pub(crate) marks: BTreeSet<usize>,
    /// Whether the trial under the cursor is shown in detail.
    pub(crate) has_detail: bool,
    /// Positions of the trials that are shown, in the order of the column, the smallest first; absent where that is
    /// all of them as they came.
    index: Option<Vec<u32>>,
}

/// What the rows are sorted by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Column {
    /// The newest first.
    #[default]
    Number,
    /// The largest gain first.
    Gain,
    /// The highest bus bandwidth first.
    Busbw,
    /// The longest time first.
    Time,
    /// By collective and size.
    Point,
}

impl Column {
    const fn next(self) -> Self {
        match self {
            Self::Number => Self::Gain,
            Self::Gain => Self::Busbw,
            Self::Busbw => Self::Time,
            Self::Time => Self::Point,
            Self::Point => Self::Number,
        }
    }

    /// The order of two trials; what failed is smaller than what was timed.
    fn compare(self, a: &TrialRow, b: &TrialRow) -> Ordering {
        let by = |value: fn(&TrialRow) -> Option<f64>| {
            let [a, b] = [a, b].map(|row| value(row).unwrap_or(f64::NEG_INFINITY));
            a.total_cmp(&b)
        };
        match self {
            Self::Number => Ordering::Equal,
            Self::Gain => by(|row| row.measured()?.gain),
            Self::Busbw => by(|row| Some(row.measured()?.busbw_gbs)),
            Self::Time => by(|row| Some(row.measured()?.time_us)),
            Self::Point => a.point.cmp(&b.point),
        }
    }
}

impl Trials {
    /// Takes the newest trial into the index.
    pub(crate) fn take_newest(&mut self, run: &Run) {
        let Some(position) = run.trials.len().checked_sub(1) else { return };
        let Some(index) = &mut self.index else { return };
        let Some(newest) = run.trials.get(position) else { return };
        if self.filter.matches(&searched(run, newest)) {
            let column = self.column;
            let at = index.partition_point(|other| {
                run.trials.get(*other as usize).is_some_and(|other| column.compare(other, newest).is_le())
            });
            index.insert(at, position as u32);
        }
    }

    /// Makes the index anew, of the first `n_trials`.
    pub(crate) fn rebuild(&mut self, run: &Run, n_trials: usize) {
        self.cursor = self.cursor.filter(|cursor| *cursor < n_trials);
        if self.filter.is_empty() && self.column == Column::Number {
            self.index = None;
            return;
        }
        let all = run.trials.iter().take(n_trials).enumerate();
        let shown = all.filter(|(_, row)| self.filter.is_empty() || self.filter.matches(&searched(run, row)));
        let mut index: Vec<u32> = shown.map(|(position, _)| position as u32).collect();
        let row = |position: &u32| run.trials.get(*position as usize);
        index.sort_by(|a, b| match (row(a), row(b)) {
            (Some(a), Some(b)) => self.column.compare(a, b),
            _ => Ordering::Equal,
        });
        self.index = Some(index);
    }

    /// How many rows are shown of a run of `n_trials`.
    pub(crate) fn n_rows(&self, n_trials: usize) -> usize {
        self.index.as_ref().map_or(n_trials, Vec::len)
    }

    /// The position of the trial in a row.
    pub(crate) fn position(&self, row: usize, n_trials: usize) -> Option<usize> {
        let n_rows = self.n_rows(n_trials);
        let rank = if self.is_reversed { row } else { n_rows.checked_sub(row + 1)? };
        match &self.index {
            None => (rank < n_trials).then_some(rank),
            Some(index) => index.get(rank).map(|position| *position as usize),
        }
    }

    /// The row of the trial under the cursor.
    pub(crate) fn cursor_row(&self, run: &Run, n_trials: usize) -> usize {
        self.cursor.and_then(|cursor| self.row_of(run, n_trials, cursor)).unwrap_or(0)
    }

    /// The row of the trial at a position, if it is shown.
    fn row_of(&self, run: &Run, n_trials: usize, position: usize) -> Option<usize> {
        let n_rows = self.n_rows(n_trials);
        let rank = match &self.index {
            None => position,
            Some(index) => self.rank(index, run, position)?,
        };
        (rank < n_rows).then(|| if self.is_reversed { rank } else { n_rows - 1 - rank })
    }

    /// Where a trial is in the index: equal ones are in the order in which they came.
    fn rank(&self, index: &[u32], run: &Run, position: usize) -> Option<usize> {
        let wanted = run.trials.get(position)?;
        let rank = index.partition_point(|other| {
            run.trials.get(*other as usize).is_some_and(|row| {
                self.column.compare(row, wanted).then((*other as usize).cmp(&position)) == Ordering::Less
            })
        });
        (index.get(rank).copied() == u32::try_from(position).ok()).then_some(rank)
    }
}

/// What the filter looks at.
fn searched(run: &Run, row: &TrialRow) -> String {
    let environment = run.environments.get(row.environment as usize).map_or("", String::as_str);
    let choices = [row.requested, row.selected].map(|choice| choice.map_or_else(String::new, |c| c.to_string()));
    let outcome = match &row.outcome {
        Outcome::Timed(_) => String::new(),
        Outcome::Failed { kind, detail } => format!("{}: {detail}", text::failure_name(*kind)),
    };
    let [requested, selected] = choices;
    format!("{} {} {} {requested} {selected} {environment} {outcome}", row.trial, arm_name(row.arm), row.point)
}

/// One word for an arm.
pub(crate) const fn arm_name(arm: Arm) -> &'static str {
    match arm {
        Arm::Default => "default",
        Arm::Search => "search",
        Arm::Candidate => "tuned",
    }
}

/// The trial under the cursor.
pub(crate) fn selected(state: &State) -> Option<(usize, &TrialRow)> {
    let (view, n_trials) = (&state.view.tabs.trials, state.n_shown_trials());
    let position = view.position(view.cursor_row(&state.run, n_trials), n_trials)?;
    Some((position, state.run.trials.get(position)?))
}

fn set_cursor(state: &mut State, target: impl Fn(usize, usize) -> usize) {
    let n_visible = Layout::of(state).map_or(0, |layout| layout.rows(state));
    let n_trials = state.n_shown_trials();
    let view = &state.view.tabs.trials;
    let n_rows = view.n_rows(n_trials);
    let row = target(view.cursor_row(&state.run, n_trials), n_rows);
    let top = visible_top(view.top, row, n_rows, n_visible);
    let follows = row == 0 && !view.has_detail;
    let position = view.position(row, n_trials).filter(|_| !follows);
    (state.view.tabs.trials.cursor, state.view.tabs.trials.top) = (position, top);
}

pub(super) fn move_cursor(state: &mut State, motion: Motion) {
    set_cursor(state, |row, n_rows| motion.from(row, n_rows));
}

pub(super) fn click(state: &mut State, line: usize) {
    let top = visible_first(state);
    // The column heads are line 0.
    let Some(line) = line.checked_sub(1) else { return };
    set_cursor(state, |row, n_rows| if top + line < n_rows { top + line } else { row });
}

/// The first row on the screen: new trials do not move what is looked at.
pub(crate) fn visible_first(state: &State) -> usize {
    let n_visible = Layout::of(state).map_or(0, |layout| layout.rows(state));
    let (view, n_trials) = (&state.view.tabs.trials, state.n_shown_trials());
    let row = view.cursor_row(&state.run, n_trials);
    visible_top(if view.cursor.is_none() { 0 } else { view.top }, row, view.n_rows(n_trials), n_visible)
}

fn rebuild(state: &mut State) {
    let n_trials = state.n_shown_trials();
    state.view.tabs.trials.rebuild(&state.run, n_trials);
    set_cursor(state, |row, n_rows| row.min(n_rows.saturating_sub(1)));
}

pub(super) fn set_filter(state: &mut State, filter: Filter) {
    state.view.tabs.trials.filter = filter;
    rebuild(state);
}

pub(super) fn sort(state: &mut State, sorting: Sorting) {
    let view = &mut state.view.tabs.trials;
    match sorting {
        Sorting::Next => view.column = view.column.next(),
        Sorting::Reversed => view.is_reversed = !view.is_reversed,
    }
    rebuild(state);
}

/// Shows the trial under the cursor in detail.
pub(crate) fn open_detail(state: &mut State) {
    let Some((position, _)) = selected(state) else {
        state.notice("there is no trial yet");
        return;
    };
    state.view.tabs.trials.has_detail = true;
    state.view.tabs.trials.cursor = Some(position);
    set_cursor(state, |row, _| row);
}

/// Shows the table alone again.
pub(crate) fn close_detail(state: &mut State) {
    state.view.tabs.trials.has_detail = false;
    set_cursor(state, |row, _| row);
}

pub(super) fn mark(state: &mut State) {
    let Some((position, _)) = selected(state) else { return };
    let marks = &mut state.view.tabs.trials.marks;
    if !marks.remove(&position) {
        marks.insert(position);
    }
}

pub(super) fn next_mark(state: &mut State) {
    let view = &state.view.tabs.trials;
    let n_trials = state.n_shown_trials();
    let row = view.cursor_row(&state.run, n_trials);
    let mut rows: Vec<usize> =
        view.marks.iter().filter_map(|position| view.row_of(&state.run, n_trials, *position)).collect();
    rows.sort_unstable();
    let Some(next) = rows.iter().find(|marked| row < **marked).or(rows.first()).copied() else {
        state.notice("nothing is marked: m marks");
        return;
    };
    set_cursor(state, |_, _| next);
}

fn csv_line(run: &Run, row: &TrialRow) -> String {
    let environment = run.environments.get(row.environment as usize).map_or("", String::as_str);
    let [requested, selected] =
        [row.requested, row.selected].map(|choice| choice.map_or_else(String::new, |c| c.to_string()));
    let (times, outcome) = match &row.outcome {
        Outcome::Timed(m) => (
            format!("{:.3},{:.3},{:.3},{:.3},{:.4}", m.time_us, m.slowest_us, m.median_us, m.max_us, m.busbw_gbs),
            String::new(),
        ),
        Outcome::Failed { kind, detail } => {
            (",,,,".to_owned(), format!("{}: {}", text::failure_name(*kind), one_line(detail)))
        }
    };
    let (collective, bytes) = (row.point.collective, row.point.bytes);
    format!(
        "{},{},{},{collective},{bytes},{requested},{selected},{},{times},{}",
        row.trial,
        row.t_ms,
        arm_name(row.arm),
        text::csv_field(environment),
        text::csv_field(&outcome)
    )
}

/// The trial under the cursor.
pub(super) fn copied(state: &State) -> Option<String> {
    selected(state).map(|(_, row)| csv_line(&state.run, row))
}

/// All rows that are shown as CSV, or the marked ones.
pub(super) fn exported(state: &State) -> Option<String> {
    let (view, n_trials) = (&state.view.tabs.trials, state.n_shown_trials());
    let mut csv = "trial,t_ms,arm,collective,bytes,requested,selected,environment,time_us,slowest_us,median_us,max_us,busbw_gbs,failure\n".to_owned();
    let positions = (0..view.n_rows(n_trials)).filter_map(|row| view.position(row, n_trials));
    for position in positions.filter(|position| view.marks.is_empty() || view.marks.contains(position)) {
        let Some(row) = state.run.trials.get(position) else { continue };
        // Writing to a String cannot fail.
        writeln!(csv, "{}", csv_line(&state.run, row)).unwrap_or_default();
    }
    (0 < n_trials).then_some(csv)
}

/// Samples of the same choice, environment and point as a trial, for its histogram; in microseconds.
pub(crate) fn samples_like(state: &State, row: &TrialRow) -> Vec<f64> {
    let summary = state.shown();
    match (row.arm, row.requested) {
        (Arm::Search, Some(choice)) => {
            let cell = summary.search.cell(row.environment, row.point, choice);
            cell.map_or_else(Vec::new, |cell| cell.samples_us().iter().map(|us| f64::from(*us)).collect())
        }
        (Arm::Default, _) => {
            summary.points.get(&row.point).map_or_else(Vec::new, |series| series.default_samples_us().to_vec())
        }
        _ => row.measured().map(|measured| vec![measured.time_us]).unwrap_or_default(),
    }
}
