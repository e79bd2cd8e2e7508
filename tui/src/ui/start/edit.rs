//! A line of text that is typed.

use crate::ui::text::width;

/// Text and a cursor between its characters.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct TextInput {
    text: String,
    /// Byte of the character under the cursor; always at a boundary.
    cursor: usize,
}

/// What a key does to a line of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Edit {
    Insert(char),
    /// Removes the character before the cursor.
    Backspace,
    /// Removes the character under the cursor.
    Delete,
    Left,
    Right,
    Home,
    End,
    /// Removes all before the cursor.
    KillLine,
    /// Removes the word before the cursor.
    KillWord,
}

impl TextInput {
    /// With the cursor at the end. What a terminal takes for commands is left out.
    pub(crate) fn new(text: &str) -> Self {
        let text: String = text.chars().filter(|c| !c.is_control()).collect();
        Self { cursor: text.len(), text }
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Applies an edit.
    pub(crate) fn edit(&mut self, edit: Edit) {
        match edit {
            Edit::Insert(c) if c.is_control() => {}
            Edit::Insert(c) => {
                self.text.insert(self.cursor, c);
                self.cursor += c.len_utf8();
            }
            Edit::Backspace => self.remove_from(self.before(1)),
            Edit::Delete => {
                let end = self.cursor;
                self.edit(Edit::Right);
                self.remove_from(end);
            }
            Edit::Left => self.cursor = self.before(1),
            Edit::Right => self.cursor += self.under().map_or(0, char::len_utf8),
            Edit::Home => self.cursor = 0,
            Edit::End => self.cursor = self.text.len(),
            Edit::KillLine => self.remove_from(0),
            Edit::KillWord => {
                let head = self.text[..self.cursor].trim_end();
                let word = head.rfind(char::is_whitespace);
                // The blank before the word stays.
                let blank = word.and_then(|at| head[at..].chars().next()).map_or(0, char::len_utf8);
                self.remove_from(word.unwrap_or(0) + blank);
            }
        }
    }

    /// The character under the cursor; none at the end.
    pub(crate) fn under(&self) -> Option<char> {
        self.text[self.cursor..].chars().next()
    }

    /// The part to show in so many columns, in three pieces: before the cursor, under it (a space at the end), and after.
    pub(crate) fn window(&self, columns: usize) -> (&str, String, &str) {
        let under = self.under().unwrap_or(' ').to_string();
        let after = self.text.get(self.cursor + self.under().map_or(0, char::len_utf8)..).unwrap_or_default();
        let mut begin = 0;
        let room = columns.saturating_sub(width(&under));
        while room < width(&self.text[begin..self.cursor]) {
            begin += self.text[begin..].chars().next().map_or(1, char::len_utf8);
        }
        (&self.text[begin..self.cursor], under, after)
    }

    fn before(&self, n_chars: usize) -> usize {
        self.text[..self.cursor].char_indices().rev().take(n_chars).last().map_or(self.cursor, |(at, _)| at)
    }

    fn remove_from(&mut self, begin: usize) {
        self.text.replace_range(begin..self.cursor, "");
        self.cursor = begin;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_go_where_the_cursor_is() {
        use Edit::{Backspace, Delete, End, Home, Insert, KillLine, KillWord, Left, Right};
        let cases: &[(&str, &[Edit], &str, &str)] = &[
            ("node", &[Insert('1')], "node1", ""),
            ("日本", &[Left, Insert('x')], "日x本", "本"),
            ("日本", &[Left, Left, Left, Delete], "本", "本"),
            ("ab", &[Home, Backspace, Right, Right, Right, Delete], "ab", ""),
            ("ab", &[Left, Backspace], "b", "b"),
            ("one two  ", &[KillWord], "one ", ""),
            ("one", &[KillWord, KillWord], "", ""),
            ("one two", &[Left, KillLine], "o", "o"),
            ("a", &[Home, Insert('\n'), Insert('\u{1b}'), End], "a", ""),
            ("a\u{3000}b", &[KillWord], "a\u{3000}", ""),
        ];
        for (text, edits, expected, under) in cases {
            let mut input = TextInput::new(text);
            for edit in *edits {
                input.edit(*edit);
            }
            assert_eq!((input.text(), input.under()), (*expected, under.chars().next()), "{text} {edits:?}");
        }
    }

    #[test]
    fn the_cursor_stays_in_the_window() {
        let mut input = TextInput::new("node[01-16]");
        assert_eq!(input.window(20), ("node[01-16]", " ".to_owned(), ""));
        assert_eq!(input.window(5), ("-16]", " ".to_owned(), ""));
        input.edit(Edit::Home);
        assert_eq!(input.window(5), ("", "n".to_owned(), "ode[01-16]"));
        assert_eq!(TextInput::new("日本").window(4), ("本", " ".to_owned(), ""));
        assert_eq!(TextInput::new("日本").window(0), ("", " ".to_owned(), ""));
    }
}
