//! Whether a series goes up or down: Mann and Kendall's test (Mann, Econometrica 13, 1945; Kendall, Rank Correlation Methods, 1975),
//! and how much: the median of all slopes (Theil 1950; Sen, J. Am. Stat. Assoc. 63, 1968).

/// Values up to which the chances are counted out; above, the normal distribution is as good.
const COUNTED: usize = 40;

/// Where a series goes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Trend {
    /// The chance that a series without any direction has one as clear as this, up or down.
    pub p: f64,
    /// Change from each value to the next.
    pub slope: f64,
}

/// The trend of values in their order; `None` of fewer than two.
pub fn trend(values: &[f64]) -> Option<Trend> {
    let pairs = || (0..values.len()).flat_map(|left| (left + 1..values.len()).map(move |right| (left, right)));
    let slopes: Vec<f64> =
        pairs().map(|(left, right)| (values[right] - values[left]) / (right - left) as f64).collect();
    let score: i64 = slopes.iter().map(|slope| if *slope == 0.0 { 0 } else { slope.signum() as i64 }).sum();
    let slope = super::median(&slopes)?;
    Some(Trend { p: two_sided(values.len(), score.unsigned_abs()), slope })
}

/// The chance of a score (rising pairs less falling ones) of this size or more.
fn two_sided(count: usize, score: u64) -> f64 {
    if score == 0 {
        return 1.0;
    }
    if COUNTED < count {
        let n = count as f64;
        let deviation = (n * (n - 1.0) * (2.0 * n + 5.0) / 18.0).sqrt();
        return 2.0 * (1.0 - super::normal_cdf((score as f64 - 1.0) / deviation));
    }
    // Every order is as likely: the share of orders with so many falling pairs. One value more adds 0 to its place of them.
    let mut chances = vec![1.0_f64];
    for place in 1..count {
        let mut next = vec![0.0; chances.len() + place];
        for (falling, chance) in chances.iter().enumerate() {
            next[falling..=falling + place].iter_mut().for_each(|sum| *sum += chance / (place + 1) as f64);
        }
        chances = next;
    }
    let pairs = chances.len() as i64 - 1;
    let is_as_clear = |falling: usize| score <= (pairs - 2 * falling as i64).unsigned_abs();
    let tail = chances.iter().enumerate().filter(|(falling, _)| is_as_clear(*falling)).map(|(_, chance)| chance);
    tail.sum::<f64>().min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_chances_and_slopes() {
        let rising = |count: u32| (0..count).map(f64::from).collect::<Vec<_>>();
        // Two of n! orders are all up or all down.
        for (count, p) in [(2, 1.0), (4, 2.0 / 24.0), (5, 2.0 / 120.0)] {
            let trend = trend(&rising(count)).unwrap();
            assert!((trend.p - p).abs() < 1e-12 && (trend.slope - 1.0).abs() < 1e-12, "{count}: {trend:?}");
        }
        // One pair of four swapped: S = 4, and the table of Kendall's S has 0.167 for n = 4 on one side.
        let swapped = trend(&[1.0, 2.0, 4.0, 3.0]).unwrap();
        assert!((swapped.p - 8.0 / 24.0).abs() < 1e-12, "{swapped:?}");
        let falling: Vec<f64> = rising(5).iter().map(|value| -value).collect();
        assert!((trend(&falling).unwrap().slope + 1.0).abs() < 1e-12);
        assert_eq!(trend(&[2.0; 6]), Some(Trend { p: 1.0, slope: 0.0 }));
        assert_eq!((trend(&[1.0]), trend(&[])), (None, None));
    }

    #[test]
    fn one_outlier_moves_neither() {
        let mut values: Vec<f64> = (0..9).map(|index| f64::from(index % 3)).collect();
        values[4] = 1e6;
        let trend = trend(&values).unwrap();
        assert!(0.3 < trend.p && trend.slope.abs() < 0.5, "{trend:?}");
    }

    #[test]
    fn counting_and_the_normal_distribution_agree() {
        let score = 180;
        let counted = two_sided(COUNTED, score);
        let n = COUNTED as f64;
        let deviation = (n * (n - 1.0) * (2.0 * n + 5.0) / 18.0).sqrt();
        let normal = 2.0 * (1.0 - crate::stats::normal_cdf((score as f64 - 1.0) / deviation));
        assert!((counted - normal).abs() < 0.003, "{counted} {normal}");
    }
}
