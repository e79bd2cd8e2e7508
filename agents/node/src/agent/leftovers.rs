//! Removes what killed agents of the same user have left in the temporary folder.
//!
//! An agent's private folder carries the name of its process ([`Incarnation`]), so it is known whose it was from the moment
//! that it is there. Nothing else is touched: no link, no folder of another user, none that others could have changed, none
//! of a process that may still run.

use std::{fs, os::unix::fs::MetadataExt as _, path::Path};

use super::incarnation::{Incarnation, Life};

/// Begins the name of an agent's private folder.
const PREFIX: &str = "gdrtune-agent-";

/// The private folder of an agent; there are several names, since somebody may sit on one.
pub(super) fn folder_name(agent: &Incarnation, attempt: u32) -> String {
    format!("{PREFIX}{agent}-{attempt}")
}

/// Removes the folders in `parent` whose agent is gone; says of each what came of it.
pub(super) fn remove(parent: &Path, own: &Incarnation) -> Vec<String> {
    let Ok(entries) = fs::read_dir(parent) else { return vec![] };
    let abandoned = entries.flatten().filter(|entry| {
        let owner = entry.file_name().to_str().and_then(owner_of);
        owner.is_some_and(|owner| own.life_of(&owner) == Life::Gone) && is_private(&entry.path())
    });
    abandoned.map(|entry| remove_folder(&entry.path())).collect()
}

fn remove_folder(path: &Path) -> String {
    // Follows no link, at any depth.
    match fs::remove_dir_all(path) {
        Ok(()) => format!("removed {}, which a killed agent has left", path.display()),
        Err(error) => format!("remove {}, which a killed agent has left: {error}", path.display()),
    }
}

fn owner_of(name: &str) -> Option<Incarnation> {
    let (agent, attempt) = name.strip_prefix(PREFIX)?.rsplit_once('-')?;
    attempt.parse::<u32>().ok()?;
    agent.parse().ok()
}

/// Whether it is a folder of this user that nobody else can look into.
fn is_private(path: &Path) -> bool {
    let own_user = rustix::process::geteuid().as_raw();
    fs::symlink_metadata(path)
        .is_ok_and(|found| found.is_dir() && found.uid() == own_user && found.mode() & 0o777 == 0o700)
}

#[cfg(test)]
mod tests {
    use std::{
        fs::Permissions,
        os::unix::fs::{PermissionsExt as _, symlink},
        path::PathBuf,
    };

    use super::*;

    fn make(parent: &Path, name: &str, mode: u32) -> PathBuf {
        let folder = parent.join(name);
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("file"), "").unwrap();
        fs::set_permissions(&folder, Permissions::from_mode(mode)).unwrap();
        folder
    }

    #[test]
    fn only_private_folders_of_ended_agents_are_removed() {
        let parent = tempfile::tempdir().unwrap();
        let (own, dead) = (Incarnation::own().unwrap(), Incarnation::ended());
        let outside = make(parent.path(), "outside", 0o700);
        let abandoned = [0, 7].map(|attempt| make(parent.path(), &folder_name(&dead, attempt), 0o700));
        symlink(&outside, abandoned[0].join("link")).unwrap();

        let link = parent.path().join(folder_name(&dead, 1));
        symlink(&outside, &link).unwrap();
        let file = parent.path().join(folder_name(&dead, 2));
        fs::write(&file, "").unwrap();
        let kept = [
            make(parent.path(), &folder_name(&own, 0), 0o700),
            make(parent.path(), &folder_name(&dead, 3), 0o755),
            make(parent.path(), &folder_name(&dead.elsewhere(), 0), 0o700),
            make(parent.path(), &format!("{PREFIX}{}-0", dead.pid), 0o700),
            make(parent.path(), &format!("x{PREFIX}{dead}-0"), 0o700),
        ];
        let said = remove(parent.path(), &own);
        assert_eq!(said.len(), 2, "{said:?}");
        assert!(said.iter().all(|line| line.starts_with("removed ")), "{said:?}");
        assert!(abandoned.iter().all(|folder| !folder.exists()));
        assert!(outside.join("file").exists() && link.is_symlink() && file.exists());
        assert!(kept.iter().all(|folder| folder.join("file").exists()));
        assert_eq!(remove(parent.path(), &own), Vec::<String>::new());
        assert_eq!(remove(Path::new("/nonexistent"), &own), Vec::<String>::new());
    }
}
