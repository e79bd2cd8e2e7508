//! Builds for other hosts, from `--agent-dir`.

mod common;

use std::{
    env::consts::ARCH,
    fs,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::{Command, Output},
};

use common::{gdrtune, output, stderr, stripped_copy};

/// Measures a little on one host, which is this machine by way of a command.
fn bench(home: &Path, launcher: &str) -> Output {
    let launcher = format!("{launcher} {{agent}}");
    let builds = home.join("builds");
    output(
        gdrtune(home)
            .args(["bench", "-w", "n1", "--sizes", "1K", "--repeats", "1", "--launcher-cmd", &launcher, "--agent-dir"])
            .arg(builds),
    )
}

#[test]
fn a_build_for_the_host_s_machine_is_used_where_it_is_of_our_sources() {
    let home = tempfile::tempdir().unwrap();
    let builds = home.path().join("builds");
    fs::create_dir(&builds).unwrap();
    let build = builds.join(format!("gdrtune-{ARCH}"));
    fs::rename(stripped_copy(home.path()), &build).unwrap();
    let run = bench(home.path(), "env");
    assert!(run.status.success(), "{}", stderr(&run));
    let sum = Command::new("sha256sum").arg(&build).output().unwrap().stdout;
    let hash = String::from_utf8(sum).unwrap().split(' ').next().unwrap().to_owned();
    assert!(home.path().join(".cache/gdrtune/agent").join(hash).is_dir(), "ours was used in its place");

    // A host of another kind.
    let bin = home.path().join("bin");
    fs::create_dir(&bin).unwrap();
    fs::write(bin.join("uname"), "#!/bin/sh\ntest $1 = -s && echo Linux || echo ppc64le\n").unwrap();
    fs::set_permissions(bin.join("uname"), fs::Permissions::from_mode(0o755)).unwrap();
    let run = bench(home.path(), &format!("env PATH={}:/usr/bin:/bin", bin.display()));
    assert_eq!(run.status.code(), Some(3));
    let expected = "start the agent on n1: other architecture: the host is Linux ppc64le; there are agents for Linux on x86_64 and \
                    aarch64 only; leave this host out";
    assert!(stderr(&run).contains(expected), "{}", stderr(&run));

    // The same, but for its build id.
    let version = String::from_utf8(output(gdrtune(home.path()).arg("--version")).stdout).unwrap();
    let (_, id) = version.trim().strip_suffix(')').unwrap().split_once("(build ").unwrap();
    let mut bytes = fs::read(&build).unwrap();
    let found: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at..].starts_with(id.as_bytes())).collect();
    assert!(!found.is_empty());
    for at in found {
        bytes[at..at + id.len()].copy_from_slice(b"00000000deadbeef");
    }
    fs::write(&build, bytes).unwrap();
    let run = bench(home.path(), "env");
    assert_eq!(run.status.code(), Some(3));
    let expected = format!(
        "start the agent on n1: local fault: {} is of build 00000000deadbeef, and this gdrtune of build {id}; build both from \
         the same sources, or take it out of --agent-dir",
        build.display()
    );
    assert!(stderr(&run).contains(&expected), "{}", stderr(&run));
}
