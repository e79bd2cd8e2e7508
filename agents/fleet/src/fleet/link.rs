//! The streams of one agent, with what has been read of them.

use std::{
    collections::VecDeque,
    io,
    sync::{Arc, Mutex, PoisonError, mpsc::Sender},
    time::Duration,
};

use gdrtune_wire::{
    FromAgent,
    codec::{CodecError, Decoder},
};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, BufReader},
    time::timeout,
};
use tokio_util::task::AbortOnDropHandle;

use super::FleetEvent;
use crate::launcher::{AgentOutput, AgentProcess, AgentStdin, Ended, Launched};

/// Bytes read at once; an agent's messages are small and come in bursts.
const READ_SIZE: usize = 64 << 10;
/// Lines of standard error that are kept for an error.
const KEPT_LINES: usize = 8;
/// Longest line that is passed on whole, in bytes.
const MAX_LINE: u64 = 4096;
/// Time for an agent's end to be known after its output has ended.
const END_TIMEOUT: Duration = Duration::from_secs(2);
/// Time for its last words after its end.
const LAST_WORDS_TIMEOUT: Duration = Duration::from_millis(500);

/// One agent. Dropping it closes the agent's input and ends it.
pub(super) struct Link {
    pub(super) stdin: AgentStdin,
    pub(super) output: Output,
    pub(super) errors: ErrorLines,
    pub(super) process: Box<dyn AgentProcess>,
}

impl Link {
    pub(super) fn new(launched: Launched, node: usize, events: Sender<FleetEvent>) -> Self {
        Self {
            stdin: launched.stdin,
            output: Output { stream: launched.stdout, decoder: Decoder::new(), buffer: vec![0; READ_SIZE] },
            errors: ErrorLines::new(launched.stderr, node, events),
            process: launched.process,
        }
    }
}

/// Frames from an agent.
pub(super) struct Output {
    stream: AgentOutput,
    decoder: Decoder,
    buffer: Vec<u8>,
}

impl Output {
    /// Reads some bytes; an empty slice is the end. May be dropped half-way without losing any.
    pub(super) async fn read_raw(&mut self) -> io::Result<&[u8]> {
        let count = self.stream.read(&mut self.buffer).await?;
        Ok(&self.buffer[..count])
    }

    /// Hands bytes that were read to the decoder.
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        self.decoder.feed(bytes);
    }

    /// Reads some bytes into the decoder; `false` is the end. May be dropped half-way without losing any.
    pub(super) async fn read(&mut self) -> io::Result<bool> {
        let count = self.stream.read(&mut self.buffer).await?;
        self.decoder.feed(&self.buffer[..count]);
        Ok(count > 0)
    }

    /// The next whole message that was read.
    pub(super) fn next_message(&mut self) -> Result<Option<FromAgent>, CodecError> {
        self.decoder.next_message()
    }
}

/// Passes an agent's standard error on as log lines, and keeps the last ones.
pub(super) struct ErrorLines {
    heard: Arc<Mutex<Heard>>,
    task: AbortOnDropHandle<()>,
}

struct Heard {
    kept: VecDeque<String>,
    /// Who hears of lines; nobody any more once the agent is lost.
    events: Option<Sender<FleetEvent>>,
}

impl ErrorLines {
    fn new(stream: AgentOutput, node: usize, events: Sender<FleetEvent>) -> Self {
        let heard = Arc::new(Mutex::new(Heard { kept: VecDeque::new(), events: Some(events) }));
        let task = tokio::spawn(pump(stream, node, Arc::clone(&heard)));
        Self { heard, task: AbortOnDropHandle::new(task) }
    }

    /// The last lines, in one.
    pub(super) fn last_words(&self) -> String {
        let heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        heard.kept.iter().map(String::as_str).collect::<Vec<_>>().join(" / ")
    }

    /// Passes no more lines on, but reads them: a program that is asked to end may say so, and would die of a closed pipe
    /// before it has done what it ends with.
    pub(super) fn mute(&self) {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner).events = None;
    }

    async fn finish(&mut self) {
        timeout(LAST_WORDS_TIMEOUT, &mut self.task).await.ok();
    }
}

async fn pump(stream: AgentOutput, node: usize, heard: Arc<Mutex<Heard>>) {
    let mut reader = BufReader::new(stream);
    let mut bytes = Vec::new();
    loop {
        bytes.clear();
        let read = (&mut reader).take(MAX_LINE).read_until(b'\n', &mut bytes).await;
        if !read.is_ok_and(|count| count > 0) {
            return;
        }
        let text = String::from_utf8_lossy(&bytes);
        let line: String = text.trim_end().chars().filter(|character| !character.is_control()).collect();
        if line.is_empty() {
            continue;
        }
        let mut heard = heard.lock().unwrap_or_else(PoisonError::into_inner);
        if heard.kept.len() == KEPT_LINES {
            heard.kept.pop_front();
        }
        heard.kept.push_back(line.clone());
        if let Some(events) = &heard.events {
            // Nobody may be listening any more.
            events.send(FleetEvent::Log { node, line }).ok();
        }
    }
}

/// How an agent ended whose output has ended, with its last words collected.
pub(super) async fn end_of(process: &mut dyn AgentProcess, errors: &mut ErrorLines) -> Ended {
    let waited = timeout(END_TIMEOUT, process.wait()).await;
    errors.finish().await;
    waited.unwrap_or_else(|_elapsed| Ended::Unknown("it closed its output, but has not ended".to_owned()))
}
