//! Expansion of host lists.

use super::{Host, HostCause, HostError, HostList, without_repeats};

/// Hosts that a list may name. Checked before anything is allocated for them.
pub const MAX_HOSTS: usize = 65_536;

/// Expands `node[01-04],user@gpu-r[1-2]n[01-04]`.
///
/// # Errors
/// [`HostError`] with the column.
pub fn expand(text: &str) -> Result<HostList, HostError> {
    let hosts = expand_items(text)?;
    if hosts.is_empty() {
        return Err(HostCause::Empty.into());
    }
    Ok(without_repeats(hosts))
}

/// All hosts of a comma-separated list, repeats included.
pub(super) fn expand_items(text: &str) -> Result<Vec<Host>, HostCause> {
    let mut hosts = Vec::new();
    for (column, item) in items(text)? {
        let (user, names) = match item.split_once('@') {
            Some((user, names)) => (Some(check_user(user)?), names),
            None => (None, item),
        };
        let column = column + item.len() - names.len();
        let room = MAX_HOSTS - hosts.len();
        for name in expand_item(names, column, room)? {
            hosts.push(Host { name, user: user.clone(), slots: None });
        }
    }
    Ok(hosts)
}

/// Splits at commas outside of brackets; each item with its column from 1. Empty items are passed over.
fn items(text: &str) -> Result<Vec<(usize, &str)>, HostCause> {
    let mut items = Vec::new();
    let (mut start, mut open) = (0, None);
    for (at, c) in text.char_indices().chain([(text.len(), ',')]) {
        match c {
            '[' if open.is_none() => open = Some(at),
            ']' if open.is_some() => open = None,
            '[' | ']' => return Err(unbalanced(text, at)),
            ',' if open.is_none() => {
                let raw = &text[start..at];
                let item = raw.trim();
                if !item.is_empty() {
                    items.push((start + raw.len() - raw.trim_start().len() + 1, item));
                }
                start = at + 1;
            }
            _ => {}
        }
    }
    match open {
        Some(at) => Err(unbalanced(text, at)),
        None => Ok(items),
    }
}

fn unbalanced(text: &str, at: usize) -> HostCause {
    HostCause::Bracket { column: at + 1, text: text.to_owned() }
}

/// A piece of an item: text, or the texts that a bracket stands for.
enum Piece<'a> {
    Text(&'a str),
    Numbers(Vec<Range>),
}

/// `first..=last`, shown with at least `width` digits.
struct Range {
    first: u64,
    last: u64,
    width: usize,
}

fn expand_item(item: &str, column: usize, room: usize) -> Result<Vec<String>, HostCause> {
    let mut pieces = Vec::new();
    let mut count = 1usize;
    let mut rest = item;
    while let Some(open) = rest.find('[') {
        let close = rest[open..].find(']').map(|c| open + c).ok_or_else(|| unbalanced(item, open))?;
        let at = column + item.len() - rest.len() + open + 1;
        let ranges = parse_ranges(&rest[open + 1..close], at)?;
        let numbers = ranges.iter().fold(0u64, |sum, r| sum.saturating_add((r.last - r.first).saturating_add(1)));
        count = usize::try_from(numbers).ok().and_then(|n| count.checked_mul(n)).ok_or(HostCause::TooMany)?;
        if count > room {
            return Err(HostCause::TooMany);
        }
        pieces.push(Piece::Text(&rest[..open]));
        pieces.push(Piece::Numbers(ranges));
        rest = &rest[close + 1..];
    }
    pieces.push(Piece::Text(rest));
    if count > room {
        return Err(HostCause::TooMany);
    }
    let mut names = vec![String::new()];
    for piece in &pieces {
        names = match piece {
            Piece::Text(text) => names.into_iter().map(|name| name + text).collect(),
            Piece::Numbers(ranges) => names.iter().flat_map(|name| numbered(name, ranges)).collect(),
        };
    }
    names.into_iter().map(|name| check_name(name, column)).collect()
}

fn numbered(name: &str, ranges: &[Range]) -> Vec<String> {
    let mut names = Vec::new();
    for range in ranges {
        names.extend((range.first..=range.last).map(|n| format!("{name}{n:0width$}", width = range.width)));
    }
    names
}

fn parse_ranges(text: &str, column: usize) -> Result<Vec<Range>, HostCause> {
    let mut ranges = Vec::new();
    for part in text.split(',') {
        let malformed = || HostCause::Range { column, range: part.to_owned() };
        let number = |digits: &str| {
            let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
            plain.then(|| digits.parse::<u64>().ok()).flatten().ok_or_else(malformed)
        };
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        // Padding is what the first number shows: `[098-101]` has three digits throughout, `[1-16]` none.
        let width = if first.starts_with('0') { first.len() } else { 0 };
        let range = Range { first: number(first)?, last: number(last)?, width };
        if range.last < range.first {
            return Err(HostCause::Backwards { column, range: part.to_owned() });
        }
        ranges.push(range);
    }
    Ok(ranges)
}

/// A host name or address as ssh may get it: nothing that ssh or a shell would take for something else.
fn check_name(name: String, column: usize) -> Result<String, HostCause> {
    let fits = |c: char| c.is_ascii_alphanumeric() || ".-_:".contains(c);
    // 253 is the longest DNS name (RFC 1035).
    if name.is_empty() || name.len() > 253 || name.starts_with('-') || !name.chars().all(fits) {
        return Err(HostCause::Name { column, name });
    }
    Ok(name)
}

fn check_user(user: &str) -> Result<String, HostCause> {
    let fits = |c: char| c.is_ascii_alphanumeric() || ".-_".contains(c);
    if user.is_empty() || user.starts_with('-') || !user.chars().all(fits) {
        return Err(HostCause::User { user: user.to_owned() });
    }
    Ok(user.to_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::hosts::fold;

    fn names(text: &str) -> Vec<String> {
        expand(text).unwrap().hosts.into_iter().map(|h| h.name).collect()
    }

    #[test]
    fn order_and_padding_are_kept() {
        assert_eq!(names("node[01-03]"), ["node01", "node02", "node03"]);
        assert_eq!(names("n[098-101]"), ["n098", "n099", "n100", "n101"]);
        assert_eq!(names("b, a ,n[2,1]"), ["b", "a", "n2", "n1"]);
        assert_eq!(names("r[1-2]n[01-02].x"), ["r1n01.x", "r1n02.x", "r2n01.x", "r2n02.x"]);
        assert_eq!(names("10.0.0.[1-2]"), ["10.0.0.1", "10.0.0.2"]);
        assert_eq!(expand("me@n1").unwrap().hosts[0].user.as_deref(), Some("me"));
    }

    #[test]
    fn a_repeated_host_counts_once_and_is_said() {
        let list = expand("a,b,a").unwrap();
        assert_eq!(list.hosts.len(), 2);
        assert_eq!(list.warnings, ["host a is named twice; the first counts"]);
    }

    #[test]
    fn what_is_no_host_list_is_refused_with_its_column() {
        for (text, expected) in [
            ("", "no host in the list"),
            (" , ", "no host in the list"),
            ("node[01-04", "column 5: `node[01-04` has a `[` without its `]`"),
            ("a,b]", "column 4: `a,b]` has a `[`"),
            ("n[[1]]", "column 3: "),
            ("n[3-1]", "column 3: the range `3-1` runs backwards"),
            ("n[a-b]", "column 3: `a-b` is no range"),
            ("n[1,]", "column 3: `` is no range"),
            ("n[1--2]", "column 3: `1--2` is no range"),
            ("n[1-99999999999999999999]", "is no range"),
            ("n[1-18446744073709551615]", "more than 65536 hosts"),
            ("n[1-300][1-300]", "more than 65536 hosts"),
            ("a,-oProxyCommand=x", "column 3: `-oProxyCommand=x` is no host name"),
            ("a;reboot", "is no host name"),
            ("$(reboot)", "is no host name"),
            ("-l@a", "`-l` is no login name"),
        ] {
            let error = expand(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_refused_or_read(text in "[a-c0-2\\[\\],@.\\- ]{0,24}|\\PC{0,16}") {
            expand(&text).ok();
        }

        #[test]
        fn what_is_folded_expands_to_the_same(
            parts in prop::collection::vec(("[a-c]{1,2}", 0u32..40, 0usize..4), 1..30),
        ) {
            let mut hosts: Vec<String> = parts.iter().map(|(name, n, w)| format!("{name}{n:0w$}")).collect();
            let mut seen = std::collections::HashSet::new();
            hosts.retain(|h| seen.insert(h.clone()));
            let folded = fold(&hosts);
            prop_assert_eq!(names(&folded), hosts, "{}", folded);
        }
    }
}
