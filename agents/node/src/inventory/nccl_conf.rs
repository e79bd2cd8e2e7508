//! The files that NCCL takes variables from beside the environment (NCCL `src/misc/param.cc`, `initEnv`).

use std::{io::ErrorKind, path::Path};

use gdrtune_wire::ConfFile;

use super::Reader;

/// Takes the place of the user's file where it is set (NCCL 2.23 and later).
const CONF_VARIABLE: &str = "NCCL_CONF_FILE";

/// The user's file, in the home folder.
const USER_FILE: &str = ".nccl.conf";

/// The node's file; it is read last.
const NODE_FILE: &str = "/etc/nccl.conf";

impl Reader<'_> {
    /// Those that are there. One that is there and cannot be read is noted.
    pub(super) fn nccl_confs(&mut self, variables: &[(String, String)], home: Option<&Path>) -> Vec<ConfFile> {
        let named = variables.iter().find(|(name, _)| name == CONF_VARIABLE).map(|(_, path)| path.clone());
        let users = named.or_else(|| home.map(|home| home.join(USER_FILE).display().to_string()));
        let paths = users.into_iter().chain([NODE_FILE.to_owned()]).filter(|path| path.starts_with('/'));
        let mut found = Vec::new();
        for path in paths {
            match self.try_text(path.trim_start_matches('/')) {
                Ok(text) => found.push(ConfFile { path, text }),
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => self.unreadable.push(format!("{path}: {error}")),
            }
        }
        found
    }
}
