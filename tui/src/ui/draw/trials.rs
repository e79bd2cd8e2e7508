//! The trials table, and one of them in detail. It reads the visible rows only.

use gdrtune_profiles::vocab::Choice;
use gdrtune_session::event::Failure;
use ratatui::{
    buffer::Buffer,
    layout::Rect,
    style::Style,
    text::{Line, Span},
};

use super::{draw_cursor, draw_panel, row, trial_detail};
use crate::ui::{
    layout::TrialsLayout,
    run::{Outcome, TrialRow},
    state::State,
    tabs::trials::{Column, arm_name, visible_first},
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
        // Cursor, mark and number.
        let trial = summary.n_trials.to_string().len().max(4) + 2;
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
/// ─ Trials ─────────────────────────── 61 of 400, by gain ▼, filter ring ─
///     # arm     point          choice asked > ran       time us    GB/s  gain
/// ▸  60 search  allreduce  64K tree/ll/2                   95.1   1.034 ✓ 1.35x
///  ● 59 search  allreduce  64K ring/ll/8             ✗ hung: killed after 2 s
/// ```
/// The newest is on top, if nothing else is asked for. A failure takes the place of the numbers that it did not give.
pub(super) fn draw(state: &State, theme: &Theme, area: Rect, buffer: &mut Buffer) {
    let layout = TrialsLayout::of(state, area);
    draw_table(state, theme, layout.table, buffer);
    if let Some(place) = layout.detail {
        trial_detail::draw(state, theme, place, buffer);
    }
}

fn title_right(state: &State, theme: &Theme, n_rows: usize) -> String {
    let view = &state.view.tabs.trials;
    let n_trials = state.n_shown_trials();
    let mut parts = Vec::new();
    if n_rows < n_trials {
        parts.push(format!("{n_rows} of {n_trials}"));
    } else if 0 < state.shown().n_dropped {
        parts.push(format!("{} dropped from the race", text::count(state.shown().n_dropped, "choice")));
    }
    if view.cursor.is_some() {
        parts.push(format!("row {}, g first", view.cursor_row(&state.run, n_trials) + 1));
    }
    let by = match view.column {
        Column::Number => "newest",
        Column::Gain => "gain",
        Column::Busbw => "GB/s",
        Column::Time => "time",
        Column::Point => "point",
    };
    if view.column != Column::Number || view.is_reversed {
        parts.push(format!("by {by} {}", theme.glyphs.sorted[usize::from(view.is_reversed)]));
    }
    if !view.filter.is_empty() {
        parts.push(format!("filter {}", view.filter.text()));
    }
    parts.join(", ")
}

fn draw_table(state: &State, theme: &Theme, area: Rect, buffer: &mut Buffer) {
    let view = &state.view.tabs.trials;
    let n_trials = state.n_shown_trials();
    let n_rows = view.n_rows(n_trials);
    let inner = draw_panel(theme, "Trials", &title_right(state, theme, n_rows), area, buffer);
    let columns = Columns::of(state, usize::from(inner.width));
    if let Some(place) = row(inner, 0) {
        draw_heads(columns, theme, place, buffer);
    }
    if n_rows == 0 {
        if let Some(place) = row(inner, 1) {
            let text = if n_trials == 0 { "no trial yet" } else { "no trial has these words: Esc shows all" };
            buffer.set_stringn(place.x, place.y, text, usize::from(place.width), theme.dim);
        }
        return;
    }
    let top = visible_first(state);
    let cursor = view.cursor_row(&state.run, n_trials);
    for line in 0..usize::from(inner.height).saturating_sub(1) {
        let position = view.position(top + line, n_trials);
        let trial = position.and_then(|position| Some((position, state.run.trials.get(position)?)));
        let (Some(place), Some((position, trial))) = (row(inner, line + 1), trial) else { return };
        draw_trial(state, trial, columns, theme, place, buffer);
        if view.marks.contains(&position) {
            buffer.set_string(place.x + 1, place.y, theme.glyphs.mark, Style::new());
        }
        // Without a cursor the table follows the newest.
        if view.cursor.is_some() && top + line == cursor {
            draw_cursor(theme, place, buffer);
        }
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
    let arm_text = if 0 < arm { [" ", arm_name(row.arm)].concat() } else { String::new() };
    let name = row.point.collective.name();
    let start = format!("{:>trial$}{arm_text:arm$} {name:name_columns$}{size:>6}  ", row.trial);
    let asked = text::fit(&choice_text(row.requested, row.selected, theme), choice, ellipsis);
    let pad = choice.saturating_sub(text::width(&asked));
    let mut line = Line::from(vec![Span::raw(start), Span::raw(asked), Span::raw(" ".repeat(pad))]);
    match &row.outcome {
        Outcome::Timed(measured) => {
            let gain = measured.gain;
            let time = text::microseconds(measured.time_us);
            let busbw = if 0 < bandwidth { text::bandwidth(measured.busbw_gbs) } else { String::new() };
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
            // The user's own word needs no cause.
            let cause = match kind {
                Failure::Skipped => format!("  {} {detail}", theme.glyphs.failed),
                _ => format!("  {} {}: {detail}", theme.glyphs.failed, text::failure_name(*kind)),
            };
            line.push_span(Span::styled(text::fit(&cause, room, ellipsis), theme.bad));
        }
    }
    buffer.set_line(place.x, place.y, &line, place.width);
}

/// What was asked for, and what ran where that differs.
pub(super) fn choice_text(requested: Option<Choice>, selected: Option<Choice>, theme: &Theme) -> String {
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
