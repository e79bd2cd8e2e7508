//! The log: its lines from the newest back.

use gdrtune_session::event::Level;

use super::Motion;
use crate::ui::{
    filter::Filter,
    layout::Layout,
    run::LogLine,
    state::State,
    text::{self, one_line},
};

/// What is looked at.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LogView {
    /// Number of the line in the last row; absent follows the newest.
    pub(crate) bottom: Option<usize>,
    pub(crate) filter: Filter,
    /// Lines that matter less are not shown.
    pub(crate) least: Level,
}

impl Default for LogView {
    fn default() -> Self {
        Self { bottom: None, filter: Filter::default(), least: Level::Debug }
    }
}

impl LogView {
    /// Whether a line is shown.
    pub(crate) fn shows(&self, line: &LogLine) -> bool {
        self.least <= line.level && (self.filter.is_empty() || self.filter.matches(&line_text(line)))
    }
}

/// A line without its time.
fn line_text(line: &LogLine) -> String {
    let host = if line.host.is_empty() { String::new() } else { format!("{}: ", line.host) };
    format!("{} {host}{}", level_name(line.level), line.text)
}

/// One word for a level.
pub(crate) const fn level_name(level: Level) -> &'static str {
    match level {
        Level::Debug => "debug",
        Level::Info => "info",
        Level::Warn => "WARN",
        Level::Error => "ERROR",
    }
}

/// Shows only what matters more, or everything again.
pub(crate) fn next_level(state: &mut State) {
    let log = &mut state.view.tabs.log;
    log.least = match log.least {
        Level::Debug => Level::Info,
        Level::Info => Level::Warn,
        Level::Warn => Level::Error,
        Level::Error => Level::Debug,
    };
    log.bottom = None;
    let least = level_name(log.least);
    state.notice(format!("lines from {least} on"));
}

/// The numbers of the lines that are shown, from `bottom` back.
pub(crate) fn lines_from(state: &State, bottom: usize) -> impl Iterator<Item = (usize, &LogLine)> {
    let log = &state.run.log;
    let view = &state.view.tabs.log;
    let end = (bottom + 1).min(state.shown_log_end());
    let lines = (log.start()..end).rev().filter_map(|number| Some((number, log.get(number)?)));
    lines.filter(|(_, line)| view.shows(line))
}

/// The newest line is at the bottom.
pub(super) fn move_cursor(state: &mut State, motion: Motion) {
    let n_rows = Layout::of(state).map_or(0, |layout| layout.rows(state));
    let Some(newest) = lines_from(state, usize::MAX - 1).next().map(|(number, _)| number) else { return };
    let bottom = state.view.tabs.log.bottom.unwrap_or(newest).min(newest);
    // The line under which the page of the oldest lines ends.
    let highest = || {
        let log = &state.run.log;
        let shown = (log.start()..=newest).filter(|n| log.get(*n).is_some_and(|line| state.view.tabs.log.shows(line)));
        shown.take(n_rows.max(1)).last().unwrap_or(newest)
    };
    let bottom = match motion {
        Motion::Up(lines) => lines_from(state, bottom).nth(lines).map_or_else(highest, |(n, _)| n.max(highest())),
        Motion::Down(lines) => {
            let log = &state.run.log;
            let below =
                (bottom + 1..=newest).filter(|n| log.get(*n).is_some_and(|line| state.view.tabs.log.shows(line)));
            below.take(lines).last().unwrap_or(newest)
        }
        Motion::Top => highest(),
        Motion::Bottom => newest,
    };
    state.view.tabs.log.bottom = (bottom < newest).then_some(bottom);
}

fn written(line: &LogLine) -> String {
    format!("{} {}", text::clock(line.t_ms), one_line(&line_text(line)))
}

/// The line in the last row.
pub(super) fn copied(state: &State) -> Option<String> {
    let bottom = state.view.tabs.log.bottom.unwrap_or(usize::MAX - 1);
    lines_from(state, bottom).next().map(|(_, line)| written(line))
}

/// All lines that the filter lets through and that are kept.
pub(super) fn exported(state: &State) -> Option<String> {
    let mut lines: Vec<String> = lines_from(state, usize::MAX - 1).map(|(_, line)| written(line) + "\n").collect();
    lines.reverse();
    (!lines.is_empty()).then(|| lines.concat())
}
