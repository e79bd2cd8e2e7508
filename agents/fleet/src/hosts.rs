//! Host lists: `node[01-04],gpu-r[1-2]n[01-04]`, and host files. Order is kept (it is rank order), and so is zero padding.
//!
//! Does no IO and asks no DNS. Whatever cannot be a host name is refused: a name is passed to ssh.

mod expand;
mod file;
mod fold;

pub use expand::{MAX_HOSTS, expand};
pub use file::parse_hostfile;
pub use fold::fold;

/// A host of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// Name as ssh gets it.
    pub name: String,
    /// Login name, where one was given.
    pub user: Option<String>,
    /// Ranks there, where a number was given.
    pub slots: Option<u32>,
}

/// Hosts in order, and what was odd about the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostList {
    /// The hosts.
    pub hosts: Vec<Host>,
    /// What the user should know, such as a host that is named twice.
    pub warnings: Vec<String>,
}

/// A host list that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}{cause}")]
pub struct HostError {
    /// `file:line: ` or empty.
    pub place: String,
    /// What is wrong.
    pub cause: HostCause,
}

/// What is wrong with a host list.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HostCause {
    /// Nothing in it.
    #[error("no host in the list")]
    Empty,
    /// A bracket without its partner.
    #[error("column {column}: `{text}` has a `[` without its `]`, or the other way round")]
    Bracket {
        /// Column from 1.
        column: usize,
        /// The item.
        text: String,
    },
    /// Something else than numbers and ranges in brackets.
    #[error("column {column}: `{range}` is no range: write numbers and ranges such as 01-16,20")]
    Range {
        /// Column from 1.
        column: usize,
        /// What stands there.
        range: String,
    },
    /// A range whose first number is above its last.
    #[error("column {column}: the range `{range}` runs backwards")]
    Backwards {
        /// Column from 1.
        column: usize,
        /// The range.
        range: String,
    },
    /// More hosts than anybody has.
    #[error("the list names more than {MAX_HOSTS} hosts")]
    TooMany,
    /// Not a host name.
    #[error("column {column}: `{name}` is no host name: letters, digits, `.`, `-`, `_` and `:` only, and no `-` first")]
    Name {
        /// Column from 1.
        column: usize,
        /// The name.
        name: String,
    },
    /// Not a login name.
    #[error("`{user}` is no login name: letters, digits, `.`, `-` and `_` only, and no `-` first")]
    User {
        /// The name.
        user: String,
    },
    /// A word after the host that is none of ours.
    #[error("`{word}` is not understood: after the host only slots=N (1 to 1024) may follow")]
    Word {
        /// The word.
        word: String,
    },
}

impl From<HostCause> for HostError {
    fn from(cause: HostCause) -> Self {
        Self { place: String::new(), cause }
    }
}

/// Takes out repeated hosts, keeping the first, and says so.
fn without_repeats(hosts: Vec<Host>) -> HostList {
    let mut seen = std::collections::HashSet::new();
    let mut warnings = Vec::new();
    let mut unique = Vec::with_capacity(hosts.len());
    for host in hosts {
        if seen.insert(host.name.clone()) {
            unique.push(host);
        } else {
            warnings.push(format!("host {} is named twice; the first counts", host.name));
        }
    }
    HostList { hosts: unique, warnings }
}
