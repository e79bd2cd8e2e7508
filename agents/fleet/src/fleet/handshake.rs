//! From a started process to an agent that is known to be ours: preamble, Hello, inventory.

use std::{io, time::Duration};

use gdrtune_wire::{
    FromAgent, Hello, Inventory, ToAgent,
    codec::{self, PREAMBLE},
};
use tokio::{
    io::AsyncWriteExt,
    time::{Instant, timeout_at},
};

use super::link::{Link, end_of};
use crate::{
    error::{LaunchError, LaunchErrorKind},
    launcher::{Ended, Stage},
};

/// Most bytes that login files may print before the preamble.
const MAX_NOISE: usize = 64 << 10;
/// Most characters of noise that an error repeats.
const SHOWN_NOISE: usize = 300;

/// What an agent said of itself.
pub(super) struct Introduced {
    pub(super) hello: Hello,
    pub(super) inventory: Box<Inventory>,
}

/// One handshake.
pub(super) struct Handshake<'a> {
    pub(super) host: &'a str,
    pub(super) ours: &'a Hello,
    pub(super) deadline: Instant,
    /// Length of the deadline, for its error.
    pub(super) limit: Duration,
    pub(super) stage: &'a Stage,
    /// Where lines go that are not messages.
    pub(super) log: &'a (dyn Fn(String) + Sync),
}

/// Why reading stopped without a message.
enum Stop {
    Ended,
    Late,
    Failed(LaunchError),
}

impl Handshake<'_> {
    pub(super) async fn run(&self, link: &mut Link) -> Result<Introduced, LaunchError> {
        self.stage.set("waiting for the agent's first word");
        let mut noise = Vec::new();
        if let Err(stop) = self.preamble(link, &mut noise).await {
            // Blank lines are no words: the bootstrap's own answers begin with one.
            return Err(self.explain(stop, link, noise.trim_ascii()).await);
        }
        for line in printable_lines(&noise) {
            (self.log)(line);
        }
        match self.introduce(link).await {
            Ok(introduced) => Ok(introduced),
            Err(stop) => Err(self.explain(stop, link, &[]).await),
        }
    }

    /// Reads up to and including the preamble; what comes before it is noise.
    async fn preamble(&self, link: &mut Link, noise: &mut Vec<u8>) -> Result<(), Stop> {
        loop {
            let read = timeout_at(self.deadline, link.output.read_raw()).await.map_err(|_elapsed| Stop::Late)?;
            // A broken stream is as good as an ended one.
            let bytes = read.unwrap_or_default();
            if bytes.is_empty() {
                return Err(Stop::Ended);
            }
            let searched = noise.len().saturating_sub(PREAMBLE.len() - 1);
            noise.extend_from_slice(bytes);
            if let Some(found) = noise[searched..].windows(PREAMBLE.len()).position(|window| window == PREAMBLE) {
                let after = noise.split_off(searched + found);
                link.output.feed(&after[PREAMBLE.len()..]);
                return Ok(());
            }
            if noise.len() > MAX_NOISE {
                let detail = format!("it printed {} and no agent answered", shown(noise));
                return Err(Stop::Failed(self.error(LaunchErrorKind::NoPreamble, detail, QUIET_LOGIN)));
            }
        }
    }

    async fn introduce(&self, link: &mut Link) -> Result<Introduced, Stop> {
        self.stage.set("waiting for the agent's Hello");
        self.say(link, &ToAgent::Hello(self.ours.clone())).await?;
        let hello = match self.answer(link).await? {
            FromAgent::Hello(hello) => hello,
            other => return Err(Stop::Failed(self.unexpected("its Hello", &other))),
        };
        self.compare(&hello)?;
        self.stage.set("waiting for the agent's inventory");
        self.say(link, &ToAgent::Inventory).await?;
        match self.answer(link).await? {
            FromAgent::Inventory(inventory) => Ok(Introduced { hello, inventory }),
            other => Err(Stop::Failed(self.unexpected("its inventory", &other))),
        }
    }

    async fn say(&self, link: &mut Link, message: &ToAgent) -> Result<(), Stop> {
        let frame = codec::encode(message).map_err(|error| Stop::Failed(self.broken(&error)))?;
        let write = async {
            link.stdin.write_all(&frame).await?;
            link.stdin.flush().await
        };
        let written: io::Result<()> = timeout_at(self.deadline, write).await.map_err(|_elapsed| Stop::Late)?;
        // An agent that cannot be written to has ended or will; what it said before that is still to be read.
        written.ok();
        Ok(())
    }

    /// The next message that is no log line.
    async fn answer(&self, link: &mut Link) -> Result<FromAgent, Stop> {
        loop {
            match link.output.next_message() {
                Ok(Some(FromAgent::Log(text))) => (self.log)(text),
                Ok(Some(message)) => return Ok(message),
                Ok(None) => {
                    let read = timeout_at(self.deadline, link.output.read()).await.map_err(|_elapsed| Stop::Late)?;
                    if !read.unwrap_or(false) {
                        return Err(Stop::Ended);
                    }
                }
                Err(error) => return Err(Stop::Failed(self.broken(&error))),
            }
        }
    }

    fn compare(&self, theirs: &Hello) -> Result<(), Stop> {
        if theirs.protocol == self.ours.protocol && theirs.build_id == self.ours.build_id {
            return Ok(());
        }
        let build = |hello: &Hello| format!("build {} with protocol {}", hello.build_id, hello.protocol);
        let detail = format!("here is {}, on {} is {}", build(self.ours), theirs.hostname, build(theirs));
        let hint =
            "both ends must be one build: restart gdrtune if it was replaced while running, or remove the agent there";
        Err(Stop::Failed(self.error(LaunchErrorKind::BuildMismatch, detail, hint)))
    }

    fn broken(&self, error: &codec::CodecError) -> LaunchError {
        let hint = "the agent there may be of another build: remove ~/.cache/gdrtune/agent on that host";
        self.error(LaunchErrorKind::Protocol, error.to_string(), hint)
    }

    fn unexpected(&self, awaited: &str, message: &FromAgent) -> LaunchError {
        let detail = match message {
            FromAgent::Refused { why } => format!("instead of {awaited} it answered: {why}"),
            other => {
                let text: String = format!("{other:?}").chars().take(SHOWN_NOISE).collect();
                format!("instead of {awaited} it sent {text}")
            }
        };
        self.error(LaunchErrorKind::Protocol, detail, "check the agent's log lines above")
    }

    async fn explain(&self, stop: Stop, link: &mut Link, noise: &[u8]) -> LaunchError {
        match stop {
            Stop::Failed(error) => error,
            Stop::Late => {
                let seconds = self.limit.as_secs();
                let words = if noise.is_empty() { String::new() } else { format!("; it printed {}", shown(noise)) };
                let detail = format!("not ready within {seconds} s, {}{words}", self.stage.get());
                let kind = if noise.is_empty() { LaunchErrorKind::Timeout } else { LaunchErrorKind::NoPreamble };
                self.error(kind, detail, "check the load on that host and its login files, or allow more time")
            }
            Stop::Ended => {
                let ended = end_of(&mut *link.process, &mut link.errors).await;
                self.early_end(&ended, &link.errors.last_words(), noise)
            }
        }
    }

    fn early_end(&self, ended: &Ended, last_words: &str, noise: &[u8]) -> LaunchError {
        let words = match (last_words.is_empty(), noise.is_empty()) {
            (false, _) => format!(": {last_words}"),
            (true, false) => format!("; it printed {}", shown(noise)),
            (true, true) => " without a word".to_owned(),
        };
        let (kind, hint) = match ended {
            Ended::Code(127) => (LaunchErrorKind::NotFound, "the uploaded file is gone: try again"),
            _ if !noise.is_empty() => (LaunchErrorKind::NoPreamble, QUIET_LOGIN),
            _ => (LaunchErrorKind::EndedEarly, "check the agent's log lines above"),
        };
        self.error(kind, format!("it ended with {ended}{words}"), hint)
    }

    fn error(&self, kind: LaunchErrorKind, detail: impl Into<String>, hint: &str) -> LaunchError {
        LaunchError::new(self.host, kind, detail, hint)
    }
}

const QUIET_LOGIN: &str = "check that login files there neither print without end nor start another program";

fn printable_lines(noise: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(noise);
    let clean = |line: &str| line.chars().filter(|character| !character.is_control()).collect::<String>();
    text.lines().map(clean).filter(|line| !line.trim().is_empty()).collect()
}

/// The start of noise, quoted, and its length where not all is shown.
fn shown(noise: &[u8]) -> String {
    let text = printable_lines(noise).join(" / ");
    match text.char_indices().nth(SHOWN_NOISE) {
        Some((end, _)) => format!("{:?} ... ({} bytes)", &text[..end], noise.len()),
        None => format!("{text:?}"),
    }
}
