//! The step of a job: what its calls repeat.

/// How often a step must be seen to be one.
const REPEATS: usize = 3;

/// Ends of the sequence that are tried: what a job calls at last (an evaluation, a checkpoint) is no step.
const ENDS: usize = 64;

/// A repeated part of a sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Period {
    /// Where it is first seen whole.
    pub(super) start: usize,
    /// Its length.
    pub(super) length: usize,
    /// Symbols that it covers, from `start` on; at least half of the sequence.
    pub(super) covered: usize,
}

/// The shortest part that is repeated at least [`REPEATS`] times in a row over most of `sequence`, whatever is before and
/// behind it.
pub(super) fn period(sequence: &[u16]) -> Option<Period> {
    let tried = (0..ENDS).map(|part| sequence.len() - sequence.len() * part / (2 * ENDS));
    let best = tried.filter_map(|end| suffix_period(&sequence[..end])).max_by_key(|period| period.covered)?;
    (sequence.len() <= 2 * best.covered).then_some(best)
}

/// The longest suffix that repeats a part of itself.
///
/// A prefix of the sequence read backwards has the period of its length less its longest border (Knuth, Morris, Pratt 1977).
fn suffix_period(sequence: &[u16]) -> Option<Period> {
    let count = sequence.len();
    let backwards = |at: usize| sequence[count - 1 - at];
    let mut borders = vec![0_usize; count];
    let mut best = None;
    for at in 1..count {
        let mut border = borders[at - 1];
        while 0 < border && backwards(at) != backwards(border) {
            border = borders[border - 1];
        }
        if backwards(at) == backwards(border) {
            border += 1;
        }
        borders[at] = border;
        let (covered, length) = (at + 1, at + 1 - border);
        if REPEATS * length <= covered {
            best = Some(Period { start: count - covered, length, covered });
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    fn of(text: &str) -> Option<(usize, usize, usize)> {
        let symbols: Vec<u16> = text.bytes().map(u16::from).collect();
        period(&symbols).map(|Period { start, length, covered }| (start, length, covered))
    }

    #[test]
    fn the_step_is_found_behind_a_start_and_before_an_end() {
        for (text, expected) in [
            ("aabaabaab", Some((0, 3, 9))),
            ("xyzaabaabaabaab", Some((3, 3, 12))),
            // Cut off in the middle of a step.
            ("xaabaabaabaa", Some((1, 3, 11))),
            ("aaaaaa", Some((0, 1, 6))),
            ("abcabc", None),
            ("abcdefgh", None),
            ("", None),
            ("a", None),
            // A part that is repeated at the end alone is no step.
            ("abcdefghijklaaa", None),
        ] {
            assert_eq!(of(text), expected, "{text}");
        }
        let job = format!("{}{}", "aaaab".repeat(40), "zzzyyx");
        let (_, length, covered) = of(&job).unwrap();
        assert!(length == 5 && 190 < covered, "{covered}");
    }

    proptest! {
        #[test]
        fn a_period_is_one(sequence in vec(0_u16..4, 0..200)) {
            if let Some(Period { start, length, covered }) = period(&sequence) {
                prop_assert!(0 < length && 3 * length <= covered && sequence.len() <= 2 * covered);
                let part = &sequence[start..start + covered];
                prop_assert!(part.iter().zip(&part[length..]).all(|(a, b)| a == b));
            }
        }

        #[test]
        fn a_planted_period_is_found(step in vec(0_u16..9, 1..30), before in vec(9_u16..12, 0..8)) {
            let sequence: Vec<u16> = before.into_iter().chain(step.iter().copied().cycle().take(step.len() * 8)).collect();
            let found = period(&sequence);
            prop_assert!(found.is_some_and(|found| step.len() % found.length == 0), "{found:?}");
        }
    }
}
