//! Elements in host memory: conversion, and the loops that combine them.
//!
//! Buffers are byte slices in native byte order whose length is a whole number of elements. 16-bit floats are widened,
//! combined as `f32` and rounded to the nearest even value, once per combination, as GPUs do.

use gdrtune_profiles::vocab::{DataType, ReduceOp};

/// The loops of one element type and operator.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kernel {
    /// `target = target op incoming`.
    pub(super) into: fn(target: &mut [u8], incoming: &[u8]),
    /// `target = operand op incoming`.
    pub(super) from: fn(target: &mut [u8], operand: &[u8], incoming: &[u8]),
}

fn into<const N: usize>(target: &mut [u8], incoming: &[u8], op: impl Fn([u8; N], [u8; N]) -> [u8; N]) {
    for (t, i) in target.as_chunks_mut::<N>().0.iter_mut().zip(incoming.as_chunks::<N>().0) {
        *t = op(*t, *i);
    }
}

fn from<const N: usize>(target: &mut [u8], operand: &[u8], incoming: &[u8], op: impl Fn([u8; N], [u8; N]) -> [u8; N]) {
    let pairs = operand.as_chunks::<N>().0.iter().zip(incoming.as_chunks::<N>().0);
    for (t, (o, i)) in target.as_chunks_mut::<N>().0.iter_mut().zip(pairs) {
        *t = op(*o, *i);
    }
}

macro_rules! kernel {
    ($load:path, $store:path, $op:expr) => {
        Kernel {
            into: |target, incoming| into(target, incoming, |a, b| $store($op($load(a), $load(b)))),
            from: |target, operand, incoming| from(target, operand, incoming, |a, b| $store($op($load(a), $load(b)))),
        }
    };
}

macro_rules! float_kernels {
    ($op:expr, $load:path, $store:path) => {
        match $op {
            ReduceOp::Sum => kernel!($load, $store, |a: f32, b: f32| a + b),
            ReduceOp::Prod => kernel!($load, $store, |a: f32, b: f32| a * b),
            // A plain comparison becomes one vector instruction; `f32::min` does not.
            ReduceOp::Min => kernel!($load, $store, |a: f32, b: f32| if a < b { a } else { b }),
            ReduceOp::Max => kernel!($load, $store, |a: f32, b: f32| if a > b { a } else { b }),
        }
    };
}

impl Kernel {
    /// The loops for this type and operator.
    pub(super) fn new(data_type: DataType, op: ReduceOp) -> Self {
        match data_type {
            DataType::F32 => float_kernels!(op, f32::from_ne_bytes, f32::to_ne_bytes),
            DataType::F16 => float_kernels!(op, widen_half, narrow_half),
            DataType::Bf16 => float_kernels!(op, widen_bfloat, narrow_bfloat),
            DataType::I32 => match op {
                ReduceOp::Sum => kernel!(i32::from_ne_bytes, i32::to_ne_bytes, i32::wrapping_add),
                ReduceOp::Prod => kernel!(i32::from_ne_bytes, i32::to_ne_bytes, i32::wrapping_mul),
                ReduceOp::Min => kernel!(i32::from_ne_bytes, i32::to_ne_bytes, Ord::min),
                ReduceOp::Max => kernel!(i32::from_ne_bytes, i32::to_ne_bytes, Ord::max),
            },
        }
    }
}

/// `bfloat16` is the upper half of an `f32`.
fn widen_bfloat(bytes: [u8; 2]) -> f32 {
    f32::from_bits(u32::from(u16::from_ne_bytes(bytes)) << 16)
}

fn narrow_bfloat(value: f32) -> [u8; 2] {
    let bits = value.to_bits();
    let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16;
    // Rounding could carry a NaN's payload into infinity.
    let quiet = bits >> 16 | 0x40;
    (if value.is_nan() { quiet } else { rounded } as u16).to_ne_bytes()
}

/// Powers of two that move between the exponent ranges of the two formats (biases 15 and 127).
const TWO_POW_112: f32 = f32::from_bits((127 + 112) << 23);
const TWO_POW_MINUS_112: f32 = f32::from_bits((127 - 112) << 23);

fn widen_half(bytes: [u8; 2]) -> f32 {
    let bits = u32::from(u16::from_ne_bytes(bytes));
    let (sign, magnitude) = ((bits & 0x8000) << 16, bits & 0x7fff);
    // The multiplication also normalises subnormals.
    let finite = (f32::from_bits(magnitude << 13) * TWO_POW_112).to_bits();
    let special = magnitude << 13 | 0x7f80_0000;
    f32::from_bits(sign | if magnitude >= 0x7c00 { special } else { finite })
}

fn narrow_half(value: f32) -> [u8; 2] {
    let bits = value.to_bits();
    let (sign, magnitude) = ((bits >> 16 & 0x8000), bits & 0x7fff_ffff);
    // Normal results: drop 13 bits of the mantissa, nearest even; a carry into infinity is right.
    let scaled = (f32::from_bits(magnitude) * TWO_POW_MINUS_112).to_bits();
    let normal = (scaled + 0xfff + (scaled >> 13 & 1)) >> 13;
    // Results below 2^-14: adding 0.5 leaves the wanted bits, rounded by the adder, at the end of the mantissa.
    let subnormal = (f32::from_bits(magnitude) + 0.5).to_bits().wrapping_sub(0.5f32.to_bits());
    let half = if magnitude > 0x7f80_0000 {
        0x7e00
    } else if magnitude >= 0x4780_0000 {
        0x7c00 // 65536 and above
    } else if magnitude < 0x3880_0000 {
        subnormal // below 2^-14
    } else {
        normal
    };
    ((sign | half) as u16).to_ne_bytes()
}

/// A small whole number as an element; exact for magnitudes up to 256 in every type.
pub(super) fn encode(data_type: DataType, value: i32) -> [u8; 4] {
    let wide = |[a, b]: [u8; 2]| [a, b, 0, 0];
    match data_type {
        DataType::F32 => (value as f32).to_ne_bytes(),
        DataType::F16 => wide(narrow_half(value as f32)),
        DataType::Bf16 => wide(narrow_bfloat(value as f32)),
        DataType::I32 => value.to_ne_bytes(),
    }
}

/// An element as a number, for messages.
pub(super) fn decode(data_type: DataType, bytes: &[u8]) -> f64 {
    let pair = || bytes.first_chunk().copied().unwrap_or_default();
    let quad = || bytes.first_chunk().copied().unwrap_or_default();
    match data_type {
        DataType::F32 => f64::from(f32::from_ne_bytes(quad())),
        DataType::F16 => f64::from(widen_half(pair())),
        DataType::Bf16 => f64::from(widen_bfloat(pair())),
        DataType::I32 => f64::from(i32::from_ne_bytes(quad())),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_half_survives_the_way_through_f32() {
        for bits in 0..=u16::MAX {
            let (half, bfloat) = (widen_half(bits.to_ne_bytes()), widen_bfloat(bits.to_ne_bytes()));
            if half.is_nan() {
                assert!(widen_half(narrow_half(half)).is_nan());
            } else {
                assert_eq!(u16::from_ne_bytes(narrow_half(half)), bits);
            }
            if bfloat.is_nan() {
                assert!(widen_bfloat(narrow_bfloat(bfloat)).is_nan());
            } else {
                assert_eq!(u16::from_ne_bytes(narrow_bfloat(bfloat)), bits);
            }
        }
    }

    #[test]
    fn known_halves() {
        for (value, bits) in [
            (1.0, 0x3c00),
            (-2.0, 0xc000),
            (65504.0, 0x7bff),
            (65519.9, 0x7bff),
            (65520.0, 0x7c00),
            (1e9, 0x7c00),
            (2f32.powi(-24), 0x0001),
            (2f32.powi(-25), 0x0000),
            (2f32.powi(-14), 0x0400),
            (0.1, 0x2e66),
        ] {
            assert_eq!(u16::from_ne_bytes(narrow_half(value)), bits, "{value}");
        }
    }

    proptest! {
        #[test]
        fn narrowing_takes_a_nearest_half(value in -65500f32..65500f32) {
            let bits = u16::from_ne_bytes(narrow_half(value));
            let error = |bits: u16| (f64::from(widen_half(bits.to_ne_bytes())) - f64::from(value)).abs();
            for neighbour in [bits.wrapping_add(1), bits.wrapping_sub(1)] {
                prop_assert!(error(neighbour).is_nan() || error(bits) <= error(neighbour), "{value}: {bits:#x}");
            }
        }
    }

    #[test]
    fn both_loops_combine_alike() {
        for &data_type in DataType::ALL {
            for &op in ReduceOp::ALL {
                let size = data_type.bytes() as usize;
                let bytes = |values: [i32; 5]| -> Vec<u8> {
                    values.iter().flat_map(|&v| encode(data_type, v)[..size].to_vec()).collect()
                };
                let (a, b) = (bytes([1, -2, 3, 40, 0]), bytes([5, 7, -3, 2, 0]));
                let expected = bytes(match op {
                    ReduceOp::Sum => [6, 5, 0, 42, 0],
                    ReduceOp::Prod => [5, -14, -9, 80, 0],
                    ReduceOp::Min => [1, -2, -3, 2, 0],
                    ReduceOp::Max => [5, 7, 3, 40, 0],
                });
                let kernel = Kernel::new(data_type, op);
                let mut target = a.clone();
                (kernel.into)(&mut target, &b);
                assert_eq!(target, expected, "{data_type} {op}");
                let mut target = vec![0; a.len()];
                (kernel.from)(&mut target, &a, &b);
                assert_eq!(target, expected, "{data_type} {op}");
            }
        }
    }
}
