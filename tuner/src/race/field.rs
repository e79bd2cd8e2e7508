//! The race's belief about every cell: a Gaussian Markov field over log times.
//!
//! A cell is one choice at one point. Cells of neighbouring sizes (same choice) and of neighbouring channel counts (same
//! point, algorithm and protocol) are linked: the *difference* of two linked log times is near the typical difference
//! of its group, by the group's spread; both are learned from the cells that were measured. Samples have Student-t noise,
//! so a stall moves a belief little. Where another environment taught a cell's time, links compare how far cells have
//! moved from that instead: a choice that breaks down at some size does so in every environment. Beliefs are found by Gaussian belief propagation, a few sweeps from where the last
//! ones ended: linear in cells, links and kept samples.
//!
//! Must not know choices, points or budgets: cells, links and groups are numbers here.

/// Degrees of freedom of the sample noise and of the links: heavy tails, finite variance.
const TAIL: f64 = 4.0;
/// Samples kept per cell; older ones make room (drift), far more than a close race needs. Few must not be kept: a cell with several
/// modes is then sampled until the kept ones are lucky. With 64, 37 of 60 replayed searches of 8,000 draws ended in a wrong environment,
/// with 1,024, 12.
const KEPT: usize = 1024;
/// Sweeps of belief propagation per update; messages are kept from update to update.
const SWEEPS: usize = 3;
/// Weight of the prior in pooled spreads, in samples.
const PRIOR_WEIGHT: f64 = 4.0;
/// The same where another environment taught the noise of the pool.
const TAUGHT_WEIGHT: f64 = 16.0;
/// Weight, in samples, of what the cells of its pool scatter in how much a cell does: cells with several modes must not keep steady ones
/// uncertain, and drawn to what neighbours say, for ever; and two samples that agree say little.
const CELL_WEIGHT: f64 = 4.0;
/// Noise of one sample before anything is known (log units); typical of small sizes in the recorded grids.
pub(crate) const PRIOR_NOISE: f64 = 0.12;
/// Precision of a cell that nothing is known about: a factor of e^3 up or down.
const VAGUE: f64 = 0.1;
/// Least noise variance (0.3 %): clocks are no better.
const LEAST_VARIANCE: f64 = 1e-5;
/// From this many samples on, a cell's belief stays within two standard errors of what they say themselves.
const OUTSPOKEN: usize = 3;
/// How far beyond all measured cells of its point an unmeasured one is believed to be at most: five usual deviations of
/// a link, and more than makes a choice hopeless.
const REACH: f64 = 1.5;
/// What another environment changes between choices (log units), until it is learned. Recorded grids: 0.1 to 0.4 for one
/// changed knob.
const ENVIRONMENT_DEVIATION: f64 = 0.2;

/// What another environment changes for all choices of a point alike (log units). Recorded grids: up to 0.7 for large sizes.
const LEVEL_DEVIATION: f64 = 0.3;

/// How two cells of a group differ.
#[derive(Debug, Clone)]
struct Group {
    /// Typical difference in log time.
    mean: f64,
    /// Difference of the levels of the pools that it links.
    step: f64,
    /// Variance around it.
    variance: f64,
    prior_variance: f64,
    /// Pseudo-links that pull the mean to 0; 0 lets it float.
    pull: f64,
}

#[derive(Debug, Clone, Copy, Default)]
struct Message {
    precision: f64,
    /// Precision times mean.
    shift: f64,
}

#[derive(Debug, Clone)]
struct Link {
    from: usize,
    to: usize,
    group: usize,
    /// Difference that another environment taught.
    offset: f64,
    /// Variance of that.
    slack: f64,
    forward: Message,
    backward: Message,
}

#[derive(Debug, Clone)]
struct Cell {
    /// The noise pool, which is the point.
    pool: usize,
    /// What another environment taught, relative to the pool's level.
    prior: Option<Belief>,
    samples: Vec<f64>,
    next_kept: usize,
    taken: u32,
    /// Variance of one of its samples.
    noise: f64,
    total: Message,
    own: Message,
    /// What the belief's mean keeps to.
    bounds: (f64, f64),
    /// Whether its links are cut: where only unmeasured cells are linked, they confirm each other in what they began with.
    rests: bool,
}

/// Belief about one cell.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Belief {
    /// Mean of the natural logarithm of the time in microseconds.
    pub(crate) mean: f64,
    /// Variance of that.
    pub(crate) variance: f64,
}

/// Noise of one sample of a pool.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Noise {
    /// Variance.
    full: f64,
    /// The same without its tails: what tells an outlier.
    core: f64,
}

impl Default for Noise {
    fn default() -> Self {
        Self { full: PRIOR_NOISE * PRIOR_NOISE, core: PRIOR_NOISE * PRIOR_NOISE }
    }
}

/// All cells of one environment.
#[derive(Debug, Clone, Default)]
pub(crate) struct Field {
    cells: Vec<Cell>,
    links: Vec<Link>,
    groups: Vec<Group>,
    /// Noise per pool.
    noise: Vec<Noise>,
    /// What another environment taught about that.
    taught_noise: Vec<Option<Noise>>,
    /// Level of the pool's priors.
    level: Vec<f64>,
    /// The pool that links lead to from this one: the next size. Links go forward only.
    next_pool: Vec<Option<usize>>,
    /// Whether some cells of the pool had samples when beliefs were last found.
    grounded: Vec<bool>,
    /// Variance of what this environment changes between choices, against the one that taught the priors.
    moved: f64,
}

impl Field {
    /// A pool of cells with the same noise; `taught` by another environment, where one did.
    pub(crate) fn add_pool(&mut self, taught: Option<Noise>) -> usize {
        self.noise.push(taught.unwrap_or_default());
        self.taught_noise.push(taught);
        self.level.push(0.0);
        self.next_pool.push(None);
        self.grounded.push(false);
        self.noise.len() - 1
    }

    pub(crate) fn add_cell(&mut self, pool: usize, prior: Option<Belief>) -> usize {
        let (total, own) = (Message::default(), Message::default());
        let bounds = (f64::NEG_INFINITY, f64::INFINITY);
        let noise = self.noise[pool].full;
        let (samples, next_kept, taken, rests) = (Vec::new(), 0, 0, false);
        self.cells.push(Cell { pool, prior, samples, next_kept, taken, noise, total, own, bounds, rests });
        self.cells.len() - 1
    }

    /// Cuts a cell's links, before anything was measured, or mends them.
    pub(crate) fn let_rest(&mut self, cell: usize, rests: bool) {
        self.cells[cell].rests = rests;
    }

    /// A group of links whose differences spread by `deviation` until learned; `pull` draws their mean to 0.
    pub(crate) fn add_group(&mut self, deviation: f64, pull: f64) -> usize {
        let prior_variance = deviation * deviation;
        self.groups.push(Group { mean: 0.0, step: 0.0, variance: prior_variance, prior_variance, pull });
        self.groups.len() - 1
    }

    pub(crate) fn add_link(&mut self, from: usize, to: usize, group: usize) {
        let (offset, slack) = match (self.cells[from].prior, self.cells[to].prior) {
            (Some(from), Some(to)) => (to.mean - from.mean, from.variance + to.variance),
            _ => (0.0, 0.0),
        };
        let (pool, other) = (self.cells[from].pool, self.cells[to].pool);
        if pool < other {
            self.next_pool[pool] = Some(other);
        }
        let (forward, backward) = (Message::default(), Message::default());
        self.links.push(Link { from, to, group, offset, slack, forward, backward });
    }

    /// Takes a time in microseconds. Beliefs change at the next [`Self::update`].
    pub(crate) fn observe(&mut self, cell: usize, time_us: f64) {
        let cell = &mut self.cells[cell];
        cell.taken += 1;
        if cell.samples.len() < KEPT {
            cell.samples.push(time_us.ln());
        } else {
            cell.samples[cell.next_kept] = time_us.ln();
            cell.next_kept = (cell.next_kept + 1) % KEPT;
        }
    }

    pub(crate) fn taken(&self, cell: usize) -> u32 {
        self.cells[cell].taken
    }

    /// Whether another environment taught what to expect of the cell.
    pub(crate) fn is_taught(&self, cell: usize) -> bool {
        self.cells[cell].prior.is_some()
    }

    /// Median of the kept samples in microseconds.
    pub(crate) fn median_us(&self, cell: usize) -> Option<f64> {
        crate::stats::median(&self.cells[cell].samples).map(f64::exp)
    }

    pub(crate) fn noise(&self, cell: usize) -> Noise {
        self.noise[self.cells[cell].pool]
    }

    /// Variance of one sample of the cell's pool.
    pub(crate) fn pool_variance(&self, cell: usize) -> f64 {
        self.noise(cell).full
    }

    /// Variance of one sample of the cell.
    pub(crate) fn noise_variance(&self, cell: usize) -> f64 {
        self.cells[cell].noise
    }

    pub(crate) fn belief(&self, cell: usize) -> Belief {
        let total = self.cells[cell].total;
        let precision = total.precision.max(1e-9);
        let (lowest, highest) = self.cells[cell].bounds;
        Belief { mean: (total.shift / precision).max(lowest).min(highest), variance: 1.0 / precision }
    }

    /// Learns from the samples taken since the last call.
    pub(crate) fn update(&mut self) {
        self.learn_levels();
        self.learn_noise();
        self.weigh_samples();
        self.learn_moved();
        // After the cells' own samples are weighed: typical differences are learned from those alone, and a link whose
        // group has learned nothing yet would draw sizes together that are ten times apart.
        self.learn_groups();
        self.propagate();
        self.bound();
        for cell in self.cells.iter().filter(|cell| !cell.samples.is_empty()) {
            self.grounded[cell.pool] = true;
        }
    }

    /// Places each pool's priors: vague ones around the pool's measured cells, given ones shifted to fit them.
    fn learn_levels(&mut self) {
        let mut offsets: Vec<Vec<f64>> = vec![Vec::new(); self.level.len()];
        let mut taught = vec![false; self.level.len()];
        for cell in self.cells.iter().filter(|cell| !cell.samples.is_empty()) {
            taught[cell.pool] |= cell.prior.is_some();
            let center = crate::stats::median(&cell.samples).unwrap_or_default();
            offsets[cell.pool].push(center - cell.prior.map_or(0.0, |prior| prior.mean));
        }
        let shift = |(pool, offsets): (usize, &Vec<f64>)| {
            Some(
                crate::stats::median(offsets)?
                    * if taught[pool] { self.share_of_level(pool, offsets.len()) } else { 1.0 },
            )
        };
        let levels: Vec<Option<f64>> = offsets.iter().enumerate().map(shift).collect();
        let all: Vec<f64> = offsets.into_iter().flatten().collect();
        let overall = crate::stats::median(&all).unwrap_or_default();
        for first in 0..levels.len() {
            if !self.next_pool.contains(&Some(first)) {
                self.place_chain(first, &levels, overall);
            }
        }
    }

    /// How much of what `measured` cells of a pool moved, against where the other environment had them, the pool as a whole
    /// did: of a single one, the choice itself may have moved, and then the others are where they were.
    fn share_of_level(&self, pool: usize, measured: usize) -> f64 {
        let (count, apart) = (measured as f64, self.moved.max(ENVIRONMENT_DEVIATION.powi(2)) + self.noise[pool].full);
        let together = count * LEVEL_DEVIATION.powi(2);
        together / (together + apart)
    }

    /// Levels along linked pools: where nothing was measured, in line with what was to both sides.
    fn place_chain(&mut self, first: usize, levels: &[Option<f64>], overall: f64) {
        let chain: Vec<usize> = std::iter::successors(Some(first), |pool| self.next_pool[*pool]).collect();
        let known: Vec<(usize, f64)> =
            chain.iter().enumerate().filter_map(|(place, pool)| Some((place, levels[*pool]?))).collect();
        for (place, pool) in chain.into_iter().enumerate() {
            let right = known.iter().find(|(known, _)| place <= *known);
            let left = known.iter().rev().find(|(known, _)| *known <= place);
            self.level[pool] = match (left, right) {
                (Some((from, low)), Some((to, high))) if from < to => {
                    low + (high - low) * (place - from) as f64 / (to - from) as f64
                }
                (Some((_, level)), _) | (None, Some((_, level))) => *level,
                (None, None) => overall,
            };
        }
    }

    fn learn_groups(&mut self) {
        let mut differences: Vec<Vec<(f64, f64)>> = vec![Vec::new(); self.groups.len()];
        for link in &self.links {
            let (from, to) = (self.cells[link.from].pool, self.cells[link.to].pool);
            self.groups[link.group].step = self.level[to] - self.level[from];
        }
        for link in &self.links {
            let (from, to) = (&self.cells[link.from], &self.cells[link.to]);
            if from.samples.is_empty() || to.samples.is_empty() {
                continue;
            }
            let difference = mean_of(to.own) - mean_of(from.own) - link.offset;
            let noise = 1.0 / from.own.precision.max(1e-9) + 1.0 / to.own.precision.max(1e-9) + link.slack;
            if from.own.precision > 0.0 && to.own.precision > 0.0 {
                differences[link.group].push((difference, noise));
            }
        }
        for (group, differences) in self.groups.iter_mut().zip(&differences) {
            let values: Vec<f64> = differences.iter().map(|(difference, _)| *difference).collect();
            let Some(center) = crate::stats::median(&values) else {
                // No choice was measured at both ends: all that is known is how far apart the points as such are.
                group.mean = group.step;
                continue;
            };
            let count = values.len() as f64;
            group.mean = center * count / (count + group.pull);
            let (mut sum, mut weights) = (PRIOR_WEIGHT * group.prior_variance, PRIOR_WEIGHT);
            for (difference, noise) in differences {
                let square = (difference - group.mean).powi(2);
                let weight = (TAIL + 1.0) / (TAIL + square / (group.variance + noise));
                sum += (weight * square - noise).max(0.0);
                weights += 1.0;
            }
            group.variance = (sum / weights).max(LEAST_VARIANCE);
        }
    }

    /// Pools the scatter within cells over each point, drawn to the scatter over all points.
    fn learn_noise(&mut self) {
        let mut pools = vec![(0.0, 0.0, 0.0); self.noise.len()];
        for cell in self.cells.iter().filter(|cell| cell.samples.len() > 1) {
            let center = crate::stats::median(&cell.samples).unwrap_or_default();
            let pool = &mut pools[cell.pool];
            for sample in &cell.samples {
                // Tails count in full for the noise: with few samples a bimodal cell must look as uncertain as it is.
                let square = (sample - center).powi(2);
                pool.0 += square;
                pool.1 += tail_weight(square, self.noise[cell.pool].core) * square;
            }
            pool.2 += cell.samples.len() as f64 - 1.0;
        }
        let all = pools.iter().fold((0.0, 0.0, 0.0), |sum, p| (sum.0 + p.0, sum.1 + p.1, sum.2 + p.2));
        let prior = PRIOR_WEIGHT * PRIOR_NOISE * PRIOR_NOISE;
        let overall = |sum: f64| (prior + sum) / (PRIOR_WEIGHT + all.2);
        let overall = Noise { full: overall(all.0), core: overall(all.1) };
        for (index, (full, core, count)) in pools.into_iter().enumerate() {
            let (prior, weight) =
                self.taught_noise[index].map_or((overall, PRIOR_WEIGHT), |noise| (noise, TAUGHT_WEIGHT));
            let pooled = |prior: f64, sum: f64| ((weight * prior + sum) / (weight + count)).max(LEAST_VARIANCE);
            self.noise[index] = Noise { full: pooled(prior.full, full), core: pooled(prior.core, core) };
        }
        for cell in &mut self.cells {
            let center = crate::stats::median(&cell.samples).unwrap_or_default();
            let scatter: f64 = cell.samples.iter().map(|sample| (sample - center).powi(2)).sum();
            let others = CELL_WEIGHT * self.noise[cell.pool].full;
            let samples = (cell.samples.len() as f64 - 1.0).max(0.0);
            cell.noise = ((others + scatter) / (CELL_WEIGHT + samples)).max(LEAST_VARIANCE);
        }
    }

    fn weigh_samples(&mut self) {
        for cell in &mut self.cells {
            let (variance, core) = (cell.noise, self.noise[cell.pool].core);
            let Some(center) = crate::stats::median(&cell.samples) else { continue };
            // With one or two samples the median cannot tell an outlier; the field's own belief helps, but only where it
            // stands on samples of the same pool: what it says of a size that was never measured may be ten times off, and of
            // a cell that rested it says nothing.
            let says_nothing = !self.grounded[cell.pool] || cell.total.precision <= VAGUE;
            let center = if cell.samples.len() > 2 || says_nothing {
                center
            } else {
                0.5 * (center + cell.total.shift / cell.total.precision)
            };
            let weights = cell.samples.iter().map(|sample| tail_weight((sample - center).powi(2), core));
            let weights: Vec<f64> = weights.collect();
            let precision = weights.iter().sum::<f64>() / variance;
            let weighted = || {
                let sum: f64 = weights.iter().zip(&cell.samples).map(|(weight, sample)| weight * sample).sum();
                sum / variance / precision
            };
            let mean = crate::stats::location(&cell.samples).unwrap_or_else(weighted);
            cell.own = Message { precision, shift: precision * mean };
        }
    }

    /// How far choices moved against each other from where the other environment had them.
    fn learn_moved(&mut self) {
        let known = self.moved.max(ENVIRONMENT_DEVIATION.powi(2));
        let mut counts = vec![0.0_f64; self.level.len()];
        let taught = || self.cells.iter().filter(|cell| 0.0 < cell.own.precision && cell.prior.is_some());
        taught().for_each(|cell| counts[cell.pool] += 1.0);
        let (mut sum, mut weights) = (PRIOR_WEIGHT * ENVIRONMENT_DEVIATION.powi(2), PRIOR_WEIGHT);
        for cell in taught() {
            let Some(prior) = cell.prior else { continue };
            let square = (mean_of(cell.own) - prior.mean - self.level[cell.pool]).powi(2);
            let noise = 1.0 / cell.own.precision + prior.variance;
            // The level follows the cells: a single one is where it is.
            let free = 1.0 - 1.0 / counts[cell.pool];
            sum += (tail_weight(square, known + noise) * square - free * noise).max(0.0);
            weights += free;
        }
        self.moved = sum / weights;
    }

    fn propagate(&mut self) {
        for cell in &mut self.cells {
            let level = self.level[cell.pool];
            let (mean, precision) =
                cell.prior.map_or((level, VAGUE), |prior| (prior.mean + level, 1.0 / (prior.variance + self.moved)));
            cell.total.precision = cell.own.precision + precision;
            cell.total.shift = cell.own.shift + precision * mean;
        }
        for link in &self.links {
            add(&mut self.cells[link.to].total, link.forward);
            add(&mut self.cells[link.from].total, link.backward);
        }
        for _ in 0..SWEEPS {
            for index in 0..self.links.len() {
                self.pass(index);
            }
            for index in (0..self.links.len()).rev() {
                self.pass(index);
            }
        }
    }

    /// Keeps links from the last word: samples enough speak for themselves, and what was not measured is not far off what
    /// was at the same point.
    fn bound(&mut self) {
        let mut spans = vec![(f64::INFINITY, f64::NEG_INFINITY); self.level.len()];
        for index in 0..self.cells.len() {
            let cell = &mut self.cells[index];
            cell.bounds = (f64::NEG_INFINITY, f64::INFINITY);
            if cell.samples.is_empty() {
                continue;
            }
            if OUTSPOKEN <= cell.samples.len() && 0.0 < cell.own.precision {
                let (center, error) = (mean_of(cell.own), 2.0 / cell.own.precision.sqrt());
                cell.bounds = (center - error, center + error);
            }
            let pool = cell.pool;
            let mean = self.belief(index).mean;
            spans[pool] = (spans[pool].0.min(mean), spans[pool].1.max(mean));
        }
        for cell in self.cells.iter_mut().filter(|cell| cell.samples.is_empty()) {
            let (lowest, highest) = spans[cell.pool];
            if lowest <= highest {
                cell.bounds = (lowest - REACH, highest + REACH);
            }
        }
    }

    /// Renews both messages of a link and the beliefs at its ends.
    fn pass(&mut self, index: usize) {
        let link = &mut self.links[index];
        if self.cells[link.from].rests || self.cells[link.to].rests {
            return;
        }
        let group = &self.groups[link.group];
        let (from, to) = (self.cells[link.from].total, self.cells[link.to].total);
        let difference = link.offset + group.mean;
        let gap = mean_of(to) - mean_of(from) - difference;
        let spread = group.variance + link.slack + 1.0 / from.precision.max(1e-9) + 1.0 / to.precision.max(1e-9);
        // A link that is clearly broken pulls less. Only samples at both ends can show that: where an end has none, its
        // belief is the links' own word, and a wrong one would cut itself loose from what could correct it.
        let shown = self.cells[link.from].taken > 0 && self.cells[link.to].taken > 0;
        let broken = if shown { (TAIL + gap * gap / spread) / (TAIL + 1.0) } else { 1.0 };
        let variance = (group.variance + link.slack) * broken.max(1.0);
        let forward = through(minus(from, link.backward), difference, variance);
        let backward = through(minus(to, link.forward), -difference, variance);
        add(&mut self.cells[link.to].total, minus(forward, link.forward));
        add(&mut self.cells[link.from].total, minus(backward, link.backward));
        (link.forward, link.backward) = (forward, backward);
    }
}

/// Weight of a sample at this squared distance, by a Student-t distribution.
fn tail_weight(square: f64, variance: f64) -> f64 {
    (TAIL + 1.0) / (TAIL + square / variance)
}

fn mean_of(message: Message) -> f64 {
    if message.precision > 0.0 { message.shift / message.precision } else { 0.0 }
}

fn minus(left: Message, right: Message) -> Message {
    Message { precision: left.precision - right.precision, shift: left.shift - right.shift }
}

fn add(total: &mut Message, message: Message) {
    total.precision += message.precision;
    total.shift += message.shift;
}

/// What `cavity` says about the other end of a link.
fn through(cavity: Message, difference: f64, variance: f64) -> Message {
    if cavity.precision <= 0.0 {
        return Message::default();
    }
    let precision = 1.0 / (1.0 / cavity.precision + variance);
    Message { precision, shift: precision * (cavity.shift / cavity.precision + difference) }
}

#[cfg(test)]
mod tests;
