use std::{
    fs::{self, Permissions},
    os::unix::fs::{PermissionsExt as _, symlink},
};

use super::*;

fn request(client: u64, shared: bool) -> LockRequest {
    LockRequest { run: format!("run {client}"), client, shared }
}

/// Asks as another agent than those before: its file has another name, if the client is another.
fn asked(folder: &Path, client: u64, shared: bool) -> Result<NodeLock, Vec<LockHolder>> {
    match ask(folder, &request(client, shared)) {
        Asked::Held(lock) => Ok(lock),
        Asked::Other(LockOutcome::InUse(holders)) => Err(holders),
        Asked::Other(other) => panic!("{other:?}"),
    }
}

fn failure(folder: &Path) -> String {
    match ask(folder, &request(1, false)) {
        Asked::Other(LockOutcome::Failed(why)) => why,
        other => panic!("{other:?}"),
    }
}

fn files(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.collect()
}

/// The file that an agent has made and then not removed, as when it is killed.
fn leave(folder: &Path, agent: &Incarnation, client: u64) -> PathBuf {
    let path = folder.join(format!("{agent}.{client:016x}"));
    fs::write(&path, "run=left\nsince=5\n").unwrap();
    path
}

#[test]
#[expect(clippy::disallowed_methods, reason = "what others are told is compared with it")]
fn another_client_is_told_who_holds_the_node() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("lock");
    let first = asked(&folder, 1, false).unwrap();
    assert_eq!(fs::metadata(&folder).unwrap().permissions().mode() & 0o7777, 0o1777, "whatever the umask");
    let [file] = &files(&folder)[..] else { panic!("{:?}", files(&folder)) };
    assert_eq!(fs::metadata(folder.join(file)).unwrap().permissions().mode() & 0o777, 0o644);

    let [holder] = &asked(&folder, 2, false).unwrap_err()[..] else { panic!("one holder") };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let user = user_name(Path::new("/"), rustix::process::geteuid().as_raw());
    assert_eq!((holder.pid, &holder.user, holder.run.as_str()), (std::process::id(), &user, "run 1"));
    assert!((now - 60..=now).contains(&holder.since_s), "{holder:?}");
    assert_eq!(files(&folder).len(), 1, "who is refused leaves nothing");

    drop(first);
    assert_eq!(files(&folder), Vec::<String>::new());
    drop(asked(&folder, 2, false).unwrap());
}

#[test]
fn a_shared_run_is_let_in_and_keeps_later_ones_out() {
    let folder = tempfile::tempdir().unwrap();
    let _first = asked(folder.path(), 1, false).unwrap();
    let _beside = asked(folder.path(), 2, true).unwrap();
    let runs = |holders: Vec<LockHolder>| holders.into_iter().map(|holder| holder.run).collect::<Vec<_>>();
    let mut others = runs(asked(folder.path(), 3, false).unwrap_err());
    others.sort();
    assert_eq!(others, ["run 1", "run 2"]);
}

#[test]
fn agents_of_one_client_share_the_node() {
    let folder = tempfile::tempdir().unwrap();
    let (other, _child) = Incarnation::child();
    let first = take(folder.path(), &Incarnation::own().unwrap(), &request(1, false)).unwrap();
    let second = take(folder.path(), &other, &request(1, false)).unwrap();
    assert!(matches!((&first, &second), (Asked::Held(_), Asked::Held(_))));
    drop(first);
    assert_eq!(asked(folder.path(), 2, false).unwrap_err().len(), 1, "until the last has gone");
    drop(second);
    drop(asked(folder.path(), 2, false).unwrap());
}

#[test]
fn of_many_that_come_at_once_one_gets_in() {
    let parent = tempfile::tempdir().unwrap();
    for round in 0..20 {
        let folder = parent.path().join(round.to_string());
        let start = std::sync::Barrier::new(4);
        let outcomes: Vec<_> = std::thread::scope(|scope| {
            let come = |client| {
                let (start, folder) = (&start, &folder);
                scope.spawn(move || {
                    start.wait();
                    asked(folder, client, false)
                })
            };
            let clients: Vec<_> = (1..=4).map(come).collect();
            clients.into_iter().map(|client| client.join().unwrap()).collect()
        });
        assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 1, "{outcomes:?}");
    }
}

#[test]
fn what_dead_holders_leave_is_taken_over() {
    let folder = tempfile::tempdir().unwrap();
    let (living, _child) = Incarnation::child();
    // Of a killed agent; of one whose id was given to another process, or that has closed its file: nobody locks it.
    let stale = [leave(folder.path(), &Incarnation::ended(), 7), leave(folder.path(), &living, 8)];
    let own = Incarnation::own().unwrap();
    let kept = [
        leave(folder.path(), &Incarnation::ended().elsewhere(), 9),
        folder.path().join("notes"),
        folder.path().join(format!("{own}.zz")),
    ];
    for path in &kept[1..] {
        fs::write(path, "").unwrap();
    }
    drop(asked(folder.path(), 1, false).unwrap());
    assert!(stale.iter().all(|path| !path.exists()) && kept.iter().all(|path| path.exists()));
}

/// Whether it is locked is the kernel's to say, whether it is the same process is ours.
#[test]
fn a_lock_without_its_process_holds_nothing_and_a_process_elsewhere_is_not_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let dead = Incarnation::ended();
    for holder in [dead.clone(), dead.elsewhere(), Incarnation::own().unwrap().elsewhere()] {
        let file = File::open(leave(folder.path(), &holder, 7)).unwrap();
        sys::flock(&file, FlockOperation::LockExclusive).unwrap();
        drop(asked(folder.path(), 1, false).unwrap());
    }
}

#[test]
fn hostile_files_hold_nothing_and_show_nothing_odd() {
    let folder = tempfile::tempdir().unwrap();
    let (living, _child) = Incarnation::child();
    let name = |client: u64| folder.path().join(format!("{living}.{client:016x}"));
    symlink("/etc/passwd", name(7)).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, name(8), FileType::Fifo, Mode::from_raw_mode(0o666), 0).unwrap();
    fs::create_dir(name(9)).unwrap();
    drop(asked(folder.path(), 1, false).unwrap());

    let hostile = name(10);
    fs::write(&hostile, format!("since=-1\nrun=a\u{1b}[2Jb{}\n", "x".repeat(5000))).unwrap();
    let file = File::open(&hostile).unwrap();
    sys::flock(&file, FlockOperation::LockExclusive).unwrap();
    let [holder] = &asked(folder.path(), 1, false).unwrap_err()[..] else { panic!("one holder") };
    assert!(holder.run.starts_with("a?[2Jbxxx") && holder.run.len() < 100, "{holder:?}");
    assert_eq!(holder.since_s, 0);
}

#[test]
fn a_folder_that_cannot_be_trusted_or_used_is_named() {
    let parent = tempfile::tempdir().unwrap();
    let path = |name: &str| parent.path().join(name);
    assert!(failure(&path("no/lock")).starts_with(&format!("make {}: No such file", path("no/lock").display())));
    fs::write(path("file"), "").unwrap();
    assert!(failure(&path("file")).starts_with(&format!("open {}: Not a directory", path("file").display())));
    fs::create_dir(path("real")).unwrap();
    symlink(path("real"), path("link")).unwrap();
    assert!(failure(&path("link")).starts_with(&format!("open {}: ", path("link").display())));
    fs::set_permissions(path("real"), Permissions::from_mode(0o777)).unwrap();
    let why = failure(&path("real"));
    assert!(why.ends_with(&format!("(`chmod 1777 {}`)", path("real").display())), "{why}");
    assert_eq!(files(&path("real")), Vec::<String>::new());
}
