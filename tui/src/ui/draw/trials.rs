//! The trials table. It reads the visible rows only.

use gdrtune_profiles::vocab::Choice;
use gdrtune_session::event::Arm;
use ratatui::{
    buffer::Buffer,
    layout::Rect,
    style::Style,
    text::{Line, Span},
};

use super::{draw_panel, row};
use crate::ui::{
    ingest::failure_text,
    run::{Outcome, TrialRow},
    state::{Panel, State},
    text,
    theme::Theme,
};

/// From this many columns on the settings over the site's are shown too.
const SETTINGS_MIN_COLUMNS: usize = 110;

/// Below this many columns arm and bandwidth are left out, so that the choice has room.
const ALL_COLUMNS_MIN: usize = 76;

/// Columns of `time us`, `GB/s` and `gain`, each with the space before it.
const TIME_COLUMNS: usize = 11;
const BANDWIDTH_COLUMNS: usize = 8;
const GAIN_COLUMNS: usize = 9;

/// Columns of `default` and the space before it.
const ARM_COLUMNS: usize = 8;

/// Columns that the texts of this table take at this width.
#[derive(Debug, Clone, Copy)]
struct Columns {
    trial: usize,
    /// 0: not shown.
    arm: usize,
    point: usize,
    choice: usize,
    /// 0: not shown.
    bandwidth: usize,
    /// 0: not shown.
    settings: usize,
    total: usize,
}

impl Columns {
    fn of(state: &State, total: usize) -> Self {
        let summary = state.shown();
        // A size is at most `1023M` wide.
        let point = summary.collectives.iter().map(|c| c.name().len()).max().unwrap_or(9) + 6;
        let trial = summary.n_trials.to_string().len().max(5);
        let (arm, bandwidth) = if total < ALL_COLUMNS_MIN { (0, 0) } else { (ARM_COLUMNS, BANDWIDTH_COLUMNS) };
        // One space before the point, two before the choice.
        let fixed = trial + arm + 1 + point + 2 + TIME_COLUMNS + bandwidth + GAIN_COLUMNS;
        let room = total.saturating_sub(fixed);
        // What was asked for, what ran, and an arrow.
        let wanted = 2 * summary.choice_columns.max(11) + 3;
        let choice = wanted.min(room);
        let settings = if total < SETTINGS_MIN_COLUMNS { 0 } else { room.saturating_sub(choice + 2) };
        Self { trial, arm, point, choice, bandwidth, settings, total }
    }
}

/// ```text
/// ─ Trials ───────────────────────────────────────────────────── 61, 3 failed ─
///     # arm     point          choice asked > ran       time us    GB/s  gain
///    60 search  allreduce  64K tree/ll/2                   95.1   1.034 ✓ 1.35x
///    59 search  allreduce  64K ring/ll/8             ✗ hung: killed after 2 s
/// ```
/// The newest is on top. A failure takes the place of the numbers that it did not give.
pub(super) fn draw(state: &State, theme: &Theme, area: Rect, buffer: &mut Buffer) {
    let n_trials = state.n_shown_trials();
    let right = match (state.view.trials_top, state.shown().n_dropped) {
        (Some(top), _) => format!("row {} of {n_trials}, g newest", n_trials.saturating_sub(top)),
        (None, 0) => String::new(),
        (None, n) => format!("{} dropped from the race", text::count(n, "choice")),
    };
    let inner = draw_panel(state, theme, Panel::Trials, "Trials", &right, area, buffer);
    let columns = Columns::of(state, usize::from(inner.width));
    if let Some(place) = row(inner, 0) {
        draw_heads(columns, theme, place, buffer);
    }
    let Some(newest) = n_trials.checked_sub(1) else {
        if let Some(place) = row(inner, 1) {
            buffer.set_stringn(place.x, place.y, "no trial yet", usize::from(place.width), theme.dim);
        }
        return;
    };
    let top = state.view.trials_top.unwrap_or(newest).min(newest);
    let rows = usize::from(inner.height).saturating_sub(1);
    for (index, number) in (0..=top).rev().take(rows).enumerate() {
        let (Some(place), Some(trial)) = (row(inner, index + 1), state.run.trials.get(number)) else { return };
        draw_trial(state, trial, columns, theme, place, buffer);
    }
}

fn draw_heads(columns: Columns, theme: &Theme, place: Rect, buffer: &mut Buffer) {
    let Columns { trial, arm, point, choice, bandwidth, settings, total } = columns;
    let long = format!("choice (asked {} ran)", theme.glyphs.arrow);
    let asked = if text::width(&long) <= choice { long } else { "choice".to_owned() };
    let mut heads = format!(
        "{:>trial$}{:arm$} {:point$}  {asked:choice$}{:>TIME_COLUMNS$}{:>bandwidth$}{:>GAIN_COLUMNS$}",
        "#",
        if 0 < arm { " arm" } else { "" },
        "point",
        "time us",
        if 0 < bandwidth { "GB/s" } else { "" },
        "gain"
    );
    if 0 < settings {
        heads.push_str("  settings over the site's");
    }
    buffer.set_stringn(place.x, place.y, heads, total, theme.dim);
}

fn draw_trial(state: &State, row: &TrialRow, columns: Columns, theme: &Theme, place: Rect, buffer: &mut Buffer) {
    let Columns { trial, arm, point, choice, bandwidth, settings, total } = columns;
    let ellipsis = theme.glyphs.ellipsis;
    let size = gdrtune_profiles::size::Size(row.point.bytes).to_string();
    let name_columns = point.saturating_sub(6);
    let arm_text = if 0 < arm { arm_text(row.arm) } else { "" };
    let name = row.point.collective.name();
    let start = format!("{:>trial$}{arm_text:arm$} {name:name_columns$}{size:>6}  ", row.trial);
    let asked = text::fit(&choice_text(row.requested, row.selected, theme), choice, ellipsis);
    let pad = choice.saturating_sub(text::width(&asked));
    let mut line = Line::from(vec![Span::raw(start), Span::raw(asked), Span::raw(" ".repeat(pad))]);
    match &row.outcome {
        Outcome::Timed { time_us, busbw_gbs, gain } => {
            let time = text::microseconds(*time_us);
            let busbw = if 0 < bandwidth { text::bandwidth(*busbw_gbs) } else { String::new() };
            line.push_span(Span::raw(format!("{time:>TIME_COLUMNS$}{busbw:>bandwidth$}")));
            let gain_text =
                gain.map_or_else(|| theme.glyphs.ok.to_owned(), |g| format!("{} {}", theme.glyphs.ok, text::ratio(g)));
            let style = if gain.is_some_and(|g| 1.0 < g) { theme.best_series } else { Style::new() };
            line.push_span(Span::styled(format!("{gain_text:>GAIN_COLUMNS$}"), style));
            if 0 < settings {
                let name = state.run.environments.get(row.environment as usize).map_or("", String::as_str);
                line.push_span(Span::styled(format!("  {}", text::fit(name, settings, ellipsis)), theme.dim));
            }
        }
        Outcome::Failed { kind, detail } => {
            let room = total.saturating_sub(line.width());
            let cause = format!("  {} {}: {detail}", theme.glyphs.failed, failure_text(*kind));
            line.push_span(Span::styled(text::fit(&cause, room, ellipsis), theme.bad));
        }
    }
    buffer.set_line(place.x, place.y, &line, place.width);
}

const fn arm_text(arm: Arm) -> &'static str {
    match arm {
        Arm::Default => " default",
        Arm::Search => " search",
        Arm::Candidate => " tuned",
    }
}

/// What was asked for, and what ran where that differs.
fn choice_text(requested: Option<Choice>, selected: Option<Choice>, theme: &Theme) -> String {
    let arrow = theme.glyphs.arrow;
    match (requested, selected) {
        (Some(asked), Some(ran)) if runs_as_asked(asked, ran) => ran.to_string(),
        (Some(asked), Some(ran)) => format!("{asked} {arrow} {ran}"),
        (Some(asked), None) => asked.to_string(),
        (None, Some(ran)) => format!("own {arrow} {ran}"),
        (None, None) => "engine's own".to_owned(),
    }
}

/// A channel count of 0 leaves the count to the engine, so any count is what was asked for.
fn runs_as_asked(asked: Choice, ran: Choice) -> bool {
    asked == Choice { channels: if asked.channels == 0 { 0 } else { ran.channels }, ..ran }
}
