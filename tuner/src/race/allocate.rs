//! Where the next samples go: the knowledge gradient.
//!
//! For each cell: by how much would the expected time of the point's pick fall if this cell were sampled (a few times), on
//! average over what the samples may say? A batch is filled greedily; a chosen cell counts as sampled for the
//! rest of the batch. Must not change any belief.

use std::{cmp::Ordering, collections::BinaryHeap};

use super::{
    Currency, RaceConfig,
    field::Field,
    lane::{Lane, one},
};
use crate::{
    bench::Item,
    stats::{normal_cdf, normal_density},
};

/// Numbers of further samples that are looked ahead to: one sample often cannot change a close decision, four can.
const LOOK_AHEAD: [f64; 3] = [1.0, 2.0, 4.0];
/// By how much less is known of a cell with few samples than their spread says: its variance counts 1 + this / samples times.
/// Two samples of a cell are both slow for no reason of its own often enough (stalls, a busy moment) that the best cell would
/// never be asked again. Chosen on a recorded grid, where half of all regret came from such cells.
const FIRST_IMPRESSION: f64 = 5.0;
/// The same where another environment taught what to expect: its samples are not all that speaks for or against the cell.
const TAUGHT_IMPRESSION: f64 = 2.0;
/// A point gives at most this many samples to one batch before the others had a chance.
const PER_POINT: usize = 6;
/// What a sample takes beside its time, in microseconds: the rendezvous and the report of some nodes.
const OVERHEAD_US: f64 = 500.0;
/// Where time counts, a batch ends once the best offer is below this part of its first one: filling it up with slow samples
/// would cost what the quick ones saved.
const MEAGRE: f64 = 0.1;

struct Cell {
    entrant: usize,
    mean: f64,
    variance: f64,
    noise: f64,
    /// What a sample costs, in the race's currency.
    cost: f64,
}

struct Offer {
    gain: f64,
    lane: usize,
    cell: usize,
}

impl PartialEq for Offer {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Offer {}

impl PartialOrd for Offer {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Offer {
    fn cmp(&self, other: &Self) -> Ordering {
        self.gain.total_cmp(&other.gain).then(other.lane.cmp(&self.lane)).then(other.cell.cmp(&self.cell))
    }
}

/// What perfect knowledge would gain over the present picks: weighted mean over points, log units.
pub(super) fn potential(field: &Field, lanes: &[Lane]) -> f64 {
    let weights: f64 = lanes.iter().map(|lane| lane.weight).sum();
    let gain = |lane: &Lane| lane.weight / weights * perfect_gain(&table(field, lane, Currency::Trials, false));
    if weights > 0.0 { lanes.iter().map(gain).sum() } else { 0.0 }
}

/// The items of the next batch; none when perfect knowledge would not gain enough.
pub(super) fn choose(field: &Field, lanes: &[Lane], config: &RaceConfig) -> Vec<Item> {
    let mut tables: Vec<Vec<Cell>> = lanes.iter().map(|lane| table(field, lane, config.currency, true)).collect();
    if potential(field, lanes) < config.stop_gain {
        return Vec::new();
    }
    let offer = |lane: usize, cells: &[Cell]| best_offer(lane, lanes[lane].weight, cells);
    let mut offers: BinaryHeap<Offer> =
        tables.iter().enumerate().filter_map(|(lane, cells)| offer(lane, cells)).collect();
    let (mut items, mut taken) = (Vec::new(), vec![0usize; lanes.len()]);
    let least_gain = match config.currency {
        Currency::Trials => 0.0,
        Currency::Seconds => MEAGRE * offers.peek().map_or(0.0, |offer| offer.gain),
    };
    while items.len() < config.batch.max(1) {
        let Some(Offer { lane, cell, .. }) = offers.pop().filter(|offer| least_gain <= offer.gain) else { break };
        let cells = &mut tables[lane];
        items.push(one(lanes[lane].point, Some(lanes[lane].entrants[cells[cell].entrant].choice)));
        let chosen = &mut cells[cell];
        chosen.variance = chosen.variance * chosen.noise / (chosen.variance + chosen.noise);
        taken[lane] += 1;
        if taken[lane] < PER_POINT {
            offers.extend(offer(lane, cells));
        }
    }
    items
}

/// A point's cells as they stand; with `doubts` about those with few samples.
fn table(field: &Field, lane: &Lane, currency: Currency, doubts: bool) -> Vec<Cell> {
    let open = lane.entrants.iter().enumerate().filter(|(_, entrant)| !entrant.is_out() && !lane.waits_behind(entrant));
    open.map(|(index, entrant)| {
        let belief = lane.belief(field, entrant);
        let noise = field.noise_variance(entrant.cell);
        let cost = match currency {
            Currency::Trials => 1.0,
            Currency::Seconds => (OVERHEAD_US + belief.mean.exp()) / 1e6,
        };
        let impression = if field.is_taught(entrant.cell) { TAUGHT_IMPRESSION } else { FIRST_IMPRESSION };
        let doubt = match field.taken(entrant.cell) {
            1.. if doubts => 1.0 + impression / f64::from(field.taken(entrant.cell)),
            _ => 1.0,
        };
        Cell { entrant: index, mean: belief.mean + entrant.toll, variance: doubt * belief.variance, noise, cost }
    })
    .collect()
}

/// Expected fall of the pick's log time when a difference of `gap` against it turns out normal with `deviation`.
pub(crate) fn expected_fall(gap: f64, deviation: f64) -> f64 {
    if deviation <= 0.0 {
        return 0.0;
    }
    let z = gap / deviation;
    (deviation * (normal_density(z) - z * (1.0 - normal_cdf(z)))).max(0.0)
}

/// The two lowest means: (index of the lowest, lowest, second lowest).
fn lowest_two(cells: &[Cell]) -> Option<(usize, f64, f64)> {
    let (mut best, mut first, mut second) = (0, f64::INFINITY, f64::INFINITY);
    for (index, cell) in cells.iter().enumerate() {
        if cell.mean < first {
            (best, second, first) = (index, first, cell.mean);
        } else if cell.mean < second {
            second = cell.mean;
        }
    }
    second.is_finite().then_some((best, first, second))
}

fn gap_of(index: usize, cell: &Cell, lowest: (usize, f64, f64)) -> f64 {
    if index == lowest.0 { lowest.2 - lowest.1 } else { cell.mean - lowest.1 }
}

fn perfect_gain(cells: &[Cell]) -> f64 {
    let Some(lowest) = lowest_two(cells) else { return 0.0 };
    let gains = cells.iter().enumerate().map(|(i, cell)| expected_fall(gap_of(i, cell, lowest), cell.variance.sqrt()));
    gains.fold(0.0, f64::max)
}

fn best_offer(lane: usize, weight: f64, cells: &[Cell]) -> Option<Offer> {
    let lowest = lowest_two(cells)?;
    let mut best: Option<Offer> = None;
    for (index, cell) in cells.iter().enumerate() {
        let gap = gap_of(index, cell, lowest);
        for samples in LOOK_AHEAD {
            let deviation = cell.variance / (cell.variance + cell.noise / samples).sqrt();
            let gain = weight * expected_fall(gap, deviation) / (samples * cell.cost);
            if best.as_ref().is_none_or(|best| best.gain < gain) {
                best = Some(Offer { gain, lane, cell: index });
            }
        }
    }
    best.filter(|best| best.gain > 0.0)
}
