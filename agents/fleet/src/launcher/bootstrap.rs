//! Brings our executable onto a host and starts it there, over the three streams of one `sh` on that host.
//!
//! The shell runs one constant script of one line with quoted arguments, so nothing that a host or a user says reaches a
//! shell as text to run. It tells what it finds and asks what to do: nothing is read from its input but our answer and, if
//! that is to upload, the executable. In the end it becomes the agent, on the same streams. What login files print around
//! that is ignored: answers stand between lines with a random marker.

use std::{
    io::{self, Cursor},
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    time::timeout,
};

use super::{
    AgentOutput, AgentProcess, AgentSpec, AgentStdin, Ended, Freshness, Launched, Stage, payload::Payload,
    prune::PRUNE, quote,
};
use crate::{
    error::{LaunchError, LaunchErrorKind},
    hosts::Host,
};

/// Arguments: marker, hash, size, cache folder or nothing, temporary name, then variables. Prints system, cache folder, and
/// the size of the stored executable (nothing if absent). Old builds go on the way ([`PRUNE`]).
const PROBE: &str = r#"m="$1"; h="$2"; n="$3"; c="$4"; t="$5"; shift 5; \
if test -z "$c"; then c=${XDG_CACHE_HOME:-}; case "$c" in /*) ;; *) c=${HOME:+$HOME/.cache};; esac; fi; \
d="$c/gdrtune/agent/$h"; f="$d/gdrtune"; printf "\n%s begin\n" "$m"; printf "system=%s\n" "$(uname -sm)"; printf "cache=%s\n" "$c"; \
if test -f "$f" && test -x "$f"; then printf "size=%s\n" "$(wc -c < "$f")"; else printf "size=\n"; fi; printf "%s end\n" "$m""#;

/// Reads `run`, or `upload` and then the executable, which is stored under its hash if that is its hash. Becomes the agent.
const BECOME: &str = r#"read -r a || exit 1; case "$a" in run) ;; upload) ( LC_ALL=C; export LC_ALL; umask 077; x="$d/$t.$$"; trap "exit 1" HUP INT TERM; \
mkdir -p "$d" && chmod 700 "$c/gdrtune" "$c/gdrtune/agent" "$d" || exit 1; trap 'rm -f "$x"' 0; head -c "$n" > "$x" || exit 1; \
s=$(sha256sum < "$x") || exit 1; s=${s%% *}; printf "\n%s begin\n" "$m"; printf "sha256=%s\n" "$s"; test "$s" = "$h" || exit 1; \
chmod 700 "$x" && mv -f "$x" "$f" && printf "%s end\n" "$m" ) || exit 1;; *) exit 1;; esac; exec env "$@" "$f" agent"#;

/// Most output before an answer that we take, in bytes; login files may be chatty.
const MAX_OUTPUT: usize = 256 << 10;
/// Most of that which is passed on as log lines.
const KEPT_NOISE: usize = 32 << 10;
/// Time for the end of a shell whose output has ended, and for its last words.
const END_TIMEOUT: Duration = Duration::from_secs(5);

/// One host's bootstrap.
pub(super) struct Bootstrap<'a> {
    pub(super) host: &'a Host,
    pub(super) spec: &'a AgentSpec,
    pub(super) payload: &'a Payload,
    pub(super) freshness: Freshness,
    pub(super) stage: &'a Stage,
    marker: String,
}

/// Why there is no agent.
#[derive(Debug)]
pub(super) enum BootstrapError {
    /// The script did not run, or said nothing: what was started instead, or did not start, ended so.
    NoAnswer(LastWords),
    /// The script ran.
    Launch(LaunchError),
}

/// How a shell ended.
#[derive(Debug)]
pub(super) struct LastWords {
    pub(super) ended: Ended,
    /// What it said on standard error, or else on standard output; not empty, one line.
    pub(super) said: String,
}

/// What the script found.
#[derive(Debug, PartialEq, Eq)]
struct Probe {
    /// `uname -sm`.
    system: String,
    /// Cache folder; empty where the host tells none.
    cache: String,
    /// Size of the stored executable in bytes.
    size: Option<usize>,
}

impl<'a> Bootstrap<'a> {
    pub(super) fn new(
        host: &'a Host,
        spec: &'a AgentSpec,
        payload: &'a Payload,
        freshness: Freshness,
        stage: &'a Stage,
    ) -> Self {
        Self { host, spec, payload, freshness, stage, marker: format!("gdrtune-{:032x}", rand::random::<u128>()) }
    }

    /// Program and arguments that are to be started on the host.
    pub(super) fn words(&self) -> Vec<String> {
        let temporary = format!(".tmp.{:016x}", rand::random::<u64>());
        let size = self.payload.bytes.len().to_string();
        let script = script();
        let folder = self.spec.remote_folder.as_deref().unwrap_or_default();
        let words = ["sh", "-c", &script, "sh", &self.marker, &self.payload.sha256, &size, folder, &temporary];
        let variables = self.spec.env.iter().map(|(name, value)| format!("{name}={value}"));
        words.into_iter().map(str::to_owned).chain(variables).collect()
    }

    /// The same as one text for a shell on the way.
    pub(super) fn line(&self) -> String {
        self.words().iter().map(|word| quote(word)).collect::<Vec<_>>().join(" ")
    }

    /// Leads the started script to where it becomes the agent. Closes what was launched where that fails.
    pub(super) async fn run(&self, launched: Launched) -> Result<Launched, BootstrapError> {
        let Launched { stdin, stdout, stderr, process } = launched;
        let mut shell =
            Shell { stdin: Some(stdin), stdout: Some(stdout), stderr: Some(stderr), out: vec![], err: vec![], process };
        match self.lead(&mut shell).await {
            Ok(()) => shell.launched().ok_or_else(|| {
                let detail = "it ended in the middle of the bootstrap";
                BootstrapError::Launch(self.error(LaunchErrorKind::EndedEarly, detail, "try again"))
            }),
            Err(error) => {
                shell.stdin = None;
                shell.process.close().await;
                Err(error)
            }
        }
    }

    async fn lead(&self, shell: &mut Shell) -> Result<(), BootstrapError> {
        self.stage.set("probing the host");
        let Some(probe) = shell.answer(&self.marker).await.and_then(|lines| parse_probe(&lines)) else {
            return Err(BootstrapError::NoAnswer(shell.last_words().await));
        };
        self.check(&probe).map_err(BootstrapError::Launch)?;
        if self.freshness == Freshness::Reuse && probe.size == Some(self.payload.bytes.len()) {
            shell.say(b"run\n").await;
        } else {
            self.stage.set("uploading the agent");
            self.upload(shell, &probe.cache).await.map_err(BootstrapError::Launch)?;
        }
        self.stage.set("waiting for the agent's first word");
        Ok(())
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

    async fn upload(&self, shell: &mut Shell, cache: &str) -> Result<(), LaunchError> {
        shell.say(b"upload\n").await;
        shell.say(&self.payload.bytes).await;
        if shell.answer(&self.marker).await.is_none() {
            let sum = shell.said_of("sha256=", &self.marker);
            let LastWords { ended, said } = shell.last_words().await;
            let detail = match sum {
                Some(sum) if sum != self.payload.sha256 => format!("the file arrived with another hash ({sum})"),
                _ => format!("{cache}/gdrtune/agent could not be written ({ended}): {said}"),
            };
            let hint = "check free space, quota and write permission there, or name another folder with --remote-dir";
            return Err(self.error(LaunchErrorKind::UploadFailed, detail, hint));
        }
        Ok(())
    }

    fn error(&self, kind: LaunchErrorKind, detail: impl Into<String>, hint: &str) -> LaunchError {
        LaunchError::new(&self.host.name, kind, detail, hint)
    }
}

/// The script, in one line.
fn script() -> String {
    format!("{PROBE}; {PRUNE}; {BECOME}").replace("\\\n", "")
}

/// The streams of a shell, with what was read of them: `out` without what was taken as an answer.
struct Shell {
    stdin: Option<AgentStdin>,
    stdout: Option<AgentOutput>,
    stderr: Option<AgentOutput>,
    out: Vec<u8>,
    err: Vec<u8>,
    process: Box<dyn AgentProcess>,
}

impl Shell {
    /// Writes, and reads meanwhile: a shell that fails says why, and reads no more.
    async fn say(&mut self, bytes: &[u8]) {
        let Some(mut stdin) = self.stdin.take() else { return };
        let written = {
            let write = async {
                stdin.write_all(bytes).await?;
                stdin.flush().await
            };
            let mut write = std::pin::pin!(write);
            loop {
                tokio::select! {
                    written = &mut write => break written,
                    is_open = read(&mut self.stdout, &mut self.out) => if !is_open { break Err(io::ErrorKind::BrokenPipe.into()) },
                    _ = read(&mut self.stderr, &mut self.err), if self.stderr.is_some() => {}
                }
            }
        };
        if written.is_ok() {
            self.stdin = Some(stdin);
        }
    }

    /// Reads until there is an answer: the lines between the markers. What came before it stays, as noise.
    async fn answer(&mut self, marker: &str) -> Option<Vec<String>> {
        loop {
            if let Some(Answer { lines, start, end }) = between_markers(&self.out, marker) {
                self.out.drain(start..end);
                return Some(lines);
            }
            if self.out.len() > MAX_OUTPUT {
                return None;
            }
            tokio::select! {
                is_open = read(&mut self.stdout, &mut self.out) => if !is_open { return None },
                _ = read(&mut self.stderr, &mut self.err), if self.stderr.is_some() => {}
            }
        }
    }

    /// The rest of a line of an answer that was broken off.
    fn said_of(&self, name: &str, marker: &str) -> Option<String> {
        let text = String::from_utf8_lossy(&self.out);
        let (_, after) = text.split_once(&format!("{marker} begin\n"))?;
        after.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned)
    }

    /// Waits for the end, and reads what there is to read.
    async fn last_words(&mut self) -> LastWords {
        self.stdin = None;
        let ended = timeout(END_TIMEOUT, self.process.wait()).await;
        let rest = async { while read(&mut self.stderr, &mut self.err).await && self.err.len() < MAX_OUTPUT {} };
        timeout(END_TIMEOUT, rest).await.ok();
        let ended = ended.unwrap_or_else(|_elapsed| Ended::Unknown("still running".to_owned()));
        LastWords {
            ended,
            said: excerpt(&self.err).or_else(|| excerpt(&self.out)).unwrap_or("it said nothing".to_owned()),
        }
    }

    /// The streams as if nothing had been read that is not ours; nothing where one of them has ended.
    fn launched(self) -> Option<Launched> {
        let Self { stdin, stdout, stderr, mut out, err, process } = self;
        out.drain(..out.len().saturating_sub(KEPT_NOISE));
        Some(Launched {
            stdin: stdin?,
            stdout: Box::new(Cursor::new(out).chain(stdout?)),
            stderr: Box::new(Cursor::new(err).chain(stderr.unwrap_or_else(|| Box::new(tokio::io::empty())))),
            process,
        })
    }
}

/// Reads some bytes; `false` is the end, and the end of the stream here.
async fn read(stream: &mut Option<AgentOutput>, into: &mut Vec<u8>) -> bool {
    let Some(reader) = stream else { return false };
    // A broken stream has said what it had to say.
    let is_open = reader.read_buf(into).await.is_ok_and(|count| count > 0);
    if !is_open {
        *stream = None;
    }
    is_open
}

/// An answer and the bytes that it takes up.
#[derive(Debug, PartialEq, Eq)]
struct Answer {
    lines: Vec<String>,
    start: usize,
    end: usize,
}

/// The lines between the two marker lines. A shell that echoes its commands echoes more than the marker on the line.
fn between_markers(output: &[u8], marker: &str) -> Option<Answer> {
    let mut start = None;
    let mut found = Vec::new();
    let mut at = 0;
    for line in output.split_inclusive(|byte| *byte == b'\n') {
        let line_start = at;
        at += line.len();
        let text = String::from_utf8_lossy(line.strip_suffix(b"\n")?);
        let text = text.trim_end_matches('\r');
        match start {
            None if text.strip_suffix(" begin") == Some(marker) => start = Some(line_start),
            None => {}
            Some(start) if text.strip_suffix(" end") == Some(marker) => {
                return Some(Answer { lines: found, start, end: at });
            }
            Some(_) => found.push(text.to_owned()),
        }
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

/// The last words of a stream, in one line.
fn excerpt(words: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(words);
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let last = lines[lines.len().saturating_sub(4)..].join(" / ");
    let text: String = last.chars().filter(|c| !c.is_control()).take(600).collect();
    Some(text).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_is_one_line_without_what_csh_replaces() {
        let script = script();
        assert!(!script.contains('\n') && !script.contains('!'), "{script}");
    }

    #[test]
    fn answers_are_found_in_noise() {
        let noisy =
            "Welcome\n+ printf '%s begin' M\nM begin\r\nsystem=Linux x86_64\ncache=/h/.cache\nsize= 12\nM end\nbye";
        let answer = between_markers(noisy.as_bytes(), "M").unwrap();
        let probe = Probe { system: "Linux x86_64".to_owned(), cache: "/h/.cache".to_owned(), size: Some(12) };
        assert_eq!(parse_probe(&answer.lines), Some(probe));
        let rest = [&noisy[..answer.start], &noisy[answer.end..]].concat();
        assert_eq!(rest, "Welcome\n+ printf '%s begin' M\nbye");
        for unfinished in ["M begin\nsystem=x", "M begin\nsystem=x\nM end", "system=x\nM end\n"] {
            assert_eq!(between_markers(unfinished.as_bytes(), "M"), None, "{unfinished}");
        }
        assert_eq!(parse_probe(&["system=x".to_owned()]), None);
    }

    #[test]
    fn last_words_are_one_line() {
        assert_eq!(excerpt(b"a\n\nb\x1b[1m\nc\nd\ne\n").unwrap(), "b[1m / c / d / e");
        assert_eq!(excerpt(b" \n"), None);
    }
}
