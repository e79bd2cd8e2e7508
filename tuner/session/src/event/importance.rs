//! What each knob did in a search.

use std::fmt;

use gdrtune_tuner::search::{Effect, KnobImportance};
use serde::{Deserialize, Serialize};

/// One knob.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Knob {
    /// Its name.
    pub name: String,
    /// The value expected best of those that were tried; absent is unset.
    pub best: Option<String>,
    /// The value expected worst.
    pub worst: Option<String>,
    /// Time with the worst over time with the best.
    pub factor: f64,
    /// Lower end of its interval (two standard deviations).
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// What follows.
    pub effect: KnobEffect,
}

/// Whether a knob mattered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KnobEffect {
    /// By more than a verdict asks of a setting.
    Mattered,
    /// By next to nothing.
    None,
    /// It cannot be told.
    Unknown,
}

impl From<&KnobImportance> for Knob {
    fn from(knob: &KnobImportance) -> Self {
        let effect = match knob.effect {
            Effect::Mattered => KnobEffect::Mattered,
            Effect::None => KnobEffect::None,
            Effect::Unknown => KnobEffect::Unknown,
        };
        let KnobImportance { name, best, worst, factor, low, high, .. } = knob.clone();
        Self { name, best, worst, factor, low, high, effect }
    }
}

/// `NCCL_BUFFSIZE mattered: 1.60x (1.45 to 1.77) faster with 1048576 than with 4194304`.
impl fmt::Display for Knob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, factor, low, high, .. } = self;
        let value = |value: &Option<String>| value.clone().unwrap_or_else(|| "it unset".to_owned());
        match self.effect {
            KnobEffect::Mattered => write!(
                f,
                "{name} mattered: {factor:.2}x ({low:.2} to {high:.2}) faster with {} than with {}",
                value(&self.best),
                value(&self.worst)
            ),
            KnobEffect::None => write!(f, "{name} did not matter: {factor:.2}x, at most {high:.2}x"),
            KnobEffect::Unknown => {
                write!(f, "{name}: not known whether it matters: {factor:.2}x ({low:.2} to {high:.2})")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knobs_are_told_in_words() {
        let knob = |effect, factor: f64, best: Option<&str>| Knob {
            name: "NCCL_BUFFSIZE".to_owned(),
            best: best.map(str::to_owned),
            worst: Some("4194304".to_owned()),
            factor,
            low: factor * 0.9,
            high: factor * 1.1,
            effect,
        };
        for (knob, words) in [
            (
                knob(KnobEffect::Mattered, 1.6, Some("1048576")),
                "mattered: 1.60x (1.44 to 1.76) faster with 1048576 than with 4194304",
            ),
            (
                knob(KnobEffect::Mattered, 1.6, None),
                "mattered: 1.60x (1.44 to 1.76) faster with it unset than with 4194304",
            ),
            (knob(KnobEffect::None, 1.01, None), "did not matter: 1.01x, at most 1.11x"),
        ] {
            assert_eq!(knob.to_string(), format!("NCCL_BUFFSIZE {words}"));
        }
        let unknown = knob(KnobEffect::Unknown, 1.05, None).to_string();
        assert_eq!(unknown, "NCCL_BUFFSIZE: not known whether it matters: 1.05x (0.95 to 1.16)");
    }
}
