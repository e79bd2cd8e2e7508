//! Installations: files that stay in a folder of the node when the agent is gone.
//!
//! A folder holds an installation where its manifest says so, and only what the manifest names, with the hash that it
//! names, counts as ours: everything else is left alone unless the client forces it. New files are complete on disk before
//! the first one takes its name; a failure on the way puts the old ones back.

use std::{
    fs::{self, DirBuilder, File, OpenOptions, Permissions},
    io::{self, ErrorKind, Read as _, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _},
    path::{Component, Path, PathBuf},
};

use gdrtune_profiles::install::{MANIFEST_FILE, Manifest, ManifestError, ManifestFile, PLUGIN_FILE, is_plain_name};
use gdrtune_wire::{InstallOutcome, Installation};
use sha2::{Digest as _, Sha256};

/// What users of the node may do with the folders that are made here.
const FOLDER_MODE: u32 = 0o755;
/// What users may do with the files; the plugin is loaded as a program is.
const FILE_MODE: u32 = 0o644;
const PLUGIN_MODE: u32 = 0o755;

/// Larger files are none of ours: the plugin has about half a megabyte.
const MOST_FILE_BYTES: u64 = 64 << 20;

/// Why an installation was not made, looked at or removed.
#[derive(Debug, thiserror::Error)]
enum InstallError {
    #[error("{action} {}: {source}", path.display())]
    Io { action: &'static str, path: PathBuf, source: io::Error },
    #[error("`{0}` cannot be installed to: give an absolute path without `..` and control characters")]
    Folder(String),
    #[error("{} is not a folder", .0.display())]
    NotAFolder(PathBuf),
    #[error("`{0}` is no plain file name")]
    Name(String),
    #[error("this agent carries no tuner plugin")]
    NoPlugin,
    #[error("{} is no regular file of at most 64 MiB: move it away first", .0.display())]
    NotAFile(PathBuf),
    #[error("{} cannot be trusted: {cause}; --force installs over it", path.display())]
    Manifest { path: PathBuf, cause: ManifestError },
    #[error("{} was changed since it was installed, or was put there by somebody else; --force replaces it", .0.display())]
    Foreign(PathBuf),
    #[error("make the manifest: {0}")]
    NewManifest(ManifestError),
}

fn io_error(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> InstallError {
    let path = path.to_owned();
    move |source| InstallError::Io { action, path, source }
}

/// Puts the files in place. All of them, or none.
pub(super) fn install(installation: &Installation, plugin: Option<&[u8]>) -> InstallOutcome {
    match try_to_install(installation, plugin) {
        Ok(files) => InstallOutcome::Installed { files },
        Err(error) => InstallOutcome::Failed(error.to_string()),
    }
}

/// Removes what the manifest names.
pub(super) fn uninstall(folder: &str, force: bool) -> InstallOutcome {
    let result = check_folder(folder).and_then(|folder| try_to_uninstall(&folder, force));
    result.unwrap_or_else(|error| InstallOutcome::Failed(error.to_string()))
}

/// Compares the files with the manifest.
pub(super) fn inspect(folder: &str) -> InstallOutcome {
    let result = check_folder(folder).and_then(|folder| try_to_inspect(&folder));
    result.unwrap_or_else(|error| InstallOutcome::Failed(error.to_string()))
}

fn check_folder(folder: &str) -> Result<PathBuf, InstallError> {
    let path = PathBuf::from(folder);
    let climbs = path.components().any(|component| component == Component::ParentDir);
    if !path.is_absolute() || climbs || folder.contains(|c: char| c.is_control()) {
        return Err(InstallError::Folder(folder.escape_debug().to_string()));
    }
    Ok(path)
}

fn try_to_install(installation: &Installation, plugin: Option<&[u8]>) -> Result<Vec<String>, InstallError> {
    let folder = check_folder(&installation.folder)?;
    let mut files: Vec<(&str, &[u8])> = Vec::new();
    if installation.with_plugin {
        files.push((PLUGIN_FILE, plugin.ok_or(InstallError::NoPlugin)?));
    }
    files.extend(installation.files.iter().map(|(name, bytes)| (name.as_str(), bytes.as_slice())));
    if let Some((name, _)) = files.iter().find(|(name, _)| !is_plain_name(name)) {
        return Err(InstallError::Name(name.escape_debug().to_string()));
    }
    let hashed = files.iter().map(|(name, bytes)| ManifestFile { name: (*name).to_owned(), sha256: sha256(bytes) });
    let manifest = Manifest { files: hashed.collect(), ..installation.manifest.clone() };
    let text = manifest.to_json().map_err(InstallError::NewManifest)?;
    files.push((MANIFEST_FILE, text.as_bytes()));

    let made = MadeFolders::make(&folder)?;
    let old = look_at_old(&folder, &manifest, installation.force)?;
    let mut change = Change { folder: &folder, token: token(), old, staged: Vec::new() };
    for (name, bytes) in &files {
        change.stage(name, bytes)?;
    }
    change.commit(&manifest)?;
    made.keep();
    Ok(files.iter().map(|(name, _)| (*name).to_owned()).collect())
}

/// What a folder holds under the names of the old installation and of the new one.
struct Old {
    /// Names and contents, in no order of meaning.
    files: Vec<(String, Vec<u8>)>,
}

/// Reads the files that will be replaced or removed, and refuses to touch those that are not ours.
fn look_at_old(folder: &Path, new: &Manifest, force: bool) -> Result<Old, InstallError> {
    let mut old = Old { files: Vec::new() };
    let manifest = match read_manifest(folder) {
        Ok(manifest) => manifest,
        Err(InstallError::Manifest { .. }) if force => None,
        Err(error) => return Err(error),
    };
    let new_names = new.files.iter().map(|file| file.name.as_str());
    let gone = manifest.iter().flat_map(|manifest| &manifest.files).map(|file| file.name.as_str());
    let mut names: Vec<&str> = new_names.chain(gone.filter(|name| new.sha256(name).is_none())).collect();
    names.push(MANIFEST_FILE);
    for name in names {
        let path = folder.join(name);
        let Some(bytes) = read_file(&path)? else { continue };
        let hash = sha256(&bytes);
        // What has the new contents already may come from an installation that was cut short, or from another node that
        // shares this folder.
        let known = [manifest.as_ref().and_then(|manifest| manifest.sha256(name)), new.sha256(name)];
        if name != MANIFEST_FILE && !force && !known.contains(&Some(hash.as_str())) {
            return Err(InstallError::Foreign(path));
        }
        old.files.push((name.to_owned(), bytes));
    }
    Ok(old)
}

/// A change of a folder. Dropped before it is complete, it leaves no temporary file.
struct Change<'a> {
    folder: &'a Path,
    /// Makes temporary names that nobody can have prepared, and that no other node that shares the folder uses.
    token: u64,
    old: Old,
    /// Names whose new contents are on disk, in the order in which they are put in place.
    staged: Vec<String>,
}

impl Change<'_> {
    fn temporary(&self, name: &str) -> PathBuf {
        self.folder.join(format!(".{name}.{:016x}.tmp", self.token))
    }

    fn stage(&mut self, name: &str, bytes: &[u8]) -> Result<(), InstallError> {
        let path = self.temporary(name);
        self.staged.push(name.to_owned());
        write_new(&path, bytes, mode(name)).map_err(io_error("write", &path))
    }

    /// Gives every staged file its name, the manifest last, and removes what the new installation does not have.
    fn commit(self, new: &Manifest) -> Result<(), InstallError> {
        let is_new = |name: &str| name == MANIFEST_FILE || new.sha256(name).is_some();
        let gone: Vec<String> = self.old.files.iter().map(|(name, _)| name.clone()).filter(|n| !is_new(n)).collect();
        let (manifest, files): (Vec<_>, Vec<_>) = self.staged.iter().partition(|name| *name == MANIFEST_FILE);
        let mut done: Vec<&str> = Vec::new();
        let steps = files.into_iter().chain(&gone).chain(manifest);
        let mut result = Ok(());
        for name in steps {
            let path = self.folder.join(name);
            result = if is_new(name) {
                fs::rename(self.temporary(name), &path).map_err(io_error("replace", &path))
            } else {
                remove_if_there(&path).map_err(io_error("remove", &path))
            };
            if result.is_err() {
                break;
            }
            done.push(name);
        }
        if result.is_err() {
            self.restore(&done);
        }
        result
    }

    /// Puts back what was there. Where that fails too, the first error is still the one that says why.
    fn restore(&self, names: &[&str]) {
        for name in names.iter().rev() {
            let path = self.folder.join(name);
            let old = self.old.files.iter().find(|(old, _)| old == name);
            let temporary = self.temporary(&format!("{name}.old"));
            let restored = match old {
                None => remove_if_there(&path),
                Some((_, bytes)) => {
                    write_new(&temporary, bytes, mode(name)).and_then(|()| fs::rename(&temporary, &path))
                }
            };
            if restored.is_err() {
                remove_if_there(&temporary).ok();
            }
        }
    }
}

impl Drop for Change<'_> {
    fn drop(&mut self) {
        for name in &self.staged {
            // What has its name already is not there any more.
            fs::remove_file(self.temporary(name)).ok();
        }
    }
}

fn try_to_uninstall(folder: &Path, force: bool) -> Result<InstallOutcome, InstallError> {
    let Some(manifest) = read_manifest(folder)? else { return Ok(InstallOutcome::NotInstalled) };
    let (mut removed, mut kept, mut kept_files) = (Vec::new(), Vec::new(), Vec::new());
    for file in &manifest.files {
        match remove_ours(&folder.join(&file.name), file, force) {
            Ok(true) => removed.push(file.name.clone()),
            Ok(false) => {}
            Err(why) => {
                kept.push(why);
                kept_files.push(file.clone());
            }
        }
    }
    let path = folder.join(MANIFEST_FILE);
    if kept.is_empty() {
        remove_if_there(&path).map_err(io_error("remove", &path))?;
        removed.push(MANIFEST_FILE.to_owned());
        // One that is not empty holds files of others, and stays.
        fs::remove_dir(folder).ok();
    } else {
        // So that it can be told later what is still ours, and removed by force.
        let rest = Manifest { files: kept_files, ..manifest };
        let text = rest.to_json().map_err(InstallError::NewManifest)?;
        let mut change = Change { folder, token: token(), old: Old { files: Vec::new() }, staged: Vec::new() };
        change.stage(MANIFEST_FILE, text.as_bytes())?;
        let temporary = change.temporary(MANIFEST_FILE);
        fs::rename(&temporary, &path).map_err(io_error("replace", &path))?;
    }
    Ok(InstallOutcome::Uninstalled { removed, kept })
}

/// Removes a file if it is as it was installed, or by force. Returns whether it was there; the error says why it is kept.
fn remove_ours(path: &Path, file: &ManifestFile, force: bool) -> Result<bool, String> {
    let Some(bytes) = read_file(path).map_err(|error| error.to_string())? else { return Ok(false) };
    if !force && sha256(&bytes) != file.sha256 {
        return Err(format!("{} was changed since it was installed", path.display()));
    }
    remove_if_there(path).map_err(|error| format!("remove {}: {error}", path.display()))?;
    Ok(true)
}

fn try_to_inspect(folder: &Path) -> Result<InstallOutcome, InstallError> {
    let Some(manifest) = read_manifest(folder)? else { return Ok(InstallOutcome::NotInstalled) };
    let finding = |file: &ManifestFile| {
        let path = folder.join(&file.name);
        match read_file(&path) {
            Ok(Some(bytes)) if sha256(&bytes) == file.sha256 => None,
            Ok(Some(_)) => Some(format!("{} was changed since it was installed", path.display())),
            Ok(None) => Some(format!("{} is missing", path.display())),
            Err(error) => Some(error.to_string()),
        }
    };
    let findings = manifest.files.iter().filter_map(finding).collect();
    Ok(InstallOutcome::Inspected { manifest, findings })
}

fn read_manifest(folder: &Path) -> Result<Option<Manifest>, InstallError> {
    let path = folder.join(MANIFEST_FILE);
    let Some(bytes) = read_file(&path)? else { return Ok(None) };
    let manifest = Manifest::parse(&String::from_utf8_lossy(&bytes));
    manifest.map(Some).map_err(|cause| InstallError::Manifest { path, cause })
}

/// The contents of a regular file; `None` where there is nothing. Never through a link, and never waits for a pipe.
fn read_file(path: &Path) -> Result<Option<Vec<u8>>, InstallError> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        // Where the folder itself is a file.
        Err(error) if error.kind() == ErrorKind::NotADirectory => return Ok(None),
        Err(error) if error.raw_os_error() == Some(libc::ELOOP) => {
            return Err(InstallError::NotAFile(path.to_owned()));
        }
        Err(error) => return Err(io_error("read", path)(error)),
    };
    let metadata = file.metadata().map_err(io_error("read", path))?;
    if !metadata.is_file() || metadata.len() > MOST_FILE_BYTES {
        return Err(InstallError::NotAFile(path.to_owned()));
    }
    let mut bytes = Vec::new();
    file.take(MOST_FILE_BYTES).read_to_end(&mut bytes).map_err(io_error("read", path))?;
    Ok(Some(bytes))
}

/// Writes a file that is not there yet, whole and on disk, with these permissions whatever the umask.
fn write_new(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let mut file = File::create_new(path)?;
    file.write_all(bytes)?;
    file.set_permissions(Permissions::from_mode(mode))?;
    file.sync_all()
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

fn mode(name: &str) -> u32 {
    if name == PLUGIN_FILE { PLUGIN_MODE } else { FILE_MODE }
}

fn sha256(bytes: &[u8]) -> String {
    format!("{:x}", Sha256::digest(bytes))
}

fn token() -> u64 {
    let mut bytes = [0; 8];
    // Where the kernel has no randomness to give, a name that is taken is an error and nothing worse.
    rustix::rand::getrandom(&mut bytes[..], rustix::rand::GetRandomFlags::empty()).ok();
    u64::from_ne_bytes(bytes)
}

/// Folders that were made on the way to one. Dropped, they go away again, if nothing is in them.
struct MadeFolders(Vec<PathBuf>);

impl MadeFolders {
    fn make(folder: &Path) -> Result<Self, InstallError> {
        let is_missing = |path: &&Path| fs::symlink_metadata(path).is_err_and(|e| e.kind() == ErrorKind::NotFound);
        let missing: Vec<&Path> = folder.ancestors().take_while(is_missing).collect();
        let mut made = Self(Vec::new());
        for path in missing.into_iter().rev() {
            match DirBuilder::new().mode(FOLDER_MODE).create(path) {
                Ok(()) => made.0.push(path.to_owned()),
                // Another node may share it.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(io_error("create", path)(error)),
            }
            // Others must reach the files whatever the umask.
            let permissions = Permissions::from_mode(FOLDER_MODE);
            fs::set_permissions(path, permissions).map_err(io_error("set the permissions of", path))?;
        }
        if folder.is_dir() { Ok(made) } else { Err(InstallError::NotAFolder(folder.to_owned())) }
    }

    fn keep(mut self) {
        self.0.clear();
    }
}

impl Drop for MadeFolders {
    fn drop(&mut self) {
        for folder in self.0.iter().rev() {
            fs::remove_dir(folder).ok();
        }
    }
}

#[cfg(test)]
#[path = "install_tests.rs"]
mod tests;
