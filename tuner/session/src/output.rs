//! The folder that a run's files go to. Claimed before the first trial, so that a long run does not end on a full disk or
//! a folder that may not be written; filled all or nothing.

use std::{
    fs::{self, File},
    io::{self, Write},
    os::unix::fs::{MetadataExt as _, chown},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

/// Space that a run's files need at most, in bytes: a profile, its emitted files, the choices of some hundred points and a report.
const RESERVE_BYTES: usize = 2 << 20;

/// What the file is called that proves that there is room.
const RESERVE: &str = "reserve";

/// A folder that cannot take the files.
#[derive(Debug, thiserror::Error)]
pub enum OutputError {
    /// A file system call failed.
    #[error("{action} {}: {source}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The folder holds files of an earlier run.
    #[error("{} already holds {name} of an earlier run", dir.display())]
    Occupied {
        /// The folder.
        dir: PathBuf,
        /// One of the files.
        name: String,
    },
    /// The file is there already.
    #[error("{} is there already", .0.display())]
    Exists(PathBuf),
    /// The path is no folder.
    #[error("{} is not a folder", .0.display())]
    NotAFolder(PathBuf),
    /// Somebody else wrote to it.
    #[error("{} was changed while it was looked at: run the command again", .0.display())]
    Changed(PathBuf),
}

/// What to do about files of an earlier run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Existing {
    /// Refuse.
    Refuse,
    /// Replace them when the new ones are complete.
    Replace,
}

/// What a run store keeps of a claim, so that the same run can take the folder again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputClaim {
    /// Whether the run made the folder.
    pub is_new: bool,
    /// Whether files of an earlier run may be replaced.
    pub replaces: bool,
    /// What its temporary files are called by.
    pub token: u64,
}

/// A folder that was checked and can be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputDir {
    path: PathBuf,
    is_new: bool,
    existing: Existing,
    /// Makes temporary names that nobody can have prepared.
    token: u64,
}

impl OutputDir {
    /// Creates the folder if need be and proves that [`RESERVE_BYTES`] can be written there.
    ///
    /// # Errors
    /// [`OutputError`]; `names` are the files that count as an earlier run's.
    pub fn claim(path: &Path, names: &[&str], existing: Existing) -> Result<Self, OutputError> {
        let dir = Self::make(path, existing)?;
        dir.check_free(names.iter().copied())?;
        dir.check_room()?;
        Ok(dir)
    }

    /// Whether a claim would be refused for what is at `path` now; changes nothing there.
    ///
    /// # Errors
    /// [`OutputError`] as of [`OutputDir::claim`], but for what only writing shows.
    pub fn look(path: &Path, names: &[&str], existing: Existing) -> Result<(), OutputError> {
        refuse_file(path)?;
        Self { path: path.to_owned(), is_new: false, existing, token: 0 }.check_free(names.iter().copied())
    }

    fn make(path: &Path, existing: Existing) -> Result<Self, OutputError> {
        refuse_file(path)?;
        let is_new = !path.exists();
        fs::create_dir_all(path).map_err(io_error("create the output folder", path))?;
        Ok(Self { path: path.to_owned(), is_new, existing, token: rand::random() })
    }

    /// Takes a folder again that a killed process of the same run had claimed, and removes what that one left half-written.
    /// Files of `names` may be there where `are_own` says that they are the run's.
    ///
    /// # Errors
    /// [`OutputError`], as for a claim.
    pub fn claim_again(
        path: &Path,
        names: &[&str],
        claim: OutputClaim,
        are_own: impl FnOnce(&Path) -> bool,
    ) -> Result<Self, OutputError> {
        let existing = if claim.replaces { Existing::Replace } else { Existing::Refuse };
        let mut dir = Self::make(path, existing)?;
        (dir.is_new, dir.token) = (dir.is_new || claim.is_new, claim.token);
        if are_own(path) {
            dir.existing = Existing::Replace;
        }
        dir.check_free(names.iter().copied())?;
        for name in names.iter().chain(&[RESERVE]) {
            let left = dir.temporary(name);
            match fs::remove_file(&left) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(io_error("remove what was left of", &left)(error));
                }
                _ => {}
            }
        }
        dir.check_room()?;
        Ok(dir)
    }

    /// What another process of the run needs to claim the folder again.
    pub fn claimed(&self) -> OutputClaim {
        OutputClaim { is_new: self.is_new, replaces: self.existing == Existing::Replace, token: self.token }
    }

    fn check_room(&self) -> Result<(), OutputError> {
        let probe = self.temporary(RESERVE);
        let written = write_synced(&probe, &vec![0; RESERVE_BYTES]);
        let removed = fs::remove_file(&probe);
        written.and(removed).map_err(io_error("write to the output folder", &self.path))
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes all files, or none: each goes to a temporary name first, and is renamed once all are on disk.
    ///
    /// # Errors
    /// [`OutputError::Io`]; the folder is as it was, unless a rename fails half-way.
    pub fn write_all(&self, files: &[(String, String)]) -> Result<Vec<PathBuf>, OutputError> {
        // Another run may have written here since the folder was claimed.
        self.check_free(files.iter().map(|(name, _)| name.as_str()))?;
        let written = files.iter().try_for_each(|(name, text)| {
            let path = self.temporary(name);
            write_synced(&path, text.as_bytes()).map_err(io_error("write", &path))
        });
        if let Err(error) = written {
            for (name, _) in files {
                // The write error is what the user needs; a temporary file that was never made cannot be removed.
                drop(fs::remove_file(self.temporary(name)));
            }
            return Err(error);
        }
        let mut paths = Vec::new();
        for (name, _) in files {
            let path = self.path.join(name);
            fs::rename(self.temporary(name), &path).map_err(io_error("rename to", &path))?;
            paths.push(path);
        }
        Ok(paths)
    }

    /// Writes files into a folder of this name in the folder, whole or not at all, in the place of such a folder from before.
    ///
    /// # Errors
    /// [`OutputError::Io`]; the earlier folder is as it was.
    pub fn write_beside(&self, name: &str, files: &[(String, String)]) -> Result<Vec<PathBuf>, OutputError> {
        let (new, old, path) = (self.temporary(name), self.temporary(&format!("{name}.old")), self.path.join(name));
        let written = fill(&new, files).and_then(|()| {
            if path.exists() {
                fs::rename(&path, &old).map_err(io_error("replace", &path))?;
            }
            fs::rename(&new, &path).map_err(io_error("rename to", &path))
        });
        // What cannot be removed is in nobody's way: its name is a hidden one that only this run makes.
        fs::remove_dir_all(&old).ok();
        if written.is_err() {
            fs::remove_dir_all(&new).ok();
        }
        written.map(|()| files.iter().map(|(name, _)| path.join(name)).collect())
    }

    /// Takes the folder away again, if it was made here and nothing is in it: a run without files leaves none.
    pub fn abandon(&self) {
        if self.is_new {
            // A folder with something in it is not removed, which is as it should be.
            fs::remove_dir(&self.path).ok();
        }
    }

    fn check_free<'a>(&self, mut names: impl Iterator<Item = &'a str>) -> Result<(), OutputError> {
        if self.existing == Existing::Replace {
            return Ok(());
        }
        match names.find(|name| self.path.join(name).exists()) {
            Some(name) => Err(OutputError::Occupied { dir: self.path.clone(), name: name.to_owned() }),
            None => Ok(()),
        }
    }

    fn temporary(&self, name: &str) -> PathBuf {
        self.path.join(format!(".{name}.{:016x}.tmp", self.token))
    }
}

fn refuse_file(path: &Path) -> Result<(), OutputError> {
    if path.exists() && !path.is_dir() { Err(OutputError::NotAFolder(path.to_owned())) } else { Ok(()) }
}

/// Refuses a file that is there already, unless it is to be replaced. What is no file (a pipe, a device) is written to as it is.
///
/// # Errors
/// [`OutputError::Exists`]
pub fn refuse_existing(path: &Path, existing: Existing) -> Result<(), OutputError> {
    let is_there = existing == Existing::Refuse && path.is_file();
    if is_there { Err(OutputError::Exists(path.to_owned())) } else { Ok(()) }
}

/// Writes one file whole: whoever reads `path` sees the old text or the new one. What is no file (a pipe, a device) is written
/// to as it is.
///
/// # Errors
/// [`OutputError::Io`]; the file is as it was.
pub fn write_whole(path: &Path, text: &str) -> Result<(), OutputError> {
    write_together(&[(path.to_owned(), text.to_owned())])
}

/// The same of several files: no file is replaced before all are on disk.
///
/// # Errors
/// [`OutputError::Io`]; the files are as they were, unless a rename fails half-way.
pub fn write_together(files: &[(PathBuf, String)]) -> Result<(), OutputError> {
    let is_special = |path: &Path| fs::metadata(path).is_ok_and(|metadata| !metadata.is_file());
    let (special, plain): (Vec<_>, Vec<_>) = files.iter().partition(|(path, _)| is_special(path));
    let mut temporaries = Vec::new();
    let written = plain.into_iter().try_for_each(|(path, text)| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let temporary = path.with_file_name(format!(".{name}.{:016x}.tmp", rand::random::<u64>()));
        temporaries.push((temporary.clone(), path));
        write_synced(&temporary, text.as_bytes()).map_err(io_error("write", path))
    });
    let written = written.and_then(|()| {
        special.iter().try_for_each(|(path, text)| fs::write(path, text).map_err(io_error("write", path)))?;
        temporaries
            .iter()
            .try_for_each(|(temporary, path)| fs::rename(temporary, path).map_err(io_error("write", path)))
    });
    if written.is_err() {
        for (temporary, _) in &temporaries {
            // The error is what the user needs; what was renamed, or never made, cannot be removed.
            drop(fs::remove_file(temporary));
        }
    }
    written
}

/// Replaces a file that holds `old` by `new`, whole: whoever reads `path` sees one or the other. Mode and owner stay, or nothing is
/// changed; `path` itself is the file, not a link to it. Its other names (hard links) keep the old text.
///
/// # Errors
/// [`OutputError`]; the file is as it was.
pub fn rewrite(path: &Path, old: &[u8], new: &[u8]) -> Result<(), OutputError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let temporary = path.with_file_name(format!(".{name}.{:016x}.tmp", rand::random::<u64>()));
    let written = replace(path, &temporary, old, new);
    if written.is_err() {
        // The error is what the user needs; a temporary file that was never made cannot be removed.
        drop(fs::remove_file(&temporary));
    }
    written
}

fn replace(path: &Path, temporary: &Path, old: &[u8], new: &[u8]) -> Result<(), OutputError> {
    let before = fs::symlink_metadata(path).map_err(io_error("look at", path))?;
    if !before.is_file() {
        return Err(io_error("replace", path)(io::Error::other("it is no file")));
    }
    write_synced(temporary, new).map_err(io_error("write", temporary))?;
    let made = fs::metadata(temporary).map_err(io_error("look at", temporary))?;
    if (made.uid(), made.gid()) != (before.uid(), before.gid()) {
        chown(temporary, Some(before.uid()), Some(before.gid())).map_err(io_error("keep the owner of", path))?;
    }
    // After the owner, as that takes away set-user-id.
    fs::set_permissions(temporary, before.permissions()).map_err(io_error("keep the mode of", path))?;
    if fs::read(path).map_err(io_error("read", path))? != old {
        return Err(OutputError::Changed(path.to_owned()));
    }
    fs::rename(temporary, path).map_err(io_error("replace", path))
}

/// Makes a folder of files, in the place of what a killed process of the same run left there.
fn fill(folder: &Path, files: &[(String, String)]) -> Result<(), OutputError> {
    fs::remove_dir_all(folder).ok();
    fs::create_dir(folder).map_err(io_error("create", folder))?;
    files.iter().try_for_each(|(name, text)| {
        let path = folder.join(name);
        write_synced(&path, text.as_bytes()).map_err(io_error("write", &path))
    })
}

fn io_error(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> OutputError {
    let path = path.to_owned();
    move |source| OutputError::Io { action, path, source }
}

fn write_synced(path: &Path, bytes: &[u8]) -> io::Result<()> {
    // Never through a link, never onto a file that is there.
    let mut file = File::create_new(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: &[&str] = &["profile.toml"];

    fn file(name: &str, text: &str) -> (String, String) {
        (name.to_owned(), text.to_owned())
    }

    #[test]
    fn a_single_file_is_replaced_whole_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("trials.csv");
        for text in ["old", "new"] {
            write_whole(&path, text).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
        let error = write_whole(&dir.path().join("none/trials.csv"), "x").unwrap_err().to_string();
        assert!(error.contains("none/trials.csv: No such file"), "{error}");
        write_whole(Path::new("/dev/null"), "x").unwrap();
        assert!(!Path::new("/dev/null").is_file());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn of_several_files_all_are_replaced_or_none() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let files = |text: &str, names: [&str; 2]| names.map(|name| (at(name), text.to_owned()));
        write_together(&files("1", ["a", "b"])).unwrap();
        write_together(&files("2", ["a", "none/b"])).unwrap_err();
        assert_eq!(["a", "b"].map(|name| fs::read_to_string(at(name)).unwrap()), ["1", "1"]);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2, "no temporary file is left");
    }

    #[test]
    fn a_file_is_rewritten_with_its_mode_and_owner_or_not_at_all() {
        use std::os::unix::fs::PermissionsExt as _;

        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("job.sbatch");
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o750)).unwrap();
        // Only root can give a file away; for others the owner is their own.
        let owner = chown(&path, Some(1234), Some(2345)).is_ok().then_some((1234, 2345));
        rewrite(&path, b"old", b"new").unwrap();
        let metadata = fs::metadata(&path).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(metadata.permissions().mode() & 0o7777, 0o750);
        assert!(owner.is_none_or(|owner| owner == (metadata.uid(), metadata.gid())));
        let error = rewrite(&path, b"old", b"newer").unwrap_err().to_string();
        assert!(error.ends_with("job.sbatch was changed while it was looked at: run the command again"), "{error}");
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert!(rewrite(&dir.path().join("none"), b"", b"x").is_err());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "no temporary file is left");
    }

    #[test]
    fn files_of_an_earlier_run_are_kept_unless_they_may_be_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let out = OutputDir::claim(&dir.path().join("a/b"), NAMES, Existing::Refuse).unwrap();
        out.write_all(&[file("profile.toml", "1")]).unwrap();
        assert!(out.write_all(&[file("profile.toml", "2")]).is_err(), "another run was faster");
        assert!(OutputDir::look(out.path(), NAMES, Existing::Replace).is_ok());
        let looked = OutputDir::look(out.path(), NAMES, Existing::Refuse).unwrap_err().to_string();
        let error = OutputDir::claim(out.path(), NAMES, Existing::Refuse).unwrap_err();
        assert_eq!(error.to_string(), looked);
        assert!(error.to_string().ends_with("a/b already holds profile.toml of an earlier run"), "{error}");
        let again = OutputDir::claim(out.path(), NAMES, Existing::Replace).unwrap();
        again.write_all(&[file("profile.toml", "2"), file("nccl.conf", "")]).unwrap();
        assert_eq!(fs::read_to_string(out.path().join("profile.toml")).unwrap(), "2");
        assert_eq!(fs::read_dir(out.path()).unwrap().count(), 2, "no temporary file is left");
    }

    #[test]
    fn when_one_file_cannot_be_written_none_is() {
        let dir = tempfile::tempdir().unwrap();
        let out = OutputDir::claim(dir.path(), NAMES, Existing::Refuse).unwrap();
        let error = out.write_all(&[file("profile.toml", "1"), file("no/such/folder", "")]).unwrap_err();
        assert!(error.to_string().starts_with("write "), "{error}");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn what_is_written_beside_the_result_is_replaced_whole_or_stays() {
        let dir = tempfile::tempdir().unwrap();
        let out = OutputDir::claim(dir.path(), NAMES, Existing::Refuse).unwrap();
        let text = || fs::read_to_string(dir.path().join("so-far/profile.toml")).unwrap();
        let paths = out.write_beside("so-far", &[file("profile.toml", "1"), file("nccl.conf", "")]).unwrap();
        assert_eq!(paths, ["so-far/profile.toml", "so-far/nccl.conf"].map(|name| dir.path().join(name)));
        out.write_beside("so-far", &[file("profile.toml", "2")]).unwrap();
        assert_eq!((text(), fs::read_dir(dir.path().join("so-far")).unwrap().count()), ("2".to_owned(), 1));
        out.write_beside("so-far", &[file("profile.toml", "3"), file("no/such/folder", "")]).unwrap_err();
        assert_eq!(
            (text(), fs::read_dir(dir.path()).unwrap().count()),
            ("2".to_owned(), 1),
            "and nothing half-written"
        );
        assert!(out.check_free(NAMES.iter().copied()).is_ok(), "it is no result");
    }

    #[test]
    fn a_killed_run_takes_its_folder_again_and_leaves_nothing_half_written() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out");
        let claim = OutputDir::claim(&path, NAMES, Existing::Refuse).unwrap();
        for name in ["profile.toml", RESERVE] {
            fs::write(claim.temporary(name), "half").unwrap();
        }
        fs::write(path.join(".profile.toml.0.tmp"), "of another run").unwrap();
        let again = |are_own: bool| OutputDir::claim_again(&path, NAMES, claim.claimed(), |_| are_own);
        assert_eq!(again(false).unwrap(), claim, "a new one that refuses");
        let left: Vec<_> = fs::read_dir(&path).unwrap().flatten().map(|entry| entry.file_name()).collect();
        assert_eq!(left, [".profile.toml.0.tmp"]);
        fs::write(path.join("profile.toml"), "1").unwrap();
        assert!(again(false).is_err(), "another run was here");
        again(true).unwrap().write_all(&[file("profile.toml", "2")]).unwrap();
    }

    #[test]
    fn an_abandoned_folder_goes_only_if_it_is_new_and_empty() {
        let dir = tempfile::tempdir().unwrap();
        let claim = |path: &Path| OutputDir::claim(path, NAMES, Existing::Refuse).unwrap();
        claim(dir.path()).abandon();
        assert!(dir.path().exists(), "was there before");
        let new = dir.path().join("new");
        claim(&new).abandon();
        assert!(!new.exists());
        let out = claim(&new);
        out.write_all(&[file("summary.md", "x")]).unwrap();
        out.abandon();
        assert!(new.join("summary.md").exists());
    }

    #[test]
    fn a_file_in_the_way_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        fs::write(&path, "").unwrap();
        let error = OutputDir::claim(&path, NAMES, Existing::Refuse).unwrap_err();
        assert!(error.to_string().ends_with("x is not a folder"), "{error}");
    }
}
