//! The lock of a node: two runs that measure on it at the same time would measure each other.
//!
//! It is a folder that every user of the node can write to (`/tmp/gdrtune-lock`, sticky like `/tmp` itself), with one small
//! file for each agent that holds the node. The file's name says which process that is ([`Incarnation`]) and which client
//! it serves: agents of one client share the node. Its text, readable by all, says what others are told. Looking and entering
//! oneself are one step under `flock(2)` on the folder, so of two that come at once one sees the other.
//!
//! A holder is alive while its process runs *and* its file is locked by `flock(2)`, which the kernel undoes however the
//! process ends. So a killed agent blocks nobody; whoever comes next removes what it left, where it may. Holders in another PID
//! namespace or on another machine (a shared folder) do not count.
//!
//! Others are not trusted: nothing is followed, created over, or opened that could block; their files are read up to a
//! limit, and whose they are is what the file system says. What another user can do is what running gdrtune does, too: hold the
//! node.

use std::{
    ffi::CStr,
    fs::File,
    io::{self, Read as _, Write as _},
    os::fd::{AsFd as _, OwnedFd},
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

use gdrtune_wire::{LockHolder, LockOutcome, LockRequest};
use rustix::{
    fs::{self as sys, AtFlags, Dir, FileType, FlockOperation, Mode, OFlags},
    io::Errno,
};

use super::incarnation::{Incarnation, Life};
use crate::inventory::{printable, user_name};

/// Where it is, unless the node's environment names another folder.
pub(super) const FOLDER: &str = "/tmp/gdrtune-lock";

/// For all, and nobody removes or renames what is another's: as `/tmp`.
const FOLDER_MODE: Mode = Mode::from_raw_mode(0o1777);

/// For the holder to write and for all to read.
const FILE_MODE: Mode = Mode::from_raw_mode(0o644);

/// Most bytes that are read of a holder's file; ours have some 60.
const FILE_BYTES: u64 = 1 << 10;

/// Why the lock could not be looked at.
#[derive(Debug, thiserror::Error)]
pub(super) enum LockError {
    #[error("{action} {path}: {source}")]
    System { action: &'static str, path: PathBuf, source: io::Error },
    #[error("{path} can be changed by others and has no sticky bit: make it as /tmp (`chmod 1777 {path}`)")]
    Open { path: PathBuf },
}

/// A held lock. Dropping it gives the node back.
#[derive(Debug)]
pub(super) struct NodeLock {
    folder: OwnedFd,
    name: String,
    /// Keeps the kernel's lock on the file.
    _file: File,
}

/// What came of asking for it.
#[derive(Debug)]
pub(super) enum Asked {
    Held(NodeLock),
    Other(LockOutcome),
}

/// Asks for the node. May wait a moment for others who ask, so not for a thread that must not block.
pub(super) fn ask(folder: &Path, request: &LockRequest) -> Asked {
    let taken = Incarnation::own()
        .map_err(|source| LockError::System { action: "read", path: "/proc/self".into(), source })
        .and_then(|own| take(folder, &own, request));
    taken.unwrap_or_else(|error| Asked::Other(LockOutcome::Failed(error.to_string())))
}

fn take(path: &Path, own: &Incarnation, request: &LockRequest) -> Result<Asked, LockError> {
    let failed =
        |action| move |error: Errno| LockError::System { action, path: path.into(), source: io::Error::from(error) };
    let folder = open_folder(path)?;
    sys::flock(&folder, FlockOperation::LockExclusive).map_err(failed("lock"))?;
    let others = holders(&folder, own, request).map_err(failed("read"))?;
    if !others.is_empty() && !request.shared {
        return Ok(Asked::Other(LockOutcome::InUse(others)));
    }
    let (name, file) = enter(&folder, own, request).map_err(|source| LockError::System {
        action: "make a file in",
        path: path.into(),
        source,
    })?;
    // From here on, whoever looks sees us.
    sys::flock(&folder, FlockOperation::Unlock).map_err(failed("unlock"))?;
    Ok(Asked::Held(NodeLock { folder, name, _file: file }))
}

impl Drop for NodeLock {
    fn drop(&mut self) {
        // A file that stays says nothing any more once its lock is gone.
        sys::unlinkat(&self.folder, &self.name, AtFlags::empty()).ok();
    }
}

/// Opens the folder; makes it for all where there is none.
fn open_folder(path: &Path) -> Result<OwnedFd, LockError> {
    let failed = |action, error: Errno| LockError::System { action, path: path.into(), source: io::Error::from(error) };
    let is_new = match sys::mkdir(path, FOLDER_MODE) {
        Ok(()) => true,
        Err(Errno::EXIST) => false,
        Err(error) => return Err(failed("make", error)),
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder = sys::open(path, flags, Mode::empty()).map_err(|error| failed("open", error))?;
    if is_new {
        // What the umask has taken.
        sys::fchmod(&folder, FOLDER_MODE).map_err(|error| failed("open to all", error))?;
    }
    let mode = Mode::from_raw_mode(sys::fstat(&folder).map_err(|error| failed("look at", error))?.st_mode);
    if mode.intersects(Mode::WGRP | Mode::WOTH) && !mode.contains(Mode::SVTX) {
        return Err(LockError::Open { path: path.into() });
    }
    Ok(folder)
}

/// The living holders of other clients. Removes the files of dead ones, where it may.
fn holders(folder: &OwnedFd, own: &Incarnation, request: &LockRequest) -> Result<Vec<LockHolder>, Errno> {
    let mut found = vec![];
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        let Some((holder, client)) = parse_name(entry.file_name()) else { continue };
        if client == request.client {
            continue;
        }
        let living = match own.life_of(&holder) {
            Life::Elsewhere => continue,
            Life::Gone => None,
            Life::Alive => look(folder, entry.file_name(), &holder),
        };
        match living {
            Some(holder) => found.push(holder),
            // Another user's file may only be removed by that user.
            None => drop(sys::unlinkat(folder, entry.file_name(), AtFlags::empty())),
        }
    }
    found.sort_by_key(|holder| (holder.since_s, holder.pid));
    Ok(found)
}

/// What a holder's file says; nothing where its holder has ended.
fn look(folder: &OwnedFd, name: &CStr, holder: &Incarnation) -> Option<LockHolder> {
    let unreadable = LockHolder { pid: holder.pid, user: "an unknown user".to_owned(), run: String::new(), since_s: 0 };
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = match sys::openat(folder, name, flags, Mode::empty()) {
        Ok(file) => File::from(file),
        // Not ours to read; its process runs.
        Err(Errno::ACCESS) => return Some(unreadable),
        // No file at all, or none of ours.
        Err(_) => return None,
    };
    let stat = sys::fstat(&file).ok()?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return None;
    }
    // Only its holder has it locked.
    if sys::flock(&file, FlockOperation::NonBlockingLockShared).is_ok() {
        return None;
    }
    let mut text = vec![];
    file.take(FILE_BYTES).read_to_end(&mut text).ok();
    let text = String::from_utf8_lossy(&text);
    let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
    Some(LockHolder {
        user: user_name(Path::new("/"), stat.st_uid),
        run: field("run").map(printable).unwrap_or_default(),
        since_s: field("since").and_then(|seconds| seconds.parse().ok()).unwrap_or_default(),
        ..unreadable
    })
}

/// Puts this process among the holders.
fn enter(folder: &OwnedFd, own: &Incarnation, request: &LockRequest) -> io::Result<(String, File)> {
    let name = format!("{own}.{:016x}", request.client);
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = sys::openat(folder, &name, flags, FILE_MODE).map_err(io::Error::from)?;
    let written = lock_and_write(File::from(file), request);
    if written.is_err() {
        sys::unlinkat(folder, &name, AtFlags::empty()).ok();
    }
    Ok((name, written?))
}

#[expect(clippy::disallowed_methods, reason = "since when, for people")]
fn lock_and_write(mut file: File, request: &LockRequest) -> io::Result<File> {
    sys::fchmod(file.as_fd(), FILE_MODE)?;
    sys::flock(file.as_fd(), FlockOperation::NonBlockingLockExclusive)?;
    let since = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let run = printable(&request.run);
    file.write_all(format!("run={run}\nsince={since}\n").as_bytes())?;
    Ok(file)
}

fn parse_name(name: &CStr) -> Option<(Incarnation, u64)> {
    let (holder, client) = name.to_str().ok()?.split_once('.')?;
    Some((holder.parse().ok()?, u64::from_str_radix(client, 16).ok()?))
}

#[cfg(test)]
#[path = "node_lock_tests.rs"]
mod tests;
