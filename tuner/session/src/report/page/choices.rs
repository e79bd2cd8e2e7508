//! Which choice is best at which size, and how far the others are.

use std::collections::{BTreeMap, BTreeSet};

use gdrtune_profiles::vocab::{Choice, Collective, Environment, Point};
use gdrtune_tuner::stats::median;

use super::{MAX_TEXT, of_shapes, sizes::plot_name};
use crate::{
    event::Failure,
    report::{
        block::{Block, shortened},
        heat::{Heat, LEGEND, Standing},
        seen::{CellSeen, Seen, ShapeSeen},
    },
};

/// Cells of all maps of a report together: each takes some 40 bytes of HTML.
const MAX_CELLS: usize = 6_000;

/// Rows of a map.
const ROWS: std::ops::RangeInclusive<usize> = 8..=40;

/// Columns of a map; of more sizes, some are left out.
const MAX_SIZES: usize = 24;

pub(super) fn blocks(seen: &Seen) -> Vec<Block> {
    let n_maps = seen.shapes.iter().map(|shape| shape.collectives().len()).sum::<usize>().max(1);
    let maps = of_shapes(seen, |shape| {
        let of = |collective| heat(seen, shape, collective, n_maps).map(Block::Heat);
        shape.collectives().into_iter().filter_map(of).collect()
    });
    if maps.is_empty() {
        return Vec::new();
    }
    let heading = [Block::heading(2, "Choices by size"), Block::paragraph(LEGEND)];
    heading.into_iter().chain(maps).collect()
}

/// The environment whose choices are shown: the one that ships, else the best of the search.
fn shown_environment<'a>(seen: &Seen, shape: &'a ShapeSeen, collective: Collective) -> Option<&'a Environment> {
    let has = |environment: &&Environment| {
        let cells = shape.cells.get(*environment);
        cells.is_some_and(|cells| cells.keys().any(|(point, _)| point.collective == collective))
    };
    let ships = seen.profile.as_ref().map(gdrtune_profiles::profile::Profile::environment);
    let ships = ships.and_then(|ships| shape.cells.keys().find(|environment| **environment == ships)).filter(has);
    let scored = shape.environments.iter().filter_map(|row| Some((&row.environment, row.score?)));
    let best = || scored.filter(|(e, _)| has(e)).min_by(|a, b| a.1.total_cmp(&b.1)).map(|(environment, _)| environment);
    ships.or_else(best).or_else(|| shape.cells.keys().find(has))
}

fn heat(seen: &Seen, shape: &ShapeSeen, collective: Collective, n_maps: usize) -> Option<Heat> {
    let environment = shown_environment(seen, shape, collective)?;
    let cells = shape.cells.get(environment)?;
    let points: Vec<Point> = shape.points_of(collective).map(|(point, _)| point).collect();
    let points: Vec<Point> = points.iter().step_by(points.len().div_ceil(MAX_SIZES).max(1)).copied().collect();
    let of = |point: Point, choice: Choice| cells.get(&(point, choice));
    let tried: BTreeSet<Choice> =
        cells.keys().filter(|(point, _)| point.collective == collective).map(|(_, choice)| *choice).collect();
    let best: BTreeMap<Point, f64> =
        points.iter().filter_map(|point| Some((*point, best_us(shape, cells, *point)?))).collect();
    let standing = |point: Point, choice: Choice| {
        let is_refused =
            shape.allowed.get(&point).is_some_and(|allowed| !allowed.contains(&(choice.algorithm, choice.protocol)));
        match of(point, choice) {
            Some(cell) => standing(cell, best.get(&point).copied()),
            None if is_refused => Standing::Refused,
            None => Standing::Untried,
        }
    };
    let mut rows: Vec<(Choice, Vec<Standing>)> = tried
        .into_iter()
        .map(|choice| (choice, points.iter().map(|point| standing(*point, choice)).collect()))
        .collect();
    let most = (MAX_CELLS / n_maps / points.len().max(1)).clamp(*ROWS.start(), *ROWS.end());
    let left_out = rows.len().saturating_sub(most);
    // Those that came nearest to the best at any size, in the order of their names.
    rows.sort_by(|a, b| nearest(&a.1).total_cmp(&nearest(&b.1)));
    rows.truncate(most);
    rows.sort_by_key(|(choice, _)| *choice);
    let default = points.iter().map(|point| {
        let time = default_us(shape, *point).zip(best.get(point));
        time.map_or(Standing::Untried, |(time, best)| Standing::Timed(time / best - 1.0))
    });
    let default = (None, default.collect());
    let named = if environment.is_empty() { "nothing set over the site's".to_owned() } else { environment.to_string() };
    Some(Heat {
        name: plot_name(seen, shape, collective, "choices"),
        collective,
        environment: shortened(&named, MAX_TEXT),
        sizes: points.iter().map(|point| point.bytes).collect(),
        rows: std::iter::once(default).chain(rows.into_iter().map(|(choice, cells)| (Some(choice), cells))).collect(),
        left_out,
    })
}

fn default_us(shape: &ShapeSeen, point: Point) -> Option<f64> {
    shape.points.get(&point).and_then(|known| median(&known.default_us))
}

/// The lowest median of a choice, or of the default where nothing is faster.
fn best_us(shape: &ShapeSeen, cells: &BTreeMap<(Point, Choice), CellSeen>, point: Point) -> Option<f64> {
    let of_point = cells.iter().filter(|((other, _), cell)| *other == point && failure(cell).is_none());
    let medians = of_point.filter_map(|(_, cell)| median(&cell.times_us)).chain(default_us(shape, point));
    medians.filter(|time| 0.0 < *time).min_by(f64::total_cmp)
}

/// What a failed choice failed with. One that worked before or after did not fail, unless it was given up for that or its result
/// was wrong.
pub(super) fn failure(cell: &CellSeen) -> Option<Failure> {
    let is_out = cell.times_us.is_empty() || cell.dropped.is_some();
    cell.failure.filter(|kind| is_out || *kind == Failure::Wrong)
}

fn standing(cell: &CellSeen, best_us: Option<f64>) -> Standing {
    let time = median(&cell.times_us).zip(best_us);
    match (failure(cell), time, &cell.dropped) {
        (Some(failure), ..) => Standing::Failed(failure),
        (None, Some((time, best)), _) => Standing::Timed(time / best - 1.0),
        (None, None, Some(_)) => Standing::Dropped,
        (None, None, None) => Standing::Untried,
    }
}

/// How near a choice came to the best at any size.
fn nearest(cells: &[Standing]) -> f64 {
    let gap = |standing: &Standing| if let Standing::Timed(gap) = standing { *gap } else { f64::INFINITY };
    cells.iter().map(gap).fold(f64::INFINITY, f64::min)
}
