//! Folding of host names for display: `node01`, `node02` -> `node[01-02]`. Order is kept, so it expands to the same list.

/// A name cut before its last number.
struct Numbered<'a> {
    head: &'a str,
    digits: &'a str,
    tail: &'a str,
}

impl<'a> Numbered<'a> {
    fn of(name: &'a str) -> Option<Self> {
        let end = name.rfind(|c: char| c.is_ascii_digit())? + 1;
        let start = name[..end].rfind(|c: char| !c.is_ascii_digit()).map_or(0, |at| at + 1);
        let digits = &name[start..end];
        // A longer number would not fit a range's 64 bits.
        (digits.len() < 19).then_some(Self { head: &name[..start], digits, tail: &name[end..] })
    }

    fn number(&self) -> u64 {
        self.digits.bytes().fold(0, |n, digit| n * 10 + u64::from(digit - b'0'))
    }

    /// Whether `next` follows in the same family: same text around, next number, and digits as a range would show them.
    fn is_followed_by(&self, next: &Self, width: usize) -> bool {
        let expected = self.number() + 1;
        self.head == next.head && self.tail == next.tail && next.digits == format!("{expected:0width$}")
    }
}

/// Folds runs of consecutive numbers. `["a1", "a2", "b"]` -> `a[1-2],b`.
pub fn fold(names: &[impl AsRef<str>]) -> String {
    let mut parts: Vec<String> = Vec::new();
    let mut at = 0;
    while at < names.len() {
        let name = names[at].as_ref();
        let length = run_length(&names[at..]);
        match (Numbered::of(name), Numbered::of(names[at + length - 1].as_ref())) {
            (Some(first), Some(last)) if length > 1 => {
                parts.push(format!("{}[{}-{}]{}", first.head, first.digits, last.digits, first.tail));
            }
            _ => parts.push(name.to_owned()),
        }
        at += length;
    }
    parts.join(",")
}

/// How many of the names, from the first on, one range covers.
fn run_length(names: &[impl AsRef<str>]) -> usize {
    let Some(mut current) = names.first().and_then(|n| Numbered::of(n.as_ref())) else { return 1 };
    let width = if current.digits.starts_with('0') { current.digits.len() } else { 0 };
    let mut length = 1;
    for name in &names[1..] {
        match Numbered::of(name.as_ref()) {
            Some(next) if current.is_followed_by(&next, width) => current = next,
            _ => break,
        }
        length += 1;
    }
    length
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_fold_and_order_stays() {
        assert_eq!(fold(&["vh1", "vh2", "vh3", "vh4"]), "vh[1-4]");
        assert_eq!(fold(&["n098", "n099", "n100"]), "n[098-100]");
        assert_eq!(fold(&["n2", "n1"]), "n2,n1");
        assert_eq!(fold(&["a1.x", "a2.x", "b"]), "a[1-2].x,b");
        assert_eq!(fold(&["n9", "n010"]), "n9,n010");
        assert_eq!(fold(&["localhost"]), "localhost");
        assert_eq!(fold(&[""; 0]), "");
    }
}
