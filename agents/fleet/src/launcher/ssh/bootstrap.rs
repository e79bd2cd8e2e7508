//! Brings our executable onto a host and starts it there, over an open ssh connection.
//!
//! The login shell may be anything: each command is `exec sh -c SCRIPT sh ARGUMENTS`, with a constant script of one
//! line and quoted arguments, so nothing that a host or a user says reaches a shell as text to run. What login files
//! print around it is ignored: answers stand between lines with a random marker.

use std::{sync::Arc, time::Duration};

use openssh::{Child, Session, Stdio};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::payload::Payload;
use crate::{
    error::{LaunchError, LaunchErrorKind},
    hosts::Host,
    launcher::{Ended, Freshness, Stage, prune::PRUNE, quote},
};

/// Arguments: marker, hash. Prints system, cache folder, and the size of the stored executable (nothing if absent).
const PROBE: &str = r#"c=${XDG_CACHE_HOME:-}; case "$c" in /*) ;; *) c=${HOME:+$HOME/.cache};; esac; \
f="$c/gdrtune/agent/$2/gdrtune"; printf "\n%s begin\n" "$1"; printf "system=%s\n" "$(uname -sm)"; printf "cache=%s\n" "$c"; \
if test -f "$f" && test -x "$f"; then printf "size=%s\n" "$(wc -c < "$f")"; else printf "size=\n"; fi; printf "%s end\n" "$1""#;

/// Arguments: marker, hash, cache folder, temporary name. Stores standard input under its hash, if that is its hash.
const UPLOAD: &str = r#"LC_ALL=C; export LC_ALL; umask 077; d="$3/gdrtune/agent/$2"; t="$d/$4.$$"; trap "exit 1" HUP INT TERM; \
mkdir -p "$d" && chmod 700 "$3/gdrtune" "$3/gdrtune/agent" "$d" || exit 1; trap 'rm -f "$t"' 0; cat > "$t" || exit 1; s=$(sha256sum < "$t") || exit 1; \
printf "\n%s begin\n" "$1"; printf "sha256=%s\n" "${s%% *}"; printf "%s end\n" "$1"; test "${s%% *}" = "$2" || exit 1; \
chmod 700 "$t" && mv -f "$t" "$d/gdrtune""#;

/// Most output of a probe that we keep, in bytes; login files may be chatty.
const MAX_OUTPUT: u64 = 256 << 10;
/// Time for the end of a command whose output has ended.
const END_TIMEOUT: Duration = Duration::from_secs(5);

/// One host's bootstrap.
pub(super) struct Bootstrap<'a> {
    pub(super) host: &'a Host,
    pub(super) session: Arc<Session>,
    pub(super) payload: &'a Arc<Payload>,
    pub(super) stage: &'a Stage,
}

/// What a command said and how it ended.
struct Answer {
    stdout: String,
    stderr: String,
    ended: Ended,
}

/// What the probe found.
#[derive(Debug, PartialEq, Eq)]
struct Probe {
    /// `uname -sm`.
    system: String,
    /// Cache folder; empty where the host tells none.
    cache: String,
    /// Size of the stored executable in bytes.
    size: Option<usize>,
}

impl Bootstrap<'_> {
    /// Makes sure that our executable is on the host; gives its path there.
    pub(super) async fn provide(&self, freshness: Freshness) -> Result<String, LaunchError> {
        self.stage.set("probing the host");
        let probe = self.probe().await?;
        self.check(&probe)?;
        let present = freshness == Freshness::Reuse && probe.size == Some(self.payload.bytes.len());
        if !present {
            self.stage.set("uploading the agent");
            self.upload(&probe.cache).await?;
        }
        Ok(format!("{}/gdrtune/agent/{}/gdrtune", probe.cache, self.payload.sha256))
    }

    /// Starts the agent in place of the login shell.
    pub(super) async fn start_agent(
        &self,
        path: &str,
        env: &[(String, String)],
    ) -> Result<Child<Arc<Session>>, LaunchError> {
        let mut command = "exec ".to_owned();
        if !env.is_empty() {
            command.push_str("env ");
        }
        for (name, value) in env {
            command.push_str(&quote(&format!("{name}={value}")));
            command.push(' ');
        }
        command.push_str(&quote(path));
        command.push_str(" agent");
        self.spawn(&command).await
    }

    async fn probe(&self) -> Result<Probe, LaunchError> {
        let marker = marker();
        let command = script(&probe_script(), &[&marker, &self.payload.sha256]);
        let answer = self.run(&command, None).await?;
        let fields = between_markers(&answer.stdout, &marker).and_then(|lines| parse_probe(&lines));
        fields.ok_or_else(|| {
            let detail = format!("the login shell did not run our probe ({}): {}", answer.ended, excerpt(&answer));
            let hint = "check that a command such as `ssh HOST true` works there: restricted shells and forced commands do not";
            self.error(LaunchErrorKind::Probe, detail, hint)
        })
    }

    fn check(&self, probe: &Probe) -> Result<(), LaunchError> {
        let own = own_system();
        if probe.system != own {
            let detail = format!("the host is {}, our executable is for {own}", probe.system);
            let hint = "run gdrtune from a machine of the same kind, or leave this host out";
            return Err(self.error(LaunchErrorKind::OtherArchitecture, detail, hint));
        }
        // A newline cannot come through here, as the probe's answer is read by lines.
        if !probe.cache.starts_with('/') || probe.cache.contains(char::is_control) {
            let detail = format!("the host's cache folder is {:?}", probe.cache);
            return Err(self.error(LaunchErrorKind::Probe, detail, "set HOME or XDG_CACHE_HOME there to a full path"));
        }
        Ok(())
    }

    async fn upload(&self, cache: &str) -> Result<(), LaunchError> {
        let marker = marker();
        let temporary = format!(".tmp.{:016x}", rand::random::<u64>());
        let command = script(UPLOAD, &[&marker, &self.payload.sha256, cache, &temporary]);
        let answer = self.run(&command, Some(&self.payload.bytes)).await?;
        let sum = between_markers(&answer.stdout, &marker)
            .and_then(|lines| lines.iter().find_map(|line| line.strip_prefix("sha256=").map(str::to_owned)));
        if sum.as_ref() == Some(&self.payload.sha256) && answer.ended == Ended::Code(0) {
            return Ok(());
        }
        let detail = match sum {
            Some(sum) if sum != self.payload.sha256 => format!("the file arrived with another hash ({sum})"),
            _ => format!("{cache}/gdrtune/agent could not be written ({}): {}", answer.ended, excerpt(&answer)),
        };
        let hint = "check free space, quota and write permission there, or set XDG_CACHE_HOME there to another folder";
        Err(self.error(LaunchErrorKind::UploadFailed, detail, hint))
    }

    async fn spawn(&self, command: &str) -> Result<Child<Arc<Session>>, LaunchError> {
        let mut command = Session::to_raw_command(Arc::clone(&self.session), command);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().await.map_err(|error| {
            let detail = format!("ssh connected, but opened no channel: {}", chain(&error));
            let hint = "the server may limit sessions (MaxSessions) or forbid commands; check its sshd_config";
            self.error(LaunchErrorKind::Other, detail, hint)
        })
    }

    /// Runs a command to its end, feeding it `input`.
    async fn run(&self, command: &str, input: Option<&[u8]>) -> Result<Answer, LaunchError> {
        let mut child = self.spawn(command).await?;
        let (stdin, stdout, stderr) = (child.stdin().take(), child.stdout().take(), child.stderr().take());
        let feed = async {
            let (Some(mut stdin), Some(input)) = (stdin, input) else { return };
            // A command that has failed reads no more; its own words say why.
            stdin.write_all(input).await.ok();
            stdin.shutdown().await.ok();
        };
        let ((), stdout, stderr) = tokio::join!(feed, read_some(stdout), read_some(stderr));
        let ended = match tokio::time::timeout(END_TIMEOUT, end_of(child)).await {
            Ok(ended) => ended,
            Err(_elapsed) => Ended::Unknown("still running".to_owned()),
        };
        Ok(Answer { stdout, stderr, ended })
    }

    fn error(&self, kind: LaunchErrorKind, detail: impl Into<String>, hint: &str) -> LaunchError {
        LaunchError::new(&self.host.name, kind, detail, hint)
    }
}

/// Waits for the end of a remote command.
pub(super) async fn end_of(child: Child<Arc<Session>>) -> Ended {
    match child.wait().await {
        Ok(status) => status.into(),
        // The crate turns exit code 127 into this error.
        Err(openssh::Error::Remote(error)) if error.kind() == std::io::ErrorKind::NotFound => Ended::Code(127),
        Err(openssh::Error::RemoteProcessTerminated) => {
            Ended::Unknown("killed by a signal, or the connection was lost".to_owned())
        }
        Err(error) => Ended::Unknown(chain(&error)),
    }
}

/// Reads to the end, keeping the first [`MAX_OUTPUT`] bytes.
async fn read_some(stream: Option<impl tokio::io::AsyncRead + Unpin>) -> String {
    let Some(stream) = stream else { return String::new() };
    let mut kept = Vec::new();
    let mut limited = stream.take(MAX_OUTPUT);
    // A broken stream has said what it had to say.
    limited.read_to_end(&mut kept).await.ok();
    tokio::io::copy(&mut limited.into_inner(), &mut tokio::io::sink()).await.ok();
    String::from_utf8_lossy(&kept).into_owned()
}

/// What is asked first; on the way old builds go.
fn probe_script() -> String {
    format!(r#"{PROBE}; h="$2"; {PRUNE}"#)
}

fn script(text: &str, arguments: &[&str]) -> String {
    let mut command = format!("exec sh -c {} sh", quote(&text.replace("\\\n", "")));
    for argument in arguments {
        command.push(' ');
        command.push_str(&quote(argument));
    }
    command
}

fn marker() -> String {
    format!("gdrtune-{:032x}", rand::random::<u128>())
}

/// The lines between the two marker lines. A shell that echoes its commands echoes more than the marker on the line.
fn between_markers(output: &str, marker: &str) -> Option<Vec<String>> {
    let mut lines = output.lines().map(|line| line.trim_end_matches('\r'));
    lines.by_ref().find(|line| line.strip_suffix(" begin") == Some(marker))?;
    let mut found = Vec::new();
    for line in lines {
        if line.strip_suffix(" end") == Some(marker) {
            return Some(found);
        }
        found.push(line.to_owned());
    }
    None
}

fn parse_probe(lines: &[String]) -> Option<Probe> {
    let field = |name: &str| lines.iter().find_map(|line| line.strip_prefix(name)?.strip_prefix('=')).map(str::trim);
    let size = field("size")?.parse().ok();
    Some(Probe { system: field("system")?.to_owned(), cache: field("cache")?.to_owned(), size })
}

/// What `uname -sm` says where our own executable runs.
fn own_system() -> String {
    let system = rustix::system::uname();
    format!("{} {}", system.sysname().to_string_lossy(), system.machine().to_string_lossy())
}

/// The last words of a command, in one line.
fn excerpt(answer: &Answer) -> String {
    let words = if answer.stderr.trim().is_empty() { &answer.stdout } else { &answer.stderr };
    let lines: Vec<&str> = words.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    match lines.len() {
        0 => "it said nothing".to_owned(),
        count => lines[count.saturating_sub(4)..].join(" / ").chars().filter(|c| !c.is_control()).take(600).collect(),
    }
}

/// An error and its causes in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text = format!("{text}: {inner}");
        cause = inner.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_are_one_line_without_what_csh_replaces() {
        for text in [probe_script().as_str(), UPLOAD] {
            let command = script(text, &["a b"]);
            assert!(!command.contains('\n'), "{command}");
            assert!(!text.contains('!'), "{text}");
            assert!(command.ends_with(" sh 'a b'"));
        }
    }

    #[test]
    fn answers_are_found_in_noise() {
        let noisy =
            "Welcome\n+ printf '%s begin' M\nM begin\r\nsystem=Linux x86_64\ncache=/h/.cache\nsize= 12\nM end\nbye";
        let lines = between_markers(noisy, "M").unwrap();
        let probe = Probe { system: "Linux x86_64".to_owned(), cache: "/h/.cache".to_owned(), size: Some(12) };
        assert_eq!(parse_probe(&lines), Some(probe));
        assert_eq!(between_markers("M begin\nsystem=x", "M"), None);
        assert_eq!(between_markers("system=x\nM end", "M"), None);
        assert_eq!(parse_probe(&["system=x".to_owned()]), None);
    }
}
