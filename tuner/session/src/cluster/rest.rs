//! What is left of a script after workers broke. Pure.
//!
//! One measurement broke them. The ones that the others had not answered yet are asked again, and those of the same
//! algorithm and protocol are left to the search: each would cost another deadline and another start of all workers. What
//! the user skipped takes nothing along.

use gdrtune_tuner::bench::{Item, Outcome, Sample};

/// How a part of a script went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ran {
    /// Every item has its samples.
    All,
    /// The workers broke. Both count wire items of that part.
    Broken {
        /// That many have a sample.
        sampled: usize,
        /// The one that broke them, not before `sampled`.
        at: usize,
    },
    /// That many wire items of that part have a sample, and the user skipped the next one.
    Skipped {
        /// How many.
        sampled: usize,
    },
}

/// Items that are still to be measured, each with its place in the script.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Rest(Vec<(usize, Item)>);

impl Rest {
    /// A whole script.
    pub(super) fn of(items: &[Item]) -> Self {
        Self(items.iter().cloned().enumerate().collect())
    }

    /// What is left of a script that gave `samples` before its process ended.
    pub(super) fn after(items: &[Item], samples: &[Sample]) -> Self {
        let broke = |sample: &&Sample| {
            matches!(
                sample.outcome,
                Outcome::Wrong(_) | Outcome::Hung(_) | Outcome::Crashed(_) | Outcome::Unsupported(_) | Outcome::Skipped
            )
        };
        // A wrong, unsupported or skipped item says nothing of its family; one that kills workers does.
        let kills = |sample: &&Sample| matches!(sample.outcome, Outcome::Hung(_) | Outcome::Crashed(_));
        let culprits: Vec<&Item> = samples.iter().filter(kills).filter_map(|sample| items.get(sample.item)).collect();
        let left = items.iter().enumerate().filter_map(|(place, item)| {
            let of_item = || samples.iter().filter(move |sample| sample.item == place);
            let is_out = of_item().any(|sample| broke(&sample)) || culprits.iter().any(|c| is_family(c, item));
            let repeats = if is_out { 0 } else { item.repeats.saturating_sub(of_item().count() as u32) };
            (repeats > 0).then(|| (place, Item { repeats, ..item.clone() }))
        });
        Self(left.collect())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn items(&self) -> Vec<Item> {
        self.0.iter().map(|(_, item)| item.clone()).collect()
    }

    /// Places in the script, by place in [`Self::items`].
    pub(super) fn places(&self) -> Vec<usize> {
        self.0.iter().map(|(place, _)| *place).collect()
    }

    /// Of the items that are wanted, one sample each.
    pub(super) fn once_each(&self, mut is_wanted: impl FnMut(&Item) -> bool) -> Self {
        let wanted = self.0.iter().filter(|(_, item)| is_wanted(item));
        Self(wanted.map(|(place, item)| (*place, Item { repeats: 1, ..item.clone() })).collect())
    }

    /// Takes off an item by its place in the script.
    pub(super) fn give_up(&mut self, place: usize) {
        self.0.retain(|(other, _)| *other != place);
    }

    /// Takes off what is finished with. `origin` is each wire item's place in [`Self::items`], in rising order.
    pub(super) fn take_off(&mut self, ran: Ran, origin: &[usize]) {
        let (sampled, at) = match ran {
            Ran::All => return self.0.clear(),
            Ran::Broken { sampled, at } => (sampled, at),
            Ran::Skipped { sampled } => (sampled, sampled),
        };
        let Some(&given_up) = origin.get(at) else { return self.0.clear() };
        let culprit = matches!(ran, Ran::Broken { .. }).then(|| self.0[given_up].1.clone());
        let is_kin = |item: &Item| culprit.as_ref().is_some_and(|culprit| is_family(culprit, item));
        let unsampled = |index: usize| origin.iter().skip(sampled).filter(|from| **from == index).count() as u32;
        let left = std::mem::take(&mut self.0).into_iter().enumerate().filter_map(|(index, (place, item))| {
            let repeats = if index == given_up || is_kin(&item) { 0 } else { unsampled(index) };
            (repeats > 0).then_some((place, Item { repeats, ..item }))
        });
        self.0 = left.collect();
    }
}

/// Whether both ask for the same algorithm and protocol of a collective.
fn is_family(one: &Item, other: &Item) -> bool {
    let family = |item: &Item| item.choice.map(|choice| (item.point.collective, choice.algorithm, choice.protocol));
    family(one).is_some() && family(one) == family(other)
}

#[cfg(test)]
mod tests {
    use gdrtune_profiles::vocab::{Algorithm, Choice, Collective, Point, Protocol};
    use gdrtune_tuner::bench::Timing;

    use super::*;

    fn item(bytes: u64, choice: Option<(Protocol, u16)>, repeats: u32) -> Item {
        let choice = choice.map(|(protocol, channels)| Choice { algorithm: Algorithm::Ring, protocol, channels });
        Item { point: Point { collective: Collective::AllReduce, bytes }, choice, repeats }
    }

    #[test]
    fn what_a_killed_process_has_measured_is_not_asked_for_again() {
        let (ll, simple) = (|channels| Some((Protocol::Ll, channels)), Some((Protocol::Simple, 1)));
        let script = [item(1, None, 2), item(1, ll(1), 3), item(2, ll(2), 1), item(2, simple, 2), item(4, simple, 2)];
        let rest = |outcomes: &[(usize, Outcome)]| {
            let told =
                |(item, outcome): &(usize, Outcome)| Sample { item: *item, process: 0, outcome: outcome.clone() };
            let rest = Rest::after(&script, &outcomes.iter().map(told).collect::<Vec<_>>());
            rest.0.iter().map(|(place, item)| (*place, item.repeats)).collect::<Vec<_>>()
        };
        let timed = || {
            let (time_us, iterations) = (1.0, 1);
            let [slowest_us, median_us, max_us, cpu_us] = [time_us; 4];
            Outcome::Timed(Timing { time_us, slowest_us, median_us, max_us, cpu_us, iterations, selected: None })
        };
        assert_eq!(rest(&[]), [(0, 2), (1, 3), (2, 1), (3, 2), (4, 2)]);
        assert_eq!(rest(&[(0, timed())]), [(0, 1), (1, 3), (2, 1), (3, 2), (4, 2)]);
        let hung = (1, Outcome::Hung("killed".into()));
        assert_eq!(rest(&[(0, timed()), (0, timed()), hung]), [(3, 2), (4, 2)], "nor its family");
        let skipped = (1, Outcome::Skipped);
        assert_eq!(rest(&[(0, timed()), (0, timed()), skipped]), [(2, 1), (3, 2), (4, 2)]);
        let wrong = (3, Outcome::Wrong("1 for 2".into()));
        assert_eq!(rest(&[(0, timed()), wrong]), [(0, 1), (1, 3), (2, 1), (4, 2)]);
    }

    #[test]
    fn what_broke_the_workers_goes_with_its_family_and_the_rest_stays() {
        let (ll, simple) = (|channels| Some((Protocol::Ll, channels)), Some((Protocol::Simple, 1)));
        let script = [
            item(1, None, 2),
            item(1, simple, 3),
            item(1, ll(1), 1),
            item(2, None, 1),
            item(2, ll(2), 1),
            item(2, simple, 1),
        ];
        let origin = [0, 0, 1, 1, 1, 2, 3, 4, 5];
        let places = |ran| {
            let mut rest = Rest::of(&script);
            rest.take_off(ran, &origin);
            rest.0.iter().map(|(place, item)| (*place, item.repeats)).collect::<Vec<_>>()
        };
        assert_eq!(places(Ran::All), []);
        assert_eq!(places(Ran::Broken { sampled: 5, at: 5 }), [(3, 1), (5, 1)]);
        // One rank was ahead of the others, which had answered three of the four before.
        assert_eq!(places(Ran::Broken { sampled: 3, at: 5 }), [(1, 2), (3, 1), (5, 1)]);
        // The engine's own choice has no family.
        assert_eq!(places(Ran::Broken { sampled: 0, at: 0 }), [(1, 3), (2, 1), (3, 1), (4, 1), (5, 1)]);
        assert_eq!(places(Ran::Broken { sampled: 9, at: 9 }), [], "all were measured");
        assert_eq!(
            places(Ran::Skipped { sampled: 3 }),
            [(2, 1), (3, 1), (4, 1), (5, 1)],
            "the rest of it, and nothing else"
        );
        assert_eq!(places(Ran::Skipped { sampled: 5 }), [(3, 1), (4, 1), (5, 1)]);
    }
}
