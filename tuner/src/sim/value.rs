//! Values of a cluster file that know their own bounds, so that an error has the place of the value.

use serde::Deserialize;

/// A number above 0.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(try_from = "f64")]
pub struct Positive(pub f64);

impl TryFrom<f64> for Positive {
    type Error = String;

    fn try_from(value: f64) -> Result<Self, String> {
        if value.is_finite() && value > 0.0 { Ok(Self(value)) } else { Err(format!("{value} must be above 0")) }
    }
}

/// A number that is not below 0.
#[derive(Debug, Clone, Copy, PartialEq, Default, Deserialize)]
#[serde(try_from = "f64")]
pub struct NotNegative(pub f64);

impl TryFrom<f64> for NotNegative {
    type Error = String;

    fn try_from(value: f64) -> Result<Self, String> {
        if value.is_finite() && value >= 0.0 { Ok(Self(value)) } else { Err(format!("{value} must not be below 0")) }
    }
}

/// A part of a whole: 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq, Default, Deserialize)]
#[serde(try_from = "f64")]
pub struct Share(pub f64);

impl TryFrom<f64> for Share {
    type Error = String;

    fn try_from(value: f64) -> Result<Self, String> {
        if (0.0..=1.0).contains(&value) { Ok(Self(value)) } else { Err(format!("{value} must be 0 to 1")) }
    }
}

/// A whole number from 1 on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "u32")]
pub struct Count(pub u32);

impl TryFrom<u32> for Count {
    type Error = String;

    fn try_from(value: u32) -> Result<Self, String> {
        if value > 0 { Ok(Self(value)) } else { Err("0 must be at least 1".to_owned()) }
    }
}

/// A size, written as `"64K"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Bytes(pub u64);

impl TryFrom<String> for Bytes {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        gdrtune_profiles::size::parse_size(&text).map(Self).map_err(|error| error.to_string())
    }
}

/// Sizes, written as `"1K-64M"` (every fourth power of two) or `"1K,1M"`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(try_from = "String")]
pub struct Sizes(pub Vec<u64>);

/// Factor between the sizes of a range.
const SIZE_FACTOR: u64 = 4;

impl TryFrom<String> for Sizes {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        gdrtune_profiles::size::parse_sizes(&text, SIZE_FACTOR).map(Self).map_err(|error| error.to_string())
    }
}
