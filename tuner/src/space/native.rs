//! The space of the native engine: what it accepts, as data.

use std::collections::BTreeMap;

use gdrtune_profiles::vocab::{Algorithm, Choice, Collective, Protocol};

use super::{Dimension, Facts, bindings, dimension};

/// Channel counts that are tried.
const CHANNELS: [u16; 4] = [1, 2, 4, 8];

pub(super) fn choices(facts: &Facts) -> BTreeMap<Collective, Vec<Choice>> {
    let of = |collective: &Collective| (*collective, choices_of(*collective, facts.max_channels));
    facts.collectives.iter().filter(|collective| collective.has_choice()).map(of).collect()
}

fn choices_of(collective: Collective, max_channels: u16) -> Vec<Choice> {
    let mut choices = Vec::new();
    for algorithm in algorithms(collective) {
        for protocol in [Protocol::Ll, Protocol::Ll128, Protocol::Simple] {
            for channels in CHANNELS.into_iter().filter(|channels| *channels <= max_channels.max(1)) {
                choices.push(Choice { algorithm: *algorithm, protocol, channels });
            }
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

pub(super) fn dimensions(facts: &Facts) -> Vec<Dimension> {
    let mut dimensions = Vec::new();
    if 1 < facts.interfaces.len() {
        dimensions.push(dimension("NCCL_SOCKET_IFNAME", bindings(&facts.interfaces)));
    }
    let sizes = [64 << 10, 256 << 10, 1 << 20].map(|bytes: u32| bytes.to_string());
    dimensions.push(dimension("GDRTUNE_NATIVE_CHUNKSIZE", sizes));
    dimensions.push(dimension("GDRTUNE_NATIVE_NSOCKS", ["2", "4"].map(str::to_owned)));
    dimensions
}
