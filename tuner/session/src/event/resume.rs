//! What a run store holds so that a killed run can go on: how it was asked for, and what its scripts were.

use gdrtune_profiles::vocab::{DataType, Environment};
use serde::{Deserialize, Serialize};

use crate::output::OutputClaim;

/// How a run was asked for. Holds no key and no password but what the user wrote into an argument.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Invocation {
    /// Words of the command line, the program's name left out; none where they are no UTF-8 text.
    pub args: Vec<String>,
    /// Working directory, for relative paths in them.
    pub dir: String,
    /// Files that the arguments name.
    pub inputs: Vec<InputFile>,
    /// Who runs it.
    pub by: Owner,
    /// The output folder as it was claimed.
    pub out: OutputClaim,
    /// What sizes count; absent where nothing says, and in older stores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_type: Option<DataType>,
}

/// A file that a run was made from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputFile {
    /// As the argument has it.
    pub path: String,
    /// Of its bytes, in hexadecimal.
    pub sha256: String,
}

/// A process that writes a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// Its number.
    pub pid: u32,
    /// Its machine.
    pub host: String,
}

/// What the setup of a script is, without the text of files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ScriptSetup {
    /// The default arm.
    Site,
    /// Variables over the site's.
    Live {
        /// Which.
        environment: Environment,
    },
    /// Emitted files.
    Deployed {
        /// Over their names and texts, in hexadecimal.
        sha256: String,
    },
}

/// Times of a choice that ran in another's place, as in [`TrialResult::Timed`].
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RanInstead {
    /// Wall time over iterations.
    pub time_us: f64,
    /// The same of the slowest rank.
    pub slowest_us: f64,
    /// Median lap of the batch, per call.
    pub median_us: f64,
    /// Slowest lap of the batch, per call.
    pub max_us: f64,
    /// CPU time.
    pub cpu_us: f64,
    /// Timed calls.
    pub iterations: u32,
}
