//! Two levels: how soon a search has found a good environment with good choices.
//!
//! For each number of environments, the search is run again with the same seed and told to finish once that many have a score: what it
//! then gives is what it held best at that moment.

use std::{collections::BTreeMap, error::Error, fmt::Write as _, ops::Range};

use gdrtune_profiles::vocab::{Choice, Environment, Point};
use gdrtune_tuner::{
    bench::Cancel,
    objective::WeightedPoint,
    observe::{Directive, Note, Observer},
    replay::{Grid, Replay, ReplayConfig},
    search::{Strategy, run_search},
    stats,
};

use crate::{
    game::truth,
    ours::plan,
    picks::{point_and_choice, rows},
};

const BUDGETS: [u64; 4] = [1_000, 2_000, 4_000, 8_000];
/// Within this of the best counts as found.
const FOUND: f64 = 1.03;
const HEADER: &str = "contestant,budget,seed,found_after,environments,starts,gap,environment_gap\n";

/// NCCL's own values where nothing is set: one thread, one socket, 4 MiB (the recorded grid's default arm).
fn site(grid: &Grid) -> Environment {
    let own = [("NCCL_SOCKET_NTHREADS", "1"), ("NCCL_NSOCKS_PERTHREAD", "1"), ("NCCL_BUFFSIZE", "4194304")];
    let own: Environment = own.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    if grid.environments.contains_key(&own) {
        own
    } else {
        grid.environments.keys().next().cloned().unwrap_or_default()
    }
}

/// What one search held best after so many environments.
struct Held {
    environments: u64,
    starts: u64,
    /// Its truth over the best truth of all environments and choices.
    gap: f64,
    /// The best truth of its environment over that of all: what remains of the gap is the choices' part.
    environment_gap: f64,
}

/// Geometric mean over points of the choices' truth, in microseconds; `None` where a point has no choice.
fn score_of(grid: &Grid, environment: &Environment, choices: &BTreeMap<Point, Choice>) -> Option<f64> {
    let cells = grid.environments.get(environment)?;
    let times: Vec<f64> =
        grid.points().into_iter().map(|point| truth(cells, point, *choices.get(&point)?)).collect::<Option<_>>()?;
    stats::geometric_mean(&times)
}

/// The best that an environment has; infinite if it is not in the grid.
fn best_score_of(grid: &Grid, environment: &Environment) -> f64 {
    let Some(cells) = grid.environments.get(environment) else { return f64::INFINITY };
    let best = |point: Point| {
        let choices = cells.keys().filter(|(other, _)| *other == point).filter_map(|(_, choice)| *choice);
        choices.filter_map(|choice| truth(cells, point, choice)).fold(f64::INFINITY, f64::min)
    };
    stats::geometric_mean(&grid.points().into_iter().map(best).collect::<Vec<_>>()).unwrap_or(f64::INFINITY)
}

/// The best that any environment has.
fn best_score(grid: &Grid) -> f64 {
    grid.environments.keys().map(|environment| best_score_of(grid, environment)).fold(f64::INFINITY, f64::min)
}

/// Ends a search once `most` environments have a score.
struct Limit {
    most: u64,
    scored: u64,
    /// Highest number of environments that it turned to.
    started: u64,
    starts: u64,
    process: Option<u32>,
}

impl Observer for Limit {
    fn note(&mut self, note: Note<'_>) {
        match note {
            Note::EnvironmentStarted { index, .. } => self.started = self.started.max(index as u64 + 1),
            Note::EnvironmentScored { index, .. } => self.scored = self.scored.max(index as u64 + 1),
            Note::Sample { sample, .. } if self.process != Some(sample.process) => {
                self.process = Some(sample.process);
                self.starts += 1;
            }
            _ => {}
        }
    }

    fn directive(&mut self) -> Directive {
        if self.most <= self.scored { Directive::Finish } else { Directive::Continue }
    }
}

fn held(grid: &Grid, strategy: Strategy, budget: u64, seed: u64, most: u64) -> Result<Held, Box<dyn Error>> {
    let site = site(grid);
    let config = ReplayConfig { seed: seed + 1_000, nodes: 4, ranks: 4, start_s: 1.5, read_deployment: None };
    let mut bench = Replay::new(grid.clone(), site.clone(), config);
    let plan = plan(WeightedPoint::equal(grid.points()), strategy, budget, seed);
    let space = bench.space();
    let mut limit = Limit { most, scored: 0, started: 0, starts: 0, process: None };
    let outcome = run_search(&mut bench, &space, &plan, &mut limit, &Cancel::new())?;
    let mut whole = site;
    whole.0.extend(outcome.environment.0.clone());
    let choices = outcome.points.iter().filter_map(|result| Some((result.pick.point, result.pick.choice?))).collect();
    let best = best_score(grid);
    let gap = score_of(grid, &whole, &choices).unwrap_or(f64::INFINITY) / best;
    let environment_gap = best_score_of(grid, &whole) / best;
    Ok(Held { environments: limit.started, starts: limit.starts, gap, environment_gap })
}

/// The first number of environments from which on what was held is good, and stays so; `None` if it ends off.
fn found_after(held: &[Held]) -> Option<u64> {
    held.iter().rev().take_while(|held| held.gap <= FOUND).last().map(|held| held.environments)
}

fn row(contestant: &str, budget: &str, seed: &str, held: &[Held]) -> String {
    let Some(last) = held.last() else { return String::new() };
    let found = found_after(held).map(|found| found.to_string()).unwrap_or_default();
    let Held { environments, starts, gap, environment_gap } = last;
    let (gap, environment_gap) = (gap - 1.0, environment_gap - 1.0);
    format!("{contestant},{budget},{seed},{found},{environments},{starts},{gap:.6},{environment_gap:.6}\n")
}

/// Strategies of ours (all, if none is named) at every budget and seed.
pub(crate) fn ours(grid: &Grid, seeds: Range<u64>, names: &[&str]) -> Result<String, Box<dyn Error>> {
    let mut text = String::from(HEADER);
    let all = grid.environments.len() as u64;
    for strategy in Strategy::ALL.into_iter().filter(|strategy| names.is_empty() || names.contains(&strategy.name())) {
        for budget in BUDGETS {
            for seed in seeds.clone() {
                let mut history = Vec::new();
                for most in (1..=all).chain([u64::MAX]) {
                    let next = held(grid, strategy, budget, seed, most)?;
                    let ended = next.environments < most;
                    history.push(next);
                    if ended && most < u64::MAX {
                        break;
                    }
                }
                write!(text, "{}", row(strategy.name(), &budget.to_string(), &seed.to_string(), &history))?;
            }
        }
    }
    Ok(text)
}

/// What other searches held, as CSV: `contestant,budget,seed,step,environments,starts,socket_nthreads,nsocks_perthread,buffsize,
/// collective,bytes,algorithm,protocol,channels`, one row per point, steps in order.
pub(crate) fn score(grid: &Grid, text: &str) -> Result<String, Box<dyn Error>> {
    let best = best_score(grid);
    let mut all: BTreeMap<[&str; 3], BTreeMap<u64, Step>> = BTreeMap::new();
    for row in rows(text, 14)? {
        let names = ["NCCL_SOCKET_NTHREADS", "NCCL_NSOCKS_PERTHREAD", "NCCL_BUFFSIZE"];
        let environment = names.iter().zip(&row[6..9]).map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let step = all.entry([row[0], row[1], row[2]]).or_default().entry(row[3].parse()?).or_default();
        (step.environments, step.starts) = (row[4].parse()?, row[5].parse()?);
        step.environment = environment.collect();
        step.choices.extend([point_and_choice(&row[9..])?]);
    }
    let mut out = String::from(HEADER);
    for ([contestant, budget, seed], steps) in all {
        let held: Vec<Held> = steps.into_values().map(|step| step.held(grid, best)).collect();
        write!(out, "{}", row(contestant, budget, seed, &held))?;
    }
    Ok(out)
}

#[derive(Default)]
struct Step {
    environments: u64,
    starts: u64,
    environment: Environment,
    choices: BTreeMap<Point, Choice>,
}

impl Step {
    fn held(self, grid: &Grid, best: f64) -> Held {
        let gap = score_of(grid, &self.environment, &self.choices).unwrap_or(f64::INFINITY) / best;
        let environment_gap = best_score_of(grid, &self.environment) / best;
        Held { environments: self.environments, starts: self.starts, gap, environment_gap }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROWS: &str = "socket_nthreads,nsocks_perthread,buffsize,collective,bytes,algorithm,protocol,channels,mean_us\n\
        1,1,1024,allreduce,8,ring,ll,1,100\n1,1,1024,allreduce,8,ring,ll,2,150\n1,1,1024,allreduce,16,ring,ll,1,100\n\
        2,1,1024,allreduce,8,ring,ll,1,50\n2,1,1024,allreduce,16,ring,ll,1,101\n";

    #[test]
    fn steps_are_scored_by_truth_and_found_at_the_first_good_one() {
        let grid = Grid::parse(ROWS).unwrap();
        assert!((best_score(&grid) - (50f64 * 101.0).sqrt()).abs() < 1e-9);
        let mut text = String::from("header\n");
        for (step, counts, threads, channels) in [(1, "1,1", 1, 2), (4, "3,3", 2, 1), (5, "7,9", 2, 1)] {
            for (bytes, channels) in [(8, channels), (16, 1)] {
                let cell = format!("{threads},1,1024,allreduce,{bytes},ring,ll,{channels}");
                text = format!("{text}TPE,1000,0,{step},{counts},{cell}\n");
            }
        }
        assert_eq!(score(&grid, &text).unwrap(), format!("{HEADER}TPE,1000,0,3,7,9,0.000000,0.000000\n"));
        let first = text.lines().take(3).collect::<Vec<_>>().join("\n");
        let gap = (150f64 * 100.0 / 50.0 / 101.0).sqrt() - 1.0;
        let environment_gap = (100f64 * 100.0 / 50.0 / 101.0).sqrt() - 1.0;
        let want = format!("{HEADER}TPE,1000,0,,1,1,{gap:.6},{environment_gap:.6}\n");
        assert_eq!(score(&grid, &first).unwrap(), want);
    }
}
