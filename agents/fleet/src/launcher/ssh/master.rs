//! One ssh connection: a background process of ssh that owns the network connection and listens on a control socket.
//!
//! We start ssh ourselves and hand the socket to the `openssh` crate. So ssh and its jump hosts are in a process group
//! of their own, out of reach of the terminal's Ctrl-C; options of our choice can be given; ssh's words are at hand; and
//! the master can be ended at once, with the channels on it.

use std::{
    ffi::OsString,
    fs::{self, File},
    io::{self, Read, Write},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
    sync::Arc,
    time::Duration,
};

use openssh::Session;

use super::{SshOptions, control::ControlDirectory, diagnose};
use crate::{
    error::{LaunchError, LaunchErrorKind},
    hosts::Host,
};

/// Attempts while the server drops us before authentication, as it does at random above `MaxStartups`.
const MAX_ATTEMPTS: u32 = 4;
/// Shortest pause between two attempts; the longest is three times that, times the attempt.
const PAUSE: Duration = Duration::from_millis(250);
/// Time that a master without channels lives on, in seconds: after a crash of ours nothing else ends it.
const IDLE_SECONDS: u32 = 10;
/// Time for an answer on the control socket.
const CONTROL_TIMEOUT: Duration = Duration::from_millis(300);
/// Time for a master to go after it was told to.
const EXIT_TIMEOUT: Duration = Duration::from_secs(2);

/// Message numbers of ssh's control protocol (`PROTOCOL.mux` in OpenSSH).
const MUX_MSG_HELLO: u32 = 0x0000_0001;
const MUX_C_TERMINATE: u32 = 0x1000_0005;
const MUX_VERSION: u32 = 4;
/// Largest answer that we read; ssh's are a few dozen bytes.
const MAX_MUX_PACKET: u32 = 4096;

/// A live connection. Dropping it ends the connection and every channel on it.
pub(super) struct Master {
    socket: PathBuf,
    session: Arc<Session>,
    /// Keeps the socket's folder.
    _control: Arc<ControlDirectory>,
}

impl Master {
    pub(super) async fn connect(
        options: &SshOptions,
        control: &Arc<ControlDirectory>,
        host: &Host,
    ) -> Result<Self, LaunchError> {
        let mut attempt = 1;
        loop {
            let error = match Self::connect_once(options, control, host).await {
                Ok(master) => return Ok(master),
                Err(error) => error,
            };
            if error.kind != LaunchErrorKind::Dropped || attempt == MAX_ATTEMPTS {
                return Err(error);
            }
            if attempt == 1 {
                Self::look_behind_drop(options, control, host).await?;
            }
            tokio::time::sleep(PAUSE.mul_f64(f64::from(attempt) * rand::random_range(1.0..3.0))).await;
            attempt += 1;
        }
    }

    /// Gives the real reason where a jump host is behind a dropped connection: a master hides the words of its jump
    /// hosts, a plain connection shows them.
    async fn look_behind_drop(
        options: &SshOptions,
        control: &Arc<ControlDirectory>,
        host: &Host,
    ) -> Result<(), LaunchError> {
        let log = control.socket().with_extension("log");
        let plain = ["-T", "-x", "-o", "ControlPath=none"].map(OsString::from).to_vec();
        let status =
            run_ssh(options, host, plain, Some("exit"), &log).await.map_err(|error| not_started(host, &error))?;
        let error = diagnose::connection(options, host, &take_log(&log));
        if status.success() || error.kind == LaunchErrorKind::Dropped { Ok(()) } else { Err(error) }
    }

    async fn connect_once(
        options: &SshOptions,
        control: &Arc<ControlDirectory>,
        host: &Host,
    ) -> Result<Self, LaunchError> {
        let socket = control.socket();
        let log = socket.with_extension("log");
        let mut as_master = ["-M", "-f", "-N", "-T", "-x", "-S"].map(OsString::from).to_vec();
        as_master.push(socket.clone().into());
        as_master.extend(["-o".into(), format!("ControlPersist={IDLE_SECONDS}s").into()]);
        let status = run_ssh(options, host, as_master, None, &log).await.map_err(|error| not_started(host, &error))?;
        let words = take_log(&log);
        if !status.success() {
            return Err(diagnose::connection(options, host, &words));
        }
        let session = Arc::new(Session::resume_mux(socket.clone().into_boxed_path(), None));
        Ok(Self { socket, session, _control: Arc::clone(control) })
    }

    pub(super) fn session(&self) -> Arc<Session> {
        Arc::clone(&self.session)
    }

    /// Ends the connection and waits until the master has gone, within bounds.
    pub(super) async fn close(self) {
        let socket = self.socket.clone();
        // Dropping talks to the control socket, which blocks.
        tokio::task::spawn_blocking(move || drop(self)).await.ok();
        let gone = async {
            while socket.exists() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(EXIT_TIMEOUT, gone).await.ok();
    }
}

impl Drop for Master {
    fn drop(&mut self) {
        // A master that does not answer has gone, or goes when its channels and its idle time have ended.
        terminate(&self.socket).ok();
    }
}

/// Runs ssh until it ends or goes to the background. Its words go to `log`.
async fn run_ssh(
    options: &SshOptions,
    host: &Host,
    mode: Vec<OsString>,
    remote_command: Option<&str>,
    log: &Path,
) -> io::Result<ExitStatus> {
    use std::os::unix::process::CommandExt;
    // Of another kind, so that it is not taken for a missing ssh.
    let log_file = File::create(log).map_err(|error| io::Error::other(format!("{}: {error}", log.display())))?;
    let mut command = Command::new("ssh");
    command.args(mode).args(arguments(options, host)).args(remote_command).process_group(0);
    // Jump hosts are reached by another ssh that does not inherit BatchMode: it asks this program, which says no.
    command.env("SSH_ASKPASS_REQUIRE", "force").env("SSH_ASKPASS", "/bin/false");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log_file);
    tokio::process::Command::from(command).kill_on_drop(true).status().await
}

fn take_log(log: &Path) -> String {
    let words = fs::read(log).unwrap_or_default();
    fs::remove_file(log).ok();
    String::from_utf8_lossy(&words).into_owned()
}

fn arguments(options: &SshOptions, host: &Host) -> Vec<OsString> {
    let host_keys = if options.accept_new_host_keys { "accept-new" } else { "yes" };
    let mut arguments = Vec::new();
    for option in [
        "BatchMode=yes".to_owned(),
        format!("StrictHostKeyChecking={host_keys}"),
        format!("ConnectTimeout={}", options.connect_timeout.as_secs().max(1)),
        "ServerAliveInterval=15".to_owned(),
        // Words of the user's configuration that are meant for shells, and would get in the way of many connections.
        "ClearAllForwardings=yes".to_owned(),
        "PermitLocalCommand=no".to_owned(),
        "RemoteCommand=none".to_owned(),
        "LogLevel=ERROR".to_owned(),
    ] {
        arguments.extend(["-o".into(), option.into()]);
    }
    arguments.extend(configured(options, host));
    arguments
}

/// What says which host is meant, and by which configuration.
pub(super) fn configured(options: &SshOptions, host: &Host) -> Vec<OsString> {
    let mut arguments = Vec::new();
    if let Some(config) = &options.ssh_config {
        arguments.extend(["-F".into(), config.into()]);
    }
    if let Some(user) = &host.user {
        arguments.extend(["-l".into(), user.into()]);
    }
    if let Some(port) = host.port {
        arguments.extend(["-p".into(), port.to_string().into()]);
    }
    arguments.extend(["--".into(), (&host.name).into()]);
    arguments
}

fn not_started(host: &Host, error: &io::Error) -> LaunchError {
    if error.kind() == io::ErrorKind::NotFound {
        let detail = "there is no program `ssh` on the search path";
        return LaunchError::new(
            &host.name,
            LaunchErrorKind::NoSsh,
            detail,
            "install the OpenSSH client (openssh-client)",
        );
    }
    let hint = "check free space in the temporary folder and the limits on processes and open files";
    LaunchError::new(&host.name, LaunchErrorKind::Local, format!("ssh could not be run: {error}"), hint)
}

/// Tells a master to exit and waits for its answer: one that is closed on in mid-sentence may not hear the end of it.
fn terminate(socket: &Path) -> io::Result<()> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(CONTROL_TIMEOUT))?;
    stream.set_write_timeout(Some(CONTROL_TIMEOUT))?;
    stream.write_all(&packet(MUX_MSG_HELLO, MUX_VERSION))?;
    read_packet(&mut stream)?;
    stream.write_all(&packet(MUX_C_TERMINATE, 0))?;
    read_packet(&mut stream)
}

/// A packet of two numbers: its kind, and a version or request number.
fn packet(kind: u32, number: u32) -> Vec<u8> {
    [8_u32, kind, number].iter().flat_map(|field| field.to_be_bytes()).collect()
}

fn read_packet(stream: &mut UnixStream) -> io::Result<()> {
    let mut head = [0; 4];
    stream.read_exact(&mut head)?;
    let length = u32::from_be_bytes(head);
    if length > MAX_MUX_PACKET {
        return Err(io::ErrorKind::InvalidData.into());
    }
    stream.read_exact(&mut vec![0; length as usize])
}
