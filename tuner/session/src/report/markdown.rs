//! A report as Markdown (GitHub's), for reviews and repositories. Plots are left to HTML: the tables have their numbers.

use std::fmt::Write as _;

use gdrtune_profiles::{diagnostic::printable, size::Size};

use super::{
    block::{Block, Column, Inline, Page, Table, Text},
    heat::{self, Heat},
};

pub(super) fn write(page: &Page) -> String {
    let mut out = String::new();
    line(&mut out, &format!("# {}", plain(&page.title)));
    for block in &page.blocks {
        write_block(block, &mut out);
    }
    out.trim_end().to_owned() + "\n"
}

/// A line and an empty one.
fn line(out: &mut String, text: &str) {
    out.push_str(text);
    out.push_str("\n\n");
}

fn write_block(block: &Block, out: &mut String) {
    match block {
        Block::Heading { level, text } => line(out, &format!("{} {}", "#".repeat(usize::from(*level)), plain(text))),
        Block::Banner { word, text } => line(out, &format!("> **{word}:** {}", inline(text, false))),
        Block::Paragraph(text) => line(out, &inline(text, false)),
        Block::Figures(pairs) | Block::Facts(pairs) => {
            let pair = |(name, value): &(&str, Text)| format!("- {name}: {}", inline(value, false));
            line(out, &pairs.iter().map(pair).collect::<Vec<_>>().join("\n"));
        }
        Block::List(lines) => {
            let lines: Vec<String> = lines.iter().map(|text| format!("- {}", inline(text, false))).collect();
            line(out, &lines.join("\n"));
        }
        Block::Table(table) => write_table(table, out),
        Block::Heat(heat) => write_heat(heat, out),
        Block::Plots(_) => {}
        Block::Code(text) => {
            let text: Vec<String> = text.lines().map(printable).collect();
            let text = text.join("\n");
            let fence = "`".repeat(longest_run(&text).max(2) + 1);
            line(out, &format!("{fence}\n{text}\n{fence}"));
        }
        Block::Folded { summary, blocks } => {
            line(out, &format!("**{}**", plain(summary)));
            for block in blocks {
                write_block(block, out);
            }
        }
    }
}

fn write_table(table: &Table, out: &mut String) {
    line(out, &plain(&table.caption));
    let heads: Vec<&str> = table.columns.iter().map(|column| column.name()).collect();
    let rule = |column: &Column| if matches!(column, Column::Numbers(_)) { "---:" } else { "---" };
    let rules: Vec<&str> = table.columns.iter().map(rule).collect();
    row(out, &heads);
    row(out, &rules);
    for cells in &table.rows {
        row(out, &cells.iter().map(|cell| inline(cell, true)).collect::<Vec<_>>());
    }
    out.push('\n');
}

fn write_heat(heat: &Heat, out: &mut String) {
    line(out, &plain(&heat.caption()));
    let sizes = || heat.sizes.iter().map(|bytes| Size(*bytes).to_string());
    row(out, &std::iter::once("choice".to_owned()).chain(sizes()).collect::<Vec<_>>());
    row(out, &std::iter::once("---").chain(heat.sizes.iter().map(|_| ":---:")).collect::<Vec<_>>());
    for (choice, cells) in &heat.rows {
        let words = cells.iter().map(|standing| standing.word());
        row(out, &std::iter::once(heat::row_name(*choice)).chain(words).collect::<Vec<_>>());
    }
    out.push('\n');
}

fn row(out: &mut String, cells: &[impl AsRef<str>]) {
    let cells: Vec<&str> = cells.iter().map(AsRef::as_ref).collect();
    // Writing to a String cannot fail.
    writeln!(out, "| {} |", cells.join(" | ")).unwrap_or_default();
}

fn inline(text: &Text, in_table: bool) -> String {
    let piece = |piece: &Inline| match piece {
        Inline::Plain(text) => plain(text),
        Inline::Code(text) => code(text, in_table),
        Inline::Strong(text) if text.is_empty() => String::new(),
        Inline::Strong(text) => format!("**{}**", plain(text)),
    };
    text.0.iter().map(piece).collect()
}

/// Text that says nothing to a reader of Markdown or HTML.
fn plain(text: &str) -> String {
    let text = printable(text);
    let chars: Vec<char> = text.chars().collect();
    let is_word = |at: Option<usize>| at.and_then(|at| chars.get(at)).is_some_and(|c| c.is_alphanumeric());
    let mut out = String::with_capacity(text.len());
    for (index, c) in chars.iter().enumerate() {
        let is_markup = match c {
            '\\' | '`' | '*' | '[' | ']' | '<' | '>' | '|' | '&' | '~' | '#' | '$' => true,
            // Within a word it is an underscore.
            '_' => !(is_word(index.checked_sub(1)) && is_word(Some(index + 1))),
            // At the beginning it would be a list.
            '-' | '+' => index == 0 && chars.get(1).is_some_and(|next| *next == ' '),
            _ => false,
        };
        if is_markup {
            out.push('\\');
        }
        out.push(*c);
    }
    out
}

/// A code span. In a table, what would end the cell is escaped.
fn code(text: &str, in_table: bool) -> String {
    if text.is_empty() {
        return String::new();
    }
    let text = printable(text);
    let text = if in_table { text.replace('|', "\\|") } else { text };
    let ticks = "`".repeat(longest_run(&text) + 1);
    // A space at both ends is taken off again, and keeps ticks of the text apart.
    let pad = if text.starts_with(['`', ' ']) || text.ends_with(['`', ' ']) { " " } else { "" };
    format!("{ticks}{pad}{text}{pad}{ticks}")
}

/// Backticks in a row.
fn longest_run(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_no_markup() {
        for (text, want) in [
            ("NCCL_IB_HCA", "NCCL_IB_HCA"),
            ("_x_ *y* <b>&amp;", "\\_x\\_ \\*y\\* \\<b\\>\\&amp;"),
            ("[a](b) | # c", "\\[a\\](b) \\| \\# c"),
            ("- a - b", "\\- a - b"),
            ("a\nb\u{202e}", "a\\\\nb\\\\u{202e}"),
        ] {
            assert_eq!(plain(text), want);
        }
        for (text, in_table, want) in
            [("a|b", false, "`a|b`"), ("a|b", true, "`a\\|b`"), ("`x``", false, "``` `x`` ```"), ("", false, "")]
        {
            assert_eq!(code(text, in_table), want);
        }
    }
}
