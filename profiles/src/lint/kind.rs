//! What kind of file a text is, by name and content.

use std::{fmt, str::FromStr};

use super::{env, tuner_csv};
use crate::nearest::hint;

/// A kind of file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A script for a shell, with or without `#SBATCH`.
    Shell,
    /// `nccl.conf`.
    NcclConf,
    /// `NAME=VALUE` lines: `docker --env-file`, or what `env` prints.
    Env,
    /// Rules of NVIDIA's example tuner plugin, or ours.
    TunerCsv,
    /// A Dockerfile.
    Dockerfile,
    /// A Kubernetes manifest.
    Kubernetes,
    /// Something without settings.
    Other,
}

impl Kind {
    /// Every kind that can be asked for.
    pub const ALL: &[Self] =
        &[Self::Shell, Self::NcclConf, Self::Env, Self::TunerCsv, Self::Dockerfile, Self::Kubernetes];

    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Shell => "shell",
            Self::NcclConf => "nccl-conf",
            Self::Env => "env",
            Self::TunerCsv => "tuner-csv",
            Self::Dockerfile => "dockerfile",
            Self::Kubernetes => "kubernetes",
            Self::Other => "other",
        }
    }

    /// What the file `name` with this text is.
    pub fn of(name: &str, text: &str) -> Self {
        let base = name.rsplit(['/', '\\']).next().unwrap_or_default().to_ascii_lowercase();
        let ending = base.rsplit_once('.').map_or("", |(_, ending)| ending);
        if base.starts_with("dockerfile") || base.starts_with("containerfile") || ending == "dockerfile" {
            return Self::Dockerfile;
        }
        if ending != "csv" && ending != "conf" && text.starts_with("#!") {
            let first = text.lines().next().unwrap_or_default();
            return if first.contains("sh") { Self::Shell } else { Self::Other };
        }
        match ending {
            // Other files may hold such a table in them: a manifest with a ConfigMap of rules, a script with a here-document.
            "csv" | "conf" if tuner_csv::is_tuner(text) => Self::TunerCsv,
            "csv" => Self::Other,
            "conf" if base.contains("nccl") || has_line(text, "NCCL_") => Self::NcclConf,
            "yaml" | "yml" => Self::Kubernetes,
            "env" | "envfile" => Self::Env,
            "sh" | "bash" | "csh" | "sbatch" | "slurm" | "job" | "batch" | "pbs" | "lsf" => Self::Shell,
            _ if tuner_csv::is_tuner(text) => Self::TunerCsv,
            _ => Self::of_text(text),
        }
    }

    fn of_text(text: &str) -> Self {
        if has_line(text, "FROM ") && (has_line(text, "ENV ") || has_line(text, "RUN ")) {
            Self::Dockerfile
        } else if has_line(text, "apiVersion:") {
            Self::Kubernetes
        } else if env::is_env(text) {
            Self::Env
        } else if ["export ", "srun ", "mpirun ", "#SBATCH "]
            .iter()
            .any(|word| text.lines().any(|l| l.trim_start().starts_with(word)))
        {
            Self::Shell
        } else {
            Self::Other
        }
    }
}

fn has_line(text: &str, start: &str) -> bool {
    text.lines().any(|line| line.starts_with(start))
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let names = || Self::ALL.iter().map(|kind| kind.name());
        Self::ALL.iter().copied().find(|kind| kind.name() == text).ok_or_else(|| {
            let known: Vec<&str> = names().collect();
            format!("unknown kind of file `{text}`: use one of {}{}", known.join(", "), hint(text, names()))
        })
    }
}
