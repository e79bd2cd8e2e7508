//! How far each choice of a collective is from the best one, by size: a table for pages, a drawing for files.

use gdrtune_profiles::{
    size::Size,
    vocab::{Choice, Collective},
};

use super::{
    block::shortened,
    svg::{self, Imprint, Markup, at},
};
use crate::event::Failure;

/// Shares above the best up to which a choice has the first, the second and the third shade, as in the terminal UI. The first is
/// what a verdict may take for noise.
const SHADES: [f64; 3] = [0.02, 0.1, 0.5];

/// Width and height of a cell of the drawing.
const CELL: (f64, f64) = (62.0, 26.0);
/// Where its first row is.
const TOP: f64 = 78.0;
/// Width of a character of its rows' names, of which most are narrow.
const CHARACTER: f64 = 7.6;

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
    pub(super) fn file(&self, imprint: &Imprint) -> String {
        let longest = self.rows.iter().map(|(choice, _)| row_name(*choice).len()).max().unwrap_or(0);
        let names = CHARACTER * longest as f64 + 24.0;
        // The title and what is under it need some room, too.
        let size = (
            (names + CELL.0 * self.sizes.len() as f64 + 10.0).max(460.0),
            TOP + 10.0 + CELL.1 * self.rows.len() as f64,
        );
        svg::file(size, (&self.caption(), LEGEND), imprint, |out| self.draw(names, out))
    }

    fn draw(&self, names: f64, out: &mut Markup) {
        let title = format!("{}: how far choices are from the best, by size", self.collective);
        out.leaf("text", &[("class", "ti"), ("x", "12"), ("y", "22")], &title);
        out.leaf("text", &[("class", "di"), ("x", "12"), ("y", "44")], &shortened(&self.environment, 56));
        let x = |column: usize| names + CELL.0 * column as f64;
        for (column, bytes) in self.sizes.iter().enumerate() {
            let (x, y) = (at(x(column) + CELL.0 / 2.0), at(TOP - 8.0));
            let place = [("class", "di"), ("text-anchor", "middle"), ("x", &*x), ("y", &*y)];
            out.leaf("text", &place, &Size(*bytes).to_string());
        }
        for (row, (choice, cells)) in self.rows.iter().enumerate() {
            let y = TOP + CELL.1 * row as f64;
            out.leaf("text", &[("x", "12"), ("y", &at(y + 18.0))], &row_name(*choice));
            cells.iter().enumerate().for_each(|(column, standing)| draw_cell(*standing, (x(column), y), out));
        }
    }
}

fn draw_cell(standing: Standing, (left, top): (f64, f64), out: &mut Markup) {
    let shade = standing.shade();
    let (class, width, height) = (format!("h{shade}"), at(CELL.0 - 2.0), at(CELL.1 - 2.0));
    let (x, y) = (at(left), at(top));
    out.empty("rect", &[("class", &*class), ("x", &*x), ("y", &*y), ("width", &*width), ("height", &*height)]);
    let (class, x, y) = (format!("x{shade}"), at(left + CELL.0 / 2.0 - 1.0), at(top + 18.0));
    out.leaf("text", &[("class", &*class), ("text-anchor", "middle"), ("x", &*x), ("y", &*y)], &standing.word());
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
