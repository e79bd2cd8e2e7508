//! What a library says about a cluster before anything is searched: versions, paths, and what it allows.
//!
//! One group of workers runs its own choice once at every point where there is a choice, because predictions are asked for
//! with it, and at the smallest and the largest size of the other collectives. The search then goes on with the same
//! workers, so this costs a collective for each and no process start.

use std::collections::{BTreeMap, BTreeSet};

use gdrtune_profiles::vocab::{Algorithm, Collective, Environment, Point, Protocol};
use gdrtune_tuner::{
    bench::{Bench as _, BenchError, Cancel, Item, Outcome, Script, Setup},
    race::Predictions,
};
use gdrtune_wire::{EngineReport, NetworkUse, Prediction};

use super::ClusterBench;

/// What a probe found.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Probe {
    /// What the ranks run with, over all of them.
    pub report: EngineReport,
    /// The library's predictions; nothing where it does not tell.
    pub predictions: BTreeMap<Point, Vec<Prediction>>,
    /// Points that were measured.
    pub measured: usize,
    /// Points that failed, and how.
    pub failures: Vec<(Point, String)>,
}

impl Probe {
    /// Algorithm and protocol pairs that the library allows at any of the sizes.
    pub fn allowed(&self) -> BTreeMap<Collective, BTreeSet<(Algorithm, Protocol)>> {
        let mut allowed: BTreeMap<Collective, BTreeSet<_>> = BTreeMap::new();
        for (point, predictions) in self.predictions.iter().filter(|(point, _)| point.collective.has_choice()) {
            let pairs = predictions.iter().map(|cell| (cell.algorithm, cell.protocol));
            allowed.entry(point.collective).or_default().extend(pairs);
        }
        allowed
    }

    /// The predictions as the search takes them.
    pub fn predicted_us(&self) -> Predictions {
        let of = |cells: &Vec<Prediction>| {
            cells.iter().map(|cell| ((cell.algorithm, cell.protocol), cell.time_us.into())).collect()
        };
        self.predictions.iter().map(|(&point, cells)| (point, of(cells))).collect()
    }
}

impl ClusterBench<'_> {
    /// Starts workers with `environment` over the site's, and asks the library about `points`.
    ///
    /// # Errors
    /// [`BenchError`] where the workers do not start, or cannot go on.
    pub fn probe(&mut self, environment: Environment, points: &[Point], cancel: &Cancel) -> Result<Probe, BenchError> {
        let items: Vec<Item> =
            asked(points).into_iter().map(|point| Item { point, choice: None, repeats: 1 }).collect();
        let script = Script { setup: Setup::Live(environment), fresh: false, items };
        let (mut measured, mut failures) = (0, Vec::new());
        self.run(&script, cancel, &mut |sample| {
            let point = script.items[sample.item].point;
            match sample.outcome {
                Outcome::Timed(_) | Outcome::Substituted { .. } => measured += 1,
                Outcome::Wrong(why) => failures.push((point, format!("wrong result: {why}"))),
                Outcome::Hung(why) => failures.push((point, format!("hung: {why}"))),
                Outcome::Crashed(why) | Outcome::Unsupported(why) => failures.push((point, why)),
                Outcome::Skipped => {}
            }
        })?;
        let (report, predictions) = (self.last_report.clone(), self.predictions.clone());
        Ok(Probe { report, predictions, measured, failures })
    }
}

/// The points where there is a choice, and both ends of the other collectives.
fn asked(points: &[Point]) -> BTreeSet<Point> {
    let (chosen, others): (Vec<Point>, Vec<Point>) = points.iter().partition(|point| point.collective.has_choice());
    chosen.into_iter().chain(extremes(&others)).collect()
}

/// The smallest and the largest size of each collective.
fn extremes(points: &[Point]) -> BTreeSet<Point> {
    let mut ends: BTreeMap<Collective, (u64, u64)> = BTreeMap::new();
    for point in points {
        let (low, high) = ends.entry(point.collective).or_insert((point.bytes, point.bytes));
        (*low, *high) = ((*low).min(point.bytes), (*high).max(point.bytes));
    }
    ends.iter().flat_map(|(&collective, &(low, high))| [low, high].map(|bytes| Point { collective, bytes })).collect()
}

/// The reports of all ranks as one: what the first says, the fewest channels, all connections together.
pub(super) fn merge<'a>(reports: impl IntoIterator<Item = &'a EngineReport>) -> EngineReport {
    let mut merged = EngineReport::default();
    for report in reports {
        for (into, from) in [
            (&mut merged.version, &report.version),
            (&mut merged.library, &report.library),
            (&mut merged.device, &report.device),
        ] {
            if into.is_none() {
                into.clone_from(from);
            }
        }
        merged.channels = [merged.channels, report.channels].into_iter().flatten().min();
        if let Some(network) = &report.network {
            add(merged.network.get_or_insert_default(), network);
        }
    }
    merged
}

fn add(total: &mut NetworkUse, one: &NetworkUse) {
    let paths: BTreeSet<String> = total.paths.drain(..).chain(one.paths.iter().cloned()).collect();
    total.paths = paths.into_iter().collect();
    total.sends += one.sends;
    total.gdr_sends += one.gdr_sends;
    total.receives += one.receives;
    total.gdr_receives += one.gdr_receives;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(collective: Collective, bytes: u64) -> Point {
        Point { collective, bytes }
    }

    #[test]
    fn every_choice_is_asked_about_and_both_ends_of_what_has_none() {
        let sizes = [1024, 65536, 4096];
        let chosen = sizes.map(|bytes| point(Collective::AllReduce, bytes));
        let others = sizes.map(|bytes| point(Collective::AllToAll, bytes));
        let single = point(Collective::Reduce, 8);
        let asked = asked(&[&chosen[..], &others, &[single]].concat());
        assert_eq!(asked.len(), 6, "{asked:?}");
        assert!(chosen.iter().chain(&others[..2]).chain([&single]).all(|point| asked.contains(point)), "{asked:?}");
    }

    #[test]
    fn reports_are_merged_to_the_weakest_rank() {
        let network = |gdr_sends| {
            let paths = vec![format!("NET/IB/{gdr_sends}")];
            Some(NetworkUse { paths, sends: 2, gdr_sends, receives: 2, gdr_receives: 2 })
        };
        let rank = |version: &str, channels, gdr_sends| EngineReport {
            version: Some(version.to_owned()),
            channels,
            network: network(gdr_sends),
            ..EngineReport::default()
        };
        let merged = merge(&[rank("2.28.9", Some(4), 2), rank("2.28.9", None, 2), rank("2.28.9", Some(2), 0)]);
        assert_eq!((merged.version.as_deref(), merged.channels), (Some("2.28.9"), Some(2)));
        let paths = vec!["NET/IB/0".to_owned(), "NET/IB/2".to_owned()];
        assert_eq!(merged.network, Some(NetworkUse { paths, sends: 6, gdr_sends: 4, receives: 6, gdr_receives: 6 }));
        assert_eq!(merge(&[]), EngineReport::default());
    }
}
