//! Where each panel lies: a pure function, used by drawing, by scrolling (rows of a page) and by the mouse.
//!
//! Complete at 80x24. What is smaller drops panels: first the second chart (fewer than 80 columns), then the nodes
//! (fewer than 20 rows; they take the log's place while they have the focus).

use ratatui::layout::{Constraint, Layout as Split, Rect};

use super::state::{Panel, State};

/// The smallest terminal that shows more than a message.
pub(crate) const MIN_SIZE: (u16, u16) = (60, 15);

/// Below this many columns there is one chart.
const TWO_CHARTS_COLUMNS: u16 = 80;

/// Below this many rows nodes and log share one place.
const ALL_PANELS_ROWS: u16 = 20;

/// The places of one screen. An absent panel is not shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) header: Rect,
    pub(crate) banner: Option<Rect>,
    pub(crate) caption: Rect,
    pub(crate) busbw: Option<Rect>,
    pub(crate) latency: Option<Rect>,
    pub(crate) trials: Option<Rect>,
    pub(crate) nodes: Option<Rect>,
    pub(crate) log: Option<Rect>,
    pub(crate) footer: Rect,
}

impl Layout {
    /// The layout of a state; `None` if the terminal is too small.
    pub(crate) fn of(state: &State) -> Option<Self> {
        let (columns, rows) = state.view.size;
        if columns < MIN_SIZE.0 || rows < MIN_SIZE.1 {
            return None;
        }
        let over = state.shown().is_over();
        let focus = state.view.focus;
        let area = Rect::new(0, 0, columns, rows);
        let roomy = ALL_PANELS_ROWS <= rows;
        let header_rows = if over || !roomy { 2 } else { 3 };
        let banner_rows = if over { super::draw::banner_rows(state.shown(), columns) } else { 0 };
        let body_rows = rows.saturating_sub(header_rows + banner_rows + 1);
        let bottom_rows = match (over, roomy) {
            (true, false) => 0,
            (false, false) => 2,
            (_, true) => (body_rows * 23 / 100).clamp(4, 12) + u16::from(!over && rows < 30),
        };
        let chart_rows = match (over, roomy) {
            (true, false) => body_rows,
            _ => (body_rows * 46 / 100).max(6),
        };
        let [header, banner, charts, trials, bottom, footer] = Split::vertical([
            Constraint::Length(header_rows),
            Constraint::Length(banner_rows),
            Constraint::Length(chart_rows),
            Constraint::Fill(1),
            Constraint::Length(bottom_rows),
            Constraint::Length(1),
        ])
        .areas(area);
        let [caption, charts] = Split::vertical([Constraint::Length(1), Constraint::Fill(1)]).areas(charts);
        let (busbw, latency) = split_charts(charts, focus);
        let (nodes, log) = split_bottom(bottom, roomy, focus);
        Some(Self {
            header,
            banner: over.then_some(banner),
            caption,
            busbw,
            latency,
            trials: some_if_any(trials),
            nodes,
            log,
            footer,
        })
    }

    /// The place of a panel, if it is shown.
    pub(crate) fn place(&self, panel: Panel) -> Option<Rect> {
        match panel {
            Panel::Busbw => self.busbw,
            Panel::Latency => self.latency,
            Panel::Trials => self.trials,
            Panel::Nodes => self.nodes,
            Panel::Log => self.log,
        }
    }

    /// Rows of a panel that hold lines: without its title, and without the column heads of the trials.
    pub(crate) fn rows(&self, panel: Panel) -> usize {
        let around = if panel == Panel::Trials { 2 } else { 1 };
        self.place(panel).map_or(0, |place| usize::from(place.height.saturating_sub(around)))
    }
}

fn some_if_any(rect: Rect) -> Option<Rect> {
    (!rect.is_empty()).then_some(rect)
}

fn split_charts(area: Rect, focus: Panel) -> (Option<Rect>, Option<Rect>) {
    if area.width < TWO_CHARTS_COLUMNS {
        return if focus == Panel::Latency { (None, Some(area)) } else { (Some(area), None) };
    }
    let [busbw, latency] = Split::horizontal([Constraint::Fill(1), Constraint::Fill(1)]).spacing(1).areas(area);
    (Some(busbw), Some(latency))
}

fn split_bottom(area: Rect, roomy: bool, focus: Panel) -> (Option<Rect>, Option<Rect>) {
    if area.is_empty() {
        return (None, None);
    }
    if !roomy {
        return if focus == Panel::Nodes { (Some(area), None) } else { (None, Some(area)) };
    }
    let [nodes, log] = Split::horizontal([Constraint::Percentage(36), Constraint::Fill(1)]).spacing(1).areas(area);
    (Some(nodes), Some(log))
}
