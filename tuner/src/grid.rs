//! Measures every choice at every point: the exhaustive counterpart of the race, for data that is kept.
//!
//! Each pass takes every cell once, shuffled, so that a machine's mood spreads over all of them. The first pass goes from
//! small sizes to large ones, so that what is hopeless there need not be waited for at larger ones. Must not do IO.

use std::collections::{BTreeMap, BTreeSet};

use gdrtune_profiles::vocab::{Choice, Collective, Point};
use rand::{SeedableRng, rngs::SmallRng, seq::SliceRandom};

use crate::bench::{Bench, BenchError, Cancel, Item, Outcome, Script, Setup, Timing};

/// A choice that takes this many times as long as the best ...
const HOPELESS_FACTOR: f64 = 20.0;

/// ... at this many neighbouring sizes is not run at larger ones.
const HOPELESS_SIZES: u32 = 2;

/// Items of one script at most, so that a cancel or a full disk is noticed.
const MOST_ITEMS: usize = 256;

/// What is measured.
#[derive(Debug, Clone, PartialEq)]
pub struct GridPlan {
    /// Collectives and sizes.
    pub points: Vec<Point>,
    /// Choices of each collective, beside the engine's own.
    pub choices: BTreeMap<Collective, Vec<Choice>>,
    /// Samples of each cell.
    pub repeats: u32,
    /// What the workers run with. It must take choices.
    pub setup: Setup,
    /// Seed of the order.
    pub seed: u64,
}

/// What comes of it.
#[derive(Debug, Clone, PartialEq)]
pub enum GridNote {
    /// A sample.
    Timed {
        /// Pass that it belongs to, from 0.
        repeat: u32,
        /// Collective and size.
        point: Point,
        /// What ran; `None` for the engine's own choice.
        choice: Option<Choice>,
        /// Its times.
        timing: Timing,
    },
    /// A cell that has no sample, or no further ones.
    LeftOut {
        /// Collective and size.
        point: Point,
        /// What was to run.
        choice: Option<Choice>,
        /// Why, for people.
        why: String,
        /// Whether something is wrong there, rather than only slow or unsupported.
        is_failure: bool,
    },
}

/// Collective, size and choice.
type Cell = (Point, Option<Choice>);

/// Measures the whole grid and hands what comes to `sink`.
///
/// # Errors
/// [`BenchError`] where the bench cannot go on.
pub fn measure(
    bench: &mut dyn Bench,
    plan: &GridPlan,
    cancel: &Cancel,
    sink: &mut dyn FnMut(GridNote),
) -> Result<(), BenchError> {
    let mut random = SmallRng::seed_from_u64(plan.seed);
    // How long calls take must be known for samples of full length, and the first calls of a process are slow.
    let first: Vec<Cell> = plan.points.iter().map(|&point| (point, None)).collect();
    run(bench, plan, &first, cancel, &mut |_, _| {})?;

    let mut knowledge = Knowledge::default();
    let mut cells: Vec<Cell> = Vec::new();
    let sizes: BTreeSet<u64> = plan.points.iter().map(|point| point.bytes).collect();
    for bytes in sizes {
        let mut at_size = knowledge.cells(plan, bytes, sink);
        at_size.shuffle(&mut random);
        run(bench, plan, &at_size, cancel, &mut |cell, outcome| knowledge.tell(0, cell, outcome, sink))?;
        knowledge.end_size(bytes);
        cells.extend(at_size);
    }
    for repeat in 1..plan.repeats {
        cells.retain(|cell| !knowledge.failed.contains(cell));
        cells.shuffle(&mut random);
        run(bench, plan, &cells, cancel, &mut |cell, outcome| knowledge.tell(repeat, cell, outcome, sink))?;
    }
    Ok(())
}

fn run(
    bench: &mut dyn Bench,
    plan: &GridPlan,
    cells: &[Cell],
    cancel: &Cancel,
    sink: &mut dyn FnMut(Cell, Outcome),
) -> Result<(), BenchError> {
    for part in cells.chunks(MOST_ITEMS) {
        let items = part.iter().map(|&(point, choice)| Item { point, choice, repeats: 1 }).collect();
        let script = Script { setup: plan.setup.clone(), fresh: false, items };
        bench.run(&script, cancel, &mut |sample| sink(part[sample.item], sample.outcome))?;
    }
    Ok(())
}

/// What the first pass has found so far.
#[derive(Debug, Default)]
struct Knowledge {
    times: BTreeMap<Cell, f64>,
    /// Neighbouring sizes, up to the last one, at which a choice was far behind.
    far_behind: BTreeMap<(Collective, Choice), u32>,
    /// Choices that ended their workers.
    deadly: BTreeSet<(Collective, Choice)>,
    failed: BTreeSet<Cell>,
}

impl Knowledge {
    /// What is worth running at a size.
    fn cells(&self, plan: &GridPlan, bytes: u64, sink: &mut dyn FnMut(GridNote)) -> Vec<Cell> {
        let mut cells = Vec::new();
        for &point in plan.points.iter().filter(|point| point.bytes == bytes) {
            cells.push((point, None));
            for &choice in plan.choices.get(&point.collective).into_iter().flatten() {
                match self.why_not((point.collective, choice)) {
                    None => cells.push((point, Some(choice))),
                    Some(why) => {
                        sink(GridNote::LeftOut { point, choice: Some(choice), why, is_failure: false });
                    }
                }
            }
        }
        cells
    }

    fn why_not(&self, what: (Collective, Choice)) -> Option<String> {
        if self.deadly.contains(&what) {
            return Some("it hung or crashed at a smaller size".to_owned());
        }
        let is_hopeless = self.far_behind.get(&what).is_some_and(|&sizes| HOPELESS_SIZES <= sizes);
        is_hopeless.then(|| {
            format!(
                "over {HOPELESS_FACTOR} times as long as the best at the {HOPELESS_SIZES} sizes below that it ran at"
            )
        })
    }

    fn tell(&mut self, repeat: u32, cell: Cell, outcome: Outcome, sink: &mut dyn FnMut(GridNote)) {
        let (point, choice) = cell;
        let is_deadly = matches!(outcome, Outcome::Hung(_) | Outcome::Crashed(_));
        let (why, is_failure) = match outcome {
            Outcome::Timed(timing) => {
                self.times.entry(cell).or_insert(timing.time_us);
                return sink(GridNote::Timed { repeat, point, choice, timing });
            }
            Outcome::Substituted { selected, .. } => (format!("{selected} ran instead"), false),
            Outcome::Unsupported(why) => (why, false),
            Outcome::Wrong(why) => (format!("wrong result: {why}"), true),
            Outcome::Hung(why) => (format!("hung: {why}"), true),
            Outcome::Crashed(why) => (why, true),
            Outcome::Skipped => ("it was skipped".to_owned(), false),
        };
        if let (true, Some(choice)) = (is_deadly, choice) {
            self.deadly.insert((point.collective, choice));
        }
        self.failed.insert(cell);
        sink(GridNote::LeftOut { point, choice, why, is_failure });
    }

    /// All cells of a size have run once.
    fn end_size(&mut self, bytes: u64) {
        let mut best: BTreeMap<Collective, f64> = BTreeMap::new();
        let at_size = || self.times.iter().filter(|((point, _), _)| point.bytes == bytes);
        for ((point, _), &time_us) in at_size() {
            let best = best.entry(point.collective).or_insert(time_us);
            *best = best.min(time_us);
        }
        for ((point, choice), &time_us) in at_size() {
            let Some(choice) = *choice else { continue };
            let sizes = self.far_behind.entry((point.collective, choice)).or_default();
            let is_far = best.get(&point.collective).is_some_and(|best| HOPELESS_FACTOR * best < time_us);
            *sizes = if is_far { *sizes + 1 } else { 0 };
        }
    }
}

#[cfg(test)]
mod tests {
    use gdrtune_profiles::vocab::{Algorithm, Engine, Environment, Protocol};

    use super::*;
    use crate::{
        bench::{BenchInfo, Sample},
        replay::{CSV_HEADER, Grid, csv_row},
    };

    const RING: Choice = Choice { algorithm: Algorithm::Ring, protocol: Protocol::Simple, channels: 2 };
    const SLOW: Choice = Choice { algorithm: Algorithm::Ring, protocol: Protocol::Ll, channels: 1 };
    const CRASHING: Choice = Choice { algorithm: Algorithm::Nvls, protocol: Protocol::Simple, channels: 4 };
    const CAPPED: Choice = Choice { algorithm: Algorithm::Ring, protocol: Protocol::Simple, channels: 16 };

    /// SLOW falls behind from 4096 on, CRASHING crashes from 1024 on, CAPPED runs with fewer channels.
    #[derive(Default)]
    struct Fake {
        ran: Vec<(Point, Option<Choice>)>,
    }

    impl Bench for Fake {
        fn info(&self) -> BenchInfo {
            BenchInfo { engine: Engine::Nccl, nodes: 1, ranks: 2 }
        }

        fn now_s(&self) -> f64 {
            0.0
        }

        fn run(&mut self, script: &Script, _: &Cancel, sink: &mut dyn FnMut(Sample)) -> Result<(), BenchError> {
            for (item, asked) in script.items.iter().enumerate() {
                self.ran.push((asked.point, asked.choice));
                let time_us = if asked.choice == Some(SLOW) && 4096 <= asked.point.bytes { 500.0 } else { 10.0 };
                let timing = Timing { iterations: 7, selected: asked.choice, ..Timing::even(time_us) };
                let outcome = match asked.choice {
                    Some(CRASHING) => Outcome::Crashed("signal 11".into()),
                    Some(CAPPED) => Outcome::Substituted { selected: RING, timing },
                    _ => Outcome::Timed(timing),
                };
                sink(Sample { item, process: 0, outcome });
            }
            Ok(())
        }
    }

    fn point(bytes: u64) -> Point {
        Point { collective: Collective::AllReduce, bytes }
    }

    fn plan(seed: u64) -> GridPlan {
        GridPlan {
            points: [1024, 4096, 16384, 65536, 262_144].map(point).to_vec(),
            choices: [(Collective::AllReduce, vec![RING, SLOW, CRASHING, CAPPED])].into(),
            repeats: 3,
            setup: Setup::Live(Environment::new()),
            seed,
        }
    }

    fn measured(seed: u64) -> (Vec<(Point, Option<Choice>)>, Vec<GridNote>) {
        let (mut bench, mut notes) = (Fake::default(), Vec::new());
        measure(&mut bench, &plan(seed), &Cancel::new(), &mut |note| notes.push(note)).unwrap();
        (bench.ran, notes)
    }

    #[test]
    fn every_cell_that_can_run_is_measured_in_every_pass() {
        let (ran, notes) = measured(1);
        let rows = |wanted: Option<Choice>| {
            let of = |note: &GridNote| match note {
                GridNote::Timed { repeat, point, choice, .. } if *choice == wanted => Some((point.bytes, *repeat)),
                _ => None,
            };
            notes.iter().filter_map(of).collect::<BTreeSet<_>>()
        };
        let all = |sizes: &[u64]| sizes.iter().flat_map(|&bytes| (0..3).map(move |repeat| (bytes, repeat))).collect();
        let sizes = [1024, 4096, 16384, 65536, 262_144];
        let whole: BTreeSet<(u64, u32)> = all(&sizes);
        assert_eq!((rows(None), rows(Some(RING))), (whole.clone(), whole));
        assert_eq!(rows(Some(SLOW)), all(&sizes[..3]), "far behind at two sizes");
        assert_eq!((rows(Some(CRASHING)), rows(Some(CAPPED))), (BTreeSet::new(), BTreeSet::new()));
        let runs = |wanted| ran.iter().filter(|(_, choice)| *choice == Some(wanted)).count();
        assert_eq!(
            (runs(CRASHING), runs(CAPPED)),
            (1, 5),
            "a crash is not repeated, what ran as another choice neither"
        );
        let failures = notes.iter().filter(|note| matches!(note, GridNote::LeftOut { is_failure: true, .. }));
        assert_eq!(failures.count(), 1);
        let why = |bytes, choice| {
            let of = |note: &GridNote| match note {
                GridNote::LeftOut { point: p, choice: c, why, .. } if *p == point(bytes) && *c == Some(choice) => {
                    Some(why.clone())
                }
                _ => None,
            };
            notes.iter().find_map(of).unwrap_or_default()
        };
        assert_eq!(why(4096, CRASHING), "it hung or crashed at a smaller size");
        assert_eq!(why(65536, SLOW), "over 20 times as long as the best at the 2 sizes below that it ran at");
        assert_eq!(why(1024, CAPPED), "ring/simple/2 ran instead");
    }

    #[test]
    fn the_order_is_the_seeds() {
        assert_eq!(measured(1).0, measured(1).0);
        assert_ne!(measured(1).0, measured(2).0);
    }

    #[test]
    fn rows_are_what_a_replay_reads() {
        let (_, notes) = measured(1);
        let mut text = format!("{CSV_HEADER}\n");
        for note in notes {
            if let GridNote::Timed { repeat, point, choice, timing } = note {
                text.push_str(&csv_row(repeat, point, choice, &timing));
                text.push('\n');
            }
        }
        let grid = Grid::parse(&text).unwrap();
        let cells = &grid.environments[&Environment::new()];
        assert_eq!(cells[&(point(1024), None)].len(), 3);
        let record = cells[&(point(16384), Some(SLOW))][0];
        assert_eq!((record.mean_us, record.iterations), (500.0, 7.0));
    }
}
