//! Reads a profile that the user wants to compare with.

use std::{
    env,
    fs::{self, File},
    io::Read as _,
    path::{Path, PathBuf},
};

use gdrtune_profiles::profile::Profile;

/// No profile is larger: a rule takes 300 bytes, and a run has some hundred of them at most.
const MAX_BYTES: u64 = 4 << 20;

/// The profile in an output folder.
const FILE_NAME: &str = "profile.toml";

/// Reads the profile of a file, or of an output folder. Errors are sentences with file, line and the nearest valid name.
pub(super) fn profile(name: &str) -> Result<Profile, String> {
    let path = at_home(name);
    let failed = |error: std::io::Error| format!("{name}: {error}");
    let metadata = fs::metadata(&path).map_err(failed)?;
    let path = if metadata.is_dir() { path.join(FILE_NAME) } else { path };
    // Whoever opens a pipe may wait for ever.
    if !fs::metadata(&path).map_err(failed)?.is_file() {
        return Err(format!("{name}: this is no file"));
    }
    let mut bytes = Vec::new();
    File::open(&path).and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut bytes)).map_err(failed)?;
    if MAX_BYTES < bytes.len() as u64 {
        return Err(format!("{name}: too large to be a profile"));
    }
    let shown = path.display().to_string();
    Profile::parse_bytes(&bytes, &shown).map(|(profile, _)| profile).map_err(|error| error.to_string())
}

/// `~/` is the user's home, as for a shell.
fn at_home(name: &str) -> PathBuf {
    match (name.strip_prefix("~/"), env::var_os("HOME")) {
        (Some(rest), Some(home)) => Path::new(&home).join(rest),
        _ => PathBuf::from(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOLDEN: &str = include_str!("../../../profiles/tests/golden/nccl.toml");

    #[test]
    fn a_file_or_an_output_folder_is_read_and_what_is_wrong_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        let write = |name: &str, text: &str| fs::write(path(name), text).unwrap();
        write("profile.toml", GOLDEN);
        write("wrong.toml", &GOLDEN.replace("algorithm = \"tree\"", "algorithm = \"treee\""));
        let read = |name: &str| profile(&path(name)).map(|profile| profile.rule.len());
        assert_eq!((read("profile.toml"), read("")), (Ok(2), Ok(2)));
        let error = read("wrong.toml").unwrap_err();
        for expected in ["wrong.toml:", "treee", "did you mean `tree`?"] {
            assert!(error.contains(expected), "{expected}: {error}");
        }
        assert!(read("none.toml").unwrap_err().contains("No such file"));
        assert!(profile("/dev/null").unwrap_err().contains("this is no file"));
        File::create(path("huge")).unwrap().set_len(MAX_BYTES + 1).unwrap();
        assert!(read("huge").unwrap_err().contains("too large"));
    }
}
