//! The standard space of many clusters is the one that is written down in `golden/`, so that no change of it goes unseen.
//! `UPDATE_GOLDEN=1` writes it anew.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod devices;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

use gdrtune_profiles::{
    space::SpaceFile,
    version::Version,
    vocab::{Algorithm, Collective, Engine, Protocol},
};
use gdrtune_tuner::space::{Facts, NcclFacts, Space, Transport};

fn facts(engine: Engine, nodes: u32, ranks: u32, interfaces: &[&str], nccl: NcclFacts) -> Facts {
    Facts {
        engine,
        nodes,
        ranks,
        bindings: devices::interfaces(interfaces),
        collectives: vec![Collective::AllReduce, Collective::AllGather, Collective::AllToAll],
        max_channels: if engine == Engine::Native { 8 } else { 32 },
        selection: SpaceFile::preset(SpaceFile::STANDARD).unwrap().selection,
        adds: Vec::new(),
        pins: BTreeMap::new(),
        excludes: BTreeSet::new(),
        forced: BTreeSet::new(),
        nccl,
    }
}

fn nccl(version: Option<(u16, u16)>, channels: Option<u16>, transport: Transport, nvls: bool) -> NcclFacts {
    let mut pairs = BTreeSet::from([(Algorithm::Tree, Protocol::Ll), (Algorithm::Ring, Protocol::Simple)]);
    pairs.extend(nvls.then_some((Algorithm::Nvls, Protocol::Simple)));
    NcclFacts {
        version: version.map(|(major, minor)| Version::new(major, minor)),
        allowed: [(Collective::AllReduce, pairs), (Collective::AllGather, [(Algorithm::Ring, Protocol::Ll)].into())]
            .into(),
        channels,
        transport,
    }
}

fn cases() -> Vec<(String, Facts)> {
    let mut cases = Vec::new();
    for interfaces in [&[][..], &["a"], &["a", "b"], &["a", "b", "c"], &["a", "b", "c", "d", "e", "f"]] {
        let facts = facts(Engine::Native, 4, 8, interfaces, NcclFacts::default());
        cases.push((format!("native, {} interfaces", interfaces.len()), facts.clone()));
        cases
            .push((format!("native, {} interfaces, 2 channels", interfaces.len()), Facts { max_channels: 2, ..facts }));
    }
    for version in [None, Some((2, 12)), Some((2, 16)), Some((2, 19)), Some((2, 28))] {
        for (channels, transport, nvls) in [
            (Some(2), Transport::Socket, false),
            (Some(24), Transport::Verbs, true),
            (None, Transport::Unknown, false),
            (Some(6), Transport::None, true),
        ] {
            for (nodes, ranks) in [(1, 8), (4, 4), (2, 16)] {
                let name =
                    format!("nccl {version:?}, {channels:?} channels, {transport:?}, nvls {nvls}, {nodes}x{ranks}");
                let told = nccl(version, channels, transport, nvls);
                cases.push((name, facts(Engine::Nccl, nodes, ranks, &["a", "b"], told)));
            }
        }
    }
    let mut wanted =
        facts(Engine::Nccl, 4, 8, &["a", "b", "c"], nccl(Some((2, 28)), Some(2), Transport::Socket, false));
    wanted.pins =
        [("NCCL_BUFFSIZE", "1048576"), ("NCCL_IB_TC", "106")].map(|(k, v)| (k.to_owned(), v.to_owned())).into();
    wanted.excludes = ["tree", "NCCL_NTHREADS", "NCCL_SOCKET_NTHREADS=4"].map(str::to_owned).into();
    wanted.forced = ["NCCL_MIN_CTAS".to_owned()].into();
    cases.push(("nccl with pins, excludes and a forced variable".to_owned(), wanted));
    cases
}

fn shown(space: &Space) -> String {
    let mut text = String::new();
    for dimension in &space.dimensions {
        let values: Vec<&str> = dimension.values.iter().map(|value| value.as_deref().unwrap_or("-")).collect();
        writeln!(text, "  {}: {}", dimension.name, values.join(" ")).unwrap();
    }
    for (collective, choices) in &space.choices {
        let choices: Vec<String> = choices.iter().map(ToString::to_string).collect();
        writeln!(text, "  {collective}: {}", choices.join(" ")).unwrap();
    }
    text
}

#[test]
fn the_standard_space_is_as_written_down() {
    let mut text = String::new();
    for (name, facts) in cases() {
        let space = Space::build(&facts).unwrap().space;
        writeln!(text, "{name}\n{}", shown(&space)).unwrap();
    }
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write("tests/golden/standard-space.txt", &text).unwrap();
    }
    for (line, (got, want)) in text.lines().zip(include_str!("golden/standard-space.txt").lines()).enumerate() {
        assert_eq!(got, want, "line {}", line + 1);
    }
    assert_eq!(text.len(), include_str!("golden/standard-space.txt").len());
}
