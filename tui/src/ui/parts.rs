//! What all screens are made of: the rule over a panel, boxes, the list of keys, the footer's keys, the message of a terminal that
//! is too small. Pure functions that know no state.

use ratatui::{
    buffer::Buffer,
    layout::{Alignment, Constraint, Rect},
    style::Style,
    text::{Line, Span},
    widgets::{Block, Borders, Clear, Paragraph, Widget as _},
};

use super::{layout::MIN_SIZE, line_edit::LineEdit, text, theme::Theme};

/// Columns of the key names in the help.
const KEY_COLUMNS: usize = 16;

/// Columns of the help with its borders: room for the longest sentence of the key table.
const HELP_COLUMNS: u16 = 74;

/// Rows of borders and of the last line.
const HELP_FRAME_ROWS: u16 = 2;

/// ```text
///      terminal too small
///      now 50x12, needed 60x15
///      q quit
/// ```
pub(super) fn draw_too_small(size: (u16, u16), last: &str, theme: &Theme, area: Rect, buffer: &mut Buffer) {
    let (columns, rows) = size;
    let lines = [
        Line::styled("terminal too small", theme.title),
        Line::raw(format!("now {columns}x{rows}, needed {}x{}", MIN_SIZE.0, MIN_SIZE.1)),
        Line::raw(last),
    ];
    let top = area.height.saturating_sub(lines.len() as u16) / 2;
    let middle = Rect { y: area.y + top, height: area.height - top, ..area };
    Paragraph::new(lines.to_vec()).alignment(Alignment::Center).render(middle, buffer);
}

/// Draws the rule and title of a panel, with what stands at its right end, and returns the place under it.
pub(super) fn draw_panel(
    focused: bool,
    title: &str,
    right: &str,
    theme: &Theme,
    area: Rect,
    buffer: &mut Buffer,
) -> Rect {
    let (style, border) =
        if focused { (theme.focused, theme.glyphs.focused_border) } else { (theme.title, theme.glyphs.border) };
    let room = usize::from(area.width).saturating_sub(5 + text::width(title));
    let mut block = Block::new()
        .borders(Borders::TOP)
        .border_set(border)
        .border_style(if focused { theme.title } else { theme.dim })
        .title(Line::from(vec![Span::styled(format!(" {title} "), style)]));
    if !right.is_empty() && text::width(right) <= room {
        block = block.title(Line::styled(format!(" {right} "), theme.dim).right_aligned());
    }
    let inner = block.inner(area);
    block.render(area, buffer);
    inner
}

/// The row of a place, if it has that many.
pub(super) fn row(area: Rect, index: usize) -> Option<Rect> {
    let index = u16::try_from(index).ok()?;
    (index < area.height).then(|| Rect { y: area.y + index, height: 1, ..area })
}

/// Draws a line whose last spans are dropped whole if they do not fit; returns the columns that it took.
pub(super) fn draw_parts(parts: Vec<Span<'_>>, area: Rect, buffer: &mut Buffer) -> u16 {
    let mut x = area.x;
    for part in parts {
        let width = u16::try_from(part.width()).unwrap_or(u16::MAX);
        if area.right() < x.saturating_add(width) {
            break;
        }
        buffer.set_span(x, area.y, &part, width);
        x += width;
    }
    x - area.x
}

/// Adds keys with their words to a footer of so many columns, as many as fit.
pub(super) fn add_keys<'a>(
    parts: &mut Vec<Span<'a>>,
    keys: impl IntoIterator<Item = (String, &'a str)>,
    columns: u16,
    theme: &Theme,
) {
    for (name, word) in keys {
        let key = Span::styled(name, theme.key);
        let label = Span::styled(format!(" {word}  "), theme.dim);
        // Key and word stay together.
        let used: usize = parts.iter().map(Span::width).sum();
        if usize::from(columns) < used + key.width() + label.width().saturating_sub(2) {
            break;
        }
        parts.extend([key, label]);
    }
}

/// Clears a place, frames it, and returns the inside without its margin.
pub(super) fn draw_box(title: &str, right: &str, theme: &Theme, area: Rect, buffer: &mut Buffer) -> Rect {
    Clear.render(area, buffer);
    let block = Block::bordered()
        .border_set(theme.glyphs.focused_border)
        .title(Line::styled(title.to_owned(), theme.title))
        .title(Line::styled(right.to_owned(), theme.dim).right_aligned());
    let inner = block.inner(area);
    block.render(area, buffer);
    Rect { x: inner.x + 1, width: inner.width.saturating_sub(2), ..inner }
}

/// The part of a line that is typed which fits into so many columns, with the cursor.
pub(super) fn line_spans(line: &LineEdit, columns: usize, theme: &Theme) -> [Span<'static>; 3] {
    let (before, behind) = line.split();
    let (under, rest) = behind.split_at(behind.chars().next().map_or(0, char::len_utf8));
    let under = if under.is_empty() { theme.glyphs.text_cursor } else { under };
    // Of a line that is too long, the part around the cursor is shown.
    let room = columns.saturating_sub(text::width(under));
    let start = text::fit_end(before, room);
    let rest = text::fit(rest, room.saturating_sub(text::width(start)), "");
    [Span::raw(start.to_owned()), Span::styled(under.to_owned(), theme.selected), Span::raw(rest)]
}

/// Keys and what they do, under headings.
#[derive(Default)]
pub(super) struct KeyList(Vec<(&'static str, Vec<(String, &'static str)>)>);

impl KeyList {
    /// Adds a key under a heading; headings come in the order of their first keys.
    pub(super) fn add(&mut self, heading: &'static str, names: String, help: &'static str) {
        match self.0.iter_mut().find(|section| section.0 == heading) {
            Some(section) => section.1.push((names, help)),
            None => self.0.push((heading, vec![(names, help)])),
        }
    }

    /// The lines, wrapped. Those of headings have no second part.
    fn lines(&self, columns: usize) -> Vec<(&str, String)> {
        let help_columns = columns.saturating_sub(KEY_COLUMNS + 1);
        let mut lines = Vec::new();
        for (heading, keys) in &self.0 {
            lines.push((*heading, String::new()));
            for (names, help) in keys {
                for (index, part) in text::wrap(help, help_columns).into_iter().enumerate() {
                    lines.push((if index == 0 { names.as_str() } else { "" }, part));
                }
            }
        }
        lines
    }

    fn area(&self, size: (u16, u16)) -> Rect {
        let area = Rect::new(0, 0, size.0, size.1);
        let columns = HELP_COLUMNS.min(area.width.saturating_sub(2));
        let rows = self.lines(usize::from(columns.saturating_sub(4))).len() as u16 + HELP_FRAME_ROWS;
        area.centered(Constraint::Length(columns), Constraint::Length(rows.min(area.height)))
    }

    /// The largest useful scroll on a terminal of this size.
    pub(super) fn scroll_limit(&self, size: (u16, u16)) -> u16 {
        let n_lines = self.lines(usize::from(self.area(size).width.saturating_sub(4))).len() as u16;
        n_lines.saturating_sub(self.n_visible(size))
    }

    /// Lines that a terminal of this size shows at once.
    pub(super) fn n_visible(&self, size: (u16, u16)) -> u16 {
        self.area(size).height.saturating_sub(HELP_FRAME_ROWS)
    }

    /// ```text
    /// ┏ Keys, lines 1-22 of 40 ─── j k PgDn scroll, Esc close ┓
    /// ┃ This view                                             ┃
    /// ┃ Enter          show the trial in …                    ┃
    /// ┃ Everywhere                                            ┃
    /// ┃ ? F1           show this list                         ┃
    /// ┗───────────────────────────────────────────────────────┛
    /// ```
    pub(super) fn draw(&self, scroll: u16, theme: &Theme, area: Rect, buffer: &mut Buffer) {
        let size = (area.width, area.height);
        let limit = self.scroll_limit(size);
        let scroll = scroll.min(limit);
        let place = self.area(size);
        let (title, more) = if 0 < limit {
            let n_visible = self.n_visible(size);
            let (first, last, all) = (scroll + 1, scroll + n_visible, limit + n_visible);
            (format!(" Keys, lines {first}-{last} of {all} "), " j k PgDn scroll, Esc close ")
        } else {
            (" Keys ".to_owned(), " Esc close ")
        };
        let inner = draw_box(&title, more, theme, place, buffer);
        let lines = self.lines(usize::from(inner.width));
        for (index, (names, help)) in lines.iter().skip(usize::from(scroll)).enumerate() {
            let Some(place) = row(inner, index) else { return };
            let style = if help.is_empty() { theme.dim } else { theme.key };
            buffer.set_stringn(place.x, place.y, names, usize::from(place.width).min(KEY_COLUMNS * 2), style);
            let columns = usize::from(place.width).saturating_sub(KEY_COLUMNS + 1);
            buffer.set_stringn(place.x + KEY_COLUMNS as u16 + 1, place.y, help, columns, Style::new());
        }
    }
}
