//! The environment of a worker: the node's own, then what the group lays over it.
//!
//! Reads the `profile.env` of a bundle with a small reader of its own. Never expands anything, never runs a shell.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
};

use gdrtune_profiles::vocab::Environment;

/// The file of a bundle that holds environment variables.
const ENV_FILE: &str = "profile.env";

/// Variables by name. Values of the node may be no UTF-8.
pub(super) type Variables = BTreeMap<OsString, OsString>;

/// Why there is no environment.
#[derive(Debug, thiserror::Error)]
pub(super) enum EnvironmentError {
    #[error("`{0}` is no variable name: use letters, digits and underscores")]
    Name(String),
    #[error("the value of `{0}` has a NUL byte")]
    Value(String),
    #[error("read {path}: {source}")]
    Read { path: PathBuf, source: std::io::Error },
    #[error("{path}:{line}: `{text}` is no NAME=VALUE")]
    Line { path: PathBuf, line: usize, text: String },
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
        all.insert(name.into(), value.into());
    }
    Ok(all)
}

/// `base` with the variables of `profile.env` in `folder` set over it.
pub(super) fn deployed(base: &Variables, folder: &Path) -> Result<Variables, EnvironmentError> {
    let path = folder.join(ENV_FILE);
    let text = fs::read_to_string(&path).map_err(|source| EnvironmentError::Read { path: path.clone(), source })?;
    overlaid(base, &parse(&path, &text)?)
}

/// Reads `NAME=VALUE` lines; blank lines and those that start with `#` are skipped; values are taken as they are.
fn parse(path: &Path, text: &str) -> Result<Environment, EnvironmentError> {
    let mut variables = Environment::new();
    for (index, line) in text.lines().enumerate() {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        variables = match line.split_once('=') {
            Some((name, value)) if is_name(name) => variables.with(name, value),
            _ => return Err(EnvironmentError::Line { path: path.into(), line: index + 1, text: line.to_owned() }),
        };
    }
    Ok(variables)
}

/// A name of POSIX's portable form (Base Definitions, 3.216 Name), lower case allowed.
fn is_name(name: &str) -> bool {
    !name.starts_with(|first: char| first.is_ascii_digit())
        && !name.is_empty()
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

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
    fn the_env_file_of_a_bundle_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let text = "# made by gdrtune\n\nNCCL_ALGO=Tree\nNCCL_IB_HCA==mlx5_0:1\nX=a # b \"c\"\n";
        fs::write(folder.path().join(ENV_FILE), text).unwrap();
        let all = deployed(&base(), folder.path()).unwrap();
        assert_eq!(pairs(&all), "NCCL_ALGO=Tree NCCL_IB_HCA==mlx5_0:1 PATH=/bin X=a # b \"c\"");
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in ".{0,200}") {
            // Neither panics; what is read is fit for an environment, unless a value has a NUL byte.
            if let Ok(read) = parse(Path::new("f"), &text) {
                prop_assert!(overlaid(&Variables::new(), &read).is_ok() || text.contains('\0'));
            }
        }

        #[test]
        fn written_variables_read_back(values in proptest::collection::btree_map("[A-Za-z_][A-Za-z0-9_]{0,9}", "[^\n\r\0]{0,20}", 0..6)) {
            let text: Vec<String> = values.iter().map(|(name, value)| format!("{name}={value}")).collect();
            prop_assert_eq!(parse(Path::new("f"), &text.join("\n")).unwrap(), Environment(values));
        }
    }

    #[test]
    fn a_bad_env_file_names_its_line() {
        let error = parse(Path::new("/b/profile.env"), "A=1\nexport B=2\n").unwrap_err();
        assert_eq!(error.to_string(), "/b/profile.env:2: `export B=2` is no NAME=VALUE");
        let error = deployed(&base(), Path::new("/nowhere")).unwrap_err();
        assert!(error.to_string().starts_with("read /nowhere/profile.env: "), "{error}");
    }
}
