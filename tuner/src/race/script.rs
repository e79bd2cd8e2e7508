//! The items of the next script: opening stages, then where samples help most.

use std::collections::BTreeMap;

use gdrtune_profiles::vocab::{Choice, Collective};

use super::{
    Race, Stage, allocate,
    forecast::family,
    lane::{Entrant, Lane, anchor, one},
};
use crate::bench::Item;

/// Every so many scripts one item is the engine's own choice, to watch for drift: about 3 % of the samples.
const OWN_CHOICE_EVERY: usize = 3;
/// By how much the highest channel count must beat the anchor's, in log units, to try it in every family: half as fast again. On two H200
/// over `NVLink` it is 0.5 to 3 from 256 KiB on; 0.1 is within the noise of the recorded emulated nodes, and costs draws there.
const CHANNELS_CARRY: f64 = 0.4;
/// Most samples of the engine's own choice where nothing can be chosen.
const MOST_OWN: usize = 24;

impl Race {
    /// The items of the current stage of a cold start, and on to the next stage.
    pub(super) fn next_stage(&mut self) -> Vec<Item> {
        let (items, next) = match self.stage {
            Stage::Small => {
                let mut items = self.anchors(|rank, sizes| 3 * rank < 2 * sizes);
                items.extend(self.own_choice_only());
                (items, Stage::Large)
            }
            Stage::Large => (self.anchors(|rank, sizes| 2 * sizes <= 3 * rank), Stage::Widest),
            Stage::Widest => (self.widest(), Stage::OthersWidest),
            Stage::OthersWidest | Stage::Adaptive => (self.others_widest(), Stage::Adaptive),
        };
        self.stage = next;
        items
    }

    /// Ranks of the sizes within their collective: (rank, sizes) per lane.
    pub(super) fn ranks(&self) -> Vec<(usize, usize)> {
        let mut counts: BTreeMap<Collective, usize> = BTreeMap::new();
        let mut ranks = Vec::new();
        for lane in &self.lanes {
            let count = counts.entry(lane.point.collective).or_default();
            ranks.push(*count);
            *count += 1;
        }
        self.lanes.iter().zip(ranks).map(|(lane, rank)| (rank, counts[&lane.point.collective])).collect()
    }

    /// One low-channel anchor of each family at the sizes that `wanted` (rank, sizes) selects, unless it waits.
    pub(super) fn anchors(&self, wanted: impl Fn(usize, usize) -> bool) -> Vec<Item> {
        let mut items = Vec::new();
        for (lane, (rank, sizes)) in self.lanes.iter().zip(self.ranks()) {
            if !wanted(rank, sizes) {
                continue;
            }
            for members in lane.families() {
                let Some(entrant) = anchor(&members) else { continue };
                if !entrant.is_out() && !lane.waiting.contains_key(&family(entrant.choice)) {
                    items.push(one(lane.point, Some(entrant.choice)));
                }
            }
        }
        items
    }

    /// The highest channel count of each point's leading family: the climb from low counts may stop at a hump.
    pub(super) fn widest(&self) -> Vec<Item> {
        let mean = |entrant: &Entrant| self.field.belief(entrant.cell).mean;
        let widest = |lane: &Lane| {
            let measured = lane.entrants.iter().filter(|e| !e.is_out() && self.field.taken(e.cell) > 0);
            let leader = measured.min_by(|a, b| mean(a).total_cmp(&mean(b)))?.choice;
            let family = lane
                .entrants
                .iter()
                .filter(|e| (e.choice.algorithm, e.choice.protocol) == (leader.algorithm, leader.protocol));
            let widest = family.max_by_key(|e| e.choice.channels)?;
            (!widest.is_out() && self.field.taken(widest.cell) == 0).then(|| one(lane.point, Some(widest.choice)))
        };
        self.lanes.iter().filter_map(widest).collect()
    }

    /// The same of the other families at points where the leading one gained by it: where channels carry the bytes, as over
    /// `NVLink`, a family that is far behind with two of them may lead with all.
    pub(super) fn others_widest(&self) -> Vec<Item> {
        let mean = |entrant: &Entrant| self.field.belief(entrant.cell).mean;
        let taken = |entrant: &&Entrant| !entrant.is_out() && 0 < self.field.taken(entrant.cell);
        let mut items = Vec::new();
        for lane in &self.lanes {
            let begun = lane.families().into_iter().filter_map(|family| {
                let (begin, widest) = (anchor(&family).filter(taken)?, family.last().copied()?);
                Some((begin, widest))
            });
            let (wide, untried): (Vec<_>, Vec<_>) = begun.partition(|(_, widest)| taken(widest));
            if wide.into_iter().any(|(begin, widest)| mean(widest) < mean(begin) - CHANNELS_CARRY) {
                let open = untried.into_iter().map(|(_, widest)| widest).filter(|widest| !widest.is_out());
                items.extend(open.map(|widest| one(lane.point, Some(widest.choice))));
            }
        }
        items
    }

    /// The other environment's pick for each point, or else the choice that looks best before anything was measured here. Where the
    /// other one's engine gave no fewer channels (one for each of many rails), a lower count is asked for as well: this environment
    /// must not look slow for a count that only the other one needed.
    pub(super) fn favourites(&self) -> Vec<Item> {
        let best = |lane: &Lane| {
            let open = || lane.entrants.iter().filter(|e| !e.is_out());
            let taught = self.taught.get(&lane.point).map(|(choice, _)| *choice);
            let taught = taught.filter(|choice| open().any(|e| e.choice == *choice));
            let likely = || {
                let means = open().map(|e| (self.field.belief(e.cell).mean, e.choice));
                means.min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, choice)| choice)
            };
            taught.or_else(likely)
        };
        let fewer = |lane: &Lane, pick: Choice| {
            let mut untaught: Vec<&Entrant> = lane
                .entrants
                .iter()
                .filter(|e| !e.is_out() && lane.untaught.contains(&e.choice) && family(e.choice) == family(pick))
                .filter(|e| e.choice.channels < pick.channels)
                .collect();
            untaught.sort_by_key(|entrant| entrant.choice.channels);
            anchor(&untaught).map(|entrant| entrant.choice)
        };
        let of_lane = |lane: &Lane| {
            let pick = best(lane);
            let fewer = pick.and_then(|pick| fewer(lane, pick));
            pick.into_iter().chain(fewer).map(|choice| one(lane.point, Some(choice))).collect::<Vec<_>>()
        };
        self.lanes.iter().flat_map(of_lane).collect()
    }

    pub(super) fn own_choice_only(&self) -> Vec<Item> {
        let only = self.lanes.iter().filter(|lane| lane.has_no_choice() && !lane.own_failed);
        only.flat_map(|lane| (0..self.config.default_repeats).map(|_| one(lane.point, None))).collect()
    }

    /// The samples that are expected to help most, and now and then the engine's own choice.
    pub(super) fn adaptive(&self) -> Vec<Item> {
        let mut items = allocate::choose(&self.field, &self.lanes, &self.config);
        let vague = |lane: &&Lane| {
            let sampled = lane.own_us.len() < MOST_OWN && !lane.own_failed;
            lane.has_no_choice() && sampled && self.config.tie < lane.own_deviation()
        };
        items.extend(self.lanes.iter().filter(vague).map(|lane| one(lane.point, None)));
        if !items.is_empty() && self.scripts.is_multiple_of(OWN_CHOICE_EVERY) {
            let lane = &self.lanes[self.scripts / OWN_CHOICE_EVERY % self.lanes.len()];
            if !lane.own_failed && !lane.has_no_choice() {
                items.push(one(lane.point, None));
            }
        }
        items
    }
}
