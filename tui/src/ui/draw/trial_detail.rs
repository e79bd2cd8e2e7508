//! One trial in detail: what was asked for and what ran, the samples of its kind, what the log said then.

use gdrtune_session::event::Arm;
use ratatui::{
    buffer::Buffer,
    layout::{Constraint, Layout as Split, Rect},
    style::Style,
    text::{Line, Span},
};

use super::{draw_panel, log, row, trials::choice_text};
use crate::ui::{
    run::{Measured, Outcome, TrialRow},
    state::State,
    tabs::trials::{arm_name, samples_like, selected},
    text,
    theme::Theme,
};

/// Lines of the log are of the trial if they came so many milliseconds before or after it.
const LOG_WINDOW_MS: u64 = 2_000;

/// Rows of a histogram with its title and its axis.
const HISTOGRAM_ROWS: u16 = 4;

/// Columns of the names of the facts.
const NAME_COLUMNS: usize = 10;

/// ```text
/// ─ Trial 60 ─────────────────────────────────────────────────────────
/// point     allreduce 64K, search arm, processes 3, at 1:23
/// asked     tree/ll/2
/// ran       tree/ll/2
/// settings  NCCL_BUFFSIZE=1048576
/// time us   95.1; slowest rank 96.0, CPU 95.0; 40 calls
/// laps us   median 94.8, worst 120.3
/// busbw     1.034 GB/s, 1.35x the default as it was known then
/// 9 samples like this: median 95.1 us
/// ```
pub(super) fn draw(state: &State, theme: &Theme, area: Rect, buffer: &mut Buffer) {
    let Some((_, trial)) = selected(state) else { return };
    let inner = draw_panel(theme, &format!("Trial {}", trial.trial), "Esc closes", area, buffer);
    let facts = facts(state, trial, theme);
    let samples = samples_like(state, trial);
    let has_histogram = 1 < samples.len() && facts.len() as u16 + HISTOGRAM_ROWS <= inner.height;
    let [facts_place, histogram_place, log_place] = Split::vertical([
        Constraint::Length(facts.len() as u16),
        Constraint::Length(if has_histogram { HISTOGRAM_ROWS } else { 0 }),
        Constraint::Fill(1),
    ])
    .areas(inner);
    for (index, (name, value)) in facts.into_iter().enumerate() {
        let Some(place) = row(facts_place, index) else { break };
        let room = usize::from(place.width).saturating_sub(NAME_COLUMNS);
        let value = text::fit(&value, room, theme.glyphs.ellipsis);
        let line = Line::from(vec![Span::styled(format!("{name:NAME_COLUMNS$}"), theme.dim), Span::raw(value)]);
        buffer.set_line(place.x, place.y, &line, place.width);
    }
    draw_histogram(&samples, trial.measured(), theme, histogram_place, buffer);
    let near = |t_ms: u64| t_ms.abs_diff(trial.t_ms) <= LOG_WINDOW_MS;
    log::draw_near(state, near, theme, log_place, buffer);
}

fn facts(state: &State, trial: &TrialRow, theme: &Theme) -> Vec<(&'static str, String)> {
    let settings = state.run.environments.get(trial.environment as usize).map_or("", String::as_str);
    let asked = match (trial.arm, trial.requested) {
        (_, Some(choice)) => choice.to_string(),
        (Arm::Candidate, None) => "what the deployed rules say".to_owned(),
        (_, None) => "the engine's own choice".to_owned(),
    };
    let ran = trial.selected.map_or_else(|| "not told by the engine".to_owned(), |choice| choice.to_string());
    let substituted =
        trial.requested.is_some() && choice_text(trial.requested, trial.selected, theme).contains(theme.glyphs.arrow);
    let ran = if substituted { format!("{ran}: not what was asked for") } else { ran };
    let at = text::clock(trial.t_ms);
    let mut facts = vec![
        ("point", format!("{}, {} arm, processes {}, at {at}", trial.point, arm_name(trial.arm), trial.process)),
        ("asked", asked),
        ("ran", ran),
        ("settings", if settings.is_empty() { "the site's".to_owned() } else { settings.to_owned() }),
    ];
    match &trial.outcome {
        Outcome::Timed(measured) => facts.extend(times(measured)),
        Outcome::Failed { kind, detail } => {
            facts.push(("failed", format!("{}: {}", text::failure_name(*kind), text::one_line(detail))));
        }
    }
    facts
}

fn times(measured: &Measured) -> [(&'static str, String); 3] {
    let us = text::microseconds;
    let calls = match measured.iterations {
        0 => String::new(),
        n => format!("; {}", text::count(u64::from(n), "call")),
    };
    let gain = measured
        .gain
        .map_or_else(String::new, |gain| format!(", {} the default as it was known then", text::ratio(gain)));
    let Measured { time_us, slowest_us, median_us, max_us, cpu_us, busbw_gbs, .. } = *measured;
    [
        ("time us", format!("{}; slowest rank {}, CPU {}{calls}", us(time_us), us(slowest_us), us(cpu_us))),
        ("laps us", format!("median {}, worst {}", us(median_us), us(max_us))),
        ("busbw", format!("{} GB/s{gain}", text::bandwidth(busbw_gbs))),
    ]
}

/// ```text
/// 9 samples of this choice here: median 95.1 us
///    ▁▃█▅▁   ▂
/// 93.2 us            120.3 us
/// ```
/// The sample of the trial itself is in the colour of what is being tried, and under a symbol.
fn draw_histogram(samples: &[f64], own: Option<&Measured>, theme: &Theme, area: Rect, buffer: &mut Buffer) {
    let (Some(first), Some(last), 2..) = (samples.first(), samples.last(), samples.len()) else { return };
    let (Some(head), Some(own_row), Some(bars_row), Some(axis)) =
        (row(area, 0), row(area, 1), row(area, 2), row(area, 3))
    else {
        return;
    };
    let middle = samples.get(samples.len() / 2).copied().unwrap_or(*first);
    let title =
        format!("{} like this: median {} us", text::count(samples.len() as u64, "sample"), text::microseconds(middle));
    buffer.set_stringn(head.x, head.y, title, usize::from(head.width), theme.dim);
    let n_bins = usize::from(area.width).min(60);
    let span = (last - first).max(f64::MIN_POSITIVE);
    let bin = |sample: f64| (((sample - first) / span * (n_bins - 1) as f64).round() as usize).min(n_bins - 1);
    let mut counts = vec![0_usize; n_bins];
    for sample in samples {
        if let Some(count) = counts.get_mut(bin(*sample)) {
            *count += 1;
        }
    }
    let most = counts.iter().copied().max().unwrap_or(1).max(1);
    let bars = theme.glyphs.bars;
    for (column, count) in counts.iter().enumerate().filter(|(_, count)| 0 < **count) {
        let level = (count * bars.len()).div_ceil(most) - 1;
        let bar = bars.get(level).copied().unwrap_or(" ");
        buffer.set_string(bars_row.x + column as u16, bars_row.y, bar, Style::new());
    }
    if let Some(measured) = own {
        let column = bin(measured.time_us.clamp(*first, *last)) as u16;
        buffer.set_string(own_row.x + column, own_row.y, theme.glyphs.sorted[0], theme.current_series);
    }
    let [low, high] = [first, last].map(|us| format!("{} us", text::microseconds(*us)));
    let room = n_bins.saturating_sub(low.len() + high.len());
    let ends = format!("{low}{}{high}", " ".repeat(room));
    buffer.set_stringn(axis.x, axis.y, ends, usize::from(axis.width), theme.dim);
}
