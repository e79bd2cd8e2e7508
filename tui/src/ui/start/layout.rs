//! Where each part of the start screen lies: pure functions, used by drawing, scrolling and the mouse.
//!
//! Complete at 80x24. What is smaller has fewer rows for the command line and for the help of a field.

use ratatui::layout::{Constraint, Layout as Split, Rect};

use crate::ui::layout::MIN_SIZE;

/// Below this many rows the command line has two of them, and a field's help one.
const ROOMY_ROWS: u16 = 20;

/// Rows of a panel that hold no lines: its title.
const TITLE_ROWS: u16 = 1;

/// Whether nothing but a message fits.
pub(crate) const fn is_too_small(size: (u16, u16)) -> bool {
    size.0 < MIN_SIZE.0 || size.1 < MIN_SIZE.1
}

/// The places of the lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lists {
    pub(crate) header: Rect,
    pub(crate) runs: Rect,
    pub(crate) clusters: Rect,
    pub(crate) command: Rect,
    pub(crate) footer: Rect,
}

impl Lists {
    /// Clusters take no more rows than there are, and leave the runs the most of a small screen where those need it.
    pub(crate) fn of(size: (u16, u16), n_runs: usize, n_clusters: usize) -> Self {
        let area = Rect::new(0, 0, size.0, size.1);
        let rows = |n: usize, around: u16| u16::try_from(n).unwrap_or(u16::MAX).saturating_add(around);
        // Without runs, two lines say how to begin.
        let run_rows = rows(n_runs.max(2), TITLE_ROWS + 1);
        let free = size.1.saturating_sub(3).saturating_sub(run_rows);
        let cluster_rows = rows(n_clusters, TITLE_ROWS).min(free.max(size.1 * 2 / 5)).max(5);
        let [header, runs, clusters, command, footer] = Split::vertical([
            Constraint::Length(1),
            Constraint::Fill(1),
            Constraint::Length(cluster_rows),
            Constraint::Length(1),
            Constraint::Length(1),
        ])
        .areas(area);
        Self { header, runs, clusters, command, footer }
    }

    /// Rows of runs: without the title and the heads of the columns.
    pub(crate) const fn run_rows(&self) -> Rect {
        below(self.runs, TITLE_ROWS + 1)
    }

    /// Rows of clusters.
    pub(crate) const fn cluster_rows(&self) -> Rect {
        below(self.clusters, TITLE_ROWS)
    }
}

/// The places of the form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Form {
    pub(crate) header: Rect,
    pub(crate) fields: Rect,
    pub(crate) help: Rect,
    pub(crate) command: Rect,
    pub(crate) verdict: Rect,
    pub(crate) footer: Rect,
}

impl Form {
    pub(crate) fn of(size: (u16, u16)) -> Self {
        let is_roomy = ROOMY_ROWS <= size.1;
        let (help_rows, command_rows) = if is_roomy { (2, 3 + size.1 / 20) } else { (1, 2) };
        let area = Rect::new(0, 0, size.0, size.1);
        let [header, fields, help, command, verdict, footer] = Split::vertical([
            Constraint::Length(1),
            Constraint::Fill(1),
            Constraint::Length(help_rows),
            Constraint::Length(TITLE_ROWS + command_rows),
            Constraint::Length(1),
            Constraint::Length(1),
        ])
        .areas(area);
        Self { header, fields, help, command, verdict, footer }
    }
}

/// The places of a profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Profile {
    pub(crate) header: Rect,
    pub(crate) page: Rect,
    pub(crate) footer: Rect,
}

impl Profile {
    pub(crate) fn of(size: (u16, u16)) -> Self {
        let area = Rect::new(0, 0, size.0, size.1);
        let [header, page, footer] =
            Split::vertical([Constraint::Length(1), Constraint::Fill(1), Constraint::Length(1)]).areas(area);
        Self { header, page, footer }
    }

    /// Rows of its lines.
    pub(crate) const fn rows(&self) -> Rect {
        below(self.page, TITLE_ROWS)
    }
}

const fn below(area: Rect, rows: u16) -> Rect {
    let rows = if rows < area.height { rows } else { area.height };
    Rect { x: area.x, y: area.y + rows, width: area.width, height: area.height - rows }
}
