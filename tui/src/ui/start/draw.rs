//! Drawing of the start screen: pure functions of the state and the theme into a buffer. No IO, no clock; only visible rows
//! are touched.

mod form;
mod lists;
mod profile;

use gdrtune_fleet::launcher::quote;
use ratatui::{
    buffer::Buffer,
    layout::{Constraint, Rect},
    text::Span,
    widgets::{Clear, Widget as _},
};

use super::{
    form::shell_word,
    keys::{self, Context},
    layout,
    state::{Page, State},
};
use crate::ui::{
    parts::{KeyList, add_keys, draw_box, draw_parts, draw_too_small, line_spans, row},
    text::{self, fit},
    theme::Theme,
};

/// Draws one frame.
///
/// ```text
/// header   gdrtune, its version, what this is
/// the lists, the form or the profile
/// command  what Enter runs, as it can be typed
/// footer   keys
/// ```
pub(crate) fn draw(state: &State, theme: &Theme, area: Rect, buffer: &mut Buffer) {
    Clear.render(area, buffer);
    if layout::is_too_small(state.size) {
        draw_too_small(state.size, "q quit", theme, area, buffer);
        return;
    }
    match state.page {
        Page::Lists => lists::draw(state, theme, buffer),
        Page::Prompt => {
            lists::draw(state, theme, buffer);
            draw_prompt(state, theme, area, buffer);
        }
        Page::Form => form::draw(state, theme, buffer),
        Page::Profile => profile::draw(state, theme, buffer),
    }
    if let Some(scroll) = state.help {
        let scroll = u16::try_from(scroll).unwrap_or(u16::MAX);
        key_list(state.page_contexts()).draw(scroll, theme, area, buffer);
    }
}

fn key_list(contexts: &[Context]) -> KeyList {
    let mut list = KeyList::default();
    for binding in keys::bindings(contexts) {
        list.add(binding.context.heading(), binding.key_names(), binding.help);
    }
    list
}

/// The largest useful scroll of the help on a terminal of this size.
pub(super) fn help_scroll_limit(size: (u16, u16), contexts: &[Context]) -> usize {
    key_list(contexts).scroll_limit(size).into()
}

/// Lines of the help that are seen at once.
pub(super) fn help_rows(size: (u16, u16), contexts: &[Context]) -> usize {
    key_list(contexts).n_visible(size).into()
}

fn draw_header(title: &str, theme: &Theme, area: Rect, buffer: &mut Buffer) {
    let name = Span::styled(concat!("gdrtune ", env!("CARGO_PKG_VERSION")), theme.title);
    draw_parts(vec![name, Span::raw(format!(" {} {title}", theme.glyphs.dot))], area, buffer);
}

/// The keys, or what was said in their place.
fn draw_footer(state: &State, theme: &Theme, area: Rect, buffer: &mut Buffer) {
    if let Some(notice) = &state.notice {
        let notice = fit(notice, area.width.into(), theme.glyphs.ellipsis);
        buffer.set_string(area.x, area.y, notice, theme.title);
        return;
    }
    let mut parts = Vec::new();
    let named = keys::bindings(state.contexts()).filter_map(|b| Some((b.keys.first()?.name(), b.footer?)));
    add_keys(&mut parts, named, area.width, theme);
    if let Some(last) = parts.last_mut() {
        last.content = last.content.trim_end().to_owned().into();
    }
    draw_parts(parts, area, buffer);
}

/// A command line as it can be typed, in rows that can also be copied: a backslash goes on in the next one. Words that are wider
/// than a row are quoted in pieces.
fn command_rows(words: &[String], columns: usize, n_rows: usize, theme: &Theme) -> Vec<String> {
    let mut rows: Vec<String> = vec!["gdrtune".to_owned()];
    // Room for the backslash and the blank before it.
    let room = columns.saturating_sub(2);
    for word in words {
        for (index, piece) in pieces(word, room.saturating_sub(2)).iter().enumerate() {
            let Some(row) = rows.last_mut() else { continue };
            if index == 0 && text::width(row) + 1 + text::width(piece) <= room {
                row.push(' ');
                row.push_str(piece);
                continue;
            }
            // The pieces of a word have nothing between them.
            row.push_str(if index == 0 { " \\" } else { "\\" });
            rows.push(if index == 0 { format!("  {piece}") } else { piece.clone() });
        }
    }
    let n_all = rows.len();
    rows.truncate(n_rows);
    if let Some(last) = rows.last_mut().filter(|_| n_rows < n_all) {
        *last = fit(&format!("{last}{}", theme.glyphs.ellipsis), columns, theme.glyphs.ellipsis);
    }
    rows
}

/// A word as a shell takes it, in one piece if it is no wider than `columns`.
fn pieces(word: &str, columns: usize) -> Vec<String> {
    let whole = shell_word(word);
    if text::width(&whole) <= columns {
        return vec![whole];
    }
    let mut pieces = Vec::new();
    let mut piece = String::new();
    for c in word.chars() {
        piece.push(c);
        if columns < text::width(&quote(&piece)) && piece.len() > c.len_utf8() {
            piece.pop();
            pieces.push(quote(&piece));
            piece = c.to_string();
        }
    }
    pieces.push(quote(&piece));
    pieces
}

/// ```text
/// ┏ Open a profile ─────────────────────────┓
/// ┃ path  tuned/profile.toml_               ┃
/// ┃ ✗ read tuned/profile.toml: No such file ┃
/// ┗━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━┛
/// ```
fn draw_prompt(state: &State, theme: &Theme, area: Rect, buffer: &mut Buffer) {
    let place = area.centered(Constraint::Length(area.width.min(76)), Constraint::Length(7));
    let inner = draw_box(" Open a profile ", " Enter open, Esc back ", theme, place, buffer);
    if let Some(line) = row(inner, 0) {
        buffer.set_string(line.x, line.y, "path  ", theme.title);
        let field = Rect { x: line.x + 6, width: line.width.saturating_sub(6), ..line };
        draw_parts(line_spans(&state.prompt.input, field.width.into(), theme).to_vec(), field, buffer);
    }
    let problem =
        state.prompt.problem.as_ref().map(|problem| (format!("{} {problem}", theme.glyphs.failed), theme.bad));
    let waiting = state.prompt.is_reading.then(|| (format!("{} reading it", theme.glyphs.waiting), theme.dim));
    let hint = ("a profile.toml, or the folder of a run's files".to_owned(), theme.dim);
    let (text, style) = problem.or(waiting).unwrap_or(hint);
    for (index, line) in text::wrap(&text, inner.width.into()).iter().enumerate() {
        let Some(place) = row(inner, index + 1) else { return };
        buffer.set_stringn(place.x, place.y, line, place.width.into(), style);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ui::{Charset, ThemeName};

    #[test]
    fn rows_of_a_command_line_can_be_copied() {
        let theme = Theme::new(ThemeName::Base, Charset::Unicode);
        let words = ["tune", "-w", "node[01-16],it's a long one,日本語日本語日本語日本語!", "", "--sizes", "1K-64M"]
            .map(str::to_owned);
        for columns in [12, 20, 30, 60, 200] {
            let rows = command_rows(&words, columns, usize::MAX, &theme);
            let all: Vec<String> = ["gdrtune".to_owned()].into_iter().chain(words.clone()).collect();
            assert_eq!(shell_words::split(&rows.join("\n")).unwrap(), all, "{columns}: {rows:#?}");
            assert!(rows.iter().all(|row| text::width(row) <= columns), "{columns}: {rows:#?}");
        }
        assert!(command_rows(&words, 20, 2, &theme)[1].ends_with('…'));
        assert_eq!(command_rows(&words[..1], 20, 2, &theme), ["gdrtune tune"]);
    }
}
