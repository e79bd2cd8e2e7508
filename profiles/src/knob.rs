//! The catalogue of process-level settings: NCCL's variables that matter for tuning or for the path, and our own.
//!
//! The catalogue is data. It says what a variable is, which values it takes and where it acts; it never says that a
//! value is *good*: that is measured. Sources: NCCL `docs/userguide/source/env.rst` (read at 2.30.7) for names, values,
//! first versions and the two classes, and the NCCL files named beside single entries.

mod choice;
mod debug;
mod infiniband;
mod native;
mod path;
mod plugin;
mod socket;
mod value;

use crate::{nearest, profile::Class, version::Version, vocab::Engine};
pub use value::ValueError;
pub(crate) use value::unprintable;

/// One process-level setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Knob {
    /// Variable name.
    pub name: &'static str,
    /// Which values it takes.
    pub kind: Kind,
    /// Values worth trying in a search, where they do not depend on the cluster; empty where they do.
    pub candidates: &'static [&'static str],
    /// First NCCL version that reads it; absent where every version since 2.4 does, or for our own knobs.
    pub since: Option<Version>,
    /// First NCCL version that no longer reads it, or advises against it.
    pub until: Option<Version>,
    /// NVIDIA's class.
    pub class: Class,
    /// Where a value acts.
    pub scope: Scope,
    /// Who reads it.
    pub engines: Engines,
    /// Names of the knobs that must not be set together with it.
    pub conflicts: &'static [&'static str],
    /// One line of help.
    pub help: &'static str,
}

/// Which values a knob takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `0` or `1`.
    Flag,
    /// A whole number, both ends inclusive.
    Int {
        /// Smallest value.
        min: i64,
        /// Largest value.
        max: i64,
    },
    /// A number of bytes without a unit (NCCL reads none), both ends inclusive.
    Bytes {
        /// Smallest value.
        min: u64,
        /// Largest value.
        max: u64,
    },
    /// One of these words, in any case where NCCL does not mind it.
    Word(&'static [&'static str]),
    /// Words of a list separated by this character.
    Words(&'static [&'static str], char),
    /// `AUTO`, `ALL` or `MAX:N` (`NCCL_NETDEVS_POLICY`).
    NetDevices,
    /// A list of interfaces, see [`crate::grammar::ifname`].
    Interfaces,
    /// A list of HCAs, see [`crate::grammar::hca`].
    Hcas,
    /// `NCCL_ALGO`, see [`crate::grammar::algo`].
    Algorithms,
    /// `NCCL_PROTO`, see [`crate::grammar::algo`].
    Protocols,
    /// A file name.
    Path,
    /// Free text.
    Text,
}

/// Where a value acts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// Every call can have its own (through a tuner).
    Call,
    /// Every communicator can have its own (through `ncclConfig_t`).
    Communicator,
    /// The process reads it once.
    Process,
}

/// Who reads a knob.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engines {
    /// NCCL only.
    Nccl,
    /// The native engine only.
    Native,
    /// Both.
    Both,
}

impl Engines {
    /// Whether `engine` reads it; a recorded or simulated cluster may stand for either.
    pub fn include(self, engine: Engine) -> bool {
        match engine {
            Engine::Nccl => self != Self::Native,
            Engine::Native => self != Self::Nccl,
            Engine::Replay | Engine::Sim => true,
        }
    }
}

impl Knob {
    const fn new(name: &'static str, class: Class, kind: Kind, help: &'static str) -> Self {
        Self {
            name,
            kind,
            candidates: &[],
            since: None,
            until: None,
            class,
            scope: Scope::Process,
            engines: Engines::Nccl,
            conflicts: &[],
            help,
        }
    }

    const fn system(name: &'static str, kind: Kind, help: &'static str) -> Self {
        Self::new(name, Class::System, kind, help)
    }

    const fn debugging(name: &'static str, kind: Kind, help: &'static str) -> Self {
        Self::new(name, Class::Debugging, kind, help)
    }

    const fn since(mut self, major: u16, minor: u16) -> Self {
        self.since = Some(Version::new(major, minor));
        self
    }

    const fn until(mut self, major: u16, minor: u16) -> Self {
        self.until = Some(Version::new(major, minor));
        self
    }

    const fn scope(mut self, scope: Scope) -> Self {
        self.scope = scope;
        self
    }

    const fn engines(mut self, engines: Engines) -> Self {
        self.engines = engines;
        self
    }

    const fn conflicts(mut self, conflicts: &'static [&'static str]) -> Self {
        self.conflicts = conflicts;
        self
    }

    const fn tries(mut self, candidates: &'static [&'static str]) -> Self {
        self.candidates = candidates;
        self
    }

    /// Whether NCCL `version` reads it and does not advise against it.
    pub fn is_current(&self, version: Version) -> bool {
        self.since.is_none_or(|since| since <= version) && self.until.is_none_or(|until| version < until)
    }

    /// Checks that `value` lies in the knob's domain, strictly: what NCCL would quietly misread is an error.
    ///
    /// # Errors
    /// [`ValueError`] names the knob, the value and what to write instead.
    pub fn check(&self, value: &str) -> Result<(), ValueError> {
        value::check(self, value)
    }
}

/// Knobs that belong together.
#[derive(Debug, Clone, Copy)]
pub struct Group {
    /// Heading, in lower case.
    pub title: &'static str,
    /// The knobs, in name order.
    pub knobs: &'static [Knob],
}

/// The catalogue by groups.
pub const GROUPS: &[Group] = &[
    Group { title: "choice of algorithm, protocol and channels", knobs: choice::KNOBS },
    Group { title: "intra-node path and GPUDirect", knobs: path::KNOBS },
    Group { title: "sockets and interfaces", knobs: socket::KNOBS },
    Group { title: "InfiniBand and RoCE", knobs: infiniband::KNOBS },
    Group { title: "plugins and network selection", knobs: plugin::KNOBS },
    Group { title: "logging and files", knobs: debug::KNOBS },
    Group { title: "native engine", knobs: native::KNOBS },
];

/// Bytes of one chunk of the native engine's `simple` protocol.
pub const NATIVE_CHUNKSIZE: &str = native::CHUNKSIZE;
/// Sockets of one channel of the native engine.
pub const NATIVE_NSOCKS: &str = native::NSOCKS;
/// What carries the native engine's data.
pub const NATIVE_TRANSPORT: &str = native::TRANSPORT;

/// Every knob, group by group.
pub fn catalogue() -> impl Iterator<Item = &'static Knob> {
    GROUPS.iter().flat_map(|group| group.knobs)
}

/// The knob called exactly `name`.
pub fn knob(name: &str) -> Option<&'static Knob> {
    catalogue().find(|knob| knob.name == name)
}

/// The known name that is closest to a misspelt one, with or without its `NCCL_`.
///
/// The prefix that all names share is left out of the comparison: it would make strangers look alike.
pub fn nearest(name: &str) -> Option<&'static str> {
    const PREFIX: &str = "NCCL_";
    let upper = name.to_ascii_uppercase();
    let bare = nearest::nearest(
        upper.strip_prefix(PREFIX).unwrap_or(&upper),
        catalogue().map(|knob| knob.name.strip_prefix(PREFIX).unwrap_or(knob.name)),
    )?;
    catalogue().map(|knob| knob.name).find(|known| known.strip_prefix(PREFIX).unwrap_or(known) == bare)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_unique_sorted_within_their_group_and_prefixed() {
        let names: Vec<&str> = catalogue().map(|knob| knob.name).collect();
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
        assert!((55..=90).contains(&names.len()), "{}", names.len());
        for group in GROUPS {
            assert!(group.knobs.is_sorted_by_key(|knob| knob.name), "{}", group.title);
        }
        for knob in catalogue() {
            let prefix = if knob.engines == Engines::Native { "GDRTUNE_NATIVE_" } else { "NCCL_" };
            assert!(knob.name.starts_with(prefix), "{}", knob.name);
        }
    }

    #[test]
    fn conflicts_exist_and_are_mutual() {
        for knob in catalogue() {
            for other in knob.conflicts {
                let other = super::knob(other).unwrap_or_else(|| panic!("{}: {other} is unknown", knob.name));
                assert!(other.conflicts.contains(&knob.name), "{} and {}", knob.name, other.name);
                assert_ne!(other.name, knob.name);
            }
        }
    }

    #[test]
    fn help_is_one_line_and_candidates_are_valid() {
        for knob in catalogue() {
            assert!(!knob.help.is_empty() && knob.help.len() <= 100 && !knob.help.contains('\n'), "{}", knob.name);
            assert!(!knob.help.ends_with('.'), "{}", knob.name);
            for value in knob.candidates {
                assert_eq!(knob.check(value), Ok(()), "{}", knob.name);
            }
            assert!(knob.since.is_none_or(|since| knob.until.is_none_or(|until| since < until)), "{}", knob.name);
        }
    }

    #[test]
    fn misspelt_names_are_recognised() {
        for (name, near) in [
            ("NCCL_SOCKET_IFNAMES", Some("NCCL_SOCKET_IFNAME")),
            ("nccl_ib_hca", Some("NCCL_IB_HCA")),
            ("BUFFSIZE", Some("NCCL_BUFFSIZE")),
            ("NCCL_IB_QPS_PER_CONNECTIONS", Some("NCCL_IB_QPS_PER_CONNECTION")),
            ("PATH", None),
            ("NCCL_FOO", None),
            ("", None),
        ] {
            assert_eq!(nearest(name), near, "{name}");
        }
    }

    #[test]
    fn versions_bound_what_is_current() {
        let min_ctas = knob("NCCL_MIN_CTAS").unwrap();
        assert!(min_ctas.is_current(Version::new(2, 17)));
        assert!(!min_ctas.is_current(Version::new(2, 16)));
        let old = knob("NCCL_MIN_NCHANNELS").unwrap();
        assert!(!old.is_current(Version::new(2, 28)));
    }

    #[test]
    fn lists_of_devices_are_read_by_both_engines() {
        assert!(knob("NCCL_SOCKET_IFNAME").unwrap().engines.include(Engine::Native));
        assert!(knob("NCCL_IB_HCA").unwrap().engines.include(Engine::Native));
        assert!(!knob("NCCL_CROSS_NIC").unwrap().engines.include(Engine::Native));
        assert!(!knob(NATIVE_NSOCKS).unwrap().engines.include(Engine::Nccl));
        assert!(knob(NATIVE_CHUNKSIZE).unwrap().engines.include(Engine::Sim));
    }
}
