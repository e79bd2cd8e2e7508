//! What else in a file sets the variables of its block, or takes them away.

use super::{Found, Place};
use crate::{
    diagnostic::Diagnostic,
    lint::{Assigned, Assignments, Input, Taken, assignments, last_launch_above},
};

/// A line by which jobs may get other values than the block's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// The line, and whose value counts.
    pub told: Diagnostic,
    /// Whether the block's value does not reach the job, against what the block was made for.
    pub beats_block: bool,
}

/// Lines outside of the block that set one of its variables, and whose value counts then; lines that take one away; and the block itself,
/// where it is below the last launcher. `text` is the file with the block, bytes that are no UTF-8 replaced.
pub fn conflicts(text: &str, place: Place, found: &Found, file: &str) -> Vec<Conflict> {
    let Assignments { set, taken } = assignments(Input { name: file, text, kind: Some(place.kind()) });
    let is_inside = |other: &&Assigned| (found.lines.0..=found.lines.1).contains(&other.line);
    let of_block: Vec<&Assigned> = set.iter().filter(is_inside).collect();
    let outside = set.iter().filter(|other| !is_inside(other));
    let told = outside.filter_map(|other| {
        let ours = of_block.iter().find(|ours| ours.name == other.name)?;
        let is_before = other.line < found.lines.0;
        let message = message(place, ours, other, is_before)?;
        // A block that keeps what is set before it was asked for.
        let beats_block = other.is_for_command || is_before == (place == Place::NcclConf);
        Some(Conflict { told: Diagnostic::warning(file, other.line, message), beats_block })
    });
    let beats = |line, message: String| Conflict { told: Diagnostic::warning(file, line, message), beats_block: true };
    let taken = taken.iter().filter(|taken| found.lines.1 < taken.line);
    let taken = taken.filter_map(|taken| Some(beats(taken.line, without(&of_block, taken)?)));
    let mut all: Vec<Conflict> = told.chain(taken).collect();
    all.sort_by_key(|conflict| conflict.told.line);
    let has_launches = matches!(place, Place::Shell | Place::Batch) && !of_block.is_empty();
    if let Some(line) = has_launches.then(|| last_launch_above(text, found.lines)).flatten() {
        let message = format!("the block is below line {line}, the last that starts a job: none gets what it sets");
        all.push(beats(found.lines.0, message));
    }
    all
}

/// What is told of a line that takes variables of the block away.
fn without(of_block: &[&Assigned], taken: &Taken) -> Option<String> {
    let names = of_block.iter().map(|ours| ours.name.as_str()).filter(|name| taken.which.has(name));
    let mut names: Vec<&str> = names.collect();
    names.dedup();
    let listed = names.join(", ");
    Some(match (names.as_slice(), taken.is_for_command) {
        ([], _) => return None,
        (_, true) => format!("this command does not get the block's {listed}"),
        ([_], false) => format!("{listed} is taken away here: what is started below does not get the block's value"),
        (_, false) => format!("{listed} are taken away here: what is started below does not get the block's values"),
    })
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
