//! `NCCL_ALGO` and `NCCL_PROTO`, in the grammar of 2.24 and later and in the older one.
//!
//! Source: NCCL `src/graph/tuning.cc` (`parseList`) at v2.22.3, v2.23.4 and v2.30.7. White space is never trimmed
//! there, empty parts between separators are skipped, and case does not matter.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use crate::{
    matrix,
    nearest::hint,
    version::Version,
    vocab::{Algorithm, Collective, Protocol},
};

/// Which of the two grammars a library reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// 2.24 and later: `[func:]list[;func:list]*`; what is unknown fails the communicator.
    V224Plus,
    /// Before 2.24: one list for all functions; what is unknown is ignored without a word.
    Legacy,
}

impl Dialect {
    /// The grammar of an NCCL version.
    pub fn of(version: Version) -> Self {
        if version.at_least(2, 24) { Self::V224Plus } else { Self::Legacy }
    }
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for crate::vocab::Algorithm {}
    impl Sealed for crate::vocab::Protocol {}
}

/// What such a list names: algorithms or protocols.
pub trait Listed: Copy + Ord + fmt::Debug + 'static + sealed::Sealed {
    /// What it is, for messages.
    const WHAT: &'static str;
    /// Every value.
    const ALL: &'static [Self];
    /// NCCL's spelling.
    fn nccl_name(self) -> &'static str;
}

impl Listed for Algorithm {
    const WHAT: &'static str = "algorithm";
    const ALL: &'static [Self] = Algorithm::ALL;
    fn nccl_name(self) -> &'static str {
        Algorithm::nccl_name(self)
    }
}

impl Listed for Protocol {
    const WHAT: &'static str = "protocol";
    const ALL: &'static [Self] = Protocol::ALL;
    fn nccl_name(self) -> &'static str {
        Protocol::nccl_name(self)
    }
}

/// What is enabled for each collective; a collective that is absent keeps NCCL's own choice.
///
/// Absent is not the same as everything: naming LL128 skips its safety test.
pub type Enabled<T> = BTreeMap<Collective, BTreeSet<T>>;

/// A list that NCCL would refuse or misread.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ListError {
    /// A name that is not known.
    #[error("unknown {what} `{name}`: use one of {known}{hint}")]
    UnknownName {
        /// Algorithm or protocol.
        what: &'static str,
        /// The name.
        name: String,
        /// The accepted names, separated by commas.
        known: String,
        /// The nearest one, as the tail of the message.
        hint: String,
    },
    /// A function that is not known.
    #[error("unknown function `{name}`: use one of {known}{hint}")]
    UnknownFunction {
        /// The function.
        name: String,
        /// The accepted functions, separated by commas.
        known: String,
        /// The nearest one, as the tail of the message.
        hint: String,
    },
    /// An entry after the first one has no function.
    #[error("`{0}` needs a function, such as allreduce:{0}: only the first entry may leave it out")]
    MissingFunction(String),
    /// The new grammar for an old library.
    #[error("`{0}` names a function, which NCCL reads since 2.24 only")]
    NotInLegacy(String),
    /// Nothing would be enabled.
    #[error("`{0}` enables nothing")]
    Empty(String),
}

/// The collectives whose algorithm can be chosen, in NCCL's order.
fn functions() -> impl Iterator<Item = Collective> {
    Collective::ALL.iter().copied().filter(|collective| collective.has_choice())
}

/// Reads a value of `NCCL_ALGO` or `NCCL_PROTO`.
///
/// # Errors
/// [`ListError`] where the library would fail (since 2.24), or would ignore a part without a word (before).
pub fn parse<T: Listed>(text: &str, dialect: Dialect) -> Result<Enabled<T>, ListError> {
    match dialect {
        Dialect::V224Plus => parse_per_function(text),
        Dialect::Legacy => {
            if let Some(entry) = text.split(';').find(|entry| entry.contains(':')) {
                return Err(ListError::NotInLegacy(entry.to_owned()));
            }
            let set = parse_list(text)?;
            Ok(functions().map(|function| (function, set.clone())).collect())
        }
    }
}

fn parse_per_function<T: Listed>(text: &str) -> Result<Enabled<T>, ListError> {
    let mut enabled = Enabled::new();
    let mut is_first = !text.starts_with(';');
    for entry in text.split(';').filter(|entry| !entry.is_empty()) {
        let mut parts = entry.split(':').filter(|part| !part.is_empty());
        let (first, second) = (parts.next().unwrap_or_default(), parts.next());
        match second {
            Some(list) => {
                let set = parse_list(list)?;
                enabled.insert(parse_function(first)?, set);
            }
            None if is_first => {
                let set = parse_list(first)?;
                enabled.extend(functions().map(|function| (function, set.clone())));
            }
            None => return Err(ListError::MissingFunction(entry.to_owned())),
        }
        is_first = false;
    }
    if enabled.is_empty() { Err(ListError::Empty(text.to_owned())) } else { Ok(enabled) }
}

fn parse_function(name: &str) -> Result<Collective, ListError> {
    functions().find(|function| function.nccl_name().eq_ignore_ascii_case(name)).ok_or_else(|| {
        let known: Vec<&str> = functions().map(Collective::nccl_name).collect();
        ListError::UnknownFunction {
            name: name.to_owned(),
            known: known.join(", "),
            hint: hint(name, known.iter().copied()),
        }
    })
}

fn parse_list<T: Listed>(list: &str) -> Result<BTreeSet<T>, ListError> {
    let (is_inverted, bare) = list.strip_prefix('^').map_or((false, list), |bare| (true, bare));
    let named: BTreeSet<T> =
        bare.split(',').filter(|name| !name.is_empty()).map(parse_name).collect::<Result<_, _>>()?;
    let set: BTreeSet<T> = T::ALL.iter().copied().filter(|value| named.contains(value) != is_inverted).collect();
    if set.is_empty() { Err(ListError::Empty(list.to_owned())) } else { Ok(set) }
}

fn parse_name<T: Listed>(name: &str) -> Result<T, ListError> {
    T::ALL.iter().copied().find(|value| value.nccl_name().eq_ignore_ascii_case(name)).ok_or_else(|| {
        let known: Vec<&str> = T::ALL.iter().map(|value| value.nccl_name()).collect();
        ListError::UnknownName {
            what: T::WHAT,
            name: name.to_owned(),
            known: known.join(", "),
            hint: hint(name, known.iter().copied()),
        }
    })
}

/// A plan that cannot be written in a dialect.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EmitError {
    /// The plan enables nothing for a collective.
    #[error("nothing is enabled for {0}")]
    Empty(Collective),
    /// The collective never reaches the choice.
    #[error("{0} takes no algorithm or protocol")]
    NoChoice(Collective),
    /// There is nothing to write.
    #[error("no collective is named")]
    NoCollective,
    /// Collectives want different lists, or some are left to NCCL.
    #[error("NCCL before 2.24 has one list for all collectives, and these differ: use a tuner file instead")]
    NotUniform,
}

/// Writes a plan. Lists are never inverted, so that a later NCCL's new names stay out.
///
/// # Errors
/// [`EmitError`] where the dialect cannot say it.
pub fn emit<T: Listed>(enabled: &Enabled<T>, dialect: Dialect) -> Result<String, EmitError> {
    for (collective, set) in enabled {
        if !collective.has_choice() {
            return Err(EmitError::NoChoice(*collective));
        }
        if set.is_empty() {
            return Err(EmitError::Empty(*collective));
        }
    }
    let Some((_, first)) = enabled.first_key_value() else {
        return Err(EmitError::NoCollective);
    };
    let list = |set: &BTreeSet<T>| {
        set.iter().map(|value| value.nccl_name().to_ascii_lowercase()).collect::<Vec<_>>().join(",")
    };
    match dialect {
        Dialect::V224Plus => {
            let entries = enabled.iter().map(|(collective, set)| format!("{}:{}", collective.name(), list(set)));
            Ok(entries.collect::<Vec<_>>().join(";"))
        }
        Dialect::Legacy => {
            let is_uniform = functions().all(|function| enabled.get(&function) == Some(first));
            if is_uniform { Ok(list(first)) } else { Err(EmitError::NotUniform) }
        }
    }
}

/// The collectives that two such lists leave without any algorithm and protocol: their *calls* fail since 2.24.
///
/// `NCCL_ALGO=Tree` breaks broadcast, reduce, all-gather and reduce-scatter.
pub fn unserved(algorithms: &Enabled<Algorithm>, protocols: &Enabled<Protocol>) -> Vec<Collective> {
    let is_served = |collective: Collective| {
        matrix::NCCL.iter().filter(|cell| cell.collective == collective).any(|cell| {
            algorithms.get(&collective).is_none_or(|set| set.contains(&cell.algorithm))
                && cell.protocols.iter().any(|p| protocols.get(&collective).is_none_or(|set| set.contains(p)))
        })
    };
    functions().filter(|collective| !is_served(*collective)).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use Algorithm::{Nvls, NvlsTree, Ring, Tree};

    fn algorithms(text: &str, dialect: Dialect) -> Result<Vec<(&'static str, Vec<Algorithm>)>, String> {
        let enabled = parse::<Algorithm>(text, dialect).map_err(|error| error.to_string())?;
        Ok(enabled.into_iter().map(|(c, set)| (c.name(), set.into_iter().collect())).collect())
    }

    #[test]
    fn lists_are_read_per_function() {
        let read = |text| algorithms(text, Dialect::V224Plus).unwrap();
        assert_eq!(read("allreduce:tree,RING"), [("allreduce", vec![Tree, Ring])]);
        assert_eq!(read("AllReduce:Tree;allgather:ring"), [("allreduce", vec![Tree]), ("allgather", vec![Ring])]);
        // Empty parts are skipped, later entries replace earlier ones, a third part is ignored.
        assert_eq!(read("allreduce:ring;;allreduce::tree:x"), [("allreduce", vec![Tree])]);
        let first = read("ring;allreduce:nvls,nvlstree");
        assert_eq!(first.len(), 5);
        assert_eq!(first[0], ("allreduce", vec![Nvls, NvlsTree]));
        assert_eq!(first[1], ("allgather", vec![Ring]));
        assert_eq!(read("allreduce:^tree")[0].1.len(), 6);
        let protocols = parse::<Protocol>("^LL", Dialect::V224Plus).unwrap();
        assert!(protocols[&Collective::AllReduce].contains(&Protocol::Ll128), "an inverted list enables LL128");
    }

    #[test]
    fn what_nccl_refuses_is_refused_with_the_nearest_name() {
        for (text, message) in [
            (
                "allreduce: tree",
                "unknown algorithm ` tree`: use one of Tree, Ring, CollNetDirect, CollNetChain, NVLS, NVLSTree, PAT; did you mean `Tree`?",
            ),
            (
                "allredcue:tree",
                "unknown function `allredcue`: use one of AllReduce, AllGather, ReduceScatter, Broadcast, Reduce; did you mean `AllReduce`?",
            ),
            (
                "allreduce:tree;ring",
                "`ring` needs a function, such as allreduce:ring: only the first entry may leave it out",
            ),
            (";ring", "`ring` needs a function, such as allreduce:ring: only the first entry may leave it out"),
            (
                "alltoall:ring",
                "unknown function `alltoall`: use one of AllReduce, AllGather, ReduceScatter, Broadcast, Reduce; did you mean `AllReduce`?",
            ),
            ("", "`` enables nothing"),
            (
                "allreduce:^tree,ring,collnetdirect,collnetchain,nvls,nvlstree,pat",
                "`^tree,ring,collnetdirect,collnetchain,nvls,nvlstree,pat` enables nothing",
            ),
        ] {
            let error = algorithms(text, Dialect::V224Plus).unwrap_err();
            let head: String = message.chars().take(60).collect();
            assert!(error.starts_with(&head), "{text}: {error}");
        }
    }

    #[test]
    fn the_old_grammar_is_one_list() {
        let read = algorithms("Tree,ring", Dialect::Legacy).unwrap();
        assert_eq!(read.len(), 5);
        assert!(read.iter().all(|(_, set)| *set == [Tree, Ring]));
        for text in ["allreduce:tree", "tree;ring", "tee", "^"] {
            let is_refused = algorithms(text, Dialect::Legacy).is_err();
            assert_eq!(is_refused, text != "^", "{text}");
        }
        assert_eq!(Dialect::of(Version::from_code(22304)), Dialect::Legacy);
        assert_eq!(Dialect::of(Version::from_code(22403)), Dialect::V224Plus);
    }

    #[test]
    fn plans_are_written_per_function_and_refused_where_one_list_cannot_hold_them() {
        let plan: Enabled<Algorithm> = [
            (Collective::AllReduce, BTreeSet::from([NvlsTree, Tree])),
            (Collective::AllGather, BTreeSet::from([Ring])),
        ]
        .into();
        assert_eq!(emit(&plan, Dialect::V224Plus), Ok("allreduce:tree,nvlstree;allgather:ring".into()));
        assert_eq!(emit(&plan, Dialect::Legacy), Err(EmitError::NotUniform));
        let one: Enabled<Algorithm> = functions().map(|f| (f, BTreeSet::from([Ring]))).collect();
        assert_eq!(emit(&one, Dialect::Legacy), Ok("ring".into()));
        assert_eq!(emit(&Enabled::<Algorithm>::new(), Dialect::V224Plus), Err(EmitError::NoCollective));
        let empty: Enabled<Algorithm> = [(Collective::Reduce, BTreeSet::new())].into();
        assert_eq!(emit(&empty, Dialect::V224Plus), Err(EmitError::Empty(Collective::Reduce)));
        let none: Enabled<Algorithm> = [(Collective::AllToAll, BTreeSet::from([Ring]))].into();
        assert_eq!(emit(&none, Dialect::V224Plus), Err(EmitError::NoChoice(Collective::AllToAll)));
    }

    #[test]
    fn a_bare_tree_breaks_four_collectives() {
        let tree = parse("Tree", Dialect::V224Plus).unwrap();
        let broken: Vec<&str> = unserved(&tree, &Enabled::new()).into_iter().map(Collective::name).collect();
        assert_eq!(broken, ["allgather", "reducescatter", "broadcast", "reduce"]);
        let nvls = parse("allreduce:nvls", Dialect::V224Plus).unwrap();
        let ll = parse("allreduce:ll", Dialect::V224Plus).unwrap();
        assert_eq!(unserved(&nvls, &ll), [Collective::AllReduce]);
        assert_eq!(unserved(&nvls, &Enabled::new()), []);
    }

    fn plan() -> impl Strategy<Value = Enabled<Algorithm>> {
        let set = proptest::collection::btree_set(proptest::sample::select(Algorithm::ALL), 1..=7);
        let function = proptest::sample::select(functions().collect::<Vec<_>>());
        proptest::collection::btree_map(function, set, 1..=5)
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(plan in plan()) {
            let text = emit(&plan, Dialect::V224Plus).unwrap();
            prop_assert_eq!(parse(&text, Dialect::V224Plus), Ok(plan.clone()));
            if let Ok(text) = emit(&plan, Dialect::Legacy) {
                prop_assert_eq!(parse(&text, Dialect::Legacy), Ok(plan));
            }
        }

        #[test]
        fn any_text_is_taken_or_refused(text in "[a-zA-Z:;,^ ]{0,30}|\\PC{0,30}") {
            drop(parse::<Algorithm>(&text, Dialect::V224Plus));
            drop(parse::<Protocol>(&text, Dialect::Legacy));
        }
    }
}
