//! How far each choice of a collective is from the best one, by size: a table for pages, a drawing for files.

use gdrtune_profiles::{
    size::Size,
    vocab::{Choice, Collective},
};

use super::{
    STYLE_COLOURS, STYLE_PLOT,
    svg::{Markup, at},
};
use crate::event::Failure;

/// Shares above the best up to which a choice has the first, the second and the third shade, as in the terminal UI. The first is
/// what a verdict may take for noise.
const SHADES: [f64; 3] = [0.02, 0.1, 0.5];

/// What is known of a choice at a size.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Standing {
    /// Its median is this share above the best one's (0.1 is 10 % slower); the best has 0.
    Timed(f64),
    /// Why it has no time that counts.
    Failed(Failure),
    /// Given up before it had one.
    Dropped,
    /// The library does not offer it there.
    Refused,
    Untried,
}

impl Standing {
    /// What a cell says; never colour alone.
    pub(super) fn word(self) -> String {
        match self {
            Self::Timed(gap) if gap <= 0.0 => "best".to_owned(),
            Self::Timed(gap) if gap < 1.0 => format!("+{:.0} %", (gap * 100.0).max(1.0)),
            Self::Timed(gap) if gap < 9.0 => format!("{:.1}x", 1.0 + gap),
            Self::Timed(gap) => format!("{:.0}x", 1.0 + gap),
            Self::Failed(Failure::Wrong) => "wrong".to_owned(),
            Self::Failed(Failure::Hung) => "hung".to_owned(),
            Self::Failed(Failure::Crashed) => "crashed".to_owned(),
            Self::Failed(Failure::Unsupported) | Self::Refused => "none".to_owned(),
            Self::Failed(Failure::Substituted) => "other".to_owned(),
            Self::Failed(Failure::Skipped) | Self::Untried => "·".to_owned(),
            Self::Dropped => "dropped".to_owned(),
        }
    }

    /// From the darkest.
    pub(super) fn shade(self) -> usize {
        let Self::Timed(gap) = self else { return SHADES.len() + 1 };
        if gap <= 0.0 { 0 } else { 1 + SHADES.iter().filter(|shade| **shade < gap).count() }
    }
}

/// What the words of the cells mean.
pub(super) const LEGEND: &str = "Best is the choice with the lowest median time at that size; +12 % takes 12 % more time, 3.4x takes \
                                 3.4 times as much. A point: not tried. None: the library does not run it there. Other: \
                                 something else ran in its place. Wrong, hung, crashed: what came of it.";

/// The choices of one collective.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Heat {
    /// Of its file, without the ending.
    pub(super) name: String,
    pub(super) collective: Collective,
    /// What was set in the processes that measured it.
    pub(super) environment: String,
    pub(super) sizes: Vec<u64>,
    /// The default arm, which has processes of its own, is the first row and has no choice.
    pub(super) rows: Vec<(Option<Choice>, Vec<Standing>)>,
    /// Choices that were tried and have no room.
    pub(super) left_out: usize,
}

impl Heat {
    pub(super) fn caption(&self) -> String {
        let more = match self.left_out {
            0 => String::new(),
            n => format!(
                " {n} choices that were nowhere near the best are not shown; the export of all trials has them."
            ),
        };
        format!("{} by choice and size, with {}.{more}", self.collective, self.environment)
    }

    /// The drawing as a file.
    pub(super) fn file(&self) -> String {
        const NAME: f64 = 190.0;
        const CELL: (f64, f64) = (62.0, 26.0);
        let (width, height) = (NAME + CELL.0 * self.sizes.len() as f64 + 10.0, 66.0 + CELL.1 * self.rows.len() as f64);
        let (view, w, h) = (format!("0 0 {} {}", at(width), at(height)), at(width), at(height));
        let mut out = Markup::default();
        let size = [("xmlns", "http://www.w3.org/2000/svg"), ("role", "img"), ("width", &*w), ("height", &*h)];
        out.open("svg", &[&size[..], &[("class", "plot"), ("viewBox", &*view)]].concat());
        out.leaf("title", &[], &self.caption());
        out.leaf("desc", &[], LEGEND);
        out.open("style", &[]);
        out.raw(STYLE_COLOURS);
        out.raw(STYLE_PLOT);
        out.close();
        out.empty("rect", &[("width", "100%"), ("height", "100%"), ("style", "fill:#fff;fill:var(--bg)")]);
        let title = format!("{}: how far choices are from the best, by size", self.collective);
        out.leaf("text", &[("class", "ti"), ("x", "10"), ("y", "22")], &title);
        let x = |column: usize| NAME + CELL.0 * column as f64;
        for (column, bytes) in self.sizes.iter().enumerate() {
            let place =
                [("class", "di"), ("text-anchor", "middle"), ("x", &*at(x(column) + CELL.0 / 2.0)), ("y", "48")];
            out.leaf("text", &place, &Size(*bytes).to_string());
        }
        for (row, (choice, cells)) in self.rows.iter().enumerate() {
            let y = 56.0 + CELL.1 * row as f64;
            out.leaf("text", &[("x", "10"), ("y", &at(y + 18.0))], &row_name(*choice));
            for (column, standing) in cells.iter().enumerate() {
                let (shade, left) = (standing.shade(), x(column));
                let (class, w, h) = (format!("h{shade}"), at(CELL.0 - 2.0), at(CELL.1 - 2.0));
                out.empty(
                    "rect",
                    &[("class", &*class), ("x", &*at(left)), ("y", &*at(y)), ("width", &*w), ("height", &*h)],
                );
                let class = format!("x{shade}");
                let (middle, base) = (at(left + CELL.0 / 2.0 - 1.0), at(y + 18.0));
                let place = [("class", &*class), ("text-anchor", "middle"), ("x", &*middle), ("y", &*base)];
                out.leaf("text", &place, &standing.word());
            }
        }
        out.finish() + "\n"
    }
}

pub(super) fn row_name(choice: Option<Choice>) -> String {
    choice.map_or_else(|| "default".to_owned(), |choice| choice.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shade_and_a_word_say_the_same() {
        let said = [0.0, 0.004, 0.02, 0.021, 0.5, 2.4, 30.0].map(|gap| {
            let standing = Standing::Timed(gap);
            (standing.shade(), standing.word())
        });
        let want = [(0, "best"), (1, "+1 %"), (1, "+2 %"), (2, "+2 %"), (3, "+50 %"), (4, "3.4x"), (4, "31x")];
        assert_eq!(said, want.map(|(shade, word)| (shade, word.to_owned())));
        assert_eq!(Standing::Failed(Failure::Hung).shade(), 4);
    }
}
