//! Host lists as people write them: `-w 'node[01-04],gpu-r[1-2]n[01-04]'` and `--hostfile`.
//!
//! Order is kept, since it is rank order; zero padding is kept, since it is part of the name. Nothing here asks a name
//! server: a name may be an ssh alias. Names that could be read as an option or as shell text are refused.

mod expand;
mod fold;
mod parse;

pub use fold::fold;
pub use parse::{parse_file, parse_list};

/// Most hosts that one list may name. Checked before anything is allocated for them.
pub const MAX_HOSTS: usize = 65_536;

/// A node as the user names it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Host {
    /// Name or ssh alias.
    pub name: String,
    /// User to log in as, where one is given.
    pub user: Option<String>,
    /// Ranks that the user wants on this host, where given.
    pub slots: Option<u32>,
}

impl Host {
    /// A host with nothing but a name.
    pub fn named(name: impl Into<String>) -> Self {
        Self { name: name.into(), user: None, slots: None }
    }
}

/// What a list names, and what was odd about it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostList {
    /// The hosts in the order given, each once.
    pub hosts: Vec<Host>,
    /// Things to tell the user, such as a host that was given twice.
    pub warnings: Vec<String>,
}

/// A position in a host list, counted from 1, columns in characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// File name, or the option that the text came from.
    pub source: String,
    /// Line.
    pub line: usize,
    /// Column.
    pub column: usize,
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}:{}", self.source, self.line, self.column)
    }
}

/// A host list that cannot be taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("read hosts: {place}: {problem}; expected {expected}")]
pub struct HostError {
    /// Where.
    pub place: Place,
    /// What is wrong.
    pub problem: String,
    /// What would be right there.
    pub expected: String,
}
