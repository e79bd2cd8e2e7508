//! The nearest known name to a misspelt one, for messages. It never replaces what the user wrote.

/// The name among `known` that is closest to `name`, ignoring case, if any is close enough to be meant.
///
/// Ties go to the earlier name.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    /// No name of ours is longer; distances to longer texts are not worth their quadratic time.
    const LONGEST_NAME: usize = 64;
    let wanted: Vec<char> = name.chars().take(LONGEST_NAME + 1).map(|c| c.to_ascii_lowercase()).collect();
    if wanted.is_empty() || LONGEST_NAME < wanted.len() {
        return None;
    }
    // A third of the characters may be wrong, and at least one.
    let allowed = (wanted.len() / 3).max(1);
    known
        .into_iter()
        .map(|candidate| (distance(&wanted, candidate), candidate))
        .filter(|(distance, _)| *distance <= allowed)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// The tail of a message: the nearest name, or nothing.
pub fn hint<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    nearest(name, known).map(|near| format!("; did you mean `{near}`?")).unwrap_or_default()
}

/// Optimal string alignment distance: inserts, deletes, replacements and swaps of neighbours cost 1 each.
fn distance(wanted: &[char], candidate: &str) -> usize {
    let candidate: Vec<char> = candidate.chars().map(|c| c.to_ascii_lowercase()).collect();
    let mut before_last: Vec<usize> = vec![0; candidate.len() + 1];
    let mut last: Vec<usize> = (0..=candidate.len()).collect();
    for (i, w) in wanted.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, c) in candidate.iter().enumerate() {
            let replaced = last[j] + usize::from(w != c);
            let mut cost = replaced.min(last[j + 1] + 1).min(row[j] + 1);
            if 0 < i && 0 < j && wanted[i - 1] == *c && candidate[j - 1] == *w {
                cost = cost.min(before_last[j - 1] + 1);
            }
            row.push(cost);
        }
        before_last = std::mem::replace(&mut last, row);
    }
    last[candidate.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_slips_are_recognised() {
        let known = ["allreduce", "allgather", "reduce", "broadcast"];
        for (name, near) in [
            ("all_reduce", Some("allreduce")),
            ("AllReduce", Some("allreduce")),
            ("allgahter", Some("allgather")),
            ("broad", None),
            ("x", None),
            ("", None),
        ] {
            assert_eq!(nearest(name, known), near, "{name}");
        }
        assert_eq!(nearest("treee", ["ring", "tree"]), Some("tree"));
    }

    proptest::proptest! {
        #[test]
        fn a_name_is_nearest_to_itself_and_any_text_is_taken(text in "\\PC{0,80}") {
            let is_short = text.chars().count() <= 64 && !text.is_empty();
            proptest::prop_assert_eq!(nearest(&text, [text.as_str()]).is_some(), is_short);
        }
    }
}
