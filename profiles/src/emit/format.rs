//! What can be emitted, with names, files and who reads them.

use std::{fmt, str::FromStr};

use crate::nearest::hint;

/// Declares the formats in the order in which they are listed: name on the command line, file in an output folder, and what it is.
macro_rules! formats {
    ($($variant:ident = $name:literal, $file:literal, $about:literal;)*) => {
        /// What can be emitted.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[expect(clippy::doc_markdown, reason = "the lines are shown to users as well")]
        pub enum Format { $(#[doc = $about] $variant,)* }

        impl Format {
            /// Every format.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The name on the command line.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// The name of its file in an output folder.
            pub const fn file_name(self) -> &'static str {
                match self { $(Self::$variant => $file,)* }
            }

            /// What it is and who reads it, in one line.
            pub const fn about(self) -> &'static str {
                match self { $(Self::$variant => $about,)* }
            }
        }
    };
}

formats! {
    Sh = "sh", "profile.sh", "a shell snippet to source in a job script";
    Env = "env", "profile.env", "a file for docker --env-file and systemd's EnvironmentFile=";
    NcclConf = "nccl-conf", "nccl.conf", "a file for NCCL_CONF_FILE, ~/.nccl.conf or /etc/nccl.conf";
    TunerCsv = "tuner-csv", "nccl-tuner.csv", "the rules by size, for gdrtune's tuner plugin";
    StockCsv = "stock-csv", "nccl-tuner-stock.csv", "the rules for NVIDIA's example tuner plugin: explicit channels, every size covered";
    NcclxCsv = "ncclx-csv", "ncclx-tuner.csv", "the rules for the tuner that is built into Meta's NCCLX";
    NcclxJson = "ncclx-json", "ncclx-tuner.json", "the same as JSON, for builds of NCCLX that read it";
    RcclCsv = "rccl-csv", "rccl-tuner.csv", "the rules for the tuner that is built into AMD's RCCL";
    Ucc = "ucc", "ucc.conf", "a ucc.conf whose tune string hands the calls that the rules are for to NCCL";
    OpenMpi = "openmpi", "mpirun-tune.conf", "the variables as -x options, for mpirun --tune";
    Appfile = "appfile", "mpirun.app", "an application file with ranks, variables and program, for mpirun --app";
    Slurm = "slurm", "slurm.sh", "a snippet for batch scripts whose steps srun starts";
    ConfigMap = "k8s-configmap", "k8s-configmap.yaml", "Kubernetes ConfigMaps of the variables and the rules";
    PodPatch = "k8s-patch", "k8s-patch.yaml", "a patch that makes the containers of a workload use those";
    Torchrun = "torchrun", "torchrun.sh", "a wrapper that sets the variables and starts PyTorch's torchrun";
    Dockerfile = "dockerfile", "Dockerfile.env", "ENV lines for a Dockerfile";
    Json = "json", "profile.json", "everything, for machines";
}

impl Format {
    /// What most jobs take, and what the terminal UI shows. A value that does not fit one of them is an error also where all
    /// formats are emitted.
    pub const COMMON: &[Self] = &[Self::Sh, Self::Env, Self::NcclConf, Self::TunerCsv, Self::Json];

    /// Whether it holds rules by size, and no variables.
    pub(super) const fn is_rules(self) -> bool {
        matches!(self, Self::TunerCsv | Self::StockCsv | Self::NcclxCsv | Self::NcclxJson | Self::RcclCsv)
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
            // `k8s` is the beginning of two, and near neither.
            let begun = format!("{text}-");
            let meant: Vec<String> =
                names.iter().filter(|name| name.starts_with(&begun)).map(|name| format!("`{name}`")).collect();
            let hint = match meant.as_slice() {
                [] => hint(text, names.iter().copied()),
                several => format!("; did you mean {}?", several.join(" or ")),
            };
            let accepted = format!("{}{hint}", names.join(", "));
            UnknownFormat { name: text.to_owned(), accepted }
        })
    }
}
