//! Byte sizes as users write them: `1024`, `64K`, `4M`, `1G` (powers of two, as nccl-tests reads them).

use std::fmt;

/// A size that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SizeError {
    /// The text is not a whole number with an optional K, M or G.
    #[error("`{0}` is not a size: write bytes or a whole number with K, M or G, such as 64K")]
    Malformed(String),
    /// The size does not fit 64 bits.
    #[error("`{0}` is too large a size")]
    TooLarge(String),
    /// The first size of a range is above the second.
    #[error("the range `{0}` runs backwards: write the smaller size first")]
    Backwards(String),
    /// A list of sizes with nothing in it.
    #[error("no size given")]
    Empty,
}

/// Parses one size. An optional `B` or `iB` after the unit is accepted; units are powers of 1024.
///
/// # Errors
/// [`SizeError`] names the offending text.
pub fn parse_size(text: &str) -> Result<u64, SizeError> {
    let trimmed = text.trim();
    let malformed = || SizeError::Malformed(text.to_owned());
    let digits = trimmed.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = trimmed.split_at(digits);
    if number.is_empty() {
        return Err(malformed());
    }
    let shift = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        _ => return Err(malformed()),
    };
    let value = number.parse().ok().and_then(|value: u64| value.checked_mul(1 << shift));
    value.ok_or_else(|| SizeError::TooLarge(text.to_owned()))
}

/// Parses `1K-64M` (every power of `factor` from the first to the last), `1K,4K,1M`, or a mix of both.
///
/// The result is sorted and free of duplicates. `factor` is at least 2.
///
/// # Errors
/// [`SizeError`] names the offending part.
pub fn parse_sizes(text: &str, factor: u64) -> Result<Vec<u64>, SizeError> {
    let factor = factor.max(2);
    let mut sizes = Vec::new();
    for part in text.split(',').map(str::trim).filter(|p| !p.is_empty()) {
        match part.split_once('-') {
            None => sizes.push(parse_size(part)?),
            Some((low, high)) => {
                let (low, high) = (parse_size(low)?, parse_size(high)?);
                if high < low {
                    return Err(SizeError::Backwards(part.to_owned()));
                }
                let mut size = low;
                while size < high {
                    sizes.push(size);
                    let Some(next) = size.max(1).checked_mul(factor) else { break };
                    size = next;
                }
                sizes.push(high);
            }
        }
    }
    if sizes.is_empty() {
        return Err(SizeError::Empty);
    }
    sizes.sort_unstable();
    sizes.dedup();
    Ok(sizes)
}

/// Shows bytes in the shortest exact form that [`parse_size`] reads back: `64K`, `1536`, `4M`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size(pub u64);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (shift, unit) in [(30, 'G'), (20, 'M'), (10, 'K')] {
            if self.0 > 0 && self.0.trailing_zeros() >= shift {
                return write!(f, "{}{unit}", self.0 >> shift);
            }
        }
        write!(f, "{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_powers_of_1024() {
        for (text, bytes) in [("0", 0), ("1024", 1024), ("64K", 65536), (" 4MiB ", 4 << 20), ("1g", 1 << 30), ("8B", 8)]
        {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn malformed_sizes_are_named() {
        for text in ["", "K", "1.5M", "12T", "-4", "4 K"] {
            assert_eq!(parse_size(text), Err(SizeError::Malformed(text.into())));
        }
        assert_eq!(parse_size("99999999999G"), Err(SizeError::TooLarge("99999999999G".into())));
    }

    #[test]
    fn a_range_steps_by_the_factor_and_keeps_its_end() {
        assert_eq!(parse_sizes("1K-16K", 4), Ok(vec![1024, 4096, 16384]));
        assert_eq!(parse_sizes("1K-10K", 2), Ok(vec![1024, 2048, 4096, 8192, 10240]));
        assert_eq!(parse_sizes("4K,1K,4K", 2), Ok(vec![1024, 4096]));
        assert_eq!(parse_sizes("4K-1K", 2), Err(SizeError::Backwards("4K-1K".into())));
        assert_eq!(parse_sizes(" , ", 2), Err(SizeError::Empty));
    }

    proptest::proptest! {
        #[test]
        fn what_is_shown_is_read_back(bytes: u64) {
            proptest::prop_assert_eq!(parse_size(&Size(bytes).to_string()), Ok(bytes));
        }

        #[test]
        fn any_text_is_refused_or_read(text in "\\PC{0,12}") {
            drop(parse_sizes(&text, 2));
        }
    }
}
