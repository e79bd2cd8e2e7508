//! The space of NCCL: choices that it allows here, and the process-level knobs that can matter here, as data.
//!
//! What is allowed comes from NCCL's own cost table ([`NcclFacts::allowed`]), never from folklore: LL128 is a choice where
//! NCCL takes it for safe, and is not named anywhere else.

use std::collections::{BTreeMap, BTreeSet};

use gdrtune_profiles::{
    knob, matrix,
    space::SelectedKnob,
    version::Version,
    vocab::{Algorithm, Choice, Collective, Engine, Protocol},
};

use super::Facts;

/// How ranks of different nodes reach each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Transport {
    /// One node: not over a network.
    None,
    /// NCCL's sockets.
    Socket,
    /// InfiniBand verbs, RoCE included.
    Verbs,
    /// The engine did not say; knobs of one transport are not offered.
    #[default]
    Unknown,
}

/// What NCCL said about this cluster. Of the native engine, only how its ranks are connected is known.
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

/// Channel counts that are tried where the space names none.
const CHANNELS: [u16; 7] = [1, 2, 4, 8, 16, 32, 64];

/// The channel ceiling. Raising it slows calls that no rule covers, so it is a knob, and only above NCCL's own.
const CEILING: &str = "NCCL_MIN_CTAS";
/// The ceiling's name before 2.17.
const OLD_CEILING: &str = "NCCL_MIN_NCHANNELS";

/// What a knob needs to have an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Need {
    /// Nodes that talk over NCCL's sockets.
    Sockets,
    /// Nodes that talk over verbs.
    Verbs,
    /// The same, with several ranks on a node.
    VerbsAndPeers,
    /// Several ranks on a node.
    Peers,
    /// Collectives that are made of sends and receives.
    Sends,
    /// The same, between nodes.
    SendsBetweenNodes,
    /// An algorithm that NCCL allows here.
    Algorithm(Algorithm),
}

/// Needs of knobs, by name; `NCCL_IB_` stands for all that begin so. What is not here always has an effect.
const NEEDS: &[(&str, Need)] = &[
    ("NCCL_SOCKET_IFNAME", Need::Sockets),
    ("NCCL_SOCKET_NTHREADS", Need::Sockets),
    ("NCCL_NSOCKS_PERTHREAD", Need::Sockets),
    ("NCCL_CROSS_NIC", Need::Verbs),
    ("NCCL_IB_", Need::Verbs),
    ("NCCL_NET_GDR_", Need::Verbs),
    ("NCCL_GDRCOPY_ENABLE", Need::Verbs),
    ("NCCL_NETDEVS_POLICY", Need::Verbs),
    ("NCCL_PXN_DISABLE", Need::VerbsAndPeers),
    ("NCCL_P2P_PXN_LEVEL", Need::VerbsAndPeers),
    ("NCCL_P2P_LEVEL", Need::Peers),
    ("NCCL_P2P_NET_CHUNKSIZE", Need::SendsBetweenNodes),
    ("NCCL_NCHANNELS_PER_NET_PEER", Need::SendsBetweenNodes),
    ("NCCL_MIN_P2P_NCHANNELS", Need::Sends),
    ("NCCL_MAX_P2P_NCHANNELS", Need::Sends),
    ("NCCL_P2P_LL_THRESHOLD", Need::Sends),
    ("NCCL_NVLS_ENABLE", Need::Algorithm(Algorithm::Nvls)),
    ("NCCL_NVLS_CHUNKSIZE", Need::Algorithm(Algorithm::Nvls)),
    ("NCCL_PAT_ENABLE", Need::Algorithm(Algorithm::Pat)),
];

impl Need {
    fn of(name: &str) -> Option<Self> {
        let is_named = |known: &str| if known.ends_with('_') { name.starts_with(known) } else { name == known };
        NEEDS.iter().find(|(known, _)| is_named(known)).map(|(_, need)| *need)
    }

    fn is_met(self, facts: &Facts, nccl: &NcclFacts) -> bool {
        let has_peers = facts.nodes < facts.ranks;
        let sends = facts.collectives.iter().any(|collective| !collective.has_choice());
        match self {
            Self::Sockets => nccl.transport == Transport::Socket,
            Self::Verbs => nccl.transport == Transport::Verbs,
            Self::VerbsAndPeers => nccl.transport == Transport::Verbs && has_peers,
            Self::Peers => has_peers,
            Self::Sends => sends,
            Self::SendsBetweenNodes => sends && nccl.transport != Transport::None,
            Self::Algorithm(needed) => {
                nccl.allowed.values().flatten().any(|(algorithm, _)| is_kind(*algorithm, needed))
            }
        }
    }

    /// Why it is not met. Where NCCL did not tell, the user may know better.
    fn unmet(self, nccl: &NcclFacts) -> String {
        let unknown =
            if nccl.transport == Transport::Unknown { " (NCCL did not say; --add searches it anyway)" } else { "" };
        match self {
            Self::Sockets => format!("nodes do not talk over sockets{unknown}"),
            Self::Verbs => format!("nodes do not talk over InfiniBand or RoCE{unknown}"),
            Self::VerbsAndPeers => format!("no nodes with several ranks talk over InfiniBand or RoCE{unknown}"),
            Self::Peers => "there is one rank per node".to_owned(),
            Self::Sends => "no collective here is made of sends and receives".to_owned(),
            Self::SendsBetweenNodes => "no collective here sends and receives between nodes".to_owned(),
            Self::Algorithm(algorithm) => format!("NCCL uses no {} here", algorithm.nccl_name()),
        }
    }
}

fn is_kind(algorithm: Algorithm, needed: Algorithm) -> bool {
    algorithm == needed || (needed == Algorithm::Nvls && algorithm == Algorithm::NvlsTree)
}

/// Why a selected knob would do nothing here.
pub(super) fn unmet(facts: &Facts, nccl: &NcclFacts, selected: &SelectedKnob) -> Option<String> {
    let name = selected.name.as_str();
    if let Some(need) = Need::of(name).filter(|need| !need.is_met(facts, nccl)) {
        return Some(need.unmet(nccl));
    }
    if name == CEILING && nccl.allowed.is_empty() {
        return Some("it is for choices, and NCCL takes none here".to_owned());
    }
    unread(name_for(name, nccl.version), facts)
}

/// The name of a knob in this version.
pub(super) fn name_for(name: &str, version: Option<Version>) -> &str {
    let is_old = version.is_some_and(|version| !version.at_least(2, 17));
    if name == CEILING && is_old { OLD_CEILING } else { name }
}

/// Why this version of NCCL does not take a variable.
pub(super) fn unread(name: &str, facts: &Facts) -> Option<String> {
    let version = facts.nccl.version.filter(|_| facts.engine == Engine::Nccl)?;
    let is_current = knob::knob(name).is_some_and(|knob| knob.is_current(version));
    (!is_current).then(|| format!("NCCL {version} does not read it, or advises against it"))
}

/// The values that can change something: of the ceiling, those above NCCL's own.
pub(super) fn useful_values(facts: &Facts, name: &str, listed: Vec<String>) -> Result<Vec<String>, String> {
    if name != CEILING {
        return Ok(listed);
    }
    let useful = ceilings(facts, &facts.nccl);
    if useful.is_empty() {
        return Err("NCCL has as many channels by itself".to_owned());
    }
    Ok(useful.iter().map(u16::to_string).collect())
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
    let selected = facts.selection.channels.as_deref().unwrap_or(&CHANNELS);
    let mut counts: Vec<u16> = selected.iter().copied().filter(|&count| count <= most).collect();
    // NCCL's own count need not be a power of two.
    if 0 < own && own <= most && !counts.contains(&own) {
        counts.push(own);
    }
    counts.sort_unstable();
    counts
}

/// Ceilings of the space above NCCL's own, rising.
fn ceilings(facts: &Facts, nccl: &NcclFacts) -> Vec<u16> {
    let own = nccl.channels.unwrap_or(0);
    let selected = facts.selection.knobs.iter().filter(|knob| knob.name == CEILING);
    let listed = selected.flat_map(|selected| match selected.values.as_slice() {
        [] => knob::knob(CEILING).map_or(Vec::new(), |knob| knob.candidates.to_vec()),
        listed => listed.iter().map(String::as_str).collect(),
    });
    let added = facts.adds.iter().filter(|add| add.name == CEILING).flat_map(|add| &add.values).map(String::as_str);
    let ceilings = listed.chain(added).filter_map(|text| text.parse().ok());
    let ceilings: BTreeSet<u16> = ceilings.filter(|&c| own < c && c <= facts.max_channels).collect();
    ceilings.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use gdrtune_profiles::{bindings::Bindings, space::SpaceFile, vocab::Environment};

    use super::*;
    use crate::space::{LeftOut, Space};

    const RING: Algorithm = Algorithm::Ring;
    const TREE: Algorithm = Algorithm::Tree;

    fn facts(nodes: u32, ranks: u32, nccl: NcclFacts) -> Facts {
        Facts {
            engine: Engine::Nccl,
            nodes,
            ranks,
            bindings: crate::space::tests::bindings(&["eth0", "eth1"], 0),
            collectives: vec![Collective::AllReduce, Collective::AllGather],
            max_channels: 16,
            selection: SpaceFile::preset(SpaceFile::STANDARD).unwrap().selection,
            adds: Vec::new(),
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
        let space = Space::build(&facts(4, 4, sockets())).unwrap().space;
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
        let unknown = Space::build(&facts(4, 4, NcclFacts::default())).unwrap().space;
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
            let space = Space::build(&facts(nodes, ranks, NcclFacts { transport, ..sockets() })).unwrap().space;
            assert_eq!(names(&space).join(" "), expected, "{transport:?}");
        }
        let mut sends = facts(4, 4, sockets());
        sends.collectives.push(Collective::AllToAll);
        assert!(names(&Space::build(&sends).unwrap().space).contains(&"NCCL_P2P_NET_CHUNKSIZE"));
    }

    #[test]
    fn hcas_and_what_depends_on_them_are_those_of_the_nodes() {
        let verbs = |hcas| {
            let bindings = crate::space::tests::bindings(&["eth0"], hcas);
            Facts { bindings, ..facts(2, 2, NcclFacts { transport: Transport::Verbs, ..sockets() }) }
        };
        let values = |facts: &Facts, name: &str| {
            let built = Space::build(facts).unwrap();
            let dimension = built.space.dimensions.iter().find(|dimension| dimension.name == name);
            let why = || built.left_out.iter().find(|left| left.what == name).map_or("-", |left| &left.why);
            dimension.map_or_else(
                || why().to_owned(),
                |found| found.values.iter().map(|value| value.as_deref().unwrap_or("-")).collect::<Vec<_>>().join(" "),
            )
        };
        let three = verbs(3);
        assert_eq!(values(&three, "NCCL_IB_HCA"), "- =mlx5_0:1 =mlx5_1:1 =mlx5_2:1");
        assert_eq!(values(&three, "NCCL_CROSS_NIC"), "- 0 1");
        assert_eq!(values(&three, "NCCL_NET_GDR_LEVEL"), "- SYS", "PHB reaches no HCA more than NCCL's own level");
        let one = verbs(1);
        assert_eq!(values(&one, "NCCL_IB_HCA"), "the nodes have no other HCAs than NCCL takes by itself");
        assert_eq!(values(&one, "NCCL_CROSS_NIC"), "there is one rail, or none");
        assert_eq!(values(&one, "NCCL_NET_GDR_LEVEL"), "no level changes anything here");
        let none = Facts { bindings: Bindings::default(), ..verbs(0) };
        assert_eq!(values(&none, "NCCL_IB_HCA"), "which devices the nodes have is not known");
        assert_eq!(values(&none, "NCCL_NET_GDR_LEVEL"), "- PHB SYS", "nothing is known against them");
        // The user's own list stays, whatever is known of the nodes.
        let mut own = verbs(3);
        let file = "[[knob]]\nname = \"NCCL_IB_HCA\"\nvalues = [\"=mlx5_7:1\", \"=mlx5_1:1\"]";
        own.selection = SpaceFile::parse(file, "f").unwrap().selection;
        assert_eq!(values(&own, "NCCL_IB_HCA"), "- =mlx5_7:1 =mlx5_1:1");
        let pinned = Facts { pins: [("NCCL_IB_HCA".to_owned(), "mlx5".to_owned())].into(), ..verbs(3) };
        assert_eq!(values(&pinned, "NCCL_IB_HCA"), "mlx5");
        let forced = Facts { forced: ["NCCL_IB_HCA".to_owned()].into(), ..verbs(3) };
        assert_eq!(values(&forced, "NCCL_IB_HCA"), "-");
    }

    #[test]
    fn what_does_nothing_with_a_list_is_left_alone_with_it() {
        let bindings = crate::space::tests::bindings(&["eth0"], 3);
        let wanted = Facts { bindings, ..facts(2, 2, NcclFacts { transport: Transport::Verbs, ..sockets() }) };
        let canonical = |facts: &Facts, settings: &[(&str, &str)]| {
            let space = Space::build(facts).unwrap().space;
            let environment = settings.iter().fold(Environment::new(), |env, (name, value)| env.with(*name, *value));
            space.environment(&space.canonical(&space.indices(&environment).unwrap()).unwrap()).to_string()
        };
        for (settings, same) in [
            (&[("NCCL_IB_HCA", "=mlx5_0:1"), ("NCCL_CROSS_NIC", "1")][..], "NCCL_IB_HCA==mlx5_0:1"),
            (&[("NCCL_CROSS_NIC", "1")], "NCCL_CROSS_NIC=1"),
            (&[("NCCL_IB_HCA", "=mlx5_0:1"), ("NCCL_NET_GDR_LEVEL", "SYS")], "NCCL_IB_HCA==mlx5_0:1"),
            (
                &[("NCCL_IB_HCA", "=mlx5_1:1"), ("NCCL_NET_GDR_LEVEL", "SYS")],
                "NCCL_IB_HCA==mlx5_1:1 NCCL_NET_GDR_LEVEL=SYS",
            ),
        ] {
            assert_eq!(canonical(&wanted, settings), same);
        }
        let pins = [("NCCL_IB_HCA", "=mlx5_0:1"), ("NCCL_CROSS_NIC", "1")];
        let pinned = Facts { pins: pins.map(|(k, v)| (k.to_owned(), v.to_owned())).into(), ..wanted };
        assert!(Space::build(&pinned).is_ok(), "what the user pinned is the user's business");
    }

    #[test]
    fn a_wide_communicator_needs_no_raised_ceiling() {
        let nccl = NcclFacts { channels: Some(24), transport: Transport::None, ..sockets() };
        let space = Space::build(&Facts { max_channels: 64, ..facts(1, 8, nccl) }).unwrap().space;
        assert_eq!(names(&space), ["NCCL_BUFFSIZE", "NCCL_NTHREADS"]);
        let counts: BTreeSet<u16> = space.choices.values().flatten().map(|choice| choice.channels).collect();
        assert_eq!(counts, [1, 2, 4, 8, 16, 24].into());
    }

    #[test]
    fn nvls_can_be_switched_off_where_nccl_uses_it_and_never_on() {
        let mut nccl = NcclFacts { transport: Transport::None, ..sockets() };
        nccl.allowed.entry(Collective::AllReduce).or_default().insert((Algorithm::Nvls, Protocol::Simple));
        let offered = Space::build(&facts(1, 8, nccl.clone())).unwrap().space;
        let values = offered.dimensions.iter().find(|d| d.name == "NCCL_NVLS_ENABLE").map(|d| d.values.clone());
        assert_eq!(values, Some(vec![None, Some("0".to_owned())]));
        // A value that the user or the site insists on is no dimension, whatever NCCL allows.
        let forced = Facts { forced: ["NCCL_NVLS_ENABLE".to_owned()].into(), ..facts(1, 8, nccl) };
        assert!(!names(&Space::build(&forced).unwrap().space).contains(&"NCCL_NVLS_ENABLE"));
        let unused = Space::build(&facts(1, 8, sockets())).unwrap().space;
        assert!(!names(&unused).contains(&"NCCL_NVLS_ENABLE"));
    }

    #[test]
    fn old_versions_get_the_names_that_they_read() {
        let nccl = NcclFacts { version: Some(Version::new(2, 16)), ..sockets() };
        let space = Space::build(&facts(4, 4, nccl)).unwrap().space;
        assert!(names(&space).contains(&"NCCL_MIN_NCHANNELS"), "{:?}", names(&space));
    }

    #[test]
    fn what_is_not_there_is_left_out_and_said() {
        let shown = |facts: &Facts| {
            let left_out = Space::build(facts).unwrap().left_out;
            left_out.into_iter().map(|LeftOut { what, why }| format!("{what}: {why}")).collect::<Vec<_>>()
        };
        let mut wanted = facts(4, 4, sockets());
        let said = shown(&wanted);
        assert!(said.contains(&"NCCL_CROSS_NIC: nodes do not talk over InfiniBand or RoCE".to_owned()), "{said:?}");
        assert!(said.contains(&"NCCL_NVLS_ENABLE: NCCL uses no NVLS here".to_owned()), "{said:?}");
        assert!(!said.iter().any(|line| line.contains("GDRTUNE_NATIVE")), "another engine's is not worth a word");
        wanted.nccl.transport = Transport::Unknown;
        assert!(shown(&wanted).iter().any(|line| line.contains("--add searches it anyway")));
        // The user knows better than NCCL's silence, but not than its version.
        let add = |text| gdrtune_profiles::setting::parse_add(text).unwrap();
        wanted.adds = vec![add("NCCL_CROSS_NIC=1"), add("NCCL_BUFFSIZE=1048576,2097152"), add("NCCL_IB_OOO_RQ=1")];
        wanted.selection.channels = Some(vec![1, 64]);
        let built = Space::build(&wanted).unwrap();
        let values = |name: &str| {
            let dimension = built.space.dimensions.iter().find(|dimension| dimension.name == name);
            dimension.map(|d| d.values.iter().map(|v| v.as_deref().unwrap_or("-")).collect::<Vec<_>>().join(" "))
        };
        assert_eq!(values("NCCL_CROSS_NIC").as_deref(), Some("- 1"));
        assert_eq!(values("NCCL_BUFFSIZE").as_deref(), Some("- 1048576 8388608 2097152"));
        assert_eq!(values("NCCL_IB_OOO_RQ"), None);
        let said = shown(&wanted);
        for line in ["NCCL_IB_OOO_RQ: NCCL 2.28.9 does not read it", "64 channels: no choice has over 16 channels here"]
        {
            assert!(said.iter().any(|said| said.starts_with(line)), "{line}: {said:?}");
        }
        let counts: BTreeSet<u16> = built.space.choices.values().flatten().map(|choice| choice.channels).collect();
        assert_eq!(counts, [1, 2].into(), "those of the file, and NCCL's own");
    }

    #[test]
    fn an_added_ceiling_allows_more_channels() {
        let mut wanted = facts(4, 4, sockets());
        wanted.selection = gdrtune_profiles::space::Selection::default();
        let widest = |facts: &Facts| {
            let space = Space::build(facts).unwrap().space;
            space.choices.values().flatten().map(|choice| choice.channels).max()
        };
        assert_eq!(widest(&wanted), Some(2), "NCCL's own");
        wanted.adds = vec![gdrtune_profiles::setting::parse_add("NCCL_MIN_CTAS=8").unwrap()];
        assert_eq!(widest(&wanted), Some(8));
    }

    #[test]
    fn conditions_on_what_is_not_searched_leave_the_knob_out() {
        let file = "base = \"full\"\nexclude = [\"NCCL_IB_ADAPTIVE_ROUTING\"]";
        let file = SpaceFile::parse(file, "f").unwrap();
        let verbs = NcclFacts { transport: Transport::Verbs, ..sockets() };
        let mut wanted = Facts { selection: file.selection, ..facts(2, 16, verbs) };
        wanted.excludes = file.settings.excludes.into_iter().collect();
        let built = Space::build(&wanted).unwrap();
        let names = names(&built.space);
        assert!(names.contains(&"NCCL_IB_SPLIT_DATA_ON_QPS") && !names.contains(&"NCCL_IB_AR_THRESHOLD"), "{names:?}");
        let why = "it is for NCCL_IB_ADAPTIVE_ROUTING=1, which is not searched".to_owned();
        assert!(built.left_out.contains(&LeftOut { what: "NCCL_IB_AR_THRESHOLD".into(), why }));
        // With one queue pair the data is not split.
        let split = Environment::new().with("NCCL_IB_SPLIT_DATA_ON_QPS", "1");
        let vector = built.space.indices(&split).unwrap();
        assert_eq!(built.space.canonical(&vector), Some(vec![0; vector.len()]));
        let both = built.space.indices(&split.clone().with("NCCL_IB_QPS_PER_CONNECTION", "4")).unwrap();
        assert_eq!(built.space.canonical(&both), Some(both.clone()));
        // A pinned knob does not wait for another.
        wanted.pins = [("NCCL_IB_SPLIT_DATA_ON_QPS".to_owned(), "1".to_owned())].into();
        assert!(Space::build(&wanted).unwrap().space.constraints.conditions.is_empty());
    }

    #[test]
    fn pins_that_the_space_forbids_together_are_refused() {
        let file =
            "[[knob]]\nname = \"NCCL_NTHREADS\"\n[[forbid]]\nsettings = [\"NCCL_CROSS_NIC=1\", \"NCCL_BUFFSIZE\"]";
        let mut wanted = Facts { selection: SpaceFile::parse(file, "f").unwrap().selection, ..facts(4, 4, sockets()) };
        wanted.pins = [("NCCL_CROSS_NIC", "1"), ("NCCL_BUFFSIZE", "1048576")].map(|(k, v)| (k.into(), v.into())).into();
        let error = Space::build(&wanted).unwrap_err().to_string();
        assert!(error.ends_with("forbidden together by the space: NCCL_BUFFSIZE=1048576 NCCL_CROSS_NIC=1"), "{error}");
        // Knobs that the catalogue keeps apart are never both set by the search.
        let file = "add = [\"NCCL_P2P_LEVEL=SYS\", \"NCCL_P2P_DISABLE=1\"]";
        let adds = SpaceFile::parse(file, "f").unwrap().settings.adds;
        let space = Space::build(&Facts { adds, ..facts(1, 8, sockets()) }).unwrap().space;
        let both = Environment::new().with("NCCL_P2P_LEVEL", "SYS").with("NCCL_P2P_DISABLE", "1");
        assert_eq!(space.canonical(&space.indices(&both).unwrap()), None);
    }
}
