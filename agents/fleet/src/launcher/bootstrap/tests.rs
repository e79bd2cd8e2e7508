//! The script, run by the shells of this machine.

use std::{
    ffi::CString,
    fs::{self, Permissions},
    os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use futures_util::future::join_all;
use tokio::io::AsyncReadExt as _;

use super::*;
use crate::launcher::{
    child::{self, Farewell},
    payload::PayloadCell,
};

/// What stands for the agent: it starts, and says so.
const AGENT: &str = "#!/bin/sh\ntest \"$1\" = agent || exit 0\necho \"agent with $X\"\n";

/// A machine with a home and a folder for temporary files of its own.
struct Machine {
    folder: tempfile::TempDir,
    spec: AgentSpec,
    wait_s: u32,
}

/// What came of a bootstrap: what the agent said, and the log.
type Outcome = Result<(String, String), String>;

impl Machine {
    fn new(agent: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["home", "tmp", "run"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        let executable = folder.path().join("agent");
        fs::write(&executable, agent).unwrap();
        let spec = AgentSpec {
            build_id: "build-1".to_owned(),
            executable,
            agent_folder: None,
            env: vec![("X".to_owned(), "it's $HOME \\ !x".to_owned())],
            remote_folder: None,
        };
        Self { folder, spec, wait_s: UPLOAD_WAIT_S }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Where the agent is kept in a base folder.
    fn agent_in(&self, base: &str) -> Option<PathBuf> {
        let builds = fs::read_dir(self.path(base).join("gdrtune/agent")).ok()?.next()?.unwrap();
        Some(builds.path().join("gdrtune")).filter(|file| file.exists())
    }

    async fn start(&self, prefix: &str) -> Outcome {
        self.start_with(prefix, Freshness::Reuse).await
    }

    /// Bootstraps in `sh`, after some commands.
    async fn start_with(&self, prefix: &str, freshness: Freshness) -> Outcome {
        let host = Host::named("n1");
        let cell = PayloadCell::default();
        let payloads = cell.get(&host, &self.spec).await.unwrap();
        let stage = Stage::new();
        let mut bootstrap = Bootstrap::new(&host, &self.spec, &payloads, freshness, &stage);
        bootstrap.upload_wait_s = self.wait_s;
        let mut command = Command::new("sh");
        command.args(["-c", &format!("{prefix}\nexec \"$@\""), "sh"]).args(bootstrap.words()).env_clear();
        command.env("PATH", std::env::var_os("PATH").unwrap()).env("HOME", self.path("home"));
        command.env("TMPDIR", self.path("tmp")).env("XDG_RUNTIME_DIR", self.path("run"));
        let launched = child::spawn(command, Farewell::Kill).unwrap();
        match bootstrap.run(launched).await {
            Ok(mut launched) => {
                let (mut said, mut log) = (String::new(), String::new());
                launched.stdout.read_to_string(&mut said).await.unwrap();
                launched.stderr.read_to_string(&mut log).await.unwrap();
                launched.process.close().await;
                Ok((said.trim().to_owned(), log))
            }
            Err(BootstrapError::Launch(error)) => Err(error.to_string()),
            Err(BootstrapError::NoAnswer(words)) => Err(format!("no answer: {words:?}")),
        }
    }
}

/// The place after the home, in the machine's folder.
fn fallback() -> String {
    format!("tmp/gdrtune-{}", rustix::process::getuid().as_raw())
}

/// Mounts a private file system for the rest of the shell, with these options; only root may.
fn mounted(machine: &Machine, places: &[&str], options: &str) -> Option<String> {
    let may = Command::new("unshare").args(["--mount", "true"]).output().is_ok_and(|output| output.status.success());
    if !may {
        eprintln!("SKIPPED: mount namespaces may not be made here");
        return None;
    }
    let mounts: Vec<String> = places
        .iter()
        .map(|place| format!("mount -t tmpfs -o {options} tmpfs {}", machine.path(place).display()))
        .collect();
    Some(mounts.join(" && "))
}

/// Words of a bootstrap that runs in a mount namespace after some mounts.
fn in_namespace(mounts: &str) -> String {
    format!("exec unshare --mount sh -c '{mounts} || exit 1; exec \"$@\"' sh \"$@\"")
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[tokio::test]
async fn stores_privately_and_uses_what_is_there() {
    let machine = Machine::new(AGENT);
    let (said, log) = machine.start("").await.unwrap();
    assert_eq!(said, "agent with it's $HOME \\ !x");
    assert_eq!(log, format!("uploaded the agent (0.0 MiB) to {}\n", machine.path("home/.cache").display()));
    let stored = machine.agent_in("home/.cache").unwrap();
    let folders: Vec<&Path> = stored.ancestors().take(4).collect();
    assert!(folders.iter().all(|path| mode(path) == 0o700), "{folders:?}");
    assert_eq!(fs::read_dir(stored.parent().unwrap()).unwrap().count(), 1, "neither claim nor temporary file");

    let before = fs::metadata(&stored).unwrap().ino();
    assert_eq!(machine.start("").await.unwrap().1, "", "nothing to say");
    assert_eq!(fs::metadata(&stored).unwrap().ino(), before);
    machine.start_with("", Freshness::Replace).await.unwrap();
    assert_ne!(fs::metadata(&stored).unwrap().ino(), before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hosts_with_one_home_store_it_once() {
    let machine = Machine::new(&format!("{AGENT}# {}\n", "x".repeat(3 << 20)));
    let outcomes = join_all((0..16).map(|_| machine.start(""))).await;
    let logs: Vec<String> = outcomes.into_iter().map(|outcome| outcome.unwrap().1).collect();
    let count = |words: &str| logs.iter().filter(|log| log.contains(words)).count();
    assert_eq!(count("uploaded the agent"), 1, "{logs:#?}");
    assert_eq!(count("does not take"), 0, "{logs:#?}");
}

#[tokio::test]
async fn a_claim_that_nobody_fills_is_not_waited_for_without_end() {
    let mut machine = Machine::new(AGENT);
    machine.start("").await.unwrap();
    let stored = machine.agent_in("home/.cache").unwrap();
    let claim = stored.with_file_name(".claim");
    fs::remove_file(&stored).unwrap();
    fs::create_dir(&claim).unwrap();
    machine.wait_s = 1;
    let begun = Instant::now();
    let (_, log) = machine.start("").await.unwrap();
    assert!(log.starts_with("waited for another host's upload to ") && log.contains("\nuploaded the agent"), "{log}");
    assert!(begun.elapsed() < Duration::from_secs(UPLOAD_WAIT_S.into()), "{:?}", begun.elapsed());
    assert!(stored.exists() && !claim.exists(), "the next one need not wait");
}

#[tokio::test]
async fn a_claim_given_back_between_two_looks_needs_no_second_upload() {
    let machine = Machine::new(AGENT);
    let bin = machine.path("bin");
    fs::create_dir(&bin).unwrap();
    // Another host stores the executable and gives its claim back just after this one could not make it.
    let real = Command::new("sh").args(["-c", "command -v mkdir"]).output().unwrap();
    let real = String::from_utf8(real.stdout).unwrap();
    let agent = machine.path("agent");
    let text = format!(
        "#!/bin/sh\ncase \"$1\" in */.claim) cp {} \"${{1%/*}}/gdrtune\"; chmod 700 \"${{1%/*}}/gdrtune\"; exit 1;; esac\nexec {} \"$@\"\n",
        agent.display(),
        real.trim()
    );
    fs::write(bin.join("mkdir"), text).unwrap();
    fs::set_permissions(bin.join("mkdir"), Permissions::from_mode(0o755)).unwrap();
    let (said, log) = machine.start(&format!("PATH={}:$PATH; export PATH", bin.display())).await.unwrap();
    assert!(said.starts_with("agent with"), "{said}");
    assert_eq!(log, "", "what is there is not stored again");
}

#[tokio::test]
async fn a_noexec_home_is_not_used() {
    let machine = Machine::new(AGENT);
    let Some(mounts) = mounted(&machine, &["home"], "noexec") else { return };
    let (said, log) = machine.start(&in_namespace(&mounts)).await.unwrap();
    assert_eq!(said, "agent with it's $HOME \\ !x");
    let home = machine.path("home/.cache/gdrtune/agent").display().to_string();
    let place = machine.path(&fallback()).display().to_string();
    let told = format!("{home} does not take the agent: no program may run there (mounted noexec?): env: ");
    assert!(log.contains(&told) && log.contains(": Permission denied\n"), "{log}");
    assert!(log.ends_with(&format!("uploaded the agent (0.0 MiB) to {place}\n")), "{log}");
    assert_eq!(mode(Path::new(&place)), 0o700);
    assert!(machine.agent_in(&fallback()).is_some());
}

#[tokio::test]
async fn a_full_home_is_not_used() {
    let machine = Machine::new(&format!("{AGENT}# {}\n", "x".repeat(3 << 20)));
    let Some(mounts) = mounted(&machine, &["home"], "size=1M") else { return };
    let (said, log) = machine.start(&in_namespace(&mounts)).await.unwrap();
    assert_eq!(said, "agent with it's $HOME \\ !x");
    let home = machine.path("home/.cache/gdrtune/agent").display().to_string();
    let told = format!("{home} does not take the agent: cat: write error: No space left on device\n");
    assert!(log.contains(&told), "{log}");
    assert!(machine.agent_in(&fallback()).is_some());
}

#[tokio::test]
async fn places_that_are_all_full_are_named_with_the_size() {
    let machine = Machine::new(&format!("{AGENT}# {}\n", "x".repeat(3 << 20)));
    let Some(mounts) = mounted(&machine, &["home", "tmp", "run"], "size=1M") else { return };
    let at = machine.folder.path().display();
    let full = "gdrtune/agent: cat: write error: No space left on device";
    let expected = format!(
        "start the agent on n1: upload failed: no folder there takes the agent of 3.0 MiB: {at}/home/.cache/{full}; \
         {at}/{}/{full}; {at}/run/gdrtune-agent/{full}; free space there, check quota and permissions, or name another folder \
         with --remote-dir",
        fallback()
    );
    assert_eq!(machine.start(&in_namespace(&mounts)).await.unwrap_err(), expected);
}

#[tokio::test]
async fn a_named_folder_is_the_only_one() {
    let mut machine = Machine::new(AGENT);
    let Some(mounts) = mounted(&machine, &["home"], "noexec") else { return };
    machine.spec.remote_folder = Some(machine.path("home").display().to_string());
    let error = machine.start(&in_namespace(&mounts)).await.unwrap_err();
    let at = machine.path("home").display().to_string();
    let begin = format!(
        "start the agent on n1: not executable: no folder there takes the agent of 0.0 MiB: {at}/gdrtune/agent: no program may \
         run there (mounted noexec?): env: "
    );
    assert!(error.starts_with(&begin), "{error}");
    assert!(error.ends_with("; name a folder that is not mounted noexec with --remote-dir"), "{error}");
    assert!(machine.agent_in(&fallback()).is_none());
}

#[tokio::test]
async fn a_host_without_a_home_has_temporary_folders() {
    let machine = Machine::new(AGENT);
    let (_, log) = machine.start("unset HOME").await.unwrap();
    let told = "the cache folder does not take the agent: neither HOME nor XDG_CACHE_HOME is a full path\n";
    assert!(log.starts_with(told), "{log}");
}

/// Whoever may write where our folder stands may make it before us.
#[tokio::test]
async fn a_folder_of_others_or_a_link_is_not_used() {
    let machine = Machine::new(AGENT);
    let fallback = machine.path(&fallback());
    let elsewhere = machine.path("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    symlink(&elsewhere, &fallback).unwrap();
    let (_, log) = machine.start("unset HOME").await.unwrap();
    assert!(log.contains(&format!("does not take the agent: {} is a link\n", fallback.display())), "{log}");
    assert!(machine.agent_in("run/gdrtune-agent").is_some());
    assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);

    fs::remove_file(&fallback).unwrap();
    fs::create_dir(&fallback).unwrap();
    let name = CString::new(fallback.as_os_str().as_encoded_bytes()).unwrap();
    if rustix::fs::chown(&name, Some(rustix::fs::Uid::from_raw(4711)), None).is_err() {
        eprintln!("SKIPPED part of a_folder_of_others_or_a_link_is_not_used: only root gives folders away");
        return;
    }
    fs::set_permissions(&fallback, Permissions::from_mode(0o777)).unwrap();
    let (_, log) = machine.start("unset HOME").await.unwrap();
    let told = format!("does not take the agent: {} belongs to somebody else\n", fallback.display());
    assert!(log.contains(&told), "{log}");
    assert_eq!((mode(&fallback), fs::read_dir(&fallback).unwrap().count()), (0o777, 0));
}

#[tokio::test]
async fn the_home_s_own_links_are_not_followed() {
    let machine = Machine::new(AGENT);
    let elsewhere = machine.path("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    fs::create_dir(machine.path("home/.cache")).unwrap();
    symlink(&elsewhere, machine.path("home/.cache/gdrtune")).unwrap();
    let (_, log) = machine.start("").await.unwrap();
    assert!(log.contains("/home/.cache/gdrtune is a link\n"), "{log}");

    // In place of the file itself, a link is replaced.
    fs::remove_file(machine.path("home/.cache/gdrtune")).unwrap();
    machine.start("").await.unwrap();
    let stored = machine.agent_in("home/.cache").unwrap();
    let precious = machine.path("precious");
    fs::write(&precious, AGENT).unwrap();
    fs::remove_file(&stored).unwrap();
    symlink(&precious, &stored).unwrap();
    machine.start("").await.unwrap();
    assert!(!stored.is_symlink() && mode(&precious) != 0o700);
}

#[tokio::test]
async fn what_does_not_start_says_why() {
    let loader = "echo \"$0: /lib/libc.so.6: version \\`GLIBC_2.9' not found (required by $0)\" >&2\n\
                  echo \"$0: /lib/libc.so.6: version \\`GLIBC_2.34' not found (required by $0)\" >&2";
    let bin = |machine: &Machine, name: &str, text: &str| {
        fs::create_dir_all(machine.path("bin")).unwrap();
        let path = machine.path("bin").join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        format!("PATH={}:$PATH", machine.path("bin").display())
    };
    let machine = Machine::new(&format!("#!/bin/sh\n{loader}\nexit 1\n"));
    let path = bin(&machine, "getconf", "#!/bin/sh\necho glibc 2.17\n");
    let error = machine.start(&path).await.unwrap_err();
    let begin = "start the agent on n1: C library too old: the host has glibc 2.17, the agent needs GLIBC_2.34: ";
    assert!(error.starts_with(begin), "{error}");
    let end =
        "; name a folder with a build for older systems with --agent-dir (./dist.sh makes one), or leave this host out";
    assert!(error.ends_with(end), "{error}");

    let machine = Machine::new("#!/lib/no-such-loader.so\n");
    let path = bin(&machine, "getconf", "#!/bin/sh\nexit 1\n");
    bin(&machine, "ldd", "#!/bin/sh\necho 'musl libc (x86_64)' >&2\necho Version 1.2 >&2; exit 1\n");
    let error = machine.start(&path).await.unwrap_err();
    let begin = "start the agent on n1: other C library: the host's loader does not fit, the agent needs glibc and the host has \
                 musl libc (x86_64): env: ";
    assert!(error.starts_with(begin), "{error}");

    let machine = Machine::new("#!/bin/sh\necho no luck today >&2\nexit 3\n");
    assert_eq!(
        machine.start("").await.unwrap_err(),
        "start the agent on n1: agent ended early: it does not start there (exit code 3): no luck today; run it there by hand \
         with --version, and see why"
    );
    let machine = Machine::new(AGENT);
    let path = bin(&machine, "uname", "#!/bin/sh\ntest $1 = -s && echo Linux || echo riscv64\n");
    assert_eq!(
        machine.start(&path).await.unwrap_err(),
        "start the agent on n1: other architecture: the host is Linux riscv64; there are agents for Linux on x86_64 and aarch64 \
         only; leave this host out"
    );
}

#[test]
fn what_is_no_word_of_the_script_is_no_answer() {
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    let failed = lines("failed\nplace=/h\nstep=store\ncode=1\nlibc=\nwhy=a\nb\u{1b}[2J");
    let refusal = Refusal {
        place: "/h".to_owned(),
        step: "store".to_owned(),
        code: 1,
        libc: String::new(),
        why: "a / b[2J".to_owned(),
    };
    assert_eq!(parse(&failed), Some(Said::Failed(refusal)));
    for text in ["", "hello", "place\nplace=/h", "failed\nplace=/h\nstep=store\ncode=x\nlibc=\nwhy="] {
        assert_eq!(parse(&lines(text)), None, "{text}");
    }
}
