//! The clusters that gdrtune brings along.

use gdrtune_profiles::source::{Preset, TextError};

use super::Cluster;

/// Presets of the files by these names.
macro_rules! presets {
    ($($name:literal,)*) => {
        &[$(Preset { name: $name, text: include_str!(concat!("../../clusters/", $name, ".toml")) },)*]
    };
}

impl Cluster {
    /// All of them, by name.
    pub const PRESETS: &[Preset] = presets![
        "bimodal-channels",
        "cross-rail-broken",
        "defaults-best",
        "gdr-broken",
        "hanging-choice",
        "ll-larger",
        "ll128-wrong",
        "null",
        "one-node-tree",
        "pat-small",
        "pxn-hurts",
        "rail-optimised",
        "slow-hca",
        "stalls",
        "tcp-buffers",
        "thousand-nodes",
        "trade-off",
    ];

    /// The text of the cluster of this name.
    ///
    /// # Errors
    /// [`TextError::UnknownPreset`] names the nearest.
    pub fn preset_text(name: &str) -> Result<&'static str, TextError> {
        let found = Self::PRESETS.iter().find(|preset| preset.name == name);
        found.map(|preset| preset.text).ok_or_else(|| TextError::unknown_preset("cluster", name, Self::PRESETS))
    }

    /// The cluster of this name.
    ///
    /// # Errors
    /// [`TextError::UnknownPreset`] names the nearest.
    pub fn preset(name: &str) -> Result<Self, TextError> {
        Self::parse(Self::preset_text(name)?, name)
    }
}
