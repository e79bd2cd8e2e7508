//! The environment of ranks that check an installation: a job's own, and a log in which NCCL says what it loaded.

use std::path::{Path, PathBuf};

use gdrtune_profiles::{install::ENV_FILE, vocab::Environment};
use gdrtune_wire::GroupId;

use super::environment::{self, EnvironmentError, Variables};
use crate::engine::nccl::PLUGIN_LOG_VARIABLE;

/// NCCL says at this level, and for these subsystems, which tuner plugin it uses (NCCL `src/plugin/tuner.cc`).
const LOG_SETTINGS: [(&str, &str); 2] = [("NCCL_DEBUG", "INFO"), ("NCCL_DEBUG_SUBSYS", "INIT,ENV,TUNING")];

/// Where NCCL writes its log.
const LOG_FILE_VARIABLE: &str = "NCCL_DEBUG_FILE";

/// `base` with the environment file of the installation over it, and with a log.
pub(super) fn of_group(base: &Variables, folder: &str) -> Result<Variables, EnvironmentError> {
    let job = environment::from_file(base, &Path::new(folder).join(ENV_FILE))?;
    let log = LOG_SETTINGS.iter().fold(Environment::new(), |all, (name, value)| all.with(*name, *value));
    environment::overlaid(&job, &log)
}

/// Where one rank's log goes, and where the rank finds it.
pub(super) fn add_log(environment: &mut Variables, logs: &Path, group: GroupId, rank: u32) {
    let path: PathBuf = logs.join(format!("nccl-{}-{rank}.log", group.0));
    environment.insert(LOG_FILE_VARIABLE.into(), path.clone().into());
    environment.insert(PLUGIN_LOG_VARIABLE.into(), path.into());
}

#[cfg(test)]
mod tests {
    use std::{ffi::OsStr, fs};

    use super::*;

    #[test]
    fn a_rank_has_what_a_job_has_and_a_log_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(ENV_FILE), "NCCL_TUNER_PLUGIN=/a b/$(x).so\nNCCL_DEBUG=WARN\n").unwrap();
        let base: Variables =
            [("NCCL_DEBUG_FILE", "/site"), ("PATH", "/bin")].map(|(n, v)| (n.into(), v.into())).into();
        let mut own = of_group(&base, folder.path().to_str().unwrap()).unwrap();
        add_log(&mut own, Path::new("/private"), GroupId(3), 7);
        let get = |name: &str| own.get(OsStr::new(name)).and_then(|value| value.to_str()).unwrap_or_default();
        for (name, value) in [
            ("PATH", "/bin"),
            ("NCCL_TUNER_PLUGIN", "/a b/$(x).so"),
            ("NCCL_DEBUG", "INFO"),
            ("NCCL_DEBUG_FILE", "/private/nccl-3-7.log"),
            (PLUGIN_LOG_VARIABLE, "/private/nccl-3-7.log"),
        ] {
            assert_eq!(get(name), value, "{name}");
        }
    }
}
