//! Picks that were made elsewhere, as CSV: `contestant,variant,budget,seed,collective,bytes,algorithm,protocol,channels`.

use std::{collections::BTreeMap, error::Error, fmt::Write as _};

use gdrtune_profiles::vocab::{Choice, Point};

use crate::game::{Game, Picks};

/// The fields of each line after the header, with its number.
pub(crate) fn rows(text: &str, fields: usize) -> Result<Vec<Vec<&str>>, Box<dyn Error>> {
    let mut rows = Vec::new();
    for (index, line) in text.lines().enumerate().skip(1).filter(|(_, line)| !line.trim().is_empty()) {
        let row: Vec<&str> = line.split(',').map(str::trim).collect();
        if row.len() != fields {
            return Err(format!("line {}: {} fields where {fields} are wanted", index + 1, row.len()).into());
        }
        rows.push(row);
    }
    Ok(rows)
}

/// Point and choice of `collective, bytes, algorithm, protocol, channels`.
pub(crate) fn point_and_choice(fields: &[&str]) -> Result<(Point, Choice), Box<dyn Error>> {
    let point = Point { collective: fields[0].parse()?, bytes: fields[1].parse()? };
    Ok((point, Choice { algorithm: fields[2].parse()?, protocol: fields[3].parse()?, channels: fields[4].parse()? }))
}

/// Regret of each (contestant, variant, budget, seed).
pub(crate) fn score(game: &Game, text: &str) -> Result<String, Box<dyn Error>> {
    let mut all: BTreeMap<[&str; 4], Picks> = BTreeMap::new();
    for row in rows(text, 9)? {
        let (point, choice) = point_and_choice(&row[4..])?;
        let cell = game.cell(point, choice).ok_or_else(|| format!("no cell {point} {choice} in the grid"))?;
        let place = game.points.iter().position(|cells| cells.contains(&cell)).ok_or("a cell without a point")?;
        let picks = all.entry([row[0], row[1], row[2], row[3]]).or_insert_with(|| vec![None; game.points.len()]);
        picks[place] = Some(cell);
    }
    let mut out = String::from("contestant,variant,budget,seed,regret\n");
    for (key, picks) in all {
        writeln!(out, "{},{:.6}", key.join(","), game.regret(&picks))?;
    }
    Ok(out)
}
