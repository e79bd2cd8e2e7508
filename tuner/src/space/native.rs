//! The space of the native engine: what it accepts, as data.

use std::collections::BTreeMap;

use gdrtune_profiles::vocab::{Algorithm, Choice, Collective, Protocol};

use super::Facts;

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
