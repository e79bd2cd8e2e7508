//! The banner of a run that is over.

use gdrtune_profiles::vocab::Engine;
use gdrtune_session::event::RunEnd;
use ratatui::{
    buffer::Buffer,
    layout::Rect,
    style::Style,
    text::{Line, Span},
    widgets::{Block, Widget as _},
};

use super::row;
use crate::ui::{
    run::{Gain, Summary},
    state::{Source, State},
    text,
    theme::Theme,
};

/// Most rows that the summary of the run and the list of files may take, each; where the terminal is low, one.
const MAX_TEXT_ROWS: usize = 2;

/// Below this many rows a terminal is low.
const LOW_ROWS: u16 = 20;

/// Rows that the banner wants on a terminal of a size.
pub(crate) fn banner_rows(summary: &Summary, (columns, rows): (u16, u16)) -> u16 {
    lines(summary, inner_columns(columns), max_text_rows(rows), "").len() as u16 + 2
}

const fn max_text_rows(rows: u16) -> usize {
    if rows < LOW_ROWS { 1 } else { MAX_TEXT_ROWS }
}

/// Columns between the borders and their margins.
fn inner_columns(columns: u16) -> usize {
    usize::from(columns.saturating_sub(4))
}

/// ```text
/// ┏ ✓ tuned ───────────────────────────────────────────────────────┓
/// ┃ 1.42x [1.35-1.50] over the defaults: 14 of 18 points ship      ┃
/// ┃ What the run says of itself in one sentence.                   ┃
/// ┃ Files in tuned/: profile.toml profile.sh …                     ┃
/// ┃ Next: gdrtune install tuned/profile.toml --to FOLDER           ┃
/// ┗ q leaves ──────────────────────────────────────────────────────┛
/// ```
pub(super) fn draw(state: &State, theme: &Theme, area: Rect, buffer: &mut Buffer) {
    let summary = state.shown();
    let Some(ended) = &summary.ended else { return };
    let glyphs = &theme.glyphs;
    let (title, style) = match ended.end {
        Some(RunEnd::Tuned) => (format!(" {} tuned ", glyphs.ok), theme.good),
        Some(RunEnd::DefaultsBest) => (format!(" {} the defaults are best ", glyphs.ok), theme.good),
        Some(RunEnd::Inconclusive) => (format!(" {} inconclusive, the defaults stay ", glyphs.alert), theme.warn),
        Some(RunEnd::Interrupted) => (format!(" {} interrupted ", glyphs.alert), theme.warn),
        Some(RunEnd::NodesLost) => (format!(" {} nodes lost ", glyphs.failed), theme.bad),
        None if state.control.source != Source::Live => (format!(" {} cut off ", glyphs.failed), theme.bad),
        Some(RunEnd::Failed) | None => (format!(" {} failed ", glyphs.failed), theme.bad),
    };
    let way_out = Line::from(vec![Span::styled(" q", theme.key), Span::styled(" leaves ", Style::new())]);
    let block = Block::bordered()
        .border_set(glyphs.focused_border)
        .border_style(style)
        .title(Line::styled(title, style))
        .title_bottom(way_out);
    let inner = block.inner(area);
    block.render(area, buffer);
    let columns = inner_columns(area.width);
    let max_rows = max_text_rows(state.view.size.1);
    for (index, (line, role)) in lines(summary, columns, max_rows, glyphs.ellipsis).into_iter().enumerate() {
        let Some(place) = row(inner, index) else { return };
        let style = match role {
            Role::Gain => theme.title,
            Role::Text => Style::new(),
        };
        buffer.set_stringn(place.x + 1, place.y, line, columns, style);
    }
}

/// How a line of the banner is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Gain,
    Text,
}

fn lines(summary: &Summary, columns: usize, max_rows: usize, ellipsis: &str) -> Vec<(String, Role)> {
    let sentence = summary.ended.as_ref().map_or("", |e| e.summary.as_str());
    let files = if summary.written.is_empty() {
        "No files were written".to_owned()
    } else {
        format!("Files in {}", text::fold_files(&summary.written))
    };
    let next = next_step(summary).unwrap_or_default();
    let texts = [sentence, &files, &next]
        .into_iter()
        .filter(|t| !t.is_empty())
        .flat_map(|t| shorten(t, columns, max_rows, ellipsis));
    let gain = (text::fit(&gain_text(summary, columns), columns, ellipsis), Role::Gain);
    std::iter::once(gain).chain(texts.map(|line| (line, Role::Text))).collect()
}

/// The command that goes on from here, where there is one for all.
fn next_step(summary: &Summary) -> Option<String> {
    let label = summary.label.as_ref()?;
    match summary.ended.as_ref()?.end {
        Some(RunEnd::Tuned) if label.engine == Engine::Nccl => {
            let profile = summary.written.iter().find(|file| file.ends_with("profile.toml"))?;
            Some(format!("Next: gdrtune install {profile} --to FOLDER"))
        }
        None | Some(RunEnd::Interrupted | RunEnd::NodesLost) => {
            Some(format!("Next: gdrtune runs resume {}", label.run))
        }
        Some(RunEnd::Tuned | RunEnd::DefaultsBest | RunEnd::Inconclusive | RunEnd::Failed) => None,
    }
}

/// At most `max_rows` lines; what does not fit is replaced by an ellipsis.
fn shorten(text: &str, columns: usize, max_rows: usize, ellipsis: &str) -> Vec<String> {
    let mut lines = text::wrap(text, columns);
    if max_rows < lines.len() {
        let rest = lines.split_off(max_rows - 1).join(" ");
        lines.push(text::fit(&rest, columns, ellipsis));
    }
    lines
}

/// What was gained, and how many points ship; the last counts are left out whole if there is no room.
fn gain_text(summary: &Summary, columns: usize) -> String {
    let verdicts = summary.verdicts();
    let gain = match summary.gain() {
        None => return "Nothing was measured against the defaults".to_owned(),
        Some(Gain::Estimate(ratio)) => {
            return format!("{} over the defaults by the search's estimate; not verified", text::ratio(ratio));
        }
        Some(Gain::Verified { median, low, high }) => format!("{} [{low:.2}-{high:.2}]", text::ratio(median)),
    };
    let points = text::count(verdicts.total(), "point");
    let mut line = format!("{gain} over the defaults; {}/{points} ship", verdicts.ship);
    let counts = [
        (verdicts.regression, "slower, not shipped"),
        (verdicts.keep, "no sure gain"),
        (verdicts.too_noisy, "too noisy"),
    ];
    for part in counts.into_iter().filter(|(n, _)| 0 < *n).map(|(n, what)| format!(", {n} {what}")) {
        if text::width(&line) + text::width(&part) <= columns {
            line.push_str(&part);
        }
    }
    line
}
