//! The space of NCCL: choices that it allows here, and the process-level knobs that can matter here, as data.
//!
//! What is allowed comes from NCCL's own cost table ([`NcclFacts::allowed`]), never from folklore: LL128 is a choice where
//! NCCL takes it for safe, and is not named anywhere else.

use std::collections::{BTreeMap, BTreeSet};

use gdrtune_profiles::{
    knob, matrix,
    version::Version,
    vocab::{Algorithm, Choice, Collective, Protocol},
};

use super::{Dimension, Facts, bindings, dimension};

/// How ranks of different nodes reach each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Transport {
    /// One node: not over a network.
    None,
    /// NCCL's sockets.
    Socket,
    /// InfiniBand verbs, RoCE included.
    Verbs,
    /// NCCL did not say; knobs of one transport are not offered.
    #[default]
    Unknown,
}

/// What NCCL said about this cluster.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NcclFacts {
    /// Its version.
    pub version: Option<Version>,
    /// Algorithm and protocol pairs that its cost table allows, at any of the sizes. Empty where it was not asked (no tuner
    /// plugin): then only process-level knobs are searched.
    pub allowed: BTreeMap<Collective, BTreeSet<(Algorithm, Protocol)>>,
    /// Most channels of a collective, with nothing set.
    pub channels: Option<u16>,
    /// How nodes are connected.
    pub transport: Transport,
}

/// Channel counts that are tried.
const CHANNELS: [u16; 7] = [1, 2, 4, 8, 16, 32, 64];

/// Ceilings that are tried where NCCL's own is lower. Raising it slows calls that no rule covers, so it is a knob.
const CEILINGS: [u16; 3] = [4, 8, 16];

/// One knob that may be offered.
struct Offer {
    name: &'static str,
    values: &'static [&'static str],
    is_meaningful: fn(&Facts, &NcclFacts) -> bool,
}

/// In order of what mattered most where it was measured. Values are besides NCCL's default.
const OFFERS: &[Offer] = &[
    Offer { name: "NCCL_SOCKET_NTHREADS", values: &["2", "4"], is_meaningful: over_sockets },
    Offer { name: "NCCL_NSOCKS_PERTHREAD", values: &["2", "4"], is_meaningful: over_sockets },
    Offer { name: "NCCL_CROSS_NIC", values: &["0", "1"], is_meaningful: over_verbs },
    Offer { name: "NCCL_IB_QPS_PER_CONNECTION", values: &["2", "4"], is_meaningful: over_verbs },
    Offer { name: "NCCL_IB_SPLIT_DATA_ON_QPS", values: &["1"], is_meaningful: over_verbs },
    Offer { name: "NCCL_NET_GDR_LEVEL", values: &["PHB", "SYS"], is_meaningful: over_verbs },
    Offer { name: "NCCL_NET_GDR_READ", values: &["0", "1"], is_meaningful: over_verbs },
    Offer { name: "NCCL_PXN_DISABLE", values: &["1"], is_meaningful: |f, n| over_verbs(f, n) && has_local_peers(f) },
    Offer { name: "NCCL_BUFFSIZE", values: &["1048576", "8388608"], is_meaningful: |_, _| true },
    Offer { name: "NCCL_NTHREADS", values: &["256"], is_meaningful: |_, _| true },
    Offer { name: "NCCL_P2P_NET_CHUNKSIZE", values: &["262144", "524288"], is_meaningful: sends_between_nodes },
    // Offered only as a way out: where NCCL does not use NVLS there is nothing to switch off.
    Offer { name: "NCCL_NVLS_ENABLE", values: &["0"], is_meaningful: allows_nvls },
];

fn over_sockets(_: &Facts, nccl: &NcclFacts) -> bool {
    nccl.transport == Transport::Socket
}

fn over_verbs(_: &Facts, nccl: &NcclFacts) -> bool {
    nccl.transport == Transport::Verbs
}

fn has_local_peers(facts: &Facts) -> bool {
    facts.nodes < facts.ranks
}

fn sends_between_nodes(facts: &Facts, nccl: &NcclFacts) -> bool {
    let sends = |collective: &Collective| !collective.has_choice();
    nccl.transport != Transport::None && facts.collectives.iter().any(sends)
}

fn allows_nvls(_: &Facts, nccl: &NcclFacts) -> bool {
    let is_nvls = |(algorithm, _): &(Algorithm, Protocol)| matches!(algorithm, Algorithm::Nvls | Algorithm::NvlsTree);
    nccl.allowed.values().flatten().any(is_nvls)
}

/// The choices of every collective that has any.
pub(super) fn choices(facts: &Facts, nccl: &NcclFacts) -> BTreeMap<Collective, Vec<Choice>> {
    let counts = channel_counts(facts, nccl);
    let of = |collective: &Collective| {
        let allowed = nccl.allowed.get(collective).into_iter().flatten();
        let with_counts = allowed.flat_map(|&(algorithm, protocol)| {
            counts.iter().map(move |&channels| Choice { algorithm, protocol, channels })
        });
        (*collective, with_counts.collect::<Vec<_>>())
    };
    facts.collectives.iter().map(of).filter(|(_, choices)| !choices.is_empty()).collect()
}

/// Counts up to what some environment of the space allows.
fn channel_counts(facts: &Facts, nccl: &NcclFacts) -> Vec<u16> {
    let own = nccl.channels.unwrap_or(0);
    let ceiling = ceilings(facts, nccl).last().copied().unwrap_or(own).max(own);
    let most = ceiling.min(facts.max_channels.max(1)).min(matrix::max_channels(nccl.version));
    let mut counts: Vec<u16> = CHANNELS.into_iter().filter(|&count| count <= most).collect();
    // NCCL's own count need not be a power of two.
    if 0 < own && own <= most && !counts.contains(&own) {
        counts.push(own);
    }
    counts.sort_unstable();
    counts
}

/// Ceilings above NCCL's own.
fn ceilings(facts: &Facts, nccl: &NcclFacts) -> Vec<u16> {
    let own = nccl.channels.unwrap_or(0);
    CEILINGS.into_iter().filter(|&ceiling| own < ceiling && ceiling <= facts.max_channels).collect()
}

/// The process-level knobs.
pub(super) fn dimensions(facts: &Facts, nccl: &NcclFacts) -> Vec<Dimension> {
    let mut dimensions = Vec::new();
    if 1 < facts.interfaces.len() && nccl.transport == Transport::Socket {
        dimensions.push(dimension("NCCL_SOCKET_IFNAME", bindings(&facts.interfaces)));
    }
    let ceilings = ceilings(facts, nccl);
    if !ceilings.is_empty() && !nccl.allowed.is_empty() {
        let is_old = nccl.version.is_some_and(|version| !version.at_least(2, 17));
        let name = if is_old { "NCCL_MIN_NCHANNELS" } else { "NCCL_MIN_CTAS" };
        dimensions.push(dimension(name, ceilings.iter().map(u16::to_string)));
    }
    let offered = OFFERS.iter().filter(|offer| (offer.is_meaningful)(facts, nccl) && is_read(offer.name, nccl.version));
    dimensions.extend(offered.map(|offer| dimension(offer.name, offer.values.iter().map(ToString::to_string))));
    dimensions
}

/// Whether this version of NCCL reads the variable.
fn is_read(name: &str, version: Option<Version>) -> bool {
    knob::knob(name).is_some_and(|knob| version.is_none_or(|version| knob.is_current(version)))
}

#[cfg(test)]
mod tests {
    use gdrtune_profiles::vocab::Engine;

    use super::*;
    use crate::space::Space;

    const RING: Algorithm = Algorithm::Ring;
    const TREE: Algorithm = Algorithm::Tree;

    fn facts(nodes: u32, ranks: u32, nccl: NcclFacts) -> Facts {
        Facts {
            engine: Engine::Nccl,
            nodes,
            ranks,
            interfaces: vec!["eth0".into(), "eth1".into()],
            collectives: vec![Collective::AllReduce, Collective::AllGather],
            max_channels: 16,
            pins: BTreeMap::new(),
            excludes: BTreeSet::new(),
            forced: BTreeSet::new(),
            nccl,
        }
    }

    fn sockets() -> NcclFacts {
        let pairs = [(TREE, Protocol::Ll), (RING, Protocol::Simple)];
        NcclFacts {
            version: Some(Version::from_code(22_809)),
            allowed: [(Collective::AllReduce, pairs.into()), (Collective::AllGather, [pairs[1]].into())].into(),
            channels: Some(2),
            transport: Transport::Socket,
        }
    }

    fn names(space: &Space) -> Vec<&str> {
        space.dimensions.iter().map(|dimension| dimension.name.as_str()).collect()
    }

    #[test]
    fn only_what_nccl_allows_is_a_choice() {
        let space = Space::build(&facts(4, 4, sockets())).unwrap();
        let shown = |collective| {
            let choices = space.choices.get(&collective).into_iter().flatten();
            choices.map(ToString::to_string).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(
            shown(Collective::AllReduce),
            "tree/ll/1 tree/ll/2 tree/ll/4 tree/ll/8 tree/ll/16 \
             ring/simple/1 ring/simple/2 ring/simple/4 ring/simple/8 ring/simple/16"
        );
        assert_eq!(space.choices[&Collective::AllGather].len(), 5);
        let unknown = Space::build(&facts(4, 4, NcclFacts::default())).unwrap();
        assert!(unknown.choices.is_empty(), "without the cost table nothing is known to be allowed");
        assert!(!names(&unknown).contains(&"NCCL_MIN_CTAS"), "a ceiling is for choices");
    }

    #[test]
    fn knobs_follow_the_path() {
        for (nodes, ranks, transport, expected) in [
            (
                4,
                4,
                Transport::Socket,
                "NCCL_SOCKET_IFNAME NCCL_MIN_CTAS NCCL_SOCKET_NTHREADS NCCL_NSOCKS_PERTHREAD NCCL_BUFFSIZE NCCL_NTHREADS",
            ),
            (
                2,
                16,
                Transport::Verbs,
                "NCCL_MIN_CTAS NCCL_CROSS_NIC NCCL_IB_QPS_PER_CONNECTION NCCL_IB_SPLIT_DATA_ON_QPS NCCL_NET_GDR_LEVEL \
                 NCCL_NET_GDR_READ NCCL_PXN_DISABLE NCCL_BUFFSIZE NCCL_NTHREADS",
            ),
            (1, 8, Transport::None, "NCCL_MIN_CTAS NCCL_BUFFSIZE NCCL_NTHREADS"),
            (4, 4, Transport::Unknown, "NCCL_MIN_CTAS NCCL_BUFFSIZE NCCL_NTHREADS"),
        ] {
            let space = Space::build(&facts(nodes, ranks, NcclFacts { transport, ..sockets() })).unwrap();
            assert_eq!(names(&space).join(" "), expected, "{transport:?}");
        }
        let mut sends = facts(4, 4, sockets());
        sends.collectives.push(Collective::AllToAll);
        assert!(names(&Space::build(&sends).unwrap()).contains(&"NCCL_P2P_NET_CHUNKSIZE"));
    }

    #[test]
    fn a_wide_communicator_needs_no_raised_ceiling() {
        let nccl = NcclFacts { channels: Some(24), transport: Transport::None, ..sockets() };
        let space = Space::build(&Facts { max_channels: 64, ..facts(1, 8, nccl) }).unwrap();
        assert_eq!(names(&space), ["NCCL_BUFFSIZE", "NCCL_NTHREADS"]);
        let counts: BTreeSet<u16> = space.choices.values().flatten().map(|choice| choice.channels).collect();
        assert_eq!(counts, [1, 2, 4, 8, 16, 24].into());
    }

    #[test]
    fn nvls_can_be_switched_off_where_nccl_uses_it_and_never_on() {
        let mut nccl = NcclFacts { transport: Transport::None, ..sockets() };
        nccl.allowed.entry(Collective::AllReduce).or_default().insert((Algorithm::Nvls, Protocol::Simple));
        let offered = Space::build(&facts(1, 8, nccl.clone())).unwrap();
        let values = offered.dimensions.iter().find(|d| d.name == "NCCL_NVLS_ENABLE").map(|d| d.values.clone());
        assert_eq!(values, Some(vec![None, Some("0".to_owned())]));
        // A value that the user or the site insists on is no dimension, whatever NCCL allows.
        let forced = Facts { forced: ["NCCL_NVLS_ENABLE".to_owned()].into(), ..facts(1, 8, nccl) };
        assert!(!names(&Space::build(&forced).unwrap()).contains(&"NCCL_NVLS_ENABLE"));
        let unused = Space::build(&facts(1, 8, sockets())).unwrap();
        assert!(!names(&unused).contains(&"NCCL_NVLS_ENABLE"));
    }

    #[test]
    fn old_versions_get_the_names_that_they_read() {
        let nccl = NcclFacts { version: Some(Version::new(2, 16)), ..sockets() };
        let space = Space::build(&facts(4, 4, nccl)).unwrap();
        assert!(names(&space).contains(&"NCCL_MIN_NCHANNELS"), "{:?}", names(&space));
    }
}
