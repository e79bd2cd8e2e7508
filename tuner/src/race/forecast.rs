//! What an engine predicts before anything is measured: which families a race begins with.
//!
//! NCCL's cost model orders families mostly right and is off by a factor of two in either direction. So it says who is
//! asked first, and who only when the adaptive stage has a reason to; nobody is out by a prediction. A family that is left
//! out of the opening stages is linked to the one that leads its point's predictions: the field then believes it to be
//! about as far behind as predicted, and learns from the first ones that are measured how far that can be trusted.

use std::collections::BTreeMap;

use gdrtune_profiles::vocab::{Algorithm, Choice, Point, Protocol};

use super::{
    HOPELESS, Race, Stage,
    lane::{anchor, one},
};
use crate::bench::Item;

/// How far a prediction is off, as a factor. Two H200 over NVLink: families' best measured times were 0.6 to 1.8 of the
/// predicted ones.
const MISPREDICTION: f64 = 2.0;
/// A family that is predicted to take this many times the best prediction of its point is left out of the opening.
const LEFT_OUT: f64 = MISPREDICTION * HOPELESS;
/// Weight in links of the belief that predictions are right on average.
const TRUST: f64 = 3.0;

/// An engine's predictions in microseconds for the families of each point, with its own channel count; families and
/// points that are not here are not predicted.
pub type Predictions = BTreeMap<Point, BTreeMap<(Algorithm, Protocol), f64>>;

impl Race {
    /// Orders the opening stages by predicted time, and leaves out of them what is predicted to be hopeless.
    ///
    /// To be called before the first [`Self::next`]. A race that another environment has taught is not changed: what was
    /// measured says more.
    pub fn foresee(&mut self, predictions: &Predictions) {
        if self.stage != Stage::Small || predictions.is_empty() {
            return;
        }
        // The error of a ratio is that of two predictions.
        let group = self.field.add_group(MISPREDICTION.ln() * f64::sqrt(2.0), TRUST);
        for lane in &mut self.lanes {
            let Some(predicted_us) = predictions.get(&lane.point) else { continue };
            let time_us = |choice: Choice| predicted_us.get(&(choice.algorithm, choice.protocol)).copied();
            let anchors = lane.families().into_iter().filter_map(|family| anchor(&family).filter(|anchor| !anchor.out));
            let mut anchors: Vec<(f64, usize)> =
                anchors.filter_map(|anchor| Some((time_us(anchor.choice)?, anchor.cell))).collect();
            anchors.retain(|(time_us, _)| 0.0 < *time_us && time_us.is_finite());
            anchors.sort_by(|a, b| a.0.total_cmp(&b.0));
            let Some(&(least_us, leader)) = anchors.first() else { continue };
            for (turn, (time_us, cell)) in anchors.into_iter().enumerate() {
                let Some(entrant) = lane.entrants.iter_mut().find(|entrant| entrant.cell == cell) else { continue };
                entrant.turn = turn;
                if LEFT_OUT * least_us < time_us {
                    entrant.postponed = true;
                    self.field.add_offset_link(leader, cell, group, ((time_us / least_us).ln(), 0.0));
                }
            }
        }
    }

    /// Brings what is predicted to be fast to the front, over all points.
    pub(super) fn sort_by_turn(&self, items: &mut [Item]) {
        let turn = |item: &Item| {
            let lane = self.by_point.get(&item.point).map(|lane| &self.lanes[*lane]);
            let mut entrants = lane.into_iter().flat_map(|lane| &lane.entrants);
            entrants.find(|entrant| Some(entrant.choice) == item.choice).map_or(0, |entrant| entrant.turn)
        };
        items.sort_by_key(turn);
    }

    /// The anchors of families that have no sample at their point for a prediction's sake alone. A race does not end on
    /// those words.
    pub(super) fn postponed(&self) -> Vec<Item> {
        let mut items = Vec::new();
        for lane in &self.lanes {
            for family in lane.families() {
                let is_measured = family.iter().any(|entrant| 0 < self.field.taken(entrant.cell));
                let postponed = family.iter().filter(|entrant| entrant.postponed && !entrant.out && !is_measured);
                items.extend(postponed.map(|entrant| one(lane.point, Some(entrant.choice))));
            }
        }
        items
    }
}
