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
    let counts = facts.selection.channels.as_deref().unwrap_or(&CHANNELS);
    let counts: Vec<u16> = counts.iter().copied().filter(|count| *count <= facts.max_channels.max(1)).collect();
    let of = |collective: &Collective| (*collective, choices_of(*collective, &counts));
    facts.collectives.iter().filter(|collective| collective.has_choice()).map(of).collect()
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

    #[test]
    fn what_is_bound_is_what_carries_data() {
        let built = |transport| {
            let facts = Facts {
                engine: Engine::Native,
                nodes: 2,
                ranks: 2,
                bindings: bindings(&["eth0", "eth1"], 2),
                collectives: vec![Collective::AllReduce],
                max_channels: 8,
                selection: SpaceFile::preset(SpaceFile::STANDARD).unwrap().selection,
                adds: Vec::new(),
                pins: BTreeMap::new(),
                excludes: std::collections::BTreeSet::new(),
                forced: std::collections::BTreeSet::new(),
                nccl: NcclFacts { transport, ..NcclFacts::default() },
            };
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
