//! The race's belief about every cell: a Gaussian Markov field over log times.
//!
//! A cell is one choice at one point. Cells of neighbouring sizes (same choice) and of neighbouring channel counts (same
//! point, algorithm and protocol) are linked: the *difference* of two linked log times is near the typical difference
//! of its group, by the group's spread; both are learned from the cells that were measured. Samples have Student-t noise,
//! so a stall moves a belief little. Where another environment taught a cell's time, links compare how far cells have
//! moved from that instead: a choice that breaks down at some size does so in every environment. Beliefs are found by
//! Gaussian belief propagation, a few sweeps from where the last ones ended: linear in cells, links and kept samples.
//!
//! Must not know choices, points or budgets: cells, links and groups are numbers here.

mod learn;
mod message;

use self::message::Message;

/// Degrees of freedom of the sample noise and of the links: heavy tails, finite variance.
const TAIL: f64 = 4.0;
/// Samples kept per cell; older ones make room (drift), far more than a close race needs. Few must not be kept: a cell with several
/// modes is then sampled until the kept ones are lucky. With 64, 37 of 60 replayed searches of 8,000 draws ended in a wrong environment,
/// with 1,024, 12.
const KEPT: usize = 1024;
/// Sweeps of belief propagation per update; messages are kept from update to update.
const SWEEPS: usize = 3;
/// Noise of one sample before anything is known (log units); typical of small sizes in the recorded grids.
pub(crate) const PRIOR_NOISE: f64 = 0.12;
/// Precision of a cell that nothing is known about: a factor of e^3 up or down.
const VAGUE: f64 = 0.1;
/// From this many samples on, a cell's belief stays within two standard errors of what they say themselves.
const OUTSPOKEN: usize = 3;
/// How far beyond all measured cells of its point an unmeasured one is believed to be at most: five usual deviations of
/// a link, and more than makes a choice hopeless.
const REACH: f64 = 1.5;

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

    fn propagate(&mut self) {
        for cell in &mut self.cells {
            let level = self.level[cell.pool];
            let (mean, precision) =
                cell.prior.map_or((level, VAGUE), |prior| (prior.mean + level, 1.0 / (prior.variance + self.moved)));
            cell.total.precision = cell.own.precision + precision;
            cell.total.shift = cell.own.shift + precision * mean;
        }
        for link in &self.links {
            self.cells[link.to].total.add(link.forward);
            self.cells[link.from].total.add(link.backward);
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
                let (center, error) = (cell.own.mean(), 2.0 / cell.own.precision.sqrt());
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
        let gap = to.mean() - from.mean() - difference;
        let spread = group.variance + link.slack + 1.0 / from.precision.max(1e-9) + 1.0 / to.precision.max(1e-9);
        // A link that is clearly broken pulls less. Only samples at both ends can show that: where an end has none, its
        // belief is the links' own word, and a wrong one would cut itself loose from what could correct it.
        let shown = self.cells[link.from].taken > 0 && self.cells[link.to].taken > 0;
        let broken = if shown { (TAIL + gap * gap / spread) / (TAIL + 1.0) } else { 1.0 };
        let variance = (group.variance + link.slack) * broken.max(1.0);
        let forward = from.without(link.backward).through(difference, variance);
        let backward = to.without(link.forward).through(-difference, variance);
        self.cells[link.to].total.add(forward.without(link.forward));
        self.cells[link.from].total.add(backward.without(link.backward));
        (link.forward, link.backward) = (forward, backward);
    }
}

#[cfg(test)]
mod tests;
