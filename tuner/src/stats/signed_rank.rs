//! Wilcoxon's signed-rank test (Biometrics Bulletin 1, 1945): whether paired differences lean to one side.

/// Pairs up to which the chances are counted out; above, the normal distribution is as good.
const COUNTED: usize = 40;

/// The chance that differences without any leaning give a rank sum of positive ones at least as high as these do: small
/// where they are mostly positive. Differences of 0 say nothing. 1 of nothing.
pub fn signed_rank(differences: &[f64]) -> f64 {
    let mut signed: Vec<f64> = differences.iter().copied().filter(|d| *d != 0.0).collect();
    if signed.is_empty() {
        return 1.0;
    }
    signed.sort_unstable_by(|a, b| a.abs().total_cmp(&b.abs()));
    // Twice the ranks, so that those of ties are whole numbers too.
    let mut ranks: Vec<usize> = Vec::with_capacity(signed.len());
    for tied in signed.chunk_by(|a, b| a.abs().total_cmp(&b.abs()).is_eq()) {
        let first = ranks.len() + 1;
        ranks.extend(vec![2 * first + tied.len() - 1; tied.len()]);
    }
    let sum: usize = signed.iter().zip(&ranks).filter(|(d, _)| **d > 0.0).map(|(_, rank)| rank).sum();
    if ranks.len() <= COUNTED { counted(&ranks, sum) } else { normal(&ranks, sum) }
}

/// Every sign is as likely as the other: the share of all of them with at least this sum.
fn counted(ranks: &[usize], sum: usize) -> f64 {
    let total: usize = ranks.iter().sum();
    let mut chances = vec![0.0_f64; total + 1];
    chances[0] = 1.0;
    for rank in ranks {
        for at in (0..=total).rev() {
            let with = if *rank <= at { chances[at - rank] } else { 0.0 };
            chances[at] = 0.5 * (chances[at] + with);
        }
    }
    chances.get(sum..).map_or(0.0, |tail| tail.iter().sum::<f64>()).min(1.0)
}

fn normal(ranks: &[usize], sum: usize) -> f64 {
    let mean = ranks.iter().sum::<usize>() as f64 / 2.0;
    let variance: f64 = ranks.iter().map(|rank| (*rank as f64).powi(2)).sum::<f64>() / 4.0;
    1.0 - super::normal_cdf((sum as f64 - 1.0 - mean) / variance.sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_chances() {
        // All of n positive: 2^-n.
        assert!((signed_rank(&[1.0, 2.0, 3.0, 4.0, 5.0]) - 1.0 / 32.0).abs() < 1e-12);
        // One negative of the lowest rank of five: sums 14 and 15 of 32.
        assert!((signed_rank(&[-1.0, 2.0, 3.0, 4.0, 5.0]) - 2.0 / 32.0).abs() < 1e-12);
        // Ties share their ranks; zeros are left out.
        assert!((signed_rank(&[1.0, 1.0, 0.0]) - 0.25).abs() < 1e-12);
        assert!((signed_rank(&[]) - 1.0).abs() < 1e-12);
        assert!((signed_rank(&[-1.0, -2.0]) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn many_pairs_are_as_few_extrapolate() {
        let differences = |count: usize| -> Vec<f64> {
            (1..=count).map(|i| if i % 3 == 0 { -(i as f64) } else { i as f64 }).collect()
        };
        let (below, above) = (signed_rank(&differences(COUNTED)), signed_rank(&differences(COUNTED + 1)));
        assert!((below - above).abs() < 0.02, "{below} {above}");
    }
}
