//! Asks NCCL in the workers of a live group for its log, from which they read what ran.
//!
//! A rank's log is a file of its own, in a folder that goes away with its group. The default arm and the emitted files stand
//! for jobs, which do not log: they are never asked. Where the site asks for a log itself, that is left as it is. Nothing
//! here is an error: without a log, workers go by what the plugin says.

use std::{
    ffi::{OsStr, OsString},
    fs::{self, OpenOptions},
    os::unix::{
        ffi::{OsStrExt as _, OsStringExt as _},
        fs::OpenOptionsExt as _,
    },
    path::{Path, PathBuf},
};

use gdrtune_profiles::vocab::Engine;
use gdrtune_wire::{Settings, StartGroup};

use super::environment::Variables;
use crate::engine::nccl::{LOG_REQUEST_VARIABLES, LOG_VARIABLE};

/// What has to be logged. `INIT`: channels and connections (NCCL `src/init.cc`, `src/transport/`); `TUNING`: tuner plugins,
/// and one line for each call, which rank 0 alone writes (`src/enqueue.cc`).
const SUBSYSTEMS: &str = "INIT,TUNING";

/// Whether the workers of this group are to log.
pub(super) fn is_wanted(start: &StartGroup) -> bool {
    start.engine == Engine::Nccl && matches!(start.settings, Settings::Live(_))
}

/// The logs of one group. They are removed when this is dropped.
#[derive(Debug)]
pub(super) struct NcclLogs(PathBuf);

impl NcclLogs {
    /// `folder` is empty, and for this group alone.
    pub(super) fn new(folder: PathBuf) -> Self {
        Self(folder)
    }

    /// Makes the file of a rank, and has its NCCL write to it, unless these variables ask for a log already.
    pub(super) fn request(&self, variables: &mut Variables, rank: u32) {
        let [level_name, ..] = LOG_REQUEST_VARIABLES;
        if variables.contains_key(OsStr::new(level_name)) {
            return;
        }
        let path = self.0.join(format!("rank-{rank}.log"));
        // A file that NCCL cannot open leaves its log on standard output.
        if OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path).is_err() {
            return;
        }
        let values = ["INFO".into(), SUBSYSTEMS.into(), unexpanded(&path)];
        variables.extend(LOG_REQUEST_VARIABLES.map(OsString::from).into_iter().zip(values));
        variables.insert(LOG_VARIABLE.into(), path.into());
    }
}

impl Drop for NcclLogs {
    fn drop(&mut self) {
        // What cannot be removed now goes away with the agent's own folder.
        fs::remove_dir_all(&self.0).ok();
    }
}

/// The path in a form that NCCL, which replaces `%h` and `%p`, reads as it is (NCCL `src/debug.cc`).
fn unexpanded(path: &Path) -> OsString {
    let doubled = path.as_os_str().as_bytes().iter().flat_map(|byte| vec![*byte; 1 + usize::from(*byte == b'%')]);
    OsString::from_vec(doubled.collect())
}

#[cfg(test)]
mod tests {
    use gdrtune_profiles::vocab::Environment;
    use gdrtune_wire::{GroupId, SessionKey};

    use super::*;

    fn pairs(variables: &Variables) -> Vec<String> {
        variables.iter().map(|(name, value)| format!("{}={}", name.display(), value.display())).collect()
    }

    #[test]
    fn a_live_group_of_nccl_is_asked_and_no_other() {
        let start = |engine, settings| StartGroup {
            group: GroupId(1),
            world: 2,
            nodes: 2,
            ranks: vec![0],
            engine,
            settings,
            key: SessionKey([0; 32]),
            max_bytes: 1024,
            deadline_ms: 1000,
            emulate_nodes: false,
            register_buffers: false,
            worker_command: vec![],
        };
        let live = || Settings::Live(Environment::new());
        for (engine, settings, expected) in [
            (Engine::Nccl, live(), true),
            (Engine::Nccl, Settings::Site, false),
            (Engine::Nccl, Settings::Deployed { bundle: 1 }, false),
            (Engine::Native, live(), false),
        ] {
            assert_eq!(is_wanted(&start(engine, settings)), expected);
        }
    }

    #[test]
    fn a_rank_logs_to_a_file_of_its_own_until_the_group_ends() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("50%h");
        fs::create_dir(&folder).unwrap();
        let logs = NcclLogs::new(folder.clone());
        let mut variables = Variables::new();
        logs.request(&mut variables, 3);
        let (shown, parent) = (folder.display().to_string(), parent.path().display().to_string());
        assert_eq!(
            pairs(&variables),
            [
                format!("GDRTUNE_NCCL_LOG={shown}/rank-3.log"),
                "NCCL_DEBUG=INFO".to_owned(),
                format!("NCCL_DEBUG_FILE={parent}/50%%h/rank-3.log"),
                "NCCL_DEBUG_SUBSYS=INIT,TUNING".to_owned(),
            ]
        );
        assert_eq!(fs::read(folder.join("rank-3.log")).unwrap(), b"");
        drop(logs);
        assert!(!folder.exists());
    }

    #[test]
    fn a_site_that_logs_itself_and_a_folder_that_is_gone_are_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let logs = NcclLogs::new(folder.path().join("logs"));
        let mut variables = Variables::new();
        logs.request(&mut variables, 0);
        assert_eq!(pairs(&variables), Vec::<String>::new(), "the folder is not there");
        fs::create_dir(folder.path().join("logs")).unwrap();
        variables.insert("NCCL_DEBUG".into(), "WARN".into());
        logs.request(&mut variables, 0);
        assert_eq!(pairs(&variables), ["NCCL_DEBUG=WARN"]);
    }
}
