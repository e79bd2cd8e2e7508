//! Plots over sizes, as SVG: both axes logarithmic, intervals as bars, and a mark's form says what its colour says.

use gdrtune_profiles::size::Size;

use super::svg::{self, Imprint, Markup, at};
use crate::{event::Decision, run::decision_words};

/// Width of the drawing; a page scales it to between 0.75 (a phone) and 1.1, so that its text stays about as large as the page's.
const WIDTH: f64 = 480.0;
/// The field between the axes.
const LEFT: f64 = 62.0;
const RIGHT: f64 = 464.0;
const TOP: f64 = 58.0;
const BOTTOM: f64 = 258.0;
/// Height of a line of the legend.
const LEGEND_LINE: f64 = 22.0;
/// Where the first one is.
const LEGEND_TOP: f64 = 308.0;
/// Labels of the axis of sizes at most: more would run into each other.
const MAX_SIZE_LABELS: usize = 7;
/// Marks up to which each has its own words for the mouse; of more, all of a kind are one path.
const MAX_TOLD: usize = 64;

/// What a mark stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// The default arm.
    Default,
    /// What the A/B decided of the candidate.
    Faster,
    Same,
    Slower,
    Noisy,
    /// The best of the search, before any A/B.
    Estimate,
}

impl From<Decision> for Kind {
    fn from(decision: Decision) -> Self {
        match decision {
            Decision::Ship => Self::Faster,
            Decision::Keep => Self::Same,
            Decision::Regression => Self::Slower,
            Decision::TooNoisy => Self::Noisy,
        }
    }
}

impl Kind {
    fn words(self) -> String {
        let decided = |decision| format!("tuned: {}", decision_words(decision));
        match self {
            Self::Default => "default".to_owned(),
            Self::Faster => decided(Decision::Ship),
            Self::Same => decided(Decision::Keep),
            Self::Slower => decided(Decision::Regression),
            Self::Noisy => decided(Decision::TooNoisy),
            Self::Estimate => "best of the search, an estimate".to_owned(),
        }
    }

    const fn class(self) -> &'static str {
        match self {
            Self::Default => "b so",
            Self::Faster => "t so",
            Self::Same | Self::Slower | Self::Noisy | Self::Estimate => "t ho",
        }
    }

    /// The form of a mark about a place.
    fn path(self, x: f64, y: f64) -> String {
        let corners = |corners: &[(f64, f64)]| {
            let places: Vec<String> = corners.iter().map(|(dx, dy)| format!("{} {}", at(x + dx), at(y + dy))).collect();
            format!("M{}Z", places.join("L"))
        };
        match self {
            Self::Default => format!("M{} {}a4 4 0 1 0 8 0a4 4 0 1 0-8 0Z", at(x - 4.0), at(y)),
            Self::Faster | Self::Same => corners(&[(-4.0, -4.0), (4.0, -4.0), (4.0, 4.0), (-4.0, 4.0)]),
            Self::Slower => corners(&[(-5.0, -4.0), (5.0, -4.0), (0.0, 5.0)]),
            Self::Noisy => corners(&[(0.0, -6.0), (6.0, 0.0), (0.0, 6.0), (-6.0, 0.0)]),
            Self::Estimate => corners(&[(-5.0, 4.0), (5.0, 4.0), (0.0, -5.0)]),
        }
    }
}

/// A value at a size.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Mark {
    pub(super) bytes: u64,
    pub(super) value: f64,
    pub(super) interval: Option<(f64, f64)>,
    pub(super) kind: Kind,
}

impl Mark {
    /// Whether it has a place on an axis of logarithms.
    fn can_be_drawn(&self) -> bool {
        0.0 < self.value && self.value.is_finite()
    }
}

/// A plot of one or two lines.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Plot {
    /// Of its file, without the ending.
    pub(super) name: String,
    pub(super) title: String,
    /// What the upright axis measures.
    pub(super) unit: &'static str,
    /// A value that has a line of its own.
    pub(super) reference: Option<f64>,
    /// In order of their sizes.
    pub(super) lines: Vec<Vec<Mark>>,
}

/// Where values are in the drawing.
struct Scale {
    sizes: (f64, f64),
    values: (f64, f64),
}

impl Scale {
    fn x(&self, bytes: u64) -> f64 {
        between(self.sizes, (bytes.max(1) as f64).ln(), (LEFT + 14.0, RIGHT - 10.0))
    }

    fn y(&self, value: f64) -> f64 {
        between(self.values, value.max(f64::MIN_POSITIVE).ln(), (BOTTOM, TOP))
    }
}

/// Takes `value` from one range to another, clipped; what has no extent is in the middle.
fn between((from, to): (f64, f64), value: f64, (start, end): (f64, f64)) -> f64 {
    let share = if from < to { ((value - from) / (to - from)).clamp(0.0, 1.0) } else { 0.5 };
    start + share * (end - start)
}

impl Plot {
    /// Whether there is anything to see.
    pub(super) fn is_empty(&self) -> bool {
        self.marks().next().is_none()
    }

    fn marks(&self) -> impl Iterator<Item = &Mark> {
        self.lines.iter().flatten().filter(|mark| mark.can_be_drawn())
    }

    /// What it shows, in words: its numbers are in a table beside it.
    pub(super) fn description(&self) -> String {
        let line = |line: &Vec<Mark>| {
            let mut drawn = line.iter().filter(|mark| mark.can_be_drawn());
            let first = drawn.next()?;
            let last = drawn.next_back().unwrap_or(first);
            let name = if first.kind == Kind::Default { "default" } else { "tuned" };
            let place = |mark: &Mark| format!("{} at {}", figure(mark.value), Size(mark.bytes));
            Some(format!("{name}: {} to {}", place(first), place(last)))
        };
        let lines: Vec<String> = self.lines.iter().filter_map(line).collect();
        format!("{} by size, both axes logarithmic. {}. The table has all values.", self.unit, lines.join("; "))
    }

    /// The plot for a page, which brings the style along.
    pub(super) fn inline(&self) -> String {
        let (title, description) = (format!("{}-t", self.name), format!("{}-d", self.name));
        let labelled = format!("{title} {description}");
        let mut out = Markup::default();
        let view = self.view();
        let attributes = [("role", "img"), ("aria-labelledby", &*labelled), ("class", "plot"), ("viewBox", &*view)];
        out.open("svg", &attributes);
        out.leaf("title", &[("id", &title)], &self.title);
        out.leaf("desc", &[("id", &description)], &self.description());
        self.draw(&mut out);
        out.finish()
    }

    /// The plot as a file.
    pub(super) fn file(&self, imprint: &Imprint) -> String {
        let words = (self.title.as_str(), &*self.description());
        svg::file((WIDTH, self.height()), words, imprint, |out| self.draw(out))
    }

    fn view(&self) -> String {
        format!("0 0 {} {}", at(WIDTH), at(self.height()))
    }

    fn height(&self) -> f64 {
        LEGEND_TOP + LEGEND_LINE * self.kinds().len().div_ceil(2) as f64 - 8.0
    }

    fn kinds(&self) -> Vec<Kind> {
        let mut kinds: Vec<Kind> = self.marks().map(|mark| mark.kind).collect();
        kinds.sort_unstable();
        kinds.dedup();
        kinds
    }

    fn draw(&self, out: &mut Markup) {
        let values =
            || self.marks().flat_map(|mark| [Some(mark.value), mark.interval.map(|i| i.0), mark.interval.map(|i| i.1)]);
        let values = values().flatten().chain(self.reference).filter(|value| 0.0 < *value && value.is_finite());
        let (low, high) = extent(values);
        let ticks = ticks(low, high);
        let ends = (ticks.first().copied().unwrap_or(low).min(low), ticks.last().copied().unwrap_or(high).max(high));
        let mut sizes: Vec<u64> = self.marks().map(|mark| mark.bytes).collect();
        sizes.sort_unstable();
        sizes.dedup();
        let log = |bytes: Option<&u64>| bytes.map_or(0.0, |bytes| (*bytes).max(1) as f64).max(1.0).ln();
        let scale = Scale { sizes: (log(sizes.first()), log(sizes.last())), values: (ends.0.ln(), ends.1.ln()) };
        out.leaf("text", &[("class", "ti"), ("x", "12"), ("y", "22")], &self.title);
        out.leaf("text", &[("class", "di"), ("x", "12"), ("y", "43")], self.unit);
        draw_values(&ticks, &scale, out);
        draw_sizes(&sizes, &scale, out);
        if let Some(reference) = self.reference {
            let y = at(scale.y(reference));
            out.empty("path", &[("class", "rf"), ("d", &format!("M{} {y}H{}", at(LEFT), at(RIGHT)))]);
        }
        let is_told = self.marks().count() <= MAX_TOLD;
        for line in &self.lines {
            draw_line(line, &scale, is_told, self.unit, out);
        }
        self.draw_legend(out);
    }

    fn draw_legend(&self, out: &mut Markup) {
        for (index, kind) in self.kinds().into_iter().enumerate() {
            let x = 27.0 + 224.0 * (index % 2) as f64;
            let y = LEGEND_TOP + LEGEND_LINE * (index / 2) as f64;
            if matches!(kind, Kind::Default | Kind::Faster) {
                let class = if kind == Kind::Default { "b li" } else { "t li" };
                out.empty("path", &[("class", class), ("d", &format!("M{} {}h28", at(x - 14.0), at(y - 5.0)))]);
            }
            out.empty("path", &[("class", kind.class()), ("d", &kind.path(x, y - 5.0))]);
            out.leaf("text", &[("x", &at(x + 22.0)), ("y", &at(y))], &kind.words());
        }
    }
}

/// Lines across, with their values on the left.
fn draw_values(ticks: &[f64], scale: &Scale, out: &mut Markup) {
    let across: String =
        ticks.iter().map(|tick| ["M", &at(LEFT), " ", &at(scale.y(*tick)), "H", &at(RIGHT)].concat()).collect();
    out.empty("path", &[("class", "gr"), ("d", &across)]);
    out.open("g", &[("class", "di"), ("text-anchor", "end")]);
    for tick in ticks {
        let y = at(scale.y(*tick) + 5.0);
        out.leaf("text", &[("class", "di"), ("x", &at(LEFT - 8.0)), ("y", &y)], &figure(*tick));
    }
    out.close();
}

/// The axis of sizes.
fn draw_sizes(sizes: &[u64], scale: &Scale, out: &mut Markup) {
    let mark = |bytes: &u64| ["M", &at(scale.x(*bytes)), " ", &at(BOTTOM), "v5"].concat();
    let marks: String = sizes.iter().map(mark).collect();
    let axis = format!("M{} {}H{}{marks}", at(LEFT), at(BOTTOM), at(RIGHT));
    out.empty("path", &[("class", "ax"), ("d", &axis)]);
    out.open("g", &[("text-anchor", "middle")]);
    let step = sizes.len().div_ceil(MAX_SIZE_LABELS).max(1);
    for bytes in sizes.iter().step_by(step) {
        let (x, label) = (at(scale.x(*bytes)), Size(*bytes).to_string());
        out.leaf("text", &[("class", "di"), ("x", &x), ("y", &at(BOTTOM + 22.0))], &label);
    }
    out.close();
}

fn draw_line(line: &[Mark], scale: &Scale, is_told: bool, unit: &str, out: &mut Markup) {
    let line: Vec<&Mark> = line.iter().filter(|mark| mark.can_be_drawn()).collect();
    let Some(first) = line.first() else { return };
    let colour = if first.kind == Kind::Default { "b" } else { "t" };
    let places: Vec<String> =
        line.iter().map(|mark| format!("{} {}", at(scale.x(mark.bytes)), at(scale.y(mark.value)))).collect();
    out.empty("path", &[("class", &format!("{colour} li")), ("d", &format!("M{}", places.join("L")))]);
    let bar = |mark: &&Mark| {
        let (low, high) = mark.interval?;
        let (x, low, high) = (scale.x(mark.bytes), at(scale.y(low)), at(scale.y(high)));
        let (left, middle) = (at(x - 4.0), at(x));
        Some(format!("M{left} {low}h8M{left} {high}h8M{middle} {low}V{high}"))
    };
    let bars: String = line.iter().filter_map(bar).collect();
    if !bars.is_empty() {
        out.empty("path", &[("class", &format!("{colour} iv")), ("d", &bars)]);
    }
    let path = |mark: &Mark| mark.kind.path(scale.x(mark.bytes), scale.y(mark.value));
    if is_told {
        for mark in line {
            out.open("path", &[("class", mark.kind.class()), ("d", &path(mark))]);
            let interval = mark.interval.map(|(low, high)| format!(" ({} to {})", figure(low), figure(high)));
            let value = figure(mark.value) + &interval.unwrap_or_default();
            out.leaf("title", &[], &format!("{}, {}: {value} {unit}", Size(mark.bytes), mark.kind.words()));
            out.close();
        }
        return;
    }
    let mut kinds: Vec<Kind> = line.iter().map(|mark| mark.kind).collect();
    kinds.sort_unstable();
    kinds.dedup();
    for kind in kinds {
        let paths: String = line.iter().filter(|mark| mark.kind == kind).map(|mark| path(mark)).collect();
        out.empty("path", &[("class", kind.class()), ("d", &paths)]);
    }
}

/// Least and greatest of values above 0, some way apart.
fn extent(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let (low, high) = values.fold((f64::INFINITY, 0.0_f64), |(low, high), value| (low.min(value), high.max(value)));
    if high <= 0.0 {
        return (1.0, 10.0);
    }
    // A line that is all but level is not blown up.
    if high / low < 1.05 { (low / 1.05, high * 1.05) } else { (low, high) }
}

/// Round values from below `low` to above `high`.
fn ticks(low: f64, high: f64) -> Vec<f64> {
    if high / low < 4.0 {
        let step = round_up((high - low) / 4.0);
        let (first, last) = ((low / step).floor() as i64, (high / step).ceil() as i64);
        return (first.max(1)..=last.max(2)).map(|n| n as f64 * step).collect();
    }
    let (first, last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
    let steps: &[f64] = match last - first {
        ..=2 => &[1.0, 2.0, 5.0],
        3 => &[1.0, 3.0],
        _ => &[1.0],
    };
    let every = ((last - first) as usize).div_ceil(8).max(1);
    let decades = (first..=last).step_by(every);
    let all: Vec<f64> = decades.flat_map(|decade| steps.iter().map(move |step| step * 10_f64.powi(decade))).collect();
    // One below and one above are enough.
    let from = all.iter().rposition(|tick| *tick <= low).unwrap_or(0);
    let to = all.iter().position(|tick| high <= *tick).map_or(all.len(), |at| at + 1);
    all[from.min(to)..to].to_vec()
}

/// The next of 1, 2, 2.5, 5 times a power of ten.
fn round_up(value: f64) -> f64 {
    let power = 10_f64.powf(value.max(1e-12).log10().floor());
    [1.0, 2.0, 2.5, 5.0, 10.0].map(|step| step * power).into_iter().find(|step| value <= *step).unwrap_or(power * 10.0)
}

/// A number of three digits or more, as short as it can be: `0.0134`, `12.5`, `128`, `1.05k`, `12M`.
pub(super) fn figure(value: f64) -> String {
    let (value, unit) = match value.abs() {
        magnitude if 1e6 <= magnitude => (value / 1e6, "M"),
        magnitude if 9_999.5 <= magnitude => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let whole = if value == 0.0 { 0 } else { value.abs().log10().floor() as i32 };
    let digits = (2 - whole).clamp(0, 8) as usize;
    let text = format!("{value:.digits$}");
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_enclose_the_values() {
        for (low, high, want) in [
            (0.95, 1.9, vec![0.75, 1.0, 1.25, 1.5, 1.75, 2.0]),
            (1.0, 1.0, vec![1.0, 2.0]),
            (12.0, 700.0, vec![10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0]),
            (12.0, 7000.0, vec![10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0, 10_000.0]),
            (11.0, 80.0, vec![10.0, 20.0, 50.0, 100.0]),
            (3.0, 90_000.0, vec![1.0, 10.0, 100.0, 1e3, 1e4, 1e5]),
        ] {
            let (low, high) = if low < high { (low, high) } else { (low, high * 1.0001) };
            let ticks = ticks(low, high);
            assert!(ticks[0] <= low && high <= ticks[ticks.len() - 1] * 1.0001, "{low} {high}: {ticks:?}");
            if low < high / 1.01 {
                let same = ticks.iter().zip(&want).all(|(a, b)| (a / b - 1.0).abs() < 1e-9);
                assert!(same && ticks.len() == want.len(), "{low} {high}: {ticks:?}");
            }
        }
        for exponent in -12..12 {
            let high = 10_f64.powi(exponent);
            let ticks = ticks(1e-12, high.max(2e-12));
            assert!((2..=12).contains(&ticks.len()), "{exponent}: {ticks:?}");
        }
    }

    #[test]
    fn figures_are_short() {
        let figures = [0.0, 0.013_42, 1.0, 12.5, 128.4, 1050.0, 12_340.0, 3_000_000.0].map(figure);
        assert_eq!(figures, ["0", "0.0134", "1", "12.5", "128", "1050", "12.3k", "3M"]);
    }

    #[test]
    fn a_mark_that_is_no_number_is_not_drawn() {
        let mark = |bytes, value| Mark { bytes, value, interval: None, kind: Kind::Default };
        let lines = vec![vec![mark(1024, f64::NAN), mark(2048, 0.0), mark(4096, f64::INFINITY)]];
        let mut plot = Plot { name: "p".into(), title: "t".into(), unit: "us", reference: None, lines };
        assert!(plot.is_empty());
        plot.lines[0].push(mark(8192, 3.0));
        assert!(!plot.is_empty() && !plot.inline().contains("NaN"), "{}", plot.inline());
    }
}
