//! Bracket expansion of one name: `gpu-r[1-2]n[01-04]`. Knows nothing of files, users or slots.

use super::MAX_HOSTS;

/// Longest name that DNS allows (RFC 1035, in text form).
const MAX_NAME: usize = 253;
/// Digits that surely fit a `u64`.
const MAX_DIGITS: usize = 18;

/// A fault inside a name, at a character offset from its start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) offset: usize,
    pub(super) problem: String,
    pub(super) expected: String,
}

impl Fault {
    pub(super) fn new(offset: usize, problem: impl Into<String>, expected: impl Into<String>) -> Self {
        Self { offset, problem: problem.into(), expected: expected.into() }
    }

    /// The same, further on by some characters.
    pub(super) fn moved(self, characters: usize) -> Self {
        Self { offset: self.offset + characters, ..self }
    }
}

/// Numbers from `low` to `high`, printed at least `width` digits wide.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Range {
    low: u64,
    high: u64,
    width: usize,
}

impl Range {
    /// How many numbers, saturating: the caller only compares with a cap.
    fn count(&self) -> usize {
        usize::try_from(self.high - self.low).map_or(usize::MAX, |span| span.saturating_add(1))
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    Ranges(Vec<Range>),
}

/// Expands one name without commas outside brackets; at most `room` names.
pub(super) fn expand(pattern: &str, room: usize) -> Result<Vec<String>, Fault> {
    let parts = split(pattern)?;
    let mut total = 1_usize;
    let mut longest = 0_usize;
    for part in &parts {
        match part {
            Part::Text(text) => longest += text.len(),
            Part::Ranges(ranges) => {
                let count = ranges.iter().fold(0_usize, |sum, range| sum.saturating_add(range.count()));
                total = total.saturating_mul(count);
                longest += ranges.iter().map(|range| range.width.max(digits(range.high))).max().unwrap_or(0);
            }
        }
    }
    if total > room {
        return Err(Fault::new(0, format!("more than {MAX_HOSTS} hosts"), format!("at most {MAX_HOSTS} in all")));
    }
    if longest > MAX_NAME {
        return Err(Fault::new(0, format!("a name of {longest} characters"), format!("at most {MAX_NAME}")));
    }
    let mut names = vec![String::new()];
    for part in &parts {
        names = match part {
            Part::Text(text) => {
                for name in &mut names {
                    name.push_str(text);
                }
                names
            }
            Part::Ranges(ranges) => multiply(&names, ranges),
        };
    }
    Ok(names)
}

fn multiply(names: &[String], ranges: &[Range]) -> Vec<String> {
    let mut product = Vec::new();
    for name in names {
        for range in ranges {
            product
                .extend((range.low..=range.high).map(|number| format!("{name}{number:0width$}", width = range.width)));
        }
    }
    product
}

fn digits(number: u64) -> usize {
    number.checked_ilog10().map_or(1, |log| log as usize + 1)
}

fn split(pattern: &str) -> Result<Vec<Part>, Fault> {
    let mut parts = Vec::new();
    let mut text = String::new();
    let mut characters = pattern.chars().enumerate();
    while let Some((offset, character)) = characters.next() {
        match character {
            '[' => {
                if !text.is_empty() {
                    parts.push(Part::Text(std::mem::take(&mut text)));
                }
                let mut inside = String::new();
                loop {
                    match characters.next() {
                        Some((_, ']')) => break,
                        Some((at, '[')) => return Err(Fault::new(at, "'[' inside brackets", "']' first")),
                        Some((_, other)) => inside.push(other),
                        None => return Err(Fault::new(offset, "'[' is never closed", "']' after the numbers")),
                    }
                }
                parts.push(Part::Ranges(ranges(&inside, offset + 1)?));
            }
            ']' => return Err(Fault::new(offset, "']' without '['", "'[' before it")),
            '-' if offset == 0 => {
                return Err(Fault::new(0, "a name that starts with '-' looks like an option", "a host name"));
            }
            'a'..='z' | 'A'..='Z' | '0'..='9' | '-' | '.' | '_' => text.push(character),
            other => {
                let expected = "letters, digits, '-', '.', '_' or a range such as [01-04]";
                return Err(Fault::new(offset, format!("{other:?} in a host name"), expected));
            }
        }
    }
    if !text.is_empty() {
        parts.push(Part::Text(text));
    }
    if parts.is_empty() {
        return Err(Fault::new(0, "an empty name", "a host name such as node[01-04]"));
    }
    Ok(parts)
}

fn ranges(inside: &str, start: usize) -> Result<Vec<Range>, Fault> {
    let mut found = Vec::new();
    let mut offset = start;
    for item in inside.split(',') {
        found.push(range(item, offset)?);
        offset += item.chars().count() + 1;
    }
    Ok(found)
}

fn range(item: &str, offset: usize) -> Result<Range, Fault> {
    let (low_text, high_text) = item.split_once('-').unwrap_or((item, item));
    let low = number(low_text, offset)?;
    let high = number(high_text, offset + item.len() - high_text.len())?;
    if low > high {
        return Err(Fault::new(offset, format!("range {item} runs backwards"), format!("[{high_text}-{low_text}]")));
    }
    let padded = |text: &str| text.len() > 1 && text.starts_with('0');
    if padded(high_text) && high_text.len() != low_text.len() {
        let expected = "both ends padded to one width, such as [008-010]";
        return Err(Fault::new(offset, format!("range {item} pads its two ends differently"), expected));
    }
    let width = if padded(low_text) { low_text.len() } else { 0 };
    Ok(Range { low, high, width })
}

fn number(text: &str, offset: usize) -> Result<u64, Fault> {
    let plain = !text.is_empty() && text.len() <= MAX_DIGITS && text.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| text.parse().ok()).flatten().ok_or_else(|| {
        Fault::new(
            offset,
            format!("{text:?} in brackets"),
            format!("a number of at most {MAX_DIGITS} digits, or a range such as 01-04"),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expands_in_order_with_padding() {
        for (pattern, names) in [
            ("node7", &["node7"][..]),
            ("node[7]", &["node7"]),
            ("node[08-11]", &["node08", "node09", "node10", "node11"]),
            ("n[098-101]", &["n098", "n099", "n100", "n101"]),
            ("n[9-11]x", &["n9x", "n10x", "n11x"]),
            ("n[3,1,02]", &["n3", "n1", "n02"]),
            ("r[1-2]n[01,03]", &["r1n01", "r1n03", "r2n01", "r2n03"]),
            ("[1-2].rack", &["1.rack", "2.rack"]),
            ("n[0-0]", &["n0"]),
            ("n[01-100]", &[]),
        ] {
            let found = expand(pattern, MAX_HOSTS).unwrap();
            if pattern == "n[01-100]" {
                assert_eq!((found.len(), found[0].as_str(), found[99].as_str()), (100, "n01", "n100"));
                continue;
            }
            assert_eq!(found, names, "{pattern}");
        }
    }

    #[test]
    fn refuses_with_the_place() {
        for (pattern, offset, problem) in [
            ("node[3-1]", 5, "backwards"),
            ("node[1-2", 4, "never closed"),
            ("node1]", 5, "without '['"),
            ("node[1,[2]]", 7, "inside brackets"),
            ("node[]", 5, "\"\""),
            ("node[1,,2]", 7, "\"\""),
            ("node[1-]", 7, "\"\""),
            ("node[a-b]", 5, "\"a\""),
            ("node[1-2-3]", 7, "\"2-3\""),
            ("node[8-010]", 5, "differently"),
            ("node[1-9999999999999999999]", 7, "99"),
            ("-oProxyCommand=id", 0, "option"),
            ("node;id", 4, "';'"),
            ("node$(id)", 4, "'$'"),
            ("n\u{f6}de", 1, "'\u{f6}'"),
            ("", 0, "empty"),
            ("n[1-65537]", 0, "65536"),
            ("n[1-999999999999999999]", 0, "65536"),
            ("a[1-999]b[1-999]c[1-999]d[1-999999]e[1-999999999]", 0, "65536"),
        ] {
            let fault = expand(pattern, MAX_HOSTS).unwrap_err();
            assert_eq!(fault.offset, offset, "{pattern}: {fault:?}");
            assert!(fault.problem.contains(problem), "{pattern}: {fault:?}");
        }
        assert!(expand(&"n".repeat(254), MAX_HOSTS).unwrap_err().problem.contains("254"));
    }
}
