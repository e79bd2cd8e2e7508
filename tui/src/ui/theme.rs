//! Colours, modifiers and symbols. Nothing else in the UI names a colour or a symbol that has an ASCII twin.
//!
//! State is never told by colour alone: every use of [`Theme::good`], [`Theme::warn`] and [`Theme::bad`] comes with a
//! symbol and a word.

use gdrtune_session::event::{Decision, NodeState};
use ratatui::{
    style::{Color, Modifier, Style},
    symbols::{Marker, border},
};

/// The themes that `t` cycles through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ThemeName {
    /// The terminal's own 16 colours, those that can be read on light and on dark.
    Base,
    /// Blue and orange.
    Colorblind,
    /// No colours, only bold, dim and reverse.
    Mono,
}

impl ThemeName {
    /// The next one for `t`.
    pub(crate) const fn next(self) -> Self {
        match self {
            Self::Base => Self::Colorblind,
            Self::Colorblind => Self::Mono,
            Self::Mono => Self::Base,
        }
    }
}

/// Which characters may be drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Charset {
    /// Braille, box drawing and a few symbols that every UTF-8 font has.
    Unicode,
    /// ASCII only.
    Ascii,
}

impl Charset {
    /// What the terminal's environment asks for: the locale, and `TERM=dumb`. `variable` looks a variable up.
    pub(crate) fn of_environment(variable: impl Fn(&str) -> Option<String>) -> Self {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        // The first of these that is set decides about characters (setlocale(3)).
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(set).unwrap_or_default().to_lowercase();
        let is_utf8 = locale.contains("utf-8") || locale.contains("utf8");
        if is_utf8 && set("TERM").is_none_or(|term| term != "dumb") { Self::Unicode } else { Self::Ascii }
    }
}

/// The symbols of a charset.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Glyphs {
    /// Replaces the end of a text that is too long.
    pub(crate) ellipsis: &'static str,
    /// Between what was asked for and what ran.
    pub(crate) arrow: &'static str,
    /// Between parts of a line.
    pub(crate) dot: &'static str,
    /// Worked.
    pub(crate) ok: &'static str,
    /// Did not work.
    pub(crate) failed: &'static str,
    /// Was there and is gone; needs a look.
    pub(crate) alert: &'static str,
    /// On its way.
    pub(crate) waiting: &'static str,
    /// Ended as planned.
    pub(crate) closed: &'static str,
    /// A point of the default series.
    pub(crate) default_point: &'static str,
    /// A point of the best series.
    pub(crate) best_point: &'static str,
    /// A point of what is being tried.
    pub(crate) current_point: &'static str,
    /// The vertical line of the size cursor.
    pub(crate) cursor: &'static str,
    /// The axis beside the plot.
    pub(crate) axis: &'static str,
    /// In front of the row under the cursor.
    pub(crate) row_cursor: &'static str,
    /// In front of a marked row.
    pub(crate) mark: &'static str,
    /// Has more below it that is not shown, or that is.
    pub(crate) fold: [&'static str; 2],
    /// Sorted with the largest first, and the other way round.
    pub(crate) sorted: [&'static str; 2],
    /// Bars of a sparkline, the lowest first.
    pub(crate) bars: &'static [&'static str],
    /// Where a sparkline has no value.
    pub(crate) missing: &'static str,
    /// Shades of the heat map, the nearest to the best first.
    pub(crate) heat: [&'static str; 4],
    /// A choice that was given up.
    pub(crate) dropped: &'static str,
    /// A choice that the library does not offer.
    pub(crate) refused: &'static str,
    /// A choice that was not tried.
    pub(crate) untried: &'static str,
    /// The choice of the last trial.
    pub(crate) present: &'static str,
    /// The cursor of a line that is being typed, where nothing is under it.
    pub(crate) text_cursor: &'static str,
    /// Filled and empty cells of a gauge.
    pub(crate) gauge: [&'static str; 2],
    /// Lines of charts.
    pub(crate) line: Marker,
    /// Borders of panels.
    pub(crate) border: border::Set<'static>,
    /// Borders of the panel that has the focus, and of overlays.
    pub(crate) focused_border: border::Set<'static>,
}

const UNICODE: Glyphs = Glyphs {
    ellipsis: "…",
    arrow: "→",
    dot: "·",
    ok: "✓",
    failed: "✗",
    alert: "!",
    waiting: "◌",
    closed: "○",
    default_point: "o",
    best_point: "◆",
    current_point: "×",
    cursor: "┊",
    axis: "│",
    row_cursor: "▸",
    mark: "●",
    fold: ["▸", "▾"],
    sorted: ["▼", "▲"],
    bars: &["▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"],
    missing: "×",
    heat: ["█", "▓", "▒", "░"],
    dropped: "↓",
    refused: "/",
    untried: "·",
    present: "◂",
    text_cursor: "▏",
    gauge: ["█", "░"],
    line: Marker::Braille,
    border: border::PLAIN,
    focused_border: border::THICK,
};

const ASCII: Glyphs = Glyphs {
    ellipsis: "~",
    arrow: ">",
    dot: "-",
    ok: "+",
    failed: "x",
    alert: "!",
    waiting: "?",
    closed: "-",
    default_point: "o",
    best_point: "*",
    current_point: "x",
    cursor: ":",
    axis: "|",
    row_cursor: ">",
    mark: "@",
    fold: [">", "v"],
    sorted: ["v", "^"],
    bars: &["_", ".", "-", "=", "o", "O", "#", "M"],
    missing: "x",
    heat: ["#", "=", "+", ":"],
    dropped: "-",
    refused: "/",
    untried: ".",
    present: "<",
    text_cursor: "_",
    gauge: ["#", "."],
    line: Marker::Custom('.'),
    border: ascii_border("-"),
    focused_border: ascii_border("="),
};

const fn ascii_border(horizontal: &'static str) -> border::Set<'static> {
    border::Set {
        top_left: "+",
        top_right: "+",
        bottom_left: "+",
        bottom_right: "+",
        vertical_left: "|",
        vertical_right: "|",
        horizontal_top: horizontal,
        horizontal_bottom: horizontal,
    }
}

impl Glyphs {
    /// Those of a charset.
    pub(crate) const fn of(charset: Charset) -> Self {
        match charset {
            Charset::Unicode => UNICODE,
            Charset::Ascii => ASCII,
        }
    }
}

/// Everything that decides how things look.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Theme {
    pub(crate) glyphs: Glyphs,
    /// Secondary text.
    pub(crate) dim: Style,
    /// Titles and column heads.
    pub(crate) title: Style,
    /// The title of the panel that has the focus.
    pub(crate) focused: Style,
    /// Keys in the footer and in the help.
    pub(crate) key: Style,
    /// Labels that must not be missed: emulated, paused, stopping.
    pub(crate) badge: Style,
    /// The row under the cursor.
    pub(crate) selected: Style,
    /// The default arm.
    pub(crate) default_series: Style,
    /// The best known.
    pub(crate) best_series: Style,
    /// What is being tried.
    pub(crate) current_series: Style,
    /// Shades of the heat map, the nearest to the best first; symbols and numbers go with them.
    pub(crate) heat: [Style; 4],
    pub(crate) good: Style,
    pub(crate) warn: Style,
    pub(crate) bad: Style,
}

impl Theme {
    /// The theme of a name and a charset.
    pub(crate) const fn new(name: ThemeName, charset: Charset) -> Self {
        let glyphs = Glyphs::of(charset);
        // Yellow, white and cyan cannot be read on light grounds, blue hardly on dark ones: the base theme avoids them.
        // The colorblind pair is the 256-colour cube's sky blue and orange, readable on both grounds.
        let (default, best, current, warn, bad) = match name {
            ThemeName::Base => (Color::Reset, Color::Green, Color::Magenta, Color::Magenta, Color::Red),
            ThemeName::Colorblind => {
                (Color::Reset, Color::Indexed(33), Color::Indexed(208), Color::Indexed(208), Color::Indexed(208))
            }
            ThemeName::Mono => (Color::Reset, Color::Reset, Color::Reset, Color::Reset, Color::Reset),
        };
        let bold = Style::new().add_modifier(Modifier::BOLD);
        let plain = Style::new();
        let faint = match name {
            // Without colours, what is far from the best recedes.
            ThemeName::Mono => plain.add_modifier(Modifier::DIM),
            ThemeName::Base | ThemeName::Colorblind => plain,
        };
        Self {
            glyphs,
            dim: Style::new().add_modifier(Modifier::DIM),
            title: bold,
            focused: bold.add_modifier(Modifier::REVERSED),
            key: bold,
            badge: bold.add_modifier(Modifier::REVERSED),
            selected: bold.add_modifier(Modifier::REVERSED),
            default_series: Style::new().fg(default),
            best_series: bold.fg(best),
            current_series: Style::new().fg(current),
            heat: [bold.fg(best), plain.fg(best), faint.fg(current), faint.fg(bad)],
            good: bold.fg(best),
            warn: bold.fg(warn),
            bad: bold.fg(bad),
        }
    }
}

impl Theme {
    /// The style of a verdict; its word goes with it.
    pub(crate) const fn decision(&self, decision: Decision) -> Style {
        match decision {
            Decision::Ship => self.good,
            Decision::Keep => self.dim,
            Decision::Regression => self.bad,
            Decision::TooNoisy => self.warn,
        }
    }

    /// The symbol and the style of a node's state; the word goes with them.
    pub(crate) const fn node_state(&self, state: NodeState) -> (&'static str, Style) {
        match state {
            NodeState::Connecting => (self.glyphs.waiting, self.dim),
            NodeState::Ready => (self.glyphs.ok, self.good),
            NodeState::Failed => (self.glyphs.failed, self.bad),
            NodeState::Lost => (self.glyphs.alert, self.bad),
            NodeState::Closed => (self.glyphs.closed, self.dim),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mono_has_no_colour_and_ascii_no_other_character() {
        let theme = Theme::new(ThemeName::Mono, Charset::Ascii);
        let series = [theme.default_series, theme.best_series, theme.current_series, theme.good, theme.warn, theme.bad];
        for style in series.into_iter().chain(theme.heat) {
            assert!(matches!(style.fg, None | Some(Color::Reset)), "{style:?}");
        }
        let text = format!("{:?}", theme.glyphs);
        assert!(text.is_ascii(), "{text}");
    }

    #[test]
    fn the_cycle_visits_every_theme() {
        let seen: Vec<ThemeName> = std::iter::successors(Some(ThemeName::Base), |n| Some(n.next())).take(4).collect();
        assert_eq!(seen, [ThemeName::Base, ThemeName::Colorblind, ThemeName::Mono, ThemeName::Base]);
    }
}
