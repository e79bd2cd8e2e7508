//! What all screens are made of: the rule over a panel, boxes, the list of keys, the footer's keys, the message of a terminal that
//! is too small. Pure functions that know no state.

use ratatui::{
    buffer::Buffer,
    layout::{Alignment, Constraint, Rect},
    style::Style,
    text::{Line, Span},
    widgets::{Block, Borders, Clear, Paragraph, Widget as _},
};

use super::{layout::MIN_SIZE, text, theme::Theme};

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
        let width = part.width() as u16;
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

/// Keys and what they do.
pub(super) struct KeyList(Vec<(String, &'static str)>);

impl KeyList {
    /// Of the keys' names and their sentences.
    pub(super) fn new(entries: impl Iterator<Item = (String, &'static str)>) -> Self {
        Self(entries.collect())
    }

    /// The lines, wrapped.
    fn lines(&self, columns: usize) -> Vec<(&str, String)> {
        let help_columns = columns.saturating_sub(KEY_COLUMNS + 1);
        let wrapped = self.0.iter().map(|(names, help)| (names, text::wrap(help, help_columns)));
        wrapped
            .flat_map(|(names, parts)| {
                let named = parts.into_iter().enumerate();
                named.map(move |(index, part)| (if index == 0 { names.as_str() } else { "" }, part))
            })
            .collect()
    }

    fn area(&self, size: (u16, u16)) -> Rect {
        let area = Rect::new(0, 0, size.0, size.1);
        let columns = HELP_COLUMNS.min(area.width.saturating_sub(2));
        let rows = self.lines(usize::from(columns.saturating_sub(4))).len() as u16 + HELP_FRAME_ROWS;
        area.centered(Constraint::Length(columns), Constraint::Length(rows.min(area.height)))
    }

    /// The largest useful scroll on a terminal of this size.
    pub(super) fn scroll_limit(&self, size: (u16, u16)) -> u16 {
        let area = self.area(size);
        let n_lines = self.lines(usize::from(area.width.saturating_sub(4))).len() as u16;
        n_lines.saturating_sub(area.height.saturating_sub(HELP_FRAME_ROWS))
    }

    /// ```text
    /// ┏ Keys ──────────────────── ? Esc close ┓
    /// ┃ q              leave; asks first …    ┃
    /// ┃ ? F1           show this list         ┃
    /// ┗───────────────────────────────────────┛
    /// ```
    pub(super) fn draw(&self, scroll: u16, theme: &Theme, area: Rect, buffer: &mut Buffer) {
        let limit = self.scroll_limit((area.width, area.height));
        let place = self.area((area.width, area.height));
        let more = if 0 < limit { " j k scroll, Esc close " } else { " Esc close " };
        let inner = draw_box(" Keys ", more, theme, place, buffer);
        let lines = self.lines(usize::from(inner.width));
        for (index, (names, help)) in lines.iter().skip(usize::from(scroll.min(limit))).enumerate() {
            let Some(place) = row(inner, index) else { return };
            buffer.set_stringn(place.x, place.y, names, KEY_COLUMNS, theme.key);
            let columns = usize::from(place.width).saturating_sub(KEY_COLUMNS + 1);
            buffer.set_stringn(place.x + KEY_COLUMNS as u16 + 1, place.y, help, columns, Style::new());
        }
    }
}
