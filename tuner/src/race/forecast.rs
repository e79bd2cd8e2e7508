//! What an engine predicts before anything is measured: which families a race begins with.
//!
//! NCCL's cost model orders families mostly right and is off by a factor of two in either direction. So it says who is
//! asked first, and who waits until the adaptive stage has a reason to ask it; nobody is out by a prediction. What is
//! believed of a family that waits comes from its prediction alone, and its cells rest in the field. One sample at a point
//! ends the waiting there, and if it was good, everywhere.

use std::collections::BTreeMap;

use gdrtune_profiles::vocab::{Algorithm, Choice, Collective, Point, Protocol};

use super::{
    HOPELESS, Race, Stage,
    field::{Belief, Field},
    lane::{Entrant, Lane, anchor, one},
};
use crate::bench::Item;

/// How far a prediction is off, as a factor. Two H200 over `NVLink`: families' best measured times were 0.6 to 1.8 of the
/// predicted ones.
const MISPREDICTION: f64 = 2.0;
/// A family that is predicted to take this many times the best prediction of its point waits.
const WAITS: f64 = MISPREDICTION * HOPELESS;

pub(super) type Family = (Algorithm, Protocol);

/// An engine's predictions in microseconds for the families of each point, with its own channel count; families and
/// points that are not here are not predicted.
pub type Predictions = BTreeMap<Point, BTreeMap<(Algorithm, Protocol), f64>>;

pub(super) const fn family(choice: Choice) -> Family {
    (choice.algorithm, choice.protocol)
}

/// A family without a sample at its point, as its prediction is far behind.
#[derive(Debug, Clone, Copy)]
pub(super) struct Waiting {
    /// Its anchor's cell.
    anchor: usize,
    /// The cell of the anchor that is predicted to be the fastest.
    leader: usize,
    /// How far behind that it is predicted to be, in log units.
    behind: f64,
}

impl Lane {
    /// What is believed of an entrant: a prediction where its family waits, the field's word otherwise.
    pub(super) fn belief(&self, field: &Field, entrant: &Entrant) -> Belief {
        let Some(waiting) = self.waiting.get(&family(entrant.choice)) else { return field.belief(entrant.cell) };
        // The error of a ratio is that of two predictions.
        let variance = 2.0 * MISPREDICTION.ln().powi(2);
        Belief { mean: field.belief(waiting.leader).mean + waiting.behind, variance }
    }

    /// Whether the entrant's family waits, and it is not the one to be asked first of it.
    pub(super) fn waits_behind(&self, entrant: &Entrant) -> bool {
        self.waiting.get(&family(entrant.choice)).is_some_and(|waiting| waiting.anchor != entrant.cell)
    }

    fn let_rest(&self, field: &mut Field, rests: bool, is_meant: impl Fn(Family) -> bool) {
        for entrant in self.entrants.iter().filter(|entrant| is_meant(family(entrant.choice))) {
            field.let_rest(entrant.cell, rests);
        }
    }

    fn foresee(&mut self, predicted_us: &BTreeMap<Family, f64>) {
        let time_us = |entrant: &Entrant| predicted_us.get(&family(entrant.choice)).copied();
        let anchors =
            self.families().into_iter().filter_map(|family| anchor(&family).filter(|anchor| !anchor.is_out()));
        let mut anchors: Vec<(f64, Family, usize)> =
            anchors.filter_map(|anchor| Some((time_us(anchor)?, family(anchor.choice), anchor.cell))).collect();
        anchors.retain(|(time_us, ..)| 0.0 < *time_us && time_us.is_finite());
        anchors.sort_by(|a, b| a.0.total_cmp(&b.0));
        let Some(&(least_us, _, leader)) = anchors.first() else { return };
        for (turn, (time_us, family, anchor)) in anchors.into_iter().enumerate() {
            self.turns.insert(family, turn);
            if WAITS * least_us < time_us {
                self.waiting.insert(family, Waiting { anchor, leader, behind: (time_us / least_us).ln() });
            }
        }
    }
}

impl Race {
    /// Orders the opening stages by predicted time, and leaves out of them what is predicted to be hopeless.
    ///
    /// To be called before the first [`Self::next`]. A race that another environment has taught is not changed: what was
    /// measured says more.
    pub fn foresee(&mut self, predictions: &Predictions) {
        if self.stage != Stage::Small {
            return;
        }
        for lane in &mut self.lanes {
            if let Some(predicted_us) = predictions.get(&lane.point) {
                lane.foresee(predicted_us);
                lane.let_rest(&mut self.field, true, |family| lane.waiting.contains_key(&family));
            }
        }
    }

    /// Ends the waiting of a choice's family at a point where it was asked; `time_us` is what it took.
    pub(super) fn end_waiting(&mut self, point: Point, choice: Choice, time_us: Option<f64>) {
        let Some(lane) = self.by_point.get(&point).and_then(|lane| self.lanes.get_mut(*lane)) else { return };
        let Some(Waiting { leader, .. }) = lane.waiting.remove(&family(choice)) else { return };
        lane.let_rest(&mut self.field, false, |other| other == family(choice));
        let behind = time_us.map(|time_us| time_us.ln() - self.field.belief(leader).mean);
        if behind.is_some_and(|behind| behind < HOPELESS.ln()) {
            self.distrust(point.collective, family(choice));
        }
    }

    /// A family that is good where it was predicted to be hopeless need not wait at other sizes.
    fn distrust(&mut self, collective: Collective, family: Family) {
        for lane in self.lanes.iter_mut().filter(|lane| lane.point.collective == collective) {
            lane.waiting.remove(&family);
            lane.let_rest(&mut self.field, false, |other| other == family);
        }
    }

    /// Brings what is predicted to be fast to the front, over all points.
    pub(super) fn sort_by_turn(&self, items: &mut [Item]) {
        items.sort_by_key(|item| {
            let lane = self.by_point.get(&item.point).and_then(|lane| self.lanes.get(*lane));
            lane.zip(item.choice)
                .and_then(|(lane, choice)| lane.turns.get(&family(choice)))
                .copied()
                .unwrap_or_default()
        });
    }

    /// One choice of each family that still waits: a race does not end on a prediction.
    pub(super) fn waiting(&self) -> Vec<Item> {
        let mut items = Vec::new();
        for lane in &self.lanes {
            for mut entrants in lane.families() {
                entrants.retain(|entrant| !entrant.is_out() && lane.waiting.contains_key(&family(entrant.choice)));
                items.extend(anchor(&entrants).map(|entrant| one(lane.point, Some(entrant.choice))));
            }
        }
        items
    }
}
