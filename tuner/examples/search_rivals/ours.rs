//! Our own search, as the product runs it on a grid without environments.

use gdrtune_tuner::{
    bench::Cancel,
    objective::{Objective, WeightedPoint},
    observe::Silent,
    race::{Predictions, RaceConfig},
    search::{SearchError, SearchPlan, Strategy, run_search},
};

use crate::game::Play;

/// What is asked of every search here: all points count the same, and trials are the only limit.
pub(crate) fn plan(points: Vec<WeightedPoint>, strategy: Strategy, budget: u64, seed: u64) -> SearchPlan {
    SearchPlan {
        points,
        objective: Objective::GeometricMean,
        budget_trials: budget,
        budget_s: f64::INFINITY,
        strategy,
        seed,
        least_gain: 0.02,
        race: RaceConfig::standard(seed),
        predictions: Predictions::new(),
    }
}

/// The whole search, default arm included.
pub(crate) fn search(play: &mut Play<'_>, seed: u64) -> Result<(), SearchError> {
    let wanted = plan(WeightedPoint::equal(play.game.grid.points()), Strategy::Auto, play.left, seed);
    let space = play.space();
    let outcome = run_search(play, &space, &wanted, &mut Silent, &Cancel::new())?;
    let game = play.game;
    for (own, cells) in play.own.iter_mut().zip(&game.points) {
        let point = cells.first().map(|cell| game.cells[*cell].point);
        let result = outcome.points.iter().find(|result| Some(result.pick.point) == point);
        *own = result.and_then(|result| game.cell(result.pick.point, result.pick.choice?));
    }
    Ok(())
}
