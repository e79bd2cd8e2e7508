//! What was searched of process-level settings, what each did, and which environments were tried.

use super::{MAX_TEXT, count, environment, factor, of_shapes};
use crate::{
    event::{Knob, KnobEffect},
    report::{
        block::{Block, Column, Table, Text, shortened},
        seen::{EnvironmentSeen, Seen, ShapeSeen},
    },
};

/// Environments that are shown, the best first.
const MAX_ENVIRONMENTS: usize = 25;
/// Those without a score that are shown beside them.
const MAX_FAILED: usize = 10;
/// Values of a setting that are named.
const MAX_VALUES: usize = 12;

pub(super) fn blocks(seen: &Seen) -> Vec<Block> {
    let shapes = of_shapes(seen, of_shape);
    if shapes.is_empty() {
        return Vec::new();
    }
    std::iter::once(Block::heading(2, "Environments and what the knobs did")).chain(shapes).collect()
}

fn of_shape(shape: &ShapeSeen) -> Vec<Block> {
    [space(shape), knobs(shape), environments(shape)].into_iter().flatten().flatten().collect()
}

fn space(shape: &ShapeSeen) -> Option<Vec<Block>> {
    if shape.choices.is_empty() && shape.dimensions.is_empty() {
        return None;
    }
    let named = if shape.space.is_empty() { String::new() } else { format!(" {}", shape.space) };
    let choices = count(shape.choices.len() as u64, "choice");
    let environments = count(shape.n_environments, "environment");
    let text = format!("The space{named} has {environments}, and {choices} of algorithm, protocol and channels.");
    let mut blocks = vec![Block::paragraph(text)];
    if !shape.dimensions.is_empty() {
        let row = |(name, values): (&String, &Vec<Option<String>>)| {
            let more = values.len().saturating_sub(MAX_VALUES);
            let more = if more == 0 { String::new() } else { format!("and {more} more") };
            let shown = values.iter().take(MAX_VALUES).map(|known| value(known.as_ref()));
            vec![Text::code(name), shown.fold(Text::default(), |all, value| all.then(value).then(" ")).then(more)]
        };
        let rows = shape.dimensions.iter().map(row).collect();
        let columns = vec![Column::Words("setting"), Column::Words("values")];
        blocks.push(Block::Table(Table::new("What was searched", &columns, rows)));
    }
    Some(blocks)
}

fn value(value: Option<&String>) -> Text {
    value.map_or_else(|| "unset".into(), |value| Text::code(shortened(value, MAX_TEXT)))
}

fn knobs(shape: &ShapeSeen) -> Option<Vec<Block>> {
    if shape.knobs.is_empty() {
        return None;
    }
    let row = |knob: &Knob| {
        let effect = match knob.effect {
            KnobEffect::Mattered => "mattered",
            KnobEffect::None => "did not matter",
            KnobEffect::Unknown => "not known",
        };
        vec![
            Text::code(&knob.name),
            effect.into(),
            factor(knob.factor).into(),
            format!("{:.2} to {:.2}", knob.low, knob.high).into(),
            value(knob.best.as_ref()),
            value(knob.worst.as_ref()),
        ]
    };
    let columns = vec![
        Column::Words("knob"),
        Column::Words("effect"),
        Column::Numbers("worst over best"),
        Column::Numbers("interval"),
        Column::Words("best value"),
        Column::Words("worst value"),
    ];
    let text = "By a model of all environments that the search tried: the value expected best against the one expected worst, in the \
                best environment found, with the best choices in each. The interval is two standard deviations to each side.";
    let caption = "What each knob did, the largest effects first";
    Some(vec![
        Block::paragraph(text),
        Block::Table(Table::new(caption, &columns, shape.knobs.iter().map(row).collect())),
    ])
}

fn environments(shape: &ShapeSeen) -> Option<Vec<Block>> {
    if shape.environments.is_empty() {
        return None;
    }
    let mut scored: Vec<&EnvironmentSeen> = shape.environments.iter().filter(|row| row.score.is_some()).collect();
    let score = |row: &EnvironmentSeen| row.score.unwrap_or(f64::INFINITY);
    scored.sort_by(|a, b| score(a).total_cmp(&score(b)));
    let failed = shape.environments.iter().filter(|row| row.score.is_none());
    let shown: Vec<&EnvironmentSeen> =
        scored.into_iter().take(MAX_ENVIRONMENTS).chain(failed.take(MAX_FAILED)).collect();
    let row = |row: &&EnvironmentSeen| {
        vec![
            environment(&row.environment),
            row.score.map(|score| format!("{score:.3}")).unwrap_or_default().into(),
            row.trials.to_string().into(),
            shortened(&row.why, MAX_TEXT).into(),
            shortened(&row.note, MAX_TEXT).into(),
        ]
    };
    let columns = vec![
        Column::Words("environment"),
        Column::Numbers("score"),
        Column::Numbers("trials"),
        Column::Words("why it was tried"),
        Column::Words("what came of it"),
    ];
    let rows: Vec<Vec<Text>> = shown.iter().map(row).collect();
    let more = shape.environments.len() - rows.len();
    let more = if more == 0 { String::new() } else { format!("; {more} more are in the export of all trials") };
    let caption =
        format!("Environments that were tried, the best first (score: time over the default's, by what counts){more}");
    Some(vec![Block::Table(Table::new(caption, &columns, rows))])
}
