//! One agent's line: handshake, frames, heartbeats, and its end.

use std::{
    sync::mpsc::Sender,
    time::Duration,
};

use gdrtune_wire::{
    FromAgent, HEARTBEAT, Hello, Inventory, PROTOCOL, SILENCE_LIMIT, ToAgent,
    codec::{self, Decoder, PREAMBLE},
};
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader},
    sync::mpsc,
    task::JoinHandle,
    time::{Instant, MissedTickBehavior},
};

use crate::{
    error::{LaunchError, LaunchErrorKind},
    fleet::FleetEvent,
    hosts::Host,
    launch::{AgentProcess, Launched},
};

/// Login noise before the preamble that is skipped; a shell that prints more is no way to reach an agent.
const MAX_NOISE: usize = 64 << 10;

/// Lines of the agent's stderr that are kept to explain why it did not start.
const MAX_ERROR_LINES: usize = 20;

/// Longest line taken from an agent's stderr, in bytes.
const MAX_LINE: u64 = 4 << 10;

/// A started agent that has said Hello.
pub(crate) struct Connection {
    node: usize,
    writer: JoinHandle<()>,
    frames: mpsc::UnboundedSender<Vec<u8>>,
    reader: Reader,
    lines: mpsc::Receiver<String>,
    process: Box<dyn AgentProcess>,
}

/// The agent's stdout as messages.
struct Reader {
    stdout: Box<dyn AsyncRead + Send + Unpin>,
    decoder: Decoder,
    buffer: Vec<u8>,
}

/// Why no message comes any more.
#[derive(Debug)]
enum ReadEnd {
    Closed,
    Broken(String),
}

impl Reader {
    /// Reads once; false at the end of the stream.
    async fn fill(&mut self) -> Result<bool, ReadEnd> {
        let count = self.stdout.read(&mut self.buffer).await.map_err(|e| ReadEnd::Broken(e.to_string()))?;
        self.decoder.feed(&self.buffer[..count]);
        Ok(count > 0)
    }

    /// The next message. Cancel-safe: what was read is in the decoder.
    async fn next(&mut self) -> Result<FromAgent, ReadEnd> {
        loop {
            match self.decoder.next_message() {
                Ok(Some(message)) => return Ok(message),
                Ok(None) => {}
                Err(error) => return Err(ReadEnd::Broken(error.to_string())),
            }
            if !self.fill().await? {
                return Err(ReadEnd::Closed);
            }
        }
    }
}

/// Brings a launched agent to the point where it has answered with its inventory.
pub(crate) async fn handshake(
    node: usize,
    host: &Host,
    launched: Launched,
    build_id: &str,
) -> Result<(Connection, Hello, Inventory), LaunchError> {
    let (frames, to_write) = mpsc::unbounded_channel();
    let writer = tokio::spawn(write_frames(launched.stdin, to_write));
    let (line_sender, lines) = mpsc::channel(256);
    tokio::spawn(read_lines(launched.stderr, line_sender));
    let reader = Reader { stdout: launched.stdout, decoder: Decoder::new(), buffer: vec![0; 64 << 10] };
    let mut connection = Connection { node, writer, frames, reader, lines, process: launched.process };
    if let Err(noise) = connection.skip_noise().await {
        return Err(connection.explain_silence(host, &noise).await);
    }
    connection.send(&ToAgent::Hello(own_hello(build_id)));
    let hello = match connection.reader.next().await {
        Ok(FromAgent::Hello(hello)) => hello,
        Ok(_) => return Err(LaunchError::new(&host.name, LaunchErrorKind::NoAgent, "its first message is no Hello")),
        Err(_) => return Err(connection.explain_silence(host, "").await),
    };
    if hello.build_id != build_id || hello.protocol != PROTOCOL {
        let detail = format!(
            "there: {} protocol {}, here: {build_id} protocol {PROTOCOL}",
            hello.build_id, hello.protocol
        );
        return Err(LaunchError::new(&host.name, LaunchErrorKind::Build, detail));
    }
    connection.send(&ToAgent::Inventory);
    loop {
        match connection.reader.next().await {
            Ok(FromAgent::Inventory(inventory)) => return Ok((connection, hello, *inventory)),
            Ok(_) => {}
            Err(_) => return Err(connection.explain_silence(host, "").await),
        }
    }
}

impl Connection {
    fn send(&self, message: &ToAgent) {
        // Messages are small but for stored files; one over the frame limit cannot be sent, and its answer's deadline
        // says so. A writer that is gone shows as the end of the stream.
        if let Ok(frame) = codec::encode(message) {
            self.frames.send(frame).ok();
        }
    }

    /// Reads up to the preamble; what comes before is the login shell's.
    async fn skip_noise(&mut self) -> Result<(), String> {
        let mut seen = Vec::new();
        loop {
            let at = seen.windows(PREAMBLE.len()).position(|w| w == PREAMBLE);
            if let Some(at) = at {
                self.reader.decoder.feed(&seen[at + PREAMBLE.len()..]);
                return Ok(());
            }
            let count = self.reader.stdout.read(&mut self.reader.buffer).await.unwrap_or(0);
            if count == 0 || seen.len() > MAX_NOISE {
                return Err(String::from_utf8_lossy(&seen).into_owned());
            }
            seen.extend_from_slice(&self.reader.buffer[..count]);
        }
    }

    /// Why the agent did not answer: its own words, or how its process ended.
    async fn explain_silence(&mut self, host: &Host, noise: &str) -> LaunchError {
        // The stream is closed or hopeless, so the process has ended or is to end; its words may be a moment behind.
        let wait = Duration::from_secs(2);
        let status = tokio::time::timeout(wait, self.process.wait()).await.ok();
        let mut words = Vec::new();
        while let Ok(Some(line)) = tokio::time::timeout(wait, self.lines.recv()).await {
            if words.len() < MAX_ERROR_LINES {
                words.push(Line::parse(&line).text);
            }
        }
        self.process.kill().await;
        let text = words.join("; ");
        let kind = match &status {
            _ if text.contains("GLIBC_") => LaunchErrorKind::OldLibc,
            None if !noise.is_empty() => LaunchErrorKind::NoAgent,
            _ => LaunchErrorKind::AgentEnded,
        };
        let noise = noise.trim().chars().take(200).collect::<String>();
        let parts = [status.unwrap_or_default(), text, noise];
        let detail = parts.iter().filter(|p| !p.is_empty()).cloned().collect::<Vec<_>>().join(": ");
        LaunchError::new(&host.name, kind, detail)
    }

    /// Passes messages both ways until the agent is told to shut down (`None`) or is gone (why).
    pub(crate) async fn serve(
        &mut self,
        mut requests: mpsc::UnboundedReceiver<ToAgent>,
        events: &Sender<FleetEvent>,
    ) -> Option<String> {
        let mut heartbeat = tokio::time::interval(HEARTBEAT);
        heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut last_heard = Instant::now();
        let mut pings = 0;
        let node = self.node;
        loop {
            tokio::select! {
                message = self.reader.next() => match message {
                    Ok(message) => {
                        last_heard = Instant::now();
                        if !matches!(message, FromAgent::Pong(_)) {
                            events.send(FleetEvent::Message { node, message }).ok();
                        }
                    }
                    Err(end) => return Some(self.explain_end(end).await),
                },
                request = requests.recv() => match request {
                    Some(ToAgent::Shutdown) | None => {
                        self.send(&ToAgent::Shutdown);
                        return None;
                    }
                    Some(request) => self.send(&request),
                },
                Some(line) = self.lines.recv() => {
                    let Line { warning, text } = Line::parse(&line);
                    events.send(FleetEvent::Log { node, warning, line: text }).ok();
                }
                _ = heartbeat.tick() => {
                    if last_heard.elapsed() > SILENCE_LIMIT {
                        return Some(format!("silent for {} s", SILENCE_LIMIT.as_secs()));
                    }
                    pings += 1;
                    self.send(&ToAgent::Ping(pings));
                }
            }
        }
    }

    async fn explain_end(&mut self, end: ReadEnd) -> String {
        match end {
            ReadEnd::Broken(why) => format!("its stream is broken: {why}"),
            ReadEnd::Closed => match tokio::time::timeout(Duration::from_secs(1), self.process.wait()).await {
                Ok(status) => format!("its agent ended ({status})"),
                Err(_) => "its agent closed the line".to_owned(),
            },
        }
    }

    /// Waits for the agent to end by itself, and kills it after `grace`.
    pub(crate) async fn end(mut self, grace: Duration) {
        // Closing the queue lets the writer finish what is in it and then close the agent's stdin: its lifeline.
        drop(self.frames);
        let ended = tokio::time::timeout(grace, self.process.wait()).await;
        if ended.is_err() {
            self.process.kill().await;
        }
        self.writer.abort();
    }
}

/// Writes frames until the queue or the line is closed. A task of its own, so that a stuck agent does not stop the reader.
async fn write_frames(mut stdin: Box<dyn AsyncWrite + Send + Unpin>, mut frames: mpsc::UnboundedReceiver<Vec<u8>>) {
    while let Some(frame) = frames.recv().await {
        if stdin.write_all(&frame).await.is_err() || stdin.flush().await.is_err() {
            return;
        }
    }
    stdin.shutdown().await.ok();
}

/// Splits the agent's stderr into lines. Lines that nobody takes in time are dropped: the agent must never block on them.
async fn read_lines(stderr: Box<dyn AsyncRead + Send + Unpin>, sender: mpsc::Sender<String>) {
    let mut reader = BufReader::new(stderr);
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = (&mut reader).take(MAX_LINE).read_until(b'\n', &mut line).await;
        if !matches!(read, Ok(count) if count > 0) {
            return;
        }
        let text = String::from_utf8_lossy(&line).trim_end().to_owned();
        if !text.is_empty() && matches!(sender.try_send(text), Err(mpsc::error::TrySendError::Closed(_))) {
            return;
        }
    }
}

/// A line of an agent's stderr: its own JSON, or somebody else's words.
struct Line {
    warning: bool,
    text: String,
}

impl Line {
    fn parse(line: &str) -> Self {
        let json: Option<serde_json::Value> = serde_json::from_str(line).ok();
        let field = |name: &str| json.as_ref().and_then(|j| j.get(name)).and_then(|v| v.as_str());
        match (field("level"), field("text")) {
            (Some(level), Some(text)) => Self { warning: level != "info" && level != "debug", text: text.to_owned() },
            _ => Self { warning: true, text: line.to_owned() },
        }
    }
}

fn own_hello(build_id: &str) -> Hello {
    let read = |path: &str| std::fs::read_to_string(path).map(|s| s.trim().to_owned()).unwrap_or_default();
    Hello {
        protocol: PROTOCOL,
        build_id: build_id.to_owned(),
        hostname: read("/proc/sys/kernel/hostname"),
        boot_id: read("/proc/sys/kernel/random/boot_id"),
        pid: std::process::id(),
    }
}
