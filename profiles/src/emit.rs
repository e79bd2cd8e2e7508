//! Makes the files that job scripts take from a profile.
//!
//! An emitted text is deterministic, says where it came from, and was read back by our implementation of the receiving
//! grammar before it is handed out. Nothing is written to disk here.

mod choice_lists;
mod format;
mod json;
mod kubernetes;
mod ncclx;
mod open_mpi;
mod plan;
mod settings;
mod stock;
mod tuner_csv;
mod ucc;

use crate::{diagnostic::Severity, profile::Profile, vocab::Engine};
pub use format::{Format, UnknownFormat};
pub use json::Document;
use plan::Plan;
pub(crate) use plan::unverified;

/// How to emit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EmitOptions {
    /// Keep values that the environment already has. Only the shell formats can; the others ignore it.
    pub keep_set: bool,
    /// The engine that the files are meant for: makes rules and knobs of that engine live that would be comments.
    pub for_engine: Option<Engine>,
    /// Absolute path of the emitted tuner CSV on the nodes; sets `NCCL_TUNER_CONFIG_FILE` where there are rules.
    pub tuner_path: Option<String>,
    /// Absolute path of the folder with our tuner plugin and the tuner CSV on the nodes, under the names of
    /// [`crate::install`]; sets `NCCL_TUNER_PLUGIN` and `GDRTUNE_RULES` where there are live rules.
    pub install_folder: Option<String>,
    /// Also set `NCCL_ALGO` and `NCCL_PROTO` for collectives that have one choice at every size, for jobs without a tuner plugin.
    pub choice_lists: bool,
    /// Program and arguments that an application file starts; [`OWN_ENVIRONMENT`] where absent.
    pub program: Option<String>,
    /// Name of the container that a Kubernetes patch is for; [`CONTAINER`] where absent.
    pub container: Option<String>,
}

/// What an application file starts where no program is given: it shows what the ranks find set.
pub const OWN_ENVIRONMENT: &str = "env";
/// The container that a Kubernetes patch is for where none is named.
pub const CONTAINER: &str = "main";

impl EmitOptions {
    /// Values are set unconditionally, for NCCL, without a path to the tuner CSV or to an installation.
    pub const fn plain() -> Self {
        Self {
            keep_set: false,
            for_engine: None,
            tuner_path: None,
            install_folder: None,
            choice_lists: false,
            program: None,
            container: None,
        }
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
        Format::Sh | Format::Env | Format::NcclConf | Format::Slurm | Format::Torchrun | Format::Dockerfile => {
            settings::emit(&plan)
        }
        Format::TunerCsv | Format::RcclCsv => tuner_csv::emit(&plan),
        Format::StockCsv => stock::emit(&plan),
        Format::NcclxCsv => ncclx::emit_csv(&plan),
        Format::NcclxJson => ncclx::emit_json(&plan),
        Format::Ucc => ucc::emit(&plan),
        Format::OpenMpi => open_mpi::emit_tune(&plan),
        Format::Appfile => open_mpi::emit_app(&plan, options.program.as_deref().unwrap_or(OWN_ENVIRONMENT)),
        Format::ConfigMap => kubernetes::emit_config_map(&plan),
        Format::PodPatch => kubernetes::emit_patch(&plan, options.container.as_deref().unwrap_or(CONTAINER)),
        Format::Json => json::emit(&plan),
    }
}

/// Emits `profile` in every format: file name and text of each.
///
/// A format whose grammar is narrow (`mpirun` reads no quotes) gets a text of comments that say what does not fit, so that no
/// file of an earlier profile is taken for this one's.
///
/// # Errors
/// The first format's [`EmitError`]; what does not fit only where the format is one of [`Format::COMMON`].
pub fn emit_all(profile: &Profile, options: &EmitOptions) -> Result<Vec<(&'static str, String)>, EmitError> {
    let text = |format: Format| match emit(profile, format, options) {
        Err(error @ EmitError::DoesNotFit { .. }) if !Format::COMMON.contains(&format) => {
            Ok(Plan::new(profile, format, options)?.not_emitted(&error))
        }
        emitted => emitted,
    };
    Format::ALL.iter().map(|format| Ok((format.file_name(), text(*format)?))).collect()
}

/// What every text that is made from `profile` says about how it was measured; nothing for NCCL on the real nodes.
pub fn labels(profile: &Profile) -> Vec<&'static str> {
    plan::labels(profile)
}

#[cfg(test)]
#[path = "emit/format_tests.rs"]
mod format_tests;
#[cfg(test)]
#[path = "emit/tests.rs"]
mod tests;
