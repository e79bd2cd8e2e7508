//! `NCCL_SOCKET_IFNAME`: which network interfaces. The native engine reads it the same way.
//!
//! Source: NCCL `src/os/linux.cc` (`findInterfaces`), `src/misc/utils.cc` (`parseStringList`, `matchIfList`).

use std::fmt;

use super::hca::strip;

/// Most interfaces that a list names, and that a rank binds (NCCL `src/include/socket.h`, `MAX_IFS`): further ones are dropped without
/// a word.
pub const MOST_INTERFACES: usize = 16;
/// Linux `include/uapi/linux/if.h`, `IFNAMSIZ`, less its NUL.
const LONGEST_NAME: usize = 15;

/// A list of interfaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InterfaceList {
    /// `^`: the list says what not to use.
    pub is_excluding: bool,
    /// `=`: names are whole names; without it they are prefixes.
    pub is_exact: bool,
    /// The names, in order.
    pub names: Vec<String>,
}

/// A list that NCCL would misread.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InterfaceError {
    /// `=^` instead of `^=`.
    #[error("the modifiers are in the wrong order: write ^= and not =^")]
    ModifierOrder,
    /// A place without a name.
    #[error("item {0} has no name")]
    Unnamed(usize),
    /// A name that no interface has.
    #[error("`{0}` is not the name of an interface: it has blanks, `/` or `:`, or more than 15 bytes")]
    BadName(String),
    /// More names than NCCL reads.
    #[error("{0} interfaces are too many: NCCL reads 16")]
    TooMany(usize),
}

impl InterfaceList {
    /// A list that means exactly these interfaces.
    pub fn exactly(names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { is_excluding: false, is_exact: true, names: names.into_iter().map(Into::into).collect() }
    }

    /// Reads a value of `NCCL_SOCKET_IFNAME`.
    ///
    /// # Errors
    /// [`InterfaceError`] where NCCL would read something else than what was meant.
    pub fn parse(text: &str) -> Result<Self, InterfaceError> {
        let (is_excluding, rest) = strip(text, '^');
        let (is_exact, rest) = strip(rest, '=');
        if rest.starts_with('^') {
            return Err(InterfaceError::ModifierOrder);
        }
        let names: Vec<String> =
            rest.split(',').enumerate().map(|(idx, name)| parse_name(idx + 1, name)).collect::<Result<_, _>>()?;
        if MOST_INTERFACES < names.len() {
            return Err(InterfaceError::TooMany(names.len()));
        }
        Ok(Self { is_excluding, is_exact, names })
    }

    /// The first name of a list without `=` that looks like a whole name: as a prefix it means others as well.
    pub fn trap(&self) -> Option<&str> {
        let is_whole = |name: &&str| name.ends_with(|c: char| c.is_ascii_digit());
        self.names.iter().map(String::as_str).find(is_whole).filter(|_| !self.is_exact)
    }

    /// Whether the interface `name` may be used.
    pub fn matches(&self, name: &str) -> bool {
        let is_listed = self.names.iter().any(|n| if self.is_exact { name == n } else { name.starts_with(n.as_str()) });
        is_listed != self.is_excluding
    }
}

/// Whether this is the loopback, or what containers and virtual machines make for themselves: it leads to no other node.
pub fn is_local(name: &str) -> bool {
    /// Docker's, libvirt's and Kubernetes' names (CNI bridge, Flannel, Calico), and Podman's.
    const PREFIXES: &[&str] = &["docker", "virbr", "veth", "cni", "flannel", "cali", "podman"];
    name == "lo" || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

fn parse_name(position: usize, name: &str) -> Result<String, InterfaceError> {
    if name.is_empty() {
        return Err(InterfaceError::Unnamed(position));
    }
    // Linux refuses `/`, `:` and blanks in a name (net/core/dev.c, dev_valid_name).
    let is_bad = |c: char| c.is_whitespace() || c.is_control() || matches!(c, '/' | ':');
    if LONGEST_NAME < name.len() || name.contains(is_bad) {
        return Err(InterfaceError::BadName(name.to_owned()));
    }
    Ok(name.to_owned())
}

impl fmt::Display for InterfaceList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let exclude = if self.is_excluding { "^" } else { "" };
        let exact = if self.is_exact { "=" } else { "" };
        write!(f, "{exclude}{exact}{}", self.names.join(","))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn modifiers_say_what_a_name_means() {
        let interfaces = ["eth0", "eth1", "eth10", "lo"];
        for (list, expected) in [
            ("eth", &["eth0", "eth1", "eth10"][..]),
            ("eth1", &["eth1", "eth10"]),
            ("=eth1", &["eth1"]),
            ("=eth1,eth0", &["eth0", "eth1"]),
            ("^lo", &["eth0", "eth1", "eth10"]),
            ("^=eth1", &["eth0", "eth10", "lo"]),
        ] {
            let parsed = InterfaceList::parse(list).unwrap();
            let matching: Vec<&str> = interfaces.into_iter().filter(|name| parsed.matches(name)).collect();
            assert_eq!(matching, expected, "{list}");
            assert_eq!(parsed.to_string(), list);
        }
        assert_eq!(InterfaceList::parse("=b,a").unwrap().names, ["b", "a"], "the order is kept");
        assert_eq!(InterfaceList::exactly(["eth0"]).to_string(), "=eth0");
    }

    #[test]
    fn misreadings_are_refused() {
        for (text, error) in [
            ("=^eth0", InterfaceError::ModifierOrder),
            ("", InterfaceError::Unnamed(1)),
            ("eth0,,eth1", InterfaceError::Unnamed(2)),
            ("eth0, eth1", InterfaceError::BadName(" eth1".into())),
            ("eth0:1", InterfaceError::BadName("eth0:1".into())),
            ("abcdefghijklmnop", InterfaceError::BadName("abcdefghijklmnop".into())),
            (&["e"; 17].join(","), InterfaceError::TooMany(17)),
        ] {
            assert_eq!(InterfaceList::parse(text), Err(error));
        }
    }

    proptest! {
        #[test]
        fn what_is_shown_is_read_back(is_excluding: bool, is_exact: bool, names in proptest::collection::vec("[a-z][-.@a-z0-9_]{0,14}", 1..=16)) {
            let list = InterfaceList { is_excluding, is_exact, names };
            prop_assert_eq!(InterfaceList::parse(&list.to_string()), Ok(list));
        }

        #[test]
        fn any_text_is_taken_or_refused(text in "\\PC{0,30}") {
            drop(InterfaceList::parse(&text));
        }
    }
}
