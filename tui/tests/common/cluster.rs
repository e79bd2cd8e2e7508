//! Clusters of virtual hosts (`testenv/vhosts.sh`) in a sandbox that the kernel tears down with the test.

use std::{
    path::PathBuf,
    process::{Command, Output},
};

use super::{root, skip};

const INSIDE: &str = "GDRTUNE_TEST_SANDBOX";

/// Runs `body` in private network, mount and PID namespaces, where it may make virtual hosts; skips where the machine
/// does not allow that. `test` is the name of the calling test function, which is started again in there.
pub(crate) fn in_sandbox(test: &str, body: impl FnOnce()) {
    if std::env::var_os(INSIDE).is_some() {
        return body();
    }
    if let Some(why) = missing() {
        return skip(test, &why);
    }
    let me = std::env::current_exe().expect("the test program");
    let status = Command::new(root().join("testenv/sandbox.sh"))
        .arg(me)
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(INSIDE, "1")
        .status()
        .expect("sandbox.sh starts");
    assert!(status.success(), "{test} failed in the sandbox: {status}");
}

/// Why virtual hosts cannot be made here, if they cannot.
fn missing() -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("virtual hosts need root".to_owned());
    }
    let probe = Command::new("unshare").args(["--net", "--mount", "--pid", "--fork", "true"]).output();
    if !probe.is_ok_and(|o| o.status.success()) {
        return Some("namespaces may not be made here".to_owned());
    }
    for tool in ["/usr/sbin/sshd", "ssh", "ip", "tc"] {
        let found = Command::new("sh").args(["-c", "command -v -- \"$1\"", "sh", tool]).output();
        if !found.is_ok_and(|o| o.status.success()) {
            return Some(format!("{tool} is missing: run testenv/packages.sh vhosts"));
        }
    }
    None
}

/// Virtual hosts `vh1` to `vhN`; gone with the sandbox.
pub(crate) struct VirtualHosts {
    script: PathBuf,
}

impl VirtualHosts {
    /// Makes `count` hosts with two rails: railA 4 Gbit/s, railB 500 Mbit/s. `rates` overrides both.
    pub(crate) fn up(count: u32, rates: Option<(&str, &str)>) -> Self {
        let (a, b) = rates.unwrap_or(("4gbit", "500mbit"));
        Self::up_with(count, &[("VH_RATE_A", a), ("VH_RATE_B", b)])
    }

    /// Makes hosts by these settings of vhosts.sh.
    pub(crate) fn up_with(count: u32, settings: &[(&str, &str)]) -> Self {
        let hosts = Self::running();
        let mut command = hosts.command(&["up", &count.to_string()]);
        command.envs(settings.iter().copied());
        let output = command.output().expect("vhosts.sh starts");
        assert!(output.status.success(), "vhosts.sh up: {}", String::from_utf8_lossy(&output.stderr));
        hosts
    }

    /// Hosts that another script has made.
    pub(crate) fn running() -> Self {
        Self { script: root().join("testenv/vhosts.sh") }
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.script);
        command.args(args);
        command
    }

    /// Runs a sub-command of vhosts.sh, such as `cut vh3 railA`.
    pub(crate) fn call(&self, args: &[&str]) -> Output {
        let output = self.command(args).output().expect("vhosts.sh starts");
        assert!(output.status.success(), "vhosts.sh {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        output
    }

    /// The ssh configuration that reaches the hosts.
    pub(crate) fn ssh_config(&self) -> PathBuf {
        let path = String::from_utf8(self.call(&["ssh-config"]).stdout).expect("a path");
        PathBuf::from(path.trim())
    }

    /// That no process of gdrtune's is left on any host.
    pub(crate) fn assert_clean(&self, hosts: &[&str]) {
        for host in hosts {
            assert_eq!(self.shell(host, "pgrep -c gdrtune || true").trim(), "0", "left on {host}");
        }
    }

    /// Runs a shell command on a host; its output, whatever its exit status.
    pub(crate) fn shell(&self, host: &str, command: &str) -> String {
        let output = self.command(&["run", host, command]).output().expect("vhosts.sh starts");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}
