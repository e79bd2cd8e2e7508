//! What happens to an agent, as one enum, and the threads that read streams and turn them into it.
//!
//! Decides nothing.

use std::{
    io::{self, ErrorKind, Read},
    sync::{Arc, Mutex, PoisonError, mpsc::SyncSender},
    time::Instant,
};

use gdrtune_wire::{
    Dialled, FromWorker, InstallOutcome, Inventory, ToAgent,
    codec::{CodecError, Decoder},
};
use serde::de::DeserializeOwned;

use super::{lines::Lines, node_lock::Asked};

/// Bytes per read; the capacity of a Linux pipe.
const READ_BYTES: usize = 64 << 10;

/// Names one worker process over the agent's life; ranks and groups come again, this does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Serial(pub(super) u64);

/// Something happened.
#[derive(Debug)]
pub(super) enum Event {
    /// The client said something.
    Client(ToAgent),
    /// The client's stream is over.
    ClientGone(StreamEnd),
    /// A signal came, `SIGCHLD` included.
    Signal(i32),
    /// A worker said something.
    Worker(Serial, FromWorker),
    /// One of a worker's output streams is over.
    WorkerStream(Serial, StreamEnd),
    /// The inventory was read.
    Inventory(Box<Inventory>),
    /// A request about an installation was carried out.
    Installation(InstallOutcome),
    /// The node's lock was asked for.
    Lock(Asked),
    /// Other nodes were dialled.
    Dialled(Vec<Dialled>),
    /// What killed agents have left was looked for; a line for each find.
    Swept(Vec<String>),
}

/// How a stream ended.
#[derive(Debug)]
pub(super) enum StreamEnd {
    /// The other side closed it, or is dead.
    Closed,
    /// It holds no frames of ours.
    Broken(CodecError),
}

/// When the client was last heard.
#[derive(Debug, Clone)]
pub(super) struct Heard(Arc<Mutex<Instant>>);

impl Heard {
    /// Heard just now.
    pub(super) fn now() -> Self {
        Self(Arc::new(Mutex::new(Instant::now())))
    }

    /// The last time.
    pub(super) fn last(&self) -> Instant {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn touch(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }
}

/// Reads the client's frames. Any bytes count as a sign of life: a large frame on a slow link is no silence.
pub(super) fn read_client(input: impl Read, heard: &Heard, events: &SyncSender<Event>) {
    let end = read_frames(input, || heard.touch(), |message| events.send(Event::Client(message)).is_ok());
    // Nobody listens only when the agent is ending anyway. The same holds below.
    events.send(Event::ClientGone(end)).ok();
}

/// Reads a worker's frames.
pub(super) fn read_worker(output: impl Read, serial: Serial, events: &SyncSender<Event>) {
    let end = read_frames(output, || (), |message| events.send(Event::Worker(serial, message)).is_ok());
    events.send(Event::WorkerStream(serial, end)).ok();
}

/// Reads what a worker and its libraries print.
pub(super) fn read_lines(mut output: impl Read, serial: Serial, events: &SyncSender<Event>) {
    let mut buffer = vec![0; READ_BYTES];
    let mut lines = Lines::new(Instant::now());
    let say = |line| events.send(Event::Worker(serial, FromWorker::Output(line))).ok();
    while let Some(bytes) = read_some(&mut output, &mut buffer) {
        lines.feed(Instant::now(), bytes).into_iter().map_while(say).for_each(drop);
    }
    lines.finish().into_iter().map_while(say).for_each(drop);
    events.send(Event::WorkerStream(serial, StreamEnd::Closed)).ok();
}

/// Reads frames until the stream ends or `take` returns false.
fn read_frames<T: DeserializeOwned>(
    mut input: impl Read,
    mut on_bytes: impl FnMut(),
    mut take: impl FnMut(T) -> bool,
) -> StreamEnd {
    let mut buffer = vec![0; READ_BYTES];
    let mut decoder = Decoder::new();
    while let Some(bytes) = read_some(&mut input, &mut buffer) {
        on_bytes();
        decoder.feed(bytes);
        loop {
            match decoder.next_message() {
                Ok(Some(message)) => {
                    if !take(message) {
                        return StreamEnd::Closed;
                    }
                }
                Ok(None) => break,
                Err(error) => return StreamEnd::Broken(error),
            }
        }
    }
    StreamEnd::Closed
}

/// Reads at least one byte; `None` where the stream is over. An error means that it is over too: no one can repair it.
fn read_some<'b>(input: &mut impl Read, buffer: &'b mut [u8]) -> Option<&'b [u8]> {
    loop {
        match input.read(buffer) {
            Ok(0) => return None,
            Ok(count) => return Some(&buffer[..count]),
            Err(error) if is_transient(&error) => {}
            Err(_) => return None,
        }
    }
}

/// Whether to read again. Somebody who shares the descriptor (a login shell) may have made it non-blocking.
fn is_transient(error: &io::Error) -> bool {
    match error.kind() {
        ErrorKind::Interrupted => true,
        ErrorKind::WouldBlock => {
            std::thread::sleep(std::time::Duration::from_millis(1));
            true
        }
        _ => false,
    }
}
