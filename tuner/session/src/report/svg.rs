//! A writer of SVG, and of any text that is well-formed XML: elements, and everything in them escaped.

use std::fmt::Write as _;

use gdrtune_profiles::diagnostic::printable;

use super::{STYLE_COLOURS, STYLE_PLOT};

/// Height of what is written under a drawing.
const IMPRINT: f64 = 46.0;

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

/// What a drawing that leaves its page must not lose: what its numbers must not be mistaken for, and whose they are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Imprint {
    pub(super) labels: String,
    pub(super) run: String,
}

/// A drawing as a file of its own; `draw` draws it into a field of this size.
pub(super) fn file(
    (width, height): (f64, f64),
    (title, description): (&str, &str),
    imprint: &Imprint,
    draw: impl FnOnce(&mut Markup),
) -> String {
    let (w, h) = (at(width), at(height + IMPRINT));
    let view = format!("0 0 {w} {h}");
    let mut out = Markup::default();
    let own = [("xmlns", "http://www.w3.org/2000/svg"), ("role", "img"), ("width", &*w), ("height", &*h)];
    out.open("svg", &[&own[..], &[("class", "plot"), ("viewBox", &*view)]].concat());
    out.leaf("title", &[], title);
    out.leaf("desc", &[], description);
    out.open("style", &[]);
    out.raw(STYLE_COLOURS);
    out.raw(STYLE_PLOT);
    out.close();
    out.empty("rect", &[("width", "100%"), ("height", "100%"), ("style", "fill:#fff;fill:var(--bg)")]);
    draw(&mut out);
    out.leaf("text", &[("class", "di"), ("x", "12"), ("y", &at(height + 16.0))], &imprint.run);
    out.leaf("text", &[("class", "ti"), ("x", "12"), ("y", &at(height + 36.0))], &imprint.labels);
    out.finish() + "\n"
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
