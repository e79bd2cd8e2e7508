//! The files that NCCL takes variables from beside the environment (NCCL `src/misc/param.cc`, `initEnv`).

use std::{
    fs::{self, File},
    io::ErrorKind,
    path::Path,
};

use gdrtune_profiles::{grammar::nccl_conf, vocab::Environment};
use gdrtune_wire::{ConfFile, NamedFile};

use super::Reader;

/// Takes the place of the user's file where it is set (NCCL 2.23 and later).
const CONF_VARIABLE: &str = "NCCL_CONF_FILE";

/// The user's file, in the home folder.
const USER_FILE: &str = ".nccl.conf";

/// The node's file; it is read last.
const NODE_FILE: &str = "/etc/nccl.conf";

/// Variables that name a file which every rank opens (NCCL user guide, `env.rst`).
const FILE_VARIABLES: [&str; 4] = ["NCCL_TOPO_FILE", "NCCL_GRAPH_FILE", "NCCL_CONF_FILE", "NCCL_TUNER_CONFIG_FILE"];

impl Reader<'_> {
    /// Files that variables of NCCL name, of the environment before those of the settings files. What is no absolute path is another
    /// one for each process.
    pub(super) fn named_files(&self, site_env: &Environment, confs: &[ConfFile]) -> Vec<NamedFile> {
        let of_files: Vec<Environment> = confs.iter().map(|conf| nccl_conf::parse(&conf.text, &conf.path).0).collect();
        let value = |name| std::iter::once(site_env).chain(&of_files).find_map(|all| all.get(name));
        let named = FILE_VARIABLES.iter().filter_map(|name| Some((*name, value(name)?)));
        named
            .filter(|(_, path)| path.starts_with('/'))
            .map(|(name, path)| {
                let problem = self.why_unreadable(path.trim_start_matches('/'));
                NamedFile { variable: name.to_owned(), path: path.to_owned(), problem }
            })
            .collect()
    }

    fn why_unreadable(&self, path: &str) -> Option<String> {
        let path = self.path(path);
        match fs::metadata(&path) {
            // Opening a pipe would wait for its other end.
            Ok(found) if !found.is_file() => Some("is no file".to_owned()),
            Ok(_) => File::open(path).err().map(|error| error.to_string()),
            Err(error) => Some(error.to_string()),
        }
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_variables_name_are_tried() {
        let root = tempfile::tempdir().unwrap();
        let etc = root.path().join("etc");
        fs::create_dir(&etc).unwrap();
        fs::write(etc.join("topo.xml"), "<system/>").unwrap();
        fs::write(etc.join("nccl.conf"), "NCCL_TOPO_FILE=/etc/other.xml\nNCCL_GRAPH_FILE=/etc\n").unwrap();
        let mut reader = Reader::new(root.path());
        let confs = reader.nccl_confs(&[], None);
        let environment = Environment::new()
            .with("NCCL_TOPO_FILE", "/etc/topo.xml")
            .with("NCCL_TUNER_CONFIG_FILE", "/etc/rules.csv")
            .with("NCCL_CONF_FILE", "rules.conf");
        let said: Vec<String> = reader
            .named_files(&environment, &confs)
            .into_iter()
            .map(|file| format!("{} {} {}", file.variable, file.path, file.problem.unwrap_or_default()))
            .collect();
        assert_eq!(
            said,
            [
                "NCCL_TOPO_FILE /etc/topo.xml ",
                "NCCL_GRAPH_FILE /etc is no file",
                "NCCL_TUNER_CONFIG_FILE /etc/rules.csv No such file or directory (os error 2)",
            ]
        );
    }
}
