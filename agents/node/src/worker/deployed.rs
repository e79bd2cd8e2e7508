//! The folder of emitted files that a worker runs from (`--ab DIR`).
//!
//! The environment was made of `profile.env` before this process started, as it must be in place when libraries load. What
//! is left to do is to see that it is so: a run that claims to verify these files must not run with other values.

use std::path::Path;

/// Name of the environment file.
const ENVIRONMENT_FILE: &str = "profile.env";

/// Name of the rule file.
pub(super) const RULE_FILE: &str = "nccl-tuner.csv";

/// Reads a file as text.
pub(super) fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// Compares the environment file with the variables that `lookup` gives.
pub(super) fn check_environment(folder: &Path, lookup: impl Fn(&str) -> Option<String>) -> Result<(), String> {
    let path = folder.join(ENVIRONMENT_FILE);
    let text = read(&path)?;
    for (number, line) in (1..).zip(text.lines()) {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let place = format!("{}:{number}", path.display());
        let Some((name, value)) = line.split_once('=') else {
            return Err(format!("{place}: `{line}` sets nothing: write NAME=VALUE"));
        };
        match lookup(name) {
            Some(actual) if actual == value => {}
            Some(actual) => return Err(format!("{place}: {name} is {value} there, but {actual} in this process")),
            None => return Err(format!("{place}: {name} is {value} there, but not set in this process")),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_must_agree_with_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(ENVIRONMENT_FILE);
        let lookup = |name: &str| (name == "NCCL_SOCKET_IFNAME").then(|| "=eth1".to_owned());
        for (text, expected) in [
            ("# made by gdrtune\n\nNCCL_SOCKET_IFNAME==eth1\n", Ok(())),
            ("NCCL_SOCKET_IFNAME==eth0\n", Err(":1: NCCL_SOCKET_IFNAME is =eth0 there, but =eth1 in this process")),
            ("\nNCCL_ALGO=ring\n", Err(":2: NCCL_ALGO is ring there, but not set in this process")),
            ("export\n", Err(":1: `export` sets nothing: write NAME=VALUE")),
        ] {
            std::fs::write(&path, text).unwrap();
            let expected = expected.map_err(|why: &str| format!("{}{why}", path.display()));
            assert_eq!(check_environment(folder.path(), lookup), expected);
        }
    }

    #[test]
    fn a_missing_file_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let error = check_environment(folder.path(), |_| None).unwrap_err();
        assert!(error.contains("profile.env: No such file"), "{error}");
    }
}
