//! Files that gdrtune sends, in a private folder that goes away with the agent.
//!
//! A bundle is a flat set of files. A name that could lead out of its folder is refused before anything is written.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, ErrorKind, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use gdrtune_profiles::install::is_plain_name;

use super::{incarnation::Incarnation, leftovers};

/// Folder names that are tried before giving up; another user may sit on some of them.
const ATTEMPTS: u32 = 100;

/// Name of a program that is stored.
const PROGRAM_FILE: &str = "gdrtune";

/// Why a bundle was not stored.
#[derive(Debug, thiserror::Error)]
pub(super) enum BundleError {
    #[error("`{0}` is no plain file name")]
    Name(String),
    #[error("`{0}` is there twice")]
    Twice(String),
    #[error("write {path}: {source}")]
    Write { path: PathBuf, source: io::Error },
    #[error("read /proc/self: {0}")]
    Own(io::Error),
    #[error("copy {from} to {to}: {source}")]
    Copy { from: PathBuf, to: PathBuf, source: io::Error },
}

/// The bundles of one agent.
#[derive(Debug)]
pub(super) struct Bundles {
    parent: PathBuf,
    home: Option<PathBuf>,
    program: Option<PathBuf>,
    folders: BTreeMap<u32, PathBuf>,
    /// Makes every folder name new, so that a bundle that is stored again leaves running workers their files.
    stored: u32,
}

impl Bundles {
    /// No bundles yet; their folder will be made inside `parent`.
    pub(super) fn new(parent: PathBuf) -> Self {
        Self { parent, home: None, program: None, folders: BTreeMap::new(), stored: 0 }
    }

    /// The folder of a bundle.
    pub(super) fn folder(&self, bundle: u32) -> Option<&Path> {
        self.folders.get(&bundle).map(PathBuf::as_path)
    }

    /// Stores a bundle; one that has the same number is replaced.
    pub(super) fn store(&mut self, bundle: u32, files: &[(String, Vec<u8>)]) -> Result<(), BundleError> {
        let mut names = BTreeSet::new();
        for (name, _) in files {
            if !is_plain_name(name) {
                return Err(BundleError::Name(name.clone()));
            }
            if !names.insert(name) {
                return Err(BundleError::Twice(name.clone()));
            }
        }
        let folder = self.make_folder(&bundle.to_string())?;
        for (name, contents) in files {
            let path = folder.join(name);
            write_new(&path, contents).map_err(|source| BundleError::Write { path, source })?;
        }
        self.folders.insert(bundle, folder);
        Ok(())
    }

    /// Stores one file of our own beside the bundles, for as long as the agent lives.
    pub(super) fn store_own(&mut self, name: &str, contents: &[u8]) -> Result<PathBuf, BundleError> {
        let path = self.home()?.join(name);
        write_new(&path, contents).map_err(|source| BundleError::Write { path: path.clone(), source })?;
        Ok(path)
    }

    /// Makes an empty folder beside the bundles. It goes away with the agent at the latest.
    pub(super) fn make_folder(&mut self, name: &str) -> Result<PathBuf, BundleError> {
        self.stored += 1;
        let name = format!("{name}.{}", self.stored);
        let folder = self.home()?.join(name);
        private_folder(&folder).map_err(|source| BundleError::Write { path: folder.clone(), source })?;
        Ok(folder)
    }

    /// Puts a program beside the bundles, once: a hard link to it where that is possible, else a copy. `is_link` says that
    /// its path is the kernel's link to a file that may have no name any more.
    pub(super) fn store_program(&mut self, program: &Path, is_link: bool) -> Result<PathBuf, BundleError> {
        if let Some(stored) = &self.program {
            return Ok(stored.clone());
        }
        let path = self.home()?.join(PROGRAM_FILE);
        let link = || fs::hard_link(program.canonicalize()?, &path);
        // Another file system, or a file of another owner (`fs.protected_hardlinks`, man 5 proc).
        if is_link || link().is_err() {
            copy_program(program, &path).map_err(|source| BundleError::Copy {
                from: program.into(),
                to: path.clone(),
                source,
            })?;
        }
        Ok(self.program.insert(path).clone())
    }

    /// The private folder that holds everything that was stored.
    pub(super) fn home(&mut self) -> Result<&Path, BundleError> {
        let home = match self.home.take() {
            Some(home) => home,
            None => make_home(&self.parent)?,
        };
        Ok(self.home.insert(home))
    }
}

impl Drop for Bundles {
    fn drop(&mut self) {
        if let Some(home) = &self.home {
            // The agent is ending; what cannot be removed now is left to the next one.
            fs::remove_dir_all(home).ok();
        }
    }
}

fn make_home(parent: &Path) -> Result<PathBuf, BundleError> {
    let own = Incarnation::own().map_err(BundleError::Own)?;
    let mut failure = None;
    for attempt in 0..ATTEMPTS {
        let path = parent.join(leftovers::folder_name(&own, attempt));
        match private_folder(&path) {
            Ok(()) => return Ok(path),
            Err(source) => {
                let taken = source.kind() == ErrorKind::AlreadyExists;
                failure = Some(BundleError::Write { path, source });
                if !taken {
                    break;
                }
            }
        }
    }
    Err(failure.unwrap_or_else(|| BundleError::Write { path: parent.into(), source: ErrorKind::AlreadyExists.into() }))
}

/// Makes a folder for nobody else; fails where anything, a link included, has that name already.
fn private_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(path)
}

/// Writes a private file; fails where anything has that name already.
pub(super) fn write_new(path: &Path, contents: &[u8]) -> io::Result<()> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?.write_all(contents)
}

fn copy_program(from: &Path, to: &Path) -> io::Result<()> {
    let mut target = OpenOptions::new().write(true).create_new(true).mode(0o700).open(to)?;
    io::copy(&mut File::open(from)?, &mut target).map(drop)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn file(name: &str, contents: &str) -> (String, Vec<u8>) {
        (name.to_owned(), contents.as_bytes().to_vec())
    }

    #[test]
    fn stores_privately_and_cleans_up() {
        let parent = tempfile::tempdir().unwrap();
        let mut bundles = Bundles::new(parent.path().into());
        assert_eq!(bundles.folder(1), None);
        bundles.store(1, &[file("a.env", "A=1\n"), file("empty", "")]).unwrap();
        let first = bundles.folder(1).unwrap().to_owned();
        assert_eq!(fs::read_to_string(first.join("a.env")).unwrap(), "A=1\n");
        for (path, mode) in [(first.join("a.env"), 0o600), (first.clone(), 0o700), (first.join(".."), 0o700)] {
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, mode, "{path:?}");
        }

        bundles.store(1, &[file("a.env", "A=2\n")]).unwrap();
        assert_eq!(fs::read_to_string(bundles.folder(1).unwrap().join("a.env")).unwrap(), "A=2\n");
        assert!(first.join("a.env").exists(), "workers may still read the replaced bundle");

        drop(bundles);
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_program_is_stored_once_and_runs() {
        let parent = tempfile::tempdir().unwrap();
        let own = std::env::current_exe().unwrap();
        for (program, is_link) in [(own.as_path(), false), (Path::new("/proc/self/exe"), true)] {
            let mut bundles = Bundles::new(parent.path().into());
            let stored = bundles.store_program(program, is_link).unwrap();
            assert_eq!(stored.parent(), Some(bundles.home().unwrap()));
            let file = fs::symlink_metadata(&stored).unwrap();
            assert_eq!((file.is_file(), file.len()), (true, fs::metadata(&own).unwrap().len()), "no link to a link");
            assert_eq!(file.permissions().mode() & 0o700, 0o700);
            assert_eq!(bundles.store_program(Path::new("/nowhere"), false).unwrap(), stored);
        }
        let error = Bundles::new(parent.path().into()).store_program(Path::new("/nowhere"), false).unwrap_err();
        assert!(error.to_string().starts_with("copy /nowhere to "), "{error}");
    }

    #[test]
    fn hostile_names_write_nothing() {
        let parent = tempfile::tempdir().unwrap();
        let mut bundles = Bundles::new(parent.path().into());
        let long = "x".repeat(256);
        for name in ["", ".", "..", "../a", "/etc/passwd", "a/b", "a\\b", "a\0b", "a\nb", &long] {
            let error = bundles.store(1, &[file("fine", ""), file(name, "")]).unwrap_err();
            assert_eq!(error.to_string(), format!("`{name}` is no plain file name"));
        }
        let error = bundles.store(1, &[file("a", ""), file("a", "")]).unwrap_err();
        assert_eq!(error.to_string(), "`a` is there twice");
        assert_eq!(bundles.folder(1), None);
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_squatter_is_walked_around_and_a_missing_parent_is_named() {
        let parent = tempfile::tempdir().unwrap();
        let squat = parent.path().join(leftovers::folder_name(&Incarnation::own().unwrap(), 0));
        std::os::unix::fs::symlink("/nowhere", squat).unwrap();
        let mut bundles = Bundles::new(parent.path().into());
        bundles.store(1, &[file("a", "")]).unwrap();
        assert!(bundles.folder(1).unwrap().to_str().unwrap().contains("-1/"));

        let error = Bundles::new(parent.path().join("missing")).store(1, &[]).unwrap_err().to_string();
        assert!(error.contains("missing/gdrtune-agent-"), "{error}");
    }
}
