//! The space of the native engine: what it accepts, as data.

use std::collections::BTreeMap;

use gdrtune_profiles::{
    bindings::INTERFACES,
    vocab::{Algorithm, Choice, Collective, Protocol},
};

use super::{Facts, Transport};

/// Channel counts that are tried where the space names none.
const CHANNELS: [u16; 4] = [1, 2, 4, 8];

pub(super) fn choices(facts: &Facts) -> BTreeMap<Collective, Vec<Choice>> {
    let counts = counts(facts);
    let of = |collective: &Collective| (*collective, choices_of(*collective, &counts));
    facts.collectives.iter().filter(|collective| collective.has_choice()).map(of).collect()
}

/// Channel counts to try. The engine takes a channel for each interface at least, so that fewer than those would all run as something
/// else: where no count is that high, theirs is tried too. Lower ones remain, for environments that bind fewer interfaces.
fn counts(facts: &Facts) -> Vec<u16> {
    let wanted = facts.selection.channels.as_deref().unwrap_or(&CHANNELS);
    let mut counts: Vec<u16> = wanted.iter().copied().filter(|count| *count <= facts.max_channels.max(1)).collect();
    let fewest = facts.bindings.interfaces;
    if !counts.is_empty() && counts.iter().all(|count| *count < fewest) && facts.nccl.transport != Transport::Verbs {
        counts.push(fewest);
    }
    counts
}

fn choices_of(collective: Collective, counts: &[u16]) -> Vec<Choice> {
    let mut choices = Vec::new();
    for algorithm in algorithms(collective) {
        for protocol in [Protocol::Ll, Protocol::Ll128, Protocol::Simple] {
            choices.extend(counts.iter().map(|&channels| Choice { algorithm: *algorithm, protocol, channels }));
        }
    }
    choices
}

fn algorithms(collective: Collective) -> &'static [Algorithm] {
    match collective {
        Collective::AllReduce | Collective::Broadcast | Collective::Reduce => &[Algorithm::Ring, Algorithm::Tree],
        Collective::AllGather | Collective::ReduceScatter => &[Algorithm::Ring],
        Collective::AllToAll | Collective::SendRecv => &[],
    }
}

/// Whether the engine reads one of its knobs at all, as its ranks are connected.
pub(super) fn reads(facts: &Facts, name: &str) -> bool {
    !name.starts_with("NCCL_IB_") || facts.nccl.transport == Transport::Verbs
}

/// Why a selected knob would do nothing here.
pub(super) fn unmet(facts: &Facts, name: &str) -> Option<String> {
    let is_idle = name == INTERFACES && facts.nccl.transport == Transport::Verbs;
    is_idle.then(|| "ranks talk over RDMA verbs".to_owned())
}

#[cfg(test)]
mod tests {
    use gdrtune_profiles::{bindings::HCAS, space::SpaceFile, vocab::Engine};

    use super::*;
    use crate::space::{NcclFacts, Space, tests::bindings};

    fn facts(interfaces: &[&str], preset: &str, transport: Transport) -> Facts {
        Facts {
            engine: Engine::Native,
            nodes: 2,
            ranks: 2,
            bindings: bindings(interfaces, 2),
            collectives: vec![Collective::AllReduce],
            max_channels: 8,
            selection: SpaceFile::preset(preset).unwrap().selection,
            adds: Vec::new(),
            pins: BTreeMap::new(),
            excludes: std::collections::BTreeSet::new(),
            forced: std::collections::BTreeSet::new(),
            nccl: NcclFacts { transport, ..NcclFacts::default() },
        }
    }

    #[test]
    fn some_choice_has_a_channel_for_each_interface() {
        let names: Vec<String> = (0..12).map(|at| format!("eth{at}")).collect();
        let channels = |interfaces: usize, preset, transport| {
            let names: Vec<&str> = names.iter().take(interfaces).map(String::as_str).collect();
            let space = Space::build(&facts(&names, preset, transport)).unwrap().space;
            let counts = space.choices[&Collective::AllReduce].iter().map(|choice| choice.channels);
            counts.collect::<std::collections::BTreeSet<_>>().into_iter().collect::<Vec<_>>()
        };
        let tcp = Transport::Unknown;
        assert_eq!(channels(2, SpaceFile::DEMO, tcp), [1, 2]);
        assert_eq!(channels(3, SpaceFile::DEMO, tcp), [1, 2, 3]);
        assert_eq!(channels(12, SpaceFile::STANDARD, tcp), [1, 2, 4, 8, 12]);
        assert_eq!(channels(12, SpaceFile::STANDARD, Transport::Verbs), [1, 2, 4, 8], "they carry nothing there");
    }

    #[test]
    fn what_is_bound_is_what_carries_data() {
        let built = |transport| {
            let facts = facts(&["eth0", "eth1"], SpaceFile::STANDARD, transport);
            let built = Space::build(&facts).unwrap();
            let values = |name: &str| {
                let found = built.space.dimensions.iter().find(|dimension| dimension.name == name);
                found.map(|found| found.values.iter().flatten().cloned().collect::<Vec<_>>().join(" "))
            };
            let left_out: Vec<_> = built.left_out.iter().map(|left| (left.what.clone(), left.why.clone())).collect();
            (values(HCAS), values(INTERFACES), left_out)
        };
        let (hcas, interfaces, left_out) = built(Transport::Verbs);
        assert_eq!((hcas.as_deref(), interfaces), (Some("=mlx5_0:1 =mlx5_1:1"), None));
        assert_eq!(left_out, [(INTERFACES.to_owned(), "ranks talk over RDMA verbs".to_owned())]);
        for transport in [Transport::Unknown, Transport::None] {
            let (hcas, interfaces, left_out) = built(transport);
            assert_eq!((hcas, interfaces.as_deref()), (None, Some("=eth0 =eth1")));
            assert_eq!(left_out, [], "what is not read there is not worth a word");
        }
    }
}
