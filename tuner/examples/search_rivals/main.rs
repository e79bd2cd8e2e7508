//! Our search and its rivals on a recorded grid, as CSV on standard output. `benches/search/README.md` says how it is used.
//!
//! - `search_rivals regret GRID.csv [SEEDS [FIRST_SEED [CONTESTANT...]]]`: contestant, variant, budget, seed, regret.
//! - `search_rivals score GRID.csv PICKS.csv`: the same for picks that were made elsewhere.
//! - `search_rivals points GRID.csv BUDGET [SEEDS]`: where our search and the oracle lose at each point.
//! - `search_rivals environments GRID.csv [SEEDS [FIRST_SEED [STRATEGY...]]]`: our strategies on a grid with environments.
//! - `search_rivals score-environments GRID.csv PICKS.csv`: the same for incumbents that were found elsewhere.

mod contestants;
mod elimination;
mod environments;
mod game;
mod local;
mod oracle;
mod ours;
mod picks;
mod points;
mod top_two;

use std::{error::Error, fmt::Write as _, fs, ops::Range};

use gdrtune_tuner::replay::Grid;

use game::{Game, Rule};

/// Draws that a search may take, of the issue that this benchmark answers.
const BUDGETS: [u64; 7] = [750, 1_500, 2_250, 3_000, 3_750, 5_250, 6_750];
const SEEDS: u64 = 20;

#[expect(clippy::print_stdout, reason = "an example reports on stdout")]
fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let grid = |path: &str| -> Result<Grid, Box<dyn Error>> { Ok(Grid::parse(&fs::read_to_string(path)?)?) };
    let seeds = |word: Option<&&str>| word.map_or(Ok(SEEDS), |word| word.parse());
    let range = |rest: &[&str]| -> Result<Range<u64>, Box<dyn Error>> {
        let first: u64 = rest.get(1).map_or(Ok(0), |word| word.parse())?;
        Ok(first..first + seeds(rest.first())?)
    };
    let text = match words[..] {
        ["regret", path, ref rest @ ..] => {
            regret(&Game::new(grid(path)?), range(rest)?, rest.get(2..).unwrap_or_default())?
        }
        ["score", path, picks] => picks::score(&Game::new(grid(path)?), &fs::read_to_string(picks)?)?,
        ["points", path, budget, ref rest @ ..] => {
            points::compare(&Game::new(grid(path)?), budget.parse()?, seeds(rest.first())?)?
        }
        ["environments", path, ref rest @ ..] => {
            environments::ours(&grid(path)?, range(rest)?, rest.get(2..).unwrap_or_default())?
        }
        ["score-environments", path, picks] => environments::score(&grid(path)?, &fs::read_to_string(picks)?)?,
        _ => return Err("use one of: regret, score, points, environments, score-environments".into()),
    };
    print!("{text}");
    Ok(())
}

/// Every contestant (or those named) at every budget and seed, by every rule that makes picks of its samples.
fn regret(game: &Game, seeds: Range<u64>, names: &[&str]) -> Result<String, Box<dyn Error>> {
    let mut text = String::from("contestant,variant,budget,seed,regret\n");
    let most = BUDGETS.into_iter().max().unwrap_or_default();
    let all = contestants::all(game, most).into_iter();
    for contestant in all.filter(|contestant| names.is_empty() || names.contains(&contestant.name)) {
        for budget in BUDGETS {
            for seed in seeds.clone() {
                let play = contestant.play(game, budget, seed)?;
                for rule in Rule::ALL.into_iter().filter(|rule| !contestant.is_ours() || *rule == Rule::Own) {
                    let Some(picks) = play.picks(rule) else { continue };
                    let variant = [contestant.variant.as_str(), rule.name()].join("; ").replace(',', "");
                    let name = contestant.name.replace(',', ":");
                    writeln!(text, "{name},{variant},{budget},{seed},{:.6}", game.regret(&picks))?;
                }
            }
        }
    }
    Ok(text)
}
