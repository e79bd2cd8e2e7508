//! One point of a race: who runs there, and how its cells are linked.

use std::{
    cmp::Ordering,
    collections::{BTreeMap, BTreeSet},
};

use gdrtune_profiles::vocab::{Choice, Point};

use super::{
    field::{Field, PRIOR_NOISE},
    forecast::{Family, Waiting, family},
};
use crate::bench::Item;

/// Until links say otherwise, neighbouring sizes differ by this much between choices (log units). Recorded grids: 0.02
/// to 0.55.
const SIZE_DEVIATION: f64 = 0.3;
/// The same for a doubling of channels. Recorded grids: 0.05 to 0.6.
const CHANNEL_DEVIATION: f64 = 0.3;

#[derive(Debug, Clone)]
pub(super) struct Entrant {
    pub(super) choice: Choice,
    pub(super) cell: usize,
    /// What its channels cost, in log units of time.
    pub(super) toll: f64,
    /// Cannot run here, says the engine, or is quarantined, or the user gave it up.
    pub(super) gone: bool,
    /// Is not what the user pinned.
    pub(super) aside: bool,
    /// Was reported as dropped.
    pub(super) reported: bool,
}

impl Entrant {
    /// Whether it is not to be asked for, nor picked.
    pub(super) const fn is_out(&self) -> bool {
        self.gone || self.aside
    }
}

#[derive(Debug, Clone)]
pub(super) struct Lane {
    pub(super) point: Point,
    pub(super) weight: f64,
    pub(super) entrants: Vec<Entrant>,
    /// Times of the engine's own choice in this environment.
    pub(super) own_us: Vec<f64>,
    pub(super) own_failed: bool,
    /// Places of the predicted families in the opening stages.
    pub(super) turns: BTreeMap<Family, usize>,
    /// Choices of which nothing is known from the other environment, as the engine did not run them there.
    pub(super) untaught: BTreeSet<Choice>,
    /// Families that are left out of those.
    pub(super) waiting: BTreeMap<Family, Waiting>,
}

impl Lane {
    pub(super) fn new(point: Point, weight: f64) -> Self {
        let (turns, waiting, untaught) = (BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
        Self { point, weight, entrants: Vec::new(), own_us: Vec::new(), own_failed: false, turns, untaught, waiting }
    }

    /// Standard error of the logarithm of the own choice's time.
    pub(super) fn own_deviation(&self) -> f64 {
        let samples = self.own_us.len();
        let logs: Vec<f64> = self.own_us.iter().map(|time_us| time_us.ln()).collect();
        // Few samples say little about their own spread.
        let known = crate::stats::robust_deviation(&logs).filter(|_| 3 < samples);
        known.unwrap_or(PRIOR_NOISE) / (samples.max(1) as f64).sqrt()
    }

    /// Takes out what would only run as `selected` again: with as many channels as were asked for or beyond, seen from those that
    /// the engine gave instead. It may give fewer (NCCL on a short message) or more (one for each rail at least).
    pub(super) fn narrow_channels(&mut self, asked: Choice, selected: Choice) {
        if selected.channels == 0 || family(asked) != family(selected) {
            return;
        }
        let would_run_as_selected = |channels: u16| match asked.channels.cmp(&selected.channels) {
            Ordering::Greater => selected.channels < channels,
            Ordering::Less => channels < selected.channels,
            Ordering::Equal => false,
        };
        let is_beyond =
            |e: &&mut Entrant| family(e.choice) == family(selected) && would_run_as_selected(e.choice.channels);
        for entrant in self.entrants.iter_mut().filter(is_beyond) {
            entrant.gone = true;
            entrant.reported = true;
        }
    }

    /// Whether there is nothing to choose from (any more): only the engine's own choice can be asked for.
    pub(super) fn has_no_choice(&self) -> bool {
        self.entrants.iter().all(Entrant::is_out)
    }

    /// Entrants by (algorithm, protocol), channels rising; those that the user's pins allow.
    pub(super) fn families(&self) -> Vec<Vec<&Entrant>> {
        let mut families: BTreeMap<Family, Vec<&Entrant>> = BTreeMap::new();
        for entrant in self.entrants.iter().filter(|entrant| !entrant.aside) {
            families.entry(family(entrant.choice)).or_default().push(entrant);
        }
        let mut families: Vec<_> = families.into_values().collect();
        for family in &mut families {
            family.sort_by_key(|entrant| entrant.choice.channels);
        }
        families
    }
}

/// The entrant that a family is begun with: the second-lowest channel count is the best guess where nothing is known; the
/// lowest follows by its link.
pub(super) fn anchor<'a>(family: &[&'a Entrant]) -> Option<&'a Entrant> {
    family.get(1).or_else(|| family.first()).copied()
}

pub(super) fn one(point: Point, choice: Option<Choice>) -> Item {
    Item { point, choice, repeats: 1 }
}

pub(super) fn link_channels(field: &mut Field, lane: &Lane) {
    // One group per step of channels, shared by the families of the point: more channels tend to help or hurt all.
    let mut groups: BTreeMap<(u16, u16), usize> = BTreeMap::new();
    for family in lane.families() {
        for pair in family.windows(2) {
            let step = (pair[0].choice.channels, pair[1].choice.channels);
            let group = *groups.entry(step).or_insert_with(|| field.add_group(CHANNEL_DEVIATION, 3.0));
            field.add_link(pair[0].cell, pair[1].cell, group);
        }
    }
}

pub(super) fn link_sizes(field: &mut Field, smaller: &Lane, larger: &Lane) {
    let group = field.add_group(SIZE_DEVIATION, 0.0);
    for entrant in &larger.entrants {
        if let Some(same) = smaller.entrants.iter().find(|other| other.choice == entrant.choice) {
            field.add_link(same.cell, entrant.cell, group);
        }
    }
}
