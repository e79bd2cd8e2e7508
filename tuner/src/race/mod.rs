//! The inner race: which choice is best at each point, in one environment.
//!
//! An ask/tell object: [`Race::next`] gives the items of a script that scores many points at once, [`Race::tell`] takes
//! the samples. It begins with one low-channel anchor of each (algorithm, protocol) at the smaller sizes, then at the
//! larger ones where the family is not hopeless already; after that every sample goes where it is expected to improve
//! the picks most (the knowledge gradient, under the field's beliefs about all cells). So hopeless cells get one sample or
//! none, close ones get the repeats, and a cell may come back if its neighbours turn out fast.
//!
//! Deterministic: the same seed and the same samples give the same items. Must not measure anything itself, nor know
//! about budgets: the caller stops asking.

mod allocate;
mod field;
mod quarantine;

use std::collections::BTreeMap;

use gdrtune_profiles::vocab::{Choice, Collective, Point};
use rand::{SeedableRng, rngs::SmallRng, seq::SliceRandom};

use crate::{
    bench::{Item, Outcome, Sample},
    objective::WeightedPoint,
};
use field::Field;
pub use quarantine::{Ban, Quarantine};

/// Until links say otherwise, neighbouring sizes differ by this much between choices (log units). Recorded grids: 0.02
/// to 0.55.
const SIZE_DEVIATION: f64 = 0.3;
/// The same for a doubling of channels. Recorded grids: 0.05 to 0.6.
const CHANNEL_DEVIATION: f64 = 0.3;
/// What another environment changes between choices (log units).
const ENVIRONMENT_DEVIATION: f64 = 0.12;
/// A choice this many times slower than the leader is cut at once, and its family is not begun at larger sizes.
const HOPELESS: f64 = 4.0;
/// Standard errors behind the leader at which a choice is called beaten.
const BEATEN: f64 = 4.0;

/// Every so many scripts one item is the engine's own choice, to watch for drift: about 3 % of the samples.
const OWN_CHOICE_EVERY: usize = 3;

/// Most samples of the engine's own choice where nothing can be chosen.
const MOST_OWN: usize = 24;

/// How the race runs.
#[derive(Debug, Clone, PartialEq)]
pub struct RaceConfig {
    /// Seed of the order of items.
    pub seed: u64,
    /// Choices whose expected times are this close (relative) are a tie, which goes to fewer channels.
    pub tie: f64,
    /// The race ends when the expected gain of perfect knowledge, averaged over points, is below this (relative).
    pub stop_gain: f64,
    /// Items per script after the first ones.
    pub batch: usize,
    /// First samples of the engine's own choice where nothing can be chosen; more follow until it is known to a tie.
    pub default_repeats: u32,
}

impl RaceConfig {
    /// The usual race: ties within 0.5 %, ends at 0.01 % of expected gain, 16 items a script.
    pub fn standard(seed: u64) -> Self {
        Self { seed, tie: 0.005, stop_gain: 0.0001, batch: 16, default_repeats: 3 }
    }
}

/// What a race knows, to warm-start the race of another environment. Log microseconds: mean and variance.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Knowledge(BTreeMap<(Point, Choice), (f64, f64)>);

/// The race's pick for a point.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pick {
    /// The point.
    pub point: Point,
    /// The choice; `None` where nothing can be chosen or nothing could be measured but the engine's own.
    pub choice: Option<Choice>,
    /// Median of its samples, in microseconds.
    pub median_us: f64,
    /// Expected time from all that is known, in microseconds.
    pub expected_us: f64,
    /// Standard error of the logarithm of that.
    pub deviation: f64,
    /// Samples of it.
    pub samples: u32,
}

/// A choice that is out, for the observer.
#[derive(Debug, Clone, PartialEq)]
pub struct Drop {
    /// The point.
    pub point: Point,
    /// The choice.
    pub choice: Choice,
    /// Why, for people.
    pub why: String,
}

#[derive(Debug, Clone)]
struct Entrant {
    choice: Choice,
    cell: usize,
    /// Cannot run here, says the engine, or is quarantined.
    out: bool,
    /// Was reported as dropped.
    reported: bool,
}

#[derive(Debug, Clone)]
struct Lane {
    point: Point,
    weight: f64,
    entrants: Vec<Entrant>,
    /// Times of the engine's own choice in this environment.
    own_us: Vec<f64>,
    own_failed: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Small,
    Large,
    Widest,
    Adaptive,
}

/// The race in one environment.
#[derive(Debug)]
pub struct Race {
    lanes: Vec<Lane>,
    by_point: BTreeMap<Point, usize>,
    field: Field,
    config: RaceConfig,
    stage: Stage,
    asked: Vec<Item>,
    random: SmallRng,
    scripts: usize,
    quarantine: Quarantine,
    drops: Vec<Drop>,
    stale: bool,
}

impl Race {
    /// A race over `points` among the choices of their collectives, in order of preference at ties.
    ///
    /// `warm` is what another environment taught; `quarantine` names choices that must not be tried.
    pub fn new(
        points: &[WeightedPoint],
        choices: &BTreeMap<Collective, Vec<Choice>>,
        config: RaceConfig,
        warm: Option<&Knowledge>,
        quarantine: Quarantine,
    ) -> Self {
        let mut field = Field::default();
        let mut lanes: Vec<Lane> = Vec::new();
        let mut sorted = points.to_vec();
        sorted.sort_unstable_by_key(|weighted| weighted.point);
        sorted.dedup_by_key(|weighted| weighted.point);
        for WeightedPoint { point, weight } in sorted {
            let pool = field.add_pool();
            let mut lane = Lane { point, weight, entrants: Vec::new(), own_us: Vec::new(), own_failed: false };
            for choice in choices.get(&point.collective).into_iter().flatten().copied() {
                let prior = warm.and_then(|warm| warm.0.get(&(point, choice)));
                let prior = prior.map(|(mean, variance)| (*mean, variance + ENVIRONMENT_DEVIATION.powi(2)));
                let cell = field.add_cell(pool, prior);
                let out = quarantine.is_banned(point.collective, choice);
                lane.entrants.push(Entrant { choice, cell, out, reported: out });
            }
            link_channels(&mut field, &lane);
            if let Some(smaller) = lanes.last().filter(|smaller| smaller.point.collective == point.collective) {
                link_sizes(&mut field, smaller, &lane);
            }
            lanes.push(lane);
        }
        Self {
            by_point: lanes.iter().enumerate().map(|(index, lane)| (lane.point, index)).collect(),
            lanes,
            field,
            stage: if warm.is_some() { Stage::Adaptive } else { Stage::Small },
            asked: Vec::new(),
            random: SmallRng::seed_from_u64(config.seed),
            config,
            scripts: 0,
            quarantine,
            drops: Vec::new(),
            stale: true,
        }
    }

    /// The items of the next script, shuffled; `None` when more samples cannot matter.
    ///
    /// Items that were asked for before and not told of are forgotten.
    #[expect(clippy::should_implement_trait, reason = "ask/tell: the answer depends on what was told in between")]
    pub fn next(&mut self) -> Option<Vec<Item>> {
        self.refresh();
        let mut items = Vec::new();
        while items.is_empty() && self.stage != Stage::Adaptive {
            items = self.next_stage();
        }
        if items.is_empty() && self.scripts == 0 {
            items = self.favourites();
            items.extend(self.own_choice_only());
        }
        if items.is_empty() {
            items = self.adaptive();
        }
        if items.is_empty() {
            return None;
        }
        self.scripts += 1;
        items.shuffle(&mut self.random);
        self.asked.clone_from(&items);
        Some(items)
    }

    /// The items of the current stage of a cold start, and on to the next stage.
    fn next_stage(&mut self) -> Vec<Item> {
        let (items, next) = match self.stage {
            Stage::Small => {
                let mut items = self.anchors(|rank, sizes| 3 * rank < 2 * sizes);
                items.extend(self.own_choice_only());
                (items, Stage::Large)
            }
            Stage::Large => (self.anchors(|rank, sizes| 2 * sizes <= 3 * rank), Stage::Widest),
            Stage::Widest | Stage::Adaptive => (self.widest(), Stage::Adaptive),
        };
        self.stage = next;
        items
    }

    /// Takes a sample of the items that [`Self::next`] gave last; others are ignored.
    pub fn tell(&mut self, sample: &Sample) {
        let Some(item) = self.asked.get(sample.item).cloned() else { return };
        self.learn(item.point, item.choice, &sample.outcome);
    }

    /// Takes an outcome that was measured elsewhere in the same environment.
    pub fn learn(&mut self, point: Point, choice: Option<Choice>, outcome: &Outcome) {
        let Some(lane) = self.by_point.get(&point).and_then(|index| self.lanes.get_mut(*index)) else { return };
        let time_us = match outcome {
            Outcome::Timed(timing) if timing.time_us > 0.0 && timing.time_us.is_finite() => Some(timing.time_us),
            _ => None,
        };
        let Some(choice) = choice else {
            lane.own_us.extend(time_us);
            lane.own_failed |= time_us.is_none();
            return;
        };
        let Some(entrant) = lane.entrants.iter_mut().find(|entrant| entrant.choice == choice) else { return };
        self.stale = true;
        if let Some(time_us) = time_us {
            self.field.observe(entrant.cell, time_us);
            return;
        }
        entrant.out = true;
        entrant.reported = true;
        self.drops.push(Drop { point, choice, why: reason(outcome) });
        if self.quarantine.note(point.collective, choice, outcome) {
            self.apply_quarantine();
        }
    }

    /// Takes out what was banned everywhere while this race rested.
    pub fn adopt(&mut self, quarantine: &Quarantine) {
        self.quarantine.adopt(quarantine);
        self.apply_quarantine();
    }

    fn apply_quarantine(&mut self) {
        for lane in &mut self.lanes {
            for entrant in lane.entrants.iter_mut().filter(|entrant| !entrant.out) {
                entrant.out = self.quarantine.is_banned(lane.point.collective, entrant.choice);
                entrant.reported |= entrant.out;
            }
        }
    }

    /// The pick for every point that has a time, in point order.
    pub fn picks(&mut self) -> Vec<Pick> {
        self.refresh();
        self.lanes.iter().filter_map(|lane| self.pick(lane)).collect()
    }

    /// Median time of the engine's own choice in this environment, where it was measured.
    pub fn own_choice_us(&self, point: Point) -> Option<f64> {
        let lane = self.by_point.get(&point).and_then(|index| self.lanes.get(*index))?;
        crate::stats::median(&lane.own_us)
    }

    /// What the next environment's race can start from.
    pub fn knowledge(&mut self) -> Knowledge {
        self.refresh();
        let mut cells = BTreeMap::new();
        for lane in &self.lanes {
            for entrant in lane.entrants.iter().filter(|entrant| !entrant.out) {
                let belief = self.field.belief(entrant.cell);
                cells.insert((lane.point, entrant.choice), (belief.mean, belief.variance));
            }
        }
        Knowledge(cells)
    }

    /// What must not be tried again, with what this race added.
    pub fn quarantine(&self) -> &Quarantine {
        &self.quarantine
    }

    /// Choices that went out since the last call.
    pub fn take_drops(&mut self) -> Vec<Drop> {
        self.refresh();
        std::mem::take(&mut self.drops)
    }

    fn refresh(&mut self) {
        if self.stale {
            self.field.update();
            self.report_beaten();
            self.stale = false;
        }
    }

    fn pick(&self, lane: &Lane) -> Option<Pick> {
        let measured = || lane.entrants.iter().filter(|e| !e.out && self.field.taken(e.cell) > 0);
        let best = measured().map(|e| self.field.belief(e.cell).mean).min_by(f64::total_cmp);
        let Some(best) = best else {
            let median_us = crate::stats::median(&lane.own_us)?;
            let (samples, deviation) = (lane.own_us.len() as u32, lane.own_deviation());
            return Some(Pick {
                point: lane.point,
                choice: None,
                median_us,
                expected_us: median_us,
                deviation,
                samples,
            });
        };
        let tied = measured().filter(|e| self.field.belief(e.cell).mean <= best + self.config.tie);
        let entrant = tied.min_by_key(|e| e.choice.channels)?;
        let belief = self.field.belief(entrant.cell);
        Some(Pick {
            point: lane.point,
            choice: Some(entrant.choice),
            median_us: self.field.median_us(entrant.cell)?,
            expected_us: belief.mean.exp(),
            deviation: belief.variance.sqrt(),
            samples: self.field.taken(entrant.cell),
        })
    }

    fn report_beaten(&mut self) {
        for lane in &mut self.lanes {
            let means = lane.entrants.iter().filter(|e| !e.out && self.field.taken(e.cell) > 0);
            let leader = means.map(|e| self.field.belief(e.cell)).min_by(|a, b| a.mean.total_cmp(&b.mean));
            let Some(leader) = leader else { continue };
            for entrant in lane.entrants.iter_mut().filter(|e| !e.reported && self.field.taken(e.cell) > 0) {
                let belief = self.field.belief(entrant.cell);
                let gap = belief.mean - leader.mean;
                if gap > HOPELESS.ln() || gap > BEATEN * (belief.variance + leader.variance).sqrt() + self.config.tie {
                    entrant.reported = true;
                    let why = format!("{:.2} times slower than the leader", gap.exp());
                    self.drops.push(Drop { point: lane.point, choice: entrant.choice, why });
                }
            }
        }
    }

    /// Ranks of the sizes within their collective: (rank, sizes) per lane.
    fn ranks(&self) -> Vec<(usize, usize)> {
        let mut counts: BTreeMap<Collective, usize> = BTreeMap::new();
        let mut ranks = Vec::new();
        for lane in &self.lanes {
            let count = counts.entry(lane.point.collective).or_default();
            ranks.push(*count);
            *count += 1;
        }
        self.lanes.iter().zip(ranks).map(|(lane, rank)| (rank, counts[&lane.point.collective])).collect()
    }

    /// One low-channel anchor of each family at the sizes that `wanted` (rank, sizes) selects, unless hopeless.
    fn anchors(&self, wanted: impl Fn(usize, usize) -> bool) -> Vec<Item> {
        let mut items = Vec::new();
        for (lane, (rank, sizes)) in self.lanes.iter().zip(self.ranks()) {
            if !wanted(rank, sizes) {
                continue;
            }
            let leader = lane.entrants.iter().map(|e| self.field.belief(e.cell).mean).fold(f64::INFINITY, f64::min);
            for family in lane.families() {
                // The second-lowest count is the best guess where nothing is known; the lowest follows by its link.
                let Some(entrant) = family.get(1).or_else(|| family.first()) else { continue };
                let hopeless =
                    self.stage == Stage::Widest && self.field.belief(entrant.cell).mean > leader + HOPELESS.ln();
                if !entrant.out && !hopeless {
                    items.push(one(lane.point, Some(entrant.choice)));
                }
            }
        }
        items
    }

    /// The highest channel count of each point's leading family: the climb from low counts may stop at a hump.
    fn widest(&self) -> Vec<Item> {
        let mean = |entrant: &Entrant| self.field.belief(entrant.cell).mean;
        let widest = |lane: &Lane| {
            let measured = lane.entrants.iter().filter(|e| !e.out && self.field.taken(e.cell) > 0);
            let leader = measured.min_by(|a, b| mean(a).total_cmp(&mean(b)))?.choice;
            let family = lane
                .entrants
                .iter()
                .filter(|e| (e.choice.algorithm, e.choice.protocol) == (leader.algorithm, leader.protocol));
            let widest = family.max_by_key(|e| e.choice.channels)?;
            (!widest.out && self.field.taken(widest.cell) == 0).then(|| one(lane.point, Some(widest.choice)))
        };
        self.lanes.iter().filter_map(widest).collect()
    }

    /// The choice that looks best at each point before anything was measured here.
    fn favourites(&self) -> Vec<Item> {
        let best = |lane: &Lane| {
            let open = lane.entrants.iter().filter(|e| !e.out);
            open.map(|e| (self.field.belief(e.cell).mean, e.choice)).min_by(|a, b| a.0.total_cmp(&b.0))
        };
        self.lanes.iter().filter_map(|lane| best(lane).map(|(_, choice)| one(lane.point, Some(choice)))).collect()
    }

    fn own_choice_only(&self) -> Vec<Item> {
        let only = self.lanes.iter().filter(|lane| lane.entrants.is_empty() && !lane.own_failed);
        only.flat_map(|lane| (0..self.config.default_repeats).map(|_| one(lane.point, None))).collect()
    }

    /// The samples that are expected to help most, and now and then the engine's own choice.
    fn adaptive(&self) -> Vec<Item> {
        let mut items = allocate::choose(&self.field, &self.lanes, &self.config);
        let vague = |lane: &&Lane| {
            let sampled = lane.own_us.len() < MOST_OWN && !lane.own_failed;
            lane.entrants.is_empty() && sampled && self.config.tie < lane.own_deviation()
        };
        items.extend(self.lanes.iter().filter(vague).map(|lane| one(lane.point, None)));
        if !items.is_empty() && self.scripts.is_multiple_of(OWN_CHOICE_EVERY) {
            let lane = &self.lanes[self.scripts / OWN_CHOICE_EVERY % self.lanes.len()];
            if !lane.own_failed && !lane.entrants.is_empty() {
                items.push(one(lane.point, None));
            }
        }
        items
    }
}

impl Lane {
    /// Standard error of the logarithm of the own choice's time.
    fn own_deviation(&self) -> f64 {
        let samples = self.own_us.len();
        let logs: Vec<f64> = self.own_us.iter().map(|time_us| time_us.ln()).collect();
        // Few samples say little about their own spread.
        let known = crate::stats::robust_deviation(&logs).filter(|_| 3 < samples);
        known.unwrap_or(field::PRIOR_NOISE) / (samples.max(1) as f64).sqrt()
    }

    /// Entrants by (algorithm, protocol), channels rising.
    fn families(&self) -> Vec<Vec<&Entrant>> {
        let mut families: BTreeMap<_, Vec<&Entrant>> = BTreeMap::new();
        for entrant in &self.entrants {
            families.entry((entrant.choice.algorithm, entrant.choice.protocol)).or_default().push(entrant);
        }
        let mut families: Vec<_> = families.into_values().collect();
        for family in &mut families {
            family.sort_by_key(|entrant| entrant.choice.channels);
        }
        families
    }
}

fn one(point: Point, choice: Option<Choice>) -> Item {
    Item { point, choice, repeats: 1 }
}

fn reason(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Timed(_) => "its time is no number".into(),
        Outcome::Wrong(why) => format!("wrong result: {why}"),
        Outcome::Hung(why) => format!("hung: {why}"),
        Outcome::Crashed(why) => format!("crashed: {why}"),
        Outcome::Unsupported(why) => format!("not supported: {why}"),
        Outcome::Substituted { selected, .. } => format!("{selected} ran in its place"),
    }
}

fn link_channels(field: &mut Field, lane: &Lane) {
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

fn link_sizes(field: &mut Field, smaller: &Lane, larger: &Lane) {
    let group = field.add_group(SIZE_DEVIATION, 0.0);
    for entrant in &larger.entrants {
        if let Some(same) = smaller.entrants.iter().find(|other| other.choice == entrant.choice) {
            field.add_link(same.cell, entrant.cell, group);
        }
    }
}
