//! An sshd of a test's own: temporary keys, high port on the loopback, gone when dropped.
#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "only tests use this")]

use std::{
    fs,
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use gdrtune_fleet::launcher::SshOptions;

use crate::shell::{eventually, write_executable};

const PROGRAM: &str = "/usr/sbin/sshd";

/// A running sshd. In its ssh configuration the host `far` leads to it, `behind` leads to it by way of `far`, and `portless`
/// leads to it with the right port only.
pub(crate) struct Sshd {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) port: u16,
    child: Child,
}

impl Sshd {
    /// Starts one, or says that there is none on this machine.
    pub(crate) fn start(test: &str) -> Option<Self> {
        if !Path::new(PROGRAM).exists() {
            eprintln!("SKIPPED {test}: there is no {PROGRAM}; install openssh-server");
            return None;
        }
        // sshd run by root insists on this folder; others do not need it.
        fs::create_dir_all("/run/sshd").ok();
        let folder = tempfile::tempdir().unwrap();
        for key in ["host_key", "user_key"] {
            generate_key(&folder.path().join(key));
        }
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let at = folder.path().display();
        let config = format!(
            "Port {port}\nListenAddress 127.0.0.1\nHostKey {at}/host_key\nPidFile none\nUsePAM no\nStrictModes no\n\
             AuthorizedKeysFile {at}/authorized_keys\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n\
             PermitRootLogin yes\nPrintMotd no\nMaxSessions 2\nMaxStartups 100\nSetEnv XDG_CACHE_HOME={at}/cache\n"
        );
        fs::write(folder.path().join("sshd_config"), config).unwrap();
        let client = |host: &str, more: &str| {
            format!(
                "Host {host}\n HostName 127.0.0.1\n Port {port}\n IdentityFile {at}/user_key\n IdentitiesOnly yes\n \
                 IdentityAgent none\n UserKnownHostsFile {at}/known_hosts\n GlobalKnownHostsFile /dev/null\n{more}"
            )
        };
        let ssh_config = client("far", "")
            + &client("behind", " ProxyJump far\n")
            + &client("portless", &format!(" HostKeyAlias [127.0.0.1]:{port}\n"))
                .replace(&format!("\n Port {port}"), "\n Port 1")
            + "Host nowhere\n HostName name.invalid\n";
        fs::write(folder.path().join("ssh_config"), ssh_config).unwrap();
        let log = fs::File::create(folder.path().join("sshd.log")).unwrap();
        let mut command = Command::new(PROGRAM);
        command.args(["-D", "-e", "-f"]).arg(folder.path().join("sshd_config"));
        let child = command.stdin(Stdio::null()).stderr(log).spawn().unwrap();
        let sshd = Self { folder, port, child };
        sshd.authorize("");
        sshd.know_host(&sshd.path("host_key.pub"), port);
        eventually("sshd", || TcpStream::connect(("127.0.0.1", port)).is_ok());
        Some(sshd)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn options(&self) -> SshOptions {
        SshOptions { ssh_config: Some(self.path("ssh_config")), ..SshOptions::new() }
    }

    /// Lets the test's key in, with options of `authorized_keys`.
    pub(crate) fn authorize(&self, options: &str) {
        let key = fs::read_to_string(self.path("user_key.pub")).unwrap();
        fs::write(self.path("authorized_keys"), format!("{options} {key}").trim_start()).unwrap();
    }

    /// Runs each command through a script, as if that were the login shell. The script finds it in `$SSH_ORIGINAL_COMMAND`.
    pub(crate) fn wrap(&self, script: &str) {
        let path = self.path("wrapper");
        write_executable(&path, &format!("#!/bin/sh\n{script}\n"));
        self.authorize(&format!("command=\"{}\"", path.display()));
    }

    fn know_host(&self, public_key: &Path, port: u16) {
        let key = fs::read_to_string(public_key).unwrap();
        fs::write(self.path("known_hosts"), format!("[127.0.0.1]:{port} {key}")).unwrap();
    }

    /// Makes the known key another one than the server's.
    pub(crate) fn change_known_key(&self) {
        generate_key(&self.path("other_key"));
        let known = fs::read_to_string(self.path("known_hosts")).unwrap();
        let name = known.split(' ').next().unwrap();
        let key = fs::read_to_string(self.path("other_key.pub")).unwrap();
        fs::write(self.path("known_hosts"), format!("{name} {key}")).unwrap();
    }

    /// Process ids of the connections that are open.
    pub(crate) fn connections(&self) -> Vec<u32> {
        let output = Command::new("ps").args(["-o", "pid=", "--ppid", &self.child.id().to_string()]).output().unwrap();
        let ids = String::from_utf8(output.stdout).unwrap();
        ids.split_whitespace().map(|id| id.parse().unwrap()).collect()
    }

    pub(crate) fn stop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn generate_key(path: &Path) {
    let mut command = Command::new("ssh-keygen");
    command.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(path).stdout(Stdio::null());
    assert!(command.status().unwrap().success());
}
