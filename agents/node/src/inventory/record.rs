//! Copies what an inventory reads of a machine into a folder, from which it can be read again elsewhere: for a report of a fault, or to compare
//! with later.
//!
//! The reader tells what it looks at ([`Trace`]), so that nothing else is copied: no process of others, no file of users. Of files that hold more
//! than is looked for (mounts, the kernel's command line, libraries), only that is kept.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsStr,
    fs::{self, File, Permissions},
    io::{self, Write as _},
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Component, Path, PathBuf},
};

use gdrtune_profiles::grammar::smi_log;

use super::{RECORDED_LOG, Reader, nvidia_smi, recorded, system};

/// Most bytes of a record. A machine with 8 GPUs and 32 HCAs has some hundred KiB.
const MOST_BYTES: u64 = 64 << 20;

/// Most files, folders and links of a record. The same machine has about ten thousand, most of them GIDs.
const MOST_ENTRIES: usize = 200_000;

/// Most links that are followed on one path (Linux `include/linux/namei.h`, `MAXSYMLINKS`).
const MOST_LINKS: usize = 40;

/// Folders in which it matters what else is there than what is read: devices, groups, ports. Of others, such as those of libraries, it does not.
const LISTED: [&str; 3] = ["sys", "proc", "dev/infiniband"];

/// What a reader has looked at, below its root.
#[derive(Debug, Default)]
pub(super) struct Trace {
    /// Everything that was asked for, by the path that it was asked by.
    paths: BTreeSet<String>,
    /// Folders whose names were read.
    folders: BTreeSet<String>,
    /// What was read of files, by where they are behind links.
    files: BTreeMap<PathBuf, Content>,
}

/// What there was to read.
#[derive(Debug)]
enum Content {
    Bytes(Vec<u8>),
    /// This user may not read it.
    Denied,
}

impl Trace {
    pub(super) fn asked(&mut self, path: &str) {
        self.paths.insert(path.to_owned());
    }

    pub(super) fn listed(&mut self, path: &str) {
        self.folders.insert(path.to_owned());
    }

    pub(super) fn read(&mut self, root: &Path, path: &str, result: &io::Result<Vec<u8>>) {
        let Some(place) = place(root, &root.join(path)) else { return };
        let content = match result {
            Ok(bytes) => Content::Bytes(system::kept(path, bytes)),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Content::Denied,
            Err(_) => return,
        };
        // What is read again may have changed meanwhile.
        self.files.entry(place).or_insert(content);
    }
}

impl Trace {
    /// Whether a path is about a process that says nothing of the machine.
    fn is_of_others(&self, path: &Path) -> bool {
        let process = path.strip_prefix("proc").ok().and_then(|rest| rest.iter().next()?.to_str()?.parse::<u32>().ok());
        let is_empty = |content: &Content| matches!(content, Content::Bytes(bytes) if bytes.is_empty());
        process.is_some_and(|pid| pid != 1) && self.files.get(path).is_none_or(is_empty)
    }
}

/// Where a file is below `root`, behind all links.
fn place(root: &Path, path: &Path) -> Option<PathBuf> {
    let place = fs::canonicalize(path).ok()?;
    Some(place.strip_prefix(fs::canonicalize(root).ok()?).ok()?.to_owned())
}

/// A machine that cannot be recorded.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// Something is there already.
    #[error("{} is there already", .0.display())]
    Exists(PathBuf),
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
    /// More than a machine has.
    #[error("a record would have more than {MOST_ENTRIES} entries or {} MiB", MOST_BYTES >> 20)]
    TooMuch,
    /// What was copied reads otherwise than the machine.
    #[error("the record reads otherwise than the machine: {0}")]
    Differs(&'static str),
}

/// What was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recorded {
    /// Files, folders and links.
    pub entries: usize,
    /// Bytes of all files.
    pub bytes: u64,
}

/// Writes a record of the machine whose `/proc`, `/sys` and `/etc` are under `root` to a new folder, from which [`super::read_recorded`] reads
/// it. All or nothing. Of this machine it asks `nvidia-smi -q -x`, too.
///
/// # Errors
/// [`RecordError`]; nothing is left behind.
pub fn record(root: &Path, to: &Path) -> Result<Recorded, RecordError> {
    if fs::symlink_metadata(to).is_ok() {
        return Err(RecordError::Exists(to.to_owned()));
    }
    let mut reader = Reader::traced(root);
    let log = if root == Path::new("/") { nvidia_smi::log() } else { reader.value(RECORDED_LOG) };
    let log = log.map(|text| smi_log::without_private(&text));
    let (told, trace) = recorded(reader, log.as_deref());
    let name = to.file_name().unwrap_or_default().to_string_lossy();
    let temporary = to.with_file_name(format!(".{name}.{}.tmp", std::process::id()));
    let written = Copy::new(root, &temporary, &trace).all(log.as_deref()).and_then(|copied| {
        check(&told, &temporary)?;
        fs::rename(&temporary, to).map_err(failed("rename to", to))?;
        Ok(copied)
    });
    if written.is_err() {
        // The error is what the user needs.
        fs::remove_dir_all(&temporary).ok();
    }
    written
}

/// Whether the copy tells the same; why something could not be read is in other words there.
fn check(told: &gdrtune_wire::Inventory, copy: &Path) -> Result<(), RecordError> {
    let mut again = super::read_recorded(copy);
    again.unreadable.clone_from(&told.unreadable);
    let differs = |what, is_same: bool| if is_same { Ok(()) } else { Err(RecordError::Differs(what)) };
    differs("GPUs, HCAs or how they are wired", again.topology == told.topology && again.bridges == told.bridges)?;
    differs("details of devices", again.gpu_details == told.gpu_details && again.hca_details == told.hca_details)?;
    differs(
        "ports or network devices",
        again.port_details == told.port_details && again.net_details == told.net_details,
    )?;
    differs("the system", again.system == told.system)?;
    differs("the rest", again == *told)
}

fn failed<'p>(action: &'static str, path: &'p Path) -> impl FnOnce(io::Error) -> RecordError + use<'p> {
    move |source| RecordError::Io { action, path: path.to_owned(), source }
}

/// A record in the making.
struct Copy<'a> {
    root: &'a Path,
    to: &'a Path,
    trace: &'a Trace,
    /// Paths that are done, without links in them and with.
    done: BTreeSet<PathBuf>,
    written: Recorded,
}

impl<'a> Copy<'a> {
    fn new(root: &'a Path, to: &'a Path, trace: &'a Trace) -> Self {
        Self { root, to, trace, done: BTreeSet::new(), written: Recorded { entries: 0, bytes: 0 } }
    }

    fn all(mut self, log: Option<&str>) -> Result<Recorded, RecordError> {
        fs::create_dir(self.to).map_err(failed("create", self.to))?;
        // Before the one that a tree has, processes and all.
        if let Some(log) = log {
            self.file(Path::new(RECORDED_LOG), log.as_bytes())?;
        }
        for path in self.trace.paths.iter().map(Path::new).filter(|path| !self.trace.is_of_others(path)) {
            self.path(path, 0)?;
        }
        let is_listed = |folder: &&String| LISTED.iter().any(|part| Path::new(folder).starts_with(part));
        for folder in self.trace.folders.iter().filter(is_listed) {
            for entry in fs::read_dir(self.root.join(folder)).into_iter().flatten().flatten() {
                self.path(&Path::new(folder).join(entry.file_name()), 0)?;
            }
        }
        Ok(self.written)
    }

    /// Makes what is at a path: the folders and links on the way, what the links lead to, and the file or folder itself.
    fn path(&mut self, path: &Path, links: usize) -> Result<(), RecordError> {
        if !self.done.insert(path.to_owned()) || links > MOST_LINKS {
            return Ok(());
        }
        let mut done = PathBuf::new();
        let mut parts = path.components();
        while let Some(part) = parts.next() {
            let next = done.join(part);
            let Ok(metadata) = fs::symlink_metadata(self.root.join(&next)) else { return Ok(()) };
            if metadata.is_symlink() {
                let Ok(target) = fs::read_link(self.root.join(&next)) else { return Ok(()) };
                // One that leads out of a tree is no part of it.
                let Some(target) = resolved(&done, &target) else { return Ok(()) };
                self.link(&next, &target)?;
                return self.path(&target.join(parts.as_path()), links + 1);
            }
            if metadata.is_dir() {
                self.folder(&next)?;
            } else if !self.to.join(&next).exists() {
                match self.trace.files.get(&next) {
                    Some(Content::Bytes(bytes)) => self.file(&next, bytes)?,
                    // That it is there is what matters.
                    None => self.file(&next, &[])?,
                    Some(Content::Denied) => {
                        self.file(&next, &[])?;
                        let at = self.to.join(&next);
                        fs::set_permissions(&at, Permissions::from_mode(0o000))
                            .map_err(failed("change the mode of", &at))?;
                    }
                }
            }
            done = next;
        }
        Ok(())
    }

    fn folder(&mut self, path: &Path) -> Result<(), RecordError> {
        let at = self.to.join(path);
        if at.is_dir() {
            return Ok(());
        }
        self.count(0)?;
        fs::create_dir(&at).map_err(failed("create", &at))
    }

    /// A link to what is at `target` below the root, relative wherever the record lies.
    fn link(&mut self, path: &Path, target: &Path) -> Result<(), RecordError> {
        let at = self.to.join(path);
        if fs::symlink_metadata(&at).is_ok() {
            return Ok(());
        }
        self.count(0)?;
        let up = "../".repeat(path.components().count() - 1);
        symlink(Path::new(&up).join(target), &at).map_err(failed("link", &at))
    }

    fn file(&mut self, path: &Path, bytes: &[u8]) -> Result<(), RecordError> {
        self.count(bytes.len() as u64)?;
        let at = self.to.join(path);
        let write = || File::create_new(&at)?.write_all(bytes);
        write().map_err(failed("write", &at))
    }

    fn count(&mut self, bytes: u64) -> Result<(), RecordError> {
        self.written.entries += 1;
        self.written.bytes += bytes;
        let is_too_much = self.written.entries > MOST_ENTRIES || self.written.bytes > MOST_BYTES;
        if is_too_much { Err(RecordError::TooMuch) } else { Ok(()) }
    }
}

/// Where a link in `folder` leads to below the root; absolute ones are the machine's. `None` where it leads out.
fn resolved(folder: &Path, target: &Path) -> Option<PathBuf> {
    let mut path = if target.is_absolute() { PathBuf::new() } else { folder.to_owned() };
    for part in target.components() {
        match part {
            Component::Normal(name) => path.push::<&OsStr>(name),
            Component::ParentDir => {
                if !path.pop() {
                    return None;
                }
            }
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    Some(path)
}

#[cfg(test)]
#[path = "record_tests.rs"]
mod tests;
