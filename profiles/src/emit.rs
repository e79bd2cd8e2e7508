//! Makes the files that job scripts take from a profile.
//!
//! An emitted text is deterministic, says where it came from, and was read back by our implementation of the receiving
//! grammar before it is handed out. Nothing is written to disk here.

mod json;
mod plan;
mod settings;
mod tuner_csv;

use std::{fmt, str::FromStr};

use crate::{diagnostic::Severity, nearest::hint, profile::Profile, vocab::Engine};
pub use json::Document;
use plan::Plan;
pub(crate) use plan::UNVERIFIED;

/// What can be emitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Format {
    /// A shell snippet to source.
    Sh,
    /// A file for `docker --env-file` and systemd's `EnvironmentFile=`.
    Env,
    /// A file for `NCCL_CONF_FILE`, `~/.nccl.conf` or `/etc/nccl.conf`.
    NcclConf,
    /// Rules by size for a tuner plugin, in the columns of NVIDIA's example.
    TunerCsv,
    /// Everything, for machines.
    Json,
}

impl Format {
    /// Every format.
    pub const ALL: &[Self] = &[Self::Sh, Self::Env, Self::NcclConf, Self::TunerCsv, Self::Json];

    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sh => "sh",
            Self::Env => "env",
            Self::NcclConf => "nccl-conf",
            Self::TunerCsv => "tuner-csv",
            Self::Json => "json",
        }
    }

    /// The name of its file in an output folder.
    pub const fn file_name(self) -> &'static str {
        match self {
            Self::Sh => "profile.sh",
            Self::Env => "profile.env",
            Self::NcclConf => "nccl.conf",
            Self::TunerCsv => "nccl-tuner.csv",
            Self::Json => "profile.json",
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A name that is no format.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown format `{name}`: use one of {accepted}")]
pub struct UnknownFormat {
    /// The name that was found.
    pub name: String,
    /// The accepted names, and the nearest of them if one is near.
    pub accepted: String,
}

impl FromStr for Format {
    type Err = UnknownFormat;

    fn from_str(text: &str) -> Result<Self, UnknownFormat> {
        Self::ALL.iter().copied().find(|format| format.name() == text).ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.iter().map(|format| format.name()).collect();
            let accepted = format!("{}{}", names.join(", "), hint(text, names.iter().copied()));
            UnknownFormat { name: text.to_owned(), accepted }
        })
    }
}

/// How to emit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EmitOptions {
    /// Keep values that the environment already has. Only [`Format::Sh`] can; the others ignore it.
    pub keep_set: bool,
    /// The engine that the files are meant for: makes rules and knobs of that engine live that would be comments.
    pub for_engine: Option<Engine>,
    /// Absolute path of the emitted tuner CSV on the nodes; sets `NCCL_TUNER_CONFIG_FILE` where there are rules.
    pub tuner_path: Option<String>,
    /// Absolute path of the folder with our tuner plugin and the tuner CSV on the nodes, under the names of
    /// [`crate::install`]; sets `NCCL_TUNER_PLUGIN` and `GDRTUNE_RULES` where there are live rules.
    pub install_folder: Option<String>,
}

impl EmitOptions {
    /// Values are set unconditionally, for NCCL, without a path to the tuner CSV or to an installation.
    pub const fn plain() -> Self {
        Self { keep_set: false, for_engine: None, tuner_path: None, install_folder: None }
    }
}

/// Why a profile was not emitted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EmitError {
    /// The profile says what cannot be.
    #[error("emit {format}: the profile cannot be used: {cause}")]
    Invalid {
        /// The format.
        format: Format,
        /// The first problem.
        cause: String,
    },
    /// The format cannot hold a value.
    #[error("emit {format}: {name} does not fit: {cause}; use another format or value")]
    DoesNotFit {
        /// The format.
        format: Format,
        /// The variable.
        name: String,
        /// Why.
        cause: String,
    },
    /// The path of the CSV is no path for every rank, or is set in the profile as well.
    #[error("emit {format}: the path `{path}` of the tuner CSV cannot be used: {cause}")]
    TunerPath {
        /// The format.
        format: Format,
        /// The path.
        path: String,
        /// Why.
        cause: &'static str,
    },
    /// The folder of the installation is no path for every rank, or the profile names a plugin of its own.
    #[error("emit {format}: the folder `{path}` cannot be installed to: {cause}")]
    InstallFolder {
        /// The format.
        format: Format,
        /// The path.
        path: String,
        /// Why.
        cause: String,
    },
    /// What was emitted does not read back: a defect of gdrtune.
    #[error("emit {format}: the text does not read back as it was meant ({cause}): please report this")]
    ReadBack {
        /// The format.
        format: Format,
        /// The first difference.
        cause: String,
    },
}

/// Emits `profile` in one format.
///
/// # Errors
/// [`EmitError`]; nothing is emitted in part.
pub fn emit(profile: &Profile, format: Format, options: &EmitOptions) -> Result<String, EmitError> {
    if let Some(problem) = profile.problems().into_iter().find(|problem| problem.severity == Severity::Error) {
        return Err(EmitError::Invalid { format, cause: problem.message });
    }
    let plan = Plan::new(profile, format, options)?;
    match format {
        Format::Sh | Format::Env | Format::NcclConf => settings::emit(&plan),
        Format::TunerCsv => tuner_csv::emit(&plan),
        Format::Json => json::emit(&plan),
    }
}

/// Emits `profile` in every format: file name and text of each.
///
/// # Errors
/// The first format's [`EmitError`].
pub fn emit_all(profile: &Profile, options: &EmitOptions) -> Result<Vec<(&'static str, String)>, EmitError> {
    Format::ALL.iter().map(|format| Ok((format.file_name(), emit(profile, *format, options)?))).collect()
}

/// What every text that is made from `profile` says about how it was measured; nothing for NCCL on the real nodes.
pub fn labels(profile: &Profile) -> Vec<&'static str> {
    plan::labels(profile)
}

#[cfg(test)]
#[path = "emit/tests.rs"]
mod tests;
