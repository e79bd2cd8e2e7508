//! Which (collective, algorithm, protocol) an engine can run, as data.
//!
//! The table says what a version *knows*. Whether a given cluster can run it (`NVSwitch`, `CollNet`, one rank per
//! node) is stated as a condition, and decided by whoever knows the cluster.

use crate::{
    version::Version,
    vocab::{Algorithm, Collective, Engine, Protocol},
};

/// What a cluster must have for a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Condition {
    /// Nothing special.
    Always,
    /// Several nodes (the algorithm is off on one).
    SeveralNodes,
    /// `NVLink` SHARP: `NVSwitch` of the third generation, and no two ranks on one GPU.
    NvlinkSharp,
    /// `NVLink` SHARP on one node; on several only with `CollNet` and no more local ranks than NVLS heads.
    NvlinkSharpOneNode,
    /// A `CollNet` plugin, and at most 8 local ranks.
    CollNet,
    /// A `CollNet` plugin that offers iallgather or ireducescatter, and at most 8 local ranks.
    CollNetGather,
    /// One GPU per node, unless `NCCL_PAT_ENABLE=1`.
    OneRankPerNode,
}

/// One collective with one algorithm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cell {
    /// The collective.
    pub collective: Collective,
    /// The algorithm.
    pub algorithm: Algorithm,
    /// The protocols that it runs with.
    pub protocols: &'static [Protocol],
    /// The first NCCL version that offers it.
    pub since: Version,
    /// What the cluster must have.
    pub condition: Condition,
}

const ALL: &[Protocol] = Protocol::ALL;
const SIMPLE: &[Protocol] = &[Protocol::Simple];

const fn cell(
    collective: Collective,
    algorithm: Algorithm,
    protocols: &'static [Protocol],
    since: (u16, u16),
    condition: Condition,
) -> Cell {
    Cell { collective, algorithm, protocols, since: Version::new(since.0, since.1), condition }
}

/// NCCL's table. Source: NCCL `src/graph/tuning.cc` (`ncclTopoTuneModel`), read at v2.17 to v2.30.7.
pub const NCCL: &[Cell] = {
    use Algorithm::{CollNetChain, CollNetDirect, Nvls, NvlsTree, Pat, Ring, Tree};
    use Collective::{AllGather, AllReduce, Broadcast, Reduce, ReduceScatter};
    use Condition::{Always, CollNet, CollNetGather, NvlinkSharp, NvlinkSharpOneNode, OneRankPerNode, SeveralNodes};
    &[
        cell(AllReduce, Tree, ALL, (2, 5), Always),
        cell(AllReduce, Ring, ALL, (2, 5), Always),
        cell(AllReduce, CollNetDirect, SIMPLE, (2, 14), CollNet),
        cell(AllReduce, CollNetChain, SIMPLE, (2, 14), CollNet),
        cell(AllReduce, Nvls, SIMPLE, (2, 17), NvlinkSharp),
        cell(AllReduce, NvlsTree, SIMPLE, (2, 18), SeveralNodes),
        cell(AllGather, Ring, ALL, (2, 5), Always),
        cell(AllGather, CollNetDirect, SIMPLE, (2, 20), CollNetGather),
        // 2.17 had NVLS here too, 2.18 did not.
        cell(AllGather, Nvls, SIMPLE, (2, 19), NvlinkSharpOneNode),
        cell(AllGather, Pat, SIMPLE, (2, 23), OneRankPerNode),
        cell(ReduceScatter, Ring, ALL, (2, 5), Always),
        cell(ReduceScatter, CollNetDirect, SIMPLE, (2, 20), CollNetGather),
        cell(ReduceScatter, Nvls, SIMPLE, (2, 19), NvlinkSharpOneNode),
        cell(ReduceScatter, Pat, SIMPLE, (2, 23), OneRankPerNode),
        cell(Broadcast, Ring, ALL, (2, 5), Always),
        cell(Reduce, Ring, ALL, (2, 5), Always),
    ]
};

/// The native engine's table: its versions are gdrtune's own, so every cell is there since the beginning.
pub const NATIVE: &[Cell] = {
    use Algorithm::{Ring, Tree};
    use Collective::{AllGather, AllReduce, Broadcast, Reduce, ReduceScatter};
    use Condition::Always;
    &[
        cell(AllReduce, Tree, ALL, (0, 0), Always),
        cell(AllReduce, Ring, ALL, (0, 0), Always),
        cell(AllGather, Ring, ALL, (0, 0), Always),
        cell(ReduceScatter, Ring, ALL, (0, 0), Always),
        cell(Broadcast, Tree, ALL, (0, 0), Always),
        cell(Broadcast, Ring, ALL, (0, 0), Always),
        cell(Reduce, Tree, ALL, (0, 0), Always),
        cell(Reduce, Ring, ALL, (0, 0), Always),
    ]
};

/// The cells that `engine` offers; an unknown `version` of NCCL excludes nothing.
///
/// A recorded or simulated cluster stands for either engine, so it offers both tables' cells.
pub fn cells(engine: Engine, version: Option<Version>) -> impl Iterator<Item = &'static Cell> {
    let (nccl, native): (&'static [Cell], &'static [Cell]) = match engine {
        Engine::Nccl => (NCCL, &[]),
        Engine::Native => (&[], NATIVE),
        Engine::Replay | Engine::Sim => (NCCL, NATIVE),
    };
    let known = move |cell: &&Cell| version.is_none_or(|version| cell.since <= version);
    let is_repeated =
        move |cell: &Cell| nccl.iter().any(|n| n.collective == cell.collective && n.algorithm == cell.algorithm);
    nccl.iter().filter(known).chain(native.iter().filter(move |cell| !is_repeated(cell)))
}

/// Why a choice cannot run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidChoice {
    /// Algorithm and protocol are never chosen for it.
    #[error("{0} takes no algorithm or protocol: only process-level settings reach it")]
    NoChoice(Collective),
    /// The engine has no such algorithm for it.
    #[error("{engine} has no {algorithm} for {collective}: use one of {valid}")]
    Algorithm {
        /// The engine.
        engine: Engine,
        /// The collective.
        collective: Collective,
        /// The algorithm that was asked for.
        algorithm: Algorithm,
        /// The algorithms that it has, separated by commas.
        valid: String,
    },
    /// The algorithm does not run with that protocol.
    #[error("{algorithm} for {collective} does not run with {protocol}: use one of {valid}")]
    Protocol {
        /// The collective.
        collective: Collective,
        /// The algorithm.
        algorithm: Algorithm,
        /// The protocol that was asked for.
        protocol: Protocol,
        /// The protocols that it runs with, separated by commas.
        valid: String,
    },
}

/// Checks that `engine` (NCCL of `version`, if known) can run the combination on some cluster.
///
/// # Errors
/// [`InvalidChoice`] says what to use instead.
pub fn check(
    engine: Engine,
    version: Option<Version>,
    collective: Collective,
    algorithm: Algorithm,
    protocol: Protocol,
) -> Result<(), InvalidChoice> {
    if !collective.has_choice() {
        return Err(InvalidChoice::NoChoice(collective));
    }
    let of_collective: Vec<&Cell> = cells(engine, version).filter(|cell| cell.collective == collective).collect();
    let Some(cell) = of_collective.iter().find(|cell| cell.algorithm == algorithm) else {
        let valid = of_collective.iter().map(|cell| cell.algorithm.name()).collect::<Vec<_>>().join(", ");
        return Err(InvalidChoice::Algorithm { engine, collective, algorithm, valid });
    };
    if !cell.protocols.contains(&protocol) {
        let valid = cell.protocols.iter().map(|p| p.name()).collect::<Vec<_>>().join(", ");
        return Err(InvalidChoice::Protocol { collective, algorithm, protocol, valid });
    }
    Ok(())
}

/// The most channels of any version (NCCL `src/include/device.h`, `MAXCHANNELS`), and of the native engine.
pub const MAX_CHANNELS: u16 = 64;

/// The most channels of one NCCL version: 32 up to 2.24, 64 from 2.25.
pub fn max_channels(version: Option<Version>) -> u16 {
    if version.is_none_or(|version| version.at_least(2, 25)) { MAX_CHANNELS } else { 32 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One line per collective: its algorithms in table order, `*` where only Simple runs.
    fn shown(engine: Engine, version: Option<Version>) -> Vec<String> {
        let line = |collective: &Collective| {
            let cells = cells(engine, version).filter(|cell| cell.collective == *collective);
            let names =
                cells.map(|cell| format!("{}{}", cell.algorithm, if cell.protocols == SIMPLE { "*" } else { "" }));
            format!("{collective}: {}", names.collect::<Vec<_>>().join(" "))
        };
        Collective::ALL.iter().filter(|c| c.has_choice()).map(line).collect()
    }

    #[test]
    fn the_table_is_nccls() {
        assert_eq!(
            shown(Engine::Nccl, None),
            [
                "allreduce: tree ring collnet_direct* collnet_chain* nvls* nvls_tree*",
                "allgather: ring collnet_direct* nvls* pat*",
                "reducescatter: ring collnet_direct* nvls* pat*",
                "broadcast: ring",
                "reduce: ring",
            ]
        );
        let old = shown(Engine::Nccl, Some(Version::new(2, 21)));
        assert_eq!(old[1], "allgather: ring collnet_direct* nvls*");
    }

    #[test]
    fn native_has_trees_for_rooted_collectives() {
        let native = shown(Engine::Native, None);
        assert_eq!(
            native,
            [
                "allreduce: tree ring",
                "allgather: ring",
                "reducescatter: ring",
                "broadcast: tree ring",
                "reduce: tree ring"
            ]
        );
        assert_eq!(shown(Engine::Sim, None)[3], "broadcast: ring tree");
    }

    #[test]
    fn every_combination_is_in_the_table_or_refused() {
        let mut valid = 0;
        for collective in Collective::ALL {
            for algorithm in Algorithm::ALL {
                for protocol in Protocol::ALL {
                    let in_table = NCCL.iter().any(|cell| {
                        (cell.collective, cell.algorithm) == (*collective, *algorithm)
                            && cell.protocols.contains(protocol)
                    });
                    let checked = check(Engine::Nccl, None, *collective, *algorithm, *protocol);
                    assert_eq!(checked.is_ok(), in_table, "{collective} {algorithm} {protocol}: {checked:?}");
                    valid += usize::from(in_table);
                }
            }
        }
        // 6 cells with three protocols and 10 with Simple alone.
        assert_eq!(valid, 6 * 3 + 10);
    }

    #[test]
    fn refusals_say_what_to_use() {
        let refused = |c, a, p| check(Engine::Nccl, Some(Version::new(2, 28)), c, a, p).unwrap_err().to_string();
        for (error, text) in [
            (refused(Collective::AllToAll, Algorithm::Ring, Protocol::Simple), "alltoall takes no algorithm"),
            (
                refused(Collective::Broadcast, Algorithm::Tree, Protocol::Ll),
                "nccl has no tree for broadcast: use one of ring",
            ),
            (
                refused(Collective::AllReduce, Algorithm::Nvls, Protocol::Ll),
                "nvls for allreduce does not run with ll: use one of simple",
            ),
        ] {
            assert!(error.starts_with(text), "{error}");
        }
    }

    #[test]
    fn channels_grew_in_2_25() {
        assert_eq!(max_channels(Some(Version::from_code(22406))), 32);
        assert_eq!(max_channels(Some(Version::from_code(22501))), 64);
        assert_eq!(max_channels(None), 64);
    }
}
