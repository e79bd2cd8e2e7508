//! A bounded queue with a thread that writes it out, so that a peer who does not read blocks nobody but that thread.
//!
//! Knows bytes only. It never waits in [`Outbox::push`].

use std::{
    collections::VecDeque,
    fs::File,
    io::{self, ErrorKind, Write as _},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

/// Bytes per write: progress of a slow reader shows at this grain. The capacity of a Linux pipe.
const WRITE_BYTES: usize = 64 << 10;

/// Why bytes were not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum OutboxError {
    /// The peer has not read what it was sent before.
    #[error("the reader does not keep up")]
    Full,
    /// The peer's end is closed.
    #[error("the reader is gone")]
    Closed,
}

/// The queue. Dropping it closes the descriptor once everything is written.
#[derive(Debug)]
pub(super) struct Outbox {
    shared: Arc<Shared>,
    limit_bytes: usize,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    chunks: VecDeque<Vec<u8>>,
    /// Bytes in `chunks` and in the chunk that is being written.
    waiting_bytes: usize,
    last_progress: Instant,
    closing: bool,
    finished: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // No code panics while it holds the lock; and a queue is usable after any prefix of its updates.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Outbox {
    /// Starts the thread that writes to `target`; at most `limit_bytes` wait.
    pub(super) fn start(name: &str, target: File, limit_bytes: usize) -> io::Result<Self> {
        let state = State {
            chunks: VecDeque::new(),
            waiting_bytes: 0,
            last_progress: Instant::now(),
            closing: false,
            finished: false,
        };
        let shared = Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new() });
        let writer = Arc::clone(&shared);
        super::spawn_thread(name, move || write_out(&writer, target))?;
        Ok(Self { shared, limit_bytes })
    }

    /// Queues bytes that are written after all earlier ones.
    pub(super) fn push(&self, bytes: Vec<u8>) -> Result<(), OutboxError> {
        let mut state = self.shared.lock();
        if state.finished || state.closing {
            return Err(OutboxError::Closed);
        }
        if state.waiting_bytes + bytes.len() > self.limit_bytes {
            return Err(OutboxError::Full);
        }
        if state.waiting_bytes == 0 {
            state.last_progress = Instant::now();
        }
        state.waiting_bytes += bytes.len();
        state.chunks.push_back(bytes);
        drop(state);
        self.shared.changed.notify_all();
        Ok(())
    }

    /// Bytes that the reader has not taken yet.
    pub(super) fn waiting_bytes(&self) -> usize {
        self.shared.lock().waiting_bytes
    }

    /// Since when the reader has taken nothing although something waits.
    pub(super) fn stalled_since(&self) -> Option<Instant> {
        let state = self.shared.lock();
        (state.waiting_bytes > 0 && !state.finished).then_some(state.last_progress)
    }

    /// Closes the queue and waits until it is written, but no longer than `limit`.
    pub(super) fn finish(&self, limit: Duration) {
        let until = Instant::now() + limit;
        let mut state = self.shared.lock();
        state.closing = true;
        self.shared.changed.notify_all();
        while !state.finished {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            state = self.shared.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Drop for Outbox {
    fn drop(&mut self) {
        self.shared.lock().closing = true;
        self.shared.changed.notify_all();
    }
}

fn write_out(shared: &Shared, mut target: File) {
    while let Some(chunk) = next_chunk(shared) {
        for part in chunk.chunks(WRITE_BYTES) {
            if write_part(&mut target, part).is_err() {
                return finish(shared, target);
            }
            let mut state = shared.lock();
            state.waiting_bytes -= part.len();
            state.last_progress = Instant::now();
        }
    }
    finish(shared, target);
}

fn next_chunk(shared: &Shared) -> Option<Vec<u8>> {
    let mut state = shared.lock();
    loop {
        match state.chunks.pop_front() {
            Some(chunk) => return Some(chunk),
            None if state.closing => return None,
            None => state = shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
        }
    }
}

/// Writes all of `part`, also where somebody made the pipe non-blocking (a login shell may: the flag is shared with it).
fn write_part(target: &mut File, part: &[u8]) -> io::Result<()> {
    let mut written = 0;
    while written < part.len() {
        match target.write(&part[written..]) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(count) => written += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => thread::sleep(Duration::from_millis(1)),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn finish(shared: &Shared, target: File) {
    // Closed before anybody is told, so that a reader has its end of file by then.
    drop(target);
    let mut state = shared.lock();
    state.finished = true;
    state.chunks.clear();
    state.waiting_bytes = 0;
    drop(state);
    shared.changed.notify_all();
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    fn pipe() -> (File, File) {
        let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();
        (reader.into(), writer.into())
    }

    #[test]
    fn writes_in_order_and_closes() {
        let (mut reader, writer) = pipe();
        let outbox = Outbox::start("t", writer, 1 << 20).unwrap();
        for byte in 0..100_u8 {
            outbox.push(vec![byte; 1000]).unwrap();
        }
        drop(outbox);
        let mut all = vec![];
        reader.read_to_end(&mut all).unwrap();
        let expected: Vec<u8> = (0..100).flat_map(|byte| vec![byte; 1000]).collect();
        assert!(all == expected);
    }

    #[test]
    fn a_reader_who_does_not_read_fills_it_and_shows_as_stalled() {
        let (mut reader, writer) = pipe();
        let outbox = Outbox::start("t", writer, 1 << 20).unwrap();
        assert_eq!(outbox.stalled_since(), None);
        let before = Instant::now();
        outbox.push(vec![0; 1 << 20]).unwrap();
        assert_eq!(outbox.push(vec![0; 1 << 20]), Err(OutboxError::Full));
        assert!(outbox.stalled_since().unwrap() >= before);
        outbox.finish(Duration::from_millis(1));
        assert!(outbox.waiting_bytes() > 0, "nobody has read");

        reader.read_to_end(&mut vec![]).unwrap();
        assert_eq!(outbox.stalled_since(), None);
        assert_eq!(outbox.push(vec![0]), Err(OutboxError::Closed));
    }

    #[test]
    fn a_reader_who_is_gone_closes_it() {
        let (reader, writer) = pipe();
        drop(reader);
        let outbox = Outbox::start("t", writer, 1 << 20).unwrap();
        outbox.push(vec![0]).unwrap();
        outbox.finish(Duration::from_secs(10));
        assert_eq!((outbox.waiting_bytes(), outbox.push(vec![0])), (0, Err(OutboxError::Closed)));
    }
}
