//! Where each part of the screen lies: a pure function, used by drawing, by scrolling (rows of a page) and by the mouse.
//!
//! Complete at 80x24. What is smaller drops parts by priority: first the second chart (fewer than 80 columns), then the
//! line of what is being tried (fewer than 20 rows).

use ratatui::layout::{Constraint, Layout as Split, Rect};

use super::{
    state::State,
    tabs::{Tab, search::places::SearchLayout},
};

/// The smallest terminal that shows more than a message.
pub(crate) const MIN_SIZE: (u16, u16) = (60, 15);

/// Below this many columns there is one chart.
const TWO_CHARTS_COLUMNS: u16 = 80;

/// Below this many rows the header is shorter.
const ROOMY_ROWS: u16 = 20;

/// Rows of a trial in detail, with its title, where there is room.
const DETAIL_ROWS: u16 = 12;

/// The places of one screen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) header: Rect,
    /// The names of the views.
    pub(crate) tabs: Rect,
    /// How the run ended; in the overview only.
    pub(crate) banner: Option<Rect>,
    /// What the present view has.
    pub(crate) body: Rect,
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
        let header_rows = if over || rows < ROOMY_ROWS { 2 } else { 3 };
        let has_banner = over && state.view.tab == Tab::Overview;
        let banner_rows = if has_banner { super::draw::banner_rows(state.shown(), state.view.size) } else { 0 };
        let [header, tabs, banner, body, footer] = Split::vertical([
            Constraint::Length(header_rows),
            Constraint::Length(1),
            Constraint::Length(banner_rows),
            Constraint::Fill(1),
            Constraint::Length(1),
        ])
        .areas(Rect::new(0, 0, columns, rows));
        Some(Self { header, tabs, banner: has_banner.then_some(banner), body, footer })
    }

    /// Rows of the present view that hold lines: without its title and its column heads.
    pub(crate) fn rows(&self, state: &State) -> usize {
        let (place, around) = match state.view.tab {
            Tab::Search => return SearchLayout::of(state, self.body).rows(state.view.tabs.search.part),
            Tab::Trials => (TrialsLayout::of(state, self.body).table, 2),
            Tab::Sizes | Tab::Profile => (self.body, 2),
            _ => (self.body, 1),
        };
        usize::from(place.height.saturating_sub(around))
    }
}

/// The places of the overview. An absent part is not shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OverviewLayout {
    pub(crate) caption: Rect,
    pub(crate) busbw: Rect,
    pub(crate) latency: Option<Rect>,
    /// The last trials.
    pub(crate) arrivals: Option<Rect>,
    pub(crate) nodes: Option<Rect>,
    /// The last decisions.
    pub(crate) recent: Option<Rect>,
}

impl OverviewLayout {
    /// The parts of a body. The charts go first, then what is said, then the nodes, then the samples.
    pub(crate) fn of(body: Rect) -> Self {
        let rows = body.height;
        let arrivals = match rows {
            0..12 => 0,
            12..24 => 2,
            _ => 4,
        };
        let nodes = u16::from(10 <= rows);
        let recent = match rows {
            0..9 => 0,
            9..12 => 2,
            12..24 => 4,
            _ => rows / 4,
        };
        let [caption, charts, arrivals, nodes, recent] = Split::vertical([
            Constraint::Length(1),
            Constraint::Fill(1),
            Constraint::Length(arrivals),
            Constraint::Length(nodes),
            Constraint::Length(recent),
        ])
        .areas(body);
        let (busbw, latency) = if body.width < TWO_CHARTS_COLUMNS {
            (charts, None)
        } else {
            let [busbw, latency] =
                Split::horizontal([Constraint::Fill(1), Constraint::Fill(1)]).spacing(1).areas(charts);
            (busbw, Some(latency))
        };
        let [arrivals, nodes, recent] = [arrivals, nodes, recent].map(|rect| (!rect.is_empty()).then_some(rect));
        Self { caption, busbw, latency, arrivals, nodes, recent }
    }
}

/// The places of the trials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TrialsLayout {
    pub(crate) table: Rect,
    pub(crate) detail: Option<Rect>,
}

impl TrialsLayout {
    /// The table, and below it the detail where it is open.
    pub(crate) fn of(state: &State, body: Rect) -> Self {
        if !state.view.tabs.trials.has_detail {
            return Self { table: body, detail: None };
        }
        // Three rows of the table stay, so that one can still go up and down.
        let rows = DETAIL_ROWS.max(body.height / 2).min(body.height.saturating_sub(5));
        let [table, detail] = Split::vertical([Constraint::Fill(1), Constraint::Length(rows)]).areas(body);
        Self { table, detail: Some(detail) }
    }
}
