//! Division of elements into contiguous shares. Pure.

use std::ops::Range;

/// The `index`th of `parts` contiguous shares of `range`; sizes differ by at most one and larger shares come first.
pub(super) fn share(range: &Range<usize>, parts: usize, index: usize) -> Range<usize> {
    let total = range.len();
    let (each, extra) = (total / parts, total % parts);
    let start = range.start + each * index + index.min(extra);
    start..start + each + usize::from(index < extra)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn shares_tile_the_range_and_are_balanced(start in 0usize..1000, total in 0usize..100_000, parts in 1usize..70) {
            let range = start..start + total;
            let mut next = start;
            for index in 0..parts {
                let part = share(&range, parts, index);
                prop_assert_eq!(part.start, next);
                prop_assert!(part.len() == total / parts || part.len() == total / parts + 1);
                next = part.end;
            }
            prop_assert_eq!(next, range.end);
        }
    }

    #[test]
    fn larger_shares_come_first() {
        assert_eq!((0..4).map(|i| share(&(10..20), 4, i)).collect::<Vec<_>>(), [10..13, 13..16, 16..18, 18..20]);
    }
}
