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
    blocks.extend(seen.profile.as_ref().map(|one| profile(one, profile_file(seen))).into_iter().flatten());
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
    if let Some(profile) = profile_file(seen).filter(|_| started.engine.is_real()) {
        facts.push((
            "Again, in another run",
            Text::code(format!("gdrtune verify {}", shell_words::quote(&shortened(profile, MAX_TEXT))))
                .then(" measures what ships against the defaults, with the hosts and ranks of this run"),
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

/// The profile as the run wrote it: from the folder that the command was given in.
fn profile_file(seen: &Seen) -> Option<&str> {
    let is_profile = |file: &&String| file.rsplit('/').next() == Some("profile.toml");
    seen.written.iter().find(is_profile).map(String::as_str)
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

fn profile(profile: &Profile, file: Option<&str>) -> Vec<Block> {
    let text = Text::from("As in ")
        .then(Text::code(shortened(file.unwrap_or("profile.toml"), MAX_TEXT)))
        .then(", of which ")
        .then(Text::code("gdrtune emit"))
        .then(" makes every other format.");
    vec![Block::heading(2, "The profile"), Block::Paragraph(text), Block::Code(profile.to_toml())]
}
