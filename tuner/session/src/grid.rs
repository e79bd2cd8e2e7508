//! What an exhaustive grid on a cluster consists of: every choice that the engine allows there.

use std::collections::{BTreeMap, BTreeSet};

use gdrtune_profiles::{
    bindings::Bindings,
    space::Selection,
    vocab::{Choice, Collective, Engine, Environment, Point},
};
use gdrtune_tuner::{
    bench::{Bench as _, BenchError, Cancel},
    space::{Facts, NcclFacts, Space, SpaceError},
};

use crate::{
    cluster::ClusterBench,
    run::facts::{self, NATIVE_CHANNELS, NCCL_CHANNELS},
};

/// A grid that cannot be laid out.
#[derive(Debug, thiserror::Error)]
pub enum GridError {
    /// The workers do not start, or cannot go on.
    #[error(transparent)]
    Bench(#[from] BenchError),
    /// The engine has no space.
    #[error(transparent)]
    Space(#[from] SpaceError),
    /// The library tells of no choice.
    #[error("find a choice: {0} tells none for these collectives; NCCL from 2.19 on does, through the tuner plugin")]
    NoChoice(String),
}

/// Every choice of each collective: what the engine allows at the smallest or the largest size, with channel counts up to the
/// communicator's own. Workers with `environment` over the site's are left running.
///
/// # Errors
/// [`GridError`]
pub fn choices(
    bench: &mut ClusterBench<'_>,
    environment: Environment,
    points: &[Point],
    cancel: &Cancel,
) -> Result<BTreeMap<Collective, Vec<Choice>>, GridError> {
    let info = bench.info();
    let (nccl, max_channels, name) = if info.engine == Engine::Nccl {
        let probe = bench.probe(environment, points, cancel)?;
        // More than the communicator has would run as something else.
        let own = probe.report.channels.unwrap_or(NCCL_CHANNELS).min(NCCL_CHANNELS);
        let version = probe.report.version.clone().unwrap_or_default();
        (facts::nccl(&probe, info.nodes), own, format!("NCCL {version}"))
    } else {
        (NcclFacts::default(), NATIVE_CHANNELS, info.engine.to_string())
    };
    let facts = Facts {
        engine: info.engine,
        nodes: info.nodes,
        ranks: info.ranks,
        bindings: Bindings::default(),
        collectives: points.iter().map(|p| p.collective).collect::<BTreeSet<_>>().into_iter().collect(),
        max_channels,
        // Every choice, and no setting.
        selection: Selection::default(),
        adds: Vec::new(),
        pins: BTreeMap::new(),
        excludes: BTreeSet::new(),
        forced: BTreeSet::new(),
        nccl,
    };
    let choices = Space::build(&facts)?.space.choices;
    if choices.values().all(Vec::is_empty) { Err(GridError::NoChoice(name)) } else { Ok(choices) }
}
