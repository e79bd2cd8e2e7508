//! What else in a file sets the variables of its block.

use super::{Found, Place};
use crate::{
    diagnostic::Diagnostic,
    lint::{Assigned, Input, assigned},
};

/// A line outside of the block that sets one of its variables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// The line, and whose value counts.
    pub told: Diagnostic,
    /// Whether the block's value does not reach the job, against what the block was made for.
    pub beats_block: bool,
}

/// Lines outside of the block that set one of its variables, and whose value counts then. `text` is the file with the block,
/// bytes that are no UTF-8 replaced.
pub fn conflicts(text: &str, place: Place, found: &Found, file: &str) -> Vec<Conflict> {
    let all = assigned(Input { name: file, text, kind: Some(place.kind()) });
    let is_inside = |other: &&Assigned| (found.lines.0..=found.lines.1).contains(&other.line);
    let of_block: Vec<&Assigned> = all.iter().filter(is_inside).collect();
    let outside = all.iter().filter(|other| !is_inside(other));
    let told = outside.filter_map(|other| {
        let ours = of_block.iter().find(|ours| ours.name == other.name)?;
        let is_before = other.line < found.lines.0;
        let message = message(place, ours, other, is_before)?;
        // A block that keeps what is set before it was asked for.
        let beats_block = other.is_for_command || is_before == (place == Place::NcclConf);
        Some(Conflict { told: Diagnostic::warning(file, other.line, message), beats_block })
    });
    told.collect()
}

fn message(place: Place, ours: &Assigned, other: &Assigned, is_before: bool) -> Option<String> {
    let name = &ours.name;
    if other.is_for_command {
        return Some(format!("this command gets another {name} than the block sets"));
    }
    Some(match (place, is_before) {
        (Place::NcclConf, true) => {
            format!("{name} is set here, before the block: NCCL keeps the first value, which is this one")
        }
        (Place::NcclConf, false) => {
            format!("{name} is set here again: NCCL keeps the first value, which is the block's")
        }
        (_, true) if ours.keeps_set => format!("{name} is set here, before the block, which keeps this value"),
        (_, true) => format!("{name} is set here, before the block, whose value counts after it"),
        // It does nothing where the block has set the variable.
        (_, false) if other.keeps_set => return None,
        (_, false) => format!("{name} is set here again: this value counts, not the block's"),
    })
}
