//! What the end-to-end tests share: the built executable, hermetic runs of it, and clusters of virtual hosts.
#![expect(dead_code, reason = "each test program uses its own part")]

pub(crate) mod cluster;
pub(crate) mod slurm;
pub(crate) mod standins;
pub(crate) mod sysfs;
pub(crate) mod terminal;

use std::{
    fs::OpenOptions,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Output},
    time::{Duration, Instant},
};

/// The executable under test.
pub(crate) const GDRTUNE: &str = env!("CARGO_BIN_EXE_gdrtune");

/// A run of gdrtune with its own HOME and state, and nothing of this process's settings.
pub(crate) fn gdrtune(home: &Path) -> Command {
    gdrtune_as(Path::new(GDRTUNE), home)
}

/// The same with another copy of the executable.
pub(crate) fn gdrtune_as(program: &Path, home: &Path) -> Command {
    let mut command = Command::new(program);
    command
        .env_clear()
        .env("HOME", home)
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("GDRTUNE_STATE_DIR", home.join("state"))
        // Other tests use this machine, too.
        .env("GDRTUNE_LOCK_DIR", home.join("lock"))
        .current_dir(home);
    command
}

/// A copy without debug information, of about the size that users have: tests that upload it to many hosts would copy
/// gigabytes.
pub(crate) fn stripped_copy(folder: &Path) -> PathBuf {
    let copy = folder.join("gdrtune");
    strip(Path::new(GDRTUNE), &copy);
    copy
}

/// Copies an executable without its debug information.
pub(crate) fn strip(from: &Path, to: &Path) {
    let status = Command::new("strip").arg("-o").arg(to).arg(from).status().expect("strip starts");
    assert!(status.success(), "strip: {status}");
}

/// Runs to the end and returns what came out.
pub(crate) fn output(command: &mut Command) -> Output {
    command.output().expect("gdrtune starts")
}

/// Standard output as text.
pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Standard error as text.
pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The repository's root.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().expect("the repository exists")
}

/// Waits until `done`, checking often; the deadline is a failure of the test.
pub(crate) fn wait_until(what: &str, limit: Duration, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + limit;
    while !done() {
        assert!(Instant::now() < deadline, "not within {limit:?}: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Says loudly that a test did not run, and counts it for `.ci/test`.
#[expect(clippy::print_stderr, reason = "a skipped test must be seen")]
pub(crate) fn skip(test: &str, why: &str) {
    eprintln!("SKIPPED {test}: {why}");
    if let Some(file) = std::env::var_os("SKIPPED_TESTS_FILE") {
        let mut file = OpenOptions::new().append(true).create(true).open(file).expect("the list of skipped tests");
        writeln!(file, "{test}: {why}").expect("the list of skipped tests");
    }
}

/// Process ids of gdrtune processes that were started with `home` as their HOME, zombies left out.
pub(crate) fn gdrtune_processes(home: &str) -> Vec<u32> {
    let mut found = Vec::new();
    let home = format!("HOME={home}\0");
    for entry in std::fs::read_dir("/proc").expect("proc").flatten() {
        let Ok(pid) = entry.file_name().to_string_lossy().parse::<u32>() else { continue };
        let read = |name: &str| std::fs::read(entry.path().join(name)).unwrap_or_default();
        let environ = String::from_utf8_lossy(&read("environ")).into_owned();
        let command = String::from_utf8_lossy(&read("cmdline")).into_owned();
        let state = String::from_utf8_lossy(&read("stat")).rsplit(')').next().map(|s| s.trim_start().starts_with('Z'));
        if command.contains("gdrtune") && environ.contains(&home) && state == Some(false) && pid != std::process::id() {
            found.push(pid);
        }
    }
    found
}
