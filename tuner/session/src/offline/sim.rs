//! A simulated cluster to be tuned.

use std::sync::Arc;

use gdrtune_profiles::{
    nearest,
    setting::SpaceSettings,
    source::TextError,
    vocab::{Engine, Point},
};
use gdrtune_tuner::{
    bench::BenchInfo,
    sim::{Cluster, KNOBS, SimConfig, Simulated},
};
use sha2::{Digest as _, Sha256};

use super::{LUCK, Offline, read_deployment};
use crate::run::facts::sha256_text;

/// A simulated cluster to be tuned.
#[derive(Debug, Clone)]
pub struct SimRequest {
    /// As the user named it: a file, or a cluster of the library.
    pub(super) file: String,
    cluster: Arc<Cluster>,
    pub(super) fingerprint: String,
}

/// A variable that the model of a simulated cluster does not have: setting it would change nothing, silently.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name} changes nothing on a simulated cluster: use one of {}{}", KNOBS.join(", "), nearest::hint(name, KNOBS.iter().copied()))]
pub struct UnknownKnob {
    /// The variable.
    pub name: String,
}

impl SimRequest {
    /// The cluster of this name in the library.
    ///
    /// # Errors
    /// [`TextError::UnknownPreset`] names the nearest.
    pub fn preset(name: &str) -> Result<Self, TextError> {
        Self::parse(Cluster::preset_text(name)?, name)
    }

    /// Reads the text of `file`.
    ///
    /// # Errors
    /// [`TextError`] says file, line, column, cause and the nearest valid name.
    pub fn parse(text: &str, file: &str) -> Result<Self, TextError> {
        let cluster = Arc::new(Cluster::parse(text, file)?);
        let mut hash = Sha256::new();
        hash.update("sim\n");
        hash.update(text);
        Ok(Self { file: file.to_owned(), cluster, fingerprint: sha256_text(hash) })
    }

    /// The points that the file names, if it names any. Others can be simulated as well.
    pub fn points(&self) -> Vec<Point> {
        self.cluster.truth.points()
    }

    /// Checks that the model has all variables that are to be set.
    ///
    /// # Errors
    /// [`UnknownKnob`] names those that it has.
    pub fn check(&self, settings: &SpaceSettings) -> Result<(), UnknownKnob> {
        let pinned = settings.pins.iter().map(|(name, _)| name);
        let mut named = pinned.chain(settings.adds.iter().map(|add| add.name.as_str()));
        let unknown = named.find(|name| !KNOBS.contains(name));
        unknown.map_or(Ok(()), |name| Err(UnknownKnob { name: name.to_owned() }))
    }

    pub(super) fn info(&self) -> BenchInfo {
        BenchInfo { engine: Engine::Sim, nodes: self.cluster.nodes.0, ranks: self.cluster.ranks() }
    }

    pub(super) fn open(&self, seed: u64) -> Offline {
        let config = SimConfig { seed: seed ^ LUCK, read_deployment: Some(read_deployment) };
        let bench = Simulated::new((*self.cluster).clone(), config);
        let space = bench.space();
        let about = format!("{} is simulated: {}", self.file, self.cluster.name);
        Offline { bench: Box::new(bench), space, notes: vec![about], warnings: Vec::new() }
    }
}
