//! Brings our executable onto a host and starts it there, over the three streams of one `sh` on that host.
//!
//! The shell runs one constant script of one line with quoted arguments ([`script`]), so nothing that a host or a user says
//! reaches a shell as text to run. It tells what it finds and asks what to do: nothing is read from its input but our answers
//! and, if that is to upload, the executable. In the end it becomes the agent, on the same streams. What login files print
//! around that is ignored: what it says stands between lines with a random marker.
//!
//! The executable goes to the user's cache folder, which hosts may share. Where that is full, or mounted noexec, it goes to a
//! private folder below `$TMPDIR` or `/tmp`, and then to one below `$XDG_RUNTIME_DIR`; not where the user names a folder.

mod prune;
mod script;
mod shell;

use std::sync::Arc;

use super::{
    AgentSpec, Freshness, Launched, Stage,
    payload::{Payload, Payloads},
    quote,
};
use crate::{
    error::{LaunchError, LaunchErrorKind},
    hosts::Host,
};

pub(super) use shell::LastWords;
use shell::Shell;

/// Time that a host waits for another to store the executable in a folder that both see, in seconds. An executable of 13 MB
/// takes about one second on a network of 100 Mbit/s; who has waited this long stores it as well.
const UPLOAD_WAIT_S: u32 = 20;

/// Exit code of a shell for a program that it may not run; the same on a file system that is mounted noexec.
const MAY_NOT_RUN: i32 = 126;
/// Exit code of a shell for a program that is not there, or whose loader is not.
const NOT_THERE: i32 = 127;

/// One host's bootstrap.
pub(super) struct Bootstrap<'a> {
    host: &'a Host,
    spec: &'a AgentSpec,
    payloads: &'a Arc<Payloads>,
    freshness: Freshness,
    stage: &'a Stage,
    marker: String,
    upload_wait_s: u32,
}

/// Why there is no agent.
#[derive(Debug)]
pub(super) enum BootstrapError {
    /// The script did not run, or said nothing: what was started instead, or did not start, ended so.
    NoAnswer(LastWords),
    /// The script ran.
    Launch(LaunchError),
}

/// What the script says.
#[derive(Debug, PartialEq, Eq)]
enum Said {
    Unfit { system: String },
    Waiting { place: String },
    Place { system: String, place: String, is_there: bool },
    Failed(Refusal),
    Ready,
    None,
}

/// A place that does not take the executable, or does not let it start.
#[derive(Debug, PartialEq, Eq)]
struct Refusal {
    place: String,
    step: String,
    code: i32,
    /// The host's C library; only where the executable did not start.
    libc: String,
    /// The words of whoever failed, in one line.
    why: String,
}

impl<'a> Bootstrap<'a> {
    pub(super) fn new(
        host: &'a Host,
        spec: &'a AgentSpec,
        payloads: &'a Arc<Payloads>,
        freshness: Freshness,
        stage: &'a Stage,
    ) -> Self {
        let marker = format!("gdrtune-{:032x}", rand::random::<u128>());
        // What is to be replaced is there: nobody waits for it.
        let upload_wait_s = if freshness == Freshness::Reuse { UPLOAD_WAIT_S } else { 0 };
        Self { host, spec, payloads, freshness, stage, marker, upload_wait_s }
    }

    /// Program and arguments that are to be started on the host.
    pub(super) fn words(&self) -> Vec<String> {
        let temporary = format!(".tmp.{:016x}", rand::random::<u64>());
        let folder = self.spec.remote_folder.as_deref().unwrap_or_default();
        let (script, payloads, wait) = (script::script(), self.payloads.word(), self.upload_wait_s.to_string());
        let words = ["sh", "-c", &script, "sh", &self.marker, &payloads, folder, &temporary, &wait];
        let variables = self.spec.env.iter().map(|(name, value)| format!("{name}={value}"));
        words.into_iter().map(str::to_owned).chain(variables).collect()
    }

    /// The same as one text for a shell on the way.
    pub(super) fn line(&self) -> String {
        self.words().iter().map(|word| quote(word)).collect::<Vec<_>>().join(" ")
    }

    /// Leads the started script to where it becomes the agent. Closes what was launched where that fails.
    pub(super) async fn run(&self, launched: Launched) -> Result<Launched, BootstrapError> {
        let mut shell = Shell::new(launched);
        match self.lead(&mut shell).await {
            Ok(()) => shell.launched().ok_or_else(|| {
                let detail = "it ended in the middle of the bootstrap";
                BootstrapError::Launch(self.error(LaunchErrorKind::EndedEarly, detail, "try again"))
            }),
            Err(error) => {
                shell.close().await;
                Err(error)
            }
        }
    }

    async fn lead(&self, shell: &mut Shell) -> Result<(), BootstrapError> {
        self.stage.set("probing the host");
        let mut payload = None;
        let mut refusals = Vec::new();
        let mut is_first = true;
        loop {
            let Some(said) = shell.answer(&self.marker).await.and_then(|lines| parse(&lines)) else {
                let words = shell.last_words().await;
                return Err(if is_first { BootstrapError::NoAnswer(words) } else { self.broken_off(&words).into() });
            };
            is_first = false;
            match said {
                Said::Unfit { system } => {
                    let (detail, hint) = self.payloads.missing(&system);
                    return Err(self.error(LaunchErrorKind::OtherArchitecture, detail, hint).into());
                }
                Said::Waiting { place } => {
                    self.stage.set("waiting for another host's upload to the same folder");
                    shell.note(format!("waited for another host's upload to {place}"));
                }
                Said::Place { system, place, is_there } => {
                    let found = payload.insert(self.payloads.of(&system).ok_or_else(|| self.nonsense(&system))?);
                    self.settle(shell, found, &place, is_there).await;
                }
                Said::Failed(refusal) => {
                    if let Some(error) = self.hopeless(&refusal) {
                        return Err(error.into());
                    }
                    shell.note(format!("{} does not take the agent: {}", refusal.folder(), refusal.reason()));
                    refusals.push(refusal);
                    shell.say(b"next\n").await;
                }
                Said::Ready => {
                    self.stage.set("waiting for the agent's first word");
                    return Ok(());
                }
                Said::None => return Err(self.no_place(payload, &refusals).into()),
            }
        }
    }

    /// Has the script use the executable in its place, which is uploaded where that is needed.
    async fn settle(&self, shell: &mut Shell, payload: &Payload, place: &str, is_there: bool) {
        if self.freshness == Freshness::Reuse && is_there {
            self.stage.set("starting the agent once");
            shell.say(b"run\n").await;
            return;
        }
        self.stage.set("uploading the agent");
        shell.say(b"upload\n").await;
        shell.say(&payload.bytes).await;
        shell.note(format!("uploaded the agent ({}) to {place}", mebibytes(payload.bytes.len())));
    }

    /// The error of an executable that would not start from any other place, either.
    fn hopeless(&self, refusal: &Refusal) -> Option<LaunchError> {
        let Refusal { step, code, libc, why, .. } = refusal;
        if step != "start" || *code == MAY_NOT_RUN {
            return None;
        }
        if why.contains("GLIBC") && why.contains("not found") {
            let needed = newest_glibc(why).map_or_else(String::new, |version| format!(", the agent needs {version}"));
            let libc = if libc.is_empty() { "an unknown C library" } else { libc };
            let detail = format!("the host has {libc}{needed}: {why}");
            let hint = "name a folder with a build for older systems with --agent-dir (./dist.sh makes one), or leave this host out";
            return Some(self.error(LaunchErrorKind::OldLibc, detail, hint));
        }
        if *code == NOT_THERE {
            let detail =
                format!("the host's loader does not fit, the agent needs glibc and the host has {libc}: {why}");
            return Some(self.error(LaunchErrorKind::OtherLibc, detail, "install glibc there, or leave this host out"));
        }
        let detail = format!("it does not start there (exit code {code}): {why}");
        Some(self.error(LaunchErrorKind::EndedEarly, detail, "run it there by hand with --version, and see why"))
    }

    /// The error where no place takes the executable.
    fn no_place(&self, payload: Option<&Payload>, refusals: &[Refusal]) -> LaunchError {
        let size = payload.map_or_else(String::new, |payload| format!(" of {}", mebibytes(payload.bytes.len())));
        let places: Vec<String> =
            refusals.iter().map(|refusal| format!("{}: {}", refusal.folder(), refusal.reason())).collect();
        let detail = format!("no folder there takes the agent{size}: {}", places.join("; "));
        if refusals.iter().all(|refusal| refusal.code == MAY_NOT_RUN) {
            let hint = "name a folder that is not mounted noexec with --remote-dir";
            return self.error(LaunchErrorKind::NotExecutable, detail, hint);
        }
        let hint = "free space there, check quota and permissions, or name another folder with --remote-dir";
        self.error(LaunchErrorKind::UploadFailed, detail, hint)
    }

    fn broken_off(&self, LastWords { ended, said }: &LastWords) -> LaunchError {
        let detail = format!("the shell there ended while it was {} ({ended}): {said}", self.stage.get());
        self.error(LaunchErrorKind::UploadFailed, detail, "check that its standard input comes through unchanged")
    }

    fn nonsense(&self, system: &str) -> LaunchError {
        let detail = format!("it asked for an executable for {system:?}, which it was not offered");
        self.error(LaunchErrorKind::Probe, detail, "check that no login file there changes what `sh` does")
    }

    fn error(&self, kind: LaunchErrorKind, detail: impl Into<String>, hint: impl Into<String>) -> LaunchError {
        LaunchError::new(&self.host.name, kind, detail, hint)
    }
}

impl From<LaunchError> for BootstrapError {
    fn from(error: LaunchError) -> Self {
        Self::Launch(error)
    }
}

impl Refusal {
    fn folder(&self) -> String {
        if self.place.is_empty() { "the cache folder".to_owned() } else { format!("{}/gdrtune/agent", self.place) }
    }

    fn reason(&self) -> String {
        match self.code {
            MAY_NOT_RUN => format!("no program may run there (mounted noexec?): {}", self.why),
            _ if self.why.is_empty() => "it could not be written".to_owned(),
            _ => self.why.clone(),
        }
    }
}

/// What a block of lines says; `None` where it is none of the script's.
fn parse(lines: &[String]) -> Option<Said> {
    let (word, fields) = lines.split_first()?;
    let find = |name: &str| fields.iter().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
    let field = |name: &str| find(name).map(printable);
    Some(match word.as_str() {
        "unfit" => Said::Unfit { system: field("system")? },
        "waiting" => Said::Waiting { place: field("place")? },
        "place" => {
            Said::Place { system: field("system")?, place: field("place")?, is_there: find("state")? == "there" }
        }
        "failed" => {
            let why = fields.iter().position(|line| line.starts_with("why="))?;
            let why = fields[why..].join("\n");
            let why = why.strip_prefix("why=").unwrap_or_default().lines().map(str::trim).collect::<Vec<_>>();
            Said::Failed(Refusal {
                place: field("place")?,
                step: field("step")?,
                code: find("code")?.parse().ok()?,
                libc: field("libc")?,
                why: printable(why.join(" / ").as_str()),
            })
        }
        "ready" => Said::Ready,
        "none" => Said::None,
        _ => return None,
    })
}

/// At most 600 characters of what a host says, none of which a terminal takes for a command.
fn printable(text: &str) -> String {
    text.chars().filter(|character| !character.is_control()).take(600).collect()
}

/// The newest version of glibc that a loader's message names: `GLIBC_2.34`.
fn newest_glibc(message: &str) -> Option<String> {
    let versions = message.split("GLIBC_").skip(1).filter_map(|rest| {
        let end = rest.find(|c: char| c != '.' && !c.is_ascii_digit()).unwrap_or(rest.len());
        rest[..end].split('.').map(|part| part.parse().ok()).collect::<Option<Vec<u32>>>()
    });
    let newest = versions.max()?;
    Some(format!("GLIBC_{}", newest.iter().map(u32::to_string).collect::<Vec<_>>().join(".")))
}

fn mebibytes(bytes: usize) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

#[cfg(test)]
mod tests;
