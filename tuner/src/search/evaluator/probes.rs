//! The first look at an environment: the incumbent's picks, until it is clear that it is slower. Must not measure.

use std::collections::BTreeMap;

use gdrtune_profiles::vocab::Point;

use crate::{
    bench::{Item, Outcome},
    stats,
};

/// An environment is given up when it is this much slower (log) beyond two standard errors after its first points.
const HOPELESS: f64 = 0.05;
/// Least number of probe points, where there are as many.
const LEAST_PROBES: usize = 4;
/// The same where time is short and quick points come first.
const LEAST_QUICK_PROBES: usize = 2;
/// Part of the time of all probes that the quick ones may take.
const QUICK_SHARE: f64 = 0.1;
/// How much faster (log) slow points may be although the quick ones are slower: a third.
const BEST_CASE: f64 = 0.4;

/// How many of the first items, quickest first, make a cheap first look.
pub(super) fn quick_probes(items: &[Item], times: &BTreeMap<Point, f64>) -> usize {
    let time_us = |item: &Item| times.get(&item.point).copied().unwrap_or_default();
    let limit = QUICK_SHARE * items.iter().map(time_us).sum::<f64>();
    let mut sum = 0.0;
    let quick = items.iter().take_while(|item| {
        sum += time_us(item);
        sum <= limit
    });
    quick.count().max(LEAST_QUICK_PROBES)
}

/// By which factor the probes, the fastest of each point, are slower than the incumbent's times, if that is clear at the `noise` (standard deviation of
/// the logarithm) of a sample of each point. Where the quick points came first, those without a sample might still make up
/// for it.
pub(super) fn clearly_slower(
    samples: &[(Item, Outcome)],
    times: &BTreeMap<Point, f64>,
    noise: impl Fn(Point) -> f64,
    quick_first: bool,
) -> Option<f64> {
    let mut fastest: BTreeMap<Point, f64> = BTreeMap::new();
    for (item, outcome) in samples {
        let Outcome::Timed(timing) = outcome else { continue };
        let least_us = fastest.entry(item.point).or_insert(f64::INFINITY);
        *least_us = least_us.min(timing.time_us);
    }
    let ratio = |(point, time_us): (&Point, &f64)| Some(((time_us / times.get(point)?).ln(), noise(*point)));
    let (ratios, noises): (Vec<f64>, Vec<f64>) = fastest.iter().filter_map(ratio).unzip();
    let center = stats::median(&ratios)?;
    let error =
        stats::MEDIAN_ERROR * noises.iter().map(|noise| noise * noise).sum::<f64>().sqrt() / ratios.len() as f64;
    let (least, known) = if quick_first {
        (LEAST_QUICK_PROBES, (ratios.len() as f64 / times.len() as f64).min(1.0))
    } else {
        (LEAST_PROBES, 1.0)
    };
    let projected = known * (center - 2.0 * error) - (1.0 - known) * BEST_CASE;
    (least.min(times.len()) <= ratios.len() && HOPELESS < projected).then(|| center.exp())
}

#[cfg(test)]
mod tests {
    use gdrtune_profiles::vocab::Collective;

    use super::*;
    use crate::bench::Timing;

    const TIMES_US: [f64; 3] = [400.0, 12_000.0, 200_000.0];

    fn point(bytes: u64) -> Point {
        Point { collective: Collective::AllReduce, bytes }
    }

    fn times() -> BTreeMap<Point, f64> {
        (1..).map(point).zip(TIMES_US).collect()
    }

    fn item(bytes: u64) -> Item {
        Item { point: point(bytes), choice: None, repeats: 1 }
    }

    #[test]
    fn the_slowest_points_are_no_quick_probes() {
        let items: Vec<Item> = (1..=3).map(item).collect();
        assert_eq!(quick_probes(&items, &times()), 2);
        let even = (1..).map(point).zip([100.0; 3]).collect();
        assert_eq!(quick_probes(&items, &even), LEAST_QUICK_PROBES);
    }

    #[test]
    fn only_what_slow_points_cannot_make_up_for_is_given_up_on_quick_ones() {
        let slower = |factors: &[f64], quick_first| {
            let sample = |(bytes, factor): (u64, &f64)| {
                let time_us = factor * times()[&point(bytes)];
                let timing = Timing::even(time_us);
                (item(bytes), Outcome::Timed(timing))
            };
            let samples: Vec<_> = (1..).zip(factors).map(sample).collect();
            clearly_slower(&samples, &times(), |_| 0.1, quick_first).is_some()
        };
        for (factors, quick_first, want) in [
            (&[2.0, 2.2][..], true, true),
            (&[1.3, 1.3], true, false),
            (&[2.0], true, false),
            (&[1.3, 1.3, 1.3], true, true),
            (&[1.3, 1.3, 1.3], false, true),
            (&[2.0, 2.2], false, false),
            (&[1.0, 1.0, 1.0], true, false),
        ] {
            assert_eq!(slower(factors, quick_first), want, "{factors:?} {quick_first}");
        }
    }
}
