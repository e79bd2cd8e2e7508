//! The floor: draws shared out by someone who knows every cell's distribution, and picks by the lowest sample median.
//!
//! The allotment is fixed before the first draw. It is found greedily: the next draws go where they lower the expected
//! logarithm of the regret most, which is computed exactly (a sample median of an odd number of draws is one of the repeats,
//! with binomial probabilities). Knowing the answer, the oracle could draw the best cells alone; so every cell must be drawn at
//! least once, or, as `spare`, every cell that could be taken for the best by one draw. It knows nothing of how cells hang
//! together, but needs no draw to find out who is close.

use crate::game::{Game, Play};

/// Odd numbers of draws are enough; steps that are looked ahead to, as two more often cannot change a decision.
const STEPS: [usize; 4] = [2, 4, 8, 16];

pub(crate) struct Oracle {
    /// Moves in order: cells and how many more draws each gets.
    moves: Vec<(Vec<usize>, usize)>,
}

/// One point while the draws are shared out.
struct Table {
    cells: Vec<usize>,
    /// Sorted repeats per cell.
    repeats: Vec<Vec<f64>>,
    /// Log of truth over the best truth, per cell.
    losses: Vec<f64>,
    draws: Vec<usize>,
    loss: f64,
}

struct Offer {
    members: Vec<usize>,
    step: usize,
    loss: f64,
    /// Fall of the loss per draw.
    rate: f64,
}

impl Oracle {
    /// Shares out up to `budget` draws; the allotments of smaller budgets are its beginnings.
    pub(crate) fn new(game: &Game, budget: u64, spare: bool) -> Self {
        let mut tables: Vec<Table> = (0..game.points.len()).map(|point| Table::new(game, point, spare)).collect();
        let begin = |table: &Table| (table.members(|draws| 0 < draws), 1);
        let mut moves: Vec<(Vec<usize>, usize)> = tables.iter().map(begin).collect();
        let mut left = budget.saturating_sub(moves.iter().map(|(cells, _)| cells.len() as u64).sum());
        let mut offers: Vec<Option<Offer>> = tables.iter().map(Table::offer).collect();
        loop {
            let best = offers.iter().enumerate().filter_map(|(point, offer)| Some((point, offer.as_ref()?.rate)));
            let Some((point, _)) = best.max_by(|a, b| a.1.total_cmp(&b.1)) else { break };
            let Some(offer) = offers[point].take() else { break };
            let cost = (offer.members.len() * offer.step) as u64;
            if left < cost {
                break;
            }
            left -= cost;
            let table = &mut tables[point];
            for member in &offer.members {
                table.draws[*member] += offer.step;
            }
            table.loss = offer.loss;
            moves.push((offer.members.iter().map(|member| table.cells[*member]).collect(), offer.step));
            offers[point] = table.offer();
        }
        Self { moves }
    }

    pub(crate) fn play(&self, play: &mut Play<'_>) {
        for (cells, step) in &self.moves {
            if play.left < (cells.len() * step) as u64 {
                return;
            }
            for cell in cells {
                play.draw_times(*cell, *step as u64);
            }
        }
    }
}

impl Table {
    fn new(game: &Game, point: usize, spare: bool) -> Self {
        let cells = game.points[point].clone();
        let repeats: Vec<Vec<f64>> = cells.iter().map(|cell| game.repeats(*cell)).collect();
        let ratio = |cell: &usize| game.cells[*cell].ratio;
        let best = (0..cells.len()).min_by(|a, b| ratio(&cells[*a]).total_cmp(&ratio(&cells[*b]))).unwrap_or(0);
        let slowest = repeats[best].last().copied().unwrap_or(f64::INFINITY);
        let close = |times: &Vec<f64>| !spare || times.first().is_some_and(|fastest| *fastest <= slowest);
        let draws: Vec<usize> = repeats.iter().map(|times| usize::from(close(times))).collect();
        let losses = cells.iter().map(|cell| ratio(cell).ln()).collect();
        let mut table = Self { cells, repeats, losses, draws, loss: 0.0 };
        table.loss = table.expected(&table.draws);
        table
    }

    fn members(&self, wanted: impl Fn(usize) -> bool) -> Vec<usize> {
        self.cells.iter().zip(&self.draws).filter(|(_, draws)| wanted(**draws)).map(|(cell, _)| *cell).collect()
    }

    /// The best next move: more draws for one cell, or for the nearest few together.
    fn offer(&self) -> Option<Offer> {
        let mut nearest: Vec<usize> = (0..self.cells.len()).filter(|cell| 0 < self.draws[*cell]).collect();
        nearest.sort_by(|a, b| self.losses[*a].total_cmp(&self.losses[*b]));
        let groups = (2..=nearest.len()).map(|count| nearest[..count].to_vec());
        let sets: Vec<Vec<usize>> = nearest.iter().map(|cell| vec![*cell]).chain(groups).collect();
        let mut best: Option<Offer> = None;
        for members in sets {
            for step in STEPS {
                let mut draws = self.draws.clone();
                for member in &members {
                    draws[*member] += step;
                }
                let loss = self.expected(&draws);
                let rate = (self.loss - loss) / (members.len() * step) as f64;
                if best.as_ref().is_none_or(|best| best.rate < rate) {
                    best = Some(Offer { members: members.clone(), step, loss, rate });
                }
            }
        }
        best.filter(|best| 0.0 < best.rate)
    }

    /// Expected loss of the pick with so many draws of each cell.
    fn expected(&self, draws: &[usize]) -> f64 {
        let mut events: Vec<(f64, usize, f64)> = Vec::new();
        for (cell, (times, draws)) in self.repeats.iter().zip(draws).enumerate().filter(|(_, (_, n))| 0 < **n) {
            let chances = median_chances(times.len(), *draws);
            events.extend(times.iter().zip(chances).map(|(time, chance)| (*time, cell, chance)));
        }
        events.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        // Chance that the cell's median is still to come.
        let mut later = vec![1.0; self.cells.len()];
        let mut loss = 0.0;
        for (_, cell, chance) in events {
            let others: f64 = later.iter().enumerate().filter(|(other, _)| *other != cell).map(|(_, l)| *l).product();
            loss += chance * others * self.losses[cell];
            later[cell] = (later[cell] - chance).max(0.0);
            if others <= 0.0 {
                break;
            }
        }
        loss
    }
}

/// Chances that the median of an odd number of draws, with replacement, is the first, second, ... of `values` sorted values.
fn median_chances(values: usize, draws: usize) -> Vec<f64> {
    let at_most = |rank: usize| binomial_at_least(draws, rank as f64 / values as f64, draws.div_ceil(2));
    (0..values).map(|rank| at_most(rank + 1) - at_most(rank)).collect()
}

/// Chance of `least` or more successes in `draws`.
fn binomial_at_least(draws: usize, chance: f64, least: usize) -> f64 {
    if chance <= 0.0 {
        return 0.0;
    }
    if 1.0 <= chance {
        return 1.0;
    }
    let mut log_term = draws as f64 * (1.0 - chance).ln();
    let mut sum = 0.0;
    for successes in 0..=draws {
        if least <= successes {
            sum += log_term.exp();
        }
        log_term += ((draws - successes) as f64 / (successes + 1) as f64).ln() + (chance / (1.0 - chance)).ln();
    }
    sum.min(1.0)
}

#[cfg(test)]
mod tests {
    use gdrtune_tuner::replay::Grid;

    use super::*;

    #[test]
    fn chances_of_medians_are_binomial() {
        let close = |got: &[f64], want: &[f64]| got.iter().zip(want).all(|(g, w)| (g - w).abs() < 1e-9);
        assert!(close(&median_chances(5, 1), &[0.2; 5]));
        // The median of three is the lower of two values unless the upper is drawn twice or more.
        assert!(close(&median_chances(2, 3), &[0.5, 0.5]));
        // 3 of 3: at most the first with chance 3 (1/3)^2 (2/3) + (1/3)^3 = 7/27.
        assert!(close(&median_chances(3, 3), &[7.0 / 27.0, 13.0 / 27.0, 7.0 / 27.0]));
    }

    #[test]
    fn the_expected_loss_agrees_with_the_cases_counted_out() {
        // One draw each: ring 1 gives 10, 20 or 30 (truth 20), ring 2 gives 25 (truth 25): it wins a third of the time.
        let rows = "collective,bytes,algorithm,protocol,channels,mean_us\nallreduce,1,ring,ll,1,10\n\
            allreduce,1,ring,ll,1,20\nallreduce,1,ring,ll,1,30\nallreduce,1,ring,ll,2,25\nallreduce,1,ring,ll,4,31\n";
        let game = Game::new(Grid::parse(rows).unwrap());
        let table = Table::new(&game, 0, false);
        assert!((table.loss - 1.25f64.ln() / 3.0).abs() < 1e-9);
        assert!(table.expected(&[3, 1, 1]) < table.loss);
        assert_eq!(Table::new(&game, 0, true).draws, [1, 1, 0], "what no draw can confuse needs none");
        let mut play = Play::new(&game, 9, 1);
        Oracle::new(&game, 9, false).play(&mut play);
        let draws: Vec<usize> = play.samples.iter().map(Vec::len).collect();
        assert_eq!((draws[1], draws[2]), (1, 1), "draws of what has one time only are wasted");
        assert!(2 < draws[0]);
    }
}
