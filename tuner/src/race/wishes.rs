//! What the user wants of a race: choices that are given up, and those that may be tried at all.

use gdrtune_profiles::vocab::{Choice, Point};

use super::{
    Dropped, Race,
    lane::{Lane, one},
};
use crate::bench::Item;

/// Why a choice is out that nothing is wrong with.
const DROPPED: &str = "the user dropped it";

impl Race {
    /// Gives a choice up, at one point or at all.
    pub fn give_up(&mut self, point: Option<Point>, choice: Choice) {
        for lane in self.lanes.iter_mut().filter(|lane| point.is_none_or(|point| point == lane.point)) {
            let point = lane.point;
            for entrant in lane.entrants.iter_mut().filter(|entrant| entrant.choice == choice && !entrant.gone) {
                entrant.gone = true;
                entrant.reported = true;
                self.drops.push(Dropped { point, choice, why: DROPPED.to_owned() });
            }
        }
        self.stale = true;
    }

    /// Tries and picks from now on only choices that are allowed. What was measured of the others is kept.
    pub(crate) fn restrict(&mut self, is_allowed: impl Fn(Choice) -> bool) {
        for entrant in self.lanes.iter_mut().flat_map(|lane| &mut lane.entrants) {
            entrant.aside = !is_allowed(entrant.choice);
        }
        self.stale = true;
    }

    /// A choice of each point that has no time yet although one may be asked for: where only one is left, none promises to be
    /// better than another.
    pub(super) fn unasked(&self) -> Vec<Item> {
        let first = |lane: &Lane| {
            let open = || lane.entrants.iter().filter(|entrant| !entrant.is_out());
            let is_known = open().any(|entrant| 0 < self.field.taken(entrant.cell));
            open().next().filter(|_| !is_known).map(|entrant| one(lane.point, Some(entrant.choice)))
        };
        self.lanes.iter().filter_map(first).collect()
    }

    /// Whether the choice may still be asked for at a point.
    pub(crate) fn may_ask(&self, point: Point, choice: Choice) -> bool {
        self.entrant(point, choice).is_some_and(|(_, entrant)| !entrant.is_out())
    }
}
