//! How to do it again, what the user changed while it ran, and the profile itself.

use gdrtune_profiles::profile::Profile;

use super::{MAX_TEXT, list};
use crate::report::{
    block::{Block, Column, Table, Text, shortened},
    seen::Seen,
};

/// Wishes of the user and input files that are shown.
const MAX_ROWS: usize = 60;

pub(super) fn blocks(seen: &Seen) -> Vec<Block> {
    let mut blocks = vec![Block::heading(2, "How to reproduce")];
    blocks.extend(command(seen));
    blocks.extend(inputs(seen));
    blocks.extend(changes(seen));
    blocks.extend(files(seen));
    blocks.extend(seen.profile.as_ref().map(profile).into_iter().flatten());
    blocks
}

fn command(seen: &Seen) -> Vec<Block> {
    let started = &seen.started;
    let mut blocks = Vec::new();
    let mut facts: Vec<(&'static str, Text)> = Vec::new();
    if let Some(by) = seen.invocation.as_ref().filter(|by| !by.args.is_empty()) {
        blocks.push(Block::Code(format!("gdrtune {}", shell_words::join(&by.args))));
        facts.push(("In the folder", Text::code(&by.dir)));
    } else {
        blocks.push(Block::paragraph("The store does not have the command line."));
    }
    facts.push(("Seed", started.seed.to_string().into()));
    facts.push(("gdrtune", started.tool.clone().into()));
    // Of what was not measured on a cluster, there is nothing to measure again.
    if started.engine.is_real() {
        facts.push((
            "Again, in another run",
            Text::code("gdrtune verify profile.toml").then(" measures what ships against the defaults"),
        ));
    }
    facts.push(("As it went", Text::code(format!("gdrtune replay {}", started.run))));
    blocks.push(Block::Facts(facts));
    blocks.push(Block::paragraph(
        "With the same seed, a search decides the same for the same measured times; on a real cluster these differ a little each time.",
    ));
    if !seen.resumed.is_empty() {
        blocks.push(Block::paragraph("The run was ended early and went on:"));
        blocks.push(list(seen.resumed.iter().map(|line| line.clone().into()).collect(), MAX_ROWS));
    }
    blocks
}

fn inputs(seen: &Seen) -> Option<Block> {
    let inputs = &seen.invocation.as_ref()?.inputs;
    let row = |input: &crate::event::InputFile| vec![Text::code(&input.path), Text::code(&input.sha256)];
    let rows: Vec<Vec<Text>> = inputs.iter().take(MAX_ROWS).map(row).collect();
    let columns = vec![Column::Words("file or preset"), Column::Words("SHA-256")];
    (!rows.is_empty()).then(|| Block::Table(Table::new("What it was made from", &columns, rows)))
}

fn changes(seen: &Seen) -> Vec<Block> {
    if seen.wishes.is_empty() {
        return Vec::new();
    }
    let wishes = seen.wishes.iter().map(|wish| shortened(wish, MAX_TEXT).into());
    vec![
        Block::paragraph("The user changed while it ran, so that a run without this may decide otherwise:"),
        list(wishes.collect(), MAX_ROWS),
    ]
}

fn files(seen: &Seen) -> Option<Block> {
    let lines = seen.written.iter().map(|file| Text::code(shortened(file, MAX_TEXT)));
    let blocks = vec![list(lines.collect(), MAX_ROWS)];
    (!seen.written.is_empty()).then(|| Block::Folded { summary: "Files that the run wrote".to_owned(), blocks })
}

fn profile(profile: &Profile) -> Vec<Block> {
    let text = Text::from("As in ")
        .then(Text::code("profile.toml"))
        .then(", of which ")
        .then(Text::code("gdrtune emit"))
        .then(" makes every other format.");
    vec![Block::heading(2, "The profile"), Block::Paragraph(text), Block::Code(profile.to_toml())]
}
