//! A report as one HTML file that needs nothing else: no script, no request, style and plots in it.
//!
//! It is well-formed XML, too, so that a test's parser can find every element. The file asks browsers themselves to load nothing
//! (`Content-Security-Policy`), whatever a host's name may say.

use super::{
    STYLE_COLOURS, STYLE_PAGE, STYLE_PLOT,
    block::{Block, Column, Inline, Page, Table, Text},
    heat::{self, Heat},
    svg::Markup,
};
use gdrtune_profiles::size::Size;

pub(super) fn write(page: &Page) -> String {
    let mut out = Markup::default();
    out.raw("<!DOCTYPE html>\n");
    out.open("html", &[("lang", "en")]);
    write_head(&page.title, &mut out);
    out.open("body", &[]);
    let sections = sections(&page.blocks);
    if let Some((_, id)) = sections.first() {
        out.leaf("a", &[("class", "skip"), ("href", &format!("#{id}"))], "Skip to the result");
    }
    out.leaf("h1", &[], &page.title);
    out.open("main", &[]);
    let mut sections = sections.into_iter();
    let mut is_in_section = false;
    for (index, block) in page.blocks.iter().enumerate() {
        if let Block::Heading { level: 2, text } = block {
            if is_in_section {
                out.close();
            } else {
                write_contents(&page.blocks[index..], &mut out);
            }
            is_in_section = true;
            let (_, id) = sections.next().unwrap_or_default();
            out.raw("\n");
            out.open("section", &[("aria-labelledby", &id)]);
            out.leaf("h2", &[("id", &id)], text);
        } else {
            write_block(block, &mut out);
        }
    }
    out.finish() + "\n"
}

fn write_head(title: &str, out: &mut Markup) {
    out.open("head", &[]);
    out.empty("meta", &[("charset", "utf-8")]);
    out.empty("meta", &[("name", "viewport"), ("content", "width=device-width, initial-scale=1")]);
    let policy = "default-src 'none'; style-src 'unsafe-inline'";
    out.empty("meta", &[("http-equiv", "Content-Security-Policy"), ("content", policy)]);
    out.empty("meta", &[("name", "referrer"), ("content", "no-referrer")]);
    // Without one, browsers ask the server for an icon.
    out.empty("link", &[("rel", "icon"), ("href", "data:,")]);
    out.leaf("title", &[], title);
    out.open("style", &[]);
    for style in [STYLE_COLOURS, STYLE_PAGE, STYLE_PLOT] {
        out.raw(style);
    }
    out.close();
    out.close();
}

/// Headings of the sections, with their anchors.
fn sections(blocks: &[Block]) -> Vec<(&str, String)> {
    let headings = blocks.iter().filter_map(|block| match block {
        Block::Heading { level: 2, text } => Some(text.as_str()),
        _ => None,
    });
    headings.enumerate().map(|(index, text)| (text, format!("s{index}"))).collect()
}

fn write_contents(blocks: &[Block], out: &mut Markup) {
    out.open("nav", &[("aria-label", "Sections")]);
    out.open("ul", &[]);
    for (text, id) in sections(blocks) {
        out.open("li", &[]);
        out.leaf("a", &[("href", &format!("#{id}"))], text);
        out.close();
    }
    out.close();
    out.close();
}

fn write_block(block: &Block, out: &mut Markup) {
    out.raw("\n");
    match block {
        Block::Heading { level, text } => {
            let name = match level {
                ..=2 => "h2",
                3 => "h3",
                _ => "h4",
            };
            out.leaf(name, &[], text);
        }
        Block::Banner { word, text } => {
            out.open("p", &[("class", "banner")]);
            out.leaf("strong", &[], word);
            write_text(text, out);
            out.close();
        }
        Block::Paragraph(text) => write_in("p", text, out),
        Block::Figures(pairs) => write_pairs("figures", pairs, out),
        Block::Facts(pairs) => write_pairs("facts", pairs, out),
        Block::List(lines) => {
            out.open("ul", &[]);
            for line in lines {
                write_in("li", line, out);
            }
            out.close();
        }
        Block::Table(table) => write_table(table, out),
        Block::Heat(heat) => write_heat(heat, out),
        Block::Plots(plots) => {
            out.open("div", &[("class", "plots")]);
            for plot in plots {
                out.open("figure", &[]);
                out.raw(&plot.inline());
                out.close();
            }
            out.close();
        }
        Block::Code(text) => {
            out.open("pre", &[("tabindex", "0")]);
            // Line by line: a line's end is none of the characters that are made visible.
            for line in text.lines() {
                out.write(line);
                out.raw("\n");
            }
            out.close();
        }
        Block::Folded { summary, blocks } => {
            out.open("details", &[]);
            out.leaf("summary", &[], summary);
            for block in blocks {
                write_block(block, out);
            }
            out.close();
        }
    }
}

fn write_in(name: &'static str, text: &Text, out: &mut Markup) {
    out.open(name, &[]);
    write_text(text, out);
    out.close();
}

fn write_text(text: &Text, out: &mut Markup) {
    for piece in &text.0 {
        match piece {
            Inline::Plain(text) => out.write(text),
            Inline::Code(text) => out.leaf("code", &[], text),
            Inline::Strong(text) => out.leaf("strong", &[], text),
        }
    }
}

/// Each pair in a box of its own where they are figures.
fn write_pairs(class: &'static str, pairs: &[(&str, Text)], out: &mut Markup) {
    out.open("dl", &[("class", class)]);
    for (name, value) in pairs {
        if class == "figures" {
            out.open("div", &[]);
        }
        out.leaf("dt", &[], name);
        write_in("dd", value, out);
        if class == "figures" {
            out.close();
        }
    }
    out.close();
}

/// A table in what scrolls sideways, by keys too, where the screen is narrow.
fn open_table(caption: &str, class: &[(&str, &str)], out: &mut Markup) {
    out.open("div", &[("class", "scroll"), ("tabindex", "0"), ("role", "region"), ("aria-label", caption)]);
    out.open("table", class);
    out.leaf("caption", &[], caption);
}

fn write_table(table: &Table, out: &mut Markup) {
    open_table(&table.caption, &[], out);
    out.open("thead", &[]);
    out.open("tr", &[]);
    for column in &table.columns {
        let class: &[(&str, &str)] =
            if is_number(*column) { &[("scope", "col"), ("class", "n")] } else { &[("scope", "col")] };
        out.leaf("th", class, column.name());
    }
    out.close();
    out.close();
    out.open("tbody", &[]);
    for row in &table.rows {
        out.open("tr", &[]);
        for (index, (cell, column)) in row.iter().zip(&table.columns).enumerate() {
            let class: &[(&str, &str)] = if is_number(*column) { &[("class", "n")] } else { &[] };
            let name = if index == 0 { "th" } else { "td" };
            let scope: &[(&str, &str)] = if index == 0 { &[("scope", "row")] } else { &[] };
            out.open(name, &[scope, class].concat());
            write_text(cell, out);
            out.close();
        }
        out.close();
    }
    // The body, the table, what scrolls.
    for _ in 0..3 {
        out.close();
    }
}

fn is_number(column: Column) -> bool {
    matches!(column, Column::Numbers(_))
}

fn write_heat(heat: &Heat, out: &mut Markup) {
    open_table(&heat.caption(), &[("class", "heat")], out);
    out.open("thead", &[]);
    out.open("tr", &[]);
    out.leaf("th", &[("scope", "col")], "choice");
    for bytes in &heat.sizes {
        out.leaf("th", &[("scope", "col")], &Size(*bytes).to_string());
    }
    out.close();
    out.close();
    out.open("tbody", &[]);
    for (choice, cells) in &heat.rows {
        out.open("tr", &[]);
        out.leaf("th", &[("scope", "row")], &heat::row_name(*choice));
        for standing in cells {
            out.leaf("td", &[("class", &format!("h{}", standing.shade()))], &standing.word());
        }
        out.close();
    }
    // The body, the table, what scrolls.
    for _ in 0..3 {
        out.close();
    }
}
