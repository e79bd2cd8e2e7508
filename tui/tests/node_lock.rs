//! Two runs on one node: the second is told who is there, or waits; and what is dead keeps nobody out.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod common;

use std::{
    fs,
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use common::{
    cluster::{VirtualHosts, in_sandbox},
    gdrtune, gdrtune_processes, output, root, stderr, wait_until,
};
use gdrtune_profiles::profile::Profile;
use rustix::process::{Pid, Signal, kill_process};

/// A run that has begun to search; killed when dropped.
struct Searching {
    child: Child,
    run: String,
}

impl Searching {
    fn start(mut command: Command) -> Self {
        command.args(["--json", "--sizes", "1K,64K", "--budget", "300s", "--out", "out", "--ranks-per-node", "2"]);
        command.arg("--force");
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let first: serde_json::Value = serde_json::from_str(&lines.next().unwrap()).unwrap();
        let run = first["event"]["run"].as_str().unwrap().to_owned();
        assert!(lines.any(|line| line.contains(r#""type":"trial""#)), "a trial");
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, run }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }
}

impl Drop for Searching {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn searching(home: &Path) -> Searching {
    let mut command = gdrtune(home);
    command.arg("tune");
    Searching::start(command)
}

fn bench(command: &mut Command) -> &mut Command {
    command.args(["bench", "--sizes", "1K", "--repeats", "1"])
}

#[test]
fn a_second_run_is_told_who_holds_the_node() {
    let home = tempfile::tempdir().unwrap();
    let golden = include_str!("../../profiles/tests/golden/native.toml");
    let mut profile = Profile::parse(golden, "golden").unwrap().0;
    (profile.cluster.nodes, profile.cluster.ranks) = (1, 2);
    profile.rule.clear();
    fs::write(home.path().join("p.toml"), profile.to_toml()).unwrap();
    let first = searching(home.path());
    for command in [
        bench(&mut gdrtune(home.path())),
        gdrtune(home.path()).args(["tune", "--headless", "--out", "o2"]),
        gdrtune(home.path()).args(["verify", "p.toml", "--ranks-per-node", "2", "--sizes", "1K", "--quiet"]),
    ] {
        let refused = output(command);
        let message = stderr(&refused);
        assert_eq!(refused.status.code(), Some(3), "{message}");
        let agents = gdrtune_processes(&home.path().display().to_string());
        let named = agents.iter().find(|pid| message.contains(&format!("localhost is in use by pid {pid} of ")));
        let command = |pid: &u32| fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap();
        assert!(named.is_some_and(|pid| command(pid).ends_with("gdrtune\0agent\0")), "{message}");
        assert!(message.contains(&format!(" (run {}) since ", first.run)) && message.contains(" UTC"), "{message}");
        assert!(message.contains("hint: wait for it with --wait, or measure beside it with --shared"), "{message}");
    }
    let beside = output(bench(&mut gdrtune(home.path())).arg("--shared"));
    assert_eq!(beside.status.code(), Some(0), "{}", stderr(&beside));
}

/// Files are put beside a run; a check runs NCCL.
#[test]
fn an_installation_is_put_beside_a_run_but_not_checked() {
    let home = tempfile::tempdir().unwrap();
    fs::copy(root().join("profiles/tests/golden/nccl.toml"), home.path().join("profile.toml")).unwrap();
    let _first = searching(home.path());
    let install = |args: &[&str]| {
        let run = output(gdrtune(home.path()).args(["install", "--to", "there"]).args(args));
        (run.status.code(), stderr(&run))
    };
    let (code, message) = install(&["profile.toml"]);
    assert_eq!(code, Some(0), "{message}");
    let (code, message) = install(&["--check"]);
    assert_eq!(code, Some(3), "{message}");
    assert!(
        message.contains("localhost is in use by pid ") && message.ends_with("hint: wait for it with --wait\n"),
        "{message}"
    );
}

#[test]
fn a_run_that_waits_goes_on_when_the_first_has_ended() {
    let home = tempfile::tempdir().unwrap();
    let first = searching(home.path());
    let mut second =
        bench(&mut gdrtune(home.path())).arg("--wait").stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(second.stderr.take().unwrap()).lines().map(Result::unwrap);
    let line = lines.next().unwrap();
    assert!(line.starts_with("gdrtune: waiting: localhost is in use by pid "), "{line}");
    assert!(line.contains(&first.run), "{line}");
    first.signal(Signal::INT);
    let rest: Vec<String> = lines.collect();
    assert_eq!(second.wait().unwrap().code(), Some(0), "{rest:?}");

    let first = searching(home.path());
    let late = output(bench(&mut gdrtune(home.path())).args(["--wait", "1s"]));
    assert_eq!(late.status.code(), Some(3), "{}", stderr(&late));
    drop(first);
}

#[test]
fn a_killed_run_blocks_nobody() {
    let home = tempfile::tempdir().unwrap();
    let first = searching(home.path());
    first.signal(Signal::KILL);
    let second = output(bench(&mut gdrtune(home.path())));
    assert_eq!(second.status.code(), Some(0), "{}", stderr(&second));
    drop(first);

    // An agent that could not give its lock back.
    let first = searching(home.path());
    let agents = || {
        let is_agent = |pid: &u32| {
            fs::read_to_string(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.ends_with("gdrtune\0agent\0"))
        };
        let mut pids = gdrtune_processes(&home.path().display().to_string());
        pids.retain(is_agent);
        pids
    };
    for pid in agents() {
        kill_process(Pid::from_raw(pid as i32).unwrap(), Signal::KILL).unwrap();
    }
    wait_until("the agent is gone", Duration::from_secs(10), || agents().is_empty());
    assert_eq!(fs::read_dir(home.path().join("lock")).unwrap().count(), 1, "its file is still there");
    let second = output(bench(&mut gdrtune(home.path())));
    assert_eq!(second.status.code(), Some(0), "{}", stderr(&second));
    assert_eq!(fs::read_dir(home.path().join("lock")).unwrap().count(), 0);
    drop(first);
}

#[test]
fn runs_in_other_pid_namespaces_of_one_machine_do_not_meet() {
    in_sandbox("runs_in_other_pid_namespaces_of_one_machine_do_not_meet", || {
        let hosts = VirtualHosts::up(2, None);
        let home = tempfile::tempdir().unwrap();
        // The hosts have a /tmp each; this folder is the same on both.
        let theirs = hosts.ssh_config();
        let shared = theirs.parent().unwrap().join("lock");
        let config = home.path().join("ssh_config");
        let text = format!("Include {}\nHost *\n SetEnv GDRTUNE_LOCK_DIR={}\n", theirs.display(), shared.display());
        fs::write(&config, text).unwrap();
        let on = |mut command: Command, host: &str| {
            command.arg("--ssh-config").arg(&config).args(["-w", host]);
            command
        };
        let bench = |host: &str| {
            let mut command = gdrtune(home.path());
            bench(&mut command);
            output(&mut on(command, host))
        };
        let mut command = gdrtune(home.path());
        command.arg("tune");
        let first = Searching::start(on(command, "vh1"));
        assert_eq!(fs::read_dir(&shared).unwrap().count(), 1, "vh1 has its lock in the folder of both");
        let beside = bench("vh2");
        assert_eq!(beside.status.code(), Some(0), "{}", stderr(&beside));
        let refused = bench("vh1");
        let message = stderr(&refused);
        assert_eq!(refused.status.code(), Some(3), "{message}");
        assert!(message.contains("vh1 is in use by pid ") && message.contains(&first.run), "{message}");
    });
}
