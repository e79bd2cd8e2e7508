//! A line of text that is being typed.

/// The text and the cursor in it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct LineEdit {
    text: String,
    /// A byte position between two characters.
    cursor: usize,
}

/// A change of the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Edit {
    Insert(char),
    DeleteBack,
    DeleteForward,
    DeleteWord,
    DeleteToStart,
    Left,
    Right,
    Home,
    End,
}

impl LineEdit {
    /// A text with the cursor at its end.
    pub(crate) fn new(text: impl Into<String>) -> Self {
        let text = text.into();
        Self { cursor: text.len(), text }
    }

    /// The text.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// The text before the cursor and the text behind it.
    pub(crate) fn split(&self) -> (&str, &str) {
        self.text.split_at_checked(self.cursor).unwrap_or((&self.text, ""))
    }

    /// Applies a change. Control characters are not taken.
    pub(crate) fn apply(&mut self, edit: Edit) {
        let (before, behind) = self.split();
        let previous = before.chars().next_back().map_or(self.cursor, |c| self.cursor - c.len_utf8());
        let next = behind.chars().next().map_or(self.cursor, |c| self.cursor + c.len_utf8());
        match edit {
            Edit::Insert(c) if c.is_control() => {}
            Edit::Insert(c) => {
                self.text.insert(self.cursor, c);
                self.cursor += c.len_utf8();
            }
            Edit::DeleteBack => self.delete(previous, self.cursor),
            Edit::DeleteForward => self.delete(self.cursor, next),
            Edit::DeleteWord => {
                let kept = before.trim_end();
                let start = kept.rfind(char::is_whitespace).map_or(0, |space| space + 1);
                // A space of several bytes: the next boundary.
                let start = (start..=kept.len()).find(|at| kept.is_char_boundary(*at)).unwrap_or(0);
                self.delete(start, self.cursor);
            }
            Edit::DeleteToStart => self.delete(0, self.cursor),
            Edit::Left => self.cursor = previous,
            Edit::Right => self.cursor = next,
            Edit::Home => self.cursor = 0,
            Edit::End => self.cursor = self.text.len(),
        }
    }

    /// Puts a text where the cursor is. Line breaks and tabs within it become spaces; no other control character is taken.
    pub(crate) fn insert(&mut self, text: &str) {
        let text = text.trim_end_matches(['\r', '\n']);
        let spaced = text.chars().map(|c| if matches!(c, '\r' | '\n' | '\t') { ' ' } else { c });
        let text: String = spaced.filter(|c| !c.is_control()).collect();
        self.text.insert_str(self.cursor, &text);
        self.cursor += text.len();
    }

    fn delete(&mut self, from: usize, to: usize) {
        self.text.replace_range(from..to, "");
        self.cursor = from;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_put_where_the_cursor_is_as_one_line() {
        for (text, expected) in [
            ("b", ("ab", "z")),
            ("日本\n", ("a日本", "z")),
            ("n1\nn2\r\n", ("an1 n2", "z")),
            ("\u{1b}[2J\u{7}", ("a[2J", "z")),
            ("", ("a", "z")),
        ] {
            let mut line = LineEdit::new("az");
            line.apply(Edit::Left);
            line.insert(text);
            assert_eq!(line.split(), expected, "{text:?}");
        }
    }

    #[test]
    fn edits_move_and_change() {
        use Edit::*;
        let table: &[(&str, &[Edit], (&str, &str))] = &[
            ("", &[Insert('a'), Insert('ü')], ("aü", "")),
            ("aü", &[DeleteBack], ("a", "")),
            ("aü", &[Left, DeleteForward], ("a", "")),
            ("aü", &[Home, Insert('日')], ("日", "aü")),
            ("one two ", &[DeleteWord], ("one ", "")),
            ("one\u{3000}two", &[DeleteWord], ("one\u{3000}", "")),
            ("one two", &[Left, DeleteToStart], ("", "o")),
            ("ab", &[Home, Left, Right, End, Right], ("ab", "")),
            ("", &[DeleteBack, DeleteForward, DeleteWord, Left], ("", "")),
            ("a", &[Insert('\n'), Insert('\u{1b}')], ("a", "")),
        ];
        for (start, edits, expected) in table {
            let mut line = LineEdit::new(*start);
            for edit in *edits {
                line.apply(*edit);
            }
            assert_eq!(line.split(), *expected, "{start:?} {edits:?}");
        }
    }
}
