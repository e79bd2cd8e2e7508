//! What a profile decides at each size: of rules that overlap, the first wins.

use std::collections::{BTreeMap, BTreeSet};

use super::{ByteRange, Profile, Rule};
use crate::vocab::Collective;

/// Sizes at which a call meets the same rule, or none.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stretch<'a> {
    /// The sizes.
    pub bytes: ByteRange,
    /// The rule with its place in [`Profile::rule`]; none leaves the choice to the engine.
    pub rule: Option<(usize, &'a Rule)>,
}

impl Profile {
    /// All sizes of a collective in jobs of this shape (nodes, ranks), cut where another rule begins to hold.
    pub fn stretches(&self, collective: Collective, shape: (u32, u32)) -> Vec<Stretch<'_>> {
        let of_calls = |rule: &Rule| rule.collective == collective && (rule.nodes, rule.ranks) == shape;
        let rules: Vec<(usize, &Rule)> = self.rule.iter().enumerate().filter(|(_, rule)| of_calls(rule)).collect();
        let ranges: Vec<ByteRange> = rules.iter().map(|(_, rule)| rule.bytes).collect();
        let mut stretches: Vec<Stretch<'_>> = Vec::new();
        for (min, first) in steps(&ranges) {
            let rule = first.and_then(|index| rules.get(index)).copied();
            match stretches.last_mut() {
                // The end of a rule that another one hides.
                Some(last) if last.rule.map(|(index, _)| index) == rule.map(|(index, _)| index) => continue,
                // Each ends where the next one begins.
                Some(last) => last.bytes.max = Some(min - 1),
                None => {}
            }
            stretches.push(Stretch { bytes: ByteRange { min, max: None }, rule });
        }
        stretches
    }
}

/// The first range, by its place, that holds from each size on, until the next one. Ranges that run backwards hold nowhere.
pub(crate) fn steps(ranges: &[ByteRange]) -> BTreeMap<u64, Option<usize>> {
    // Sizes where ranges begin and end.
    let mut ends: BTreeMap<u64, (Vec<usize>, Vec<usize>)> = BTreeMap::from([(0, Default::default())]);
    for (index, bytes) in ranges.iter().enumerate() {
        if bytes.max.is_some_and(|max| max < bytes.min) {
            continue;
        }
        ends.entry(bytes.min).or_default().0.push(index);
        if let Some(end) = bytes.max.and_then(|max| max.checked_add(1)) {
            ends.entry(end).or_default().1.push(index);
        }
    }
    let mut present: BTreeSet<usize> = BTreeSet::new();
    let step = |(bytes, (begun, ended)): (u64, (Vec<usize>, Vec<usize>))| {
        present.extend(begun);
        present.retain(|index| !ended.contains(index));
        (bytes, present.first().copied())
    };
    ends.into_iter().map(step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOLDEN: &str = include_str!("../../tests/golden/nccl.toml");

    fn shown(profile: &Profile, collective: Collective, shape: (u32, u32)) -> Vec<(String, Option<usize>)> {
        let stretches = profile.stretches(collective, shape);
        stretches.iter().map(|s| (s.bytes.to_string(), s.rule.map(|(index, _)| index))).collect()
    }

    #[test]
    fn ends_next_to_a_whole_size_are_told_by_it() {
        for (min, max, expected) in [
            (0, None, "0 and more"),
            (1 << 30, None, "1G and more"),
            ((1 << 30) + 1, None, "above 1G"),
            (0, Some((1 << 20) - 1), "below 1M"),
            (1 << 10, Some((1 << 20) - 1), "1K to below 1M"),
            ((4 << 20) + 1, Some(16 << 20), "above 4M to 16M"),
            ((4 << 20) + 1, Some((16 << 20) - 1), "above 4M, below 16M"),
            (1 << 16, Some(1 << 16), "64K"),
            (1025, Some(1025), "1025"),
            (741_456, Some(2_965_820), "741456 to 2965820"),
            (1, Some(u64::MAX), "1 to 18446744073709551615"),
        ] {
            assert_eq!(ByteRange { min, max }.to_string(), expected);
        }
    }

    #[test]
    fn all_sizes_are_covered_once() {
        let mut profile = Profile::parse(GOLDEN, "golden").unwrap().0;
        let row = |bytes: &str, rule| (bytes.to_owned(), rule);
        let expected = [row("0 to 64K", Some(0)), row("above 64K, below 16M", None), row("16M and more", Some(1))];
        assert_eq!(shown(&profile, Collective::AllReduce, (4, 32)), expected);
        assert_eq!(shown(&profile, Collective::AllReduce, (2, 16)), [row("0 and more", None)]);
        assert_eq!(shown(&profile, Collective::Reduce, (4, 32)), [row("0 and more", None)]);
        // A third rule that the first one hides in part.
        let mut hidden = profile.rule[0].clone();
        hidden.bytes = ByteRange { min: 1024, max: Some(131_072) };
        profile.rule.push(hidden);
        let expected = [
            row("0 to 64K", Some(0)),
            row("above 64K to 128K", Some(2)),
            row("above 128K, below 16M", None),
            row("16M and more", Some(1)),
        ];
        assert_eq!(shown(&profile, Collective::AllReduce, (4, 32)), expected);
    }
}
