//! Host lists as people write them: `-w 'node[01-04],gpu-r[1-2]n[01-04]'` and `--hostfile`; and as Slurm does.
//!
//! Order is kept, since it is rank order; zero padding is kept, since it is part of the name. Nothing here asks a name
//! server: a name may be an ssh alias. Names that could be read as an option or as shell text are refused.

mod expand;
mod fold;
mod keys;
mod parse;
mod slurm;

use std::collections::HashSet;

use gdrtune_profiles::nearest::nearest;

pub use fold::fold;
pub use parse::{parse_file, parse_list};
pub use slurm::Allocation;

/// Most hosts that one list may name. Checked before anything is allocated for them.
pub const MAX_HOSTS: usize = 65_536;

/// A node as the user names it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Host {
    /// Name or ssh alias.
    pub name: String,
    /// User to log in as, where one is given.
    pub user: Option<String>,
    /// Port of its sshd, where one is given.
    pub port: Option<u16>,
    /// Ranks that the user wants on this host, where given.
    pub slots: Option<u32>,
}

impl Host {
    /// A host with nothing but a name.
    pub fn named(name: impl Into<String>) -> Self {
        Self { name: name.into(), user: None, port: None, slots: None }
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

impl HostList {
    /// Leaves hosts out, by name; those that are not in the list are a warning.
    pub fn exclude(&mut self, excluded: &Self) {
        let names: HashSet<&str> = excluded.hosts.iter().map(|host| host.name.as_str()).collect();
        let known: HashSet<&str> = self.hosts.iter().map(|host| host.name.as_str()).collect();
        let unknown = excluded.hosts.iter().map(|host| host.name.as_str()).filter(|name| !known.contains(name));
        let unknown: Vec<&str> = unknown.collect();
        if let [name, ..] = unknown[..] {
            let near = if unknown.len() == 1 { nearest(name, known) } else { None };
            let near = near.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
            self.warnings.push(format!("not among the hosts, and excluded all the same: {}{near}", fold(&unknown)));
        }
        self.hosts.retain(|host| !names.contains(host.name.as_str()));
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn excluded_hosts_are_left_out_and_unknown_ones_said() {
        let mut list = parse_list("-w", "node[01-04],gpu1").unwrap();
        list.exclude(&parse_list("-x", "node[02-03],gpu1,node[07-08]").unwrap());
        assert_eq!(list.hosts, [Host::named("node01"), Host::named("node04")]);
        assert_eq!(list.warnings, ["not among the hosts, and excluded all the same: node[07-08]"]);
        let mut list = parse_list("-w", "nodes,gpu1").unwrap();
        list.exclude(&parse_list("-x", "gpu2").unwrap());
        assert_eq!(list.warnings, ["not among the hosts, and excluded all the same: gpu2; did you mean gpu1?"]);
    }
}
