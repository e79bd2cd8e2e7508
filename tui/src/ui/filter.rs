//! What `/` filters rows by: words that must all be there, or with a leading `!` must not.

/// A filter. The empty one lets everything through.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Filter {
    text: String,
    words: Vec<String>,
    is_inverted: bool,
}

impl Filter {
    /// The filter that a text means: words separated by spaces, whatever their case; `!` in front inverts it.
    pub(crate) fn new(text: &str) -> Self {
        let trimmed = text.trim();
        let (is_inverted, words) = trimmed.strip_prefix('!').map_or((false, trimmed), |rest| (true, rest));
        let words = words.split_whitespace().map(str::to_lowercase).collect();
        Self { text: trimmed.to_owned(), words, is_inverted }
    }

    /// As it was typed.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Whether it lets everything through.
    pub(crate) const fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Whether a row is shown.
    pub(crate) fn matches(&self, row: &str) -> bool {
        if self.words.is_empty() {
            return true;
        }
        let row = row.to_lowercase();
        self.words.iter().all(|word| row.contains(word.as_str())) != self.is_inverted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_words_must_be_there_or_not_all() {
        for (filter, row, expected) in [
            ("", "anything", true),
            ("  ", "anything", true),
            ("!", "anything", true),
            ("ring LL", "allreduce 64K ring/ll/2", true),
            ("ring tree", "allreduce 64K ring/ll/2", false),
            ("!ring", "allreduce 64K ring/ll/2", false),
            ("! ring tree", "allreduce 64K ring/ll/2", true),
            ("日本", "日本語", true),
        ] {
            assert_eq!(Filter::new(filter).matches(row), expected, "{filter} {row}");
        }
        assert_eq!(Filter::new(" !a b ").text(), "!a b");
    }
}
