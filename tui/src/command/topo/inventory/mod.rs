//! All that is known of machines, for people and for programs.

mod devices;
mod node;

use std::fmt::Write;

use gdrtune_fleet::hosts::fold;
use gdrtune_wire::Inventory;
use serde_json::{Value, json};

use super::super::printable;
use crate::ui::text;

/// Columns that no line is wider than where its words allow it: what every terminal has.
const COLUMNS: usize = 80;

/// Stands for what nobody tells.
const UNKNOWN: &str = "?";

/// Facts of one subject.
struct Section {
    title: String,
    lines: Vec<Line>,
}

enum Line {
    /// A fact's name and its value.
    Fact(&'static str, String),
    /// A row of a table; rows that follow each other are one table.
    Row(Vec<String>),
}

impl Section {
    fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), lines: Vec::new() }
    }

    fn fact(&mut self, name: &'static str, value: impl Into<String>) {
        let value = value.into();
        self.lines.push(Line::Fact(name, if value.is_empty() { UNKNOWN.to_owned() } else { value }));
    }

    fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.lines.push(Line::Row(Vec::from(cells)));
    }
}

/// One document. Names are those of the fields of an agent's answer; later versions may add some.
///
/// # Errors
/// None that is known: every value has a form in JSON.
pub(super) fn document(seen: &[(String, Inventory)], failed: &[(String, String)]) -> serde_json::Result<Value> {
    let node = |(host, inventory): &(String, Inventory)| {
        Ok(
            json!({"host": host, "inventory": serde_json::to_value(inventory)?, "nccl_environment": node::nccl_json(inventory)}),
        )
    };
    Ok(json!({
        "schema_version": 1,
        "nodes": seen.iter().map(node).collect::<serde_json::Result<Vec<_>>>()?,
        "failed": failed.iter().map(|(host, why)| json!({"host": host, "why": why})).collect::<Vec<_>>(),
    }))
}

/// Every machine by itself: what they are compared by is in the wiring.
pub(super) fn text(seen: &[(String, Inventory)]) -> String {
    let mut lines = Vec::new();
    for (host, inventory) in seen {
        lines.push(host.clone());
        for section in sections(inventory) {
            lines.push(String::new());
            lines.push(format!("  {}", section.title));
            section_lines(&section, &mut lines);
        }
        lines.push(String::new());
    }
    lines.pop();
    lines.iter().fold(String::new(), |mut text, line| {
        // Writing to a string cannot fail. Names of hosts, devices and files are others' words.
        writeln!(text, "{}", printable(line.trim_end())).ok();
        text
    })
}

fn sections(inventory: &Inventory) -> Vec<Section> {
    let all = [
        node::machine(inventory),
        node::memory(inventory),
        node::drivers(inventory),
        devices::gpus(inventory),
        devices::hcas(inventory),
        devices::ports(inventory),
        devices::nets(inventory),
        devices::bridges(inventory),
        node::nccl(inventory),
        node::unreadable(inventory),
    ];
    all.into_iter().filter(|section| !section.lines.is_empty()).collect()
}

fn section_lines(section: &Section, lines: &mut Vec<String>) {
    const INDENT: usize = 4;
    let names = section.lines.iter().filter_map(|line| match line {
        Line::Fact(name, _) => Some(text::width(name)),
        Line::Row(_) => None,
    });
    let column = INDENT + names.max().unwrap_or_default() + 2;
    let mut rows: Vec<Vec<String>> = Vec::new();
    for line in &section.lines {
        match line {
            Line::Row(cells) => rows.push(cells.clone()),
            Line::Fact(name, value) => {
                table(&mut rows, lines);
                for (number, part) in text::wrap(value, COLUMNS.saturating_sub(column)).into_iter().enumerate() {
                    let label = if number == 0 { format!("    {name}") } else { String::new() };
                    let blanks = " ".repeat(column.saturating_sub(text::width(&label)));
                    lines.push(format!("{label}{blanks}{part}"));
                }
            }
        }
    }
    table(&mut rows, lines);
}

/// Rows of columns that are as wide as what is in them, further in than others.
fn table(rows: &mut Vec<Vec<String>>, lines: &mut Vec<String>) {
    let mut plain = Vec::new();
    super::text::table(rows, None, &mut plain);
    lines.extend(plain.into_iter().map(|line| format!("  {line}")));
    rows.clear();
}

/// A value, or `?`.
fn known(value: Option<impl ToString>) -> String {
    value.map_or(UNKNOWN.to_owned(), |value| value.to_string())
}

/// A text, or `?`.
fn or_unknown(text: &str) -> String {
    if text.is_empty() { UNKNOWN.to_owned() } else { text.to_owned() }
}

fn on_off(on: Option<bool>) -> String {
    known(on.map(|on| if on { "on" } else { "off" }))
}

fn yes_no(yes: Option<bool>) -> String {
    known(yes.map(|yes| if yes { "yes" } else { "no" }))
}

/// `79.6 GiB`, `512 MiB`.
fn size(bytes: u64) -> String {
    const UNITS: [(&str, u64); 4] = [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    let (unit, of) = UNITS.into_iter().find(|(_, of)| bytes >= *of).unwrap_or(("B", 1));
    format!("{} {unit}", (bytes as f64 / of as f64 * 10.0).round() / 10.0)
}

/// A value that devices share, or who has which: `on` or `on: GPU[0-6]; off: GPU7`.
fn shared(devices: &[(String, String)]) -> String {
    let mut values: Vec<(&str, Vec<&str>)> = Vec::new();
    for (name, value) in devices {
        match values.iter_mut().find(|(known, _)| known == value) {
            Some((_, names)) => names.push(name),
            None => values.push((value, vec![name])),
        }
    }
    match values.as_slice() {
        [] => String::new(),
        [(value, _)] => (*value).to_owned(),
        several => {
            several.iter().map(|(value, names)| format!("{value}: {}", fold(names))).collect::<Vec<_>>().join("; ")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_devices_share_is_said_once() {
        let pairs = |values: &[&str]| {
            let pair = |(number, value): (usize, &&str)| (format!("GPU{number}"), (*value).to_owned());
            values.iter().enumerate().map(pair).collect::<Vec<_>>()
        };
        assert_eq!(shared(&pairs(&["on", "on", "on"])), "on");
        assert_eq!(shared(&pairs(&["on", "on", "off", "on"])), "on: GPU[0-1,3]; off: GPU2");
        assert_eq!(shared(&[]), "");
    }

    #[test]
    fn sizes_are_in_the_largest_unit() {
        for (bytes, expected) in
            [(0, "0 B"), (512, "512 B"), (65_536, "64 KiB"), (143_771 << 20, "140.4 GiB"), (2 << 40, "2 TiB")]
        {
            assert_eq!(size(bytes), expected);
        }
    }
}
