//! What a report is made of before it is a file: headings, texts, tables and plots. One content, several writers.
//!
//! Nothing here is escaped: a writer escapes everything that it writes, so that no name of a host or a value can be forgotten.

use super::{heat::Heat, plot::Plot};

/// A piece of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Inline {
    Plain(String),
    /// What is typed or read by a program.
    Code(String),
    Strong(String),
}

/// A line of text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Text(pub(super) Vec<Inline>);

impl<S: Into<String>> From<S> for Text {
    fn from(text: S) -> Self {
        Self(vec![Inline::Plain(text.into())])
    }
}

impl Text {
    pub(super) fn code(text: impl Into<String>) -> Self {
        Self(vec![Inline::Code(text.into())])
    }

    pub(super) fn strong(text: impl Into<String>) -> Self {
        Self(vec![Inline::Strong(text.into())])
    }

    pub(super) fn then(mut self, more: impl Into<Self>) -> Self {
        self.0.extend(more.into().0);
        self
    }

    fn is_empty(&self) -> bool {
        self.0.iter().all(|piece| match piece {
            Inline::Plain(text) | Inline::Code(text) | Inline::Strong(text) => text.is_empty(),
        })
    }
}

/// A column of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Column {
    Words(&'static str),
    Numbers(&'static str),
}

impl Column {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Words(name) | Self::Numbers(name) => name,
        }
    }
}

/// A table; the first cell of each row names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Table {
    pub(super) caption: String,
    pub(super) columns: Vec<Column>,
    pub(super) rows: Vec<Vec<Text>>,
}

impl Table {
    /// A table without the columns that no row has anything in.
    pub(super) fn new(caption: impl Into<String>, columns: &[Column], rows: Vec<Vec<Text>>) -> Self {
        let is_used =
            |index: usize| index == 0 || rows.iter().any(|row| row.get(index).is_some_and(|cell| !cell.is_empty()));
        let used: Vec<bool> = (0..columns.len()).map(is_used).collect();
        let columns = columns.iter().zip(&used).filter(|(_, is_used)| **is_used).map(|(column, _)| *column).collect();
        let kept = |row: Vec<Text>| {
            row.into_iter().zip(&used).filter(|(_, is_used)| **is_used).map(|(cell, _)| cell).collect()
        };
        let rows = rows.into_iter().map(kept).collect();
        Self { caption: caption.into(), columns, rows }
    }
}

/// A part of a report.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Block {
    /// Of a section (2), or of a part of one (3, 4).
    Heading {
        level: u8,
        text: String,
    },
    /// What the numbers must not be mistaken for, or what was wrong with them: a word that says which, and a sentence.
    Banner {
        word: &'static str,
        text: Text,
    },
    Paragraph(Text),
    /// A few figures that are read first: what each is, and its value.
    Figures(Vec<(&'static str, Text)>),
    /// Names and what they are.
    Facts(Vec<(&'static str, Text)>),
    List(Vec<Text>),
    Table(Table),
    Heat(Heat),
    /// Side by side where there is room.
    Plots(Vec<Plot>),
    /// Lines as they are.
    Code(String),
    /// What not everybody wants to see, under a line that says what it is.
    Folded {
        summary: String,
        blocks: Vec<Block>,
    },
}

impl Block {
    pub(super) fn heading(level: u8, text: impl Into<String>) -> Self {
        Self::Heading { level, text: text.into() }
    }

    pub(super) fn paragraph(text: impl Into<Text>) -> Self {
        Self::Paragraph(text.into())
    }
}

/// A whole report.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Page {
    pub(super) title: String,
    pub(super) blocks: Vec<Block>,
}

/// A text of at most so many characters.
pub(super) fn shortened(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => text.to_owned(),
        Some((end, _)) => text[..end].trim_end().to_owned() + "…",
    }
}
