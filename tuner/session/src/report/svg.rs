//! A writer of SVG, and of any text that is well-formed XML: elements, and everything in them escaped.

use std::fmt::Write as _;

use gdrtune_profiles::diagnostic::printable;

/// Text as content or value: markup and what XML forbids is taken out of its meaning, and characters that turn text around are
/// shown by their numbers.
pub(super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in printable(text).chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // No characters of XML 1.0.
            '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// A coordinate, to a tenth of a unit.
pub(super) fn at(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map_or_else(|| text.clone(), str::to_owned)
}

/// Elements that are being written.
#[derive(Debug, Default)]
pub(super) struct Markup {
    text: String,
    open: Vec<&'static str>,
}

impl Markup {
    /// Begins an element.
    pub(super) fn open(&mut self, name: &'static str, attributes: &[(&str, &str)]) {
        self.tag(name, attributes);
        self.text.push('>');
        self.open.push(name);
    }

    /// Ends the element that was begun last.
    pub(super) fn close(&mut self) {
        if let Some(name) = self.open.pop() {
            self.text.push_str("</");
            self.text.push_str(name);
            self.text.push('>');
        }
    }

    /// An element without content.
    pub(super) fn empty(&mut self, name: &str, attributes: &[(&str, &str)]) {
        self.tag(name, attributes);
        self.text.push_str("/>");
    }

    /// An element of text alone.
    pub(super) fn leaf(&mut self, name: &'static str, attributes: &[(&str, &str)], content: &str) {
        self.open(name, attributes);
        self.write(content);
        self.close();
    }

    /// Text.
    pub(super) fn write(&mut self, content: &str) {
        self.text.push_str(&escape(content));
    }

    /// What is markup already.
    pub(super) fn raw(&mut self, markup: &str) {
        self.text.push_str(markup);
    }

    /// Everything, with all elements ended.
    pub(super) fn finish(mut self) -> String {
        while !self.open.is_empty() {
            self.close();
        }
        self.text
    }

    fn tag(&mut self, name: &str, attributes: &[(&str, &str)]) {
        self.text.push('<');
        self.text.push_str(name);
        for (name, value) in attributes {
            // Writing to a String cannot fail.
            write!(self.text, " {name}=\"{}\"", escape(value)).unwrap_or_default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_leaves_its_element() {
        let mut markup = Markup::default();
        markup.open("a", &[("b", "\"><script>'")]);
        markup.leaf("c", &[], "</c><script>&\u{0}\u{1b}\u{202e}\u{ffff}");
        let want = "<a b=\"&quot;&gt;&lt;script&gt;&#39;\"><c>&lt;/c&gt;&lt;script&gt;&amp;\\0\\u{1b}\\u{202e}\u{fffd}</c></a>";
        assert_eq!(markup.finish(), want);
    }

    #[test]
    fn coordinates_have_one_digit_at_most() {
        assert_eq!([0.0, 12.04, 12.06, -3.5].map(at), ["0", "12", "12.1", "-3.5"]);
    }
}
