//! Folding of names for display: `node01,node02` becomes `node[01-02]`. Expanding the text gives the same list back.

/// Digits of a number that is surely a `u64`; longer ones are folded as text.
const MAX_DIGITS: usize = 18;

/// A name cut into text and numbers, in turn. Numbers keep their digits as written.
#[derive(Debug, PartialEq, Eq)]
struct Cut<'a> {
    pieces: Vec<&'a str>,
}

impl<'a> Cut<'a> {
    fn new(name: &'a str) -> Self {
        let mut pieces = Vec::new();
        let mut rest = name;
        while let Some(first) = rest.bytes().next() {
            let is_number = first.is_ascii_digit();
            let end = rest.find(|character: char| character.is_ascii_digit() != is_number).unwrap_or(rest.len());
            let (piece, after) = rest.split_at(end);
            pieces.push(piece);
            rest = after;
        }
        Self { pieces }
    }

    /// The only piece in which the two differ, if it is a number in both.
    fn differs_at(&self, other: &Self) -> Option<usize> {
        if self.pieces.len() != other.pieces.len() {
            return None;
        }
        let mut different = (0..self.pieces.len()).filter(|&at| self.pieces[at] != other.pieces[at]);
        let at = different.next()?;
        let numbers = number(self.pieces[at]).is_some() && number(other.pieces[at]).is_some();
        (different.next().is_none() && numbers).then_some(at)
    }
}

fn number(piece: &str) -> Option<u64> {
    (piece.len() <= MAX_DIGITS && piece.starts_with(|first: char| first.is_ascii_digit()))
        .then(|| piece.parse().ok())?
}

/// Folds names for display, keeping their order: `node[01-04],gpu1`.
///
/// Only neighbours in the list are joined, and only in one number each, so the text expands to the very same list.
pub fn fold<S: AsRef<str>>(names: &[S]) -> String {
    let cuts: Vec<Cut<'_>> = names.iter().map(|name| Cut::new(name.as_ref())).collect();
    let mut groups = Vec::new();
    let mut start = 0;
    while start < cuts.len() {
        let first = &cuts[start];
        let Some(at) = cuts.get(start + 1).and_then(|next| first.differs_at(next)) else {
            groups.push(first.pieces.concat());
            start += 1;
            continue;
        };
        // A name equal to the first of its run cannot be in it: the run would lose it.
        let others = cuts[start + 1..].iter().take_while(|cut| first.differs_at(cut) == Some(at)).count();
        let end = start + 1 + others;
        let numbers: Vec<&str> = cuts[start..end].iter().map(|cut| cut.pieces[at]).collect();
        let (before, after) = (first.pieces[..at].concat(), first.pieces[at + 1..].concat());
        groups.push(format!("{before}[{}]{after}", fold_numbers(&numbers)));
        start = end;
    }
    groups.join(",")
}

fn fold_numbers(numbers: &[&str]) -> String {
    let mut items = Vec::new();
    let mut start = 0;
    while start < numbers.len() {
        let first = numbers[start];
        let width = if first.len() > 1 && first.starts_with('0') { first.len() } else { 0 };
        let follows = |(step, text): &(usize, &&str)| {
            number(first).is_some_and(|low| format!("{:0width$}", low + *step as u64 + 1) == **text)
        };
        let run = numbers[start + 1..].iter().enumerate().take_while(follows).count();
        match run {
            0 => items.push(first.to_owned()),
            _ => items.push(format!("{first}-{}", numbers[start + run])),
        }
        start += run + 1;
    }
    items.join(",")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::hosts::{Host, parse_list};

    #[test]
    fn folds_neighbours() {
        for (names, folded) in [
            (&[][..], ""),
            (&["node1"], "node1"),
            (&["node01", "node02", "node03"], "node[01-03]"),
            (&["node07", "node12"], "node[07,12]"),
            (&["n9", "n10", "n11", "n3"], "n[9-11,3]"),
            (&["n09", "n10", "n100"], "n[09-10,100]"),
            (&["r1n1", "r1n2", "r2n1", "r2n2"], "r1n[1-2],r2n[1-2]"),
            (&["a1.x", "a2.x", "b1"], "a[1-2].x,b1"),
            (&["n1", "m", "n2"], "n1,m,n2"),
            (&["n1", "n1"], "n1,n1"),
            (&["n1", "n01"], "n[1,01]"),
        ] {
            assert_eq!(fold(names), folded);
        }
    }

    proptest! {
        #[test]
        fn expanding_a_fold_gives_the_list(names in prop::collection::vec("[ab]{0,2}[0-9]{1,3}(\\.[r]?[0-9]{1,2})?", 1..40)) {
            let mut once: Vec<String> = Vec::new();
            for name in names {
                if !once.contains(&name) {
                    once.push(name);
                }
            }
            let expanded = parse_list("-w", &fold(&once)).unwrap();
            let hosts: Vec<Host> = once.iter().map(Host::named).collect();
            prop_assert_eq!(expanded.hosts, hosts);
        }

        #[test]
        fn folding_an_expansion_expands_to_it(low in 0_u32..120, span in 0_u32..30, width in 1_usize..5, racks in 1_u32..4) {
            let pattern = format!("r[1-{racks}]n[{low:0width$}-{high:0width$}]", high = low + span);
            let hosts = parse_list("-w", &pattern).unwrap().hosts;
            let names: Vec<&str> = hosts.iter().map(|host| host.name.as_str()).collect();
            prop_assert_eq!(parse_list("-w", &fold(&names)).unwrap().hosts, hosts);
        }

        #[test]
        fn never_panics(names in prop::collection::vec(".{0,30}", 0..6)) {
            prop_assert_eq!(fold(&names).is_empty(), names.concat().is_empty() && names.len() < 2);
        }
    }
}
