//! Random numbers without a state: each is a function of the seed and of what it is for.
//!
//! So sample 1,000 of a run is the same whether or not the run was interrupted at 500.

use std::f64::consts::TAU;

/// What a number is for: numbers of different streams are independent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stream {
    /// Scatter of a sample.
    Sample = 1,
    /// Luck of a process.
    Process = 2,
    /// Whether a sample stalls.
    Stall = 3,
}

/// A uniform number in 0..1.
pub(super) fn uniform(seed: u64, stream: Stream, index: u64, draw: u64) -> f64 {
    let mixed = mix(mix(mix(seed ^ 0x5349_4D21).wrapping_add(stream as u64)).wrapping_add(index)).wrapping_add(draw);
    // The upper 53 bits fill a double's mantissa.
    (mix(mixed) >> 11) as f64 / (1_u64 << 53) as f64
}

/// A standard normal number (Box and Muller).
pub(super) fn normal(seed: u64, stream: Stream, index: u64) -> f64 {
    let radius = (-2.0 * (1.0 - uniform(seed, stream, index, 0)).ln()).sqrt();
    radius * (TAU * uniform(seed, stream, index, 1)).cos()
}

/// One step of splitmix64 (Steele, Lea and Flood, Fast splittable pseudorandom number generators, 2014).
fn mix(value: u64) -> u64 {
    let z = value.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_normal_and_streams_independent() {
        let count = 20_000;
        let draws: Vec<f64> = (0..count).map(|i| normal(7, Stream::Sample, i)).collect();
        let others: Vec<f64> = (0..count).map(|i| normal(7, Stream::Process, i)).collect();
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        let product = |left: &[f64], right: &[f64]| left.iter().zip(right).map(|(l, r)| l * r).collect::<Vec<_>>();
        // Five standard errors.
        let near =
            |value: f64, want: f64, deviation: f64| (value - want).abs() < 5.0 * deviation / (count as f64).sqrt();
        assert!(near(mean(&draws), 0.0, 1.0), "{}", mean(&draws));
        assert!(near(mean(&product(&draws, &draws)), 1.0, 2.0f64.sqrt()));
        assert!(near(mean(&product(&draws, &others)), 0.0, 1.0));
        assert!(near(mean(&product(&draws[1..], &draws)), 0.0, 1.0), "neighbours");
        assert_eq!(normal(7, Stream::Sample, 3).to_bits(), draws[3].to_bits());
    }
}
