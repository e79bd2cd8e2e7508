//! Everything, for machines: the profile, its labels, and what of it is live.

use serde::{Deserialize, Serialize};

use super::{EmitError, plan::Plan};
use crate::{json::escape, profile::Profile, vocab::Engine};

/// The schema of the emitted JSON; raised when a field changes its meaning.
const SCHEMA_VERSION: u32 = 1;

/// The emitted JSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Document {
    /// Version of these fields.
    pub schema_version: u32,
    /// What the other formats say in their head comment.
    pub notes: Vec<String>,
    /// Whether the rules hold for the engine that the document is meant for.
    pub rules_are_live: bool,
    /// Names of the settings that do not hold for it.
    pub settings_not_live: Vec<String>,
    /// The profile, with the fields of the profile file. That of a simulation is without settings and rules unless it is meant
    /// for one: nothing here could be commented out.
    pub profile: Profile,
}

/// What is said of the profile.
fn told(plan: &Plan<'_>) -> Profile {
    let profile = plan.profile.clone();
    match profile.run.engine {
        Engine::Sim if !plan.rules_are_live => Profile { env: Vec::new(), rule: Vec::new(), ..profile },
        _ => profile,
    }
}

pub(super) fn emit(plan: &Plan<'_>) -> Result<String, EmitError> {
    let not_live = plan.settings.iter().filter(|setting| !setting.is_live);
    let document = Document {
        schema_version: SCHEMA_VERSION,
        notes: plan.head.clone(),
        rules_are_live: plan.rules_are_live,
        settings_not_live: not_live.map(|setting| setting.name.clone()).collect(),
        profile: told(plan),
    };
    let unreadable = |error: serde_json::Error| plan.read_back_error(error.to_string());
    let mut text = escape(serde_json::to_string_pretty(&document).map_err(unreadable)?);
    text.push('\n');
    let read: Document = serde_json::from_str(&text).map_err(unreadable)?;
    if read == document { Ok(text) } else { Err(plan.read_back_error("another profile came back")) }
}
