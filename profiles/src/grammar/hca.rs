//! `NCCL_IB_HCA`: which HCAs and ports.
//!
//! Source: NCCL `src/transport/net_ib/init.cc` (modifiers, `MAX_IB_DEVS`) and `src/misc/utils.cc` (`parseStringList`,
//! `matchIfList`). A list is a filter: NCCL still maps GPUs to NICs itself.

use std::fmt;

/// NCCL `src/transport/net_ib/common.h`, `MAX_IB_DEVS`: further items are dropped without a word.
pub const MOST_ITEMS: usize = 32;
/// NCCL `src/include/utils.h`, `netIf.prefix`, less its NUL.
const LONGEST_NAME: usize = 63;

/// A list of HCAs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HcaList {
    /// `^`: the list says what not to use.
    pub is_excluding: bool,
    /// `=`: names are whole names; without it `mlx5_1` also means `mlx5_10` to `mlx5_19`.
    pub is_exact: bool,
    /// The items, in order.
    pub items: Vec<HcaItem>,
}

/// One HCA of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HcaItem {
    /// Name, or its beginning.
    pub name: String,
    /// Port; absent is every port.
    pub port: Option<u16>,
    /// Rail, read since 2.30.
    pub rail: Option<u16>,
    /// Plane, read since 2.30.
    pub plane: Option<u16>,
}

/// A list that NCCL would misread.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HcaError {
    /// `=^` instead of `^=`.
    #[error("the modifiers are in the wrong order: write ^= and not =^")]
    ModifierOrder,
    /// An item without a name.
    #[error("item {0} has no name")]
    Unnamed(usize),
    /// A name that no HCA has.
    #[error("`{0}` is not the name of an HCA, such as mlx5_0: use letters, digits, `_`, `-` and `.`")]
    BadName(String),
    /// A number that is none.
    #[error("{what} `{text}` of `{name}` is not a number")]
    BadNumber {
        /// Port, rail or plane.
        what: &'static str,
        /// The text.
        text: String,
        /// The HCA.
        name: String,
    },
    /// More parts than name, port, rail and plane.
    #[error("`{0}` has too many parts: write hca[:port[:rail[:plane]]]")]
    TooManyParts(String),
    /// More items than NCCL reads.
    #[error("{0} HCAs are too many: NCCL reads 32")]
    TooMany(usize),
}

impl HcaList {
    /// A list that means exactly these ports.
    pub fn exactly(items: Vec<HcaItem>) -> Self {
        Self { is_excluding: false, is_exact: true, items }
    }

    /// Reads a value of `NCCL_IB_HCA`.
    ///
    /// # Errors
    /// [`HcaError`] where NCCL would read something else than what was meant.
    pub fn parse(text: &str) -> Result<Self, HcaError> {
        let (is_excluding, rest) = strip(text, '^');
        let (is_exact, rest) = strip(rest, '=');
        if rest.starts_with('^') {
            return Err(HcaError::ModifierOrder);
        }
        let items: Vec<HcaItem> =
            rest.split(',').enumerate().map(|(idx, item)| parse_item(idx + 1, item)).collect::<Result<_, _>>()?;
        if MOST_ITEMS < items.len() {
            return Err(HcaError::TooMany(items.len()));
        }
        Ok(Self { is_excluding, is_exact, items })
    }

    /// Whether NCCL uses port `port` of the HCA `name`.
    pub fn matches(&self, name: &str, port: u16) -> bool {
        let is_listed = self.items.iter().any(|item| {
            let is_named = if self.is_exact { name == item.name } else { name.starts_with(&item.name) };
            is_named && item.port.is_none_or(|wanted| wanted == port)
        });
        is_listed != self.is_excluding
    }

    /// The first name of a list without `=` that looks like a whole name: as a prefix it means others as well.
    pub fn trap(&self) -> Option<&str> {
        /// Drivers, whose names begin those of all their HCAs: such a prefix is meant as one.
        const DRIVERS: &[&str] = &["mlx4", "mlx5"];
        let is_whole = |name: &&str| name.ends_with(|c: char| c.is_ascii_digit()) && !DRIVERS.contains(name);
        self.items.iter().map(|item| item.name.as_str()).find(is_whole).filter(|_| !self.is_exact)
    }

    /// Whether a part is used that NCCL reads since 2.30 only.
    pub fn names_rails(&self) -> bool {
        self.items.iter().any(|item| item.rail.is_some() || item.plane.is_some())
    }
}

pub(super) fn strip(text: &str, modifier: char) -> (bool, &str) {
    text.strip_prefix(modifier).map_or((false, text), |rest| (true, rest))
}

fn parse_item(position: usize, item: &str) -> Result<HcaItem, HcaError> {
    let mut parts = item.split(':');
    let name = parts.next().unwrap_or_default();
    if name.is_empty() {
        return Err(HcaError::Unnamed(position));
    }
    let is_name_byte = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.');
    if LONGEST_NAME < name.len() || !name.bytes().all(is_name_byte) {
        return Err(HcaError::BadName(name.to_owned()));
    }
    let mut number = |what| match parts.next() {
        None | Some("") => Ok(None),
        Some(text) => match text.parse() {
            // atoi reads a sign too; nobody means one.
            Ok(number) if text.bytes().all(|b| b.is_ascii_digit()) => Ok(Some(number)),
            _ => Err(HcaError::BadNumber { what, text: text.to_owned(), name: name.to_owned() }),
        },
    };
    let (port, rail, plane) = (number("port")?, number("rail")?, number("plane")?);
    if parts.next().is_some() {
        return Err(HcaError::TooManyParts(item.to_owned()));
    }
    Ok(HcaItem { name: name.to_owned(), port, rail, plane })
}

impl fmt::Display for HcaList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let modifiers = [(self.is_excluding, "^"), (self.is_exact, "=")];
        modifiers.iter().filter(|(is_set, _)| *is_set).try_for_each(|(_, text)| f.write_str(text))?;
        for (idx, item) in self.items.iter().enumerate() {
            write!(f, "{}{item}", if idx == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

impl fmt::Display for HcaItem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |part: Option<u16>| part.map_or(String::new(), |number| number.to_string());
        let text = format!("{}:{}:{}:{}", self.name, shown(self.port), shown(self.rail), shown(self.plane));
        f.write_str(text.trim_end_matches(':'))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn prefixes_catch_what_exact_names_do_not() {
        let matching = |list: &str| -> Vec<String> {
            let list = HcaList::parse(list).unwrap();
            let ports = ["mlx5_1", "mlx5_10", "mlx5_2"].into_iter().flat_map(|name| [(name, 1), (name, 2)]);
            ports.filter(|(name, port)| list.matches(name, *port)).map(|(n, p)| format!("{n}:{p}")).collect()
        };
        assert_eq!(matching("mlx5_1"), ["mlx5_1:1", "mlx5_1:2", "mlx5_10:1", "mlx5_10:2"]);
        assert_eq!(matching("=mlx5_1"), ["mlx5_1:1", "mlx5_1:2"]);
        assert_eq!(matching("=mlx5_1:1,mlx5_2:2"), ["mlx5_1:1", "mlx5_2:2"]);
        assert_eq!(matching("^mlx5_1"), ["mlx5_2:1", "mlx5_2:2"]);
        assert_eq!(matching("^=mlx5_1:1"), ["mlx5_1:2", "mlx5_10:1", "mlx5_10:2", "mlx5_2:1", "mlx5_2:2"]);
    }

    #[test]
    fn parts_keep_their_place() {
        let list = HcaList::parse("=mlx5_0::0:3,mlx5_1:2").unwrap();
        assert_eq!(list.items[0], HcaItem { name: "mlx5_0".into(), port: None, rail: Some(0), plane: Some(3) });
        assert_eq!(list.items[1].port, Some(2));
        assert_eq!(list.to_string(), "=mlx5_0::0:3,mlx5_1:2");
        assert!(list.names_rails());
        assert!(!HcaList::parse("mlx5_0:1").unwrap().names_rails());
    }

    #[test]
    fn misreadings_are_refused() {
        for (text, message) in [
            ("=^mlx5_0", "the modifiers are in the wrong order: write ^= and not =^"),
            ("", "item 1 has no name"),
            ("=mlx5_0,", "item 2 has no name"),
            (
                "mlx5_0, mlx5_1",
                "` mlx5_1` is not the name of an HCA, such as mlx5_0: use letters, digits, `_`, `-` and `.`",
            ),
            ("mlx5_0:one", "port `one` of `mlx5_0` is not a number"),
            ("mlx5_0:1:+1", "rail `+1` of `mlx5_0` is not a number"),
            ("mlx5_0:1:1:1:1", "`mlx5_0:1:1:1:1` has too many parts: write hca[:port[:rail[:plane]]]"),
        ] {
            assert_eq!(HcaList::parse(text).unwrap_err().to_string(), message);
        }
        let many: Vec<String> = (0..33).map(|n| format!("mlx5_{n}")).collect();
        assert_eq!(HcaList::parse(&many.join(",")), Err(HcaError::TooMany(33)));
    }

    proptest! {
        #[test]
        fn what_is_shown_is_read_back(
            is_excluding: bool,
            is_exact: bool,
            items in proptest::collection::vec(("[a-z][a-z0-9_]{0,8}", any::<Option<u16>>(), any::<Option<u16>>(), any::<Option<u16>>()), 1..8),
        ) {
            let items = items.into_iter().map(|(name, port, rail, plane)| HcaItem { name, port, rail, plane }).collect();
            let list = HcaList { is_excluding, is_exact, items };
            prop_assert_eq!(HcaList::parse(&list.to_string()), Ok(list));
        }

        #[test]
        fn any_text_is_taken_or_refused(text in "[a-z0-9:,^= ]{0,30}|\\PC{0,30}") {
            drop(HcaList::parse(&text));
        }
    }
}
