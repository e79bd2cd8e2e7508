//! Medians and quantiles, in one definition for whoever measures or judges. Non-finite values are the caller's fault and sort last.

/// Median; `None` of nothing. An even count gives the mean of the middle two.
pub fn median(values: &[f64]) -> Option<f64> {
    quantile(values, 0.5)
}

/// The quantile `fraction` in 0..=1 with linear interpolation between order statistics; `None` of nothing.
pub fn quantile(values: &[f64], fraction: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    quantile_of_sorted(&sorted, fraction)
}

/// [`quantile`] of values that are in order already.
pub fn quantile_of_sorted(sorted: &[f64], fraction: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let position = fraction.clamp(0.0, 1.0) * last as f64;
    let below = position.floor() as usize;
    let above = (below + 1).min(last);
    let share = position - below as f64;
    Some(sorted[below] + (sorted[above] - sorted[below]) * share)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_quantiles() {
        for (values, expected) in
            [(&[][..], None), (&[3.0], Some(3.0)), (&[9.0, 1.0, 2.0], Some(2.0)), (&[9.0, 4.0, 1.0, 2.0], Some(3.0))]
        {
            assert_eq!(median(values), expected, "{values:?}");
        }
        assert_eq!([0.0, 0.25, 0.9, 1.0].map(|at| quantile(&[4.0, 0.0, 2.0], at)), [0.0, 1.0, 3.6, 4.0].map(Some));
    }
}
