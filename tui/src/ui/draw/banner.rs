//! The banner of a run that is over.

use gdrtune_session::event::RunEnd;
use ratatui::{
    buffer::Buffer,
    layout::Rect,
    text::{Line, Span},
    widgets::{Block, Widget as _},
};

use super::row;
use crate::ui::{
    run::{Gain, Summary},
    state::State,
    text,
    theme::Theme,
};

/// ```text
/// ┏ ✓ tuned ───────────────────────────────────────────────────────┓
/// ┃ 1.42x [1.35-1.50] over the defaults: 14 of 18 points ship      ┃
/// ┃ What the run says of itself in one sentence.                   ┃
/// ┃ Files in gdrtune-demo/: profile.toml profile.sh …              ┃
/// ┃ q leaves                                                       ┃
/// ┗────────────────────────────────────────────────────────────────┛
/// ```
pub(super) fn draw(state: &State, theme: &Theme, area: Rect, buffer: &mut Buffer) {
    let summary = state.shown();
    let Some(ended) = &summary.ended else { return };
    let glyphs = &theme.glyphs;
    let (title, style) = match ended.end {
        Some(RunEnd::Tuned) => (format!(" {} tuned ", glyphs.ok), theme.good),
        Some(RunEnd::DefaultsBest) => (format!(" {} the defaults are best ", glyphs.ok), theme.good),
        Some(RunEnd::Interrupted) => (format!(" {} interrupted ", glyphs.alert), theme.warn),
        Some(RunEnd::NodesLost) => (format!(" {} nodes lost ", glyphs.failed), theme.bad),
        Some(RunEnd::Failed) | None => (format!(" {} failed ", glyphs.failed), theme.bad),
    };
    let block =
        Block::bordered().border_set(glyphs.focused_border).border_style(style).title(Line::styled(title, style));
    let inner = block.inner(area);
    block.render(area, buffer);
    let inner = Rect { x: inner.x + 1, width: inner.width.saturating_sub(2), ..inner };
    let columns = usize::from(inner.width);

    let mut lines = vec![(gain_text(summary), theme.title)];
    // The last row is kept for the way out.
    let mut rows = usize::from(inner.height).saturating_sub(2);
    let files = if summary.written.is_empty() {
        vec!["No files were written".to_owned()]
    } else {
        text::wrap(&format!("Files: {}", text::fold_files(&summary.written)), columns)
    };
    let n_file_rows = files.len().min(rows.saturating_sub(1).max(1));
    rows = rows.saturating_sub(n_file_rows);
    lines.extend(text::wrap(&ended.summary, columns).into_iter().take(rows).map(|l| (l, theme.dim)));
    lines.extend(files.into_iter().take(n_file_rows).map(|l| (l, ratatui::style::Style::new())));
    for (index, (line, style)) in lines.iter().enumerate() {
        if let Some(place) = row(inner, index) {
            buffer.set_string(place.x, place.y, text::fit(line, columns, glyphs.ellipsis), *style);
        }
    }
    if let Some(place) = row(inner, usize::from(inner.height).saturating_sub(1)) {
        let way_out = Line::from(vec![Span::styled("q", theme.key), Span::raw(" leaves")]);
        buffer.set_line(place.x, place.y, &way_out, place.width);
    }
}

/// What was gained, and how many points ship.
fn gain_text(summary: &Summary) -> String {
    let verdicts = summary.verdicts();
    let gain = match summary.gain() {
        None => return "Nothing was measured against the defaults".to_owned(),
        Some(Gain::Estimate(ratio)) => {
            return format!("{} over the defaults by the search's estimate; not verified", text::ratio(ratio));
        }
        Some(Gain::Verified { median, low, high }) => format!("{} [{low:.2}-{high:.2}]", text::ratio(median)),
    };
    let mut line =
        format!("{gain} over the defaults: {} of {} ship", verdicts.ship, text::count(verdicts.total(), "point"));
    for (n, what) in [
        (verdicts.keep, "keep the default"),
        (verdicts.too_noisy, "too noisy"),
        (verdicts.regression, "slower, not shipped"),
    ] {
        if 0 < n {
            line.push_str(&format_count(n, what));
        }
    }
    line
}

fn format_count(n: u64, what: &str) -> String {
    format!(", {n} {what}")
}
