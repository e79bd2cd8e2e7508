//! The game that all contestants play: draws from a recorded grid within a budget, then one pick per point.
//!
//! A draw is one recorded repeat of a cell, uniformly with replacement, through the replay bench, which never tells how many
//! repeats there are. The truth of a cell is the median over all its repeats; only [`Game::regret`] and the oracle look at it.

use std::{cmp::Ordering, collections::BTreeMap};

use gdrtune_profiles::vocab::{Choice, Environment, Point};
use gdrtune_tuner::{
    bench::{Bench, BenchError, BenchInfo, Cancel, Item, Outcome, Sample, Script, Setup},
    replay::{Cells, Grid, Replay, ReplayConfig},
    stats,
};

/// One choice at one point.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cell {
    pub(crate) point: Point,
    pub(crate) choice: Choice,
    /// Median of all its repeats over that of the point's best cell.
    pub(crate) ratio: f64,
}

/// A grid without environments, and its truth.
pub(crate) struct Game {
    pub(crate) grid: Grid,
    pub(crate) cells: Vec<Cell>,
    /// Cells of each point, in order of the points.
    pub(crate) points: Vec<Vec<usize>>,
    index: BTreeMap<(Point, Choice), usize>,
}

/// The pick per point of a game, in order of the points; `None` where nothing was picked.
pub(crate) type Picks = Vec<Option<usize>>;

/// Median of a recorded cell, in microseconds.
pub(crate) fn truth(cells: &Cells, point: Point, choice: Choice) -> Option<f64> {
    let means: Vec<f64> = cells.get(&(point, Some(choice)))?.iter().map(|record| record.mean_us).collect();
    stats::median(&means)
}

impl Game {
    /// Plays on the first environment of the grid, which for most grids is the only one.
    pub(crate) fn new(grid: Grid) -> Self {
        let recorded = grid.environments.values().next().cloned().unwrap_or_default();
        let (mut cells, mut points) = (Vec::new(), Vec::new());
        for point in grid.points() {
            let choices = recorded.keys().filter(|(other, _)| *other == point).filter_map(|(_, choice)| *choice);
            let timed: Vec<(Choice, f64)> =
                choices.filter_map(|choice| Some((choice, truth(&recorded, point, choice)?))).collect();
            let best = timed.iter().map(|(_, truth)| *truth).fold(f64::INFINITY, f64::min);
            let first = cells.len();
            cells.extend(timed.into_iter().map(|(choice, truth)| Cell { point, choice, ratio: truth / best }));
            points.push((first..cells.len()).collect());
        }
        let index = cells.iter().enumerate().map(|(index, cell)| ((cell.point, cell.choice), index)).collect();
        Self { grid, cells, points, index }
    }

    /// The cell of a choice at a point.
    pub(crate) fn cell(&self, point: Point, choice: Choice) -> Option<usize> {
        self.index.get(&(point, choice)).copied()
    }

    /// All recorded repeats of a cell, sorted: for the oracle only.
    pub(crate) fn repeats(&self, cell: usize) -> Vec<f64> {
        let Cell { point, choice, .. } = self.cells[cell];
        let recorded = self.grid.environments.values().next().and_then(|cells| cells.get(&(point, Some(choice))));
        let mut times: Vec<f64> = recorded.into_iter().flatten().map(|record| record.mean_us).collect();
        times.sort_by(f64::total_cmp);
        times
    }

    /// Geometric mean over points of the picks' truth over the best truth, less one. A point without a pick counts as its
    /// slowest cell.
    pub(crate) fn regret(&self, picks: &[Option<usize>]) -> f64 {
        let slowest = |cells: &Vec<usize>| cells.iter().map(|cell| self.cells[*cell].ratio).fold(1.0, f64::max);
        let ratios: Vec<f64> = self
            .points
            .iter()
            .zip(picks)
            .map(|(cells, pick)| pick.map_or_else(|| slowest(cells), |cell| self.cells[cell].ratio))
            .collect();
        stats::geometric_mean(&ratios).unwrap_or(f64::NAN) - 1.0
    }
}

/// How a pick is made of the samples where a contestant has no rule of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rule {
    /// The contestant's own pick.
    Own,
    /// Lowest median.
    Median,
    /// Lowest mean.
    Mean,
    /// Lowest single sample: what is noisy here is slow.
    Fastest,
    /// Lowest median among the cells with three samples or more, if there are any.
    Seasoned,
}

impl Rule {
    pub(crate) const ALL: [Self; 5] = [Self::Own, Self::Median, Self::Mean, Self::Fastest, Self::Seasoned];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Own => "own pick",
            Self::Median => "by median",
            Self::Mean => "by mean",
            Self::Fastest => "by fastest",
            Self::Seasoned => "by median of 3 or more",
        }
    }

    /// The estimate of a cell that contestants go by; infinite without samples.
    pub(crate) fn estimate(self, samples: &[f64]) -> f64 {
        if samples.is_empty() {
            return f64::INFINITY;
        }
        match self {
            Self::Mean => samples.iter().sum::<f64>() / samples.len() as f64,
            Self::Fastest => samples.iter().copied().fold(f64::INFINITY, f64::min),
            Self::Own | Self::Median | Self::Seasoned => stats::median(samples).unwrap_or(f64::INFINITY),
        }
    }
}

/// One contestant's play.
pub(crate) struct Play<'a> {
    pub(crate) game: &'a Game,
    bench: Replay,
    /// Draws that are left, those of the default arm included.
    pub(crate) left: u64,
    pub(crate) samples: Vec<Vec<f64>>,
    /// Cells that may still be picked by the rules.
    pub(crate) open: Vec<bool>,
    /// The contestant's own pick, where it makes one.
    pub(crate) own: Picks,
}

impl<'a> Play<'a> {
    pub(crate) fn new(game: &'a Game, budget: u64, seed: u64) -> Self {
        let site = game.grid.environments.keys().next().cloned().unwrap_or_default();
        // The bench's draws are not the contestant's: it must not see them coming.
        let config = ReplayConfig { seed: seed + 1_000, nodes: 4, ranks: 4, start_s: 1.0, read_deployment: None };
        Self {
            game,
            bench: Replay::new(game.grid.clone(), site, config),
            left: budget,
            samples: vec![Vec::new(); game.cells.len()],
            open: vec![true; game.cells.len()],
            own: vec![None; game.points.len()],
        }
    }

    /// Draws a time of the cell, unless the budget is out.
    pub(crate) fn draw(&mut self, cell: usize) -> Option<f64> {
        let Cell { point, choice, .. } = self.game.cells[cell];
        let items = vec![Item { point, choice: Some(choice), repeats: 1 }];
        let script = Script { setup: Setup::Live(Environment::new()), fresh: false, items };
        let mut time = None;
        self.run(&script, &Cancel::new(), &mut |sample| {
            if let Outcome::Timed(timing) = sample.outcome {
                time = Some(timing.time_us);
            }
        })
        .ok()?;
        time
    }

    /// Draws until `repeats` were drawn or the budget is out.
    pub(crate) fn draw_times(&mut self, cell: usize, repeats: u64) {
        for _ in 0..repeats.min(self.left) {
            self.draw(cell);
        }
    }

    pub(crate) fn estimate(&self, cell: usize, rule: Rule) -> f64 {
        rule.estimate(&self.samples[cell])
    }

    pub(crate) fn by_estimate(&self, rule: Rule) -> impl Fn(&usize, &usize) -> Ordering {
        move |a, b| self.estimate(*a, rule).total_cmp(&self.estimate(*b, rule))
    }

    /// The picks by a rule; `None` if the contestant has no such.
    pub(crate) fn picks(&self, rule: Rule) -> Option<Picks> {
        if rule == Rule::Own {
            return self.own.iter().any(Option::is_some).then(|| self.own.clone());
        }
        let pick = |cells: &Vec<usize>| {
            let sampled = |least: usize| {
                let cells = cells.iter().copied();
                cells.filter(move |cell| self.open[*cell] && least <= self.samples[*cell].len())
            };
            let seasoned = sampled(3).min_by(self.by_estimate(rule)).filter(|_| rule == Rule::Seasoned);
            seasoned.or_else(|| sampled(1).min_by(self.by_estimate(rule)))
        };
        Some(self.game.points.iter().map(pick).collect())
    }

    /// What the bench of a search over this game offers.
    pub(crate) fn space(&self) -> gdrtune_tuner::space::Space {
        self.bench.space()
    }
}

/// Every draw of every contestant comes this way, and is counted here.
impl Bench for Play<'_> {
    fn info(&self) -> BenchInfo {
        self.bench.info()
    }

    fn now_s(&self) -> f64 {
        self.bench.now_s()
    }

    fn run(&mut self, script: &Script, cancel: &Cancel, sink: &mut dyn FnMut(Sample)) -> Result<(), BenchError> {
        let draws: u64 = script.items.iter().map(|item| u64::from(item.repeats)).sum();
        if self.left < draws {
            return Err(BenchError::Lost("the budget is out".into()));
        }
        let (game, samples, left) = (self.game, &mut self.samples, &mut self.left);
        self.bench.run(script, cancel, &mut |sample| {
            *left -= u64::from(!matches!(sample.outcome, Outcome::Unsupported(_)));
            let item = &script.items[sample.item];
            if let (Outcome::Timed(timing), Some(choice)) = (&sample.outcome, item.choice)
                && let Some(cell) = game.cell(item.point, choice)
            {
                samples[cell].push(timing.time_us);
            }
            sink(sample);
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn game() -> Game {
        let rows = "collective,bytes,algorithm,protocol,channels,mean_us\n\
            allreduce,1024,ring,ll,1,10\nallreduce,1024,ring,ll,1,20\nallreduce,1024,ring,ll,1,90\n\
            allreduce,1024,ring,ll,2,40\nallreduce,1024,default,default,0,1\n\
            allreduce,4096,ring,ll,1,50\nallreduce,4096,ring,ll,2,25\n";
        Game::new(Grid::parse(rows).unwrap())
    }

    #[test]
    fn regret_is_the_geometric_mean_of_truths_over_the_best() {
        let game = game();
        assert_eq!(game.points, [vec![0, 1], vec![2, 3]]);
        assert!(game.regret(&[Some(0), Some(3)]).abs() < 1e-12);
        assert!((game.regret(&[Some(1), Some(3)]) - (2f64.sqrt() - 1.0)).abs() < 1e-12);
        assert!((game.regret(&[None, Some(2)]) - 1.0).abs() < 1e-12, "no pick counts as the slowest");
    }

    #[test]
    fn draws_are_counted_and_end_with_the_budget() {
        let game = game();
        let mut play = Play::new(&game, 4, 1);
        play.draw_times(3, 3);
        assert_eq!((play.left, play.samples[3].len(), play.samples[3][0]), (1, 3, 25.0));
        assert!([10.0, 20.0, 90.0].contains(&play.draw(0).unwrap()));
        assert_eq!((play.draw(1), play.samples[1].len()), (None, 0));
    }

    #[test]
    fn rules_pick_as_they_are_named() {
        let game = game();
        let mut play = Play::new(&game, 0, 1);
        play.samples = vec![vec![10.0, 11.0, 90.0], vec![20.0, 21.0], vec![50.0], vec![]];
        assert_eq!(play.picks(Rule::Median), Some(vec![Some(0), Some(2)]));
        assert_eq!(play.picks(Rule::Mean), Some(vec![Some(1), Some(2)]));
        assert_eq!(play.picks(Rule::Fastest), Some(vec![Some(0), Some(2)]));
        assert_eq!(play.picks(Rule::Own), None);
        play.samples[1] = vec![1.0];
        assert_eq!(play.picks(Rule::Median), Some(vec![Some(1), Some(2)]));
        assert_eq!(play.picks(Rule::Seasoned), Some(vec![Some(0), Some(2)]));
        play.open[0] = false;
        assert_eq!(play.picks(Rule::Seasoned), Some(vec![Some(1), Some(2)]));
    }
}
