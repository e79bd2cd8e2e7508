//! The private folder for ssh's control sockets. Short, since a socket's path is limited to 108 bytes and ssh adds a
//! suffix of 17 to it while it connects; on a local file system, since NFS has no sockets.

use std::{
    fs::{self, DirBuilder, File},
    io,
    os::unix::fs::{DirBuilderExt, MetadataExt},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
};

use rustix::fs::{FlockOperation, flock};

use crate::error::FleetError;

const PREFIX: &str = "gdrtune-ssh-";
const LOCK: &str = "lock";
const NEW_LOCK: &str = "new-lock";
/// Longest parent folder that leaves room for our name, a socket's and ssh's suffix within 108 bytes.
const MAX_PARENT: usize = 48;

/// A folder of mode 0700 that is removed on drop. A lock in it tells later processes that it is in use.
#[derive(Debug)]
pub(super) struct ControlDirectory {
    path: PathBuf,
    next: AtomicU32,
    _lock: File,
}

impl ControlDirectory {
    pub(super) fn create() -> Result<Self, FleetError> {
        let temporary = std::env::temp_dir();
        let parent = if temporary.as_os_str().len() <= MAX_PARENT { temporary } else { PathBuf::from("/tmp") };
        remove_abandoned(&parent);
        Self::create_in(&parent).map_err(|error| FleetError::Setup {
            action: format!("make a folder for ssh sockets in {}", parent.display()),
            cause: error.to_string(),
        })
    }

    fn create_in(parent: &Path) -> io::Result<Self> {
        let path = parent.join(format!("{PREFIX}{:08x}", rand::random::<u32>()));
        DirBuilder::new().mode(0o700).create(&path)?;
        // Under its name it is locked from the first moment, so that nobody takes the folder for an abandoned one.
        let unnamed = path.join(NEW_LOCK);
        let locked = File::create_new(&unnamed).and_then(|lock| {
            flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
            fs::rename(&unnamed, path.join(LOCK))?;
            Ok(lock)
        });
        match locked {
            Ok(lock) => Ok(Self { path, next: AtomicU32::new(0), _lock: lock }),
            Err(error) => {
                fs::remove_dir_all(&path).ok();
                Err(error)
            }
        }
    }

    /// A name for another connection's socket.
    pub(super) fn socket(&self) -> PathBuf {
        self.path.join(format!("s{}", self.next.fetch_add(1, Ordering::Relaxed)))
    }
}

impl Drop for ControlDirectory {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.path).ok();
    }
}

/// Removes folders of ours whose process was killed: nobody holds their lock, which holds in every PID namespace and on
/// every machine that shares the parent. Faults are nobody's loss.
fn remove_abandoned(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    let own_user = rustix::process::geteuid().as_raw();
    for entry in entries.flatten() {
        // A link is no folder here, and nobody else could put anything into a private one.
        let is_private =
            |found: fs::Metadata| found.is_dir() && found.uid() == own_user && found.mode() & 0o777 == 0o700;
        let ours = entry.file_name().to_string_lossy().starts_with(PREFIX) && entry.metadata().is_ok_and(is_private);
        if !ours {
            continue;
        }
        // Without a lock file it is a folder that another process is just making.
        let Ok(lock) = File::open(entry.path().join(LOCK)) else { continue };
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok() {
            fs::remove_dir_all(entry.path()).ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn is_private_and_removed() {
        let parent = tempfile::tempdir().unwrap();
        let control = ControlDirectory::create_in(parent.path()).unwrap();
        let path = control.path.clone();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
        assert_ne!(control.socket(), control.socket());
        drop(control);
        assert!(!path.exists());
    }

    #[test]
    fn only_abandoned_folders_are_removed() {
        let parent = tempfile::tempdir().unwrap();
        let live = ControlDirectory::create_in(parent.path()).unwrap();
        let make = |name: &str, mode: u32| {
            let folder = parent.path().join(name);
            fs::create_dir(&folder).unwrap();
            File::create(folder.join(LOCK)).unwrap();
            fs::set_permissions(&folder, fs::Permissions::from_mode(mode)).unwrap();
            folder
        };
        let abandoned = make(&format!("{PREFIX}dead"), 0o700);
        let kept = [make("other", 0o700), make(&format!("{PREFIX}open"), 0o755)];
        let link = parent.path().join(format!("{PREFIX}link"));
        std::os::unix::fs::symlink(&kept[0], &link).unwrap();
        let new = make(&format!("{PREFIX}new"), 0o700);
        fs::rename(new.join(LOCK), new.join(NEW_LOCK)).unwrap();
        remove_abandoned(parent.path());
        assert!(!abandoned.exists() && link.is_symlink());
        assert!([&live.path, &new, &kept[0], &kept[1]].iter().all(|folder| folder.exists()));
    }
}
