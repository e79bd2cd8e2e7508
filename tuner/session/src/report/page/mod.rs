//! What a report says, section by section. The same records give the same text; the only time of day is the run's.

mod choices;
mod environments;
mod place;
mod rejected;
mod reproduce;
mod result;
mod sizes;
mod warnings;

use gdrtune_profiles::{profile::Speedup, vocab::Environment};

use super::{
    block::{Block, Page, Text, shortened},
    seen::{Seen, ShapeSeen},
    svg::Imprint,
};

/// Characters of an environment, a reason or a message that are shown.
const MAX_TEXT: usize = 300;

/// The whole page.
pub(super) fn page(seen: &Seen) -> Page {
    let sections = [
        result::blocks,
        place::blocks,
        sizes::blocks,
        choices::blocks,
        environments::blocks,
        rejected::blocks,
        warnings::blocks,
        reproduce::blocks,
    ];
    let blocks = sections.iter().flat_map(|section| section(seen)).collect();
    Page { title: format!("gdrtune run {}", seen.started.run), blocks }
}

/// What goes with every plot.
pub(super) fn imprint(seen: &Seen) -> Imprint {
    let labels: Vec<String> = result::labels(seen).into_iter().map(|(word, _)| word.to_uppercase()).collect();
    Imprint { labels: labels.join(", "), run: format!("gdrtune run {}", seen.started.run) }
}

/// Puts `of` about each shape together, under its name where there are several.
fn of_shapes(seen: &Seen, of: impl Fn(&ShapeSeen) -> Vec<Block>) -> Vec<Block> {
    let mut blocks = Vec::new();
    for shape in &seen.shapes {
        let about = of(shape);
        if seen.has_shapes && !about.is_empty() {
            blocks.push(Block::heading(3, format!("Shape: {}", shape_words(shape.nodes, shape.ranks))));
        }
        blocks.extend(about);
    }
    blocks
}

/// A list of at most `most` lines; how many there are beside them stands in its last.
fn list(mut lines: Vec<Text>, most: usize) -> Block {
    let more = lines.len().saturating_sub(most);
    lines.truncate(most);
    lines.extend((0 < more).then(|| format!("and {more} more").into()));
    Block::List(lines)
}

pub(crate) fn shape_words(nodes: u32, ranks: u32) -> String {
    format!("{}, {}", count(u64::from(nodes), "node"), count(u64::from(ranks), "rank"))
}

/// `1 node`, `3 nodes`.
fn count(number: u64, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// `1.86x`.
fn factor(value: f64) -> String {
    format!("{value:.2}x")
}

fn interval(speedup: &Speedup) -> String {
    format!("{:.2} to {:.2}", speedup.low, speedup.high)
}

fn environment(environment: &Environment) -> Text {
    if environment.is_empty() { "defaults".into() } else { Text::code(shortened(&environment.to_string(), MAX_TEXT)) }
}

/// Microseconds, with as many digits as tell something.
fn microseconds(value: f64) -> String {
    if value < 100.0 { format!("{value:.2}") } else { format!("{value:.1}") }
}

/// Bus bandwidth in GB/s.
fn bandwidth(value: f64) -> String {
    match value {
        ..0.1 => format!("{value:.4}"),
        ..10.0 => format!("{value:.3}"),
        _ => format!("{value:.1}"),
    }
}

/// `4 min 12 s`.
fn duration(ms: u64) -> String {
    let seconds = ms / 1000;
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, _) => format!("{:.1} s", ms as f64 / 1e3),
        (0, minutes, seconds) => format!("{minutes} min {seconds} s"),
        (hours, minutes, _) => format!("{hours} h {minutes} min"),
    }
}

/// Memory, in units of powers of 1024.
fn memory(bytes: u64) -> String {
    if bytes < 1 << 30 { format!("{} MiB", bytes >> 20) } else { format!("{} GiB", bytes >> 30) }
}
