//! The ssh launcher against a real sshd on the loopback. Skipped, and said so, where there is none.
#![expect(clippy::unwrap_used, reason = "only tests use this")]

#[path = "support/messages.rs"]
mod messages;
#[path = "support/shell.rs"]
mod shell;
#[path = "support/sshd.rs"]
mod sshd;

use std::{
    fs,
    io::{BufRead, BufReader},
    net::{Ipv4Addr, SocketAddrV4},
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc::{Receiver, channel},
    },
    time::{Duration, SystemTime},
};

use gdrtune_fleet::{
    Fleet, FleetConfig, FleetEvent, LaunchError, LaunchErrorKind, LauncherKind,
    hosts::Host,
    launcher::{Launcher as _, SshLauncher, SshOptions},
};
use messages::BUILD;
use rustix::net::{AddressFamily, SocketType, bind, getsockname, listen, socket};
use shell::{agent_script, events_until, eventually, executable, processes};
use sshd::Sshd;
use tokio::net::{TcpListener, TcpStream};

async fn connect(executable: &Path, options: SshOptions, host: &str) -> (Fleet, Receiver<FleetEvent>) {
    let mut config = FleetConfig::new(BUILD, executable, LauncherKind::Ssh(options));
    config.agent_env = vec![("GDRTUNE_X".to_owned(), "it's $HOME \\ !x".to_owned())];
    let (sender, events) = channel();
    (Fleet::connect(config, vec![Host::named(host)], sender).await.unwrap(), events)
}

async fn connect_far(sshd: &Sshd, script: &str) -> (Fleet, Receiver<FleetEvent>) {
    connect(&executable(sshd.folder.path(), script), sshd.options(), "far").await
}

fn failure(fleet: &Fleet) -> &LaunchError {
    let [(0, error)] = fleet.failures() else { panic!("{:?}", fleet.failures()) };
    error
}

fn assert_ready(fleet: &Fleet, sshd: &Sshd) {
    let log = fs::read_to_string(sshd.path("sshd.log")).unwrap();
    assert!(fleet.failures().is_empty(), "{:?}\n{log}", fleet.failures());
}

/// All files below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return vec![] };
    let paths = entries.map(|entry| entry.unwrap().path());
    paths.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn uploads_once_and_reuses() {
    let Some(sshd) = Sshd::start("uploads_once_and_reuses") else { return };
    let script = agent_script(BUILD, "echo \"with $GDRTUNE_X $1\" >&2");
    let mut inodes = Vec::new();
    for round in 0..3 {
        if round == 2 {
            fs::write(&files(&sshd.path("cache"))[0], "#!/bin/sh\n# cut short\n").unwrap();
        }
        let (fleet, events) = connect_far(&sshd, &script).await;
        assert_ready(&fleet, &sshd);
        let line = "with it's $HOME \\ !x agent".to_owned();
        events_until(&events, |event| *event == FleetEvent::Log { node: 0, line: line.clone() });
        fleet.shutdown().await;
        eventually("the end of the connection", || sshd.connections().is_empty());
        let [file] = &files(&sshd.path("cache"))[..] else { panic!("{:?}", files(&sshd.path("cache"))) };
        let metadata = fs::metadata(file).unwrap();
        assert_eq!(metadata.permissions().mode() & 0o777, 0o700);
        assert_eq!(fs::metadata(file.parent().unwrap()).unwrap().permissions().mode() & 0o777, 0o700);
        assert_eq!(fs::read_to_string(file).unwrap(), script);
        inodes.push(metadata.ino());
    }
    assert_eq!(inodes[0], inodes[1], "the second connection reuses the file");
    assert_ne!(inodes[1], inodes[2], "a file that is cut short is replaced");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_folder_and_the_port_can_be_named() {
    let Some(sshd) = Sshd::start("the_folder_and_the_port_can_be_named") else { return };
    let script = executable(sshd.folder.path(), &agent_script(BUILD, ""));
    let mut config = FleetConfig::new(BUILD, script, LauncherKind::Ssh(sshd.options()));
    config.remote_folder = Some(sshd.path("it's here").display().to_string());
    let (sender, _events) = channel();
    // The configuration's own port is a wrong one here.
    let host = Host { port: Some(sshd.port), ..Host::named("portless") };
    let fleet = Fleet::connect(config, vec![host], sender).await.unwrap();
    assert_ready(&fleet, &sshd);
    assert_eq!(files(&sshd.path("it's here/gdrtune/agent")).len(), 1);
    assert_eq!(files(&sshd.path("cache")), Vec::<PathBuf>::new());
    fleet.shutdown().await;
}

#[tokio::test]
async fn only_hosts_behind_a_jump_host_wait_for_each_other() {
    let Some(sshd) = Sshd::start("only_hosts_behind_a_jump_host_wait_for_each_other") else { return };
    let launcher = SshLauncher::new(SshOptions { jump_window: 1, ..sshd.options() }).unwrap();
    let (far, behind) = (Host::named("far"), Host::named("behind"));
    assert!(launcher.turn(&far).await.is_none());
    let turn = launcher.turn(&behind).await.expect("a turn");
    tokio::select! {
        biased;
        _ = launcher.turn(&behind) => panic!("two turns at one time"),
        // Answered after the question about the other has been.
        other = async { launcher.turn(&far).await; launcher.turn(&far).await } => assert!(other.is_none()),
    }
    drop(turn);
    assert!(launcher.turn(&behind).await.is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[expect(clippy::disallowed_methods, reason = "files have ages")]
async fn old_builds_go_when_a_host_is_connected() {
    let Some(sshd) = Sshd::start("old_builds_go_when_a_host_is_connected") else { return };
    let age = SystemTime::now() - Duration::from_hours(48);
    for digit in ["1", "2", "3"] {
        let folder = sshd.path("cache/gdrtune/agent").join(digit.repeat(64));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("gdrtune"), "").unwrap();
        fs::File::open(&folder).unwrap().set_modified(age).unwrap();
    }
    let script = agent_script(BUILD, "");
    for _ in 0..2 {
        let (fleet, _events) = connect_far(&sshd, &script).await;
        assert_ready(&fleet, &sshd);
        fleet.shutdown().await;
        assert_eq!(files(&sshd.path("cache")).len(), 3, "ours and two others");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_build_is_uploaded_again_then_said() {
    let Some(sshd) = Sshd::start("another_build_is_uploaded_again_then_said") else { return };
    let (fleet, events) = connect_far(&sshd, &agent_script("build-0", "")).await;
    let error = failure(&fleet);
    assert_eq!(error.kind, LaunchErrorKind::BuildMismatch, "{error}");
    let again =
        events.try_iter().filter(|event| matches!(event, FleetEvent::Log { line, .. } if line.contains("again")));
    assert_eq!(again.count(), 1);
    drop(fleet);
    eventually("the end of the connections", || sshd.connections().is_empty());
}

/// What is said of a host that shows another key than the known one.
fn key_changed(sshd: &Sshd) -> String {
    let output = Command::new("ssh-keygen").arg("-lf").arg(sshd.path("host_key.pub")).output().unwrap();
    let output = String::from_utf8(output.stdout).unwrap();
    let fingerprint = output.split(' ').nth(1).unwrap();
    let (known, config, port) = (sshd.path("known_hosts"), sshd.path("ssh_config"), sshd.port);
    format!(
        "start the agent on far: host key changed: WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! / The fingerprint for the \
         ED25519 key sent by the remote host is / {fingerprint}. / Add correct host key in {0} to get rid of this message. / \
         Offending ED25519 key in {0}:1 / remove with: / ssh-keygen -f \"{0}\" -R \"[127.0.0.1]:{port}\" / Host key for \
         [127.0.0.1]:{port} has changed and you have requested strict checking. / Host key verification failed.; if the host was \
         really reinstalled, remove its old key with `ssh-keygen -R` as ssh says above, then check `ssh -F {1} far`",
        known.display(),
        config.display()
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn host_keys_are_strict() {
    let Some(sshd) = Sshd::start("host_keys_are_strict") else { return };
    let known = fs::read_to_string(sshd.path("known_hosts")).unwrap();
    fs::remove_file(sshd.path("known_hosts")).unwrap();
    let script = agent_script(BUILD, "");
    let (fleet, _events) = connect_far(&sshd, &script).await;
    let error = failure(&fleet);
    assert_eq!(error.kind, LaunchErrorKind::HostKeyUnknown, "{error}");
    assert!(error.hint.contains("--accept-new-host-keys") && error.hint.contains("ssh -F"), "{error}");
    assert!(!sshd.path("known_hosts").exists());

    let accepting = SshOptions { accept_new_host_keys: true, ..sshd.options() };
    let (fleet, _events) = connect(&sshd.path("agent.sh"), accepting.clone(), "far").await;
    assert_ready(&fleet, &sshd);
    fleet.shutdown().await;
    let key = known.split_whitespace().nth(2).unwrap();
    assert!(fs::read_to_string(sshd.path("known_hosts")).unwrap().contains(key));

    sshd.change_known_key();
    for options in [sshd.options(), accepting] {
        let (fleet, _events) = connect(&sshd.path("agent.sh"), options, "far").await;
        let error = failure(&fleet);
        assert_eq!(error.kind, LaunchErrorKind::HostKeyChanged, "{error}");
        assert_eq!(error.to_string(), key_changed(&sshd));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refusals_are_told_apart() {
    let Some(mut sshd) = Sshd::start("refusals_are_told_apart") else { return };
    let script = agent_script(BUILD, "");
    fs::write(sshd.path("authorized_keys"), "").unwrap();
    let (fleet, _events) = connect_far(&sshd, &script).await;
    let error = failure(&fleet);
    assert_eq!(error.kind, LaunchErrorKind::AuthRefused, "{error}");
    let user = String::from_utf8(Command::new("id").arg("-un").output().unwrap().stdout).unwrap();
    let expected = format!(
        "start the agent on far: auth refused: {}@127.0.0.1: Permission denied (publickey).; there are no password prompts: load \
         a key into ssh-agent, then check `ssh -o BatchMode=yes` with `ssh -F {} far`",
        user.trim(),
        sshd.path("ssh_config").display()
    );
    assert_eq!(error.to_string(), expected);
    // The jump host refuses too, and it is its own words that are shown.
    let (fleet, _events) = connect(&sshd.path("agent.sh"), sshd.options(), "behind").await;
    assert_eq!(failure(&fleet).kind, LaunchErrorKind::AuthRefused, "{}", failure(&fleet));

    let (fleet, _events) = connect(&sshd.path("agent.sh"), sshd.options(), "nowhere").await;
    assert_eq!(failure(&fleet).kind, LaunchErrorKind::NameUnknown, "{}", failure(&fleet));

    let broken = sshd.path("broken_config");
    fs::write(&broken, "Host *\n Nonsense yes\n").unwrap();
    let options = SshOptions { ssh_config: Some(broken), ..SshOptions::new() };
    let (fleet, _events) = connect(&sshd.path("agent.sh"), options, "far").await;
    let error = failure(&fleet);
    assert_eq!(error.kind, LaunchErrorKind::SshConfig, "{error}");
    assert!(error.detail.contains("line 2"), "{error}");

    sshd.stop();
    let (fleet, _events) = connect(&sshd.path("agent.sh"), sshd.options(), "far").await;
    assert_eq!(failure(&fleet).kind, LaunchErrorKind::Refused, "{}", failure(&fleet));
    let (fleet, _events) = connect(&sshd.path("absent"), sshd.options(), "far").await;
    assert_eq!(failure(&fleet).kind, LaunchErrorKind::Local, "{}", failure(&fleet));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silent_hosts_are_given_up() {
    let Some(sshd) = Sshd::start("silent_hosts_are_given_up") else { return };
    let script = executable(sshd.folder.path(), &agent_script(BUILD, ""));
    // Its queue is full with one connection, and what comes then gets no answer, as from a machine that is off.
    let dead = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&dead, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).unwrap();
    listen(&dead, 0).unwrap();
    let dead_port = SocketAddrV4::try_from(getsockname(&dead).unwrap()).unwrap().port();
    let _first = TcpStream::connect(("127.0.0.1", dead_port)).await.unwrap();
    // Accepts, and says nothing: a machine that hangs.
    let hung = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let hung_port = hung.local_addr().unwrap().port();
    for (port, said) in [
        (dead_port, format!("ssh: connect to host 127.0.0.1 port {dead_port}: Connection timed out")),
        (hung_port, "Connection timed out during banner exchange".to_owned()),
    ] {
        let options = SshOptions { connect_timeout: Duration::from_secs(1), ..sshd.options() };
        let config = FleetConfig::new(BUILD, &script, LauncherKind::Ssh(options));
        let (sender, _events) = channel();
        let host = Host { port: Some(port), ..Host::named("portless") };
        let fleet = Fleet::connect(config, vec![host], sender).await.unwrap();
        let by_hand = format!("ssh -F {} -p {port} portless", sshd.path("ssh_config").display());
        assert_eq!(
            failure(&fleet).to_string(),
            format!(
                "start the agent on portless: unreachable: {said}; check that the host is up, and that `{by_hand}` reaches it"
            )
        );
    }
}

/// Stands before an sshd and closes the first connections at once, as sshd does above `MaxStartups`. Gives its port and the
/// number of connections so far.
async fn dropping(sshd: &Sshd, drops: usize) -> (u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let (count, behind) = (Arc::new(AtomicUsize::new(0)), sshd.port);
    let counted = Arc::clone(&count);
    tokio::spawn(async move {
        while let Ok((mut near, _)) = listener.accept().await {
            if counted.fetch_add(1, Ordering::SeqCst) < drops {
                continue;
            }
            tokio::spawn(async move {
                let mut far = TcpStream::connect(("127.0.0.1", behind)).await.unwrap();
                // Either end may go as it likes.
                tokio::io::copy_bidirectional(&mut near, &mut far).await.ok();
            });
        }
    });
    (port, count)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dropped_connections_are_tried_again_and_refused_ones_are_not() {
    let Some(sshd) = Sshd::start("dropped_connections_are_tried_again_and_refused_ones_are_not") else { return };
    let script = executable(sshd.folder.path(), &agent_script(BUILD, ""));
    let connect_by = |port: u16| {
        let host = Host { port: Some(port), ..Host::named("portless") };
        let config = FleetConfig::new(BUILD, &script, LauncherKind::Ssh(sshd.options()));
        let (sender, _events) = channel();
        async move { Fleet::connect(config, vec![host], sender).await.unwrap() }
    };
    // A connection, a look at what is behind, and another are dropped.
    let (port, count) = dropping(&sshd, 3).await;
    let fleet = connect_by(port).await;
    assert_ready(&fleet, &sshd);
    assert_eq!(count.load(Ordering::SeqCst), 4);
    fleet.shutdown().await;

    // Four attempts and a look are all there is.
    let (port, count) = dropping(&sshd, usize::MAX).await;
    let fleet = connect_by(port).await;
    assert_eq!(failure(&fleet).kind, LaunchErrorKind::Dropped, "{}", failure(&fleet));
    assert!(failure(&fleet).hint.contains("--fanout"), "{}", failure(&fleet));
    assert_eq!(count.load(Ordering::SeqCst), 5);

    fs::write(sshd.path("authorized_keys"), "").unwrap();
    let (port, count) = dropping(&sshd, 0).await;
    let fleet = connect_by(port).await;
    assert_eq!(failure(&fleet).kind, LaunchErrorKind::AuthRefused, "{}", failure(&fleet));
    assert_eq!(count.load(Ordering::SeqCst), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_login_shell_and_its_noise_will_do() {
    let Some(sshd) = Sshd::start("any_login_shell_and_its_noise_will_do") else { return };
    for shell in ["bash", "csh", "tcsh", "fish"] {
        if Command::new(shell).args(["-c", "true"]).output().is_err() {
            eprintln!("SKIPPED part of any_login_shell_and_its_noise_will_do: there is no {shell}");
            continue;
        }
        fs::remove_dir_all(sshd.path("cache")).ok();
        sshd.wrap(&format!(
            "echo 'Welcome to far'; echo GDRTUNE; echo noise >&2; exec {shell} -c \"$SSH_ORIGINAL_COMMAND\""
        ));
        let script = agent_script(BUILD, "echo \"with $GDRTUNE_X $1\" >&2");
        let (fleet, events) = connect_far(&sshd, &script).await;
        assert_ready(&fleet, &sshd);
        let mut missing = vec!["Welcome to far", "with it's $HOME \\ !x agent"];
        while !missing.is_empty() {
            let seen = events_until(&events, |event| matches!(event, FleetEvent::Log { .. }));
            let Some(FleetEvent::Log { line, .. }) = seen.last() else { unreachable!() };
            missing.retain(|wanted| wanted != line);
        }
        fleet.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hosts_that_cannot_run_it_say_why() {
    let Some(sshd) = Sshd::start("hosts_that_cannot_run_it_say_why") else { return };
    let script = agent_script(BUILD, "");
    let other = sshd.path("bin");
    fs::create_dir(&other).unwrap();
    shell::write_executable(&other.join("uname"), "#!/bin/sh\ntest $1 = -s && echo Linux || echo aarch65\n");
    let run = "exec sh -c \"$SSH_ORIGINAL_COMMAND\"";
    let tmp = sshd.path("tmp");
    fs::create_dir(&tmp).unwrap();
    let tmp = format!("TMPDIR={} XDG_RUNTIME_DIR=", tmp.display());
    for (wrapper, kind, words) in [
        (format!("PATH={}:$PATH; {run}", other.display()), LaunchErrorKind::OtherArchitecture, "Linux aarch65"),
        // A file size limit ends the upload as a full disk does.
        (format!("ulimit -f 0; {tmp} {run}"), LaunchErrorKind::UploadFailed, "/cache/gdrtune/agent: "),
        (
            format!("TMPDIR=/proc/none XDG_RUNTIME_DIR= XDG_CACHE_HOME=/proc/none {run}"),
            LaunchErrorKind::UploadFailed,
            "/proc/none/gdrtune/agent: mkdir: cannot create directory",
        ),
        ("echo This account is for git only; exit 1".to_owned(), LaunchErrorKind::Probe, "for git only"),
    ] {
        sshd.wrap(&wrapper);
        let (fleet, _events) = connect_far(&sshd, &script).await;
        let error = failure(&fleet);
        assert_eq!(error.kind, kind, "{error}");
        assert!(error.detail.contains(words), "{error}");
        assert_eq!(files(&sshd.path("cache")), Vec::<PathBuf>::new());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jump_hosts_work_out_of_reach_of_ctrl_c() {
    let Some(sshd) = Sshd::start("jump_hosts_work_out_of_reach_of_ctrl_c") else { return };
    let path = executable(sshd.folder.path(), &agent_script(BUILD, ""));
    let (fleet, _events) = connect(&path, sshd.options(), "behind").await;
    assert_ready(&fleet, &sshd);
    let config = sshd.path("ssh_config").display().to_string();
    let group_of = |id: u32| {
        let output = Command::new("ps").args(["-o", "pgid=", "-p", &id.to_string()]).output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    let jumps: Vec<u32> = processes()
        .iter()
        .filter(|(_, line)| line.contains(&config) && line.contains(" -W "))
        .map(|(id, _)| *id)
        .collect();
    assert!(!jumps.is_empty());
    let own = group_of(std::process::id());
    assert!(jumps.iter().all(|id| group_of(*id) != own));
    fleet.shutdown().await;
    eventually("the end of both connections", || sshd.connections().is_empty());
    eventually("the end of ssh", || !processes().iter().any(|(_, line)| line.contains(&config)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cut_connection_is_a_loss() {
    let Some(sshd) = Sshd::start("a_cut_connection_is_a_loss") else { return };
    let (fleet, events) = connect_far(&sshd, &agent_script(BUILD, "")).await;
    assert_ready(&fleet, &sshd);
    for id in sshd.connections() {
        // Not -9: of the two processes that serve a plain user, the other one would keep the connection.
        assert!(Command::new("kill").arg(id.to_string()).status().unwrap().success());
    }
    let seen = events_until(&events, |event| matches!(event, FleetEvent::Lost { .. }));
    let Some(FleetEvent::Lost { why, .. }) = seen.last() else { unreachable!() };
    assert!(why.contains("connection was lost"), "{why}");
    fleet.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dropping_the_fleet_ends_the_connection() {
    let Some(sshd) = Sshd::start("dropping_the_fleet_ends_the_connection") else { return };
    // An agent that does not care about its input.
    let script = agent_script(BUILD, "").replace("exec cat > /dev/null", "while test -e $0; do sleep 0.2; done");
    let (fleet, _events) = connect_far(&sshd, &script).await;
    assert_ready(&fleet, &sshd);
    assert!(!sshd.connections().is_empty());
    drop(fleet);
    eventually("the end of the connection", || sshd.connections().is_empty());
}

/// Not a test by itself: the client that the two tests below run as a process of its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn client() {
    let Some(folder) = std::env::var_os("GDRTUNE_TEST_CLIENT").map(PathBuf::from) else { return };
    let options = SshOptions { ssh_config: Some(folder.join("ssh_config")), ..SshOptions::new() };
    let (fleet, _events) = connect(&folder.join("agent.sh"), options, "far").await;
    println!("\nconnected: {:?}", fleet.failures().iter().map(|(_, error)| error.kind).collect::<Vec<_>>());
    std::future::pending::<()>().await;
}

/// Starts the client; gives it and what it says of its connection.
fn run_client(sshd: &Sshd, path: Option<&str>) -> (std::process::Child, String) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "client", "--nocapture"]).env("GDRTUNE_TEST_CLIENT", sshd.folder.path());
    if let Some(path) = path {
        command.env("PATH", path);
    }
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let said = lines.find_map(|line| line.strip_prefix("connected: ").map(str::to_owned));
    (child, said.unwrap())
}

#[test]
fn a_missing_ssh_is_said() {
    let Some(sshd) = Sshd::start("a_missing_ssh_is_said") else { return };
    executable(sshd.folder.path(), &agent_script(BUILD, ""));
    let (mut child, said) = run_client(&sshd, Some("/nonexistent"));
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(said, "[NoSsh]");
}

#[test]
fn a_killed_client_leaves_nothing() {
    let Some(sshd) = Sshd::start("a_killed_client_leaves_nothing") else { return };
    executable(sshd.folder.path(), &agent_script(BUILD, ""));
    let (mut child, said) = run_client(&sshd, None);
    assert_eq!(said, "[]");
    let cache = sshd.path("cache").display().to_string();
    child.kill().unwrap();
    child.wait().unwrap();
    eventually("the end of the agent", || !processes().iter().any(|(_, line)| line.contains(&cache)));
    eventually("the end of the connection", || sshd.connections().is_empty());
}
