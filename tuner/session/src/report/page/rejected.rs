//! What was tried and does not ship, with the reason.

use std::collections::BTreeMap;

use gdrtune_profiles::{
    size::Size,
    vocab::{Choice, Collective},
};

use super::{MAX_TEXT, choices::failure, count, list, of_shapes};
use crate::{
    export::failure_name,
    report::{
        block::{Block, Column, Table, Text, shortened},
        seen::{CellSeen, Seen, ShapeSeen},
    },
};

/// Sentences that are shown, and rows of failed choices.
const MAX_ROWS: usize = 60;
/// Sizes that a row names.
const MAX_SIZES: usize = 8;

pub(super) fn blocks(seen: &Seen) -> Vec<Block> {
    let mut blocks = vec![Block::heading(2, "Tried and left out")];
    if !seen.rejected.is_empty() {
        let lines = seen.rejected.iter().map(|line| shortened(line, 2 * MAX_TEXT).into());
        blocks.push(list(lines.collect(), MAX_ROWS));
    }
    blocks.extend(of_shapes(seen, of_shape));
    if blocks.len() == 1 {
        blocks.push(Block::paragraph("Nothing that was measured had to be left out."));
    }
    blocks
}

/// A choice that failed: where, and what was said last.
#[derive(Default)]
struct Failed {
    sizes: Vec<u64>,
    why: String,
}

fn of_shape(shape: &ShapeSeen) -> Vec<Block> {
    let cells = || shape.cells.values().flatten();
    let mut blocks = Vec::new();
    let beaten = cells().filter(|(_, cell)| cell.dropped.is_some() && failure(cell).is_none()).count() as u64;
    if beaten > 0 {
        let all = cells().count();
        let text = format!(
            "Given up as slower than the leader, before the A/B: {beaten} of {all} choices at single points. The maps above show by how \
             much."
        );
        blocks.push(Block::paragraph(text));
    }
    let mut failed: BTreeMap<(Collective, Choice, &str), Failed> = BTreeMap::new();
    for ((point, choice), cell) in cells() {
        let Some(kind) = failure(cell) else { continue };
        let row = failed.entry((point.collective, *choice, failure_name(kind))).or_default();
        if !row.sizes.contains(&point.bytes) {
            row.sizes.push(point.bytes);
        }
        if let CellSeen { dropped: Some(why), .. } = cell {
            row.why.clone_from(why);
        }
    }
    if !failed.is_empty() {
        let n_failed = failed.len();
        let rows = failed
            .into_iter()
            .take(MAX_ROWS)
            .map(|((collective, choice, kind), failed)| row(collective, choice, kind, &failed));
        let columns = ["choice", "collective", "what happened", "sizes", "reason"].map(Column::Words);
        let caption = format!("Choices that failed ({})", count(n_failed as u64, "row"));
        blocks.push(Block::Table(Table::new(caption, &columns, rows.collect())));
    }
    blocks
}

fn row(collective: Collective, choice: Choice, kind: &str, failed: &Failed) -> Vec<Text> {
    let mut sizes = failed.sizes.clone();
    sizes.sort_unstable();
    let more = sizes.len().saturating_sub(MAX_SIZES);
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    let sizes: Vec<String> = sizes.iter().take(MAX_SIZES).map(|bytes| Size(*bytes).to_string()).collect();
    vec![
        Text::code(choice.to_string()),
        collective.to_string().into(),
        kind.into(),
        format!("{}{more}", sizes.join(", ")).into(),
        shortened(&failed.why, MAX_TEXT).into(),
    ]
}
