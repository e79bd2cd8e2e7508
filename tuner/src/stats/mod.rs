//! Medians, quantiles, ranks and spreads.
//!
//! Purpose: the small statistics that the race, the verdict and the reports share. Inputs are plain slices; non-finite
//! values are the caller's fault and sort last. Must not know about points, choices or benches.

mod bootstrap;
mod signed_rank;
mod trend;

pub use gdrtune_profiles::stats::{median, quantile, quantile_of_sorted};

pub use bootstrap::{ArmSamples, Arms, Design, compare, round_error};
pub use signed_rank::signed_rank;
pub use trend::{Trend, trend};

/// Quantile of the standard normal distribution that 95 % lie below.
pub const ONE_SIDED_95: f64 = 1.645;

/// Standard error of a median over that of a mean, for many normal samples: the root of pi / 2.
pub const MEDIAN_ERROR: f64 = 1.253;

/// Where most of the mass of logarithms of times is; `None` of less than two.
///
/// Noise of times is one-sided: a stall is always slow. Of few, the logarithm of the harmonic mean, which slow ones move least;
/// of more, the mean of quantiles below and about the median, which wastes less than the median alone; of many, the median,
/// which is what a verdict compares. Where to change was chosen on recorded grids.
pub fn location(logs: &[f64]) -> Option<f64> {
    /// Up to so many, the harmonic mean.
    const FEW: usize = 5;
    /// From so many on, the median.
    const MANY: usize = 48;
    match logs.len() {
        0 | 1 => None,
        count @ 2..=FEW => Some(-(logs.iter().map(|log| (-log).exp()).sum::<f64>() / count as f64).ln()),
        MANY.. => median(logs),
        _ => {
            let mut sorted = logs.to_vec();
            sorted.sort_unstable_by(f64::total_cmp);
            let quantiles: Option<Vec<f64>> =
                [0.3, 0.4, 0.5, 0.6].iter().map(|fraction| quantile_of_sorted(&sorted, *fraction)).collect();
            Some(quantiles?.iter().sum::<f64>() / 4.0)
        }
    }
}

/// Geometric mean of positive values with weights; `None` if no weight is positive.
pub fn weighted_geometric_mean(pairs: impl IntoIterator<Item = (f64, f64)>) -> Option<f64> {
    let (mut sum, mut weights) = (0.0, 0.0);
    for (weight, value) in pairs.into_iter().filter(|(weight, _)| *weight > 0.0) {
        sum += weight * value.ln();
        weights += weight;
    }
    (weights > 0.0).then(|| (sum / weights).exp())
}

/// Geometric mean of positive values; `None` of nothing.
pub fn geometric_mean(values: &[f64]) -> Option<f64> {
    weighted_geometric_mean(values.iter().map(|value| (1.0, *value)))
}

/// Distance between the quartiles over the median: a relative spread that one outlier cannot move.
pub fn relative_spread(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let (low, mid, high) =
        (quantile_of_sorted(&sorted, 0.25)?, quantile_of_sorted(&sorted, 0.5)?, quantile_of_sorted(&sorted, 0.75)?);
    (mid > 0.0).then(|| (high - low) / mid)
}

/// Median absolute deviation, scaled to the standard deviation of a normal distribution.
pub fn robust_deviation(values: &[f64]) -> Option<f64> {
    /// 1 / quantile(0.75) of the standard normal distribution.
    const NORMAL: f64 = 1.482_602_218_505_602;
    let center = median(values)?;
    let distances: Vec<f64> = values.iter().map(|value| (value - center).abs()).collect();
    median(&distances).map(|distance| distance * NORMAL)
}

/// One-sided Mann-Whitney test: how likely `left` would rank this low or lower if both came from one distribution.
///
/// Normal approximation with corrections for ties and continuity; good from about five values a side.
pub fn mann_whitney_p_below(left: &[f64], right: &[f64]) -> Option<f64> {
    let ranks = rank_sum(left, right)?;
    let (n, m) = (left.len() as f64, right.len() as f64);
    let above = ranks.sum - n * (n + 1.0) / 2.0;
    let total = n + m;
    let variance = n * m / 12.0 * (total + 1.0 - ranks.ties / (total * (total - 1.0)));
    if variance <= 0.0 {
        return Some(0.5);
    }
    Some(normal_cdf((above - n * m / 2.0 + 0.5) / variance.sqrt()))
}

struct RankSum {
    /// Sum of the (mid) ranks of the left values.
    sum: f64,
    /// Sum over groups of ties of t^3 - t.
    ties: f64,
}

fn rank_sum(left: &[f64], right: &[f64]) -> Option<RankSum> {
    if left.is_empty() || right.is_empty() {
        return None;
    }
    let mut all: Vec<(f64, bool)> = left.iter().map(|v| (*v, true)).chain(right.iter().map(|v| (*v, false))).collect();
    all.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let (mut sum, mut ties, mut start) = (0.0, 0.0, 0);
    for group in all.chunk_by(|a, b| a.0.total_cmp(&b.0).is_eq()) {
        let size = group.len();
        let mid_rank = start as f64 + f64::midpoint(size as f64, 1.0);
        sum += mid_rank * group.iter().filter(|(_, is_left)| *is_left).count() as f64;
        ties += (size as f64).powi(3) - size as f64;
        start += size;
    }
    Some(RankSum { sum, ties })
}

/// Density of the standard normal distribution.
pub fn normal_density(z: f64) -> f64 {
    (-0.5 * z * z).exp() / (2.0 * std::f64::consts::PI).sqrt()
}

/// Distribution function of the standard normal distribution; absolute error below 1.5e-7.
///
/// Abramowitz and Stegun, Handbook of Mathematical Functions, formula 7.1.26.
pub fn normal_cdf(z: f64) -> f64 {
    let x = z.abs() / std::f64::consts::SQRT_2;
    let t = 1.0 / (1.0 + 0.327_591_1 * x);
    let polynomial =
        ((((1.061_405_429 * t - 1.453_152_027) * t + 1.421_413_741) * t - 0.284_496_736) * t + 0.254_829_592) * t;
    let tail = 0.5 * polynomial * (-x * x).exp();
    if z < 0.0 { tail } else { 1.0 - tail }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn close(got: Option<f64>, want: f64) {
        assert!((got.unwrap() - want).abs() < 1e-6, "{got:?} is not {want}");
    }

    #[test]
    fn stalls_do_not_move_the_location() {
        for count in [3, 9, 60] {
            let mut logs = vec![1.0; count];
            let quiet = location(&logs).unwrap();
            assert!((quiet - 1.0).abs() < 1e-9, "{count}");
            logs[0] = 4.0;
            let moved = location(&logs).unwrap() - quiet;
            assert!((0.0..0.4).contains(&moved), "{count}: {moved}");
        }
        assert_eq!(location(&[1.0]), None);
    }

    #[test]
    fn known_values() {
        close(median(&[3.0, 1.0, 2.0]), 2.0);
        close(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        close(quantile(&[1.0, 2.0, 3.0, 4.0, 5.0], 0.9), 4.6);
        close(geometric_mean(&[1.0, 4.0, 16.0]), 4.0);
        close(weighted_geometric_mean([(3.0, 2.0), (1.0, 32.0), (0.0, 1e9)]), 4.0);
        close(relative_spread(&[1.0, 2.0, 3.0, 4.0, 1000.0]), 2.0 / 3.0);
        close(robust_deviation(&[1.0, 2.0, 3.0, 4.0, 1000.0]), 1.482_602_218);
        assert_eq!((median(&[]), geometric_mean(&[]), mann_whitney_p_below(&[], &[1.0])), (None, None, None));
    }

    #[test]
    fn mann_whitney_agrees_with_tables() {
        // U = 0 of 25: exact one-sided p is 1 / 252; the approximation says 0.0061.
        let low = [1.0, 2.0, 3.0, 4.0, 5.0];
        let high = [6.0, 7.0, 8.0, 9.0, 10.0];
        assert!(mann_whitney_p_below(&low, &high).unwrap() < 0.01);
        assert!(mann_whitney_p_below(&high, &low).unwrap() > 0.99);
        close(mann_whitney_p_below(&[1.0, 1.0], &[1.0, 1.0]), 0.5);
    }

    #[test]
    fn the_normal_distribution_is_right() {
        for (z, want) in [(0.0, 0.5), (1.0, 0.841_344_746), (-1.96, 0.024_997_895), (4.0, 0.999_968_329)] {
            assert!((normal_cdf(z) - want).abs() < 2e-7, "{z}");
        }
    }

    proptest! {
        #[test]
        fn the_median_lies_between_and_ignores_order(mut values in proptest::collection::vec(0.1f64..1e6, 1..40)) {
            let before = median(&values).unwrap();
            values.reverse();
            prop_assert_eq!(before.to_bits(), median(&values).unwrap().to_bits());
            let below = values.iter().filter(|v| **v < before).count();
            let above = values.iter().filter(|v| **v > before).count();
            prop_assert!(below <= values.len() / 2 && above <= values.len() / 2);
        }

        #[test]
        fn a_sample_is_not_surely_below_and_above_another(
            left in proptest::collection::vec(0i32..20, 1..20), right in proptest::collection::vec(0i32..20, 1..20),
        ) {
            let left: Vec<f64> = left.into_iter().map(f64::from).collect();
            let right: Vec<f64> = right.into_iter().map(f64::from).collect();
            // The correction for continuity is on either side.
            let sum = mann_whitney_p_below(&left, &right).unwrap() + mann_whitney_p_below(&right, &left).unwrap();
            prop_assert!((1.0 - 1e-6..=2.0).contains(&sum), "{sum}");
        }
    }
}
