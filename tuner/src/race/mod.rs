//! The inner race: which choice is best at each point, in one environment.
//!
//! An ask/tell object: [`Race::next`] gives the items of a script that scores many points at once, [`Race::tell`] takes
//! the samples. It begins with one low-channel anchor of each (algorithm, protocol) at the smaller sizes, then at the
//! larger ones; what the engine predicts, where it does, says in which order, and which families can wait. After that
//! every sample goes where it is expected to improve the picks most (the knowledge gradient, under the field's beliefs
//! about all cells). So hopeless cells get one sample or none, close ones get the repeats, and a cell may come back if its
//! neighbours turn out fast.
//!
//! Deterministic: the same seed and the same samples give the same items. Must not measure anything itself, nor know
//! about budgets: the caller stops asking.

mod allocate;
mod field;
mod forecast;
mod lane;
mod quarantine;
mod script;
mod wishes;

use std::collections::BTreeMap;

use gdrtune_profiles::vocab::{Choice, Collective, Point};
use rand::{SeedableRng, rngs::SmallRng, seq::SliceRandom};

use crate::{
    bench::{Item, Outcome, Sample},
    objective::WeightedPoint,
};
pub(crate) use allocate::expected_fall;
use field::{Belief, Field, Noise};
pub use forecast::Predictions;
use lane::{Entrant, Lane, link_channels, link_sizes};
pub use quarantine::{Ban, Quarantine};

/// A choice this many times slower than the leader is told to be out of the race at once.
const HOPELESS: f64 = 4.0;
/// Standard errors behind the leader at which a choice is called beaten.
const BEATEN: f64 = 4.0;

/// What samples are paid with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Currency {
    /// Each sample costs the same.
    #[default]
    Trials,
    /// A sample costs its time: quick ones first, and a slow one must promise more.
    Seconds,
}

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
    /// What samples are paid with. The search pays with seconds where its time budget is the tighter one.
    pub currency: Currency,
    /// What each channel beyond the first costs the model, in log units of a choice's time: see [`channel_cost`].
    pub channel_cost: f64,
}

/// The cost of a channel by the gain that it must bring: each channel takes a multiprocessor from the model, so a choice
/// must be `percent` faster for every channel that it has more than another. 0 leaves more channels free, but at ties.
pub fn channel_cost(percent: f64) -> f64 {
    (percent / 100.0).ln_1p()
}

impl RaceConfig {
    /// The usual race: ties within 0.5 %, ends at 0.01 % of expected gain, 16 items a script.
    pub fn standard(seed: u64) -> Self {
        Self {
            seed,
            tie: 0.005,
            stop_gain: 0.0001,
            batch: 16,
            default_repeats: 3,
            currency: Currency::Trials,
            channel_cost: 0.0,
        }
    }

    /// What is added to the log time of a choice before it is compared with others. A count that is left to the engine is
    /// not known, and costs nothing.
    pub fn toll(&self, choice: Choice) -> f64 {
        self.channel_cost * f64::from(choice.channels.saturating_sub(1))
    }
}

/// What a race knows, to warm-start the race of another environment.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Knowledge {
    cells: BTreeMap<(Point, Choice), Belief>,
    noise: BTreeMap<Point, Noise>,
    /// Its picks, with the time that it expects of them in microseconds.
    picks: BTreeMap<Point, (Choice, f64)>,
}

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
pub struct Dropped {
    /// The point.
    pub point: Point,
    /// The choice.
    pub choice: Choice,
    /// Why, for people.
    pub why: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Small,
    Large,
    Widest,
    OthersWidest,
    Adaptive,
}

/// The race in one environment.
#[derive(Debug, Clone)]
pub struct Race {
    lanes: Vec<Lane>,
    by_point: BTreeMap<Point, usize>,
    field: Field,
    config: RaceConfig,
    stage: Stage,
    asked: Vec<Item>,
    /// The other environment's picks and their times in microseconds: what to try first.
    taught: BTreeMap<Point, (Choice, f64)>,
    random: SmallRng,
    scripts: usize,
    quarantine: Quarantine,
    drops: Vec<Dropped>,
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
            let pool = field.add_pool(warm.and_then(|warm| warm.noise.get(&point)).copied());
            let mut lane = Lane::new(point, weight);
            for choice in choices.get(&point.collective).into_iter().flatten().copied() {
                let prior = warm.and_then(|warm| warm.cells.get(&(point, choice)));
                let cell = field.add_cell(pool, prior.copied());
                let (gone, aside) = (quarantine.is_banned(point.collective, choice), false);
                lane.untaught.extend((warm.is_some() && prior.is_none()).then_some(choice));
                let toll = config.toll(choice);
                lane.entrants.push(Entrant { choice, cell, toll, gone, aside, reported: gone });
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
            taught: warm.map(|warm| warm.picks.clone()).unwrap_or_default(),
            random: SmallRng::seed_from_u64(config.seed),
            config,
            scripts: 0,
            quarantine,
            drops: Vec::new(),
            stale: true,
        }
    }

    /// Takes out what is known not to be there (`None`: the engine's own choice), before anything was asked for.
    pub fn leave_out(&mut self, is_missing: impl Fn(Point, Option<Choice>) -> bool) {
        for lane in &mut self.lanes {
            let point = lane.point;
            lane.entrants.retain(|entrant| !is_missing(point, Some(entrant.choice)));
            lane.own_failed |= is_missing(point, None);
        }
    }

    /// The items of the next script, shuffled; `None` when more samples cannot matter.
    ///
    /// Items that were asked for before and not told of are forgotten.
    #[expect(clippy::should_implement_trait, reason = "ask/tell: the answer depends on what was told in between")]
    pub fn next(&mut self) -> Option<Vec<Item>> {
        self.refresh();
        let mut items = Vec::new();
        let is_opening = self.stage != Stage::Adaptive;
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
            items = self.waiting();
        }
        if items.is_empty() {
            items = self.unasked();
        }
        if items.is_empty() {
            return None;
        }
        items.shuffle(&mut self.random);
        if is_opening {
            self.sort_by_turn(&mut items);
        }
        if self.scripts == 0 && self.config.currency == Currency::Seconds {
            // Quick points first: they may show already that the rest is not worth its time.
            items.sort_by(|a, b| self.taught_us(a.point).total_cmp(&self.taught_us(b.point)));
        }
        self.scripts += 1;
        self.asked.clone_from(&items);
        Some(items)
    }

    fn taught_us(&self, point: Point) -> f64 {
        self.taught.get(&point).map_or(0.0, |(_, time_us)| *time_us)
    }

    /// Takes a sample of the items that [`Self::next`] gave last; others are ignored.
    pub fn tell(&mut self, sample: &Sample) {
        let Some(item) = self.asked.get(sample.item).cloned() else { return };
        self.learn(item.point, item.choice, &sample.outcome);
    }

    /// Takes an outcome that was measured elsewhere in the same environment.
    pub fn learn(&mut self, point: Point, choice: Option<Choice>, outcome: &Outcome) {
        if *outcome == Outcome::Skipped {
            return;
        }
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
        self.end_waiting(point, choice, time_us);
        let Some(lane) = self.by_point.get(&point).and_then(|index| self.lanes.get_mut(*index)) else { return };
        let Some(entrant) = lane.entrants.iter_mut().find(|entrant| entrant.choice == choice) else { return };
        self.stale = true;
        if let Some(time_us) = time_us {
            self.field.observe(entrant.cell, time_us);
            return;
        }
        entrant.gone = true;
        entrant.reported = true;
        self.drops.push(Dropped { point, choice, why: reason(outcome) });
        if let Outcome::Substituted { selected, .. } = outcome {
            lane.narrow_channels(choice, *selected);
        }
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
            for entrant in lane.entrants.iter_mut().filter(|entrant| !entrant.gone) {
                entrant.gone = self.quarantine.is_banned(lane.point.collective, entrant.choice);
                entrant.reported |= entrant.gone;
            }
        }
    }

    /// The pick for every point that has a time, in point order.
    pub fn picks(&mut self) -> Vec<Pick> {
        self.refresh();
        self.lanes.iter().filter_map(|lane| self.pick(lane)).collect()
    }

    /// Whether there is nothing to choose from at any point.
    pub fn has_no_choice(&self) -> bool {
        self.lanes.iter().all(Lane::has_no_choice)
    }

    /// Whether every point has a time, or nothing more to try.
    pub fn covers_all(&self) -> bool {
        self.lanes.iter().all(|lane| {
            let mut open = lane.entrants.iter().filter(|e| !e.is_out()).peekable();
            if open.peek().is_none() {
                lane.own_failed || !lane.own_us.is_empty()
            } else {
                open.any(|e| 0 < self.field.taken(e.cell))
            }
        })
    }

    /// Median time of the engine's own choice in this environment, where it was measured.
    pub fn own_choice_us(&self, point: Point) -> Option<f64> {
        let lane = self.by_point.get(&point).and_then(|index| self.lanes.get(*index))?;
        crate::stats::median(&lane.own_us)
    }

    /// Standard deviation of the logarithm of one sample at a point.
    pub(crate) fn noise(&self, point: Point) -> f64 {
        let lane = self.by_point.get(&point).and_then(|index| self.lanes.get(*index));
        let cell = lane.and_then(|lane| lane.entrants.first()).map(|entrant| entrant.cell);
        cell.map_or(field::PRIOR_NOISE, |cell| self.field.pool_variance(cell).sqrt())
    }

    /// The same for one choice.
    pub(crate) fn noise_of(&self, point: Point, choice: Choice) -> Option<f64> {
        self.entrant(point, choice).map(|(_, entrant)| self.field.noise_variance(entrant.cell).sqrt())
    }

    /// Expected logarithm of the time of a choice in microseconds.
    pub(crate) fn expected_log_us(&self, point: Point, choice: Choice) -> Option<f64> {
        self.entrant(point, choice).map(|(lane, entrant)| lane.belief(&self.field, entrant).mean)
    }

    fn entrant(&self, point: Point, choice: Choice) -> Option<(&Lane, &Entrant)> {
        let lane = self.by_point.get(&point).and_then(|index| self.lanes.get(*index))?;
        lane.entrants.iter().find(|entrant| entrant.choice == choice).map(|entrant| (lane, entrant))
    }

    /// What perfect knowledge would gain over the present picks: weighted mean over points, log units.
    pub fn potential(&mut self) -> f64 {
        self.refresh();
        allocate::potential(&self.field, &self.lanes)
    }

    /// What the next environment's race can start from.
    pub fn knowledge(&mut self) -> Knowledge {
        self.refresh();
        let (mut cells, mut noise) = (BTreeMap::new(), BTreeMap::new());
        for lane in &self.lanes {
            noise.extend(lane.entrants.first().map(|entrant| (lane.point, self.field.noise(entrant.cell))));
            for entrant in lane.entrants.iter().filter(|entrant| !entrant.gone) {
                cells.insert((lane.point, entrant.choice), lane.belief(&self.field, entrant));
            }
        }
        let pick = |lane: &Lane| {
            let pick = self.pick(lane)?;
            Some((pick.point, (pick.choice?, pick.expected_us)))
        };
        Knowledge { cells, noise, picks: self.lanes.iter().filter_map(pick).collect() }
    }

    /// What must not be tried again, with what this race added.
    pub fn quarantine(&self) -> &Quarantine {
        &self.quarantine
    }

    /// Choices that went out since the last call.
    pub fn take_drops(&mut self) -> Vec<Dropped> {
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
        let measured = || lane.entrants.iter().filter(|e| !e.is_out() && self.field.taken(e.cell) > 0);
        let cost = |e: &Entrant| self.field.belief(e.cell).mean + e.toll;
        let best = measured().map(cost).min_by(f64::total_cmp);
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
        let tied = measured().filter(|e| cost(e) <= best + self.config.tie);
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
            let means = lane.entrants.iter().filter(|e| !e.is_out() && self.field.taken(e.cell) > 0);
            let leader = means.map(|e| self.field.belief(e.cell)).min_by(|a, b| a.mean.total_cmp(&b.mean));
            let Some(leader) = leader else { continue };
            for entrant in lane.entrants.iter_mut().filter(|e| !e.reported && !e.aside && self.field.taken(e.cell) > 0)
            {
                let belief = self.field.belief(entrant.cell);
                let gap = belief.mean - leader.mean;
                if gap > HOPELESS.ln() || gap > BEATEN * (belief.variance + leader.variance).sqrt() + self.config.tie {
                    entrant.reported = true;
                    let why = format!("{:.2} times slower than the leader", gap.exp());
                    self.drops.push(Dropped { point: lane.point, choice: entrant.choice, why });
                }
            }
        }
    }
}

fn reason(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Timed(_) => "its time is no number".into(),
        Outcome::Wrong(why) => format!("wrong result: {why}"),
        Outcome::Hung(why) => format!("hung: {why}"),
        Outcome::Crashed(why) => format!("crashed: {why}"),
        Outcome::Unsupported(why) => format!("not supported: {why}"),
        Outcome::Substituted { selected, .. } => format!("{selected} ran in its place"),
        Outcome::Skipped => "skipped by the user".into(),
    }
}
