//! Asks NCCL in the workers of a group for its log, from which they read what ran and which tuner plugin was loaded.
//!
//! A rank's log is a file of its own, in a folder that goes away with its group. The default arm and the emitted files stand
//! for jobs, which do not log: they are never asked. Live groups go by what the plugin says where there is no log, so there a
//! site's own log is left as it is, and nothing is an error. The check of an installation has no other proof than the log.

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

/// What has to be logged. `INIT`: channels and connections (NCCL `src/init.cc`, `src/transport/`); `ENV`: which plugin NCCL
/// was told; `TUNING`: tuner plugins, and one line for each call, which rank 0 alone writes (`src/enqueue.cc`).
const SUBSYSTEMS: &str = "INIT,ENV,TUNING";

/// What a group's logs are needed for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Need {
    /// They tell more than the plugin does.
    Better,
    /// Without them there is no result.
    Proof,
}

/// Whether the workers of this group are to log, and how much depends on it.
pub(super) fn need(start: &StartGroup) -> Option<Need> {
    match &start.settings {
        Settings::Live(_) if start.engine == Engine::Nccl => Some(Need::Better),
        Settings::Installed { .. } if start.engine == Engine::Nccl => Some(Need::Proof),
        Settings::Live(_) | Settings::Installed { .. } | Settings::Site | Settings::Deployed { .. } => None,
    }
}

/// The logs of one group. They are removed when this is dropped.
#[derive(Debug)]
pub(super) struct NcclLogs {
    folder: PathBuf,
    need: Need,
}

impl NcclLogs {
    /// `folder` is empty, and for this group alone.
    pub(super) fn new(folder: PathBuf, need: Need) -> Self {
        Self { folder, need }
    }

    /// Makes the file of a rank, and has its NCCL write to it. Fails only where the log is the proof.
    pub(super) fn request(&self, variables: &mut Variables, rank: u32) -> Result<(), String> {
        let [level_name, ..] = LOG_REQUEST_VARIABLES;
        // For a proof, the level of the site or of the installed environment is replaced: at `WARN`, NCCL does not say
        // which plugin it loaded. Jobs keep it; it changes nothing of what they run.
        if self.need == Need::Better && variables.contains_key(OsStr::new(level_name)) {
            return Ok(());
        }
        let path = self.folder.join(format!("rank-{rank}.log"));
        // A file that NCCL cannot open leaves its log on standard output.
        if let Err(error) = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path) {
            return match self.need {
                Need::Better => Ok(()),
                Need::Proof => Err(format!("make {} for NCCL's log: {error}", path.display())),
            };
        }
        let values = ["INFO".into(), self.subsystems(variables), unexpanded(&path)];
        variables.extend(LOG_REQUEST_VARIABLES.map(OsString::from).into_iter().zip(values));
        variables.insert(LOG_VARIABLE.into(), path.into());
        Ok(())
    }
}

impl NcclLogs {
    /// What is to be logged. Whoever wants more for a live group names it in the variable, which NCCL heeds in a log alone.
    fn subsystems(&self, variables: &Variables) -> OsString {
        let [_, name, _] = LOG_REQUEST_VARIABLES;
        let more = variables.get(OsStr::new(name)).filter(|more| self.need == Need::Better && !more.is_empty());
        match more {
            None => SUBSYSTEMS.into(),
            Some(more) => [OsStr::new(SUBSYSTEMS), OsStr::new(","), more].into_iter().collect(),
        }
    }
}

impl Drop for NcclLogs {
    fn drop(&mut self) {
        // What cannot be removed now goes away with the agent's own folder.
        fs::remove_dir_all(&self.folder).ok();
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
    fn live_and_installed_groups_of_nccl_are_asked_and_no_others() {
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
            probe: None,
        };
        let live = || Settings::Live(Environment::new());
        let installed = || Settings::Installed { folder: "/opt".to_owned() };
        for (engine, settings, expected) in [
            (Engine::Nccl, live(), Some(Need::Better)),
            (Engine::Nccl, installed(), Some(Need::Proof)),
            (Engine::Nccl, Settings::Site, None),
            (Engine::Nccl, Settings::Deployed { bundle: 1 }, None),
            (Engine::Native, live(), None),
            (Engine::Native, installed(), None),
        ] {
            assert_eq!(need(&start(engine, settings)), expected);
        }
    }

    #[test]
    fn a_rank_logs_to_a_file_of_its_own_until_the_group_ends() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("50%h");
        fs::create_dir(&folder).unwrap();
        let logs = NcclLogs::new(folder.clone(), Need::Better);
        let mut variables = Variables::new();
        logs.request(&mut variables, 3).unwrap();
        let (shown, parent) = (folder.display().to_string(), parent.path().display().to_string());
        assert_eq!(
            pairs(&variables),
            [
                format!("GDRTUNE_NCCL_LOG={shown}/rank-3.log"),
                "NCCL_DEBUG=INFO".to_owned(),
                format!("NCCL_DEBUG_FILE={parent}/50%%h/rank-3.log"),
                "NCCL_DEBUG_SUBSYS=INIT,ENV,TUNING".to_owned(),
            ]
        );
        assert_eq!(fs::read(folder.join("rank-3.log")).unwrap(), b"");
        drop(logs);
        assert!(!folder.exists());
    }

    #[test]
    fn a_site_that_logs_itself_and_a_folder_that_is_gone_are_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let logs = NcclLogs::new(folder.path().join("logs"), Need::Better);
        let mut variables = Variables::new();
        logs.request(&mut variables, 0).unwrap();
        assert_eq!(pairs(&variables), Vec::<String>::new(), "the folder is not there");
        fs::create_dir(folder.path().join("logs")).unwrap();
        variables.insert("NCCL_DEBUG".into(), "WARN".into());
        logs.request(&mut variables, 0).unwrap();
        assert_eq!(pairs(&variables), ["NCCL_DEBUG=WARN"]);
    }

    #[test]
    fn who_wants_more_subsystems_gets_them_too() {
        let folder = tempfile::tempdir().unwrap();
        let logs = NcclLogs::new(folder.path().to_owned(), Need::Better);
        let mut variables: Variables = [("NCCL_DEBUG_SUBSYS".into(), "NET,GRAPH".into())].into();
        logs.request(&mut variables, 0).unwrap();
        let asked = variables.get(OsStr::new("NCCL_DEBUG_SUBSYS")).unwrap();
        assert_eq!(asked, "INIT,ENV,TUNING,NET,GRAPH");
    }

    #[test]
    fn a_proof_has_a_log_whatever_the_site_says_or_says_why_not() {
        let folder = tempfile::tempdir().unwrap();
        let logs = NcclLogs::new(folder.path().to_owned(), Need::Proof);
        let site = [("NCCL_DEBUG", "WARN"), ("NCCL_DEBUG_FILE", "/site"), ("NCCL_DEBUG_SUBSYS", "NET")];
        let mut variables: Variables = site.map(|(name, value)| (name.into(), value.into())).into();
        logs.request(&mut variables, 7).unwrap();
        let path = folder.path().join("rank-7.log").display().to_string();
        let expected = [
            format!("GDRTUNE_NCCL_LOG={path}"),
            "NCCL_DEBUG=INFO".to_owned(),
            format!("NCCL_DEBUG_FILE={path}"),
            "NCCL_DEBUG_SUBSYS=INIT,ENV,TUNING".to_owned(),
        ];
        assert_eq!(pairs(&variables), expected);
        let error = logs.request(&mut variables, 7).unwrap_err();
        assert!(error.starts_with(&format!("make {path} for NCCL's log: File exists")), "{error}");
    }
}
