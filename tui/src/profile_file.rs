//! The one reader of profiles that the user names: a file, or the output folder of a run.

use std::{
    env,
    fs::{self, File},
    io::{self, Read as _},
    path::{Path, PathBuf},
};

use gdrtune_profiles::{
    diagnostic::Diagnostic,
    profile::{Profile, ProfileError},
};

/// No profile is larger: a rule takes 300 bytes, and a run has some thousand of them at most.
const MAX_BYTES: u64 = 16 << 20;

/// The profile in an output folder.
const FILE_NAME: &str = "profile.toml";

/// What may be opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Openable {
    /// Pipes, too, as a shell makes them of `<(command)`.
    Anything,
    /// Files alone: who opens a pipe may wait for ever, and a screen must not.
    Files,
}

/// A profile as it was read.
pub(crate) struct ProfileFile {
    /// The file, which may be one in the folder that was named.
    pub(crate) path: PathBuf,
    /// Its bytes.
    pub(crate) text: Vec<u8>,
    /// What they say.
    pub(crate) profile: Profile,
    /// What is odd in it, but no error.
    pub(crate) odd: Vec<Diagnostic>,
}

/// Why there is no profile.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError {
    /// It cannot be read.
    #[error("read {}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// It is a device, or a pipe where none may be.
    #[error("{} is no file", .0.display())]
    NoFile(PathBuf),
    /// It has no end, or is something else.
    #[error("{} is too large to be a profile (more than {} MiB)", .0.display(), MAX_BYTES >> 20)]
    TooLarge(PathBuf),
    /// It is none.
    #[error(transparent)]
    Invalid(#[from] ProfileError),
}

/// Reads a profile. `~/` is the user's home, as for a shell.
pub(crate) fn read(named: &Path, openable: Openable) -> Result<ProfileFile, ReadError> {
    let named = at_home(named);
    let path = if named.is_dir() { named.join(FILE_NAME) } else { named };
    let failed = |source| ReadError::Io { path: path.clone(), source };
    if openable == Openable::Files && !fs::metadata(&path).map_err(failed)?.is_file() {
        return Err(ReadError::NoFile(path));
    }
    let mut text = Vec::new();
    File::open(&path).and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut text)).map_err(failed)?;
    if MAX_BYTES < text.len() as u64 {
        return Err(ReadError::TooLarge(path));
    }
    let (profile, odd) = Profile::parse_bytes(&text, &path.display().to_string())?;
    Ok(ProfileFile { path, text, profile, odd })
}

fn at_home(name: &Path) -> PathBuf {
    match (name.strip_prefix("~"), env::var_os("HOME")) {
        (Ok(rest), Some(home)) => Path::new(&home).join(rest),
        _ => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cause_chain;

    const GOLDEN: &str = include_str!("../../profiles/tests/golden/nccl.toml");

    #[test]
    fn a_file_or_an_output_folder_is_read_and_what_is_wrong_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let write = |name: &str, text: &str| fs::write(path(name), text).unwrap();
        write("profile.toml", GOLDEN);
        write("wrong.toml", &GOLDEN.replace("algorithm = \"tree\"", "algorithm = \"treee\""));
        let read = |path: &Path| {
            let file = read(path, Openable::Files).map_err(|error| cause_chain(&error.into()))?;
            Ok::<_, String>(file.profile.rule.len())
        };
        assert_eq!((read(&path("profile.toml")), read(&path(""))), (Ok(2), Ok(2)));
        let error = read(&path("wrong.toml")).unwrap_err();
        for expected in ["wrong.toml:", "treee", "did you mean `tree`?"] {
            assert!(error.contains(expected), "{expected}: {error}");
        }
        assert!(read(&path("none.toml")).unwrap_err().contains("No such file"));
        assert!(read(Path::new("/dev/null")).unwrap_err().contains("is no file"));
        File::create(path("huge")).unwrap().set_len(MAX_BYTES + 1).unwrap();
        assert!(read(&path("huge")).unwrap_err().contains("too large"));
    }

    #[test]
    fn a_device_without_an_end_is_not_read_to_it() {
        let error = read(Path::new("/dev/zero"), Openable::Anything).err().unwrap();
        assert!(matches!(error, ReadError::TooLarge(_)), "{error}");
    }
}
