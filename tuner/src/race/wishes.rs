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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use gdrtune_profiles::vocab::{Algorithm, Collective, Protocol};

    use super::*;
    use crate::{
        bench::{Outcome, Timing},
        objective::WeightedPoint,
        race::{Quarantine, RaceConfig},
    };

    const POINTS: [Point; 2] = [
        Point { collective: Collective::AllReduce, bytes: 1024 },
        Point { collective: Collective::AllReduce, bytes: 4096 },
    ];

    fn choice(algorithm: Algorithm, channels: u16) -> Choice {
        Choice { algorithm, protocol: Protocol::Ll, channels }
    }

    fn race() -> Race {
        let choices = [Algorithm::Ring, Algorithm::Tree].map(|algorithm| [1, 2, 4].map(|n| choice(algorithm, n)));
        let choices = BTreeMap::from([(Collective::AllReduce, choices.concat())]);
        Race::new(&WeightedPoint::equal(POINTS), &choices, RaceConfig::standard(3), None, Quarantine::default())
    }

    /// Runs it with the tree at half the time of the ring, and more channels faster; what was asked for.
    fn run(race: &mut Race) -> Vec<(Point, Option<Choice>)> {
        let mut asked = Vec::new();
        while let Some(items) = race.next().filter(|_| asked.len() < 100) {
            for item in items {
                let time_us = item.choice.map_or(500.0, |choice| {
                    let base = if choice.algorithm == Algorithm::Tree { 100.0 } else { 200.0 };
                    base / f64::from(choice.channels)
                });
                race.learn(item.point, item.choice, &Outcome::Timed(Timing::even(time_us)));
                asked.push((item.point, item.choice));
            }
        }
        asked
    }

    fn picks(race: &mut Race) -> Vec<Option<Choice>> {
        race.picks().iter().map(|pick| pick.choice).collect()
    }

    #[test]
    fn a_choice_that_is_given_up_is_told_once_and_neither_asked_for_nor_picked() {
        let mut race = race();
        run(&mut race);
        let best = choice(Algorithm::Tree, 4);
        assert_eq!(picks(&mut race), [Some(best); 2]);
        race.take_drops();
        race.give_up(Some(POINTS[0]), best);
        race.give_up(Some(POINTS[0]), best);
        let dropped = Dropped { point: POINTS[0], choice: best, why: "the user dropped it".to_owned() };
        assert_eq!(race.take_drops(), [dropped]);
        assert_eq!(picks(&mut race), [Some(choice(Algorithm::Tree, 2)), Some(best)]);
        assert!(!run(&mut race).contains(&(POINTS[0], Some(best))));
        race.give_up(None, best);
        assert_eq!(picks(&mut race), [Some(choice(Algorithm::Tree, 2)); 2]);
    }

    #[test]
    fn pins_hold_in_the_middle_of_a_race_and_what_was_measured_comes_back_without_them() {
        let mut race = race();
        run(&mut race);
        race.restrict(|choice| choice.algorithm == Algorithm::Ring);
        let asked = run(&mut race);
        assert!(asked.iter().all(|(_, choice)| choice.is_none_or(|choice| choice.algorithm == Algorithm::Ring)));
        let ring = picks(&mut race);
        assert!(ring.iter().all(|choice| choice.is_some_and(|choice| choice.algorithm == Algorithm::Ring)), "{ring:?}");
        race.restrict(|_| true);
        assert_eq!(picks(&mut race), [Some(choice(Algorithm::Tree, 4)); 2]);
        // Where nothing is left, the engine chooses.
        race.restrict(|_| false);
        let asked = run(&mut race);
        assert!(!asked.is_empty() && asked.iter().all(|(_, choice)| choice.is_none()));
        assert_eq!(picks(&mut race), [None; 2]);
    }

    #[test]
    fn the_only_choice_that_is_left_is_measured() {
        let mut race = race();
        let only = choice(Algorithm::Tree, 1);
        race.restrict(|choice| choice == only);
        let asked = run(&mut race);
        assert!(POINTS.iter().all(|point| asked.contains(&(*point, Some(only)))), "{asked:?}");
        assert_eq!(picks(&mut race), [Some(only); 2]);
        // In the middle of a race that had not asked for it.
        let mut race = self::race();
        for point in POINTS {
            race.learn(point, Some(choice(Algorithm::Ring, 1)), &Outcome::Timed(Timing::even(10.0)));
        }
        race.stage = crate::race::Stage::Adaptive;
        race.scripts = 1;
        race.restrict(|choice| choice == only);
        assert!(run(&mut race).contains(&(POINTS[0], Some(only))));
    }
}
