//! The environment of a worker: the node's own, then what the group lays over it.
//!
//! Reads the `profile.env` of a bundle as docker and systemd would. Never expands anything, never runs a shell.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    fs,
    io::ErrorKind,
    path::{Path, PathBuf},
};

use gdrtune_profiles::{
    grammar::env_file::{self, EnvFileError},
    vocab::Environment,
};

/// The file of a bundle that holds environment variables.
const ENV_FILE: &str = "profile.env";

/// The file of a bundle that holds rules.
const RULE_FILE: &str = "nccl-tuner.csv";

/// Variables whose value a node insists on where its own environment has one, with what stands behind that. Whoever asks for
/// another value, a search or a profile from elsewhere, is refused.
const FORCED: [(&str, &str); 1] =
    [("NCCL_NVLS_ENABLE", "a site sets it where NVLink multicast must stay off for all GPUs of a host")];

/// Variables by name. Values of the node may be no UTF-8.
pub(super) type Variables = BTreeMap<OsString, OsString>;

/// Why there is no environment.
#[derive(Debug, thiserror::Error)]
pub(super) enum EnvironmentError {
    #[error("`{0}` is no variable name: use letters, digits and underscores")]
    Name(String),
    #[error("the value of `{0}` has a NUL byte")]
    Value(String),
    #[error(
        "`{name}` is {own} in this node's own environment, and {wanted} was asked for: the node's value holds ({why}); leave the variable out of settings and profile, or change it on the node"
    )]
    Forced { name: &'static str, own: String, wanted: String, why: &'static str },
    #[error("read {path}: {source}")]
    Read { path: PathBuf, source: std::io::Error },
    #[error("{path}: {source}")]
    File { path: PathBuf, source: EnvFileError },
}

/// `base` with the variables of `overlay` set over it.
pub(super) fn overlaid(base: &Variables, overlay: &Environment) -> Result<Variables, EnvironmentError> {
    let mut all = base.clone();
    for (name, value) in overlay.iter() {
        if !is_name(name) {
            return Err(EnvironmentError::Name(name.to_owned()));
        }
        if value.contains('\0') {
            return Err(EnvironmentError::Value(name.to_owned()));
        }
        check_forced(base, name, value)?;
        all.insert(name.into(), value.into());
    }
    Ok(all)
}

/// Whether a node leaves this variable to whoever asks.
fn check_forced(base: &Variables, name: &str, wanted: &str) -> Result<(), EnvironmentError> {
    let Some(&(name, why)) = FORCED.iter().find(|(forced, _)| *forced == name) else { return Ok(()) };
    match base.get(OsStr::new(name)) {
        Some(own) if own != wanted => {
            let own = own.to_string_lossy().into_owned();
            Err(EnvironmentError::Forced { name, own, wanted: wanted.to_owned(), why })
        }
        _ => Ok(()),
    }
}

/// `base` with the variables of `profile.env` in `folder` set over it.
pub(super) fn deployed(base: &Variables, folder: &Path) -> Result<Variables, EnvironmentError> {
    from_file(base, &folder.join(ENV_FILE))
}

/// `base` with the variables of an environment file set over it.
pub(super) fn from_file(base: &Variables, path: &Path) -> Result<Variables, EnvironmentError> {
    let text = fs::read_to_string(path).map_err(|source| EnvironmentError::Read { path: path.into(), source })?;
    let set = env_file::parse(&text).map_err(|source| EnvironmentError::File { path: path.into(), source })?;
    overlaid(base, &set)
}

/// The rule file in `folder`, where it has any rule.
pub(super) fn rules(folder: &Path) -> Result<Option<PathBuf>, EnvironmentError> {
    let path = folder.join(RULE_FILE);
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(EnvironmentError::Read { path, source }),
    };
    let is_rule = |line: &str| !line.trim().is_empty() && !line.starts_with('#');
    Ok(text.lines().any(is_rule).then_some(path))
}

/// A name of POSIX's portable form (Base Definitions, 3.216 Name), lower case allowed.
fn is_name(name: &str) -> bool {
    !name.starts_with(|first: char| first.is_ascii_digit())
        && !name.is_empty()
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn base() -> Variables {
        [("PATH", "/bin"), ("NCCL_ALGO", "Ring")].map(|(name, value)| (name.into(), value.into())).into()
    }

    fn pairs(variables: &Variables) -> String {
        variables
            .iter()
            .map(|(name, value)| format!("{}={}", name.display(), value.display()))
            .collect::<Vec<_>>()
            .join(" ")
    }

    #[test]
    fn an_overlay_wins_and_leaves_the_rest() {
        let overlay = Environment::new().with("NCCL_ALGO", "Tree").with("NCCL_PROTO", "");
        assert_eq!(pairs(&overlaid(&base(), &overlay).unwrap()), "NCCL_ALGO=Tree NCCL_PROTO= PATH=/bin");
    }

    #[test]
    fn hostile_overlays_are_refused() {
        for (name, value, expected) in [
            ("", "1", "`` is no variable name: use letters, digits and underscores"),
            ("A=B", "1", "`A=B` is no variable name: use letters, digits and underscores"),
            ("1A", "1", "`1A` is no variable name: use letters, digits and underscores"),
            ("A\0", "1", "`A\0` is no variable name: use letters, digits and underscores"),
            ("A", "1\0", "the value of `A` has a NUL byte"),
        ] {
            let error = overlaid(&base(), &Environment::new().with(name, value)).unwrap_err();
            assert_eq!(error.to_string(), expected);
        }
    }

    #[test]
    fn what_the_node_forces_is_changed_by_nobody() {
        let base = |own: Option<&str>| {
            let mut base = base();
            base.extend(own.map(|own| ("NCCL_NVLS_ENABLE".into(), own.into())));
            base
        };
        let folder = tempfile::tempdir().unwrap();
        for (own, wanted, is_refused) in [
            (None, "1", false),
            (Some("0"), "0", false),
            (Some("0"), "1", true),
            (Some("0"), "", true),
            (Some("2"), "0", true),
        ] {
            let overlay = Environment::new().with("NCCL_NVLS_ENABLE", wanted);
            fs::write(folder.path().join(ENV_FILE), format!("NCCL_NVLS_ENABLE={wanted}\n")).unwrap();
            for result in [overlaid(&base(own), &overlay), deployed(&base(own), folder.path())] {
                match result {
                    Ok(all) if !is_refused => assert_eq!(all[OsStr::new("NCCL_NVLS_ENABLE")], wanted),
                    Err(error) if is_refused => {
                        let text = error.to_string();
                        let start = format!("`NCCL_NVLS_ENABLE` is {} in this node's own", own.unwrap_or_default());
                        assert!(text.starts_with(&start) && text.contains("multicast must stay off"), "{text}");
                    }
                    other => panic!("{own:?} {wanted}: {other:?}"),
                }
            }
        }
    }

    #[test]
    fn the_env_file_of_a_bundle_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let text = "# made by gdrtune\n\nNCCL_ALGO=Tree\nNCCL_IB_HCA==mlx5_0:1\nX=a-b\n";
        fs::write(folder.path().join(ENV_FILE), text).unwrap();
        let all = deployed(&base(), folder.path()).unwrap();
        assert_eq!(pairs(&all), "NCCL_ALGO=Tree NCCL_IB_HCA==mlx5_0:1 PATH=/bin X=a-b");
    }

    #[test]
    fn only_a_file_with_rules_counts_as_one() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(rules(folder.path()).unwrap(), None);
        for (text, has_rules) in [("", false), ("# allreduce,0,1\n\n", false), ("# x\nallreduce,0,1,ring,ll,1\n", true)]
        {
            let path = folder.path().join(RULE_FILE);
            fs::write(&path, text).unwrap();
            assert_eq!(rules(folder.path()).unwrap(), has_rules.then_some(path), "{text:?}");
        }
    }

    #[test]
    fn a_bad_env_file_names_its_line() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(ENV_FILE), "A=1\nexport B=2\n").unwrap();
        let error = deployed(&base(), folder.path()).unwrap_err().to_string();
        assert!(error.contains("profile.env: line 2: `export B` is not the name of a variable"), "{error}");
    }
}
