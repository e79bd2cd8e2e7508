//! The header: who measures what, how far it is, what was gained, what is being tried.

use gdrtune_profiles::vocab::Engine;
use gdrtune_session::event::{Arm, Phase, RunEnd};
use ratatui::{buffer::Buffer, layout::Rect, text::Span};

use super::{draw_parts, draw_right, row};
use crate::ui::{
    run::{Gain, Label, Summary},
    state::{Source, State, Stop},
    text,
    theme::Theme,
};

/// Columns of the budget gauge.
const GAUGE_COLUMNS: usize = 10;

/// From this many columns on there is room for the gauge.
const GAUGE_MIN_COLUMNS: u16 = 100;

/// Below this many columns the second line is written shorter.
const NARROW_COLUMNS: u16 = 76;

/// ```text
/// gdrtune  vh[1-4] · 4 nodes, 4 ranks · native engine  EMULATED                run 2026-11-29T14:02:11Z-7f3a
/// search  1:23 of 5:00 ███░░░░░░░ 28 %  61 of 400 trials, 3 failed               best 1.42x (estimate)
/// trying tree/ll/2 at allreduce 64K · environment 2 of 8: NCCL_NSOCKS_PERTHREAD=2 (one knob moved)
/// ```
pub(super) fn draw(state: &State, theme: &Theme, area: Rect, buffer: &mut Buffer) {
    let summary = state.shown();
    if let Some(first) = row(area, 0) {
        draw_label(state, summary, theme, first, buffer);
    }
    if let Some(second) = row(area, 1) {
        draw_progress(state, summary, theme, second, buffer);
    }
    if let Some(third) = row(area, 2) {
        draw_trying(summary, theme, third, buffer);
    }
}

fn draw_label(state: &State, summary: &Summary, theme: &Theme, area: Rect, buffer: &mut Buffer) {
    let mut parts = vec![Span::styled("gdrtune", theme.title)];
    match state.control.source {
        Source::Live => {}
        Source::Attached => parts.extend([Span::raw("  "), Span::styled(" ATTACHED ", theme.badge)]),
        Source::Replay => parts.extend([Span::raw("  "), Span::styled(" REPLAY ", theme.badge)]),
    }
    if let Some(age_s) = state.control.playback.and_then(|playback| playback.age_s) {
        parts.push(Span::raw(format!(" begun {}", text::ago(age_s))));
    }
    let Some(label) = &summary.label else {
        parts.push(Span::styled("  waiting for the run to start", theme.dim));
        draw_parts(parts, area, buffer);
        return;
    };
    for badge in badges(label) {
        parts.extend([Span::raw("  "), Span::styled(format!(" {badge} "), theme.badge)]);
    }
    let dot = theme.glyphs.dot;
    let hosts = text::fit(&label.hosts, usize::from(area.width / 3), theme.glyphs.ellipsis);
    let (n_nodes, n_ranks) = label.shape.map_or((label.n_nodes, label.n_ranks), |shape| (shape.n_nodes, shape.n_ranks));
    let shape =
        label.shape.map(|shape| format!("shape {} of {}: ", text::nth(shape.index), shape.of)).unwrap_or_default();
    let nodes = text::count(u64::from(n_nodes), "node");
    let ranks = text::count(u64::from(n_ranks), "rank");
    parts.push(Span::raw(format!("  {hosts}")));
    parts.push(Span::raw(format!(" {dot} {shape}{nodes}, {ranks}")));
    parts.push(Span::raw(format!(" {dot} {} engine", label.engine)));
    let used = draw_parts(parts, area, buffer);
    draw_right(vec![Span::styled(format!("run {}", label.run), theme.dim)], used, area, buffer);
}

/// What the numbers must not be mistaken for.
fn badges(label: &Label) -> impl Iterator<Item = &'static str> {
    let engine = match label.engine {
        Engine::Sim => Some("SIMULATED"),
        Engine::Replay => Some("RECORDED GRID"),
        Engine::Nccl | Engine::Native => None,
    };
    let emulated = label.emulated.then_some("EMULATED");
    engine.into_iter().chain(emulated)
}

fn draw_progress(state: &State, summary: &Summary, theme: &Theme, area: Rect, buffer: &mut Buffer) {
    let elapsed_ms = state.shown_elapsed_ms();
    let mut parts = vec![Span::styled(phase_text(summary, state.control.source), theme.title)];
    if let Some(badge) = control_badge(state) {
        parts.extend([Span::raw(" "), Span::styled(format!(" {badge} "), theme.badge)]);
    }
    let label = summary.label.as_ref();
    let narrow = area.width < NARROW_COLUMNS;
    let of = if narrow { "/" } else { " of " };
    let time = match label.and_then(|l| l.budget_ms).filter(|ms| 0 < *ms) {
        None => format!("  {}", text::clock(elapsed_ms)),
        Some(budget_ms) => {
            let share = (elapsed_ms as f64 / budget_ms as f64).min(1.0);
            let gauge =
                if area.width < GAUGE_MIN_COLUMNS { String::new() } else { format!(" {}", gauge(share, theme)) };
            format!("  {}{of}{}{gauge}", text::clock(elapsed_ms), text::clock(budget_ms))
        }
    };
    parts.push(Span::raw(time));
    // The trials of the A/B come on top of the search's: held against its budget they would look like too many.
    let is_searching = summary.phase.is_none_or(|phase| phase < Phase::Verify) && !summary.is_over();
    let trials = match label.and_then(|l| l.max_trials).filter(|_| is_searching) {
        Some(max) => format!("  {}{of}{}", summary.n_trials, text::count(max, "trial")),
        None => format!("  {}", text::count(summary.n_trials, "trial")),
    };
    parts.push(Span::raw(trials));
    if 0 < summary.n_failed {
        parts.push(Span::styled(format!(", {} {} failed", theme.glyphs.failed, summary.n_failed), theme.bad));
    }
    let used = draw_parts(parts, area, buffer);
    if narrow || !draw_right(gain_spans(summary, false, theme), used, area, buffer) {
        draw_right(gain_spans(summary, true, theme), used, area, buffer);
    }
}

fn gauge(share: f64, theme: &Theme) -> String {
    let [full, empty] = theme.glyphs.gauge;
    let n_full = (share * GAUGE_COLUMNS as f64).round() as usize;
    format!("{}{} {:.0} %", full.repeat(n_full), empty.repeat(GAUGE_COLUMNS.saturating_sub(n_full)), share * 100.0)
}

/// The best against the default, as sure as it is.
fn gain_spans(summary: &Summary, short: bool, theme: &Theme) -> Vec<Span<'static>> {
    match summary.gain() {
        None => vec![Span::styled("no gain known yet", theme.dim)],
        Some(Gain::Estimate(ratio)) if short => {
            vec![Span::styled("est. ", theme.dim), Span::styled(text::ratio(ratio), theme.best_series)]
        }
        Some(Gain::Verified { median, .. }) if short => {
            vec![Span::raw("verified "), Span::styled(text::ratio(median), theme.best_series)]
        }
        Some(Gain::Estimate(ratio)) => vec![
            Span::raw("best "),
            Span::styled(text::ratio(ratio), theme.best_series),
            Span::styled(" (estimate)", theme.dim),
        ],
        Some(Gain::Verified { median, low, high }) => vec![
            Span::raw("verified "),
            Span::styled(format!("{} [{low:.2}-{high:.2}]", text::ratio(median)), theme.best_series),
        ],
    }
}

fn draw_trying(summary: &Summary, theme: &Theme, area: Rect, buffer: &mut Buffer) {
    let mut line = match summary.trying {
        None => "nothing measured yet".to_owned(),
        Some(trying) => {
            let what = match (trying.arm, trying.choice) {
                (Arm::Default, _) => "the defaults".to_owned(),
                (Arm::Candidate, _) => "the candidate's files".to_owned(),
                (Arm::Search, None) => "the engine's own choice".to_owned(),
                (Arm::Search, Some(choice)) => choice.to_string(),
            };
            format!("trying {what} at {}", trying.point)
        }
    };
    if let Some(environment) = &summary.environment {
        let of = summary.n_environments.map_or_else(String::new, |n| format!(" of {n}"));
        line.push_str(&format_environment(text::nth(environment.index), &of, &environment.settings, theme));
        if !environment.why.is_empty() {
            line.push_str(&["  (", &environment.why, ")"].concat());
        }
    }
    let pins: Vec<String> = summary.search.pins.iter().map(|(knob, value)| pin_text(knob, value.as_deref())).collect();
    let mut x = area.x;
    if !pins.is_empty() {
        // What is not searched must not be forgotten.
        let badge =
            text::fit(&format!(" PINNED {} ", pins.join(" ")), usize::from(area.width / 2), theme.glyphs.ellipsis);
        x = draw_parts(vec![Span::styled(badge, theme.badge), Span::raw(" ")], area, buffer) + area.x;
    }
    let room = usize::from(area.right().saturating_sub(x));
    buffer.set_string(x, area.y, text::fit(&line, room, theme.glyphs.ellipsis), theme.dim);
}

fn pin_text(knob: &str, value: Option<&str>) -> String {
    value.map_or_else(|| format!("{knob} unset"), |value| format!("{knob}={value}"))
}

fn format_environment(number: u64, of: &str, settings: &str, theme: &Theme) -> String {
    format!(" {} environment {number}{of}: {settings}", theme.glyphs.dot)
}

fn phase_text(summary: &Summary, source: Source) -> &'static str {
    if let Some(ended) = &summary.ended {
        return match ended.end {
            Some(RunEnd::Tuned | RunEnd::DefaultsBest) => "over",
            Some(RunEnd::Inconclusive) => "inconclusive",
            Some(RunEnd::Interrupted) => "interrupted",
            Some(RunEnd::NodesLost) => "nodes lost",
            None if source != Source::Live => "cut off",
            Some(RunEnd::Failed) | None => "failed",
        };
    }
    match summary.phase {
        None => "starting",
        Some(Phase::Connect) => "connect",
        Some(Phase::Baseline) => "baseline",
        Some(Phase::Search) => "search",
        Some(Phase::Verify) => "verify",
        Some(Phase::Write) => "write",
        Some(Phase::Done) => "done",
    }
}

/// What the user asked for and is not over yet.
fn control_badge(state: &State) -> Option<&'static str> {
    let control = &state.control;
    if state.shown().is_over() {
        return None;
    }
    if control.is_detaching && control.stop == Stop::Stopping {
        return Some("DETACHING");
    }
    match (control.stop, control.paused, control.finishing) {
        (Stop::Killing, _, _) => Some("KILLING"),
        (Stop::Stopping, _, _) => Some("STOPPING"),
        (Stop::No, true, _) => Some("PAUSED"),
        (Stop::No, false, true) if state.shown().phase.is_none_or(|p| p < Phase::Verify) => Some("FINISHING"),
        (Stop::No, false, _) => None,
    }
}
