//! Removes builds that were uploaded long ago, as part of the bootstrap's script.

/// A piece of script for `sh`, of one line. Takes the cache folder in `$c` and our build's hash in `$h`; reads no input, prints
/// nothing, and whatever fails in it is no fault of the bootstrap.
///
/// Marks our build as used just now. Keeps that, the others of the newest three, what is younger than a day, and what a
/// process of ours on that host runs from; removes the rest. Only folders of our own that have a hash for a name (64 digits)
/// are looked at. A home may be shared: a build that another host has used within the day is young.
pub(super) const PRUNE: &str = r#"(cd "$c/gdrtune/agent" || exit; if test -d "$h"; then touch "$h"; fi; n=1; for b in $(ls -t); do \
if test "$b" = "$h" || test "$(expr "x$b" : 'x[0-9a-f]*$')" -ne 65; then continue; fi; n=$((n + 1)); if test "$n" -le 3; then continue; fi; \
if test -z "$(find "./$b" -prune -type d -user "$(id -u)" -mtime +0)"; then continue; fi; \
if ls -l /proc/[0-9]*/exe 2>&1 | grep -q -F -- "-> $(pwd -P)/$b/"; then continue; fi; rm -rf "./$b"; done) </dev/null >/dev/null 2>&1"#;

#[cfg(test)]
mod tests {
    use std::{
        fs::{self, File},
        os::unix::fs::symlink,
        path::{Path, PathBuf},
        process::{Child, Command, Stdio},
        time::{Duration, SystemTime},
    };

    use super::*;

    const HOUR: Duration = Duration::from_hours(1);

    struct Cache(tempfile::TempDir);

    impl Cache {
        fn new() -> Self {
            let cache = Self(tempfile::tempdir().unwrap());
            fs::create_dir_all(cache.folder()).unwrap();
            cache
        }

        fn folder(&self) -> PathBuf {
            self.0.path().join("gdrtune/agent")
        }

        /// A build that was used so long ago, with a program.
        fn build(&self, name: &str, age: Duration) -> PathBuf {
            let folder = self.folder().join(name);
            fs::create_dir(&folder).unwrap();
            // Another process writes it: a file that this one has open for writing cannot be run.
            let copied = Command::new("cp").args(["/bin/cat"]).arg(folder.join("gdrtune")).status().unwrap();
            assert!(copied.success());
            set_age(&folder, age);
            folder
        }

        fn prune(&self, own: &str) {
            let script = format!("c=\"$1\"; h=\"$2\"; {}; printf done", PRUNE.replace("\\\n", ""));
            let output = Command::new("sh").args(["-c", &script, "sh"]).arg(self.0.path()).arg(own).output().unwrap();
            assert_eq!((output.stdout, output.stderr), (b"done".to_vec(), vec![]));
        }

        fn names(&self) -> Vec<String> {
            let entries = fs::read_dir(self.folder()).unwrap();
            let mut names: Vec<String> = entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
            names.sort();
            names
        }
    }

    #[expect(clippy::disallowed_methods, reason = "files have ages")]
    fn set_age(path: &Path, age: Duration) {
        File::open(path).unwrap().set_modified(SystemTime::now() - age).unwrap();
    }

    /// The hash of a build.
    fn hash(digit: &str) -> String {
        digit.repeat(64)
    }

    fn run(build: &Path) -> Child {
        Command::new(build.join("gdrtune")).stdin(Stdio::piped()).spawn().unwrap()
    }

    #[test]
    fn the_newest_three_and_what_is_in_use_stay() {
        let cache = Cache::new();
        let builds: Vec<PathBuf> = (1..=7).map(|n| cache.build(&hash(&n.to_string()), HOUR * (30 + n))).collect();
        let mut running = run(&builds[5]);
        cache.prune(&hash("4"));
        // 4 is our own and so the newest; 1 and 2 are next; 6 runs.
        assert_eq!(cache.names(), ["1", "2", "4", "6"].map(hash));
        running.kill().unwrap();
        running.wait().unwrap();
        // A build that is to be uploaded counts already.
        cache.prune(&hash("8"));
        assert_eq!(cache.names(), ["1", "4"].map(hash));
    }

    #[test]
    fn what_is_young_or_not_ours_stays() {
        let cache = Cache::new();
        for digit in ["1", "2", "3", "4", "5"] {
            cache.build(&hash(digit), HOUR * 23);
        }
        let old = cache.build(&hash("6"), HOUR * 25);
        for name in ["notes", "a b", &"1".repeat(63), &"1".repeat(65), &"G".repeat(64), &hash("-")] {
            cache.build(name, HOUR * 99);
        }
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("file"), "").unwrap();
        set_age(outside.path(), HOUR * 99);
        symlink(outside.path(), cache.folder().join(hash("7"))).unwrap();
        let before = cache.names();
        cache.prune(&hash("1"));
        let kept: Vec<String> = before.into_iter().filter(|name| *name != hash("6")).collect();
        assert_eq!((cache.names(), old.exists()), (kept, false));
        assert!(outside.path().join("file").exists());
    }

    #[test]
    fn a_cache_that_is_not_there_is_no_fault() {
        let cache = Cache(tempfile::tempdir().unwrap());
        cache.prune(&hash("1"));
        assert!(!cache.folder().exists());
    }
}
