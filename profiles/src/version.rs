//! NCCL versions: `2.28.9`, the code 22809, and their order.
//!
//! A version is a value here; finding out which one a node has is the agent's work.

use std::{fmt, str::FromStr};

/// An NCCL version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// Always 2 so far.
    pub major: u16,
    /// The feature release.
    pub minor: u16,
    /// The patch release.
    pub patch: u16,
}

/// A text that is no version.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an NCCL version: write it as 2.28.9")]
pub struct VersionError(String);

impl Version {
    /// The first release of `major.minor`.
    pub const fn new(major: u16, minor: u16) -> Self {
        Self { major, minor, patch: 0 }
    }

    /// The version of `ncclGetVersion`'s code: 22809 is 2.28.9, 2708 is 2.7.8 (`NCCL_VERSION` in NCCL's `nccl.h.in`).
    pub const fn from_code(code: u32) -> Self {
        let (major_unit, minor_digits) = if code < 10_000 { (1000, 10) } else { (10_000, 100) };
        Self {
            major: (code / major_unit) as u16,
            minor: (code / 100 % minor_digits) as u16,
            patch: (code % 100) as u16,
        }
    }

    /// The code of `ncclGetVersion`; four digits up to 2.8, five after.
    pub const fn code(self) -> u32 {
        let major_unit = if self.major <= 2 && self.minor <= 8 { 1000 } else { 10_000 };
        self.major as u32 * major_unit + self.minor as u32 * 100 + self.patch as u32
    }

    /// Whether this is `major.minor` or a later feature release.
    pub fn at_least(self, major: u16, minor: u16) -> bool {
        Self::new(major, minor) <= self
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}.{}.{}", self.major, self.minor, self.patch))
    }
}

impl FromStr for Version {
    type Err = VersionError;

    /// Reads `2.28.9`, `2.28`, `v2.28.9-1` and `2.28.9+cuda12.9` (NCCL's version line).
    fn from_str(text: &str) -> Result<Self, VersionError> {
        let error = || VersionError(text.to_owned());
        let bare = text.trim().trim_start_matches('v');
        let bare = bare.split(['-', '+']).next().unwrap_or_default();
        let mut numbers = [0_u16; 3];
        let mut count = 0;
        for part in bare.split('.') {
            let slot = numbers.get_mut(count).ok_or_else(error)?;
            *slot = part.parse().ok().filter(|_| part.bytes().all(|b| b.is_ascii_digit())).ok_or_else(error)?;
            count += 1;
        }
        if count < 2 {
            return Err(error());
        }
        let [major, minor, patch] = numbers;
        Ok(Self { major, minor, patch })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_and_codes_name_the_same_version() {
        for (text, code, shown) in [
            ("2.28.9", 22809, "2.28.9"),
            ("v2.19.3-1", 21903, "2.19.3"),
            ("2.30.7+cuda12.9", 23007, "2.30.7"),
            ("2.24", 22400, "2.24.0"),
            ("2.7.8", 2708, "2.7.8"),
        ] {
            let version: Version = text.parse().unwrap();
            assert_eq!(version.code(), code, "{text}");
            assert_eq!(Version::from_code(code), version, "{text}");
            assert_eq!(version.to_string(), shown);
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for text in ["", "2", "2.x", "2.28.9.1", "two", "2.+8", "2.99999999"] {
            assert_eq!(text.parse::<Version>(), Err(VersionError(text.into())), "{text}");
        }
    }

    #[test]
    fn order_is_numeric() {
        assert!("2.9.9".parse::<Version>().unwrap() < Version::new(2, 24));
        assert!(Version::from_code(22400).at_least(2, 24));
        assert!(!Version::from_code(22307).at_least(2, 24));
    }

    proptest::proptest! {
        #[test]
        fn any_text_or_code_is_read_or_refused(text in "\\PC{0,12}", code: u32) {
            drop(text.parse::<Version>());
            proptest::prop_assert!(!Version::from_code(code).to_string().is_empty());
        }
    }
}
