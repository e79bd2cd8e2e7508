//! Regret of the race on a recorded grid, by budget: `replay_regret GRID.csv [SEEDS]`.

use std::collections::BTreeMap;

use gdrtune_profiles::vocab::{Choice, Environment, Point};
use gdrtune_tuner::{
    bench::{Bench, Cancel, Item, Outcome, Script, Setup},
    objective::WeightedPoint,
    race::{Quarantine, Race, RaceConfig},
    replay::{Cells, Grid, Replay, ReplayConfig},
    stats,
};

const BUDGETS: [u64; 5] = [400, 750, 1_500, 3_750, 6_750];

#[expect(clippy::print_stdout, reason = "an example reports on stdout")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("name a grid: replay_regret GRID.csv [SEEDS]")?;
    let seeds: u64 = arguments.next().map_or(Ok(20), |text| text.parse())?;
    let grid = Grid::parse(&std::fs::read_to_string(path)?)?;
    for (environment, cells) in &grid.environments {
        println!("{environment}");
        println!("{:>8} {:>8} {:>8} {:>8}", "budget", "ours", "equal", "used");
        for budget in BUDGETS {
            let (mut ours, mut equal, mut used) = (Vec::new(), Vec::new(), Vec::new());
            for seed in 0..seeds {
                let (picks, trials) = race(&grid, environment, seed, budget)?;
                ours.push(regret(cells, &picks));
                used.push(trials as f64);
                equal.push(regret(cells, &equal_repeats(&grid, environment, seed, budget)?));
            }
            let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
            let percent = |values: &[f64]| 100.0 * (mean(values) - 1.0);
            println!("{budget:>8} {:>7.2}% {:>7.2}% {:>8.0}", percent(&ours), percent(&equal), mean(&used));
            if std::env::var_os("BY_POINT").is_some() && budget == 1_500 {
                by_point(&grid, environment, cells, seeds, budget)?;
            }
        }
    }
    Ok(())
}

type Picks = BTreeMap<Point, Choice>;

fn bench(grid: &Grid, environment: &Environment, seed: u64) -> Replay {
    let config = ReplayConfig { seed: seed + 1_000, nodes: 4, ranks: 4, start_s: 1.0, read_deployment: None };
    Replay::new(grid.clone(), environment.clone(), config)
}

fn race(
    grid: &Grid,
    environment: &Environment,
    seed: u64,
    budget: u64,
) -> Result<(Picks, u64), Box<dyn std::error::Error>> {
    let mut bench = bench(grid, environment, seed);
    let points = WeightedPoint::equal(grid.points());
    let mut race = Race::new(&points, &grid.choices(), RaceConfig::standard(seed), None, Quarantine::default());
    // The default arm's share of the budget.
    let mut trials = points.len() as u64;
    while let Some(mut items) = race.next() {
        items.truncate(budget.saturating_sub(trials) as usize);
        if items.is_empty() {
            break;
        }
        let script = Script { setup: Setup::Live(Environment::new()), fresh: false, items };
        bench.run(&script, &Cancel::new(), &mut |sample| {
            trials += u64::from(!matches!(sample.outcome, Outcome::Unsupported(_)));
            race.tell(&sample);
        })?;
    }
    Ok((race.picks().iter().filter_map(|pick| Some((pick.point, pick.choice?))).collect(), trials))
}

fn equal_repeats(
    grid: &Grid,
    environment: &Environment,
    seed: u64,
    budget: u64,
) -> Result<Picks, Box<dyn std::error::Error>> {
    let cells = &grid.environments[environment];
    let mut bench = bench(grid, environment, seed);
    let repeats = (budget as f64 / cells.len() as f64).floor().max(1.0) as u32;
    let items: Vec<Item> = cells
        .keys()
        .filter(|(_, choice)| choice.is_some())
        .map(|(point, choice)| Item { point: *point, choice: *choice, repeats })
        .collect();
    let script = Script { setup: Setup::Live(Environment::new()), fresh: false, items };
    let mut times: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
    bench.run(&script, &Cancel::new(), &mut |sample| {
        if let Outcome::Timed(timing) = sample.outcome {
            times.entry(sample.item).or_default().push(timing.time_us);
        }
    })?;
    let mut best: BTreeMap<Point, (f64, Choice)> = BTreeMap::new();
    for (item, times) in times {
        let (Some(choice), Some(time)) = (script.items[item].choice, stats::median(&times)) else { continue };
        let entry = best.entry(script.items[item].point).or_insert((f64::INFINITY, choice));
        if time < entry.0 {
            *entry = (time, choice);
        }
    }
    Ok(best.into_iter().map(|(point, (_, choice))| (point, choice)).collect())
}

fn truth(cells: &Cells, point: Point, choice: Choice) -> Option<f64> {
    let means: Vec<f64> = cells.get(&(point, Some(choice)))?.iter().map(|record| record.mean_us).collect();
    stats::median(&means)
}

fn point_regret(cells: &Cells, point: Point, choice: Choice) -> Option<f64> {
    let all = cells.keys().filter(|(other, _)| *other == point);
    let best = all.filter_map(|(point, choice)| truth(cells, *point, (*choice)?)).fold(f64::INFINITY, f64::min);
    Some(truth(cells, point, choice)? / best)
}

fn regret(cells: &Cells, picks: &Picks) -> f64 {
    let ratios: Vec<f64> = picks.iter().filter_map(|(point, choice)| point_regret(cells, *point, *choice)).collect();
    stats::geometric_mean(&ratios).unwrap_or(f64::NAN)
}

#[expect(clippy::print_stdout, reason = "an example reports on stdout")]
fn by_point(
    grid: &Grid,
    environment: &Environment,
    cells: &Cells,
    seeds: u64,
    budget: u64,
) -> Result<(), Box<dyn std::error::Error>> {
    let mut sums: BTreeMap<Point, f64> = BTreeMap::new();
    for seed in 0..seeds {
        for (point, choice) in race(grid, environment, seed, budget)?.0 {
            *sums.entry(point).or_default() += point_regret(cells, point, choice).map_or(0.0, f64::ln) / seeds as f64;
        }
    }
    for (point, sum) in sums {
        println!("  {point:<24} {:>6.2}%", 100.0 * sum);
    }
    Ok(())
}
