//! Where regret comes from, point by point: our search beside the oracle.

use std::{error::Error, fmt::Write as _};

use crate::{
    contestants,
    game::{Game, Play, Rule},
};

/// Cells slower than this times the best are hopeless: no draw of them can pay.
const HOPELESS: f64 = 1.5;
/// Cells this near the best are as good as it.
const GOOD: f64 = 1.03;

#[derive(Default)]
struct Account {
    regret: f64,
    draws: f64,
    hopeless: f64,
    /// Draws of the best cell, and of the pick where that is another one.
    best: f64,
    wrong: f64,
    wrong_draws: f64,
    unseen: f64,
}

/// Mean over seeds: log regret in percent, draws at the point, share of them on hopeless cells, draws of the best cell,
/// how often the pick is 3 % or more off, its draws then, and how often the best cell has not been drawn then.
pub(crate) fn compare(game: &Game, budget: u64, seeds: u64) -> Result<String, Box<dyn Error>> {
    let mut text = String::from("contestant,point,regret,draws,hopeless,best_draws,wrong,wrong_draws,unseen\n");
    for contestant in contestants::all(game, budget) {
        let rule = if contestant.is_ours() { Rule::Own } else { Rule::Median };
        if rule == Rule::Median && !contestant.name.starts_with("oracle") {
            continue;
        }
        let mut accounts: Vec<Account> = game.points.iter().map(|_| Account::default()).collect();
        for seed in 0..seeds {
            let play = contestant.play(game, budget, seed)?;
            let picks = play.picks(rule).unwrap_or_default();
            for ((account, cells), pick) in accounts.iter_mut().zip(&game.points).zip(picks) {
                account.take(&play, cells, pick);
            }
        }
        for (account, cells) in accounts.into_iter().zip(&game.points) {
            let point = cells.first().map(|cell| game.cells[*cell].point.to_string()).unwrap_or_default();
            let name = contestant.name.replace(',', ":");
            writeln!(text, "{name},{point},{}", account.row(seeds as f64))?;
        }
    }
    Ok(text)
}

impl Account {
    fn take(&mut self, play: &Play<'_>, cells: &[usize], pick: Option<usize>) {
        let ratio = |cell: usize| play.game.cells[cell].ratio;
        let draws = |cell: usize| play.samples[cell].len() as f64;
        let best = cells.iter().copied().min_by(|a, b| ratio(*a).total_cmp(&ratio(*b)));
        let (Some(best), Some(pick)) = (best, pick) else { return };
        self.regret += 100.0 * ratio(pick).ln();
        self.draws += cells.iter().map(|cell| draws(*cell)).sum::<f64>();
        self.hopeless += cells.iter().filter(|cell| HOPELESS < ratio(**cell)).map(|cell| draws(*cell)).sum::<f64>();
        self.best += draws(best);
        if GOOD < ratio(pick) {
            self.wrong += 1.0;
            self.wrong_draws += draws(pick);
            self.unseen += f64::from(u8::from(draws(best) < 0.5));
        }
    }

    fn row(&self, seeds: f64) -> String {
        let wrong = self.wrong.max(1.0);
        format!(
            "{:.2},{:.1},{:.2},{:.1},{:.2},{:.1},{:.2}",
            self.regret / seeds,
            self.draws / seeds,
            self.hopeless / self.draws.max(1.0),
            self.best / seeds,
            self.wrong / seeds,
            self.wrong_draws / wrong,
            self.unseen / wrong
        )
    }
}
